"""Metrics of steps: losses, accuracies, and how well replaced tokens are detected."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from electra.objectives.base import Predictions, Step, Verdicts


def summarize(steps: Sequence[Step], shares: Sequence[float] = ()) -> dict[str, float]:
    """Return the metrics of several steps combined, by name, without padding; `shares` weight the losses."""
    shares = shares or [1.0] * len(steps)
    losses = [step.loss.item() * share for step, share in zip(steps, shares, strict=True)]
    found = {"loss": sum(losses) / sum(shares)}
    if generators := [step.generator for step in steps if step.generator]:
        found |= _predictions(generators, "generator")
    if mains := [step.main for step in steps if step.main]:
        found |= _predictions(mains, "mlm")
    if verdicts := [step.verdicts for step in steps if step.verdicts]:
        found |= _verdicts(verdicts)
    return found


def _predictions(parts: Sequence[Predictions], name: str) -> dict[str, float]:
    counted = [(part, part.weights > 0) for part in parts]
    found = {
        f"{name}_loss": [part.nll[here] for part, here in counted],
        f"{name}_accuracy": [part.correct[here] for part, here in counted],
        "sampled_accuracy": [part.sampled[here] for part, here in counted if part.sampled is not None],
        f"{name}_hidden_accuracy": [
            part.correct[here & part.hidden] for part, here in counted if part.hidden is not None
        ],
    }
    return {key: torch.cat(values).float().mean().item() for key, values in found.items() if values}


def _verdicts(parts: Sequence[Verdicts]) -> dict[str, float]:
    counted = [(part, part.weights > 0) for part in parts]
    scores = torch.cat([part.scores[here] for part, here in counted])
    replaced = torch.cat([part.replaced[here] for part, here in counted])
    losses = torch.cat([part.losses[here] for part, here in counted])
    flagged = scores > 0
    right = (flagged & replaced).sum().item()
    found = {
        "discriminator_accuracy": (flagged == replaced).float().mean().item(),
        "discriminator_precision": right / max(flagged.sum().item(), 1),
        "discriminator_recall": right / max(replaced.sum().item(), 1),
        "discriminator_auc": auc(scores, replaced),
    }
    if scores.isnan().any():  # NaN would rank above all numbers
        found = dict.fromkeys(found, math.nan)
    return {"discriminator_loss": losses.mean().item(), **found, "replaced_fraction": replaced.float().mean().item()}


def auc(scores: Tensor, positive: Tensor) -> float:
    """Return the probability that a positive scores above a negative, ties counting half; 0.5 if a class is missing."""
    negatives = scores[~positive].sort().values
    wanted = scores[positive]
    if not len(negatives) or not len(wanted):
        return 0.5
    below = torch.searchsorted(negatives, wanted) + torch.searchsorted(negatives, wanted, right=True)
    return below.double().mean().item() / (2 * len(negatives))
