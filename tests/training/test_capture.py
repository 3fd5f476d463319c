import gc
import weakref
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from electra.training.capture import Captured, mapped, nothing_collected


class Named(NamedTuple):
    loss: Tensor
    note: str


@dataclass(frozen=True)
class Data:
    loss: Tensor
    parts: dict[str, tuple[Tensor, ...]]


def test_every_tensor_of_a_result_is_mapped_and_the_rest_is_unchanged():
    one, two = torch.ones(1), torch.ones(2)
    found = mapped((Named(one, "first"), Data(two, {"all": (one, two)}), None), lambda tensor: tensor + 1)
    named, data, nothing = found
    assert isinstance(named, Named)
    assert isinstance(data, Data)
    assert (named.loss.item(), named.note, nothing) == (2, "first", None)
    assert [tensor.tolist() for tensor in (data.loss, *data.parts["all"])] == [[2, 2], [2], [2, 2]]


class Ring:
    """A reference cycle, which only the garbage collector frees."""

    def __init__(self, held: object = None) -> None:
        self.held, self.own = held, self


@pytest.fixture
def eager():
    """Collect garbage at every opportunity."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


def test_garbage_is_not_collected_during_a_recording(eager):
    with nothing_collected():
        ring = weakref.ref(Ring())
        several = [[number] for number in range(100)]
        assert ring() is not None
    assert gc.isenabled()
    several += [[number] for number in range(100)]
    assert ring() is None


def test_garbage_collection_that_was_disabled_stays_disabled():
    gc.disable()
    try:
        with pytest.raises(KeyError), nothing_collected():
            raise KeyError
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.gpu
def test_garbage_of_an_earlier_recording_does_not_break_the_next(eager):
    def made(tensor: Tensor) -> Tensor:
        if earlier and torch.cuda.is_current_stream_capturing():
            Ring(earlier.pop())  # garbage from now on
        return tensor.cumsum(0) + sum(len([number]) for number in range(100))

    earlier: list[object] = []
    first = Captured(made, changes=[])
    first(torch.ones(1 << 20, device="cuda"))
    earlier.append(first)
    del first
    found = Captured(made, changes=[])(torch.ones(4, device="cuda"))
    assert found.tolist() == [101, 102, 103, 104]
