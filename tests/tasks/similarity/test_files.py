import json

import pytest
from tests.tasks.similarity.conftest import scored_rows, write

from electra.errors import DataError, TaskError
from electra.recipes.evaluate import evaluate
from electra.tasks.base import Notes
from electra.tasks.similarity.files import Similar

PAIRS = [{"query": "the cat", "answer": "a cat"}, {"query": "the dog", "answer": "a dog"}]
NLI = [
    {"premise": "the cat sat", "hypothesis": "a cat", "label": "entailment"},
    {"premise": "the cat sat", "hypothesis": "a dog", "label": "contradiction"},
    {"premise": "the cat sat", "hypothesis": "a mat", "label": "neutral"},
    {"premise": "the chef", "hypothesis": "soup", "label": "contradiction"},
]


def read(task, split="train"):
    notes = Notes()
    return task.read(split, notes), dict(notes.counts)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_pairs_are_read_from_any_table(make_task, tmp_path, ending):
    write(tmp_path / f"train{ending}", PAIRS)
    write(tmp_path / f"dev{ending}", PAIRS[:1])
    task = make_task(f"data={tmp_path}")
    assert read(task)[0] == [Similar(("the cat", "a cat"), ranked=True), Similar(("the dog", "a dog"), ranked=True)]
    assert task.detected() == ["table.text=query table.pair=answer", "pairs of similar texts"]
    write(tmp_path / f"train{ending}", [row | {"page": 1} for row in PAIRS])
    assert make_task(f"data={tmp_path}").detected()[-1] == "not used: page"


def test_a_cell_may_hold_several_texts(make_task, tmp_path):
    rows = [{"query": "the cat", "pos": ["a cat", "cat"], "neg": ["dog", "mat"]}, {"query": "x", "pos": "y", "neg": []}]
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.jsonl", rows)
    examples = read(make_task(f"data={tmp_path}"))[0]
    assert [example.texts for example in examples] == [
        ("the cat", "a cat", "dog", "mat"),
        ("the cat", "cat", "dog", "mat"),
        ("x", "y"),
    ]


def test_columns_can_be_set_by_hand(make_task, tmp_path):
    rows = [{"title": n, "x": f"cat {n}", "y": "a dog", "z": "mat", "v": n % 3} for n in range(9)]
    write(tmp_path / "t.csv", rows)
    task = make_task(f"data={tmp_path / 't.csv'}", "table.text=x", "table.pair=y,z")
    assert read(task)[0][0] == Similar(("cat 0", "a dog", "mat"), ranked=True)
    task = make_task(f"data={tmp_path / 't.csv'}", "table.text=x", "table.pair=y", "table.label=v")
    assert (task.metric, read(task)[0][2].score) == ("spearman", 2.0)


@pytest.mark.parametrize("numbers", [False, True])
def test_different_texts_become_negatives(make_task, tmp_path, numbers):
    names = ("entailment", "neutral", "contradiction")
    rows = [row | {"label": names.index(row["label"])} for row in NLI] if numbers else NLI
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.jsonl", rows)
    task = make_task(f"data={tmp_path}")
    cat = Similar(("the cat sat", "a cat", "a dog"), ranked=True)
    alone = Similar(("the chef", "the chef", "soup"), ranked=True)
    neither = {"rows neither similar nor different, skipped": 1}
    assert read(task) == ([cat, alone], neither)
    seen = {"rows are also in the training data": 4, "texts with only different ones, not searched for": 1}
    assert read(task, "dev") == ([cat], neither | seen)


@pytest.mark.parametrize("labeled", [True, False])
def test_negatives_that_are_left_out_are_counted(make_task, tmp_path, labeled):
    pair, others = {"sentence1": "the cat", "sentence2": "a cat"}, [f"dog {n}" for n in range(10)]
    rows = [pair | {"label": 1}, *({**pair, "sentence2": other, "label": 0} for other in others)]
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.jsonl", rows if labeled else [pair | {"negatives": others}] * 2)
    examples, notes = read(make_task(f"data={tmp_path}"))
    assert examples[0].texts == ("the cat", "a cat", *others[:7])
    assert notes == {"negatives beyond 7 of an example": 3 if labeled else 6}


def test_squad_and_semeval_are_read_as_published(make_task, fresh, tmp_path):
    (tmp_path / "squad").mkdir()
    qas = [{"id": f"{n}", "question": f"{n} ate it", "answers": [{"text": "cat", "answer_start": 4}]} for n in (1, 2)]
    content = {"version": "1.1", "data": [{"title": "x", "paragraphs": [{"context": "the cat sat", "qas": qas}]}]}
    for split in ("train", "dev"):
        (tmp_path / "squad" / f"{split}-v1.1.json").write_text(json.dumps(content))
    task = make_task(f"data={tmp_path / 'squad'}")
    assert read(task)[0] == [Similar((f"{n} ate it", "the cat sat"), ranked=True, id=str(n)) for n in (1, 2)]
    (tmp_path / "sts").mkdir()
    for year in (2012, 2015):
        lines = ["4.5\tthe cat\ta cat", "\tit was\tgood", "0\tthe cat\ta dog", "1.0\tthe dog\ta mat"]
        (tmp_path / "sts" / f"{year}.x.test.tsv").write_text("\n".join(lines) + "\n")
    write(tmp_path / "train.csv", [{"a": "the cat", "b": "a cat"}, {"a": "the dog", "b": "dog"}])
    from electra.model.bodies import build_body
    from electra.model.networks import TaskNetwork
    from electra.model.pretrained import load
    from electra.model.task_model import TaskModel, write_task_model

    start = load(fresh)
    network = TaskNetwork(start.encoder, task.head(build_body(start.encoder.config)))
    write_task_model(TaskModel(network, start.tokenizer, {}), tmp_path / "model")
    found = evaluate(tmp_path / "model", [f"data={tmp_path / 'sts'}"])
    assert list(found.metrics) == ["spearman", "pearson", "spearman_2012", "spearman_2015"]
    assert (len(found.predictions), found.notes) == (6, {"rows without a score, skipped": 2})


@pytest.mark.parametrize("kind", [None, "neighbors", "titles", "dropout"])
def test_raw_text_becomes_pairs(make_task, tmp_path, kind):
    passages = [f"This is sentence number {n} of the text about cats." for n in range(8)]
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("# All about cats\n" + f" {name}\n".join(passages) + "\n")
    task = make_task(f"data={tmp_path}", *([f"similarity.text_pairs={kind}"] if kind else []))
    examples, dev = read(task)[0], [] if kind == "dropout" else read(task, "dev")[0]
    counts = {None: 8, "neighbors": 7, "titles": 1, "dropout": 8}
    assert len(examples) == counts[kind]  # one document is held out
    assert len(dev) == (0 if kind == "dropout" else counts[kind])
    pairs = [example.texts for example in examples]
    assert (("All about cats", passages[0] + f" {pairs[0][1][-1]}") in pairs) == (kind in (None, "titles"))
    assert all(one == two for one, two in pairs) == (kind == "dropout")
    assert (task.metric, task.detected()[0]) == ("ndcg_10", f"{2 * counts[kind]} pairs of passages of raw text")


def test_sentences_without_spaces_are_joined_without_them(make_task, tmp_path):
    lines = [f"猫は庭で{n}匹の鼠を見た。犬は家の中で静かに眠っていた。" for n in range(64)]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    pairs = [example.texts for example in read(make_task(f"data={tmp_path / 't.txt'}"))[0]]
    assert {text for pair in pairs for text in pair} <= set(lines)


def test_a_text_that_is_too_short_to_hold_out_a_part_is_refused(make_task, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(f"This is sentence number {n} of the text." for n in range(20)))
    with pytest.raises(TaskError, match=r"t\.txt document 1: too short to hold out a part of it; add text, or set dev"):
        make_task(f"data={tmp_path / 't.txt'}")


def test_the_last_passage_of_a_long_text_has_a_neighbor(make_task, tmp_path):
    for name in "ab":
        lines = [f"This is sentence number {n} of the text {name}." for n in range(33)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    pairs = [example.texts for example in read(make_task(f"data={tmp_path}"))[0]]
    assert len(pairs) == 32
    assert all(one != two for one, two in pairs)


def test_a_table_of_documents_is_raw_text(make_task, tmp_path):
    text = "The cat sat on the mat all day. " * 20
    write(tmp_path / "t.jsonl", [{"id": n, "text": f"{n} {text}", "url": "x"} for n in range(4)])
    write(tmp_path / "dev.jsonl", PAIRS)
    task = make_task(f"data={tmp_path / 't.jsonl'}", f"dev_file={tmp_path / 'dev.jsonl'}")
    assert all(250 > len(text) > 100 for example in read(task)[0] for text in example.texts)
    assert read(task, "dev")[0][0].texts == ("the cat", "a cat")


TEXT = "The cat sat on the mat all day. It was grey. " * 20


@pytest.mark.parametrize(
    ("others", "keys"),
    [
        (["id", "author"], ["table.text=body"]),
        (["author"], ["table.text=body"]),
        (["title"], ["table.text=body"]),  # although title and body are a usual pair
        (["id", "author"], ["similarity.text_pairs=neighbors"]),
        (["url"], []),
        (["source"], []),  # by its addresses
        (["label"], []),
        (["category"], []),  # by its name and its repeated cells
    ],
)
def test_one_column_of_a_table_is_raw_text(make_task, tmp_path, others, keys):
    cells = {"source": "https://a.b/c?d={n}", "url": "/d/{n}.html", "label": "{n}", "category": "pets"}
    rows = [{name: cells.get(name, "one {n}").format(n=n) for name in others} | {"body": f"{n} {TEXT}"} for n in "1234"]
    task = make_task(f"data={write(tmp_path / 't.csv', rows)}", *keys)
    assert task.detected()[0].endswith("pairs of passages of raw text, table.text=body")
    assert task.detected()[2:] == [f"not used: {', '.join(others)}"]
    assert all(text.startswith(("The cat", *"1234")) for example in read(task)[0] for text in example.texts)


@pytest.mark.parametrize("few", [["Lee"] * 9, ["shop", "help", "news"] * 3])
def test_a_few_values_that_repeat_are_no_second_texts_unless_they_are_set(make_task, tmp_path, few):
    rows = [{"내용": f"the cat {n}", "by": value} for n, value in enumerate(few)]
    file = write(tmp_path / "t.csv", rows)
    with pytest.raises(TaskError, match="which columns hold the two texts"):
        make_task(f"data={file}")
    assert make_task(f"data={file}", "table.pair=by").detected()[0] == "table.text='내용' table.pair=by"


FAQ = [{"question": f"who {n}", "answer": f"it is {n}", "category": "ab"[n % 2], "rating": n % 3} for n in range(9)]


def test_a_headline_and_its_article_are_a_pair(make_task, tmp_path):
    rows = [{"headline": f"cat {n}", "article": f"the cat {n}", "topic": "cats"} for n in range(4)]
    found = ["table.text=headline table.pair=article", "pairs of similar texts", "not used: topic"]
    assert make_task(f"data={write(tmp_path / 't.csv', rows)}").detected() == found


def test_a_category_is_no_score_of_pairs(make_task, tmp_path):
    rows = [{key: value for key, value in row.items() if key != "rating"} for row in FAQ]
    found = ["table.text=question table.pair=answer", "pairs of similar texts", "not used: category"]
    assert make_task(f"data={write(tmp_path / 't.csv', rows)}").detected() == found


def test_a_rating_may_be_a_score_of_pairs_and_is_asked_about(make_task, tmp_path):
    file = write(tmp_path / "t.csv", FAQ)
    texts = ["table.text=question", "table.pair=answer"]
    with pytest.raises(TaskError, match=f"set table.label=rating; if not, {' '.join(texts)}$"):
        make_task(f"data={file}")
    assert make_task(f"data={file}", *texts).detected()[1:] == ["pairs of similar texts", "not used: category, rating"]
    assert make_task(f"data={file}", "table.label=rating").detected()[1] == "pairs with a score"


def test_two_columns_are_a_pair_although_one_is_named_like_a_label(make_task, tmp_path):
    rows = [{"question": f"who {n}", "answer": f"it is {n}"} for n in range(6)] + [
        {"question": "why", "answer": "yes"}
    ] * 2
    assert make_task(f"data={write(tmp_path / 't.csv', rows)}").detected()[0].startswith("table.text=question")


def test_short_passages_are_counted_and_short_rows_kept(make_task, tmp_path):
    text = "Chapter 1\n\nThe cat sat on the mat all day.\nIt ate.\nThe dog slept in the house.\n\n"
    (tmp_path / "t.txt").write_text(text + "The chef cooked a soup.\nThe soup was very good.\n")
    examples, notes = read(task := make_task(f"data={tmp_path / 't.txt'}"))
    assert (len(examples), notes) == (1, {"passages of fewer than 20 characters, left out": 2})
    assert read(task, "dev")[1] == {"rows are held out from the training file": 1}
    rows = [{"text": f"red shoe {n}"} for n in range(20)] + [{"text": "Shoes\nbig. red."}] * 2
    dev = write(tmp_path / "dev.jsonl", PAIRS)
    examples, notes = read(make_task(f"data={write(tmp_path / 't.csv', rows)}", f"dev_file={dev}"))
    assert (len(examples), notes) == (22, {})
    assert examples[0].texts == ("red shoe 0", "red shoe 0")
    assert examples[-1].texts == ("Shoes", "big. red.")


def test_other_files_may_have_pairs_where_a_column_is_raw_text(make_task, tmp_path):
    docs = write(tmp_path / "t.csv", [{"id": n, "body": f"{n} {TEXT}"} for n in range(4)])
    dev = write(tmp_path / "pairs.jsonl", [row | {"score": n / 2} for n, row in enumerate(PAIRS)])
    keys = ["table.text=body", "similarity.text_pairs=neighbors"]
    task = make_task(f"data={docs}", f"dev_file={dev}", *keys)
    assert task.metric == "spearman"
    assert read(task, "dev")[0][1] == Similar(("the dog", "a dog"), 0.5)
    assert [example.texts for example in task.inputs(str(dev), Notes())] == [("the cat", "a cat"), ("the dog", "a dog")]


@pytest.mark.parametrize(
    ("rows", "keys", "found"),
    [
        (PAIRS, [], "table.text=query table.pair=answer"),
        (NLI, [], "table.text=premise table.pair=hypothesis table.label=label"),
        ([{"x": "a", "y": "b", "z": "c"}] * 2, ["table.text=x", "table.pair=y"], "table.text=x table.pair=y"),
    ],
)
def test_pairs_of_raw_text_are_not_made_of_files_of_pairs(make_task, tmp_path, rows, keys, found):
    file = write(tmp_path / "t.jsonl", rows)
    with pytest.raises(TaskError, match=f"line 1: similarity.text_pairs is for raw text, but found {found}; drop it"):
        make_task(f"data={file}", "similarity.text_pairs=dropout", *keys)


def test_a_column_of_pairs_may_be_called_section(make_task, tmp_path):
    rows = [{"anchor": f"the cat {n}", "positive": "a cat", "section": "x"} for n in range(4)]
    assert make_task(f"data={write(tmp_path / 't.csv', rows)}").detected()[1] == "pairs of similar texts"


@pytest.mark.parametrize("files", [["train_part.jsonl", "dev_part.jsonl"], ["text.txt", "dev.jsonl"]])
def test_a_folder_without_a_training_file_is_not_trained_on_all_its_files(make_task, tmp_path, files):
    for name in files:
        write(tmp_path / name, PAIRS)
    with pytest.raises(TaskError, match=f"no train.csv.* found {', '.join(sorted(files))}; set train_file=NAME"):
        make_task(f"data={tmp_path}")


@pytest.mark.parametrize(
    ("rows", "keys", "message"),
    [
        ([*PAIRS, {"query": " ", "answer": "x"}], [], "line 3: the text in column 'query' is empty"),
        ([row | {"label": 1} for row in PAIRS], [], "all rows have the same label in column 'label'"),
        (
            [row | {"label": word} for row, word in zip(PAIRS, "xy", strict=True)],
            [],
            "unknown label 'x' in column .*; or remove the column",
        ),
        ([row | {"label": "no"} for row in PAIRS], ["table.label=label"], "all rows have the same label"),
        (PAIRS, ["batch_size=1"], "batch_size=1 has no other pair to compare a pair with"),
        (NLI[1:], [], "no row has a label of similar texts"),
        ([row | {"score": s} for row, s in zip(PAIRS, ("1.5", "inf"), strict=True)], [], "'inf' is not a number"),
        (
            [row | {"score": s} for row, s in zip(PAIRS * 2, (3, 4.5, 0, "?"), strict=True)],
            [],
            "line 4: .* is not a number",
        ),
        ([row | {"label": s} for row, s in zip(PAIRS * 2, ("yes", "no", "no", 2), strict=True)], [], "line 4: unknown"),
        (PAIRS, ["table.pair=answr"], "no column 'answr' .table.pair.; found .*; did you mean answer"),
        ([{"x": "a", "y": "b", "z": "c"}] * 2, [], "which columns hold the two texts"),
        ([{"anchor": "a", "positive": {"x": 1}}] * 2, [], "a record instead of a text in column 'positive'"),
    ],
)
def test_invalid_rows_are_one_line(make_task, tmp_path, rows, keys, message):
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.jsonl", rows)
    with pytest.raises((TaskError, DataError), match=message) as caught:
        make_task(f"data={tmp_path}", *keys)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scores", [[2.5], [2.5, 2.5, ""], [""]])
def test_dev_scores_that_are_all_the_same_are_refused(make_task, tmp_path, scores):
    pair = {"sentence1": "the cat", "sentence2": "a cat"}
    write(tmp_path / "train.jsonl", [pair | {"score": score} for score in (0.5, 2.5, 4.5)])
    write(tmp_path / "dev.jsonl", [pair | {"score": score} for score in scores])
    with pytest.raises(TaskError, match=r"dev.jsonl line 1: fewer than two different scores in column 'score'"):
        read(make_task(f"data={tmp_path}"), "dev")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"id": 7, "text": "the cat"}, {"id": 8, "text": "soup"}], [("the cat",), ("soup",)]),
        ([{"x": "a cat", "y": "a", "z": 1}, {"x": "a", "y": "a cat", "z": 1}], [("a cat",), ("a",)]),
        ([{"x": "the cat", "y": "soup"}], [("the cat", "soup")]),
    ],
)
def test_each_row_of_a_table_is_a_text_or_several_to_compare(make_task, tmp_path, rows, expected):
    task = make_task(f"data={write(tmp_path / 'train.jsonl', PAIRS)}")
    found = task.inputs(str(write(tmp_path / "new.jsonl", rows)), Notes())
    assert [example.texts for example in found] == expected


def test_texts_are_compared_without_labels(make_task, tmp_path):
    train = write(tmp_path / "train.jsonl", [{"key": n, "x": "a cat", "y": str(n), "v": n} for n in range(4)])
    task = make_task(f"data={train}", "table.text=x", "table.pair=y", "table.label=v", "table.id=key")
    found = task.inputs(str(write(tmp_path / "new.jsonl", [{"x": "the cat", "y": "soup"}])), Notes())
    assert [example.texts for example in found] == [("the cat", "soup")]


@pytest.mark.parametrize("text", [None, "", ["the cat"]])
def test_a_text_to_encode_may_not_be_missing(make_task, tmp_path, text):
    task = make_task(f"data={write(tmp_path / 'train.jsonl', PAIRS)}")
    new = write(tmp_path / "new.jsonl", [{"text": "soup"}, {"text": text}])
    with pytest.raises(TaskError, match=r"line 2: .* in column 'text'"):
        list(task.inputs(str(new), Notes()))


def test_predictions_repeat_identifiers(make_task, tmp_path):
    task = make_task(f"data={write(tmp_path / 'train.jsonl', PAIRS)}")
    rows = [{"id": 7, "text": "soup"}, {"id": 8, "query": "soup", "answer": "a cat"}]
    assert [one.id for one in task.inputs(str(write(tmp_path / "new.jsonl", rows)), Notes())] == [7, 8]


def test_dev_scores_count_even_if_the_training_file_has_none(make_task, tmp_path):
    pairs = [{"sentence1": f"the cat {n}", "sentence2": f"a cat {n}"} for n in range(9)]
    write(tmp_path / "train.csv", pairs)
    write(tmp_path / "scored.csv", scored_rows(20, seed=0))
    write(tmp_path / "labeled.csv", [pair | {"label": n % 2} for n, pair in enumerate(pairs)])
    for name, metric, kind in (
        ("scored", "spearman", "pairs with a score"),
        ("labeled", "ndcg_10", "pairs with a label"),
    ):
        task = make_task(f"data={tmp_path / 'train.csv'}", f"dev_file={tmp_path / name}.csv")
        assert task.metric == metric
        assert task.detected()[-1].endswith(kind)
        examples = task.read("dev", Notes())
        assert all((example.score is None) == (name == "labeled") for example in examples)
    assert len(examples) == 4  # only those that are similar
    assert task.read("train", Notes())[0].score is None
