"""The encoder bodies: what all have in common, and a section for each, chosen by the tag `body`."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from electra.config.section import Few, Pooling, Positive, Probability, Section, Size
from electra.errors import ConfigError


class ModelConfig(Section):
    """What every encoder body has; a body adds its own fields and its tag."""

    # Keys in which a model may differ from the weights that it starts from.
    FREE: ClassVar[tuple[str, ...]] = (
        "dropout",
        "attention_dropout",
        "initializer_std",
        "layer_norm_eps",
        "activation_checkpointing",
    )
    EVEN_HEADS: ClassVar[bool] = False  # whether heads need an even width
    GENERATOR: ClassVar[dict[str, Any]] = {}  # what a generator of this body has where its section leaves it open
    body: str = Field(description="architecture of the encoder")
    hidden_size: Size = Field(description="width of the Transformer")
    layers: Few = Field(description="Transformer blocks")
    heads: Size = Field(description="attention heads; must divide hidden_size")
    vocab_size: Size = Field(30_522, description="entries of the vocabulary; follows the corpus")
    max_length: Size = Field(512, description="longest sequence in tokens; at least that of the corpus")
    dropout: Probability = Field(0.1, description="dropout of the hidden states")
    attention_dropout: Probability = Field(0.1, description="dropout of the attention probabilities")
    initializer_std: Positive = Field(0.02, description="standard deviation of the initial weights")
    layer_norm_eps: Positive = Field(1e-12, description="added to the variance in layer norm")
    activation_checkpointing: bool = Field(False, description="recompute blocks in the backward pass to save memory")

    @property
    def shape(self) -> dict[str, Any]:
        """The keys in which two models must agree for one to load the other's weights."""
        return {key: value for key, value in self.model_dump().items() if key not in self.FREE}

    @abstractmethod
    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return the shape of a generator whose width and depth are ratios to this model's."""

    def sizes_for(self, vocab_size: int, length: int, segments: int) -> dict[str, int]:
        """Return the sizes that follow a corpus: its vocabulary, its length, and the segments of a sequence."""
        return {"vocab_size": vocab_size, "max_length": max(self.max_length, length)}

    @property
    def has_types(self) -> bool:
        """Whether tokens have a type, the number of their segment; otherwise [SEP] alone divides segments."""
        return False

    def tells_apart(self, segments: int) -> bool:
        """Return whether a sequence may have this many segments."""
        return True

    def _scaled_width(self, width: float) -> tuple[int, int]:
        """Return a generator's width and heads: one per 64, unless it is as wide as this model."""
        hidden_size = max(1, round(self.hidden_size * width))
        heads = self.heads if width == 1 else max(1, hidden_size // 64)
        if hidden_size % (heads * (1 + self.EVEN_HEADS)):
            evenly = " into even widths" if self.EVEN_HEADS and hidden_size % heads == 0 else ""
            raise ConfigError(
                f"objective.generator.width={width:g} gives a generator of width {hidden_size}, which {heads} heads "
                f"(one per 64) do not divide{evenly}; use {self._nearest_width(hidden_size)}"
            )
        return hidden_size, heads

    def _nearest_width(self, wanted: int) -> str:
        """Return the ratios of the narrower and the wider generator next to one that its heads do not divide."""
        least = 1 + self.EVEN_HEADS
        usable = [size for size in range(1, self.hidden_size) if size % (max(1, size // 64) * least) == 0]
        below = max((size for size in usable if size < wanted), default=None)
        above = min((size for size in (*usable, self.hidden_size) if size > wanted), default=None)
        return " or ".join(f"{size / self.hidden_size:.6g} (width {size})" for size in (below, above) if size)

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
    token_types: Few = Field(2, description="segment kinds: 0 for the first text, 1 for the second")

    def sizes_for(self, vocab_size: int, length: int, segments: int) -> dict[str, int]:
        return super().sizes_for(vocab_size, length, segments) | {"token_types": max(self.token_types, segments)}

    @property
    def has_types(self) -> bool:
        return True

    def tells_apart(self, segments: int) -> bool:
        return segments <= self.token_types

    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return a generator's shape: one head per 64 of its width, a feed-forward block of four times its width."""
        hidden_size, heads = self._scaled_width(width)
        embedding_size = hidden_size if own_embeddings else self.embedding_size
        inner = self.feed_forward_size if width == 1 else 4 * hidden_size
        widths = {"hidden_size": hidden_size, "embedding_size": embedding_size, "feed_forward_size": inner}
        return self.model_copy(update={**widths, "heads": heads, "layers": max(1, round(self.layers * depth))})


class ModernModel(ModelConfig):
    """The encoder of ModernBERT: rotary positions, pre-norm, gated GELU, local attention, no biases."""

    FREE: ClassVar[tuple[str, ...]] = (*ModelConfig.FREE, "max_length", "pooling")
    EVEN_HEADS = True
    GENERATOR: ClassVar[dict[str, Any]] = {"width": 1.0, "depth": 0.25, "sharing": "gdes"}
    body: Literal["modern"] = Field("modern", description="ModernBERT's pre-norm encoder")
    max_length: Size = Field(8192, description="longest sequence in tokens; at least that of the corpus")
    feed_forward_size: Size = Field(description="inner width of the gated feed-forward block")
    window: Size = Field(128, description="tokens that a local layer sees around each token; even")
    global_every: Few = Field(3, description="layers from one that sees all tokens to the next")
    global_theta: Positive = Field(160_000.0, description="base of the rotary positions in global layers")
    local_theta: Positive = Field(10_000.0, description="base of the rotary positions in local layers")
    dropout: Probability = Field(0.0, description="dropout of the embeddings and inside the feed-forward blocks")
    attention_dropout: Probability = Field(0.0, description="dropout of the attention probabilities and its output")
    layer_norm_eps: Positive = Field(1e-5, description="added to the variance in layer norm")
    pooling: Pooling = Field("first", description="what heads for whole texts read: the first token or the mean of all")

    def is_global(self, layer: int) -> bool:
        """Return whether a layer, counted from 0, sees all tokens of a text."""
        return layer % self.global_every == 0

    def scaled(self, width: float, depth: float, *, own_embeddings: bool) -> Self:
        """Return a generator's shape; a narrower one needs embeddings of its own."""
        hidden_size, heads = self._scaled_width(width)
        if hidden_size != self.hidden_size and not own_embeddings:
            raise ConfigError(
                f"objective.generator.width={width:g}: the body modern has embeddings as wide as its blocks, so a "
                "generator of another width cannot share them; set objective.generator.sharing=none, or "
                "objective.generator.width=1.0 and a smaller objective.generator.depth"
            )
        inner = self.feed_forward_size if width == 1 else max(1, round(self.feed_forward_size * width))
        sizes = {"hidden_size": hidden_size, "heads": heads, "feed_forward_size": inner}
        return self.model_copy(update={**sizes, "layers": max(1, round(self.layers * depth))})

    @model_validator(mode="after")
    def _shape_is_possible(self) -> Self:
        if self.window % 2:
            raise ValueError(f"window {self.window} is odd; half of it lies on either side of a token")
        if self.hidden_size // self.heads % 2:
            raise ValueError(f"heads of width {self.hidden_size // self.heads} cannot be rotated; use an even width")
        return self


Model = Annotated[ElectraModel | ModernModel, Field(discriminator="body")]
