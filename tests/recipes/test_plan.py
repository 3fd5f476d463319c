"""Tests of how much text there is and which size is chosen; those of a complete plan are in `test_train.py`."""

import pytest

from electra.config.load import load_config
from electra.errors import DataError
from electra.recipes import plan as planning
from electra.recipes.flops import body_size
from electra.recipes.plan import (
    MODERN,
    SIZES,
    choose,
    fitting_sizes,
    measure_text,
    vocabulary,
    with_enough_text,
    written_time,
)


def test_the_largest_model_with_enough_tokens_is_chosen():
    parameters = {"tiny": 1_000_000, "small": 14_000_000, "base": 120_000_000}
    assert choose({"tiny": 9e9, "small": 3e9, "base": 9e8}, parameters) == "small"
    assert choose({"tiny": 9e9, "small": 3e9, "base": 3e9}, parameters) == "base"


def test_a_model_has_at_most_two_parameters_per_token_of_text():
    sizes = {"tiny": 1_000_000, "small": 14_000_000, "base": 120_000_000}
    assert with_enough_text(sizes, 7e6) == ["tiny", "small"]
    assert with_enough_text(sizes, 6.9e6) == ["tiny"]
    assert with_enough_text(sizes, 10) == ["tiny"]  # the smallest, if none has enough


def test_without_enough_tokens_for_any_model_the_smallest_is_chosen():
    assert choose({"tiny": 1e3, "small": 1e2}, {"tiny": 1_000_000, "small": 14_000_000}) == "tiny"


@pytest.mark.parametrize(
    ("hours", "written"),
    [
        (1, "1 hour"),
        (0.25, "0.25 hours"),
        (0.05, "3 minutes"),
        (1 / 60, "1 minute"),
        (1 / 3600, "1 second"),
        (0, "0 seconds"),
    ],
)
def test_time_is_written_in_a_suitable_unit(hours, written):
    assert written_time(hours) == written


def test_text_is_measured_in_bytes_of_utf8(tmp_path):
    (tmp_path / "a.txt").write_text("äöü\n" * 10)
    assert measure_text([str(tmp_path)])[:2] == (70, True)


def test_long_text_is_estimated_from_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "SAMPLE_BYTES", 1 << 23)
    (tmp_path / "a.txt").write_text(("word " * 60 + "\n\n") * 100_000)
    size = (tmp_path / "a.txt").stat().st_size
    assert measure_text([str(tmp_path)])[:2] == (pytest.approx(size, rel=0.3), True)


def test_a_long_parquet_file_is_estimated_from_its_first_rows(tmp_path, monkeypatch):
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr(planning, "SAMPLE_BYTES", 1 << 16)
    rows = [f"{number:04} " * 200 for number in range(2000)]
    parquet.write_table(pyarrow.table({"text": rows}), tmp_path / "a.parquet")
    assert measure_text([str(tmp_path)])[:2] == (pytest.approx(sum(len(row) for row in rows), rel=0.3), True)


def test_a_vocabulary_has_room_for_every_common_character_twice(tmp_path):
    signs = "".join(chr(0x4E00 + number) for number in range(3000))
    (tmp_path / "signs.txt").write_text("\n\n".join([signs] * 20 + ["Ω"]))  # Ω is rare
    size, _, characters = measure_text([str(tmp_path)])
    assert characters == pytest.approx(3000, abs=4)
    assert vocabulary(size, characters) == pytest.approx(6000, abs=64)
    assert vocabulary(size, 60) == 1024
    assert vocabulary(100_000_000, 3000) == 30_522


def test_standard_input_is_refused():
    with pytest.raises(DataError, match="more than once"):
        measure_text(["-"])


@pytest.mark.parametrize("kind", SIZES)
def test_the_sizes_grow_and_the_largest_are_modern(kind):
    """The plan times them in this order until one needs more than there is."""
    configs = [load_config(name) for name in SIZES[kind]]
    counts = [body_size(config.model) for config in configs]
    assert counts == sorted(counts)
    assert configs[-1].model.body == "modern"


def test_embeddings_do_not_make_a_model_larger():
    few, many = (load_config("nano", [f"model.vocab_size={size}"]).model for size in (1000, 30_000))
    assert body_size(few) == body_size(many) < body_size(load_config("tiny").model)


def test_on_a_gpu_the_objective_is_that_of_the_record_unless_the_user_sets_another():
    sizes = {name: name for name in SIZES["cuda"]}
    named = [config.objective.name for config in fitting_sizes(sizes, [], []).values()]
    assert named == ["electra", "electra", *[load_config("quick").objective.name] * len(MODERN)]
    assert {config.objective.name for config in fitting_sizes(sizes, [], ["objective.name=mlm"]).values()} == {"mlm"}


def test_the_learning_rates_of_the_modern_sizes_fall_with_the_width():
    configs = sorted(map(load_config, ("quick", *MODERN)), key=lambda config: config.model.hidden_size)
    rates = [config.train.learning_rate for config in configs]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("asked", "longest"), [([], 8192), (["train.length=256"], 8192), (["model.max_length=512"], 512)]
)
def test_inputs_may_be_longer_than_the_sequences_if_the_body_allows_it(asked, longest):
    sizes = fitting_sizes({name: name for name in MODERN}, [], asked)
    assert {config.model.max_length for config in sizes.values()} == {longest}
