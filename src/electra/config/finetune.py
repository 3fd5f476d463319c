"""Every knob of fine-tuning on one page; a key that is None follows the task or the size of the model."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from electra.config.section import Device, ForwardPrecision, NonNegative, Optimizer, Out, Probability, Root
from electra.config.tasks import TableConfig, TaggingConfig

SEEDS = {"single": 1, "paper": 10, "mnli-init": 10}  # of each protocol, unless the config says otherwise
FIXED: dict[str, dict[str, str | list[float] | None]] = {  # what a score of each protocol stands for
    "single": {},
    "paper": {
        "start": "pretrained",
        "head": "paper",
        "optimizer": "electra",
        "learning_rates": [],
        "early_stopping": None,
    },
    "mnli-init": {"start": "pretrained"},
}
MNLI_FIRST = ("rte", "mrpc", "sts-b")  # the tasks that the protocol mnli-init is for


class FinetuneConfig(Root):
    """The fine-tuning of a model for a task, with one seed or several."""

    command: ClassVar[str] = "finetune"
    example: ClassVar[str] = "seeds=5"

    task: str | None = Field(None, description="name of the task, such as mrpc")
    model: str | None = Field(None, description="what to start from: a run, a Hugging Face folder or a hub name")
    data: str | None = Field(
        None, description="folder with the task's files, a table of one's own, or a dataset of the hub"
    )
    out: Out | None = Field(None, description="folder of the run")
    train_file: str | None = Field(None, description="another file of the folder than the official training file")
    dev_file: str | None = Field(None, description="another file than the official dev file")
    test_file: str | None = Field(None, description="another file than the official test file")
    start: Literal["pretrained", "untrained"] = Field(
        "pretrained", description="untrained: the same network with fresh weights, to compare with"
    )
    protocol: Literal["single", "paper", "mnli-init"] = Field(
        "single", description="paper: median of 10 seeds; mnli-init: RTE, MRPC, STS-B from a model tuned on MNLI"
    )
    seeds: PositiveInt | None = Field(None, description="how many runs, of seeds 0, 1, …; follows the protocol")
    keep: Literal["best", "median"] = Field("best", description="which seed's model is kept")
    head: Literal["paper", "huggingface"] = Field("paper", description="whose head stands on the encoder")
    max_length: int | None = Field(None, ge=4, description="longest input in tokens; follows the task")
    double_unordered: bool | None = Field(None, description="train on both orders of a pair; follows the task")
    epochs: PositiveFloat | None = Field(None, description="passes over the training data; follows the task")
    batch_size: PositiveInt = Field(32, description="features in one update")
    learning_rate: PositiveFloat | None = Field(None, description="rate of the head; follows the model's width")
    learning_rates: list[PositiveFloat] = Field([], description="rates to try; the best median on dev is kept")
    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="factor of the rate from each layer to the one below; follows the model's width"
    )
    layer_decay_off_by_one: bool = Field(
        False, description="the original's slip: every rate below the head is one factor lower"
    )
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(0.1, description="share of the updates to warm up")
    optimizer: Optimizer = "electra"
    dropout: Probability | None = Field(
        None, description="of hidden states and attention probabilities; follows the model's pre-training"
    )
    weight_decay: NonNegative = Field(0.0, description="decoupled decay; biases and layer norms are exempt")
    clip_norm: PositiveFloat = Field(1.0, description="largest norm of the gradient of the mean loss")
    early_stopping: PositiveInt | None = Field(
        None, description="stop after so many epochs without a better dev score, and take the best one"
    )
    checkpoint_every: PositiveInt | None = Field(
        None, description="updates between checkpoints; without them a killed seed starts anew"
    )
    table: TableConfig = TableConfig()
    tagging: TaggingConfig = TaggingConfig()
    log_every: PositiveInt = Field(50, description="updates between lines of metrics.jsonl; first come 1, 2, 4, 8 ...")
    precision: ForwardPrecision = "auto"
    device: Device = "auto"
    seed: NonNegativeInt = Field(0, description="the first of the seeds")

    def file(self, split: Literal["train", "dev", "test"]) -> str | None:
        """Name the file that takes the place of a split's official one, where there is such."""
        return {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}[split]

    @property
    def seed_list(self) -> list[int]:
        """Give the seeds to run."""
        return list(range(self.seed, self.seed + (self.seeds or SEEDS[self.protocol])))

    @model_validator(mode="after")
    def _protocol_is_kept(self) -> Self:
        if self.protocol == "paper" and self.seeds not in (None, SEEDS["paper"]):
            raise ValueError(f"protocol = paper is the median of 10 seeds; drop seeds={self.seeds} or the protocol")
        if self.protocol == "mnli-init" and self.task not in (None, *MNLI_FIRST):
            raise ValueError(f"protocol = mnli-init is for {', '.join(MNLI_FIRST)}, not for task = {self.task}")
        for key, value in FIXED[self.protocol].items():
            if (set_to := getattr(self, key)) != value:
                wanted = f"has {key} = {value}" if value else f"has no {key}"
                raise ValueError(f"protocol = {self.protocol} {wanted}; drop {key} = {set_to}")
        return self
