"""Errors in words of Python: no sentence of the library keeps an option of the command line."""

import ast
import re
from importlib import import_module
from threading import Event

import pytest

import swapbias
from swapbias import cli, errors
from swapbias.errors import contributed_fault
from swapbias.public_calls import in_python_words
from tests.conftest import ROOT

LEFT = re.compile(r"(?<![\w-])--[a-z]|(?<!\w)-M\b|swapbias audit --")


def sentences():
    """Every text of the library outside of the command line; what is filled in is x."""
    for path in sorted((ROOT / "swapbias").rglob("*.py")):
        if "cli" in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = [*ast.walk(tree)]
        parts = {
            id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values
        }
        for node in nodes:
            if id(node) in parts:
                continue
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value if isinstance(part, ast.Constant) else "x" for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_no_option_is_left_in_python():
    """No sentence that mentions options keeps one when it is put in the words of Python."""
    options = {
        text
        for text in sentences()
        if LEFT.search(text) and " " in text.strip() and "(?" not in text
    }
    assert len(options) > 50
    assert [text for text in options if LEFT.search(in_python_words(text))] == []


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Pass --kind masked.", "Pass kind masked."),
        ("(--limit) or --trials", "(limit) or trials"),
        ("-M scoring=sampled needs none", "scoring='sampled' needs none"),
        ("-M max-tokens=200.", "max_tokens=200."),
        ("add --study care_notes.", "add studies care_notes."),
        ("-M scorer=MODEL.", "scorer=MODEL."),
        ("-M own-store=true, else", "own_store=True, else"),
        (
            "continue with swapbias audit --resume a/b-c.d.",
            "continue with the same call and out=a/b-c.d.",
        ),
        ("a--b and x -Man", "a--b and x -Man"),
    ],
)
def test_options_become_arguments(sentence, words):
    """An option of the command line becomes the argument of the call that has its meaning."""
    assert in_python_words(sentence) == words


CALLS = {
    "a key without a model": lambda: swapbias.audit(None, "gendered_stigma:choices", trials=2),
    "two kinds": lambda: swapbias.audit("vader", kind="masked"),
    "one price": lambda: swapbias.audit(
        None, chat="m", base_url="http://localhost/v1", price_in=1.0
    ),
    "own prompts": lambda: swapbias.open_study("nowhere"),
    "notes": lambda: swapbias.load_prompts("gendered_stigma", "rq1", data="nowhere"),
    "open http": lambda: swapbias.audit(
        None, "gendered_stigma:choices", chat="m", base_url="http://gpu/v1"
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_wrong_call_names_arguments(call):
    """The error of a wrong call names arguments and no options."""
    with pytest.raises(ValueError, match=r"\.$") as raised:
        call()
    assert not LEFT.search(str(raised.value))


@pytest.mark.parametrize("name", [None, 5, b"bbq"])
def test_name_that_is_no_text(name):
    """A name that is no text is an unknown name."""
    for thing, load in (("corpus", swapbias.load_prompts), ("study", swapbias.load_study)):
        with pytest.raises(swapbias.UsageError, match=f"Unknown {thing} {name!r}: expected one"):
            load(name)


def test_bug_sentence_has_one_period(monkeypatch):
    """The sentence of a bug has one period after the message."""
    monkeypatch.setattr("swapbias.errors._reading", Event())  # no notes are read
    sentence, code = cli._sentence(TypeError("X has no unit. Set it in __init__."))
    assert code == 1
    assert sentence.startswith(
        "TypeError: X has no unit. Set it in __init__. This is a bug in swapbias."
    )


def test_fault_of_outside_code(tmp_path, monkeypatch):
    """A mistake in code from outside is placed by file and line, and its message, which may quote a
    note, is left out."""
    (tmp_path / "outer_scores.py").write_text("def score(texts):\n    return {}[texts]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("swapbias.errors._reading", Event())
    score = import_module("outer_scores").score
    with pytest.raises(KeyError) as caught:
        score("Mr Smith coughs")
    assert (
        contributed_fault(caught.value)
        == "outer_scores.py:2: KeyError: 'Mr Smith coughs'. Correct it."
    )
    errors._reading.set()
    assert contributed_fault(caught.value).startswith(
        "outer_scores.py:2: KeyError, and what it says may quote a note"
    )
