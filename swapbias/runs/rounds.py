"""Scoring in rounds, every prompt once before any twice: what is known is a whole run whenever asking ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swapbias.cluster import Crew, Done, Part
from swapbias.errors import UsageError
from swapbias.models import Bar, Progress, Say, Scorer
from swapbias.runs.cache import ScoreCache
from swapbias.runs.plan import Task
from swapbias.runs.run import Parts, Run, chunks, refuse_non_finite, score_rows, write_part
from swapbias.studies import Row, as_prompts, column, joined, only

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = "rounds"  # the key of a manifest
Asking = Sequence[Row]


@dataclass(slots=True)
class Asked:
    """One task of a run: its reader, its rows by round, and whether it is asked on."""

    task: Task
    reader: Scorer
    rounds: dict[int, Asking]
    asked: int = 0  # rounds
    live: bool = True

    @property
    def name(self) -> str:
        """Study and experiment, as a manifest names them."""
        return f"{self.task.study.name} {self.task.experiment.name}"

    def parts(self, place: int, number: int) -> Iterator[Part]:
        """What a round of it is written down in: which rows each part has hangs on the plan alone."""
        rows = self.rounds.get(number, []) if self.live else []
        for piece, some in enumerate(chunks(rows, self.reader.chunk_rows)):
            name = f"{place:03d}-{number:05d}-{piece:05d}"
            yield {
                "name": f"{self.task.study.name}/{name}", "place": place, "round": number, "rows": len(some),
                "here": self.reader.kind == "chat",  # its answers have one log, and its service one limit
            }  # fmt: skip

    def left(self, after: int) -> Asking:
        """Its rows of later rounds."""
        return joined(rows for number, rows in self.rounds.items() if number > after and self.live)


@dataclass(slots=True)
class Scoring:
    """Has all tasks of a run scored, round by round; a task whose rows tell no trial has one.

    Attributes:
        run: where each part is written down at once; what is there is not scored again.
        manifest: told after each look how many rounds were asked, and why no more.
        margin: what counts as no gap when results are looked at.
        conclude: ask for no further round than those that are whole on disk.
    """

    run: Run
    manifest: dict[str, Any]
    say: Say
    margin: float | None = None
    conclude: bool = False
    looks: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    notes: dict[str, None] = field(default_factory=dict)  # what workers say of their models
    cached: int = 0  # rows that were taken from the cache
    advances: dict[str, Progress] = field(default_factory=dict)

    def advance(self, part: Part, more: float) -> None:
        """So many more rows of a part are done."""
        self.advances[study_of(part)](more)

    def score(
        self, tasks: Sequence[Task], readers: Sequence[Scorer], bar: Bar, crew: Crew
    ) -> "dict[str, pd.DataFrame]":
        """The scored rows of each study, of which the crew scores and writes down what is not on disk.

        Raises:
            UsageError: as scorers, and where not one whole round is there to conclude.
            ValueError: as scorers; a model whose numbers are not finite.
        """
        every = [Asked(task, reader, _rounds(task)) for task, reader in zip(tasks, readers, strict=True)]
        planned = max(max(one.rounds, default=1) for one in every)
        parts = {name: Parts(self.run, name, self.say) for name in dict.fromkeys(task.study.name for task in tasks)}
        self.advances = {
            name: bar(name, sum(len(one.task.rows) for one in every if one.task.study.name == name)) for name in parts
        }
        for name, part in parts.items():
            if part.done is not None:
                self.advances[name](len(part.done))
        for number in range(1, planned + 1):
            if number > 1 and not self._goes_on(number, every, parts):
                break
            self._score_round(number, every, parts, crew)
            self._tell_costs(number, planned, every)
            self._look(number, planned, every, parts)
        items = {name: part.close() for name, part in parts.items()}
        for rows in items.values():
            refuse_non_finite(rows, str(self.run.place))
        self._note(planned, items)
        return items

    def _score_round(self, number: int, every: Sequence[Asked], parts: Mapping[str, Parts], crew: Crew) -> None:
        """A study whose last round this is is closed as soon as its parts are there: a broken model stops then."""
        left = {name: self._missing(number, every, part) for name, part in parts.items()}
        last = {
            name for name in parts if number == max(max(one.rounds, default=1) for one in every if _is_of(one, name))
        }
        for name in last - {name for name, missing in left.items() if missing}:
            refuse_non_finite(parts[name].close(), str(self.run.place))
        open_ = {name: len(missing) for name, missing in left.items()}
        for part, done in crew(part for missing in left.values() for part in missing):
            name = study_of(part)
            self.notes |= dict.fromkeys(done["notes"])
            self.cached += done["cached"]
            open_[name] -= 1
            if not open_[name] and name in last:
                refuse_non_finite(parts[name].close(), str(self.run.place))

    def _missing(self, number: int, every: Sequence[Asked], parts: Parts) -> list[Part]:
        """The parts of a round that are not on disk."""
        if parts.done is not None:
            return []
        missing = []
        for place, one in enumerate(every):
            for part in one.parts(place, number) if _is_of(one, parts.study) else ():
                known = parts.known(part["name"].rpartition("/")[2])
                if known is None:
                    missing.append(part)
                else:
                    self.advance(part, known)
        return missing

    def _goes_on(self, number: int, every: Sequence[Asked], parts: Mapping[str, Parts]) -> bool:
        """Whether this round is asked: something is left to ask, is wanted, and within what asking may cost."""
        due = [
            (place, one)
            for place, one in enumerate(every)
            if one.live and number in one.rounds and parts[one.task.study.name].done is None
        ]
        if not due:  # of complete studies nothing is asked; that all is decided is said already
            return any(one.live and number in one.rounds for one in every)
        there = (parts[one.task.study.name].has(f"{place:03d}-{number:05d}-") for place, one in due)
        if self.conclude and not all(there):
            self.stopped = "it was concluded on request"
        for reader, rows in _by_model([(one.reader, one.rounds[number]) for _, one in due]):
            self.stopped = self.stopped or reader.beyond_limits(as_prompts(rows))
        if self.stopped:
            self.say(f"Asking ends after {_trials(number - 1)} of each prompt: {self.stopped}.")
        return not self.stopped

    def _tell_costs(self, number: int, planned: int, every: Sequence[Asked]) -> None:
        for reader, rows in _by_model([(one.reader, one.left(number)) for one in every]):
            if told := reader.spent(as_prompts(rows)):
                self.say(f"Trial {number} of {planned}: {told}" if planned > 1 else told)

    def _look(self, number: int, planned: int, every: Sequence[Asked], parts: Mapping[str, Parts]) -> None:
        """Where looks are planned: end what is decided, by inference that holds at each of them."""
        looked = [one for one in every if one.live and number < max(one.rounds) and _looked_at(one, number)]
        if not looked:
            return
        from swapbias.findings import settled  # statistics take long to import

        decided = settled({name: part.until(number) for name, part in parts.items()}, margin=self.margin)
        ended = [
            one for one in looked if (one.task.study.name, one.task.experiment.name, one.reader.model_id) in decided
        ]
        for one in ended:
            one.live = False
        names = [one.name for one in ended]
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


def _rounds(task: Task) -> dict[int, Asking]:
    trials = [int(trial or 1) for trial in column(task.rows, "trial")]
    numbers = dict.fromkeys(trials)
    if len(numbers) == 1:
        return dict.fromkeys(numbers, task.rows)
    return {number: only(task.rows, (one == number for one in trials)) for number in numbers}


def _looked_at(one: Asked, number: int) -> bool:
    from swapbias.findings import LOOKS
    from swapbias.measures import interim_rounds

    first = next((row for row in one.task.rows if row.get(LOOKS)), None)
    return first is not None and number in interim_rounds(max(one.rounds))


def _by_model(asked: Sequence[tuple[Scorer, Asking]]) -> Iterator[tuple[Scorer, Asking]]:
    """The rows of all readers of one model together: what they share is asked once."""
    rows: dict[str, list[Asking]] = {}
    readers: dict[str, Scorer] = {}
    for reader, mine in asked:
        readers.setdefault(reader.model_id, reader)
        rows.setdefault(reader.model_id, []).append(mine)
    return ((readers[name], joined(rows[name])) for name in readers)


def study_of(part: Part) -> str:
    """The study that a part is of."""
    return str(part["name"].partition("/")[0])


def _is_of(one: Asked, study: str) -> bool:
    return one.task.study.name == study


class PartScorer:
    """The worker of an audit: scores the rows that a part has by the plan, and writes it down."""

    def __init__(self, run: Run, tasks: Sequence[Task], readers: Sequence[Scorer], cache: ScoreCache | None) -> None:
        """With loaded models, which is all that takes long."""
        self.run, self.cache = run, cache
        self.every = [Asked(task, reader, _rounds(task)) for task, reader in zip(tasks, readers, strict=True)]
        self.chunks: tuple[tuple[int, int], list[range]] = ((-1, -1), [])  # of the round read last

    def __call__(self, part: Part, advance: Progress) -> Done:
        """How many rows came from the cache, and notes on the model."""
        one, before = self.every[part["place"]], self.cache.rows if self.cache else 0
        kept = None if one.task.notes else self.cache  # notes are never kept: they may be private
        rows = score_rows(self._rows(part), one.reader, advance, cache=kept)
        write_part(self.run, part["name"], _without_held_text(rows, one.reader))
        note = one.reader.error_note
        return {"cached": (self.cache.rows if self.cache else 0) - before, "notes": [note] if note else []}

    def _rows(self, part: Part) -> list[Row]:
        key, one = (part["place"], part["round"]), self.every[part["place"]]
        rows = one.rounds[part["round"]]
        if self.chunks[0] != key:
            self.chunks = key, list(chunks(rows, one.reader.chunk_rows))
        some = self.chunks[1][int(part["name"].rpartition("-")[2])]
        return list(rows[some.start : some.stop])


def _without_held_text(rows: list[dict[str, Any]], reader: Scorer) -> list[dict[str, Any]]:
    """Scored rows as they are kept: without the text of credentialed notes, and what was written of it."""
    held = {"text": "", "candidates": "", **({"answer": ""} if reader.kind == "chat" else {})}
    return [{**row, **held} if str(row.get("credentialed")) == "True" else row for row in rows]


def check_whole(run: Run, tasks: Sequence[Task]) -> None:
    """Refuse to conclude a run of which not one whole round is there.

    Raises:
        UsageError: naming what is lacking.
    """
    for name in dict.fromkeys(task.study.name for task in tasks):
        part = Parts(run, name)
        lacking = [
            task
            for place, task in enumerate(tasks)
            if task.study.name == name and part.done is None and not part.has(f"{place:03d}-00001-")
        ]
        if lacking:
            raise UsageError(
                f"{run.place} has not asked every prompt once: {name} {lacking[0].experiment.name} lacks answers. "
                "Go on without -M conclude."
            )
