"""Templates of pages: one HTML file without any external reference, every value from outside escaped."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from swapbias.findings import terms
from swapbias.models.chat import scoring_in_words
from swapbias.report import cautions, claims, finding_names, judge_text, meanings, numbers
from swapbias.report.charts import look
from swapbias.studies import published as paper_numbers

if TYPE_CHECKING:
    from jinja2 import Template

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def render_html(template_name: str, **values: Any) -> str:
    """Return a page of this package with its own style and script, and nothing else may run.

    Args:
        template_name: file of the template.
        values: variables of the template.
    """
    package = files("swapbias.report")
    style = package.joinpath("page.css").read_text(encoding="utf-8")
    script = package.joinpath("page.js").read_text(encoding="utf-8")
    hashes = []
    for content in (style, script):
        digest = hashlib.sha256(content.encode()).digest()
        hashes.append(base64.b64encode(digest).decode())
    template = load_template(template_name)
    return template.render(style=Markup(style), script=Markup(script), hashes=hashes, **values)


def render_part(template_name: str, **values: Any) -> str:
    """Return a part of a page for a notebook, with a style for itself alone and without scripts and links.

    Args:
        template_name: file of the template.
        values: variables of the template.
    """
    style = files("swapbias.report").joinpath("summary.css").read_text(encoding="utf-8")
    return load_template(template_name).render(style=Markup(style), **values)


@cache
def load_template(name: str) -> "Template":
    """Return a template of the report, compiled once.

    Args:
        name: file of the template.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("swapbias.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=mark_unseen,
    )
    templates.globals |= {
        "cautions": cautions,
        "claims": claims,
        "terms": terms,
        "judge_text": judge_text,
        "meanings": meanings,
        "names": finding_names,
        "numbers": numbers,
        "anchor": anchor,
        "look": look,
        "scoring_in_words": scoring_in_words,
        "PLANTED_BIAS": paper_numbers.PLANTED_BIAS,
        "PLANTED_LEAK": paper_numbers.PLANTED_LEAK,
    }
    return templates.get_template(name)


def mark_unseen(value: Any) -> Any:
    """Return a text with a mark for each control character, and for each that reverses the direction of writing.

    Args:
        value: anything; what is no text stays.
    """
    if not isinstance(value, str) or not _UNSEEN.search(value):
        return value
    return type(value)(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value))


def anchor(*names: str) -> str:
    """Return the address of a part of the page: ``gendered_stigma.rq1.noun-pair``.

    Args:
        names: names that lead to the part, from the outermost; blank ones are left out.
    """
    return ".".join(re.sub(r"[^A-Za-z0-9_]+", "-", name) for name in names if name)
