"""The command line as a user sees it: exit codes, one-line errors, fast help."""

import inspect
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
import typer.main
from typer.models import OptionInfo
from typer.testing import CliRunner

from electra.cli.commands import app
from electra.cli.detect import _is_text
from electra.config import preset_names
from electra.config.finetune import FinetuneConfig
from electra.config.schema import PretrainConfig

COMMANDS = sorted(typer.main.get_command(app).commands)


def process(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "electra", *arguments], capture_output=True, text=True)


def assert_refused(result: subprocess.CompletedProcess, message: str, code: int = 2) -> None:
    lines = result.stderr.splitlines()
    assert result.returncode == code, result
    assert len(lines) == 1, lines
    assert lines[0].startswith("electra: ")
    assert message in lines[0]
    assert result.stdout == ""


def test_help_is_fast_and_does_not_import_torch():
    code = """import sys
sys.argv = ["electra", "--help"]
from electra.cli import main
try:
    main()
except SystemExit:
    print(sorted({"torch", "numpy", "pydantic", "tokenizers", "transformers"} & set(sys.modules)))"""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    assert result.stdout.splitlines()[-1] == "[]"
    assert min(times) < 1


def test_a_full_disk_is_a_one_line_error_and_leaves_no_files(tmp_path):
    (tmp_path / "text.txt").write_text("the chef ate the soup and then the cake\n" * 30)
    words = ["vocab", str(tmp_path / "text.txt"), "--size", "60", "--out", str(tmp_path / "tokenizer")]
    result = subprocess.run(
        [sys.executable, "-m", "electra", *words],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )
    assert_refused(result, "File too large; make room and run the same command again")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tokenizer.lock", "text.txt"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own; mounting one takes root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_command_that_met_a_full_file_system_finishes_once_there_is_room(electra, small_disk, tmp_path):
    (tmp_path / "text.txt").write_text("the chef ate the soup and then the cake\n" * 30)
    command = ["vocab", tmp_path / "text.txt", "--size", 60, "--out"]
    electra(*command, tmp_path / "expected")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(60_000))
    assert_refused(electra(*command, small_disk / "found"), "No space left on device; make room and run the same")
    filler.unlink()
    assert electra(*command, small_disk / "found").returncode == 0
    for file in ("tokenizer.json", "vocab.txt", "checksums.json"):
        assert (small_disk / "found" / file).read_bytes() == (tmp_path / "expected" / file).read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_a_one_line_error(unbuffered):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(
            [sys.executable, "-m", "electra", "--version"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    said = "electra: No space left on device; make room and run the same command again\n"
    assert (result.returncode, result.stderr) == (2, said)


FEW_HANDLES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
NO_MEMORY = (
    "import types; sys.stdin = types.SimpleNamespace(buffer=types.SimpleNamespace(read=lambda size: bytes(1 << 60)))"
)


@pytest.mark.parametrize(
    ("lack", "message"),
    [
        (FEW_HANDLES, "Too many open files; raise the limit with: ulimit -n 4096"),
        (NO_MEMORY, "cannot read -: not enough memory; use smaller batches"),
    ],
)
def test_a_lack_of_resources_is_a_one_line_error(tmp_path, lack, message):
    begin = "import sys; from electra.cli import main, run; sys.argv = 'electra vocab - --size 60 --out v'.split()"
    code = [sys.executable, "-c", f"{begin}; {lack}; main()"]
    assert_refused(subprocess.run(code, cwd=tmp_path, capture_output=True, text=True), message)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_ends_with_two_examples(electra, command):
    text = electra(command, "--help").stdout
    examples = text.partition("Examples:")[2].strip().splitlines()
    assert len([line for line in examples if f"electra {command}" in line]) == 2


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda command: command.callback.__name__)
def test_an_option_called_like_its_placeholder_states_its_name(command):
    """typer 0.27 would turn `task` with metavar="TASK" into the option --TASK."""
    for name, parameter in inspect.signature(command.callback).parameters.items():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(option, OptionInfo) and (option.metavar or "").lower() == name:
                assert option.default == f"--{name}"  # the first argument, in Annotated


@pytest.mark.parametrize("schema", [PretrainConfig, FinetuneConfig])
def test_the_help_lists_the_presets(electra, schema):
    text = "".join(electra(schema.command, "--help").stdout.split())  # lines also break inside small-plus
    assert f"preset:{','.join(preset_names(schema.command))}." in text


def test_the_help_shows_every_summary_in_full_at_80_columns(electra, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = electra("--help").stdout.partition("Commands:")[2].partition("Examples:")[0].split("\n")
    assert [line.split()[0] for line in commands if line.endswith(".")] == list(typer.main.get_command(app).commands)
    assert not any(line.endswith("...") for line in commands)


def test_version_is_that_of_the_package(electra):
    from importlib.metadata import version

    assert electra("--version").stdout == f"electra {version('electra')}\n"


def test_no_command_shows_the_help(electra):
    result = electra()
    assert result.returncode == 0
    assert "Commands:" in result.stdout


def test_shell_completion_is_offered(electra):
    assert "--install-completion" in electra("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cofnig"], "No such command 'cofnig'. Did you mean 'config'?"),
        (["config", "smal"], "did you mean small?"),
        (
            ["config", "small", "train.stpes=5"],
            "unknown config key train.stpes (command line); did you mean train.steps?",
        ),
        (["config", "small", "--explain", "--diff", "base"], "cannot be combined"),
        (["flops"], "give either a preset or config file, or --table"),
        (["flops", "base", "objective.generator.width=0.3"], "do not divide"),
        (["detect", "./nowhere", "text"], "no file or folder ./nowhere"),
        (["export", "./nowhere", "--out", "/tmp/x"], "no file or folder ./nowhere"),
        (["export", "./nowhere"], "Missing option '--out'"),
        (["config", "small", "--bla"], "No such option: --bla; settings are given as KEY=VALUE, without dashes"),
        (["train", "--hours", "1", "--bla"], "No such option: --bla; set keys with --set KEY=VALUE"),
        (
            ["train", "text", "--hours", "1", "--out", "run", "train.steps=5"],
            "train.steps=5 is a setting, not text; give it as --set train.steps=5",
        ),
        (["evaluate", "runs/x", "--split", "half"], "'--split': 'half' is not one of 'train', 'dev', 'test'"),
    ],
)
def test_wrong_input_is_a_one_line_error_with_exit_code_2(electra, arguments, message):
    assert_refused(electra(*arguments), message)


@pytest.mark.parametrize("arguments", [["vocab", "--bla"], ["flops", "small", "--tabel"]])
def test_a_command_without_settings_and_a_typo_get_no_hint_at_settings(electra, arguments):
    result = electra(*arguments)
    assert_refused(result, "No such option: --")
    assert "KEY=VALUE" not in result.stderr


def test_wrong_input_fails_the_same_way_in_a_new_process():
    assert_refused(process("config", "smal"), "did you mean small?")


def test_debug_shows_the_traceback():
    result = process("--debug", "config", "smal")
    assert result.returncode == 2
    assert "Traceback" in result.stderr


def test_config_prints_toml_that_loads_back(electra, tmp_path):
    from electra.config.load import load_config

    (tmp_path / "mine.toml").write_text(electra("config", "small", "train.steps=5").stdout)
    assert load_config(tmp_path / "mine.toml") == load_config("small", ["train.steps=5"])


def test_a_dry_run_of_pretrain_prints_the_config_and_writes_nothing(electra, tmp_path):
    result = electra("pretrain", "small", f"out={tmp_path / 'run'}", "--dry-run")
    assert result.stdout.startswith(f'out = "{tmp_path}/run"\n')
    assert list(tmp_path.iterdir()) == []
    assert electra("pretrain", "small", "data=nowhere", "--dry-run").returncode == 2


@pytest.mark.parametrize(("command", "preset"), [("pretrain", "tiny"), ("finetune", "glue")])
def test_the_config_of_a_copied_run_needs_an_explicit_out(electra, tmp_path, command, preset):
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "inputs.json").write_text("{}")
    (copy / "config.toml").write_text(f"preset = '{preset}'\nout = '{tmp_path}/first'\n")
    for name in (copy, copy / "config.toml"):
        found = electra(command, name)
        told = f"electra: {name} was moved: its config says out={tmp_path}/first; add out={copy} to resume here\n"
        assert (found.returncode, found.stderr) == (2, told)
        assert "was moved" not in electra(command, name, f"out={tmp_path}/first").stderr


def test_a_run_that_is_continued_from_inside_of_it_says_where_to_be(electra, tmp_path, monkeypatch):
    (tmp_path / "inputs.json").write_text("{}")
    (tmp_path / "config.toml").write_text("preset = 'tiny'\nout = 'runs/a'\n")
    monkeypatch.chdir(tmp_path)
    found = electra("pretrain", ".")
    advice = "run this where that is, or if it was moved, add out=. to resume here"
    assert (found.returncode, found.stderr) == (2, f"electra: . is not runs/a, as its config says; {advice}\n")


def test_config_as_json(electra):
    config = json.loads(electra("config", "base", "--json").stdout)
    assert config["model"]["hidden_size"] == 768
    difference = json.loads(electra("config", "base", "--diff", "small", "--json").stdout)
    assert difference["train.batch_size"] == [256, 128]
    explained = json.loads(electra("config", "base", "seed=3", "--explain", "--json").stdout)
    assert explained["seed"] == {"value": 3, "origin": "command line", "help": explained["seed"]["help"]}


def test_config_explains_keys(electra):
    lines = electra("config", "small", "train.steps=5", "--explain").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("train.steps")]
    assert "command line" in line
    assert "updates of the weights" in line


def test_explanations_begin_in_one_column_whatever_the_origins(electra):
    lines = electra("config", "quick", "--explain").stdout.splitlines()
    ends = {re.match(r".{52} # (?:default|preset [\w-]+) +", line).end() for line in lines}
    assert len(ends) == 1


def test_configs_and_runs_in_object_storage_are_read(electra, tmp_path, monkeypatch):
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path))
    config = electra("config", "tiny", "train.steps=7").stdout
    fsspec.filesystem("memory").pipe_file("b/run/config.toml", config.encode())
    for address in ("memory://b/run", "memory://b/run/", "memory://b/run/config.toml"):
        assert electra("config", address, "--diff", "tiny").stdout.startswith("train.steps = 7")
        assert electra("config", "tiny", "--diff", address).stdout.endswith("7\n")
        assert electra("flops", address).stdout == electra("flops", "tiny", "train.steps=7").stdout
        assert_refused(electra("pretrain", address, f"data={tmp_path}", f"out={tmp_path}/run"), "is not a corpus")
    assert_refused(electra("flops", "memory://b/none"), "memory://b/none holds no files")


def test_flops_as_json(electra):
    cost = json.loads(electra("flops", "small", "--json").stdout)
    assert cost["parameters"]["joint"] == 14_196_219
    assert cost["train_flops"] == pytest.approx(1.1505550491648e18)


def test_flops_table_names_totals_and_defects(electra):
    table = json.loads(electra("flops", "--table", "--json").stdout)
    assert len(table) == 13
    text = electra("flops", "--table").stdout
    assert "electra_small  1.293744e+18" in text
    assert text.count("\n- ") == 4


def test_detect_reads_an_argument_or_standard_input(electra, tiny_folder):
    argument = electra("detect", str(tiny_folder), "the chef ate", "--json")
    stream = electra("detect", str(tiny_folder), "--json", stdin="the chef ate")
    assert argument.stdout == stream.stdout
    found = json.loads(argument.stdout)
    assert found["text"] == "the chef ate"
    assert [token["token"] for token in found["tokens"]] == ["the", "chef", "ate"]
    assert found["tokens"][1].keys() == {"token", "probability", "start", "end"}


def test_the_json_of_detect_keeps_text_readable(electra, tiny_folder):
    assert electra("detect", str(tiny_folder), "the café ate", "--json").stdout.startswith('{"text": "the café ate"')


def test_detect_prints_one_line_per_token_outside_a_terminal(electra, tiny_folder):
    lines = electra("detect", str(tiny_folder), "the chef").stdout.splitlines()
    assert [line.split("\t")[1:] for line in lines] == [["0-3", "the"], ["4-8", "chef"]]


@pytest.mark.parametrize("text", ["~20 people came to dinner.", "a long text " * 30])
def test_an_argument_that_cannot_be_a_path_is_text(text):
    assert _is_text(text)


def test_detect_of_empty_input_has_no_tokens(electra, tiny_folder):
    result = electra("detect", str(tiny_folder), "--json", stdin="")
    assert json.loads(result.stdout) == {"text": "", "tokens": []}


def test_detect_treats_a_single_argument_with_a_space_as_text():
    result = CliRunner().invoke(app, ["detect", "the door was open"])
    assert result.exit_code == 0, result.output
    assert [line.split("\t")[2] for line in result.stdout.splitlines()] == ["the", "door", "was", "open"]


@pytest.mark.parametrize("terminal", [True, False])
def test_detect_treats_a_single_word_as_text_only_at_a_terminal(monkeypatch, terminal):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: terminal))
    assert _is_text("door") is terminal
    assert not _is_text("google/electra-small-discriminator")


def test_detect_without_arguments_reads_standard_input_with_the_embedded_model():
    result = CliRunner().invoke(app, ["detect", "--json"], input="door")
    assert [token["token"] for token in json.loads(result.stdout)["tokens"]] == ["door"]


def test_detect_treats_a_dash_as_standard_input(electra, tiny_folder):
    embedded = electra("detect", "-", "--json", stdin="the door was open")
    assert json.loads(embedded.stdout)["text"] == "the door was open"
    assert electra("detect", str(tiny_folder), "-", stdin="the chef").stdout.count("\n") == 2


def test_detect_treats_an_existing_folder_with_a_space_as_a_model(electra, tiny_folder, tmp_path):
    folder = tmp_path / "my model"
    folder.symlink_to(tiny_folder)
    assert electra("detect", str(folder), stdin="the chef").stdout.count("\n") == 2


def test_detect_treats_an_argument_without_a_space_as_a_model(electra):
    assert_refused(electra("detect", "./nowhere", stdin="the chef"), "no file or folder ./nowhere")


def test_detect_names_the_byte_that_is_not_utf8(electra, tiny_folder):
    assert_refused(electra("detect", str(tiny_folder), stdin=b"caf\xe9"), "not valid UTF-8 at byte 3")


def test_detect_does_not_read_a_device_to_its_end(tiny_folder):
    with Path("/dev/zero").open("rb") as device:
        command = [sys.executable, "-m", "electra", "detect", str(tiny_folder)]
        result = subprocess.run(command, stdin=device, capture_output=True, text=True, timeout=60)
    assert_refused(result, "standard input: a binary file, not text")


def test_a_corrupted_model_is_a_one_line_error(electra, tiny_folder, tmp_path):
    import shutil

    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert_refused(electra("detect", str(copy), "the"), "has changed since it was written")


@pytest.mark.filterwarnings("default::electra.errors.ForeignText")
def test_a_warning_is_one_line(electra):
    result = electra("detect", "embedded", "나는 학교에 갔다")
    assert (
        result.stderr
        == "warning: 100% of the tokens are unknown to the model's vocabulary; use a model of this language\n"
    )
    assert result.returncode == 0


def test_export_and_import_print_what_they_wrote(electra, tiny_folder, tmp_path):
    result = electra("export", str(tiny_folder), "--out", str(tmp_path / "hf"))
    assert result.stdout == f"{tmp_path / 'hf'}: exported, reads back with equal logits\n"
    result = electra("import", str(tmp_path / "hf"), "--out", str(tmp_path / "run"))
    assert "discriminator and generator" in result.stdout
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.toml", "model"]
