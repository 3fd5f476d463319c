import os
from itertools import count

import pytest
import torch
from torch import nn

from electra.config.load import load_config
from electra.errors import CheckpointError
from electra.training.checkpoint import Checkpoints, NoCheckpoints, SharedCheckpoints
from electra.training.optim import build_optimizer
from electra.training.run import Run, begun


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=2)


def trained(seed: int, optimizer: str = "electra", width: int = 3):
    """A module with a shared weight, and an optimizer that has taken a step."""
    torch.manual_seed(seed)
    module = nn.ModuleList([nn.Linear(width, width), nn.LayerNorm(width)])
    module.append(module[0])
    module.register_buffer("counts", torch.rand(2))
    chosen = build_optimizer(module, load_config("small", [f"train.optimizer={optimizer}"]).train)
    chosen.weights.take_gradient(module[1](module[0](torch.randn(4, width))).square().sum(), first=True)
    chosen.rate.fill_(1e-3)
    chosen.step()
    return module, chosen


def save(checkpoints, step, best=False, seed=1):
    checkpoints.save(*trained(seed), {"step": step}, best)
    checkpoints.wait()


def names(checkpoints):
    return [path.name for path in checkpoints.steps()]


@pytest.mark.parametrize("optimizer", ["electra", "adamw"])
def test_a_checkpoint_restores_everything(checkpoints, optimizer):
    module, ours = trained(1, optimizer)
    checkpoints.save(module, ours, {"step": 7, "best": None}, best=False)
    checkpoints.wait()
    other, theirs = trained(2, optimizer)
    restored = checkpoints.restore(other, theirs)
    assert restored.state == {"step": 7, "best": None}
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in module.state_dict().items())
    assert all(torch.equal(tensor, theirs.tensors()[name]) for name, tensor in ours.tensors().items())


def test_without_checkpoints_there_is_nothing_to_restore(checkpoints):
    assert checkpoints.restore(*trained(1)) is None


def test_step_zero_does_not_count_as_a_saved_update(checkpoints):
    assert not checkpoints.hold_updates()
    save(checkpoints, 0)
    assert not checkpoints.hold_updates()
    assert checkpoints.restore(*trained(1, width=5)) is None
    save(checkpoints, 1)
    assert checkpoints.hold_updates()


def test_no_checkpoints_ignores_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "step-00000001").mkdir()
    monkeypatch.chdir(tmp_path)
    assert NoCheckpoints().steps() == []


def test_the_newest_checkpoints_and_the_best_are_kept(checkpoints):
    for step in (1, 2, 3, 4, 5):
        save(checkpoints, step, best=step == 2)
    assert names(checkpoints) == ["step-00000002", "step-00000004", "step-00000005"]
    assert (checkpoints.folder / "best").read_text() == "step-00000002"
    save(checkpoints, 6, best=True)
    assert names(checkpoints) == ["step-00000005", "step-00000006"]


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "pipe"])
def test_a_damaged_checkpoint_is_skipped(checkpoints, file, damage):
    save(checkpoints, 1)
    save(checkpoints, 2)
    path = checkpoints.steps()[-1] / file
    content = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage != "missing":
        path.write_bytes(content[:-5] if damage == "cut" else content[:-5] + b"other")
    restored = checkpoints.restore(*trained(2))
    assert restored.state["step"] == 1
    assert restored.damaged == [path.parent]


def test_a_changed_number_in_the_state_is_damage(checkpoints):
    save(checkpoints, 1)
    checkpoints.save(*trained(1), {"step": 2, "tokens": 0}, best=False)
    checkpoints.wait()
    path = checkpoints.steps()[-1] / "state.json"
    path.write_text(path.read_text().replace('"tokens": 0', '"tokens": 8'))
    assert checkpoints.restore(*trained(2)).state["step"] == 1


@pytest.mark.parametrize("state", ["null", "[]", '{"sha256": 1}', '{"sha256": {}, "step": "two"}'])
def test_a_checkpoint_with_an_invalid_state_is_damaged(checkpoints, state):
    save(checkpoints, 1)
    save(checkpoints, 2)
    (checkpoints.steps()[-1] / "state.json").write_text(state)
    (checkpoints.folder / "best").write_bytes(b"\xff\xfe")
    assert checkpoints.restore(*trained(2)).state["step"] == 1
    save(checkpoints, 2)
    assert checkpoints.restore(*trained(2)).state["step"] == 2


def test_a_run_that_resumed_before_damaged_checkpoints_can_save_again(checkpoints):
    for step in (1, 5, 6):
        save(checkpoints, step, best=step == 1)
    for path in checkpoints.steps()[1:]:
        (path / "state.json").write_text("")
    assert checkpoints.restore(*trained(2)).state["step"] == 1
    save(checkpoints, 3)
    assert checkpoints.restore(*trained(2)).state["step"] == 3


def test_if_all_checkpoints_are_damaged_it_is_an_error_and_not_a_fresh_start(checkpoints):
    save(checkpoints, 1)
    (checkpoints.steps()[0] / "state.json").write_text("")
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged"):
        checkpoints.restore(*trained(1))


def test_partial_checkpoints_of_a_killed_process_are_ignored_and_removed(checkpoints):
    save(checkpoints, 1)
    for partial in (".step-00000002.partial", ".step-00000000.partial"):
        (checkpoints.folder / partial).mkdir()
        (checkpoints.folder / partial / "weights.safetensors").write_bytes(b"half")
    assert checkpoints.restore(*trained(2)).state["step"] == 1
    save(checkpoints, 2)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-00000001", "step-00000002"]


def test_a_kill_while_a_step_is_saved_again_never_costs_its_checkpoint(tmp_path, monkeypatch):
    class Kill(BaseException):
        pass

    def save_again(run, operations):
        """Save step 20 twice, but only so many operations of the second time; return whether that was all."""

        def counted(operation):
            def checked(*given, **options):
                nonlocal operations
                operations -= 1
                if operations < 0:
                    raise Kill
                return operation(*given, **options)

            return checked

        checkpoints = Checkpoints(run.folder / "checkpoints", keep=1)
        save(checkpoints, 20)
        with monkeypatch.context() as patched:
            for name in ("rename", "replace", "unlink", "rmdir"):
                patched.setattr(os, name, counted(getattr(os, name)))
            try:
                save(checkpoints, 20, best=True)
            except Kill:
                return False
        return True

    for operations in count():
        run = Run(tmp_path / str(operations))
        with run.open(load_config("tiny"), load_config):
            whole = save_again(run, operations)
        assert begun(run.folder)
        with run.open(load_config("tiny"), load_config):
            checkpoints = Checkpoints(run.folder / "checkpoints", keep=1)
            assert checkpoints.restore(*trained(2)).state["step"] == 20
            save(checkpoints, 40, best=True)
            assert [path.name for path in checkpoints.folder.glob("*step*")] == ["step-00000040"]
        if whole:
            break
    assert operations > 7  # two renames, and the removal of a folder with three files


def test_a_checkpoint_of_another_shape_is_refused(checkpoints):
    save(checkpoints, 1)
    with pytest.raises(
        CheckpointError, match=r"another model: 0\.weight has shape \(3, 3\), but the model has \(5, 5\)$"
    ):
        checkpoints.restore(*trained(1, width=5))


def test_a_checkpoint_of_another_network_is_refused(checkpoints):
    save(checkpoints, 1)
    module, optimizer = trained(1)
    module.append(nn.Linear(2, 2))
    with pytest.raises(CheckpointError, match=r"another model: 3\.bias is only in the model, not in the checkpoint$"):
        checkpoints.restore(module, optimizer)


@pytest.fixture
def shared(checkpoints, group_of_one):
    """Of a group of processes, in the same folder."""
    return SharedCheckpoints(checkpoints.folder, 2, group_of_one)


def test_a_shared_checkpoint_is_restored_by_a_single_process_and_the_other_way_round(checkpoints, shared):
    for writer, reader, step in ((shared, checkpoints, 1), (checkpoints, shared, 2)):
        module, ours = trained(step)
        writer.save(module, ours, {"step": step}, best=False)
        writer.wait()
        other, theirs = trained(3)
        assert reader.restore(other, theirs).state == {"step": step}
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in module.state_dict().items())
        assert all(torch.equal(tensor, theirs.tensors()[name]) for name, tensor in ours.tensors().items())


@pytest.mark.parametrize("kind", ["checkpoints", "shared"])
def test_a_checkpoint_holds_what_was_there_when_it_was_saved(checkpoints, request, kind):
    module, optimizer = trained(1)
    before, writer = module[0].weight.detach().clone(), request.getfixturevalue(kind)
    writer.save(module, optimizer, {"step": 1}, best=True)
    module[0].weight.data.zero_()
    writer.wait()
    checkpoints.restore(module, optimizer)
    assert torch.equal(module[0].weight, before)
    assert (checkpoints.folder / "best").read_text() == "step-00000001"


def test_a_damaged_shared_checkpoint_is_skipped(shared):
    for step in (1, 2):
        save(shared, step)
    next(shared.steps()[-1].glob("*.safetensors")).write_bytes(b"other")
    assert shared.restore(*trained(2)).state["step"] == 1


def test_an_error_in_the_background_is_raised_by_the_next_call(shared, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter.write_data", full)
    shared.save(*trained(1), {"step": 1}, best=False)
    with pytest.raises(CheckpointError, match=r"^cannot write .*: rank 0 on .*No space left on device"):
        shared.save(*trained(1), {"step": 2}, best=False)
    assert shared.steps() == []
