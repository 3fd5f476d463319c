"""Speed is measured on steps that really train."""

import pytest
import torch

from electra.recipes import speed
from electra.recipes.speed import CPU_MICRO_BATCH, measure_speed


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch):
    monkeypatch.setattr(speed, "SECONDS", 0.3)


def test_a_smaller_model_is_faster(tiny_config):
    deeper = tiny_config.model_copy(update={"model": tiny_config.model.model_copy(update={"layers": 12})})
    device = torch.device("cpu")
    assert measure_speed(tiny_config, device).tokens_per_second > measure_speed(deeper, device).tokens_per_second


def test_whole_words_are_timed_too(tiny_config):
    objective = tiny_config.objective.model_copy(update={"whole_words": True})
    found = measure_speed(tiny_config.model_copy(update={"objective": objective}), torch.device("cpu"))
    assert found.tokens_per_second > 0


def test_a_cpu_takes_a_few_sequences_at_a_time(tiny_config):
    assert measure_speed(tiny_config, torch.device("cpu")).micro_batch_size == CPU_MICRO_BATCH
