"""The original's published totals, exactly."""

import pytest

from electra.recipes.paper_flops import PaperCount, published_totals

PUBLISHED = {
    "elmo": 3.4114394716164127e18,
    "gpt": 3.968752230785352e19,
    "bert_small": 1.4187399146496e18,
    "bert_base": 6.428335104e19,
    "bert_large": 1.91720905883648e20,
    "xlnet": 3.856582065028608e21,
    "electra_small": 1.293743798272e18,
    "electra_base": 6.424541834277683e19,
    "electra_400k": 7.117606040895488e20,
    "electra_1.75M": 3.113952642891776e21,
    "roberta": 3.187221435776e21,
    "albert": 3.113923955392512e22,
    "t5_11b": 4.581900124212429e22,
}
SMALL = {"hidden": 256, "layers": 12, "embedding": 128}


def test_the_published_totals_follow_exactly():
    assert published_totals() == PUBLISHED


@pytest.mark.parametrize(
    ("count", "parts"),
    [
        (PaperCount(768, 12), (8_106_543_616, 24_412_028_928, 3_862_867_680, 608_305_152)),
        (PaperCount(**SMALL, length=128), (220_594_816, 1_013_006_336, 161_892_280, 17_137_664)),
    ],
)
def test_the_parts_follow_exactly(count, parts):
    assert (count.block, count.lookup, count.token_head, count.binary_head) == parts


@pytest.mark.parametrize(
    ("count", "inference"),
    [
        (PaperCount(**SMALL, length=128), 3_677_281_792),
        (PaperCount(**SMALL, length=512), 17_269_749_760),
        (PaperCount(768, 12), 122_298_857_472),
        (PaperCount(1024, 24), 370_347_667_456),
    ],
)
def test_inference_follows_exactly(count, inference):
    assert count.encoder + count.binary_head == inference
