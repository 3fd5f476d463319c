"""Every kernel is compiled for a GPU, which needs none: the interpreter takes code that the compiler refuses."""

import importlib
from types import SimpleNamespace

import pytest
import torch

from electra.model.kernels import widest_head

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from electra.model.kernels import attention, long_attention  # noqa: E402

KERNELS = {
    "attention": ["_attention_forward", "_attention_backward"],
    "gate": ["_gate_forward", "_gate_backward"],
    "gelu": ["_gelu_forward", "_gelu_backward"],
    "long_attention": ["_long_forward", "_to_queries", "_to_keys_and_values"],
    "muon": ["_direct", "_apply"],
    "norm": ["_norm_forward", "_norm_backward"],
    "rotary": ["_rotate"],
    "vocabulary": ["_cross_entropy", "_cross_entropy_backward", "_sample"],
}
WITHOUT = {  # a kernel is also compiled without these arguments
    "_norm_forward": ["bias", "shift"],
    "_norm_backward": ["to_branch"],
}
TYPES = (  # of arguments that are not pointers to bf16
    dict.fromkeys(["along", "deviation", "log_sum", "mean", "nll", "partial", "uniform"], "*fp32")
    | dict.fromkeys(["bad", "means", "rate", "squares", "values"], "*fp32")
    | dict.fromkeys(["cosines", "sines"], "*fp16")
    | dict.fromkeys(["best", "forbidden", "sampled", "targets"], "*i64")
    | dict.fromkeys(["blocks", "heads", "numbers", "rows", "sequences", "size", "stride", "threshold"], "i32")
    | dict.fromkeys(["tokens", "width"], "i32")
    | dict.fromkeys(["bits", "decay", "eps", "factor", "keep_scale", "length", "momentum", "scale"], "fp32")
    | {"bounds": "*i32", "seeds": "*i32", "sharpness": "fp32"}
)
CONSTANTS = {
    "BLOCK": 1024, "BLOCKS": 30, "COUNT": 32, "D": 64, "DROPS": True, "F": 1024, "FORBIDS": True, "H": 256,
    "HEADS": 4, "KEYS": 32, "L": 128, "PRECISION": "tf32", "QUERIES": 128, "RAGGED": True, "REACH": 64,
    "ROTATES": True, "ROWS": 8, "SUMS": True, "TEXTS": True, "TURNS": 2, "V": 30522, "VECTORS": 3, "WIDTH": 256,
}  # fmt: skip

CHIPS = {  # compute capability, and bytes of on-chip memory: of a multiprocessor, and of a program
    "RTX 3090": (86, 102_400, 101_376),
    "RTX 5090": (120, 102_400, 101_376),
    "A100": (80, 167_936, 166_912),
    "H200": (90, 233_472, 232_448),
    "B200": (100, 233_472, 232_448),
}
CUT = long_attention.WHOLE
BLOCKS = {"_long_forward": CUT.forward, "_to_queries": CUT.to_queries, "_to_keys_and_values": CUT.to_keys_and_values}


def compiled(module, name, capability=90, warps=8, **constants):
    """Compile a kernel as for a launch whose pointers and counts are multiples of 16, as they are in practice."""
    kernel = getattr(importlib.import_module(f"electra.model.kernels.{module}"), name)
    values = {argument: CONSTANTS[argument] for argument in kernel.arg_names if argument.isupper()} | constants
    known = TYPES | (dict.fromkeys(["gradient", "scale"], "*fp32") if module == "muon" else {})
    types = {argument: known.get(argument, "*bf16") for argument in kernel.arg_names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, argument in enumerate(kernel.arg_names)
        if argument not in values and argument != "heads" and types[argument] != "fp32"
    }
    source = ASTSource(kernel, types | dict.fromkeys(values, "constexpr"), values, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})


@pytest.fixture
def chip(request, monkeypatch):
    """Return the compute capability of a chip and its bytes for a program; PyTorch reports those of the processor."""
    capability, processor, program = CHIPS[request.param]
    found = SimpleNamespace(shared_memory_per_multiprocessor=processor)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
    return capability, program


@pytest.fixture(autouse=True)
def compiled_afresh(monkeypatch, tmp_path):
    """Compile into an empty cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("module", "name", "missing"),
    [(module, name, []) for module, names in KERNELS.items() for name in names]
    + [("norm", name, missing) for name, missing in WITHOUT.items()],
)
def test_a_kernel_compiles(module, name, missing):
    assert compiled(module, name, **dict.fromkeys(missing)).asm["cubin"]


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(
    "chip",
    ["RTX 3090", *(pytest.param(name, marks=pytest.mark.slow) for name in ("RTX 5090", "A100", "H200", "B200"))],
    indirect=True,
)
def test_the_blocks_of_long_attention_fit_on_a_chip(chip, name):
    (capability, program), (queries, keys, warps) = chip, BLOCKS[name]
    size = widest_head(torch.device("cuda"))
    found = compiled("long_attention", name, capability, warps, D=size, QUERIES=queries, KEYS=keys)
    assert found.metadata.shared <= program


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("chip", CHIPS, indirect=True)
def test_all_scores_of_a_head_fit_on_a_chip_that_computes_them_at_once(chip, size):
    (capability, program), tokens = chip, 128
    if not attention.fits(tokens, size, torch.device("cuda")):
        tokens //= 2  # 128 tokens are computed by blocks
        assert attention.fits(tokens, size, torch.device("cuda"))
    found = compiled("attention", "_attention_backward", capability, attention.WARPS, D=size, L=tokens)
    assert found.metadata.shared <= program


def test_no_kernel_is_left_out():
    entries = {}
    for module in KERNELS:
        names = vars(importlib.import_module(f"electra.model.kernels.{module}")).items()
        code = {name: value for name, value in names if isinstance(value, triton.runtime.JITFunction)}
        entries[module] = [
            name for name, value in code.items() if "tl.program_id(0)" in value.src and "tl.store" in value.src
        ]
    assert entries == KERNELS
