"""From scored prompts to the one long table of findings: overall, by subset and by slice; of models and of two."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swapbias import measures
from swapbias.errors import arguments_named, listed
from swapbias.findings.families import corrected_for_questions, corrected_for_rows
from swapbias.findings.finding import (
    ALL,
    ALL_GAPS,
    CONTROL,
    CONTROL_UNKNOWN,
    CONTROL_UNMOVED,
    DIFFERENCE,
    EFFECTS,
    NO_CONTROL,
    RARE,
    SAME_INPUT,
    SAME_SCORE,
    SPREAD,
    UNNAMED_FILLS,
    UNREAD_SWAP,
    Context,
    Finding,
    unmeasured,
)
from swapbias.findings.gate import share_of_margin, with_verdicts
from swapbias.findings.predictions import RATES, SIGNED, judgements
from swapbias.findings.repeats import commonest, is_binary
from swapbias.findings.sensitivity import (
    ANSWERS,
    CHANGE,
    OTHER,
    Units,
    bounded_mean,
    by_sentence,
    condition_means,
    crossed,
    gap_units,
    is_constant,
    mean_weights,
    over_prompts,
    pair_gaps,
    pair_ids,
    readable,
    rows_of_two,
    with_sensitivity,
)
from swapbias.measures import MEASURES, Estimate, Unit, with_range_of
from swapbias.models import kind_of
from swapbias.studies import (
    JUDGED,
    PLACEBO,
    Experiment,
    Published,
    Slice,
    Study,
    in_unit,
    load_study,
    published_for,
)

if TYPE_CHECKING:
    from datasets import Dataset

_ID_COLUMNS = ("experiment", "model_id", "prompt_id", "pair_id", "group")
MOST_DETAILED = (
    5  # pairs of models whose differences are given by slice, by subset and as published as well
)
_ALL = Slice("", "all")
_UNANSWERED = (
    "unanswered",
    "refused",
    "said_unsure",
)  # the score columns of prompts that no option answered
_OF_ANSWERS = (
    *_UNANSWERED,
    "length",
)  # score columns that say nothing where no answer could be read


@arguments_named()
def disaggregate(
    scores: "Dataset | pd.DataFrame",
    study: Study | str,
    *,
    seed: int = 0,
    margin: float | None = None,
    expected: Mapping[tuple[str, ...], Published] | None = None,
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
    known = published_for(chosen.name, models[0]) if expected is None else expected
    marked = _unmeasured(with_primary(found, chosen.experiments), chosen.experiments, parts)
    marked = corrected_for_questions(_with_repeats(marked, chosen.experiments, frame))
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
    marked = _disagreeing(corrected_for_rows(marked, chosen.correction, many))
    joined = [
        replace(one, published=known.get(one.key())) if one.score == "score" else one
        for one in marked
    ]
    return with_verdicts(joined, margin=margin)


def _with_repeats(
    found: Sequence[Finding], experiments: Iterable[Experiment], rows: pd.DataFrame
) -> list[Finding]:
    """The findings of scores that were read, each with how many rows have the commonest answer and are unread."""
    units = {experiment.name: experiment.compares.unit for experiment in experiments}
    repeats = {
        name: commonest(part, units[name])
        for name, part in rows.groupby("experiment", sort=False)
        if name in units
    }
    marked = []
    for finding in found:
        repeated = repeats.get(finding.experiment)
        if repeated is not None and finding.score == "score" and not finding.view:
            finding = replace(
                finding, repeated_share=repeated.share, unread_share=repeated.unread_share
            )
        marked.append(finding)
    return marked


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
            in_unit(one, with_range_of(one.compares.unit, scores.to_numpy(dtype=np.float64)))
        )
    return study.changed(experiments=tuple(experiments))


def one_per_prompt(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a prompt; where no prompt was answered there is no share of those answered less either."""
    rows = over_prompts(experiment, rows)
    if ANSWERS in experiment.shows.rates:
        rows = readable(rows)
    if rows["score"].isna().all():
        rows = rows.assign(**{name: math.nan for name in _OF_ANSWERS if name in rows})
    return rows


def _all_findings(context: Context, rows: pd.DataFrame, answers: pd.DataFrame) -> Iterator[Finding]:
    """Of one experiment: of each of its scores, of the judge of its ``answers``, and means of further columns."""
    experiment = context.experiment
    rows = rows[rows["group"] != PLACEBO]
    for score in experiment.shows.scores if len(rows) else ():
        if score in rows:
            unsliced = score in _UNANSWERED and (rows[score] == 0).all()
            of_score = experiment.changed(shows={"slices": ()}) if unsliced else experiment
            yield from experiment_findings(replace(context, experiment=of_score, score=score), rows)
    yield from judgements(replace(context, score=JUDGED), answers)
    for column in experiment.shows.reported if len(rows) else ():
        for group in ("all", *experiment.shows.levels) if column in rows else ():
            chosen = rows if group == "all" else rows[rows["group"] == group]
            if len(chosen):
                yield _mean(replace(context, score=column), chosen, group, unit="probability mass")


def experiment_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Of one score: gaps, means, rates, effects and correlations, of every subset and slice."""
    experiment = context.experiment
    texts = ("text", "candidates", "lexicon", "answer", "top_tokens")
    if not experiment.shows.rates:  # most of the time would go into cutting slices out of texts
        rows = rows.drop(columns=[name for name in texts if name in rows])
    for subset, part in _parts(rows, experiment.compares.subset):
        within = replace(context, subset=subset)
        for one in (_ALL, *experiment.shows.slices):
            for value, sliced in _parts(part, one.column):
                here = replace(within, slice_by=one.name, slice_value=value)
                if one is not _ALL or not experiment.never_pooled:
                    for gap in here.gaps():
                        yield from _gaps(gap, sliced)
                    yield from _all_groups(here, sliced, ALL)
                    yield from _levels(here, sliced)
                yield from _rates(here, sliced)
        yield from _factor_findings(within, part)
        yield from _counts(within, part)
        yield from _correlations(within, part)
    if experiment.compares.contrast and set(experiment.compares.contrast) <= set(
        rows[experiment.compares.subset]
    ):
        both = rows[rows[experiment.compares.subset].isin(experiment.compares.contrast)]
        context = replace(context, subset=" - ".join(experiment.compares.contrast))
        for gap in context.gaps():
            for one in (_ALL, *experiment.shows.slices):
                for value, part in _parts(gap.two(both), one.column):
                    if part[experiment.compares.subset].nunique() == 2:
                        yield from _gap_difference(
                            replace(gap, slice_by=one.name, slice_value=value), part
                        )
        yield from _all_groups(context, both, ALL_GAPS)


def _parts(rows: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    if not column:
        return [("", rows)]
    if column not in rows:  # released outputs may lack a column that own prompts have
        return []
    return [(str(value), part) for value, part in rows.groupby(column, sort=False)]


def _gaps(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """By the inference of the design, then by the paper's own test."""
    experiment = context.experiment
    two = context.two(rows)
    units = gap_units(context, two)
    if units is None:
        return
    estimate = units.measured()
    published = (
        condition_means(experiment, two, context.score) if experiment.design.aggregate else two
    )
    plain_baseline = _baseline(context, published)
    baseline = (
        units.mean_of(experiment.compares.reference)
        if experiment.design.equal_levels
        else plain_baseline
    )
    fields: dict[str, Any] = {**units.fields, **units.distances(), "baseline": baseline}
    if _are_rates(context, two):
        # Of what is no mean rates have no ratio: rare ones do not pass then.
        fields |= (
            _ratio(context, two, estimate.value, baseline)
            if context.comparison.is_mean
            else {"is_rate": True}
        )
    yield _measured(
        context.finding(estimate, experiment.compares.measure, **context.gap_fields, **fields),
        units,
    )
    if ANSWERS not in experiment.shows.rates:
        plain = _as_published(context, published)
        yield context.finding(
            plain,
            experiment.compares.measure,
            view=context.plain_view,
            baseline=plain_baseline,
            **context.gap_fields,
        )


def _measured(finding: Finding, units: Units) -> Finding:
    """The finding; without its value where the units are such that its comparison says nothing."""
    reason = units.why_unmeasured
    return unmeasured(finding, reason) if reason else finding


def _are_rates(context: Context, rows: pd.DataFrame) -> bool:
    """Tell whether scores say how often something happens: by their unit, or because all are 0 or 1."""
    unit = kind_of(context.experiment.kind).unit_of(context.experiment, context.score)
    if unit.is_rate or not unit.in_points:
        return unit.is_rate
    return is_binary(rows[context.score].to_numpy(dtype=np.float64), unit)


def _as_published(context: Context, rows: pd.DataFrame) -> Estimate:
    """The gap by the paper's own test, which treats units as independent; of two models between their gaps."""
    experiment = context.experiment
    comparison = context.comparison
    if OTHER in rows and comparison.is_paired:
        first, second = (
            pair_gaps(replace(context, score=name), rows)["gap"] for name in ("score", OTHER)
        )
        return comparison.published_difference(first.to_numpy(), second.to_numpy())
    return comparison.published(
        rows[context.score].to_numpy(),
        rows["group"].to_numpy(),
        pair_ids(rows),
        reference_group=experiment.compares.reference,
        test=experiment.compares.test,
    )


def _ratio(context: Context, rows: pd.DataFrame, value: float, baseline: float) -> dict[str, Any]:
    """Of rates the ratio of the two groups', and the standard error of its log by the delta method.

    Of rates whose mean lies above .9 the ratio of their complements.
    """
    unit = kind_of(context.experiment.kind).unit_of(context.experiment, context.score)
    start = unit.low
    sign = 1.0
    if baseline + value / 2 - unit.low > (1 - RARE) * unit.span:
        start = unit.high
        sign = -1.0
    of_reference = sign * (baseline - start)
    of_group = sign * (baseline + value - start)
    if not of_reference > 0:
        return {"is_rate": True}
    if not of_group > 0:
        return {"is_rate": True, "ratio": 0.0}
    is_reference = rows["group"] == context.experiment.compares.reference
    own = is_reference.map({True: of_reference, False: of_group})
    counted = sign * (rows[context.score] - start) / own
    units = gap_units(context, rows.assign(**{context.score: counted}))
    log = units.estimate() if units else Estimate(math.nan)
    return {
        "is_rate": True,
        "ratio": of_group / of_reference,
        "ratio_std_error": log.std_error,
        "ratio_df": log.df,
        "ratio_skewness": log.skewness,
    }


def _baseline(context: Context, rows: pd.DataFrame) -> float:
    return float(
        rows.loc[rows["group"] == context.experiment.compares.reference, context.score].mean()
    )


def _gap_difference(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Difference of the pairs' gaps between two subsets: by the inference of the design, then by an independent t."""
    units, (first, second) = (
        gap_units(context, rows),
        context.experiment.compares.contrast or ("", ""),
    )
    if units is None:
        return
    fields: dict[str, Any] = {**context.gap_fields, "within": first, "against": second}
    fields["baseline"] = _baseline(context, rows)
    yield _measured(
        context.finding(units.measured(), "gap_difference", **units.fields, **fields), units
    )
    pairs = pair_gaps(context, rows)
    by_subset = [
        pairs.loc[pairs[context.experiment.compares.subset] == name, "gap"].to_numpy()
        for name in (first, second)
    ]
    estimate = context.comparison.published_difference(*by_subset)
    yield context.finding(estimate, "gap_difference", view=context.plain_view, **fields)


def _levels(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Means over the units that gaps are made of, so that those of two groups differ by their gap."""
    experiment = context.experiment
    if (
        not experiment.compares.measure
        and context.slice_by == "all" != experiment.compares.primary.slice
    ):
        return  # means of questions that may cancel
    rows = by_sentence(experiment, rows, context.score)
    for level in experiment.shows.levels:
        chosen = rows if level == "all" else rows[rows["group"] == level]
        if not len(chosen):
            continue
        mean = _mean(context, chosen, level, weights=mean_weights(context, chosen, context.score))
        yield bounded_mean(context, chosen, mean)
        if level == "all" and not math.isnan(mean.estimate.value):  # beside nothing stands nothing
            yield from _of_others(context, chosen)
        if experiment.design.aggregate and context.slice_by == "all":
            published = measures.mean_score(chosen[context.score].to_numpy())
            yield context.finding(published, "mean", level, view=context.plain_view)


def _mean(
    context: Context, rows: pd.DataFrame, contrast: str, *, weights: Any = None, **more: Any
) -> Finding:
    clusters, over = context.random(rows)
    estimate = measures.mean_score(
        rows[context.score].to_numpy(), cluster_ids=clusters, weights=weights
    )
    return context.finding(estimate, "mean", contrast, cluster_vars=over, **more)


def _of_others(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Somebody else's mean answer to the same questions: a known number, of which nothing is a sample."""
    for one in context.experiment.shows.covariates if context.score == "score" else ():
        questions = rows[one.column].unique() if one.beside else []
        if len(questions) and set(questions) <= set(one.values):
            values = [one.values[name] for name in questions]
            known = Estimate(float(np.mean(values)), n=len(values), test="none")
            yield context.finding(known, "mean", one.name)


def _rates(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    pooled = context.slice_by == "all" and context.experiment.never_pooled
    for name in context.experiment.shows.rates if context.score == "score" else ():
        if not (pooled and name in SIGNED):
            for one in context.gaps() if name in ("flips", "ratios") else [context]:
                yield from RATES[name](one, rows)


def _counts(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """The number of units of each group above a threshold; a threshold of 1 counts those that reach it."""
    experiment = context.experiment
    if not experiment.shows.thresholds or context.score != "score":
        return
    units = condition_means(experiment, rows)
    unit = experiment.design.aggregate[-1] if experiment.design.aggregate else "row"
    for threshold in experiment.shows.thresholds:
        for group in experiment.compared:
            values = units.loc[units["group"] == group, context.score].to_numpy(dtype=float)
            if not len(values):
                continue
            share = measures.share_above(values, threshold=threshold)
            count = share.value if math.isnan(share.value) else float(round(share.value * share.n))
            # No interval: these are all conditions of the study, alike within their categories, and no sample.
            yield context.finding(
                replace(share, value=count, ci_low=math.nan, ci_high=math.nan, interval=""),
                "count_above",
                f"{group} {'=' if threshold >= 1 else '>'} {threshold:g}",
                unit=f"{unit}s",
            )


def _correlations(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    experiment = context.experiment
    for covariate in (one for one in experiment.shows.covariates if not one.beside):
        scored = rows
        what = "score"
        column = context.score
        if covariate.of_gap:
            gap = context.gaps()[0]
            if not gap.whole(rows):
                continue
            scored = pair_gaps(gap, gap.two(rows))
            what = "gap"
            column = "gap"
        means = scored.groupby(covariate.column, sort=False)[column].mean()
        means = means[[str(name) in covariate.values for name in means.index]]
        numbers = [covariate.values[str(name)] for name in means.index]
        label = next(
            (one.name for one in experiment.shows.slices if one.column == covariate.column),
            covariate.column,
        )
        yield context.finding(
            measures.correlation(means.to_numpy(), numbers),
            "correlation",
            f"{what} ~ {covariate.name}",
            slice_by=label,
            cluster_vars=experiment.design.random.get(covariate.column, covariate.column),
        )


def _all_groups(context: Context, rows: pd.DataFrame, contrast: str) -> Iterator[Finding]:
    """Whether any of several groups differs, or with ``ALL_GAPS`` any gap in two subsets; nothing of two groups."""
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    groups = rows["group"].tolist()
    paired = experiment.is_paired
    samples = rows[experiment.compares.subset].tolist() if contrast == ALL_GAPS else None
    if (
        not experiment.compares.measure
        or len(set(groups)) < 3
        or (samples and len(set(samples)) < 2)
    ):
        return
    reference = experiment.compares.reference if experiment.compares.reference in groups else None
    by_gaps = paired and reference and not samples
    if not context.comparison.is_mean and not by_gaps:
        return  # no test of several means
    clusters, over = context.random(rows)
    found = measures.omnibus(
        rows[context.score].to_numpy(),
        groups,
        pair_ids=rows["pair_id"].tolist() if paired else None,
        cluster_ids=clusters,
        sample_ids=samples,
        reference_group=reference,
    )
    estimate = found.estimate
    if by_gaps:  # by the design of each
        each = [
            units.estimate()
            for one in context.gaps()
            if (units := gap_units(one, rows)) is not None
        ]
        estimate = found.with_p_values([gap.p_value for gap in each]).estimate
        if not context.comparison.is_mean:
            estimate = replace(estimate, value=float(np.std([*(gap.value for gap in each), 0.0])))
    yield context.finding(estimate, SPREAD, contrast, cluster_vars=over)


def _factor_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Main effects and interactions of the experiment's factors, where every combination of levels has rows."""
    experiment = context.experiment
    rows = rows[rows["group"].isin(experiment.compared)]
    table = (
        crossed(experiment, rows)
        if experiment.compares.factors and experiment.compares.measure and len(rows)
        else rows[:0]
    )
    if not len(table):
        return
    clusters, over = context.random(rows)
    found = measures.factorial(
        rows[context.score].to_numpy(),
        {factor: rows["group"].map(table[factor]).tolist() for factor in table},
        reference=table.loc[experiment.compares.reference].to_dict(),
        cluster_ids=clusters,
        pair_ids=rows["pair_id"].tolist() if experiment.is_paired else None,
    )
    for term, test in found.terms.items():
        mine = [one for one in found.effects if one.term == term]
        for one in mine:
            levels = (
                [level for pair in one.levels.values() for level in pair]
                if len(one.levels) < 3
                else []
            )
            named = dict(
                zip(("group", "reference_group", "within", "against"), levels, strict=False)
            )
            yield context.finding(
                one.estimate, EFFECTS[len(one.levels) - 1], one.title, cluster_vars=over, **named
            )
        if len(mine) > 1:
            yield context.finding(test.estimate, SPREAD, term, cluster_vars=over)


def with_primary(found: Iterable[Finding], experiments: Iterable[Experiment]) -> list[Finding]:
    """Mark the findings that answer an experiment's question; where all rows are of one subset its gap does."""
    marked = list(found)
    for experiment in experiments:
        name = (experiment.name, "score", "")
        mine = [
            at for at, one in enumerate(marked) if (one.experiment, one.score, one.view) == name
        ]
        subsets = {marked[at].subset for at in mine}
        wanted = [experiment.primary]
        if len(subsets) == 1:
            measure = experiment.compares.primary.measure or experiment.compares.measure
            wanted.append((measure, min(subsets), experiment.compares.primary.slice))
        effects_alone = experiment.compares.factors and not experiment.compares.contrast
        for measure, *place in wanted:
            here = [at for at in mine if [marked[at].subset, marked[at].slice_by] == place]
            if not any(marked[at].measure == measure for at in here):
                continue
            for at in here:
                own = marked[at].measure
                if own in (measure, SPREAD) or (
                    own in EFFECTS and not experiment.compares.contrast
                ):
                    # Of crossed factors the effects are the answer, not the gaps between two intersections.
                    marked[at] = replace(
                        marked[at],
                        primary=not (effects_alone and own == experiment.compares.measure),
                    )
            break
    return marked


def _unmeasured(
    found: Sequence[Finding], experiments: Iterable[Experiment], parts: Mapping[str, pd.DataFrame]
) -> list[Finding]:
    """Mark the findings made of one constant, of all rows or of a slice's value, and those of names not found."""
    constant: set[tuple[str, str]] = set()
    reasons: dict[str, str] = {}
    for experiment in experiments:
        reasons[experiment.name] = _unread_swap(parts[experiment.name]) or _same_inputs(
            parts[experiment.name]
        )
        column = next(
            (
                one.column
                for one in experiment.shows.slices
                if one.name == experiment.compares.primary.slice
            ),
            "",
        )
        sliced = [
            ("", parts[experiment.name]),
            *(_parts(parts[experiment.name], column) if column else ()),
        ]
        constant |= {
            (experiment.name, value) for value, part in sliced if is_constant(experiment, part)
        }

    unnamed = {experiment.name for experiment in experiments if experiment.design.unnamed_fills}

    def reason(finding: Finding) -> str:
        if not (finding.primary or MEASURES[finding.measure].gap_span):
            return ""
        places = {(finding.experiment, ""), (finding.experiment, finding.slice_value)}
        # What lacks its scores is not said to have equal ones.
        if finding.score == "score" and places & constant and finding.estimate.n:
            return SAME_SCORE
        if finding.score == "score" and reasons[finding.experiment]:
            return reasons[finding.experiment]
        return UNNAMED_FILLS if finding.experiment in unnamed else ""

    return [unmeasured(finding, why) if (why := reason(finding)) else finding for finding in found]


def _same_inputs(rows: pd.DataFrame) -> str:
    """Return the reason where no row of a group has a score, because the model reads one input for a pair's texts."""
    compared = rows[rows["group"] != PLACEBO]
    if SAME_INPUT not in rows or compared["score"].notna().any():
        return ""
    return SAME_INPUT if (compared[SAME_INPUT] == 1).any() else ""


def _unread_swap(rows: pd.DataFrame) -> str:
    """Return why equal scores of a black box say nothing, by its positive control; blank where they say something."""
    outcomes = set(rows[CONTROL]) if CONTROL in rows else set()
    if CONTROL_UNMOVED in outcomes:
        return UNREAD_SWAP
    return NO_CONTROL if CONTROL_UNKNOWN in outcomes else ""


def _disagreeing(found: Sequence[Finding]) -> list[Finding]:
    """Primary findings with the other scores of the same construct that give the gap another sign."""
    marked = list(found)
    for place, one in enumerate(found):
        for other in found if one.primary else ():
            same = (other.model_id, *other.key()) == (one.model_id, *one.key()) and not other.view
            if (
                same
                and other.score not in ("score", *_OF_ANSWERS)
                and other.estimate.value * one.estimate.value < 0
            ):
                turned = [
                    *marked[place].influences,
                    ["score", other.score, f"{other.estimate.value:+.3g}"],
                ]
                marked[place] = replace(
                    one, influential_items=json.dumps(turned, ensure_ascii=False)
                )
    return marked


def findings_table(found: Iterable[Finding]) -> pd.DataFrame:
    """Findings as one long table, one row each."""
    return pd.DataFrame([finding.row() for finding in found])


def compare(
    studies: Mapping[str, Mapping[str, pd.DataFrame]],
    *,
    reference: str = "",
    units_read: Mapping[tuple[str, str, str], Unit] | None = None,
) -> list[Finding]:
    """Differences between models in what each study measures, and correlations of their scores.

    A difference is a model minus the reference, as its contrast says (``MODEL - REFERENCE``): the gap of the
    differences of their scores of each prompt, by the inference of the design;
    of a gap of pairs also the independent t test of the papers. Of studies of conditions likewise each group's mean.
    Of the two experiments of an ``agreement``: the correlation over conditions.

    Args:
        studies: scored rows by study and model.
        reference: the model whose value is subtracted from every other's; the first where a study does not have it.
        units_read: units of scores by study, experiment and model, where they may differ from those declared; models
            whose units have other ranges (a raw score, a probability) are not compared.

    Returns:
        Nothing where the models have no experiment in common; of more pairs than ``MOST_DETAILED`` the primary ones.
    """
    found: list[Finding] = []
    for name, models in studies.items():
        study = load_study(name)
        mine = list[Finding]()
        for experiment, parts in _alike(study, models, units_read or {}):
            trials = [set(part["trial"]) for part in parts.values() if "trial" in part]
            shared = set.intersection(*trials) if trials else set()  # that every model answered
            rows = {
                model: one_per_prompt(
                    experiment, part[part["trial"].isin(shared)] if "trial" in part else part
                )
                for model, part in parts.items()
            }
            first = reference if reference in rows else next(iter(rows), "")
            pairs = [(model, first) for model in rows if model != first]
            constant = {
                model
                for model, part in rows.items()
                if is_constant(experiment, part) or _unread_swap(part)
            }
            for pair in pairs:
                context = Context(name, " - ".join(pair), experiment, CHANGE)
                made = _differences(
                    context, rows[pair[0]], rows[pair[1]], brief=len(pairs) > MOST_DETAILED
                )
                mine += [unmeasured(one) for one in made] if constant & {*pair} else made
        found += corrected_for_rows(mine, study.correction, {one.name for one in study.experiments})
        found += _agreement(study, models)
    return with_verdicts(found)


def _alike(
    study: Study,
    models: Mapping[str, pd.DataFrame],
    units_read: Mapping[tuple[str, str, str], Unit],
) -> Iterator[tuple[Experiment, dict[str, pd.DataFrame]]]:
    """Each experiment with the rows of the models that read it, separate for units of another range."""
    experiments = {model: set(part["experiment"].unique()) for model, part in models.items()}
    for one in study.experiments:
        by_range: dict[Any, dict[str, pd.DataFrame]] = {}
        units: dict[Any, Unit] = {}
        for model in (model for model in models if one.name in experiments[model]):
            unit = units_read.get((study.name, one.name, model), one.compares.unit)
            unranged = math.isnan(unit.span)
            key = unit.name if unranged else (unit.low, unit.high)
            same_range = not unranged and (one.compares.unit.low, one.compares.unit.high) == key
            units.setdefault(key, one.compares.unit if same_range else unit)
            rows = models[model]
            chosen = rows["experiment"] == one.name
            # Copies of a hundred models take time.
            by_range.setdefault(key, {})[model] = rows if chosen.all() else rows[chosen]
        yield from ((in_unit(one, units[key]), mine) for key, mine in by_range.items())


def _differences(
    context: Context, first: pd.DataFrame, second: pd.DataFrame, *, brief: bool
) -> list[Finding]:
    """The findings of the differences of two models' scores of each prompt; ``brief``: the primary ones alone."""
    experiment = context.experiment
    both = rows_of_two(first[first["group"] != PLACEBO], second)
    slices = tuple(
        one
        for one in experiment.shows.slices
        if not brief or one.name == experiment.compares.primary.slice
    )
    levels = experiment.shows.levels if experiment.design.aggregate and not brief else ()
    levels = tuple(one for one in levels if one in experiment.compared)
    read = experiment.changed(shows={"slices": slices, "levels": levels, "covariates": ()})
    made = experiment_findings(replace(context, experiment=read), both) if len(both) else ()
    found = []
    for one in with_primary((replace(one, score="score") for one in made), [experiment]):
        gap = MEASURES[one.measure].gap_span and (
            one.slice_by == "all" or one.measure != "gap_difference"
        )
        is_of_pairs = one.measure == experiment.compares.measure and experiment.is_paired
        shown = is_of_pairs if one.view else gap or one.measure == "mean"
        if shown and (one.primary or not brief):
            found.append(
                _of_models(
                    one,
                    several=len(experiment.compares.groups) > 1
                    or one.measure in (*EFFECTS, "mean"),
                )
            )
    return found


def _of_models(finding: Finding, *, several: bool) -> Finding:
    """A finding of differences of scores as the difference of two models."""
    estimate = finding.estimate
    subset = ", ".join(filter(None, (finding.subset, finding.contrast * several)))
    estimate = replace(estimate, effect_size=math.nan)
    if finding.measure == "mean":
        p_value = measures.t_p(estimate.value, estimate.std_error, estimate.df, estimate.skewness)
        estimate = replace(estimate, p_value=p_value, test=estimate.interval)
    same = (
        "study", "experiment", "model_id", "slice_by", "slice_value", "unit", "unit_low", "unit_high", "cluster_vars",
        "fixed", "view", "primary",
    )  # fmt: skip
    fields: dict[str, Any] = {name: getattr(finding, name) for name in same}
    return Finding(
        measure=DIFFERENCE, contrast=finding.model_id, subset=subset, estimate=estimate, **fields
    )


def condition_scores(study: Study, models: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per condition: its group, and a column for each experiment of the agreement: its mean over models.

    Empty where the study declares none, or a kind of model is missing.
    """
    columns = []
    for experiment in (
        one for name in study.agreement for one in study.experiments if one.name == name
    ):
        parts = [part[part["experiment"] == experiment.name] for part in models.values()]
        context = Context(study.name, "", experiment, "score")
        tables = [condition_means(experiment, context.two(part)) for part in parts if len(part)]
        if not tables:
            return pd.DataFrame()
        every = pd.concat(tables)
        means = every["score"].groupby(every["group"] + "/" + every["condition"]).mean()
        columns.append(means.rename(experiment.name))
    joined = pd.concat(columns, axis=1, join="inner") if columns else pd.DataFrame()
    return joined.assign(group=[unit.split("/")[0] for unit in joined.index])


def _agreement(study: Study, models: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    scores = condition_scores(study, models)
    units = {one.name: one.compares.unit.name for one in study.experiments}
    for subset, part in [("", scores), *scores.groupby("group")] if len(scores) else ():
        first, second = (name for name in scores if name != "group")
        for method in ("pearson", "spearman"):
            x, y = (np.asarray(part[name], dtype=np.float64) for name in (first, second))
            yield Finding(
                study=study.name,
                experiment=f"{first} and {second}",
                model_id=" and ".join(models),
                measure="correlation",
                contrast=f"{units[first]} ~ {units[second]} ({method})",
                subset=str(subset),
                unit="correlation",
                cluster_vars="conditions",
                estimate=measures.correlation(x, y, method=method),
            )
