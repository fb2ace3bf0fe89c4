"""Write docs/commands.md and docs/choose.md from the code: python scripts/reference_pages.py [FOLDER]."""

import math
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.errors import UpstreamMissingError
from swapbias.findings import planned_gap
from swapbias.studies import Experiment, Study, config_rows, load_study, studies

DOCS = Path(__file__).resolve().parent.parent / "docs"
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}  # of a terminal


def choose() -> str:
    """Return the table of studies by question: what each takes and can find, as ``swapbias plan`` would say."""
    lines = [
        "# Which study answers my question?",
        "",
        "Prompts are what a model reads. Minutes assume 10 prompts a second for a model on your machine. For a chat "
        "model they assume 8 requests a second and 5 answers to each prompt. The smallest gap is what an audit of "
        "this experiment alone finds with 80 % power. It assumes that the model varies like the one that "
        "`swapbias plan` names. A dash means that the number is not known before a run, or that the prompts "
        "are made from files that must be fetched first.",
        "",
        "| question | `--study` | model | prompts | minutes | smallest gap |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for study in (load_study(name) for name in studies()):
        if study.family == "study":
            lines += [question_row(study, experiment) for experiment in study.experiments]
    people = (
        "race, nationality, religion, sexual orientation, social class, age, disability and pronoun"
    )
    packs = f"[`group_packs`](../datasets_src/group_packs/README.md) asks of people by {people}."
    return "\n".join(
        [*lines, "", f"{packs} [Your own prompts](own.md) answer any other question.", ""]
    )


def question_row(study: Study, experiment: Experiment) -> str:
    """Return the row of the table about one experiment."""
    corpus = experiment.reads.notes.corpus or study.name
    try:
        rows = [
            row
            for name in experiment.reads.configs
            for row in config_rows(corpus, name, download=False)
        ]
    except UpstreamMissingError:
        rows = []
    texts = len({row["text"] for row in rows if "text" in row})
    seconds_per_text = 5 / 8 if experiment.kind == "chat" else 1 / 10
    prompts = minutes = smallest_gap = "–"
    if texts:
        prompts = f"{texts:,}"
        minutes = f"{max(1, round(texts * seconds_per_text / 60))}"
    if rows:
        gap = planned_gap(study, experiment, rows)
        if not math.isnan(gap):
            smallest_gap = f"{gap:.2g} {experiment.compares.unit.name}"
    name = f"`{study.name}:{experiment.name}`"
    cells = [experiment.question, name, experiment.kind, prompts, minutes, smallest_gap]
    return f"| {' | '.join(cells)} |"


def commands() -> str:
    """Return the help of every command, and the settings of each kind of model."""
    sections = [
        "# Commands, options and settings",
        "What each command takes, as `swapbias COMMAND --help` prints it.",
    ]
    for words in command_words(typer.main.get_command(app)):
        sections += [f"## swapbias {' '.join(words)}", printed(*words, "--help")]
    sections += ["## swapbias help settings", printed("help", "settings")]
    return "\n\n".join(sections) + "\n"


def printed(*words: str) -> str:
    """Return what a command prints, as a block of code."""
    text = CliRunner().invoke(app, list(words), env=PLAIN, prog_name="swapbias").output
    return f"```\n{text.strip()}\n```"


def command_words(command: Any, *words: str) -> Iterator[list[str]]:
    """Yield the words of every command below one."""
    for name, below in getattr(command, "commands", {}).items():
        if hasattr(below, "commands"):
            yield from command_words(below, *words, name)
        else:
            yield [*words, name]


def write_pages(folder: Path) -> None:
    """Write both pages as a machine without fetched files has them, so that they are the same everywhere."""
    with tempfile.TemporaryDirectory() as nothing:
        os.environ |= {"SWAPBIAS_CACHE": nothing, "SWAPBIAS_UPSTREAM": nothing}
        for name, page in {"commands.md": commands, "choose.md": choose}.items():
            (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
