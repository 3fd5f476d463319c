"""Fool the discriminator: hide tokens, let the generator propose others, and see whether they are detected."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from electra.model.pretrained import Pretrained
from electra.playground.tokens import THRESHOLD, Token, bounded, colored, cut, percent

LONGEST_SENTENCE = 500  # characters
MOST_HIDDEN = 4  # tokens; with more masks, the generator sees too little of the sentence
PROPOSALS = 6  # of the generator, per hidden token
CONTINUES = "…"  # marks a piece that continues a word


@dataclass(frozen=True)
class Sentence:
    """A sentence as tokens, cut to what the model reads at once."""

    ids: list[int]
    pieces: list[tuple[str, str]]  # the text before each token, and its own
    labels: list[str]  # tokens as shown to the user
    shortened: bool


class Candidate(NamedTuple):
    """A token proposed for a hidden position."""

    id: int
    label: str
    probability: float  # by the generator
    original: bool


@dataclass(frozen=True)
class Round:
    """An attempt to fool the discriminator."""

    sentence: Sentence
    places: tuple[int, ...]  # hidden positions
    offered: list[list[Candidate]]  # for each position
    chosen: list[int]  # ids that replace the hidden tokens
    before: list[Token]
    after: list[Token]


def read_sentence(model: Pretrained, text: str) -> Sentence:
    """Tokenize a sentence."""
    encoding = model.tokenizer.encode([bounded(text, LONGEST_SENTENCE)])[0]
    ids, room = encoding.ids, model.window
    pieces = cut(text, model.tokenizer.spans(encoding, text))[:room]
    words = encoding.word_ids
    continues = [place > 0 and words[place] == words[place - 1] for place in range(len(pieces))]
    labels = [f"{CONTINUES}{text}" if joined else text for joined, (_, text) in zip(continues, pieces, strict=True)]
    return Sentence(ids[:room], pieces, labels, len(ids) > room)


def pick_places(model: Pretrained, text: str, chance: random.Random) -> list[int]:
    """Pick one token in seven, as in training, up to the limit."""
    tokens = len(read_sentence(model, text).ids)
    return sorted(chance.sample(range(tokens), min(max(1, round(tokens / 7)), MOST_HIDDEN, tokens)))


def candidates(model: Pretrained, sentence: Sentence, places: Sequence[int]) -> list[list[Candidate]]:
    """Return the generator's best proposals for each hidden position, likeliest first, including the original."""
    if not places:
        return []
    tokenizer = model.tokenizer
    chances = model.propose(sentence.ids, places)
    specials = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    offered = chances.clone()
    offered[:, specials] = -1
    found = []
    for place, row, chance in zip(places, offered, chances, strict=True):
        original = sentence.ids[place]
        best = [number for number in row.topk(min(PROPOSALS + 1, len(row))).indices.tolist() if row[number] >= 0]
        numbers = best if original in best else [*best[:PROPOSALS], original]
        found.append(
            [Candidate(number, _spell(model, number), float(chance[number]), number == original) for number in numbers]
        )
    return found


def describe(candidate: Candidate) -> str:
    """Return a candidate as shown to the user."""
    return f"{candidate.label}  {percent(candidate.probability)}{', the original' if candidate.original else ''}"


def exchange(model: Pretrained, sentence: Sentence, choices: Mapping[int, int]) -> tuple[list[Token], list[Token]]:
    """Replace some tokens; return the tokens with the discriminator's probabilities before and after."""
    starts = model.tokenizer.word_starts()
    ids, pieces = list(sentence.ids), list(sentence.pieces)
    for place, number in choices.items():
        if number != sentence.ids[place]:
            between = pieces[place][0]
            if starts[number] != starts[ids[place]]:  # a piece replaces a word, or vice versa
                between = " " if starts[number] and place else ""
            ids[place], pieces[place] = number, (between, _spell(model, number).removeprefix(CONTINUES))
    old, new = model.replaced(sentence.ids), model.replaced(ids)
    changed = [after != before for after, before in zip(ids, sentence.ids, strict=True)]
    before = [Token(*piece, chance) for piece, chance in zip(sentence.pieces, old, strict=True)]
    after = [Token(*piece, chance, other) for piece, chance, other in zip(pieces, new, changed, strict=True)]
    return before, after


def play_round(model: Pretrained, text: str, places: Sequence[int], chosen: Sequence[int] = ()) -> Round:
    """Replace the tokens at some positions by the chosen ids, or else by the generator's likeliest proposals."""
    sentence = read_sentence(model, text)
    hidden = tuple(places[:MOST_HIDDEN])
    offered = candidates(model, sentence, hidden)
    likeliest = [next((one for one in row if not one.original), row[0]).id for row in offered]
    taken = [*chosen] or likeliest
    before, after = exchange(model, sentence, dict(zip(hidden, taken, strict=True)))
    return Round(sentence, hidden, offered, taken, before, after)


def show_verdict(played: Round) -> str:
    """Return the outcome of each replacement and the tokens before and after as HTML."""
    if not played.before:
        return "<p>Type a sentence first.</p>"
    read = len(played.before)
    cut_off = f'<p class="remark">Only the first {read} tokens are read.</p>' if played.sentence.shortened else ""
    if not played.places:
        return f'<p role="status">Choose words to hide.</p><h3>Before</h3>{colored(played.before)}{cut_off}'
    outcomes = "".join(outcome(played.before[place], played.after[place]) for place in played.places)
    return (
        f'<div role="status">{outcomes}</div>'
        f"<h3>Before</h3>{colored(played.before)}<h3>After</h3>{colored(played.after)}{cut_off}"
    )


def outcome(original: Token, chosen: Token) -> str:
    """Return the outcome of a replacement for the discriminator as HTML."""
    verdict, meaning = "Unchanged", "the chosen word is the original"
    if chosen.exchanged and chosen.probability >= THRESHOLD:
        verdict, meaning = "Caught", "the discriminator detects the replacement"
    elif chosen.exchanged:
        verdict, meaning = "Fooled", "the discriminator believes it is the original"
    before, after = escape(percent(original.probability)), escape(percent(chosen.probability))
    return (
        f'<p class="outcome {verdict.lower()}"><strong>{verdict}</strong> '
        f"<span><b>{escape(original.text)}</b> → <b>{escape(chosen.text)}</b>: {meaning} "
        f"(probability of being replaced: {before} before, {after} after).</span></p>"
    )


def _spell(model: Pretrained, number: int) -> str:
    """Return the text of a token, marked if it continues a word."""
    piece = model.tokenizer.spell(number)
    return piece.strip() if piece.startswith(" ") else f"{CONTINUES}{piece}"
