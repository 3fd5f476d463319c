import json

import pytest
from typer.testing import CliRunner

from electra.cli.commands import app
from electra.data.corpus.shards import open_corpus
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a b c d\n\ne f g h\n\na\n\n" * 20)
    wordpiece([*SPECIAL_TOKENS, *"abcdefgh"]).save(tmp_path / "tokenizer")
    return tmp_path


def build(*options: str) -> str:
    basic = ["corpus", "a.txt", "--tokenizer", "tokenizer", "--length", "16", "--out", "corpus", "--workers", "0"]
    result = CliRunner().invoke(app, [*basic, *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_a_build_prints_what_was_read_kept_and_dropped(folder):
    printed = build("--min-characters", "3", "--duplicates", "exact", "--heldout", "0")
    assert "8 tokens of 2 documents in 1 sequence of 16 (sentences)" in printed
    assert "read      60 documents" in printed
    assert "documents: between blank lines (1 source)" in printed
    assert "dropped   20 documents, 20 characters: too short" in printed
    assert "such as: a b c d" in printed


def test_a_build_prints_how_much_is_repeated(folder):
    (folder / "a.txt").write_text("a b c d e f g. h a b c d e f. g h")
    assert "kept      all tokens; 33.3% are repeated, so that sequences begin at sentences" in build("--heldout", "0")


def test_many_unknown_tokens_come_with_advice(folder):
    advice = "a larger vocabulary of this text has fewer, one with --model bpe none"
    assert advice not in build("--heldout", "0")
    (folder / "a.txt").write_text("a b ? d\n\n" * 20)
    printed = build("--heldout", "0", "--out", "other")
    assert f"unknown   25.00% of the tokens are not in the vocabulary; {advice}" in printed


def test_an_existing_corpus_is_reported_as_such(folder):
    note = "already built from files with the same names and sizes"
    assert [note in build() for _ in range(2)] == [False, True]


def test_a_build_prints_the_manifest_as_json(folder):
    manifest = json.loads(build("--json", "--cut", "paper", "--documents", "line", "--seed", "3"))
    assert manifest == json.loads((folder / "corpus" / "manifest.json").read_text())
    assert (manifest["cut"], manifest["seed"], manifest["documents"]) == ("paper", 3, 60)
    assert {"tokens", "sequences", "documents", "tokenizer_sha256"} <= set(manifest)
    assert all(len(shard["sha256"]) == 64 for shard in manifest["splits"]["train"])


def test_flops_are_counted_for_the_vocabulary_of_a_corpus(folder):
    build()
    usual, fitted = (
        json.loads(CliRunner().invoke(app, ["flops", "tiny", *data, "--json"]).stdout) for data in ([], ["data=corpus"])
    )
    assert fitted["parameters"]["joint"] < usual["parameters"]["joint"]


def test_sequences_are_shown(folder):
    build()
    result = CliRunner().invoke(app, ["corpus", "corpus", "--show", "1"])
    assert "[CLS]" in result.stdout


@pytest.mark.parametrize(
    "wrong", [["corpus", "--show", "-1"], ["a.txt", "--workers", "9999", "--tokenizer", "tokenizer", "--length", "16"]]
)
def test_numbers_out_of_range_are_refused(folder, wrong):
    assert CliRunner().invoke(app, ["corpus", *wrong, "--out", "new"]).exit_code == 2


def test_an_intact_corpus_is_verified(folder):
    build()
    assert "matches its manifest" in CliRunner().invoke(app, ["corpus", "corpus", "--verify"]).stdout
    assert json.loads(CliRunner().invoke(app, ["corpus", "corpus", "--verify", "--json"]).stdout) == {"problems": []}


def test_a_damaged_corpus_is_a_one_line_error_with_exit_code_2(electra, folder):
    build()
    (folder / "corpus" / "train-00000.npy").write_bytes(b"")
    result = electra("corpus", "corpus", "--verify")
    assert result.returncode == 2
    assert result.stderr.startswith("electra: corpus is damaged: train-00000.npy ")
    assert result.stderr.endswith("; delete it and build it again\n")


def test_no_progress_bar_is_drawn_outside_a_terminal(electra, folder):
    command = ["corpus", "a.txt", "--tokenizer", "tokenizer", "--length", "16", "--out", "corpus", "--workers", "0"]
    assert electra(*command).stderr == ""


def test_workers_read_standard_input(electra, folder):
    command = ["corpus", "-", "--tokenizer", "tokenizer", "--length", "16", "--out", "corpus"]
    assert electra(*command, stdin="a b c\n\nd e f\n" * 9).returncode == 0
    assert open_corpus("corpus").manifest.provenance["sources"][0]["name"] == "-"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt"], "to build a corpus, give --tokenizer, --length and --out"),
        (["a.txt", "b.txt", "--verify"], "--show and --verify take one corpus; found 2"),
        (["corpus", "--verify", "--show", "1"], "--show and --verify cannot be combined"),
        (["corpus", "--show", "1", "--out", "b"], "--show and --verify look at a finished corpus; drop --tokenizer"),
        (["nowhere", "--verify"], "no corpus at nowhere; build one with: electra corpus TEXT... --tokenizer"),
        (["nowhere.txt", "--tokenizer", "tokenizer", "--length", "16", "--out", "corpus"], "no file or folder"),
    ],
)
def test_a_mistake_is_a_one_line_error_with_exit_code_2(electra, folder, arguments, message):
    result = electra("corpus", *arguments)
    assert result.returncode == 2
    assert message in result.stderr.strip().splitlines()[-1]
