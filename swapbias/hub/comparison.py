"""Runs of several people side by side: one row a quantity, one column a run, and no order by value."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapbias.errors import UsageError
from swapbias.findings import Finding
from swapbias.studies import load_study

SHOWN = 60  # characters of a stranger's name
MOST_ROWS = 400  # quantities of one run; a whole audit of every study has some hundred
MOST_COLUMNS = 24  # models of one run
MOST_CELLS = 2_000_000  # of a comparison


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A run as somebody shared it: repository, its name there, the commit that was read, manifest and findings."""

    repo: str
    name: str
    commit: str
    manifest: Mapping[str, Any]
    found: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Column:
    """One model of one run; ``title`` is told apart from all others of the comparison."""

    title: str
    model_id: str
    run: SharedRun


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity that was measured on the same prompts: a finding for each column, None where there is none.

    ``note`` says what differs from other rows of the quantity (prompts, word lists, trials) or within this one
    (number format of the weights); blank where nothing does.
    """

    first: Finding
    found: tuple[Finding | None, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Columns by name, rows by study, and sentences to print below."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class _Prompts:
    """What was read: config, rows, and sha256 of the rows, of their word lists and of the training notes."""

    config: str
    rows: int
    sha256: str
    word_lists: tuple[str, ...]
    training: str

    def told(self) -> str:
        """In words, so that two that differ read differently."""
        lists = f", word lists {', '.join(one[:8] for one in self.word_lists)}" if self.word_lists else ""
        return f"{self.rows:,} prompts ({self.sha256[:8]}){lists}" + (
            f", notes {self.training[:8]}" * bool(self.training)
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a number depends on besides the model: where it differs, numbers cannot be compared."""

    prompts: frozenset[_Prompts]
    trials: str

    def same(self, other: "_Asked") -> bool:
        """Whether both were read from the same prompts, as often; never where one does not say."""
        # One config may be read by two experiments of which a run has one: any common entry will do.
        return self.trials == other.trials and bool(self.prompts & other.prompts)

    def told(self) -> str:
        """In words."""
        parts = [one.told() for one in sorted(self.prompts)] or ["not stated"]
        return "; ".join([*parts, self.trials] if self.trials else parts)


def side_by_side(runs: Sequence[SharedRun]) -> Comparison:
    """Headline quantities of runs: the paper's statistic over all rows of each experiment and subset.

    Numbers stand in one row where study, quantity, unit, prompts, word lists and trials are the same. Columns are
    in the order of the models' names, then of repository and run. Of a run with more than ``MOST_COLUMNS`` models
    or ``MOST_ROWS`` quantities the first ones are taken, and a footnote says so.

    Raises:
        UsageError: there is nothing to show, or more than a table can hold.
    """
    unique = {(run.repo, run.name, run.commit): run for run in runs}
    cut = [_cut(run) for run in unique.values()]
    columns = _columns([run for run, _ in cut])
    rows = tuple(_rows(columns))
    if not rows:
        raise UsageError("The shared runs hold no finding over all rows of a study. Name other repositories.")
    left_out = [sentence for _, sentences in cut for sentence in sentences]
    return Comparison(columns, rows, (*left_out, *_footnotes(columns, rows)))


def headline(finding: Finding) -> bool:
    """Whether a finding is compared: over all rows, by the paper's statistic, and no mere mean."""
    whole = finding.slice_by == "all" or finding.measure == "correlation"
    return whole and finding.measure != "mean" and finding.score == "score" and not finding.robust


def shown(text: str, limit: int = SHOWN) -> str:
    """A stranger's text for the terminal: one line, a mark for what cannot be seen, an ellipsis where it is long.

    >>> shown("gpt\\u200b2"), shown("a" * 9, limit=4)
    ('gpt�2', 'aaa…')
    """
    seen = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


# --- columns ------------------------------------------------------------------------------------------


def _cut(run: SharedRun) -> tuple[SharedRun, list[str]]:
    """A run with its headline findings alone, not too many, and sentences that say what is left out."""
    found = [one for one in run.found if headline(one)]
    models = list(dict.fromkeys(one.model_id for one in found))
    quantities = list(dict.fromkeys(_quantity(one) for one in found))
    kept, known = set(models[:MOST_COLUMNS]), set(quantities[:MOST_ROWS])
    told = [
        f"Of {run.repo}, run {shown(run.name)}, only the first {most} of {len(all_of)} {what} are shown."
        for all_of, most, what in ((models, MOST_COLUMNS, "models"), (quantities, MOST_ROWS, "quantities"))
        if len(all_of) > most
    ]
    return replace(run, found=[one for one in found if one.model_id in kept and _quantity(one) in known]), told


def _quantity(finding: Finding) -> tuple[str, ...]:
    return (finding.study, finding.experiment, finding.unit, *finding.key())


def _columns(runs: Sequence[SharedRun]) -> tuple[Column, ...]:
    made = [
        Column(f"{shown(model)} @ {run.repo}", model, run)
        for run in runs
        for model in dict.fromkeys(one.model_id for one in run.found)
    ]
    made = _apart(made, lambda one: f"{one.title} ({one.run.name})")
    made = _apart(made, lambda one: f"{one.title} at {one.run.commit[:8]}")
    made = [
        replace(one, title=f"{one.title} [{number}]") if count > 1 else one for one, number, count in _counted(made)
    ]
    return tuple(sorted(made, key=lambda one: (one.model_id.casefold(), one.model_id, one.title)))


def _apart(columns: list[Column], longer: Any) -> list[Column]:
    """Columns with a longer title where two have the same."""
    return [replace(one, title=longer(one)) if count > 1 else one for one, _, count in _counted(columns)]


def _counted(columns: Sequence[Column]) -> Iterator[tuple[Column, int, int]]:
    """Each column, the how manieth of its title it is, and how many have that title."""
    whole = Counter(column.title for column in columns)
    before: Counter[str] = Counter()
    for column in columns:
        before[column.title] += 1
        yield column, before[column.title], whole[column.title]


# --- rows ---------------------------------------------------------------------------------------------


def _rows(columns: Sequence[Column]) -> Iterator[Row]:
    """Rows by study and experiment, else in the order in which the columns have them."""
    quantities: dict[tuple[str, ...], list[tuple[_Asked, dict[int, Finding]]]] = {}
    for index, column in enumerate(columns):
        known: dict[tuple[str, str], _Asked] = {}
        for one in column.run.found:
            if one.model_id == column.model_id:
                place = one.study, one.experiment
                asked = known[place] if place in known else known.setdefault(place, _asked(one, column.run.manifest))
                _cells(quantities.setdefault(_quantity(one), []), asked).setdefault(index, one)
    count = sum(map(len, quantities.values()))
    if count * len(columns) > MOST_CELLS:
        raise UsageError(
            f"The shared runs make a table of {count:,} rows and {len(columns):,} columns, which is too large. Name "
            "fewer repositories."
        )
    for key in sorted(quantities, key=lambda key: key[:2]):
        for asked, cells in quantities[key]:
            notes = [f"prompts differ: {asked.told()}"] if len(quantities[key]) > 1 else []
            formats = {_weights(columns[index]) for index in cells} - {""}
            notes += [f"weights differ: {', '.join(sorted(formats))}"] if len(formats) > 1 else []
            found = tuple(cells.get(index) for index in range(len(columns)))
            yield Row(next(iter(cells.values())), found, "; ".join(notes))


def _cells(rows: list[tuple[_Asked, dict[int, Finding]]], asked: _Asked) -> dict[int, Finding]:
    """The cells of the row that was asked the same, a new row where there is none."""
    for other, cells in rows:
        if asked.same(other):
            return cells
    rows.append((asked, {}))
    return rows[-1][1]


def _asked(finding: Finding, manifest: Mapping[str, Any]) -> _Asked:
    declared = {one.name: one for one in load_study(finding.study).experiments}.get(finding.experiment)
    corpus = (declared.corpus if declared else "") or finding.study
    configs = {*declared.configs, *declared.alternatives} if declared else set()
    prompts = frozenset(
        _Prompts(
            one["config"], one["rows"], one["sha256"], _digests(one.get("lexicons")), str(one.get("training", ""))
        )
        for one in manifest["corpora"]
        if one["corpus"] == corpus and (not configs or set(one["config"].split(", ")) <= configs)
    )
    chat = manifest["settings"].get("chat")
    if declared is None or declared.kind != "chat" or not isinstance(chat, dict):
        return _Asked(prompts, "")
    return _Asked(prompts, f"{chat.get('trials')} trials at temperature {chat.get('temperature')}")


def _digests(lexicons: Any) -> tuple[str, ...]:
    return tuple(sorted({str(one) for one in lexicons.values()})) if isinstance(lexicons, dict) else ()


def _weights(column: Column) -> str:
    """The number format of a model's weights, blank where the run does not say (a service)."""
    for model in column.run.manifest.get("models", []):
        if model["model_id"] == column.model_id:
            return shown(str(model.get("dtype") or ""))
    return ""


def _footnotes(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    if any("prompts differ" in row.note for row in rows):
        yield (
            "Where prompts differ (or word lists, or trials) a quantity has a row for each; numbers of different "
            "rows cannot be compared."
        )
    if any("weights differ" in row.note for row in rows):
        yield "Where weights differ, small differences may come from their number format."
    versions = sorted({shown(str(column.run.manifest["swapbias"])) for column in columns})
    if len(versions) > 1:
        yield f"The runs were made by different versions of swapbias: {', '.join(versions)}."
