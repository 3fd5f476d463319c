"""Every kernel is compiled for a GPU, which needs none: the interpreter takes code that the compiler refuses."""

import importlib

import pytest

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

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


@pytest.mark.parametrize(
    ("module", "name", "missing"),
    [(module, name, []) for module, names in KERNELS.items() for name in names]
    + [("norm", name, missing) for name, missing in WITHOUT.items()],
)
def test_a_kernel_compiles(module, name, missing, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = getattr(importlib.import_module(f"electra.model.kernels.{module}"), name)
    constants = {argument: CONSTANTS[argument] for argument in kernel.arg_names if argument.isupper()}
    constants |= dict.fromkeys(missing)
    known = TYPES | (dict.fromkeys(["gradient", "scale"], "*fp32") if module == "muon" else {})
    types = {argument: known.get(argument, "*bf16") for argument in kernel.arg_names}
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
    assert compiled.asm["cubin"]


def test_no_kernel_is_left_out():
    entries = {}
    for module in KERNELS:
        names = vars(importlib.import_module(f"electra.model.kernels.{module}")).items()
        code = {name: value for name, value in names if isinstance(value, triton.runtime.JITFunction)}
        entries[module] = [
            name for name, value in code.items() if "tl.program_id(0)" in value.src and "tl.store" in value.src
        ]
    assert entries == KERNELS
