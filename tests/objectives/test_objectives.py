"""Every objective against its formula, written out a second time and independently."""

import math

import pytest
import torch
import torch.nn.functional as F

from electra.config.load import load_config
from electra.data.feeding.batch import Batch
from electra.errors import ConfigError
from electra.objectives.base import Step, Term, weighted_sum
from electra.objectives.build import build_objective
from electra.objectives.draws import Draws, draw

EVERY = ["electra", "mlm", "electra_15", "corrective", "replace_mlm", "all_tokens_mlm", "electric"]


@pytest.fixture
def batch(make_batch):
    return make_batch(24, 17, 30, 12, 3, 30)


def draws_for(batch, number=0):
    return draw(1, number, *batch.ids.shape, device="cpu")


def gradients(loss, module):
    """The gradients of a module's parameters, None where the loss does not depend on one."""
    return torch.autograd.grad(loss, list(module.parameters()), allow_unused=True, retain_graph=True)


def cross_entropy(logits, targets):
    """Negative log-likelihood in float64, by the definition."""
    logits = logits.double()
    return logits.exp().sum(-1).log() - logits.gather(-1, targets[..., None]).squeeze(-1)


@pytest.mark.parametrize("name", EVERY)
def test_padding_changes_no_loss(make_objective, make_batch, name):
    objective = make_objective(f"objective.name={name}", "objective.mask_fraction=0.15")
    short, long = make_batch(20, 14), make_batch(20, 14, length=24)
    long.ids[:, :20] = short.ids
    draws, wider = draws_for(short), draws_for(long)
    for field in ("order", "keep", "sample"):
        getattr(wider, field)[:, :20] = getattr(draws, field)
    torch.testing.assert_close(objective(long, wider).loss, objective(short, draws).loss)


@pytest.mark.parametrize("name", ["electra", "all_tokens_mlm"])
def test_parts_of_a_batch_count_by_their_tokens(make_objective, make_batch, name):
    objective = make_objective(f"objective.name={name}", "objective.generator_weight=0.0")
    whole = make_batch(30, 24, 5, 4)
    draws = draws_for(whole)
    parts = []
    for rows in (slice(0, 1), slice(1, 4)):
        part = Batch(whole.ids[rows], whole.attention[rows], whole.types[rows])
        own = Draws(draws.order[rows], draws.keep[rows], draws.sample[rows])
        parts.append((objective.share(part, own) * part.ids.numel(), objective(part, own).loss))
    assert [tokens.item() for tokens, _ in parts] == [30, 33]
    mean = sum(tokens * loss for tokens, loss in parts) / 63
    torch.testing.assert_close(mean, objective(whole, draws).loss)


def test_a_loss_is_the_weighted_sum_of_the_means_of_its_terms():
    values, weights = torch.tensor([[1.0, 5, 9]]), torch.tensor([[1.0, 1, 0]])
    terms = weighted_sum(values, weights, 2.0), weighted_sum(values, weights).weighted(10.0)
    assert [(term.weight, term.total.item()) for term in terms] == [(2.0, 6.0), (10.0, 6.0)]
    more = Term(1.0, torch.tensor(8.0), torch.tensor(4.0))
    assert Step((*terms, more), values).loss.item() == pytest.approx(2 * 3 + 10 * 3 + 2)


@pytest.mark.parametrize("name", EVERY)
def test_a_batch_with_nothing_to_mask_gives_a_finite_loss(make_objective, make_batch, name):
    step = make_objective(f"objective.name={name}")(batch := make_batch(2, 2), draws_for(batch))
    step.loss.backward()
    assert step.loss.isfinite()


@pytest.mark.parametrize("name", EVERY)
def test_the_same_draws_give_the_same_loss(make_objective, batch, name):
    objective = make_objective(f"objective.name={name}")
    ours, theirs = (objective(batch, draws_for(batch)).loss for _ in range(2))
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, objective(batch, draws_for(batch, number=1)).loss)


def test_the_uniform_generators_loss_is_that_of_the_vocabulary(make_objective, batch):
    step = make_objective("objective.generator.kind=uniform", "objective.discriminator_weight=0.0")(
        batch, draws_for(batch)
    )
    vocabulary = make_objective().network.encoder.config.vocab_size
    assert step.generator.nll.mean().item() == pytest.approx(math.log(vocabulary), rel=1e-6)
    assert step.loss.item() == pytest.approx(math.log(vocabulary), rel=1e-6)
    assert F.cross_entropy(torch.zeros(1, 30_522), torch.tensor([7])).item() == pytest.approx(10.326203, abs=1e-6)


def test_the_unigram_generator_does_not_guess_how_often_tokens_occur(make_objective):
    with pytest.raises(ConfigError, match="it needs their counts"):
        make_objective("objective.generator.kind=unigram")


def test_the_unigram_generator_proposes_tokens_as_often_as_they_occur(make_objective, make_batch, tokenizer):
    counts = torch.zeros(tokenizer.vocab_size)
    counts[10], counts[20] = 3, 1
    objective = make_objective("objective.generator.kind=unigram", counts=counts, std=None)
    batch = make_batch(*[64] * 200)
    proposed = objective.corrupt(batch, draws_for(batch)).proposed
    assert set(proposed.unique().tolist()) == {10, 20}
    assert (proposed == 10).float().mean().item() == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize(("name", "chance"), [("electra", 0.13), ("electra_15", 0.13 / 0.15)])
def test_the_discriminator_starts_from_the_share_that_is_replaced_where_its_loss_counts(
    make_objective, batch, name, chance
):
    objective = make_objective(f"objective.name={name}", "objective.prior=0.13", std=None)
    scores = objective.network(batch.ids, batch.attention, batch.types).scores
    assert scores.sigmoid().mean().item() == pytest.approx(chance, abs=0.03)


def test_the_loss_of_small_starts_where_the_originals_does(make_batch, tokenizer):
    config = load_config("small")
    torch.manual_seed(0)
    objective = build_objective(config.objective, config.model, tokenizer)
    batch = make_batch(128, 128)
    step = objective(batch, draws_for(batch))
    assert step.generator.nll[step.generator.weights > 0].mean().item() == pytest.approx(10.33, abs=0.15)
    assert step.loss.item() == pytest.approx(50 * math.log(2) + math.log(30_522), abs=2.0)


def test_a_lucky_guess_counts_as_original(make_objective, batch):
    objective = make_objective("objective.mask_fraction=0.5", "objective.temperature=0.05")
    torch.nn.init.zeros_(objective.generator.head.bias)
    lucky = batch.ids[0, 5].item()
    objective.generator.head.bias.data[lucky] = 1000.0  # the generator proposes this token everywhere
    batch.ids[:, 1:4] = lucky
    step = objective(batch, draws_for(batch))
    corrupted = objective.corrupt(batch, draws_for(batch))
    guessed = (corrupted.masked.originals == lucky) & (corrupted.masked.weights > 0)
    assert guessed.any()
    assert not step.verdicts.replaced.gather(1, corrupted.masked.positions)[guessed].any()
    assert torch.equal(step.verdicts.replaced, corrupted.ids != batch.ids)
    assert step.verdicts.replaced.any()


def test_electra_is_the_weighted_sum_of_both_losses(make_objective, batch):
    objective = make_objective("objective.generator_weight=2.0", "objective.discriminator_weight=7.0")
    corrupted = objective.corrupt(batch, draws_for(batch))
    masked, real = corrupted.masked, batch.attention > 0
    nll = cross_entropy(
        objective.generator(masked.ids, batch.attention, batch.types, masked.positions).logits, masked.originals
    )
    scores = objective.network(corrupted.ids, batch.attention, batch.types).scores.double()
    right = torch.where(corrupted.ids != batch.ids, scores.sigmoid(), 1 - scores.sigmoid())
    expected = 2 * nll[masked.weights > 0].mean() - 7 * right[real].log().mean()
    assert objective(batch, draws_for(batch)).loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_electra_15_counts_the_masked_positions_alone(make_objective, batch):
    objective = make_objective("objective.name=electra_15", "objective.generator_weight=0.0")
    corrupted = objective.corrupt(batch, draws_for(batch))
    step = objective(batch, draws_for(batch))
    counted = torch.zeros_like(batch.ids, dtype=torch.bool)
    for row, (positions, weights) in enumerate(zip(corrupted.masked.positions, corrupted.masked.weights, strict=True)):
        counted[row, positions[weights > 0]] = True
    assert torch.equal(step.verdicts.weights > 0, counted)
    scores = objective.network(corrupted.ids, batch.attention, batch.types).scores
    losses = F.binary_cross_entropy_with_logits(scores, (corrupted.ids != batch.ids).float(), reduction="none")
    assert step.loss.item() == pytest.approx(50 * losses[counted].mean().item(), rel=1e-4)


def test_corrective_detection_also_predicts_the_true_tokens(make_objective, batch):
    objective = make_objective("objective.name=corrective", "objective.correction_weight=3.0")
    detection = make_objective()
    detection.load_state_dict(objective.state_dict(), strict=False)
    masked = objective.corrupt(batch, draws_for(batch)).masked
    corrupted = detection.corrupt(batch, draws_for(batch)).ids
    hidden = detection.network.encoder(corrupted, batch.attention, batch.types)
    logits = objective.corrector(hidden, detection.network.encoder.embeddings.words.weight)
    nll = cross_entropy(logits.gather(1, masked.positions[..., None].expand(-1, -1, logits.size(-1))), masked.originals)
    expected = detection(batch, draws_for(batch)).loss + 3 * nll[masked.weights > 0].mean()
    step = objective(batch, draws_for(batch))
    assert step.loss.item() == pytest.approx(expected.item(), rel=1e-4)
    torch.testing.assert_close(step.main.nll.double(), nll, rtol=1e-3, atol=1e-3)


def test_mlm_predicts_the_masked_tokens(make_objective, batch):
    objective = make_objective("objective.name=mlm")
    masked = objective.mask(batch, draws_for(batch))
    everywhere = torch.arange(30).expand(6, -1)
    logits = objective.network(masked.ids, batch.attention, batch.types, everywhere).logits
    losses = [
        cross_entropy(logits[row, position], batch.ids[row, position])
        for row in range(6)
        for position, weight in zip(masked.positions[row], masked.weights[row], strict=True)
        if weight
    ]
    assert objective(batch, draws_for(batch)).loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)


def test_replace_mlm_sees_samples_and_never_mask_tokens(make_objective, batch, tokenizer):
    objective = make_objective("objective.name=replace_mlm", "objective.mask_token_fraction=1.0")
    objective.generator.head.bias.data[tokenizer.mask_id] = -1000.0
    corrupted = objective.corrupt(batch, draws_for(batch))
    assert not (corrupted.ids == tokenizer.mask_id).any()
    masked = corrupted.masked
    logits = objective.network(corrupted.ids, batch.attention, batch.types, masked.positions).logits
    expected = cross_entropy(logits, masked.originals)[masked.weights > 0].mean()
    expected = expected + corrupted.loss.total / corrupted.loss.count
    assert objective(batch, draws_for(batch)).loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_all_tokens_mlm_copies_or_predicts_every_token(make_objective, batch):
    objective = make_objective("objective.name=all_tokens_mlm", "objective.generator_weight=0.0")
    corrupted = objective.corrupt(batch, draws_for(batch))
    hidden = objective.network.encoder(corrupted.ids, batch.attention, batch.types)
    logits = objective.network.head(hidden, objective.network.encoder.embeddings.words.weight)
    losses, correct = [], []
    for row, column in torch.nonzero(batch.attention > 0).tolist():
        copy = torch.sigmoid(objective.copy(hidden[row, column])).double()
        law = (1 - copy) * logits[row, column].double().softmax(-1)
        law[corrupted.ids[row, column]] += copy.squeeze()
        losses.append(-law[batch.ids[row, column]].log())
        correct.append(law.argmax() == batch.ids[row, column])
    step = objective(batch, draws_for(batch))
    assert step.loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)
    assert torch.equal(step.main.correct[batch.attention > 0], torch.stack(correct))


@pytest.mark.parametrize(("fraction", "offset"), [(0.15, -1.734601), (0.25, -1.098612)])
def test_the_offset_of_electric_is_the_originals(make_objective, fraction, offset):
    objective = make_objective("objective.name=electric", f"objective.mask_fraction={fraction}")
    assert objective.offset == pytest.approx(offset, abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_electric_tells_noise_from_data_by_energy_and_noise_probability(make_objective, batch, temperature):
    objective = make_objective("objective.name=electric", f"objective.temperature={temperature}")
    draws = draws_for(batch)
    masked = objective.mask(batch, draws)
    step = objective(batch, draws)
    chosen = torch.zeros_like(batch.ids, dtype=torch.bool)
    for row, (positions, weights) in enumerate(zip(masked.positions, masked.weights, strict=True)):
        chosen[row, positions[weights > 0]] = True
    assert torch.equal(step.verdicts.replaced, chosen)  # even where the sample is the true token
    # The noise is found again by its own draw, then the logit of every token is rebuilt from its parts.
    everywhere = torch.arange(30).expand(6, -1)
    predicted = objective.generator(batch.ids, batch.attention, batch.types, everywhere).logits
    q = (predicted.double() / temperature).softmax(-1)
    noisy = batch.ids.clone()
    for row in range(6):
        for slot in range(masked.positions.size(1)):
            if masked.weights[row, slot]:
                position = masked.positions[row, slot]
                noisy[row, position] = (q[row, position].cumsum(-1) <= draws.sample[row, slot]).sum()
    energy = objective.network(noisy, batch.attention, batch.types).scores.double()
    logits = energy + q.gather(-1, noisy[..., None]).squeeze(-1).log() + math.log(0.15 / 0.85)
    counted = step.verdicts.weights > 0
    torch.testing.assert_close(step.verdicts.scores.double()[counted], logits[counted], rtol=1e-3, atol=1e-3)


def test_electric_counts_no_special_token(make_objective, batch, tokenizer):
    step = make_objective("objective.name=electric")(batch, draws_for(batch))
    special = torch.isin(batch.ids, torch.tensor([tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id]))
    assert torch.equal(step.verdicts.weights > 0, ~special)
    assert torch.equal(step.generator.weights > 0, ~special)


def discriminator_alone(make_objective, sharing):
    return make_objective("objective.generator_weight=0.0", f"objective.generator.sharing={sharing}")


@pytest.mark.parametrize("sharing", ["none", "gdes"])
def test_no_gradient_reaches_the_generator(make_objective, batch, sharing):
    objective = discriminator_alone(make_objective, sharing)
    loss = objective(batch, draws_for(batch)).loss
    for gradient in gradients(loss, objective.generator):
        assert gradient is None or not gradient.any()
    assert any(gradient is not None and gradient.any() for gradient in gradients(loss, objective.network))


def test_shared_embeddings_alone_take_both_gradients(make_objective, batch):
    objective = discriminator_alone(make_objective, "embeddings")
    loss = objective(batch, draws_for(batch)).loss
    shared = {id(parameter) for parameter in objective.network.encoder.embeddings.parameters()}
    found = dict(zip(objective.generator.parameters(), gradients(loss, objective.generator), strict=True))
    for parameter, gradient in found.items():
        assert (gradient is not None and gradient.any()) == (id(parameter) in shared)


def test_gdes_trains_the_differences_in_the_place_of_the_embeddings(make_objective, batch):
    objective = discriminator_alone(make_objective, "gdes")
    embeddings = objective.network.encoder.embeddings
    loss = objective(batch, draws_for(batch)).loss
    (gradient,) = torch.autograd.grad(loss, [embeddings.words.weight])
    assert gradient.any()


def test_gdes_starts_as_plain_sharing(make_objective, batch):
    plain, disentangled = (
        make_objective(f"objective.generator.sharing={kind}", std=None) for kind in ("embeddings", "gdes")
    )
    disentangled.network.encoder.embeddings.shared.load_state_dict(plain.generator.encoder.embeddings.state_dict())
    ours, theirs = (objective.network.encoder.embeddings(batch.ids, batch.types) for objective in (plain, disentangled))
    torch.testing.assert_close(ours, theirs)


def test_merged_gdes_embeddings_are_the_same_function(make_objective, batch):
    encoder = make_objective("objective.generator.sharing=gdes").network.encoder
    merged = encoder.embeddings.plain()
    assert merged.source is merged
    assert encoder.embeddings.source is not encoder.embeddings
    torch.testing.assert_close(merged(batch.ids, batch.types), encoder.embeddings(batch.ids, batch.types))


@pytest.mark.parametrize("name", ["corrective", "replace_mlm", "all_tokens_mlm"])
def test_what_gdes_trains_to_predict_tokens_is_what_is_kept(make_objective, batch, name):
    objective = make_objective(f"objective.name={name}", "objective.generator.sharing=gdes")
    trained = objective(batch, draws_for(batch)).main.nll
    objective.network.encoder = objective.network.encoder.plain()
    torch.testing.assert_close(objective(batch, draws_for(batch)).main.nll, trained)


def test_forbidding_the_true_token_makes_every_sample_a_replacement(make_objective, batch):
    objective = make_objective("objective.forbid_original=true")
    masked = objective.corrupt(batch, draws_for(batch)).masked
    replaced = objective(batch, draws_for(batch)).verdicts.replaced
    assert replaced.sum() == masked.weights.sum()
