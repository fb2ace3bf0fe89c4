"""What a run comes to: findings, and all of it as files, also where a stranger wrote them."""

import math
import re
import shutil
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import pandas as pd
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)

from swapbias import findings, privacy, studies
from swapbias.errors import UsageError, listed, need, notes_read
from swapbias.files import file_sha256, parse_json, unescape_csv_cell, write_whole
from swapbias.findings import Finding, answer_counts, comparisons, findings_table
from swapbias.measures import MEASURES, Estimate
from swapbias.models.clinical import NoteOptions, explain_mismatched
from swapbias.notes import Notes
from swapbias.privacy import is_credentialed, public_model, writing
from swapbias.runs.command import placeholders_in, repeat_command
from swapbias.runs.plan import now
from swapbias.runs.run import MANIFEST, REPORT, SCORES, SHA256, Run, Scoring
from swapbias.runs.scorers import ScoredTask, as_read
from swapbias.runs.settings import Settings
from swapbias.studies import load_study, own_studies, tables

FINDINGS_CSV = "findings.csv"
FINDINGS_JSON = "results.json"
COVERAGE = "lexicon_coverage.csv"
EXPLAINED = "explanations.json"
MOST_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 2 * 2**20
_MOST_CHARACTERS = 2_000  # of one text
_MOST_SHOWN = 80  # characters of an answer in a sentence
# Control characters, line and paragraph separators, what turns the direction of writing, halves of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINES = re.compile("[\t\r\n]")
_NEXT_STEP = "Take a file that swapbias wrote."
Items = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Results:
    """A finished run: manifest, findings, rows of each study, coverage of lexicons.

    ``place``: its folder, or OWNER/NAME on the Hub at ``commit``; ``name``: of its folder.
    """

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Items = field(default_factory=dict)
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    place: str = ""
    name: str = ""
    commit: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the run among others."""
        return self.place, self.name, self.commit

    @property
    def public_place(self) -> str:
        """Where it is from, without a path of this machine."""
        return self.place if self.commit else self.name


class LazyItems(UserDict[str, Any]):
    """Scored rows by study, each read when it is looked up, and not stored."""

    def __init__(self, names: Iterable[str], read: Callable[[str], pd.DataFrame]) -> None:
        super().__init__(dict.fromkeys(names))
        self._read = read

    def __getitem__(self, study: str) -> pd.DataFrame:
        return self._read(study)


def conclude(scoring: Scoring, settings: Settings, *, draw: bool = True) -> list[Finding]:
    """Compare the groups, write everything down, and say in the manifest that the run is complete or stopped."""
    run = scoring.run
    manifest = scoring.manifest
    items = scoring.items
    every = [*scoring.every.values()]
    found = findings.with_verdicts(_found(items, every, settings), margin=settings.margin)
    words: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in every:
        for name in one.task.lexicons:
            if (one.reader.model_id, name) not in words:
                words[one.reader.model_id, name] = one.reader.coverage(studies.load_lexicon(name))
    truncated = dict.fromkeys(filter(None, (one.reader.notes.get("truncated") for one in every)))
    withheld = dict.fromkeys(filter(None, (one.reader.notes.get("withheld") for one in every)))
    repeated = [*_repeated(items)]
    notes = {
        "truncated": [*truncated],
        "unread": [*_unread(items, every), *withheld],
        "repeats": repeated,
    }
    notes["same_inputs"] = [*_same_inputs(items)]
    for sentence in chain.from_iterable(notes.values()):
        scoring.say(sentence)
    notes["repeats"] = [*dict.fromkeys([*manifest.get("repeats", ()), *repeated])]
    manifest |= {name: sentences for name, sentences in notes.items() if sentences}
    manifest |= {"status": "stopped" if scoring.stop else "complete", "finished": now()}
    table = pd.DataFrame([row for rows in words.values() for row in rows])
    if explained := _explained(scoring, settings):
        run.write_json(EXPLAINED, explained)
    write_results(run, Results(manifest, found, items, table), draw=draw)
    if not scoring.stop:
        manifest[SHA256] = run.sums()
        shutil.rmtree(run.folder / SCORES, ignore_errors=True)
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    return found


def _found(items: Items, every: Sequence[ScoredTask], settings: Settings) -> list[Finding]:
    """The findings of every study and model, in the unit of the scorer: VADER and raw scores are no probabilities."""
    found: list[Finding] = []
    for name, frame in items.items():
        study = load_study(name)
        for model_id, part in frame.groupby("model_id", sort=False):
            mine = [one for one in every if one.reader.model_id == model_id]
            task = mine[0].task
            reader = mine[0].reader
            expected = reader.expected
            if task.notes is not None:
                expected = expected_numbers(task.study.name, task.notes, model_id)
            read = {
                one.task.experiment.name: as_read(one)
                for one in mine
                if one.task.study.name == name
            }
            experiments = tuple(read.get(one.name, one) for one in study.experiments)
            found += findings.disaggregate(
                part,
                study.changed(experiments=experiments),
                expected=expected,
                seed=settings.seed,
                margin=settings.margin,
            )
    return found


def expected_numbers(
    study: str, notes: Notes, model: str
) -> dict[tuple[str, ...], tables.Published]:
    """What to compare with: of MIMIC-III the paper's numbers, of synthetic notes the planted leak."""
    if notes.name == "mimic3":
        return tables.published_for(study, model.partition("+")[0])
    found: dict[tuple[str, ...], tables.Published] = {}
    for phenotype in notes.phenotypes if notes.name == "synthetic" else ():
        tests = [
            note for note in notes.rows if (note["phenotype"], note["split"]) == (phenotype, "test")
        ]
        share = sum(note["planted"] == "leak" for note in tests) / len(
            tests
        )  # a perfect learner flips on these
        key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", phenotype)
        found[key] = tables.Published(value=f"{share:.3f}", source=tables.PLANTED_LEAK)
    return found


def _explained(scoring: Scoring, settings: Settings) -> list[dict[str, Any]]:
    """Notes word by word; none that are credentialed, nor by chat models: each sample would be a request."""
    found = list[dict[str, Any]]()
    most = settings.of(NoteOptions).explain
    for one in scoring.every.values() if most else ():
        task = one.task
        reader = one.reader
        if (
            task.notes is None
            or task.credentialed
            or "flips" not in task.experiment.shows.rates
            or reader.kind == "chat"
        ):
            continue
        rows = scoring.items[task.study.name]
        mine = (rows["experiment"] == task.experiment.name) & (rows["model_id"] == reader.model_id)
        two = rows[mine & rows["group"].isin(task.experiment.compared)]
        try:
            explained = explain_mismatched(two, reader, most=most, seed=settings.seed)
            found += [{"study": task.study.name, **words} for words in explained]
        except UsageError as error:  # LIME is an extra
            scoring.say(f"No explanation of the most mismatched note: {error}")
            break
    return found


def _unread(items: Items, every: Sequence[ScoredTask]) -> Iterator[str]:
    """How many answers were not read, and how to read more, a sentence for each experiment and model."""
    experiments = {
        (one.task.study.name, one.task.experiment.name): one.task.experiment for one in every
    }
    for study, frame in ((study, frame) for study, frame in items.items() if "said_other" in frame):
        for (name, model_id), rows in frame.groupby(["experiment", "model_id"], sort=False):
            counts = answer_counts(rows)
            if not counts["refused"] + counts["unreadable"]:
                continue
            experiment = experiments[study, name]
            more = f"read them in the column answer of items/{study}.parquet."
            if experiment.reads.rubric and "judged" not in rows:
                more = "let a judge read them with -M judge=MODEL."
            elif experiment.reads.reading == "options":
                more = "ask with -M scoring=log-odds, which reads every answer, or with a larger -M max-tokens."
            said = f"refused {counts['refused']:,} of {len(rows):,} answers"
            yield f"{study} {name}: {model_id} {said}, and {counts['unreadable']:,} are unreadable. Next step: {more}"


def _same_inputs(items: Items) -> Iterator[str]:
    """Say how many pairs an experiment lost because a model reads one input for both texts, a sentence for each."""
    for study, frame in (
        (study, frame) for study, frame in items.items() if findings.SAME_INPUT in frame
    ):
        for (name, model_id), rows in frame.groupby(["experiment", "model_id"], sort=False):
            pairs = rows.groupby("pair_id", sort=False)[findings.SAME_INPUT].max()
            count = int((pairs == 1).sum())
            if count:
                what = f"{model_id} reads the same input for both texts of {count:,} of {len(pairs):,} pairs"
                reason = "Its tokenizer does not know the swapped words, or they are cut off"
                yield f"{study} {name}: {what}, which are not measured. {reason}."


def _repeated(items: Items) -> Iterator[str]:
    """Name an answer or score that is more than half of those of an experiment and model, unless they are 0 or 1.

    One that counts 0 or 1 may well be the commonest; one that is not read may be the text of an error.
    """
    for study, frame in items.items():
        units = {
            experiment.name: experiment.compares.unit
            for experiment in load_study(study).experiments
        }
        for (name, model_id), rows in frame.groupby(["experiment", "model_id"], sort=False):
            repeats = findings.commonest(rows, units[name])
            if repeats is None or not repeats.share > findings.HALF:
                continue
            content = (
                repr(shorten(repeats.content, _MOST_SHOWN, placeholder=" ..."))
                if repeats.is_answer
                else ""
            )
            what = (
                f"answers of {model_id} are the same: {content}"
                if content
                else (f"scores of {model_id} are the same: {repeats.content}")
            )
            yield f"{study} {name}: {repeats.count:,} of {repeats.rows:,} {what}."


def write_results(run: Run, results: Results, *, draw: bool = True, command: str = "") -> None:
    """Write findings, coverage and, with ``draw``, the report; the scored rows stand there already.

    ``command`` repeats the run, where its manifest tells less than all.
    """
    table = findings_table(results.found)
    run.write_csv(FINDINGS_CSV, table)
    run.write_json(
        FINDINGS_JSON,
        {"swapbias": results.manifest["swapbias"], "findings": table.to_dict("records")},
    )
    if len(results.coverage):
        run.write_csv(COVERAGE, results.coverage)
    if draw:
        _write_report(run, results, command)


def _write_report(run: Run, results: Results, command: str = "") -> None:
    from swapbias.report import render  # takes long to import

    shown = as_public(replace(results, items=dict(results.items)))
    command = command or repeat_command(results.manifest)
    meanings = placeholders_in(command)
    page = render(results.manifest, shown.found, shown.items, shown.coverage, command, meanings)
    run.write(REPORT, page.encode())  # public there


def rebuild_report(run: Run) -> Path:
    """Write the report of a finished run again, from what is on disk; gives its path, raises as ``read_run``."""
    results = read_run(run.folder)
    with writing(run.folder, credentialed=is_credentialed(run.folder)):
        _write_report(run, results)
        manifest = run.manifest()
        if SHA256 in manifest:
            run.write_manifest(
                {**manifest, SHA256: {**manifest[SHA256], REPORT: file_sha256(run.folder / REPORT)}}
            )
    return run.folder / REPORT


def write_figures(run: Run, folder: Path, *, kind: str) -> list[Path]:
    """Write every figure (``kind``: of ``report.FORMATS``); their paths. UsageError: there is nothing to draw."""
    need("A figure", "matplotlib")
    from swapbias.report import draw_figures

    figures = draw_figures(as_public(read_run(run.folder)).found, kind)
    if not figures:
        raise UsageError(
            f"{run.folder} has no figures. Its numbers are in {FINDINGS_CSV} and its report."
        )
    with writing(folder, credentialed=is_credentialed(run.folder)):
        for name, content in figures.items():
            write_whole(folder / f"{name}.{kind}", content)
    return [folder / f"{name}.{kind}" for name in figures]


def read_run(folder: Path, *, repo: str = "", commit: str = "") -> Results:
    """A finished run of a folder: the user's own, or one that was fetched from a repository of anybody's.

    Rows are read when they are looked up. UsageError: no run, or not complete. ValueError: not what swapbias writes.
    """
    where = f"{repo}/runs/{_CONTROL.sub(' ', folder.name)}" if repo else str(folder)
    run = Run.open(folder)
    manifest = parse_manifest((folder / MANIFEST).read_bytes(), f"{where}/{MANIFEST}")
    if manifest["status"] != "complete":
        who = "Its owner can go on" if repo else "Go on"
        raise UsageError(f"{where} is not complete. {who} with swapbias audit --resume {folder}.")
    if repo and manifest.get("credentialed"):
        raise ValueError(
            f"{where}: it says that it holds credentialed data, which nobody may share. Tell its owner."
        )
    own_names = not repo and privacy.own_data(manifest) is not None
    if own_names:
        notes_read()
    content = run.checked(FINDINGS_JSON).read_bytes()
    found = parse_results(content, f"{where}/{FINDINGS_JSON}", own_names=own_names)
    keys = [
        (one.model_id, one.study, one.experiment, one.unit, *one.key())
        for one in comparisons(found, rates=True)
    ]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: a primary finding stands twice. Its owner can audit again.")
    files = {one.study: f"items/{one.study}.parquet" for one in found}
    recorded = () if repo else manifest.get(SHA256, ())  # without a file the run is damaged
    there = [
        study for study, file in files.items() if file in recorded or (folder / file).is_file()
    ]
    items = LazyItems(there, run.items)
    coverage = _read_coverage(run)
    return Results(
        manifest, found, items, coverage, place=repo or str(folder), name=folder.name, commit=commit
    )


def _read_coverage(run: Run) -> pd.DataFrame:
    if not (run.folder / COVERAGE).is_file():
        return pd.DataFrame()
    # words such as null and nan stay words
    text = pd.read_csv(run.checked(COVERAGE), dtype=str, keep_default_na=False).map(
        unescape_csv_cell
    )
    flags = [name for name in ("in_vocabulary", "matched") if name in text]
    return text.assign(**{name: text[name] == "True" for name in flags})


def as_public(results: Results) -> Results:
    """The results without places on the user's machine or network, in the manifest and in models' names."""
    public = replace(results, manifest=privacy.public_manifest(results.manifest))
    if all(public_model(one.model_id) == one.model_id for one in results.found):
        return public

    def renamed(rows: pd.DataFrame) -> pd.DataFrame:
        return (
            rows.assign(model_id=rows["model_id"].map(public_model)) if "model_id" in rows else rows
        )

    return replace(
        public,
        found=[replace(one, model_id=public_model(one.model_id)) for one in results.found],
        items={study: renamed(rows) for study, rows in results.items.items()},
        coverage=renamed(results.coverage),
    )


def corpora_read(manifest: Mapping[str, Any], finding: Finding) -> list[Mapping[str, Any]]:
    """What a manifest says of the prompts of a finding's experiment, an entry a config."""
    declared = findings.experiment_of(finding)
    corpus = (declared.reads.notes.corpus if declared else "") or finding.study
    configs = {*declared.reads.configs, *declared.reads.alternatives} if declared else set()
    mine = [one for one in manifest["corpora"] if one["corpus"] == corpus]
    return [one for one in mine if not configs or set(str(one["config"]).split(", ")) <= configs]


def _one_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("it has control characters")
    return text


def _known(names: Callable[[], Iterable[str]]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in set(names()):
            raise ValueError("it is none that this version knows")
        return name

    return AfterValidator(check)


_Text = Annotated[str, StringConstraints(max_length=_MOST_CHARACTERS), AfterValidator(_one_line)]
_Number = (
    Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)] | None
)  # null is how NaN is written
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_TYPES: Mapping[Any, Any] = {str: _Text, float: _Number, int: _Count, bool: bool}
_SPECIAL = {
    "p_value": _Share,
    "p_adjusted": _Share,
    "study": Annotated[_Text, _known(lambda: (*studies.studies(), *own_studies()))],
    "measure": Annotated[_Text, _known(lambda: MEASURES)],
    "reason": Annotated[_Text, _known(lambda: ("", *findings.UNMEASURED_REASONS))],
}
_OF_FINDING = {
    one.name: one.type for one in fields(Finding) if one.name not in ("estimate", "published")
}
_OF_ESTIMATE = {one.name: one.type for one in fields(Estimate)}
_PRINTED = tuple(f"published_{one.name}" for one in fields(tables.Published))


@cache
def _results_file(own_names: bool) -> type[BaseModel]:
    """The model of a ``results.json``; ``own_names``: values of slices are any texts."""
    types = {name: _TYPES[kind] for name, kind in (_OF_FINDING | _OF_ESTIMATE).items()} | _SPECIAL
    types |= dict.fromkeys(_PRINTED, _Text) | ({"slice_value": str} if own_names else {})
    strict = ConfigDict(strict=True, extra="forbid")
    row = create_model(
        "Row", __config__=strict, **{name: (kind, ...) for name, kind in types.items()}
    )  # type: ignore[call-overload]
    found = Annotated[list[row], Field(max_length=200_000)]  # type: ignore[valid-type]
    return create_model(
        "ResultsFile", __config__=strict, swapbias=(_Text, ...), findings=(found, ...)
    )


class _Corpus(BaseModel, strict=True):
    corpus: _Text
    config: _Text
    sha256: _Text
    rows: _Count


class _Skipped(BaseModel, strict=True):
    study: _Text
    experiment: _Text
    reason: _Text


class _Model(BaseModel, strict=True):
    model_id: _Text


class _Manifest(BaseModel, strict=True):
    """What every manifest has; further keys may be there."""

    swapbias: _Text
    status: _Text
    started: _Text = ""
    finished: _Text = ""
    credentialed: bool = False
    settings: dict[str, Any]
    versions: dict[str, _Text]
    corpora: Annotated[list[_Corpus], Field(max_length=500)]
    skipped: Annotated[list[_Skipped], Field(max_length=500)]
    models: Annotated[list[_Model], Field(max_length=500)] = []


def parse_results(content: bytes, where: str, *, own_names: bool = False) -> list[Finding]:
    """The findings of a ``results.json`` as written; ValueError: an audit wrote it not. ``own_names``: any slices."""
    read: Any = _validated(_results_file(own_names), content, where, MOST_BYTES)
    found = []
    for row in map(vars, read.findings):
        known: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in row.items()
        }
        printed = [row[name] for name in _PRINTED]
        published = tables.Published(*printed) if any(printed) else None
        estimate = Estimate(**{name: known[name] for name in _OF_ESTIMATE})
        found.append(
            Finding(
                **{name: known[name] for name in _OF_FINDING},
                estimate=estimate,
                published=published,
            )
        )
    return found


def parse_manifest(content: bytes, where: str) -> dict[str, Any]:
    """The manifest of a run, with the keys that every run has and any others; raises as ``parse_results``."""
    _validated(_Manifest, content, where, MOST_MANIFEST_BYTES)
    read: dict[str, Any] = parse_json(content)
    _check_texts(read, where)
    return read


def _validated(model: type[BaseModel], content: bytes, where: str, most: int) -> BaseModel:
    if len(content) > most:
        raise ValueError(f"{where}: {len(content)} bytes, expected at most {most}. {_NEXT_STEP}")
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise ValueError(f"{where}: it is no JSON. {_NEXT_STEP}") from None
        places = [
            f"entry {one + 1}" if isinstance(one, int) else repr(one[:40]) for one in first["loc"]
        ]
        place = listed(places, "file")
        why = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {place}: {why}. {_NEXT_STEP}") from None


def _check_texts(value: Any, where: str) -> None:
    """Refuse control characters but for ends of lines, and numbers beyond what is written, however nested."""
    if isinstance(value, str) and (
        len(value) > _MOST_CHARACTERS or _CONTROL.search(_LINES.sub("", value))
    ):
        raise ValueError(f"{where}: a text is too long or has control characters. {_NEXT_STEP}")
    if isinstance(value, float | int) and not abs(value) <= 1e300:  # NaN is none either
        raise ValueError(f"{where}: a number is not finite or too large. {_NEXT_STEP}")
    if isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_texts(inner, where)
