import shutil

import pytest

import electra
from electra.data.checksums import CHECKSUMS, check, is_intact, write_checksums
from electra.data.tokens.tokenizer import load_tokenizer
from electra.data.tokens.vocab import train_vocab
from electra.errors import CheckpointError
from electra.model.pretrained import GENERATOR, find_folder, load


def flip(path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name",
    [
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"),
        *("generator/config.json", "generator/model.safetensors"),
    ],
)
def test_a_flipped_bit_in_a_model_folder_is_named(name, tiny_folder, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    flip(copy / name)
    sums = (copy / name).with_name("checksums.json")
    with pytest.raises(CheckpointError) as error:
        load(copy)
    said = "has changed since it was written; restore it, or delete"
    assert str(error.value) == f"{copy / name} {said} {sums} if the change was intended"


def test_a_missing_file_is_named(tiny_folder, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    (copy / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json is missing; restore it"):
        load(copy)


def test_a_folder_without_checksums_and_files_of_the_user_are_accepted(tiny_folder, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    (copy / "README.md").write_text("mine")
    (copy / "notes.json").write_text("{}")
    load(copy)
    (copy / "checksums.json").unlink()
    (copy / "config.json").write_text((copy / "config.json").read_text() + "\n")
    load(copy)


@pytest.mark.parametrize("write", [electra.export, electra.import_model])
def test_exported_and_imported_models_have_checksums(write, tiny_folder, tmp_path):
    write(tiny_folder, tmp_path / "out")
    for weights in (tmp_path / "out").rglob("model.safetensors"):
        assert is_intact(weights.parent)
        flip(weights)
        assert not is_intact(weights.parent)


def test_a_vocabulary_has_checksums(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 20)
    train_vocab(tmp_path / "text.txt", size=60, out=tmp_path / "vocab")
    flip(tmp_path / "vocab" / "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json has changed"):
        load_tokenizer(tmp_path / "vocab")


def test_the_shipped_model_has_checksums():
    embedded = find_folder("embedded")
    for folder in (embedded, embedded / GENERATOR):
        assert (folder / "checksums.json").is_file()
        check(folder)


def test_only_the_matching_files_are_checked(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    write_checksums(tmp_path)
    flip(tmp_path / "a.txt")
    check(tmp_path, ["b.*"])
    with pytest.raises(CheckpointError, match=r"a\.txt has changed"):
        check(tmp_path, ["a.*"])


def test_a_folder_that_does_not_exist_or_has_no_checksums_is_not_intact(tmp_path):
    assert not is_intact(tmp_path / "nothing")
    (tmp_path / "a.txt").write_text("a")
    assert not is_intact(tmp_path)
    write_checksums(tmp_path)
    assert is_intact(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{"])
def test_a_folder_is_not_intact_if_one_inside_it_is_not(tmp_path, damage):
    for folder in (tmp_path, tmp_path / "1_Pooling"):
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("{}")
        write_checksums(folder)
    for name in (".git", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").touch()
    assert is_intact(tmp_path)
    (tmp_path / "1_Pooling" / CHECKSUMS).write_bytes(damage)
    assert not is_intact(tmp_path)
