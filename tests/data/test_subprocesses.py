import os
import subprocess

import pytest

from electra.data.subprocesses import start_module


@pytest.mark.parametrize(("set_by_user", "tokenizing"), [({}, "4"), ({"RAYON_NUM_THREADS": "5"}, "5")])
def test_a_module_has_its_number_of_threads_in_all_libraries(set_by_user, tokenizing, monkeypatch):
    monkeypatch.setattr(os, "environ", set_by_user)
    monkeypatch.setattr(subprocess, "Popen", lambda command, env: env)
    environment = start_module("electra.recipes.worker", threads=3, tokenizing=4)
    assert (environment["OMP_NUM_THREADS"], environment["RAYON_NUM_THREADS"]) == ("3", tokenizing)
