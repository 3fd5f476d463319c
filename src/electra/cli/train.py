"""`electra train`: train a model on text within a time budget."""

from functools import partial
from typing import Annotated, Any

from typer import Argument, Option, echo

from electra.cli.options import Cased, Heldout, Invalid, Quiet
from electra.cli.outcome import show_outcome
from electra.data.settings import Building, Reading, Vocabulary
from electra.errors import ConfigError

EXAMPLES = (
    "electra train my_texts/ --hours 1 --out runs/mine",
    "electra train my_domain/ --hours 2 --init hf/small --out runs/domain --dry-run",
)


def train(
    sources: Annotated[list[str], Argument(metavar="TEXT", help="Files, folders, globs, URLs, or a hub dataset.")],
    hours: Annotated[float, Option(metavar="H", help="Wall-clock time for the entire run, such as 0.5 or 12.")],
    out: Annotated[str, Option(metavar="RUN", help="Run folder to write.")],
    overrides: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Config key to set, overriding the plan; repeatable."),
    ] = None,
    heldout: Heldout = Building.heldout,
    lowercase: Cased = Vocabulary.lowercase,
    invalid: Invalid = Reading.invalid,
    init: Annotated[
        str | None,
        Option(
            metavar="MODEL", help="Continue this ELECTRA, BERT or ModernBERT: run, Hugging Face folder or hub name."
        ),
    ] = None,
    new_vocabulary: Annotated[
        bool, Option("--new-vocabulary", help="Give MODEL a vocabulary of TEXT, for another language.")
    ] = False,
    old_text: Annotated[
        list[str] | None, Option(metavar="TEXT", help="Text that MODEL knows: measure what it forgets; repeatable.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan and exit.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on text within a time budget.

    Trains a vocabulary, builds a corpus, plans for the machine and the time, and pre-trains. With --init, continues a
    model instead. Run the same command again to resume. RUN/model is a Hugging Face folder.
    """
    from electra.config.keys import known_keys
    from electra.config.schema import PretrainConfig
    from electra.data.storage import local_path
    from electra.recipes.plan import describe
    from electra.recipes.train import planned
    from electra.recipes.train import train as run
    from electra.training.progress import LiveLine

    if settings := [name for name in sources if "=" in name and name.partition("=")[0] in known_keys(PretrainConfig)]:
        raise ConfigError(f"{settings[0]} is a setting, not text; give it as --set {settings[0]}")
    chosen: dict[str, Any] = {"hours": hours, "overrides": overrides or [], "heldout": heldout}
    chosen |= {"lowercase": lowercase, "invalid": invalid, "init": init, "new_vocabulary": new_vocabulary}
    if dry_run:
        from electra.data.tokens.vocab import preview_vocab

        say = (lambda line: None) if quiet else partial(echo, err=True)
        plan, _ = planned(sources, out=local_path(out), say=say, **chosen)
        echo("\n".join(describe(plan)))
        if plan.trains_vocabulary:
            vocabulary = Vocabulary(plan.vocab_size, lowercase=lowercase, reading=Reading(invalid=invalid))
            echo(f"vocabulary  {preview_vocab(sources, vocabulary).kind} (judging by the first megabyte of text)")
        return
    with LiveLine(quiet) as live:
        run(sources, out=out, listeners=[live], say=echo, old_text=old_text or (), **chosen)
    show_outcome(out)
