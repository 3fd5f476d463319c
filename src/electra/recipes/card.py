"""The model card: what a model is, how it was trained and how to load it, for whoever finds the folder."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import torch

from electra.data.files import read_table
from electra.errors import CheckpointError
from electra.model.encoder import Encoder
from electra.model.huggingface import layout
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, TaskNetwork
from electra.model.pretrained import Pretrained
from electra.recipes.results import describe
from electra.training.run import read_records

USES = {
    TaskNetwork: "Fine-tuned for a task: see `task.json` and the labels in `config.json`.",
    Discriminator: "Every token gets a score: positive means that it looks replaced. Made to be fine-tuned.",
    EnergyModel: "Trained with Electric: every token gets an energy, low where it fits. Made to be fine-tuned.",
    MaskedLM: "A masked language model: it predicts the tokens at [MASK].",
    Encoder: "A bare encoder, to be fine-tuned.",
}


def training_facts(run: Path) -> dict[str, str]:
    """Say in a few rows how the model of a run was trained; nothing of a folder that is no run."""
    if (run / "results.json").is_file():
        return {"on dev": describe(read_table(run / "results.json", "the results of a fine-tuning", CheckpointError))}
    if not (run / "metrics.jsonl").is_file():
        return {}
    records = read_records(run / "metrics.jsonl")
    latest = {name: value for record in records for name, value in record.items()}
    facts = {
        "objective": tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["objective"]["name"],
        "updates, tokens read": f"{latest.get('step', 0):,}, {latest.get('tokens', 0):,}",
    }
    shown = {
        "heldout_discriminator_auc": "AUC of replaced tokens",
        "heldout_mlm_hidden_accuracy": "hidden tokens found",
    }
    found = [f"{what} {latest[name]:.3f}" for name, what in shown.items() if latest.get(name) is not None]
    return facts | ({"on held-out text": ", ".join(found)} if found else {})


def model_card(model: Pretrained, dtype: torch.dtype, facts: Mapping[str, str]) -> str:
    """Write the card of a model folder whose weights are stored in a precision, with facts of its training."""
    config = model.encoder.config
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    architecture = layout(model.network).architecture
    loaded_as = "AutoModel" if architecture.startswith("Paper") else architecture
    generator = (
        "\nThe generator that it was trained with is in the folder `generator`: "
        '`ElectraForMaskedLM.from_pretrained(FOLDER, subfolder="generator")`.\n'
        if model.generator
        else ""
    )
    tags = "" if isinstance(model.network, TaskNetwork) else "- replaced-token-detection\n"
    rows = "".join(f"| {name} | {value} |\n" for name, value in facts.items())
    rounded = "" if dtype == torch.float32 else f", its weights rounded to {str(dtype).removeprefix('torch.')}"
    return f"""---
library_name: transformers
tags:
- electra
{tags}---

# {architecture}

{USES[type(model.network)]}

| | |
|---|---|
| parameters | {parameters:,} |
| layers × width, heads | {config.layers} × {config.hidden_size}, {config.heads} |
| feed-forward, embedding size | {config.feed_forward_size}, {config.embedding_size} |
| vocabulary | {config.vocab_size:,} |
| longest input | {model.window + 2} tokens |
{rows}
```python
from transformers import AutoTokenizer, {loaded_as}

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = {loaded_as}.from_pretrained(FOLDER)
outputs = model(**tokenizer("the chef ate the meal", return_tensors="pt"))
```
{generator}
Written by `electra`, which read the files back: their logits equal the trained model's{rounded}.
What text it has read, and what biases it has taken from there, whoever trained it can say.
"""
