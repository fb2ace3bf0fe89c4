"""The section of a model's README.md that says what an audit found."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swapbias.cards import marked
from swapbias.cards.escaping import markdown, url
from swapbias.finding import Finding
from swapbias.report import words
from swapbias.studies import load_study

BEGIN, END = "<!-- swapbias:begin -->", "<!-- swapbias:end -->"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_WORD = re.compile(r"[a-z0-9_]+")
_FIGURE = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One headline finding, as text that is not escaped yet."""

    study: str
    experiment: str
    what: str
    where: str
    value: str
    interval: str
    p: str
    n: str
    unit: str
    direction: str
    robust: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by its path in the model's repo, and the sentence that says what it shows."""

    path: str
    caption: str


@dataclass(frozen=True, slots=True)
class Audited:
    """What the section says.

    Attributes:
        model_id: the model's name on the Hub.
        date, version: when and with which swapbias it was measured.
        rows: the headline findings.
        papers: name, title and address of each study.
        command: repeats the audit.
        figure: shown below the table, if there is one.
        results_url: the full results, at a commit; blank where they are not shared.
        results_private: not everybody can open them.
        not_run: names of what else there is; the manifest of the run says why it was left out.
        limits: sentences.
    """

    model_id: str
    date: str
    version: str
    rows: tuple[AuditRow, ...]
    papers: tuple[tuple[str, str, str], ...]
    command: str
    figure: Figure | None = None
    results_url: str = ""
    results_private: bool = False
    not_run: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def audited(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    results_url: str = "",
    results_private: bool = False,
    figure: Figure | None = None,
) -> Audited:
    """What is said of one model: the comparisons over all rows, by each study's own statistic.

    Args:
        found: findings of one model.
        manifest: the run's.
        model_name: its name on the Hub, which need not be the one that it was audited under.
        results_url: the full results, at a commit.
        results_private: whether only some can open them.
        figure: already in the model's repo, or on its way there.

    Raises:
        ValueError: findings of several models, or no comparison among them.
    """
    models = sorted({one.model_id for one in found})
    if len(models) > 1:
        raise ValueError(f"Findings of {len(models)} models ({', '.join(models)[:200]}), expected one. Choose one.")
    robust = {(one.score, *one.key(), one.study): one for one in found if one.robust}
    shown = [one for one in words.headlines(list(found)) if one.score == "score" and not one.robust]
    if not shown:
        raise ValueError("The run holds no comparison of two groups for this model. Audit it with another --study.")
    studies = [load_study(name) for name in dict.fromkeys(one.study for one in shown)]
    limit = manifest["settings"].get("limit")
    partly = (f"Only the first {limit} rows of each table were read.",) if limit else ()
    return Audited(
        model_id=model_name,
        date=str(manifest.get("finished") or manifest.get("started") or "")[:10],
        version=str(manifest["swapbias"]),
        rows=tuple(_row(one, robust.get((one.score, *one.key(), one.study))) for one in shown),
        papers=tuple((study.name, study.title, study.url) for study in studies),
        command=_command(model_name, [study.name for study in studies], manifest["settings"]),
        figure=figure,
        results_url=results_url,
        results_private=results_private,
        not_run=tuple(f"{one['study']} {one['experiment']}" for one in manifest["skipped"]),
        limits=(*partly, *dict.fromkeys(limit for study in studies for limit in study.limits)),
    )


def section(about: Audited) -> str:
    """The section in Markdown, from marker to marker, without a last line end.

    Whatever comes from outside is escaped; the addresses are checked.

    Raises:
        ValueError: an address or the figure's path that cannot stand in Markdown.
    """
    parts = [
        BEGIN,
        "## Bias audit",
        _opening(about),
        "\n".join(_measured(about)),
        "\n".join(_table(about.rows)),
        "The value and its 95 % interval are the study's own statistic. The robust interval allows for prompts that "
        "share a template or a condition; where the two differ, go by the robust one. p-values are corrected for the "
        "number of tests, where there were several.",
        _picture(about.figure),
        _results(about),
        "This is a measurement, not a ranking: values in different units cannot be compared, and a gap near zero on "
        "these prompts is no proof that the model is fair.",
        "\n".join(["Limits:", "", *(f"- {markdown(one)}" for one in about.limits)]) if about.limits else "",
        f"Not run: {markdown(', '.join(about.not_run))}." if about.not_run else "",
        f"To repeat it:\n\n```bash\n{about.command}\n```",
        END,
    ]
    return "\n\n".join(part for part in parts if part)


def with_section(readme: str, section: str) -> str:
    """The README with the section between its markers, or at its end where it has none.

    Everything outside the markers stays byte for byte. Markers count where Markdown reads them as comments, each on
    a line of its own: not in code blocks, quotes, lists, or the YAML header. Doing it twice changes nothing more.

    Args:
        readme: the whole file, its line ends as they are; blank where there is none.
        section: from marker to marker (see ``section``).

    Raises:
        ValueError: markers that make no pair, or a code block that is never closed.
    """
    return marked.replaced(readme, section, begin=BEGIN, end=END)


def without_section(readme: str) -> str:
    """The README without the section, its markers and the blank line before them; as it is where there is none.

    Raises:
        ValueError: markers that make no pair.
    """
    return marked.removed(readme, begin=BEGIN, end=END)


def _row(finding: Finding, robust: Finding | None) -> AuditRow:
    estimate, signed = finding.estimate, words.is_signed(finding)
    beside = ""
    if robust is not None and not math.isnan(robust.estimate.ci_low):
        beside = f"{words.interval(robust.estimate, signed=signed)} ({robust.robust})"
    return AuditRow(
        study=finding.study,
        experiment=finding.experiment,
        what=words.quantity(finding),
        where=words.where(finding),
        value=words.value_of(finding),
        interval=words.interval(estimate, signed=signed),
        p=words.p_value(estimate.p_value if math.isnan(estimate.p_adjusted) else estimate.p_adjusted),
        n=f"{estimate.n} (+{estimate.n_unscored} unscored)" if estimate.n_unscored else str(estimate.n),
        unit=finding.unit,
        direction=words.plain(finding.direction),
        robust=beside or "–",
    )


def _command(model: str, studies: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Built of parts that mean nothing to a shell or to Markdown; what else was chosen stands in the manifest."""
    parts = ["swapbias", "audit", model if _HUB_NAME.fullmatch(model) else "MODEL"]
    for study in studies:
        parts += ["--study", study]
    for name in ("kind", "limit", "seed"):
        value = settings.get(name)
        if value and _WORD.fullmatch(str(value)):
            parts += [f"--{name}", str(value)]
    return " ".join(parts)


def _opening(about: Audited) -> str:
    count = len(about.papers)
    return (
        f"swapbias {markdown(about.version)} measured {markdown(about.model_id)} on {markdown(about.date)} "
        f"with the prompts of {'one published study' if count == 1 else f'{count} published studies'}. Each fills "
        "templates with words for two groups and compares the model's numbers; a gap of zero means no difference "
        "on average."
    )


def _measured(about: Audited) -> list[str]:
    lines = []
    for name, title, address in about.papers:
        lines.append(f"- {markdown(name)}: [{markdown(title)}]({url(address)})")
        of_study = [row for row in about.rows if row.study == name]
        for experiment, unit in dict.fromkeys((row.experiment, row.unit) for row in of_study):
            same = [row for row in of_study if (row.experiment, row.unit) == (experiment, unit)]
            signs = "; ".join(dict.fromkeys(row.direction for row in same if row.direction))
            lines.append(f"  - {markdown(experiment)}, in {markdown(unit)}{f': {markdown(signs)}' if signs else ''}")
    return lines


def _table(rows: Sequence[AuditRow]) -> list[str]:
    lines = [
        "| study | quantity | rows | value | 95 % interval | robust interval | p | n |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = (
            f"{row.study} {row.experiment}",
            row.what,
            row.where,
            row.value,
            row.interval,
            row.robust,
            row.p,
            row.n,
        )
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
