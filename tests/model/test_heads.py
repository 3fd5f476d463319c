import pytest
import torch
from torch import nn

from electra.config.load import load_config
from electra.model import heads
from electra.model.bodies import build_body
from electra.model.heads import DiscriminatorHead, Head, ModernDiscriminatorHead, find_head
from electra.model.huggingface import read_network, write_network
from electra.model.networks import TaskNetwork
from electra.tasks.answering.head import QuestionAnsweringHead
from electra.tasks.tagging.head import TaggingHead
from electra.tasks.texts.head import ClassificationHead


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


@pytest.fixture
def registry(monkeypatch):
    """The registered heads, restored after the test."""
    find_head("ElectraForTokenClassification")  # defines those of the tasks too
    monkeypatch.setattr(heads, "HEADS", dict(heads.HEADS))
    return heads.HEADS


@pytest.mark.parametrize(
    "given", [{}, {"architecture": "Lone"}, {"names": {"linear": "lone"}}, {"labeled": "texts"}], ids=str
)
@pytest.mark.parametrize("base", [Head, DiscriminatorHead])  # a subclass is not stored under its parent's name
def test_a_head_that_could_not_be_saved_is_refused_when_it_is_defined(registry, base, given):
    before = dict(registry)
    message = r"define it as class Lone\(Head, architecture=…, names=…\), so that it can be saved"
    with pytest.raises(TypeError, match=message):

        class Lone(base, **given):
            pass

    assert registry == before


def test_two_heads_of_one_architecture_are_refused(registry):
    message = "Other: architecture ElectraForPreTraining is DiscriminatorHead's already"
    with pytest.raises(TypeError, match=message):

        class Other(Head, architecture="ElectraForPreTraining", names={"linear": "other"}):
            pass

    assert registry["ElectraForPreTraining"] is DiscriminatorHead


def test_a_head_that_was_defined_elsewhere_is_saved_and_read(registry, tiny_config, tmp_path):
    class Doubled(Head, architecture="OurOwnDoubled", names={"first": "own.one", "": "own"}):
        def __init__(self, config):
            super().__init__()
            self.first = nn.Linear(config.hidden_size, 2)
            self.bias = nn.Parameter(torch.randn(2))

        def forward(self, hidden):
            return self.first(hidden) + self.bias

    network = TaskNetwork(build_body(tiny_config.model), Doubled(tiny_config.model)).eval()
    write_network(network, tmp_path)
    again = read_network(tmp_path)
    assert type(again.head) is Doubled
    ids = torch.arange(5, 12)[None]
    assert torch.equal(again.head(again.encoder(ids)), network.head(network.encoder(ids)))


def test_the_mean_of_a_row_of_padding_is_finite():
    """The last batch of an epoch is filled up with such rows, whose weight of 0 does not undo a NaN."""
    config = load_config("modern-7x256", []).model.model_copy(update={"pooling": "mean"})
    head = ModernDiscriminatorHead(config)
    pooled = head.pool(torch.zeros(2, 3, config.hidden_size), torch.tensor([[1, 1, 0], [0, 0, 0]]))
    assert pooled.isfinite().all()
