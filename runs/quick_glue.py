"""A short fine-tuning on a few GLUE tasks, to tell pre-trained models of one family apart.

    python runs/quick_glue.py GLUE_FOLDER MODEL... [--seeds 0 1 2] [--untrained]

The same plain recipe for every model (three epochs, batch 32, one learning rate, no layer-wise decay): scores compare
with each other and not with published ones. `--untrained` adds the first model's shape with random weights.
"""

import argparse
import csv
import json
import statistics
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import electra
from electra.model.encoder import Encoder
from electra.model.heads import ClassificationHead

TASKS = {  # name: text columns, label column, header, outputs, metric, most training examples
    "CoLA": ((3,), 1, False, 2, "mcc", None),
    "STS-B": ((7, 8), 9, True, 1, "pearson", None),
    "MRPC": ((3, 4), 0, True, 2, "accuracy", None),
    "SST-2": ((0,), 1, True, 2, "accuracy", 20_000),
}
EPOCHS, BATCH, RATE, WARMUP, LENGTH = 3, 32, 3e-4, 0.1, 128


def read(path: Path, task: str) -> list[tuple[list[str], float]]:
    """Read the rows of a split: texts and label."""
    columns, label, header, *_ = TASKS[task]
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1 if header else 0 :]
    return [([row[column] for column in columns], float(row[label])) for row in rows if len(row) > max(*columns, label)]


def encode(
    rows: list[tuple[list[str], float]], tokenizer: electra.Tokenizer
) -> list[tuple[list[int], list[int], float]]:
    """Turn texts into ids and types: [CLS] A [SEP] (B [SEP])."""
    encoded = []
    for texts, label in rows:
        pieces = [encoding.ids[: (LENGTH - 3) // len(texts)] for encoding in tokenizer.encode(texts)]
        ids, types = [tokenizer.cls_id], [0]
        for number, part in enumerate(pieces):
            ids += [*part, tokenizer.sep_id]
            types += [number] * (len(part) + 1)
        encoded.append((ids, types, label))
    return encoded


def collate(rows: list[tuple[list[int], list[int], float]], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Pad a batch."""
    width = max(len(ids) for ids, _, _ in rows)
    ids = torch.tensor([row[0] + [0] * (width - len(row[0])) for row in rows])
    types = torch.tensor([row[1] + [0] * (width - len(row[1])) for row in rows])
    attention = torch.tensor([[1] * len(row[0]) + [0] * (width - len(row[0])) for row in rows])
    return tuple(part.to(device) for part in (ids, attention, types, torch.tensor([row[2] for row in rows])))


def score(metric: str, outputs: np.ndarray, labels: np.ndarray) -> float:
    """Give the task's metric, times 100."""
    if metric == "pearson":
        return float(100 * np.corrcoef(outputs[:, 0], labels)[0, 1])
    guess = outputs.argmax(1)
    if metric == "accuracy":
        return float(100 * (guess == labels).mean())
    correlation = (
        np.corrcoef(guess, labels)[0, 1] if guess.std() else 0.0
    )  # Matthews's is Pearson's of two binary variables
    return float(100 * correlation)


def finetune(encoder: Encoder, tokenizer: electra.Tokenizer, folder: Path, task: str, seed: int) -> float:
    """Fine-tune a copy of the encoder and score it on dev."""
    *_, outputs, metric, most = TASKS[task]
    torch.manual_seed(seed)
    device = encoder.embeddings.words.weight.device
    body = Encoder(encoder.config).to(device)
    body.load_state_dict(encoder.state_dict())
    head = ClassificationHead(encoder.config, outputs).to(device)
    train, dev = (encode(read(folder / task / f"{split}.tsv", task), tokenizer) for split in ("train", "dev"))
    train = [train[index] for index in torch.randperm(len(train))[:most]] if most else train
    optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=RATE, weight_decay=0.0)
    total = EPOCHS * (len(train) // BATCH)
    ramp = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARMUP * total)) * (1 - step / total)
    )
    for _ in range(EPOCHS):
        order = torch.randperm(len(train)).tolist()
        for start in range(0, len(order) - BATCH + 1, BATCH):
            ids, attention, types, labels = collate([train[index] for index in order[start : start + BATCH]], device)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = head(body(ids, attention, types)).float()
            loss = F.mse_loss(logits[:, 0], labels / 5) if outputs == 1 else F.cross_entropy(logits, labels.long())
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 1.0)
            optimizer.step()
            optimizer.zero_grad()
            ramp.step()
    body.eval(), head.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(dev), 256):
            ids, attention, types, _ = collate(dev[start : start + 256], device)
            found.append(head(body(ids, attention, types)).float().cpu().numpy())
    return score(metric, np.concatenate(found), np.array([label for _, _, label in dev]))


def main() -> None:
    """Print one JSON line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--untrained", action="store_true")
    options = parser.parse_args()
    for number, name in enumerate([*options.models, *(["untrained"] if options.untrained else [])]):
        model = electra.load(options.models[0] if name == "untrained" else name)
        encoder = model.encoder
        if number == len(options.models):
            torch.manual_seed(0)
            encoder = Encoder(encoder.config).to(model.device)
        scores = {
            task: [finetune(encoder, model.tokenizer, options.glue, task, seed) for seed in options.seeds]
            for task in options.tasks
        }
        mean = statistics.mean(statistics.mean(values) for values in scores.values())
        rounded = {task: [round(value, 2) for value in values] for task, values in scores.items()}
        print(json.dumps({"model": name, "mean": round(mean, 2), "scores": rounded}), flush=True)


if __name__ == "__main__":
    main()
