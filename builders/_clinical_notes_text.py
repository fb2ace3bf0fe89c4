"""The text of a synthetic clinical note: one patient, whom all sections of a template tell of.

A note is drawn with the words for the patient still open (``[he]``, ``[Mr.]``). Written out for either gender it is
the same note: the exact counterfactual that a swap of the text should reach. Words for relatives and clinicians are
not open: they are other people, and stay.
"""

import random
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, TypeAdapter

from swapbias.notes import NAME
from swapbias.studies import corpus_dir, read_table

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
PLACES = ("past", "now")  # of evidence: what is known of a patient, and what is seen during the stay
SPECIFIC_SHARE = 0.36  # of patients with a term of one gender: not every template has a place for it
CLINICIAN_SHARE = 0.45  # of notes that tell of a clinician
RELATIVE_SHARE = 0.2  # of notes in which a relative tells of the patient; as many tell of a family's illness
_OPTIONAL = ("medication", "form", "excludes", "problem", "youngest", "oldest", "unless", "topic")  # blank cells
_USUAL_IMAGE = "Chest radiograph: no acute process."
_REGIONS = {
    "Chest": "chest", "chest": "chest", "abdomen": "abdomen", "kidneys": "abdomen", "brain": "head", "head": "head",
    "Pelvis": "limb", "leg": "limb",
}  # fmt: skip
_VOWEL = re.compile(r"\b([Aa])(?= (?:8|11\b|18\b))")  # a 79-year-old, an 80-year-old
SLOT = re.compile(r"\[([A-Za-z_.]+)\]")  # a placeholder such as [**Last Name**] is no slot


def _several(cell: str | frozenset[str]) -> frozenset[str]:
    """What a cell names, joined by bars."""
    return frozenset(filter(None, cell.split("|"))) if isinstance(cell, str) else cell


Several = Annotated[frozenset[str], BeforeValidator(_several)]


@dataclass(frozen=True, slots=True)
class Template:
    """A note with slots: evidence of both places once, and at least four words for the patient.

    ``unless`` names the acute illnesses that such a note is never about.
    """

    name: str
    note_type: str
    text: str
    unless: Several = frozenset()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence on a phenotype; those of a note differ in ``topic``, and share a ``form`` where they have any."""

    phenotype: str
    label: str
    topic: str
    place: str
    sentence: str
    form: str = ""
    medication: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """An illness: ages that have it, and words of illnesses or operations that nobody with it has."""

    name: str
    kind: str
    youngest: int
    oldest: int
    excludes: Several = frozenset()

    def fits(self, age: int) -> bool:
        """Whether a patient of this age can have it."""
        return self.youngest <= age <= self.oldest

    def rules_out(self, text: str) -> bool:
        """Whether nobody with it has the illness or operation of this text."""
        return any(word in text for word in self.excludes)


@dataclass(frozen=True, slots=True)
class Passage:
    """What a section may say: of which ages, not beside which problems, and on which topics.

    Passages of a note share no topic: who tells that the mother died has no mother at the bedside. ``gender``: what
    a patient of the other gender cannot have.
    """

    section: str
    text: str
    problem: str = ""
    gender: str = ""
    youngest: int = 0
    oldest: int = 150
    unless: Several = frozenset()
    topics: Several = frozenset()

    def fits(self, age: int, problems: Iterable[str] = ()) -> bool:
        """Whether it can be said of a patient of this age with these problems."""
        return self.youngest <= age <= self.oldest and self.unless.isdisjoint(problems)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a vital sign or laboratory value lies between, with so many decimals."""

    kind: str
    name: str
    low: float
    high: float
    decimals: int
    problem: str = ""

    def drawn(self, rng: random.Random) -> str:
        """A value as it is written."""
        return f"{self.low + rng.random() * (self.high - self.low):.{self.decimals}f}"


@dataclass(frozen=True)
class NoteTables:
    """The tables that notes are made of."""

    templates: tuple[Template, ...]
    evidence: Mapping[tuple[str, str], tuple[Evidence, ...]]  # by phenotype, label; (any, uninformative): none
    problems: tuple[Problem, ...]
    passages: Mapping[tuple[str, str], tuple[Passage, ...]]  # by problem, section; a blank problem is any
    measurements: tuple[Measurement, ...]  # usual ones, with a blank problem, and those of problems
    specific: Mapping[str, tuple[Passage, ...]]  # by gender
    words: Mapping[str, Mapping[str, str]]  # by gender and slot

    def texts(self, section: str, problem: str = "") -> list[str]:
        """The passages of a section, of patients of any age."""
        return [one.text for one in self.passages.get((problem, section), ())]


@cache
def note_tables() -> NoteTables:
    """The package's tables."""
    words = read_table(corpus_dir(NAME) / "gender_words.csv", ("slot", "female", "male"))
    evidence = _read(Evidence, "evidence", "phenotype", "label", "topic", "form", "place", "sentence", "medication")
    passages = _read(Passage, "passages", "problem", "section", "youngest", "oldest", "unless", "topic", "text")
    specific = _read(Passage, "specific", "gender", "section", "youngest", "oldest", "topic", "text")
    return NoteTables(
        templates=_read(Template, "templates", "template", "note_type", "unless", "text"),
        evidence=_grouped(evidence, lambda one: (one.phenotype, one.label)),
        problems=_read(Problem, "problems", "problem", "kind", "youngest", "oldest", "excludes"),
        passages=_grouped(passages, lambda one: (one.problem, one.section)),
        measurements=_read(Measurement, "measurements", "problem", "kind", "name", "low", "high", "decimals"),
        specific=_grouped(specific, lambda one: one.gender),
        words={gender: {row["slot"]: row[gender] for row in words} for gender in ("female", "male")},
    )


def _read(kind: type[Value], table: str, *columns: str) -> tuple[Value, ...]:
    """The rows of a table; a blank cell is the default of its field."""
    fields = {"template": "name", "topic": "topics" if kind is Passage else "topic"}
    fields |= {"problem": "name"} if kind is Problem else {}
    rows = read_table(corpus_dir(NAME) / f"{table}.csv", columns, optional=_OPTIONAL)
    known = [{fields.get(name, name): cell for name, cell in row.items() if cell} for row in rows]
    return TypeAdapter(tuple[kind, ...]).validate_python(known)


def _grouped(values: Iterable[Value], key_of: Callable[[Value], Key]) -> dict[Key, tuple[Value, ...]]:
    found: dict[Key, list[Value]] = {}
    for value in values:
        found.setdefault(key_of(value), []).append(value)
    return {key: tuple(several) for key, several in found.items()}


def pick(remaining: list[Value], rng: random.Random) -> Value:
    """One of the values, taken out of the list.

    Built on ``random()`` alone, whose sequence for a seed Python promises to keep.
    """
    return remaining.pop(int(rng.random() * len(remaining)))


class Patient:
    """One patient: age, an acute illness, chronic ones, and what follows from them in every section.

    Values are drawn when the patient is made, or once when a section first asks, so that no two sections disagree.
    """

    def __init__(
        self, gender: str, tables: NoteTables, rng: random.Random, *, unless: frozenset[str] = frozenset()
    ) -> None:
        """Draw a patient who is not here for one of these; what only one gender can have depends on the gender."""
        self.tables, self.rng = tables, rng
        self.acute = pick([one for one in tables.problems if one.kind == "acute" and one.name not in unless], rng)
        self.age = self.acute.youngest + int(rng.random() * (self.acute.oldest - self.acute.youngest + 1))
        self.topics: set[str] = set()  # those that were written about
        self.specific = self._specific(gender)
        self.chronic: list[Problem] = []
        self._fall_ill()
        self.drawn: dict[str, str] = {}
        self.unused: dict[str, list[Passage]] = {}
        self.taken: tuple[str, ...] = ()  # tablets that the evidence tells of

    def _fall_ill(self) -> None:
        """Two to four chronic illnesses that go with the acute one and with each other."""
        known = [one for one in self.tables.problems if one.kind == "chronic" and one.fits(self.age)]
        for _ in range(2 + int(self.rng.random() * 3)):
            remaining = [one for one in known if not self._excluded(self.tables.texts("illness", one.name)[0])]
            if remaining:
                self.chronic.append(pick(remaining, self.rng))
                known.remove(self.chronic[-1])

    def _excluded(self, text: str) -> bool:
        return any(one.rules_out(text) for one in self.problems)

    def _specific(self, gender: str) -> dict[str, str]:
        found: dict[str, str] = {}
        count = 1 + int(self.rng.random() * 2) if self.rng.random() < SPECIFIC_SHARE else 0
        for _ in range(count):
            remaining = [
                one
                for one in self.tables.specific[gender]
                if one.fits(self.age) and one.section not in found and self.topics.isdisjoint(one.topics)
            ]
            if remaining:
                one = pick(remaining, self.rng)
                found[one.section] = one.text
                self.topics |= one.topics
        return found

    @property
    def problems(self) -> list[Problem]:
        """The acute one first."""
        return [self.acute, *self.chronic]

    def value_of(self, slot: str) -> str:
        """What a slot holds; the same wherever it stands, but for sentences of a shift, a home or an image."""
        if slot in _SEVERAL:
            return self._one(slot)
        if slot not in self.drawn:
            self.drawn[slot] = SECTIONS[slot](self)
        return self.drawn[slot]

    def _one(self, section: str) -> str:
        """A passage of the section that was not written yet, on a topic that was not either."""
        remaining = self.unused.get(section) or self._fitting(section)
        chosen = pick([one for one in remaining if self.topics.isdisjoint(one.topics)] or list(remaining), self.rng)
        self.unused[section] = [one for one in remaining if one is not chosen]
        self.topics |= chosen.topics
        return chosen.text

    def _fitting(self, section: str) -> list[Passage]:
        """What a section may say of this patient."""
        region, name, _ = self._image
        of = {"radiology": region, "technique": name.split()[0]}.get(section, "")
        names = [one.name for one in self.problems]
        usual, mine = (self.tables.passages.get((one, section), ()) for one in (of, self.acute.name))
        return [one for one in (*usual, *mine) if one.fits(self.age, names)]

    def _all(self, section: str, problems: Sequence[Problem]) -> list[str]:
        return [text for one in problems for text in self.tables.texts(section, one.name)]

    def _seldom(self, section: str, share: float) -> str:
        return self._one(section) if self.rng.random() < share else ""

    def _family(self) -> str:
        if self.rng.random() >= RELATIVE_SHARE:
            return self._one("no family")
        return " ".join(self._one("family") for _ in range(1 + int(self.rng.random() * 2)))

    def _histories(self) -> list[str]:
        mine = [self.specific["history"]] if "history" in self.specific else []
        return [*self._all("illness", self.problems), *mine]

    def _operations(self) -> str:
        remaining = [one.text for one in self._fitting("surgery") if not self._excluded(one.text)]
        count = int(self.rng.random() * 3)
        mine = [self.specific["surgery"]] if "surgery" in self.specific else []
        return ", ".join([pick(remaining, self.rng) for _ in range(count)] + mine) or "none"

    def _tablets(self, *, home: bool) -> list[str]:
        """Each agent once, by its first word."""
        acute = self._all("home medication", [self.acute])
        acute += [] if home else self._all("medication", [self.acute])
        found = {text.split()[0]: text for text in (*self._all("medication", self.chronic), *self.taken, *acute)}
        return list(found.values()) or ["none"]

    def _measured(self, kind: str) -> dict[str, str]:
        """Each once: as the first of the patient's problems has it that changes it, or as usual."""
        names = ["", *(one.name for one in reversed(self.problems))]
        mine = [one for one in self.tables.measurements if one.kind == kind and one.problem in names]
        by_name = {one.name: one for one in sorted(mine, key=lambda one: names.index(one.problem))}
        return {name: one.drawn(self.rng) for name, one in by_name.items()}

    def _vitals(self) -> str:
        value = self._measured("vital")
        return (
            f"Temperature {value['temperature']}, heart rate {value['heart rate']}, blood pressure "
            f"{value['systolic']}/{value['diastolic']}, respirations {value['respiratory rate']}, oxygen saturation "
            f"{value['oxygen saturation']} percent."
        )

    def _labs(self) -> str:
        usual = {one.name for one in self.tables.measurements if not one.problem}
        changed = {one.name for one in self.tables.measurements if one.problem in [p.name for p in self.problems]}
        values = [
            f"{name} {value}"
            for name, value in self._measured("lab").items()
            if name in changed or (name in usual and self.rng.random() < 2 / 3)
        ]
        return ", ".join([*values, *([self.specific["lab"]] if "lab" in self.specific else [])])

    def _exam(self) -> list[str]:
        """System by system: as the patient's problems have it, else as usual."""
        mine = self._all("exam", self.problems)
        found = _by_system([*mine, *([self.specific["exam"]] if "exam" in self.specific else [])])
        usual = _by_system(one.text for one in self._fitting("exam") if one.text not in mine)
        drawn = {name: found.pop(name, None) or [pick(texts, self.rng)] for name, texts in usual.items()}
        return [f"{name}: {_sentences(texts)}" for name, texts in {**drawn, **found}.items()]

    def _review(self) -> str:
        systems: dict[str, list[str]] = {}
        for one in self._fitting("ros"):
            systems.setdefault(one.text.partition(":")[0], []).append(one.text)
        remaining = [pick(texts, self.rng) for texts in systems.values()]
        return " ".join(pick(remaining, self.rng) for _ in range(6))

    @property
    def _image(self) -> tuple[str, str, str]:
        """Region, name and finding of the first image of the acute illness; where it has none, of a usual one."""
        for text in (*self._all("study", [self.acute]), _USUAL_IMAGE):
            name, _, finding = text.partition(": ")
            for word, region in _REGIONS.items():
                if word in name.split():
                    return region, name, finding[:1].upper() + finding[1:]
        raise ValueError(f"no region of {_USUAL_IMAGE!r}")


def _by_system(texts: Iterable[str]) -> dict[str, list[str]]:
    """Findings by the system that they are of, which stands before a colon."""
    pairs = [text.partition(": ")[::2] for text in texts]
    return {system: [finding for other, finding in pairs if other == system] for system, _ in pairs}


def _sentences(texts: Sequence[str]) -> str:
    """Findings of one system, each after the first with a capital."""
    return " ".join([texts[0], *(one[:1].upper() + one[1:] for one in texts[1:])])


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"\n{number}. {line}" for number, line in enumerate(lines, start=1))


_ONCE = (
    "allergy", "comparison", "condition", "date", "disposition", "doctor", "housing", "name", "service", "smoking",
    "technique", "transport", "unit", "work",
)  # fmt: skip
_SEVERAL = ("general", "home", "instruction", "order", "radiology", "shift")
_OF_ACUTE = {  # what the acute illness alone says, and what stands between
    "complaint": " and ", "diagnosis": ", ", "hpi": " ", "study": " ", "course": " ", "orders": " ", "plan": " ",
}  # fmt: skip
SECTIONS: Mapping[str, Callable[[Patient], str]] = {
    **{name: (lambda patient, name=name: patient._one(name)) for name in (*_ONCE, *_SEVERAL)},
    "age": lambda patient: str(patient.age),
    **{
        name: (lambda patient, name=name, sign=sign: sign.join(patient._all(name, [patient.acute])))
        for name, sign in _OF_ACUTE.items()
    },
    "informant": lambda patient: patient._seldom("informant", RELATIVE_SHARE),
    "clinician": lambda patient: patient._seldom("clinician", CLINICIAN_SHARE),
    "family": Patient._family,
    "pmh": lambda patient: ", ".join(patient._histories()),
    "pmh.list": lambda patient: _listed(patient._histories()),
    "psh": Patient._operations,
    "meds": lambda patient: ", ".join(patient._tablets(home=True)),
    "dischargemeds": lambda patient: ", ".join(patient._tablets(home=False)),
    "dischargemeds.list": lambda patient: _listed(patient._tablets(home=False)),
    "ros": Patient._review,
    "vitals": Patient._vitals,
    "exam": lambda patient: " ".join(patient._exam()),
    "exam.list": lambda patient: "\n".join(patient._exam()),
    "labs": Patient._labs,
    "study.name": lambda patient: patient._image[1],
    "study.finding": lambda patient: patient._image[2],
    "chronic": lambda patient: " ".join(patient._all("course", patient.chronic)),
    "followup": lambda patient: f"{patient._one('followup')} {patient._one('followup')}",
}


def draw_evidence(pool: Sequence[Evidence], each: int, rng: random.Random) -> list[Evidence]:
    """So many sentences of each place, of different topics, and of one form where they have any."""
    chosen: list[Evidence] = []
    for place in PLACES:
        for _ in range(each):
            forms = {one.form for one in chosen if one.form}
            topics = {one.topic for one in chosen}
            fitting = [one for one in pool if one.place == place and one.topic not in topics]
            fitting = [one for one in fitting if not one.form or not forms or one.form in forms]
            chosen.append(pick(fitting, rng))
    return chosen


def draw_open_text(
    template: Template, evidence: Sequence[Evidence], gender: str, tables: NoteTables, rng: random.Random
) -> str:
    """The template with a patient's story and the evidence in place, and the words for the patient still open."""
    patient = Patient(gender, tables, rng, unless=template.unless)
    patient.taken = tuple(one.medication for one in evidence if one.medication)

    def value(match: re.Match[str]) -> str:
        slot = match.group(1)
        if slot.startswith("evidence."):
            place = slot.removeprefix("evidence.")
            return " ".join(one.sentence for one in evidence if one.place == place)
        return patient.value_of(slot) if slot in SECTIONS else match.group(0)

    filled = SLOT.sub(value, template.text)
    return _VOWEL.sub(r"\1n", "\n".join(" ".join(line.split()) for line in filled.split("\n")).strip())


def written_for(gender: str, open_text: str, tables: NoteTables) -> str:
    """The note with its words for the patient in this gender.

    >>> written_for("female", "[Mr.] A cut [himself].", note_tables())
    'Ms. A cut herself.'
    """
    words = tables.words[gender]
    return SLOT.sub(lambda match: words[match.group(1)], open_text)
