"""Every knob on one page: typed, frozen, strict; what is not written here does not exist."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from electra.errors import ConfigError

Probability = Annotated[float, Field(ge=0, lt=1)]
Ratio = Annotated[float, Field(gt=0, le=4)]
NonNegative = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A frozen part of a config; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ModelConfig(Section):
    """The shape of one Transformer encoder: the discriminator's, or what a generator derives from it."""

    embedding_size: PositiveInt = Field(description="width of the token, position and type embeddings")
    hidden_size: PositiveInt = Field(description="width of the Transformer")
    layers: PositiveInt = Field(description="Transformer blocks")
    heads: PositiveInt = Field(description="attention heads; they divide hidden_size")
    feed_forward_size: PositiveInt = Field(description="inner width of the feed-forward block")
    vocab_size: PositiveInt = Field(30_522, description="entries of the vocabulary")
    max_length: PositiveInt = Field(512, description="learned positions: the longest sequence the model takes")
    token_types: PositiveInt = Field(2, description="segment kinds: 0 for the first text, 1 for the second")
    dropout: Probability = Field(0.1, description="dropout of the hidden states")
    attention_dropout: Probability = Field(0.1, description="dropout of the attention probabilities")
    layer_norm_eps: PositiveFloat = Field(1e-12, description="added to the variance in layer norm")
    initializer_std: PositiveFloat = Field(
        0.02, description="deviation of the truncated normal that weights start from"
    )
    activation_checkpointing: bool = Field(
        False, description="recompute each block in the backward pass: slower, less memory"
    )

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"{self.heads} heads do not divide hidden_size {self.hidden_size}")
        return self


class SizedGenerator(Section):
    """What the trained generators have in common: a size relative to the discriminator's."""

    width: Ratio = Field(0.25, description="hidden size as a ratio to the discriminator's")
    depth: Ratio = Field(1.0, description="number of layers as a ratio to the discriminator's")

    def encoder(self, model: ModelConfig, *, own_embeddings: bool = False) -> ModelConfig:
        """Give the shape of the generator's encoder beside the discriminator `model`."""
        hidden_size = max(1, round(model.hidden_size * self.width))
        heads = max(1, hidden_size // 64)
        if hidden_size % heads:
            raise ConfigError(
                f"objective.generator.width={self.width:g} gives a generator of width {hidden_size}, which its "
                f"{heads} heads (one per 64) do not divide; take {_nearest_width(model.hidden_size, hidden_size)}"
            )
        return model.model_copy(
            update={
                "hidden_size": hidden_size,
                "embedding_size": hidden_size if own_embeddings else model.embedding_size,
                "layers": max(1, round(model.layers * self.depth)),
                "heads": heads,
                "feed_forward_size": 4 * hidden_size,
            }
        )


class MaskedLMGenerator(SizedGenerator):
    """The paper's generator: a small masked language model."""

    kind: Literal["masked_lm"] = Field("masked_lm", description="a small masked language model, as in the paper")
    sharing: Literal["none", "embeddings", "all"] = Field(
        "embeddings", description="weights that generator and discriminator have in common"
    )

    @model_validator(mode="after")
    def _sharing_all_needs_equal_sizes(self) -> Self:
        if self.sharing == "all" and (self.width, self.depth) != (1.0, 1.0):
            raise ValueError('sharing = "all" needs networks of equal size: set width=1.0 and depth=1.0')
        return self


class TwoTowerGenerator(SizedGenerator):
    """A left-to-right and a right-to-left Transformer that predict each token from all others."""

    kind: Literal["two_tower"] = Field("two_tower", description="one causal Transformer per direction")
    sharing: Literal["none", "embeddings"] = Field(
        "embeddings", description="weights that generator and discriminator have in common"
    )


class UniformGenerator(Section):
    """Replacements drawn uniformly from the vocabulary: nothing is trained."""

    kind: Literal["uniform"] = Field("uniform", description="every token equally likely")


Generator = Annotated[MaskedLMGenerator | TwoTowerGenerator | UniformGenerator, Field(discriminator="kind")]


class ElectraObjective(Section):
    """Replaced token detection (section 2 of the paper)."""

    name: Literal["electra"] = Field("electra", description="replaced token detection")
    mask_fraction: Probability = Field(0.15, description="share of the tokens that the generator fills in")
    generator_weight: NonNegative = Field(1.0, description="weight of the generator's loss")
    discriminator_weight: NonNegative = Field(50.0, description="weight of the discriminator's loss")
    temperature: PositiveFloat = Field(1.0, description="softmax temperature of the generator's samples")
    generator: Generator = MaskedLMGenerator()


class MLMObjective(Section):
    """The BERT baseline: masked language modelling by the full-size encoder, masks drawn anew each time."""

    name: Literal["mlm"] = Field("mlm", description="masked language modelling")
    mask_fraction: Probability = Field(0.15, description="share of the tokens that are masked")


class ElectricObjective(Section):
    """Electric: noise-contrastive estimation of cloze probabilities."""

    name: Literal["electric"] = Field("electric", description="energy-based cloze model")
    mask_fraction: Probability = Field(0.15, description="share of the tokens that are replaced by noise")
    generator_weight: NonNegative = Field(1.0, description="weight of the generator's loss")
    discriminator_weight: NonNegative = Field(50.0, description="weight of the discriminator's loss")
    generator: TwoTowerGenerator = TwoTowerGenerator()


Objective = Annotated[ElectraObjective | MLMObjective | ElectricObjective, Field(discriminator="name")]


class TrainConfig(Section):
    """How long, how fast and on how much at a time."""

    steps: PositiveInt = Field(description="updates of the weights")
    batch_size: PositiveInt = Field(description="sequences in one update")
    length: PositiveInt = Field(description="tokens in one sequence")
    learning_rate: PositiveFloat = Field(description="base rate; times linear decay times linear warm-up")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(10_000, description="updates until the full rate")
    weight_decay: NonNegative = Field(0.01, description="decoupled decay; biases and layer norms are exempt")
    adam_beta1: Probability = Field(0.9, description="memory of the gradient's mean")
    adam_beta2: Probability = Field(0.999, description="memory of the gradient's square")
    adam_eps: PositiveFloat = Field(1e-6, description="added to the root of the gradient's square")
    clip_norm: PositiveFloat = Field(1.0, description="largest norm of the whole gradient")


class PretrainConfig(Section):
    """A whole pre-training run."""

    seed: Annotated[int, Field(ge=0)] = Field(0, description="every random draw follows from it and the step")
    model: ModelConfig
    objective: Objective
    train: TrainConfig

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.train.length > self.model.max_length:
            raise ValueError(f"train.length {self.train.length} exceeds model.max_length {self.model.max_length}")
        generator = getattr(self.objective, "generator", None)
        if isinstance(generator, SizedGenerator):
            generator.encoder(self.model)
        return self


def _nearest_width(full: int, wanted: int) -> str:
    usable = [size for size in range(1, full + 1) if size % max(1, size // 64) == 0]
    below = max((size for size in usable if size < wanted), default=None)
    above = min((size for size in usable if size > wanted), default=None)
    return " or ".join(f"{size / full:.6g} (width {size})" for size in (below, above) if size)
