"""Forms of data sets like bbq: how they call their fields and values, where their files lie, in which language."""

import ast
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, listed
from swapbias.studies import corpus_dir, read_table, tables

NAME = "bbq"
FOLDER = corpus_dir(NAME)
ENGLISH = "en"
ANSWER_INFO = ("answer_info", "stereotyped")
BIASED = ("biased",)
LETTERED = ("first_option", "second_option", "third_option")
LISTED = ("options",)
_FIELDS = ("template", "polarity", "condition", "category", "context", "question", "right")
_TABLES = (
    "field_names.csv", "field_values.csv", "label_groups.csv", "unknown.csv", "languages.csv", "datasets.csv",
)  # fmt: skip
_LANGUAGE_NAMES = {
    "en": "English", "es": "Spanish", "ca": "Catalan", "nl": "Dutch", "tr": "Turkish", "ko": "Korean",
}  # fmt: skip
_TSV = ".tsv"
_ANY_FILE = "*.jsonl"  # says nothing about the language


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one data set calls its fields and their values."""

    dataset: str
    """The data set."""
    names: Mapping[str, str]
    """By field its name there; a dot leads into an object."""
    parts: Mapping[str, str]
    """By field the pattern whose group is the value, where only a part of the cell is."""
    values: Mapping[tuple[str, str], str]
    """By field and value what the value is called here."""

    def value(self, row: Mapping[str, Any], field: str) -> Any:
        """Return the value of a field; None where there is none.

        Args:
            row: an object of a file.
            field: the field.
        """
        value = _value_at(row, self.names[field])
        if value is not None and field in self.parts:
            match = re.search(self.parts[field], str(value))
            value = match and match[1]
        return self.values.get((field, str(value)), value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """What a prompt says in a language."""

    code: str
    """Its code."""
    ask: str
    """The line that asks for one option."""
    answer: str
    """What stands before the answer."""
    takes_endings: bool
    """Whether words take endings, so that a word is found where more letters follow it."""

    @property
    def name(self) -> str:
        """Its name in English; its code where none is known."""
        return _LANGUAGE_NAMES.get(self.code, self.code)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that say how data are read: those beside the data, else the corpus' own."""

    folder: Path = FOLDER
    """The folder of the data."""

    def read(self, name: str, columns: Sequence[str], optional: Sequence[str] = ()) -> list[Any]:
        """Read a table.

        Args:
            name: the name of its file.
            columns: its columns.
            optional: those that may be blank.
        """
        beside = self.folder / name
        return read_table(beside if beside.is_file() else FOLDER / name, columns, optional=optional)

    def beside(self) -> list[Path]:
        """List the tables beside the data that are read instead of the corpus' own."""
        return [path for name in _TABLES if (path := self.folder / name).is_file()]

    def forms(self) -> dict[str, Form]:
        """Read how each data set calls its fields.

        Raises:
            ValueError: a data set has other fields.
        """
        rows = self.read(
            "field_names.csv", ("dataset", "field", "name", "part", "source"), ("part",)
        )
        values = self.read("field_values.csv", ("dataset", "field", "value", "meaning", "source"))
        forms = {}
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            of_dataset = [row for row in rows if row["dataset"] == dataset]
            form = Form(
                dataset=dataset,
                names={row["field"]: row["name"] for row in of_dataset},
                parts={row["field"]: row["part"] for row in of_dataset if row["part"]},
                values={
                    (row["field"], row["value"]): row["meaning"]
                    for row in values
                    if row["dataset"] == dataset
                },
            )
            _check_fields(form)
            forms[dataset] = form
        return forms

    def form_of(self, file: str, rows: Sequence[Mapping[str, Any]]) -> Form:
        """Find the form of the data set whose fields the first row has.

        Args:
            file: the name of the file.
            rows: its objects.

        Raises:
            ValueError: there is none.
        """
        for form in self.forms().values():
            if all(_value_at(rows[0], name) is not None for name in form.names.values()):
                return form
        raise ValueError(
            f"{file}:1: its fields are those of no data set in field_names.csv. Add them to a table of that name "
            "beside the file."
        )

    def groups(self) -> dict[tuple[str, str], str]:
        """Read by category and label, in lower case, the group that it belongs to, where that is called otherwise."""
        rows = self.read("label_groups.csv", ("category", "label", "group", "source"))
        return {(row["category"], row["label"].lower()): row["group"] for row in rows}

    def unknowns(self, language: str) -> list[str]:
        """Read the wordings of the option that nobody can know, in a language.

        Args:
            language: its code.
        """
        rows = self.read("unknown.csv", ("wording", "language", "text", "source"))
        return [row["text"] for row in rows if row["language"] == language]

    def languages(self) -> dict[str, Language]:
        """Read by code what prompts say in each language."""
        columns = ("language", "ask", "answer", "endings", "source")
        return {
            row["language"]: Language(
                code=row["language"],
                ask=row["ask"],
                answer=row["answer"],
                takes_endings=row["endings"] == "yes",
            )
            for row in self.read("languages.csv", columns)
        }

    def language_of(self, path: Path, options: Sequence[str], form: Form) -> Language:
        """Find the language of a file: by its name, its wordings of unknown, its folder, its form; else English.

        Args:
            path: the file.
            options: options of its lines.
            form: the form of its data set.

        Raises:
            ValueError: it is not in the table of languages.
        """
        code = self._language_code(path, options, form.dataset)
        languages = self.languages()
        if code not in languages:
            raise ValueError(f"{path.name}: languages.csv has no language {code}. Add it.")
        return languages[code]

    def _language_code(self, path: Path, options: Sequence[str], dataset: str) -> str:
        """Find the code of the language of a file."""
        files = self._files()
        for row in files:
            pattern = row["files"].rpartition("/")[2]
            if pattern != _ANY_FILE and fnmatchcase(path.name, pattern):
                return str(row["language"])
        for language in self.languages():
            if not {*self.unknowns(language)}.isdisjoint(options):
                return language
        others = self.forms().keys() - {dataset}
        of_form = [row for row in files if row["dataset"] not in others]
        place = f"{path.parent.name}/{path.name}"
        by_folder = [row for row in of_form if fnmatchcase(place, row["files"])]
        by_form = [row for row in of_form if row["dataset"] == dataset]
        codes = [str(row["language"]) for row in (*by_folder, *by_form)]
        return next(iter(codes), ENGLISH)

    def data_files(self) -> list[Path]:
        """List the files of data: those of the folder, else those in it where repositories of data sets have them.

        Raises:
            UsageError: there are none.
        """
        folders = dict.fromkeys(row["files"].partition("/")[0] for row in self._files())
        for candidates in ([self.folder], [self.folder / name for name in folders]):
            paths = [path for folder in candidates for path in self._files_in(folder)]
            if paths:
                return paths
        raise UsageError(
            f"{self.folder} has no file of JSON lines (.jsonl), nor a folder data with some. "
            "Give the folder of the data."
        )

    def _files_in(self, folder: Path) -> list[Path]:
        """List the files of data in a folder: tables where there are any, for other JSON lines lie beside them."""
        patterns = [row["files"].rpartition("/")[2] for row in self._files()]
        rows = [
            path
            for path in sorted(folder.glob(f"*{_TSV}"))
            if any(fnmatchcase(path.name, pattern) for pattern in patterns)
        ]
        return rows or sorted(folder.glob(_ANY_FILE))

    def _files(self) -> list[Any]:
        """Read where files of data sets lie, and their language; the first pattern that fits counts."""
        return self.read("datasets.csv", ("dataset", "files", "language", "source"))


@cache
def english() -> Language:
    """Return what prompts say in English."""
    return Tables().languages()[ENGLISH]


def _check_fields(form: Form) -> None:
    """Refuse a data set that has other fields than a line needs."""
    expected = [
        sorted([*_FIELDS, *options, *groups])
        for options in (LETTERED, LISTED)
        for groups in (ANSWER_INFO, BIASED)
    ]
    if sorted(form.names) not in expected:
        raise ValueError(
            f"field_names.csv: {form.dataset} has the fields {listed(form.names)}, expected {listed(expected[0])}. "
            f"In place of {listed(LETTERED)} may be {LISTED[0]}, in place of {listed(ANSWER_INFO)} {BIASED[0]}. "
            "Fix the table."
        )


def _value_at(value: Any, name: str) -> Any:
    """Return the value of a field, whose name leads into objects at its dots; None where there is none."""
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def read_objects(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a file: of JSON lines, or the rows of a table with tabs between cells.

    Args:
        path: the file.

    Raises:
        ValueError: a line is no JSON object or no row; the error names file and line.
    """
    content = path.read_bytes()
    if path.suffix == _TSV:
        return list(_table_objects(path.name, content))
    objects = []
    # A text in JSON may hold other signs that end lines, such as U+2028.
    for number, text in enumerate(io.StringIO(tables.decoded(path.name, content)), start=1):
        value = _object_of(text)
        if value is None:
            raise ValueError(f"{path.name}:{number}: no JSON object. Correct the line.")
        objects.append(value)
    return objects


def _object_of(text: str) -> dict[str, Any] | None:
    """Return the JSON object of a line; None where it is none, or has half a character that no file can hold."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _table_objects(name: str, content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table."""
    handle = io.StringIO(tables.decoded(name, content), newline="")
    header = next(tables.strict_rows(name, handle, delimiter="\t"), (1, []))[1]
    rows = tables.table_rows(name, content, lambda names: [], optional=header, delimiter="\t")
    for line, row, faults in rows:
        if faults:
            raise ValueError(f"{name}:{line}: {faults[0]}")
        yield row


def as_list(cell: Any) -> Any:
    """Return a list that is written in a cell in Python's notation; any other cell as it is.

    Args:
        cell: the cell.
    """
    if not isinstance(cell, str) or not cell.startswith("["):
        return cell
    try:
        value = ast.literal_eval(cell)
    except (ValueError, SyntaxError):
        return cell
    return value if isinstance(value, list) else cell
