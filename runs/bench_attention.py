"""Compare ways to compute attention over packed texts: our kernels, PyTorch's for varying lengths, flex, and padding.

python runs/bench_attention.py [--rows mixed 128 512 8192] [--widths 256 512 768] [--reaches 0 64] [--tokens 32768]
  [--lengths FILE] [--rounds 9] [--device auto] [--no-graphs]

`mixed` packs texts of many lengths into one row: those in the file, a number per line, or drawn ones. A number fills
rows of that many tokens with one text each. A reach of 64 is a window of 128, 0 is none. Heads of 64, bf16 on a GPU.

Only the kernels count: every way gets queries, keys and values in the layout and, for padding, in the batches that it
likes best, and its masks are made before. `ours` does not rotate here, as the others do not; `ours, rotating` does, as
in training. `padded` is PyTorch's attention without cuDNN, whose gradient can be NaN for some masks.

All ways take turns, ten calls as one CUDA graph; `both` is a forward and a backward pass. A table in CSV goes to
standard output. The error is the largest one against plain masked attention in float32: of the output, or of the
gradients.
"""

import argparse
import csv
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

from electra.model import ops
from electra.model.bodies.modern import View, rotate, rotation_table, rotations
from electra.model.body import bounds_of
from electra.model.precision import find_device
from electra.recipes.bench.timing import Trial, measured
from electra.training.capture import Captured
from electra.training.weights import up_to

HEAD = 64
THETA = 10_000.0
AT_ONCE = 10  # calls in a CUDA graph, so that its launch does not count
SHORTER = 10  # a round is this many times shorter than usual
USUAL, SPREAD, LONGEST = 120, 0.9, 512  # tokens of drawn texts, as of lines of Wikipedia: median, deviation of the log
COLUMNS = ["rows", "texts", "tokens", "heads", "reach", "work", "way", "ms", "ms_low", "ms_high"]
COLUMNS += ["ratio", "ratio_low", "ratio_high", "error"]


class Unavailable(Exception):
    """Why a way cannot be taken here."""


@dataclass(frozen=True)
class Case:
    """Texts of some lengths, and queries, keys, values and the gradient of the output, each (T, heads, D)."""

    name: str
    lengths: Sequence[int]
    heads: int
    reach: int  # 0: any distance
    device: torch.device

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return sum(self.lengths)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the states."""
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32

    @cached_property
    def states(self) -> Tensor:
        """Queries, keys, values and gradient (4, T, heads, D)."""
        source = torch.Generator(self.device).manual_seed(0)
        shape = 4, self.tokens, self.heads, HEAD
        return torch.randn(shape, generator=source, device=self.device).to(self.dtype)

    @cached_property
    def texts(self) -> Tensor:
        """The number of each token's text, (T,)."""
        lengths = torch.tensor(self.lengths, device=self.device)
        return torch.arange(len(lengths), device=self.device).repeat_interleave(lengths)

    @property
    def shape(self) -> tuple[int, int]:
        """The rows: a text each if all are equally long, else one with all texts."""
        return (len(self.lengths), self.lengths[0]) if len({*self.lengths}) == 1 else (1, self.tokens)

    def in_rows(self, states: Tensor) -> Tensor:
        """Copy (T, heads, D) as (B, heads, L, D)."""
        return ops.split_heads(states.reshape(*self.shape, -1), self.heads).contiguous()

    def near(self, length: int) -> Tensor:
        """Return which tokens are within reach, (1, 1, L, L)."""
        place = torch.arange(length, device=self.device)
        return ((place[:, None] - place).abs() <= self.reach)[None, None]


class Way(NamedTuple):
    """Attention in the layout of an implementation."""

    inputs: Sequence[Tensor]
    attend: Callable[..., Tensor]  # of the inputs
    gradient: Tensor  # of the output
    by_token: Callable[[Tensor], Tensor]  # from the layout of outputs and gradients to (T, 1 or 3, heads, D)
    learns: bool = True

    def forward(self) -> Tensor:
        """Return the output."""
        return self.attend(*self.inputs)

    def both(self) -> tuple[Tensor, ...]:
        """Return the gradients of the inputs."""
        return torch.autograd.grad(self.forward(), self.inputs, self.gradient)


def leaves(tensors: Sequence[Tensor], learns: bool = True) -> list[Tensor]:
    """Return tensors whose gradient is asked for."""
    return [tensor.detach().requires_grad_(learns) for tensor in tensors]


def ours(case: Case, rotates: bool) -> Way:
    """Return our kernels, which read queries, keys and values as the projection writes them."""
    if ops.choose("pre_norm_stack", case.states) != "triton":
        raise Unavailable("our kernels need bf16 on a GPU, or Triton's interpreter")
    from electra.model.kernels.attention import Drop, Sight
    from electra.model.kernels.long_attention import attention_for

    class Ours(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, projected: Tensor, sight: Sight) -> Tensor:
            out = projected.new_empty(case.tokens, case.heads * HEAD)
            log_sum = projected.new_empty(case.tokens * case.heads, dtype=torch.float32)
            attention_for(projected, case.heads).attend(projected, case.heads, sight, Drop(), out, log_sum)
            context.save_for_backward(projected, out, log_sum)
            context.sight = sight
            return out

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
            projected, out, log_sum = context.saved_tensors
            found = torch.empty_like(projected)
            attention_for(projected, case.heads).attend_backward(
                gradient, projected, out, log_sum, case.heads, context.sight, Drop(), found, None
            )
            return found, None

    (_, length), packed = case.shape, len({*case.lengths}) > 1
    finer = torch.float16 if case.dtype == torch.bfloat16 else torch.float32
    table = rotation_table(length, THETA, HEAD, case.device, finer) if rotates else None
    sight = Sight(bounds_of(case.texts[None]) if packed else None, case.reach, table)
    projected = case.states[:3].transpose(0, 1).reshape(*case.shape, -1)
    return Way(
        leaves([projected.clone()]),
        lambda projected: Ours.apply(projected, sight),  # type: ignore[no-untyped-call]
        case.states[3].flatten(1),
        lambda found: found.reshape(case.tokens, -1, case.heads, HEAD),
    )


def varlen(case: Case) -> Way:
    """Return PyTorch's flash attention for texts one after the other."""
    if case.device.type != "cuda":
        raise Unavailable("PyTorch computes it on NVIDIA GPUs only")
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        raise Unavailable(f"torch {torch.__version__} does not have it") from None
    window: dict[str, Any] = {}
    if case.reach:
        if "window_size" not in inspect.signature(varlen_attn).parameters:
            raise Unavailable(f"varlen_attn of torch {torch.__version__} has no window")
        window = {"window_size": (case.reach, case.reach)}
    ends = torch.tensor([0, *case.lengths], device=case.device).cumsum(0).int()
    longest = max(case.lengths)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        found = varlen_attn(query, key, value, ends, ends, longest, longest, **window)
        assert isinstance(found, Tensor)
        return found

    return Way(leaves(case.states[:3].unbind()), attend, case.states[3], lambda found: found[:, None])


def flex(case: Case) -> Way:
    """Return flex attention, compiled for a GPU; on a CPU it has no gradient."""
    learns = case.device.type == "cuda"
    texts, reach = case.texts, case.reach
    masks: list[Any] = []
    if case.shape[0] == 1 and len(case.lengths) > 1:
        masks.append(lambda batch, head, query, key: texts[query] == texts[key])
    if reach:
        masks.append(lambda batch, head, query, key: (query - key).abs() <= reach)
    length = case.shape[1]
    blocks = create_block_mask(and_masks(*masks), None, None, length, length, str(case.device)) if masks else None
    torch.compiler.reset()  # it compiles anew for every case, and would give up after a few
    compute: Any = torch.compile(flex_attention, dynamic=False) if learns else flex_attention
    return Way(
        leaves([case.in_rows(states) for states in case.states[:3]], learns),
        partial(compute, block_mask=blocks),
        case.in_rows(case.states[3]),
        lambda found: found.transpose(1, 2).reshape(case.tokens, 1, case.heads, HEAD),
        learns,
    )


def padded(case: Case) -> Way:
    """Return PyTorch's attention over texts that are padded to the longest."""
    longest = up_to(8, max(case.lengths))  # a multiple that masks can be read at
    lengths = torch.tensor(case.lengths, device=case.device)
    real = torch.arange(longest, device=case.device) < lengths[:, None]
    mask = None
    if not real.all():  # padding sees padding: a row that sees nothing would be NaN
        mask = real[:, None, :, None] == real[:, None, None, :]
    if case.reach:
        mask = case.near(longest) if mask is None else mask & case.near(longest)

    def in_batch(states: Tensor) -> Tensor:
        batch = states.new_zeros(*real.shape, case.heads, HEAD)
        batch[real] = states
        return batch.transpose(1, 2).contiguous()

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with sdpa_kernel(ops.MASKED if mask is not None else [SDPBackend.FLASH_ATTENTION, *ops.MASKED]):
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    inputs = leaves([in_batch(states) for states in case.states[:3]])
    return Way(inputs, attend, in_batch(case.states[3]), lambda found: found.transpose(1, 2)[real][:, None])


WAYS: Mapping[str, Callable[[Case], Way]] = {
    "ours": partial(ours, rotates=False),
    "ours, rotating": partial(ours, rotates=True),
    "varlen_attn": varlen,
    "flex_attention": flex,
    "padded": padded,
}


def plain(case: Case, rotates: bool) -> tuple[Tensor, Tensor]:
    """Return output (T, 1, heads, D) and gradients (T, 3, heads, D), in float32 and text by text."""
    outputs, gradients = [], []
    for states in torch.split(case.states, list(case.lengths), dim=1):
        *parts, gradient = states.float().transpose(1, 2)  # (heads, L, D) each
        query, key, value = (part.detach().requires_grad_() for part in parts)
        place = torch.arange(query.size(1), device=case.device)
        cos, sin = rotations(place[None], THETA, HEAD)
        view = View(cos[0], sin[0], None)
        left, right = (rotate(query, view), rotate(key, view)) if rotates else (query, key)
        scores = left @ right.transpose(1, 2) / HEAD**0.5
        if case.reach:
            scores = scores.masked_fill(~case.near(query.size(1))[0], -torch.inf)
        out = scores.softmax(-1) @ value
        found = torch.autograd.grad(out, (query, key, value), gradient)
        outputs.append(out.detach().transpose(0, 1)[:, None])
        gradients.append(torch.stack(found).permute(2, 0, 1, 3))
    return torch.cat(outputs), torch.cat(gradients)


def available(case: Case) -> Iterator[tuple[str, Way, dict[str, float]]]:
    """Yield each way that can be taken here, with its errors: of the output, and of the gradients if it has any."""
    expected = {rotates: plain(case, rotates) for rotates in (False, True)}
    for name, make in WAYS.items():
        out, gradients = expected[name == "ours, rotating"]
        try:
            way = make(case)
            before = [state.detach().clone() for state in way.inputs]
            errors = {"forward": largest(way.by_token(way.forward()), out)}
            if way.learns:
                for state, value in zip(way.inputs, before, strict=True):
                    state.data.copy_(value)  # rotating changes it
                errors["both"] = largest(torch.cat([*map(way.by_token, way.both())], 1), gradients)
        except (Unavailable, RuntimeError) as problem:
            report(case, f"{name} left out: {' '.join(str(problem).split())}")
            continue
        report(case, f"{name}: largest error {' and '.join(f'{error:.1e} {work}' for work, error in errors.items())}")
        yield name, way, errors


def largest(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference."""
    return float((found.detach().float() - expected).abs().max())


def compare(case: Case, rounds: int, graphs: bool) -> Iterator[list[Any]]:
    """Yield the rows of the table: all ways take turns."""
    ways = list(available(case))
    for work in ("forward", "both"):
        trials: dict[str, Trial[None]] = {}
        for name, way, errors in ways:
            if work not in errors:
                report(case, f"{name}: no gradient on a {case.device.type.upper()}")
                continue
            try:
                trials[name] = Trial(partial(repeated, getattr(way, work), graphs), None, case.device)
            except RuntimeError as problem:
                report(case, f"{name}, {work}, left out: {' '.join(str(problem).split())}")
                continue
            trials[name].count = -(-trials[name].count // SHORTER)
        if not trials:
            continue
        for _ in range(rounds):
            for trial in trials.values():
                trial.repeat()
        of_work = {name: errors[work] for name, _, errors in ways if work in errors}
        for row in measured(trials, "pretrain", case.name, *case.shape, tokens=case.tokens, peak_seconds=None):
            times = (round(ms / AT_ONCE, 4) for ms in (row.ms, row.ms_low, row.ms_high))
            ratios = row.ratio, row.ratio_low, row.ratio_high
            shape = case.name, len(case.lengths), case.tokens, case.heads, case.reach
            yield [*shape, work, row.variant, *times, *ratios, f"{of_work[row.variant]:.1e}"]


def repeated(work: Callable[[], Any], graphs: bool) -> Callable[[None], Any]:
    """Return what computes the work several times, as one CUDA graph if asked to."""

    def several() -> Any:
        for _ in range(AT_ONCE):
            found = work()
        return found

    captured = Captured(several, []) if graphs else several
    return lambda _: captured()


def report(case: Case, line: str) -> None:
    """Print a line of progress."""
    print(f"{case.name}, {case.heads} heads, reach {case.reach}: {line}", file=sys.stderr, flush=True)


def lengths_of(rows: str, tokens: int, file: str | None) -> list[int]:
    """Return the lengths of texts that fill so many tokens, the last one cut."""
    if rows != "mixed":
        return [int(rows)] * max(1, tokens // int(rows))
    drawn = np.random.default_rng(0).lognormal(np.log(USUAL), SPREAD, tokens).clip(3, LONGEST).astype(int).tolist()
    found = list[int]()
    for length in cycle(map(int, Path(file).read_text().split())) if file else drawn:
        found.append(min(length, tokens - sum(found)))
        if sum(found) == tokens:
            break
    return found


def main() -> None:
    """Print the table for all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=["mixed", "128", "512", "8192"])
    parser.add_argument("--widths", nargs="+", type=int, default=[256, 512, 768])
    parser.add_argument("--reaches", nargs="+", type=int, default=[0, 64])
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--lengths", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=9, help="at least 2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-graphs", action="store_true")
    asked = parser.parse_args()
    device = find_device(asked.device)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    for rows in asked.rows:
        lengths = lengths_of(rows, asked.tokens, asked.lengths)
        for width in asked.widths:
            for reach in asked.reaches:
                case = Case(rows, lengths, width // HEAD, reach, device)
                for row in compare(case, asked.rounds, device.type == "cuda" and not asked.no_graphs):
                    table.writerow(row)
                    sys.stdout.flush()
                if device.type == "cuda":
                    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
