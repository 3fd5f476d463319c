"""Pre-training, whole: corpora, objective, loop, and the model folder in the end."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from electra.config.load import load_config
from electra.config.schema import ElectraObjective, MLMObjective, PretrainConfig, UnigramGenerator
from electra.data.corpus.shards import Corpus, open_corpus
from electra.data.feeding.batch import Batch
from electra.data.feeding.loader import Loader
from electra.data.files import atomic_folder
from electra.data.mix import mix
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.errors import CheckpointError, ConfigError, ElectraError
from electra.model.networks import MaskedLM, plain_encoder
from electra.model.pretrained import Pretrained, fits_vocabulary, load
from electra.objectives.base import Objective, Step, real_share
from electra.objectives.build import build_objective
from electra.objectives.doctor import diagnose
from electra.objectives.draws import Draws, draw
from electra.objectives.metrics import summarize
from electra.objectives.samples import Sample, take_samples
from electra.objectives.two_stage import FrozenGeneratorRTD
from electra.recipes.card import training_facts
from electra.recipes.convert import write_model
from electra.recipes.flops import training_flops
from electra.recipes.hardware import fitting, matrix_peak, record_environment
from electra.recipes.initialise import check_vocabulary, initialise
from electra.recipes.plan import MOST_EPOCHS
from electra.training.checkpoint import Checkpoints
from electra.training.loop import Job, train
from electra.training.optim import Factor
from electra.training.processes import Processes, joined
from electra.training.run import Listener, Record, Run, check_place, read_records
from electra.training.schedule import length_at, micro_batches, micro_batches_before, total_steps
from electra.training.trackers import trackers
from electra.training.update import Network

DRY = "the text runs dry"
FIXED = 20_200_323  # the seed of held-out masks: the same for every run, so that points compare
Input = tuple[Batch[Tensor], Draws]  # a micro-batch and the random numbers for it


def pretrain(config: PretrainConfig, listeners: Sequence[Listener] = ()) -> Path:
    """Train as the config says, going on where an interrupted run stopped; the run's folder is given back."""
    if not config.data or config.out is None:
        raise ConfigError("pretrain needs data=CORPUS and out=RUN")
    with joined(config.device) as processes:
        whole = _Pretraining(config, processes, list(listeners))
        with whole.opened():  # a first stage lies in its folder
            first = _first_stage(config)
            if first is not None and not whole.checkpoints.hold_updates():
                stage = _Pretraining(first, processes, list(listeners), whole=config)
                with stage.opened():
                    stage.tell("the first of two stages: a masked LM")
                    stage.work()
            if first is not None:
                whole.tell("the second of two stages: the discriminator starts from it")
            whole.work()
    return Path(config.out)


def check(config: PretrainConfig) -> None:
    """Refuse a corpus and a folder for the run, where they are named, that `pretrain` would refuse."""
    if config.out is not None:
        check_place(Path(config.out))
    for path in _folders(config) if config.data else ():
        corpus = open_corpus(path)
        _check_corpus(config, corpus, load_tokenizer(corpus.path / "tokenizer"))


class _Pretraining:
    def __init__(
        self,
        config: PretrainConfig,
        processes: Processes,
        listeners: list[Listener],
        whole: PretrainConfig | None = None,
    ) -> None:
        self.config, self.processes, self.listeners = config, processes, listeners
        self.whole = whole or config  # what was asked for, of which this may be a stage
        assert config.out is not None
        assert self.whole.out is not None
        self.again = f"electra pretrain {Path(self.whole.out, 'config.toml')}"  # also where `electra train` began it
        self.corpora = [open_corpus(path) for path in _folders(config)]
        self.tokenizer = load_tokenizer(self.corpora[0].path / "tokenizer")
        _check_corpus(config, self.corpora[0], self.tokenizer)
        self.run = Run(Path(config.out), [*listeners, self._watch])
        self.checkpoints = Checkpoints(self.run.folder / "checkpoints", config.checkpoint.keep)
        self.text_tokens = _lasting_tokens(config, self.corpora)
        self.dry = False  # whether it is known to have been read too often
        self.warnings = self._repetition()
        self.samples: list[Sample] = []  # of the latest evaluation

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the run's folder, which the first of the processes does for all."""
        refusal: Exception | None = None
        with ExitStack() as held:
            if self.processes.first:
                try:
                    held.enter_context(self.run.open(self.config, load_config))
                    self.run.check_inputs({"corpus": " ".join(corpus.fingerprint for corpus in self.corpora)})
                    self.run.listeners += trackers(self.run.folder, self.config.log)
                except (ElectraError, OSError) as error:
                    refusal = error
            if self.processes.largest(float(refusal is not None)):
                raise refusal or CheckpointError(f"{self.run.folder}: the first process says why it does not begin")
            yield

    def tell(self, what: str) -> None:
        """Tell the listeners what comes now."""
        for listener in self.listeners if self.processes.first else ():
            listener({"step": 0, "detected": what})

    def work(self) -> None:
        """Run the loop until the budget is spent."""
        size = self.config.train.smallest_batch
        halved = f"{self.again} train.micro_batch_size={max(1, size // 2)}"
        with fitting(f"micro-batches of {size} x {self.config.train.length} tokens", f"halve them: {halved}"):
            self._train()

    def _train(self) -> None:
        config = self.config
        if (self.run.folder / "model").is_dir() and not self.checkpoints.hold_updates():
            raise CheckpointError(
                f"{self.run.folder} holds a model but no checkpoint to go on from; choose another out"
            )
        self.objective = self._objective().to(self.processes.device)
        self.loader, self.heldout = self._loader(), self._heldout()
        flops = training_flops(config.model, config.objective, config.train.length)
        job: Job[Step] = Job(
            module=self.objective,
            factor=_factor(self.objective, config),
            weigh=lambda batch, draws: real_share(batch),
            updates=self._updates,
            metrics=lambda step: summarize([step]),
            evaluate=self._evaluate,
            evaluate_every=config.evaluate.every,
            checkpoint_every=config.checkpoint.every,
            log_every=config.log.every,
            begin=self._write_down,
            finish=self._finish,
            warnings=self.warnings,
            remedy="lower train.learning_rate or raise train.warmup_steps, and go on from the last good checkpoint: "
            f"{self.again} train.learning_rate={self.whole.train.learning_rate / 2:g}",
            more_time=f"give more: {self.again} train.hours=H evaluate.batches=1",
            flops_per_token=flops.standard / config.train.length,
            peak=matrix_peak(self.processes.device),
        )
        train(job, config.train, self.run, self.checkpoints, self.processes)

    def _objective(self) -> Objective:
        config = self.config
        torch.manual_seed(mix(config.seed))
        unigram = isinstance(getattr(config.objective, "generator", None), UnigramGenerator)
        counts = _token_counts(self.corpora, config.data_weights, config.model.vocab_size) if unigram else None
        objective = build_objective(config.objective, config.model, self.tokenizer, counts)
        if self.checkpoints.hold_updates():
            return objective
        if isinstance(objective, FrozenGeneratorRTD):
            first = load(self.run.folder / "first_stage", device="cpu").network
            assert isinstance(first, MaskedLM)
            objective.start_from(first)
        elif config.init is not None:
            self.warnings += initialise(objective, load(config.init, device="cpu"), self.tokenizer, config.init)
        return objective

    def _write_down(self) -> None:
        """Write how the updates to come are made."""
        if self.processes.first:
            self.run.write_config(self.config)
            record_environment(self.run.folder, self.processes)

    def _updates(self, step: int) -> Iterator[tuple[int, Iterator[Input]]]:
        """Give the micro-batches of one update after the other, from a step on."""
        train = self.config.train
        number = micro_batches_before(train, step)
        stream = self.loader.batches(number)
        while True:
            count, length = micro_batches(train, step), length_at(train, step)
            yield count * train.smallest_batch * train.length, self._inputs(stream, number, count, length)
            number += count
            step += 1

    def _inputs(self, stream: Iterator[Batch[Tensor]], number: int, count: int, length: int) -> Iterator[Input]:
        rank, ranks = self.processes.rank, self.processes.world_size
        for micro in range(number, number + count):
            batch = _cut_to(next(stream), length)
            draws = draw(self.config.seed, micro, *batch.ids.shape, part=rank, parts=ranks, device=batch.ids.device)
            torch.manual_seed(mix(self.config.seed, micro, rank))  # for dropout
            yield batch, draws

    def _loader(self) -> Loader:
        return Loader(
            self.corpora,
            batch_size=self.config.train.smallest_batch,
            seed=self.config.seed,
            weights=self.config.data_weights,
            rank=self.processes.rank,
            world_size=self.processes.world_size,
            device=self.processes.device,
        )

    def _heldout(self) -> Loader | None:
        counts = [sum(map(len, corpus.shards("heldout"))) for corpus in self.corpora]
        judges = [number for number, count in enumerate(counts) if count]
        if not judges:
            self.warnings.append(
                "nothing of the text is held out, so nothing will tell how good the model is on new text; where there "
                "are few documents, --heldout 0.05 of electra corpus and of electra train keeps one of twenty"
            )
            return None
        size = min(sum(counts), self._heldout_rows)
        weights = self.config.data_weights
        return Loader(
            [self.corpora[number] for number in judges],
            batch_size=size,
            seed=FIXED,
            split="heldout",
            weights=weights and [weights[number] for number in judges],
            device=self.processes.device,
        )

    @property
    def _heldout_rows(self) -> int:
        """Give the sequences of a held-out micro-batch: each process reads all, as many at once as in training."""
        return self.config.train.smallest_batch // self.processes.world_size

    @torch.no_grad()
    def _evaluate(self, network: Network) -> dict[str, float]:
        """Measure on held-out text with masks and samples that are the same each time, without dropout."""
        if self.heldout is None:
            return {}
        self.objective.eval()
        steps: list[Step] = []
        shares: list[Tensor] = []
        parts = self.config.train.batch_size // self._heldout_rows
        for micro in range(self.config.evaluate.batches * parts):
            batch = self.heldout.batch(micro)
            whole, part = divmod(micro, parts)
            draws = draw(FIXED, whole, *batch.ids.shape, part=part, parts=parts, device=batch.ids.device)
            steps.append(network(batch, draws))
            shares.append(real_share(batch))
            if micro == 0:
                self.samples = take_samples(steps[0], batch, self.tokenizer)
        self.objective.train()
        return summarize(steps, [share.item() for share in shares])

    def _finish(self) -> None:
        """Write the model folder: the network that is kept, and the generator where Hugging Face has a class for it."""
        with atomic_folder(self.run.folder / "model", overwrite=True) as folder:
            tokenizer = self.tokenizer.of_length(self.config.train.length)
            write_model(trained_model(self.objective, tokenizer), folder, facts=training_facts(self.run.folder))

    def _watch(self, record: Record) -> None:
        """Write the samples of an evaluation with its step, and warn where its metrics look ill."""
        if "heldout_loss" in record:
            self.run.show({"step": record["step"], "samples": [asdict(sample) for sample in self.samples]})
        for warning in diagnose(record) + self._too_often(record):
            self.run.report({"step": record["step"], "warning": warning})

    def _repetition(self) -> list[str]:
        """Warn of text that will be read too often; how often a budget in hours reads it shows on the way."""
        train = self.config.train
        epochs = (total_steps(train) or 0) * train.batch_size * train.length / max(self.text_tokens, 1)
        if epochs <= MOST_EPOCHS:
            return []
        return [f"{DRY}: it will be read {epochs:.0f} times; more text or fewer steps would do better"]

    def _too_often(self, record: Record) -> list[str]:
        """Warn of text that was read too often, unless the run was warned before."""
        if self.dry or record.get("tokens", 0) <= MOST_EPOCHS * self.text_tokens:
            return []
        self.dry = True
        if any(DRY in earlier.get("warning", "") for earlier in read_records(self.run.metrics)):
            return []
        return [f"{DRY}: it was read {MOST_EPOCHS} times; more text or fewer hours would do better"]


def _first_stage(config: PretrainConfig) -> PretrainConfig | None:
    """Give the run of masked language modelling that two-stage training starts with."""
    objective = config.objective
    if not isinstance(objective, ElectraObjective) or objective.algorithm != "two_stage":
        return None
    masked = objective.model_dump(include=set(MLMObjective.model_fields) - {"name"})
    rate = config.train.learning_rate * getattr(objective.generator, "rate", 1.0)  # it is the generator that learns
    parts = {
        "objective": MLMObjective(**masked),
        "train": config.train.model_copy(update={"learning_rate": rate}),
        "out": str(Path(config.out or "") / "first_stage"),
    }
    return config.model_copy(update=parts)


def _factor(objective: Objective, config: PretrainConfig) -> Factor:
    """Give the generator's own weights a rate of their own; what it shares learns as the discriminator does."""
    generator = getattr(config.objective, "generator", None)
    shared = {id(weight) for weight in objective.network.parameters()}
    named = objective.generator.named_parameters(prefix="generator") if objective.generator else ()
    own = {name for name, weight in named if id(weight) not in shared}
    return lambda name: getattr(generator, "rate", 1.0) if name in own else 1.0


def trained_model(objective: Objective, tokenizer: Tokenizer) -> Pretrained:
    """Give what is kept of an objective, as plain networks."""
    encoder = plain_encoder(objective.network.encoder)
    network = type(objective.network)(encoder)
    network.head = objective.network.head
    generator = objective.generator if isinstance(objective.generator, MaskedLM) else None
    return Pretrained(network, tokenizer, generator)


def _folders(config: PretrainConfig) -> list[str]:
    assert config.data is not None
    return [config.data] if isinstance(config.data, str) else config.data


def _lasting_tokens(config: PretrainConfig, corpora: Sequence[Corpus]) -> float:
    """Count the tokens after which the text, or that of a mixture's corpora which is read soonest, has been read."""
    sizes = [config.train.length * sum(map(len, corpus.shards("train"))) for corpus in corpora]
    if not config.data_weights:
        return sum(sizes)
    shares = [weight / sum(config.data_weights) for weight in config.data_weights]
    return min(size / share for size, share in zip(sizes, shares, strict=False))


def _check_corpus(config: PretrainConfig, corpus: Corpus, tokenizer: Tokenizer) -> None:
    manifest = corpus.manifest
    if manifest.length != config.train.length:
        raise ConfigError(
            f"{corpus.path} has sequences of {manifest.length} tokens, train.length is {config.train.length}: "
            f"set train.length={manifest.length}, or build the corpus with --length {config.train.length}"
        )
    if manifest.cut == "paper" and config.model.token_types < 2:
        raise ConfigError(f"{corpus.path} has two segments to a sequence (--cut paper): set model.token_types=2")
    if not fits_vocabulary(config.model.vocab_size, tokenizer.vocab_size):
        if config.init is not None:
            check_vocabulary(tokenizer, load(config.init, device="cpu").tokenizer, config.init)
        raise ConfigError(
            f"{corpus.path} has a vocabulary of {tokenizer.vocab_size}, model.vocab_size is {config.model.vocab_size}: "
            f"set model.vocab_size={tokenizer.vocab_size}"
        )


def _cut_to(batch: Batch[Tensor], length: int) -> Batch[Tensor]:
    """Cut each sequence into pieces of the given length, which divides its own."""
    if batch.ids.size(1) == length:
        return batch
    attention, types = (None if part is None else part.reshape(-1, length) for part in (batch.attention, batch.types))
    return Batch(batch.ids.reshape(-1, length), attention, types)


def _token_counts(corpora: Sequence[Corpus], weights: Sequence[float] | None, vocab_size: int) -> Tensor:
    """Count how often each token occurs in the text that is read, a mixture by its weights; no special tokens."""
    counts = np.zeros((len(corpora), vocab_size))
    for corpus, row in zip(corpora, counts, strict=True):
        for shard in corpus.shards("train"):
            for start in range(0, len(shard), 65_536):
                row += np.bincount(shard[start : start + 65_536].ravel(), minlength=vocab_size)
        row[[number for name, number in corpus.manifest.special_ids.items() if name != "unk"]] = 0
    if weights:
        sizes = counts.sum(1)
        counts *= (sizes.sum() / sum(weights) * np.array(weights) / sizes)[:, None]
    return torch.from_numpy(counts.sum(0)).float()
