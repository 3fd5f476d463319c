"""The demonstration: what exists today, shown on this machine in seconds.

Pre-training is not there yet, so the model is untrained and its verdicts are guesses; the demo says so.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from electra.config.load import dump_config, load_config
from electra.config.schema import ElectraObjective
from electra.data.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.model.networks import MaskedLM, build_networks
from electra.model.pretrained import Pretrained, load
from electra.recipes.convert import write_model, written_beside
from electra.recipes.flops import flops

SENTENCE = "the chef ate the meal"
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-"


def demo(out: str | Path, say: Callable[[str], None]) -> None:
    """Build the `tiny` model untrained, write it, read it back and let it judge a sentence."""
    out = Path(out)
    tokenizer = wordpiece([*SPECIAL_TOKENS, *ALPHABET, *(f"##{letter}" for letter in ALPHABET)])
    config = load_config("tiny", [f"model.vocab_size={tokenizer.vocab_size}"])
    assert isinstance(config.objective, ElectraObjective)
    cost = flops(config)
    say(f"tiny: {cost.parameters['joint']:,} parameters, {cost.train_flops['standard']:.2e} FLOPs to train")
    torch.manual_seed(config.seed)
    networks = build_networks(config.model, config.objective.generator)
    assert isinstance(networks.generator, MaskedLM)
    if not out.exists():
        with written_beside(out) as folder:
            (folder / "config.toml").write_text(dump_config(config), encoding="utf-8")
            write_model(Pretrained(networks.discriminator, tokenizer, networks.generator), folder / "model")
    say(f"written to {out} and read back, logits equal")
    for token, probability, _ in load(out).detect(SENTENCE):
        say(f"  {token:<6} {probability:.2f}")
    say("These are the guesses of an untrained discriminator, near 0.5: pre-training is yet to come.")
    say(f"Next: electra export {out} --out hf/demo")
