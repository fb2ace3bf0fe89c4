"""Tables of rates of selection by sex, by race and by both: on the page and as CSV."""

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from swapbias.files import as_csv as table_as_csv
from swapbias.findings import category_rates
from swapbias.report.charts import Chart, Row
from swapbias.report.finding_names import plain_words
from swapbias.report.numbers import format_number
from swapbias.studies import Experiment, Study

NOTICE = (
    "A counterfactual audit is no bias audit under New York City's Local Law 144, "
    "which asks for an independent auditor and data on applicants."
)
"""The first line of every table of these rates."""
_MEDIAN = "Scoring rates: the share of texts whose score lies above the median of all texts."
_SELECTED = "Selection rates: the share of texts that are selected."
_RATIOS = (
    "The ratio to the highest rate lies below 1 by chance alone, so 0.8 decides nothing. "
    "The ratio to the mean rate has an interval."
)
_SMALL = (
    "An asterisk marks less than 2 % of the data, which 6 RCNY § 5-301 lets auditors leave out. "
    "The highest rate is that of another category."
)
_HEADS = (
    "n",
    "share",
    "rate",
    "95 % interval",
    "ratio to the highest",
    "ratio to the mean",
    "95 % interval",
)


def as_csv(rates: Sequence[category_rates.CategoryRate]) -> bytes:
    """Write rates as CSV below a line that begins with ``#`` and says what they are not.

    Args:
        rates: the rates of any studies.
    """
    return f"# {NOTICE}\n".encode() + table_as_csv(category_rates.rates_table(rates))


def category_tables(
    study: Study, experiment: Experiment, items: pd.DataFrame | None
) -> Iterator[Chart]:
    """Yield a table of each model's rates, where the experiment names columns of sex and race.

    Args:
        study: the study.
        experiment: the experiment.
        items: its scored rows; None: they are not shown.
    """
    if items is None or not experiment.shows.categories:
        return
    rates = category_rates.category_rates(study.changed(experiments=(experiment,)), items)
    models = list(dict.fromkeys(rate.model_id for rate in rates))
    for model in models:
        of_model = [rate for rate in rates if rate.model_id == model]
        parts: dict[str, list[Row]] = {}
        for rate in of_model:
            by = "by sex and race" if rate.by == category_rates.BOTH else f"by {rate.by}"
            parts.setdefault(by, []).append(_row(rate))
        counted = _MEDIAN if of_model[0].counted == category_rates.ABOVE_MEDIAN else _SELECTED
        sentences = [NOTICE, counted, _RATIOS]
        if any(rate.is_small for rate in of_model):
            sentences.append(_SMALL)
        name = "rates by sex and race"
        if len(models) > 1:
            name = f"{name}, {model}"
        yield Chart(name, " ".join(sentences), _HEADS, parts, first="category")


def _row(rate: category_rates.CategoryRate) -> Row:
    """Return the row of a category: counts, rate and ratios."""
    name = plain_words(rate.category)
    count = f"{rate.n:,}"
    if rate.n_unscored:
        count = f"{count} (+{rate.n_unscored:,})"
    cells = [(count, float(rate.n)), (f"{100 * rate.share:.1f} %", rate.share)]
    if rate.category == category_rates.UNKNOWN:
        return Row(name, (), (*cells, *[("–", None)] * (len(_HEADS) - 2)))
    cells += [
        (_percent(rate.rate), rate.rate),
        (_interval(100 * rate.rate_low, 100 * rate.rate_high, 1), rate.rate_low),
        (format_number(rate.ratio_to_highest, digits=2), rate.ratio_to_highest),
        (format_number(rate.ratio_to_mean, digits=2), rate.ratio_to_mean),
        (_interval(rate.ratio_to_mean_low, rate.ratio_to_mean_high, 2), rate.ratio_to_mean_low),
    ]
    return Row(f"{name} *" if rate.is_small else name, (), tuple(cells))


def _percent(share: float) -> str:
    """Write a share in percent; a dash for NaN."""
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def _interval(low: float, high: float, digits: int) -> str:
    """Write an interval; a dash where there is none."""
    if math.isnan(low):
        return "–"
    return f"{format_number(low, digits=digits)} to {format_number(high, digits=digits)}"
