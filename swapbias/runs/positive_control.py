"""The positive control: where no pair moves a black box, does a strong word in place of the swapped one move it?"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

import pandas as pd

from swapbias.findings import scored_rows, terms
from swapbias.measures import with_range_of
from swapbias.models import Scorer, checked_scores
from swapbias.models.chat import ChatOptions
from swapbias.runs.run import ITEMS
from swapbias.runs.scored_task import ScoredTask, as_read
from swapbias.runs.scoring import Scoring
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.studies import Experiment, Prompt, Row, as_prompts

CONTROLS = "controls"  # key of a manifest
STRONG_WORDS = "a convicted murderer"
MOST_TEXTS = 12
_SMALL = 0.1  # of the margin: a score that changes by less has not moved
_ROUNDING = 1e-6  # of the largest score: the precision of float32
# Chinese and Japanese have no blanks between words; the marks above Thai letters are no letters to ``re``.
_WORD = re.compile(
    r"""[\u3040-\u30ff\u3400-\u9fff]|[^\s.,;:!?"'()<>|/。，、！？：；]+|.""", re.DOTALL
)
_ALIKE = 0.3  # share of words that two texts of a pair share, else their letters are compared


@dataclass(frozen=True, slots=True)
class Control:
    """Outcome of the texts with strong words in an experiment: how many were read, and how many scores moved."""

    study: str
    """Name of the study."""
    experiment: str
    """Name of the experiment."""
    model_id: str
    """Model that was asked."""
    texts: int
    """Number of texts with strong words that were scored."""
    moved: int
    """Number of them whose score moved."""

    @property
    def outcome(self) -> str:
        """Outcome: the model reads the swapped words or not; ``CONTROL_UNKNOWN``: it scored none of them."""
        if not self.texts:
            return terms.CONTROL_UNKNOWN
        return terms.CONTROL_MOVED if self.moved else terms.CONTROL_UNMOVED


def control_note(tasks: Iterable[Task], settings: Settings) -> str:
    """Return how many more texts a chat service may be sent than are planned, in a sentence; blank for none."""
    chat = settings.of(ChatOptions)
    names = [task.name for task in tasks if task.kind.name == "chat" and compares_pairs(task)]
    if not names or chat.local:
        return ""
    return f"If no pair's score moves, up to {MOST_TEXTS} more texts are sent for {', '.join(names)}, as a control."


def strong_text(text: str, reference: str) -> str:
    """Return a text with ``STRONG_WORDS`` in place of each part that its reference text does not share.

    >>> strong_text("She is late.", "He is late."), strong_text("A deaf man left.", "A man left.")
    ('a convicted murderer is late.', 'A a convicted murderer man left.')
    """
    words = _WORD.findall(text)
    matcher = SequenceMatcher(None, words, _WORD.findall(reference), autojunk=False)
    if matcher.ratio() < _ALIKE:
        return _strong_middle(text, reference)
    pieces: list[str] = []
    for operation, start, end, *_ in matcher.get_opcodes():
        part = "".join(words[start:end])
        if operation == "equal":
            pieces += words[start:end]
        elif part.strip():
            pieces.append(part.replace(part.strip(), STRONG_WORDS))
        else:  # the reference text has words more
            before = "" if pieces and pieces[-1] == " " else " "
            after = "" if words[end : end + 1] == [" "] else " "
            pieces.append(f"{before}{STRONG_WORDS}{after}")
    return "".join(pieces)


def _strong_middle(text: str, reference: str) -> str:
    """The text with ``STRONG_WORDS`` between the letters that both begin and end with: not all words have blanks."""
    start = _count_shared(text, reference)
    end = _count_shared(text[start:][::-1], reference[start:][::-1])
    return f"{text[:start]}{STRONG_WORDS}{text[len(text) - end :]}"


def _count_shared(text: str, reference: str) -> int:
    """The number of letters that both texts begin with."""
    pairs = zip(text, reference, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def ask_controls(scoring: Scoring, settings: Settings) -> list[Control]:
    """Ask each black box of which no pair moved, and note the outcome in its scored rows and in the manifest.

    Args:
        scoring: the run with its scored rows; their files are written again where a model was asked.
        settings: of the audit; its margin says which change of a score is one.

    Returns:
        One control for each experiment and model that was asked, or had to be and could not be.
    """
    controls: list[Control] = []
    for scored_task in scoring.tasks.values():
        control = _ask_control(scoring, scored_task, settings)
        if control is not None:
            controls.append(control)
    for control in controls:
        _note_outcome(scoring, control)
    for study in dict.fromkeys(control.study for control in controls):
        scoring.run.write_parquet(f"{ITEMS}/{study}.parquet", scoring.items[study])
    if controls:
        scoring.manifest[CONTROLS] = [asdict(control) for control in controls]
        scoring.run.write_manifest(scoring.manifest)
    return controls


def _ask_control(scoring: Scoring, scored_task: ScoredTask, settings: Settings) -> Control | None:
    """The control of one experiment; None where the model can be looked into, has moved, or has no such pairs."""
    task = scored_task.task
    reader = scored_task.reader
    if not reader.opaque or not compares_pairs(task):
        return None
    rows = _scored_rows(scoring.items[task.study.name], task, reader.model_id)
    smallest = _smallest_move(rows, as_read(scored_task), settings)
    if (
        rows.empty
        or scored_rows.is_constant(task.experiment, rows)
        or _largest_gap(rows) > smallest
    ):
        return None
    prompts, before = _strong_prompts(task, rows)
    if not prompts:
        return None
    scores = _score(scoring, reader, prompts)
    moved = sum(abs(score - plain) > smallest for score, plain in zip(scores, before, strict=False))
    return Control(
        task.study.name, task.experiment.name, reader.model_id, texts=len(scores), moved=moved
    )


def compares_pairs(task: Task) -> bool:
    """Whether pairs of prompts are compared, by a score that is not whether an answer is right."""
    pairs = task.experiment.is_paired and task.notes is None
    return (
        pairs
        and task.experiment.reads.reading != "ranking"
        and not scored_rows.scores_right_answers(task.experiment)
    )


def _score(scoring: Scoring, reader: Scorer, prompts: Sequence[Prompt]) -> list[float]:
    """The scores of the prompts; none where the run is stopped, at its limit, or the model cannot read them."""
    if scoring.stop is not None or reader.beyond_limits(prompts):
        return []
    try:
        return [scored.score for scored in checked_scores(reader, prompts)]
    except ValueError as error:
        scoring.say(f"{reader.model_id} could not score the positive control: {error}")
        if reader.kind == "chat":  # the service may answer when the run is resumed
            scoring.stop_by(error)
        return []


def _scored_rows(items: pd.DataFrame, task: Task, model_id: str) -> pd.DataFrame:
    """The rows of the compared groups that have a score."""
    chosen = (items["experiment"] == task.experiment.name) & (items["model_id"] == model_id)
    compared = items["group"].isin(task.experiment.compared)
    return items[chosen & compared & items["score"].notna()]


def _smallest_move(rows: pd.DataFrame, experiment: Experiment, settings: Settings) -> float:
    """The change of a score that counts as none: a tenth of the margin; of a unit without range, rounding alone."""
    share = settings.margin if settings.margin is not None else experiment.compares.margin
    unit = with_range_of(experiment.compares.unit, rows["score"])
    margin = unit.margin(terms.MARGIN if share is None else share)
    rounding = _ROUNDING * float(rows["score"].abs().max())
    return rounding if math.isnan(margin) else max(_SMALL * margin, rounding)


def _largest_gap(rows: pd.DataFrame) -> float:
    """The largest difference between two scores of one pair."""
    scores = rows.groupby("pair_id", sort=False)["score"]
    return float((scores.max() - scores.min()).max())


def _strong_prompts(task: Task, rows: pd.DataFrame) -> tuple[list[Prompt], list[float]]:
    """Up to ``MOST_TEXTS`` texts with strong words, spread evenly over the pairs, and the scores without them."""
    scores = dict(zip(rows["prompt_id"], rows["score"], strict=True))
    pairs: dict[str, dict[str, Row]] = {}
    for row in task.rows[: task.n_prompts]:
        if row["prompt_id"] in scores:
            pairs.setdefault(row["pair_id"], {})[row["group"]] = row
    both = list(_changed_rows(pairs.values(), task.experiment.compares.reference))
    step = max(1, -(-len(both) // MOST_TEXTS))
    prompts = []
    for row, reference in both[::step]:
        (prompt,) = as_prompts([row])
        strong = strong_text(row["text"], reference["text"])
        prompts.append(replace(prompt, prompt_id=f"control/{prompt.prompt_id}", text=strong))
    return prompts, [scores[row["prompt_id"]] for row, _ in both[::step]]


def _changed_rows(
    pairs: Iterable[Mapping[str, Row]], reference_group: str
) -> Iterator[tuple[Row, Row]]:
    """Of each pair, by group, the first row whose text differs from that of the reference group, and that row."""
    for groups in pairs:
        reference = groups.get(reference_group)
        others = (row for group, row in groups.items() if group != reference_group)
        changed = next(
            (row for row in others if reference and row["text"] != reference["text"]), None
        )
        if reference and changed:
            yield changed, reference


def _note_outcome(scoring: Scoring, control: Control) -> None:
    """Write the outcome beside the scored rows of the experiment."""
    items = scoring.items[control.study]
    chosen = (items["experiment"] == control.experiment) & (items["model_id"] == control.model_id)
    outcomes = items[terms.CONTROL] if terms.CONTROL in items else pd.Series("", index=items.index)
    scoring.items[control.study] = items.assign(
        **{terms.CONTROL: outcomes.mask(chosen, control.outcome)}
    )
