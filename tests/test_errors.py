import errno
import os

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


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_what_cannot_be_written_has_a_remedy(number):
    assert reason(OSError(number, os.strerror(number))).endswith(
        "; check the permissions of the file and its folder, or choose another place"
    )


def test_other_errors_have_no_remedy():
    assert reason(IsADirectoryError(21, "Is a directory")) == "Is a directory"
    assert reason(KeyError()) == "KeyError"
