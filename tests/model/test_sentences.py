import pytest

from electra.config.load import load_config
from electra.errors import CheckpointError
from electra.model.sentences import SentenceHead


def test_a_prompt_of_a_role_is_empty_if_the_model_has_none():
    head = SentenceHead(load_config("tiny").model, prompts={"query": "q: "})
    assert [head.prompt(name) for name in ("query", "document", None)] == ["q: ", "", ""]
    with pytest.raises(CheckpointError, match=r"^the model has no prompt 'title'; it has query$"):
        head.prompt("title")
