import json
import pickle
import resource

import pytest
import torch

from electra.errors import CheckpointError
from electra.model.tensors import read_tensors, write_tensors


def test_tensors_survive_a_round_trip(tmp_path):
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5)}
    write_tensors(tensors, tmp_path / "model.safetensors")
    for name, tensor in read_tensors(tmp_path).items():
        assert torch.equal(tensor, tensors[name])


@pytest.mark.parametrize("kept", [0, 5, 60, 100])
def test_a_truncated_file_is_refused(kept, tmp_path):
    path = tmp_path / "model.safetensors"
    write_tensors({"a": torch.randn(30, 40)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="corrupted or truncated"):
        read_tensors(tmp_path)


def test_a_corrupted_header_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    write_tensors({"a": torch.randn(3)}, path)
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])
    with pytest.raises(CheckpointError, match="corrupted or truncated"):
        read_tensors(tmp_path)


def test_weights_have_the_default_file_mode(tmp_path):
    (tmp_path / "other").touch()
    write_tensors({"a": torch.randn(3)}, tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_full_disk_is_a_one_line_error(tmp_path):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most[1]))
    try:
        with pytest.raises(CheckpointError, match=r"cannot write .*; free disk space and run the command again"):
            write_tensors({"a": torch.randn(1000)}, tmp_path / "model.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)


class Malicious:
    def __init__(self, witness):
        self.witness = witness

    def __reduce__(self):
        return open, (str(self.witness), "w")


def test_a_malicious_pickle_is_refused_and_never_run(tmp_path):
    witness = tmp_path / "witness"
    torch.save({"weight": Malicious(witness)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="could run code"):
        read_tensors(tmp_path)
    assert not witness.exists()


def test_a_bare_pickle_is_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Malicious(tmp_path / "witness"), protocol=2))
    with pytest.raises(CheckpointError):
        read_tensors(tmp_path)
    assert not (tmp_path / "witness").exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1, "b": "c"}}'])
def test_a_broken_index_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match="is not an index of tensors: "):
        read_tensors(tmp_path)


def test_a_truncated_pickle_is_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.randn(30, 40)}, path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(CheckpointError, match="corrupted or truncated"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", b"<html>"])
def test_a_file_that_is_not_from_pytorch_is_refused(tmp_path, content):
    (tmp_path / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match="is broken or a Git LFS pointer, not a PyTorch file"):
        read_tensors(tmp_path)


def test_a_pickle_of_something_else_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="does not contain a dictionary of tensors"):
        read_tensors(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no weights in"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("place", ["../outside.safetensors", "/outside.safetensors", "inner/model.safetensors"])
def test_an_index_that_points_outside_its_folder_is_refused(place, tmp_path):
    index = {"weight_map": {"a": place}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=rf"names {place}, which is not in this folder"):
        read_tensors(tmp_path)
