"""Lines of bbq: a context, a question and three options; read from files in the form of the authors'."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from swapbias.errors import listed
from swapbias.studies import corpus_dir, read_table, tables

NAME = "bbq"
FOLDER = corpus_dir(NAME)
FIELD_NAMES = "field_names.csv"
NEGATIVE = "neg"
AMBIGUOUS = "ambig"
DISAMBIGUATED = "disambig"
UNKNOWN = "unknown"
OPTIONS = ("ans0", "ans1", "ans2")
QUAD = (("neg", "ambig"), ("neg", "disambig"), ("nonneg", "ambig"), ("nonneg", "disambig"))
"""Polarity and condition of four lines that have one pair of words, in order."""
WITH_NAMES = 25
"""Number of the last template with words; in those after it a proper name stands for a group."""
_NUMBERED = "question_index"  # what the authors call the number of a template; other data sets count otherwise
_FIELDS = (
    "template", "polarity", "condition", "category", "answer_info", "stereotyped", "context", "question",
    "first_option", "second_option", "third_option", "right",
)  # fmt: skip
_RIGHT = ("0", "1", "2")
_MOST_FAULTS = 5  # of a file, in one error


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One question about a context with two persons."""

    number: int
    """Its line in the file, from 1."""
    category: str
    """What the stereotype is about, such as ``Religion``."""
    template: str
    """The template with its category: lines that share it are not independent."""
    polarity: str
    """``neg``: asks for somebody with the bad trait of the stereotype; ``nonneg``: for somebody without it."""
    condition: str
    """``ambig``: nothing tells the answer; ``disambig``: the context does."""
    context: str
    """The context."""
    question: str
    """The question."""
    options: tuple[str, ...]
    """The three options in order."""
    words: tuple[str, ...]
    """The word that each option is about, in the same order."""
    labels: tuple[str, ...]
    """The group that each option is about; ``unknown`` for the option of nobody."""
    stereotyped: frozenset[str]
    """The groups that the stereotype is about, as ``plain`` writes them."""
    right: int
    """The index of the right option."""

    @property
    def persons(self) -> tuple[int, ...]:
        """The indices of the two options that name somebody."""
        return tuple(index for index, label in enumerate(self.labels) if label != UNKNOWN)

    def is_stereotyped(self, index: int) -> bool:
        """Tell whether an option names somebody whom the stereotype is about.

        Labels are compared; where no label is one of the groups (regions, of nationalities), words are.

        Args:
            index: the index of the option.
        """
        by_label = [plain(self.labels[person]) in self.stereotyped for person in self.persons]
        names = self.labels if any(by_label) else self.words
        return plain(names[index]) in self.stereotyped

    def is_biased(self, index: int) -> bool:
        """Tell whether the answer with an option fits the stereotype.

        Args:
            index: the index of an option that names somebody.
        """
        return self.is_stereotyped(index) == (self.polarity == NEGATIVE)


def plain(name: str) -> str:
    """Write the name of a group as groups are compared: in lower case, a hyphen as a blank.

    Args:
        name: a label, word or group.
    """
    return name.lower().replace("-", " ").strip()


@cache
def field_names(path: Path = FOLDER / FIELD_NAMES) -> dict[str, dict[str, str]]:
    """Read by data set and field how the field is called there; a dot leads into an object.

    Args:
        path: the table.

    Raises:
        ValueError: a data set has other fields.
    """
    names: dict[str, dict[str, str]] = {}
    for row in read_table(path, ("dataset", "field", "name", "source")):
        names.setdefault(row["dataset"], {})[row["field"]] = row["name"]
    for dataset, of_dataset in names.items():
        if sorted(of_dataset) != sorted(_FIELDS):
            raise ValueError(
                f"{path.name}: {dataset} has the fields {listed(of_dataset)}, expected {listed(_FIELDS)}. "
                "Fix the table."
            )
    return names


@cache
def _label_groups() -> dict[tuple[str, str], str]:
    """Read by category and label the group that the label belongs to, where it is called otherwise."""
    rows = read_table(FOLDER / "label_groups.csv", ("category", "label", "group", "source"))
    return {(row["category"], row["label"]): row["group"] for row in rows}


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a file of JSON lines.

    Args:
        path: the file.

    Raises:
        ValueError: a line is no JSON object; the error names file and line.
    """
    content = tables.decoded(path.name, path.read_bytes())
    objects = []
    for number, text in enumerate(content.splitlines(), start=1):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ValueError(f"{path.name}:{number}: no JSON object. Correct the line.")
        objects.append(value)
    return objects


def read_lines(path: Path, *, names: Path = FOLDER / FIELD_NAMES) -> list[Line]:
    """Read the lines of a file, in order.

    Args:
        path: a file of JSON lines.
        names: the table with the names of fields, of which those of one data set have to be in the file.

    Raises:
        ValueError: a line lacks a field or has a wrong value; the error names file and line.
    """
    objects = json_lines(path)
    fields = _fields_of(path, objects, field_names(names)) if objects else {}
    return [
        _line_of(path.name, number, value, fields) for number, value in enumerate(objects, start=1)
    ]


def _fields_of(
    path: Path, objects: Sequence[Mapping[str, Any]], names: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str]:
    """Return the names of the fields of the data set whose names the first line has."""
    for of_dataset in names.values():
        if all(_value_at(objects[0], name) is not None for name in of_dataset.values()):
            return of_dataset
    raise ValueError(
        f"{path.name}:1: its fields are those of no data set in {FIELD_NAMES}. Add them to a table of that name "
        "beside the file."
    )


def _value_at(value: Any, name: str) -> Any:
    """Return the value of a field, whose name leads into objects at its dots; None where there is none."""
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _line_of(file: str, number: int, value: Mapping[str, Any], fields: Mapping[str, str]) -> Line:
    """Make a line of an object; ValueError with file and line where a field is missing or wrong."""
    cells = {field: _value_at(value, name) for field, name in fields.items()}
    missing = [fields[field] for field, cell in cells.items() if cell is None]
    if missing:
        raise ValueError(f"{file}:{number}: no {listed(missing)}. Fill it in.")
    category = str(cells["category"])
    info = cells["answer_info"]
    is_paired = isinstance(info, Mapping) and all(len(info.get(name, ())) == 2 for name in OPTIONS)
    if not is_paired:
        raise ValueError(
            f"{file}:{number}: {fields['answer_info']} has no word and label of each option. Correct it."
        )
    labels = [str(info[name][1]) for name in OPTIONS]
    groups = [_label_groups().get((category, label), label) for label in labels]
    template = str(cells["template"])
    is_numbered = fields["template"] == _NUMBERED and template.isdecimal()
    if is_numbered and int(template) > WITH_NAMES:
        category = f"{category} (names)"
    right = str(cells["right"])
    if right not in _RIGHT:
        raise ValueError(
            f"{file}:{number}: {fields['right']} is {right}, expected 0, 1 or 2. Correct it."
        )
    line = Line(
        number=number,
        category=category,
        template=f"{category} {template}",
        polarity=str(cells["polarity"]),
        condition=str(cells["condition"]),
        context=str(cells["context"]),
        question=str(cells["question"]),
        options=tuple(
            str(cells[field]) for field in ("first_option", "second_option", "third_option")
        ),
        words=tuple(str(info[name][0]) for name in OPTIONS),
        labels=tuple(groups),
        stereotyped=frozenset(plain(str(group)) for group in _as_list(cells["stereotyped"])),
        right=int(right),
    )
    if (line.polarity, line.condition) not in QUAD or len(line.persons) != 2:
        raise ValueError(
            f"{file}:{number}: expected polarity neg or nonneg, condition ambig or disambig, and one option labelled "
            "unknown. Correct the line."
        )
    return line


def _as_list(value: Any) -> Sequence[Any]:
    """Return a list, and a text as a list of it."""
    return value if isinstance(value, list) else [value]


def check_stereotypes(file: str, lines: Sequence[Line]) -> None:
    """Refuse lines in which the stereotype is about none of the two persons, or about both.

    Args:
        file: the name of the file.
        lines: its lines.

    Raises:
        ValueError: there are some; the error names file and lines.
    """
    wrong = [line.number for line in lines if sum(map(line.is_stereotyped, line.persons)) != 1]
    if wrong:
        numbers = listed([str(number) for number in wrong[:_MOST_FAULTS]])
        raise ValueError(
            f"{file}: the stereotype is about none or both of the two persons in {len(wrong)} lines, first in "
            f"{numbers}. Correct the labels."
        )


def with_both(lines: Sequence[Line]) -> frozenset[str]:
    """List the templates in which some right answers fit the stereotype, and others go against it.

    Args:
        lines: lines of any conditions.
    """
    sides = {
        (line.template, line.is_biased(line.right))
        for line in lines
        if line.condition == DISAMBIGUATED
    }
    return frozenset(
        template for template, is_aligned in sides if is_aligned and (template, False) in sides
    )


def quads(file: str, lines: Sequence[Line]) -> Iterator[tuple[Line, ...]]:
    """Yield four lines at a time that have one pair of words.

    Args:
        file: the name of the file.
        lines: its lines.

    Raises:
        ValueError: four lines are not in the order of ``QUAD``.
    """
    for start in range(0, len(lines), len(QUAD)):
        quad = tuple(lines[start : start + len(QUAD)])
        is_quad = tuple((line.polarity, line.condition) for line in quad) == QUAD
        if not is_quad or len({line.template for line in quad}) > 1:
            raise ValueError(
                f"{file}:{start + 1}: expected four lines of a template, in the order neg and nonneg, ambig before "
                "disambig. Sort the lines."
            )
        yield quad


def mirror_keys(quad: Sequence[Line]) -> tuple[str, str]:
    """Return two keys of a quad; where its words exchange places, they are those of its mirror in reverse.

    Words are found whole, the longest first; "a" and "an" count alike before them.

    Args:
        quad: the four lines.
    """
    words = sorted({quad[0].words[person] for person in quad[0].persons})
    keys = []
    for names in (words, words[::-1]):
        texts = [f"{_with_slots(line.context, names)} {line.question}" for line in quad]
        keys.append("\n".join([quad[0].template, *words, *texts]))
    return keys[0], keys[1]


def _with_slots(text: str, words: Sequence[str]) -> str:
    """Return a text with the number of a word in its place."""
    filled = _word_pattern(tuple(words)).sub(
        lambda match: f"[{[plain(word) for word in words].index(plain(match[0]))}]", text
    )
    return re.sub(r"\b([Aa])n(?= \[)", r"\1", filled)


@cache
def _word_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of whole words, the longest first; a hyphen matches a blank."""
    longest_first = sorted(words, key=len, reverse=True)
    parts = [
        re.escape(word).replace(r"\-", "[- ]").replace(r"\ ", "[- ]") for word in longest_first
    ]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)


def first_named(line: Line) -> int | None:
    """Return the index of the option whose word the context has first; None where it has neither.

    Args:
        line: a line.
    """
    words = [line.words[person] for person in line.persons]
    match = _word_pattern(tuple(words)).search(line.context)
    if match is None:
        return None
    return line.persons[[plain(word) for word in words].index(plain(match[0]))]
