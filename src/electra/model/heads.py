"""What a head is, and the heads of pre-training. Those of fine-tuning are next to their tasks.

Shapes: B sequences, L tokens, N masked positions, H hidden size, E embedding size, V vocabulary.
"""

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ElectraModel, ModelConfig
from electra.model import ops
from electra.model.initialize import glorot_linear, normal_linear

Labelled = Literal["texts", "tokens"]
HEADS: dict[str, type["Head"]] = {}  # every head, by its architecture in files
EXAMPLE = 'outputs = model(**tokenizer("the chef ate the meal", return_tensors="pt"))'
TASK_HEADS = "electra.tasks.build"  # defines the heads of all task families; imported when a file needs one of them


class Head(nn.Module):
    """A head on an encoder. Each class says how files name it: `class NewHead(Head, architecture=…, names=…)`."""

    architecture: ClassVar[str]  # in config.json: a class of transformers, or a name of our own
    names: ClassVar[Mapping[str, str]]  # our modules to those in the file; "" is the head itself
    example: ClassVar[str] = EXAMPLE  # code in the model card
    labelled: ClassVar[Labelled | None]  # what gets one output per label; None: outputs are fixed

    def __init_subclass__(
        cls,
        *,
        architecture: str | None = None,
        names: Mapping[str, str] | None = None,
        labelled: Labelled | None = None,
    ) -> None:
        """Register the head, or refuse one that could not be saved."""
        super().__init_subclass__()
        if architecture is None or names is None:
            definition = f"class {cls.__name__}(Head, architecture=…, names=…)"
            raise TypeError(f"define it as {definition}, so that it can be saved")
        if architecture in HEADS and HEADS[architecture].__qualname__ != cls.__qualname__:
            raise TypeError(f"{cls.__name__}: architecture {architecture} is {HEADS[architecture].__name__}'s already")
        cls.architecture, cls.names, cls.labelled = architecture, names, labelled
        HEADS[architecture] = cls

    def exported(self, config: ModelConfig) -> "Head":
        """Return the same function as a head that transformers has a class for."""
        return self

    def file_name(self, name: str) -> str:
        """Return what a parameter of the head is called in a file."""
        module, _, kind = name.rpartition(".")
        return f"{self.names[module]}.{kind}"


def find_head(architecture: str) -> Any:
    """Return the class of a head by its architecture in files, None where there is no such head."""
    if architecture not in HEADS:
        import_module(TASK_HEADS)
    return HEADS.get(architecture)


def at_positions(states: Tensor, positions: Tensor) -> Tensor:
    """Return the (B, N, H) states of (B, L, H) at positions (B, N)."""
    return states.gather(1, positions[..., None].expand(-1, -1, states.size(-1)))


class GeneratorHead(
    Head,
    architecture="ElectraForMaskedLM",
    names={"dense": "generator_predictions.dense", "norm": "generator_predictions.LayerNorm", "": "generator_lm_head"},
):
    """Hidden states to token logits, through the transposed token embeddings."""

    def __init__(self, config: ElectraModel, inputs: int | None = None) -> None:
        super().__init__()
        self.dense = normal_linear(inputs or config.hidden_size, config.embedding_size, config.initializer_std)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, vocabulary: Tensor) -> Tensor:
        """Return (B, N, V) logits of (B, N, H) hidden states, with the token embeddings (V, E)."""
        return ops.token_logits(self.norm(F.gelu(self.dense(hidden))), vocabulary, self.bias)


class DiscriminatorHead(
    Head,
    architecture="ElectraForPreTraining",
    names={"dense": "discriminator_predictions.dense", "score": "discriminator_predictions.dense_prediction"},
):
    """Hidden states to one score per token: positive for replaced."""

    def __init__(self, config: ElectraModel) -> None:
        super().__init__()
        self.dense = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std)
        self.score = glorot_linear(config.hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, L) scores of (B, L, H) hidden states."""
        scores: Tensor = self.score(F.gelu(self.dense(hidden)))
        return scores.squeeze(-1)

    def expect(self, share: float) -> None:
        """Start from the expectation that this share of the tokens is replaced."""
        nn.init.constant_(self.score.bias, math.log(share / (1 - share)))
