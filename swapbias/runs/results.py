"""What a run comes to: findings, explained notes, and all of it as files, also where a stranger wrote them."""

import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model
from pydantic_core import from_json

from swapbias.errors import UsageError, need_audit_extra
from swapbias.files import file_sha256, parse_json, unescape_csv_cell, write_whole
from swapbias.findings import Finding, answer_counts, disaggregate, experiment_of, findings_table, judged
from swapbias.measures import MEASURES, SPANS, Estimate
from swapbias.models import Say, Scorer
from swapbias.models.clinical import Explained, explain_pair
from swapbias.notes import Notes
from swapbias.privacy import is_credentialed, notes_read, own_data, public_manifest, public_model, writing
from swapbias.runs.plan import Task
from swapbias.runs.run import REPORT, SCORES, SHA256, Run, now
from swapbias.studies import (
    PLANTED_LEAK,
    Published,
    column,
    load_lexicon,
    load_study,
    own_studies,
    published_for,
    studies,
)

FINDINGS_CSV = "findings.csv"
FINDINGS_JSON = "results.json"
COVERAGE = "lexicon_coverage.csv"
EXPLAINED = "explanations.json"
MOST_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 2 * 2**20
PANEL_SAMPLES, SAMPLES = 1_000, 250  # of the note that has a panel of its own; of those whose weights are averaged
_MOST_FINDINGS = 200_000
_MOST_CHARACTERS = 2_000  # of one text
# Control characters, line and paragraph separators, what turns the direction of writing, halves of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINES = re.compile("[\t\r\n]")
_NEXT_STEP = "Take a file that swapbias wrote."


@dataclass(frozen=True, slots=True)
class Results:
    """What was found, and all that the report shows of it.

    Attributes:
        manifest: of the run.
        found: findings in the order of the studies.
        items: scored rows of each study.
        coverage: words of each lexicon that the model can say; no rows where none is read.
        explained: notes explained word by word.
    """

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Mapping[str, pd.DataFrame]
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    explained: Sequence[Explained] = ()


# --- from scores to results -----------------------------------------------------------------------------


def conclude(
    run: Run,
    manifest: dict[str, Any],
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    seed: int,
    margin: float | None,
    say: Say,
    explained: int = 3,
    draw: bool = True,
) -> list[Finding]:
    """Compare the groups, write everything down, and say in the manifest that the run is complete.

    Each task was scored by the reader of the same place, ``items`` are the scored rows by study; ``margin`` is as in
    ``findings.judged``, ``explained`` how many notes of each phenotype and regime are explained word by word.
    """
    found = judged(_found(items, tasks, readers, seed), margin=margin)
    notes = _explain(tasks, readers, items, most=explained, seed=seed, say=say)
    for name, sentences in (("pruning", list(_pruned(items))), ("unread", list(_unread(items, tasks)))):
        if sentences:
            manifest[name] = sentences
        for sentence in sentences:
            say(sentence)
    manifest |= {"status": "complete", "finished": now()}
    write_results(run, Results(manifest, found, items, _coverage(tasks, readers), notes), draw=draw)
    manifest[SHA256] = run.sums()
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    shutil.rmtree(run.folder / SCORES, ignore_errors=True)
    return found


def _found(
    items: Mapping[str, pd.DataFrame], tasks: Sequence[Task], readers: Sequence[Scorer], seed: int
) -> list[Finding]:
    """The findings of every study and model, in the unit of the scorer: VADER and raw scores are no probabilities."""
    found: list[Finding] = []
    for name, frame in items.items():
        study = load_study(name)
        for model_id, part in frame.groupby("model_id", sort=False):
            pairs = [pair for pair in zip(tasks, readers, strict=True) if pair[1].model_id == model_id]
            expected: Mapping[tuple[str, ...], Published] | None = None
            for task, reader in pairs[:1]:
                notes = task.notes
                expected = reader.expected if notes is None else expected_numbers(task.study.name, notes, model_id)
            units = {
                # Of a study of the user's own the unit that it names, where it is none of the package.
                task.experiment.name: task.experiment.unit
                if name in own_studies() and task.experiment.unit not in SPANS
                else reader.unit
                for task, reader in pairs
                if task.study.name == name
            }
            read = tuple(replace(one, unit=units.get(one.name, one.unit)) for one in study.experiments)
            found += disaggregate(part, replace(study, experiments=read), expected=expected, seed=seed)
    return found


def expected_numbers(study: str, notes: Notes, model: str) -> dict[tuple[str, ...], Published]:
    """What to compare findings on notes with: of MIMIC-III the paper's numbers, of synthetic notes the planted leak.

    None of a user's own notes: the paper's numbers say nothing of them.
    """
    if notes.name == "mimic3":
        return published_for(study, model.partition("+")[0])
    found: dict[tuple[str, ...], Published] = {}
    for phenotype in notes.phenotypes if notes.name == "synthetic" else ():
        tests = [note for note in notes.rows if (note["phenotype"], note["split"]) == (phenotype, "test")]
        share = sum(note["planted"] == "leak" for note in tests) / len(tests)  # a perfect learner flips on these
        key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", phenotype)
        found[key] = Published(value=f"{share:.3f}", source=PLANTED_LEAK)
    return found


def _pruned(items: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What pruning may have lost, a sentence for each study and model that was read so."""
    for study, frame in items.items():
        if "pruned_mass" in frame:
            for model_id, rows in frame.dropna(subset="pruned_mass").groupby("model_id", sort=False):
                most, mean = rows["pruned_mass"].max(), rows["pruned_mass"].mean()
                yield (
                    f"{study}: pruning gave up branches of {model_id} that held {mean:.2g} of a prompt's "
                    f"probability on average and {most:.2g} at most: its phrases may miss as much."
                )


def _unread(items: Mapping[str, pd.DataFrame], tasks: Sequence[Task]) -> Iterator[str]:
    """How many answers were not read, and how to read more, a sentence for each experiment and model."""
    experiments = {(task.study.name, task.experiment.name): task.experiment for task in tasks}
    for study, frame in ((study, frame) for study, frame in items.items() if "said_other" in frame):
        for (name, model_id), rows in frame.groupby(["experiment", "model_id"], sort=False):
            counts = answer_counts(rows)
            if not counts["refused"] + counts["unreadable"]:
                continue
            experiment = experiments[study, name]
            more = "look at them with swapbias study read."
            if experiment.rubric and "judged" not in rows:
                more = "let a judge read them with -M judge=MODEL."
            elif experiment.reading == "options":
                more = "ask with -M scoring=log-odds, which reads every answer, or with a larger -M max-tokens."
            yield (
                f"{study} {name}: {model_id} refused {counts['refused']:,} of {len(rows):,} answers, and "
                f"{counts['unreadable']:,} are unreadable. Next step: {more}"
            )


def _coverage(tasks: Sequence[Task], readers: Sequence[Scorer]) -> pd.DataFrame:
    words: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for task, reader in zip(tasks, readers, strict=True):
        for name in sorted({one.rpartition("/")[0] for one in set(column(task.rows, "candidates"))} - {""}):
            if (reader.model_id, name) not in words:
                words[reader.model_id, name] = [asdict(one) for one in reader.coverage(load_lexicon(name))]
    return pd.DataFrame([row for rows in words.values() for row in rows])


def _explain(
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    most: int,
    seed: int,
    say: Say,
) -> list[Explained]:
    """For each classifier of notes its most mismatched pairs, ``most`` of each phenotype and regime.

    Nothing of credentialed notes, and of chat models, for each sample would be a request.
    """
    found: list[Explained] = []
    for task, reader in zip(tasks, readers, strict=True):
        of_notes = task.notes is not None and not task.notes.credentialed and "flips" in task.experiment.rates
        if not of_notes or reader.kind == "chat" or not most:
            continue
        rows = items[task.study.name]
        mine = (rows["experiment"] == task.experiment.name) & (rows["model_id"] == reader.model_id)
        two = rows[mine & rows["group"].isin(task.experiment.compared)]
        try:
            found += [_explained(task.study.name, pair, reader, seed, some) for pair, some in _mismatched(two, most)]
        except UsageError as error:  # LIME is an extra
            say(f"No explanation of the most mismatched note: {error}")
            return found
    return found


def _mismatched(rows: pd.DataFrame, most: int) -> Iterator[tuple[pd.DataFrame, int]]:
    """The pairs of each phenotype and regime whose scores differ most, and how many samples explain each.

    That with the largest difference in the first regime comes first, and is sampled more often.
    """
    pairs = rows.pivot(index=["construct", "condition", "pair_id"], columns="group", values="score").dropna()
    if pairs.shape[1] != 2:
        return
    gaps = (pairs.iloc[:, 0] - pairs.iloc[:, 1]).abs()
    gaps = gaps[gaps > 0]
    regimes = [one for one in rows["construct"].unique() if one in gaps.index.get_level_values(0)]
    chosen = [(regimes[0], *gaps[regimes[0]].idxmax())] if regimes else []
    for regime in regimes:
        for _, part in gaps[[regime]].groupby(level="condition", sort=False):
            chosen += [place for place in part.nlargest(most).index if place != chosen[0]]
    for number, place in enumerate(chosen):
        mine = (rows[["construct", "condition", "pair_id"]] == list(place)).all(axis=1)
        yield rows[mine], SAMPLES if number else PANEL_SAMPLES


def _explained(study: str, pair: pd.DataFrame, reader: Scorer, seed: int, samples: int) -> Explained:
    phenotype, regime, pair_id = (str(pair[name].iloc[0]) for name in ("condition", "construct", "pair_id"))
    texts = dict(zip(pair["group"], pair["text"], strict=True))
    words = explain_pair(
        lambda sampled: reader.predict_proba(sampled, phenotype, regime), texts, seed=seed, samples=samples
    )
    scores = {str(group): float(score) for group, score in zip(pair["group"], pair["score"], strict=True)}
    return Explained(study, reader.model_id, phenotype, regime, pair_id, scores, words)


# --- files ----------------------------------------------------------------------------------------------


def write_results(run: Run, results: Results, *, draw: bool = True) -> None:
    """Write findings, coverage, explanations and report; the scored rows stand there already.

    Without ``draw`` the report is left to ``rebuild_report``.
    """
    table = findings_table(results.found)
    run.write_csv(FINDINGS_CSV, table)
    run.write_json(FINDINGS_JSON, {"swapbias": results.manifest["swapbias"], "findings": table.to_dict("records")})
    if len(results.coverage):
        run.write_csv(COVERAGE, results.coverage)
    if results.explained:
        run.write_json(EXPLAINED, [asdict(one) for one in results.explained])
    if draw:
        _write_report(run, results)


def _write_report(run: Run, results: Results) -> None:
    need_audit_extra("A report", "jinja2")
    from swapbias.report import Page, render  # takes long to import

    shown = as_public(results)
    run.write(REPORT, render(Page(shown.manifest, shown.found, shown.items, shown.coverage)).encode())


def rebuild_report(run: Run) -> Path:
    """Write the report of a finished run again, from what is on disk; gives its path, raises as ``read_results``."""
    results = read_results(run)
    with writing(run.folder, credentialed=is_credentialed(run.folder)):
        _write_report(run, results)
        manifest = run.manifest()
        if SHA256 in manifest:
            run.write_manifest({**manifest, SHA256: {**manifest[SHA256], REPORT: file_sha256(run.folder / REPORT)}})
    return run.folder / REPORT


def write_figures(run: Run, folder: Path, *, kind: str) -> "list[tuple[Path, str]]":
    """Write every figure of a finished run into a folder, a file for each; gives their paths and captions.

    ``kind`` is of ``report.FORMATS``.

    Raises:
        UsageError, ValueError: as ``read_results``; the run has nothing to draw.
    """
    need_audit_extra("A figure", "matplotlib")
    from swapbias.report import draw_figures

    figures = draw_figures(as_public(read_results(run)).found)
    if not figures:
        raise UsageError(
            f"{run.folder} has no figures: no headline gap has a margin, and no slice has values that differ. Its "
            f"numbers are in {FINDINGS_CSV} and its report."
        )
    with writing(folder, credentialed=is_credentialed(run.folder)):
        for one in figures:
            write_whole(folder / f"{one.name}.{kind}", one.as_bytes(kind))
    return [(folder / f"{one.name}.{kind}", one.caption) for one in figures]


def read_results(run: Run) -> Results:
    """The results of a finished run, as they were written.

    Raises:
        UsageError: the run is not complete. ValueError: a file is missing, or is not what an audit wrote.
    """
    manifest = run.manifest()
    if manifest["status"] != "complete":
        raise UsageError(
            f"{run.folder} is not complete (its status is {manifest['status']!r}). Go on with "
            f"swapbias audit --resume {run.folder}."
        )
    own_names = own_data(manifest) is not None
    if own_names:
        notes_read()
    path = checked_path(run, FINDINGS_JSON)
    found = parse_results(path.read_bytes(), str(path), own_names=own_names)
    items = {study: scored_items(run, study) for study in dict.fromkeys(one.study for one in found)}
    return Results(manifest, found, items, _read_coverage(run), _read_explained(run))


def checked_path(run: Run, name: str) -> Path:
    """The path of a file that every complete run has; a ValueError where it is not there, or damaged."""
    path = run.folder / name
    if not path.is_file():
        raise ValueError(f"{path} is missing, and a complete run has it. Audit again into another --out.")
    run.check(name)
    return path


def scored_items(run: Run, study: str) -> pd.DataFrame:
    """The scored rows of a study of a finished run; a ValueError where they are not what an audit wrote."""
    path = checked_path(run, f"items/{study}.parquet")
    try:
        rows = pq.read_table(path).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}). Audit again.") from error
    if not {"experiment", "group", "model_id", "score", "text"} <= set(rows):
        raise ValueError(f"{path} lacks columns of scored rows. Audit again.")
    if "top_tokens" in rows:
        rows["top_tokens"] = rows["top_tokens"].map(_tokens_as_json)
    return rows


def _tokens_as_json(cell: Any) -> Any:
    """Tokens as an audit writes them; a shared run has a list of objects in place of the JSON."""
    if cell is None or isinstance(cell, str):
        return cell
    return json.dumps([[one["token"], one["value"]] for one in cell], ensure_ascii=False)


def _read_coverage(run: Run) -> pd.DataFrame:
    """The table as it was written: words such as ``null`` and ``nan`` stay words."""
    if not (run.folder / COVERAGE).is_file():
        return pd.DataFrame()
    table = pd.read_csv(checked_path(run, COVERAGE), dtype=str, keep_default_na=False).map(unescape_csv_cell)
    return table.assign(**{name: table[name] == "True" for name in ("in_vocabulary", "matched") if name in table})


def _read_explained(run: Run) -> list[Explained]:
    if not (run.folder / EXPLAINED).is_file():
        return []
    return [Explained(**one) for one in parse_json(checked_path(run, EXPLAINED).read_bytes())]


def as_public(results: Results) -> Results:
    """The results without places on the user's machine or network, in the manifest and in models' names."""
    manifest = public_manifest(results.manifest)
    if all(public_model(one.model_id) == one.model_id for one in results.found):
        return replace(results, manifest=manifest)
    found = [replace(one, model_id=public_model(one.model_id)) for one in results.found]
    notes = [replace(one, model_id=public_model(one.model_id)) for one in results.explained]
    coverage, *items = (
        rows.assign(model_id=rows["model_id"].map(public_model)) if "model_id" in rows else rows
        for rows in (results.coverage, *results.items.values())
    )
    return Results(manifest, found, dict(zip(results.items, items, strict=True)), coverage, notes)


def corpora_read(manifest: Mapping[str, Any], finding: Finding) -> list[Mapping[str, Any]]:
    """What a manifest says of the prompts of a finding's experiment, an entry a config."""
    declared = experiment_of(finding)
    corpus = (declared.corpus if declared else "") or finding.study
    configs = {*declared.configs, *declared.alternatives} if declared else set()
    mine = [one for one in manifest["corpora"] if one["corpus"] == corpus]
    return [one for one in mine if not configs or set(str(one["config"]).split(", ")) <= configs]


# --- files of strangers ---------------------------------------------------------------------------------


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
_Number = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)] | None  # null is how NaN is written
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_TYPES: Mapping[Any, Any] = {str: _Text, float: _Number, int: _Count, bool: bool}
_SPECIAL = {
    "p_value": _Share,
    "p_adjusted": _Share,
    "study": Annotated[_Text, _known(lambda: (*studies(), *own_studies()))],
    "measure": Annotated[_Text, _known(lambda: MEASURES)],
}
_OF_FINDING = {one.name: one.type for one in fields(Finding) if one.name not in ("estimate", "published")}
_OF_ESTIMATE = {one.name: one.type for one in fields(Estimate)}
_PRINTED = tuple(f"published_{one.name}" for one in fields(Published))


@cache
def _results_file(own_names: bool) -> type[BaseModel]:
    """The model of a ``results.json``; ``own_names``: values of slices are any texts."""
    types = {name: _TYPES[kind] for name, kind in (_OF_FINDING | _OF_ESTIMATE).items()} | _SPECIAL
    types |= dict.fromkeys(_PRINTED, _Text) | ({"slice_value": str} if own_names else {})
    strict = ConfigDict(strict=True, extra="forbid")
    row = create_model("Row", __config__=strict, **{name: (kind, ...) for name, kind in types.items()})  # type: ignore[call-overload]
    found = Annotated[list[row], Field(max_length=_MOST_FINDINGS)]  # type: ignore[valid-type]
    return create_model("ResultsFile", __config__=strict, swapbias=(_Text, ...), findings=(found, ...))


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
    """The findings of a ``results.json``, exactly as they were written; null is NaN again.

    ``where`` names the file in errors; ``own_names``: the run is of the user's own notes, whose phenotypes (values of
    slices) may have any name: long ones, and of several lines.

    Raises:
        ValueError: it is not what an audit writes; the sentence names file, finding and key, and repeats no content.
    """
    read: Any = _validated(_results_file(own_names), content, where, MOST_BYTES)
    return [_finding(vars(row)) for row in read.findings]


def _finding(row: Mapping[str, Any]) -> Finding:
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in row.items()}
    printed = [row[name] for name in _PRINTED]
    return Finding(
        **{name: known[name] for name in _OF_FINDING},
        estimate=Estimate(**{name: known[name] for name in _OF_ESTIMATE}),
        published=Published(*printed) if any(printed) else None,
    )


def parse_manifest(content: bytes, where: str) -> dict[str, Any]:
    """The manifest of a run: what was audited, how, and with which versions.

    The keys that every run has are there and of their type; further ones stay, of native types.

    Raises:
        ValueError: as ``parse_results``.
    """
    _validated(_Manifest, content, where, MOST_MANIFEST_BYTES)
    try:
        read: dict[str, Any] = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"{where}: it has a number that is not finite. {_NEXT_STEP}") from error
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
        places = [f"entry {one + 1}" if isinstance(one, int) else repr(one[:40]) for one in first["loc"]]
        place, why = ", ".join(places) or "file", first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {place}: {why}. {_NEXT_STEP}") from None


def _check_texts(value: Any, where: str) -> None:
    """Refuse control characters but for ends of lines, and numbers beyond what is written, however nested."""
    if isinstance(value, str) and (len(value) > _MOST_CHARACTERS or _CONTROL.search(_LINES.sub("", value))):
        raise ValueError(f"{where}: a text is too long or has control characters. {_NEXT_STEP}")
    if isinstance(value, float | int) and abs(value) > 1e300:
        raise ValueError(f"{where}: a number is too large. {_NEXT_STEP}")
    if isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_texts(inner, where)
