import runpy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from electra.config.load import load_config
from electra.errors import ConfigError
from electra.objectives.base import Term
from electra.training import buckets
from electra.training.processes import Processes, joined
from electra.training.update import Update

ALONE = Processes(0, 1, torch.device("cpu"))
RANKS = Path(__file__).with_name("ranks.py")


@dataclass(frozen=True)
class Result:
    loss: Tensor

    @property
    def terms(self) -> list[Term]:
        return [Term(1.0, self.loss, torch.ones_like(self.loss))]


class Squares(nn.Linear):
    def recordable(self, part: dict[str, Tensor]) -> bool:
        return len(part["x"]) < 6

    def forward(self, part: dict[str, Tensor]) -> Result:
        return Result(super().forward(part["x"]).float().square().mean())

    def rate(self, name: str) -> float:
        return 1.0

    def share(self, part: dict[str, Tensor]) -> float:
        return 1.0


class ByRows(Squares):
    def share(self, part: dict[str, Tensor]) -> float:
        return part["x"].size(0) / 8


def update_of(module, execution, processes=ALONE):
    config = load_config("tiny", [f"train.execution={execution}"]).train
    return Update(module, config, processes)


def test_the_fast_way_needs_a_gpu():
    with pytest.raises(ConfigError, match="needs an NVIDIA GPU"):
        update_of(Squares(3, 2), "fast")


def test_micro_batches_make_one_update_of_their_mean():
    torch.manual_seed(0)
    one, two = Squares(3, 2), Squares(3, 2)
    two.load_state_dict(one.state_dict())
    parts = [({"x": torch.randn(4, 3)},) for _ in range(2)]
    in_parts, whole = update_of(one, "plain"), update_of(two, "plain")
    in_parts(parts, 1e-2)
    whole([({"x": torch.cat([part["x"] for (part,) in parts])},)], 1e-2)
    torch.testing.assert_close(in_parts.optimizer.means, whole.optimizer.means)
    torch.testing.assert_close(one.weight, two.weight)


def test_micro_batches_count_by_their_shares():
    torch.manual_seed(0)
    one, two = ByRows(3, 2), Squares(3, 2)
    two.load_state_dict(one.state_dict())
    rows = torch.randn(8, 3)
    in_parts = update_of(one, "plain")
    for update, parts in ((in_parts, [rows[:1], rows[1:3], rows[3:]]), (update_of(two, "plain"), [rows])):
        update([({"x": part},) for part in parts], 1e-2)
        assert update.optimizer.parts == 1
    torch.testing.assert_close(in_parts.weights.gradient, update.weights.gradient)
    torch.testing.assert_close(one.weight, two.weight)


@pytest.fixture(scope="module")
def alone():
    """A function from an optimizer to what one process finds with it."""
    return cache(lambda optimizer: runpy.run_path(str(RANKS))["updated"](ALONE, f"train.optimizer={optimizer}"))


@pytest.mark.parametrize(
    ("count", "machines", "sharding", "optimizer"),
    [
        (2, 1, "none", "muon"),
        (4, 1, "optimizer", "muon"),
        *(pytest.param(*case, "full", "adamw", marks=pytest.mark.slow) for case in ((1, 1), (2, 1), (4, 1), (4, 2))),
    ],
)
def test_processes_with_unlike_padding_update_as_one_process_does(
    count, machines, sharding, optimizer, alone, launch, tmp_path
):
    """Of every objective: a mean over the processes' own means would weigh padded rows as much as full ones."""
    settings = [f"train.sharding={sharding}", f"train.optimizer={optimizer}"]
    started = launch(RANKS, count, machines, out=tmp_path / "found", overrides=settings)
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * count
    together = torch.load(tmp_path / "found")
    assert len(alone(optimizer)) == len(together) > 10
    for objective, (numbers, weights, state, all_bytes) in alone(optimizer).items():
        our_numbers, our_weights, our_state, our_bytes = together[objective]
        if sharding == "full":
            assert our_bytes == pytest.approx(all_bytes * machines / count, rel=0.05)
        torch.testing.assert_close(our_numbers, numbers, rtol=1e-5, atol=0, msg=objective)
        torch.testing.assert_close(our_weights, weights, rtol=0, atol=1e-5, msg=objective)
        assert our_state.keys() == state.keys()
        for name, tensor in state.items():  # running means of the gradient, and of its square
            largest = max(part.abs().max().item() for key, part in state.items() if key[:4] == name[:4])
            assert largest > 1e-6, objective
            torch.testing.assert_close(our_state[name], tensor, rtol=1e-3, atol=1e-5 * largest, msg=objective)


@pytest.fixture(params=["alone", "in a group"])
def on_gpu(request, monkeypatch):
    """A process with a GPU, without a group or with one of NCCL."""
    if request.param == "alone":
        yield Processes(0, 1, torch.device("cuda"))
        return
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(buckets, "BUCKET", 64)
    with joined("cuda") as processes:
        yield processes


@pytest.mark.gpu
def test_a_recorded_update_is_the_plain_one_for_every_shape(on_gpu):
    torch.manual_seed(0)
    fast, plain = Squares(64, 64).cuda(), Squares(64, 64).cuda()
    plain.load_state_dict(fast.state_dict())
    recorded, reference = update_of(fast, "fast", on_gpu), update_of(plain, "plain", Processes(0, 1, on_gpu.device))
    for step in range(8):
        rows = 16 if step % 2 else 32
        x = torch.randn(rows, 64, generator=torch.Generator("cuda").manual_seed(step), device="cuda")
        recorded([({"x": part.bfloat16()},) for part in x.chunk(4)], 1e-3)
        reference([({"x": part},) for part in x.chunk(4)], 1e-3)
        torch.testing.assert_close(recorded.optimizer.norm, reference.optimizer.norm, rtol=2e-2, atol=0)
        torch.testing.assert_close(recorded.optimizer.means, reference.optimizer.means, rtol=0, atol=1e-3)
        assert recorded.pace.seconds() > 0 or not on_gpu.grouped
    torch.testing.assert_close(fast.weight, plain.weight, rtol=0, atol=2e-3)
    recorded.release()  # otherwise NCCL would wait for the graphs when the group ends
