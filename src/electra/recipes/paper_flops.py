"""The training FLOPs that the original's authors publish for 13 models, by their own convention.

Every mathematical operation counts, embeddings are looked up by a dense product with a one-hot vector, and the backward
pass is taken to cost as much as the forward pass. For runs of ours see `flops.py`.
A product of (m, k) and (k, n) is 2·m·k·n operations. Counts are of the forward pass over one sequence unless noted.
"""

from dataclasses import dataclass, replace
from functools import cached_property

DROPOUT, LAYER_NORM, GELU, SOFTMAX = 4, 5, 8, 5  # operations per element
PAPER_PREDICTED = 0.15625  # share of the positions that get a softmax there, whatever the masking rate: 20 of 128

PAPER_DEFECTS = (
    "the layer norm after attention counts 5 operations a token instead of 5 for each of its elements",
    "the value mix and the attention output count the hidden size where the heads' joint width is meant (t5_11b)",
    "the softmax counts 15.625 % of the positions even where 25 % are masked (electra_400k, electra_1.75M)",
    "the backward pass counts as much as the forward pass; the usual convention is twice as much",
)


@dataclass(frozen=True)
class PaperCount:
    """The original's count of one Transformer, defects included, so that its published totals follow exactly."""

    hidden: int
    layers: int
    length: int = 512
    vocab: int = 30_522
    embedding: int | None = None
    inner: int | None = None
    heads: int | None = None
    head_size: int | None = None
    predicted: float = PAPER_PREDICTED
    cross_attention: bool = False

    @cached_property
    def block(self) -> int:
        """Count one Transformer block."""
        h, s = self.hidden, self.length
        inner = self.inner or 4 * h
        heads = self.heads or max(h // 64, 1)
        joint = self.head_size * heads if self.head_size else h
        value_width, attention_norm = h, LAYER_NORM  # the first two defects
        attention = 3 * (2 * h * joint + joint) + 2 * joint * s + (SOFTMAX + DROPOUT + 1) * s * heads
        attention += 2 * value_width * s + (2 * value_width * h + h) + (DROPOUT + 1) * h + attention_norm
        feed_forward = (2 * h * inner + inner) + GELU * inner + (2 * inner * h + h) + (DROPOUT + 1 + LAYER_NORM) * h
        return s * (attention * (2 if self.cross_attention else 1) + feed_forward)

    @cached_property
    def lookup(self) -> int:
        """Count the embeddings and their projection."""
        e, h, s = self.embedding or self.hidden, self.hidden, self.length
        project = 2 * e * h + h if e != h else 0
        return s * (2 * e * self.vocab + 2 * e * (s + 2) + (2 + LAYER_NORM + DROPOUT) * e + project)

    @cached_property
    def token_head(self) -> float:
        """Count the softmax over the vocabulary."""
        e, h, v = self.embedding or self.hidden, self.hidden, self.vocab
        hidden = (2 * h * e + e) + (GELU + LAYER_NORM) * e
        return self.predicted * (hidden + 2 * e * v + (SOFTMAX + 2) * v) * self.length

    @cached_property
    def binary_head(self) -> int:
        """Count the discriminator's head."""
        h = self.hidden
        return self.length * (2 * h * h + h + GELU * h + 2 * h)

    @property
    def encoder(self) -> int:
        """Count embeddings and blocks."""
        return self.layers * self.block + self.lookup

    def train(self, batch_size: int, steps: int, discriminator: bool = False) -> float:
        """Count a training run."""
        head = self.binary_head if discriminator else self.token_head
        return 2 * batch_size * steps * (self.encoder + head)


def published_totals() -> dict[str, float]:
    """Return the training FLOPs that the original publishes for 13 models."""
    small = PaperCount(256, 12, length=128, embedding=128)
    small_generator = PaperCount(64, 12, length=128, embedding=128)
    base, base_generator = PaperCount(768, 12), PaperCount(256, 12, embedding=768)
    large, large_generator = PaperCount(1024, 24), PaperCount(256, 24, embedding=1024)
    t5_encoder = PaperCount(1024, 24, vocab=32_000, inner=65_536, heads=128, head_size=128, predicted=0.0)
    t5_decoder = replace(t5_encoder, predicted=1.0, cross_attention=True)

    def electra(main: PaperCount, generator: PaperCount, batch_size: int, steps: int) -> float:
        return main.train(batch_size, steps, discriminator=True) + generator.train(batch_size, steps)

    return {
        # The first two were measured by the original's authors: forward FLOPs of a batch, times the batches read.
        "elmo": 2 * 10 * 768_648_884 * 568_093_262_680 / (20.0 * 128),
        "xlnet": 2 * 500_000 * 8_192 * 15_064_773_691_518 / 32.0,
        "gpt": PaperCount(768, 12, vocab=40_000, predicted=1.0).train(128, 960_800),
        "bert_small": small.train(128, 1_450_000),
        "bert_base": base.train(256, 1_000_000),
        "bert_large": large.train(256, 1_000_000),
        "electra_small": electra(small, small_generator, 128, 1_000_000),
        "electra_base": electra(base, base_generator, 256, 766_000),
        "electra_400k": electra(large, large_generator, 2_048, 400_000),
        "electra_1.75M": electra(large, large_generator, 2_048, 1_750_000),
        "roberta": PaperCount(1024, 24, vocab=50_265).train(8_000, 500_000),
        "albert": PaperCount(4096, 12, vocab=30_000, embedding=128).train(4_096, 1_500_000),
        "t5_11b": t5_encoder.train(2_048, 1_000_000) + t5_decoder.train(2_048, 1_000_000),
    }
