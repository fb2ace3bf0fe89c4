"""What the columns of a corpus hold: prompt columns say it in ``Prompt``, the others in the corpus' README."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from swapbias.declaring import Config, Corpus
from swapbias.prompts import PROMPT_COLUMNS, Prompt
from swapbias.sources import corpus_dir

SECTION = "Columns"  # of a README: a table of column, configs it is meant for, meaning
_ATTRIBUTE = re.compile(r"^        (\w+): (.*(?:\n {12}.*)*)", re.MULTILINE)
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Documented:
    """A row of a README's table; ``configs`` is blank where it is meant for all that have the column."""

    column: str
    configs: tuple[str, ...]
    meaning: str

    def fits(self, config: str) -> bool:
        """Whether it speaks of that config; a name ending in ``*`` speaks of all that begin so."""
        named = [config.startswith(one[:-1]) if one.endswith("*") else config == one for one in self.configs]
        return any(named) or not self.configs


@cache
def prompt_meanings() -> dict[str, str]:
    """The meaning of every prompt column, as the docstring of ``Prompt`` gives it.

    >>> prompt_meanings()["prompt_id"]
    'unique within a config'
    """
    said = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(Prompt.__doc__ or "")}
    return {name: said.get(name, "").rstrip(".").replace("``", "`").replace("|", "\\|") for name in PROMPT_COLUMNS}


def section(text: str, title: str) -> str:
    """The section of that title of a Markdown text, heading and all; blank where there is none."""
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def features_section(corpus: Corpus, configs: Iterable[str]) -> str:
    """Tables of column and meaning, one for all configs with the same columns and meanings.

    Raises:
        ValueError: a column that nobody says the meaning of.
    """
    text = section((corpus_dir(corpus.name) / "README.md").read_text(encoding="utf-8"), SECTION)
    told = [
        _Documented(column, tuple(re.findall(r"`([^`]+)`", names)), meaning)
        for column, names, meaning in _ROW.findall(text)
    ]
    grouped: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in configs:
        grouped.setdefault(tuple(_meanings(corpus.name, corpus.config(name), told).items()), []).append(name)
    lines = ["## Features", "", "Every column is a string."]
    for meanings, names in grouped.items():
        lines += ["", ", ".join(f"`{name}`" for name in names), "", "| column | what it holds |", "| --- | --- |"]
        lines += [f"| `{column}` | {meaning} |" for column, meaning in meanings]
    return "\n".join(lines)


def _meanings(corpus: str, config: Config, told: Iterable[_Documented]) -> Mapping[str, str]:
    prompts = prompt_meanings() if config.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS else {}
    mine = {one.column: one.meaning for one in told if one.fits(config.name)}
    for column in config.columns:
        if not (prompts.get(column) or mine.get(column)):
            raise ValueError(
                f"{corpus}/README.md: column {column!r} of config {config.name!r} has no meaning. Add a row to its "
                f"table under '## {SECTION}'."
            )
    return {column: mine.get(column) or prompts[column] for column in config.columns}
