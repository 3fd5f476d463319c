"""Train a model from raw text: plan, vocabulary, corpus, pre-training. Stages that are done are skipped."""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from electra.config.load import load_config, text_override
from electra.data.checksums import CHECKSUMS, is_intact
from electra.data.corpus.build import build_corpus
from electra.data.corpus.shards import MANIFEST, Corpus, open_corpus
from electra.data.files import write_json
from electra.data.reading.sources import find_sources, names_of
from electra.data.settings import Building, Invalid, Reading, Vocabulary
from electra.data.storage import is_remote, local_path, working_copy
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.data.tokens.vocab import MOST_UNKNOWN, REPORT, read_report, train_vocab
from electra.errors import CheckpointError, ConfigError, DataError
from electra.model.pretrained import load
from electra.model.sentences import MODULES
from electra.model.vocabulary import compose, with_vocabulary
from electra.recipes.convert import write_start
from electra.recipes.corpora import Corpora
from electra.recipes.plan import Case, Plan, describe, make_plan, measure_text, written_time
from electra.recipes.pretrain import pretrain
from electra.recipes.start import compare, find_start, replaced_pairs
from electra.training.processes import launched
from electra.training.progress import watched
from electra.training.run import START, Listener, begun, check_place, held, tell

PLAN = "plan.json"
FIXED = {"sources", "init", "new_vocabulary"}  # a folder is prepared for one of each
AMPLE = 0.8  # if the planned passes over the text take less than this share of the time left, tokens are the budget


def train(
    sources: str | Path | Sequence[str | Path],
    *,
    hours: float,
    out: str | Path,
    overrides: Sequence[str] = (),
    heldout: float = Building.heldout,
    lowercase: bool = Vocabulary.lowercase,
    invalid: Invalid = Reading.invalid,
    init: str | Path | None = None,
    new_vocabulary: bool = False,
    old_text: str | Path | Sequence[str | Path] = (),
    listeners: Sequence[Listener] | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Train the model that suits the text, the machine and the hours; the same call again resumes an unfinished run.

    `init` is a model to continue instead, with its own vocabulary or a new one of the text; what it forgets is measured
    on `old_text`. Each listener receives the lines of the plan, unless `say` does, and the records of `metrics.jsonl`;
    by default, they are shown in a terminal or a notebook.
    """
    began = time.monotonic()
    if launched():
        raise ConfigError(
            "train runs in a single process: start it without torchrun; for several devices, build a corpus with "
            "electra corpus and start torchrun -m electra pretrain"
        )
    names = names_of(sources)
    asked: dict[str, Any] = {"overrides": overrides, "heldout": heldout, "lowercase": lowercase, "invalid": invalid}
    asked |= {"init": None if init is None else str(init), "new_vocabulary": new_vocabulary}
    reading = Reading(invalid=invalid)
    pairs = replaced_pairs(names_of(old_text), reading) if old_text else []
    with watched(listeners) as heard, working_copy(out) as folder:
        say = say or (lambda line: tell(heard, {"step": 0, "detected": line}))
        plan, known = planned(names, hours=hours, out=folder, say=say, **asked)
        with held(folder):
            if not known:
                _remove_outdated(folder, plan)
                write_json(folder / PLAN, asdict(plan))
            _prepare(folder, plan, heldout, reading, say)
        _pretrain(out if is_remote(out) else folder, plan, began, heard)
        if plan.init and (pairs or (folder / START / "model" / MODULES).is_file()):
            before = plan.init if plan.new_vocabulary else folder / START
            for line in compare(before, folder, names, pairs, reading):
                say(line)
    return folder


def _pretrain(out: str | Path, plan: Plan, began: float, listeners: Sequence[Listener]) -> None:
    """Pre-train on the prepared text for the rest of the time."""
    folder = local_path(out)
    places = [text_override("data", folder / "corpus"), text_override("out", out)]
    if begun(folder):  # settings that were changed with electra pretrain since then are kept
        pretrain(load_config(folder, places), listeners)
        return
    if plan.init:
        places.append(text_override("init", folder / START))
    if plan.trains_vocabulary:
        pieces = load_tokenizer(folder / "tokenizer").vocab_size  # may be less than requested, if the text is short
        plan = replace(plan, overrides=[*plan.overrides, f"model.vocab_size={pieces}"])
    if plan.config().train.hours is not None:  # otherwise the user has set another budget
        places.append(_rest_of_budget(plan, spent=(time.monotonic() - began) / 3600))
    pretrain(plan.config(*places), listeners)


def _rest_of_budget(plan: Plan, spent: float) -> str:
    """Return the setting for the hours that are left, or for the tokens of the plan if these take less time."""
    if spent >= plan.hours:
        raise ConfigError(
            f"preparing the text took {written_time(spent)}, but the budget is {written_time(plan.hours)}; "
            "run the same command again to train on the prepared text"
        )
    left = plan.hours - spent
    return f"train.tokens={plan.tokens}" if plan.train_hours < AMPLE * left else f"train.hours={left!r}"


def _prepare(folder: Path, plan: Plan, heldout: float, reading: Reading, say: Callable[[str], None]) -> None:
    """Build the vocabulary and the corpus unless they exist."""
    names = plan.sources  # spelled as in the first call, which is what the corpus stores
    building = Building(length=plan.config().train.length, heldout=heldout, reading=reading)
    for line in describe(plan):
        say(line)
    copied = _is_copied(folder / START)
    start = folder / START if copied else plan.init
    tokenizer = load_tokenizer(start) if start else None
    if plan.trains_vocabulary:
        longest = tokenizer.longest if tokenizer else None
        tokenizer = _vocabulary(folder / "tokenizer", plan, reading, say).of_length(longest)
    assert tokenizer is not None
    corpus = _corpus(names, tokenizer, building, folder / "corpus")
    say(f"{folder / 'corpus'}: {corpus.manifest.tokens:,} tokens in {corpus.manifest.sequences:,} sequences")
    if plan.init and not copied:
        shutil.rmtree(folder / START, ignore_errors=True)
        _write_start(folder, plan, tokenizer, say)
    unknown = corpus.manifest.report["unknown_tokens"] / max(1, corpus.manifest.report["tokens_read"])
    if not plan.trains_vocabulary and unknown > MOST_UNKNOWN:
        say(f"warning: {unknown:.1%} of the tokens are unknown to {plan.init}; add --new-vocabulary")
    if invalid := corpus.manifest.report["invalid_places"]:
        say(f"{invalid:,} places of the text were not valid UTF-8")


def _vocabulary(folder: Path, plan: Plan, reading: Reading, say: Callable[[str], None]) -> Tokenizer:
    """Train the vocabulary unless it exists."""
    if not _has_vocabulary(folder, plan):
        lowercase = plan.case == "uncased"
        train_vocab(plan.sources, size=plan.vocab_size, out=folder, lowercase=lowercase, reading=reading)
    tokenizer, report = load_tokenizer(folder), read_report(folder)
    say(f"{folder}: {tokenizer.vocab_size:,} pieces ({report.kind})")
    if (unknown := report.fertility.unknown_characters) > MOST_UNKNOWN:
        larger = f"enlarge it with --set model.vocab_size={2 * plan.vocab_size} and another --out, or "
        stepwise = "train step by step, starting with electra vocab --model bpe"
        advice = f"{larger if report.size == report.requested_size else ''}{stepwise}"
        say(f"warning: {unknown:.1%} of the text is unknown to it; {advice}")
    return tokenizer


def _is_copied(start: Path) -> bool:
    """Return whether the run has an undamaged copy of the model to start from."""
    return is_intact(start / "model") and all(is_intact(sealed.parent) for sealed in start.rglob(CHECKSUMS))


def _write_start(folder: Path, plan: Plan, tokenizer: Tokenizer, say: Callable[[str], None]) -> None:
    """Copy the model to start from into the run, with the new vocabulary if it gets one."""
    assert plan.init is not None
    model = load(plan.init, device="cpu")
    if plan.new_vocabulary:
        parts = [len(ids) for ids in compose(model.tokenizer, tokenizer)]
        kept, new = parts.count(1), parts.count(0)
        composed = f"{kept:,} pieces keep their embeddings, {len(parts) - kept - new:,} are composed of old pieces"
        say(f"{folder / START}: {composed}, {new:,} start from the text")
        corpora = Corpora(plan.config(text_override("data", folder / "corpus")))
        model = with_vocabulary(model, tokenizer, corpora.token_pairs(tokenizer.vocab_size).result())
    write_start(model, folder / START)


def planned(
    names: list[str],
    *,
    hours: float,
    out: Path,
    overrides: Sequence[str],
    heldout: float,
    lowercase: bool,
    invalid: Invalid,
    init: str | None,
    new_vocabulary: bool,
    say: Callable[[str], None],
) -> tuple[Plan, bool]:
    """Return the plan for a text and whether it was made by an earlier call; raise if it cannot be trained."""
    check_place(out)
    if new_vocabulary and init is None:
        raise ConfigError("--new-vocabulary changes the vocabulary of a model: add --init MODEL")
    if init is not None and not new_vocabulary and not lowercase:
        raise ConfigError(
            "--cased is for a new vocabulary, and the model keeps its own: add --new-vocabulary, or drop --cased"
        )
    place = out.absolute()
    for name in names:
        if place.is_relative_to(Path(name).expanduser().absolute()):
            raise ConfigError(f"{out} is inside {name} and would be read as text; choose another out")
    case: Case = "uncased" if lowercase else "cased"
    reading = Reading(invalid=invalid)
    asked = {"hours": hours, "case": case, "init": init, "new_vocabulary": new_vocabulary}
    if plan := _recall(out, names, overrides, asked, reading):
        return plan, True
    reads = f"reading {init}, and measuring how fast this machine trains it"
    say(reads if init else "measuring the text and how fast this machine trains on it")
    start = None if init is None else find_start(init, new_vocabulary=new_vocabulary)
    plan = make_plan(names, hours=hours, overrides=overrides, case=case, reading=reading, start=start)
    Building(length=plan.config().train.length, heldout=heldout)  # validates heldout
    corpus = out / "corpus"
    if (corpus / MANIFEST).is_file():
        same_length = open_corpus(corpus).manifest.length == plan.config().train.length
        if not same_length or (plan.trains_vocabulary and not _has_vocabulary(out / "tokenizer", plan)):
            other = "vocabulary" if same_length else "length"
            raise DataError(f"{corpus} holds a corpus made with another {other}; choose another --out")
    return plan, False


def _has_vocabulary(folder: Path, plan: Plan) -> bool:
    if not (folder / REPORT).is_file():
        return False
    if not (folder / CHECKSUMS).is_file():
        raise DataError(f"{folder} has no {CHECKSUMS}: it is damaged; remove it and run the same command again")
    report = read_report(folder)
    return (report.requested_size, report.lowercase) == (plan.vocab_size, plan.case == "uncased")


def _corpus(names: list[str], tokenizer: Tokenizer, building: Building, place: Path) -> Corpus:
    """Build the corpus, or open an existing one if changes of the text cannot be detected (Hub data has no size)."""
    try:
        sizes = [source.size for source in find_sources(names)[0]]
        if None not in sizes or not (place / MANIFEST).is_file():
            return build_corpus(names, tokenizer, out=place, **vars(building))
    except DataError as problem:
        raise DataError(f"{problem}{_how_to_resume(place.parent)}") from None
    corpus = open_corpus(place)
    if corpus.manifest.heldout != building.heldout:
        raise DataError(f"{place} holds a corpus made with another heldout; choose another --out")
    return corpus


def _recall(
    folder: Path, names: list[str], overrides: Sequence[str], asked: Mapping[str, Any], reading: Reading
) -> Plan | None:
    """Read the plan of an earlier call; None if there is none, or if it changed before the first update was saved."""
    plan = _read_plan(folder)
    if plan is None:
        if (folder / "config.toml").is_file():
            raise CheckpointError(f"{folder} holds a run that train did not start (no {PLAN}); choose another out")
        return None
    differs = {
        "sources": [*map(os.path.abspath, plan.sources)] != [*map(os.path.abspath, names)],
        "overrides": sorted(plan.overrides) != sorted(overrides),
        **{name: getattr(plan, name) != value for name, value in asked.items()},
        "text": plan.text_known and not begun(folder) and measure_text(names, reading=reading).size != plan.text_bytes,
    }
    changed = [name for name, different in differs.items() if different]
    if not FIXED.isdisjoint(changed) or (changed and begun(folder)):
        was = getattr(plan, changed[0])
        shown = " ".join(was) or "none" if isinstance(was, list) else was
        raise ConfigError(
            f"{folder} was planned with different {' and '.join(changed)} ({shown}); "
            f"repeat them to resume, or choose another out{_how_to_resume(folder)}"
        )
    return None if changed else plan


def _read_plan(folder: Path) -> Plan | None:
    """Read the plan of an earlier call, if there is one."""
    path = folder / PLAN
    try:
        return Plan(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
    except (ValueError, TypeError):
        raise CheckpointError(f"{path} is truncated or from another version of electra; choose another out") from None


def _remove_outdated(folder: Path, plan: Plan) -> None:
    """Remove what an earlier call made from another text, unless a corpus was made of that."""
    before = _read_plan(folder)
    if before and before.text_bytes != plan.text_bytes and not (folder / "corpus").exists():
        for made in ("tokenizer", START):
            shutil.rmtree(folder / made, ignore_errors=True)


def _how_to_resume(folder: Path) -> str:
    """Return a hint how to resume a started run without its text and its plan."""
    return f"; to continue this run: electra pretrain {folder / 'config.toml'} [train.hours=H]" if begun(folder) else ""
