"""From scored prompts to the one long table of findings: overall, by subset and by slice; of models and of two."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from swapbias.errors import arguments_named, listed
from swapbias.findings.context import Context
from swapbias.findings.decision import share_of_margin, with_verdicts
from swapbias.findings.families import corrected_for_questions, corrected_for_rows
from swapbias.findings.finding import Finding
from swapbias.findings.gap_findings import (
    factor_findings,
    gap_difference_findings,
    gap_findings,
    spread_findings,
)
from swapbias.findings.judge_findings import judge_findings
from swapbias.findings.marking import (
    add_repeats,
    mark_disagreeing,
    mark_unmeasured,
    with_primary,
)
from swapbias.findings.mean_findings import (
    correlation_findings,
    count_findings,
    level_findings,
    mean_finding,
    rate_findings,
)
from swapbias.findings.scored_rows import (
    UNANSWERED_SCORES,
    one_per_prompt,
    split_rows,
)
from swapbias.findings.sensitivity import with_sensitivity
from swapbias.findings.terms import (
    ALL,
    ALL_GAPS,
)
from swapbias.measures import with_range_of
from swapbias.studies import JUDGED, PLACEBO, Slice, Study, load_study, tables

if TYPE_CHECKING:
    from datasets import Dataset

_ID_COLUMNS = ("experiment", "model_id", "prompt_id", "pair_id", "group")
_ALL = Slice("", "all")


@arguments_named()
def disaggregate(
    scores: "Dataset | pd.DataFrame",
    study: Study | str,
    *,
    seed: int = 0,
    margin: float | None = None,
    expected: Mapping[tuple[str, ...], tables.Published] | None = None,
    robustness: bool = True,
) -> list[Finding]:
    """Every finding of a study from scored prompts: overall, by subset and by slice.

    >>> from swapbias.studies import config_rows
    >>> scores = pd.DataFrame(config_rows("occupation_sentiment", "control")).assign(experiment="control")
    >>> scores = scores.assign(model_id="toy", score=[0.8 if one == "male" else 0.7 for one in scores["group"]])
    >>> first = disaggregate(scores, "occupation_sentiment")[0]
    >>> first.contrast, round(first.estimate.value, 3), first.verdict
    ('female - male', -0.1, 'gap')

    Args:
        scores: rows of ``score_prompts`` (prompt columns, ``model_id`` and at least one score column).
        study: the study or its name.
        expected: numbers to join by ``Finding.key``; the paper's for this model by default.
        seed: of resampled intervals and permutation tests.
        margin: as in ``with_verdicts``.
        robustness: with the sensitivity of primary findings, which takes longer.

    Returns:
        Findings in the order experiment, score, subset, slice; of a gap the statistic of the design comes first, then
        the paper's own. p-values are corrected within each family: the primary ones, and ``corrected``.

    Raises:
        ValueError: no rows of the study, or rows of more than one model.
    """
    chosen = load_study(study) if isinstance(study, str) else study
    frame = scores if isinstance(scores, pd.DataFrame) else scores.to_pandas()
    # Texts of Arrow are compared and grouped in twice the time.
    frame = frame.astype({name: object for name, kind in frame.dtypes.items() if kind == "str"})
    _check_ids(frame, [name for name in _ID_COLUMNS if name in frame])
    models = sorted(set(frame["model_id"]))
    if not models:
        raise ValueError("The scores have no rows. Score some prompts first.")
    if len(models) != 1:
        raise ValueError(
            f"scores of the models {models}, expected rows of exactly one. Audit models separately."
        )
    found: list[Finding] = []
    parts: dict[str, pd.DataFrame] = {}
    chosen = _ranged(chosen, frame)
    for experiment in chosen.experiments:
        every = frame[frame["experiment"] == experiment.name]
        prompts = every[every["group"] != PLACEBO]
        _check_ids(
            prompts,
            [
                name
                for name in experiment.design.random
                if name in prompts and prompts[name].notna().any()
            ],
        )
        parts[experiment.name] = rows = one_per_prompt(experiment, every)
        if len(every):
            context = Context(chosen.name, models[0], experiment, "score", seed)
            found += _all_findings(context, rows, every[every["group"] != PLACEBO])
    if not found:
        others = listed(sorted(set(frame["experiment"])))
        raise ValueError(
            f"no rows of {chosen.name}, only of the experiments {others}. Score its prompts."
        )
    known = tables.published_for(chosen.name, models[0]) if expected is None else expected
    marked = mark_unmeasured(with_primary(found, chosen.experiments), chosen.experiments, parts)
    marked = corrected_for_questions(add_repeats(marked, chosen.experiments, frame))
    if robustness:
        margins = {
            one.name: one.compares.unit.margin(share_of_margin(one, margin))
            for one in chosen.experiments
        }
        marked = [
            one
            for each in marked
            for one in with_sensitivity(
                each,
                chosen,
                parts[each.experiment],
                models[0],
                margins.get(each.experiment, math.nan),
            )
        ]
    many = {one.name for one in chosen.experiments if len(one.compares.groups) > 1}
    marked = mark_disagreeing(corrected_for_rows(marked, chosen.correction, many))
    joined = [
        replace(one, published=known.get(one.key())) if one.score == "score" else one
        for one in marked
    ]
    return with_verdicts(joined, margin=margin)


def _check_ids(rows: pd.DataFrame, columns: Iterable[str]) -> None:
    """Refuse rows without an id: they would be a pair, a group or a cluster of their own."""
    for column in columns:
        lacking = rows[column].isna()
        if lacking.any():
            row = rows.index[lacking][0]
            raise ValueError(
                f"column {column}: row {row} has no value, expected an id in every row. Fill it in."
            )


def _ranged(study: Study, rows: pd.DataFrame) -> Study:
    """The study; of experiments whose unit has no declared range with that from 0 to 1 where all scores lie there."""
    experiments = []
    for one in study.experiments:
        scores = rows.loc[rows["experiment"] == one.name, "score"]
        experiments.append(
            one.in_unit(with_range_of(one.compares.unit, scores.to_numpy(dtype=np.float64)))
        )
    return study.changed(experiments=tuple(experiments))


def _all_findings(context: Context, rows: pd.DataFrame, answers: pd.DataFrame) -> Iterator[Finding]:
    """Of one experiment: of each of its scores, of the judge of its ``answers``, and means of further columns."""
    experiment = context.experiment
    rows = rows[rows["group"] != PLACEBO]
    for score in experiment.shows.scores if len(rows) else ():
        if score in rows:
            unsliced = score in UNANSWERED_SCORES and (rows[score] == 0).all()
            of_score = experiment.changed(shows={"slices": ()}) if unsliced else experiment
            yield from experiment_findings(replace(context, experiment=of_score, score=score), rows)
    yield from judge_findings(replace(context, score=JUDGED), answers)
    for column in experiment.shows.reported if len(rows) else ():
        for group in ("all", *experiment.shows.levels) if column in rows else ():
            chosen = rows if group == "all" else rows[rows["group"] == group]
            if len(chosen):
                yield mean_finding(
                    replace(context, score=column), chosen, group, unit="probability mass"
                )


def experiment_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Of one score: gaps, means, rates, effects and correlations, of every subset and slice."""
    experiment = context.experiment
    texts = ("text", "candidates", "lexicon", "answer", "top_tokens")
    if not experiment.shows.rates:  # most of the time would go into cutting slices out of texts
        rows = rows.drop(columns=[name for name in texts if name in rows])
    for subset, part in split_rows(rows, experiment.compares.subset):
        within = replace(context, subset=subset)
        for one in (_ALL, *experiment.shows.slices):
            for value, sliced in split_rows(part, one.column):
                here = replace(within, slice_by=one.name, slice_value=value)
                if one is not _ALL or not experiment.never_pooled:
                    for gap in here.gaps():
                        yield from gap_findings(gap, sliced)
                    yield from spread_findings(here, sliced, ALL)
                    yield from level_findings(here, sliced)
                yield from rate_findings(here, sliced)
        yield from factor_findings(within, part)
        yield from count_findings(within, part)
        yield from correlation_findings(within, part)
    if experiment.compares.contrast and set(experiment.compares.contrast) <= set(
        rows[experiment.compares.subset]
    ):
        both = rows[rows[experiment.compares.subset].isin(experiment.compares.contrast)]
        context = replace(context, subset=" - ".join(experiment.compares.contrast))
        for gap in context.gaps():
            for one in (_ALL, *experiment.shows.slices):
                for value, part in split_rows(gap.two(both), one.column):
                    if part[experiment.compares.subset].nunique() == 2:
                        yield from gap_difference_findings(
                            replace(gap, slice_by=one.name, slice_value=value), part
                        )
        yield from spread_findings(context, both, ALL_GAPS)


def findings_table(found: Iterable[Finding]) -> pd.DataFrame:
    """Findings as one long table, one row each."""
    return pd.DataFrame([finding.row() for finding in found])
