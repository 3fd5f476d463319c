import json
import re
import shutil

import fsspec
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

import electra
from electra.config.load import load_config
from electra.data.tokens.tokenizer import wordpiece
from electra.errors import CheckpointError, ConfigError
from electra.model.bodies import build_body
from electra.model.huggingface import write_network
from electra.model.networks import Discriminator, MaskedLM, TaskNetwork
from electra.model.pretrained import Pretrained
from electra.model.task_model import TaskModel, write_task_model
from electra.recipes import convert
from electra.recipes.convert import write_model
from electra.recipes.start import find_start
from electra.tasks.answering.head import QuestionAnsweringHead
from electra.tasks.texts.head import ClassificationHead


@pytest.fixture
def exported(tiny_folder, tmp_path):
    electra.export(tiny_folder, tmp_path / "hf")
    return tmp_path / "hf"


def test_an_export_to_ones_home_lies_there(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    electra.export(tiny_folder, "~/hf")
    assert (tmp_path / "hf" / "config.json").is_file()


def test_an_unknown_precision_is_one_line(tiny_folder, tmp_path):
    with pytest.raises(ConfigError, match="unknown precision 'fp16'; use float32 or bf16"):
        electra.export(tiny_folder, tmp_path / "hf", precision="fp16")


@pytest.mark.parametrize("head", [ClassificationHead, QuestionAnsweringHead])
def test_a_fine_tuned_model_with_a_head_of_the_paper_is_imported_whole(head, tiny_model, tmp_path):
    shape = tiny_model.encoder.config
    classifies = head is ClassificationHead
    network = TaskNetwork(
        tiny_model.encoder,
        head(shape, 2) if classifies else head(shape),
        ("no", "yes") if classifies else (),
        "single_label_classification" if classifies else None,
    )
    write_task_model(TaskModel(network, tiny_model.tokenizer, {"name": "rte"}), tmp_path / "tuned")
    electra.import_model(tmp_path / "tuned", tmp_path / "imported")
    again = electra.load(tmp_path / "imported", device="cpu").network
    for name, weight in network.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name
    assert "import AutoTokenizer, AutoModel\n" in (tmp_path / "imported" / "model" / "README.md").read_text()


def test_an_export_loads_in_transformers_whole(exported):
    for kind, folder in ((ElectraForPreTraining, exported), (ElectraForMaskedLM, exported / "generator")):
        _, report = kind.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
    assert AutoModel.from_pretrained(exported).config.model_type == "electra"


def test_an_exports_tokenizer_splits_as_ours(exported, tokenizer):
    theirs = AutoTokenizer.from_pretrained(exported)
    text = "The chef cooked soup, unaffable café"
    assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer.encode([text])[0].ids


def test_an_export_gives_the_same_probabilities_in_transformers(exported, tiny_model):
    text = "the chef ate the soup ."
    theirs = ElectraForPreTraining.from_pretrained(exported).eval()
    inputs = AutoTokenizer.from_pretrained(exported)(text, return_tensors="pt")
    with torch.no_grad():
        expected = torch.sigmoid(theirs(**inputs).logits)[0, 1:-1]
    ours = torch.tensor([probability for _, probability, _ in tiny_model.detect(text)])
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5, check_dtype=False)


def test_the_card_of_a_runs_model_says_how_it_was_trained(config, tmp_path):
    run = electra.pretrain(config())
    electra.export(run, tmp_path / "hf")
    for folder in (run / "model", tmp_path / "hf"):
        card = (folder / "README.md").read_text()
        assert "| objective | electra |\n| updates, tokens read | 10, 1,280 |\n" in card
        assert re.search(r"\| on held-out text \| AUC of replaced tokens 0\.\d{3} \|\n", card)


def test_other_files_next_to_a_model_are_not_those_of_its_run(tiny_folder, tmp_path):
    for name in ("config.toml", "results.json", "metrics.jsonl"):
        (tmp_path / name).write_text('other = "program"\n')
    shutil.copytree(tiny_folder, tmp_path / "model")
    electra.export(tmp_path / "model", tmp_path / "hf")
    assert "generator" in find_start(str(tmp_path / "model"), new_vocabulary=False).parts


def test_the_run_of_a_model_is_found_wherever_it_is(config, tmp_path, monkeypatch):
    run = electra.pretrain(config("objective.name=electric"))
    fsspec.filesystem("memory").put(str(run), "memory://convert/run", recursive=True)
    disk, link, bucket = tmp_path / "disk", tmp_path / "link", "memory://convert/run"
    shutil.copytree(run, disk / "run")
    (disk / "run" / "model").rename(disk / "weights")
    (disk / "run" / "model").symlink_to(disk / "weights")
    link.symlink_to(run / "model")
    monkeypatch.chdir(run / "model")
    for number, source in enumerate((".", disk / "run", link, bucket)):
        electra.export(source, tmp_path / f"hf{number}")
        assert "| objective | electric |" in (tmp_path / f"hf{number}" / "README.md").read_text(), source


def test_an_export_has_a_model_card(exported):
    card = (exported / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers")
    assert "ElectraForPreTraining" in card
    assert "generator" in card


def test_an_export_names_the_padding_of_its_vocabulary(tiny_model, tokenizer, tmp_path):
    pieces = sorted(tokenizer.backend.get_vocab(), key=tokenizer.backend.token_to_id)
    turned = wordpiece([*pieces[1:], pieces[0]])
    write_model(Pretrained(tiny_model.network, turned, tiny_model.generator), tmp_path)
    for folder in (tmp_path, tmp_path / "generator"):
        assert json.loads((folder / "config.json").read_text())["pad_token_id"] == len(pieces) - 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("weights", r"does not reproduce the model: encoder\.embeddings\.words\.weight differs"),
        ("config", "does not reproduce the model: hidden states differ by .* of the largest"),
    ],
)
def test_an_export_that_does_not_reproduce_the_model_is_not_left_behind(
    tiny_folder, tmp_path, monkeypatch, wrong, message
):
    def write_wrongly(network, folder, *others):
        words = network.encoder.embeddings.words.weight.data
        kept = words.clone()
        words[7] += wrong == "weights"
        write_network(network, folder, *others)
        words.copy_(kept)
        if wrong == "config":
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.5}))

    write_network = convert.write_network
    monkeypatch.setattr(convert, "write_network", write_wrongly)
    with pytest.raises(CheckpointError, match=message):
        electra.export(tiny_folder, tmp_path / "hf")
    assert [path.name for path in tmp_path.iterdir()] == [".hf.lock"]


def test_an_export_in_bf16_is_half_as_large_and_computes_in_float32(exported, tiny_folder, tmp_path):
    electra.export(tiny_folder, tmp_path / "half", "bf16")
    for place in (".", "generator"):
        whole, half = (folder / place / "model.safetensors" for folder in (exported, tmp_path / "half"))
        assert half.stat().st_size < 0.6 * whole.stat().st_size
    original, rounded = electra.load(tiny_folder), electra.load(tmp_path / "half")
    for ours, theirs in ((original.network, rounded.network), (original.generator, rounded.generator)):
        for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one.bfloat16().float(), other), name
    assert "rounded to bfloat16" in (tmp_path / "half" / "README.md").read_text()


def test_an_export_in_bf16_loads_in_transformers_whole(tiny_folder, tmp_path):
    electra.export(tiny_folder, tmp_path / "half", "bf16")
    for kind, folder in ((ElectraForPreTraining, tmp_path / "half"), (ElectraForMaskedLM, tmp_path / "half/generator")):
        model, report = kind.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
        assert model.dtype == torch.bfloat16


def test_an_existing_folder_is_never_overwritten(tiny_folder, tmp_path):
    (tmp_path / "precious").write_text("work")
    with pytest.raises(CheckpointError, match="already exists"):
        electra.export(tiny_folder, tmp_path)
    assert (tmp_path / "precious").read_text() == "work"


def test_what_a_killed_export_left_is_cleared(tiny_folder, tmp_path):
    (tmp_path / ".hf.partial" / "generator").mkdir(parents=True)
    (tmp_path / ".hf.partial" / "stale").write_text("half")
    electra.export(tiny_folder, tmp_path / "hf")
    assert not (tmp_path / "hf" / "stale").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hf.lock", "hf"]


def test_export_and_import_come_back_to_the_same_model(exported, tmp_path, tiny_model, tiny_config):
    electra.import_model(exported, tmp_path / "run")
    again = electra.load(tmp_path / "run")
    for ours, theirs in ((tiny_model.network, again.network), (tiny_model.generator, again.generator)):
        for (name, one), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
            assert torch.equal(one, other), name
    config = load_config(tmp_path / "run")
    assert (config.model, config.objective) == (tiny_config.model, tiny_config.objective)


def test_a_model_of_smalls_width_goes_on_with_smalls_schedule(tokenizer, tiny_config, tmp_path):
    shape = {"hidden_size": 256, "heads": 4, "layers": 1, "max_length": 512}
    network = Discriminator(build_body(tiny_config.model.model_copy(update=shape)))
    write_model(Pretrained(network, tokenizer), tmp_path / "theirs")
    electra.import_model(tmp_path / "theirs", tmp_path / "run")
    config, small = load_config(tmp_path / "run"), load_config("small")
    assert (config.train, config.objective) == (small.train, small.objective)


def test_discriminator_and_generator_can_come_from_two_folders(tiny_folder, tmp_path):
    generator = shutil.copytree(tiny_folder / "generator", tmp_path / "generator")
    alone = shutil.copytree(tiny_folder, tmp_path / "alone", ignore=shutil.ignore_patterns("generator"))
    assert electra.import_model(alone, tmp_path / "one").generator is None
    assert electra.import_model(alone, tmp_path / "two", generator=generator).generator is not None


def test_a_generator_alone_is_a_masked_lm(tiny_folder, tmp_path):
    model = electra.import_model(tiny_folder / "generator", tmp_path / "run")
    assert isinstance(model.network, MaskedLM)
    assert load_config(tmp_path / "run").objective.name == "mlm"


def test_what_is_no_generator_is_refused_as_one(tiny_folder, tmp_path):
    with pytest.raises(CheckpointError, match="is not a generator"):
        electra.import_model(tiny_folder, tmp_path / "run", generator=tiny_folder)


def test_a_generator_of_a_shape_we_do_not_train_is_refused(tiny_folder, tiny_config, tmp_path):
    shape = {"vocab_size": 74, "embedding_size": 64, "hidden_size": 64, "num_hidden_layers": 2}
    strange = ElectraForMaskedLM(
        ElectraConfig(**shape, num_attention_heads=4, intermediate_size=256, max_position_embeddings=16)
    )
    strange.save_pretrained(tmp_path / "strange")
    with pytest.raises(CheckpointError, match=r"heads 4, but would be trained with 1"):
        electra.import_model(tiny_folder, tmp_path / "run", generator=tmp_path / "strange")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("hidden_size", [40, 312, 500, 1000])
def test_a_discriminator_of_any_width_imports_with_a_usable_generator(hidden_size, tokenizer, tmp_path):
    theirs = ElectraForPreTraining(
        ElectraConfig(
            vocab_size=74, hidden_size=hidden_size, num_hidden_layers=1, num_attention_heads=4, intermediate_size=8
        )
    )
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    electra.import_model(tmp_path / "theirs", tmp_path / "run")
    assert load_config(tmp_path / "run").model.hidden_size == hidden_size


def test_an_imported_model_goes_on_at_the_length_that_it_was_trained_at(tiny_model, tmp_path):
    tiny_model.tokenizer.of_length(12).save(tmp_path / "theirs")
    write_network(tiny_model.network, tmp_path / "theirs")
    electra.import_model(tmp_path / "theirs", tmp_path / "run")
    assert load_config(tmp_path / "run/config.toml").train.length == 12


def test_an_imported_model_goes_on_with_sequences_of_full_length(tokenizer, tmp_path):
    """At any length that it takes: 100 is no multiple of the 16 that the preset `quick` begins with."""
    shape = {"hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 8}
    theirs = ElectraForPreTraining(ElectraConfig(vocab_size=74, max_position_embeddings=100, **shape))
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    electra.import_model(tmp_path / "theirs", tmp_path / "run")
    train = load_config(tmp_path / "run/config.toml").train
    assert (train.length, train.start_length, train.length_warmup_steps) == (100, None, None)
