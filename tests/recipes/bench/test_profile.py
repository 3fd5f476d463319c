import pytest
import torch

from electra.config.load import load_config
from electra.recipes.bench.profile import part_of, profile
from electra.recipes.bench.step import bench_step
from electra.recipes.speed import JointStep

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def parts():
    step = JointStep(load_config("tiny", ["model.layers=1", "train.length=16"]), CPU)
    ids = torch.randint(5, 8000, (2, 16))
    step(ids)
    return profile(step, ids)


def test_the_parts_add_up_and_the_longest_is_first(parts):
    assert sum(part.share for part in parts) == pytest.approx(1, abs=0.01)
    assert [part.ms for part in parts] == sorted((part.ms for part in parts), reverse=True)


def test_the_work_of_a_step_is_recognized(parts):
    found = {part.part: part for part in parts}
    assert {"matrix products", "norms", "activation", "optimizer"} <= found.keys()
    assert found["matrix products"].launches > 10


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nvjet_sm90_tst_64x128_64x8_2x1_v_bz_splitK_NTN", "matrix products"),
        ("_attention_backward", "attention"),
        ("_norm_forward", "norms"),
        ("_gelu_backward", "activation"),
        ("_cross_entropy", "vocabulary"),
        ("aten::_log_softmax", "vocabulary"),
        ("aten::_softmax", "attention"),
        ("aten::linalg_vector_norm", "optimizer"),
        ("Memset (Device)", "copies"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<…FusedOptimizer", "optimizer"),
    ],
)
def test_kernels_are_recognized_by_name(name, part):
    assert part_of(name) == part


def test_a_benchmark_has_a_profile_only_on_request():
    quick = {"seconds": 0, "against": "none", "device": CPU}
    assert bench_step("tiny", 1, 16, **quick).parts == []
    assert bench_step("tiny", 1, 16, **quick, profiled=True).parts
