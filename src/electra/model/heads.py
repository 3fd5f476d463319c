"""What a head is, and the heads of pre-training. Those of fine-tuning are next to their tasks.

Shapes: B sequences, L tokens, N masked positions, H hidden size, E embedding size, V vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ElectraModel, ModelConfig, ModernModel
from electra.config.section import Pooling
from electra.model import ops
from electra.model.initialize import glorot_linear, normal_linear

Labeled = Literal["texts", "tokens"]
Role = Literal["detection", "prediction", "task"]
HEADS: dict[str, type["Head"]] = {}  # every head, by its architecture in files
EXAMPLE = 'outputs = model(**tokenizer("the chef ate the meal", return_tensors="pt"))'
TASK_HEADS = "electra.tasks.build"  # defines the heads of all task families; imported when a file needs one of them


def label_config(labels: Sequence[str]) -> dict[str, Any]:
    """Return labels as config.json has them."""
    numbered = dict(enumerate(labels))
    return {
        "id2label": {str(number): label for number, label in numbered.items()},
        "label2id": {label: number for number, label in numbered.items()},
    }


class Head(nn.Module):
    """A head on an encoder. Each class says how files name it: `class NewHead(Head, architecture=…, names=…)`."""

    architecture: ClassVar[str]  # in config.json: a class of transformers, or a name of our own
    names: ClassVar[Mapping[str, str]]  # our modules to those in the file; "" is the head itself
    example: ClassVar[str] = EXAMPLE  # code in the model card
    labeled: ClassVar[Labeled | None]  # what gets one output per label; None: outputs are fixed
    role: ClassVar[Role]  # in pre-training, scores or predicts tokens; all others belong to a task
    stored_as: ClassVar[str]  # what config.json says, where that is another class of transformers
    described: ClassVar[Mapping[str, Any]] = {}  # what config.json says besides
    served_as: ClassVar[str]  # the class of optimum for its ONNX graphs, without the prefix ORTModelFor
    compares: ClassVar[bool] = False  # in transformers, whether it scores the options (B, C, L) of a question

    def __init_subclass__(
        cls,
        *,
        architecture: str | None = None,
        names: Mapping[str, str] | None = None,
        labeled: Labeled | None = None,
        role: Role = "task",
        stored_as: str | None = None,
        served_as: str | None = None,
    ) -> None:
        """Register the head, or refuse one that could not be saved."""
        super().__init_subclass__()
        if cls.__module__.startswith("torch."):  # a proxy that torch.export makes of a head
            return
        if architecture is None or names is None:
            definition = f"class {cls.__name__}(Head, architecture=…, names=…)"
            raise TypeError(f"define it as {definition}, so that it can be saved")
        if architecture in HEADS and HEADS[architecture].__qualname__ != cls.__qualname__:
            raise TypeError(f"{cls.__name__}: architecture {architecture} is {HEADS[architecture].__name__}'s already")
        cls.architecture, cls.names, cls.labeled, cls.role = architecture, names, labeled, role
        cls.stored_as = stored_as or architecture
        cls.served_as = served_as or cls.stored_as.partition("For")[2]
        HEADS[architecture] = cls

    def exported(self, config: ModelConfig) -> "Head":
        """Return the same function as a head that transformers has a class for."""
        return self

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        """Return the outputs as the class in transformers names them; nothing if there is no such class."""
        return {"logits": self(hidden)}

    def to_file(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor as a file has it, by its name there."""
        return tensor

    def from_file(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor of a file as the head has it."""
        return tensor

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
    role="prediction",
):
    """Hidden states to token logits, through the transposed token embeddings."""

    def __init__(self, config: ElectraModel, inputs: int | None = None) -> None:
        super().__init__()
        self.dense = normal_linear(inputs or config.hidden_size, config.embedding_size, config.initializer_std)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, vocabulary: Tensor) -> Tensor:
        """Return (B, N, V) logits of (B, N, H) hidden states, with the token embeddings (V, E)."""
        return ops.token_logits(ops.norm(F.gelu(self.dense(hidden)), self.norm), vocabulary, self.bias)


class DiscriminatorHead(
    Head,
    architecture="ElectraForPreTraining",
    names={"dense": "discriminator_predictions.dense", "score": "discriminator_predictions.dense_prediction"},
    role="detection",
    served_as="CustomTasks",
):
    """Hidden states to one score per token: positive for replaced."""

    example = f"{EXAMPLE}\nreplaced = outputs.logits.sigmoid()  # probability of each token"

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


def pooled(hidden: Tensor, attention: Tensor | None, pooling: Pooling) -> Tensor:
    """Return a vector (B, H) of each text in float32: its first state, or the mean of all that are no padding."""
    if pooling == "first":
        return hidden[:, 0].float()
    real = torch.ones_like(hidden[..., 0]) if attention is None else (attention != 0).to(hidden.dtype)
    counts = real.sum(1, dtype=torch.float32).clamp(min=1)  # a row of padding has none
    return (hidden * real[..., None]).sum(1, dtype=torch.float32) / counts[:, None]


class NormedHead(nn.Module):
    """What the heads of ModernBERT have in common: dense, GELU, norm, then a linear map."""

    NAMES: ClassVar = {"dense": "head.dense", "norm": "head.norm", "linear": "classifier"}

    def __init__(self, config: ModernModel, outputs: int) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.dense = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = normal_linear(config.hidden_size, outputs, config.hidden_size**-0.5)

    def read(self, states: Tensor) -> Tensor:
        """Return the outputs of (…, H) states."""
        outputs: Tensor = self.linear(self.dropout(ops.norm(F.gelu(self.dense(states)), self.norm)))
        return outputs

    def pool(self, hidden: Tensor, attention: Tensor | None) -> Tensor:
        """Return the state (B, H) of the first token, or the mean of all that are no padding."""
        return pooled(hidden, attention, self.pooling).to(hidden.dtype)


class ModernGeneratorHead(
    Head,
    architecture="ModernBertForMaskedLM",
    names={"dense": "head.dense", "norm": "head.norm", "": "decoder"},
    role="prediction",
):
    """Hidden states to token logits, through the transposed token embeddings."""

    def __init__(self, config: ModernModel, inputs: int | None = None) -> None:
        super().__init__()
        inputs = inputs or config.hidden_size
        self.dense = normal_linear(inputs, config.hidden_size, config.initializer_std, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, vocabulary: Tensor) -> Tensor:
        """Return (B, N, V) logits of (B, N, H) hidden states, with the token embeddings (V, H)."""
        return ops.token_logits(ops.norm(F.gelu(self.dense(hidden)), self.norm), vocabulary, self.bias)


class ModernDiscriminatorHead(
    NormedHead,
    Head,
    architecture="ModernBertForPreTraining",
    names=NormedHead.NAMES,
    role="detection",
    stored_as="ModernBertForTokenClassification",
):
    """Hidden states to one score per token: positive for replaced.

    Files have two labels, whose softmax is the sigmoid of the score: the logit of `original` is always 0.
    """

    described = label_config(("original", "replaced"))
    example = f"{EXAMPLE}\nreplaced = outputs.logits.softmax(-1)[..., 1]  # probability of each token"

    def __init__(self, config: ModernModel) -> None:
        super().__init__(config, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, L) scores of (B, L, H) hidden states."""
        return self.read(hidden).squeeze(-1)

    def expect(self, share: float) -> None:
        """Start from the expectation that this share of the tokens is replaced."""
        nn.init.constant_(self.linear.bias, math.log(share / (1 - share)))

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        scores = self(hidden)
        return {"logits": torch.stack([torch.zeros_like(scores), scores], dim=-1)}

    def to_file(self, name: str, tensor: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(tensor), tensor]) if name.startswith("classifier.") else tensor

    def from_file(self, name: str, tensor: Tensor) -> Tensor:
        return tensor[1:] - tensor[:-1] if name.startswith("classifier.") else tensor
