from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from electra.training.capture import _mapped


class Named(NamedTuple):
    loss: Tensor
    note: str


@dataclass(frozen=True)
class Data:
    loss: Tensor
    parts: dict[str, tuple[Tensor, ...]]


def test_every_tensor_of_a_result_is_changed_and_the_rest_stays_what_it_is():
    one, two = torch.ones(1), torch.ones(2)
    found = _mapped((Named(one, "first"), Data(two, {"all": (one, two)}), None), lambda tensor: tensor + 1)
    named, data, nothing = found
    assert isinstance(named, Named)
    assert isinstance(data, Data)
    assert (named.loss.item(), named.note, nothing) == (2, "first", None)
    assert [tensor.tolist() for tensor in (data.loss, *data.parts["all"])] == [[2, 2], [2], [2, 2]]
