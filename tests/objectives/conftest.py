from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from electra.config.load import load_config
from electra.data.feeding.batch import Batch
from electra.objectives.base import Objective
from electra.objectives.build import build_objective


@pytest.fixture(scope="session")
def make_batch(tokenizer) -> Callable[..., Batch[Tensor]]:
    """A function from numbers of tokens, [CLS] and [SEP] among them, to a padded batch of random text."""

    def make(*tokens: int, length: int | None = None, seed: int = 0) -> Batch[Tensor]:
        source = torch.Generator().manual_seed(seed)
        ids = torch.randint(5, tokenizer.vocab_size, (len(tokens), length or max(tokens)), generator=source)
        attention = torch.zeros_like(ids)
        for row, count in enumerate(tokens):
            attention[row, :count] = 1
            ids[row, count:] = tokenizer.pad_id
            if count:
                ids[row, 0], ids[row, count - 1] = tokenizer.cls_id, tokenizer.sep_id
        return Batch(ids, attention, torch.zeros_like(ids))

    return make


@pytest.fixture(scope="session")
def make_objective(tokenizer) -> Callable[..., Objective]:
    """A function from config overrides to an objective of small networks with large weights and no dropout."""

    def make(*overrides: str, std: float | None = 0.2, counts: Tensor | None = None) -> Objective:
        shape = ["model.layers=2", "model.hidden_size=16", "model.heads=1", "model.embedding_size=8"]
        shape += ["model.feed_forward_size=32", f"model.vocab_size={tokenizer.vocab_size}", "model.max_length=64"]
        config = load_config("tiny", [*shape, *overrides])
        torch.manual_seed(3)
        objective = build_objective(config.objective, config.model, tokenizer, counts)
        if std:
            for parameter in objective.parameters():
                torch.nn.init.normal_(parameter, std=std)
        return objective

    return make
