import pytest
import torch
from electra.model.two_tower import TwoTowerGenerator


@pytest.mark.parametrize("position", [0, 4, 8])  # a row that is cut to a start length ends in any token
def test_no_token_is_predicted_from_itself_and_each_from_all_others(tiny_config, position):
    torch.manual_seed(0)
    generator = TwoTowerGenerator(tiny_config.model).eval()
    ids = torch.randint(5, 40, (1, 9))
    everywhere = torch.arange(9).expand(1, -1)
    before = generator(ids, None, None, everywhere)
    changed = ids.clone()
    changed[0, position] += 1
    moved = (generator(changed, None, None, everywhere) - before).abs().amax(-1)[0] > 1e-6
    assert moved.tolist() == [place != position for place in range(9)]
