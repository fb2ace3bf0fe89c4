"""Simulated scores of the prompts of one experiment, and what an audit concludes from them, many times a second."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings import Finding, disaggregate, primary_findings, with_verdicts
from swapbias.findings.compared_units import Units, primary_rows
from swapbias.findings.unit_rows import gap_units
from swapbias.measures import MEASURES, Estimate, group_gap, intervals
from swapbias.measures.contrast import linear_contrast
from swapbias.studies import PLACEBO, PLACEBO_COLUMNS, Experiment, Study, config_rows, load_study
from swapbias.studies.experiment import Shows

Floats = NDArray[np.float64]
Effects = Callable[[np.random.Generator, int], Floats]  # so many effects, of mean 0 and SD 1
EFFECTS: Mapping[str, Effects] = {
    "normal": lambda rng, count: rng.standard_normal(count),
    "lognormal": lambda rng, count: (
        (rng.lognormal(size=count) - math.exp(0.5)) / math.sqrt(math.expm1(1) * math.e)
    ),
    "heavy": lambda rng, count: rng.standard_t(3, count) / math.sqrt(3),
}
Simulate = Callable[
    [np.random.Generator, Effects, float], Floats
]  # scores of all prompts, with a planted gap
Concluded = Callable[[Floats], list[Finding]]


@dataclass(frozen=True, slots=True)
class Design:
    """Prompts of one experiment and the random effects that models have on them.

    Attributes:
        title: as the table shows it.
        clusters: what its rows cross, in words.
        study: with this experiment alone, and no slices but those of the primary finding.
        rows: the prompts.
        spreads: SD of the effects, as ``Design.planned_sd``.
        subset: a gap that is shown beside the primary finding: that over one subset.
        compared: two models are compared instead of one being audited.
        reported: one of the primary findings of the report that holds several.
    """

    title: str
    clusters: str
    study: Study
    rows: pd.DataFrame
    spreads: Mapping[str, float]
    subset: str = ""
    compared: bool = False
    reported: bool = False

    @property
    def experiment(self) -> Experiment:
        """The one that its study has."""
        return self.study.experiments[0]


def rows_of(corpus: str, config: str, **only: str) -> pd.DataFrame:
    """Return the prompts of a config, those with these values alone."""
    rows = pd.DataFrame(config_rows(corpus, config))
    for column, value in only.items():
        rows = rows[rows[column] == value]
    return rows


def design_of(
    title: str,
    clusters: str,
    name: str,
    experiment: str,
    rows: pd.DataFrame,
    spreads: Mapping[str, float],
    **fields: Any,
) -> Design:
    """Return the design of some prompts of an experiment, with the columns that its primary finding needs."""
    study = load_study(name)
    asked = next(declared for declared in study.experiments if declared.name == experiment)
    columns = {
        "pair_id",
        "group",
        "label",
        "template",
        "condition",
        "construct",
        asked.compares.subset,
    } - {""}
    columns |= {
        *asked.design.random,
        *asked.design.aggregate,
        *asked.compares.factors,
        *spreads,
    } & set(rows)
    columns |= {*PLACEBO_COLUMNS} & set(rows)
    compared = rows[rows["group"].isin([*asked.compared, PLACEBO])]
    kept = (
        compared[[column for column in compared if column in columns]]
        .astype(object)
        .reset_index(drop=True)
    )
    names = {"template", *asked.design.random, *spreads} | (
        set() if "side" in kept else {"pair_id"}
    )  # a reworded pair names its own
    for column in names & set(kept):  # numbers for names, which saves half the time
        is_level = kept[column] != ""
        kept[column] = kept[column].where(~is_level, pd.factorize(kept[column])[0])
    if asked.compares.contrast and not set(asked.compares.contrast) <= set(
        rows[asked.compares.subset]
    ):  # one set of conditions is audited
        asked = asked.changed(compares={"subset": "", "contrast": None})
    alone = study.changed(experiments=(_bare(asked),))
    return Design(
        title,
        clusters,
        alone,
        kept.assign(experiment=experiment, model_id="simulated"),
        spreads,
        **fields,
    )


def _bare(asked: Experiment) -> Experiment:
    """Return the experiment with its primary findings alone."""
    slices = tuple(one for one in asked.shows.slices if one.name == asked.compares.primary.slice)
    return asked.changed(shows=Shows(slices=slices))


def simulator(design: Design) -> Simulate:
    """Return what draws scores: half of a pair's gap above and below one half, or those of conditions themselves."""
    experiment = design.experiment
    rows = design.rows
    paired = experiment.is_paired
    # Groups that are no pairs have effects of their own: what they share cancels.
    side = "" if paired else "/" + rows["group"]
    codes = {column: level_codes(rows[column], side) for column in design.spreads if column}
    codes[""] = pd.factorize(rows["pair_id"])[0]
    groups = (
        rows["group"].where(rows["group"] != PLACEBO, rows["side"])
        if "side" in rows
        else rows["group"]
    )
    sign = np.where(groups == experiment.compares.group, 0.5, -0.5)
    raised = np.ones(len(rows))
    if experiment.compares.contrast and experiment.compares.contrast[1] in set(
        rows[experiment.compares.subset]
    ):
        raised = (rows[experiment.compares.subset] == experiment.compares.contrast[0]).to_numpy(
            dtype=float
        )

    def simulate(rng: np.random.Generator, effects: Effects, planted: float) -> Floats:
        drawn = sum(
            (
                spread * drawn_effects(rng, effects, codes[column])
                for column, spread in design.spreads.items()
            ),
            np.zeros(len(rows)),
        )
        return 0.5 + (sign * (planted * raised + drawn) if paired else sign * planted + drawn)

    return simulate


def level_codes(column: "pd.Series[Any]", side: "pd.Series[str] | str") -> NDArray[np.intp]:
    """Return the number of each row's level of a random factor, by side; -1 where a blank says that it has none."""
    codes = pd.factorize(column.astype(str) + side)[0]
    return np.where(column.astype(str) == "", -1, codes)


def drawn_effects(rng: np.random.Generator, effects: Effects, codes: NDArray[np.intp]) -> Floats:
    """Draw an effect for each level and return that of each row; 0 for rows that have no level."""
    return np.append(effects(rng, int(codes.max()) + 1), 0.0)[codes]


# --- what an audit concludes --------------------------------------------------------------------------


def conclusion(design: Design, scores: Floats, *, detectable: bool = True) -> Concluded:
    """Return what gives the primary gaps of further scores of the same prompts, with their verdicts.

    They are those of an audit, at a tenth of its time: what rows have in common is found once.

    Args:
        design: of prompts that are all scored, by a mean score near the middle of the range: a ratio of rates, which
            decides where they are rare, is not found again.
        scores: shape (rows,), of one audit; what is replayed of it is compared with what ``disaggregate`` finds.
        detectable: whether to find the smallest gap that such an audit finds, which takes a third of the time and
            decides nothing.

    Raises:
        ValueError: the two differ.
    """
    audited = disaggregate(_scored(design, scores), design.study, expected={}, robustness=False)
    gaps = [finding for finding in primary_findings(audited) if MEASURES[finding.measure].gap_span]
    replayed = replay(design, scores, gaps)

    def conclude(scores: Floats) -> list[Finding]:
        again = [replace(finding, verdict="", is_rate=False) for finding in replayed(scores)]
        if detectable:
            return with_verdicts(again)
        with patch.object(intervals, "detectable_gap", _not_looked_for):
            return with_verdicts(again)

    for finding, again in zip(gaps, conclude(scores), strict=True):
        ends = (finding.estimate.ci_low, finding.estimate.ci_high)
        again_ends = (again.estimate.ci_low, again.estimate.ci_high)
        if (
            not np.allclose(ends, again_ends, rtol=1e-9, equal_nan=True)
            or finding.verdict != again.verdict
        ):
            raise ValueError(
                f"{design.title}: {again_ends} {again.verdict}, expected {ends} {finding.verdict}."
            )
    return conclude


def _not_looked_for(
    std_error: float, df: float, *, level: float = 0.05, chance: float = 0.8
) -> float:
    return math.nan


def replay(design: Design, scores: Floats, found: Sequence[Finding]) -> Concluded:
    """Return what makes these findings of an audit again, of other scores of the same prompts, without verdicts.

    Args:
        design: of prompts that are all scored.
        scores: shape (rows,), of the audit.
        found: gaps by the inference of the design, and as published.

    Raises:
        ValueError: a value, error or p-value is not that of the finding.
    """
    rows = _scored(design, scores)
    parts = [
        _PublishedPart.of(finding, design, rows)
        if finding.view
        else _Part.of(finding, design, rows)
        for finding in found
    ]

    def replayed(scores: Floats) -> list[Finding]:
        pairs = zip(found, parts, strict=True)
        return [part.again(finding, scores) for finding, part in pairs]

    for finding, again in zip(found, replayed(scores), strict=True):
        expected = _numbers(finding.estimate)
        numbers = _numbers(again.estimate)
        if not np.allclose(expected, numbers, rtol=1e-9, equal_nan=True):
            raise ValueError(f"{design.title}: {numbers}, expected {expected}.")
    return replayed


def _scored(design: Design, scores: Floats) -> pd.DataFrame:
    return design.rows.assign(score=scores).reset_index(drop=True)


def _numbers(estimate: Estimate) -> tuple[float, ...]:
    """The numbers that a replay must give again; a p-value may be missing where no interval is believed."""
    return estimate.value, estimate.std_error, estimate.df, estimate.n


@dataclass(frozen=True, slots=True)
class _Part:
    """The units of one gap, and the rows whose scores they are made of."""

    units: Units
    places: Mapping[str, NDArray[np.intp]]
    """By group the row of each unit; none: a unit is a row."""
    signs: Mapping[str, float]

    @classmethod
    def of(cls, finding: Finding, design: Design, rows: pd.DataFrame) -> "_Part":
        """Return the units of a primary gap of scored rows."""
        context, part = primary_rows(
            finding, design.study, rows.assign(place=rows.index), finding.model_id
        )
        units = gap_units(context, part)
        if units is None:
            raise ValueError(f"{design.title}: its primary finding is no mean of units.")
        if not context.experiment.is_paired:
            return cls(units, {"": units.rows["place"].to_numpy()}, {})
        table = (
            part.set_index(["pair_id", "group"])["place"]
            .unstack("group")
            .loc[units.rows["pair_id"]]
        )
        places = {group: table[group].to_numpy(np.intp) for group in context.sides}
        return cls(units, places, context.sides)

    def again(self, finding: Finding, scores: Floats) -> Finding:
        """Return the finding of other scores of the same rows."""
        groups = {
            f"score of {group}": scores[place] for group, place in self.places.items() if self.signs
        }
        units = replace(
            self.units, rows=self.units.rows.assign(value=self.values(scores), **groups)
        )
        distances: dict[str, Any] = {**units.distances()}
        return replace(finding, estimate=units.measured(), **distances)

    def values(self, scores: Floats) -> Floats:
        """Return the value of each unit."""
        if not self.signs:
            return scores[self.places[""]]
        return np.asarray(
            sum(sign * scores[self.places[group]] for group, sign in self.signs.items())
        )


@dataclass(frozen=True, slots=True)
class _PublishedPart:
    """A gap by the paper's own test: of pairs, of rows, or of means that are taken in turns."""

    part: _Part
    steps: Sequence[NDArray[np.intp]]
    """Of rows the mean that each goes into, and of those the next."""
    sides: NDArray[np.intp]
    """Of each unit: its sample, or 0 for the group and 1 for the reference."""
    test: str

    @classmethod
    def of(cls, finding: Finding, design: Design, rows: pd.DataFrame) -> "_PublishedPart":
        """Return the units of a gap as published."""
        part = _Part.of(finding, design, rows)
        experiment = part.units.context.experiment
        if part.signs:
            return cls(part, (), part.units.rows["sample"].to_numpy(np.intp), "t")
        frame = part.units.rows
        steps = []
        for start in range(len(experiment.design.aggregate)):
            keys = ["group", "label", *experiment.design.aggregate[start:]]
            steps.append(frame.groupby(keys, sort=False).ngroup().to_numpy(np.intp))
            frame = frame.drop_duplicates(keys)
        return cls(
            part,
            steps,
            (frame["group"] == experiment.compares.reference).to_numpy(np.intp),
            experiment.compares.test,
        )

    def again(self, finding: Finding, scores: Floats) -> Finding:
        """Return the finding of other scores of the same rows."""
        values = self.part.values(scores)
        for codes in self.steps:
            values = np.bincount(codes, values) / np.bincount(codes)
        if not self.sides.any():
            return replace(finding, estimate=linear_contrast(values, self.sides, (1.0,), {}))
        groups = np.where(self.sides, "reference", "group").tolist()
        return replace(
            finding, estimate=group_gap(values, groups, reference_group="reference", test=self.test)
        )


# --- cells of a table ---------------------------------------------------------------------------------


def rate_text(share: float) -> str:
    """Return a share with three decimals, as ``.050``."""
    return f"{share:.3f}".removeprefix("0")


def yes_or_no(held: bool) -> str:
    """Return whether a bar is met, as a cell."""
    return "yes" if held else "no"


def share_of(held: Iterable[bool]) -> float:
    """Return of how many it holds; 0 of none."""
    outcomes = list(held)
    return sum(outcomes) / max(1, len(outcomes))
