import pytest
from torch import distributed

from electra.training import pulse
from electra.training.pulse import Pulse


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(pulse, "BEAT", 0.02)


def test_a_process_that_no_longer_counts_is_lost():
    store = distributed.HashStore()
    pulses = [Pulse(store, rank, 3) for rank in range(3)]
    assert pulses[0].lost() == []
    pulses[1].stop()
    assert pulses[0].lost() == [1]
    for other in pulses:
        other.stop()


def test_without_a_store_the_first_process_is_lost():
    class Gone:
        def add(self, key, amount):
            raise RuntimeError("connection refused")

    assert Pulse(Gone(), 1, 2).lost() == [0]
