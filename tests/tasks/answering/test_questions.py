import pytest

from electra.tasks.answering.questions import Answer, Question, locate, make_question

CONTEXT = "The chef cooked. In 1912 the  Chef ate a meal, 12 in all; cooked again."


def located(text: str, start: int | None = None) -> str | None:
    span = locate(Answer(text, start), CONTEXT)
    return None if span is None else f"{span[0]}:{CONTEXT[slice(*span)]}"


def test_an_answer_stands_where_the_data_say():
    assert located("cooked", 58) == "58:cooked"
    assert located("12", 22) == "22:12"


def test_a_wrong_place_is_replaced_by_the_nearest_occurrence():
    assert located("cooked", 50) == "58:cooked"
    assert located("cooked", 3) == "9:cooked"
    assert located("cooked", 500) == "58:cooked"


def test_a_whole_word_goes_before_a_part_of_one():
    assert located("12") == "47:12"
    assert located("19") == "20:19"


def test_case_and_spaces_may_differ_if_nothing_else_is_found():
    assert located("the chef ate") == "25:the  Chef ate"
    assert located("Chef") == "30:Chef"


@pytest.mark.parametrize("text", ["soup", "", "  "])
def test_an_answer_that_is_not_in_the_context_has_no_place(text):
    assert located(text, 0) is None


def test_cells_of_a_table_make_a_question():
    assert make_question("7", "Who?", "A cat.", ["cat"]) == Question("7", "Who?", "A cat.", (Answer("cat"),))
    assert make_question("7", "Who?", "A cat.", [" "]).answers == ()
    assert make_question("7", "Who?", "A cat.", None).answers is None
