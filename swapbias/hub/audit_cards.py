"""What cards of models and of results repositories say of audits, between markers; all else is their owner's."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from swapbias.errors import quoted
from swapbias.findings import AS_PUBLISHED, Finding, by_the_judge, comparisons
from swapbias.hub import cards
from swapbias.hub.cards import load, markdown, md_table, split, url, with_keys
from swapbias.measures import DIFFERENCES
from swapbias.models import LoadOptions, kinds, settable, written
from swapbias.report import text as wording
from swapbias.studies import Experiment, corpora, load_corpus, load_study, of_a_part

Row = dict[str, str]  # of a table: cells by the title of their column
_COLUMNS = (
    "experiment",
    "quantity",
    "rows",
    "value",
    "95 % interval",
    "inference",
    "as published",
    "p corrected",
    "n",
)
EQUALISED_ODDS = "equalised_odds_difference"
_QUANTITIES = (  # title, of each group, difference
    ("flips when the group is swapped", "", "flip_rate"),
    ("TPR", "tpr", DIFFERENCES["tpr"]),
    ("FPR", "fpr", DIFFERENCES["fpr"]),
    ("equalised odds: larger of both", "", EQUALISED_ODDS),
    ("PPV", "ppv", DIFFERENCES["ppv"]),
    ("called positive: demographic parity", "selection_rate", DIFFERENCES["selection_rate"]),
    ("AUROC", "auroc", DIFFERENCES["auroc"]),
    ("calibration slope", "calibration_slope", DIFFERENCES["calibration_slope"]),
    ("calibration error (ECE)", "ece", ""),
)
_PERFORMANCE = (
    "Performance by the patient's own group, in the notes as they were written, beside how often the answer flips "
    "when the words for the patient are swapped. Each value has its 95 % interval {over}. Notes about {two} differ "
    "in more than words, so that a difference of performance may lie in the notes; a flip lies in the model."
)


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
    declared = next((one for one in load_study(study).experiments if one.name == experiment), None)
    if declared is None:
        raise ValueError(
            f"{study} has no experiment {quoted(experiment)}. Share the run with the version that made it."
        )
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


MACHINE: Mapping[str, tuple[str, ...]] = {  # settings that change how fast or how dear an audit is, not what it asks
    "load": ("device", "batch_size", "allow_pickle"),
    "chat": ("concurrency", "max_requests", "timeout"),
}
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[0-9a-f]{40})?", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_.:@/+=,-]+")
BEGIN, END = "<!-- swapbias:begin -->", "<!-- swapbias:end -->"
_FIGURE = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)
_LONE = re.compile(r"^<!-- swapbias:(?:begin|end) [a-z0-9_]+ -->[ \t]*$", re.MULTILINE)
_PART = re.compile(
    r"^<!-- swapbias:begin (?P<study>[a-z0-9_]+) -->[ \t]*\n.*?^<!-- swapbias:end (?P=study) -->[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by its path in the model's repo, and the sentence that says what it shows."""

    path: str
    caption: str


def study_parts(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    revision: str = "",
    results_url: str = "",
    results_private: bool = False,
    figures: Mapping[str, Figure] | None = None,
) -> dict[str, str]:
    """What is said of one model by study, in Markdown from marker to marker: the comparisons over all rows.

    Whatever comes from outside is escaped; the addresses are checked.

    Args:
        found: findings of one model.
        manifest: the run's, as it is or as it is shared.
        model_name: its name on the Hub, which need not be the one that it was audited under.
        revision: the commit there whose weights were read.
        results_url: the full results, at a commit; blank where they are not shared.
        results_private: not everybody can open them.
        figures: by study; already in the model's repo, or on their way there.

    Raises:
        ValueError: findings of several models, or no comparison among them; an address, or a path of a figure, that
            cannot stand in Markdown.
    """
    models = sorted({one.model_id for one in found})
    if len(models) > 1:
        raise ValueError(f"Findings of {len(models)} models ({', '.join(models)[:200]}), expected one. Choose one.")
    shown = headline_rows(found)
    if not shown:
        raise ValueError("The run holds no comparison of two groups for this model. Audit it with another --study.")
    same_weights = (
        f", audited as {markdown(models[0])}, which has the same weights," if models[0] != model_name else ""
    )
    measured = (
        f"swapbias {markdown(str(manifest['swapbias']))} measured {markdown(model_name)}"
        f"{f' at commit {revision}' if revision else ''}{same_weights} on {markdown(_date(manifest))}"
    )
    made = {}
    for study in (load_study(name) for name in dict.fromkeys(one.study for one, _ in shown)):
        rows = [(one, row) for one, row in shown if one.study == study.name]
        read = {one.experiment: prompts_read(manifest, study.name, one.experiment) for one, _ in rows}
        own = any(one.own for one in read.values())
        at = f"{model_name}@{revision}" if revision else model_name
        not_run = [
            str(one["experiment"])
            for one in manifest["skipped"]
            if one["study"] == study.name and not of_a_part(one["experiment"])
        ]
        closed = " (not public: ask the model's owner)" if results_private else ""
        begin, end = f"<!-- swapbias:begin {study.name} -->", f"<!-- swapbias:end {study.name} -->"
        texts = [
            begin,
            f"### {markdown(study.name)}: [{markdown(study.title)}]({url(study.url)})",
            f"{measured} {_which_prompts(read)}",
            "\n".join(_units(rows, read)),
            _table(_COLUMNS, [row for _, row in rows], numbers=6),
            performance_part(found, study.name),
            _picture((figures or {}).get(study.name)),
            f"[Full results, with every breakdown and a report]({url(results_url)}){closed}." if results_url else "",
            "\n".join(["Limits:", "", *(f"- {markdown(one)}" for one in study.limits)]) if study.limits else "",
            f"Not run: {markdown(', '.join(not_run))}." if not_run else "",
            ""
            if own
            else f"To repeat it, the command that was run:\n\n```bash\n"
            f"{_command(at, models[0], manifest['settings'])}\n```",
            end,
        ]
        made[study.name] = "\n\n".join(text for text in texts if text)
    return made


def _date(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("finished") or manifest.get("started") or "")[:10]


def _which_prompts(read: Mapping[str, PromptsRead]) -> str:
    if any(one.own for one in read.values()):
        return (
            "on notes of the user's own, treated as this study treats its notes. They are not public: "
            "only who has them can repeat it (with -M data), and no evaluation result of the model lists the numbers."
        )
    if any(one.deviation() for one in read.values()):
        return "with prompts of this study, but not all of its usual ones, as said below."
    return "with the prompts of this study."


def _units(rows: Sequence[tuple[Finding, Row]], read: Mapping[str, PromptsRead]) -> Iterator[str]:
    for experiment, unit in dict.fromkeys((one.experiment, one.unit) for one, _ in rows):
        same = [one for one, _ in rows if (one.experiment, one.unit) == (experiment, unit)]
        signs = "; ".join(dict.fromkeys(wording.plain(one.direction) for one in same if one.direction))
        other = read[experiment].deviation()
        instead = f" Read: {markdown(other)}." if other else ""
        yield f"- {markdown(experiment)}, in {markdown(unit)}{f': {markdown(signs)}' if signs else ''}.{instead}"


def _picture(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if not _FIGURE.fullmatch(figure.path):
        raise ValueError(f"{quoted(figure.path)} is no path of a figure. Use letters, digits, dashes and dots.")
    return f"![{markdown(figure.caption)}]({figure.path})"


def headline_rows(found: Sequence[Finding]) -> list[tuple[Finding, Row]]:
    """The comparisons over all rows, headlines first, with each paper's own interval of the same beside it.

    What a judge found comes last, and says so.
    """

    def quantity(one: Finding) -> tuple[str, ...]:
        return (one.study, one.model_id, *one.key())

    published = {quantity(one): one for one in found if one.view == AS_PUBLISHED and one.score == "score"}
    return [(one, _row(one, published.get(quantity(one)))) for one in (*comparisons(found), *by_the_judge(found))]


def _row(finding: Finding, published: Finding | None) -> Row:
    estimate = finding.estimate
    return {
        "experiment": finding.experiment,
        "quantity": wording.quantity(finding),
        "rows": wording.where(finding),
        "value": wording.value_of(finding),
        "95 % interval": wording.interval_of(finding),
        "inference": finding.inference,
        "as published": wording.interval_of(published) if published else "–",
        "p corrected": wording.tested(estimate),
        "n": f"{estimate.n} (+{estimate.n_unscored} unscored)" if estimate.n_unscored else str(estimate.n),
    }


def _table(titles: Sequence[str], rows: Iterable[Row], *, numbers: int) -> str:
    cells = [[markdown(row[title]) for title in titles] for row in rows]
    return md_table(list(map(markdown, titles)), cells, numbers=numbers)


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
                raw = chosen[one.name]
                value = _placed(raw, audited, place) if one.metadata.get("place") and isinstance(raw, str) else raw
                if isinstance(raw, list | tuple):
                    value = [_placed(str(each), audited, place) for each in raw]
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


def performance_part(found: Sequence[Finding], study: str) -> str:
    """Tables of how well each group is served, of each experiment that tells it; of training notes, the headline's.

    Blank where no experiment of the study tells performance by group.
    """
    made = []
    for one in load_study(study).experiments:
        mine = [
            each
            for each in found
            if (each.study, each.experiment, each.score, each.view) == (study, one.name, "score", "")
        ]
        performed = [each for each in mine if each.measure == EQUALISED_ODDS]
        performed = [each for each in performed if each.subset == one.headline_subset] or performed
        if performed:
            made.append(_performance_table(one, mine, performed))
    return "\n\n".join(made)


def _performance_table(experiment: Experiment, found: Sequence[Finding], performed: Sequence[Finding]) -> str:
    sides = (experiment.group, experiment.reference_group)
    first, second = (wording.group_name(experiment, side) for side in sides)
    rows: list[tuple[str, ...]] = []
    places = list(dict.fromkeys((one.slice_by, one.slice_value, one.subset) for one in performed))
    sliced = [place for place in places if place[0] != "all"]  # by phenotype, never pooled over them
    for place in sliced or places:
        cells = {
            (one.measure, one.contrast if one.contrast in sides else ""): one
            for one in found
            if (one.slice_by, one.slice_value, one.subset) == place
        }
        for title, level, difference in _QUANTITIES:
            both = [cells.get((level, side)) for side in sides]
            gap = cells.get((difference, ""))
            if any(both) or gap:
                where = wording.value_name(place[1]) if place[1] else "all notes"
                tested = wording.tested(gap.estimate) if gap else ""
                rows.append((where, title, *map(_value, both), _value(gap), tested))
    how = _PERFORMANCE.format(over=performed[0].inference, two=f"{first} and {second}")
    titles = (experiment.name, "quantity", first, second, f"{first} − {second}, or of all", "p corrected")
    return f"{markdown(how)}\n\n{_table(titles, [dict(zip(titles, row, strict=True)) for row in rows], numbers=4)}"


def _value(one: Finding | None) -> str:
    if one is None:
        return ""
    interval = wording.interval_of(one)
    return f"{wording.value_of(one)} ({interval})" if interval != "–" else wording.value_of(one)


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
    span = cards.find(readme, begin=BEGIN, end=END, where=where)
    if span is None:
        _refuse_abandoned(readme, where)
    present = {} if span is None else section_parts(readme[span.start : span.end], where)
    both = {**present, **parts}
    section = [BEGIN, _HEADING, _READING, _NO_RANKING, *(both[study] for study in sorted(both)), END]
    return cards.replaced(readme, "\n\n".join(section), begin=BEGIN, end=END, where=where)


def section_parts(section: str, where: str) -> dict[str, str]:
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


# --- the card of a results repository ----

FINDINGS = "findings"  # the config of every run's findings
RESULTS_BEGIN, RESULTS_END = "<!-- swapbias:begin results -->", "<!-- swapbias:end results -->"
_TAGS = ("bias", "fairness", "swapbias")
_RUN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")  # of a run: a folder, and part of a config's name
_RUN_COLUMNS = (
    "model", "quantity", "rows", "inference", "value", "95 % interval", "as published", "p corrected", "n",
)  # fmt: skip
_REPO = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class SharedRun(Protocol):
    """A run in the repository: the name of its folder, its public manifest and what it found."""

    @property
    def name(self) -> str:
        """The folder's name below ``runs``."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """As ``public_manifest`` makes it."""

    @property
    def found(self) -> Sequence[Finding]:
        """Every finding."""


def results_card(
    repo: str, runs: Iterable[SharedRun], items: Mapping[str, Sequence[str]], *, existing: str = ""
) -> str:
    """The README of a results repository, the same for the same runs in any order.

    What its owner wrote stays byte for byte: everything outside the markers, and every key of the header but
    ``configs``, ``tags`` (to which ours are added) and ``pretty_name`` (where there is none).

    Args:
        repo: ``owner/name``.
        runs: every run that the repository will hold.
        items: by the name of a run, the studies whose scored prompts are there as well.
        existing: the README that is there; blank for none.

    Raises:
        ValueError: a name of a repository or of a run that cannot be one, or a README that cannot be added to.
    """
    where = f"{repo}/README.md"
    ordered = sorted(runs, key=lambda run: run.name)
    if not _REPO.fullmatch(repo):
        raise ValueError(f"{repo!r} is no name of a repository, expected OWNER/NAME. Correct it.")
    for run in ordered:
        if not is_run_name(run.name):
            raise ValueError(f"{run.name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename it.")
    paths = {FINDINGS: "runs/*/findings.parquet"}  # by the name of a config
    for run in ordered:
        for study in sorted(items.get(run.name, ())):
            paths[f"{run.name}-{study}"] = f"runs/{run.name}/items/{study}.parquet"
    studies = [load_study(name) for name in sorted({one.study for run in ordered for one in run.found})]
    section = _RESULTS.format(
        repo=markdown(repo),
        runs=_runs_table(ordered),
        load="\n".join(
            f'{variable} = load_dataset("{repo}", "{config}", split="train")'
            for variable, config in zip(("findings", "prompts"), paths, strict=False)
        ),
        headlines="\n\n".join(part for run in ordered for part in _headlines(run)),
        limits="\n\n".join(
            "\n".join([f"### {markdown(study.name)}", "", *(f"- {markdown(limit)}" for limit in study.limits)])
            for study in studies
        ),
        licences=_licences(ordered),
        cited="\n".join(f"- {markdown(study.title)}: <{url(study.url)}>" for study in studies),
    )
    card = cards.replaced(existing, section, begin=RESULTS_BEGIN, end=RESULTS_END, where=where)
    return _with_header(repo, card, paths, where)


_RESULTS = f"""{RESULTS_BEGIN}

# Bias audits in {{repo}}

Results of [swapbias](https://github.com/swapbias/swapbias): it fills templates, swaps one slot (a woman for a man,
one diagnosis for another) and compares the model's numbers. Every row is a measurement on fixed prompts. Nothing here
ranks models, and a gap near zero does not prove that a model is fair.

{{runs}}

## Load

```python
from datasets import load_dataset

{{load}}
```

`findings` holds every run's findings, one row each, with its unit, its sign convention and its n; an empty cell is a
number that is not defined. Each run has its scored prompts in a config of its own, if they were shared. Beside them
stand in `runs/<run>` the report, the figures and the manifest (settings, models and versions, hashes of the prompts).
To pin what you read, give `revision=` with a commit.

## Headline findings

By run in alphabetical order, which ranks nothing. Values are raw: unit and sign stand under each table. Intervals and
p-values hold over what the column inference names; "as published" is the interval of the study's own statistic, which
takes every prompt for independent.

{{headlines}}

## Limits

{{limits}}

## Licence and citation

{{licences}}

Please cite the studies that were audited:

{{cited}}

{RESULTS_END}"""


def is_ours(readme: str, *, where: str) -> bool:
    """Whether a README has the markers of a card that ``results_card`` made.

    Raises:
        ValueError: it has some of them, which make no pair.
    """
    return cards.find(readme, begin=RESULTS_BEGIN, end=RESULTS_END, where=where) is not None


def is_run_name(name: str) -> bool:
    """Whether a folder below ``runs`` has a name that a shared run can have."""
    return bool(_RUN_NAME.fullmatch(name))


def _with_header(repo: str, card: str, paths: Mapping[str, str], where: str) -> str:
    """The card with our keys in its header, beside those of its owner."""
    parts = split(card)
    there = load(parts.header, where)
    there_tags = there.get("tags")
    tags = there_tags if isinstance(there_tags, list) else [there_tags] if there_tags else []
    added = [tag for tag in _TAGS if tag not in tags]
    values: dict[str, Any] = {} if there.get("pretty_name") else {"pretty_name": f"Bias audits in {repo}"}
    if added:
        values["tags"] = [*tags, *added]
    configs = [
        {
            "config_name": name,
            **({"default": True} if name == FINDINGS else {}),
            "data_files": [{"split": "train", "path": path}],
        }
        for name, path in paths.items()
    ]
    configs_there = there.get("configs")
    others = [one for one in configs_there if not _names_runs(one)] if isinstance(configs_there, list) else []
    made = with_keys(card, {**values, "configs": [*configs, *others]}, where=where)
    return made if parts.before else made.replace("---\n<!--", "---\n\n<!--", 1)


def _names_runs(config: Any) -> bool:
    """Whether a config of the header reads files of runs: those are ours, and made anew."""
    files = config.get("data_files") if isinstance(config, Mapping) else None
    listed = files if isinstance(files, list) else [files]
    paths = [one.get("path") if isinstance(one, Mapping) else one for one in listed]
    return all(str(path).startswith("runs/") for path in paths)


def _runs_table(runs: Sequence[SharedRun]) -> str:
    rows = []
    for run in runs:
        read = {f"{study}: {one.deviation()}": None for (study, _), one in _read(run).items() if one.deviation()}
        cells = (
            ", ".join(str(one["model_id"]) for one in run.manifest.get("models", [])),
            ", ".join(sorted({one.study for one in run.found})),
            str(run.manifest.get("started", ""))[:10],
            str(run.manifest["swapbias"]),
            "; ".join(read) or "the studies' own",
        )
        rows.append((f"`{run.name}`", *map(markdown, cells), str(len(run.found))))
    return md_table(("run", "models", "studies", "date", "swapbias", "prompts", "findings"), rows, numbers=1)


def _read(run: SharedRun) -> dict[tuple[str, str], PromptsRead]:
    pairs = dict.fromkeys((one.study, one.experiment) for one in run.found)
    return {pair: prompts_read(run.manifest, *pair) for pair in sorted(pairs)}


def _headlines(run: SharedRun) -> Iterator[str]:
    shown = headline_rows(run.found)
    yield f"### {run.name}"
    if not shown:
        yield "No comparison over all rows; its rates and means stand in its findings and its report."
        return
    rows = [
        {**row, "model": one.model_id, "quantity": f"{one.study} {one.experiment}: {row['quantity']}"}
        for one, row in shown
    ]
    yield _table(_RUN_COLUMNS, rows, numbers=5)
    units = [f"{one.unit}; {wording.plain(one.direction)}" if one.direction else one.unit for one, _ in shown]
    readings = [f"- {markdown(row['quantity'])}: {markdown(unit)}." for row, unit in zip(rows, units, strict=True)]
    yield "\n".join(dict.fromkeys(readings))


def _licences(runs: Sequence[SharedRun]) -> str:
    read = [one for run in runs for one in _read(run).values()]
    public = sorted({one.corpus for one in read if not one.own} & set(corpora()))
    named = ", ".join(f"{markdown(name)} ({markdown(load_corpus(name).licence)})" for name in public)
    licences = f"The prompts stand under the licences of their corpora: {named or 'none'}. "
    if any(one.own for one in read):
        licences += "Notes of the user's own are not here; their licence is their owner's matter. "
    return licences + (
        "What a model answered may be bound by the terms of that model. The numbers, tables and figures are facts "
        "about them."
    )
