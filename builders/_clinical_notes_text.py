"""The text of a synthetic clinical note: one patient, whom all sections of a template tell of.

A note is drawn with the words for the patient still open (``[he]``, ``[Mr.]``). Written out for either gender it is
the same note: the exact counterfactual that a swap of the text should reach. Words for relatives and clinicians are
not open: they are other people, and stay.
"""

import random
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

from swapbias.notes import NAME
from swapbias.studies import corpus_dir, read_table

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
PLACES = ("past", "now")  # of evidence: what is known of a patient, and what is seen during the stay
LEAST_GENDERED = 4
SPECIFIC_SHARE = 0.28  # of notes with a term of one gender: as in 248 transcribed reports (mtsamples)
TOLD_SHARE = (
    0.35  # of notes in which a relative tells of the patient; as many name a clinician, or a family's illness
)
_USUAL_IMAGE = "Chest radiograph: no acute process."
_REGIONS = {
    "Chest": "chest", "chest": "chest", "abdomen": "abdomen", "kidneys": "abdomen", "brain": "head", "head": "head",
    "Pelvis": "limb", "leg": "limb",
}  # fmt: skip
_VOWEL = re.compile(r"\b([Aa])(?= (?:8|11\b|18\b))")  # a 79-year-old, an 80-year-old
_SLOT = re.compile(r"\[([A-Za-z_.]+)\]")  # a placeholder such as [**Last Name**] is no slot


@dataclass(frozen=True, slots=True)
class Template:
    """A note with slots: evidence of both places once, and at least four words for the patient."""

    name: str
    note_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence on a phenotype; those of a note differ in ``topic``, and share a ``form`` where they have any."""

    topic: str
    form: str
    place: str
    sentence: str
    medication: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An illness: ages that have it, and a word of illnesses or operations that nobody with it has."""

    name: str
    kind: str
    youngest: int
    oldest: int
    excludes: str

    def fits(self, age: int) -> bool:
        """Whether a patient of this age can have it."""
        return self.youngest <= age <= self.oldest


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a vital sign or laboratory value lies between, with so many decimals."""

    problem: str
    kind: str
    name: str
    low: float
    high: float
    decimals: int

    def drawn(self, rng: random.Random) -> str:
        """A value as it is written."""
        return f"{self.low + rng.random() * (self.high - self.low):.{self.decimals}f}"


@dataclass(frozen=True)
class NoteTables:
    """The tables that notes are made of.

    Attributes:
        templates: in the order of the table.
        evidence: by (phenotype, label); (``any``, ``uninformative``) holds those that decide nothing.
        problems: acute and chronic ones.
        passages: (youngest, oldest, text) by (problem, section); a blank problem is any.
        measurements: usual ones, with a blank problem, and those of problems.
        specific: (section, text) by gender: what a patient of the other gender cannot have.
        words: word by gender and slot.
    """

    templates: tuple[Template, ...]
    evidence: Mapping[tuple[str, str], tuple[Evidence, ...]]
    problems: tuple[Problem, ...]
    passages: Mapping[tuple[str, str], tuple[tuple[int, int, str], ...]]
    measurements: tuple[Measurement, ...]
    specific: Mapping[str, tuple[tuple[str, str], ...]]
    words: Mapping[str, Mapping[str, str]]

    def texts(self, section: str, problem: str = "", age: int | None = None) -> list[str]:
        """The passages of a section, of patients of this age."""
        found = self.passages.get((problem, section), ())
        return [text for youngest, oldest, text in found if age is None or youngest <= age <= oldest]

    @cached_property
    def slots(self) -> frozenset[str]:
        """Every slot that a template may have."""
        return frozenset({*_SECTIONS, *self.words["female"], *(f"evidence.{place}" for place in PLACES)})


@cache
def note_tables() -> NoteTables:
    """The package's tables, checked.

    Raises:
        ValueError: a template with an unknown slot, too few words for the patient, or without evidence.
    """
    words = _rows("gender_words", "slot", "female", "male")
    evidence = _rows("evidence", "phenotype", "label", "topic", "form", "place", "sentence", "medication")
    passages = _rows("passages", "problem", "section", "youngest", "oldest", "text")
    tables = NoteTables(
        templates=tuple(Template(*row.values()) for row in _rows("templates", "template", "note_type", "text")),
        evidence=_grouped(((row.pop("phenotype"), row.pop("label")), Evidence(**row)) for row in evidence),
        problems=tuple(
            Problem(row["problem"], row["kind"], int(row["youngest"]), int(row["oldest"]), row["excludes"])
            for row in _rows("problems", "problem", "kind", "youngest", "oldest", "excludes")
        ),
        passages=_grouped(
            (
                (row["problem"], row["section"]),
                (int(row["youngest"] or 0), int(row["oldest"] or 150), row["text"]),
            )
            for row in passages
        ),
        measurements=tuple(
            Measurement(
                row["problem"], row["kind"], row["name"], float(row["low"]), float(row["high"]), int(row["decimals"])
            )
            for row in _rows("measurements", "problem", "kind", "name", "low", "high", "decimals")
        ),
        specific=_grouped(
            (row["gender"], (row["section"], row["text"])) for row in _rows("specific", "gender", "section", "text")
        ),
        words={gender: {row["slot"]: row[gender] for row in words} for gender in ("female", "male")},
    )
    for template in tables.templates:
        check_note_template(template, slots=tables.slots, gendered=frozenset(tables.words["female"]))
    return tables


def _rows(table: str, *columns: str) -> list[dict[str, str]]:
    optional = {"medication", "form", "excludes", "problem", "youngest", "oldest"}
    found = read_table(
        corpus_dir(NAME) / f"{table}.csv", columns, optional=[one for one in columns if one in optional]
    )
    return [{name: row[name] for name in columns} for row in found]


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, tuple[Value, ...]]:
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def check_note_template(template: Template, *, slots: frozenset[str], gendered: frozenset[str]) -> None:
    """Nothing, where the template can be filled.

    Raises:
        ValueError: naming the template, what was found and what is wanted.
    """
    found = _SLOT.findall(template.text)
    unknown = sorted(set(found) - slots)
    where = f"templates.csv: template {template.name!r}"
    if unknown:
        raise ValueError(f"{where}: unknown slots {unknown}. Fix their names.")
    words = sum(slot in gendered for slot in found)
    if words < LEAST_GENDERED:
        raise ValueError(f"{where}: {words} words for the patient, expected {LEAST_GENDERED} or more. Add some.")
    if any(found.count(f"evidence.{place}") != 1 for place in PLACES):
        raise ValueError(f"{where}: expected [evidence.past] and [evidence.now] once each. Fix the template.")


def pick(left: list[Value], rng: random.Random) -> Value:
    """One of the values, taken out of the list.

    Built on ``random()`` alone, whose sequence for a seed Python promises to keep.
    """
    return left.pop(int(rng.random() * len(left)))


class Patient:
    """One patient: age, an acute illness, chronic ones, and what follows from them in every section.

    Values are drawn when the patient is made, or once when a section first asks, so that no two sections disagree.
    """

    def __init__(self, gender: str, tables: NoteTables, rng: random.Random) -> None:
        """Draw a patient; of the gender depend only illnesses and operations that the other gender cannot have."""
        self.tables, self.rng = tables, rng
        self.acute = pick([one for one in tables.problems if one.kind == "acute"], rng)
        self.age = self.acute.youngest + int(rng.random() * (self.acute.oldest - self.acute.youngest + 1))
        self.specific = self._specific(gender)
        self.chronic = self._chronic()
        self.drawn: dict[str, str] = {}
        self.left: dict[str, list[str]] = {}
        self.taken: tuple[str, ...] = ()  # tablets that the evidence tells of

    def _chronic(self) -> list[Problem]:
        known = [one for one in self.tables.problems if one.kind == "chronic" and one.fits(self.age)]
        left = [one for one in known if not self._excluded(self.tables.texts("name", one.name)[0])]
        return [pick(left, self.rng) for _ in range(min(2 + int(self.rng.random() * 3), len(left)))]

    def _excluded(self, text: str) -> bool:
        return bool(self.acute.excludes) and self.acute.excludes in text

    def _specific(self, gender: str) -> dict[str, str]:
        if self.rng.random() >= SPECIFIC_SHARE:
            return {}
        left = list(self.tables.specific[gender])
        return dict(pick(left, self.rng) for _ in range(1 + int(self.rng.random() * 2)))

    @property
    def problems(self) -> list[Problem]:
        """The acute one first."""
        return [self.acute, *self.chronic]

    def told(self, slot: str) -> str:
        """What a slot holds; the same wherever it stands, but for sentences of a shift, a home or an image."""
        if slot in _SEVERAL:
            return self._one(slot)
        if slot not in self.drawn:
            self.drawn[slot] = _SECTIONS[slot](self)
        return self.drawn[slot]

    def _one(self, section: str) -> str:
        region, name, _ = self._image
        of = {"radiology": region, "technique": name.split()[0]}.get(section, "")
        left = self.left.get(section) or self.tables.texts(section, of, self.age)
        self.left[section] = left
        return pick(left, self.rng)

    def _all(self, section: str, problems: Sequence[Problem]) -> list[str]:
        return [text for one in problems for text in self.tables.texts(section, one.name)]

    def _seldom(self, section: str, otherwise: str = "") -> str:
        return self._one(section) if self.rng.random() < TOLD_SHARE else otherwise

    def _family(self) -> str:
        if self.rng.random() >= TOLD_SHARE:
            return self._one("no family")
        told = [self._one("family") for _ in range(1 + int(self.rng.random() * 2))]
        return " ".join({text.split()[1]: text for text in told}.values())  # one sentence of a relative

    def _histories(self) -> list[str]:
        mine = [self.specific["history"]] if "history" in self.specific else []
        return [*self._all("name", self.chronic), *mine]

    def _operations(self) -> str:
        left = [text for text in self.tables.texts("surgery") if not self._excluded(text)]
        count = int(self.rng.random() * 3)
        mine = [self.specific["surgery"]] if "surgery" in self.specific else []
        return ", ".join([pick(left, self.rng) for _ in range(count)] + mine) or "none"

    def _tablets(self, *, home: bool) -> list[str]:
        """Each agent once, by its first word."""
        acute = [] if home else self._all("medication", [self.acute])
        found = {text.split()[0]: text for text in (*self._all("medication", self.chronic), *self.taken, *acute)}
        return list(found.values())

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
        found: dict[str, list[str]] = {}
        mine = self._all("exam", self.problems)
        for text in (*mine, *([self.specific["exam"]] if "exam" in self.specific else [])):
            system, _, told = text.partition(": ")
            found.setdefault(system, []).append(told)
        usual: dict[str, list[str]] = {}
        for text in self.tables.texts("exam"):
            system, _, told = text.partition(": ")
            usual.setdefault(system, []).append(told)
        lines = [
            f"{name}: {' '.join(found.pop(name, None) or [pick(told, self.rng)])}" for name, told in usual.items()
        ]
        return [*lines, *(f"{name}: {' '.join(told)}" for name, told in found.items())]

    def _review(self) -> str:
        systems: dict[str, list[str]] = {}
        for text in self.tables.texts("ros"):
            systems.setdefault(text.partition(":")[0], []).append(text)
        left = [pick(texts, self.rng) for texts in systems.values()]
        return " ".join(pick(left, self.rng) for _ in range(6))

    @property
    def _image(self) -> tuple[str, str, str]:
        """Region, name and finding of the first image of the acute illness; where it has none, of a usual one."""
        for text in (*self._all("study", [self.acute]), _USUAL_IMAGE):
            name, _, finding = text.partition(": ")
            for word, region in _REGIONS.items():
                if word in name.split():
                    return region, name, finding[:1].upper() + finding[1:]
        raise ValueError(f"no region of {_USUAL_IMAGE!r}")


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"\n{number}. {line}" for number, line in enumerate(lines, start=1))


_ONCE = (
    "allergy", "comparison", "condition", "date", "disposition", "doctor", "housing", "name", "service", "smoking",
    "technique", "transport", "unit", "work",
)  # fmt: skip
_SEVERAL = ("general", "home", "instruction", "radiology", "shift")
_SECTIONS: Mapping[str, Callable[[Patient], str]] = {
    **{name: (lambda patient, name=name: patient._one(name)) for name in (*_ONCE, *_SEVERAL)},
    "age": lambda patient: str(patient.age),
    "complaint": lambda patient: " and ".join(patient._all("complaint", [patient.acute])),
    "diagnosis": lambda patient: ", ".join(patient._all("diagnosis", [patient.acute])),
    "hpi": lambda patient: " ".join(patient._all("hpi", [patient.acute])),
    "informant": lambda patient: patient._seldom("informant"),
    "clinician": lambda patient: patient._seldom("clinician"),
    "family": Patient._family,
    "pmh": lambda patient: ", ".join(patient._histories()),
    "pmh.list": lambda patient: _listed(patient._histories()),
    "psh": Patient._operations,
    "meds": lambda patient: ", ".join(patient._tablets(home=True)) or "none",
    "dischargemeds": lambda patient: ", ".join(patient._tablets(home=False)),
    "dischargemeds.list": lambda patient: _listed(patient._tablets(home=False)),
    "ros": Patient._review,
    "vitals": Patient._vitals,
    "exam": lambda patient: " ".join(patient._exam()),
    "exam.list": lambda patient: "\n".join(patient._exam()),
    "labs": Patient._labs,
    "study": lambda patient: " ".join(patient._all("study", [patient.acute])),
    "study.name": lambda patient: patient._image[1],
    "study.finding": lambda patient: patient._image[2],
    "course": lambda patient: " ".join(patient._all("course", [patient.acute])),
    "chronic": lambda patient: " ".join(patient._all("course", patient.chronic)),
    "plan": lambda patient: " ".join(patient._all("plan", [patient.acute])),
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
    patient = Patient(gender, tables, rng)
    patient.taken = tuple(one.medication for one in evidence if one.medication)

    def value(match: re.Match[str]) -> str:
        slot = match.group(1)
        if slot.startswith("evidence."):
            place = slot.removeprefix("evidence.")
            return " ".join(one.sentence for one in evidence if one.place == place)
        return patient.told(slot) if slot in _SECTIONS else match.group(0)

    filled = _SLOT.sub(value, template.text)
    return _VOWEL.sub(r"\1n", "\n".join(" ".join(line.split()) for line in filled.split("\n")).strip())


def written_for(gender: str, open_text: str, tables: NoteTables) -> str:
    """The note with its words for the patient in this gender.

    >>> written_for("female", "[Mr.] A cut [himself].", note_tables())
    'Ms. A cut herself.'
    """
    words = tables.words[gender]
    return _SLOT.sub(lambda match: words[match.group(1)], open_text)
