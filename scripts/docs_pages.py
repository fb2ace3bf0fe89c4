"""Pages of the site that are made and not written: a hook of ``mkdocs build``.

The front page is the README, a page a study and a page a measure are the cards of ``datasets_src`` and ``metrics``,
notebooks are shown with the outputs that are stored in them, and the reference is made from the code.
"""

import html
import inspect
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
from swapbias.findings import Finding, planned_gap
from swapbias.measures import Estimate
from swapbias.studies import config_rows, load_study, studies

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
    for uri, text in made():
        files.append(File.generated(config, uri, content=text))
    for file in [one for one in files if one.src_uri.endswith(".ipynb")]:
        files.remove(file)
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Point links to files of the checkout to the repository."""
    for room, folder in CARDS.items():
        markdown = re.sub(rf"\]\(\.\./{folder}/(\w+)/README\.md\)", rf"]({room}/\1.md)", markdown)
    markdown = markdown.replace("](../README.md", "](index.md")
    return OUTSIDE.sub(rf"]({REPOSITORY}/\1)", markdown)


def made() -> Iterator[tuple[str, str]]:
    """Path and Markdown of each page that is made."""
    yield (
        "index.md",
        (ROOT / "README.md")
        .read_text(encoding="utf-8-sig")
        .replace("](docs/", "](")
        .replace(".ipynb)", ".md)"),
    )
    for room, folder in CARDS.items():
        for card in cards(folder):
            yield f"{room}/{card.parent.name}.md", body(card.read_text(encoding="utf-8-sig"))
    yield "measures.md", measures()
    yield "commands.md", commands()
    yield "columns.md", columns()
    yield "choose.md", choose()
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        yield (
            f"notebooks/{notebook.stem}.md",
            "\n\n".join(shown(json.loads(notebook.read_text(encoding="utf-8")))),
        )


def cards(folder: str) -> list[Path]:
    """The cards of a folder of leaves, by name."""
    return sorted((ROOT / folder).glob("*/README.md"))


def body(card: str) -> str:
    """A card without its header."""
    return card.split("---\n", 2)[2].lstrip() if card.startswith("---\n") else card


def measures() -> str:
    """The list of measures, from the headers of their cards."""
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
    """Which study answers which question: what it takes and what it can find, as ``swapbias plan`` would say."""
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
        for one in study.experiments if study.family == "study" else ():
            try:
                corpus = one.reads.notes.corpus or study.name
                rows = [
                    row
                    for name in one.reads.configs
                    for row in config_rows(corpus, name, download=False)
                ]
            except UpstreamMissingError:
                rows = []
            texts = len({row["text"] for row in rows if "text" in row})
            pace = 5 / 8 if one.kind == "chat" else 1 / 10
            gap = planned_gap(study, one, rows) if rows else math.nan
            cells = [f"{texts:,}", f"{max(1, round(texts * pace / 60))}"] if texts else ["–", "–"]
            found = "–" if math.isnan(gap) else f"{gap:.2g} {one.compares.unit.name}"
            lines.append(
                f"| {one.question} | `{study.name}:{one.name}` | {one.kind} | {' | '.join(cells)} | {found} |"
            )
    people = (
        "race, nationality, religion, sexual orientation, social class, age, disability and pronoun"
    )
    packs = f"[`group_packs`](studies/group_packs.md) asks of people by {people}."
    return "\n".join(
        [*lines, "", f"{packs} [Your own prompts](own.md) answer any other question.", ""]
    )


def commands() -> str:
    """The help of every command, and the settings of each kind of model."""
    found = [
        "# Commands, options and settings",
        "What each command takes, as `swapbias COMMAND --help` prints it.",
    ]
    for words in [*leaves(typer.main.get_command(app)), ["help", "settings"]]:
        text = (
            CliRunner()
            .invoke(
                app,
                words if words[0] == "help" else [*words, "--help"],
                env=PLAIN,
                prog_name="swapbias",
            )
            .output
        )
        found += [f"## swapbias {' '.join(words)}", f"```\n{text.strip()}\n```"]
    return "\n\n".join(found) + "\n"


def leaves(command: Any, *words: str) -> Iterator[list[str]]:
    """The words of every command below one."""
    for name, one in getattr(command, "commands", {}).items():
        yield from leaves(one, *words, name) if hasattr(one, "commands") else [[*words, name]]


def columns() -> str:
    """The columns of findings.csv, from what its records say of themselves."""
    lines = ["# Columns of findings.csv", "", "| column | meaning |", "| --- | --- |"]
    for record in (Finding, Estimate):
        said = inspect.getdoc(record).partition("Attributes:\n")[2].partition("\n\n")[0]
        for entry in re.split(r"\n(?=    \w)", said.rstrip()):
            names, _, meaning = entry.strip().partition(": ")
            shown = ", ".join(
                f"`{name}`" for name in names.split(", ") if name not in ("estimate", "published")
            )
            lines += (
                [f"| {shown} | {' '.join(meaning.split()).replace('``', '`')} |"] if shown else []
            )
    return "\n".join(lines) + "\n"


def shown(notebook: Any) -> Iterator[str]:
    """A notebook's cells and stored outputs as Markdown."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "text/html" in data:
                yield f"<div>{''.join(data['text/html'])}</div>".replace("\n\n", "\n")
            else:
                yield f"<pre>{html.escape(''.join(data['text/plain']))}</pre>"
