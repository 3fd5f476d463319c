"""The other ways to train ELECTRA: adversarially and in two stages."""

import pytest
import torch
import torch.nn.functional as F

from electra.config.load import load_config
from electra.errors import CheckpointError
from electra.model.pretrained import Pretrained
from electra.objectives.build import objective_class
from electra.objectives.draws import draw

ADVERSARIAL = ["objective.algorithm=adversarial", "objective.generator.sharing=none"]
TWO_STAGE = ["objective.algorithm=two_stage", "objective.generator.sharing=none", "objective.generator.width=1.0"]


@pytest.fixture(scope="module")
def batch(make_batch):
    return make_batch(24, 17, 30, 12)


@pytest.fixture(scope="module")
def draws(batch):
    return draw(1, 0, *batch.ids.shape, device="cpu")


def judged(objective, batch, draws):
    """What the generator put in, the discriminator's scores of it, and what the baseline sees."""
    corrupted = objective.corrupt(batch, draws)
    scores = objective.network(corrupted.ids, batch.attention, batch.types).scores
    hidden = objective.generator.encoder(corrupted.masked.ids, batch.attention, batch.types)
    return corrupted, corrupted.masked, scores, hidden


@pytest.mark.parametrize("changes", [[], ["objective.temperature=2.0"], ["objective.forbid_original=true"]])
def test_the_adversarial_gradient_is_that_of_reinforce(make_objective, batch, draws, changes):
    objective = make_objective(*ADVERSARIAL, "objective.discriminator_weight=0.0", *changes)
    found = torch.autograd.grad(objective(batch, draws).loss, list(objective.generator.parameters()), allow_unused=True)

    corrupted, masked, scores, hidden = judged(objective, batch, draws)
    surrogate = []
    for row, slot in torch.nonzero(masked.weights).tolist():
        position = masked.positions[row, slot]
        truth = float(corrupted.ids[row, position] != batch.ids[row, position])
        probability = scores[row, position].sigmoid().item()
        reward = -torch.tensor(probability if truth else 1 - probability).log()
        baseline = -torch.log(torch.sigmoid(objective.baseline(hidden[row, position]))).item()
        logits = corrupted.logits[row, slot] / objective.config.temperature
        if objective.config.forbid_original:
            logits = logits.index_fill(0, masked.originals[row, slot], -torch.inf)
        surrogate.append((reward - baseline) * logits.log_softmax(-1)[corrupted.proposed[row, slot]])
    expected = torch.autograd.grad(
        -torch.stack(surrogate).mean(), list(objective.generator.parameters()), allow_unused=True
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_the_adversarial_baseline_learns_the_reward(make_objective, batch, draws):
    objective = make_objective(*ADVERSARIAL)
    optimizer = torch.optim.Adam(objective.baseline.parameters(), lr=0.05)

    def error() -> torch.Tensor:
        corrupted, masked, scores, hidden = judged(objective, batch, draws)
        reward = F.binary_cross_entropy_with_logits(scores, (corrupted.ids != batch.ids).float(), reduction="none")
        expected = F.softplus(-objective.baseline(hidden).squeeze(-1))
        used = masked.weights > 0
        return (expected - reward).gather(1, masked.positions)[used].abs().mean()

    before = error().item()
    for _ in range(40):
        optimizer.zero_grad()
        objective(batch, draws).loss.backward()
        optimizer.step()
    assert error().item() < 0.7 * before


def test_the_adversarial_baseline_is_fitted_by_cross_entropy(make_objective, batch, draws):
    objective = make_objective(*ADVERSARIAL)
    found = torch.autograd.grad(objective(batch, draws).loss, list(objective.baseline.parameters()))

    corrupted, masked, scores, hidden = judged(objective, batch, draws)
    losses = []
    for row, slot in torch.nonzero(masked.weights).tolist():
        position = masked.positions[row, slot]
        replaced = corrupted.ids[row, position] != batch.ids[row, position]
        given_to_truth = (scores if replaced else -scores)[row, position].sigmoid().item()
        guess = objective.baseline(hidden[row, position]).sigmoid()
        losses.append(-given_to_truth * guess.log() - (1 - given_to_truth) * (1 - guess).log())
    expected = torch.autograd.grad(torch.stack(losses).mean(), list(objective.baseline.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
def test_the_adversarial_generator_reads_the_text_once(make_objective, batch, draws, sharing):
    objective = make_objective("objective.algorithm=adversarial", f"objective.generator.sharing={sharing}")
    read = []
    for network in (objective.generator, objective.network):
        network.encoder.register_forward_hook(lambda encoder, *call: read.append(encoder))
    objective(batch, draws)
    assert read == [objective.generator.encoder, objective.network.encoder]


def test_held_out_adversarial_networks_are_judged_as_others_are(make_objective, batch, draws):
    adversarial, plain = (make_objective(f"objective.algorithm={kind}") for kind in ("adversarial", "joint"))
    plain.load_state_dict(adversarial.state_dict(), strict=False)
    assert adversarial(batch, draws).loss != plain(batch, draws).loss
    torch.testing.assert_close(adversarial.eval()(batch, draws).loss, plain.eval()(batch, draws).loss)


def test_the_adversarial_generator_is_not_trained_by_likelihood(make_objective, batch, draws):
    """Where the reward is what was expected nothing pulls at the generator, however badly it predicts."""
    objective = make_objective(*ADVERSARIAL, "objective.discriminator_weight=0.0")
    for parameter in (*objective.network.head.score.parameters(), *objective.baseline.parameters()):
        torch.nn.init.zeros_(parameter)  # every score is 0, every reward and every expectation ln 2
    step = objective(batch, draws)
    step.loss.backward()
    assert step.generator.nll.mean() > 1
    for parameter in objective.generator.parameters():
        assert parameter.grad.abs().max() < 1e-6


def test_the_second_stage_starts_from_the_first_and_leaves_its_generator_alone(make_objective, batch, draws, tokenizer):
    first = make_objective("objective.name=mlm").network
    objective = make_objective(*TWO_STAGE, std=0.1)
    assert objective.adopt(Pretrained(first, tokenizer)) == []
    for ours, theirs in ((objective.network.encoder, first.encoder), (objective.generator, first)):
        for (name, parameter), wanted in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert torch.equal(parameter, wanted), name
    objective(batch, draws).loss.backward()
    assert all(parameter.grad is None for parameter in objective.generator.parameters())
    assert all(parameter.grad is not None for parameter in objective.network.parameters())


def test_the_second_stage_is_of_the_models_own_shape(make_objective):
    objective = make_objective(*TWO_STAGE)
    assert objective.generator.encoder.config == objective.network.encoder.config


def test_the_second_stage_starts_from_nothing_but_a_masked_lm(make_objective, tokenizer):
    with pytest.raises(CheckpointError, match="two-stage training starts from a masked LM"):
        make_objective(*TWO_STAGE).adopt(Pretrained(make_objective().network, tokenizer))


def test_the_first_of_two_stages_masks_the_same_tokens_at_the_generators_rate():
    config = load_config("tiny", [*TWO_STAGE, "objective.generator.rate=3.0", "objective.mask_fraction=0.3"]).objective
    first, second = objective_class(config).stages(config)
    assert (first.objective.name, first.objective.mask_fraction, first.rate) == ("mlm", 0.3, 3.0)
    assert (second.objective, second.rate) == (config, 1.0)


@pytest.mark.parametrize("algorithm", ["joint", "adversarial"])
def test_other_algorithms_are_trained_in_one_stage(algorithm):
    config = load_config("tiny", [f"objective.algorithm={algorithm}"]).objective
    (only,) = objective_class(config).stages(config)
    assert (only.objective, only.rate, only.announcement) == (config, 1.0, "")
