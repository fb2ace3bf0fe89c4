"""From scored prompts to the one long table of findings: overall, by subset and by slice."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swapbias.errors import listed
from swapbias.findings.assigned_words import assigned_word_findings
from swapbias.findings.context import Context
from swapbias.findings.decision import share_of_margin, with_verdicts
from swapbias.findings.families import corrected_for_questions, corrected_for_rows
from swapbias.findings.finding import Finding
from swapbias.findings.gap_findings import (
    FactorRows,
    difference_of_levels_findings,
    factor_findings,
    gap_difference_findings,
    gap_findings,
    omnibus_findings,
)
from swapbias.findings.geometric_means import GEOMETRIC, geometric_findings
from swapbias.findings.judge_findings import by_judge, judge_findings, judges_of_rows
from swapbias.findings.marking import (
    add_repeats,
    mark_disagreeing,
    mark_unmeasured,
    mark_without_control,
    with_primary,
)
from swapbias.findings.mean_findings import (
    correlation_findings,
    count_findings,
    level_findings,
    mean_finding,
    rate_findings,
    slope_findings,
)
from swapbias.findings.predictions import RATES
from swapbias.findings.question_findings import contrasted_rows, in_contrast
from swapbias.findings.scored_rows import UNANSWERED_SCORES, one_per_prompt, split_rows
from swapbias.findings.sensitivity import with_sensitivity
from swapbias.findings.tail_findings import tail_findings
from swapbias.findings.terms import ALL, ALL_GAPS
from swapbias.public_calls import public_call
from swapbias.studies import (
    JUDGED,
    PLACEBO,
    Slice,
    Study,
    load_study,
    paper_models,
    published as paper_numbers,
)

if TYPE_CHECKING:
    from datasets import Dataset

_ID_COLUMNS = ("experiment", "model_id", "prompt_id", "pair_id", "group")
_TEXT_COLUMNS = ("text", "candidates", "lexicon", "answer", "top_tokens")
_ALL = Slice("", "all")
PRIMARY_COLUMNS = [
    "model_id", "study", "experiment", "slice_value", "contrast",
    "value", "ci_low", "ci_high", "n", "verdict",
]  # fmt: skip
"""The columns of a short table of findings."""


@public_call
def disaggregate(
    scores: "Dataset | pd.DataFrame",
    study: Study | str,
    *,
    seed: int = 0,
    margin: float | None = None,
    expected: Mapping[tuple[str, ...], paper_numbers.Published] | None = None,
    robustness: bool = True,
) -> list[Finding]:
    """Find every finding of a study from scored prompts: overall, by subset and by slice.

    >>> from swapbias.studies import config_rows
    >>> scores = pd.DataFrame(config_rows("occupation_sentiment", "control")).assign(experiment="control")
    >>> scores = scores.assign(model_id="toy", score=[0.8 if group == "male" else 0.7 for group in scores["group"]])
    >>> first = disaggregate(scores, "occupation_sentiment")[0]
    >>> first.contrast, round(first.estimate.value, 3), first.verdict
    ('female - male', -0.1, 'gap')

    Args:
        scores: rows of ``score_prompts`` (prompt columns, ``model_id`` and at least one score column).
        study: the study or its name.
        seed: the seed of resampled intervals and permutation tests.
        margin: as in ``with_verdicts``.
        expected: numbers to join by ``Finding.key``; the paper's for this model by default.
        robustness: with the sensitivity of primary findings, which takes longer.

    Returns:
        Findings in the order experiment, score, subset, slice; of a gap the statistic of the design comes first, then
        the paper's own. p-values are corrected within each family: the primary ones, and ``corrected``.

    Raises:
        ValueError: no rows of the study, or rows of more than one model.
    """
    study = load_study(study) if isinstance(study, str) else study
    rows = _as_table(scores)
    model = _only_model(rows)
    study = _with_ranges(study, rows)
    findings: list[Finding] = []
    rows_by_experiment: dict[str, pd.DataFrame] = {}
    for experiment in study.experiments:
        answers = rows[rows["experiment"] == experiment.name]
        prompts = answers[answers["group"] != PLACEBO]
        random_factors = [
            column
            for column in experiment.design.random
            if column in prompts and prompts[column].notna().any()
        ]
        _check_ids(prompts, random_factors)
        rows_by_experiment[experiment.name] = one_per_prompt(experiment, answers)
        if len(answers):
            context = Context(study.name, model, experiment, "score", seed)
            findings += _all_findings(context, rows_by_experiment[experiment.name], prompts)
    if not findings:
        others = listed(sorted(set(rows["experiment"])))
        raise ValueError(
            f"no rows of {study.name}, only of the experiments {others}. Score its prompts."
        )
    findings = with_primary(findings, study.experiments)
    findings = mark_unmeasured(findings, study.experiments, rows_by_experiment)
    findings = corrected_for_questions(add_repeats(findings, study.experiments, rows))
    findings = mark_without_control(findings, study)
    if robustness:
        findings = list(_with_robustness(findings, study, rows_by_experiment, model, margin))
    several_groups = {
        experiment.name for experiment in study.experiments if len(experiment.compares.groups) > 1
    }
    findings = corrected_for_rows(findings, study.correction, several_groups)
    findings = mark_disagreeing(findings)
    published = paper_models.published_for(study.name, model) if expected is None else expected
    return with_verdicts(_with_published(findings, published), margin=margin)


def _as_table(scores: "Dataset | pd.DataFrame") -> pd.DataFrame:
    """Return scores as a table whose ids are all there."""
    rows = scores if isinstance(scores, pd.DataFrame) else scores.to_pandas()
    # Texts of Arrow are compared and grouped in twice the time.
    rows = rows.astype({name: object for name, kind in rows.dtypes.items() if kind == "str"})
    rows = rows.set_axis(rows.columns.astype(object), axis=1)  # and columns are found in less
    _check_ids(rows, [column for column in _ID_COLUMNS if column in rows])
    return rows


def _only_model(rows: pd.DataFrame) -> str:
    """Return the one model that scored the rows; ValueError for none or several."""
    models = sorted(set(rows["model_id"]))
    if not models:
        raise ValueError("The scores have no rows. Score some prompts first.")
    if len(models) != 1:
        raise ValueError(
            f"scores of the models {models}, expected rows of exactly one. Audit models separately."
        )
    model: str = models[0]
    return model


def _check_ids(rows: pd.DataFrame, columns: Iterable[str]) -> None:
    """Refuse rows without an id: they would be a pair, a group or a cluster of their own."""
    for column in columns:
        lacking = rows[column].isna()
        if lacking.any():
            row = rows.index[lacking][0]
            raise ValueError(
                f"column {column}: row {row} has no value, expected an id in every row. Fill it in."
            )


def _with_ranges(study: Study, rows: pd.DataFrame) -> Study:
    """Return the study; units without a declared range have that from 0 to 1 where all scores lie there."""
    experiments = []
    for experiment in study.experiments:
        scores = rows.loc[rows["experiment"] == experiment.name, "score"]
        unit = experiment.compares.unit.with_range_of(scores.to_numpy(dtype=np.float64))
        experiments.append(experiment.in_unit(unit))
    return study.changed(experiments=tuple(experiments))


def _with_robustness(
    findings: Iterable[Finding],
    study: Study,
    rows_by_experiment: Mapping[str, pd.DataFrame],
    model: str,
    margin: float | None,
) -> Iterator[Finding]:
    """Yield the findings, primary ones with their sensitivity."""
    margins = {
        experiment.name: experiment.compares.unit.margin(share_of_margin(experiment, margin))
        for experiment in study.experiments
    }
    for finding in findings:
        rows = rows_by_experiment[finding.experiment]
        own_margin = margins.get(finding.experiment, math.nan)
        yield from with_sensitivity(finding, study, rows, model, own_margin)


def _with_published(
    findings: Iterable[Finding], published: Mapping[tuple[str, ...], paper_numbers.Published]
) -> list[Finding]:
    """Return the findings, those of the published score with the number that is published beside them."""
    return [
        replace(finding, published=published.get(finding.key()))
        if finding.score == "score"
        else finding
        for finding in findings
    ]


def _all_findings(context: Context, rows: pd.DataFrame, answers: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings of one experiment: of each score, of the judge of its answers, and reported means."""
    experiment = context.experiment
    rows = rows[rows["group"] != PLACEBO]
    for score in experiment.shows.scores:
        if not len(rows) or score not in rows:
            continue
        scored = experiment
        if score in UNANSWERED_SCORES and (rows[score] == 0).all():
            scored = experiment.changed(shows={"slices": ()})
        of_score = replace(context, experiment=scored, score=score)
        if score == JUDGED and len(judges_of_rows(rows)) > 1:
            yield from _panel_findings(of_score, rows)
        else:
            yield from experiment_findings(of_score, _rows_with_score(score, rows))
    yield from assigned_word_findings(context, answers)
    yield from judge_findings(replace(context, score=JUDGED), answers)
    for column in experiment.shows.reported:
        if len(rows) and column in rows:
            yield from _reported_findings(replace(context, score=column), rows)


def _rows_with_score(score: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a score is of: a further one, where only some rows have candidates, is of these."""
    if score == "score" or "candidates" not in rows:
        return rows
    has_candidates = rows["candidates"].map(_is_filled)
    return rows[has_candidates] if has_candidates.any() else rows


def _is_filled(candidates: Sequence[Any] | None) -> bool:
    """Tell whether a row has candidates, however its table was stored."""
    return candidates is not None and len(candidates) > 0


def _panel_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings of several judges, who are a random factor; no paper's statistic has one."""
    experiment, rows_by_judge = by_judge(context.experiment, rows)
    for finding in experiment_findings(replace(context, experiment=experiment), rows_by_judge):
        if not finding.view:
            yield finding


def _reported_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the means of a further column: of all rows, and of each group that is shown."""
    for group in ("all", *context.experiment.shows.levels):
        chosen = rows if group == "all" else rows[rows["group"] == group]
        if len(chosen):
            yield mean_finding(context, chosen, group, unit="probability mass")


def experiment_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings of one score: gaps, means, rates, effects and correlations, of every subset and slice.

    Args:
        context: the context of the experiment and its score.
        rows: scored rows of the experiment, without placebo ones.
    """
    rows = _cut_rows(context, rows)
    for subset, part in split_rows(rows, context.experiment.compares.subset):
        yield from _subset_findings(replace(context, subset=subset), part)
    both = contrasted_rows(context, rows)
    if both is not None:
        yield from _contrast_findings(in_contrast(context), both)


def _cut_rows(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows to cut subsets and slices out of."""
    if not RATES.keys() & {*context.experiment.shows.rates}:  # else these read the texts
        rows = rows.drop(columns=[column for column in _TEXT_COLUMNS if column in rows])
    # Slices are cut out of few blocks of columns, not of each column: most of the time would go there.
    return rows.copy()


def _subset_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings of one subset: of all of its rows, and of every value of every slice."""
    experiment = context.experiment
    for cut in (_ALL, *experiment.shows.slices):
        for value, sliced in split_rows(rows, cut.column):
            sliced_context = replace(context, slice_by=cut.name, slice_value=value)
            if cut is not _ALL or not experiment.never_pooled:
                for gap in sliced_context.gaps():
                    yield from gap_findings(gap, sliced)
                    yield from tail_findings(gap, sliced)
                yield from omnibus_findings(sliced_context, sliced, ALL)
                yield from level_findings(sliced_context, sliced)
            yield from rate_findings(sliced_context, sliced)
    factor_rows = FactorRows.of(context, rows)
    if factor_rows is not None:
        yield from factor_findings(context, factor_rows)
    yield from count_findings(context, rows)
    yield from correlation_findings(context, rows)
    yield from slope_findings(context, rows)


def _contrast_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield the differences of gaps between the two subsets that an experiment sets against each other."""
    for gap in context.gaps():
        for cut in (_ALL, *context.experiment.shows.slices):
            yield from _contrast_of_gap(gap, rows, cut)
    yield from difference_of_levels_findings(context, rows)
    yield from omnibus_findings(context, rows, ALL_GAPS)


def _contrast_of_gap(gap: Context, rows: pd.DataFrame, cut: Slice) -> Iterator[Finding]:
    """Yield the differences of one gap between two subsets, for every value of a slice."""
    experiment = gap.experiment
    for value, sliced in split_rows(gap.compared_rows(rows), cut.column):
        if sliced[experiment.compares.subset].nunique() != 2:
            continue
        sliced_gap = replace(gap, slice_by=cut.name, slice_value=value)
        yield from gap_difference_findings(sliced_gap, sliced)
        if GEOMETRIC in experiment.shows.rates and gap.score == "score":
            yield from geometric_findings(sliced_gap, sliced)


def findings_table(findings: Iterable[Finding], *, short: bool = False) -> pd.DataFrame:
    """Return findings as one long table, one row each.

    Args:
        findings: the findings of any studies and models.
        short: with the columns read most instead of all.
    """
    table = pd.DataFrame([finding.row() for finding in findings])
    return table.reindex(columns=PRIMARY_COLUMNS) if short else table
