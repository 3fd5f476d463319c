"""A trained model: its networks and tokenizer, with methods to detect replaced tokens and encode texts."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Encoding
from torch import Tensor

from electra.config.section import Precision
from electra.data.feeding.loader import moved
from electra.data.reading.hub import EMBEDDED, locate
from electra.data.tokens.tokenizer import FILES as TOKENIZER_FILES
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.errors import CheckpointError, DataError
from electra.model.body import Body
from electra.model.heads import Head
from electra.model.huggingface import FILES, AnyNetwork, encoder_of, read_corrector, read_network
from electra.model.networks import Discriminator, MaskedLM, TaskNetwork, TokenScorer
from electra.model.onnx import GRAPH
from electra.model.precision import as_used, computing_type, device_of, find_device
from electra.model.sentences import FILES as SENTENCE_FILES
from electra.model.sentences import SentenceHead, unit_vectors
from electra.model.tensors import has_tensors
from electra.model.windows import WindowBatch, batches

GENERATOR = "generator"  # the generator's folder inside the discriminator's
TASK = "task.json"  # describes the task of a fine-tuned model
ROUNDING = 256  # an embedding may have fewer than this many extra rows: sizes are rounded up for speed

POOLS: dict[str, Callable[[WindowBatch, Tensor], Tensor]] = {  # reduces states (B, L, H) on the device
    "mean": lambda batch, states: batch.sums(states),
    "first": lambda batch, states: states[:, 0],
    "tokens": lambda batch, states: states,
}


class Detection(NamedTuple):
    """The discriminator's verdict on one token."""

    token: str
    probability: float  # of being replaced
    span: tuple[int, int]  # its characters in the text, without the space before it


class Pretrained:
    """A network with its tokenizer and, if available, the generator and the correcting head it was trained with.

    The weights are float32. A copy is made on first use: in bf16 on a GPU, with matrices by columns on a CPU.
    """

    def __init__(
        self,
        network: AnyNetwork,
        tokenizer: Tokenizer,
        generator: MaskedLM | None = None,
        precision: Precision = "auto",
        corrector: Head | None = None,
    ) -> None:
        if precision not in get_args(Precision):
            raise CheckpointError(f"precision={precision!r}: choose {', '.join(get_args(Precision))}")
        self.network = network.eval()
        self.generator = generator.eval() if generator else None
        self.corrector = corrector.eval() if corrector else None
        self.tokenizer = tokenizer
        self.precision = precision

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.network.parameters())
        return f"Pretrained({type(self.network).__name__} of {parameters:,} parameters, {self.tokenizer!r})"

    @property
    def encoder(self) -> Body:
        """Return the encoder without its head."""
        return encoder_of(self.network)

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return device_of(self.network)

    @property
    def window(self) -> int:
        """Return how many tokens are read at once: the length used in training, minus [CLS] and [SEP]."""
        most = self.encoder.config.max_length
        return min(most, self.tokenizer.longest or most) - 2

    def detect(self, text: str) -> list[Detection]:
        """Return for each token of a text of any length the probability that it was replaced."""
        if not isinstance(text, str):
            raise DataError(f"detect takes one text as a string, not {type(text).__name__}; call it once per text")
        encoding = self._pieces([text])[0]
        spans = self.tokenizer.spans(encoding, text)
        return list(map(Detection, encoding.tokens, self.replaced(encoding.ids), spans))

    def replaced(self, ids: Sequence[int]) -> list[float]:
        """Return for each token id, in a text of any length, the probability that it was replaced."""
        detector = as_discriminator(self._used)
        self._check_ids(ids)
        count = len(ids)
        probabilities = np.zeros(count)
        nearest_edge = np.full(count, -1)
        size = self.window
        starts = [*range(0, max(count - size, 0), max(size // 2, 1)), max(count - size, 0)] if count else []
        windows = [ids[start : start + size] for start in starts]
        found = self._run(windows, lambda batch: batch.run(lambda *inputs: detector(*inputs).scores))
        for start, window, framed in zip(starts, windows, found, strict=True):
            scores = torch.from_numpy(framed[1 : len(window) + 1])
            # Windows overlap by half; for each token the window with more context around it counts.
            edge = np.minimum(np.arange(len(scores)), np.arange(len(scores))[::-1])
            better = np.flatnonzero(edge > nearest_edge[start : start + size])
            probabilities[start + better] = torch.sigmoid(scores)[better].numpy()
            nearest_edge[start + better] = edge[better]
        return probabilities.tolist()

    def score(self, texts: Iterable[str]) -> np.ndarray:
        """Return how acceptable each text is, as a sum over its tokens; compare texts that differ in a few words.

        A discriminator adds log(1 - p(replaced)), Electric the negative energy, a masked LM the log-probability of a
        token where only this one is masked. Longer texts are read in consecutive windows.
        """
        ids = [encoding.ids for encoding in self._pieces(texts)]
        size = self.window
        windows = [(text, piece[at : at + size]) for text, piece in enumerate(ids) for at in range(0, len(piece), size)]
        scores = np.zeros(len(ids))
        for (text, _), score in zip(windows, self._scores([window for _, window in windows]), strict=True):
            scores[text] += score
        return scores

    def _scores(self, windows: Sequence[Sequence[int]]) -> list[float]:
        network = self._used
        if isinstance(network, TokenScorer):
            found = self._run(windows, lambda batch: batch.run(lambda *inputs: network(*inputs).scores))
            framed = (torch.from_numpy(row[1 : len(window) + 1]) for row, window in zip(found, windows, strict=True))
            add = F.logsigmoid if isinstance(network, Discriminator) else torch.Tensor.float
            return [float(add(-scores).sum()) for scores in framed]
        if isinstance(network, MaskedLM):
            return self._pseudo_likelihoods(network, windows)
        raise CheckpointError(
            "cannot score texts: the model neither detects nor predicts tokens; name one that is not fine-tuned"
        )

    def _pseudo_likelihoods(self, network: MaskedLM, windows: Sequence[Sequence[int]]) -> list[float]:
        """Return the sum of log-probabilities of each window's tokens, each masked in a copy of its own."""
        mask_id, counts = self.tokenizer.mask_id, [len(window) for window in windows]
        copies = [[*window[:at], mask_id, *window[at + 1 :]] for window in windows for at in range(len(window))]
        hidden = torch.tensor([token for window in windows for token in window], device=self.device)

        def compute(batch: WindowBatch) -> Tensor:
            places = (batch.ids == mask_id).int().argmax(1, keepdim=True)
            logits = network(batch.ids, batch.attention, None, places).logits[:, 0].float()
            wanted = hidden[torch.from_numpy(batch.windows).to(self.device)]
            likelihoods: Tensor = logits[:, : self.tokenizer.vocab_size].log_softmax(-1)
            return likelihoods.gather(1, wanted[:, None])[:, 0]

        found = np.array(self._run(copies, compute), dtype=np.float64)
        ends = np.cumsum(counts)
        return [float(found[end - count : end].sum()) for end, count in zip(ends, counts, strict=True)]

    @torch.inference_mode()
    def propose(self, ids: Sequence[int], places: Sequence[int]) -> Tensor:
        """Mask the tokens at some places, and return the generator's probabilities (places, V) for each token there."""
        generator = self._used_generator
        if generator is None:
            raise CheckpointError("this model has no generator, so it cannot propose replacements")
        self._check_ids(ids)
        if outside := [place for place in places if not 0 <= place < len(ids)]:
            raise DataError(f"place {outside[0]} is outside of the {len(ids)} tokens")
        framed = torch.tensor([[self.tokenizer.cls_id, *ids, self.tokenizer.sep_id]], device=self.device)
        if framed.size(1) > generator.encoder.config.max_length:
            most = generator.encoder.config.max_length - 2
            raise DataError(f"{len(ids)} tokens are too many for the generator; pass at most {most}")
        positions = torch.tensor([places], dtype=torch.long, device=self.device) + 1
        framed[0, positions] = self.tokenizer.mask_id
        logits: Tensor = generator(framed, None, None, positions).logits[0].float()
        return logits[:, : self.tokenizer.vocab_size].softmax(-1).cpu()

    def encode(
        self, texts: Iterable[str], pooling: Literal["mean", "first", "tokens"] | None = None, prompt: str | None = None
    ) -> np.ndarray | list[np.ndarray]:
        """Encode texts as vectors: (texts, H), or with `pooling="tokens"` one (tokens, H) array per text.

        By default a model of sentence vectors pools and normalizes as it was trained, and puts its default prompt, or
        the one named `prompt`, before each text; other models return the mean of the states. Texts longer than the
        model's window are read in consecutive windows; `first` is the [CLS] state of the first one. After pre-training
        only, vectors say little about text similarity: see `electra finetune similarity`.
        """
        sentences = sentence_head(self.network)
        normalize = pooling is None and sentences is not None and sentences.normalize
        if pooling is None:
            pooling = sentences.pooling if sentences else "mean"
        if pooling not in POOLS:
            raise DataError(f"pooling={pooling!r}: choose mean, first or tokens")
        if prompt and not sentences:
            raise CheckpointError(f"the model has no prompt {prompt!r}: it is not fine-tuned for sentence vectors")
        before = sentences.prompt(prompt) if sentences else ""
        size = self.window
        windows: list[list[int]] = []
        firsts: list[int] = []  # index of each text's first window
        for encoding in self._pieces(texts, before):
            ids = encoding.ids
            firsts.append(len(windows))
            windows += [ids[at : at + size] for at in range(0, max(len(ids), 1), size)]
        encoder, pool = encoder_of(self._used), POOLS[pooling]
        found = self._run(windows, lambda batch: pool(batch, batch.run(encoder)))
        if pooling == "tokens":
            states = [framed[1 : len(window) + 1] for window, framed in zip(windows, found, strict=True)]
            ends = [*firsts, len(windows)][1:]
            return [np.concatenate(states[first:end]) for first, end in zip(firsts, ends, strict=True)]
        if not found:
            return np.zeros((0, self.encoder.config.hidden_size), np.float32)
        if pooling == "first":
            vectors = np.stack([found[first] for first in firsts])
        else:
            counts = np.array([[len(window) + 2] for window in windows], np.float32)
            vectors = np.add.reduceat(np.stack(found), firsts) / np.add.reduceat(counts, firsts)
        return unit_vectors(vectors) if normalize else vectors

    def _check_ids(self, ids: Sequence[int]) -> None:
        size = self.encoder.config.vocab_size
        if outside := [one for one in ids if not 0 <= one < size]:
            raise DataError(f"id {outside[0]} is not one of the {size:,} in the model's vocabulary")

    def _pieces(self, texts: Iterable[str], prefix: str = "") -> list[Encoding]:
        """Split texts into pieces, and warn of those that the vocabulary is not made for."""
        found = self.tokenizer.encode(texts, prefix)
        self.tokenizer.warn_of_foreign(chain.from_iterable(encoding.ids for encoding in found))
        return found

    @cached_property
    def _used(self) -> AnyNetwork:
        return as_used(self.network, self)

    @cached_property
    def _used_generator(self) -> MaskedLM | None:
        return as_used(self.generator, self) if self.generator else None

    @torch.inference_mode()
    def _run(self, windows: Sequence[Sequence[int]], compute: Callable[[WindowBatch], Tensor]) -> list[np.ndarray]:
        """Add [CLS] and [SEP] to windows, compute them in batches, and return one row per window."""
        framed = [[self.tokenizer.cls_id, *window, self.tokenizer.sep_id] for window in windows]
        packs = self.encoder.packs(computing_type(self, self.device), self.device)
        # Copies from CUDA to the host do not block either, so that it always has the next batches queued.
        with self.encoder.inferring():
            fetched = [
                (batch.windows, moved(compute(batch).float(), torch.device("cpu")))
                for batch in batches(framed, self.tokenizer.pad_id, self.device, packs)
            ]
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        results: list[np.ndarray] = [np.empty(0)] * len(windows)
        for numbers, rows in fetched:
            for number, row in zip(numbers, rows.numpy(), strict=True):
                results[number] = row
        return results


def load(
    source: str | Path = EMBEDDED, device: str | torch.device | None = None, precision: Precision = "auto"
) -> Pretrained:
    """Load a model from a run, a Hugging Face or ONNX folder or a hub name; `embedded` comes with the package.

    `device` defaults to the GPU, if there is one; `precision` is float32, bf16 or auto: bf16 on a GPU, else float32.
    The weights stay float32; changing them after the first use has no effect on the copy that is used.
    """
    folder = find_folder(source)
    network = read_network(folder)
    generator = read_network(folder / GENERATOR) if (folder / GENERATOR).is_dir() else None
    if not isinstance(generator, MaskedLM | None):
        raise CheckpointError(f"{folder / GENERATOR} is not a generator: it has no masked-LM head")
    tokenizer, sentences = load_tokenizer(folder), sentence_head(network)
    if sentences and sentences.longest:
        tokenizer = tokenizer.of_length(sentences.longest)
    model = Pretrained(network, tokenizer, generator, precision, read_corrector(folder, encoder_of(network)))
    entries, rows = model.tokenizer.vocab_size, model.encoder.config.vocab_size
    if not fits_vocabulary(rows, entries):
        raise CheckpointError(f"the vocabulary in {folder} has {entries} entries, but the embedding has {rows}")
    target = find_device(device or "auto")
    for module in filter(None, (model.network, model.generator, model.corrector)):
        module.to(target)
    return model


def find_folder(source: str | Path) -> Path:
    """Return the model folder of a run, a Hugging Face folder or a hub name."""
    patterns = [*FILES, *TOKENIZER_FILES, *SENTENCE_FILES, f"{GENERATOR}/*", TASK]
    folder = locate(source, patterns, CheckpointError)
    if not (has_tensors(folder) or has_tensors(folder / "model")):  # many repositories hold graphs next to the weights
        folder = locate(source, [*patterns, GRAPH], CheckpointError)
    if (folder / "model").is_dir():
        folder = folder / "model"
    elif (folder / "config.toml").is_file() and not (folder / "config.json").is_file():
        raise CheckpointError(f"{source} has no model yet: its command is not finished; repeat it to resume")
    if not folder.is_dir():
        raise CheckpointError(f"{source} is not a model folder")
    return folder


def as_discriminator(network: AnyNetwork) -> Discriminator:
    """Return the network if it is a discriminator, else raise an error."""
    if not isinstance(network, Discriminator):
        reasons = {TaskNetwork: "is fine-tuned; use electra predict", MaskedLM: "is a masked language model"}
        reason = reasons.get(type(network), "has no discriminator head (Electric's outputs energies)")
        raise CheckpointError(f"cannot detect replaced tokens: this model {reason}")
    return network


def sentence_head(network: AnyNetwork) -> SentenceHead | None:
    """Return how a network makes vectors of texts, or None if it was not fine-tuned for them."""
    head = network.head if isinstance(network, TaskNetwork) else None
    return head if isinstance(head, SentenceHead) else None


def fits_vocabulary(rows: int, entries: int) -> bool:
    """Return whether an embedding fits a vocabulary: its size may be rounded up for speed."""
    return entries <= rows < entries + ROUNDING
