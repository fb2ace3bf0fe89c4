"""Scored rows, and scorers in another reading, as in an audit."""

from swapbias.models.auto import kind_of
from swapbias.runs.run import with_scores
from swapbias.studies.catalogue import as_prompts


def read_as(scorer, reading):
    """The scorer in another reading of its kind; a UsageError if there is none."""
    return kind_of(scorer.kind).read_as(scorer, reading)


def score_rows(rows, scorer):
    """The rows with their scores, as ``score_prompts`` adds them."""
    return with_scores(rows, scorer.score(as_prompts(rows)), scorer.model_id)
