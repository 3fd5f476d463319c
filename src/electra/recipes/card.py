"""The model card: what a model is, how it was trained and how to load it."""

from collections.abc import Mapping
from pathlib import Path

import torch

from electra.config.bodies import ModelConfig
from electra.config.load import flatten
from electra.errors import CheckpointError
from electra.model.heads import EXAMPLE
from electra.model.huggingface import architecture_of
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, Network, TaskNetwork
from electra.model.pretrained import Pretrained, sentence_head
from electra.recipes.results import describe, read_results
from electra.training.run import read_part, read_records

USES = {
    TaskNetwork: "Fine-tuned on a task: see `task.json` and the labels in `config.json`.",
    Discriminator: "Estimates for every token the probability that it was replaced. Intended for fine-tuning.",
    EnergyModel: "Trained with Electric: every token gets an energy, low if it fits. Intended for fine-tuning.",
    MaskedLM: "A masked language model: it predicts the tokens at [MASK].",
}
SENTENCES = "Sentence vectors: the more similar two texts are, the nearer the cosine of their vectors is to 1."
NO_HEAD = "An encoder without a head, intended for fine-tuning."


def training_facts(run: Path) -> dict[str, str]:
    """Return a few facts about how the model of a run was trained; none if the folder is not a run."""
    if (run / "results.json").is_file():
        return {"on dev": describe(read_results(run / "results.json"))}
    if not (run / "metrics.jsonl").is_file():
        return {}
    records = read_records(run / "metrics.jsonl")
    latest = {name: value for record in records for name, value in record.items()}
    objective = flatten(read_part(run / "config.toml") or {}).get("objective.name")
    if objective is None:
        raise CheckpointError(
            f"{run / 'config.toml'} names no objective; restore it, or export a copy of {run / 'model'}"
        )
    facts = {"objective": objective, "updates, tokens read": f"{latest.get('step', 0):,}, {latest.get('tokens', 0):,}"}
    shown = {"discriminator_auc": "AUC of replaced tokens", "mlm_hidden_accuracy": "accuracy on masked tokens"}
    heldout = {what: latest.get(f"heldout_{name}") for name, what in shown.items()}
    found = [f"{what} {value:.3f}" for what, value in heldout.items() if value is not None]
    return facts | ({"on held-out text": ", ".join(found)} if found else {})


def model_card(model: Pretrained, dtype: torch.dtype, facts: Mapping[str, str]) -> str:
    """Return the card of a model whose weights are stored as `dtype`, with facts about its training."""
    architecture = architecture_of(model.network)
    loaded_as = "AutoModel" if architecture.startswith("Paper") else architecture
    generator = ""
    if model.generator:
        loaded = f'`{architecture_of(model.generator)}.from_pretrained(FOLDER, subfolder="generator")`'
        generator = f"\nThe folder `generator` holds the generator of its pre-training: {loaded}.\n"
    rounded = "" if dtype == torch.float32 else f" with weights rounded to {str(dtype).removeprefix('torch.')}"
    checked = f"loaded the files again and got the same logits as the trained model{rounded}"
    imports = f"from transformers import AutoTokenizer, {loaded_as}"
    return _card(model, "transformers", _loading(imports, loaded_as), generator, checked, facts)


def onnx_card(model: Pretrained, int8: bool, checked: str, facts: Mapping[str, str]) -> str:
    """Return the card of a model in the ONNX format, with the result of its check and facts about its training."""
    network = model.network
    served = network.head.served_as if isinstance(network, Network) else "FeatureExtraction"
    loaded_as = f"ORTModelFor{served}"
    imports = f"from optimum.onnxruntime import {loaded_as}\nfrom transformers import AutoTokenizer"
    facts = {"numbers": "int8 matrices, the rest float32" if int8 else "float32", **facts}
    card = _card(model, "optimum", _loading(imports, loaded_as), "", f"ran it: {checked}", facts)
    return card.replace("SentenceTransformer(FOLDER)", 'SentenceTransformer(FOLDER, backend="onnx")')


def _loading(imports: str, loaded_as: str) -> str:
    return f"""{imports}

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = {loaded_as}.from_pretrained(FOLDER)
"""


def _card(model: Pretrained, library: str, loading: str, more: str, checked: str, facts: Mapping[str, str]) -> str:
    config, use = model.encoder.config, USES.get(type(model.network), NO_HEAD)
    if sentence_head(model.network):
        library, loading, use = "sentence-transformers", "", SENTENCES
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    example = model.network.head.example if isinstance(model.network, Network) else EXAMPLE
    tags = "" if isinstance(model.network, TaskNetwork) else "- replaced-token-detection\n"
    sizes = {key: value for key, value in config.shape.items() if key not in ModelConfig.model_fields}
    own = "".join(f"| {key.replace('_', ' ')} | {value} |\n" for key, value in sizes.items())
    rows = "".join(f"| {name} | {value} |\n" for name, value in facts.items())
    return f"""---
library_name: {library}
tags:
- electra
{tags}---

# {architecture_of(model.network)}

{use}

| | |
|---|---|
| parameters | {parameters:,} |
| layers × width, heads | {config.layers} × {config.hidden_size}, {config.heads} |
{own}| vocabulary | {config.vocab_size:,} |
| maximum length | {model.window + 2} tokens |
{rows}
```python
{loading}{example}
```
{more}
Written by `electra`, which {checked}.
Its training text and the resulting biases are not recorded here; ask the author of the model.
"""
