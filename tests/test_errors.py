import pytest
import torch

from electra.errors import out_of_memory, reason


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_lack_of_memory_has_one_wording(problem):
    assert reason(problem).startswith("not enough memory; use smaller batches, shorter sequences, a smaller model")


def test_a_tensor_that_does_not_fit_is_a_lack_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert out_of_memory(caught.value)


def test_other_errors_have_no_remedy():
    assert reason(PermissionError(13, "Permission denied")) == "Permission denied"
    assert reason(KeyError()) == "KeyError"
