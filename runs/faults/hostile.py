"""Hostile content: texts, tables, settings and model folders as nobody should write them."""

import json
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

DEEP = 100_000
TEXTS: dict[str, bytes] = {
    "random bytes": random.Random(1).randbytes(4096),
    "null bytes": b"\0" * 1000,
    "a null byte in a line": b"the cat\0 ate soup\n" * 20,
    "a byte order mark": b"\xef\xbb\xbf",
    "UTF-16": "\ufefftext,label\nthe cat,y\n".encode("utf-16"),
    "Latin-1": "text,label\ncaf\xe9,y\n".encode("latin-1"),
    "lone surrogates": b'{"text": "\\ud800", "label": "y"}\n' * 4,
    "overlong UTF-8": b"\xc0\x80\xf8\x88\x80\x80\x80" * 9,
    "line separators": "the\u2028cat\x85ate\x0bsoup\x0c\x1c\r\r\n".encode() * 20,
    "right to left": "\u202eeht tac\u202c \u200b\u200d\ufeff".encode() * 20,
    "combining marks": ("e" + "\u0301" * 5000 + "\n").encode(),
    "one long word": b"a" * 200_000,
    "one long line": b"the cat " * 20_000,
    "blank lines": b"\n" * 5000,
    "spaces": b" \t\r\n" * 500,
    "an open quote": b'text,label\n"the cat,y\nthe dog,n\n' * 3,
    "quotes inside": b'text,label\nthe "cat" ate,y\n"the ""dog,n\n',
    "ragged rows": b"text,label\nthe cat\nthe dog,n,n,n\n,\n,,,,\n",
    "a doubled column": b"text,text,label\na,b,y\nc,d,n\n",
    "an empty header": b",,\n1,2,3\n",
    "only a header": b"text,label\n",
    "ragged tabs": b"index\tsentence1\tsentence2\tlabel\n0\ta\n1\ta\tb\tentailment\tx\n",
    "numbers that overflow": b"index\tsentence1\tsentence2\tscore\n0\ta\tb\t1e999\n1\ta\tb\tnan\n2\ta\tb\t-inf\n",
    "a field of a megabyte": b'text,label\n"' + b"x " * 500_000 + b'",y\n',
    "deep JSON": b"[" * DEEP + b"]" * DEEP,
    "deep JSON objects": b'{"data":' * DEEP,
    "a huge JSON number": b'{"text": ' + b"9" * 10_000 + b', "label": 1e999}\n',
    "NaN in JSON": b'{"text": NaN, "label": NaN, "question": NaN, "context": Infinity}\n' * 4,
    "JSON of other types": b'{"text": ["a"], "label": {"b": []}, "question": 1, "context": null}\n' * 4,
    "doubled JSON keys": b'{"text": "a", "text": "b", "label": 0, "label": 1}\n' * 4,
    "a JSON list": b'["a", 1, null]\n' * 4,
    "questions of other types": b'{"data": [{"paragraphs": [{"context": 1, "qas": [null]}]}]}',
    "an answer outside": b'{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1, "question": "b", '
    b'"answers": [{"text": "c", "answer_start": -9}]}]}]}]}',
    "deep TOML": b"x = " + b"[" * DEEP,
    "doubled TOML tables": b"[model]\nlayers = 1\n[model]\n",
    "TOML of other types": b'model = 3\ntrain = []\npreset = ["tiny"]\n',
    "huge TOML values": b'preset = "tiny"\n[train]\nlearning_rate = nan\nsteps = ' + b"9" * 5000 + b"\n",
    "gzip by its first bytes": b"\x1f\x8b\x08\x00" + b"\0" * 40,
    "tags without words": b"\n\n O\n\tB-X\nI-\n-\n",
}
SETTINGS = [  # values of KEY=VALUE
    *("nan inf -inf 1e999 -1 0 -0.0 0.5 1e18 1e-320 true null [] {} [1,2 ''' \" a=b = .. / - 💥 \u202e".split(" ")),
    *("", " ", "9" * 400, "9" * 5000, "a" * 100_000, "[" * 5000, "{a=" * 2000, "9223372036854775808", "0x7fffffff"),
    *("1979-05-27", "[nan]", '["a","a"]', "1_000_000_000_000", "\ud800", "line\nbreak", "#", "\\u0000"),
]
KEYS = ["", ".", "model", "model.", ".layers", "train..steps", "__class__", "model.layers.x", "\u0000x", "a" * 9999]
VALUES: list[Any] = [  # in a model's JSON files
    *(None, True, False, 0, -1, 1, 0.5, 1e308, float("nan"), float("inf"), 2**31, 2**63, 10**400),
    *("", "x", "../../x", "/etc/passwd", "\ud800", "a" * 10_000, [], {}, [[]], [None], {"x": {}}, ["a"] * 1000),
]

NORMALIZERS: list[Any] = [  # of a tokenizer: endless work, endless texts, no text at all
    {"type": "Replace", "pattern": {"Regex": "(\\w+\\s*)+$"}, "content": "b"},
    {"type": "Replace", "pattern": {"Regex": "(?=(.*)*x)"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": "."}, "content": ""},
    {"type": "Sequence", "normalizers": 9 * [{"type": "Replace", "pattern": {"String": "a"}, "content": 10 * "a"}]},
    {"type": "Prepend", "prepend": 100_000 * "the "},
]


def mutate(tree: Any, chance: random.Random) -> Any:
    """Change, remove or add one value somewhere in a JSON tree."""
    if not isinstance(tree, dict | list) or not tree or chance.random() < 0.1:
        return chance.choice(VALUES)
    key = chance.choice(sorted(tree)) if isinstance(tree, dict) else chance.randrange(len(tree))
    if chance.random() < 0.15:
        del tree[key]
    elif chance.random() < 0.1 and isinstance(tree, dict):
        tree[chance.choice(["model_type", "architectures", "auto_map", "x"])] = chance.choice(VALUES)
    else:
        tree[key] = mutate(tree[key], chance)
    return tree


def spoil_json(path: Path, chance: random.Random) -> None:
    """Replace a value of a JSON file, or the file by a bomb."""
    if chance.random() < 0.05:
        path.write_bytes(chance.choice([TEXTS["deep JSON"], TEXTS["deep JSON objects"], TEXTS["a huge JSON number"]]))
    else:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "tokenizer.json" and chance.random() < 0.3:
            tree["normalizer"] = chance.choice(NORMALIZERS)
        else:
            tree = mutate(tree, chance)
        path.write_text(json.dumps(tree), encoding="utf-8")


def spoil_weights(path: Path, chance: random.Random) -> None:
    """Put a number that is not finite into the weights, or spoil the table of tensors before them."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header, numbers = content[8 : 8 + size], bytearray(content[8 + size :])
    if chance.random() < 0.5:
        place = chance.randrange(len(numbers) // 4) * 4
        numbers[place : place + 4] = struct.pack("<f", chance.choice([float("nan"), float("inf"), 3e38]))
    else:
        header = json.dumps(mutate(json.loads(header), chance)).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + numbers)


class _Payload:
    """Ends the process with exit code 1 if it is ever unpickled."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (1,)


def spoil_pickle(path: Path, chance: random.Random) -> None:
    """Replace a weight file by a pickle that runs code."""
    path.unlink()
    path.with_name("pytorch_model.bin").write_bytes(pickle.dumps(_Payload(), protocol=chance.randint(2, 5)))


def spoil_index(path: Path, chance: random.Random) -> None:
    """Replace a weight file by an index whose parts are elsewhere, missing or nonsense."""
    path.unlink()
    parts: list[Any] = ["../model.safetensors", "/etc/passwd", "model.safetensors", "x.bin", "", "\0", 3, None, []]
    part = chance.choice(parts)
    index = {"weight_map": {f"electra.encoder.{n}": part for n in range(3)}}
    if chance.random() < 0.3:
        index = mutate(index, chance)
    path.with_name("model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
