"""What all configs are made of: frozen, strict sections, and types that several of them use."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# Bounds keep sums and products finite; they are far beyond any use.
Count = Annotated[int, Field(gt=0, le=10**15)]  # of updates or tokens
CountOrZero = Annotated[int, Field(ge=0, le=10**15)]
Size = Annotated[int, Field(gt=0, le=2**20)]  # of a tensor
Few = Annotated[int, Field(gt=0, le=1000)]  # layers, seeds, columns
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0, le=1e30)]
NonNegative = Annotated[float, Field(ge=0, le=1e30)]
Duration = Annotated[float, Field(gt=0, le=1e6)]  # hours or epochs
Probability = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Ratio = Annotated[float, Field(gt=0, le=4)]
Device = Annotated[Literal["auto", "cuda", "mps", "cpu"], Field(description="auto: an NVIDIA GPU if there is one")]
Precision = Literal["auto", "bf16", "float32"]
Pooling = Literal["first", "mean"]  # what stands for a whole text: the first token or the mean of all
ForwardPrecision = Annotated[Precision, Field(description="auto: bf16 on a GPU, float32 on a CPU")]
Optimizer = Annotated[
    Literal["electra", "adamw", "muon"],
    Field(description="the original's AdamW without bias correction, standard AdamW, or Muon"),
]
# Not every shell expands ~ inside key=value.
Out = Annotated[str, AfterValidator(lambda path: str(Path(path).expanduser()) if path.startswith("~") else path)]


class Section(BaseModel):
    """A frozen part of a config; unknown keys and values of another type are errors."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Root(Section):
    """A complete config."""

    command: ClassVar[str]  # that uses it, and the folder of its presets
    example: ClassVar[str]  # of a setting, for messages
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()  # setting one key drops the others of a lower layer
