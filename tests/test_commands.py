"""Every command in the documents runs: with small texts, tables and budgets, without the hub, in one process."""

import csv
import json
import lzma
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from typer.testing import CliRunner

from electra.cli.commands import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
SHORTER = {  # the same commands, in seconds
    r"s3://": "memory://",
    r" --cluster auto": "",
    r"^electra demo": "electra demo --minutes 0.1",
    r"--hours \S+(?= --init)": "--hours 1 --set train.steps=2 --set train.batch_size=4",
    r"--hours \S+(?! --set)": "--hours 1 --set train.steps=2 --set model.layers=1",
    r"train\.(hours|steps|tokens)=\S+": "train.steps=2",
    r"train\.warmup_steps=\S+": "train.warmup_steps=1",
    r"^electra pretrain (\S+) (data|init)": r"electra pretrain \1 train.batch_size=4 evaluate.batches=1 \2",
    r"^electra pretrain (small|quick)": r"electra pretrain \1 model.layers=1",
    r"runs/start/model --length 128": "runs/start/model --length 16",  # the longest that the small model takes
    r"train\.length=128": "train.length=16",
    r"train\.length=1024": "train.length=256",
    r"^electra finetune similarity data=my_texts": r"\g<0> epochs=0.1",
    r"--size \d+": "--size 300",
    r"vocab_size=\d+": "vocab_size=300",
    r"^electra bench.*": "electra bench --size tiny --batch 2 --seconds 0.1",
    r"^electra (finetune glue|glue \S+)": r"electra \1 epochs=1.0",
    r"seeds=\d+": "seeds=2",
}
KOREAN = "나는 학교에 간다. 오늘 날씨가 좋다. 고양이가 물을 마신다. 우리는 밥을 먹는다."
JAPANESE = "私は学校へ行く。今日は天気がよい。猫が水を飲む。私たちは本を読む。"
ENGLISH = "The chef ate the meal. A cat sat on the mat, and then it was good."


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """Give the commands of a page's sh and console blocks, each with the output shown below it."""
    for language, block in re.findall(r"^```(sh|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        prompt = r"\$ " if language == "console" else ""
        yield from re.findall(rf"^{prompt}(electra .*)\n((?:(?!\$ |electra ).*\n)*)", block, re.MULTILINE)


def run(command: str, shown: str) -> None:
    """Run a command in this process; one whose shown output is an error has to fail with it."""
    for usual, short in SHORTER.items():
        command = re.sub(usual, short, command)
    arguments = shlex.split(command, comments=True)[1:]
    arguments, target = (arguments[:-2], arguments[-1]) if ">" in arguments else (arguments, None)
    result = CliRunner().invoke(app, arguments)
    if shown.startswith("electra: "):
        assert str(result.exception) == shown.removeprefix("electra: ").strip()
        return
    assert result.exit_code == 0, (command, result.exception, result.output)
    assert result.stdout or result.output, command
    if target:
        Path(target).write_text(result.stdout)


@pytest.fixture
def world(tmp_path, tasks_folder, tiny_folder, monkeypatch) -> Path:
    """A folder with everything that the pages take for granted, in small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / "cache"))
    fsspec.filesystem("memory").pipe_file("/bucket/text/a.txt", f"{ENGLISH}\n\n".encode() * 400)
    lines = ENGLISH.replace(". ", ".\n")  # documents of several passages
    for name, text in {"my_texts": lines, "my_domain": ENGLISH, "korean": KOREAN, "japanese": JAPANESE}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"{text}\n\n" * 400)
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/a.txt.xz").write_bytes(lzma.compress(f"{ENGLISH}\n\n".encode() * 400))
    shutil.copy(tiny_folder / "vocab.txt", tmp_path)
    shutil.copytree(tasks_folder, tmp_path / "glue")
    shutil.copytree(tiny_folder, tmp_path / "hf/small")
    _write_tables(tmp_path)
    _write_tasks(tmp_path)
    return tmp_path


def _write_tables(folder: Path) -> None:
    same = [("the cat sat", "a cat sat", "same"), ("the dog ate", "a dog ate", "same")]
    different = [("the cat sat", "a dog ate", "different"), ("the dog ate", "the cat sat", "different")]
    mood = [
        ("음식이 정말 맛있다", "good"),
        ("직원이 아주 불친절하다", "bad"),
        ("방이 깨끗하고 좋다", "good"),
        ("값이 너무 비싸다", "bad"),
    ]
    tables = {
        "pairs.csv": [("sentence1", "sentence2", "verdict"), *[*same, *different] * 10],
        "new_pairs.csv": [("sentence1", "sentence2"), *[row[:2] for row in same]],
        "reviews.csv": [("review", "mood"), *mood * 10],
        "questions.csv": [("question", "passage"), *[(f"who {row[0]} {n}", row[1]) for n in range(10) for row in same]],
        "articles.csv": [("text", "kind"), *mood * 10],
        "new_articles.csv": [("text",), *[row[:1] for row in mood]],
    }
    for name, rows in tables.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)


def _write_tasks(folder: Path) -> None:
    sentence = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\n"
    for name in ("conll2000", "conll2003"):
        (folder / name).mkdir()
        for split in ("train", "test"):
            (folder / name / f"{split}.txt").write_text(sentence * 8)
    (folder / "words.txt").write_text("the\ncat\nsat\n")
    (folder / "copa").mkdir()
    choice = {
        "premise": "the cat sat",
        "question": "cause",
        "choice1": "the dog ate",
        "choice2": "a cat sat",
        "label": 1,
    }
    for place in ("copa/train.jsonl", "copa/val.jsonl", "new.jsonl"):
        (folder / place).write_text(json.dumps(choice) + "\n" + json.dumps(choice | {"label": 0}) + "\n")
    (folder / "glue/MRPC").mkdir()
    pair = "the cat sat\ta cat sat"
    for split in ("train", "dev", "test"):
        head = (
            "index\t#1 ID\t#2 ID\t#1 String\t#2 String"
            if split == "test"
            else "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
        )
        (folder / f"glue/MRPC/{split}.tsv").write_text(
            "\n".join([head, *[f"{n % 2}\t1\t2\t{pair}" for n in range(16)]]) + "\n"
        )
    (folder / "blimp").mkdir()
    (folder / "blimp/pairs.jsonl").write_text('{"sentence_good": "the cat sat", "sentence_bad": "the the sat"}\n')
    (folder / "squad").mkdir()
    question = {
        "id": "1",
        "question": "who sat",
        "answers": [{"text": "cat", "answer_start": 4}],
        "is_impossible": False,
    }
    data = {"version": "v2.0", "data": [{"title": "a", "paragraphs": [{"context": "the cat sat", "qas": [question]}]}]}
    for split in ("train", "dev"):
        (folder / f"squad/{split}-v2.0.json").write_text(json.dumps(data))


def test_the_first_example_shows_what_comes_out():
    """Probabilities differ slightly from machine to machine."""
    command, shown = next(commands(ROOT / "docs/quickstart.md"))
    rows, expected = (
        [line.split("\t") for line in text.splitlines()]
        for text in (CliRunner().invoke(app, shlex.split(command)[1:]).stdout, shown)
    )
    assert [row[1:] for row in rows] == [row[1:] for row in expected]
    assert [float(row[0]) for row in rows] == pytest.approx([float(row[0]) for row in expected], abs=0.01)


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=lambda page: page.stem)
def test_every_command_of_the_page_runs(page, world, tiny_folder):
    if not any("out=runs/small" in command for command, _ in commands(page)):
        shutil.copytree(tiny_folder, world / "runs/small")
    for command, shown in commands(page):
        run(command, shown)
    for code in re.findall(r"^```python\n(import electra\n.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, page.name, "exec"), {})
