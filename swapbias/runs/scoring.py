"""The loop that scores the prompts of a run in rounds, except what is cached, and writes the scored rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from swapbias.models import Progress, Scored, Scorer, checked_scores, progress
from swapbias.runs.cache import ScoreCache
from swapbias.runs.run import ITEMS, NON_FINITE, ROUNDS, Run, take_frame, with_scores
from swapbias.runs.same_inputs import without_same_inputs
from swapbias.runs.scored_task import ScoredTask
from swapbias.studies import Row, as_prompts
from swapbias.swapping import cluster

if TYPE_CHECKING:
    import pandas as pd


def refuse_non_finite(rows: "pd.DataFrame", run_place: str) -> None:
    """Refuse a model that is broken.

    Args:
        rows: scored rows of a study.
        run_place: folder or store of the run, for the sentence.

    Raises:
        ValueError: over half of the rows of an experiment have NaN or infinity.
    """
    if NON_FINITE not in rows:
        return
    keys = ["experiment", "model_id"]
    for (experiment, model_id), lost in rows.groupby(keys, sort=False)[NON_FINITE]:
        if 2 * lost.sum() > len(lost):
            raise ValueError(
                f"{model_id} gave NaN or infinite numbers for {lost.sum():.0f} of {len(lost)} prompts of "
                f"{experiment}, expected finite ones. Check its weights and --dtype; what was scored is kept in "
                f"{run_place}."
            )


def chunks(rows: Sequence[Mapping[str, Any]], size: int) -> Iterator[range]:
    """Yield the indices of parts of the rows; neighbours with the same text, which share a pass, stay together.

    Args:
        rows: the rows of one trial.
        size: number of rows of a part, about.
    """
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield range(start, end)
        start = end


def _rows_of(scored_task: ScoredTask, part: cluster.Part) -> Sequence[Row]:
    """Return the rows of a part."""
    rows = scored_task.rounds[part["round"]]
    return rows[part["start"] : part["start"] + part["rows"]]


def score_part(
    tasks: Mapping[int, ScoredTask], part: cluster.Part, advance: Progress
) -> cluster.Result:
    """Return the scores of a part of one of the tasks.

    Args:
        tasks: tasks by their index in the plan.
        part: says which rows of which task.
        advance: is called with the number of further rows that are scored.
    """
    scored_task = tasks[part["task"]]
    prompts = as_prompts(_rows_of(scored_task, part))
    return {"scored": checked_scores(scored_task.reader, prompts, advance)}


@dataclass(slots=True)
class _StudyParts:
    """The parts of a study's round that are not in the cache."""

    here: list[cluster.Part] = field(default_factory=list)
    """Parts that this process scores: those of chat models."""
    elsewhere: list[cluster.Part] = field(default_factory=list)
    """Parts that the pool scores."""
    paths: dict[str, Path] = field(default_factory=dict)
    """File in the cache of each part of the pool, by the part's name."""


@dataclass(slots=True)
class Scoring:
    """Scores the tasks of a run, except what is cached.

    In rounds: every prompt once before any twice, so that a stopped run has whole trials.
    """

    run: Run
    """Where rows and manifest are written."""
    manifest: dict[str, Any]
    """Manifest of the run; a change is made here, then written."""
    tasks: Mapping[int, ScoredTask]
    """Tasks by their index in the plan."""
    say: progress.Say
    """Shows a sentence."""
    bar: progress.Bar
    """Begins a progress bar."""
    cache: ScoreCache
    """Scores that are known already."""
    stop_reason: str = ""
    """Says what ended the run early; blank for nothing."""
    stop_error: BaseException | None = None
    """The interruption or error that ended the run early."""
    items: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    """Scored rows by study."""
    advances: dict[str, Progress] = field(default_factory=dict)
    """Moves the progress bar of each study."""

    def advance(self, part: cluster.Part, count: float) -> None:
        """Count further rows of a part as done.

        Args:
            part: the part of a task.
            count: number of rows.
        """
        self.advances[self.tasks[part["task"]].task.study.name](count)

    def score(self, pool: cluster.WorkerPool) -> None:
        """Fill ``items``.

        Args:
            pool: scores what the cache does not have and is no chat model's.
        """
        last_rounds = self._begin_bars()
        planned = max(last_rounds.values())
        self.manifest.pop(ROUNDS, None)  # of a run that was stopped
        complete_rounds = 0
        for number in range(1, planned + 1):
            if number > 1:
                self.stop_reason = self._exceeded_limit(number)
                if self.stop_reason:
                    break
            self._score_round(number, last_rounds, pool)
            if self.stop_error:
                break
            complete_rounds = number
            self._say_costs(number, planned)
        if self.stop_reason:
            self._note_stop(planned, complete_rounds)
        for study in last_rounds:
            if self.stop_error or study not in self.items:
                self._finish(study)
        self.items = {study: self.items[study] for study in last_rounds}  # in the order of the plan

    def _begin_bars(self) -> dict[str, int]:
        """Begin a progress bar for each study, and return the last round of each."""
        last_rounds: dict[str, int] = {}
        sizes: Counter[str] = Counter()
        for scored_task in self.tasks.values():
            study = scored_task.task.study.name
            last_rounds[study] = max(last_rounds.get(study, 1), *scored_task.rounds, 1)
            sizes[study] += len(scored_task.task.rows)
        self.advances = {study: self.bar(study, sizes[study]) for study in last_rounds}
        return last_rounds

    def _score_round(
        self, number: int, last_rounds: Mapping[str, int], pool: cluster.WorkerPool
    ) -> None:
        """Score a round of each study; in later rounds than the first an error stops the run and is kept."""
        for study in last_rounds:
            try:
                self._score_study(study, number, pool)
            except (KeyboardInterrupt, ValueError) as stop:
                if number == 1:
                    raise
                self.stop_by(stop)
                return
            if number == last_rounds[study]:  # a broken model stops the run before the next study
                self._finish(study)

    def _say_costs(self, number: int, planned: int) -> None:
        """Say what the readers have spent so far."""
        costs = [scored_task.reader.notes.get("spent") for scored_task in self.tasks.values()]
        for spent in dict.fromkeys(filter(None, costs)):
            self.say(f"Trial {number} of {planned}: {spent}" if planned > 1 else spent)

    def _note_stop(self, planned: int, complete_rounds: int) -> None:
        """Write into the manifest that not every trial was run, and leave out what was not scored whole."""
        reason = self.stop_reason.rstrip(".")
        note = f"Of {planned} planned trials of each prompt {complete_rounds} were run: {reason}."
        self.manifest[ROUNDS] = {
            "planned": planned,
            "whole": complete_rounds,
            "trial_notes": [note],
            "stopped": self.stop_reason,
        }
        self.run.write_manifest(self.manifest)
        self.say(note)
        for scored_task in self.tasks.values():
            scored_task.drop_rounds_after(complete_rounds)

    def stop_by(self, error: BaseException) -> None:
        """Note what ends the run after the rounds that are scored: they are reported, and then it is raised.

        Args:
            error: the interruption, or what a model or service raised.
        """
        self.stop_error = error
        self.stop_reason = (
            "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        )

    def _exceeded_limit(self, number: int) -> str:
        """Return the sentence of the first reader for which a round is beyond the user's limits; blank for none."""
        readers: dict[str, Scorer] = {}
        rows: dict[str, list[Row]] = {}
        for scored_task in self.tasks.values():
            if number in scored_task.rounds:
                model_id = scored_task.reader.model_id
                readers[model_id] = scored_task.reader
                rows.setdefault(model_id, []).extend(scored_task.rounds[number])
        for model_id, reader in readers.items():
            reason = reader.beyond_limits(as_prompts(rows[model_id]))
            if reason:
                return reason
        return ""

    def _score_study(self, study: str, number: int, pool: cluster.WorkerPool) -> None:
        """Score a round of a study, first what is cached."""
        parts = _StudyParts()
        for index, scored_task in self.tasks.items():
            if scored_task.task.study.name == study:
                self._part_rows(index, number, parts)
        if parts.elsewhere:
            for part, result in pool(parts.elsewhere):
                self.cache.write(parts.paths[part["name"]], result["scored"])
                self._add(part, result["scored"])
        for part in parts.here:
            result = score_part(self.tasks, part, partial(self.advance, part))
            self._add(part, result["scored"])

    def _part_rows(self, index: int, number: int, parts: _StudyParts) -> None:
        """Divide the rows of a task's round into parts; add the cached ones, and collect the others."""
        scored_task = self.tasks[index]
        all_rows = scored_task.rounds.get(number, [])
        # Which rows a part has depends on the plan alone, for parts are looked up by their rows.
        for indices in chunks(all_rows, scored_task.reader.chunk_rows):
            rows = all_rows[indices.start : indices.stop]
            part: cluster.Part = {
                "name": f"{index}/{number}/{indices.start}",
                "task": index,
                "round": number,
                "start": indices.start,
                "rows": len(rows),
            }
            is_private = scored_task.task.notes is not None or any(map(_is_credentialed, rows))
            path = self.cache.place(as_prompts(rows), scored_task.reader, private=is_private)
            if path is None:
                parts.here.append(part)
                continue
            scored = self.cache.read(path, len(rows))
            if scored is None:
                parts.paths[part["name"]] = path
                parts.elsewhere.append(part)
            else:
                self._add(part, scored)
                self.advance(part, len(rows))

    def _add(self, part: cluster.Part, scored: Sequence[Scored]) -> None:
        """Keep the scored rows of a part, without texts of credentialed notes and what a model wrote of them."""
        scored_task = self.tasks[part["task"]]
        reader = scored_task.reader
        same_inputs = {
            index - part["start"] for index in scored_task.find_same_inputs(part["round"])
        }
        same_inputs &= set(range(part["rows"]))
        measured = without_same_inputs(scored, same_inputs, reader)
        private = {"text": "", "answer": ""} if reader.kind == "chat" else {"text": ""}
        rows = []
        for row in with_scores(_rows_of(scored_task, part), measured, reader.model_id, same_inputs):
            rows.append({**row, **private} if _is_credentialed(row) else row)
        # Rows of other wordings have two columns more. Candidates stand in the corpus.
        columns = dict.fromkeys(name for row in rows for name in row if name != "candidates")
        cells = {name: [row.get(name) for row in rows] for name in columns}
        scored_task.tables[part["round"], part["start"]] = pa.table(cells)

    def _table(self, study: str) -> pa.Table:
        """Return the rows of a study so far."""
        tables = []
        for scored_task in self.tasks.values():
            if scored_task.task.study.name == study:
                tables += [scored_task.tables[key] for key in sorted(scored_task.tables)]
        return pa.concat_tables(tables, promote_options="default")

    def _finish(self, study: str) -> None:
        """Write the rows of a study down, also those of a broken model."""
        self.run.write_parquet(f"{ITEMS}/{study}.parquet", self._table(study))
        self.items[study] = take_frame(self._table(study))
        refuse_non_finite(self.items[study], str(self.run.place))


def _is_credentialed(row: Mapping[str, Any]) -> bool:
    return str(row.get("credentialed")) == "True"
