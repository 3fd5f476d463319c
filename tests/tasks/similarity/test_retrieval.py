import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from electra.tasks.similarity.retrieval import find_ranks, score_ranks


def test_metrics_are_those_of_sentence_transformers():
    source = np.random.default_rng(0)
    passages, queries = source.normal(size=(60, 8)), source.normal(size=(25, 8))
    right = [sorted(source.choice(60, source.integers(1, 4), replace=False).tolist()) for _ in queries]
    vectors = {f"q{n}": row for n, row in enumerate(queries)} | {f"p{n}": row for n, row in enumerate(passages)}

    class Given:
        similarity_fn_name = "dot"

        def encode_query(self, texts, **settings):
            return torch.tensor(np.stack([vectors[text] for text in texts]))

        encode_document = encode_query

        def similarity(self, left, right):
            return left @ right.T

    names = {f"q{n}": {f"p{place}" for place in wanted} for n, wanted in enumerate(right)}
    theirs = InformationRetrievalEvaluator(
        {name: name for name in names},
        {f"p{n}": f"p{n}" for n in range(60)},
        names,
        mrr_at_k=[10],
        ndcg_at_k=[10],
        precision_recall_at_k=[1, 10],
        score_functions={"dot": lambda left, right: left @ right.T},
    ).compute_metrices(Given())["dot"]
    found = score_ranks(find_ranks(queries, passages, right, [None] * 25))
    assert found == {
        "recall_1": pytest.approx(theirs["recall@k"][1]),
        "recall_10": pytest.approx(theirs["recall@k"][10]),
        "mrr_10": pytest.approx(theirs["mrr@k"][10]),
        "ndcg_10": pytest.approx(theirs["ndcg@k"][10]),
    }
    assert next(iter(found)) == "ndcg_10"  # ranks seeds, and is printed first


def test_equal_vectors_find_nothing():
    ranks = find_ranks(np.ones((2, 3)), np.ones((40, 3)), [[0], [39]], [None, None])
    assert ranks == [[40], [40]]
    assert score_ranks(ranks)["recall_10"] == 0


def test_right_passages_that_are_equally_similar_are_no_rivals():
    queries, passages = np.array([[1.0, 0.0]]), np.array([[0.9, 0.1], [0.9, 0.1], [0.0, 1.0]])
    ranks = find_ranks(queries, passages, [[0, 1]], [None])
    assert ranks == [[1, 2]]
    assert score_ranks(ranks)["ndcg_10"] == 1
