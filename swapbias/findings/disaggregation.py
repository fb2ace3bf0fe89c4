"""From scored prompts to the one long table of findings: overall, by subset and by slice."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import measures
from swapbias.findings.finding import (
    APART,
    AS_PUBLISHED,
    DIFFERENCE,
    EFFECTS,
    FOUND,
    JUDGED,
    LEVEL,
    NONE,
    RARE,
    RATIO_MARGIN,
    SMALL,
    SPREAD,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    UNSTABLE,
    Context,
    Finding,
    experiment_of,
    further_toward,
    looks_of,
    unmeasured,
)
from swapbias.findings.groups import (
    difference_findings,
    factor_findings,
    group_findings,
    with_intersections,
)
from swapbias.findings.judgements import judgements
from swapbias.findings.predictions import ANSWERS, RATES, SIGNED, bias, readable, sentence_pairs
from swapbias.findings.robustness import (
    HOLDS,
    LOST,
    REPEATS,
    asked,
    beyond_wording,
    bounded_mean,
    condition_means,
    distinct,
    headline_units,
    nonanswer_gap,
    over_prompts,
    pair_gaps,
    robust,
    row_shares,
    with_bounds,
)
from swapbias.measures import (
    MEASURES,
    Design,
    Estimate,
    adjust,
    detectable_gap,
    equal_units_needed,
    margin_in,
    sequential_adjust,
)
from swapbias.models import unit_of
from swapbias.studies import PLACEBO, Experiment, Published, Rows, Slice, Study, load_study, published_for

if TYPE_CHECKING:
    from datasets import Dataset

_ALL = Slice("", "all")
UNANSWERED = ("unanswered", "refused", "said_unsure")  # the score columns of prompts that no option answered
_OF_ANSWERS = (*UNANSWERED, "length")  # score columns that say nothing where no answer could be read
FEWEST = 4  # levels of a random factor on a side: fewer say nothing of others
_CONSTANT = 1e-6  # of the largest score: scores that differ by less are one number in float32
_OF_RIGHT_ANSWERS = ("share of prompts whose right answer is likelier", "correct answer is likelier")
MARGIN = 0.05  # of the range of a unit: a gap below it counts as none, where nothing else is asked for


def experiment_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    experiment = context.experiment
    rows = _read_columns(context, rows)
    for subset, part in _parts(rows, experiment.subset):
        for one in (_ALL, *experiment.slices):
            for value, repeated in _parts(part, one.column):
                sliced = distinct(experiment, repeated)
                where = {"slice_by": one.name, "slice_value": value}
                if one is _ALL and experiment.never_pooled:
                    yield from _rates(context, sliced, subset, where)
                    continue
                for gap in context.gaps():
                    yield from _gaps(gap, sliced, subset, where)
                yield from group_findings(context, sliced, subset, where)
                yield from _levels(context, sliced, subset, where)
                yield from _rates(context, sliced, subset, where)
        part = distinct(experiment, part)
        yield from factor_findings(context, part, subset, {"slice_by": "all", "slice_value": ""})
        yield from _counts(context, part, subset)
        yield from _correlations(context, part, subset)
    if experiment.contrast and set(experiment.contrast) <= set(rows[experiment.subset]):
        for gap in context.gaps():
            yield from _contrasts(gap, rows)
        yield from difference_findings(context, distinct(experiment, rows), {"slice_by": "all", "slice_value": ""})


def _read_columns(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that are read here: most of the time goes into cutting slices out of the others, as the texts."""
    experiment = context.experiment
    if experiment.rates:  # these read columns of their own
        return rows
    columns = {"group", "label", "pair_id", context.score, experiment.subset, *experiment.random}
    columns |= {*experiment.aggregate, *experiment.factors, *(one.column for one in experiment.slices)}
    columns |= {LOST, REPEATS, *(one.column for one in experiment.covariates)}
    return rows[[name for name in rows if name in columns]]


def _rates(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    pooled = where["slice_by"] == "all" and context.experiment.never_pooled
    for name in context.experiment.rates if context.score == "score" else ():
        if pooled and name in SIGNED:
            continue
        for one in context.gaps() if name in ("flips", "ratios") else [context]:
            yield from RATES[name](one, rows, subset, where)


def _correlations(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    experiment = context.experiment
    for covariate in (one for one in experiment.covariates if not one.beside):
        scored, what = rows, "score"
        if covariate.of_gap:
            one, what = context.gaps()[0], "gap"
            pairs = rows[rows["group"].isin(list(one.sides))]
            if pairs["group"].nunique() < len(one.sides):
                continue
            scored = pair_gaps(one, pairs).assign(**{context.score: lambda made: made["gap"]})
        means = scored.groupby(covariate.column, sort=False)[context.score].mean()
        means = means[[str(name) in covariate.values for name in means.index]]
        numbers = [covariate.values[str(name)] for name in means.index]
        label = next((one.name for one in experiment.slices if one.column == covariate.column), covariate.column)
        yield context.finding(
            measures.correlation(means.to_numpy(), numbers),
            "correlation",
            f"{what} ~ {covariate.name}",
            subset,
            slice_by=label,
            inference=f"over {experiment.random.get(covariate.column, covariate.column)}",
            direction=f"above zero the {what} rises with {covariate.name}",
        )


def _parts(rows: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    if not column:
        return [("", rows)]
    if column not in rows:  # released outputs may lack a column that own prompts have
        return []
    return [(str(value), part) for value, part in rows.groupby(column, sort=False)]


def _gaps(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """By the inference of the design, then by the paper's own test."""
    experiment = context.experiment
    two = rows[rows["group"].isin([experiment.group, experiment.reference_group])]
    if not experiment.measure or two["group"].nunique() < 2:
        return
    clusters, over = context.random(two)
    if ANSWERS in experiment.rates:
        yield context.finding(
            bias(context, two), experiment.measure, subset=subset, **context.apart,
            direction=experiment.direction, inference=over, baseline=_baseline(context, two), **where,
        )  # fmt: skip
        return
    gap: Callable[..., Estimate] = measures.group_gap
    arguments: list[Any] = []
    designed: dict[str, Any] = {"cluster_ids": clusters, "test": "t"}
    published = two
    if experiment.aggregate:
        published = condition_means(experiment, two, context.score)
        designed["weights"] = row_shares(experiment, two, context.score)
    if experiment.measure == "paired_gap":
        gap, arguments = measures.paired_gap, [two["pair_id"].to_numpy()]
    baseline = _baseline(context, published)
    for view, part, options in (("", two, designed), (AS_PUBLISHED, published, {"test": experiment.test})):
        options |= {"reference_group": experiment.reference_group}
        columns = [part[context.score].to_numpy(), part["group"].to_numpy(), *arguments]
        estimate = gap(*columns, **options)
        alike = math.isnan(estimate.error) and not math.isfinite(estimate.effect_size_z)
        if not view and gap is measures.paired_gap and alike and estimate.value:
            # All pairs differ alike, so that a t test has no spread to go by: that of signs needs none.
            signs = gap(*columns, **{**options, "test": "sign"})
            estimate = replace(estimate, p_value=signs.p_value, test=signs.test)
        ratio = {} if view else _ratio(context, part, gap, [*columns[1:]], options, estimate.value, baseline)
        yield context.finding(
            estimate, experiment.measure, subset=subset, **context.apart,
            direction=experiment.direction, inference=view or over, view=view, baseline=baseline, **where, **ratio,
        )  # fmt: skip


def _ratio(
    context: Context,
    rows: pd.DataFrame,
    gap: Callable[..., Estimate],
    columns: Sequence[Any],
    options: Mapping[str, Any],
    value: float,
    baseline: float,
) -> dict[str, Any]:
    """Of rates the ratio of the two groups', and the standard error of its log by the delta method."""
    if unit_of(context.experiment, context.score) not in measures.RATE_UNITS or not baseline > 0:
        return {}
    means = {True: baseline, False: baseline + value}
    if not means[False] > 0:
        return {"ratio": 0.0}
    own = (rows["group"] == context.experiment.reference_group).map(means).to_numpy()
    log = gap(rows[context.score].to_numpy() / own, *columns, **options)
    return {
        "ratio": means[False] / baseline, "ratio_error": log.error, "ratio_freedom": log.freedom,
        "ratio_skewness": log.skewness,
    }  # fmt: skip


def _baseline(context: Context, rows: pd.DataFrame) -> float:
    return float(rows.loc[rows["group"] == context.experiment.reference_group, context.score].mean())


def _counts(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    """How many units of each group lie above a threshold; a threshold of 1 counts those that reach it."""
    experiment = context.experiment
    counted = experiment.thresholds and context.score == "score"
    units = condition_means(experiment, rows) if counted else rows.iloc[:0]
    unit = experiment.aggregate[-1] if experiment.aggregate else "row"
    for threshold in experiment.thresholds:
        for group in experiment.compared:
            values = units.loc[units["group"] == group, context.score].to_numpy(dtype=float)
            if not len(values):
                continue
            share = measures.share_above(values, threshold=threshold)
            count = share.value if math.isnan(share.value) else float(round(share.value * share.n))
            # No interval: these are all conditions of the study, alike within their categories, and no sample.
            estimate = replace(share, value=count, ci_low=math.nan, ci_high=math.nan, interval="")
            sign = "=" if threshold >= 1 else ">"
            yield context.finding(
                estimate,
                "count_above",
                f"{group} {sign} {threshold:g}",
                subset,
                inference=f"these {experiment.random.get(unit, 'rows')} only",
                unit=f"{unit}s",
            )


def _levels(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """Means over the units that gaps are made of, so that those of two groups differ by their gap."""
    experiment = context.experiment
    if not experiment.measure and where["slice_by"] == "all" != experiment.headline_slice:
        return  # means of questions that may cancel
    if ANSWERS in experiment.rates and rows["group"].nunique() == 2:
        sides = sentence_pairs(rows, experiment.reference_group)
        facts = rows.drop_duplicates("template").set_index("template").loc[sides.index]
        facts = facts[[name for name in experiment.random if name in facts]]
        rows = pd.concat([facts.assign(**{"group": side, context.score: sides[side]}) for side in sides])
    for level in experiment.levels:
        chosen = rows if level == "all" else rows[rows["group"] == level]
        if len(chosen):
            clusters, over = context.random(chosen)
            scores, weights = chosen[context.score].to_numpy(), None
            if experiment.aggregate:
                weights = row_shares(experiment, chosen.assign(group=""), context.score)
            values = measures.mean_score(scores, cluster_ids=clusters, weights=weights)
            mean = context.finding(values, "mean", level, subset, inference=over, **where)
            yield bounded_mean(context, chosen, mean)
            if level == "all" and not math.isnan(values.value):  # beside nothing stands nothing
                yield from _of_others(context, chosen, subset, where)
            if experiment.aggregate and where["slice_by"] == "all":
                yield context.finding(
                    measures.mean_score(scores), "mean", level, subset, inference=AS_PUBLISHED, view=AS_PUBLISHED,
                    **where,
                )  # fmt: skip


def _of_others(context: Context, rows: pd.DataFrame, subset: str, where: Mapping[str, str]) -> Iterator[Finding]:
    """What somebody else answers to the same questions: a known number, of which nothing is a sample."""
    for one in context.experiment.covariates if context.score == "score" else ():
        asked = rows[one.column].unique() if one.beside else []
        if len(asked) and set(asked) <= set(one.values):
            known = Estimate(float(np.mean([one.values[name] for name in asked])), n=len(asked), test="none")
            yield context.finding(known, "mean", one.name, subset, inference="these questions only", **where)


def reported_means(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    rows = distinct(context.experiment, rows)
    for group in ("all", *context.experiment.levels):
        chosen = rows if group == "all" else rows[rows["group"] == group]
        if len(chosen):
            clusters, over = context.random(chosen)
            estimate = measures.mean_score(chosen[context.score].to_numpy(), cluster_ids=clusters)
            yield context.finding(estimate, "mean", group, "", unit="probability mass", inference=over)


def _contrasts(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Difference of the pairs' gaps between two subsets, over all rows and by the slices both share."""
    experiment = context.experiment
    first, second = experiment.contrast or ("", "")
    both = rows[rows[experiment.subset].isin([first, second])]
    two = both[both["group"].isin([experiment.group, experiment.reference_group])]
    for one in (_ALL, *experiment.slices):
        for value, repeated in _parts(two, one.column):
            if repeated[experiment.subset].nunique() < 2:
                continue
            part = distinct(experiment, repeated)
            pairs = pair_gaps(context, part)
            clusters, over = context.random(pairs)
            baseline = _baseline(context, part)
            for view, options in (("", {"cluster_ids": clusters}), (AS_PUBLISHED, {"test": "t"})):
                estimate = measures.group_gap(
                    pairs["gap"].to_numpy(), pairs[experiment.subset].tolist(), reference_group=second, **options
                )
                yield context.finding(
                    estimate,
                    "gap_difference",
                    subset=f"{first} - {second}",
                    within=first,
                    against=second,
                    **context.apart,
                    slice_by=one.name,
                    slice_value=value,
                    direction=further_toward(experiment.group, experiment.reference_group, first, second),
                    inference=view or over,
                    view=view,
                    baseline=baseline,
                )


def planned_error(experiment: Experiment, rows: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Standard error and degrees of freedom that the headline gap of planned rows can be expected to have.

    By the design's inference, from the experiment's ``spreads``.

    Args:
        experiment: what will be asked.
        rows: its prompts; scores are not read.

    Returns:
        NaN, NaN where the spreads are not known or the rows allow no interval.
    """
    sides, clusters = planned_units(experiment, rows)
    spreads = {experiment.random.get(column, column): spread for column, spread in experiment.spreads.items()}
    if not len(sides) or not clusters:
        return math.nan, math.nan
    return Design.of_means(sides, clusters).expected(spreads)


def planned_gap(study: Study, experiment: Experiment, rows: Iterable[Mapping[str, Any]]) -> float:
    """The smallest gap that an audit of these rows finds in four of five times; NaN where that is not known.

    Over all primary questions of the study at once, as the verdict. An estimated error has a larger critical value:
    the larger by .8 of its variance's share, the fewer its degrees of freedom.
    """
    error, freedom = planned_error(experiment, rows)
    questions = max(1, sum(_declared(study, experiment).values()))
    return detectable_gap(error * (1 + 0.8 / freedom), freedom, level=LEVEL / questions)


def planned_units(
    experiment: Experiment, rows: Iterable[Mapping[str, Any]]
) -> tuple[NDArray[np.intp], dict[str, NDArray[np.intp]]]:
    """Of each pair, sentence or condition of the headline whether it is subtracted (1, else 0), and its clusters."""
    table, context = _planned(rows).assign(score=0.0), Context("", "", experiment, "score")
    if experiment.headline_subset in set(table.get(experiment.subset, ())):
        table = table[table[experiment.subset] == experiment.headline_subset]
    table = distinct(experiment, over_prompts(experiment, table))
    if experiment.aggregate:  # spreads are those of conditions
        table = condition_means(experiment, table)
    units = headline_units(context, table)
    if units is None:
        return np.empty(0, dtype=np.intp), {}
    clusters, _ = context.random(units.rows)
    sides = units.rows["sample"].to_numpy(dtype=np.intp)
    return sides, {name: np.asarray(codes) for name, codes in clusters.items()}


def _planned(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    return rows.table.to_pandas() if isinstance(rows, Rows) else pd.DataFrame(list(rows))


def repeated_pairs(experiment: Experiment, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """How many pairs repeat the texts of another pair, and how many there are."""
    pairs = over_prompts(experiment, _planned(rows).assign(score=0.0))
    pairs = (
        pairs[pairs["group"].isin(experiment.compared)].drop_duplicates("pair_id") if REPEATS in pairs else pairs[:0]
    )
    return int((pairs["pair_id"] != pairs[REPEATS]).sum()) if len(pairs) else 0, len(pairs)


def disaggregate(
    scores: "Dataset | pd.DataFrame",
    study: Study | str,
    *,
    expected: Mapping[tuple[str, ...], Published] | None = None,
    seed: int = 0,
    margin: float | None = None,
    robustness: bool = True,
) -> list[Finding]:
    """Every finding of a study from scored prompts: overall, by subset and by slice.

    >>> from swapbias.studies import config_rows
    >>> scores = pd.DataFrame(config_rows("occupation_sentiment", "control")).assign(experiment="control")
    >>> scores = scores.assign(model_id="toy", score=[0.8 if one == "male" else 0.7 for one in scores["group"]])
    >>> first = disaggregate(scores, "occupation_sentiment")[0]
    >>> first.contrast, round(first.estimate.value, 3), first.verdict
    ('female - male', -0.1, 'gap found')

    Args:
        scores: rows of ``score_prompts`` (prompt columns, ``model_id`` and at least one score column).
        study: the study or its name.
        expected: numbers to join by ``Finding.key``; the paper's for this model by default.
        seed: of resampled intervals and permutation tests.
        margin: as in ``judged``.
        robustness: tell how headlines hold up as well, which takes longer: without each item, in other wordings, at
            the worst of what was not answered.

    Returns:
        Findings in the order experiment, score, subset, slice; of a gap the statistic of the design comes first, then
        the paper's own. p-values are corrected within each family: the headlines, and what has the same experiment,
        score, measure, contrast, slice and kind of inference.

    Raises:
        ValueError: no rows of the study, or rows of more than one model.
    """
    chosen = load_study(study) if isinstance(study, str) else study
    frame = scores if isinstance(scores, pd.DataFrame) else scores.to_pandas()
    models = sorted(set(frame["model_id"]))
    if len(models) != 1:
        raise ValueError(f"scores of the models {models}, expected rows of exactly one. Audit models apart.")
    found: list[Finding] = []
    parts = {one.name: _answered(one, frame[frame["experiment"] == one.name]) for one in chosen.experiments}
    for experiment in chosen.experiments:
        rows = parts[experiment.name]
        rows = rows[rows["group"] != PLACEBO]
        for score in experiment.scores:
            if len(rows) and score in rows:
                told = experiment
                if score in UNANSWERED and (rows[score] == 0).all():  # nor in any slice
                    told = replace(experiment, slices=())
                found += experiment_findings(_context(chosen, models[0], told, score, seed, rows), rows)
        every = frame[(frame["experiment"] == experiment.name) & (frame["group"] != PLACEBO)]
        found += judgements(_context(chosen, models[0], experiment, JUDGED, seed, every), every)
        for column in experiment.reported:
            if column in rows and len(rows):
                found += reported_means(_context(chosen, models[0], experiment, column, seed, rows), rows)
    if not found:
        raise ValueError(f"no rows of {chosen.name}: experiments {sorted(set(frame['experiment']))}.")
    known = published_for(chosen.name, models[0]) if expected is None else expected
    marked = over_questions(_unmeasured(_with_headlines(found, chosen.experiments), chosen.experiments, parts))
    if robustness:
        marked = [one for each in marked for one in _held_up(each, chosen, parts, models[0], seed)]
    many = {one.name for one in chosen.experiments if one.groups}
    marked = _disagreeing(corrected(marked, chosen.correction, many))
    return with_intersections(judged([_joined(finding, known) for finding in marked], margin=margin))


def _context(study: Study, model: str, experiment: Experiment, score: str, seed: int, rows: pd.DataFrame) -> Context:
    return Context(study.name, model, experiment, score, seed, looks=looks_of(rows))


def _answered(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a prompt; where nothing was answered at all, nothing is said of who was answered less either."""
    rows = over_prompts(experiment, rows)
    if ANSWERS in experiment.rates:
        rows = readable(rows)
    if rows["score"].isna().all():
        rows = rows.assign(**{name: math.nan for name in _OF_ANSWERS if name in rows})
    return rows


def _joined(finding: Finding, known: Mapping[tuple[str, ...], Published]) -> Finding:
    return finding if finding.score != "score" else replace(finding, published=known.get(finding.key()))


# --- headlines and families ---------------------------------------------------------------------------


def _with_headlines(found: list[Finding], experiments: Iterable[Experiment]) -> list[Finding]:
    """Say of the findings that answer an experiment's question that they do.

    Where the rows are of one subset alone (one set of conditions, a classifier as it was trained), its gap does.
    """
    marked = list(found)
    for experiment in experiments:
        mine = [
            (place, one)
            for place, one in enumerate(found)
            if (one.experiment, one.score) == (experiment.name, "score") and one.view == ""
        ]
        subsets = {one.subset for _, one in mine}
        alone = (
            experiment.headline_measure or experiment.measure,
            min(subsets, default=""),
            experiment.headline_slice,
        )
        for wanted in (experiment.headline, *([alone] if len(subsets) == 1 else [])):
            places = [place for place, one in mine if (one.measure, one.subset, one.slice_by) == wanted]
            places += [place for place, one in mine if places and _beside(one, experiment, wanted)]
            for place in places:
                marked[place] = replace(found[place], headline=not _of_cells(found[place], experiment))
            if places:
                break
    return marked


def _beside(finding: Finding, experiment: Experiment, wanted: tuple[str, str, str]) -> bool:
    """Whether a finding answers the question of several groups beside their contrasts."""
    headlined = finding.measure == SPREAD or (finding.measure in EFFECTS and not experiment.contrast)
    return headlined and (finding.subset, finding.slice_by) == wanted[1:]


def _of_cells(finding: Finding, experiment: Experiment) -> bool:
    """Whether it is a gap between two intersections: of crossed factors the effects are the answer."""
    return bool(experiment.factors) and not experiment.contrast and finding.measure == experiment.measure


def _unmeasured(
    found: Sequence[Finding], experiments: Iterable[Experiment], parts: Mapping[str, pd.DataFrame]
) -> list[Finding]:
    """The findings with the verdict of those that are made of one constant.

    Where an experiment's answer is one for each value of a slice, each value has scores of its own.
    """
    constant: set[tuple[str, str]] = set()
    for experiment in experiments:
        rows = parts[experiment.name]
        column = next((one.column for one in experiment.slices if one.name == experiment.headline_slice), "")
        sliced = _parts(rows, column) if column else []
        constant |= {
            (experiment.name, value) for value, part in [("", rows), *sliced] if is_constant(experiment, part)
        }
    return [
        unmeasured(one)
        if one.score == "score"
        and (one.headline or MEASURES[one.measure].reach)
        and {(one.experiment, ""), (one.experiment, one.slice_value)} & constant
        else one
        for one in found
    ]


def is_constant(experiment: Experiment, rows: pd.DataFrame) -> bool:
    """Whether a model scores every prompt the same, so that its scores say nothing of any group.

    Right answers differ by prompt, so that a model that is always right is no constant one.
    """
    scores = rows.loc[rows["group"] != PLACEBO, "score"].dropna().to_numpy(dtype=np.float64)
    if not len(scores) or ANSWERS in experiment.rates or experiment.unit in _OF_RIGHT_ANSWERS:
        return False
    return bool(np.ptp(scores) <= _CONSTANT * np.abs(scores).max())


def _held_up(
    finding: Finding, study: Study, parts: Mapping[str, pd.DataFrame], model: str, seed: int
) -> Iterator[Finding]:
    """A headline with what it hinges on, its bounds and findings about other wordings; any other as it is."""
    if not finding.headline or not MEASURES[finding.measure].reach:
        yield finding
        return
    context, rows = headline_rows(finding, study, parts[finding.experiment], model, seed)
    answered = rows[rows["group"] != PLACEBO]
    constant = finding.verdict == UNMEASURED
    others = [
        *(() if constant else beyond_wording(context, rows, finding)),
        *nonanswer_gap(context, answered, finding),
    ]
    kept = next((one.estimate.value for one in others if one.measure == "sign_kept"), math.nan)
    units = None if constant else headline_units(context, answered)
    held = finding if units is None else robust(context, answered, finding, units)
    yield replace(with_bounds(context, answered, held), signs_kept=kept)
    yield from others


def headline_rows(
    finding: Finding, study: Study, rows: pd.DataFrame, model: str, seed: int = 0
) -> tuple[Context, pd.DataFrame]:
    """The rows of an experiment that a headline is made of, and the context in which its units are made of them."""
    experiment = next(one for one in study.experiments if one.name == finding.experiment)
    return asked(_context(study, model, experiment, "score", seed, rows), finding, rows)


def _disagreeing(found: Sequence[Finding]) -> list[Finding]:
    """Headlines with the other scores of the same construct that give the gap another sign, said beside."""
    told = list(found)
    for place, one in enumerate(found):
        if one.headline:
            quantity = (one.model_id, *one.key())
            for other in found:
                same = (
                    (other.model_id, *other.key()) == quantity
                    and other.score not in ("score", *_OF_ANSWERS)
                    and not other.view
                )
                if same and other.estimate.value * one.estimate.value < 0:
                    turned = [*told[place].influences, ["score", other.score, f"{other.estimate.value:+.3g}"]]
                    told[place] = replace(one, hinges_on=json.dumps(turned, ensure_ascii=False))
    return told


def corrected(found: Sequence[Finding], method: str, many: Collection[str]) -> list[Finding]:
    """p-values of slices and views within their families; those of headlines are a family of their own.

    The contrasts of an experiment with ``many`` groups are of one family.
    """
    families: dict[tuple[str, ...], list[int]] = {}
    for index, one in enumerate(found):
        if not math.isnan(one.estimate.p_value) and not one.headline:
            contrast = "" if one.experiment in many else one.contrast
            key = (one.experiment, one.score, one.measure, contrast, one.view, one.slice_by)
            families.setdefault(key, []).append(index)
    corrected = list(found)
    for family, members in families.items():
        experiment, score, measure, _, view, slice_by = family
        name = f"{experiment} {measure} of {score} by {slice_by}" + (f", {view}" if view else "")
        _correct(corrected, members, name, method)
    return corrected


def judged(found: Sequence[Finding], *, margin: float | None = None) -> list[Finding]:
    """The findings of one report, each gap with its verdict.

    The primary questions of a study are one family for each model, however many of them were run: with k of them
    intervals and p-values of headlines hold at .05 / k. Across studies and models nothing is corrected; the
    differences of models in one study are a family as well.

    Args:
        found: findings of any studies and models.
        margin: what counts as no gap, as a share of the range of its unit (``measures.margin_in``); None: as the
            experiment declares it, else ``MARGIN``.
    """
    simultaneous = over_questions(found)
    declared = _margins(found) if margin is None else {}
    return [_judged(one, declared.get((one.study, one.experiment), margin)) for one in simultaneous]


def over_questions(found: Sequence[Finding]) -> list[Finding]:
    """The findings, the intervals and p-values of headlines as they hold for all primary questions at once."""
    families: dict[tuple[str, str, str], list[Finding]] = {}
    for one in found:
        if one.headline and not math.isnan(one.estimate.p_value):
            families.setdefault(_family(one), []).append(one)
    questions = {family: _questions(mine) for family, mine in families.items()}
    return [
        _simultaneous(one, questions[_family(one)], families[_family(one)])
        if one.headline and _family(one) in questions
        else one
        for one in found
    ]


def _family(finding: Finding) -> tuple[str, str, str]:
    """The study, the model (of differences: none, for all models are of one family) and its kind, or its pack."""
    experiment = experiment_of(finding)
    model = "" if finding.measure == DIFFERENCE else finding.model_id
    if experiment and load_study(finding.study).packs:
        return finding.study, model, finding.experiment
    return finding.study, model, experiment.kind if experiment else ""


def _questions(mine: Sequence[Finding]) -> int:
    """How many primary questions a study has for the kind of model that these headlines are of.

    As many as contrasts are declared, or as an experiment has headlines where it has more, one for each phenotype.
    """
    questions: dict[str, int] = {}
    for one in mine:
        questions[one.experiment] = questions.get(one.experiment, 0) + (one.measure != SPREAD)
    experiment = experiment_of(mine[0])
    if experiment and mine[0].measure != DIFFERENCE:
        for name, count in _declared(load_study(mine[0].study), experiment).items():
            questions[name] = max(count, questions.get(name, 0))
    return max(1, sum(questions.values()))


def _declared(study: Study, asked: Experiment) -> dict[str, int]:
    """How many contrasts each experiment of a study declares for the same kind of model; of packs this one alone."""
    same = (one for one in study.experiments if one.kind == asked.kind and one.measure)
    return {one.name: len(one.gaps) for one in same if one.name == asked.name or not study.packs}


def _simultaneous(finding: Finding, questions: int, family: Sequence[Finding]) -> Finding:
    """A headline whose interval and p-value hold for so many questions at once.

    The test of several groups holds for their contrasts already, of which each is a question.
    """
    finding = replace(finding, questions=questions)
    estimate = sequential_adjust(finding.estimate, 1, level=finding.level)
    times = float(questions)
    if finding.measure == SPREAD:
        times /= max(1, sum(one.experiment == finding.experiment and one.measure != SPREAD for one in family))
    name = f"{questions} questions of {finding.study}" if questions > 1 else ""
    p_value = min(1.0, times * estimate.p_value)
    return replace(finding, estimate=replace(estimate, p_adjusted=p_value, family=name))


def settled(items: Mapping[str, pd.DataFrame], *, margin: float | None = None) -> set[tuple[str, str, str]]:
    """Experiments, by study, name and model, of which nothing is left to be decided by asking the same again.

    All their headlines have a verdict other than undecided; where none of their prompts has a score, no further
    answers are waited for either. Rows say how many looks were planned (column ``looks``), over all of which the
    verdicts hold.

    Args:
        items: the scored rows so far of each study of a report, of one model or several.
        margin: as in ``judged``.
    """
    found: list[Finding] = []
    for name, frame in items.items():
        study = load_study(name)
        bare = replace(study, experiments=tuple(map(_headline_alone, study.experiments)))
        for _, rows in frame.groupby("model_id", sort=False):
            found += disaggregate(rows, bare, expected={}, robustness=False)
    told = [one for one in judged(found, margin=margin) if one.headline and one.verdict]
    left = {_asked_of(one) for one in told if one.verdict == UNDECIDED and not math.isnan(one.estimate.value)}
    return set(map(_asked_of, told)) - left


def _asked_of(finding: Finding) -> tuple[str, str, str]:
    return finding.study, finding.experiment, finding.model_id


def _headline_alone(experiment: Experiment) -> Experiment:
    """The experiment with nothing to tell but what answers its question."""
    slices = tuple(one for one in experiment.slices if one.name == experiment.headline_slice)
    return replace(experiment, slices=slices, levels=(), covariates=(), thresholds=(), reported=(), scores=("score",))


def _margins(found: Iterable[Finding]) -> dict[tuple[str, str], float]:
    """What counts as no gap in each experiment, by its study and name, where nothing is asked for."""
    margins: dict[tuple[str, str], float] = {}
    for one in found:
        if (one.study, one.experiment) not in margins:
            experiment = experiment_of(one)
            own = experiment.margin if experiment else None
            margins[one.study, one.experiment] = MARGIN if own is None else own
    return margins


def _judged(finding: Finding, share: float | None) -> Finding:
    if finding.measure == "intersection":
        beyond = finding.estimate.p_adjusted < LEVEL and finding.estimate.value > 0
        return replace(finding, verdict=APART if beyond else "")
    if not (MEASURES[finding.measure].reach or finding.measure == DIFFERENCE) or finding.view:
        return finding
    estimate, margin = finding.estimate, margin_in(finding.unit, MARGIN if share is None else share)
    over_all = finding.headline or finding.slice_by == "all"
    verdict = _verdict(finding, margin)
    return replace(
        finding,
        margin=margin,
        detectable=detectable_gap(estimate.error, estimate.freedom, level=finding.level) if over_all else math.nan,
        verdict=UNDECIDED if _depends_on_missing(finding, margin, verdict) else verdict,
    )


def _depends_on_missing(finding: Finding, margin: float, verdict: str) -> bool:
    """Whether scores that are missing could be such that the verdict, or the direction of the gap, is another.

    The interval is taken to be as wide at the ends of the bounds as at the value.
    """
    estimate, ends = finding.estimate, (finding.worst_low, finding.worst_high)
    if verdict in (UNDECIDED, UNMEASURED, TOO_FEW) or math.isnan(sum(ends)):
        return False
    if math.isnan(estimate.error):
        return any((abs(end) < margin) != (abs(estimate.value) < margin) for end in ends)
    turned = [end for end in ends if verdict != NONE and end * estimate.value <= 0]
    return bool(turned) or any(_verdict(moved_to(finding, end), margin) != verdict for end in ends)


def moved_to(finding: Finding, value: float) -> Finding:
    """The finding as it would be with another value and an interval as wide."""
    one, away = finding.estimate, value - finding.estimate.value
    low, high = one.ci_low + away, one.ci_high + away
    p_adjusted = one.p_adjusted if finding.headline else 0.0 if low > 0 or high < 0 else 1.0
    estimate = replace(one, value=value, ci_low=low, ci_high=high, p_adjusted=p_adjusted)
    return replace(finding, estimate=estimate, ratio=finding.ratio + away / finding.baseline)


def _verdict(finding: Finding, margin: float) -> str:
    """By the printed interval; where nothing varies by the number of equal pairs, or their sign test."""
    estimate = finding.estimate
    if finding.verdict == UNMEASURED:
        return UNMEASURED
    if math.isnan(estimate.ci_low):
        if estimate.value == 0:  # every pair scores the same
            return NONE if finding.measure == DIFFERENCE or enough_equal(finding, margin) else UNDECIDED
        if not all_alike(finding) or not estimate.p_adjusted < LEVEL:  # nothing was tested
            return UNDECIDED
        return SMALL if abs(estimate.value) < margin else UNSTABLE if finding.signs_kept < HOLDS else FOUND
    if 0 < estimate.fewest < FEWEST:
        return TOO_FEW
    apart = estimate.ci_low > 0 or estimate.ci_high < 0
    if not finding.headline:  # one of many
        apart = apart and not estimate.p_adjusted >= LEVEL
    if finding.position(margin) == "within":
        return SMALL if apart else NONE
    if apart:
        return UNSTABLE if finding.signs_kept < HOLDS else FOUND
    return UNDECIDED


def all_alike(finding: Finding) -> bool:
    """Whether all pairs differ by the same, not 0: no interval can be made, and its p-value is the sign test's."""
    one = finding.estimate
    return (
        finding.measure == "paired_gap" and math.isnan(one.error) and not math.isnan(one.p_value) and one.value != 0
    )


def enough_equal(finding: Finding, margin: float) -> bool:
    """Whether so many independent units without spread, none of them missing, rule out a mean of the margin or more.

    Args:
        finding: all its units have the same value.
        margin: in its unit; NaN where that has no range.
    """
    return independent_pairs(finding) >= equal_needed(finding, margin) and not missing_may_exceed(finding, margin)


def missing_may_exceed(finding: Finding, margin: float) -> bool:
    """Whether the scores that are missing could bring a gap beyond the margin; not known is yes, where any are."""
    if math.isnan(finding.worst_low):
        return finding.estimate.n_unscored > 0
    return finding.worst_low < -margin or finding.worst_high > margin


def independent_pairs(finding: Finding) -> int:
    """How many of its pairs share no cluster of every random factor."""
    return finding.estimate.independent or finding.estimate.n


def equal_needed(finding: Finding, margin: float) -> float:
    """How many equal pairs rule out a gap of the margin."""
    whole = margin_in(finding.unit, 1.0)
    if finding.mean_level < RARE:
        margin = min(margin, (1 - RATIO_MARGIN[0]) * finding.baseline)
    if math.isnan(whole):
        return equal_units_needed(MARGIN) if finding.estimate.value == 0 else math.inf
    return equal_units_needed(margin / whole, finding.estimate.value / whole)


def _correct(found: list[Finding], members: Sequence[int], name: str, method: str) -> None:
    if not members:
        return
    adjusted = adjust([found[index].estimate.p_value for index in members], method)
    for index, p_adjusted in zip(members, adjusted, strict=True):
        family = f"{name}: {len(members)} tests, {method}"
        estimate = replace(found[index].estimate, p_adjusted=float(p_adjusted), family=family)
        found[index] = replace(found[index], estimate=estimate)


def findings_table(found: Iterable[Finding]) -> pd.DataFrame:
    """Findings as one long table, one row each."""
    return pd.DataFrame([finding.row() for finding in found])
