"""What a model is to an audit: prompts in, scores out."""

import json
import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from swapbias.errors import UsageError
from swapbias.measures import Unit
from swapbias.models.immutable import Immutable
from swapbias.models.progress import Progress, silent
from swapbias.studies import Lexicon, Prompt, published as paper_numbers


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of one prompt and what stands beside it."""

    score: float
    """In the scorer's unit; NaN where the prompt has none."""
    answer: str = ""
    """Likeliest token or label; empty where there is none."""
    top_tokens: str = "[]"
    """JSON of [token or label, probability] pairs, likeliest first."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Further columns by name."""
    finite: bool = True
    """False where the model returned NaN or infinity, and all scores are NaN."""


def not_scored(parts: Iterable[str] = (), *, finite: bool = True) -> Scored:
    """Return what a prompt without a score has.

    Args:
        parts: names of further columns, which are NaN as well.
        finite: False where the model gave NaN or infinity.
    """
    return Scored(math.nan, parts=dict.fromkeys(parts, math.nan), finite=finite)


def ranked(names: Sequence[str], probabilities: Sequence[float], decimals: int = 6) -> str:
    """Write names with their probabilities as JSON.

    Args:
        names: tokens or labels, likeliest first.
        probabilities: one for each name.
        decimals: decimals to which probabilities are rounded.

    Returns:
        A list of [name, probability] pairs.
    """
    pairs = [
        [name, round(float(probability), decimals)]
        for name, probability in zip(names, probabilities, strict=True)
    ]
    return json.dumps(pairs, ensure_ascii=False)


class Scorer(Immutable):
    """Turns prompts into scores: a model, and one way to read it.

    A subclass needs ``model_id``, ``kind``, ``unit``, ``identity`` and ``score``, and has all else by default. It
    stays as it was made: a method that configures a scorer returns another one.
    """

    needs = ("model_id", "kind", "unit", "identity", "score")
    noun = "A scorer"

    model_id: str
    """The name of the model in findings."""
    kind: str
    """The name of the kind of model that it is read as, such as ``classifier``."""
    unit: str
    """The unit of its scores."""
    identity: Mapping[str, Any]
    """Pins the model down in the manifest, so that another version of it is noticed."""
    own_unit: Unit | None = None
    """The unit of the model's own numbers, where studies of the package take them as ``unit``; None: the same."""
    expected: Mapping[tuple[str, ...], paper_numbers.Published] | None = None
    """Numbers to compare findings with, by ``Finding.key``; None: the published ones."""
    chunk_rows: int = 1_024
    """Number of rows that are scored before they are saved."""
    sends_text: bool = False
    """Whether texts leave this machine and the user's own services."""
    opaque: bool = False
    """Whether nothing shows which part of a text the model reads, so that strong words are tried as a control."""
    negative_label: str | tuple[str, ...] | None = "negative"
    """The ``Scored.answer`` that means negative sentiment, or several; None: no label does."""

    @property
    def notes(self) -> Mapping[str, str]:
        """Return sentences on the scores so far.

        They are ``truncated`` (answers at the token limit), ``withheld`` (answers that a service does not give) and
        ``spent`` (requests).
        """
        return {}

    @abstractmethod
    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts.

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One Scored per prompt, in order.
        """

    def labelled(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score as ``score``, for those who read labels alone (``answer``).

        Args:
            prompts: any number of them.
            on_progress: called with the number of further prompts that are done.
        """
        return self.score(prompts, on_progress)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return what the model gets of each prompt, such as its tokens; None where nothing shows it.

        Args:
            prompts: any number of them.
        """
        return [None] * len(prompts)

    def coverage(self, lexicon: Lexicon) -> list[dict[str, Any]]:
        """Say which words of a lexicon the model can give.

        Args:
            lexicon: words with labels.

        Returns:
            A row for each word: ``in_vocabulary`` (it is one token), ``matched`` (as frequent as others).
        """
        return []

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        """Say why requests for prompts would exceed a limit.

        Args:
            prompts: any number of them.

        Returns:
            A sentence; empty if they do not.
        """
        return ""

    def reading_in(self, unit: Unit) -> Self:
        """Return the scorer that gives its numbers in a unit.

        Args:
            unit: the unit as the study declares it.
        """
        return self._changed(unit=unit.name)

    def reading_notes(self) -> Self:
        """Return the scorer for texts that may be a patient's: no error and no saved answer repeats them."""
        return self

    def keeping_answers(self, folder: Path, *, text: bool = True) -> Self:
        """Return the scorer that saves each answer in a run's folder as it arrives.

        Args:
            folder: folder of the run; answers that it has already are not requested again.
            text: False of credentialed texts: only what was read from an answer is saved.

        Returns:
            A scorer of the same model; this one where the model gives no answers that are saved.
        """
        return self


def checked_scores(
    scorer: Scorer, prompts: Sequence[Prompt], on_progress: Progress = silent
) -> list[Scored]:
    """Score prompts, and refuse a scorer that gives another number of scores.

    Args:
        scorer: reads them.
        prompts: any number of them.
        on_progress: called with the number of further prompts that are done.

    Raises:
        UsageError: It gives more or fewer scores than there are prompts.
    """
    return _check_counts(scorer, prompts, scorer.score(prompts, on_progress))


def checked_labels(
    scorer: Scorer, prompts: Sequence[Prompt], on_progress: Progress = silent
) -> list[Scored]:
    """Score as ``checked_scores``, for those who read labels alone (``answer``).

    Args:
        scorer: reads them.
        prompts: any number of them.
        on_progress: called with the number of further prompts that are done.

    Raises:
        UsageError: It gives more or fewer scores than there are prompts.
    """
    return _check_counts(scorer, prompts, scorer.labelled(prompts, on_progress))


def _check_counts(
    scorer: Scorer, prompts: Sequence[Prompt], returned: Iterable[Scored]
) -> list[Scored]:
    """Return scores as a list; a UsageError where they are not one for each prompt."""
    scored = [*returned]
    if len(scored) != len(prompts):
        raise UsageError(
            f"{scorer.model_id} gave {len(scored):,} scores for {len(prompts):,} prompts. "
            "Have its score method return one for each, in order."
        )
    return scored


class DerivedScorer(Scorer):
    """Another score of a model that a scorer reads; ``settings`` are added to what identifies it."""

    def __init__(self, inner: Any, **settings: Any) -> None:
        self.inner = inner
        self.model_id = inner.model_id
        self.identity = {**inner.identity, **settings}
        self.opaque = inner.opaque

    @property
    def notes(self) -> Mapping[str, str]:
        """Return sentences on the scores so far, by the scorer that reads the model."""
        notes: Mapping[str, str] = self.inner.notes
        return notes

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return what the model gets of each prompt, by the scorer that reads it.

        Args:
            prompts: any number of them.
        """
        inputs: Sequence[Hashable] = self.inner.inputs(prompts)
        return inputs

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        """Say why requests for prompts would exceed a limit, by the scorer that reads the model.

        Args:
            prompts: any number of them.
        """
        return str(self.inner.beyond_limits(prompts))

    def keeping_answers(self, folder: Path, *, text: bool = True) -> Self:
        """Return the scorer of a model whose answers are saved in a run's folder.

        Args:
            folder: folder of the run.
            text: False of credentialed texts.
        """
        return self._changed(inner=self.inner.keeping_answers(folder, text=text))
