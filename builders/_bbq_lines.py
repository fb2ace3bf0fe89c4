"""Lines of bbq: a context, a question and three options; read from files in the form of the authors' and others."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swapbias.builders._bbq_forms import (
    BIASED,
    LETTERED,
    LISTED,
    Form,
    Language,
    Tables,
    as_list,
    english,
    read_objects,
)
from swapbias.builders._bbq_metadata import METADATA, Key, Target, metadata_file, read_targets
from swapbias.errors import listed

NEGATIVE = "neg"
AMBIGUOUS = "ambig"
DISAMBIGUATED = "disambig"
UNKNOWN = "unknown"
TARGET = "stereotyped"  # the label of whom a stereotype is about, where the data have no group of one name
OPTIONS = ("ans0", "ans1", "ans2")
_TEXTS = (
    "category",
    "template",
    "context",
    "question",
)  # fields that prompts and names are made of
QUAD = (("neg", "ambig"), ("neg", "disambig"), ("nonneg", "ambig"), ("nonneg", "disambig"))
"""Polarity and condition of four lines that have one pair of words."""
WITH_NAMES = 25
"""Number of the last template with words; in those after it a proper name stands for a group."""
_NUMBERED = "question_index"  # what the authors call the number of a template; other data sets count otherwise
_RIGHT = ("0", "1", "2")
_MOST_FAULTS = 5  # of a file, in one error
_LANGUAGE_LINES = 200  # from which the language of a file is told
_BETWEEN_TRAITS = re.compile(r"[-_,]")


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
    language: Language = field(default_factory=english)
    """What prompts say in its language."""

    @property
    def persons(self) -> tuple[int, ...]:
        """The indices of the two options that name somebody."""
        return tuple(index for index, label in enumerate(self.labels) if label != UNKNOWN)

    def is_stereotyped(self, index: int) -> bool:
        """Tell whether an option names somebody whom the stereotype is about.

        Labels are compared whole, else the traits of one (F-Black); where no label is one of the groups (regions, of
        nationalities), words are.

        Args:
            index: the index of the option.
        """
        for names in (self.labels, self.words):
            for traits_of in (_whole, _traits):
                about = [
                    person
                    for person in self.persons
                    if not traits_of(names[person]).isdisjoint(self.stereotyped)
                ]
                if about:
                    return index in about
        return False

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


def _whole(name: str) -> frozenset[str]:
    """Return the one group of a label."""
    return frozenset([plain(name)])


def _traits(name: str) -> frozenset[str]:
    """Return the traits of a label of several: a woman and black, of ``F-Black``."""
    return frozenset(plain(trait) for trait in _BETWEEN_TRAITS.split(name))


def read_lines(path: Path, *, how: Tables | None = None) -> list[Line]:
    """Read the lines of a file, in order.

    Args:
        path: a file of JSON lines, or a table with tabs between cells.
        how: the tables that say how; None: those of the corpus.

    Returns:
        the lines but those of which the authors know no target.

    Raises:
        ValueError: a line lacks a field or has a wrong value; the error names file and line.
    """
    how = how or Tables()
    rows = read_objects(path)
    if not rows:
        return []
    form = how.form_of(path.name, rows)
    language = _language_of(path, rows, form, how)
    beside = metadata_file(how.folder)
    reader = LineReader(
        file=path.name,
        form=form,
        language=language,
        unknowns=how.unknowns(language.code),
        groups=how.groups(),
        targets=read_targets(beside) if beside else {},
    )
    return [line for number, row in enumerate(rows, start=1) if (line := reader.line(number, row))]


def language_name(path: Path, how: Tables) -> str:
    """Name the language of a file.

    Args:
        path: a file of JSON lines, or a table with tabs between cells.
        how: the tables that say how it is read.

    Raises:
        ValueError: it has no lines, its fields are those of no data set, or its language is not known.
    """
    rows = read_objects(path)
    if not rows:
        raise ValueError(f"{path.name} has no lines. Fill it in, or move it away.")
    return _language_of(path, rows, how.form_of(path.name, rows), how).name


def _language_of(
    path: Path, rows: Sequence[Mapping[str, Any]], form: Form, how: Tables
) -> Language:
    """Find the language of a file by its first lines."""
    options = [option for row in rows[:_LANGUAGE_LINES] for option in _options(row, form) or ()]
    return how.language_of(path, options, form)


def _options(row: Mapping[str, Any], form: Form) -> list[str] | None:
    """Return the texts of the options; None where there are not three."""
    values: Any = [form.value(row, name) for name in LETTERED if name in form.names]
    if LISTED[0] in form.names:
        values = as_list(form.value(row, LISTED[0]))
    if not isinstance(values, list) or len(values) != len(OPTIONS) or None in values:
        return None
    return [str(value) for value in values]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """Makes lines of the objects of one file."""

    file: str
    """The name of the file."""
    form: Form
    """How it calls its fields."""
    language: Language
    """Its language."""
    unknowns: Sequence[str]
    """Wordings of the option that nobody can know, in its language."""
    groups: Mapping[tuple[str, str], str]
    """By category and label, in lower case, the group that it belongs to, where that is called otherwise."""
    targets: Mapping[Key, Target]
    """What the stereotype of a line is about, where the authors say so beside their data."""

    def line(self, number: int, row: Mapping[str, Any]) -> Line | None:
        """Make a line; None where the authors do not know whom its stereotype is about.

        Args:
            number: its number in the file.
            row: its object.

        Raises:
            ValueError: a field is missing or wrong; the error names file and line.
        """
        place = f"{self.file}:{number}"
        cells = {name: self.form.value(row, name) for name in self.form.names}
        missing = [name for name, cell in cells.items() if cell is None]
        if missing:
            raise ValueError(f"{place}: no {listed(map(self._told, missing))}. Fill it in.")
        for name in _TEXTS:
            if not _is_text(cells[name]):
                raise ValueError(f"{place}: {self._told(name)} is no text, or blank. Correct it.")
        category = str(cells["category"])
        template = str(cells["template"])
        target = self.targets.get((category, template, str(row.get("example_id", ""))))
        if target is not None and not target.is_known:
            return None
        options = _options(row, self.form)
        if options is None or len({*map(plain, options)} - {""}) != len(OPTIONS):
            raise ValueError(
                f"{place}: expected three options that are different and not blank. Correct them."
            )
        words, labels, stereotyped = self._people(place, cells, options, target)
        named = self._is_named(template, target)
        line = Line(
            number=number,
            category=_with_details(category, "names" if named else "", target),
            template=f"{_with_details(category, 'names' if named else '', None)} {template}",
            polarity=str(cells["polarity"]),
            condition=str(cells["condition"]),
            context=str(cells["context"]),
            question=str(cells["question"]),
            options=self._worded(options, labels, f"{category} {template}"),
            words=words,
            labels=labels,
            stereotyped=stereotyped,
            right=self._right(place, cells["right"], options),
            language=self.language,
        )
        if (line.polarity, line.condition) not in QUAD or len(line.persons) != 2:
            raise ValueError(
                f"{place}: expected polarity neg or nonneg, condition ambig or disambig, and one option labelled "
                "unknown. Correct the line."
            )
        return line

    def _told(self, name: str) -> str:
        """Name a field as the file does; one that is a part of another, with what the part tells."""
        told = self.form.names[name]
        return f"{told} that tells the {name}" if name in self.form.parts else told

    def _is_named(self, template: str, target: Target | None) -> bool:
        """Tell whether proper names stand for groups."""
        if target is not None and target.other:
            return target.is_named
        is_numbered = self.form.names["template"] == _NUMBERED and template.isdecimal()
        return is_numbered and int(template) > WITH_NAMES

    def _right(self, place: str, right: Any, options: Sequence[str]) -> int:
        """Return the index of the right option, which is a number or a text."""
        if str(right) in _RIGHT:
            return int(right)
        if str(right) in options:
            return options.index(str(right))
        expected = "0, 1 or 2" if BIASED[0] not in self.form.names else "one of the options"
        raise ValueError(
            f"{place}: {self.form.names['right']} is {right}, expected {expected}. Correct it."
        )

    def _worded(
        self, options: Sequence[str], labels: Sequence[str], template: str
    ) -> tuple[str, ...]:
        """Return the options; one that is only labelled unknown gets a wording of its language, drawn by template."""
        drawn = random.Random(f"unknown of {template}")
        wording = drawn.choice(self.unknowns) if self.unknowns else UNKNOWN
        return tuple(
            wording if option == label == UNKNOWN else option
            for option, label in zip(options, labels, strict=True)
        )

    def _people(
        self,
        place: str,
        cells: Mapping[str, Any],
        options: Sequence[str],
        target: Target | None,
    ) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
        """Return the word and the label of each option, and the groups that the stereotype is about."""
        if BIASED[0] in cells:
            return self._people_by_answer(place, cells, options)
        info = cells["answer_info"]
        is_paired = isinstance(info, Mapping) and all(
            _is_word_and_label(info.get(name)) for name in OPTIONS
        )
        if not is_paired:
            raise ValueError(
                f"{place}: {self.form.names['answer_info']} has no word and label of each option. Correct it."
            )
        words = tuple(
            str(info[name][0]) or option for name, option in zip(OPTIONS, options, strict=True)
        )
        labels = [self._group(cells, info[name][1]) for name in OPTIONS]
        if target is not None and target.other:
            return words, _crossed_labels(labels, target), frozenset([TARGET])
        groups = frozenset(
            plain(self._group(cells, group)) for group in _as_list(cells["stereotyped"])
        )
        return words, tuple(labels), groups

    def _group(self, cells: Mapping[str, Any], label: Any) -> str:
        """Return the group of a label."""
        return self.groups.get((str(cells["category"]), str(label).lower()), str(label))

    def _people_by_answer(
        self, place: str, cells: Mapping[str, Any], options: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
        """Tell who is who where the data name the answer that fits the stereotype."""
        persons = [option for option in options if option not in self.unknowns]
        biased = str(cells["biased"])
        if len(persons) != 2 or biased not in persons:
            raise ValueError(
                f"{place}: expected {self.form.names['biased']} to be one of two persons, beside an option of "
                "unknown.csv. Correct the line."
            )
        is_negative = str(cells["polarity"]) == NEGATIVE
        target = next(person for person in persons if (person == biased) == is_negative)
        roles = {person: TARGET if person == target else "other" for person in persons}
        labels = tuple(roles.get(option, UNKNOWN) for option in options)
        return tuple(options), labels, frozenset([TARGET])


def _is_text(value: Any) -> bool:
    """Tell whether a value is a text or a number that is not blank."""
    is_scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
    return is_scalar and bool(str(value).strip())


def _is_word_and_label(value: Any) -> bool:
    """Tell whether a value is a list of two texts, of which some data have blank ones."""
    return (
        isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)
    )


def _with_details(category: str, named: str, target: Target | None) -> str:
    """Name a category: with names in it, or by the traits in which its persons differ."""
    details = [named, target.differs if target else ""]
    shown = ", ".join(filter(None, details))
    return f"{category} ({shown})" if shown else category


def _crossed_labels(labels: Sequence[str], target: Target) -> tuple[str, ...]:
    """Label the person with both traits of a stereotype; of a person without a label the other one tells."""
    races = {plain(race) for race in target.races}
    roles = {}
    for index, label in enumerate(labels):
        if label and label != UNKNOWN:
            traits = _traits(label)
            is_target = plain(target.other) in traits and not races.isdisjoint(traits)
            roles[index] = TARGET if is_target else label
    blanks = [index for index, label in enumerate(labels) if not label]
    if len(roles) == 1 and len(blanks) == 1:  # some persons have no label in the authors' data
        roles[blanks[0]] = "other" if TARGET in roles.values() else TARGET
    return tuple(roles.get(index, label) for index, label in enumerate(labels))


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
            f"{numbers}. Correct the labels; of the authors' data, add their {METADATA}."
        )


def with_both(lines: Sequence[Line]) -> frozenset[tuple[str, str]]:
    """List category and template where some right answers fit the stereotype, and others go against it.

    Args:
        lines: lines of any conditions.
    """
    sides = {
        (line.category, line.template, line.is_biased(line.right))
        for line in lines
        if line.condition == DISAMBIGUATED
    }
    return frozenset(
        (category, template)
        for category, template, is_aligned in sides
        if is_aligned and (category, template, False) in sides
    )
