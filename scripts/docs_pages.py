"""Pages of the site that are made and not written: a hook of ``mkdocs build``.

The front page is the README, a page a study and a page a measure are the cards of ``datasets_src`` and ``metrics``,
notebooks are shown with the outputs that are stored in them, and the reference is made from the code.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/swapbias/swapbias/blob/main"
DOCTEST = re.compile(r"^(>>> .*(?:\n(?!\n).+)*)", re.MULTILINE)
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
