import pytest
import torch

from electra.config.bodies import ModernModel
from electra.model.bodies import build_body
from electra.model.packing import pack

CONFIG = ModernModel(hidden_size=32, layers=3, heads=2, feed_forward_size=48, vocab_size=50, window=16)
LENGTHS = torch.tensor([5, 9, 0, 2])


@pytest.fixture
def ids():
    ids = torch.randint(1, 50, (len(LENGTHS), 9), generator=torch.Generator().manual_seed(0))
    return ids.where(torch.arange(9) < LENGTHS[:, None], 0)


@pytest.mark.parametrize("row", [16, 24])
def test_a_row_has_the_tokens_of_all_texts_and_only_these(ids, row):
    seen = []

    def compute(row_ids, texts):
        seen.extend([row_ids, texts])
        return row_ids.float()

    computed = pack(LENGTHS, 9, 16, row).run(compute, ids)
    assert torch.equal(computed, ids.float())
    assert seen[0][0, :16].tolist() == ids[ids != 0].tolist()
    assert seen[1].tolist() == [[1] * 5 + [2] * 9 + [4] * 2 + [0] * (row - 16)]


def test_packed_texts_have_the_states_and_gradients_of_padded_ones(ids):
    torch.manual_seed(0)
    body = build_body(CONFIG)
    attention = (ids != 0).long()
    weight = torch.randn(*ids.shape, 32) * attention[..., None]
    padded, packed = body(ids, attention), pack(LENGTHS, 9, 16, 24).run(body, ids)
    assert not packed[attention == 0].any()
    torch.testing.assert_close(packed * attention[..., None], padded * attention[..., None])
    ours, theirs = (
        torch.autograd.grad((states * weight).sum(), list(body.parameters())) for states in (packed, padded)
    )
    torch.testing.assert_close(ours, theirs)


def test_without_kernels_nothing_is_packed():
    assert not build_body(CONFIG).packs(torch.float32, torch.device("cpu"))
