"""Token embeddings that start from the text."""

import torch

from electra.model.initialize import cooccurrence_vectors, svd_lowrank

COOKS, ATE, DISHES = range(4), 4, range(5, 10)


def test_tokens_with_the_same_neighbors_start_close_to_each_other():
    pairs = torch.zeros(11, 11)
    for cook in COOKS:
        pairs[cook, ATE] = 5 + cook
    for dish in DISHES:
        pairs[ATE, dish] = 3 + dish
    torch.manual_seed(0)
    vectors = cooccurrence_vectors(pairs.to_sparse(), size=4, std=0.05)
    assert vectors.shape == (11, 4)
    torch.testing.assert_close(vectors.std(0).mean(), torch.tensor(0.05))
    apart = torch.cdist(vectors, vectors)
    assert apart[:4, :4].max() < 0.5 * apart[:4, 5:10].min()
    assert apart[5:10, 5:10].max() < 0.5 * apart[5:10, :5].min()


def test_more_numbers_than_there_are_tokens_stay_zero():
    vectors = cooccurrence_vectors(torch.ones(3, 3).triu().to_sparse(), size=9, std=0.05)
    assert vectors.shape == (3, 9)
    assert not vectors[:, 6:].any()


def test_text_of_a_single_repeated_token_has_no_nan_vectors():
    pairs = torch.zeros(4, 4)
    pairs[2, 2] = 50
    assert not cooccurrence_vectors(pairs.to_sparse(), size=4, std=0.05).any()


def test_the_factorization_is_that_of_torch():
    torch.manual_seed(0)
    matrix = torch.rand(50, 50).where(torch.rand(50, 50) < 0.1, 0).to_sparse()
    found = []
    for factorize in (svd_lowrank, torch.svd_lowrank):
        torch.manual_seed(1)
        found.append(factorize(matrix, 8, niter=4))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
