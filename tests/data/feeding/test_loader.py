import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import electra
from electra.data.corpus.build import build_corpus
from electra.data.feeding.loader import Loader, is_queued
from electra.data.tokens.vocab import train_vocab
from electra.errors import DataError


def numbered(first: int, rows: int, length: int = 8) -> np.ndarray:
    """Return a corpus of sequences with distinct second tokens and ids up to the maximum of uint16."""
    ids = np.full((rows, length), 65_535, np.uint16)
    ids[:, 0], ids[:, -1] = 2, 3
    ids[:, 1] = np.arange(first, first + rows)
    return ids


@pytest.fixture
def corpus(save_corpus):
    return save_corpus("corpus", numbered(100, 30), numbered(130, 1), numbered(131, 22))


def names(batch) -> list[int]:
    return batch.ids[:, 1].tolist()


@pytest.mark.parametrize("resident", [False, True])
def test_an_epoch_contains_every_sequence_once(corpus, resident):
    loader = Loader([corpus], batch_size=7, seed=1, resident=resident)
    stream = [name for batch in islice(loader.batches(), 3 * 53) for name in names(batch)]
    epochs = [stream[start : start + 53] for start in range(0, 7 * 3 * 53, 53)]
    assert all(sorted(epoch) == list(range(100, 153)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_ids_are_returned_as_int64(corpus):
    batch = Loader([corpus], batch_size=4, seed=1).batch(0)
    assert batch.ids.dtype == torch.int64
    assert batch.ids[0].tolist() == [2, names(batch)[0], *[65_535] * 5, 3]
    assert batch.attention is None


def test_ids_beyond_uint16_are_returned_unchanged(save_corpus):
    ids = np.full((3, 8), 2**32 - 1, np.uint32)
    loaders = [Loader([save_corpus(f"{r}", ids)], batch_size=2, seed=1, resident=r) for r in (False, True)]
    assert all((loader.batch(0).ids == 2**32 - 1).all() for loader in loaders)


@pytest.mark.parametrize("resident", [False, True])
def test_ids_outside_the_vocabulary_are_refused(save_corpus, resident):
    corpus = save_corpus("damaged", numbered(100, 30))
    known = replace(corpus, manifest=replace(corpus.manifest, vocab_size=65_535))
    with pytest.raises(
        DataError, match=r"found token 65535, but the vocabulary has 65535; check with: electra corpus --verify /"
    ):
        next(Loader([known], batch_size=4, seed=1, resident=resident).batches())


def test_both_backends_give_the_same_batches(corpus):
    mapped, resident = (Loader([corpus], batch_size=6, seed=5, resident=where) for where in (False, True))
    for step, (ours, theirs) in enumerate(islice(zip(mapped.batches(), resident.batches(), strict=False), 40)):
        assert torch.equal(ours.ids, theirs.ids)
        assert torch.equal(ours.ids, mapped.batch(step).ids)


def test_iteration_starts_at_any_step(corpus):
    loader = Loader([corpus], batch_size=6, seed=5)
    far = 10**12
    for start in (0, 1, 700, far):
        for step, batch in zip(range(start, start + 3), loader.batches(start), strict=False):
            assert torch.equal(batch.ids, loader.batch(step).ids)


def test_resuming_at_a_late_step_is_fast(corpus):
    loader = Loader([corpus], batch_size=6, seed=5)
    next(loader.batches(0))
    began = time.process_time()
    next(loader.batches(10**12))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("resident", [False, True])
def test_the_slices_of_all_ranks_make_up_the_batch_of_one_process(corpus, world_size, resident):
    alone = Loader([corpus], batch_size=8, seed=5)
    ranks = [
        Loader([corpus], batch_size=8, seed=5, rank=rank, world_size=world_size, resident=resident)
        for rank in range(world_size)
    ]
    for step in range(30):
        together = torch.cat([loader.batch(step).ids for loader in ranks])
        assert torch.equal(together, alone.batch(step).ids)


@pytest.mark.parametrize("resident", [False, True])
def test_corpora_are_mixed_by_weight(save_corpus, resident):
    corpora = [save_corpus("a", numbered(100, 10)), save_corpus("b", numbered(1000, 500))]
    loader = Loader(corpora, batch_size=8, seed=5, weights=[3, 1], resident=resident)
    for batch in islice(loader.batches(), 20):
        assert sum(name >= 1000 for name in names(batch)) == 2


def test_corpora_without_weights_are_one_pool(save_corpus):
    corpora = [save_corpus("a", numbered(100, 10)), save_corpus("b", numbered(1000, 30))]
    loader = Loader(corpora, batch_size=8, seed=5)
    epoch = [name for batch in islice(loader.batches(), 5) for name in names(batch)]
    assert sorted(epoch) == [*range(100, 110), *range(1000, 1030)]


def test_the_held_out_split_is_read_separately(save_corpus):
    corpus = save_corpus("a", numbered(100, 10), heldout=numbered(900, 4))
    assert sorted(names(Loader([corpus], batch_size=4, seed=5, split="heldout").batch(0))) == [900, 901, 902, 903]


def test_no_thread_is_left_after_iteration(corpus):
    batches = Loader([corpus], batch_size=6, seed=5).batches()
    next(batches)
    batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("loader")]


def test_a_batch_that_cannot_be_split_evenly_is_refused(corpus):
    with pytest.raises(DataError, match="10 sequences cannot be split evenly among 4"):
        Loader([corpus], batch_size=10, seed=1, world_size=4)


def test_weights_must_match_the_corpora(corpus):
    with pytest.raises(DataError, match="2 weights for 1 corpora"):
        Loader([corpus], batch_size=8, seed=1, weights=[1, 2])


def test_an_empty_split_is_refused(corpus):
    with pytest.raises(DataError, match="no sequences in its heldout split"):
        Loader([corpus], batch_size=8, seed=1, split="heldout")


@pytest.mark.gpu
def test_a_cuda_graph_can_hold_a_resident_batch(corpus):
    loader = Loader([corpus], batch_size=8, seed=1, device="cuda")
    step = torch.zeros((), dtype=torch.int64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # graphs need a warm-up on another stream
        loader.batch(step)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = loader.batch(step)
    expected = Loader([corpus], batch_size=8, seed=1)
    for number in (0, 1, 50):
        step.fill_(number)
        graph.replay()
        assert torch.equal(captured.ids.cpu(), expected.batch(number).ids)


@pytest.mark.gpu
def test_a_mapped_loader_feeds_a_gpu(corpus):
    loader = Loader([corpus], batch_size=8, seed=1, device="cuda", resident=False)
    expected = Loader([corpus], batch_size=8, seed=1)
    for step, batch in enumerate(islice(loader.batches(), 50)):
        assert batch.ids.is_cuda
        assert torch.equal(batch.ids.cpu(), expected.batch(step).ids)


def test_text_round_trips_through_vocabulary_corpus_and_loader(tmp_path):
    documents = [f"tea number {number} for two" for number in range(200)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    tokenizer = train_vocab([tmp_path / "text.txt"], size=100, out=tmp_path / "tokenizer")
    corpus = build_corpus([tmp_path / "text.txt"], tokenizer, length=64, out=tmp_path / "corpus", heldout=0, workers=0)
    batch = Loader([corpus], batch_size=corpus.manifest.sequences, seed=1).batch(0)
    found = []
    for ids, numbers in zip(batch.ids.tolist(), batch.attention.tolist(), strict=True):
        for number in range(1, max(numbers) + 1):
            own = [token for token, document in zip(ids, numbers, strict=True) if document == number]
            assert (own[0], own[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
            found.append(own[1:-1])
    text = " ".join(tokenizer.backend.decode(ids) for ids in found)
    assert sorted(text.split()) == sorted(" ".join(documents).split())


@pytest.mark.parametrize(
    ("source", "target", "queued"),
    [("cpu", "cuda", True), ("cuda", "cpu", True), ("cpu", "mps", False), ("mps", "cpu", False), ("cpu", "cpu", False)],
)
def test_a_copy_is_waited_for_unless_it_is_from_or_to_cuda(source, target, queued):
    assert is_queued(torch.device(source), torch.device(target)) == queued


def test_all_copies_that_need_not_be_waited_for_are_made_in_one_place():
    root = Path(electra.__file__).parent
    assert [path.name for path in root.rglob("*.py") if "non_blocking" in path.read_text()] == ["loader.py"]


def test_a_copy_to_a_device_is_made_as_stated(corpus):
    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, given=(), options=None):
            if operation is torch.ops.aten._to_copy.default and "device" in (options or {}):
                seen.append(options.get("non_blocking", False))
            return operation(*given, **options or {})

    seen = []
    with Copies():
        assert Loader([corpus], batch_size=4, seed=1, device="meta").batch(0).ids.is_meta
    assert seen == [False]
