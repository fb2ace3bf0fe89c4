"""The section of a model's README.md that says what audits found: a part for each study, between markers."""

import re
from collections.abc import Mapping, Sequence

from swapbias.cards import marked
from swapbias.cards.audited import Audited, AuditRow, Figure
from swapbias.cards.escaping import markdown, url

BEGIN, END = "<!-- swapbias:begin -->", "<!-- swapbias:end -->"
_FIGURE = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)
_STUDY = re.compile(r"[a-z0-9_]+")
_LONE = re.compile(r"^<!-- swapbias:(?:begin|end) [a-z0-9_]+ -->[ \t]*$", re.MULTILINE)
_PART = re.compile(
    r"^<!-- swapbias:begin (?P<study>[a-z0-9_]+) -->[ \t]*\n.*?^<!-- swapbias:end (?P=study) -->[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_HEADING = "## Bias audit"
_NO_RANKING = (
    "This is a measurement, not a ranking: values in different units cannot be compared, and a gap near zero on "
    "these prompts is no proof that the model is fair."
)
_READING = (
    "Each study fills templates with words for two groups and compares the model's numbers; a gap of zero means no "
    "difference on average. The value and its 95 % interval are the study's own statistic. The robust interval "
    "allows for prompts that share a template or a condition; where the two differ, go by the robust one. p-values "
    "are corrected for the number of tests, where there were several."
)


def part(about: Audited) -> str:
    """What is said of one study in Markdown, from its marker to its marker, without a last line end.

    Whatever comes from outside is escaped; the addresses are checked.

    Raises:
        ValueError: an address, a figure's path or a study's name that cannot stand in Markdown.
    """
    if not _STUDY.fullmatch(about.study):
        raise ValueError(f"{about.study[:80]!r} is no name of a study, expected a-z, 0-9 and _. Correct it.")
    begin, end = _markers(about.study)
    texts = [
        begin,
        f"### {markdown(about.study)}: [{markdown(about.title)}]({url(about.address)})",
        _opening(about),
        "\n".join(_measured(about)),
        "\n".join(_table(about.rows)),
        _picture(about.figure),
        _results(about),
        "\n".join(["Limits:", "", *(f"- {markdown(one)}" for one in about.limits)]) if about.limits else "",
        f"Not run: {markdown(', '.join(about.not_run))}." if about.not_run else "",
        f"To repeat it:\n\n```bash\n{about.command}\n```" if about.command else "",
        end,
    ]
    return "\n\n".join(text for text in texts if text)


def with_parts(readme: str, parts: Mapping[str, str], *, where: str = "README.md") -> str:
    """The README with a section that holds these parts; it goes to the end where there is none.

    Parts of other studies stay as they are, and so does everything outside the section, byte for byte. Markers count
    where Markdown reads them as comments, each on a line of its own: not in code blocks, quotes, lists, or the YAML
    header. Doing it twice changes nothing more.

    Args:
        readme: the whole file, its line ends as they are; blank where there is none.
        parts: by study (see ``part``).
        where: names the file in errors.

    Raises:
        ValueError: markers that make no pair, a section of ours without markers, or a code block that is never
            closed.
    """
    span = marked.find(readme, begin=BEGIN, end=END, where=where)
    if span is None:
        _refuse_abandoned(readme, where)
    held = {} if span is None else held_parts(readme[span.start : span.end], where)
    both = {**held, **parts}
    section = [BEGIN, _HEADING, _READING, _NO_RANKING, *(both[study] for study in sorted(both)), END]
    return marked.replaced(readme, "\n\n".join(section), begin=BEGIN, end=END, where=where)


def without_section(readme: str) -> str:
    """The README without the section, its markers and the blank line before them; as it is where there is none.

    Raises:
        ValueError: markers that make no pair.
    """
    return marked.removed(readme, begin=BEGIN, end=END)


def _markers(study: str) -> tuple[str, str]:
    return f"<!-- swapbias:begin {study} -->", f"<!-- swapbias:end {study} -->"


def held_parts(section: str, where: str) -> dict[str, str]:
    """The parts of a section by study, with plain line ends.

    Raises:
        ValueError: a marker of a study whose other one is gone.
    """
    text = re.sub(r"\r\n?", "\n", section)
    lone = _LONE.search(_PART.sub("", text))
    if lone:
        raise ValueError(
            f"{where}: in the section on bias, {lone[0].strip()} stands without the other marker of its study. Put "
            "that back, or remove this one with what belongs to it."
        )
    return {found["study"]: found[0].rstrip() for found in _PART.finditer(text)}


def _refuse_abandoned(readme: str, where: str) -> None:
    """A section that lost its markers would stand there twice, once with numbers that nobody updates."""
    if _NO_RANKING in readme and re.search(rf"^{_HEADING}[ \t]*\r?$", readme, re.MULTILINE):
        raise ValueError(
            f"{where} holds the section '{_HEADING}' of swapbias without its markers {BEGIN} and {END}. Put each "
            "back on a line of its own, before and after it, or remove the section."
        )


def _opening(about: Audited) -> str:
    measured = f"swapbias {markdown(about.version)} measured {markdown(about.model_id)} on {markdown(about.date)}"
    if about.own:
        return (
            f"{measured} on notes of the user's own, treated as this study treats its notes. They are not public: "
            "only who has them can repeat it (with --data), and the card's model-index does not list the numbers."
        )
    if about.prompts:
        return f"{measured} with prompts of this study, but not all of its usual ones, as said below."
    return f"{measured} with the prompts of this study."


def _measured(about: Audited) -> list[str]:
    lines = []
    read = dict(about.prompts)
    for experiment, unit in dict.fromkeys((row.experiment, row.unit) for row in about.rows):
        same = [row for row in about.rows if (row.experiment, row.unit) == (experiment, unit)]
        signs = "; ".join(dict.fromkeys(row.direction for row in same if row.direction))
        told = f" Read: {markdown(read[experiment])}." if experiment in read else ""
        lines.append(f"- {markdown(experiment)}, in {markdown(unit)}{f': {markdown(signs)}' if signs else ''}.{told}")
    return lines


def _table(rows: Sequence[AuditRow]) -> list[str]:
    lines = [
        "| experiment | quantity | rows | value | 95 % interval | robust interval | p | n |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = (row.experiment, row.what, row.where, row.value, row.interval, row.robust, row.p, row.n)
        lines.append(f"| {' | '.join(markdown(cell) for cell in cells)} |")
    return lines


def _picture(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if not _FIGURE.fullmatch(figure.path):
        raise ValueError(f"{figure.path[:80]!r} is no path of a figure. Use letters, digits, dashes and dots.")
    return f"![{markdown(figure.caption)}]({figure.path})"


def _results(about: Audited) -> str:
    if not about.results_url:
        return ""
    closed = " (not public: ask the model's owner)" if about.results_private else ""
    return f"[Full results, with every breakdown and a report]({url(about.results_url)}){closed}."
