"""Schema of the files of a run, which a stranger may have written: findings and manifest, checked key by key."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from swapbias import studies
from swapbias.errors import listed
from swapbias.files import parse_json
from swapbias.findings import Finding, explained_notes, terms
from swapbias.measures import MEASURES, Estimate
from swapbias.studies import own_studies, published as paper_numbers

MOST_BYTES = 64 * 2**20
MOST_MANIFEST_BYTES = 2 * 2**20
_MOST_CHARACTERS = 2_000  # of one text


# Control characters, line and paragraph separators, what turns the direction of writing.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[{_CONTROLS}\ud800-\udfff]")  # and halves of characters
_LINES = re.compile("[\t\r\n]")
_NEXT_STEP = "Take a file that swapbias wrote."
_FAULTS = {
    "string_pattern_mismatch": "it has control characters",
    "literal_error": "it is none that this version knows",
}
"""Sentences by the type of an error, where pydantic's own says less."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Refuses any other text, in Rust: a run has thousands of names."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check what is asked of any text first, whose errors say more."""
        return core_schema.chain_schema([handler(kind), core_schema.literal_schema([*self.names])])


# A pattern is matched in Rust, and a run has tens of thousands of texts; JSON has no halves of characters.
_Text = Annotated[
    str, StringConstraints(max_length=_MOST_CHARACTERS, pattern=rf"\A[^{_CONTROLS}]*\z")
]
_Number = (
    Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)] | None
)  # null is how NaN is written
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_TYPES: Mapping[Any, Any] = {str: _Text, float: _Number, int: _Count, bool: bool}
_EXPLANATIONS = TypeAdapter(
    Annotated[tuple[explained_notes.Explanation, ...], Field(max_length=200_000)]
)
_OF_FINDING = {
    entry.name: entry.type
    for entry in fields(Finding)
    if entry.name not in ("estimate", "published")
}
_OF_ESTIMATE = {entry.name: entry.type for entry in fields(Estimate)}
_PRINTED = tuple(f"published_{entry.name}" for entry in fields(paper_numbers.Published))
_cells_of = itemgetter(*_OF_FINDING, *_OF_ESTIMATE, *_PRINTED)
_BEFORE_ESTIMATE = [entry.name for entry in fields(Finding)].index("estimate")


def _results_file(*, own_names: bool) -> type[BaseModel]:
    """Return the model of a ``results.json``; ``own_names``: values of slices are any texts."""
    return _results_of(
        own_names,
        study=(*studies.studies(), *own_studies()),
        measure=tuple(MEASURES),
        reason=("", *terms.UNMEASURED_REASONS),
    )


@lru_cache(maxsize=4)
def _results_of(own_names: bool, **names: tuple[str, ...]) -> type[BaseModel]:
    """Return the model of a ``results.json`` with the names that some fields may have."""
    types = {name: _TYPES[kind] for name, kind in (_OF_FINDING | _OF_ESTIMATE).items()}
    types |= {field: Annotated[_Text, _Known(allowed)] for field, allowed in names.items()}
    types |= {"p_value": _Share, "p_adjusted": _Share} | dict.fromkeys(_PRINTED, _Text)
    if own_names:
        types["slice_value"] = str
    strict = ConfigDict(strict=True, extra="forbid")
    row = create_model(
        "Row", __config__=strict, **{name: (kind, ...) for name, kind in types.items()}
    )  # type: ignore[call-overload]
    rows = Annotated[list[row], Field(max_length=200_000)]  # type: ignore[valid-type]
    return create_model(
        "ResultsFile", __config__=strict, swapbias=(_Text, ...), findings=(rows, ...)
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
    """The keys that every manifest has; further ones may be there."""

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


def without_controls(text: str) -> str:
    """Return a text with a blank in place of each control character.

    Args:
        text: the text that a stranger may have written.
    """
    return _CONTROL.sub(" ", text)


def parse_results(content: bytes, source: str, *, own_names: bool = False) -> list[Finding]:
    """Return the findings of a ``results.json`` as they were written.

    Args:
        content: the content of the file.
        source: name of the file, for sentences.
        own_names: take any values of slices.

    Raises:
        ValueError: no audit wrote the file.
    """
    parsed: Any = _validated(_results_file(own_names=own_names), content, source, MOST_BYTES)
    return [_as_finding(vars(row)) for row in parsed.findings]


def _as_finding(row: Mapping[str, Any]) -> Finding:
    """Return the finding of a row; NaN where the file has null."""
    cells: list[Any] = [math.nan if cell is None else cell for cell in _cells_of(row)]
    of_finding = cells[: len(_OF_FINDING)]
    of_estimate = cells[len(of_finding) : -len(_PRINTED)]
    printed = cells[-len(_PRINTED) :]
    published = paper_numbers.Published(*printed) if any(printed) else None
    of_finding.insert(_BEFORE_ESTIMATE, Estimate.of_values(of_estimate))
    return Finding.of_values([*of_finding, published])


def parse_manifest(content: bytes, source: str) -> dict[str, Any]:
    """Return the manifest of a run, with the keys that every run has and any others.

    Args:
        content: the content of the file.
        source: name of the file, for sentences.

    Raises:
        ValueError: no audit wrote the file.
    """
    _validated(_Manifest, content, source, MOST_MANIFEST_BYTES)
    manifest: dict[str, Any] = parse_json(content)
    _check_texts(manifest, source)
    return manifest


def _validated(model: type[BaseModel], content: bytes, source: str, most: int) -> BaseModel:
    """Return the content of a file as a model; a ValueError names the first entry that does not fit."""
    if len(content) > most:
        raise ValueError(f"{source}: {len(content)} bytes, expected at most {most}. {_NEXT_STEP}")
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise ValueError(f"{source}: it is no JSON. {_NEXT_STEP}") from None
        keys = [
            f"entry {key + 1}" if isinstance(key, int) else repr(key[:40]) for key in first["loc"]
        ]
        entry = listed(keys, "file")
        fault = _FAULTS.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise ValueError(f"{source}: {entry}: {fault}. {_NEXT_STEP}") from None


def _check_texts(value: Any, source: str) -> None:
    """Refuse control characters except ends of lines, and numbers beyond what is written, however nested."""
    if isinstance(value, str):
        has_controls = _CONTROL.search(_LINES.sub("", value))
        if len(value) > _MOST_CHARACTERS or has_controls:
            raise ValueError(
                f"{source}: a text is too long or has control characters. {_NEXT_STEP}"
            )
    elif isinstance(value, float | int):
        if not abs(value) <= 1e300:  # NaN is none either
            raise ValueError(f"{source}: a number is not finite or too large. {_NEXT_STEP}")
    elif isinstance(value, dict):
        for inner in [*value, *value.values()]:
            _check_texts(inner, source)
    elif isinstance(value, list):
        for inner in value:
            _check_texts(inner, source)


def parse_explanations(content: bytes, source: str) -> tuple[explained_notes.Explanation, ...]:
    """Return the explanations of a file of a run.

    Args:
        content: the file.
        source: its name, for errors, which repeat no cell of it.

    Raises:
        ValueError: it is not what swapbias writes.
    """
    try:
        return _EXPLANATIONS.validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        kind = first["type"].replace("_", " ")
        raise ValueError(
            f"{source} is no list of explained notes ({kind}). Take a file that swapbias wrote."
        ) from None
