"""Update every objective with this process's rows of some batches: `launch` starts it."""

import os

import torch

from electra.config.load import load_config
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.objectives.build import build_objective
from electra.objectives.draws import draw
from electra.training import buckets
from electra.training.processes import joined
from electra.training.update import Update

TOKENS = [(24, 20, 6, 4), (24, 24, 24, 9)]  # that are no padding, in the rows of two micro-batches
OBJECTIVES = [
    "objective.name=electra",
    "objective.algorithm=adversarial",
    *(f"objective.name={name}" for name in ("mlm", "electra_15", "corrective")),
    *(f"objective.name={name}" for name in ("replace_mlm", "all_tokens_mlm", "electric")),
    *(f"objective.generator.{key}" for key in ("sharing=gdes", "kind=uniform", "kind=two_tower")),
]
SHAPE = "layers=1 hidden_size=16 heads=1 embedding_size=8 feed_forward_size=32 max_length=32 vocab_size=64".split()
TRAIN = ["train.length=24", "train.clip_norm=1000.0", "train.optimizer=muon"]
WORDS = wordpiece([*SPECIAL_TOKENS, *map(str, range(64 - len(SPECIAL_TOKENS)))])


def micro_batches(rank, ranks):
    """Yield one process's rows of each micro-batch, and the random numbers for them."""
    for number, tokens in enumerate(TOKENS):
        rows = len(tokens) // ranks
        source = torch.Generator().manual_seed(number)
        ids = torch.randint(len(SPECIAL_TOKENS), 64, (len(tokens), 24), generator=source)
        attention = (torch.arange(24) < torch.tensor(tokens)[:, None]).long()
        ids = torch.where(attention > 0, ids, WORDS.pad_id)
        own = slice(rank * rows, (rank + 1) * rows)
        draws = draw(1, number, rows, 24, part=rank, parts=ranks, device="cpu")
        yield Batch(ids[own], attention[own], None), draws


def updated(processes, *overrides):
    """Return for each objective loss and gradient norm, the weights and the optimizer's state after two updates."""
    found = {}
    for override in OBJECTIVES:
        shape = [f"model.{key}" for key in SHAPE]
        config = load_config("tiny", [*shape, *TRAIN, override, *overrides])
        torch.manual_seed(0)
        objective = build_objective(config.objective, config.model, WORDS)
        for parameter in objective.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        update = Update(objective, config.train, processes)
        for _ in range(2):  # from the second on, sums begin during the backward pass
            _, loss = update(list(micro_batches(processes.rank, processes.world_size)), 1e-3)
        numbers = torch.stack([torch.as_tensor(processes.mean(loss.detach())), update.optimizer.norm])
        tensors = dict(objective.named_parameters()), update.optimizer.tensors()
        kept = sum(own(part).nbytes for group in tensors for part in group.values())
        found[override] = numbers, *({name: complete(part) for name, part in group.items()} for group in tensors), kept
    return found


def own(tensor):
    """Return what this process has of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def complete(tensor):
    """Return all of a tensor that the processes may have divided."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)  # noqa: F821
    torch.set_num_threads(1)
    buckets.BUCKET = 2**11  # bytes: these models are small
    with joined("cpu") as processes:
        found = updated(processes, *overrides)  # noqa: F821
        if processes.first:
            torch.save(found, out)  # noqa: F821
