"""Scoring in rounds, every prompt once before any twice: what is known is a whole run whenever asking ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from swapbias.cluster import Part, Result, WorkerPool
from swapbias.models import Bar, Progress, Say, Scored, Scorer
from swapbias.runs.cache import ScoreCache
from swapbias.runs.plan import Task
from swapbias.runs.run import ITEMS, Run, as_frame, as_table, chunks, refuse_non_finite, with_scores
from swapbias.studies import Row, as_prompts, column, joined, only

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = "rounds"  # the key of a manifest
Rows = Sequence[Row]


@dataclass(slots=True)
class ScoredTask:
    """One task of a run: its reader, its rows by round, and whether further rounds are scored."""

    task: Task
    reader: Scorer
    rounds: dict[int, Rows]
    live: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        """Study, experiment and model."""
        return self.task.study.name, self.task.experiment.name, self.reader.model_id

    def parts(self, place: int, number: int) -> Iterator[tuple[Part, Rows]]:
        """The parts of a round, each with its rows: which rows each part has depends on the plan alone."""
        rows = self.rounds.get(number, []) if self.live else []
        for piece, some in enumerate(chunks(rows, self.reader.chunk_rows)):
            name = f"{place:03d}-{number:05d}-{piece:05d}"
            yield {"name": name, "place": place, "round": number, "rows": len(some)}, rows[some.start : some.stop]

    def rows_of(self, part: Part) -> Rows:
        """The rows of one of its parts."""
        rows = self.rounds[part["round"]]
        piece = int(part["name"].rpartition("-")[2])
        some = next(islice(chunks(rows, self.reader.chunk_rows), piece, None))
        return rows[some.start : some.stop]


def scored_tasks(tasks: Sequence[Task], readers: Sequence[Scorer]) -> list[ScoredTask]:
    """The tasks, each with its reader and its rows by round; a task whose rows name no trial has one round."""
    return [ScoredTask(task, reader, _rounds(task)) for task, reader in zip(tasks, readers, strict=True)]


@dataclass(slots=True)
class Scoring:
    """Has all tasks of a run scored, round by round.

    Attributes:
        run: its scored rows are written there, by study.
        manifest: gets after each interim analysis how many rounds were scored, and why no more.
        cache: where scores are saved at once; what is there is not scored again.
        margin: what counts as no gap in interim analyses.
    """

    run: Run
    manifest: dict[str, Any]
    say: Say
    cache: ScoreCache
    margin: float | None = None
    looks: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    notes: dict[str, None] = field(default_factory=dict)  # of workers about their models
    every: list[ScoredTask] = field(default_factory=list)
    tables: dict[str, pa.Table] = field(default_factory=dict)  # scored rows by part
    advances: dict[str, Progress] = field(default_factory=dict)

    def advance(self, part: Part, more: float) -> None:
        """So many more rows of a part are done."""
        self.advances[self._study(part)](more)

    def _study(self, part: Part) -> str:
        return self.every[part["place"]].task.study.name

    def score(
        self, tasks: Sequence[Task], readers: Sequence[Scorer], bar: Bar, pool: WorkerPool
    ) -> "dict[str, pd.DataFrame]":
        """The scored rows of each study.

        Args:
            tasks: what is scored, each by the reader of the same place.
            readers: the models.
            bar: makes a progress bar for each study.
            pool: scores what the cache does not have; chat models are asked by this process.

        Raises:
            UsageError: as scorers. ValueError: as scorers; a model whose numbers are not finite.
        """
        self.every = scored_tasks(tasks, readers)
        planned = max(max(one.rounds, default=1) for one in self.every)
        studies = dict.fromkeys(task.study.name for task in tasks)
        self.advances = {
            name: bar(name, sum(len(task.rows) for task in tasks if task.study.name == name)) for name in studies
        }
        for number in range(1, planned + 1):
            if number > 1 and not self._goes_on(number):
                break
            self._score_round(number, pool)
            self._report_costs(number, planned)
            self._look(number, planned)
        items = {}
        for name in studies:
            self.run.write_parquet(f"{ITEMS}/{name}.parquet", self._table(name))
            items[name] = as_frame(self._table(name))
            refuse_non_finite(items[name], str(self.run.place))
        self._note(planned, items)
        return items

    def _score_round(self, number: int, pool: WorkerPool) -> None:
        """A broken model stops the run as soon as the last part of a study is there."""
        here: list[Part] = []
        elsewhere: list[Part] = []
        rows_of, places = {}, {}
        for place, one in enumerate(self.every):
            for part, rows in one.parts(place, number):
                prompts, private = as_prompts(rows), one.task.notes is not None or _is_credentialed(rows)
                path = self.cache.place(prompts, one.reader, private=private)
                rows_of[part["name"]], places[part["name"]] = rows, path
                if path is not None and (scored := self.cache.read(path, len(rows))) is not None:
                    self._add(part, rows, scored)
                    self.advance(part, len(rows))
                else:
                    (here if path is None else elsewhere).append(part)
        missing = {*(part["name"] for part in (*here, *elsewhere))}
        for study in dict.fromkeys(one.task.study.name for one in self.every):
            self._check_finite(study, number, missing)
        for part, result in self._results(here, elsewhere, pool):
            name = part["name"]
            if (path := places[name]) is not None:
                self.cache.write(path, result["scored"])
            self.notes |= dict.fromkeys(result["notes"])
            self._add(part, rows_of[name], result["scored"])
            missing.discard(name)
            self._check_finite(self._study(part), number, missing)

    def _results(
        self, here: Sequence[Part], elsewhere: Sequence[Part], pool: WorkerPool
    ) -> Iterator[tuple[Part, Result]]:
        if elsewhere:
            yield from pool(elsewhere)
        for part in here:
            yield part, score_part(self.every, part, partial(self.advance, part))

    def _add(self, part: Part, rows: Rows, scored: Sequence[Scored]) -> None:
        one = self.every[part["place"]]
        self.tables[part["name"]] = as_table(
            _without_text(with_scores(rows, scored, one.reader.model_id), one.reader)
        )

    def _check_finite(self, study: str, number: int, missing: set[str]) -> None:
        mine = {place for place, one in enumerate(self.every) if one.task.study.name == study}
        last = number == max(max(self.every[place].rounds, default=1) for place in mine)
        if last and not any(int(name[:3]) in mine for name in missing):
            try:
                refuse_non_finite(as_frame(self._table(study)), str(self.run.place))  # which gives the table up
            except ValueError:  # what was scored can be looked at
                self.run.write_parquet(f"{ITEMS}/{study}.parquet", self._table(study))
                raise

    def _table(self, study: str, until: int | None = None) -> pa.Table:
        """The rows of a study so far, or of its rounds ``until`` this one."""
        tables = [
            table
            for name, table in sorted(self.tables.items())
            if self.every[int(name[:3])].task.study.name == study and (until is None or int(name[4:9]) <= until)
        ]
        return pa.concat_tables(tables, promote_options="default")

    def _goes_on(self, number: int) -> bool:
        """Whether this round is scored: a prompt is undecided, and its cost within what asking may cost."""
        due = [one for one in self.every if one.live and number in one.rounds]
        for reader, rows in _by_model([(one.reader, one.rounds[number]) for one in due]):
            self.stopped = self.stopped or reader.beyond_limits(as_prompts(rows))
        if self.stopped:
            self.say(f"Asking ends after {_trials(number - 1)} of each prompt: {self.stopped}.")
        return bool(due) and not self.stopped

    def _report_costs(self, number: int, planned: int) -> None:
        rest = [
            (one.reader, joined(rows for later, rows in one.rounds.items() if later > number and one.live))
            for one in self.every
        ]
        for reader, rows in _by_model(rest):
            if spent := reader.spent(as_prompts(rows)):
                self.say(f"Trial {number} of {planned}: {spent}" if planned > 1 else spent)

    def _look(self, number: int, planned: int) -> None:
        """Where an interim analysis is planned: end what is decided, by inference that holds at each of them."""
        looked = [one for one in self.every if one.live and number < max(one.rounds) and _looked_at(one, number)]
        if not looked:
            return
        from swapbias.findings import settled  # statistics take long to import

        studies = dict.fromkeys(one.task.study.name for one in self.every)
        decided = settled({name: as_frame(self._table(name, number)) for name in studies}, margin=self.margin)
        ended = [one for one in looked if one.key in decided]
        for one in ended:
            one.live = False
        names = [" ".join(one.key[:2]) for one in ended]
        self.looks.append({"after": number, "decided": names})
        if names:
            self.say(f"Decided after {_trials(number)} of {planned}: {', '.join(names)}.")
        self.manifest[ROUNDS] = {"planned": planned, "looks": self.looks}
        self.run.write_manifest(self.manifest)

    def _note(self, planned: int, items: "Mapping[str, pd.DataFrame]") -> None:
        if planned < 2:
            return
        asked = {
            f"{study} {experiment}": int(rows["trial"].astype(int).max())
            for study, frame in items.items()
            if "trial" in frame
            for experiment, rows in frame.dropna(subset="trial").groupby("experiment", sort=False)
        }
        rounds = {"planned": planned, "asked": asked, "looks": self.looks, "stopped": self.stopped}
        self.manifest[ROUNDS] = {**rounds, "told": list(_told(rounds))}
        self.run.write_manifest(self.manifest)


def _told(rounds: Mapping[str, Any]) -> Iterator[str]:
    """Sentences: how often prompts were asked, where that is not as often as planned, and the looks."""
    fewer = [f"{name} {count}" for name, count in rounds["asked"].items() if count != rounds["planned"]]
    if fewer:
        why = f"; {rounds['stopped']}" if rounds["stopped"] else ""
        yield f"Of {rounds['planned']} planned trials of each prompt were asked: {', '.join(fewer)}{why}."
    if rounds["looks"]:
        yield (
            "Results were looked at while they came, and asking ended where they were decided: intervals and "
            "p-values hold at each look (repeated ones, by Pocock's rule)."
        )


def _trials(count: int) -> str:
    return f"{count} trial{'s' if count > 1 else ''}"


def _rounds(task: Task) -> dict[int, Rows]:
    trials = [int(trial or 1) for trial in column(task.rows, "trial")]
    numbers = dict.fromkeys(trials)
    if len(numbers) == 1:
        return dict.fromkeys(numbers, task.rows)
    return {number: only(task.rows, (one == number for one in trials)) for number in numbers}


def _looked_at(one: ScoredTask, number: int) -> bool:
    from swapbias.findings import LOOKS
    from swapbias.measures import interim_rounds

    first = next((row for row in one.task.rows if row.get(LOOKS)), None)
    return first is not None and number in interim_rounds(max(one.rounds))


def _by_model(asked: Sequence[tuple[Scorer, Rows]]) -> Iterator[tuple[Scorer, Rows]]:
    """The rows of all readers of one model together: what they share is asked once."""
    rows: dict[str, list[Rows]] = {}
    readers: dict[str, Scorer] = {}
    for reader, mine in asked:
        readers.setdefault(reader.model_id, reader)
        rows.setdefault(reader.model_id, []).append(mine)
    return ((readers[name], joined(rows[name])) for name in readers)


def score_part(every: Sequence[ScoredTask], part: Part, advance: Progress) -> Result:
    """The scores of a part, and notes on its model."""
    one = every[part["place"]]
    scored = one.reader.score(as_prompts(one.rows_of(part)), advance)
    return {"scored": scored, "notes": [one.reader.error_note] if one.reader.error_note else []}


def _is_credentialed(rows: Rows) -> bool:
    return any(str(row.get("credentialed")) == "True" for row in rows)


def _without_text(rows: list[dict[str, Any]], reader: Scorer) -> list[dict[str, Any]]:
    """Scored rows as they are written: without the text of credentialed notes, and what a model wrote of it."""
    blank = {"text": "", "candidates": "", **({"answer": ""} if reader.kind == "chat" else {})}
    return [{**row, **blank} if str(row.get("credentialed")) == "True" else row for row in rows]
