"""Tests of the kernels: on a GPU with `-m gpu`, otherwise in Triton's interpreter; see ../test_kernels.py."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

collect_ignore_glob = [] if INTERPRETED or torch.cuda.is_available() else ["test_*.py"]


def pytest_collection_modifyitems(items):
    if not INTERPRETED:
        for item in items:
            if "model/kernels" in str(item.path):
                item.add_marker(pytest.mark.gpu)


@pytest.fixture
def device():
    return torch.device("cpu" if INTERPRETED else "cuda")


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request, device):
    return getattr(torch, request.param)


@pytest.fixture
def normal(device, dtype):
    """Return a function that draws normal tensors that require a gradient."""
    source = torch.Generator(device).manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, device=device, generator=source).to(dtype).requires_grad_()

    return draw


@pytest.fixture
def seeds(device):
    return torch.tensor([123456789, -987654321], dtype=torch.int32, device=device)


@pytest.fixture
def agree(dtype):
    """Return a function that compares a kernel's tensors with the reference, computed in float32.

    The tolerance grows with the number of layers, each of which rounds.
    """

    def check(found, expected, layers=1):
        for ours, theirs in zip(found, expected, strict=True):
            size = theirs.abs().max().item()
            bound = layers * (2e-5 if dtype == torch.float32 else 2e-2)
            torch.testing.assert_close(ours.float(), theirs.float(), rtol=0, atol=bound * max(1.0, size))

    return check
