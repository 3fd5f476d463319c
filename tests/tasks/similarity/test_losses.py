import pytest
import torch
from sentence_transformers.sentence_transformer import losses

from electra.tasks.similarity.losses import contrast, of_sizes, rank

COUNT, WIDTH, TEMPERATURE = 6, 16, 0.05
BOTH = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}


def draw(texts: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(COUNT, texts, WIDTH, generator=torch.Generator().manual_seed(seed))


def different(texts: int) -> torch.Tensor:
    return torch.arange(COUNT * texts).view(COUNT, texts)


@pytest.mark.parametrize("texts", [2, 3, 5])
def test_in_batch_and_hard_negatives_cost_what_they_do_in_sentence_transformers(texts):
    vectors = draw(texts)
    theirs = losses.MultipleNegativesRankingLoss(None, scale=1 / TEMPERATURE, **BOTH)
    expected = theirs.compute_loss_from_embeddings(list(vectors.unbind(1)), None)
    found = contrast(vectors, different(texts), torch.ones(COUNT), TEMPERATURE)
    torch.testing.assert_close(found, expected)


def test_the_order_of_scores_costs_what_it_does_in_sentence_transformers():
    vectors, scores = draw(2), torch.tensor([0.0, 5.0, 2.5, 2.5, 1.0, 4.0])
    theirs = losses.CoSENTLoss(None, scale=1 / TEMPERATURE)
    expected = theirs.compute_loss_from_embeddings(list(vectors.unbind(1)), scores)
    torch.testing.assert_close(rank(vectors, scores, torch.ones(COUNT), TEMPERATURE), expected)


def test_the_losses_of_all_sizes_add_up_as_in_sentence_transformers():
    class Given(torch.nn.Module):
        def forward(self, features):
            return {"sentence_embedding": features["vectors"]}

        def get_embedding_dimension(self):
            return WIDTH

    vectors, model = draw(2), Given()
    inner = losses.MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE, **BOTH)
    theirs = losses.MatryoshkaLoss(model, inner, matryoshka_dims=[WIDTH, 8, 4])
    expected = theirs([{"vectors": column} for column in vectors.unbind(1)], None)
    found = of_sizes(lambda part: contrast(part, different(2), torch.ones(COUNT), TEMPERATURE), vectors, [4, 8])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("place", "repeats", "hidden"),
    [
        ((1, 1), (0, 1), [(0, 1), (1, 0)]),  # the same second text
        ((1, 1), (0, 0), [(0, 1)]),  # a second text that is another's first
        ((1, 0), (0, 0), [(0, 1), (1, 0)]),  # the same first text
        ((1, 2), (0, 1), [(0, COUNT + 1)]),  # another's negative
    ],
)
def test_a_repeated_text_is_no_negative(place, repeats, hidden):
    vectors, texts = draw(3), different(3)
    texts[place] = texts[repeats]
    found = contrast(vectors, texts, torch.ones(COUNT), TEMPERATURE)
    units = torch.nn.functional.normalize(vectors, dim=-1)
    scores = units[:, 0] @ torch.cat([units[:, 1], units[:, 2]]).T / TEMPERATURE
    scores[tuple(torch.tensor(hidden).T)] = -torch.inf
    square = scores[:, :COUNT]
    expected = (scores.logsumexp(1) + square.logsumexp(0)) / 2 - square.diagonal()
    torch.testing.assert_close(found, expected.mean())


def test_cosines_are_not_rounded_to_bf16():
    vectors, texts, weights = draw(3), different(3), torch.ones(COUNT)
    expected = contrast(vectors, texts, weights, TEMPERATURE)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(contrast(vectors, texts, weights, TEMPERATURE), expected)


@pytest.mark.parametrize("scored", [True, False])
def test_padding_changes_neither_loss_nor_gradient(scored):
    def loss(vectors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        if scored:
            return rank(vectors, torch.arange(len(vectors)), weights, TEMPERATURE)
        return contrast(vectors, different(3)[: len(vectors)], weights, TEMPERATURE)

    vectors = draw(3).requires_grad_()
    weights = torch.tensor([1.0, 1, 1, 1, 0, 0])
    padded, short = loss(vectors, weights), loss(vectors[:4], weights[:4])
    torch.testing.assert_close(padded, short)
    torch.testing.assert_close(*(torch.autograd.grad(each, vectors)[0] for each in (padded, short)))
