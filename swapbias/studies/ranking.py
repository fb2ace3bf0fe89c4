"""Rankings: which candidates stand beside each other, in which order and with which CV."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from swapbias.studies.prompt import Candidate


class Applicant(NamedTuple):
    """One of those who are ranked."""

    group: str
    """The group that the name stands for."""
    name: str
    """The name."""
    cv: int
    """The index of the CV among those of the job."""


def drawn_names(names: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Draw as many names of each group as fill whole blocks, in an order drawn once.

    Args:
        names: names by their group.

    Returns:
        Names in their order by group; none where a group has too few.
    """
    used = min(map(len, names.values())) // len(names) * len(names)
    return {
        group: random.Random(f"names of {group}").sample(sorted(of_group), used)
        for group, of_group in names.items()
    }


def balanced_rankings(
    cvs: Mapping[str, int], names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, int, list[Applicant]]]:
    """Draw rankings of one candidate a group, for each job and set of drawn names.

    A block has as many rankings as there are groups: in it each group has each position once, and each CV once where
    there are as many CVs as groups. Sets of names are the same for each job: the one sample that a gap is over.

    Args:
        cvs: the number of CVs of each job.
        names: drawn ones of each group, as many of each.

    Yields:
        The job, the index of the set of names, and the candidates in the order in which they are shown.
    """
    size = len(names)
    used = len(next(iter(names.values())))
    for job, count in cvs.items():
        drawn = random.Random(f"places of {job}")
        turn = 3 if count % 3 else 1
        for start in range(0, used, size):
            positions = drawn.sample(range(size), size)
            chosen = drawn.sample(range(count), size)
            for step in range(size):
                by_position: dict[int, Applicant] = {}
                for number, (group, of_group) in enumerate(names.items()):
                    cv = (chosen[number] + turn * step) % count
                    position = (positions[number] + step) % size
                    by_position[position] = Applicant(group, of_group[start + step], cv)
                yield job, start + step, [by_position[position] for position in range(size)]


def shown_cvs(cvs: Sequence[str]) -> str:
    """Write CVs as one text, each with ``<hr>`` after it.

    Args:
        cvs: CVs in the order in which they are shown.
    """
    return "".join(f"{cv}<hr>\n" for cv in cvs)


def names_of(order: Sequence[Applicant], index: int) -> tuple[Candidate, ...]:
    """List the names of those who are ranked: that of one of them, which counts 1, and then the others.

    Args:
        order: those who are ranked.
        index: the candidate's index in ``order``.
    """
    others = (Candidate(rival.name, 0.0) for number, rival in enumerate(order) if number != index)
    return (Candidate(order[index].name, 1.0), *others)
