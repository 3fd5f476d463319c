"""A trained model at hand: its networks, its tokenizer, and what one does with them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from electra.data.reading.hub import locate
from electra.data.tokens.tokenizer import FILES as TOKENIZER_FILES
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.errors import CheckpointError, DataError
from electra.model.encoder import Encoder
from electra.model.huggingface import FILES, Network, read_network
from electra.model.networks import Discriminator, MaskedLM

GENERATOR = "generator"  # the folder of the generator inside the discriminator's
TASK = "task.json"  # what a fine-tuned model was made for
TOKENS_AT_ONCE = 16_384
ROUNDING = 256  # an embedding may be this much larger than the vocabulary: sizes are rounded up for speed


class Detection(NamedTuple):
    """What the discriminator thinks of one token."""

    token: str
    probability: float  # of being replaced
    span: tuple[int, int]  # its characters in the text


class Pretrained:
    """A network with its tokenizer, and the generator it was trained with where that is known."""

    def __init__(self, network: Network, tokenizer: Tokenizer, generator: MaskedLM | None = None) -> None:
        self.network = network.eval()
        self.generator = generator.eval() if generator else None
        self.tokenizer = tokenizer

    @property
    def encoder(self) -> Encoder:
        """Give the encoder, whatever head stands on it."""
        return self.network if isinstance(self.network, Encoder) else self.network.encoder

    @property
    def device(self) -> torch.device:
        """Say where the weights are."""
        return self.encoder.embeddings.words.weight.device

    @property
    def window(self) -> int:
        """Say how many tokens are read at once: [CLS] and [SEP] take two places."""
        return self.encoder.config.max_length - 2

    def detect(self, text: str) -> list[Detection]:
        """Give for every token of a text, however long, the probability that it was replaced."""
        encoding = self.tokenizer.encode([text])[0]
        rows = zip(encoding.tokens, self.replaced(encoding.ids), encoding.offsets, strict=True)
        return [Detection(*row) for row in rows]

    def replaced(self, ids: Sequence[int]) -> list[float]:
        """Give for every token, of however many, the probability that it was replaced."""
        if not isinstance(self.network, Discriminator):
            raise CheckpointError("this model has no discriminator head, so it cannot detect replaced tokens")
        count = len(ids)
        probabilities = np.zeros(count)
        nearest_edge = np.full(count, -1)
        size = self.window
        starts = [*range(0, max(count - size, 0), max(size // 2, 1)), max(count - size, 0)] if count else []
        windows = [list(ids[start : start + size]) for start in starts]
        for start, scores in zip(starts, self._per_token(windows, self.network), strict=True):
            # Windows overlap by half; of two opinions on a token the one with more context counts.
            edge = np.minimum(np.arange(len(scores)), np.arange(len(scores))[::-1])
            better = np.flatnonzero(edge > nearest_edge[start : start + size])
            probabilities[start + better] = torch.sigmoid(scores)[better].numpy()
            nearest_edge[start + better] = edge[better]
        found: list[float] = probabilities.tolist()
        return found

    @torch.inference_mode()
    def propose(self, ids: Sequence[int], places: Sequence[int]) -> Tensor:
        """Hide the tokens at some places from the generator, and give (places, V): how likely it thinks each token."""
        if self.generator is None:
            raise CheckpointError("this model comes without its generator, so nothing proposes replacements")
        framed = torch.tensor([[self.tokenizer.cls_id, *ids, self.tokenizer.sep_id]], device=self.device)
        if framed.size(1) > self.generator.encoder.config.max_length:
            raise DataError(f"{len(ids)} tokens are more than the generator can read at once ({self.window})")
        positions = torch.tensor([places], dtype=torch.long, device=self.device) + 1
        framed[0, positions] = self.tokenizer.mask_id
        logits: Tensor = self.generator(framed, None, None, positions)[0].float()
        return logits[:, : self.tokenizer.vocab_size].softmax(-1).cpu()

    def encode(
        self, texts: Sequence[str], pooling: Literal["mean", "first", "tokens"] = "mean"
    ) -> np.ndarray | list[np.ndarray]:
        """Encode texts as vectors: (texts, H), or with `pooling="tokens"` one (tokens, H) array a text.

        A text longer than the model is read in consecutive windows; `first` is the [CLS] state of the first one.
        """
        if pooling not in ("mean", "first", "tokens"):
            raise DataError(f"pooling={pooling!r}: choose mean, first or tokens")
        size = self.window
        windows: list[list[int]] = []
        owners: list[int] = []
        for number, encoding in enumerate(self.tokenizer.encode(texts)):
            pieces = [encoding.ids[at : at + size] for at in range(0, max(len(encoding.ids), 1), size)]
            windows += pieces
            owners += [number] * len(pieces)
        states: list[list[Tensor]] = [[] for _ in texts]
        for owner, hidden in zip(owners, self._per_token(windows, self.encoder, specials=True), strict=True):
            states[owner].append(hidden)
        if pooling == "tokens":
            return [torch.cat([hidden[1:-1] for hidden in window]).numpy() for window in states]
        vectors = [window[0][0] if pooling == "first" else torch.cat(window).mean(0) for window in states]
        width = self.encoder.config.hidden_size
        return torch.stack(vectors).numpy() if vectors else np.zeros((0, width), dtype=np.float32)

    @torch.inference_mode()
    def _per_token(self, windows: list[list[int]], network: Network, specials: bool = False) -> Iterator[Tensor]:
        """Run a network over windows in batches of like length and give its per-token output in the given order."""
        outputs: list[Tensor] = [torch.empty(0)] * len(windows)
        for batch in _batches(windows):
            ids = torch.full((len(batch), len(windows[batch[0]]) + 2), self.tokenizer.pad_id)
            for row, window in enumerate(batch):
                framed = [self.tokenizer.cls_id, *windows[window], self.tokenizer.sep_id]
                ids[row, : len(framed)] = torch.tensor(framed)
            attention = ids.ne(self.tokenizer.pad_id).long()
            result = network(ids.to(self.device), attention.to(self.device)).float().cpu()
            for row, window in enumerate(batch):
                end = len(windows[window]) + 2
                outputs[window] = result[row, :end] if specials else result[row, 1 : end - 1]
        return iter(outputs)


def load(source: str | Path, device: str | None = None) -> Pretrained:
    """Load a run of ours, a Hugging Face folder or a hub name; on the GPU where there is one."""
    folder = find_folder(source)
    network = read_network(folder)
    generator = read_network(folder / GENERATOR) if (folder / GENERATOR).is_dir() else None
    if not isinstance(generator, MaskedLM | None):
        raise CheckpointError(f"{folder / GENERATOR} holds no generator: it has no masked-LM head")
    model = Pretrained(network, load_tokenizer(folder), generator)
    _check_vocabulary(model, folder)
    target = device or ("cuda" if torch.cuda.is_available() else "cpu")
    for module in (model.network, model.generator):
        if module:
            module.to(target)
    return model


def find_folder(source: str | Path) -> Path:
    """Give the folder that holds the model of a run, of a Hugging Face folder or of a hub name."""
    folder = locate(source, [*FILES, *TOKENIZER_FILES, f"{GENERATOR}/*", TASK], CheckpointError)
    if (folder / "model").is_dir():
        folder = folder / "model"
    if not folder.is_dir():
        raise CheckpointError(f"{source} is not a folder with a model")
    return folder


def _check_vocabulary(model: Pretrained, folder: Path) -> None:
    entries, rows = model.tokenizer.vocab_size, model.encoder.config.vocab_size
    if not entries <= rows < entries + ROUNDING:
        raise CheckpointError(
            f"the vocabulary in {folder} has {entries} entries, the embedding {rows}: they do not match"
        )


def _batches(windows: list[list[int]]) -> Iterator[list[int]]:
    """Group window numbers, longest first, so that each padded batch holds a bounded number of tokens."""
    order = sorted(range(len(windows)), key=lambda number: -len(windows[number]))
    while order:
        size = max(1, TOKENS_AT_ONCE // (len(windows[order[0]]) + 2))
        yield order[:size]
        order = order[size:]
