"""Pre-training, top to bottom: corpora, objective, batches, evaluation, and the model folder at the end.

The loop that calls it is `electra.training.loop`; together they are all there is to a run.
"""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from electra.config.load import load_config
from electra.config.objectives import UnigramGenerator
from electra.config.schema import BUDGETS, PretrainConfig
from electra.data.checksums import is_already
from electra.data.feeding.batch import Batch
from electra.data.feeding.loader import Loader
from electra.data.files import atomic_folder
from electra.data.mix import mix
from electra.data.storage import inside, local_path, working_copy
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import CheckpointError, ConfigError, ElectraError
from electra.model import ops
from electra.model.body import Embeddings
from electra.model.networks import MaskedLM, TaskNetwork
from electra.model.pretrained import Pretrained, load, sentence_head
from electra.model.sentences import SentenceHead
from electra.objectives.base import Objective, Stage, Step
from electra.objectives.build import build_objective, objective_class
from electra.objectives.draws import Draws, draw
from electra.objectives.metrics import summarize
from electra.objectives.samples import Sample, take_samples
from electra.recipes.card import training_facts
from electra.recipes.convert import write_model
from electra.recipes.corpora import Corpora
from electra.recipes.flops import flops_per_token
from electra.recipes.hardware import fitting, matrix_peak, record_environment
from electra.recipes.plan import MOST_EPOCHS
from electra.recipes.verdict import doctor
from electra.training.checkpoint import make_checkpoints
from electra.training.loop import Every, Training, train
from electra.training.processes import Processes, joined
from electra.training.progress import watched
from electra.training.run import FIRST_STAGE, Listener, Record, Run, check_place, read_records, tell
from electra.training.schedule import length_at, total_steps
from electra.training.trackers import trackers
from electra.training.update import MicroBatches, Network

DRY = "the text runs dry"
FIXED = 20_200_323  # the seed of held-out masks: the same for every run, so that runs compare
SENTENCES = "sentences"  # how a model of sentence vectors, from which the run started, makes them
Input = tuple[Batch[Tensor], Draws]  # a micro-batch and the random numbers for it


def pretrain(config: PretrainConfig, listeners: Sequence[Listener] | None = None) -> Path:
    """Train as the config says, resume an interrupted run, and return the run's folder.

    Each listener receives the records of `metrics.jsonl`; by default, progress is shown in a terminal or a notebook.
    """
    if not config.data or config.out is None:
        raise ConfigError("pretrain needs data=CORPUS and out=RUN")
    with (
        joined(config.device) as processes,
        watched(listeners) as listeners,
        working_copy(config.out, pulls=processes.first_here, pushes=processes.first) as folder,
    ):
        check_division(config, processes)
        ops.prepare(processes.device)
        processes.wait()  # until every machine has the files of the run
        _pretrain(config, processes, listeners)
    return folder


def _pretrain(config: PretrainConfig, processes: Processes, listeners: Sequence[Listener]) -> None:
    corpora = Corpora(config)
    config = corpora.fit(config)
    if processes.first_here:  # on every machine: each may have copies of its own
        corpora.check_files()
    *before, last = objective_class(config.objective).stages(config.objective)
    final = Pretraining(config, last, corpora, processes, listeners)
    with final.opened():
        for stage in before if not final.checkpoints.hold_updates() else ():
            first = Pretraining(_stage_config(config, stage), stage, corpora, processes, listeners, final.command)
            with first.opened():
                first.work()
        final.work()
        if not final.trained:
            final.announce(final.spent())


def check_division(config: PretrainConfig, processes: Processes) -> None:
    """Raise an error unless the processes can divide every batch evenly."""
    if (size := config.train.at_once) % processes.world_size:
        key = "micro_batch_size" if config.train.micro_batch_size else "batch_size"
        raise ConfigError(
            f"{processes.world_size} processes cannot divide train.{key}={size} evenly; "
            "start another number of them, or change it"
        )


def smaller_batch(config: PretrainConfig, processes: Processes) -> int | None:
    """Return the next smaller size of micro-batches that the processes can divide evenly, if there is any."""
    rows = config.train.at_once // processes.world_size
    return next((part * processes.world_size for part in range(rows // 2, 0, -1) if rows % part == 0), None)


def check(config: PretrainConfig) -> PretrainConfig:
    """Return the config as `pretrain` would run it, or refuse what it would refuse."""
    if config.out is not None:
        check_place(local_path(config.out))
    return Corpora(config).fit(config) if config.data else config


class Pretraining(Training):
    """The pre-training of one stage: what the loop trains, on what, and what it writes."""

    def __init__(
        self,
        config: PretrainConfig,
        stage: Stage,
        corpora: Corpora,
        processes: Processes,
        listeners: Sequence[Listener],
        command: str | None = None,
    ) -> None:
        self.config, self.stage, self.corpora, self.processes = config, stage, corpora, processes
        self.listeners = listeners
        self.run = Run(local_path(config.out or ""), [*listeners, self._watch])
        self.command = command or f"electra pretrain {self.run.config}"  # resumes it, also if `electra train` began it
        self.checkpoints = make_checkpoints(self.run.folder / "checkpoints", config.checkpoint.keep, processes)
        self.every = Every(config.evaluate.every, config.checkpoint.every, config.log.every)
        self.remedy = (
            "lower train.learning_rate or raise train.warmup_steps, and resume from the last good checkpoint: "
            f"{self.command} train.learning_rate={config.train.learning_rate / stage.rate / 2:g}"
        )
        self.more_time = f"give it more time: {self.command} train.hours=H evaluate.batches=1"
        self.text_tokens = corpora.lasting_tokens(config.train.length)
        self.warnings = self._repetition()
        self.doctor = doctor(config)
        self.trained = False  # in this process
        self.samples: list[Sample] = []  # of the latest evaluation

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the run's folder; the first process does so for all."""
        refusal: Exception | None = None
        with ExitStack() as held:
            if self.processes.first:
                try:
                    held.enter_context(self.run.open(self.config, load_config))
                    self.run.check_inputs({"corpus": self.corpora.fingerprint()})
                    self.run.trackers = trackers(self.run.folder, self.config.log)
                except (ElectraError, OSError) as error:
                    refusal = error
            if self.processes.largest(float(refusal is not None)):
                raise refusal or CheckpointError(f"{self.run.folder}: the first process reports why it cannot start")
            yield

    def work(self) -> None:
        """Run the loop until the budget is spent."""
        if self.stage.announcement:
            self.announce(self.stage.announcement)
        if (self.run.folder / "model").is_dir() and not self.checkpoints.hold_updates():
            raise CheckpointError(f"{self.run.folder} has a model but no checkpoint to resume from; choose another out")
        size, smaller = self.config.train.at_once, smaller_batch(self.config, self.processes)
        advice = f"make them smaller: {self.command} train.micro_batch_size={smaller}"
        if smaller is None:
            advice = "choose a smaller model, with another out"
        with fitting(f"micro-batches of {size} x {self.config.train.length} tokens", advice):
            self.module = self._objective()
            self.heldout = self._heldout()
            if self.heldout and not self.checkpoints.hold_updates():
                self.announce("measuring the held-out loss before the first update")
            self.state = train(self, self.config.train, self.run, self.checkpoints, self.processes)

    def spent(self) -> str:
        """Return which budget a complete run has spent, and the command that trains it further."""
        budgets = {key: size for key in BUDGETS if (size := getattr(self.config.train, key)) is not None}
        ((key, size),) = budgets.items()
        spent = {"steps": self.state.step, "tokens": self.state.tokens, "hours": round(self.state.seconds / 3600, 4)}
        complete = f"the run was complete ({spent[key]} of train.{key}={size}), so nothing was trained"
        return f"{complete}; to train it further: {self.command} train.{key}={round(2 * max(spent[key], size), 4)}"

    def announce(self, what: str) -> None:
        """Show a line of progress."""
        tell(self.listeners if self.processes.first else (), {"step": 0, "detected": what})

    def _objective(self) -> Objective:
        """Build the objective; a new run starts from the stage before, from `init` or from random weights."""
        config, stage_before = self.config, self.run.folder / FIRST_STAGE
        resumed, continued = self.checkpoints.hold_updates(), stage_before.is_dir() or config.init is not None
        from_text = config.embeddings == "cooccurrence" and not resumed and not continued
        pairs = self._token_pairs() if from_text else None  # counted while networks are built
        torch.manual_seed(mix(config.seed))
        unigram = isinstance(getattr(config.objective, "generator", None), UnigramGenerator)
        counts = self.corpora.token_counts(config.model.vocab_size) if unigram else None
        objective = build_objective(config.objective, config.model, self.corpora.tokenizer, counts)
        if resumed:
            return objective
        if stage_before.is_dir():
            objective.adopt(load(stage_before, device="cpu"))
        elif config.init is not None:
            model = load(config.init, device="cpu")
            self.warnings += [f"{config.init} {lack}" for lack in objective.adopt(model)]
            if self.processes.first and (head := sentence_head(model.network)):
                head.save(self.run.folder / SENTENCES, head.longest)
        elif pairs:
            for table in objective.modules():
                if isinstance(table, Embeddings) and table.source is table:
                    table.start_from(pairs.result())
        return objective

    def _token_pairs(self) -> Future[Tensor]:
        """Count which tokens follow each other: on a GPU, unless there are several, which might round differently."""
        one_gpu = self.processes.device.type == "cuda" and self.processes.world_size == 1
        return self.corpora.token_pairs(self.config.model.vocab_size, self.processes.device if one_gpu else "cpu")

    def begin(self) -> None:
        self.trained = True
        if self.processes.first:
            self.run.write_config(self.config)
            record_environment(self.run.folder, self.processes)

    def updates(self, step: int) -> Iterator[tuple[int, MicroBatches]]:
        train = self.config.train
        loader = Loader(
            self.corpora,
            batch_size=train.at_once,
            seed=self.config.seed,
            weights=self.config.data_weights,
            rank=self.processes.rank,
            world_size=self.processes.world_size,
            device=self.processes.device,
        )
        stream = loader.batches(step * train.micro_batches)
        for update in itertools.count(step):
            yield train.batch_size * train.length, _Counted(train.micro_batches, self._inputs(stream, update))

    def _inputs(self, stream: Iterator[Batch[Tensor]], step: int) -> Iterator[Input]:
        rank, ranks, train = self.processes.rank, self.processes.world_size, self.config.train
        for micro in range(step * train.micro_batches, (step + 1) * train.micro_batches):
            batch = _cut_to(next(stream), length_at(train, step))
            draws = draw(self.config.seed, micro, *batch.ids.shape, part=rank, parts=ranks, device=batch.ids.device)
            torch.manual_seed(mix(self.config.seed, micro, rank))  # for dropout
            yield batch, draws

    @torch.no_grad()
    def evaluate(self, network: Network) -> dict[str, float]:
        """Measure on held-out text with the same masks and samples each time, without dropout; each process a share."""
        if self.heldout is None:
            return {}
        objective: Any = self.module.eval()
        measured: list[tuple[Step, Tensor]] = []  # each with its share
        parts = self.config.train.batch_size // self._heldout_rows  # of a batch
        for micro in range(self.processes.rank, self.config.evaluate.batches * parts, self.processes.world_size):
            batch = self.heldout.batch(micro)
            number, part = divmod(micro, parts)
            draws = draw(FIXED, number, *batch.ids.shape, part=part, parts=parts, device=batch.ids.device)
            step = network(batch, draws)
            if micro == 0:
                self.samples = take_samples(step, batch, self.corpora.tokenizer)
            measured.append((replace(step, shown=step.shown[:0]), objective.share(batch, draws)))
        self.module.train()
        by_rank = self.processes.gathered(tuple(measured))
        in_order = [pair for turn in zip(*by_rank, strict=True) for pair in turn]
        steps, shares = [step for step, _ in in_order], [share.item() for _, share in in_order]
        return self.processes.shared(summarize(steps, shares) if steps else {})

    def _heldout(self) -> Loader | None:
        counts = [corpus.sequences("heldout") for corpus in self.corpora]
        measured = [number for number, count in enumerate(counts) if count]  # a corpus may hold nothing out
        if not measured:
            self.warnings.append(
                "no text is held out, so the model is not measured on new text: there is only one sequence, or the "
                "corpus was built with --heldout 0"
            )
            return None
        weights = self.config.data_weights
        return Loader(
            [self.corpora[number] for number in measured],
            batch_size=min(sum(counts), self._heldout_rows),
            seed=FIXED,
            split="heldout",
            weights=weights and [weights[number] for number in measured],
            device=self.processes.device,
        )

    @property
    def _heldout_rows(self) -> int:
        """Sequences of a held-out micro-batch: as many at once as in training."""
        return self.config.train.at_once // self.processes.world_size

    def metrics(self, result: Step, tokens_per_second: float) -> dict[str, float]:
        found = summarize([result])
        if self.processes.device.type == "cuda" and self._flops_per_token.done() and self._peak:
            flops = tokens_per_second * self._flops_per_token.result()
            found["peak_share"] = flops / self._peak / self.processes.world_size
        return found

    @cached_property
    def _flops_per_token(self) -> Future[float]:
        """Counted in the background after the first update, which would wait for it: the imports alone take seconds."""
        return ThreadPoolExecutor(1).submit(flops_per_token, self.config)

    @cached_property
    def _peak(self) -> float | None:
        return matrix_peak(self.processes.device)

    def finish(self) -> None:
        """Write the model folder: the main network, and the generator where Hugging Face has a class for it."""
        tokenizer, length, objective = self.corpora.tokenizer, self.config.train.length, cast(Objective, self.module)
        if self.config.init is not None:  # a model that has learned longer sequences still knows them
            length = max(length, tokenizer.longest or 0)
        model = trained_model(objective, tokenizer.of_length(length))
        if (self.run.folder / SENTENCES).is_dir():
            head = SentenceHead.read(self.run.folder / SENTENCES, self.config.model)
            network = TaskNetwork(model.encoder, head)
            model = Pretrained(network, model.tokenizer, model.generator, corrector=model.corrector)
        with atomic_folder(self.run.folder / "model", overwrite=True, unless=is_already) as folder:
            write_model(model, folder, facts=training_facts(self.run.folder))

    def _watch(self, record: Record) -> None:
        """Store the samples of an evaluation, and warn of metrics that show a problem."""
        if "heldout_loss" in record:
            self.run.show({"step": record["step"], "samples": [asdict(sample) for sample in self.samples]})
        for warning in self.doctor.diagnose(record) + self._too_often(record):
            if (kind := warning.partition(":")[0]) not in self.warned:
                self.warned.add(kind)
                self.run.report({"step": record["step"], "warning": warning})

    @cached_property
    def warned(self) -> set[str]:
        """The kinds of warnings that the run has had, also before it was resumed."""
        return {record["warning"].partition(":")[0] for record in read_records(self.run.metrics) if "warning" in record}

    def _repetition(self) -> list[str]:
        """Warn of text that will be read too often; for a budget in hours this shows only on the way."""
        train = self.config.train
        epochs = (total_steps(train) or 0) * train.batch_size * train.length / max(self.text_tokens, 1)
        if epochs <= MOST_EPOCHS:
            return []
        return [f"{DRY}: it will be read {epochs:.0f} times; use more text or fewer steps"]

    def _too_often(self, record: Record) -> list[str]:
        """Warn of text that was read too often."""
        if record.get("tokens", 0) <= MOST_EPOCHS * self.text_tokens:
            return []
        return [f"{DRY}: it was read {MOST_EPOCHS} times; use more text or fewer hours"]


@dataclass(frozen=True)
class _Counted:
    """Inputs that are made one at a time, each right before it is used: dropout depends on it."""

    count: int
    inputs: Iterator[Input]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Input]:
        return self.inputs


def trained_model(objective: Objective, tokenizer: Tokenizer) -> Pretrained:
    """Return the networks of an objective that are kept, with embeddings of their own."""
    generator = objective.generator if isinstance(objective.generator, MaskedLM) else None
    return Pretrained(objective.network.plain(), tokenizer, generator, corrector=getattr(objective, "corrector", None))


def _stage_config(config: PretrainConfig, stage: Stage) -> PretrainConfig:
    """Return the run of a stage before the last, in a folder of its own."""
    train = config.train.model_copy(update={"learning_rate": config.train.learning_rate * stage.rate})
    out = inside(config.out or "", FIRST_STAGE)
    return config.model_copy(update={"objective": stage.objective, "train": train, "out": out})


def _cut_to(batch: Batch[Tensor], length: int) -> Batch[Tensor]:
    """Cut each sequence into pieces of a length that divides its own."""
    if batch.ids.size(1) == length:
        return batch
    attention, types = (None if part is None else part.reshape(-1, length) for part in (batch.attention, batch.types))
    return Batch(batch.ids.reshape(-1, length), attention, types)
