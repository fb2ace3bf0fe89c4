"""Rates of selection by sex, by race and by both, in the form that rules on hiring tools ask for.

New York City's rule (6 RCNY § 5-300 and § 5-301) defines the rates and their ratio to the most selected category, and
lets categories with less than 2 % of the data be left out. It asks for them of applicants, not of swapped texts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import measures
from swapbias.findings.context import Context
from swapbias.findings.repeats import is_binary
from swapbias.findings.scored_rows import one_per_prompt
from swapbias.measures import Estimate, Floats
from swapbias.studies import PLACEBO, Experiment, Study
from swapbias.swapping import genders

SMALL_SHARE = 0.02
"""The share of the data below which the rule lets a category be left out of the ratios."""
UNKNOWN = "unknown"
"""The category of the rows whose sex or race is not known."""
SELECTED = "selected"
"""Rates count the rows that are selected."""
ABOVE_MEDIAN = "above the median"
"""Rates count the rows whose score lies above the median of all."""
BOTH = "sex x race"
"""The name of the categories of sex and race together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryRate:
    """The rate of one category of a model's scores in an experiment; NaN where there is none."""

    study: str
    """Name of the study."""
    experiment: str
    """Name of the experiment."""
    model_id: str
    """The model that was audited."""
    by: str
    """``sex``, ``race`` or ``BOTH``."""
    category: str
    """Value of the column, of both two with a comma between; ``UNKNOWN`` where it is not known."""
    counted: str
    """The rows that a rate counts: ``SELECTED`` or ``ABOVE_MEDIAN``."""
    n: int
    """Number of rows with a score."""
    n_unscored: int
    """Number of rows without one."""
    share: float
    """Share of the category in all rows with a score."""
    is_small: bool
    """Whether that share is below ``SMALL_SHARE``."""
    rate: float = math.nan
    """Share of the rows that count."""
    rate_low: float = math.nan
    """Lower end of the 95 % interval of the rate, over the random factors."""
    rate_high: float = math.nan
    """Upper end of that interval."""
    ratio_to_highest: float = math.nan
    """The rate over the highest of all categories that are not small. It has no interval: the highest of several
    rates lies above the others by chance alone."""
    ratio_to_mean: float = math.nan
    """The rate over the mean of the categories' rates; 1: as the mean."""
    ratio_to_mean_low: float = math.nan
    """Lower end of the 95 % interval of that ratio, over the random factors."""
    ratio_to_mean_high: float = math.nan
    """Upper end of that interval."""


def asks_for_categories(study: Study) -> bool:
    """Tell whether an experiment of a study names columns of sex or race.

    Args:
        study: the study.
    """
    return any(experiment.shows.categories for experiment in study.experiments)


def category_rates(study: Study, items: pd.DataFrame) -> list[CategoryRate]:
    """Return the rates of every experiment of a study that names columns of sex and race.

    Args:
        study: the study.
        items: its scored rows, of one model or several.
    """
    rates: list[CategoryRate] = []
    for experiment in study.experiments:
        rows = items[(items["experiment"] == experiment.name) & (items["group"] != PLACEBO)]
        columns: dict[str, str] = {
            by: column
            for by, column in experiment.shows.categories.items()
            if len(rows) and column in rows
        }
        if not columns:
            continue
        for model, of_model in rows.groupby("model_id", sort=False):
            context = Context(study.name, str(model), experiment, "score")
            rates += _rates_of_model(context, one_per_prompt(experiment, of_model), columns)
    return rates


def rates_table(rates: Sequence[CategoryRate]) -> pd.DataFrame:
    """Return rates as a table, a row each, with the same columns also of none.

    Args:
        rates: the rates of any studies.
    """
    return pd.DataFrame(
        [asdict(rate) for rate in rates], columns=[field.name for field in fields(CategoryRate)]
    )


def _rates_of_model(
    context: Context, rows: pd.DataFrame, columns: Mapping[str, str]
) -> Iterator[CategoryRate]:
    """Yield the rates by each column, and by both."""
    scores = rows["score"].to_numpy(dtype=np.float64)
    if np.isnan(scores).all():
        return
    selected, counted = _selected(context.experiment, scores)
    categories = {by: _categories(rows[column]) for by, column in columns.items()}
    if len(categories) > 1:
        parts = pd.DataFrame(categories)
        is_known = (parts != UNKNOWN).all(axis=1)
        joined = parts["sex"].str.cat(parts["race"], sep=", ")
        categories[BOTH] = joined.where(is_known, UNKNOWN)
    for by, names in categories.items():
        yield from _rates_by(context, rows, selected, names.to_numpy(), (by, counted))


def _selected(experiment: Experiment, scores: Floats) -> tuple[Floats, str]:
    """Return whether each row is selected (NaN: no score), and what that means.

    Rates and scores of 0 and 1 say it themselves, other scores by the first threshold of a decision, else by their
    median.
    """
    unit = experiment.compares.unit
    missing = np.isnan(scores)
    if unit.is_rate or is_binary(scores, unit) or set(scores[~missing]) <= {0.0, 1.0}:
        return scores, SELECTED
    threshold = next(iter(experiment.shows.decisions), math.nan)
    if not math.isnan(threshold):
        return np.where(missing, math.nan, scores >= threshold), SELECTED
    return np.where(missing, math.nan, scores > np.nanmedian(scores)), ABOVE_MEDIAN


def _categories(column: "pd.Series[str]") -> "pd.Series[str]":
    """Return the category of each row; ``UNKNOWN`` where the cell says so."""
    texts = column.fillna("").astype(str).str.strip().reset_index(drop=True)
    return texts.where(~texts.map(genders.is_unknown), UNKNOWN)


def _rates_by(
    context: Context,
    rows: pd.DataFrame,
    selected: Floats,
    names: NDArray[np.object_],
    basis: tuple[str, str],
) -> Iterator[CategoryRate]:
    """Yield the rate of each category, most rows first, and the number of rows of which it is unknown."""
    is_scored = ~np.isnan(selected)
    is_known = names != UNKNOWN
    counts = pd.Series(names).value_counts()
    known = [str(name) for name in counts.index if name != UNKNOWN]
    estimates: Mapping[str, tuple[Estimate, Estimate]] = {}
    chosen = is_known & is_scored
    if len(set(names[chosen])) > 1:
        clusters, _ = context.random(rows[chosen])
        estimates = measures.selection_rate(
            selected[chosen], names[chosen].tolist(), cluster_ids=clusters
        )
    total = int(is_scored.sum())
    shares = {name: int((is_scored & (names == name)).sum()) / total for name in known}
    large = [estimates[name][0].value for name in estimates if shares[name] >= SMALL_SHARE]
    highest = max(large, default=math.nan)
    by, counted = basis
    for name in [*known, *([UNKNOWN] if not is_known.all() else [])]:
        is_named = names == name
        n = int((is_scored & is_named).sum())
        rate, ratio = estimates.get(name, (Estimate(math.nan), Estimate(math.nan)))
        yield CategoryRate(
            study=context.study,
            experiment=context.experiment.name,
            model_id=context.model_id,
            by=by,
            category=name,
            counted=counted,
            n=n,
            n_unscored=int((~is_scored & is_named).sum()),
            share=n / total,
            is_small=name != UNKNOWN and n / total < SMALL_SHARE,
            rate=rate.value,
            rate_low=rate.ci_low,
            rate_high=rate.ci_high,
            ratio_to_highest=rate.value / highest if highest > 0 else math.nan,
            ratio_to_mean=ratio.value,
            ratio_to_mean_low=ratio.ci_low,
            ratio_to_mean_high=ratio.ci_high,
        )
