"""The section of a model's README.md that says what audits found: a part for each study, between markers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swapbias.errors import quoted
from swapbias.findings import AS_PUBLISHED, Finding, by_the_judge, comparisons
from swapbias.hub import markdown as marked
from swapbias.hub.markdown import markdown, url
from swapbias.hub.performance_table import PerformanceTable, performance_part, performance_tables
from swapbias.report import text
from swapbias.scorers import LoadOptions, kinds, settable, written
from swapbias.studies import Experiment, load_corpus, load_study, of_a_part


@dataclass(frozen=True, slots=True)
class PromptsRead:
    """What an experiment of a run read.

    Attributes:
        corpus: the corpus that its prompts come from, or are made like.
        configs: the configs that were read.
        usual: they are those that the study reads by default.
        own: they were made of the user's own notes: nothing public holds them.
        rows: how many prompts there were; 0 where the manifest does not say.
        limit: the most rows of a table, where only a part was read.
        plausible: notes with terms of one gender were left out.
    """

    corpus: str
    configs: tuple[str, ...]
    usual: bool
    own: bool
    rows: int
    limit: int | None
    plausible: bool

    @property
    def whole(self) -> bool:
        """All the prompts of public configs."""
        return not self.own and self.limit is None and not self.plausible

    def deviation(self) -> str:
        """What differs from the study's own prompts, in a few words; blank where nothing does."""
        parts = [
            f"the user's own notes ({self.rows} prompts)" if self.own else "",
            f"at most {self.limit} rows of each table" if self.limit is not None else "",
            f"config {', '.join(self.configs)} in place of the usual one" if not self.usual and not self.own else "",
            "plausible notes alone" if self.plausible and not self.own else "",
        ]
        return "; ".join(part for part in parts if part)


def prompts_read(manifest: Mapping[str, Any], study: str, experiment: str) -> PromptsRead:
    """What an experiment of a run read, by the run's manifest (as it is, or as it is shared).

    Raises:
        UsageError: no such study. ValueError: no such experiment.
    """
    declared = experiment_of(study, experiment)
    corpus = declared.corpus or study
    known = {*declared.configs, *declared.alternatives}
    entries = [
        one
        for one in manifest.get("corpora", ())
        if str(one["corpus"]) == corpus and set(str(one["config"]).split(", ")) <= known
    ]
    configs = tuple(dict.fromkeys(name for one in entries for name in str(one["config"]).split(", ")))
    settings = manifest["settings"]
    part = settings.get("notes")
    notes = part if isinstance(part, Mapping) else {}
    noted = load_corpus(corpus).local is not None
    parts = [int(one["rows"]) for one in entries if one.get("of")]  # slow, and not asked for by name
    limit = settings.get("limit") or max(parts, default=None)
    return PromptsRead(
        corpus=corpus,
        configs=configs or declared.configs,
        usual=not configs or configs == declared.configs,
        own=noted and bool(notes.get("data")),
        rows=max((int(one.get("rows", 0)) for one in entries), default=0),
        limit=limit if isinstance(limit, int) and limit else None,
        plausible=noted and bool(notes.get("plausible")),
    )


def experiment_of(study: str, name: str) -> Experiment:
    """An experiment by its name.

    Raises:
        UsageError: no such study. ValueError: it has no such experiment.
    """
    for one in load_study(study).experiments:
        if one.name == name:
            return one
    raise ValueError(f"{study} has no experiment {quoted(name)}. Share the run with the version that made it.")


MACHINE: Mapping[str, tuple[str, ...]] = {  # settings that change how fast or how dear an audit is, not what it asks
    "load": ("device", "batch_size", "allow_pickle"),
    "chat": ("concurrency", "max_requests", "timeout"),
}
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[0-9a-f]{40})?", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_.:@/+=,-]+")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One headline finding."""

    experiment: str
    what: str
    where: str
    value: str
    interval: str
    p: str
    n: str
    unit: str
    direction: str
    inference: str
    published: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by its path in the model's repo, and the sentence that says what it shows."""

    path: str
    caption: str


@dataclass(frozen=True, slots=True)
class Audited:
    """What the section says of one study.

    Attributes:
        study, title, address: the study's name, title and address.
        model_id: the model's name on the Hub.
        date, version: when and with which swapbias it was measured.
        rows: the headline findings.
        prompts: what was read in place of the study's own prompts, by experiment; those that read them are not in it.
        own: notes of the user's own were read.
        command: the one that was run; blank where nobody else can.
        figure: shown below the table, if there is one.
        results_url: the full results, at a commit; blank where they are not shared.
        results_private: not everybody can open them.
        not_run: its other experiments; the manifest of the run says why they were left out.
        limits: sentences.
        performed: how well each group is served, where labels are known.
        revision: the commit there whose weights were read; blank where it is not known.
        audited_as: the name that the run has for it.
    """

    study: str
    title: str
    address: str
    model_id: str
    date: str
    version: str
    rows: tuple[AuditRow, ...]
    command: str
    prompts: tuple[tuple[str, str], ...] = ()
    own: bool = False
    figure: Figure | None = None
    results_url: str = ""
    results_private: bool = False
    not_run: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    performed: tuple[PerformanceTable, ...] = ()
    revision: str = ""
    audited_as: str = ""


def audited(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    revision: str = "",
    results_url: str = "",
    results_private: bool = False,
    figures: Mapping[str, Figure] | None = None,
) -> list[Audited]:
    """What is said of one model, study by study: the comparisons over all rows, headlines first.

    Args:
        found: findings of one model.
        manifest: the run's, as it is or as it is shared.
        model_name: its name on the Hub, which need not be the one that it was audited under.
        revision: the commit there whose weights were read.
        results_url: the full results, at a commit.
        results_private: whether only some can open them.
        figures: by study; already in the model's repo, or on their way there.

    Raises:
        ValueError: findings of several models, or no comparison among them.
    """
    models = sorted({one.model_id for one in found})
    if len(models) > 1:
        raise ValueError(f"Findings of {len(models)} models ({', '.join(models)[:200]}), expected one. Choose one.")
    shown = headline_rows(found)
    if not shown:
        raise ValueError("The run holds no comparison of two groups for this model. Audit it with another --study.")
    made, at = [], f"{model_name}@{revision}" if revision else model_name
    for study in (load_study(name) for name in dict.fromkeys(one.study for one, _ in shown)):
        rows = tuple(row for one, row in shown if one.study == study.name)
        read = {name: prompts_read(manifest, study.name, name) for name in dict.fromkeys(o.experiment for o in rows)}
        own = any(one.own for one in read.values())
        made.append(
            Audited(
                study=study.name,
                title=study.title,
                address=study.url,
                model_id=model_name,
                date=str(manifest.get("finished") or manifest.get("started") or "")[:10],
                version=str(manifest["swapbias"]),
                rows=rows,
                command="" if own else _command(at, models[0], manifest["settings"]),
                revision=revision,
                audited_as=models[0],
                prompts=tuple((name, one.deviation()) for name, one in read.items() if one.deviation()),
                own=own,
                figure=(figures or {}).get(study.name),
                results_url=results_url,
                results_private=results_private,
                not_run=tuple(
                    str(one["experiment"])
                    for one in manifest["skipped"]
                    if one["study"] == study.name and not of_a_part(one["experiment"])
                ),
                limits=study.limits,
                performed=performance_tables(found, study.name),
            )
        )
    return made


def headline_rows(found: Sequence[Finding]) -> list[tuple[Finding, AuditRow]]:
    """The comparisons over all rows, headlines first, with each paper's own interval of the same beside it.

    What a judge found comes last, and says so.
    """

    def quantity(one: Finding) -> tuple[str, ...]:
        return (one.study, one.model_id, *one.key())

    published = {quantity(one): one for one in found if one.view == AS_PUBLISHED and one.score == "score"}
    return [(one, _row(one, published.get(quantity(one)))) for one in (*comparisons(found), *by_the_judge(found))]


def _row(finding: Finding, published: Finding | None) -> AuditRow:
    estimate = finding.estimate
    return AuditRow(
        experiment=finding.experiment,
        what=text.quantity(finding),
        where=text.where(finding),
        value=text.value_of(finding),
        interval=text.interval_of(finding),
        p=text.tested(estimate),
        n=f"{estimate.n} (+{estimate.n_unscored} unscored)" if estimate.n_unscored else str(estimate.n),
        unit=finding.unit,
        direction=text.plain(finding.direction),
        inference=finding.inference,
        published=text.interval_of(published) if published else "–",
    )


def _command(model: str, audited: str, settings: Mapping[str, Any]) -> str:
    """The command that was run, with the model by its name on the Hub.

    Built of parts that mean nothing to a shell or to Markdown: the name of an option in capitals stands for another
    value. How fast or dear the audit was stands in the manifest alone.
    """
    place = model if _HUB_NAME.fullmatch(model) else "MODEL"
    parts = ["swapbias", "audit"]
    if settings.get("model"):
        parts.append(_placed(str(settings["model"]), audited, place))
    parts += [part for study in settings.get("studies") or () for part in ("--study", study)]
    for name, usual in (("kind", None), ("limit", None), ("margin", None), ("seed", 0)):
        parts += _option(name, settings.get(name), usual)
    if settings.get("wordings") is not None:
        parts.append("--wordings" if settings["wordings"] else "--no-wordings")
    every: list[type[Any]] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        chosen = settings.get(made.key) or {}
        for one, _ in settable(made):
            if one.name in chosen and one.name not in MACHINE.get(made.key, ()):
                told = chosen[one.name]
                value = _placed(told, audited, place) if one.metadata.get("place") and isinstance(told, str) else told
                if isinstance(told, list | tuple):
                    value = [_placed(str(each), audited, place) for each in told]
                parts += _option(one.metadata.get("name", one.name), value, one.default)
    return " ".join(parts)


def _placed(value: str, audited: str, model: str) -> str:
    """What an option names, with the audited model by its name on the Hub; ``NAME=`` before it stays."""
    name, equals, _ = value.partition("=")
    mine = audited.partition("+")[0]  # of an embedding, whose findings name the classifier too
    if equals:
        return f"{name}={model}" if name == mine else value
    return model if value.partition("@")[0] == mine else value


def _option(name: str, value: Any, usual: Any) -> list[str]:
    """An option of the command line as it is given; nothing where it has its usual value."""
    if value is None or value == usual:
        return []
    if isinstance(value, bool):
        return [written(name)]
    values = value if isinstance(value, list | tuple) else [value]
    known = [str(one) if _PLAIN.fullmatch(str(one)) and "base_url" not in name else name.upper() for one in values]
    return [written(name, one) for one in known]


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
    "difference on average. The 95 % interval and p hold over what the next column names, which the prompts are a "
    'sample of; "as published" is the interval of the study\'s own statistic, which takes every prompt for '
    "independent and is as a rule too narrow. p is corrected for the number of tests."
)


def part(about: Audited) -> str:
    """What is said of one study in Markdown, from its marker to its marker, without a last line end.

    Whatever comes from outside is escaped; the addresses are checked.

    Raises:
        ValueError: an address, a figure's path or a study's name that cannot stand in Markdown.
    """
    if not _STUDY.fullmatch(about.study):
        raise ValueError(f"{quoted(about.study)} is no name of a study, expected a-z, 0-9 and _. Correct it.")
    begin, end = _markers(about.study)
    texts = [
        begin,
        f"### {markdown(about.study)}: [{markdown(about.title)}]({url(about.address)})",
        _opening(about),
        "\n".join(_measured(about)),
        "\n".join(_table(about.rows)),
        performance_part(about.performed),
        _picture(about.figure),
        _results(about),
        "\n".join(["Limits:", "", *(f"- {markdown(one)}" for one in about.limits)]) if about.limits else "",
        f"Not run: {markdown(', '.join(about.not_run))}." if about.not_run else "",
        f"To repeat it, the command that was run:\n\n```bash\n{about.command}\n```" if about.command else "",
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
    at = f" at commit {about.revision}" if about.revision else ""
    other = about.audited_as if about.audited_as not in ("", about.model_id) else ""
    alike = f", audited as {markdown(other)}, which has the same weights," if other else ""
    model = f"{markdown(about.model_id)}{at}{alike}"
    measured = f"swapbias {markdown(about.version)} measured {model} on {markdown(about.date)}"
    if about.own:
        return (
            f"{measured} on notes of the user's own, treated as this study treats its notes. They are not public: "
            "only who has them can repeat it (with -M data), and no evaluation result of the model lists the numbers."
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
        instead = f" Read: {markdown(read[experiment])}." if experiment in read else ""
        lines.append(
            f"- {markdown(experiment)}, in {markdown(unit)}{f': {markdown(signs)}' if signs else ''}.{instead}"
        )
    return lines


def _table(rows: Sequence[AuditRow]) -> list[str]:
    lines = [
        "| experiment | quantity | rows | value | 95 % interval | inference | as published | p corrected | n |",
        "|---|---|---|--:|--:|---|--:|--:|--:|",
    ]
    for row in rows:
        cells = (
            row.experiment, row.what, row.where, row.value, row.interval, row.inference, row.published, row.p, row.n
        )  # fmt: skip
        lines.append(f"| {' | '.join(markdown(cell) for cell in cells)} |")
    return lines


def _picture(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if not _FIGURE.fullmatch(figure.path):
        raise ValueError(f"{quoted(figure.path)} is no path of a figure. Use letters, digits, dashes and dots.")
    return f"![{markdown(figure.caption)}]({figure.path})"


def _results(about: Audited) -> str:
    if not about.results_url:
        return ""
    closed = " (not public: ask the model's owner)" if about.results_private else ""
    return f"[Full results, with every breakdown and a report]({url(about.results_url)}){closed}."
