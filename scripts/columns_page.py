"""Write docs/columns.md, the columns of findings, from the fields: python scripts/columns_page.py."""

from collections.abc import Iterator
from pathlib import Path

from swapbias.findings import Finding
from swapbias.findings.analysis import PRIMARY_COLUMNS
from swapbias.measures import Estimate
from swapbias.studies.prompt import field_meanings
from swapbias.studies.published import Published

PAGE = Path(__file__).resolve().parent.parent / "docs" / "columns.md"
HEAD = "| column | meaning |\n| --- | --- |"
RECORDS = ("estimate", "published")  # fields that are no column: their own fields are
INTRODUCTION = """# Columns of findings

In Python `run.primary` has a row for each finding that answers a question, with the ten columns of the first table.
`run.findings` has a row for every finding, with all columns, as `findings.csv` has. All columns of the primary
findings alone are `run.findings.query("primary")`.
"""


def page() -> str:
    """Return the page."""
    meanings = dict(_meanings())
    first = {name: meanings[name] for name in PRIMARY_COLUMNS}
    others = {name: meaning for name, meaning in meanings.items() if name not in first}
    parts = [INTRODUCTION, "## Columns of run.primary\n", _table(first), ""]
    parts += ["## Further columns of run.findings and findings.csv\n", _table(others), ""]
    return "\n".join(parts)


def _meanings() -> Iterator[tuple[str, str]]:
    """Yield each column and what its field says of itself."""
    for prefix, record in (("", Finding), ("", Estimate), ("published_", Published)):
        for name, meaning in field_meanings(record).items():
            if prefix or name not in RECORDS:
                yield f"{prefix}{name}", meaning.replace("``", "`")


def _table(meanings: dict[str, str]) -> str:
    """Return the table of some columns."""
    return "\n".join([HEAD, *(f"| `{name}` | {meaning} |" for name, meaning in meanings.items())])


if __name__ == "__main__":
    PAGE.write_text(page())
