"""What stands on an encoder: the heads of pre-training, of fine-tuning, and Hugging Face's where they differ.

Shapes: B sequences, L tokens, N masked positions, H hidden size, E embedding size, V vocabulary.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.schema import ModelConfig
from electra.errors import CheckpointError
from electra.model import kernels
from electra.model.cpu import gelu
from electra.model.encoder import glorot_linear, normal_linear


def at_positions(states: Tensor, positions: Tensor) -> Tensor:
    """Give the (B, N, H) states of (B, L, H) that stand at positions (B, N)."""
    return states.gather(1, positions[..., None].expand(-1, -1, states.size(-1)))


class GeneratorHead(nn.Module):
    """Hidden states to token logits, through the transposed token embeddings."""

    def __init__(self, config: ModelConfig, inputs: int | None = None) -> None:
        super().__init__()
        self.dense = normal_linear(inputs or config.hidden_size, config.embedding_size, config.initializer_std)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Give (B, N, V) logits of (B, N, H) hidden states, with the token embeddings `words` (V, E)."""
        states = self.norm(gelu(self.dense(hidden)))
        if kernels.serve(words):
            from electra.model.kernels.vocabulary import logits

            return logits(states.to(words.dtype), words, self.bias)
        return F.linear(states, words, self.bias).float()  # which tells them from those of the kernel


class DiscriminatorHead(nn.Module):
    """Hidden states to one score a token: positive for replaced."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std)
        self.score = glorot_linear(config.hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Give (B, L) scores of (B, L, H) hidden states."""
        scores: Tensor = self.score(gelu(self.dense(hidden)))
        return scores.squeeze(-1)


class ClassificationHead(nn.Module):
    """The first token's hidden state to class logits, or to one value for regression."""

    def __init__(self, config: ModelConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.linear = glorot_linear(config.hidden_size, outputs)

    def forward(self, hidden: Tensor) -> Tensor:
        """Give (B, outputs) logits of (B, L, H) hidden states."""
        logits: Tensor = self.linear(self.dropout(hidden[:, 0]))
        return logits

    @torch.no_grad()
    def in_huggingface(self, config: ModelConfig) -> "HuggingFaceClassificationHead":
        """Write the same function as the two layers that Hugging Face has.

        gelu(z) - gelu(-z) = z for every z: the inner layer computes each logit and its negative, the outer subtracts.
        """
        outputs, width = self.linear.weight.shape
        if 2 * outputs > width:
            raise CheckpointError(
                f"Hugging Face's classifier of width {width} cannot hold the paper's head with {outputs} labels; "
                f"fine-tune with head=huggingface"
            )
        head = HuggingFaceClassificationHead(config, outputs).to(self.linear.weight.device)
        for parameter in head.parameters():
            parameter.zero_()
        head.dense.weight[: 2 * outputs] = torch.cat([self.linear.weight, -self.linear.weight])
        head.dense.bias[: 2 * outputs] = torch.cat([self.linear.bias, -self.linear.bias])
        one = torch.eye(outputs)
        head.linear.weight[:, : 2 * outputs] = torch.cat([one, -one], dim=1)
        return head


class HuggingFaceClassificationHead(nn.Module):
    """The head of `ElectraForSequenceClassification`: one more layer between the first token and the logits."""

    def __init__(self, config: ModelConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.dense = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std)
        self.linear = normal_linear(config.hidden_size, outputs, config.initializer_std)

    def forward(self, hidden: Tensor) -> Tensor:
        """Give (B, outputs) logits of (B, L, H) hidden states."""
        logits: Tensor = self.linear(self.dropout(gelu(self.dense(self.dropout(hidden[:, 0])))))
        return logits


class TaggingHead(nn.Module):
    """Every token's hidden state to tag logits, in the paper as in `ElectraForTokenClassification`."""

    def __init__(self, config: ModelConfig, tags: int) -> None:
        super().__init__()
        self.linear = glorot_linear(config.hidden_size, tags)

    def forward(self, hidden: Tensor) -> Tensor:
        """Give (B, L, tags) logits of (B, L, H) hidden states."""
        logits: Tensor = self.linear(hidden)
        return logits


class Spans(NamedTuple):
    """Where answers start and end, K starts considered for each sequence."""

    start: Tensor  # (B, L) logits of the first token
    starts: Tensor  # (B, K) the starts that the ends were conditioned on
    end: Tensor  # (B, K, L) logits of the last token, given each start
    unanswerable: Tensor | None  # (B,) logit of there being no answer; None for a head that has no such class


OUTSIDE = -1000.0  # added to the logits of tokens that no answer starts or ends at, as in the original


def outside(allowed: Tensor) -> Tensor:
    """Give what is added to logits: nothing for `allowed` tokens, a lot less for the others."""
    return torch.where(allowed, 0.0, OUTSIDE)


class QuestionAnsweringHead(nn.Module):
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
        """Score spans within the `allowed` (B, L) tokens for the starts (B, K) that are chosen by their logits."""
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


class HuggingFaceSpanHead(nn.Module):
    """The head of `ElectraForQuestionAnswering`: start and end are scored apart; no answer is a span at [CLS]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = normal_linear(config.hidden_size, 2, config.initializer_std)

    def forward(self, hidden: Tensor) -> Tensor:
        """Give (B, L, 2) logits of each token being the first and the last of the answer."""
        logits: Tensor = self.linear(hidden)
        return logits


TaskHead = (
    ClassificationHead | HuggingFaceClassificationHead | TaggingHead | QuestionAnsweringHead | HuggingFaceSpanHead
)
