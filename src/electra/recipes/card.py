"""The model card: what a model is and how to load it, for whoever finds the folder."""

import torch

from electra.model.encoder import Encoder
from electra.model.huggingface import layout
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, TaskNetwork
from electra.model.pretrained import Pretrained

USES = {
    TaskNetwork: "Fine-tuned for a task: see `task.json` and the labels in `config.json`.",
    Discriminator: "Every token gets a score: positive means that it looks replaced. Made to be fine-tuned.",
    EnergyModel: "Trained with Electric: every token gets an energy, low where it fits. Made to be fine-tuned.",
    MaskedLM: "A masked language model: it predicts the tokens at [MASK].",
    Encoder: "A bare encoder, to be fine-tuned.",
}


def model_card(model: Pretrained, dtype: torch.dtype = torch.float32) -> str:
    """Write the card of a model folder whose weights are stored in a precision."""
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
    rounded = "" if dtype == torch.float32 else f", its weights rounded to {str(dtype).removeprefix('torch.')}"
    return f"""---
library_name: transformers
tags:
- electra
- replaced-token-detection
---

# {architecture}

{USES[type(model.network)]}

| | |
|---|---|
| parameters | {parameters:,} |
| layers × width, heads | {config.layers} × {config.hidden_size}, {config.heads} |
| feed-forward, embedding size | {config.feed_forward_size}, {config.embedding_size} |
| vocabulary | {config.vocab_size:,} |
| longest input | {model.window + 2} tokens |

```python
from transformers import AutoTokenizer, {loaded_as}

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = {loaded_as}.from_pretrained(FOLDER)
outputs = model(**tokenizer("the chef ate the meal", return_tensors="pt"))
```
{generator}
Written by `electra`, which read the files back: their logits equal the trained model's{rounded}.
"""
