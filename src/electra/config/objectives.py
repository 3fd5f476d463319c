"""The objectives and their generators: a section for each, chosen by the tags `name` and `kind`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from electra.config.bodies import ModelConfig
from electra.config.section import NonNegative, Positive, Ratio, Section, Share

SHARING = "weights shared with the discriminator; gdes: embeddings, but not their gradients"


class SizedGenerator(Section):
    """Fields of the trained generators: a size relative to the discriminator's."""

    width: Ratio = Field(0.25, description="hidden size as a ratio to the discriminator's")
    depth: Ratio = Field(1.0, description="number of layers as a ratio to the discriminator's")
    rate: Positive = Field(1.0, description="multiple of the learning rate for the weights it does not share")
    sharing: Literal["none", "embeddings", "gdes", "all"]

    def model(self, discriminator: ModelConfig) -> ModelConfig:
        """Return the shape of the generator's encoder next to the discriminator's."""
        return discriminator.scaled(self.width, self.depth, own_embeddings=self.sharing == "none")


class MaskedLMGenerator(SizedGenerator):
    """The paper's generator: a small masked language model."""

    kind: Literal["masked_lm"] = Field("masked_lm", description="a small masked language model, as in the paper")
    sharing: Literal["none", "embeddings", "gdes", "all"] = Field("embeddings", description=SHARING)

    @model_validator(mode="after")
    def _sharing_all_needs_equal_sizes(self) -> Self:
        if self.sharing == "all" and (self.width, self.depth) != (1.0, 1.0):
            raise ValueError('sharing = "all" needs networks of equal size: set width=1.0 and depth=1.0')
        return self


class TwoTowerGenerator(SizedGenerator):
    """A left-to-right and a right-to-left Transformer that predict each token from all others."""

    kind: Literal["two_tower"] = Field("two_tower", description="one causal Transformer per direction")
    sharing: Literal["none", "embeddings", "gdes"] = Field("embeddings", description=SHARING)


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
    mask_fraction: Share = Field(0.15, description="share of the tokens that are masked")
    mask_token_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.85, description="share of the masked tokens that become [MASK]; the others are kept (original: 0.85)"
    )
    mask_draw: Literal["distinct", "with_replacement"] = Field(
        "distinct", description="positions drawn without repetition, or with it as in the original"
    )
    whole_words: bool = Field(False, description="mask all pieces of a word or none, unless it is too long for that")

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
    temperature: Positive = Field(1.0, description="softmax temperature of the generator's samples")


class ReplacedTokens(Sampling):
    """Fields of the objectives whose input has replaced tokens."""

    forbid_original: bool = Field(False, description="never sample the true token")
    generator: Generator = MaskedLMGenerator()


class Discriminating(Sampling):
    """Fields of the objectives with a discriminator."""

    discriminator_weight: NonNegative = Field(50.0, description="weight of the discriminator's loss")


class Detecting(ReplacedTokens, Discriminating):
    """Fields of the objectives that detect replaced tokens."""

    prior: Share | None = Field(
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
        "joint", description="both at once; the generator first; or a generator rewarded for fooling the discriminator"
    )

    @property
    def kind(self) -> str:
        return self.name if self.algorithm == "joint" else self.algorithm

    @model_validator(mode="after")
    def _algorithm_fits_generator(self) -> Self:
        generator, algorithm = self.generator, self.algorithm
        if algorithm == "joint":
            return self
        if not isinstance(generator, MaskedLMGenerator):
            raise ValueError(f'algorithm = "{algorithm}" trains a masked-LM generator, not kind = "{generator.kind}"')
        if algorithm == "two_stage" and (generator.width, generator.depth, generator.sharing) != (1.0, 1.0, "none"):
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
            masked = f"mask_fraction {self.mask_fraction:g}"
            raise ValueError(f"prior {self.prior:g} must be below {masked}: only these can be replaced")
        return self


class CorrectiveObjective(Detecting):
    """Replaced token detection that also predicts the original tokens, after COCO-LM (not in the paper)."""

    name: Literal["corrective"] = Field(
        "corrective", description="detection plus prediction of the original tokens at masked positions"
    )
    correction_weight: NonNegative = Field(5.0, description="weight of the loss of predicting the original tokens")


class ReplaceMLMObjective(ReplacedTokens):
    """Masked language modeling whose input has samples instead of [MASK] (section 3.5)."""

    name: Literal["replace_mlm"] = Field("replace_mlm", description="masked LM over generator samples")


class AllTokensMLMObjective(ReplacedTokens):
    """Replace MLM that predicts every token, with a copy mechanism (section 3.5)."""

    name: Literal["all_tokens_mlm"] = Field("all_tokens_mlm", description="every token predicted or copied")


class MLMObjective(Masking):
    """The BERT baseline: masked language modeling by the full-size encoder, with new masks each time."""

    name: Literal["mlm"] = Field("mlm", description="masked language modeling")


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
