"""The ways to compute attention that `runs/bench_attention.py` compares, against plain masked attention."""

import bench_attention
import pytest

OURS = {"ours", "ours, rotating", "padded"}


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # what torch.compile imports
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS, but there was no current CUDA context")
@pytest.mark.parametrize("reach", [0, 16])
@pytest.mark.parametrize("lengths", [[20, 20], [70, 1, 60], [140]])  # short rows, packed texts, a long row
def test_every_way_computes_attention(lengths, reach, device):
    case = bench_attention.Case("texts", lengths, 1, reach, device)
    found = {name: errors for name, _, errors in bench_attention.available(case)}
    assert found.keys() >= (OURS if device.type == "cpu" else bench_attention.WAYS.keys())
    for errors in found.values():
        for error in errors.values():
            assert error < (1e-5 if device.type == "cpu" else 0.1)
