"""A task with the scorer that reads it, and its rows by trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import pyarrow as pa

from swapbias import studies
from swapbias.measures import units
from swapbias.models import Scorer
from swapbias.runs.same_inputs import find_same_inputs
from swapbias.runs.task import Task
from swapbias.studies import Row, column


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """A task and its reader, with what is scored of it so far."""

    task: Task
    """Experiment, model and rows."""
    reader: Scorer
    """Scores the rows."""
    rounds: Mapping[int, Sequence[Row]]
    """Rows of each trial (round)."""
    tables: dict[tuple[int, int], pa.Table] = field(default_factory=dict)
    """Scored rows by round and first row."""
    same_inputs: dict[int, frozenset[int]] = field(default_factory=dict)
    """Indices of rows that the reader reads as another one of their pair, by trial; filled when needed."""

    @classmethod
    def of(cls, task: Task, reader: Scorer) -> Self:
        """Begin a task: its rows are parted by trial, and nothing is scored.

        Args:
            task: experiment, model and rows.
            reader: scores the rows.
        """
        rounds: dict[int, list[Row]] = {}
        # Rows that name no trial are of the first.
        for row, trial in zip(task.rows, column(task.rows, "trial"), strict=True):
            rounds.setdefault(int(trial or 1), []).append(row)
        return cls(task, reader, rounds)

    def read_by(self, reader: Scorer) -> Self:
        """Return the same task with another reader, by which nothing is scored yet.

        Args:
            reader: scores the rows.
        """
        return replace(self, reader=reader, tables={}, same_inputs={})

    def drop_rounds_after(self, last: int) -> None:
        """Forget the scored rows of later rounds, which were not scored whole.

        Args:
            last: round that stays.
        """
        for number, start in [*self.tables]:
            if number > last:
                del self.tables[number, start]

    def find_same_inputs(self, number: int) -> frozenset[int]:
        """Return the indices of a trial's rows whose text the model reads as another text of their pair.

        Args:
            number: the number of the trial (round).
        """
        if number not in self.same_inputs:
            rows = self.rounds[number]
            prompts = studies.as_prompts(rows)
            self.same_inputs[number] = find_same_inputs(rows, prompts, self.reader)
        return self.same_inputs[number]


def as_read(scored_task: ScoredTask) -> studies.Experiment:
    """Return the experiment in the unit of its reader's scores.

    A study of the package says as what it takes a function's scores or a label's probability. A study of the user's
    may name them, and say the range of those that have none of their own.

    Args:
        scored_task: the experiment with its reader.
    """
    experiment = scored_task.task.experiment
    reader = scored_task.reader
    declared = experiment.compares.unit
    model_unit = reader.own_unit or units.named_unit(reader.unit)
    if scored_task.task.study.name not in studies.own_studies():
        # A unit that is not declared has a range of its own.
        unit = declared if reader.unit == declared.name else units.named_unit(reader.unit)
        taken_from = model_unit.name if model_unit.name != reader.unit else ""
        return experiment.in_unit(replace(unit, taken_from=taken_from))
    if experiment.kind != "classifier":
        return experiment if reader.unit == declared.name else experiment.in_unit(model_unit)
    name = declared.name if declared.is_named else model_unit.name
    ends = model_unit.ends if model_unit.in_points else declared.ends
    return experiment.in_unit(units.named_unit(name, *ends))
