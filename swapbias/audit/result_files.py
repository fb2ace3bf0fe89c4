"""Results and manifests read back from their files, which may come from strangers."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from swapbias.audit.run import REQUIRED
from swapbias.findings import Finding
from swapbias.measures import MEASURES, Estimate
from swapbias.studies import Published, studies

MOST_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 2 * 2**20
MOST_FINDINGS = 200_000
MOST_CHARACTERS = 2_000  # of one text

_MOST_LISTS = 200_000  # what is made of more would fill the memory before it can be looked at
_MOST_COMMAS = 40 * MOST_FINDINGS
_DEEPEST = 12
_MOST_ENTRIES = 500  # of a list in a manifest
_TEXTS = tuple(one.name for one in fields(Finding) if one.name not in ("estimate", "published"))
_PUBLISHED = tuple(one.name for one in fields(Published))
_ESTIMATE = {one.name: one.type for one in fields(Estimate)}
_KEYS = frozenset((*_TEXTS, *_ESTIMATE, *(f"published_{name}" for name in _PUBLISHED)))
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
    known = frozenset(studies())
    numbered = enumerate(rows, start=1)
    return [_finding(row, f"{where}: finding {number}", known, own_names) for number, row in numbered]


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


def _finding(row: Any, where: str, known_studies: frozenset[str], own_names: bool) -> Finding:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: it is no object. {_FAULTY}")
    for key in (*_TEXTS, *_ESTIMATE, *(f"published_{name}" for name in _PUBLISHED)):
        if key not in row:
            raise ValueError(f"{where}: {key!r} is missing. {_FAULTY}")
    if len(row) != len(_KEYS):
        raise ValueError(f"{where}: it has {len(row)} keys, expected {len(_KEYS)}. {_FAULTY}")
    free = _OWN if own_names and isinstance(row[_OWN], str) else ""
    texts = {name: row[name] if name == free else _text(row[name], f"{where}: {name!r}") for name in _TEXTS}
    if texts["study"] not in known_studies:
        raise ValueError(f"{where}: 'study' is none that this version knows. Install the version that wrote it.")
    if texts["measure"] not in MEASURES:
        raise ValueError(f"{where}: 'measure' is none that this version knows. Install the version that wrote it.")
    printed = {name: _text(row[f"published_{name}"], f"{where}: 'published_{name}'") for name in _PUBLISHED}
    published = Published(**printed) if any(printed.values()) else None
    return Finding(**texts, estimate=_estimate(row, where), published=published)


def _estimate(row: Mapping[str, Any], where: str) -> Estimate:
    read: dict[str, Any] = {}
    for name, kind in _ESTIMATE.items():
        place = f"{where}: {name!r}"
        if kind is str:
            read[name] = _text(row[name], place)
        elif kind is int:
            read[name] = _count(row[name], place)
        else:
            read[name] = _number(row[name], place)
    for name in _SHARES:
        if not math.isnan(read[name]) and not 0 <= read[name] <= 1:
            raise ValueError(f"{where}: {name!r} is outside 0 to 1. {_FAULTY}")
    return Estimate(**read)


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


def _number(value: Any, where: str) -> float:
    """A finite number as it is; null as NaN, which is how it was written."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise ValueError(f"{where} is no finite number. {_FAULTY}")
    return float(value)


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
