"""The body `modern` against `ModernBertModel`, from our folder to theirs and from theirs to ours."""

import json
import re

import pytest
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM, ModernBertForTokenClassification, ModernBertModel

from electra.config import preset_names
from electra.config.bodies import ModernModel
from electra.config.load import load_config
from electra.config.objectives import ElectraObjective
from electra.config.schema import PretrainConfig
from electra.errors import CheckpointError, ConfigError
from electra.model.bodies import build_body
from electra.model.huggingface import read_network, read_shape, write_network
from electra.model.networks import Discriminator, EnergyModel, MaskedLM

SIZES = {"hidden_size": 32, "layers": 7, "heads": 4, "feed_forward_size": 48, "vocab_size": 101}
CONFIG = ModernModel(**SIZES, window=16)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
LENGTH = 90  # longer than three halves of a window: local layers compute blocks
SPECIALS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)


def shaken(network):
    """Move every weight off its start, so that a wrong name cannot hide."""
    torch.manual_seed(11)
    for parameter in network.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.05)
    return network.eval()


def load_theirs(kind, folder):
    network, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return network.eval()


def states_of(body, *inputs):
    """Return the output of every block, before the final norm."""
    found = []
    hooks = [layer.register_forward_hook(lambda _, __, output: found.append(output)) for layer in body.layers]
    found.append(body(*inputs))
    for hook in hooks:
        hook.remove()
    return found


@pytest.fixture(scope="module")
def body():
    torch.manual_seed(0)
    return shaken(build_body(CONFIG))


@pytest.fixture(scope="module")
def theirs(body, tmp_path_factory):
    folder = tmp_path_factory.mktemp("modern")
    write_network(body, folder)
    return load_theirs(ModernBertModel, folder)


@pytest.fixture(scope="module")
def ids():
    return torch.randint(5, 101, (3, LENGTH), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("length", [1, 9, 17, 40, LENGTH])
@torch.no_grad()
def test_every_hidden_layer_equals_theirs(body, theirs, ids, length):
    *states, last = states_of(body, ids[:, :length])
    expected = theirs(ids[:, :length], output_hidden_states=True)
    for ours, wanted in zip(states[:-1], expected.hidden_states[1:-1], strict=True):
        torch.testing.assert_close(ours, wanted, **TOLERANCE)
    torch.testing.assert_close(last, expected.last_hidden_state, **TOLERANCE)


@pytest.mark.parametrize("length", [17, 40, LENGTH])
@torch.no_grad()
def test_padded_texts_equal_theirs(body, theirs, ids, length):
    attention = (torch.arange(length) < torch.tensor([[length], [length // 2], [1]])).long()
    real = attention.bool()
    found, expected = body(ids[:, :length], attention), theirs(ids[:, :length], attention_mask=attention)
    torch.testing.assert_close(found[real], expected.last_hidden_state[real], **TOLERANCE)


@pytest.mark.parametrize("parts", [(10, 30), (40, 50), (1, 88, 1)])
@torch.no_grad()
def test_packed_texts_equal_theirs_alone(body, theirs, ids, parts):
    texts = torch.cat([torch.full((part,), number + 1) for number, part in enumerate(parts)])[None]
    packed = body(ids[:1, : sum(parts)], texts)
    for piece, states in zip(ids[0, : sum(parts)].split(parts), packed[0].split(parts), strict=True):
        torch.testing.assert_close(states, theirs(piece[None]).last_hidden_state[0], **TOLERANCE)


def test_a_batch_beyond_32_bit_indices_takes_the_plain_path(body):
    few, many = (torch.empty(rows, 8192, 32, device="meta") for rows in (8, 8192))
    assert body._fits_stack(few) is False  # heads of width 8 do not suit the matrix units
    wide = build_body(CONFIG.model_copy(update={"heads": 2}))
    assert wide._fits_stack(few)
    assert not wide._fits_stack(many)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@torch.no_grad()
def test_a_tower_sees_one_side_only(ids, direction):
    tower = shaken(build_body(CONFIG, direction=direction))
    changed = ids.clone()
    changed[:, 50] = 7
    same = torch.isclose(tower(ids), tower(changed), **TOLERANCE).all(-1)
    unseen = slice(None, 50) if direction == "forward" else slice(51, None)
    assert same[:, unseen].all()
    assert not same[:, 50].any()


@pytest.mark.parametrize(
    ("make", "kind"), [(Discriminator, ModernBertForTokenClassification), (MaskedLM, ModernBertForMaskedLM)]
)
@torch.no_grad()
def test_a_network_of_ours_is_theirs_and_reads_back(make, kind, ids, tmp_path):
    network = shaken(make(build_body(CONFIG)))
    write_network(network, tmp_path)
    logits, again = load_theirs(kind, tmp_path)(ids).logits, read_network(tmp_path)
    assert type(again) is make
    assert all(torch.equal(one, other) for one, other in zip(again.parameters(), network.parameters(), strict=True))
    if make is Discriminator:
        torch.testing.assert_close(network(ids).scores.sigmoid(), logits.softmax(-1)[..., 1], **TOLERANCE)
        assert not logits[..., 0].any()
        assert json.loads((tmp_path / "config.json").read_text())["id2label"] == {"0": "original", "1": "replaced"}
    else:
        torch.testing.assert_close(network(ids, None, None).logits, logits, **TOLERANCE)


def test_energies_are_not_mistaken_for_a_discriminator(tmp_path):
    write_network(EnergyModel(build_body(CONFIG)), tmp_path)
    assert type(read_network(tmp_path)) is EnergyModel


@pytest.mark.parametrize("kind", [ModernBertModel, ModernBertForMaskedLM, ModernBertForTokenClassification])
@pytest.mark.parametrize("layout", ["now", "4.48"])
@torch.no_grad()
def test_a_network_of_theirs_is_read(kind, layout, ids, tmp_path):
    described = ModernBertConfig(
        vocab_size=101, hidden_size=32, num_hidden_layers=5, num_attention_heads=2, intermediate_size=40,
        local_attention=8, global_attn_every_n_layers=2, global_rope_theta=5000.0, local_rope_theta=300.0, **SPECIALS,
    )  # fmt: skip
    network = shaken(kind(described))
    network.save_pretrained(tmp_path)
    if layout == "4.48":  # before rope_parameters and layer_types
        path = tmp_path / "config.json"
        content = json.loads(path.read_text())
        del content["layer_types"], content["rope_parameters"]
        content |= {"global_attn_every_n_layers": 2, "global_rope_theta": 5000.0, "local_rope_theta": 300.0}
        path.write_text(json.dumps(content))
    shape = read_shape(tmp_path)
    assert (shape.global_every, shape.global_theta, shape.local_theta, shape.window) == (2, 5000.0, 300.0, 8)
    found = read_network(tmp_path)
    encoder = found if kind is ModernBertModel else found.encoder
    torch.testing.assert_close(encoder(ids), network.base_model(ids).last_hidden_state, **TOLERANCE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_bias": True}, "norm_bias = True is not supported, only False"),
        ({"hidden_activation": "silu"}, "hidden_activation = 'silu' is not supported"),
        ({"local_attention": 15}, "impossible model: window 15 is odd"),
        ({"num_attention_heads": 32}, "heads of width 1 cannot be rotated"),
        ({"layer_types": ["sliding_attention"] * 7}, "layer_types: only a global layer first"),
        ({"rope_scaling": {"factor": 2.0}}, "rope_scaling is not supported"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type 'yarn' is not supported"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "rope_parameters: factor is not supported"),
        ({"rope_parameters": {"full_attention": 5000.0}}, "rope_parameters: expected an object with full_attention"),
        ({"is_causal": True}, "is_causal = True is not supported"),
        ({"classifier_pooling": ["cls"]}, "is not supported, only cls or mean"),
        ({"classifier_pooling": "max"}, "classifier_pooling = 'max' is not supported, only cls or mean"),
        ({"num_hidden_layers": 8, "layer_types": None}, r"lack layers\.7\."),
    ],
)
def test_an_unsupported_part_is_refused(changes, message, tmp_path):
    write_network(build_body(CONFIG), tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    with pytest.raises(CheckpointError, match=message):
        read_network(tmp_path)


def test_the_window_is_even_and_a_narrow_generator_has_its_own_embeddings():
    with pytest.raises(ConfigError, match=re.escape("window 127 is odd; half of it lies on either side of a token")):
        load_config("modern-7x256", ["model.window=127"])
    with pytest.raises(ConfigError, match=re.escape("cannot share them; set objective.generator.sharing=none")):
        load_config("modern-7x256", ["objective.generator.width=0.5"])
    alone = load_config("modern-7x256", ["objective.generator.width=0.5", "objective.generator.sharing=none"])
    shape = alone.objective.generator.model(alone.model)
    assert (shape.hidden_size, shape.heads, shape.feed_forward_size, shape.layers) == (128, 2, 192, 2)


@pytest.mark.parametrize("name", ["modern-10x384", "modern-22x768"])
def test_every_narrower_generator_can_be_rotated_or_a_width_is_suggested_that_can(name):
    for percent in range(5, 100):
        settings = ["objective.generator.sharing=none", f"objective.generator.width={percent / 100}"]
        try:
            shapes = [load_config(name, settings)]
        except ConfigError as problem:
            suggested = re.findall(r"([\d.]+) \(width \d+\)", str(problem))
            assert suggested
            shapes = [load_config(name, [settings[0], f"objective.generator.width={ratio}"]) for ratio in suggested]
        for config in shapes:
            shape = config.objective.generator.model(config.model)
            assert shape.hidden_size % shape.heads == 0
            assert shape.hidden_size // shape.heads % 2 == 0


def test_a_generator_that_is_left_open_is_as_wide_and_shallower_and_shares_without_gradients():
    for settings in (["objective.generator.kind=masked_lm"], ["objective.name=electric"]):
        generator = load_config("nano", settings).objective.generator
        assert (generator.width, generator.depth, generator.sharing) == (1.0, 0.25, "gdes")
    deeper = load_config("nano", ["objective.generator.kind=masked_lm", "objective.generator.depth=0.5"])
    assert (deeper.objective.generator.width, deeper.objective.generator.sharing) == (1.0, "gdes")
    for width in (0.5, 1.0):
        given = ["kind=masked_lm", f"width={width}", "sharing=none"]
        generator = load_config("nano", [f"objective.generator.{key}" for key in given]).objective.generator
        assert (generator.width, generator.depth, generator.sharing) == (width, 1.0, "none")
    parts = {"model": deeper.model, "objective": ElectraObjective(), "train": deeper.train}
    assert PretrainConfig(**parts) == PretrainConfig.model_validate(parts)
    assert PretrainConfig(**parts).objective.generator.sharing == "gdes"
    with pytest.raises(ConfigError, match=re.escape("or objective.generator.width=1.0 and a smaller")):
        load_config("nano", ["objective.generator.kind=masked_lm", "objective.generator.width=0.5"])
    paper = load_config("tiny", ["objective.generator.kind=two_tower"]).objective.generator
    assert (paper.width, paper.sharing) == (0.5, "embeddings")


@pytest.mark.parametrize("name", [name for name in preset_names() if name.startswith("modern-")])
def test_a_preset_has_the_shape_of_its_name(name):
    model = load_config(name).model
    assert name == f"modern-{model.layers}x{model.hidden_size}"
    assert model.hidden_size // model.heads == 64
