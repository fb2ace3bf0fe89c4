"""Findings that answer an experiment's question, of many scores of the same rows at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from swapbias.findings.context import Context
from swapbias.findings.finding import Finding
from swapbias.findings.gap_findings import (
    FactorRows,
    difference_of_levels_findings,
    factor_findings,
    gap_answer,
)
from swapbias.findings.marking import answers_by_effects
from swapbias.findings.scored_rows import split_rows
from swapbias.findings.unit_rows import ComparedRows

ByContext = Sequence[list[Finding]]
"""The findings of each context."""


def question_findings(
    contexts: Sequence[Context], rows: pd.DataFrame, scores: Mapping[str, tuple[str, str]]
) -> ByContext:
    """Find all gaps and effects that answer the experiment's question, with nothing beside value and inference.

    It takes less time than ``experiment_findings`` of each.

    Args:
        contexts: contexts of one experiment, which differ by score and model.
        rows: scored rows of the experiment, without placebo ones, with the columns of all scores.
        scores: by score column the two whose difference it is, of which the papers' test is found as well; empty: it
            is not found.

    Returns:
        The findings of each context.
    """
    by_context: ByContext = [[] for _ in contexts]
    first = contexts[0]
    subset = first.experiment.compares.subset
    both = contrasted_rows(first, rows)
    if both is not None:
        for gap in in_contrast(first).gaps():
            if gap.compared_rows(both)[subset].nunique() == 2:
                _add_gaps(by_context, _alike(gap, contexts), both, "gap_difference", {})
        for findings, context in zip(by_context, contexts, strict=True):
            findings += difference_of_levels_findings(in_contrast(context), both)
        if any(by_context):
            return by_context
    for value, part in split_rows(rows, subset):
        _add_subset(
            by_context, [replace(context, subset=value) for context in contexts], part, scores
        )
    return by_context


def _add_subset(
    by_context: ByContext,
    contexts: Sequence[Context],
    rows: pd.DataFrame,
    scores: Mapping[str, tuple[str, str]],
) -> None:
    """Add the gaps of one subset and of every value of its slices, and the effects of factors."""
    experiment = contexts[0].experiment
    if not answers_by_effects(experiment):
        for gap, part in _sliced_gaps(contexts[0], rows):
            _add_gaps(by_context, _alike(gap, contexts), part, experiment.compares.measure, scores)
    factor_rows = FactorRows.of(contexts[0], rows)
    if factor_rows is not None:
        for findings, context in zip(by_context, contexts, strict=True):
            findings += factor_findings(context, factor_rows)


def _sliced_gaps(context: Context, rows: pd.DataFrame) -> Iterator[tuple[Context, pd.DataFrame]]:
    """Yield the context of each gap over all rows and over those of every value of a slice, with these rows."""
    experiment = context.experiment
    if not experiment.never_pooled:
        yield from ((gap, rows) for gap in context.gaps())
    for cut in experiment.shows.slices:
        for value, part in split_rows(rows, cut.column):
            sliced = replace(context, slice_by=cut.name, slice_value=value)
            yield from ((gap, part) for gap in sliced.gaps())


def _alike(gap: Context, contexts: Sequence[Context]) -> list[Context]:
    """Return the context of a gap for the score and model of each context."""
    return [replace(gap, model_id=context.model_id, score=context.score) for context in contexts]


def _add_gaps(
    by_context: ByContext,
    contexts: Sequence[Context],
    rows: pd.DataFrame,
    measure: str,
    scores: Mapping[str, tuple[str, str]],
) -> None:
    """Add the gap of each context, and that by the paper's own test."""
    compared = ComparedRows.of(contexts[0], rows)
    if compared is None:
        return
    for findings, context in zip(by_context, contexts, strict=True):
        findings.append(gap_answer(context, compared, measure))
        if context.score in scores:
            gaps = [compared.gaps(context, score) for score in scores[context.score]]
            estimate = context.comparison.difference_by_papers_test(*gaps)
            fields = context.gap_fields
            findings.append(context.finding(estimate, measure, view=context.plain_view, **fields))


def in_contrast(context: Context) -> Context:
    """Return the context of the difference of two subsets.

    Args:
        context: the context of an experiment that sets two subsets against each other.
    """
    return replace(context, subset=" - ".join(context.experiment.compares.contrast or ()))


def contrasted_rows(context: Context, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Return the rows of the two subsets that the experiment sets against each other; None without rows of each.

    Args:
        context: the context of the experiment.
        rows: scored rows of it.
    """
    compares = context.experiment.compares
    if not compares.contrast or not set(compares.contrast) <= set(rows[compares.subset]):
        return None
    return rows[rows[compares.subset].isin(compares.contrast)]
