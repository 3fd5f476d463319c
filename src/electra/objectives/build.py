"""From a config section to the objective that implements it: every module of this package may define one."""

import pkgutil
from importlib import import_module
from typing import Any

from torch import Tensor

from electra import objectives
from electra.config.bodies import ModelConfig
from electra.data.tokens.tokenizer import Tokenizer
from electra.objectives.base import OBJECTIVES, Objective


def objective_class(config: Any) -> type[Objective]:
    """Return the class that implements an objective's config section."""
    for module in pkgutil.iter_modules(objectives.__path__):
        import_module(f"{objectives.__name__}.{module.name}")
    return OBJECTIVES[config.kind]


def build_objective(config: Any, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None = None) -> Objective:
    """Build an objective with fresh networks; the unigram generator needs the `counts` (V,) of the tokens."""
    return objective_class(config).build(config, model, tokenizer, counts)
