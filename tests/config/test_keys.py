import pytest

from electra.config.finetune import FinetuneConfig
from electra.config.keys import dotted, known_keys, tags_of, unions, variants
from electra.config.schema import PretrainConfig


@pytest.mark.parametrize("schema", [PretrainConfig, FinetuneConfig])
def test_no_key_has_the_name_of_a_tag(schema):
    """Messages drop the tags from the place of an error."""
    tags = {tag for _, union in unions(schema) for section in variants(union) for tag in tags_of(section, union)}
    assert not tags & {part for key in known_keys(schema) for part in key.split(".")}


def test_the_place_of_an_error_has_no_tags():
    place = ("objective", "electra", "generator", "masked_lm", "width")
    assert dotted(PretrainConfig, place) == "objective.generator.width"
    assert dotted(PretrainConfig, ("data_weights", 1)) == "data_weights.1"
