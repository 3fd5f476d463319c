"""A trained model at hand: its networks, its tokenizer, and what one does with them."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from electra.config.schema import Precision
from electra.data.reading.hub import locate
from electra.data.tokens.tokenizer import FILES as TOKENIZER_FILES
from electra.data.tokens.tokenizer import SPACE_SIGN, Tokenizer, load_tokenizer
from electra.errors import CheckpointError, DataError
from electra.model.body import Body
from electra.model.huggingface import FILES, AnyNetwork, encoder_of, read_network
from electra.model.networks import Discriminator, MaskedLM, TaskNetwork
from electra.model.precision import as_used, find_device
from electra.model.windows import WindowBatch, batches

EMBEDDED = Path(__file__).parents[1] / "embedded"  # the model that comes with the package, its generator inside
GENERATOR = "generator"  # the folder of the generator inside the discriminator's
TASK = "task.json"  # what a fine-tuned model was made for
ROUNDING = 256  # an embedding may be this much larger than the vocabulary: sizes are rounded up for speed

POOLS: dict[str, Callable[[WindowBatch, Tensor], Tensor]] = {  # of states (B, L, H): what is taken off the device
    "mean": lambda batch, states: batch.sums(states),
    "first": lambda batch, states: states[:, 0],
    "tokens": lambda batch, states: states,
}


class Detection(NamedTuple):
    """What the discriminator thinks of one token."""

    token: str
    probability: float  # of being replaced
    span: tuple[int, int]  # its characters in the text


class Pretrained:
    """A network with its tokenizer, and the generator it was trained with where that is known.

    The weights are float32. In bf16, the default on a GPU, copies of them compute, made when first asked for.
    """

    def __init__(
        self,
        network: AnyNetwork,
        tokenizer: Tokenizer,
        generator: MaskedLM | None = None,
        precision: Precision = "auto",
    ) -> None:
        if precision not in get_args(Precision):
            raise CheckpointError(f"precision={precision!r}: choose {', '.join(get_args(Precision))}")
        self.network = network.eval()
        self.generator = generator.eval() if generator else None
        self.tokenizer = tokenizer
        self.precision = precision

    def __repr__(self) -> str:
        """Say what it is and how large."""
        parameters = sum(parameter.numel() for parameter in self.network.parameters())
        return f"Pretrained({type(self.network).__name__} of {parameters:,} parameters, {self.tokenizer!r})"

    @property
    def encoder(self) -> Body:
        """Give the encoder, whatever head stands on it."""
        return encoder_of(self.network)

    @property
    def device(self) -> torch.device:
        """Say where the weights are."""
        return next(self.network.parameters()).device

    @property
    def window(self) -> int:
        """Say how many tokens are read at once: as many as in training, where [CLS] and [SEP] take two places."""
        most = self.encoder.config.max_length
        return min(most, self.tokenizer.longest or most) - 2

    def detect(self, text: str) -> list[Detection]:
        """Give for every token of a text, however long, the probability that it was replaced."""
        if not isinstance(text, str):
            raise DataError("detect takes one text, a string")
        encoding = self.tokenizer.encode([text])[0]
        spans = [_shown(*piece, text) for piece in zip(encoding.tokens, encoding.offsets, strict=True)]
        rows = zip(encoding.tokens, self.replaced(encoding.ids), spans, strict=True)
        return [Detection(*row) for row in rows]

    def replaced(self, ids: Sequence[int]) -> list[float]:
        """Give for every token, of however many, the probability that it was replaced."""
        detector = as_discriminator(self._used)
        count = len(ids)
        probabilities = np.zeros(count)
        nearest_edge = np.full(count, -1)
        size = self.window
        starts = [*range(0, max(count - size, 0), max(size // 2, 1)), max(count - size, 0)] if count else []
        windows = [ids[start : start + size] for start in starts]
        found = self._run(windows, lambda batch: detector(batch.ids, batch.attention).scores)
        for start, window, framed in zip(starts, windows, found, strict=True):
            scores = torch.from_numpy(framed[1 : len(window) + 1])
            # Windows overlap by half; of two opinions on a token the one with more context counts.
            edge = np.minimum(np.arange(len(scores)), np.arange(len(scores))[::-1])
            better = np.flatnonzero(edge > nearest_edge[start : start + size])
            probabilities[start + better] = torch.sigmoid(scores)[better].numpy()
            nearest_edge[start + better] = edge[better]
        return [float(probability) for probability in probabilities]

    @torch.inference_mode()
    def propose(self, ids: Sequence[int], places: Sequence[int]) -> Tensor:
        """Hide the tokens at some places from the generator, and give (places, V): how likely it thinks each token."""
        generator = self._used_generator
        if generator is None:
            raise CheckpointError("this model comes without its generator, so nothing proposes replacements")
        framed = torch.tensor([[self.tokenizer.cls_id, *ids, self.tokenizer.sep_id]], device=self.device)
        if framed.size(1) > generator.encoder.config.max_length:
            raise DataError(f"{len(ids)} tokens are more than the generator can read at once ({self.window})")
        positions = torch.tensor([places], dtype=torch.long, device=self.device) + 1
        framed[0, positions] = self.tokenizer.mask_id
        logits: Tensor = generator(framed, None, None, positions).logits[0].float()
        return logits[:, : self.tokenizer.vocab_size].softmax(-1).cpu()

    def encode(
        self, texts: Iterable[str], pooling: Literal["mean", "first", "tokens"] = "mean"
    ) -> np.ndarray | list[np.ndarray]:
        """Encode texts as vectors: (texts, H), or with `pooling="tokens"` one (tokens, H) array a text.

        A text longer than the model is read in consecutive windows; `first` is the [CLS] state of the first one. What
        comes of pre-training alone tells little of how alike two texts are, but with `objective.name=corrective`.
        """
        if pooling not in POOLS:
            raise DataError(f"pooling={pooling!r}: choose mean, first or tokens")
        size = self.window
        windows: list[list[int]] = []
        firsts: list[int] = []  # where each text's windows begin
        for encoding in self.tokenizer.encode(texts):
            ids = encoding.ids
            firsts.append(len(windows))
            windows += [ids[at : at + size] for at in range(0, max(len(ids), 1), size)]
        encoder, pool = encoder_of(self._used), POOLS[pooling]
        found = self._run(windows, lambda batch: pool(batch, encoder(batch.ids, batch.attention)))
        if pooling == "tokens":
            states = [framed[1 : len(window) + 1] for window, framed in zip(windows, found, strict=True)]
            ends = [*firsts, len(windows)][1:]
            return [np.concatenate(states[first:end]) for first, end in zip(firsts, ends, strict=True)]
        if not found:
            return np.zeros((0, self.encoder.config.hidden_size), np.float32)
        if pooling == "first":
            return np.stack([found[first] for first in firsts])
        counts = np.array([[len(window) + 2] for window in windows], np.float32)
        vectors: np.ndarray = np.add.reduceat(np.stack(found), firsts) / np.add.reduceat(counts, firsts)
        return vectors

    @cached_property
    def _used(self) -> AnyNetwork:
        return as_used(self.network, self)

    @cached_property
    def _used_generator(self) -> MaskedLM | None:
        return as_used(self.generator, self) if self.generator else None

    @torch.inference_mode()
    def _run(self, windows: Sequence[Sequence[int]], compute: Callable[[WindowBatch], Tensor]) -> list[np.ndarray]:
        """Put [CLS] and [SEP] around windows and give each its row of what is computed of a batch."""
        framed = [[self.tokenizer.cls_id, *window, self.tokenizer.sep_id] for window in windows]
        # The copies back do not wait either: while a GPU is at work on a batch, the next ones are on their way.
        fetched = [
            (batch.windows, compute(batch).float().to("cpu", non_blocking=True))
            for batch in batches(framed, self.tokenizer.pad_id, self.device)
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
    """Load a run of ours, a Hugging Face folder, a hub name or the model that comes with the package.

    It lies on the GPU where there is one, and computes in `precision` float32, bf16 or auto, that is bf16 on a GPU and
    float32 elsewhere. Its weights are float32 anyhow, and a change of them after the first use in bf16 is not seen.
    """
    folder = find_folder(source)
    network = read_network(folder)
    generator = read_network(folder / GENERATOR) if (folder / GENERATOR).is_dir() else None
    if not isinstance(generator, MaskedLM | None):
        raise CheckpointError(f"{folder / GENERATOR} holds no generator: it has no masked-LM head")
    model = Pretrained(network, load_tokenizer(folder), generator, precision)
    _check_vocabulary(model, folder)
    target = find_device(device or "auto")
    for module in (model.network, model.generator):
        if module:
            module.to(target)
    return model


def _shown(piece: str, span: tuple[int, int], text: str) -> tuple[int, int]:
    """Give the characters of a piece: none where it marks the beginning of a word and no space stands there."""
    start, end = span
    return (start, start) if piece == SPACE_SIGN and not text[start:end].isspace() else span


def find_folder(source: str | Path) -> Path:
    """Give the folder that holds the model of a run, of a Hugging Face folder or of a hub name."""
    folder = locate(source, [*FILES, *TOKENIZER_FILES, f"{GENERATOR}/*", TASK], CheckpointError)
    if (folder / "model").is_dir():
        folder = folder / "model"
    elif (folder / "config.toml").is_file() and not (folder / "config.json").is_file():
        raise CheckpointError(
            f"{source} is a run without a model yet: its command makes one when it ends or is stopped"
        )
    if not folder.is_dir():
        raise CheckpointError(f"{source} is not a folder with a model")
    return folder


def as_discriminator(network: AnyNetwork) -> Discriminator:
    """Give a network that can detect replaced tokens, or refuse one that cannot."""
    if not isinstance(network, Discriminator):
        kinds = {TaskNetwork: "fine-tuned: electra predict uses it", MaskedLM: "a masked language model"}
        kind = kinds.get(type(network), "without a discriminator head (Electric's gives energies)")
        raise CheckpointError(f"this model is {kind}; it cannot detect replaced tokens")
    return network


def fits_vocabulary(rows: int, entries: int) -> bool:
    """Tell whether an embedding of so many rows is one of a vocabulary: sizes may be rounded up for speed."""
    return entries <= rows < entries + ROUNDING


def _check_vocabulary(model: Pretrained, folder: Path) -> None:
    entries, rows = model.tokenizer.vocab_size, model.encoder.config.vocab_size
    if not fits_vocabulary(rows, entries):
        raise CheckpointError(
            f"the vocabulary in {folder} has {entries} entries, the embedding {rows}: they do not match"
        )
