"""What a run comes to: its results as files, and read back from them, also where a stranger wrote them."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model
from pydantic_core import from_json

from swapbias.errors import UsageError, need_audit_extra
from swapbias.files import as_meant, file_sha256, write_whole
from swapbias.findings import Finding, findings_table
from swapbias.measures import MEASURES, Estimate
from swapbias.models.clinical import Explained
from swapbias.privacy import is_credentialed, notes_read, own_data, public_manifest, public_model, writing
from swapbias.runs.run import REPORT, SHA256, Run
from swapbias.studies import Published, load_study, own_studies, studies

FINDINGS_CSV = "findings.csv"
FINDINGS_JSON = "results.json"
COVERAGE = "lexicon_coverage.csv"
EXPLAINED = "explanations.json"
MOST_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 2 * 2**20
MOST_FINDINGS = 200_000
MOST_CHARACTERS = 2_000  # of one text

_MOST_ENTRIES = 500  # of a list in a manifest
_OWN = "slice_value"  # the one text of a finding that a user's own notes give
# Control characters, line and paragraph separators, what turns the direction of writing, halves of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINES = re.compile("[\t\r\n]")
_NEXT_STEP = "Take a file that swapbias wrote."


def _one_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("it has control characters")
    return text


def _known_study(name: str) -> str:
    if name not in {*studies(), *own_studies()}:
        raise ValueError("it is none that this version knows")
    return name


def _known_measure(name: str) -> str:
    if name not in MEASURES:
        raise ValueError("it is none that this version knows")
    return name


_Text = Annotated[str, StringConstraints(max_length=MOST_CHARACTERS), AfterValidator(_one_line)]
_Number = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)] | None  # null is how NaN is written
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_TYPES: Mapping[Any, Any] = {str: _Text, float: _Number, int: _Count, bool: bool}
_OF_FINDING = {one.name: one.type for one in fields(Finding) if one.name not in ("estimate", "published")}
_OF_ESTIMATE = {one.name: one.type for one in fields(Estimate)}
_PRINTED = tuple(f"published_{one.name}" for one in fields(Published))
_SPECIAL = {
    "p_value": _Share,
    "p_adjusted": _Share,
    "study": Annotated[_Text, AfterValidator(_known_study)],
    "measure": Annotated[_Text, AfterValidator(_known_measure)],
}


@cache
def _results_file(own_names: bool) -> type[BaseModel]:
    """The model of a ``results.json``; ``own_names``: values of slices are any texts."""
    types = {name: _TYPES[kind] for name, kind in (_OF_FINDING | _OF_ESTIMATE).items()} | _SPECIAL
    types |= dict.fromkeys(_PRINTED, _Text) | ({_OWN: str} if own_names else {})
    strict = ConfigDict(strict=True, extra="forbid")
    row = create_model("Row", __config__=strict, **{name: (kind, ...) for name, kind in types.items()})  # type: ignore[call-overload]
    found = Annotated[list[row], Field(max_length=MOST_FINDINGS)]  # type: ignore[valid-type]
    return create_model("ResultsFile", __config__=strict, swapbias=(_Text, ...), findings=(found, ...))


class _Entry(BaseModel, strict=True):
    """Of a list in a manifest; further keys may be there."""


class _Corpus(_Entry):
    corpus: _Text
    config: _Text
    sha256: _Text
    rows: _Count


class _Skipped(_Entry):
    study: _Text
    experiment: _Text
    reason: _Text


class _Model(_Entry):
    model_id: _Text


class _Manifest(BaseModel, strict=True):
    swapbias: _Text
    status: _Text
    started: _Text = ""
    finished: _Text = ""
    credentialed: bool = False
    settings: dict[str, Any]
    versions: dict[str, _Text]
    corpora: Annotated[list[_Corpus], Field(max_length=_MOST_ENTRIES)]
    skipped: Annotated[list[_Skipped], Field(max_length=_MOST_ENTRIES)]
    models: Annotated[list[_Model], Field(max_length=_MOST_ENTRIES)] = []


def parse_results(content: bytes, where: str, *, own_names: bool = False) -> list[Finding]:
    """The findings of a ``results.json``, exactly as they were written; null is NaN again.

    Args:
        content: the bytes of the file, which nobody needs to trust.
        where: names the file in errors.
        own_names: the run is the user's own and of notes of their own, whose phenotypes (values of slices) may have
            any name: long ones, and of several lines.

    Raises:
        ValueError: it is not what ``Run.write_json`` makes of findings; the sentence names file, finding and key,
            and repeats nothing of the content.
    """
    read: Any = _validated(_results_file(own_names), content, where, MOST_BYTES)
    return [_finding(vars(row)) for row in read.findings]


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
    """Refuse control characters but for ends of lines in every key and text, however nested."""
    if isinstance(value, str) and (len(value) > MOST_CHARACTERS or _CONTROL.search(_LINES.sub("", value))):
        raise ValueError(f"{where}: a text is too long or has control characters. {_NEXT_STEP}")
    if isinstance(value, float | int) and abs(value) > 1e300:
        raise ValueError(f"{where}: a number is too large. {_NEXT_STEP}")
    for inner in value if isinstance(value, list) else ():
        _check_texts(inner, where)
    for name, inner in value.items() if isinstance(value, dict) else ():
        if len(name) > MOST_CHARACTERS or _CONTROL.search(name):
            raise ValueError(f"{where}: a key is too long or has control characters. {_NEXT_STEP}")
        _check_texts(inner, where)


def _finding(row: Mapping[str, Any]) -> Finding:
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in row.items()}
    printed = [row[name] for name in _PRINTED]
    return Finding(
        **{name: known[name] for name in _OF_FINDING},
        estimate=Estimate(**{name: known[name] for name in _OF_ESTIMATE}),
        published=Published(*printed) if any(printed) else None,
    )


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


def write_results(run: Run, results: Results, *, draw: bool = True) -> None:
    """Write findings, phrases, coverage, explanations and report; the scored rows stand there already.

    Without ``draw`` the report is left to ``rebuild_report``.
    """
    table = findings_table(results.found)
    run.write_csv(FINDINGS_CSV, table)
    findings = {"swapbias": results.manifest["swapbias"], "findings": table.to_dict("records")}
    run.write_json(FINDINGS_JSON, findings)
    for study, phrases in phrase_tables(results.items):
        run.write_parquet(f"phrases/{study}.parquet", phrases)
    if len(results.coverage):
        run.write_csv(COVERAGE, results.coverage)
    if results.explained:
        run.write_json(EXPLAINED, [asdict(one) for one in results.explained])
    if draw:
        write_report(run, results)


def write_report(run: Run, results: Results) -> None:
    """Write the report, which names no place on this machine."""
    need_audit_extra("A report", "jinja2")
    from swapbias.report import Page, render  # takes long to import

    shown = as_public(results)
    page = Page(shown.manifest, shown.found, shown.items, shown.coverage, shown.explained)
    run.write(REPORT, render(page).encode())


def rebuild_report(run: Run) -> Path:
    """Write the report of a finished run again, from what is on disk; gives the report's path.

    Raises:
        UsageError, ValueError: as ``read_results``.
    """
    results = read_results(run)
    with writing(run.folder, credentialed=is_credentialed(run.folder)):
        write_report(run, results)
        manifest = run.manifest()
        if SHA256 in manifest:
            run.write_manifest({**manifest, SHA256: {**manifest[SHA256], REPORT: file_sha256(run.folder / REPORT)}})
    return run.folder / REPORT


def write_figures(run: Run, folder: Path, *, kind: str) -> "list[tuple[Path, str]]":
    """Write every figure of a finished run into a folder, a file for each; gives their paths and captions.

    Args:
        run: is not written to.
        folder: made where it is missing.
        kind: of ``report.FORMATS``.

    Raises:
        UsageError: as ``read_results``, or the run has nothing to draw. ValueError: as ``read_results``.
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
    if own_data(manifest) is not None:
        notes_read()
    path = needed(run, FINDINGS_JSON)
    found = parse_results(path.read_bytes(), str(path), own_names=own_data(manifest) is not None)
    items = {study: scored_items(run, study) for study in dict.fromkeys(one.study for one in found)}
    return Results(manifest, found, items, _coverage(run), _explained(run))


def as_public(results: Results) -> Results:
    """The results without places on the user's machine or network, in the manifest and in models' names."""
    if all(public_model(one.model_id) == one.model_id for one in results.found):
        return replace(results, manifest=public_manifest(results.manifest))
    return Results(
        public_manifest(results.manifest),
        [replace(one, model_id=public_model(one.model_id)) for one in results.found],
        {study: _renamed(rows) for study, rows in results.items.items()},
        _renamed(results.coverage),
        [replace(one, model_id=public_model(one.model_id)) for one in results.explained],
    )


def _renamed(rows: pd.DataFrame) -> pd.DataFrame:
    if "model_id" not in rows:
        return rows
    return rows.assign(model_id=[public_model(name) for name in rows["model_id"]])


def phrase_tables(items: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame]]:
    """For each study that reads phrases, a long table: a row per phrase with its probability and group."""
    for study, frame in items.items():
        reading = {one.name for one in load_study(study).experiments if one.reading == "phrases"}
        rows = frame[frame["experiment"].isin(reading)]
        if len(rows):
            phrases = rows.assign(pairs=rows["top_tokens"].map(json.loads)).explode("pairs").dropna(subset="pairs")
            names = ["prompt_id", "pair_id", "group", "construct", "condition", "label", "template", "model_id"]
            yield (
                study,
                phrases[names].assign(
                    phrase=[pair[0] for pair in phrases["pairs"]], probability=[pair[1] for pair in phrases["pairs"]]
                ),
            )


def needed(run: Run, name: str) -> Path:
    """The path of a file that every complete run has.

    Raises:
        ValueError: it is not there, or damaged.
    """
    path = run.folder / name
    if not path.is_file():
        raise ValueError(f"{path} is missing, and a complete run has it. Audit again into another --out.")
    run.check(name)
    return path


def scored_items(run: Run, study: str) -> pd.DataFrame:
    """The scored rows of a study of a finished run.

    Raises:
        ValueError: they are missing, or are not what an audit wrote.
    """
    import pyarrow as pa

    path = needed(run, f"items/{study}.parquet")
    try:
        rows = run.items(study)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}). Audit again.") from error
    if rows is None or not {"experiment", "group", "model_id", "score", "text"} <= set(rows):
        raise ValueError(f"{path} lacks columns of scored rows. Audit again.")
    if "top_tokens" in rows:
        rows["top_tokens"] = rows["top_tokens"].map(_as_json)
    return rows


def _as_json(cell: Any) -> Any:
    """Tokens as an audit writes them; a shared run has a list of objects in place of the JSON."""
    if cell is None or isinstance(cell, str):
        return cell
    return json.dumps([[one["token"], one["value"]] for one in cell], ensure_ascii=False)


def _coverage(run: Run) -> pd.DataFrame:
    """The table as it was written: words such as ``null`` and ``nan`` stay words."""
    path = run.folder / COVERAGE
    if not path.is_file():
        return pd.DataFrame()
    run.check(COVERAGE)
    table = pd.read_csv(path, dtype=str, keep_default_na=False).map(as_meant)
    if "in_vocabulary" not in table or not set(table["in_vocabulary"]) <= {"True", "False"}:
        raise ValueError(f"{path} has no column in_vocabulary of True and False. Audit again.")
    matched = table["matched"] == "True" if "matched" in table else False
    return table.assign(in_vocabulary=table["in_vocabulary"] == "True", matched=matched)


def _explained(run: Run) -> list[Explained]:
    path = run.folder / EXPLAINED
    if not path.is_file():
        return []
    run.check(EXPLAINED)
    try:
        return [Explained(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no list of explained notes ({error}). Audit again.") from error
