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

# of patients with a term of one gender: not every template has a place for it
SPECIFIC_SHARE = 0.36
# of notes in which a relative, or a clinician, tells of the patient
_SHARES = {"informant": 0.2, "clinician": 0.45}
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
        acute = [
            problem
            for problem in tables.problems
            if problem.kind == "acute" and problem.name not in unless
        ]
        self.acute = pick(acute, rng)
        years = self.acute.oldest - self.acute.youngest + 1
        self.age = self.acute.youngest + int(rng.random() * years)
        self.topics: set[str] = set()  # those that were written about
        self.specific = self._specific(gender)
        self.chronic: list[Problem] = []
        self._draw_chronic()
        self.drawn: dict[str, str] = {}
        self.unused: dict[str, list[Passage]] = {}
        self.medications: tuple[str, ...] = ()  # tablets that the evidence tells of

    def _draw_chronic(self) -> None:
        """Draw chronic illnesses that go with the acute one and with each other."""
        fitting = [
            problem
            for problem in self.tables.problems
            if problem.kind == "chronic" and problem.fits(self.age)
        ]
        for _ in range(2 + int(self.rng.random() * 3)):
            remaining = [
                problem
                for problem in fitting
                if not self._excluded(self.tables.texts("illness", problem.name)[0])
            ]
            if remaining:
                self.chronic.append(pick(remaining, self.rng))
                fitting.remove(self.chronic[-1])

    def _excluded(self, text: str) -> bool:
        """Tell whether a problem of the patient rules out an illness or operation."""
        return any(problem.rules_out(text) for problem in self.problems)

    def _specific(self, gender: str) -> dict[str, str]:
        """Draw what only one gender can have, by section."""
        by_section: dict[str, str] = {}
        count = 1 + int(self.rng.random() * 2) if self.rng.random() < SPECIFIC_SHARE else 0
        for _ in range(count):
            remaining = [
                passage
                for passage in self.tables.specific[gender]
                if passage.fits(self.age)
                and passage.section not in by_section
                and self.topics.isdisjoint(passage.topics)
            ]
            if remaining:
                passage = pick(remaining, self.rng)
                by_section[passage.section] = passage.text
                self.topics |= passage.topics
        return by_section

    @property
    def problems(self) -> list[Problem]:  # the acute one first
        return [self.acute, *self.chronic]

    def value_of(self, slot: str) -> str:
        """Give the text of a slot; the same wherever it stands, but for sentences of a shift, a home or an image."""
        if slot in _SEVERAL:
            return self._passage(slot)
        if slot not in self.drawn:
            self.drawn[slot] = SECTIONS[slot](self)
        return self.drawn[slot]

    def _passage(self, section: str) -> str:
        """Draw a passage of the section that was not written yet, on a topic that was not either."""
        remaining = self.unused.get(section) or self._fitting(section)
        on_new_topics = [passage for passage in remaining if self.topics.isdisjoint(passage.topics)]
        chosen = pick(on_new_topics or list(remaining), self.rng)
        self.unused[section] = [passage for passage in remaining if passage is not chosen]
        self.topics |= chosen.topics
        return chosen.text

    def _fitting(self, section: str) -> list[Passage]:
        """List what a section may say of this patient."""
        region, name, _ = self._image
        usual_problem = {"radiology": region, "technique": name.split()[0]}.get(section, "")
        names = [problem.name for problem in self.problems]
        usual = self.tables.passages.get((usual_problem, section), ())
        of_acute = self.tables.passages.get((self.acute.name, section), ())
        return [passage for passage in (*usual, *of_acute) if passage.fits(self.age, names)]

    def _all(self, section: str, problems: Sequence[Problem]) -> list[str]:
        """List what a section says of some problems."""
        return [text for problem in problems for text in self.tables.texts(section, problem.name)]

    def _seldom(self, section: str) -> str:
        """Draw a passage of a section that few notes have."""
        return self._passage(section) if self.rng.random() < _SHARES[section] else ""

    def _family(self) -> str:
        """Draw the illnesses of the family."""
        if self.rng.random() >= FAMILY_SHARE:
            return self._passage("no family")
        return " ".join(self._passage("family") for _ in range(1 + int(self.rng.random() * 2)))

    def _of_gender(self, section: str) -> list[str]:
        """List what only a patient of this gender can have, if anything."""
        return [self.specific[section]] if section in self.specific else []

    def _histories(self) -> list[str]:
        """List the illnesses of the patient."""
        return [*self._all("illness", self.problems), *self._of_gender("history")]

    def _operations(self) -> str:
        """Draw the operations of the patient."""
        passages = self._fitting("surgery")
        remaining = [passage.text for passage in passages if not self._excluded(passage.text)]
        drawn = [pick(remaining, self.rng) for _ in range(int(self.rng.random() * 3))]
        return ", ".join([*drawn, *self._of_gender("surgery")]) or "none"

    def _tablets(self, *, home: bool) -> list[str]:
        """List each agent once, by its first word."""
        texts = [*self._all("medication", self.chronic), *self.medications]
        texts += self._all("home medication", [self.acute])
        if not home:
            texts += self._all("medication", [self.acute])
        by_agent = {text.split()[0]: text for text in texts}
        return list(by_agent.values()) or ["none"]

    def _measured(self, kind: str) -> dict[str, str]:
        """Draw each value once: as the first of the patient's problems has it that changes it, or as usual."""
        names = ["", *(problem.name for problem in reversed(self.problems))]
        measurements = [
            measurement
            for measurement in self.tables.measurements
            if measurement.kind == kind and measurement.problem in names
        ]
        measurements.sort(key=lambda measurement: names.index(measurement.problem))
        by_name = {measurement.name: measurement for measurement in measurements}
        return {name: measurement.drawn(self.rng) for name, measurement in by_name.items()}

    def _vitals(self) -> str:
        value = self._measured("vital")
        return (
            f"Temperature {value['temperature']}, heart rate {value['heart rate']}, blood pressure "
            f"{value['systolic']}/{value['diastolic']}, respirations {value['respiratory rate']}, oxygen saturation "
            f"{value['oxygen saturation']} percent."
        )

    def _labs(self) -> str:
        names = [problem.name for problem in self.problems]
        usual = {value.name for value in self.tables.measurements if not value.problem}
        changed = {value.name for value in self.tables.measurements if value.problem in names}
        values = [
            f"{name} {value}"
            for name, value in self._measured("lab").items()
            if name in changed or (name in usual and self.rng.random() < 2 / 3)
        ]
        return ", ".join([*values, *self._of_gender("lab")])

    def _exam(self) -> list[str]:
        """Draw findings system by system: as the patient's problems have them, else as usual."""
        of_problems = self._all("exam", self.problems)
        findings = by_system([*of_problems, *self._of_gender("exam")])
        passages = self._fitting("exam")
        usual = by_system(passage.text for passage in passages if passage.text not in of_problems)
        drawn = {
            name: findings.pop(name, None) or [pick(texts, self.rng)]
            for name, texts in usual.items()
        }
        return [
            f"{name}: {' '.join([texts[0], *map(capital, texts[1:])])}"
            for name, texts in {**drawn, **findings}.items()
        ]

    def _review(self) -> str:
        systems = by_system(passage.text for passage in self._fitting("ros"))
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
    **{name: partial(Patient._passage, section=name) for name in (*_ONCE, *_SEVERAL)},
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
    "followup": lambda patient: f"{patient._passage('followup')} {patient._passage('followup')}",
}
