import json
from pathlib import Path
from typing import Any

import pytest

CONTEXT = "The chef cooked a soup. Then the cat ate it on the mat and was good."


def squad(*entries: dict[str, Any], context: str = CONTEXT) -> dict[str, Any]:
    return {"version": "1.1", "data": [{"title": "Food", "paragraphs": [{"context": context, "qas": list(entries)}]}]}


def entry(id: str, question: str, *answers: str, **more: Any) -> dict[str, Any]:
    found = [{"text": text, "answer_start": CONTEXT.index(text)} for text in answers]
    return {"id": id, "question": question, "answers": found, **more}


TREE = squad(
    entry("a", "Who cooked?", "The chef", "chef"),
    entry("b", "Who ate the soup?", "the cat"),
    entry("c", "Who was bad?", is_impossible=True),
)


@pytest.fixture
def squad_folder(tmp_path: Path) -> Path:
    """The same few questions to learn from and to be scored on, in the layout of SQuAD 2.0."""
    folder = tmp_path / "squad"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}-v2.0.json").write_text(json.dumps(TREE))
    return folder
