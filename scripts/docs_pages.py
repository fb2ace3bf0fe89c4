"""Pages of the site that are made and not written: a hook of ``mkdocs build``.

The front page is the README, a page a study and a page a measure are the cards of ``datasets_src`` and ``metrics``,
notebooks are shown with the outputs that are stored in them, and the reference is made from the code.
"""

import html
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from griffe import Extension
from mkdocs.structure.files import File
from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.errors import UpstreamMissingError
from swapbias.findings import planned_gap
from swapbias.studies import Experiment, Study, config_rows, load_study, studies

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/swapbias/swapbias/blob/main"
DOCTEST = re.compile(r"^(>>> .*(?:\n(?!\n).+)*)", re.MULTILINE)
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}  # of a terminal
CARDS = {"studies": "datasets_src", "measures": "metrics"}
OUTSIDE = re.compile(
    r"\]\((?:\.\./)*((?:benchmarks|datasets_src|metrics|swapbias)/[^)]*|[A-Z]\w*\.\w+|action\.yml)\)"
)


class Examples(Extension):
    """Doctests between paragraphs become code, as Markdown has it."""

    def on_object(self, *, obj: Any, **more: Any) -> None:
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\1\n```", obj.docstring.value)


def on_config(config: Any) -> Any:
    """A page a card, below Studies and Measures."""
    for section in config.nav:
        for room, folder in CARDS.items():
            if room.title() in section:
                section[room.title()] += [f"{room}/{card.parent.name}.md" for card in cards(folder)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the made pages; take out the notebooks themselves."""
    for uri, text in generated_pages():
        files.append(File.generated(config, uri, content=text))
    notebooks = [file for file in files if file.src_uri.endswith(".ipynb")]
    for notebook in notebooks:
        files.remove(notebook)
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Point links to files of the checkout to the repository."""
    for room, folder in CARDS.items():
        markdown = re.sub(rf"\]\(\.\./{folder}/(\w+)/README\.md\)", rf"]({room}/\1.md)", markdown)
    markdown = markdown.replace("](../README.md", "](index.md")
    return OUTSIDE.sub(rf"]({REPOSITORY}/\1)", markdown)


def generated_pages() -> Iterator[tuple[str, str]]:
    """Yield path and Markdown of each page that is made and not written."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8-sig")
    yield "index.md", readme.replace("](docs/", "](").replace(".ipynb)", ".md)")
    for room, folder in CARDS.items():
        for card in cards(folder):
            yield f"{room}/{card.parent.name}.md", body(card.read_text(encoding="utf-8-sig"))
    yield "measures.md", measures()
    yield "commands.md", commands()
    yield "choose.md", choose()
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        cells = notebook_blocks(json.loads(notebook.read_text(encoding="utf-8")))
        yield f"notebooks/{notebook.stem}.md", "\n\n".join(cells)


def cards(folder: str) -> list[Path]:
    """Return the cards in the folders of ``folder``, by name."""
    return sorted((ROOT / folder).glob("*/README.md"))


def body(card: str) -> str:
    """Return a card without its header."""
    return card.split("---\n", 2)[2].lstrip() if card.startswith("---\n") else card


def measures() -> str:
    """Return the list of measures, from the headers of their cards."""
    lines = [
        "# Measures",
        "",
        "Each is a function of `swapbias.measures` and an `evaluate` module.",
        "",
    ]
    for card in cards("metrics"):
        header = card.read_text(encoding="utf-8-sig").split("---\n", 2)[1]
        title, about = (
            re.search(rf"^{key}: (.*)$", header, re.MULTILINE) for key in ("title", "description")
        )
        lines.append(f"- [{title[1]}](measures/{card.parent.name}.md): {about[1]}")
    return "\n".join(lines) + "\n"


def choose() -> str:
    """Return the table of studies by question: what each takes and can find, as ``swapbias plan`` would say."""
    lines = [
        "# Which study answers my question?",
        "",
        "Prompts are what a model reads. Minutes are at 10 prompts a second for a model on your machine, and at 8 "
        "requests a second for a chat model that answers each prompt 5 times. The smallest gap is what an audit of "
        "this experiment alone finds in 4 of 5 runs, if the model varies as the one whose released outputs "
        "`swapbias plan` names. A dash: not known before a run, or the prompts are made of files that are fetched "
        "first.",
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
    packs = f"[`group_packs`](studies/group_packs.md) asks of people by {people}."
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


def notebook_blocks(notebook: Any) -> Iterator[str]:
    """Yield a notebook's cells and stored outputs as Markdown."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
        else:
            yield f"```python\n{source}\n```"
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "text/html" in data:
                yield f"<div>{''.join(data['text/html'])}</div>".replace("\n\n", "\n")
            else:
                yield f"<pre>{html.escape(''.join(data['text/plain']))}</pre>"
