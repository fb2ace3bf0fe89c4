"""Every command refuses a file with an unclosed quote, which swallows the rows behind it, and
names the row."""

import re

import pytest

from tests.cli.test_cli import swapbias

OWN_NOTES = [f"She left {number}.,{number % 2},{'FM'[number % 2]}" for number in range(9)]
PAIRS = [
    f"{who} left {number}.,{group},{number}"
    for number in range(5)
    for who, group in (("She", "f"), ("He", "m"))
]
WORDS = ["she,f", "he,m", "woman,f", "man,m"]
FACTS = [f"{number},fact{number},term{number}" for number in range(4)]
SWAPS = ["she,he", "woman,man", "girl,boy"]
NOTES = ("plan", "--study", "phenotype_fairness", "-M", "data=FILE")
PROMPTS = ("plan", "vader", "--prompts", "GOOD", "--reference", "m")
CHAT = (
    "--chat",
    "m",
    "--base-url",
    "http://127.0.0.1:9/v1",
    "-M",
    "data=NOTES",
    "-M",
    "question=Is she ill?",
)
# What is read, its header and rows, the row (the header is row 1) in which a quote opens, and the command.
FILES = {
    "swap": ("text,label,gender", OWN_NOTES, ("swap", "FILE", "--out", "OUT")),
    "swap of a folder": ("text,label,gender", OWN_NOTES, ("swap", "FOLDER", "--out", "OUT")),
    "notes": ("text,label,gender", OWN_NOTES, NOTES),
    "build": (
        "text,label,gender",
        OWN_NOTES,
        ("build", "clinical_notes", "--data", "FILE", "--out", "OUT"),
    ),
    "own prompts": (
        "text,group,pair",
        PAIRS,
        ("plan", "vader", "--prompts", "FILE", "--reference", "m"),
    ),
    "study check": ("text,group,pair", PAIRS, ("study", "check", "FILE", "--reference", "m")),
    "lexicon of prompts": ("word,group", WORDS, (*PROMPTS, "-M", "lexicon=FILE")),
    "swap table": ("female,male", SWAPS, ("swap", "GOOD", "--table", "FILE", "--out", "OUT")),
    "checklist": (
        "note_id,fact,terms",
        FACTS,
        ("plan", *CHAT, "--study", "clinical_chat", "-M", "checklist=FILE"),
    ),
}


def with_open_quote(rows, at, last=False):
    """The rows with a quote that opens a cell of one and is never closed, or closed before the cell's end."""
    return [
        f'"{row[:3]}" {row[3:]}' if number == at and last else f'"{row}' if number == at else row
        for number, row in enumerate(rows)
    ]


PLACES = [
    (0, False),
    (-1, False),
    (2, True),
]  # of the opened quote, and whether it is closed before the cell's end
CASES = [(name, *PLACES[number % 3]) for number, name in enumerate(FILES)]


@pytest.mark.parametrize(
    ("name", "at", "ended"), dict.fromkeys([*CASES, *(("notes", *place) for place in PLACES)])
)
def test_open_quote(name, at, ended, tmp_path):
    """A file with an open quote is refused with the row by every command that reads it."""
    header, rows, command = FILES[name]
    at %= len(rows)
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "file.csv"
    good = tmp_path / "good.csv"
    file.write_text("\n".join([header, *with_open_quote(rows, at, ended), ""]))
    (tmp_path / "notes.csv").write_text("\n".join(["text,label,gender", *OWN_NOTES, ""]))
    good.write_text("\n".join(["text,group,pair", *PAIRS, ""]))
    places = {
        "FILE": file,
        "FOLDER": file.parent,
        "OUT": tmp_path / "out",
        "GOOD": good,
        "NOTES": tmp_path / "notes.csv",
    }
    done = swapbias(
        *(re.sub(r"\b[A-Z]{3,}\b", lambda name: str(places[name[0]]), one) for one in command)
    )
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode in (1, 2), output
    assert f"row {at + 2}" in output
    assert "quote" in output
    assert "Traceback" not in output
