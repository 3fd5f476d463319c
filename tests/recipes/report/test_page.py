"""The page: one self-contained file."""

import json
import re

import pytest

import electra
from electra.errors import ConfigError


def test_the_page_contains_the_returned_data(make_run, tmp_path):
    data = electra.report(make_run("a"), tmp_path / "reports" / "page.html")
    page = (tmp_path / "reports" / "page.html").read_text()
    (stored,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(stored) == json.loads(json.dumps(data))


def test_data_cannot_end_the_script_element(make_run, tmp_path):
    electra.report(make_run("a"), tmp_path / "page.html")  # a sample holds </script>
    page = (tmp_path / "page.html").read_text()
    assert page.count("</script>") == 2
    assert "</script><b>" not in page


def test_the_page_has_no_external_references(make_run, make_tuned, tmp_path):
    electra.report([make_run("a"), make_tuned("b")], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    allowed = {"http://www.w3.org/2000/svg"}  # a namespace, not fetched
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"']*", page)) <= allowed
    assert not re.search(r"\bsrc\s*=|@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_a_report_of_many_long_runs_stays_under_3_mb(make_run, tmp_path):
    folders = [make_run(f"run{number}") for number in range(30)]
    lines = (folders[0] / "metrics.jsonl").read_text() * 12
    sample = json.loads((folders[0] / "samples.jsonl").read_text().splitlines()[0])
    words = {name: 10 * values if values else None for name, values in sample["samples"][0].items()}
    samples = "".join(json.dumps({"step": step, "samples": [words] * 4}) + "\n" for step in range(50))
    for folder in folders:
        (folder / "metrics.jsonl").write_text(lines)
        (folder / "samples.jsonl").write_text(samples)
    electra.report(folders, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 3_000_000


def test_configs_are_compared_by_the_keys_that_differ(make_run, make_tuned):
    runs = [make_run("a"), make_run("b", "train.learning_rate=1e-2", "seed=3"), make_tuned("c")]
    (table,) = electra.report(runs)["configs"]  # the fine-tuned run has no config
    assert (table["kind"], table["runs"]) == ("pretraining", ["a", "b"])
    assert {row["key"]: row["values"] for row in table["rows"]} == {"seed": [0, 3], "train.learning_rate": [5e-4, 1e-2]}
    assert table["rows"][1]["meaning"] == "base rate, multiplied by the schedule"


def test_the_meaning_of_a_key_is_that_of_what_was_chosen(make_run):
    runs = [make_run("a"), make_run("b", "objective.name=mlm")]
    for chosen, meaning in ((runs, "replaced token detection; masked"), (runs[1:], "masked")):
        (table,) = electra.report(chosen)["configs"]
        (row,) = (row for row in table["rows"] if row["key"] == "objective.name")
        assert row["meaning"].startswith(meaning)


def test_all_keys_of_a_single_run_are_shown(make_run):
    (table,) = electra.report(make_run("a"))["configs"]
    assert len(table["rows"]) > 40


def test_the_data_has_this_shape(make_run):
    data = electra.report(make_run("a", warning="mind the gap"))
    assert data.keys() == {"electra", "runs", "configs"}
    (run,) = data["runs"]
    assert run.keys() == {
        *("name", "folder", "kind", "config", "state", "latest", "curves", "flops_per_token", "flops_problem"),
        *("before", "cost", "environment", "warnings", "samples", "results", "verdict", "expected"),
    }
    assert run["warnings"][0]["text"] == "mind the gap"


def test_a_folder_is_refused_as_the_page(make_run, tmp_path):
    with pytest.raises(ConfigError, match=r"is a folder; give a file name, such as .*report\.html"):
        electra.report(make_run("a"), tmp_path)


def test_an_empty_list_of_runs_is_refused():
    with pytest.raises(ConfigError, match="no runs to report"):
        electra.report([])


def test_a_real_run_can_be_reported(config, tmp_path):
    run = electra.pretrain(config())
    (found,) = electra.report(run, tmp_path / "page.html")["runs"]
    assert found["state"]["finished"]
    assert [record["step"] for record in found["samples"]] == [0, 5, 10]
    texts = [[sample["original"] for sample in record["samples"]] for record in found["samples"]]
    assert texts[0] == texts[1] == texts[2]
    assert found["environment"][0]["device"].startswith("CPU")
    assert found["cost"]["flops"] > 0
