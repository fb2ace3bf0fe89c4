"""What a run comes to: its results as files, and read back from them, also where a stranger wrote them."""

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.errors import UsageError, need_audit_extra
from swapbias.files import as_meant, write_whole
from swapbias.findings import Finding, findings_table
from swapbias.measures import MEASURES, Estimate
from swapbias.models.clinical import Explained
from swapbias.privacy import is_credentialed, notes_read, own_data, public_manifest, public_model, writing
from swapbias.runs.run import ITEMS, REQUIRED, Run
from swapbias.studies import Published, load_study, own_studies, studies

MOST_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 2 * 2**20
MOST_FINDINGS = 200_000
MOST_CHARACTERS = 2_000  # of one text

_MOST_LISTS = 200_000  # what is made of more would fill the memory before it can be looked at
_MOST_COMMAS = 40 * MOST_FINDINGS
_DEEPEST = 12
_MOST_ENTRIES = 500  # of a list in a manifest
_OF_FINDING = {one.name: one.type for one in fields(Finding) if one.name not in ("estimate", "published")}
_TEXTS = tuple(name for name, kind in _OF_FINDING.items() if kind is str)
_NUMBERS = tuple(name for name, kind in _OF_FINDING.items() if kind is float)
_COUNTS = tuple(name for name, kind in _OF_FINDING.items() if kind is int)
_PUBLISHED = tuple(one.name for one in fields(Published))
_ESTIMATE = {one.name: one.type for one in fields(Estimate)}
_PRINTED = tuple(f"published_{name}" for name in _PUBLISHED)
_KEYS = frozenset((*_OF_FINDING, *_ESTIMATE, *_PRINTED))
_OF_KIND = {kind: tuple(name for name, own in _ESTIMATE.items() if own is kind) for kind in (str, int, float)}
_get_texts, _get_numbers, _get_printed = (itemgetter(*names) for names in (_TEXTS, _NUMBERS, _PRINTED))
_get_estimate = {kind: itemgetter(*names) for kind, names in _OF_KIND.items()}
_WRITTEN: tuple[set[type], ...] = ({str}, {float, type(None)}, {int}, {bool})  # texts, numbers, counts, headlines
_SHARES = ("p_value", "p_adjusted")
_OWN = "slice_value"  # the one text of a finding that a user's own notes give
# Control characters, line and paragraph separators, what turns the direction of writing, halves of characters.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINES = re.compile("[\t\r\n]")
_FAULTY = "Take a file that swapbias wrote."


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
    read = _json(content, where, MOST_BYTES)
    if not isinstance(read, dict) or set(read) != {"swapbias", "findings"}:
        raise ValueError(f"{where}: its keys are other than swapbias and findings. {_FAULTY}")
    _text(read["swapbias"], f"{where}: 'swapbias'")
    rows = read["findings"]
    if not isinstance(rows, list):
        raise ValueError(f"{where}: 'findings' is no list. {_FAULTY}")
    if len(rows) > MOST_FINDINGS:
        raise ValueError(f"{where}: {len(rows)} findings, expected at most {MOST_FINDINGS}. {_FAULTY}")
    known = frozenset([*studies(), *own_studies()])
    if not _as_written(rows, known):
        for number, row in enumerate(rows, start=1):
            _check_finding(row, f"{where}: finding {number}", known, own_names)
    return [_finding(row) for row in rows]


def parse_manifest(content: bytes, where: str) -> dict[str, Any]:
    """The manifest of a run: what was audited, how, and with which versions.

    The keys that every run has are there and of their type; further ones are kept, of native types.

    Raises:
        ValueError: as ``parse_results``.
    """
    read = _json(content, where, MOST_MANIFEST_BYTES)
    if not isinstance(read, dict):
        raise ValueError(f"{where}: it is no JSON object. {_FAULTY}")
    for key in REQUIRED:
        if key not in read:
            raise ValueError(f"{where}: {key!r} is missing. {_FAULTY}")
    _plain(read, where, _DEEPEST)
    for key in ("swapbias", "status", "started", "finished"):
        _text(read.get(key, ""), f"{where}: {key!r}")
    if not isinstance(read.get("credentialed", False), bool):
        raise ValueError(f"{where}: 'credentialed' is neither true nor false. {_FAULTY}")
    for key in ("settings", "versions"):
        if not isinstance(read[key], dict):
            raise ValueError(f"{where}: {key!r} is no object. {_FAULTY}")
    for name in read["versions"].values():
        _text(name, f"{where}: 'versions'")
    _entries(read["corpora"], ("corpus", "config", "sha256"), ("rows",), f"{where}: 'corpora'")
    _entries(read["skipped"], ("study", "experiment", "reason"), (), f"{where}: 'skipped'")
    _entries(read.get("models", []), ("model_id",), (), f"{where}: 'models'")
    return read


def _json(content: bytes, where: str, most: int) -> Any:
    """What the JSON says: keys once, numbers finite."""
    if len(content) > most:
        raise ValueError(f"{where}: {len(content)} bytes, expected at most {most}. {_FAULTY}")
    crowded = content.count(b"[") > _MOST_LISTS or content.count(b"{") > MOST_FINDINGS + _MOST_LISTS
    if crowded or content.count(b",") > _MOST_COMMAS:
        raise ValueError(f"{where}: it holds more lists or values than results have. {_FAULTY}")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: it is not UTF-8. {_FAULTY}") from error
    except RecursionError as error:
        raise ValueError(f"{where}: it is nested too deeply. {_FAULTY}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: it is no JSON from line {error.lineno} on. {_FAULTY}") from error
    except ValueError as error:  # from the two functions below, or a number of thousands of digits
        raise ValueError(f"{where}: it holds a key twice, or a number that is none. {_FAULTY}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _as_written(rows: Sequence[Any], known_studies: frozenset[str]) -> bool:
    """Whether all findings are surely what ``Run.write_json`` makes: a hundred runs have two million values.

    Where it is False each of them is to be looked at.
    """
    if not all(type(row) is dict and row.keys() == _KEYS for row in rows):
        return False
    names = (*_TEXTS, *_PRINTED, *_OF_KIND[str]), (*_NUMBERS, *_OF_KIND[float]), (*_COUNTS, *_OF_KIND[int])
    texts, numbers, counts = (list(chain.from_iterable(map(itemgetter(*some), rows))) for some in names)
    kinds = [set(map(type, values)) for values in (texts, numbers, counts, map(itemgetter("headline"), rows))]
    if not all(found <= wanted for found, wanted in zip(kinds, _WRITTEN, strict=True)):
        return False
    fine = not _UNSHOWN.search("".join(texts)) and max(map(len, texts), default=0) <= MOST_CHARACTERS
    fine = fine and max(counts, default=0) < 2**53 and min(counts, default=0) >= 0
    known = [value for value in numbers if value is not None]
    fine = fine and max(known, default=0.0) <= 1e300 and min(known, default=0.0) >= -1e300
    fine = fine and all(row[name] is None or 0 <= row[name] <= 1 for row in rows for name in _SHARES)
    return (
        fine and {row["study"] for row in rows} <= known_studies and {row["measure"] for row in rows} <= set(MEASURES)
    )


def _check_finding(row: Any, where: str, known_studies: frozenset[str], own_names: bool) -> None:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: it is no object. {_FAULTY}")
    if row.keys() != _KEYS:
        for key in (*_OF_FINDING, *_ESTIMATE, *_PRINTED):
            if key not in row:
                raise ValueError(f"{where}: {key!r} is missing. {_FAULTY}")
        raise ValueError(f"{where}: it has {len(row)} keys, expected {len(_KEYS)}. {_FAULTY}")
    free = _OWN if own_names and isinstance(row[_OWN], str) else ""
    for name in _TEXTS:
        if name != free:
            _text(row[name], f"{where}: {name!r}")
    if row["study"] not in known_studies:
        raise ValueError(f"{where}: 'study' is none that this version knows. Install the version that wrote it.")
    if row["measure"] not in MEASURES:
        raise ValueError(f"{where}: 'measure' is none that this version knows. Install the version that wrote it.")
    if not isinstance(row["headline"], bool):
        raise ValueError(f"{where}: 'headline' is neither true nor false. {_FAULTY}")
    for name in _PRINTED:
        _text(row[name], f"{where}: {name!r}")
    for name in _NUMBERS:
        _number(row[name], f"{where}: {name!r}")
    for name in _COUNTS:
        _count(row[name], f"{where}: {name!r}")
    for name, kind in _ESTIMATE.items():
        check = _text if kind is str else _count if kind is int else _number
        check(row[name], f"{where}: {name!r}")
    for name in _SHARES:
        if row[name] is not None and not 0 <= row[name] <= 1:
            raise ValueError(f"{where}: {name!r} is outside 0 to 1. {_FAULTY}")


def _finding(row: Mapping[str, Any]) -> Finding:
    """The finding of a row that was looked at; each text is held once however many findings have it."""
    estimate: dict[str, Any] = {
        **dict(zip(_OF_KIND[str], map(sys.intern, _get_estimate[str](row)), strict=True)),
        **dict(zip(_OF_KIND[float], map(_float, _get_estimate[float](row)), strict=True)),
        **dict(zip(_OF_KIND[int], _get_estimate[int](row), strict=True)),
    }
    texts: dict[str, Any] = dict(zip(_TEXTS, map(sys.intern, _get_texts(row)), strict=True))
    numbers: dict[str, Any] = dict(zip(_NUMBERS, map(_float, _get_numbers(row)), strict=True))
    printed = _get_printed(row)
    published = Published(*map(sys.intern, printed)) if any(printed) else None
    counts = {name: row[name] for name in _COUNTS}
    return Finding(
        **texts, **numbers, **counts, headline=row["headline"], estimate=Estimate(**estimate), published=published
    )


def _float(value: float | None) -> float:
    """Null is how NaN is written."""
    return math.nan if value is None else float(value)


def _text(value: Any, where: str, *, lines: bool = False) -> str:
    """A text of one line, or of more; nothing in it that a terminal would obey."""
    if not isinstance(value, str):
        raise ValueError(f"{where} is no text. {_FAULTY}")
    if len(value) > MOST_CHARACTERS:
        raise ValueError(f"{where} has {len(value)} characters, expected at most {MOST_CHARACTERS}. {_FAULTY}")
    if _UNSHOWN.search(_LINES.sub("", value) if lines else value):
        raise ValueError(f"{where} holds control characters. {_FAULTY}")
    return value


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"{where} is no count, expected a whole number from 0 up. {_FAULTY}")
    return value


def _number(value: Any, where: str) -> None:
    """A finite number, or null, which is how NaN is written."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise ValueError(f"{where} is no finite number. {_FAULTY}")


def _entries(value: Any, texts: tuple[str, ...], counts: tuple[str, ...], where: str) -> None:
    """Check a list of objects that have these texts and counts among their keys."""
    if not isinstance(value, list):
        raise ValueError(f"{where} is no list. {_FAULTY}")
    if len(value) > _MOST_ENTRIES:
        raise ValueError(f"{where} has {len(value)} entries, expected at most {_MOST_ENTRIES}. {_FAULTY}")
    for number, entry in enumerate(value, start=1):
        if not isinstance(entry, dict):
            raise ValueError(f"{where}, entry {number}, is no object. {_FAULTY}")
        for name in texts:
            _text(entry.get(name), f"{where}, entry {number}: {name!r}")
        for name in counts:
            _count(entry.get(name), f"{where}, entry {number}: {name!r}")


def _plain(value: Any, where: str, deepest: int) -> None:
    """Check every text and number, however nested."""
    if deepest == 0:
        raise ValueError(f"{where}: it is nested too deeply. {_FAULTY}")
    if isinstance(value, dict):
        for name in value:
            _text(name, f"{where}: a key")
        for inner in value.values():
            _plain(inner, where, deepest - 1)
    elif isinstance(value, list):
        for inner in value:
            _plain(inner, where, deepest - 1)
    elif isinstance(value, str):
        _text(value, f"{where}: a value", lines=True)
    elif not isinstance(value, bool):
        _number(value, f"{where}: a value")


FINDINGS_CSV = "findings.csv"
FINDINGS_JSON = "results.json"
COVERAGE = "lexicon_coverage.csv"
EXPLAINED = "explanations.json"
REPORT = "report.html"


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
    with writing(run.folder, held=is_credentialed(run.folder)):
        write_report(run, results)
        run.record_drawn()
    return run.folder / REPORT


def mend(run: Run) -> bool:
    """Write again what is gone or damaged of a finished run and is made of its scored rows and findings.

    No model is read: it may be gone by now, or a stranger's code.

    Returns:
        Whether that was all; False: rows or findings themselves are damaged, or the run is not complete.

    Raises:
        UsageError, ValueError: as ``read_results``.
    """
    read = (f"{ITEMS}/", FINDINGS_JSON, COVERAGE, EXPLAINED)
    if run.manifest()["status"] != "complete" or any(name.startswith(read) for name in run.damaged()):
        return False
    results = read_results(run)
    with writing(run.folder, held=is_credentialed(run.folder)):
        run.sweep()
        write_results(run, results)
        run.write_manifest(run.with_sha256(run.manifest()))
        run.drop_checksums()
    return True


def write_figures(run: Run, folder: Path, *, style: str, kind: str) -> "list[tuple[Path, str]]":
    """Write every figure of a finished run into a folder, a file for each; gives their paths and captions.

    Args:
        run: is not written to.
        folder: made where it is missing.
        style: of ``report.STYLES``.
        kind: of ``report.FORMATS``.

    Raises:
        UsageError: as ``read_results``, or the run has nothing to draw. ValueError: as ``read_results``.
    """
    need_audit_extra("A figure", "matplotlib")
    from swapbias.report import draw_figures

    figures = draw_figures(as_public(read_results(run)).found, style=style)
    if not figures:
        raise UsageError(
            f"{run.folder} has no figures: no headline gap has a margin, and no slice has values that differ. Its "
            f"numbers are in {FINDINGS_CSV} and its report."
        )
    with writing(folder, held=is_credentialed(run.folder)):
        for one in figures:
            write_whole(folder / f"{one.name}.{kind}", one.as_bytes(kind, style))
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
    from swapbias.runs.results import parse_results

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
        raise ValueError(f"{path} is missing, and a complete run has it. Write it again with --resume {run.folder}.")
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
        raise ValueError(f"{path} has no column in_vocabulary of True and False. Write it again with --resume.")
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
        raise ValueError(f"{path} is no list of explained notes ({error}). Write it again with --resume.") from error
