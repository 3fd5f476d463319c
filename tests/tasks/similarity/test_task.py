import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from sentence_transformers import SentenceTransformer
from tests.tasks.similarity.conftest import scored_rows, write
from transformers import AutoModel, AutoTokenizer

import electra
from electra.config.load import load_config, load_finetune_config
from electra.errors import DataError, TaskError
from electra.model.bodies import build_body
from electra.playground.forms import answer
from electra.recipes.evaluate import evaluate, load_tuned, predict
from electra.recipes.tuning import prepare
from electra.tasks.base import Notes
from electra.tasks.batches import make_batch
from electra.tasks.build import build_task
from electra.tasks.similarity import task as module
from electra.tasks.similarity.files import Similar
from electra.tasks.similarity.passages import halves

FAST = ["epochs=5", "batch_size=24", "learning_rate=2e-3", "layer_decay=1.0", "optimizer=adamw", "max_length=12"]
TEXTS = ["the cat sat on a mat", "a dog", "the chef ate soup and then it was good"]


@pytest.fixture(scope="module")
def tuned(fresh, tmp_path_factory) -> Path:
    """A run on scored pairs, with prompts."""
    folder = tmp_path_factory.mktemp("similarity")
    write(folder / "train.csv", scored_rows(120, seed=0))
    write(folder / "dev.csv", scored_rows(60, seed=1))
    write(folder / "test.csv", [{"sentence1": "the cat", "sentence2": "a cat"}])
    prompts = ["similarity.query_prompt='the '", "similarity.passage_prompt='a '"]
    keys = [f"data={folder}", f"model={fresh}", f"out={folder / 'run'}", *FAST, *prompts]
    electra.finetune(load_finetune_config("similarity", keys))
    return folder / "run"


def gradient(task, body, head, batch, seed=0):
    torch.manual_seed(seed)
    loss = task.loss(head, task.states(body, head, batch), batch)
    return [loss, *torch.autograd.grad(loss, list(body.parameters()), allow_unused=True)]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gradient_caching_has_the_gradient_of_the_complete_batch(
    make_task, tiny_config, tokenizer, tmp_path, monkeypatch, dropout
):
    write(tmp_path / "train.csv", scored_rows(20, seed=0))
    plain, cached = (
        make_task(f"data={tmp_path / 'train.csv'}", f"similarity.chunk={size}") for size in (42 * 12, 7 * 12)
    )
    torch.manual_seed(0)
    shape = tiny_config.model.model_copy(update={"dropout": dropout, "attention_dropout": dropout})
    body = build_body(shape).train()
    head = plain.head(body)
    examples = plain.read("train", Notes())
    features = plain.features(examples, tokenizer, 12, Notes(), training=True)
    batch = make_batch(plain, features, len(features) + 2, 12, tokenizer.pad_id)
    assert plain.recordable(batch)
    assert not cached.recordable(batch)
    found = gradient(cached, body, head, batch)
    if dropout:  # the same chunks, all in memory; whole, other numbers would be dropped
        monkeypatch.setattr(module, "checkpoint", lambda encode, *inputs, use_reentrant: encode(*inputs))
        plain = cached
    for ours, expected in zip(found, gradient(plain, body, head, batch), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


CAT, DOG = "The cat sat on the mat, and it was a grey cat.", "The dog ran through the wood, and it was fast."


@pytest.mark.parametrize(
    ("text", "keys", "dropout", "said"),
    [
        (f"{CAT}\n{DOG}\n\n{DOG}\n{CAT}\n", [], None, []),
        (f"{CAT}\n{DOG}\n\n{DOG}\n{CAT}\n", ["similarity.text_pairs=dropout"], 0.1, ["4 {twice}=0.1 tells apart"]),
        (f"{CAT}\n\n{DOG}\n", [], 0.1, ["2 {twice}=0.1 tells apart"]),
        (f"{CAT}\n\n{DOG}\n", ["dropout=0.2"], 0.1, ["2 {twice}=0.2 tells apart"]),
        (f"{CAT}\n\n{DOG}\n", ["dropout=0.0"], 0.1, ["2 {nothing}: set dropout=0.1"]),
    ],
    ids=["neighbors", "asked for", "texts of one passage", "more dropout", "no dropout"],
)
def test_only_dropout_tells_a_passage_from_itself(make_task, tmp_path, text, keys, dropout, said):
    (tmp_path / "text.txt").write_text(text)
    task = make_task(f"data={tmp_path / 'text.txt'}", *keys)
    assert (task.defaults.max_length, task.defaults.dropout) == (512, dropout)
    words = {"twice": "are a passage twice, which dropout", "nothing": "are a passage twice, which nothing tells apart"}
    assert task.detected()[1:] == [line.format(**words) for line in said]
    if dropout:
        notes = Notes()
        (example, *_) = task.read("dev", notes)
        assert " ".join(example.texts) in (CAT, DOG)
        assert "texts whose halves find each other, for want of other pairs" in notes.counts


def test_a_passage_does_not_have_to_find_itself(make_task, tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{CAT} {n}\n\n" for n in range(50)) + f"{CAT}\n{DOG}\n\n{DOG}\n{CAT}\n")
    task = make_task(f"data={tmp_path / 'text.txt'}")
    assert all(set(example.texts) == {CAT, DOG} for example in task.read("dev", Notes()))
    write(tmp_path / "dev.jsonl", [{"anchor": CAT, "positive": DOG}, {"anchor": DOG, "positive": DOG}])
    notes = Notes()
    examples = make_task(f"data={tmp_path / 'text.txt'}", f"dev_file={tmp_path / 'dev.jsonl'}").read("dev", notes)
    assert [example.texts for example in examples] == [(CAT, DOG)]
    assert dict(notes.counts) == {"pairs of a text and itself, not scored": 1}
    write(tmp_path / "dev.jsonl", [{"anchor": DOG, "positive": DOG}])
    with pytest.raises(TaskError, match="itself says nothing; set dev_file to pairs of different texts"):
        make_task(f"data={tmp_path / 'text.txt'}", f"dev_file={tmp_path / 'dev.jsonl'}").read("dev", Notes())


def test_a_text_without_spaces_is_halved_between_characters():
    assert halves("one two three") == ("one two", "three")
    assert halves("\u732b\u304c\u597d\u304d") == ("\u732b\u304c", "\u597d\u304d")


def test_a_text_is_not_compared_with_itself(make_task, tmp_path):
    (tmp_path / "pairs.csv").write_text("anchor,positive\ncat,kitten\ndog,puppy\n")
    with pytest.raises(TaskError, match="the column 'anchor' is both"):
        make_task(f"data={tmp_path / 'pairs.csv'}", "table.text=anchor", "table.pair=anchor")


def test_similarity_is_learned_and_predicted(tuned, tmp_path):
    found = evaluate(tuned)
    assert found.metrics["spearman"] > 0.6  # at most about 0.75: five pairs of six have the same score
    assert found.metrics == pytest.approx(json.loads((tuned / "results.json").read_text())["median"])
    hidden = evaluate(tuned, split="test")
    assert (hidden.metrics, list(hidden.predictions[0])) == ({}, ["similarity"])
    (tmp_path / "new.txt").write_text("the cat\ta cat\ta dog\nthe chef\n")
    pair, vector = predict(tuned, tmp_path / "new.txt")
    assert pair["similarities"][0] > pair["similarities"][1]
    assert len(vector["vector"]) == 128


def test_the_folder_is_one_of_sentence_transformers(tuned, tmp_path):
    electra.export(tuned, tmp_path / "hf")
    ours = electra.load(tuned)
    for folder in (tuned / "model", tmp_path / "hf"):
        theirs = SentenceTransformer(str(folder), device="cpu")
        assert theirs.max_seq_length == 12
        np.testing.assert_allclose(ours.encode(TEXTS), theirs.encode(TEXTS), atol=1e-6)
        np.testing.assert_allclose(ours.encode(TEXTS, prompt="query"), theirs.encode_query(TEXTS), atol=1e-6)
        np.testing.assert_allclose(ours.encode(TEXTS, prompt="document"), theirs.encode_document(TEXTS), atol=1e-6)
        for texts in ("the cat", [None]):  # a string is not cut into characters
            with pytest.raises(DataError):
                ours.encode(texts, prompt="query")
        _, report = AutoModel.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
    assert "SentenceTransformer(FOLDER)" in (tmp_path / "hf" / "README.md").read_text()
    (prediction,) = load_tuned(tuned).predict([Similar(("cat", "dog"))], Notes())
    query, passage = (theirs.encode(text, prompt_name=name) for text, name in (("cat", "query"), ("dog", "document")))
    assert prediction["similarity"] == pytest.approx(float(query @ passage), abs=1e-5)


@pytest.mark.slow
def test_a_graph_has_the_vectors_of_sentence_transformers(tuned, tmp_path):
    electra.export(tuned, tmp_path / "onnx", format="onnx")
    assert not list(tmp_path.glob("onnx/*.safetensors"))  # its head has no weights
    assert 'SentenceTransformer(FOLDER, backend="onnx")' in (tmp_path / "onnx" / "README.md").read_text()
    theirs, ours = SentenceTransformer(str(tuned / "model"), device="cpu"), electra.load(tmp_path / "onnx")
    np.testing.assert_allclose(ours.encode(TEXTS, prompt="query"), theirs.encode_query(TEXTS), atol=1e-5)
    # What their backend does with the folder: its tokenizer, the graph, and the modules after the first one.
    folder = tmp_path / "onnx"
    for file in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        assert (folder / file).read_text() == (tuned / "model" / file).read_text()
    inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, truncation=True, return_tensors="pt")
    session = InferenceSession(folder / "onnx" / "model.onnx")
    states = session.run(
        ["last_hidden_state"], {given.name: inputs[given.name].numpy() for given in session.get_inputs()}
    )
    found = {"token_embeddings": torch.from_numpy(states[0]), "attention_mask": inputs["attention_mask"]}
    vectors = theirs[2](theirs[1](found))["sentence_embedding"]
    np.testing.assert_allclose(vectors, theirs.encode(TEXTS), atol=1e-5)


def test_a_model_of_sentence_transformers_is_imported_with_all_its_settings(tuned, tmp_path):
    theirs = SentenceTransformer(str(tuned / "model"), device="cpu")
    theirs[1].pooling_mode = "cls"
    del theirs[2]
    theirs.prompts, theirs.max_seq_length = {"clustering": "it was "}, 9
    theirs.default_prompt_name, theirs.similarity_fn_name = "clustering", "dot"
    theirs.save(str(tmp_path / "theirs"))
    electra.import_model(tmp_path / "theirs", tmp_path / "ours")
    again = SentenceTransformer(str(tmp_path / "ours" / "model"), device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), theirs.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(electra.load(tmp_path / "ours").encode(TEXTS[:2]), theirs.encode(TEXTS[:2]), atol=1e-5)
    assert (len(again), again.max_seq_length, again.prompts["clustering"]) == (2, 9, "it was ")
    assert (again.default_prompt_name, again.similarity_fn_name) == ("clustering", "dot")
    start = load_finetune_config("similarity", [f"data={tuned.parent}", f"model={tmp_path / 'ours'}"])
    config = prepare(start).config
    assert (config.similarity.pooling, config.max_length) == ("first", 9)
    assert prepare(start.model_copy(update={"max_length": 12})).config.max_length == 12


def test_settings_of_other_heads_are_neither_shown_nor_accepted(tuned, make_task):
    config = tomllib.loads((tuned / "config.toml").read_text())
    assert {"pooling", "head"}.isdisjoint(config)
    assert config["similarity"]["pooling"] == "mean"
    with pytest.raises(TaskError, match=r"set similarity\.pooling instead"):
        make_task(f"data={tuned.parent}", "pooling=mean")
    with pytest.raises(TaskError, match="head does not apply to sentence vectors"):
        make_task(f"data={tuned.parent}", "head=paper")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "modules.json",
            [{"type": "x.Transformer", "path": ""}, {"type": "x.Dense", "path": ""}],
            "Transformer, Dense",
        ),
        ("modules.json", {}, "not a file of sentence-transformers"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "pools by pooling_mode_max_tokens"),
        ("1_Pooling/config.json", {"include_prompt": False}, "leaves prompts out"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is not supported"),
    ],
)
def test_settings_that_would_change_the_vectors_are_refused_in_one_line(tuned, tmp_path, file, content, message):
    import shutil

    from electra.errors import CheckpointError

    folder = shutil.copytree(tuned / "model", tmp_path / "model")
    for sums in (folder / "checksums.json", folder / "1_Pooling" / "checksums.json"):
        sums.unlink()
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=message):
        electra.load(folder)


def test_the_form_finds_the_nearest_sentence(tuned):
    model = load_tuned(tuned)
    assert model.task.title == "Compare"
    html = answer(model, ["the cat was good", "a soup and soup. a cat and cat. a mat and mat."])
    assert 'class="answer" role="status">a cat and cat.<' in html
    assert html.count('scope="row"') == 3
    assert 'role="status">a dog<' in answer(model, ["the cat", "a dog"])


def test_groups_have_the_mean_number_of_negatives(make_task, tokenizer, tmp_path):
    rows = [
        {"anchor": "the cat", "positive": "a cat", "negative": ["a dog", "a mat", "a meal"]},
        {"anchor": "the dog", "positive": "a dog", "negative": ["soup"]},
        {"anchor": "the chef", "positive": "chef", "negative": []},
    ]
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "dev.jsonl", rows)
    task = make_task(f"data={tmp_path}")
    assert (task.group, task.metric) == (4, "ndcg_10")
    examples = task.read("train", Notes())
    features = task.features(examples, tokenizer, 5, Notes(), training=True)
    texts = [feature.target[0] for feature in features]
    assert [feature.example for feature in features] == [0] * 4 + [1] * 4 + [2] * 4
    assert texts == [0, 1, 2, 3, 4, 2, 5, 6, 7, 8, -1, -1]  # the third negative is in the second group, as number 6
    assert [feature.ids for feature in features[-2:]] == [[], []]
    notes = Notes()
    assert len(task.features(examples, tokenizer, 3, notes, training=False)) == 9  # different texts
    assert notes.counts["truncated texts"] == 7


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (100, None),
        (99, "different texts to find, so few that scores are high"),
        (10, "different texts to find, so few that scores are high and recall_10 is always 100"),
    ],
)
def test_a_search_among_few_texts_is_noted(make_task, tokenizer, tmp_path, count, note):
    rows = [{"question": f"who {n}", "answer": f"it is {n % count}"} for n in range(200)]
    task, notes = make_task(f"data={write(tmp_path / 'train.csv', rows)}"), Notes()
    task.features(task.read("train", Notes()), tokenizer, 12, notes, training=True)
    assert dict(notes.counts) == {}
    examples = [Similar(tuple(row.values()), ranked=True) for row in rows]
    task.features(examples, tokenizer, 12, notes, training=False)
    assert dict(notes.counts) == ({note: count} if note else {})


@pytest.mark.parametrize("packs", [False, True])
def test_an_empty_place_changes_neither_loss_nor_gradient(make_task, tokenizer, tmp_path, packs):
    rows = [{"anchor": f"the {name}", "positive": name, "negative": ["soup"]} for name in ("cat", "dog", "chef")]
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "dev.jsonl", rows)
    task, cached = (make_task(f"data={tmp_path}", f"similarity.chunk={tokens}") for tokens in (1000, 8))
    torch.manual_seed(0)
    body = build_body(load_config("modern-7x256", ["model.layers=2", "model.vocab_size=74"]).model)
    examples = [
        one._replace(texts=one.texts[: 2 + (number == 1)]) for number, one in enumerate(task.read("train", Notes()))
    ]
    features = task.features(examples, tokenizer, 8, Notes(), training=True)
    assert sum(not feature.ids for feature in features) == 2
    batch = make_batch(task, features, len(features), 8, tokenizer.pad_id, packs)
    found = gradient(task, body, task.head(body), batch)
    assert all(part is None or part.isfinite().all() for part in found)
    again = gradient(cached, body, task.head(body), batch)
    vectors = torch.nn.functional.normalize(task.states(body, task.head(body), batch), dim=-1)
    candidates = vectors[[1, 4, 7, 5]]  # three second texts and the one negative
    scores = vectors[[0, 3, 6]] @ candidates.T / 0.05
    expected = (scores.logsumexp(1) + scores[:, :3].logsumexp(0)) / 2 - scores.diagonal()
    torch.testing.assert_close(found[0], expected.mean())
    torch.testing.assert_close(again, found, rtol=1e-4, atol=1e-5)


def test_sizes_beyond_the_models_are_refused_before_texts_are_encoded(fresh, tmp_path, monkeypatch):
    write(tmp_path / "train.csv", scored_rows(20, seed=0))
    monkeypatch.setattr(module.SimilarityTask, "features", None)
    keys = [f"model={fresh}", f"data={tmp_path / 'train.csv'}", "similarity.sizes=[64,128]"]
    with pytest.raises(TaskError, match="sizes has 128, but vectors of this model have 128 numbers"):
        prepare(load_finetune_config("similarity", keys))


def test_a_task_is_made_again_from_what_a_model_knows_of_it(make_task, tmp_path):
    write(tmp_path / "train.csv", scored_rows(20, seed=0))
    task = make_task(f"data={tmp_path / 'train.csv'}")
    known = json.loads(json.dumps(task.describe()))
    again = build_task(load_finetune_config("similarity", ["data=nowhere.csv"]), known)
    assert again.describe() == task.describe()


@pytest.mark.parametrize("prompts", [[], ["similarity.query_prompt='the '"]])
def test_a_query_is_not_its_own_nearest_passage(make_task, tmp_path, prompts):
    rows = [{"anchor": "a cat", "positive": "a dog"}, {"anchor": "a dog", "positive": "a mat"}]
    write(tmp_path / "train.jsonl", rows)
    task = make_task(f"data={tmp_path / 'train.jsonl'}", f"dev_file={tmp_path / 'train.jsonl'}", *prompts)
    examples = task.read("dev", Notes())
    near = {"cat": [1.0, 0.1], "dog": [1, 0], "mat": [1, -0.2]}
    outputs = [{"vectors": np.array(near[key.split()[-1]])} for key in task._prompted(examples)]
    assert [found["ranks"] for found in task.predictions(examples, [], outputs)] == [[1], [1]]


def test_a_model_of_others_reads_no_more_than_its_longest_input(tuned, tmp_path):
    theirs = SentenceTransformer(str(tuned / "model"), device="cpu")
    theirs.max_seq_length = 5
    theirs.save(str(tmp_path / "theirs"))
    (tmp_path / "theirs" / "task.json").unlink(missing_ok=True)
    (tmp_path / "new.txt").write_text(TEXTS[2] + "\n")
    notes = Notes()
    (found,) = predict(tmp_path / "theirs", tmp_path / "new.txt", notes=notes)
    np.testing.assert_allclose(found["vector"], theirs.encode_query(TEXTS[2]), atol=1e-5)
    assert dict(notes.counts) == {"truncated texts": 1}


@pytest.mark.parametrize(("role", "prompt"), [("query", "the "), ("passage", "a ")])
def test_a_single_text_has_the_prompt_of_its_role(tuned, tmp_path, role, prompt):
    (tmp_path / "texts.txt").write_text("cat sat\n")
    (found,) = predict(tuned, str(tmp_path / "texts.txt"), [f"similarity.role={role}"])
    model = electra.load(tuned)
    named = {"query": "query", "passage": "document"}[role]
    alone = model.encode(["cat sat"], prompt=named)[0]
    assert np.allclose(found["vector"] / np.linalg.norm(found["vector"]), alone / np.linalg.norm(alone), atol=1e-5)


def test_prompts_that_leave_no_room_for_texts_are_refused(make_task, tokenizer, tmp_path):
    write(tmp_path / "train.csv", scored_rows(20, seed=0))
    task = make_task(f"data={tmp_path / 'train.csv'}", "similarity.passage_prompt='the cat sat on a mat '")
    examples = task.read("train", Notes())
    with pytest.raises(
        TaskError, match=r"similarity\.passage_prompt leave no room for texts in max_length=6; shorten it"
    ):
        task.features(examples, tokenizer, 6, Notes(), training=True)


def test_new_rows_of_which_one_column_is_no_text_are_refused(tuned, tmp_path):
    rows = [{"genre": ("drama", "comedy")[n % 2], "review": f"the cat sat on mat {n} and ate soup"} for n in range(40)]
    write(tmp_path / "reviews.csv", rows)
    with pytest.raises(TaskError, match=r"which columns hold the two texts\? set table\.text"):
        list(predict(tuned, str(tmp_path / "reviews.csv")))
    found = list(predict(tuned, str(tmp_path / "reviews.csv"), ["table.text=review"]))
    assert all("vector" in prediction for prediction in found)


def test_new_rows_with_the_columns_of_training_need_not_look_like_texts(fresh, tmp_path):
    write(tmp_path / "train.csv", [{"wanted": f"the cat {n} sat", "found": f"a cat {n} on a mat"} for n in range(30)])
    keys = [f"data={tmp_path / 'train.csv'}", f"model={fresh}", f"out={tmp_path / 'run'}", *FAST, "epochs=0.1"]
    electra.finetune(load_finetune_config("similarity", keys))
    write(tmp_path / "new.csv", [{"wanted": "cat", "found": f"a cat {n} on a mat"} for n in range(30)])
    found = list(predict(tmp_path / "run", str(tmp_path / "new.csv")))
    assert len(found) == 30
    assert all("similarity" in prediction for prediction in found)
