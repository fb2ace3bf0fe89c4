"""Rankings: which candidates stand beside each other, in which order and with which CV."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from swapbias.studies.prompt import Candidate


class Applicant(NamedTuple):
    """One of those who are ranked; ``cv`` is the place of the CV among those of the job, from 0."""

    group: str
    name: str
    cv: int


def drawn_names(names: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Of each group as many names as fill whole blocks, in an order drawn once; none where a group has too few."""
    used = min(map(len, names.values())) // len(names) * len(names)
    return {
        group: random.Random(f"names of {group}").sample(sorted(every), used)
        for group, every in names.items()
    }


def balanced_rankings(
    cvs: Mapping[str, int], names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, int, list[Applicant]]]:
    """Of each job (with its number of CVs) and set of drawn names one candidate a group, in the order shown.

    A block has as many rankings as there are groups: in it each group has each place once, and each CV once where
    there are as many CVs as groups. Sets of names are the same for each job: the one sample that a gap is over.
    """
    size = len(names)
    used = len(next(iter(names.values())))
    for job, count in cvs.items():
        drawn = random.Random(f"places of {job}")
        turn = 3 if count % 3 else 1
        for start in range(0, used, size):
            places = drawn.sample(range(size), size)
            chosen = drawn.sample(range(count), size)
            for step in range(size):
                shown = {
                    (places[number] + step) % size: Applicant(
                        group, every[start + step], (chosen[number] + turn * step) % count
                    )
                    for number, (group, every) in enumerate(names.items())
                }
                yield job, start + step, [shown[place] for place in range(size)]


def shown_cvs(cvs: Sequence[str]) -> str:
    """CVs as one text, each with ``<hr>`` after it."""
    return "".join(f"{one}<hr>\n" for one in cvs)


def names_of(order: Sequence[Applicant], place: int) -> tuple[Candidate, ...]:
    """The names of those who are ranked: that of one of them, which counts 1, and then the others."""
    others = (Candidate(one.name, 0.0) for other, one in enumerate(order) if other != place)
    return (Candidate(order[place].name, 1.0), *others)
