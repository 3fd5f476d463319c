"""The parts of a fine-tuning, which may be done at the same time: each seed with each learning rate."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from electra.config.finetune import FinetuneConfig
from electra.config.load import load_finetune_config
from electra.data.storage import inside, is_remote
from electra.training.run import DIVERGED, Run


class Part(NamedTuple):
    """One seed with one learning rate."""

    run: int  # index in `runs_of`
    seed: int

    def describe(self, config: FinetuneConfig) -> str:
        """Return the seed, and the learning rate if there are several, in words."""
        rates = config.learning_rates
        return f"seed {self.seed}" + (f" with learning rate {rates[self.run]:g}" if rates else "")


@contextmanager
def in_parts(config: FinetuneConfig) -> Iterator[list[Part]]:
    """Lock the folder of a fine-tuning with a complete config and yield the parts left to do, for other processes.

    `finetune` then does the rest. In object storage there are no parts, since one process uploads a run.
    """
    assert config.out is not None
    with ExitStack() as locks:
        if not is_remote(config.out):
            folder = Path(config.out).expanduser()
            for place, one in {folder: config, **{place: one for one, place in runs_of(config, folder)}}.items():
                locks.enter_context(Run(place).open(one, load_finetune_config))
        yield parts_left(config)


def parts_left(config: FinetuneConfig) -> list[Part]:
    """Return the parts that are neither done nor given up."""
    assert config.out is not None
    if is_remote(config.out):
        return []
    runs = runs_of(config, Path(config.out).expanduser())
    parts = [(Part(index, seed), place) for index, (one, place) in enumerate(runs) for seed in one.seed_list]
    return [part for part, place in parts if not _is_over(result_of(place, part.seed))]


def runs_of(config: FinetuneConfig, folder: Path) -> list[tuple[FinetuneConfig, Path]]:
    """Return a config and a folder for each learning rate to try, or the ones given if there is only one rate."""
    runs = []
    for rate in config.learning_rates:
        place = folder / f"rate-{rate:g}"
        changes = {"learning_rate": rate, "learning_rates": [], "out": inside(config.out or "", place.name)}
        runs.append((config.model_copy(update=changes), place))
    return runs or [(config, folder)]


def result_of(run: Path, seed: int) -> Path:
    """Return where the result of a seed is stored."""
    return run / "seeds" / str(seed) / "result.json"


def has_diverged(config: FinetuneConfig, part: Part) -> bool:
    """Return whether a part was given up."""
    _, place = runs_of(config, Path(config.out or "").expanduser())[part.run]
    return (result_of(place, part.seed).parent / DIVERGED).is_file()


def _is_over(result: Path) -> bool:
    """Return whether a seed is done or has to be given up."""
    return result.is_file() or (result.parent / DIVERGED).is_file()
