"""How fast one joint step is, compared with the same step made of Hugging Face's modules."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from electra.config.load import load_config
from electra.config.schema import PretrainConfig
from electra.data.mix import mix
from electra.data.tokens.tokenizer import SPECIAL_TOKENS
from electra.errors import ConfigError
from electra.recipes.bench.huggingface import CarefulGlue, HuggingFaceStep, TypicalGlue, comparable
from electra.recipes.bench.profile import profile
from electra.recipes.bench.timing import Against, Bench, Build, measured, take_turns
from electra.recipes.flops import count_flops
from electra.recipes.hardware import fitting, matrix_peak
from electra.recipes.speed import TOKENIZER, JointStep


def bench_step(
    size: str,
    batch: int,
    length: int,
    *,
    seconds: float,
    against: Against,
    device: torch.device,
    profiled: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Bench:
    """Time the joint step of a preset on random ids for about `seconds`, and profile ours if asked to."""
    config = config_of_step(size, batch, length)
    ids = random_ids(config, device)
    with fitting(f"{batch} x {length} tokens of {size}", "lower --batch"):
        variants = _variants(config, device, against)
        trials = take_turns(variants, ids, device, seconds, f"{size} {batch} x {length}", say)
    ours = trials["electra"].work
    assert isinstance(ours, JointStep)
    peak = matrix_peak(device)
    peak_seconds = count_flops(config.model, config.objective, length).train * batch / peak if peak else None
    rows = list(measured(trials, "pretrain", size, batch, length, tokens=batch * length, peak_seconds=peak_seconds))
    return Bench(rows, profile(ours, ids), ours.operations()) if profiled else Bench(rows, [], {})


def config_of_step(size: str, batch: int, length: int, overrides: Sequence[str] = ()) -> PretrainConfig:
    """Return a preset's config for batches of this shape, also where it begins with others."""
    longest = max(length, load_config(size).model.max_length)
    lengths = [f"train.length={length}", f"train.start_length={length}", "train.length_warmup_steps=1"]
    shape = [f"train.batch_size={batch}", *lengths, f"model.max_length={longest}"]
    return load_config(size, [*shape, *overrides])


def random_ids(config: PretrainConfig, device: torch.device) -> Tensor:
    """Return a batch of random ids (B, L)."""
    torch.manual_seed(mix(config.seed))
    shape = config.train.batch_size, config.train.length
    return torch.randint(len(SPECIAL_TOKENS), config.model.vocab_size, shape, device=device)


def _variants(config: PretrainConfig, device: torch.device, against: Against) -> dict[str, Build[Tensor]]:
    """Return how each variant is built; a careful user compiles for a GPU."""
    variants: dict[str, Build[Tensor]] = {"electra": lambda: JointStep(config, device)}
    if against == "hf":
        if not comparable(config.objective):
            raise ConfigError("--against hf supports only the objective electra with a masked-LM generator; use none")
        mask_id, compiled = TOKENIZER.mask_id, device.type == "cuda"
        variants["hf_typical"] = lambda: HuggingFaceStep(TypicalGlue(config, mask_id), config, device, compiled=False)
        variants["hf_careful"] = lambda: HuggingFaceStep(CarefulGlue(config, mask_id), config, device, compiled)
    return variants
