"""The output of `electra demo`; the recipe has its own tests."""

from pathlib import Path

from electra.cli.demo import _print
from electra.recipes.demo import Demonstration
from electra.recipes.replace import Judged

SENTENCE = [
    Judged("the", "the", 0.1),
    Judged("car", "meal", 0.9),
    Judged("cook", "cook", 0.6),
    Judged("##ed", "##ed", 0.2),
    Judged("it", "it", 0.2),
    Judged("##s", "##s", 0.2),
]
SHOWN = Demonstration(Path("runs/x"), [SENTENCE], 100, 0.75, 0.8, 0.55, 700, 300)


def test_replaced_tokens_and_false_alarms_are_marked(capsys):
    _print(SHOWN)
    assert "  the [car was:meal 0.90] cook(0.60) ##ed its\n" in capsys.readouterr().out


def test_both_accuracies_are_printed_with_the_number_of_examples(capsys):
    _print(SHOWN)
    out = capsys.readouterr().out
    assert "80.0% pre-trained, 55.0% untrained" in out
    assert "700 examples to fit, 300 to test" in out


def test_the_next_command_is_suggested(capsys):
    _print(SHOWN)
    assert "Next: electra detect runs/x" in capsys.readouterr().out
