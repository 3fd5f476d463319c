"""Every setting of pre-training: typed, frozen and strict, with its default and its meaning."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from electra.config.bodies import Model
from electra.config.objectives import Objective, SizedGenerator
from electra.config.section import (
    Count,
    CountOrZero,
    Device,
    Duration,
    ForwardPrecision,
    NonNegative,
    Optimizer,
    Out,
    Positive,
    Probability,
    Root,
    Section,
    Seed,
    Size,
)

BUDGETS = ("steps", "tokens", "hours")  # keys of `train`, of which one is set


class TrainConfig(Section):
    """Budget, batches, optimizer and schedule."""

    steps: Count | None = Field(None, description="budget: updates of the weights")
    tokens: Count | None = Field(None, description="budget: tokens read, instead of steps")
    hours: Duration | None = Field(None, description="budget: wall-clock time, instead of steps")
    batch_size: Size = Field(description="sequences in one update")
    micro_batch_size: Size | None = Field(
        None, description="sequences at a time; their gradients are accumulated (default: all at once)"
    )
    length: Size = Field(description="tokens in one sequence; follows the corpus")
    start_length: Size | None = Field(None, description="initial tokens in one sequence, if it grows")
    length_warmup_steps: Count | None = Field(None, description="updates until the full length")
    optimizer: Optimizer = "electra"
    learning_rate: Positive = Field(description="base rate, multiplied by the schedule")
    schedule: Literal["linear", "stable"] = Field(
        "linear", description="linear decay times warmup as in the original, or warmup, plateau and a final decay"
    )
    warmup_steps: CountOrZero = Field(10_000, description="updates until the full rate")
    decay_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        0.2, description="with schedule = stable: share of the run over which the rate falls to zero at the end"
    )
    weight_decay: NonNegative = Field(0.01, description="decoupled weight decay; biases and layer norms are exempt")
    adam_beta1: Probability = Field(0.9, description="decay of the running mean of the gradient")
    adam_beta2: Probability = Field(0.999, description="decay of the running mean of its square")
    adam_eps: Positive = Field(1e-6, description="added to the denominator")
    adam_rate: Positive = Field(
        1.0, description="with optimizer = muon: multiple of the rate for what Adam updates, such as embeddings"
    )
    clip_norm: Positive = Field(1.0, description="largest norm of the gradient")
    precision: ForwardPrecision = "auto"
    execution: Literal["auto", "plain", "compiled", "fast"] = Field(
        "auto", description="plain PyTorch, torch.compile, or our kernels in CUDA graphs (fast); auto: fast on a GPU"
    )
    sharding: Literal["none", "optimizer", "full"] = Field(
        "none",
        description="what the processes of a machine divide: optimizer state, or weights and gradients too (full)",
    )

    @property
    def at_once(self) -> int:
        """The sequences that are computed at a time."""
        return self.micro_batch_size or self.batch_size

    @property
    def micro_batches(self) -> int:
        """The micro-batches of an update."""
        return self.batch_size // self.at_once

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        budgets = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(budgets) != 1:
            found = " and ".join(budgets) or "none"
            raise ValueError(f"set one budget out of steps, tokens and hours (found {found})")
        return self

    @model_validator(mode="after")
    def _can_be_sharded(self) -> Self:
        if self.sharding == "full" and self.optimizer == "muon":
            raise ValueError("sharding full divides matrices, and Muon needs all of one: set optimizer to adamw")
        if self.sharding == "full" and self.execution not in ("auto", "plain"):
            raise ValueError(f"sharding full runs plain PyTorch, not execution {self.execution}: drop one of them")
        return self

    @model_validator(mode="after")
    def _batches_divide(self) -> Self:
        if self.batch_size % self.at_once:
            raise ValueError(f"micro_batch_size {self.micro_batch_size} does not divide batch_size {self.batch_size}")
        if self.start_length and self.length % self.start_length:
            raise ValueError(f"start_length {self.start_length} does not divide length {self.length}")
        if (self.start_length is None) != (self.length_warmup_steps is None):
            raise ValueError("start_length and length_warmup_steps go together: set both or neither")
        return self


class CheckpointConfig(Section):
    """Checkpoints, from which a run resumes."""

    every: Count = Field(1000, description="updates between checkpoints")
    keep: Count = Field(2, description="newest checkpoints to keep, besides that of the lowest held-out loss")


class EvaluateConfig(Section):
    """Evaluation on the held-out part of the corpus."""

    every: Count = Field(1000, description="updates between evaluations")
    batches: Size = Field(20, description="batches of held-out sequences, the same each time")


class LogConfig(Section):
    """Logging, besides metrics.jsonl, which is always written."""

    every: Count = Field(50, description="updates between lines of metrics.jsonl; at first after 1, 2, 4, 8, …")
    tensorboard: bool = Field(False, description="also write TensorBoard files (extra: track)")
    wandb: bool = Field(False, description="also report to Weights & Biases (extra: track)")


class PretrainConfig(Root):
    """A pre-training run."""

    command: ClassVar[str] = "pretrain"
    example: ClassVar[str] = "train.steps=1000"
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (tuple(f"train.{key}" for key in BUDGETS),)

    data: str | list[str] | None = Field(None, description="corpus folder, or a list of them")
    data_weights: list[Positive] | None = Field(None, description="weight of each corpus in the mixture")
    out: Out | None = Field(None, description="folder of the run")
    init: str | None = Field(None, description="run, imported model or embedded, to start from")
    embeddings: Literal["random", "cooccurrence"] = Field(
        "random",
        description="token embeddings of a new model: random, or from which tokens follow each other in the text",
    )
    device: Device = "auto"
    seed: Seed = Field(0, description="determines every random draw, together with the step")
    model: Model
    objective: Objective
    train: TrainConfig
    evaluate: EvaluateConfig = EvaluateConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    log: LogConfig = LogConfig()

    @model_validator(mode="after")
    def _generator_suits_body(self) -> Self:
        """Set a generator's size and sharing to those that are usual for the body, where they are left open."""
        generator = getattr(self.objective, "generator", None)
        if not isinstance(generator, SizedGenerator):
            return self
        given = generator.model_fields_set
        usual = {key: value for key, value in self.model.GENERATOR.items() if key not in given}
        if "width" in given:
            usual.pop("depth", None)  # a generator of a given width is as deep as the discriminator, as in the paper
        suited = self.objective.model_copy(update={"generator": generator.model_copy(update=usual)})
        object.__setattr__(self, "objective", suited)  # pydantic would ignore a copy of this frozen config
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.train.length > self.model.max_length:
            longest, trained = self.model.max_length, self.init and "max_length" not in self.model.FREE
            advice = "" if trained else "; raise that too"
            raise ValueError(f"train.length {self.train.length} exceeds model.max_length {longest}{advice}")
        generator = getattr(self.objective, "generator", None)
        if isinstance(generator, SizedGenerator):
            generator.model(self.model)
        return self
