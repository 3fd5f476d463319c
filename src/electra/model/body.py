"""The contract of an encoder body: everything that knows the body's layers or weights by name is part of the body.

Shapes: B sequences, L tokens, H hidden size, V vocabulary, E embedding size.
`attention` (B, L) is 0 for padding and otherwise the number of a token's text: tokens attend to tokens with the same
number. A plain 0/1 attention mask is the case of one text per sequence; None lets all tokens attend to each other.
"""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal, Self, TypeVar

import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from electra.config.bodies import ModelConfig
from electra.config.finetune import HeadKind
from electra.errors import CheckpointError, ConfigError
from electra.model import kernels
from electra.model.heads import Head, find_head
from electra.model.initialize import cooccurrence_vectors, truncated_normal_

Direction = Literal["both", "forward", "backward"]
EMBEDDINGS = "embeddings"  # the attribute of a body that networks may share
Shape = TypeVar("Shape", bound=ModelConfig)


class Embeddings(nn.Module, ABC):
    """Token embeddings, and whatever a body adds to them before its first block.

    With `shared`, gradient-disentangled sharing (GDES; He et al. 2023, DeBERTaV3): each table is another network's,
    held fixed, plus a difference that is learned and starts at zero: E_D = stop_gradient(E_G) + E_Δ.
    """

    tables: ClassVar[tuple[str, ...]] = ("words",)  # attributes that hold lookup tables

    def __init__(self, config: Any, shared: "Embeddings | None" = None) -> None:
        super().__init__()
        self.config = config
        if shared is not None:
            self.shared = shared

    def start(self) -> None:
        """Draw the tables; differences start at zero."""
        for name in self.tables:
            truncated_normal_(getattr(self, name).weight, self.config.initializer_std)
        for name in self.tables if self.source is not self else ():
            nn.init.zeros_(getattr(self, name).weight)

    @torch.no_grad()
    def start_from(self, pairs: Tensor) -> None:
        """Start the tokens that `pairs` counts, a sparse (V, V) tensor, from how they follow each other."""
        words = self.get_parameter("words.weight")
        counted = torch.zeros(len(words), dtype=torch.bool)
        counted[pairs.coalesce().indices().flatten().cpu()] = True
        vectors = cooccurrence_vectors(pairs, words.size(1), self.config.initializer_std)
        words[counted] = vectors.cpu()[counted]

    def table(self, name: str) -> Tensor:
        """Return the numbers of a table; if they are shared, only the difference gets a gradient."""
        own: Tensor = getattr(self, name).weight
        return own if self.source is self else self.source.table(name).detach() + own

    @property
    def vocabulary(self) -> Tensor:
        """The (V, E) embeddings of all tokens, which the head that predicts tokens multiplies with."""
        return self.table("words")

    @property
    def source(self) -> "Embeddings":
        """The embeddings that another network may hold too."""
        return getattr(self, "shared", self)

    @torch.no_grad()
    def adopt(self, theirs: "Embeddings") -> None:
        """Take over plain embeddings of the same shape."""
        for name, weight in theirs.state_dict().items():
            table = name.removesuffix(".weight")
            differs = table in self.tables and self.source is not self
            self.get_parameter(name).copy_(weight - self.source.table(table) if differs else weight)

    @torch.no_grad()
    def plain(self) -> "Embeddings":
        """Return the same function as embeddings that depend on no other module."""
        if self.source is self:
            return self
        plain = type(self)(self.config).to(self.vocabulary.device)
        for name, weight in plain.named_parameters():
            table = name.removesuffix(".weight")
            weight.copy_(self.table(table) if table in self.tables else self.get_parameter(name))
        return plain


class Body(nn.Module, ABC):
    """An encoder: ids (B, L) to hidden states (B, L, H)."""

    family: ClassVar[str]  # prefix of its classes in transformers, such as Electra of ElectraForMaskedLM
    model_types: ClassVar[tuple[str, ...]]  # values of `model_type` in config.json that it reads; it writes the first
    usual_head: ClassVar[HeadKind] = "huggingface"  # in fine-tuning
    special_ids: ClassVar[Mapping[str, str]] = {"pad_token_id": "pad_id"}  # in config.json, and the tokenizer's
    prefix: ClassVar[str]  # of the encoder's tensors in files with a head
    before_blocks: ClassVar[tuple[str, ...]] = ("embeddings.",)  # how the parameters before the blocks begin
    embeddings_type: ClassVar[type[Embeddings]]
    config: ModelConfig
    embeddings: Embeddings
    layers: nn.ModuleList  # its blocks, in the order of their use

    def __init__(
        self, config: ModelConfig, embeddings: Embeddings | None = None, direction: Direction = "both"
    ) -> None:
        super().__init__()
        self.config, self.direction = config, direction
        self.embeddings = embeddings or self.embeddings_type(config)

    @abstractmethod
    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Encode (B, L) ids as (B, L, H) hidden states."""

    def fits_kernels(self, hidden: Tensor, widest: int, block: type[nn.Module]) -> bool:
        """Return whether kernels can compute the blocks, all of a class, whose widest states have so many numbers."""
        head_size = self.config.hidden_size // self.config.heads
        powers = (16, 32, 64, 128)  # of two, for the matrix units
        head_fits = head_size in powers and head_size <= kernels.widest_head(hidden.device)
        indexed = hidden.shape[:2].numel() * widest < 2**31  # in 32 bits
        usual = self.direction == "both" and not self.config.activation_checkpointing
        usual = usual and all(type(layer) is block for layer in self.layers)  # not what a subclass computes
        return usual and head_fits and indexed

    def packs(self, dtype: torch.dtype, device: torch.device) -> bool:
        """Return whether texts packed into one row have the states of padded ones, and are computed faster."""
        return False

    def inferring(self) -> AbstractContextManager[None]:
        """Return a context in which batches are computed without gradients."""
        return nullcontext()

    @abstractmethod
    def matrices(self) -> Mapping[str, int]:
        """Return the parameters that Muon updates, with the number of matrices in each."""

    def height(self, name: str) -> int:
        """Return the block that a parameter belongs to, from 1; 0 before the blocks, the last one after them."""
        if in_block := re.match(r"layers\.(\d+)\.", name):
            return int(in_block[1]) + 1
        return 0 if name.startswith(self.before_blocks) else self.config.layers

    def run_block(self, block: nn.Module, *inputs: Any) -> Tensor:
        """Return what a block computes; with activation checkpointing, the backward pass computes it again."""
        again = self.config.activation_checkpointing and self.training
        output: Tensor = checkpoint(block, *inputs, use_reentrant=False) if again else block(*inputs)
        return output

    @classmethod
    @abstractmethod
    def read_config(cls, described: Mapping[str, Any]) -> ModelConfig:
        """Read the shape from the content of a Hugging Face `config.json`."""

    @classmethod
    @abstractmethod
    def describe(cls, config: Any) -> dict[str, Any]:
        """Return a shape as Hugging Face's `config.json` has it."""

    @abstractmethod
    def file_names(self, name: str) -> list[str]:
        """Return the tensors of a Hugging Face file that make up one parameter, joined along the first axis."""

    @classmethod
    def current_name(cls, name: str) -> str:
        """Return today's name of a tensor in a file of an older layout, without the prefix of the encoder."""
        return name.removeprefix(cls.prefix)

    @property
    def vocabulary(self) -> Tensor:
        """The (V, E) embeddings of all tokens."""
        return self.embeddings.vocabulary

    def detection_head(self) -> Head:
        """Make a head that scores every token."""
        head: Head = find_head(f"{self.family}ForPreTraining")(self.config)
        return head

    def token_head(self, inputs: int | None = None) -> Head:
        """Make a head that predicts tokens from hidden states, of this body's width or another."""
        head: Head = find_head(f"{self.family}ForMaskedLM")(self.config, inputs)
        return head

    def plain(self) -> Self:
        """Return an equal body whose embeddings are its own, as files store them; all other modules are the same."""
        if (plain := self.embeddings.plain()) is self.embeddings:
            return self
        body: Self = with_modules(self)
        body.embeddings = plain
        return body

    def adopt(self, theirs: "Body", name: str = "the model") -> None:
        """Take over the weights of a plain body of the same shape; `name` is for messages."""
        check_shape(self.config, theirs.config, name)
        embedding = f"{EMBEDDINGS}."
        own = {key: value for key, value in self.state_dict().items() if key.startswith(embedding)}
        rest = {key: value for key, value in theirs.state_dict().items() if not key.startswith(embedding)}
        self.load_state_dict(own | rest)
        self.embeddings.adopt(theirs.embeddings)


def bounds_of(texts: Tensor) -> Tensor:
    """Return where the text of each token begins, and where it ends, as (2, B, L); a text is a row of equal numbers."""
    length = texts.size(1)
    place = torch.arange(length, dtype=torch.int32, device=texts.device)
    changes = texts[:, 1:] != texts[:, :-1]
    begins = (place * F.pad(changes, (1, 0))).cummax(1).values
    ends = length - ((length - 1 - place) * F.pad(changes, (0, 1))).flip(1).cummax(1).values.flip(1)
    return torch.stack([begins, ends])


def with_modules(module: Any) -> Any:
    """Return a copy of a module that holds the same submodules and may exchange one of them."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin


def check_settings(described: Mapping[str, Any], required: Mapping[str, Any]) -> None:
    """Refuse a `config.json` with settings that a body does not have."""
    for key, needed in required.items():
        if described.get(key, needed) != needed:
            raise CheckpointError(f"{key} = {described[key]!r} is not supported, only {needed!r}")


def validated(kind: type[Shape], values: Mapping[str, Any], names: Mapping[str, str]) -> Shape:
    """Return a shape, or raise an error that names the key of `config.json`: `names` maps our keys to those."""
    try:
        return kind.model_validate(values)
    except ValidationError as problem:
        error = problem.errors()[0]
        where = ".".join(names[str(key)] for key in error["loc"])
        message = error["msg"].removeprefix("Value error, ")
        raise CheckpointError(f"impossible model: {f'{where} {message}'.strip()}") from None


def check_shape(ours: ModelConfig, theirs: ModelConfig, name: str) -> None:
    """Refuse weights of another shape than the config asks for."""
    wanted, found = ours.shape, theirs.shape
    for key in wanted:
        if wanted[key] != found.get(key):
            raise ConfigError(f"init: {name} has {key} {found.get(key)}, the config says {wanted[key]}")
