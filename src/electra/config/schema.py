"""Every setting of pre-training: typed, frozen and strict, with its default and its meaning."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from electra.errors import ConfigError

Probability = Annotated[float, Field(ge=0, lt=1)]
Ratio = Annotated[float, Field(gt=0, le=4)]
NonNegative = Annotated[float, Field(ge=0)]
Device = Annotated[Literal["auto", "cuda", "mps", "cpu"], Field(description="auto: an NVIDIA GPU if there is one")]
Precision = Literal["auto", "bf16", "float32"]
ForwardPrecision = Annotated[Precision, Field(description="auto: bf16 on a GPU, float32 on a CPU")]
Optimizer = Annotated[
    Literal["electra", "adamw", "muon"],
    Field(description="the original's AdamW without bias correction, standard AdamW, or Muon"),
]
# Not every shell expands ~ inside key=value.
Out = Annotated[str, AfterValidator(lambda path: str(Path(path).expanduser()) if path.startswith("~") else path)]


class Section(BaseModel):
    """A frozen part of a config; unknown keys and values of another type are errors."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Root(Section):
    """A complete config."""

    command: ClassVar[str]  # that uses it, and the folder of its presets
    example: ClassVar[str]  # of a setting, for messages
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()  # setting one key drops the others of a lower layer


class ModelConfig(Section):
    """What every encoder body has; a body adds its own fields and its tag."""

    FREE: ClassVar[tuple[str, ...]] = (  # keys in which a model may differ from the weights it starts from
        *("dropout", "attention_dropout", "initializer_std", "layer_norm_eps", "activation_checkpointing"),
    )
    body: str = Field(description="architecture of the encoder")
    hidden_size: PositiveInt = Field(description="width of the Transformer")
    layers: PositiveInt = Field(description="Transformer blocks")
    heads: PositiveInt = Field(description="attention heads; must divide hidden_size")
    vocab_size: PositiveInt = Field(30_522, description="entries of the vocabulary; follows the corpus")
    max_length: PositiveInt = Field(512, description="longest sequence in tokens; at least that of the corpus")
    token_types: PositiveInt = Field(2, description="segment kinds: 0 for the first text, 1 for the second")
    dropout: Probability = Field(0.1, description="dropout of the hidden states")
    attention_dropout: Probability = Field(0.1, description="dropout of the attention probabilities")
    initializer_std: PositiveFloat = Field(0.02, description="standard deviation of the initial weights")
    activation_checkpointing: bool = Field(False, description="recompute blocks in the backward pass to save memory")

    @property
    def shape(self) -> dict[str, Any]:
        """The keys in which two models must agree for one to load the other's weights."""
        return {key: value for key, value in self.model_dump().items() if key not in self.FREE}

    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return the shape of a generator whose width and depth are ratios to this model's."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"{self.heads} heads do not divide hidden_size {self.hidden_size}")
        return self


class ElectraModel(ModelConfig):
    """The encoder of BERT and ELECTRA: learned positions, post-norm, GELU."""

    body: Literal["electra"] = Field("electra", description="BERT's post-norm encoder, as in the paper")
    embedding_size: PositiveInt = Field(description="width of the token, position and type embeddings")
    feed_forward_size: PositiveInt = Field(description="inner width of the feed-forward block")
    layer_norm_eps: PositiveFloat = Field(1e-12, description="added to the variance in layer norm")

    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return a generator's shape: one head per 64 of its width, a feed-forward block of four times its width."""
        hidden_size = max(1, round(self.hidden_size * width))
        heads = self.heads if width == 1 else max(1, hidden_size // 64)
        if hidden_size % heads:
            raise ConfigError(
                f"objective.generator.width={width:g} gives a generator of width {hidden_size}, which {heads} heads "
                f"(one per 64) do not divide; use {_nearest_width(self.hidden_size, hidden_size)}"
            )
        return self.model_copy(
            update={
                "hidden_size": hidden_size,
                "embedding_size": hidden_size if own_embeddings else self.embedding_size,
                "layers": max(1, round(self.layers * depth)),
                "heads": heads,
                "feed_forward_size": self.feed_forward_size if width == 1 else 4 * hidden_size,
            }
        )


Model = ElectraModel  # with a second body: Annotated[ElectraModel | …, Field(discriminator="body")]


class SizedGenerator(Section):
    """Fields of the trained generators: a size relative to the discriminator's."""

    width: Ratio = Field(0.25, description="hidden size as a ratio to the discriminator's")
    depth: Ratio = Field(1.0, description="number of layers as a ratio to the discriminator's")
    rate: PositiveFloat = Field(1.0, description="multiple of the learning rate for the weights it does not share")
    sharing: Literal["none", "embeddings", "gdes", "all"]

    def model(self, discriminator: ModelConfig) -> ModelConfig:
        """Return the shape of the generator's encoder next to the discriminator's."""
        return discriminator.scaled(self.width, self.depth, own_embeddings=self.sharing == "none")


class MaskedLMGenerator(SizedGenerator):
    """The paper's generator: a small masked language model."""

    kind: Literal["masked_lm"] = Field("masked_lm", description="a small masked language model, as in the paper")
    sharing: Literal["none", "embeddings", "gdes", "all"] = Field(
        "embeddings", description="weights shared with the discriminator; gdes: embeddings, but not their gradients"
    )

    @model_validator(mode="after")
    def _sharing_all_needs_equal_sizes(self) -> Self:
        if self.sharing == "all" and (self.width, self.depth) != (1.0, 1.0):
            raise ValueError('sharing = "all" needs networks of equal size: set width=1.0 and depth=1.0')
        return self


class TwoTowerGenerator(SizedGenerator):
    """A left-to-right and a right-to-left Transformer that predict each token from all others."""

    kind: Literal["two_tower"] = Field("two_tower", description="one causal Transformer per direction")
    sharing: Literal["none", "embeddings", "gdes"] = Field(
        "embeddings", description="weights shared with the discriminator; gdes: embeddings, but not their gradients"
    )


class UniformGenerator(Section):
    """Replacements drawn uniformly from the vocabulary, without training."""

    kind: Literal["uniform"] = Field("uniform", description="every token equally likely")


class UnigramGenerator(Section):
    """Replacements drawn by the frequency of tokens in the corpus, without training."""

    kind: Literal["unigram"] = Field("unigram", description="every token as likely as in the corpus")


Generator = Annotated[
    MaskedLMGenerator | TwoTowerGenerator | UniformGenerator | UnigramGenerator, Field(discriminator="kind")
]


class Masking(Section):
    """Which tokens the objectives mask."""

    name: str
    mask_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(0.15, description="share of the tokens that are masked")
    mask_token_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.85, description="share of the masked tokens that become [MASK]; the others are kept (original: 0.85)"
    )
    mask_draw: Literal["distinct", "with_replacement"] = Field(
        "distinct", description="positions drawn without repetition, or with it as in the original"
    )
    whole_words: bool = Field(False, description="mask all pieces of a word or none")

    @property
    def kind(self) -> str:
        """The kind of the class in `electra.objectives` that implements it."""
        return self.name

    @model_validator(mode="after")
    def _whole_words_are_distinct(self) -> Self:
        if self.whole_words and self.mask_draw == "with_replacement":
            raise ValueError('whole_words needs mask_draw = "distinct": a word cannot be drawn twice')
        return self


class Sampling(Masking):
    """Fields of the objectives with a generator that samples."""

    generator_weight: NonNegative = Field(1.0, description="weight of the generator's loss")
    temperature: PositiveFloat = Field(1.0, description="softmax temperature of the generator's samples")


class ReplacedTokens(Sampling):
    """Fields of the objectives whose input has replaced tokens."""

    forbid_original: bool = Field(False, description="never sample the true token")
    generator: Generator = MaskedLMGenerator()


class Discriminating(Sampling):
    """Fields of the objectives with a discriminator."""

    discriminator_weight: NonNegative = Field(50.0, description="weight of the discriminator's loss")


class Detecting(ReplacedTokens, Discriminating):
    """Fields of the objectives that detect replaced tokens."""

    prior: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="share of replaced tokens that the discriminator expects at the start (original: even odds)"
    )

    @property
    def first_chance(self) -> float:
        """The share of replaced tokens that the discriminator expects, among those that its loss counts."""
        return self.prior or 0.5


class ElectraObjective(Detecting):
    """Replaced token detection (section 2 of the paper)."""

    name: Literal["electra"] = Field("electra", description="replaced token detection")
    algorithm: Literal["joint", "two_stage", "adversarial"] = Field(
        "joint",
        description="both at once; the generator first; or a generator rewarded for fooling the discriminator",
    )

    @property
    def kind(self) -> str:
        """The kind of the class that implements it: one for each algorithm."""
        return self.name if self.algorithm == "joint" else self.algorithm

    @model_validator(mode="after")
    def _algorithm_fits_generator(self) -> Self:
        generator = self.generator
        if self.algorithm != "joint" and not isinstance(generator, MaskedLMGenerator):
            raise ValueError(
                f'algorithm = "{self.algorithm}" trains a masked-LM generator, not kind = "{generator.kind}"'
            )
        if self.algorithm == "two_stage":
            assert isinstance(generator, MaskedLMGenerator)
            if (generator.width, generator.depth, generator.sharing) != (1.0, 1.0, "none"):
                raise ValueError(
                    'algorithm = "two_stage" starts the discriminator from the generator\'s weights: '
                    'set width=1.0, depth=1.0 and sharing="none"'
                )
        return self


class Electra15Objective(Detecting):
    """Replaced token detection whose loss counts only the masked positions (section 3.5)."""

    name: Literal["electra_15"] = Field("electra_15", description="detection only at the masked positions")

    @property
    def first_chance(self) -> float:
        """The same share among the masked tokens, the only ones that can be replaced."""
        return self.prior / self.mask_fraction if self.prior else 0.5

    @model_validator(mode="after")
    def _only_masked_tokens_are_replaced(self) -> Self:
        if self.prior and self.prior >= self.mask_fraction:
            raise ValueError(
                f"prior {self.prior:g} must be below mask_fraction {self.mask_fraction:g}: only these can be replaced"
            )
        return self


class CorrectiveObjective(Detecting):
    """Replaced token detection that also predicts the original tokens, after COCO-LM (not in the paper)."""

    name: Literal["corrective"] = Field(
        "corrective", description="detection plus prediction of the original tokens at masked positions"
    )
    correction_weight: NonNegative = Field(5.0, description="weight of the loss of predicting the original tokens")


class ReplaceMLMObjective(ReplacedTokens):
    """Masked language modelling whose input has samples instead of [MASK] (section 3.5)."""

    name: Literal["replace_mlm"] = Field("replace_mlm", description="masked LM over generator samples")


class AllTokensMLMObjective(ReplacedTokens):
    """Replace MLM that predicts every token, with a copy mechanism (section 3.5)."""

    name: Literal["all_tokens_mlm"] = Field("all_tokens_mlm", description="every token predicted or copied")


class MLMObjective(Masking):
    """The BERT baseline: masked language modelling by the full-size encoder, with new masks each time."""

    name: Literal["mlm"] = Field("mlm", description="masked language modelling")


class ElectricObjective(Discriminating):
    """Electric: noise-contrastive estimation of cloze probabilities."""

    name: Literal["electric"] = Field("electric", description="energy-based cloze model")
    generator: TwoTowerGenerator = TwoTowerGenerator()


Objective = Annotated[
    ElectraObjective
    | MLMObjective
    | Electra15Objective
    | CorrectiveObjective
    | ReplaceMLMObjective
    | AllTokensMLMObjective
    | ElectricObjective,
    Field(discriminator="name"),
]


class TrainConfig(Section):
    """Budget, batches, optimizer and schedule."""

    steps: PositiveInt | None = Field(None, description="budget: updates of the weights")
    tokens: PositiveInt | None = Field(None, description="budget: tokens read, instead of steps")
    hours: PositiveFloat | None = Field(None, description="budget: wall-clock time, instead of steps")
    batch_size: PositiveInt = Field(description="sequences in one update")
    micro_batch_size: PositiveInt | None = Field(
        None, description="sequences at a time; their gradients are accumulated (default: all at once)"
    )
    start_batch_size: PositiveInt | None = Field(None, description="initial batch size, if it grows")
    batch_warmup_steps: PositiveInt | None = Field(None, description="updates until the full batch size")
    length: PositiveInt = Field(description="tokens in one sequence; follows the corpus")
    start_length: PositiveInt | None = Field(None, description="initial tokens in one sequence, if it grows")
    length_warmup_steps: PositiveInt | None = Field(None, description="updates until the full length")
    optimizer: Optimizer = "electra"
    learning_rate: PositiveFloat = Field(description="base rate, multiplied by the schedule")
    schedule: Literal["linear", "stable"] = Field(
        "linear", description="linear decay times warmup as in the original, or warmup, plateau and a final decay"
    )
    warmup_steps: NonNegativeInt = Field(10_000, description="updates until the full rate")
    decay_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        0.2, description="with schedule = stable: share of the run over which the rate falls to zero at the end"
    )
    weight_decay: NonNegative = Field(0.01, description="decoupled weight decay; biases and layer norms are exempt")
    adam_beta1: Probability = Field(0.9, description="decay of the running mean of the gradient")
    adam_beta2: Probability = Field(0.999, description="decay of the running mean of its square")
    adam_eps: PositiveFloat = Field(1e-6, description="added to the denominator")
    clip_norm: PositiveFloat = Field(1.0, description="largest norm of the gradient")
    precision: ForwardPrecision = "auto"
    execution: Literal["auto", "plain", "compiled", "fast"] = Field(
        "auto",
        description="plain PyTorch, torch.compile, or our kernels in CUDA graphs (fast); auto: fast on a GPU",
    )

    @property
    def smallest_batch(self) -> int:
        """The sequences that are computed at a time; every batch is a multiple of them."""
        return self.micro_batch_size or self.start_batch_size or self.batch_size

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        budgets = [name for name in ("steps", "tokens", "hours") if getattr(self, name) is not None]
        if len(budgets) != 1:
            found = " and ".join(budgets) or "none"
            raise ValueError(f"set one budget out of steps, tokens and hours (found {found})")
        return self

    @model_validator(mode="after")
    def _batches_divide(self) -> Self:
        if self.start_batch_size and self.start_batch_size > self.batch_size:
            raise ValueError(f"start_batch_size {self.start_batch_size} exceeds batch_size {self.batch_size}")
        divisor = "micro_batch_size" if self.micro_batch_size else "start_batch_size"
        for name in ("batch_size", "start_batch_size"):
            size = getattr(self, name)
            if size and size % self.smallest_batch:
                raise ValueError(f"{divisor} {self.smallest_batch} does not divide {name} {size}")
        if self.start_length and self.length % self.start_length:
            raise ValueError(f"start_length {self.start_length} does not divide length {self.length}")
        for start, steps in (("start_batch_size", "batch_warmup_steps"), ("start_length", "length_warmup_steps")):
            if (getattr(self, start) is None) != (getattr(self, steps) is None):
                raise ValueError(f"{start} and {steps} go together: set both or neither")
        return self


class CheckpointConfig(Section):
    """Checkpoints, from which a run resumes."""

    every: PositiveInt = Field(1000, description="updates between checkpoints")
    keep: PositiveInt = Field(2, description="newest checkpoints to keep, besides that of the lowest held-out loss")


class EvaluateConfig(Section):
    """Evaluation on the held-out part of the corpus."""

    every: PositiveInt = Field(1000, description="updates between evaluations")
    batches: PositiveInt = Field(20, description="batches of held-out sequences, the same each time")


class LogConfig(Section):
    """Logging, besides metrics.jsonl, which is always written."""

    every: PositiveInt = Field(50, description="updates between lines of metrics.jsonl; early on 1, 2, 4, 8, …")
    tensorboard: bool = Field(False, description="also write TensorBoard files (extra: track)")
    wandb: bool = Field(False, description="also report to Weights & Biases (extra: track)")


class PretrainConfig(Root):
    """A pre-training run."""

    command: ClassVar[str] = "pretrain"
    example: ClassVar[str] = "train.steps=1000"
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (("train.steps", "train.tokens", "train.hours"),)

    data: str | list[str] | None = Field(None, description="corpus folder, or a list of them")
    data_weights: list[PositiveFloat] | None = Field(None, description="weight of each corpus in the mixture")
    out: Out | None = Field(None, description="folder of the run")
    init: str | None = Field(None, description="run or imported model to start from")
    device: Device = "auto"
    seed: NonNegativeInt = Field(0, description="determines every random draw, together with the step")
    model: Model
    objective: Objective
    train: TrainConfig
    evaluate: EvaluateConfig = EvaluateConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    log: LogConfig = LogConfig()

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.train.length > self.model.max_length:
            raise ValueError(f"train.length {self.train.length} exceeds model.max_length {self.model.max_length}")
        generator = getattr(self.objective, "generator", None)
        if isinstance(generator, SizedGenerator):
            generator.model(self.model)
        return self


def _nearest_width(full: int, wanted: int) -> str:
    usable = [size for size in range(1, full + 1) if size % max(1, size // 64) == 0]
    below = max((size for size in usable if size < wanted), default=None)
    above = min((size for size in usable if size > wanted), default=None)
    return " or ".join(f"{size / full:.6g} (width {size})" for size in (below, above) if size)
