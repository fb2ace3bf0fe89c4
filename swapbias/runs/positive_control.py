"""The positive control of a black box that no pair moves: strong words in place of the swapped ones."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

import pandas as pd

from swapbias.findings import scored_rows, terms
from swapbias.models import Scorer, checked_scores
from swapbias.models.chat import ChatOptions
from swapbias.runs.run import ITEMS
from swapbias.runs.scored_task import ScoredTask, as_read
from swapbias.runs.scoring import Scoring
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.studies import Experiment, Prompt, Row, as_prompts

CONTROLS = "controls"
"""Key of a manifest."""
STRONG_WORDS = "a convicted murderer"
"""Words that stand in place of the swapped ones."""
MOST_TEXTS = 12
"""Most texts with strong words of an experiment."""
# A share of the margin: a score that changes by less has not moved.
_SMALL = 0.1
# A share of the largest score: the precision of float32.
_ROUNDING = 1e-6
# Chinese and Japanese have no blanks between words; the marks above Thai letters are no letters to ``re``.
_WORD = re.compile(
    r"""[\u3040-\u30ff\u3400-\u9fff]|[^\s.,;:!?"'()<>|/。，、！？：；]+|.""", re.DOTALL
)
# Share of words that two texts of a pair share; below it their letters are compared.
_ALIKE = 0.3


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
        if self.moved:
            return terms.CONTROL_MOVED
        return terms.CONTROL_UNMOVED


def control_note(tasks: Iterable[Task], settings: Settings) -> str:
    """Return how many more texts a chat service may be sent than are planned, in a sentence; blank for none.

    Args:
        tasks: tasks that are planned.
        settings: the settings of the audit.
    """
    chat = settings.of(ChatOptions)
    names = [task.name for task in tasks if task.kind.name == "chat" and _compares_pairs(task)]
    if not names or chat.local:
        return ""
    return f"If no pair's score moves, up to {MOST_TEXTS} more texts are sent for {', '.join(names)}, as a control."


def strong_text(text: str, reference: str) -> str:
    """Return a text with ``STRONG_WORDS`` in place of each part that its reference text does not share.

    Args:
        text: the text of a row.
        reference: text of the reference group in the same pair.

    >>> strong_text("She is late.", "He is late."), strong_text("A deaf man left.", "A man left.")
    ('a convicted murderer is late.', 'A a convicted murderer man left.')
    """
    words = _WORD.findall(text)
    matcher = SequenceMatcher(None, words, _WORD.findall(reference), autojunk=False)
    if matcher.ratio() < _ALIKE:
        return _strong_middle(text, reference)
    strong = ""
    for operation, start, end, *_ in matcher.get_opcodes():
        part = "".join(words[start:end])
        if operation == "equal":
            strong += part
        elif part.strip():
            strong += part.replace(part.strip(), STRONG_WORDS)
        else:
            # The reference text has more words.
            strong = _with_blank(strong) + STRONG_WORDS
            if words[end : end + 1] != [" "]:
                strong += " "
    return strong


def _with_blank(text: str) -> str:
    """Return a text that ends with a blank."""
    return text if text.endswith(" ") else f"{text} "


def _strong_middle(text: str, reference: str) -> str:
    """Return the text with ``STRONG_WORDS`` between the letters that both begin and end with.

    Not all languages have blanks between words.
    """
    start = _count_shared(text, reference)
    end = _count_shared(text[start:][::-1], reference[start:][::-1])
    return f"{text[:start]}{STRONG_WORDS}{text[len(text) - end :]}"


def _count_shared(text: str, reference: str) -> int:
    """Return the number of letters that both texts begin with."""
    pairs = zip(text, reference, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def ask_controls(scoring: Scoring, settings: Settings) -> list[Control]:
    """Ask each black box of which no pair moved, and note the outcome in its scored rows and in the manifest.

    Args:
        scoring: the run with its scored rows; their files are written again where a model was asked.
        settings: the settings of the audit; its margin says which change of a score is one.

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
    """Return the control of one experiment.

    None where the model can be looked into, where it has moved, and where there are no such pairs.
    """
    task = scored_task.task
    reader = scored_task.reader
    if not reader.opaque or not _compares_pairs(task):
        return None
    rows = _scored_rows(scoring.items[task.study.name], task, reader.model_id)
    smallest = _smallest_move(rows, as_read(scored_task), settings)
    if rows.empty or scored_rows.is_constant(task.experiment, rows):
        return None
    if _largest_gap(rows) > smallest:
        return None
    prompts, before = _strong_prompts(task, rows)
    if not prompts:
        return None
    scores = _score(scoring, reader, prompts)
    moved = sum(abs(score - plain) > smallest for score, plain in zip(scores, before, strict=False))
    return Control(
        task.study.name, task.experiment.name, reader.model_id, texts=len(scores), moved=moved
    )


def _compares_pairs(task: Task) -> bool:
    """Return whether pairs of prompts are compared, by a score that is not whether an answer is right."""
    experiment = task.experiment
    if not experiment.is_paired or task.notes is not None:
        return False
    return experiment.reads.reading != "ranking" and not scored_rows.scores_right_answers(
        experiment
    )


def _score(scoring: Scoring, reader: Scorer, prompts: Sequence[Prompt]) -> list[float]:
    """Return the scores of the prompts; none where the run is stopped or at its limit, or on an error."""
    if scoring.stop_error is not None or reader.beyond_limits(prompts):
        return []
    try:
        return [scored.score for scored in checked_scores(reader, prompts)]
    except ValueError as error:
        scoring.say(f"{reader.model_id} could not score the positive control: {error}")
        if reader.kind == "chat":  # the service may answer when the run is resumed
            scoring.stop_by(error)
        return []


def _scored_rows(items: pd.DataFrame, task: Task, model_id: str) -> pd.DataFrame:
    """Return the rows of the compared groups that have a score."""
    chosen = (items["experiment"] == task.experiment.name) & (items["model_id"] == model_id)
    compared = items["group"].isin(task.experiment.compared)
    return items[chosen & compared & items["score"].notna()]


def _smallest_move(rows: pd.DataFrame, experiment: Experiment, settings: Settings) -> float:
    """Return the change of a score that counts as none: a tenth of the margin; without a range, rounding alone."""
    share = settings.margin
    if share is None:
        share = experiment.compares.margin
    if share is None:
        share = terms.MARGIN
    unit = experiment.compares.unit.with_range_of(rows["score"])
    margin = unit.margin(share)
    rounding = _ROUNDING * float(rows["score"].abs().max())
    if math.isnan(margin):
        return rounding
    return max(_SMALL * margin, rounding)


def _largest_gap(rows: pd.DataFrame) -> float:
    """Return the largest difference between two scores of one pair."""
    scores = rows.groupby("pair_id", sort=False)["score"]
    return float((scores.max() - scores.min()).max())


def _strong_prompts(task: Task, rows: pd.DataFrame) -> tuple[list[Prompt], list[float]]:
    """Return up to ``MOST_TEXTS`` prompts with strong words, spread evenly over the pairs, and the scores without."""
    scores = dict(zip(rows["prompt_id"], rows["score"], strict=True))
    pairs: dict[str, dict[str, Row]] = {}
    for row in task.rows[: task.n_prompts]:
        if row["prompt_id"] in scores:
            pairs.setdefault(row["pair_id"], {})[row["group"]] = row
    changed = list(_changed_rows(pairs.values(), task.experiment.compares.reference))
    step = max(1, math.ceil(len(changed) / MOST_TEXTS))
    prompts = []
    before = []
    for row, reference in changed[::step]:
        (prompt,) = as_prompts([row])
        strong = strong_text(row["text"], reference["text"])
        prompts.append(replace(prompt, prompt_id=f"control/{prompt.prompt_id}", text=strong))
        before.append(scores[row["prompt_id"]])
    return prompts, before


def _changed_rows(
    pairs: Iterable[Mapping[str, Row]], reference_group: str
) -> Iterator[tuple[Row, Row]]:
    """Yield, for each pair by group, the first row whose text differs from the reference group's, and that row."""
    for rows_by_group in pairs:
        reference = rows_by_group.get(reference_group)
        if not reference:
            continue
        for group, row in rows_by_group.items():
            if group != reference_group and row["text"] != reference["text"]:
                yield row, reference
                break


def _note_outcome(scoring: Scoring, control: Control) -> None:
    """Write the outcome beside the scored rows of the experiment."""
    items = scoring.items[control.study]
    chosen = (items["experiment"] == control.experiment) & (items["model_id"] == control.model_id)
    outcomes = pd.Series("", index=items.index)
    if terms.CONTROL in items:
        outcomes = items[terms.CONTROL]
    outcomes = outcomes.mask(chosen, control.outcome)
    scoring.items[control.study] = items.assign(**{terms.CONTROL: outcomes})
