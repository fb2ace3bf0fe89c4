"""The page of a metric's static Space: its card, a form that computes in the browser where that is cheap, code."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markdown_it import MarkdownIt
from markupsafe import Markup

PAGE = "index.html"
INSTALL = 'pip install "evaluate>=0.4.6" scipy'
_FIRST_CODE = re.compile(r"^## How to use\n.*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PAIRS = """predictions,groups,pair_ids
0.75,female,a
0.25,male,a
1,female,b
0.25,male,b
0.5,female,c
0.25,male,c
"""
_CLUSTERS = (
    "The interval takes {units} as independent of each other. Where they share a template or a name, "
    "compute in Python and give cluster_ids."
)


@dataclass(frozen=True, slots=True)
class Input:
    """A field of the form beside the rows."""

    name: str
    """The name of the argument of the metric."""
    label: str
    """The text above the field."""
    value: str = ""
    """The text that stands in it at first."""


@dataclass(frozen=True, slots=True)
class Calculator:
    """A form that computes a metric without clusters."""

    columns: tuple[str, ...]
    """Columns that the rows must have."""
    rows: str
    """Rows that stand in the form at first, those of the worked example; their first line names the columns."""
    note: str
    """A sentence on what the interval takes for granted."""
    inputs: tuple[Input, ...] = ()
    """Further fields."""
    optional: str = ""
    """A column that the rows may have."""


_REFERENCE = Input("reference_group", "Group that is subtracted", "male")
_PAIR_COLUMNS = ("predictions", "groups", "pair_ids")
CALCULATORS: Mapping[str, Calculator] = {
    "bias_correlation": Calculator(
        ("predictions", "references"),
        "predictions,references\n1,1\n2,3\n3,2\n4,4\n",
        "The intervals take rows as independent of each other.",
    ),
    "flip_rate": Calculator(
        _PAIR_COLUMNS,
        "predictions,groups,pair_ids\n1,female,a\n0,male,a\n1,female,b\n1,male,b\n"
        "0,female,c\n0,male,c\n1,female,d\n0,male,d\n",
        _CLUSTERS.format(units="pairs"),
        (
            _REFERENCE,
            Input("threshold", "Predictions above this number are 1 (blank: they are 0 or 1)"),
        ),
    ),
    "group_gap": Calculator(
        ("predictions", "groups"),
        "predictions,groups\n0.5,female\n0.75,female\n1,female\n0.25,male\n0.25,male\n0.25,male\n",
        _CLUSTERS.format(units="rows"),
        (_REFERENCE,),
    ),
    "paired_gap": Calculator(_PAIR_COLUMNS, _PAIRS, _CLUSTERS.format(units="pairs"), (_REFERENCE,)),
    "selection_rate": Calculator(
        ("predictions", "groups"),
        "predictions,groups\n1,female\n1,female\n0,female\n1,male\n0,male\n0,male\n",
        _CLUSTERS.format(units="candidates"),
        (Input("reference_group", "Group that ratios divide by (blank: the mean of all)"),),
        "pair_ids",
    ),
    "share_above": Calculator(
        ("predictions", "groups"),
        "predictions,groups\n0.9,stigmatized\n0.6,stigmatized\n0.5,other\n0.1,other\n",
        "The intervals take rows as independent of each other.",
        (Input("threshold", "Threshold", "0.5"),),
    ),
}


def metric_page(name: str, metadata: Mapping[str, Any], card: str) -> str:
    """Write the page of a metric: one file, which asks for nothing.

    Args:
        name: the name of the metric.
        metadata: the header of its card.
        card: the text of its card, without its header.

    Returns:
        HTML.

    Raises:
        ValueError: the card has no code under "How to use".
    """
    code = _FIRST_CODE.search(card)
    if code is None:
        raise ValueError(f"The card of {name} has no Python under 'How to use'. Write it.")
    calculator = CALCULATORS.get(name)
    names = ["metric_page.js", "metric_form.js"] if calculator else ["metric_form.js"]
    scripts = [(files("swapbias.hub") / script).read_text("utf-8") for script in names]
    script = "\n".join(scripts)
    digest = hashlib.sha256(script.encode()).digest()
    text = MarkdownIt("commonmark", {"html": False}).enable("table").render(_below_title(card))
    return _template().render(
        name=name,
        title=metadata["title"],
        description=metadata["description"],
        calculator=calculator,
        install=INSTALL,
        code=code[1].rstrip(),
        card=Markup(text),
        script=Markup(script),
        script_hash=base64.b64encode(digest).decode(),
    )


@cache
def _template() -> Template:
    """Return the template of pages, compiled once."""
    pages = Environment(
        loader=PackageLoader("swapbias.hub", ""),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
    )
    return pages.get_template("metric_page.html.j2")


def _below_title(card: str) -> str:
    """Return a card without its title and its part "How to use", which the page has above."""
    body = re.sub(r"\A\s*# .*\n", "", card)
    return re.sub(r"^## How to use\n.*?(?=^## )", "", body, flags=re.MULTILINE | re.DOTALL)
