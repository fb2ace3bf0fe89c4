"""A card as one HTML page that asks for nothing, everything in it escaped; of a metric with a number line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from swapbias import __version__
from swapbias.hub import header

ANCHORS = "Anchor values"  # the section of a card that the number line is drawn from
_WIDTH, _MARGIN = 420, 8  # of the number line
_ANCHOR = re.compile(r"^\| *(\*\*)?(-?[\d.]+)(?:\*\*)? *\| *([^:|]+)", re.MULTILINE)
_AXIS = re.compile(r"^\| *([^|]+?) *\|[^\n]*\n\| *-", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mark:
    """A value on the number line; ``fair`` is the one in bold, ``x`` its place in the drawing."""

    value: str
    label: str
    x: float
    fair: bool


def split_card(card: str) -> tuple[dict[str, Any], str]:
    """A card's header and its Markdown.

    Raises:
        ValueError: there is no header.
    """
    parts = header.split(card)
    if not parts.has_header:
        raise ValueError("The card has no YAML header between two lines of '---'. Add one with title, description.")
    return header.load(parts.header, "The card"), parts.after.partition("\n")[2].strip()


def page(card: str, *, name: str, version: str) -> str:
    """The card as one HTML page without any external reference, everything in it escaped, with the number line.

    Raises:
        ValueError: no header, or no table of anchor values.
    """
    anchors = _sections(split_card(card)[1])[1].get(ANCHORS, "")
    return card_page(
        card,
        kind="Bias measure",
        version=version,
        figure=number_line(found_in(name, _AXIS, anchors), marks(name, anchors)),
    )


def card_page(card: str, *, kind: str, version: str = __version__, figure: Markup | None = None) -> str:
    """A card as one HTML page; ``figure`` stands above its anchor values.

    Raises:
        ValueError: no header.
    """
    metadata, body = split_card(card)
    intro, texts = _sections(body)
    sections = (
        Markup("<section>\n<h2>{}</h2>\n{}{}\n</section>").format(
            title, figure if figure and title == ANCHORS else "", _html(text)
        )
        for title, text in texts.items()
    )
    template = Template((files("swapbias.hub") / "card_page.html").read_text(encoding="utf-8"))
    return template.substitute(
        kind=escape(kind),
        title=escape(str(metadata["title"])),
        description=escape(str(metadata["description"])),
        version=escape(version),
        intro=_html(re.sub(r"^# .+\n", "", intro)),
        sections=Markup("\n").join(sections),
    )


def number_line(axis: str, drawn: Sequence[Mark]) -> Markup:
    """The marks on a line, each with its value and what it means; of more than two every other stands above."""
    crowded = len(drawn) > 2
    top = 0 if crowded else 34
    told = ", ".join(f"{one.value}: {one.label}" for one in drawn)
    return Markup(
        '<figure>\n<svg viewBox="0 {} {} {}" role="img" aria-label="{}">\n'
        '<line class="axis" x1="{}" y1="48" x2="{}" y2="48"></line>\n{}</svg>\n'
        "<figcaption>{}. Filled: {}.</figcaption>\n</figure>\n"
    ).format(
        top, _WIDTH, 96 - top, told, _MARGIN, _WIDTH - _MARGIN,
        Markup().join(_drawn(one, above=crowded and place % 2 == 1) for place, one in enumerate(drawn)),
        axis[:1].upper() + axis[1:], ", ".join(one.label for one in drawn if one.fair),
    )  # fmt: skip


def _drawn(one: Mark, *, above: bool) -> Markup:
    """A circle on the line, and its two words above or below, kept within the drawing."""
    anchor = "start" if one.x < 0.14 * _WIDTH and not above else "end" if one.x > 0.86 * _WIDTH else "middle"
    x = one.x + {"start": -6, "end": 6, "middle": 0}[anchor]
    fair = Markup(' class="fair"') if one.fair else ""
    return Markup(
        '<circle{} cx="{}" cy="48" r="6"></circle>\n'
        '<text class="value" x="{}" y="{}" text-anchor="{}">{}</text>\n'
        '<text x="{}" y="{}" text-anchor="{}">{}</text>\n'
    ).format(
        fair, one.x, x, 17 if above else 72, anchor, one.value, x, 32 if above else 88, anchor, one.label
    )  # fmt: skip


def _sections(body: str) -> tuple[str, dict[str, str]]:
    """What stands before the first heading of a card, and each heading with what stands below."""
    intro, *parts = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    return intro, dict(zip(parts[::2], parts[1::2], strict=True))


def _html(markdown: str) -> Markup:
    """Markdown as HTML: no tag of the text survives, nothing is fetched from elsewhere, wide tables scroll."""
    parser = MarkdownIt("js-default", {"html": False}).disable("image")
    html = parser.render(markdown)
    html = html.replace('<a href="', '<a rel="noopener" href="')  # text holds no "<": the parser escapes it
    html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Markup(html)  # safe: made by the parser, which escapes


def marks(name: str, anchors: str) -> list[Mark]:
    """The rows of a table of anchor values, each with its place on the number line.

    Raises:
        ValueError: fewer than two different values.
    """
    rows = [(bool(bold), value, label.strip()) for bold, value, label in _ANCHOR.findall(anchors)]
    values = [float(value) for _, value, _ in rows]
    if len(set(values)) < 2:
        raise ValueError(f"The card of {name} has {len(set(values))} anchor values, expected two or more. Add them.")
    low, span = min(values), max(values) - min(values)
    inner = _WIDTH - 2 * _MARGIN
    return [
        Mark(text.replace("-", "−"), label, round(_MARGIN + (value - low) / span * inner, 1), fair)
        for (fair, text, label), value in zip(rows, values, strict=True)
    ]


def found_in(name: str, pattern: re.Pattern[str], text: str) -> str:
    """The last group that a pattern has in the card of ``name``.

    Raises:
        ValueError: the card has no such part.
    """
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"The card of {name} has no part like {pattern.pattern!r}. Add it.")
    return found[found.re.groups]
