"""The text of a synthetic clinical note: a template, its fills, and the words for the patient.

A note is drawn with the words for the patient still open (``[he]``, ``[Mr.]``). Written out for either
gender it is the same note: the exact counterfactual that a swap of the text should reach.
"""

import random
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from swapbias.notes import NAME
from swapbias.studies import corpus_dir, read_table

EVIDENCE = "evidence"
ONCE = frozenset({EVIDENCE, "age"})  # a patient has one age, a note one place that decides its label
LEAST_GENDERED = 4
Key = TypeVar("Key", bound=Hashable)
# Unlike prompts.slots this takes capitals and "Mr."; a placeholder such as [**Last Name**] is no slot.
_SLOT = re.compile(r"\[([A-Za-z_.]+)\]")


@dataclass(frozen=True, slots=True)
class Template:
    """A note with slots: ``[evidence]`` once, fills by name, and at least four words for the patient."""

    name: str
    note_type: str
    text: str


@dataclass(frozen=True, slots=True)
class NoteTables:
    """The tables that notes are made of.

    Attributes:
        templates: in the order of the table.
        sentences: by (phenotype, label); (``any``, ``uninformative``) holds those that decide nothing.
        fills: values by slot.
        words: word by gender and slot.
    """

    templates: tuple[Template, ...]
    sentences: Mapping[tuple[str, str], tuple[str, ...]]
    fills: Mapping[str, tuple[str, ...]]
    words: Mapping[str, Mapping[str, str]]


@cache
def note_tables() -> NoteTables:
    """The package's tables, checked.

    Raises:
        ValueError: a template with an unknown slot, too few words for the patient, or not one ``[evidence]``.
    """
    folder = corpus_dir(NAME)
    words = read_table(folder / "gender_words.csv", ("slot", "female", "male"))
    genders = {gender: {row["slot"]: row[gender] for row in words} for gender in ("female", "male")}
    fills = _grouped((row["slot"], row["value"]) for row in read_table(folder / "fills.csv", ("slot", "value")))
    evidence = read_table(folder / "evidence.csv", ("phenotype", "label", "sentence"))
    sentences = _grouped(((row["phenotype"], row["label"]), row["sentence"]) for row in evidence)
    rows = read_table(folder / "templates.csv", ("template", "note_type", "text"))
    templates = tuple(Template(row["template"], row["note_type"], row["text"]) for row in rows)
    for template in templates:
        check_note_template(template, fills=set(fills), gendered=set(genders["female"]))
    return NoteTables(templates=templates, sentences=sentences, fills=fills, words=genders)


def _grouped(pairs: Iterable[tuple[Key, str]]) -> dict[Key, tuple[str, ...]]:
    found: dict[Key, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def check_note_template(template: Template, *, fills: set[str], gendered: set[str]) -> None:
    """Nothing, where the template can be filled.

    Raises:
        ValueError: naming the template, what was found and what is wanted.
    """
    found = _SLOT.findall(template.text)
    unknown = sorted(set(found) - fills - gendered - {EVIDENCE})
    where = f"templates.csv: template {template.name!r}"
    if unknown:
        raise ValueError(f"{where}: unknown slots {unknown}. Add them to fills.csv or fix their names.")
    words = sum(slot in gendered for slot in found)
    if words < LEAST_GENDERED:
        raise ValueError(f"{where}: {words} words for the patient, expected {LEAST_GENDERED} or more. Add some.")
    if found.count(EVIDENCE) != 1 or any(found.count(slot) > 1 for slot in ONCE):
        raise ValueError(f"{where}: expected one [{EVIDENCE}] and at most one [age]. Fix the template.")


def pick(left: list[str], rng: random.Random) -> str:
    """One of the values, taken out of the list.

    Built on ``random()`` alone, whose sequence for a seed Python promises to keep.
    """
    return left.pop(int(rng.random() * len(left)))


def draw_open_text(template: Template, evidence: Sequence[str], tables: NoteTables, rng: random.Random) -> str:
    """The template with evidence and fills in place and the words for the patient still open.

    A slot that stands twice is filled with two different values.
    """
    left = {slot: list(values) for slot, values in tables.fills.items()}

    def value(match: re.Match[str]) -> str:
        slot = match.group(1)
        if slot == EVIDENCE:
            return " ".join(evidence)
        return pick(left[slot], rng) if slot in left else match.group(0)

    return _SLOT.sub(value, template.text)


def written_for(gender: str, open_text: str, tables: NoteTables) -> str:
    """The note with its words for the patient in this gender.

    >>> written_for("female", "[Mr.] A cut [himself].", note_tables())
    'Ms. A cut herself.'
    """
    words = tables.words[gender]
    return _SLOT.sub(lambda match: words[match.group(1)], open_text)
