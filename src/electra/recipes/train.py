"""Train a model from raw text: plan, vocabulary, corpus, pre-training. Stages that are done are skipped."""

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from electra.config.load import load_config, text_override
from electra.data.checksums import CHECKSUMS
from electra.data.corpus.build import build_corpus
from electra.data.corpus.shards import MANIFEST, Corpus, open_corpus
from electra.data.files import write_json
from electra.data.reading.sources import find_sources, names_of
from electra.data.reading.text import Tally
from electra.data.settings import Building, Vocabulary
from electra.data.storage import is_remote, local_path, working_copy
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.data.tokens.vocab import MOST_UNKNOWN, REPORT, read_report, train_vocab
from electra.errors import CheckpointError, ConfigError, DataError
from electra.recipes.plan import Case, Plan, describe, make_plan, measure_text, written_time
from electra.recipes.pretrain import pretrain
from electra.training.processes import launched
from electra.training.run import Listener, begun, check_place, held

PLAN = "plan.json"


def train(
    sources: str | Path | Sequence[str | Path],
    *,
    hours: float,
    out: str | Path,
    overrides: Sequence[str] = (),
    heldout: float = Building.heldout,
    lowercase: bool = Vocabulary.lowercase,
    listeners: Sequence[Listener] = (),
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train the model that suits the text, the machine and the hours; the same call again resumes an unfinished run.

    `say` receives the lines of the plan, each listener the records of `metrics.jsonl`; nothing is printed otherwise.
    """
    began = time.monotonic()
    if launched():
        raise ConfigError(
            "train runs in a single process: start it without torchrun; for several devices, build a corpus with "
            "electra corpus and start torchrun -m electra pretrain"
        )
    with working_copy(out):
        names = names_of(sources)
        folder = local_path(out)
        plan, known = planned(names, hours=hours, out=folder, overrides=overrides, heldout=heldout, lowercase=lowercase)
        with held(folder):
            if not known:
                write_json(folder / PLAN, asdict(plan))
            _prepare(folder, plan, heldout, say)
        places = [text_override("data", folder / "corpus"), text_override("out", out if is_remote(out) else folder)]
        if begun(folder):  # settings that were changed with electra pretrain since then are kept
            return pretrain(load_config(folder, places), listeners)
        pieces = load_tokenizer(folder / "tokenizer").vocab_size  # may be less than requested, if the text is short
        plan = replace(plan, overrides=[*plan.overrides, f"model.vocab_size={pieces}"])
        spent = (time.monotonic() - began) / 3600
        if spent >= plan.hours:
            raise ConfigError(
                f"preparing the text took {written_time(spent)}, but the budget is {written_time(plan.hours)}; "
                "run the same command again to train on the prepared text"
            )
        hours_left = min(plan.hours - spent, plan.train_hours)
        return pretrain(plan.config(*places, f"train.hours={hours_left!r}"), listeners)


def _prepare(folder: Path, plan: Plan, heldout: float, say: Callable[[str], None]) -> None:
    """Build the vocabulary and the corpus unless they exist."""
    names = plan.sources  # spelled as in the first call, which is what the corpus stores
    building = Building(length=plan.config().train.length, heldout=heldout)
    for line in describe(plan):
        say(line)
    tokenizer_folder = folder / "tokenizer"
    if not _has_vocabulary(tokenizer_folder, plan):
        train_vocab(names, size=plan.vocab_size, out=tokenizer_folder, lowercase=plan.case == "uncased")
    tokenizer, report = load_tokenizer(tokenizer_folder), read_report(tokenizer_folder)
    say(f"{tokenizer_folder}: {tokenizer.vocab_size:,} pieces ({report.kind})")
    if (unknown := report.fertility.unknown_characters) > MOST_UNKNOWN:
        say(
            f"warning: {unknown:.1%} of the text is unknown to it; enlarge it with --set model.vocab_size=N, or "
            "train step by step, starting with electra vocab --model bpe"
        )
    corpus = _corpus(names, tokenizer, building, folder / "corpus")
    say(f"{folder / 'corpus'}: {corpus.manifest.tokens:,} tokens in {corpus.manifest.sequences:,} sequences")


def planned(
    names: list[str], *, hours: float, out: Path, overrides: Sequence[str], heldout: float, lowercase: bool
) -> tuple[Plan, bool]:
    """Return the plan for a text and whether it was made by an earlier call; raise if it cannot be trained."""
    check_place(out)
    place = out.absolute()
    for name in names:
        if place.is_relative_to(Path(name).expanduser().absolute()):
            raise ConfigError(f"{out} is inside {name} and would be read as text; choose another out")
    case: Case = "uncased" if lowercase else "cased"
    if plan := _recall(out, names, hours, overrides, case):
        return plan, True
    plan = make_plan(names, hours=hours, overrides=overrides, case=case)
    Building(length=plan.config().train.length, heldout=heldout)  # validates heldout
    corpus = out / "corpus"
    if (corpus / MANIFEST).is_file():
        same_length = open_corpus(corpus).manifest.length == plan.config().train.length
        if not same_length or not _has_vocabulary(out / "tokenizer", plan):
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
            return build_corpus(names, tokenizer, length=building.length, out=place, heldout=building.heldout)
    except DataError as problem:
        raise DataError(f"{problem}{_how_to_resume(place.parent)}") from None
    corpus = open_corpus(place)
    if corpus.manifest.heldout != building.heldout:
        raise DataError(f"{place} holds a corpus made with another heldout; choose another --out")
    return corpus


def _recall(folder: Path, names: list[str], hours: float, overrides: Sequence[str], case: Case) -> Plan | None:
    """Read the plan of an earlier call; None if there is none, or if it changed before the first update was saved."""
    path = folder / PLAN
    if not path.is_file():
        if (folder / "config.toml").is_file():
            raise CheckpointError(f"{folder} holds a run that train did not start (no {PLAN}); choose another out")
        return None
    try:
        plan = Plan(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise CheckpointError(f"{path} is truncated or from another version of electra; choose another out") from None
    differs = {
        "sources": [*map(os.path.abspath, plan.sources)] != [*map(os.path.abspath, names)],
        "hours": plan.hours != hours,
        "overrides": sorted(plan.overrides) != sorted(overrides),
        "case": plan.case != case,
        "text": plan.text_known and not begun(folder) and measure_text(names, Tally())[0] != plan.text_bytes,
    }
    changed = [name for name, different in differs.items() if different]
    if changed == ["text"] and not (folder / "corpus").exists():
        shutil.rmtree(folder / "tokenizer", ignore_errors=True)  # trained on the text of then
    if "sources" in changed or (changed and begun(folder)):
        raise ConfigError(
            f"{folder} was planned with different {' and '.join(changed)} ({getattr(plan, changed[0])}); "
            f"repeat them to resume, or choose another out{_how_to_resume(folder)}"
        )
    return None if changed else plan


def _how_to_resume(folder: Path) -> str:
    """Return a hint how to resume a started run without its text and its plan."""
    return f"; to continue this run: electra pretrain {folder / 'config.toml'} [train.hours=H]" if begun(folder) else ""
