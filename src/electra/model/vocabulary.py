"""Move a model to another vocabulary: shared pieces keep their embeddings, new ones are composed from old pieces.

Pieces that no old piece spells, such as those of another script, start from which tokens follow each other in the text,
rotated into the space of the old embeddings.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.data.tokens.tokenizer import SPACE_SIGN, Tokenizer
from electra.model.huggingface import AnyNetwork, encoder_of
from electra.model.initialize import cooccurrence_vectors
from electra.model.networks import MaskedLM
from electra.model.pretrained import Pretrained

SEED = 0  # of what is drawn: networks that share their embeddings still do so afterwards


def with_vocabulary(model: Pretrained, tokenizer: Tokenizer, pairs: Tensor) -> Pretrained:
    """Return the model with another tokenizer; all weights but those of the vocabulary stay as they are.

    `pairs`, a sparse (V, V) tensor, counts which of the new tokens follow each other in text: pieces that no old one
    spells start from that.
    """
    sources = compose(model.tokenizer, tokenizer)
    generator: Any = model.generator and _moved(model.generator, sources, pairs)
    network, corrector = _moved(model.network, sources, pairs), deepcopy(model.corrector)
    if corrector:
        _move_bias(corrector, sources)
    return Pretrained(network, tokenizer.of_length(model.tokenizer.longest), generator, corrector=corrector)


def compose(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """Return for each id of a new vocabulary the old ids that spell it, if any: itself, or its parts.

    Pieces are compared as text, so that ##ing of WordPiece, ing of Unigram and of byte-level BPE are the same. A piece
    that the old vocabulary has only inside a word, or only at its start, counts as the same too.
    """
    special = {getattr(new, role): getattr(old, role) for role in ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")}
    known = {old.spell_bytes(number): number for number in range(old.vocab_size) if number not in special.values()}
    known = {_elsewhere(spelled): number for spelled, number in known.items()} | known
    found = []
    for number in range(new.vocab_size):
        spelled = new.spell_bytes(number)
        if number in special:
            found.append([special[number]])
        elif spelled in known:
            found.append([known[spelled]])
        else:
            found.append(_parts(_normalized(spelled, old), known))
    return found


def _elsewhere(spelled: bytes) -> bytes:
    """Return a piece of the inside of a word as its start, and the other way round."""
    return spelled[1:] if spelled.startswith(b" ") else b" " + spelled


def _normalized(spelled: bytes, tokenizer: Tokenizer) -> bytes:
    """Return a piece as a tokenizer would read it, for example in lower case."""
    try:
        text = spelled.decode()
    except UnicodeDecodeError:  # part of a character
        return spelled
    if normalizer := tokenizer.backend.normalizer:
        start = " " if text.startswith(" ") else ""
        text = start + normalizer.normalize_str(text.strip()).strip(f" {SPACE_SIGN}")
    return text.encode()


def _parts(spelled: bytes, known: dict[bytes, int]) -> list[int]:
    """Split a piece into known ones from the left, longest first, as WordPiece does; none if a part is unknown."""
    parts, start = [], 0
    while start < len(spelled):
        end = next((end for end in range(len(spelled), start, -1) if spelled[start:end] in known), None)
        if end is None:
            return []
        parts.append(known[spelled[start:end]])
        start = end
    return parts


@torch.no_grad()
def _moved(network: AnyNetwork, sources: Sequence[Sequence[int]], pairs: Tensor) -> AnyNetwork:
    """Return a copy of a network whose rows of the vocabulary are composed of old ones."""
    network = deepcopy(network)
    encoder: Any = encoder_of(network)
    words = encoder.vocabulary
    known = torch.tensor([bool(ids) for ids in sources])
    center, spread = words.mean(0), words.std(0)
    rows = _means(words, sources)
    unknown = center + spread * _aligned(_vectors(pairs, words.size(1)), rows - center, known)
    rows = torch.where(known[:, None], rows, unknown)
    encoder.embeddings.words = nn.Embedding(len(rows), rows.size(1), _weight=rows)
    encoder.config = encoder.embeddings.config = encoder.config.model_copy(update={"vocab_size": len(sources)})
    if isinstance(network, MaskedLM):
        _move_bias(network.head, sources)
    return network


@torch.no_grad()
def _move_bias(head: Any, sources: Sequence[Sequence[int]]) -> None:
    """Compose the biases of the tokens, in a head that predicts them, of old ones."""
    biases = _means(head.bias[:, None], sources)[:, 0]
    known = torch.tensor([bool(ids) for ids in sources])
    head.bias = nn.Parameter(torch.where(known, biases, head.bias.mean()))


def _means(table: Tensor, sources: Sequence[Sequence[int]]) -> Tensor:
    """Return the mean of the rows that make up each new one; zeros for those without any."""
    ids = torch.tensor([number for numbers in sources for number in numbers])
    sizes = torch.tensor([len(numbers) for numbers in sources])
    return F.embedding_bag(ids, table, sizes.cumsum(0) - sizes, mode="mean")


def _vectors(pairs: Tensor, size: int) -> Tensor:
    """Return (V, size) vectors of which tokens follow each other; those that do not occur are drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        vectors = torch.randn(len(pairs), size)
        counted = pairs.coalesce().indices().flatten()
        vectors[counted] = cooccurrence_vectors(pairs, size, 1.0)[counted]
    return vectors


def _aligned(vectors: Tensor, wanted: Tensor, known: Tensor) -> Tensor:
    """Rotate vectors so that the known ones point like the wanted ones (orthogonal Procrustes); standardize them."""
    left, _, right = torch.linalg.svd(F.normalize(vectors[known]).T @ F.normalize(wanted[known]))
    turned: Tensor = vectors @ left @ right
    return (turned - turned.mean(0)) / turned.std(0).clamp(min=1e-6)
