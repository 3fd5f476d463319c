"""Where a run may be put."""

import pytest

from electra.errors import CheckpointError
from electra.training.run import PREPARED, check_place


def test_a_new_or_empty_folder_may_become_a_run(tmp_path):
    check_place(tmp_path)
    check_place(tmp_path / "new")


def test_what_earlier_stages_prepare_is_no_obstacle(tmp_path):
    for name in [*PREPARED, ".tokenizer.partial"]:
        (tmp_path / name).mkdir()
    check_place(tmp_path)


def test_a_folder_with_anything_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match=r"holds thesis\.tex"):
        check_place(tmp_path)
