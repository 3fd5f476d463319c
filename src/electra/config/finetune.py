"""All settings of fine-tuning; a key that is None follows the task or the size of the model."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from electra.config.section import (
    Count,
    Device,
    Duration,
    Few,
    ForwardPrecision,
    NonNegative,
    Optimizer,
    Out,
    Pooling,
    Positive,
    Probability,
    Root,
    Seed,
    Size,
)
from electra.config.tasks import SimilarityConfig, TableConfig, TaggingConfig

SEEDS = {"single": 1, "paper": 10, "mnli-init": 10}  # number of seeds of each protocol, unless it is set
HeadKind = Literal["paper", "huggingface"]
Fixed = dict[str, str | list[float] | None]
PRETRAINED: Fixed = {"start": "pretrained"}
FIXED: dict[str, Fixed] = {  # settings that each protocol requires
    "single": {},
    "paper": {**PRETRAINED, "head": "paper", "optimizer": "electra", "learning_rates": [], "early_stopping": None},
    "mnli-init": PRETRAINED,
}
MNLI_FIRST = ("rte", "mrpc", "sts-b")  # tasks of the protocol mnli-init


class FinetuneConfig(Root):
    """Fine-tuning of a model on a task, with one or several seeds."""

    command: ClassVar[str] = "finetune"
    example: ClassVar[str] = "seeds=5"
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (("learning_rate", "learning_rates"),)

    task: str | None = Field(None, description="name of the task, such as mrpc")
    model: str | None = Field(
        None, description="model to start from: a run, a Hugging Face folder, a hub name or embedded"
    )
    data: str | None = Field(
        None, description="folder with the files of the task, your own table, or a dataset of the hub"
    )
    out: Out | None = Field(None, description="folder of the run")
    train_file: str | None = Field(None, description="training file, if it is not the official one")
    dev_file: str | None = Field(None, description="dev file, if it is not the official one")
    test_file: str | None = Field(None, description="test file, if it is not the official one")
    start: Literal["pretrained", "untrained"] = Field(
        "pretrained", description="untrained: the same network with random weights, for comparison"
    )
    protocol: Literal["single", "paper", "mnli-init"] = Field(
        "single", description="paper: median of 10 seeds; mnli-init: RTE, MRPC, STS-B from a model fine-tuned on MNLI"
    )
    seeds: Few | None = Field(None, description="number of runs, with seeds 0, 1, …; follows the protocol")
    keep: Literal["best", "median"] = Field("best", description="seed whose model is kept")
    head: HeadKind | None = Field(
        None, description="head on the encoder: the paper's, or that of transformers; follows the body"
    )
    pooling: Pooling | None = Field(
        None, description="what the head for whole texts reads, with the body modern; follows the model"
    )
    max_length: Annotated[Size, Field(ge=4)] | None = Field(
        None, description="longest input in tokens; follows the task, for similarity also the model"
    )
    double_unordered: bool | None = Field(None, description="train on both orders of a pair; follows the task")
    epochs: Duration | None = Field(None, description="passes over the training data; follows the task")
    batch_size: Size = Field(32, description="inputs (choice, similarity: examples) in one update")
    learning_rate: Positive | None = Field(None, description="learning rate of the head; follows the model's width")
    learning_rates: list[Positive] = Field(
        [], description="learning rates to try instead; the one with the best median on dev is kept"
    )
    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="factor of the learning rate from each layer to the one below; follows the model's depth"
    )
    layer_decay_off_by_one: bool = Field(
        False, description="reproduce a bug of the original: every rate below the head is one factor lower"
    )
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(0.1, description="share of the updates for warmup")
    optimizer: Optimizer = "electra"
    dropout: Probability | None = Field(
        None, description="dropout of hidden states and attention probabilities; follows pre-training"
    )
    smoothness: NonNegative | None = Field(
        None,
        description="weight of a penalty on predictions that change near an input, for tasks on whole texts; "
        "follows task and body",
    )
    weight_decay: NonNegative = Field(0.0, description="decoupled decay; biases and layer norms are exempt")
    clip_norm: Positive = Field(1.0, description="maximum norm of the gradient of the mean loss")
    early_stopping: Count | None = Field(
        None, description="stop after this many epochs without a better dev score, and keep the best model"
    )
    checkpoint_every: Count | None = Field(
        None, description="updates between checkpoints; without them an interrupted seed restarts"
    )
    table: TableConfig = TableConfig()
    tagging: TaggingConfig = TaggingConfig()
    similarity: SimilarityConfig = SimilarityConfig()
    log_every: Count = Field(50, description="updates between lines of metrics.jsonl; at first after 1, 2, 4, 8, …")
    precision: ForwardPrecision = "auto"
    device: Device = "auto"
    seed: Seed = Field(0, description="first seed")

    def file(self, split: Literal["train", "dev", "test"]) -> str | None:
        """Return the file that replaces the official one of a split, or None."""
        return {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}[split]

    @property
    def seed_list(self) -> list[int]:
        """The seeds to run."""
        return list(range(self.seed, self.seed + (self.seeds or SEEDS[self.protocol])))

    @property
    def parts(self) -> int:
        """The number of trainings: the seeds with each learning rate."""
        return len(self.seed_list) * max(1, len(self.learning_rates))

    @model_validator(mode="after")
    def _rates_are_clear(self) -> Self:
        if self.learning_rates and self.learning_rate is not None:
            raise ValueError("learning_rates replaces learning_rate; remove one of them")
        names = [f"{rate:g}" for rate in self.learning_rates]  # of their folders
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"learning_rates has {repeated[0]} twice; remove one of them")
        return self

    @model_validator(mode="after")
    def _protocol_is_kept(self) -> Self:
        if self.protocol == "paper" and self.seeds not in (None, SEEDS["paper"]):
            raise ValueError(f"protocol = paper is the median of 10 seeds; remove seeds={self.seeds} or the protocol")
        if self.protocol == "mnli-init" and self.task not in (None, *MNLI_FIRST):
            raise ValueError(f"protocol = mnli-init is for {', '.join(MNLI_FIRST)}, not for task = {self.task}")
        for key, value in FIXED[self.protocol].items():
            if (set_to := getattr(self, key)) not in (None, value):
                required = f"requires {key} = {value}; set {key}={value}"
                forbidden = f"does not allow {key}; remove {key} = {set_to}"
                raise ValueError(f"protocol = {self.protocol} {required if value else forbidden}")
        return self
