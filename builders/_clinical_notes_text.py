"""One patient of a synthetic clinical note, whom all sections of its template tell of."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from swapbias.builders._clinical_notes_tables import (
    NoteTables,
    Passage,
    Problem,
    by_system,
    capital,
    listed,
    pick,
)

SPECIFIC_SHARE = (
    0.36  # of patients with a term of one gender: not every template has a place for it
)
_SHARES = {
    "informant": 0.2,
    "clinician": 0.45,
}  # of notes in which a relative, or a clinician, tells of the patient
FAMILY_SHARE = 0.2  # of notes that tell of a family's illness
_USUAL_IMAGE = "Chest radiograph: no acute process."
_REGIONS = {
    "Chest": "chest", "chest": "chest", "abdomen": "abdomen", "kidneys": "abdomen", "brain": "head", "head": "head",
    "Pelvis": "limb", "leg": "limb",
}  # fmt: skip


class Patient:
    """One patient: age, an acute illness, chronic ones, and what follows from them in every section.

    Values are drawn when the patient is made, or once when a section first asks, so that no two sections disagree.
    """

    def __init__(
        self,
        gender: str,
        tables: NoteTables,
        rng: random.Random,
        *,
        unless: frozenset[str] = frozenset(),
    ) -> None:
        """Draw a patient who is not here for one of these; what only one gender can have depends on the gender."""
        self.tables = tables
        self.rng = rng
        self.acute = pick(
            [one for one in tables.problems if one.kind == "acute" and one.name not in unless], rng
        )
        self.age = self.acute.youngest + int(
            rng.random() * (self.acute.oldest - self.acute.youngest + 1)
        )
        self.topics: set[str] = set()  # those that were written about
        self.specific = self._specific(gender)
        self.chronic: list[Problem] = []
        known = [one for one in tables.problems if one.kind == "chronic" and one.fits(self.age)]
        for _ in range(2 + int(rng.random() * 3)):  # that go with the acute one and with each other
            remaining = [
                one for one in known if not self._excluded(tables.texts("illness", one.name)[0])
            ]
            if remaining:
                self.chronic.append(pick(remaining, rng))
                known.remove(self.chronic[-1])
        self.drawn: dict[str, str] = {}
        self.unused: dict[str, list[Passage]] = {}
        self.taken: tuple[str, ...] = ()  # tablets that the evidence tells of

    def _excluded(self, text: str) -> bool:
        return any(one.rules_out(text) for one in self.problems)

    def _specific(self, gender: str) -> dict[str, str]:
        found: dict[str, str] = {}
        count = 1 + int(self.rng.random() * 2) if self.rng.random() < SPECIFIC_SHARE else 0
        for _ in range(count):
            mine = [
                one
                for one in self.tables.specific[gender]
                if one.fits(self.age) and one.section not in found
            ]
            if remaining := [one for one in mine if self.topics.isdisjoint(one.topics)]:
                one = pick(remaining, self.rng)
                found[one.section] = one.text
                self.topics |= one.topics
        return found

    @property
    def problems(self) -> list[Problem]:  # the acute one first
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
        chosen = pick(
            [one for one in remaining if self.topics.isdisjoint(one.topics)] or list(remaining),
            self.rng,
        )
        self.unused[section] = [one for one in remaining if one is not chosen]
        self.topics |= chosen.topics
        return chosen.text

    def _fitting(self, section: str) -> list[Passage]:
        """What a section may say of this patient."""
        region, name, _ = self._image
        of = {"radiology": region, "technique": name.split()[0]}.get(section, "")
        names = [one.name for one in self.problems]
        usual, mine = (
            self.tables.passages.get((one, section), ()) for one in (of, self.acute.name)
        )
        return [one for one in (*usual, *mine) if one.fits(self.age, names)]

    def _all(self, section: str, problems: Sequence[Problem]) -> list[str]:
        return [text for one in problems for text in self.tables.texts(section, one.name)]

    def _seldom(self, section: str) -> str:
        return self._one(section) if self.rng.random() < _SHARES[section] else ""

    def _family(self) -> str:
        if self.rng.random() >= FAMILY_SHARE:
            return self._one("no family")
        return " ".join(self._one("family") for _ in range(1 + int(self.rng.random() * 2)))

    def _own(self, section: str) -> list[str]:
        """What only a patient of this gender can have, if anything."""
        return [self.specific[section]] if section in self.specific else []

    def _histories(self) -> list[str]:
        return [*self._all("illness", self.problems), *self._own("history")]

    def _operations(self) -> str:
        remaining = [one.text for one in self._fitting("surgery") if not self._excluded(one.text)]
        count = int(self.rng.random() * 3)
        return (
            ", ".join([pick(remaining, self.rng) for _ in range(count)] + self._own("surgery"))
            or "none"
        )

    def _tablets(self, *, home: bool) -> list[str]:
        """Each agent once, by its first word."""
        acute = self._all("home medication", [self.acute])
        acute += [] if home else self._all("medication", [self.acute])
        found = {
            text.split()[0]: text
            for text in (*self._all("medication", self.chronic), *self.taken, *acute)
        }
        return list(found.values()) or ["none"]

    def _measured(self, kind: str) -> dict[str, str]:
        """Each once: as the first of the patient's problems has it that changes it, or as usual."""
        names = ["", *(one.name for one in reversed(self.problems))]
        mine = [
            one for one in self.tables.measurements if one.kind == kind and one.problem in names
        ]
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
        changed = {
            one.name
            for one in self.tables.measurements
            if one.problem in [p.name for p in self.problems]
        }
        values = [
            f"{name} {value}"
            for name, value in self._measured("lab").items()
            if name in changed or (name in usual and self.rng.random() < 2 / 3)
        ]
        return ", ".join([*values, *self._own("lab")])

    def _exam(self) -> list[str]:
        """System by system: as the patient's problems have it, else as usual."""
        mine = self._all("exam", self.problems)
        found = by_system([*mine, *self._own("exam")])
        usual = by_system(one.text for one in self._fitting("exam") if one.text not in mine)
        drawn = {
            name: found.pop(name, None) or [pick(texts, self.rng)] for name, texts in usual.items()
        }
        return [
            f"{name}: {' '.join([texts[0], *map(capital, texts[1:])])}"
            for name, texts in {**drawn, **found}.items()
        ]

    def _review(self) -> str:
        systems = by_system(one.text for one in self._fitting("ros"))
        remaining = [f"{name}: {pick(texts, self.rng)}" for name, texts in systems.items()]
        return " ".join(pick(remaining, self.rng) for _ in range(6))

    @property
    def _image(self) -> tuple[str, str, str]:
        """Region, name and finding of the first image of the acute illness; where it has none, of a usual one."""
        for text in (*self._all("study", [self.acute]), _USUAL_IMAGE):
            name, _, finding = text.partition(": ")
            for word, region in _REGIONS.items():
                if word in name.split():
                    return region, name, capital(finding)
        raise ValueError(f"no region of {_USUAL_IMAGE!r}")


_ONCE = (
    "allergy", "comparison", "condition", "date", "disposition", "doctor", "housing", "name", "service", "smoking",
    "technique", "transport", "unit", "work",
)  # fmt: skip
_SEVERAL = ("general", "home", "instruction", "order", "radiology", "shift")
_OF_ACUTE = {  # what the acute illness alone says, and what stands between
    "complaint": " and ", "diagnosis": ", ", "hpi": " ", "study": " ", "course": " ", "orders": " ", "plan": " ",
}  # fmt: skip
SECTIONS: Mapping[str, Callable[[Patient], str]] = {
    **{name: partial(Patient._one, section=name) for name in (*_ONCE, *_SEVERAL)},
    "age": lambda patient: str(patient.age),
    **{
        name: (lambda patient, name=name, sign=sign: sign.join(patient._all(name, [patient.acute])))
        for name, sign in _OF_ACUTE.items()
    },
    **{name: partial(Patient._seldom, section=name) for name in _SHARES},
    "family": Patient._family,
    "pmh": lambda patient: ", ".join(patient._histories()),
    "pmh.list": lambda patient: listed(patient._histories()),
    "psh": Patient._operations,
    "meds": lambda patient: ", ".join(patient._tablets(home=True)),
    "dischargemeds": lambda patient: ", ".join(patient._tablets(home=False)),
    "dischargemeds.list": lambda patient: listed(patient._tablets(home=False)),
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
