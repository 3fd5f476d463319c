import sys
import time
from functools import partial
from itertools import groupby

import pytest
import tomli_w
import torch

from electra.config.load import load_config
from electra.errors import ConfigError, ElectraError
from electra.recipes.bench.huggingface import CarefulGlue, HuggingFaceStep, TypicalGlue
from electra.recipes.bench.step import bench_step
from electra.recipes.bench.timing import LEAST_REPETITIONS, Row, take_turns
from electra.recipes.speed import TOKENIZER, JointStep

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    pytest.importorskip("transformers")
    return {row.variant: row for row in bench_step("tiny", 2, 16, seconds=0, against="hf", device=CPU).rows}


@pytest.fixture(scope="module")
def config():
    return load_config("tiny", ["train.batch_size=2", "train.length=16", "model.vocab_size=64", "model.layers=1"])


def ids(rows: int = 2, length: int = 16) -> torch.Tensor:
    return torch.randint(5, 64, (rows, length), generator=torch.Generator().manual_seed(1))


def test_every_variant_gets_a_row(rows):
    assert list(rows) == ["electra", "hf_typical", "hf_careful"]
    for row in rows.values():
        assert (row.size, row.batch, row.seq) == ("tiny", 2, 16)


def test_the_figures_of_a_row_are_consistent(rows):
    for row in rows.values():
        assert 0 < row.ms_low <= row.ms <= row.ms_high
        assert row.tokens_s == pytest.approx(2 * 16 / row.ms * 1000, rel=1e-3)
        assert row.ratio_low <= row.ratio <= row.ratio_high
        assert row.first_step_s > 0


def test_a_cpu_has_neither_mfu_nor_memory(rows):
    assert all(row.mfu is None and row.memory_gib is None for row in rows.values())


def test_without_a_comparison_there_is_one_row():
    (row,) = bench_step("tiny", 1, 16, seconds=0, against="none", device=CPU).rows
    assert (row.variant, row.ratio) == ("electra", 1.0)


def test_variants_take_turns():
    """A machine that slows down halfway affects all of them equally."""
    order = []

    def update(name: str):
        return lambda ids: (order.append(name), time.sleep(0.05))

    variants = {name: partial(update, name) for name in ("first", "second")}
    take_turns(variants, ids(), CPU, seconds=0, what="", say=lambda line: order.clear())  # last before the first turn
    assert [name for name, _ in groupby(order)] == ["first", "second"] * LEAST_REPETITIONS


def test_a_config_with_short_sequences_at_first_is_timed_at_any_length(tmp_path):
    config = load_config("small-muon", ["model.layers=1"])
    assert config.train.start_length == 16
    (tmp_path / "short.toml").write_text(tomli_w.dumps(config.model_dump(exclude_none=True)))
    (row,) = bench_step(str(tmp_path / "short.toml"), 1, 10, seconds=0, against="none", device=CPU).rows
    assert row.seq == 10


def test_sequences_may_be_longer_than_the_preset_allows():
    (row,) = bench_step("tiny", 1, 130, seconds=0, against="none", device=CPU).rows
    assert row.seq == 130


@pytest.mark.parametrize("glue", [TypicalGlue, CarefulGlue])
def test_glued_steps_learn(glue, config):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    step = HuggingFaceStep(glue(config, TOKENIZER.mask_id), config, CPU, compiled=False)
    before = step.glue(ids()).item()
    for _ in range(20):
        step(ids())
    assert step.glue(ids()).item() < before


def test_our_step_learns(config):
    torch.manual_seed(0)
    step = JointStep(config, CPU)
    start = {name: weight.clone() for name, weight in step.update.weights.module.named_parameters()}
    step(ids())
    assert all(not torch.equal(weight, start[name]) for name, weight in step.update.weights.module.named_parameters())


def test_the_glued_networks_are_as_large_as_ours(config):
    """Theirs tie token and position tables, ours the token types and the layer norm of the embeddings too."""
    pytest.importorskip("transformers")
    ours = JointStep(config, CPU).update.weights.module
    theirs = TypicalGlue(config, TOKENIZER.mask_id)
    apart = (config.model.token_types + 2) * config.model.embedding_size
    assert count(theirs) == count(ours) + apart


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_another_objective_is_not_compared():
    with pytest.raises(ConfigError, match="--against hf supports only the objective electra"):
        bench_step("nano", 1, 16, seconds=0, against="hf", device=CPU)


def test_without_transformers_the_comparison_says_what_to_do(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ElectraError, match="pip install transformers, or use --against none"):
        TypicalGlue(config, TOKENIZER.mask_id)


@pytest.mark.slow
def test_the_step_is_at_least_one_and_a_half_times_as_fast_as_the_typical_loop():
    rows = {row.variant: row for row in bench_step("small", 8, 128, seconds=40, against="hf", device=CPU).rows}
    assert rows["hf_typical"].ratio >= 1.5
