import torch

from electra.model.two_tower import TwoTowerGenerator


def test_no_token_is_predicted_from_itself_and_each_from_all_others(tiny_config):
    torch.manual_seed(0)
    generator = TwoTowerGenerator(tiny_config.model).eval()
    ids = torch.randint(5, 40, (1, 9))
    everywhere = torch.arange(9).expand(1, -1)
    before = generator(ids, None, None, everywhere)
    changed = ids.clone()
    changed[0, 4] += 1
    moved = (generator(changed, None, None, everywhere) - before).abs().amax(-1)[0] > 1e-6
    # Position 0 reads the left tower's last state and the last one the right tower's first: they are special tokens.
    assert moved.tolist() == [True, True, True, True, False, True, True, True, True]
