"""The optimizers: the original's AdamW and the standard one."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from electra.config.schema import TrainConfig


class ElectraAdamW(torch.optim.Optimizer):
    """AdamW as BERT and ELECTRA were trained: no bias correction, eps added to the root, decay decoupled.

    m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  w ← w - lr (m / (√v + ε) + decay · w)
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient, all tensors of a group together."""
        assert closure is None
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            for parameter in parameters:
                if not self.state[parameter]:
                    self.state[parameter] = {"mean": torch.zeros_like(parameter), "square": torch.zeros_like(parameter)}
            gradients = [parameter.grad for parameter in parameters]
            means = [self.state[parameter]["mean"] for parameter in parameters]
            squares = [self.state[parameter]["square"] for parameter in parameters]
            beta1, beta2 = group["betas"]
            torch._foreach_lerp_(means, gradients, 1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
            roots = torch._foreach_sqrt(squares)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_addcdiv_(parameters, means, roots, -group["lr"])


def build_optimizer(module: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimizer of a run; vectors, that is biases and layer norms, are exempt from decay."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [parameter for parameter in trained if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    betas = (train.adam_beta1, train.adam_beta2)
    if train.optimizer == "electra":
        return ElectraAdamW(groups, train.learning_rate, betas, train.adam_eps)
    return torch.optim.AdamW(groups, lr=train.learning_rate, betas=betas, eps=train.adam_eps)


def clip_gradients(module: nn.Module, largest: float) -> Tensor:
    """Scale the gradient down to a norm of at most `largest` and give the norm it had."""
    return nn.utils.clip_grad_norm_(module.parameters(), largest)
