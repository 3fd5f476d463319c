"""Run the cases of a campaign, resume it, and count its verdicts."""

import argparse
import csv
import gc
import importlib
import json
import multiprocessing
import os
import pkgutil
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from faults import cluster, disk
from faults.case import Case
from faults.commands import COMMANDS, Command
from faults.faults import FAULTS, Fault
from faults.reference import WORLD, Measured, build_reference
from faults.verdicts import VERDICTS, Finding, Judged

CASES = "cases.jsonl"
UNUSED = ("kernels", "__main__", "bench", "demo", "probe", "playground.page")  # modules that no command here imports
LATE = ("filelock", "fsspec.implementations.local", "pydantic.type_adapter", "rich.status", "seqeval.metrics")
ENVIRONMENT = {  # one thread, so that forks are safe; no GPU and no network
    **{"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"},
    **{"COLUMNS": "80", "NO_COLOR": "1"},
    "ELECTRA_CACHE": "cache",  # in the folder of the case
    "ONEDNN_JIT_PROFILE": "0",  # else oneDNN leaves a file in /tmp for each process
}


@dataclass(frozen=True)
class Finished:
    """A line of cases.jsonl."""

    seed: int
    command: str
    fault: str
    verdict: str
    detail: str
    done: str
    seconds: float


def prepare() -> None:
    """Import everything once, before the first fork."""
    os.environ.update(ENVIRONMENT)
    import torch

    import electra

    torch.set_num_threads(1)
    # With little memory it would choose kernels that round differently.
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    for module in pkgutil.walk_packages(electra.__path__, "electra."):
        if not any(part in module.name for part in UNUSED):
            importlib.import_module(module.name)
    for name in LATE:  # libraries that commands import when they need them
        importlib.import_module(name)
    from electra.config.load import load_config
    from electra.data import files
    from electra.data.corpus import workers
    from electra.recipes import speed
    from electra.recipes.flops import flops

    flops(load_config("tiny"))  # imports much of torch
    speed.SECONDS = 0.05  # of the measurement before `electra train`
    files.PATIENCE = 0.5  # seconds for a pipe
    vars(workers)["available_cores"] = lambda: 0  # only `--workers` starts processes
    gc.freeze()  # forks share the memory that no collection touches


@contextmanager
def usual_reference(folder: Path) -> Iterator[dict[str, Measured]]:
    """Run every command once, or read what an earlier campaign measured."""
    yield build_reference(folder / "reference")


@dataclass(frozen=True)
class Suite:
    """Commands, the faults that they face, and the reference that they are compared with."""

    commands: Sequence[Command]
    faults: Sequence[Fault]
    reference: Callable[[Path], AbstractContextManager[dict[str, Measured]]] = usual_reference
    folder: str = ""  # of all cases, if they need the same


SUITES = {
    "usual": Suite(COMMANDS, FAULTS),
    "disk": Suite(COMMANDS, disk.FAULTS),
    "cluster": Suite(cluster.COMMANDS, cluster.FAULTS, cluster.reference_on_cluster, cluster.FOLDER),
}


def combinations(suite: Suite) -> list[tuple[Command, Fault]]:
    """Return each command with each fault that suits it, in an order that has all of both as early as possible."""
    left = {command.name: [fault for fault in suite.faults if fault.suits(command)] for command in suite.commands}
    found: list[tuple[Command, Fault]] = []
    used: Counter[str] = Counter()
    while any(left.values()):
        for command in suite.commands:
            if faults := left[command.name]:
                rarest = min(faults, key=lambda fault: used[fault.name])
                faults.remove(rarest)
                used[rarest.name] += 1
                found.append((command, rarest))
    return found


def run_case(
    seed: int, reference: dict[str, Measured], folder: Path, suite: str = "usual", verbose: bool = False
) -> Finished:
    """Judge the command and the fault of a seed; `verbose` prints each outcome and keeps the folder."""
    chance, known = random.Random(seed), combinations(SUITES[suite])
    command, fault = known[seed % len(known)]
    place, began = folder / "work" / (SUITES[suite].folder or str(seed)), time.monotonic()
    case = Case(command, reference[command.name], folder / "reference" / WORLD, place, chance)
    try:
        judged = fault.judge(case)
    except Finding as finding:
        judged = Judged("finding", str(finding))
    if verbose:
        print(place, "electra", *(word[:200] for word in case.argv))
        print(*case.outcomes, sep="\n")
    else:
        shutil.rmtree(place)
    seconds = round(time.monotonic() - began, 3)
    return Finished(seed, command.name, fault.name, judged.verdict, judged.detail, "; ".join(case.log), seconds)


def campaign(seeds: Sequence[int], folder: Path, workers: int = 1, suite: str = "usual") -> Iterator[Finished]:
    """Run the cases that are not yet in cases.jsonl, in any order; yield each once it is."""
    known = {finished.seed for finished in read_cases(folder)}
    todo = [seed for seed in seeds if seed not in known]
    with SUITES[suite].reference(folder) as reference:
        judge = partial(run_case, reference=reference, folder=folder, suite=suite)
        with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
            for finished in pool.map(judge, todo):
                with (folder / CASES).open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(finished)) + "\n")
                yield finished


def read_cases(folder: Path) -> list[Finished]:
    """Read the finished cases; the last line may be incomplete."""
    path = folder / CASES
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return [Finished(**json.loads(line)) for line in lines if line.endswith("\n")]


def count(cases: Sequence[Finished], *columns: str) -> list[list[str]]:
    """Return a table of the verdicts by some columns, such as the command or the fault, and of all cases."""
    kinds: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for case in cases:
        for kind in (tuple(getattr(case, name) for name in columns), ("all",) * len(columns)):
            kinds[kind][case.verdict] += 1
    rows = sorted(kinds.items(), key=lambda row: (row[0][0] == "all", row[0]))  # the sums are the last row
    return [
        [*columns, "cases", *VERDICTS],
        *([*kind, str(found.total()), *(str(found[verdict]) for verdict in VERDICTS)] for kind, found in rows),
    ]


def write_tables(folder: Path) -> None:
    """Write the counts as CSV for the ledger."""
    cases = read_cases(folder)
    for name, columns in {"faults": ["fault"], "commands": ["command"], "both": ["command", "fault"]}.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(count(cases, *columns))


def main() -> None:
    """Run a campaign or a single case; exit with 1 if there are findings."""
    parser = argparse.ArgumentParser(description="Run commands under faults.")
    parser.add_argument("--cases", type=int, default=300, help="number of cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    parser.add_argument("--workers", type=int, default=1, help="cases at a time")
    parser.add_argument("--case", type=int, help="run only the case of this seed, and keep its folder")
    parser.add_argument("--suite", choices=SUITES, default="usual", help="what is run; a folder holds one suite")
    parser.add_argument("--out", type=Path, required=True, help="folder of the campaign")
    given = parser.parse_args()
    folder = given.out.absolute()
    prepare()
    if given.case is not None:
        with SUITES[given.suite].reference(folder) as reference:
            found = run_case(given.case, reference, folder, given.suite, verbose=True)
        print(json.dumps(asdict(found), indent=1, ensure_ascii=False))
        return
    seeds = range(given.seed, given.seed + given.cases)
    for finished in campaign(seeds, folder, given.workers, given.suite):
        if finished.verdict == "finding":
            print(
                f"{finished.seed}: {finished.command}: {finished.fault} ({finished.done}): {finished.detail}",
                flush=True,
            )
    write_tables(folder)
    cases = read_cases(folder)
    for row in count(cases, "fault"):
        print("  ".join(f"{cell:>20}" for cell in row))
    raise SystemExit(any(case.verdict == "finding" for case in cases))
