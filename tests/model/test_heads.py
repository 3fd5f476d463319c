import torch

from electra.model.heads import ClassificationHead, QuestionAnsweringHead, TaggingHead


def test_classification_reads_the_first_token_alone(tiny_config):
    head = ClassificationHead(tiny_config.model, 3).eval()
    hidden = torch.randn(2, 6, tiny_config.model.hidden_size)
    other = hidden.clone()
    other[:, 1:] = 0
    assert torch.equal(head(hidden), head(other))
    assert head(hidden).shape == (2, 3)


def test_tagging_gives_logits_for_every_token(tiny_config):
    head = TaggingHead(tiny_config.model, 5)
    assert head(torch.randn(2, 6, tiny_config.model.hidden_size)).shape == (2, 6, 5)


def test_ends_are_conditioned_on_their_start(tiny_config):
    """The split linear map equals the paper's dense layer over the joined states of start and token."""
    torch.manual_seed(0)
    head = QuestionAnsweringHead(tiny_config.model)
    hidden = torch.randn(2, 6, tiny_config.model.hidden_size)
    allowed = torch.ones(2, 6, dtype=torch.bool)
    spans = head(hidden, allowed, lambda start: torch.tensor([[1], [4]]))
    joined = torch.cat([hidden[1, 4].expand(6, -1), hidden[1]], dim=-1)
    expected = head.end(torch.nn.functional.gelu(head.end_hidden(joined))).squeeze(-1)
    torch.testing.assert_close(spans.end[1, 0], expected, rtol=1e-4, atol=1e-5)


def test_starts_are_chosen_by_logits_that_rule_out_what_is_not_allowed(tiny_config):
    torch.manual_seed(0)
    head = QuestionAnsweringHead(tiny_config.model)
    allowed = torch.tensor([[1, 0, 0, 1, 1, 1]]).bool()
    hidden = torch.randn(1, 6, tiny_config.model.hidden_size)
    spans = head(hidden, allowed, lambda start: start.topk(4).indices)
    assert set(spans.starts[0].tolist()) == {0, 3, 4, 5}
    assert spans.end.shape == (1, 4, 6)
    assert bool((spans.end[..., 1:3] < -900).all())
    assert spans.unanswerable.shape == (1,)
