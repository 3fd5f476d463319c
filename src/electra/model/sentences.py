"""Sentence vectors: how the states of a text become one vector, and the files in which sentence-transformers says so.

Shapes: B texts, L tokens, H hidden size.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import torch.nn.functional as F
from pydantic import BaseModel, PositiveInt, RootModel, ValidationError
from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.config.section import Pooling
from electra.data.checksums import check, write_checksums
from electra.data.files import write_json
from electra.errors import CheckpointError
from electra.model.heads import Head, pooled

MODULES = "modules.json"  # marks a folder of sentence-transformers
LENGTHS = "sentence_bert_config.json"
USAGE = "config_sentence_transformers.json"
FILES = (MODULES, LENGTHS, USAGE, "*/config.json")
PARTS = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))  # kind and subfolder of a module
FLAGS: dict[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
ROLES = {
    "query": ("query",),
    "passage": ("document", "passage", "corpus"),
}  # prompts that encode_query and _document use
ALWAYS = ("query", "document")  # prompts that every model of sentence-transformers has, though perhaps empty
MODES: dict[str, Pooling] = {"mean": "mean", "cls": "first"}  # newer files have one name instead of flags

Layout = TypeVar("Layout", bound=BaseModel)


class _Module(BaseModel):
    """An entry of `modules.json`."""

    type: str
    path: str


class _Modules(RootModel[list[_Module]]):
    """The content of `modules.json`."""


class _Lengths(BaseModel):
    """The content of `sentence_bert_config.json`."""

    max_seq_length: PositiveInt | None = None
    do_lower_case: bool = False


class _Usage(BaseModel):
    """The content of `config_sentence_transformers.json`."""

    prompts: dict[str, str] = {}
    default_prompt_name: str | None = None
    similarity_fn_name: str | None = "cosine"


class _Pooling(BaseModel, extra="allow"):
    """The content of a pooling module's `config.json`; older files have a flag for each way of pooling."""

    pooling_mode: str | list[str] | None = None
    include_prompt: bool = True

    @property
    def modes(self) -> list[str]:
        """All ways of pooling, whose vectors are joined."""
        flags = [name for name, value in (self.model_extra or {}).items() if name.startswith("pooling_mode_") and value]
        named = self.pooling_mode or flags or "mean"
        return [named] if isinstance(named, str) else named


class SentenceHead(Head, architecture="SentenceTransformer", names={}, served_as="FeatureExtraction"):
    """States to one vector for each text. It has no weights: files hold the bare encoder and how to pool its states."""

    example = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer(FOLDER)
vectors = model.encode(["the chef ate the meal", "a cook had dinner"])"""

    def __init__(
        self,
        config: ModelConfig,
        pooling: Pooling = "mean",
        prompts: Mapping[str, str] | None = None,
        *,
        normalize: bool = True,
        longest: int | None = None,
        default_prompt: str | None = None,
        similarity: str | None = "cosine",
    ) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.pooling, self.normalize, self.longest = pooling, normalize, longest
        self.prompts, self.default_prompt, self.similarity = dict(prompts or {}), default_prompt, similarity

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B, H) vectors of (B, L, H) hidden states, in float32."""
        vectors = pooled(hidden, attention, self.pooling)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        return {"sentence_embedding": self(hidden, attention)}

    def prompt(self, name: str | None) -> str:
        """Return the text to put before each text: a stored prompt, or the default one."""
        name = name or self.default_prompt
        if name in ALWAYS:
            return self.prompts.get(name, "")
        if name is not None and name not in self.prompts:
            known = f"it has {', '.join(self.prompts)}" if self.prompts else "it has none"
            raise CheckpointError(f"the model has no prompt {name!r}; {known}")
        return self.prompts[name] if name else ""

    @property
    def roles(self) -> dict[str, str]:
        """The prompts of queries and passages, where the model has them."""
        named = {role: [name for name in names if self.prompts.get(name)] for role, names in ROLES.items()}
        return {role: self.prompts[names[0]] for role, names in named.items() if names}

    def save(self, folder: Path, longest: int | None) -> None:
        """Write the files of sentence-transformers next to the encoder; texts have at most `longest` tokens."""
        parts = PARTS if self.normalize else PARTS[:2]
        modules = [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(parts)
        ]
        for _, path in parts[1:]:
            (folder / path).mkdir(parents=True, exist_ok=True)
        write_json(folder / MODULES, modules)
        write_json(folder / LENGTHS, {"max_seq_length": longest or self.longest, "do_lower_case": False})
        usage = _Usage(
            prompts=self.prompts, default_prompt_name=self.default_prompt, similarity_fn_name=self.similarity
        )
        write_json(folder / USAGE, usage.model_dump())
        pooling = folder / PARTS[1][1]
        flags = {flag: mode == self.pooling for flag, mode in FLAGS.items()}
        write_json(pooling / "config.json", {"word_embedding_dimension": self.width, **flags})
        write_checksums(pooling)

    @classmethod
    def read(cls, folder: Path, config: ModelConfig) -> Self:
        """Read how a folder of sentence-transformers makes vectors; refuse what would give other vectors here."""
        check(folder, FILES)
        modules = _read(folder / MODULES, _Modules).root
        kinds = [module.type.rpartition(".")[2] for module in modules]
        if kinds not in ([kind for kind, _ in PARTS[:2]], [kind for kind, _ in PARTS]):
            supported = "a Transformer, Pooling and Normalize"
            raise CheckpointError(f"{folder / MODULES} lists {', '.join(kinds) or 'nothing'}; supported: {supported}")
        lengths, usage = _read(folder / LENGTHS, _Lengths), _read(folder / USAGE, _Usage)
        if lengths.do_lower_case:
            raise CheckpointError(f"{folder / LENGTHS}: do_lower_case is not supported; lowercase in the tokenizer")
        check(folder / modules[1].path)
        path = folder / modules[1].path / "config.json"
        pooling = _read(path, _Pooling)
        known = FLAGS | MODES
        if len(pooling.modes) != 1 or pooling.modes[0] not in known:
            raise CheckpointError(f"{path} pools by {', '.join(pooling.modes)}; supported: {' or '.join(MODES)}")
        if not pooling.include_prompt:
            raise CheckpointError(f"{path} leaves prompts out of the vectors, which is not supported")
        return cls(
            config,
            known[pooling.modes[0]],
            usage.prompts,
            normalize=len(modules) == len(PARTS),
            longest=lengths.max_seq_length,
            default_prompt=usage.default_prompt_name,
            similarity=usage.similarity_fn_name,
        )


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (B, H) of length 1, whose products are cosines."""
    units: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return units


def _read(path: Path, layout: type[Layout]) -> Layout:
    """Read settings of sentence-transformers; a missing file has the usual ones."""
    try:
        return layout.model_validate_json(path.read_bytes() if path.is_file() else b"{}")
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise CheckpointError(f"{path} is not a file of sentence-transformers: {place}: {first['msg']}") from None
