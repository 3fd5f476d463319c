"""The heads of question answering: the paper's module, and that of `ElectraForQuestionAnswering`.

Shapes: B windows, L tokens, H hidden size, K starts considered.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.config.bodies import ModelConfig, ModernModel
from electra.errors import CheckpointError
from electra.model.heads import Head, NormedHead, at_positions
from electra.model.initialize import glorot_linear, normal_linear


class Spans(NamedTuple):
    """Scores of answer spans, with K starts considered for each sequence."""

    start: Tensor  # (B, L) logits of the first token
    starts: Tensor  # (B, K) starts that the ends are conditioned on
    end: Tensor  # (B, K, L) logits of the last token, given each start
    unanswerable: Tensor | None  # (B,) logit of "no answer"; None for a head without this class


OUTSIDE = -1000.0  # added to logits of tokens that cannot start or end an answer, as in the original


def outside(allowed: Tensor) -> Tensor:
    """Return what is added to logits: nothing for `allowed` tokens, a large negative number for the others."""
    return torch.where(allowed, 0.0, OUTSIDE)


class QuestionAnsweringHead(
    Head,
    architecture="PaperQuestionAnswering",
    names={name: f"paper_spans.{name}" for name in ("start", "end_hidden", "end", "answer_hidden", "answer")},
    served_as="FeatureExtraction",
):
    """The paper's question-answering module: the end is conditioned on the start, answerability is a class."""

    WIDTH = 512

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.start = glorot_linear(config.hidden_size, 1)
        self.end_hidden = glorot_linear(2 * config.hidden_size, self.WIDTH)
        self.end = glorot_linear(self.WIDTH, 1)
        self.answer_hidden = glorot_linear(2 * config.hidden_size, self.WIDTH)
        self.answer = glorot_linear(self.WIDTH, 1)

    def forward(self, hidden: Tensor, allowed: Tensor, choose: Callable[[Tensor], Tensor]) -> Spans:
        """Score spans within the `allowed` (B, L) tokens; `choose` returns the starts (B, K) given their logits."""
        start = self.start(hidden).squeeze(-1).float() + outside(allowed)
        starts = choose(start)
        at_start = at_positions(hidden, starts)  # (B, K, H)
        # A linear map of the pair (start, token) is the sum of two maps: the (B, K, L, 2H) pairs are never built.
        of_start, of_token = self.end_hidden.weight.chunk(2, dim=1)
        pairs = F.linear(at_start, of_start)[:, :, None] + F.linear(hidden, of_token, self.end_hidden.bias)[:, None]
        end = self.end(F.gelu(pairs)).squeeze(-1).float() + outside(allowed)[:, None]
        expected = (start.softmax(-1)[..., None] * hidden).sum(1)  # (B, H)
        unanswerable = self.answer(F.gelu(self.answer_hidden(torch.cat([hidden[:, 0], expected], dim=-1))))
        return Spans(start, starts, end, unanswerable.squeeze(-1).float())

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        return {}

    def exported(self, config: ModelConfig) -> Head:
        reason = "no class of transformers has the paper's question-answering head, whose end depends on the start"
        raise CheckpointError(f"{reason}; fine-tune with head=huggingface to export")


class HuggingFaceSpanHead(Head, architecture="ElectraForQuestionAnswering", names={"linear": "qa_outputs"}):
    """The head of `ElectraForQuestionAnswering`: start and end are independent; no answer is a span at [CLS]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = normal_linear(config.hidden_size, 2, config.initializer_std)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, L, 2) logits of each token being the first and the last of the answer."""
        logits: Tensor = self.linear(hidden)
        return logits

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        return _ends(self(hidden))


class ModernSpanHead(NormedHead, Head, architecture="ModernBertForQuestionAnswering", names=NormedHead.NAMES):
    """The head of `ModernBertForQuestionAnswering`, with the same outputs."""

    def __init__(self, config: ModernModel) -> None:
        super().__init__(config, 2)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, L, 2) logits of each token being the first and the last of the answer."""
        return self.read(hidden)

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        return _ends(self(hidden))


def _ends(logits: Tensor) -> dict[str, Tensor]:
    """Return the two logits of each token (B, L, 2) as transformers names them."""
    return dict(zip(("start_logits", "end_logits"), logits.unbind(-1), strict=True))
