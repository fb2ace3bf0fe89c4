"""What the findings of some rows have in common, from which each Finding is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.finding import Finding
from swapbias.findings.terms import AS_PUBLISHED, INDEPENDENT
from swapbias.measures import MEASURES, Comparison, Estimate, Unit
from swapbias.models import kind_of
from swapbias.studies import Experiment, own_studies


@dataclass(frozen=True, slots=True)
class Context:
    """What the findings of some rows have in common.

    ``weights`` are those of the groups in an effect of crossed factors; none: a gap between two groups.
    """

    study: str
    model_id: str
    experiment: Experiment
    score: str
    seed: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    subset: str = ""
    slice_by: str = "all"
    slice_value: str = ""

    @property
    def sides(self) -> Mapping[str, float]:
        """The weight of the mean of each group in the value."""
        return self.weights or {
            self.experiment.compares.group: 1.0,
            self.experiment.compares.reference: -1.0,
        }

    @property
    def comparison(self) -> Comparison:
        """How the experiment compares two groups; ValueError where it compares none."""
        comparison = self.experiment.comparison
        if comparison is None:
            raise ValueError(
                f"{self.study} {self.experiment.name} compares no groups. Name its measure."
            )
        return comparison

    @property
    def score_unit(self) -> Unit:
        """The unit of the score column, as the kind of model gives it."""
        return kind_of(self.experiment.kind).unit_of(self.experiment, self.score)

    @property
    def plain_view(self) -> str:
        """The view of the statistic that treats units as independent: the paper's own, where the study is one's."""
        return INDEPENDENT if self.study in own_studies() else AS_PUBLISHED

    @property
    def gap_fields(self) -> dict[str, str]:
        """The fields of a finding that say which two groups are compared, and in what order."""
        group = self.experiment.compares.group
        reference = self.experiment.compares.reference
        return {"contrast": f"{group} - {reference}", "group": group, "reference_group": reference}

    def two(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the groups that are compared."""
        return rows[rows["group"].isin(list(self.sides))]

    def whole(self, rows: pd.DataFrame) -> bool:
        """Whether every compared group has a row."""
        return bool(self.two(rows)["group"].nunique() == len(self.sides))

    def gaps(self) -> "list[Context]":
        """The context of each contrast of two groups."""
        return [replace(self, experiment=one) for one in self.experiment.gaps]

    def random(self, rows: pd.DataFrame) -> tuple[dict[str, NDArray[np.intp]], str]:
        """The clusters of each random factor that the rows vary in, and the names of these (``templates + items``).

        A factor whose levels are nested in those of another (conditions in categories) is dropped.
        """
        names = {
            column: name for column, name in self.experiment.design.random.items() if column in rows
        }
        if not names:
            return {"rows": np.zeros(len(rows), dtype=np.intp)}, ""
        codes = {column: pd.factorize(rows[column])[0] for column in names}
        varying = [column for column, code in codes.items() if len(code) and code.max() > 0]
        coarsest: list[str] = []
        for column in sorted(varying, key=lambda one: int(codes[one].max())):
            if not any(_is_nested(codes[column], codes[other]) for other in coarsest):
                coarsest.append(column)
        crossed = [column for column in varying if column in coarsest]
        factors = {
            names[column]: codes[column] for column in crossed or names
        }  # one cluster each: no interval
        return factors, " + ".join(names[column] for column in crossed)

    def single(self, rows: pd.DataFrame) -> str:
        """Return the random factor of which the rows have one level, which says nothing of others; blank for none.

        A slice by the factor itself is about that level.
        """
        sliced = {one.column for one in self.experiment.shows.slices if one.name == self.slice_by}
        for column, name in self.experiment.design.random.items():
            if (
                column in rows
                and column not in sliced
                and rows[column].nunique() == 1
                and rows[column].iloc[0] != ""
            ):
                return name
        return ""

    def fixed(self, rows: pd.DataFrame) -> str:
        """Return the levels that a claim about these rows is about alone: ``3 topics``; blank for none."""
        sliced = {one.column for one in self.experiment.shows.slices if one.name == self.slice_by}
        counts = {
            name: rows[column].nunique()
            for column, name in self.experiment.design.fixed.items()
            if column in rows and column not in sliced
        }
        return " + ".join(
            f"{count} {_agree_in_number(name, count)}" for name, count in counts.items() if count
        )

    def finding(self, estimate: Estimate, measure: str, contrast: str, **more: Any) -> Finding:
        """A finding of it; ``more`` are further fields of ``Finding``. The unit is the measure's, or the score's."""
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in ("subset", "slice_by", "slice_value")
        }
        if MEASURES[measure].unit:
            fields["unit"] = MEASURES[measure].unit
        elif "unit" not in more:
            fields |= unit_fields(self.score_unit)
        fields |= more
        return Finding(
            study=self.study,
            experiment=self.experiment.name,
            model_id=self.model_id,
            score=self.score,
            measure=measure,
            contrast=contrast,
            estimate=estimate,
            **fields,
        )


def unit_fields(unit: Unit) -> dict[str, Any]:
    """The fields of a finding that say its unit."""
    low, high = unit.ends
    return {"unit": unit.name, "unit_low": low, "unit_high": high, "own_unit": unit.taken_from}


def _agree_in_number(name: str, count: int) -> str:
    """Return a plural name as it stands beside a count: ``template`` beside 1."""
    if count != 1:
        return name
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def _is_nested(code: NDArray[np.intp], other: NDArray[np.intp]) -> bool:
    """Whether all rows of each cluster share a cluster of the other factor."""
    last = np.empty(int(code.max()) + 1, dtype=np.intp)
    last[code] = other
    return bool((last[code] == other).all())
