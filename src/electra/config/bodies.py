"""The encoder bodies: what all have in common, and a section for each, chosen by the tag `body`."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from electra.config.section import Few, Positive, Probability, Section, Size
from electra.errors import ConfigError


class ModelConfig(Section):
    """What every encoder body has; a body adds its own fields and its tag."""

    # Keys in which a model may differ from the weights that it starts from.
    FREE: ClassVar = ("dropout", "attention_dropout", "initializer_std", "layer_norm_eps", "activation_checkpointing")
    body: str = Field(description="architecture of the encoder")
    hidden_size: Size = Field(description="width of the Transformer")
    layers: Few = Field(description="Transformer blocks")
    heads: Size = Field(description="attention heads; must divide hidden_size")
    vocab_size: Size = Field(30_522, description="entries of the vocabulary; follows the corpus")
    max_length: Size = Field(512, description="longest sequence in tokens; at least that of the corpus")
    token_types: Few = Field(2, description="segment kinds: 0 for the first text, 1 for the second")
    dropout: Probability = Field(0.1, description="dropout of the hidden states")
    attention_dropout: Probability = Field(0.1, description="dropout of the attention probabilities")
    initializer_std: Positive = Field(0.02, description="standard deviation of the initial weights")
    activation_checkpointing: bool = Field(False, description="recompute blocks in the backward pass to save memory")

    @property
    def shape(self) -> dict[str, Any]:
        """The keys in which two models must agree for one to load the other's weights."""
        return {key: value for key, value in self.model_dump().items() if key not in self.FREE}

    @abstractmethod
    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return the shape of a generator whose width and depth are ratios to this model's."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"{self.heads} heads do not divide hidden_size {self.hidden_size}")
        return self


class ElectraModel(ModelConfig):
    """The encoder of BERT and ELECTRA: learned positions, post-norm, GELU."""

    body: Literal["electra"] = Field("electra", description="BERT's post-norm encoder, as in the paper")
    embedding_size: Size = Field(description="width of the token, position and type embeddings")
    feed_forward_size: Size = Field(description="inner width of the feed-forward block")
    layer_norm_eps: Positive = Field(1e-12, description="added to the variance in layer norm")

    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return a generator's shape: one head per 64 of its width, a feed-forward block of four times its width."""
        hidden_size = max(1, round(self.hidden_size * width))
        heads = self.heads if width == 1 else max(1, hidden_size // 64)
        if hidden_size % heads:
            raise ConfigError(
                f"objective.generator.width={width:g} gives a generator of width {hidden_size}, which {heads} heads "
                f"(one per 64) do not divide; use {_nearest_width(self.hidden_size, hidden_size)}"
            )
        embedding_size = hidden_size if own_embeddings else self.embedding_size
        inner = self.feed_forward_size if width == 1 else 4 * hidden_size
        widths = {"hidden_size": hidden_size, "embedding_size": embedding_size, "feed_forward_size": inner}
        return self.model_copy(update={**widths, "heads": heads, "layers": max(1, round(self.layers * depth))})


Model = ElectraModel  # with a second body: Annotated[ElectraModel | …, Field(discriminator="body")]


def _nearest_width(full: int, wanted: int) -> str:
    usable = [size for size in range(1, full + 1) if size % max(1, size // 64) == 0]
    below = max((size for size in usable if size < wanted), default=None)
    above = min((size for size in usable if size > wanted), default=None)
    return " or ".join(f"{size / full:.6g} (width {size})" for size in (below, above) if size)
