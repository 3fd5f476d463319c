"""Fine-tune on a suite of tasks, compare with published scores and write a submission for GLUE."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from electra.config.finetune import FinetuneConfig
from electra.config.keys import known_keys
from electra.config.load import load_finetune_config, text_override
from electra.data.cluster import absolute
from electra.data.files import write_json
from electra.data.reading.sources import names_of
from electra.data.storage import inside, is_remote, local_path, working_copy
from electra.errors import ConfigError, DataError, Diverged, TaskError
from electra.model.pretrained import Pretrained, load
from electra.recipes.evaluate import evaluate
from electra.recipes.finetune import finetune
from electra.recipes.results import Results, constant_seeds, percent, rates_tried
from electra.recipes.together import Planned, finetune_in_cluster, finetune_together
from electra.recipes.tuning import complete, with_head
from electra.tasks.base import Notes
from electra.tasks.build import TASKS, build_task, find_task
from electra.tasks.texts.glue import TASKS as BENCHMARKS
from electra.training.capture import nothing_collected
from electra.training.run import Listener, check_names, tell

PRESET = "glue"
SCORES, SUBMISSION = "suite.json", "submission.zip"
SUITE = "cola sst-2 mrpc sts-b qqp mnli qnli rte wnli squad-1.1 squad-2.0 chunking".split()
AVERAGED = "cola sst-2 mrpc sts-b qqp mnli qnli rte".split()  # as in the papers, which leave WNLI out
COMPARED = {"squad-1.1": "exact", "squad-2.0": "best_exact"}  # as published; otherwise the task's own metric
PUBLISHED = {  # medians of many seeds on dev (chunking: test), from the README of the released models
    256: {
        "ELECTRA-Small++": "cola 57.0 sst-2 91.2 mrpc 88.0 sts-b 87.5 qqp 89.0 mnli 81.3 qnli 88.4 rte 66.7 "
        "squad-1.1 75.8 squad-2.0 70.1 chunking 96.5",
        "Small-OWT": "cola 56.8 sst-2 88.3 mrpc 87.4 sts-b 86.8 qqp 88.3 mnli 78.9 qnli 87.9 rte 68.5",
    },
    768: {
        "ELECTRA-Base": "cola 67.7 sst-2 95.1 mrpc 89.5 sts-b 91.2 qqp 91.5 mnli 88.8 qnli 93.2 rte 82.7 "
        "squad-1.1 86.8 squad-2.0 80.5 chunking 97.1"
    },
    1024: {
        "ELECTRA-Large": "cola 69.1 sst-2 96.9 mrpc 90.8 sts-b 92.6 qqp 92.4 mnli 90.9 qnli 95.0 rte 88.0 "
        "squad-1.1 89.7 squad-2.0 88.1 chunking 97.2"
    },
}


@dataclass(frozen=True)
class Score:
    """A task's score next to the published ones."""

    task: str
    metric: str
    score: float  # median, in percent
    std: float
    seeds: int
    protocol: str
    published: dict[str, float]  # by model
    notes: str  # the task's own metric if it is another one, and why the score is not directly comparable


@dataclass(frozen=True)
class Suite:
    """All scores, and why the other tasks were skipped."""

    model: str
    scores: list[Score]
    skipped: dict[str, str]
    submission: dict[str, str]  # files in the submission by task, or why there are none


class Finished(NamedTuple):
    """A fine-tuned task."""

    score: Score
    files: dict[str, str]  # predictions to submit
    submission: dict[str, str]  # their names by test set, or why there are none


@dataclass(frozen=True)
class Plan:
    """The tasks by name, and why the others are skipped."""

    tasks: dict[str, Planned]
    skipped: dict[str, str]
    width: int  # of the model


def glue(
    model: str | Path,
    data: str | Path | Sequence[str | Path],
    out: str | Path,
    overrides: Sequence[str] = (),
    tasks: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
    together: int = 1,
    cluster: str | None = None,
) -> Suite:
    """Fine-tune a model on every task found in the folders, or on the named ones; the same call again resumes.

    An override of the form TASK.KEY=VALUE applies only to that task. `together` is the number of seeds, of one task or
    several, that train at the same time on one GPU, in worker processes. `cluster` is the address of a Ray cluster, or
    `auto`, that runs the tasks.
    """
    names = names_of(data)
    if cluster and together > 1:
        raise ConfigError("together is for one machine; drop it, or cluster")
    if cluster:
        model, names, out = absolute(model), [*map(absolute, names)], out if is_remote(out) else Path(out).resolve()
    plan = plan_suite(str(model), names, out, overrides, tasks)

    def finish(results: Results) -> Finished:
        with working_copy(inside(out, results["task"]), pushes=False) as run:
            return Finished(_score(results, plan.width), *_test_files(results["task"], run))

    if cluster:
        finished = finetune_in_cluster(plan.tasks, finish, cluster, listeners)
    elif together > 1:
        finished = finetune_together(plan.tasks, finish, together, listeners)
    else:
        finished = list(_one_by_one(plan.tasks, finish, listeners))
    submission = {name: status for task in finished for name, status in task.submission.items()}
    suite = Suite(str(model), [task.score for task in finished], plan.skipped, submission)
    with working_copy(out) as folder:
        _submit(folder, {file: text for task in finished for file, text in task.files.items()})
        write_json(folder / SCORES, asdict(suite))
    return suite


def plan_suite(model: str, data: list[str], out: str | Path, overrides: Sequence[str], tasks: Sequence[str]) -> Plan:
    """Read the files of every task, or of the named ones, and return the tasks found with their settings."""
    for name in tasks:
        find_task(name)
    folder = local_path(out)
    if not (folder / SCORES).is_file():
        check_names(folder, [*TASKS, SUBMISSION], "a suite of runs")
    start = load(model, device="cpu")
    found: dict[str, Planned] = {}
    skipped: dict[str, str] = {}
    for name in tasks or SUITE:
        try:
            with nothing_collected():
                found[name] = _find(name, model, start, data, out if is_remote(out) else folder, overrides)
        except (TaskError, DataError) as problem:
            if name in tasks:
                raise
            skipped[name] = str(problem)
    if not found:
        name, why = next(iter(skipped.items()))
        raise TaskError(f"no task found in {', '.join(data)}; for example, {name}: {why}")
    return Plan(found, skipped, start.encoder.config.hidden_size)


def _one_by_one(
    tasks: Mapping[str, Planned], finish: Callable[[Results], Finished], listeners: Sequence[Listener]
) -> Iterator[Finished]:
    for name, task in tasks.items():
        tell(listeners, {"detected": f"task {name}"})
        yield finish(finetune(task.config, listeners))


def _find(
    name: str, model: str, start: Pretrained, data: list[str], out: str | Path, overrides: Sequence[str]
) -> Planned:
    """Plan a task with the first folder that has its files."""
    problem: TaskError | DataError | None = None
    for place in data:
        places: dict[str, str | Path] = {"model": model, "data": place, "out": inside(out, name)}
        keys = [f"task={name}", *(text_override(*setting) for setting in places.items()), *_for_task(name, overrides)]
        try:
            config = load_finetune_config(PRESET, keys)
            if (config.task, config.out) != (name, places["out"]):
                raise ConfigError("task and out cannot be set here; use --task and --out instead")
            task = build_task(config)  # reads the tags of a tagging task
            train, dev = len(task.read("train", Notes())), len(task.read("dev", Notes()))
        except (TaskError, DataError) as found:
            problem = problem or found
            continue
        return Planned(complete(with_head(config, start), task, start.encoder.config), train, dev)
    raise problem or ConfigError("no data folder given; name at least one with --data DIR")


def _for_task(name: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides that apply to a task, its own last; `similarity.chunk=64` is a config key, not its own."""
    known = known_keys(FinetuneConfig)
    common: list[str] = []
    own: list[str] = []
    for override in overrides:
        is_key = override.partition("=")[0].strip() in known
        task = None if is_key else next((task for task in TASKS if override.startswith(f"{task}.")), None)
        if task is None:
            common.append(override)
        elif task == name:
            own.append(override.removeprefix(f"{name}."))
    return common + own


def published(task: str, width: int) -> dict[str, float]:
    """Return the published scores of a task, by model, for networks of this width."""
    tables = {model: text.split() for model, text in PUBLISHED.get(width, {}).items()}
    scores = {model: dict(zip(words[::2], map(float, words[1::2]), strict=True)) for model, words in tables.items()}
    return {model: found[task] for model, found in scores.items() if task in found}


def _score(results: Results, width: int) -> Score:
    task, seeds = results["task"], len(results["seeds"])
    metric: str = COMPARED.get(task) or results["metric"]
    score, std = (round(100 * results[kind][metric], 2) for kind in ("median", "std"))
    return Score(task, metric, score, std, seeds, results["protocol"], published(task, width), _notes(results, metric))


def _notes(results: Results, shown: str) -> str:
    own = results["metric"]
    constant, seeds, rates = constant_seeds(results), len(results["seeds"]), rates_tried(results)
    notes = {
        f"{own} {percent(own, results['median'][own])}": own != shown,
        f"trained on {results['train_file']}": results["train_file"],
        f"scored on {results['dev_file']}": results["dev_file"],
        f"start {results['start']}": results["start"] != "pretrained",
        f"best of {rates} rates": rates,
        "early stopping on dev": results["early_stopping"],
        f"constant predictions in {constant} of {seeds} seeds": constant,
    }
    return ", ".join(note for note, applies in notes.items() if applies)


def _test_files(task: str, run: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Predict the test sets of a task of GLUE; return the files to submit, and for each set their names or why none."""
    files: dict[str, str] = {}
    outcome: dict[str, str] = {}
    if task not in BENCHMARKS:
        return files, outcome
    for name in (task, "ax") if task == "mnli" else (task,):
        try:
            found = evaluate(run, [f"task={name}"], "test").files
        except (TaskError, DataError, Diverged) as problem:
            outcome[name] = str(problem)
            continue
        glue_files = {file: text for file, text in found.items() if file.endswith(".tsv")}
        files |= glue_files
        outcome |= {name: ", ".join(glue_files)} if glue_files else {}
    torch.cuda.empty_cache()  # leaves the memory to the tasks that train
    return files, outcome


def _submit(folder: Path, files: Mapping[str, str]) -> None:
    """Write the predictions for GLUE's test files into one archive."""
    if files:
        with zipfile.ZipFile(folder / SUBMISSION, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, text in files.items():
                archive.writestr(file, text)
