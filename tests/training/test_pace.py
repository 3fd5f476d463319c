import time

import torch

from electra.training.pace import OFTEN, Pace, Stragglers
from electra.training.processes import Processes


def test_the_pace_ends_at_the_first_exchange():
    pace = Pace(Processes(0, 1, torch.device("cpu")))
    pace.begin()
    time.sleep(0.02)
    pace.arrive()
    time.sleep(0.1)
    assert 0.02 <= pace.seconds() < 0.1


def test_the_slowest_process_is_named_with_its_lag():
    assert Stragglers("abcd").measure([1.0, 1.0, 1.5, 1.0]) == {"slowest_rank": 2, "slowest_lag": 0.5}


def test_a_process_that_is_slow_once_is_no_straggler_and_one_that_stays_slow_is_named_once():
    watched = Stragglers(["one", "one", "one", "two", "two"])
    found = [watched.warnings([1.0, 3.0 if step == 0 else 1.0, 1.0, 1.0, 1.5]) for step in range(2 * OFTEN)]
    (warning,) = [text for texts in found for text in texts]
    assert warning == (
        "a process is slow: rank 4 on two computes 50% longer than the median, and all others wait for it"
    )
    assert found[OFTEN - 1] == [warning]
