"""Context of the findings of some rows, from which each Finding is made."""

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
    """All that the findings of some rows have in common."""

    study: str
    """Name of the study."""
    model_id: str
    """The model that scored the rows."""
    experiment: Experiment
    """The experiment that the rows belong to: what it compares, and by which design."""
    score: str
    """The score column that is analysed."""
    seed: int = 0
    """Of resampled intervals and permutation tests."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of the groups in an effect of crossed factors; empty: a gap between two groups."""
    subset: str = ""
    """The subset that the rows are of; blank: there are none."""
    slice_by: str = "all"
    """The slice that the rows are a value of; ``all``: they are not sliced."""
    slice_value: str = ""
    """The value of the slice."""

    @property
    def sides(self) -> Mapping[str, float]:
        """Return the weight of the mean of each group in the value."""
        if self.weights:
            return self.weights
        return {self.experiment.compares.group: 1.0, self.experiment.compares.reference: -1.0}

    @property
    def comparison(self) -> Comparison:
        """Return how the experiment compares two groups; ValueError where it compares none."""
        comparison = self.experiment.comparison
        if comparison is None:
            raise ValueError(
                f"{self.study} {self.experiment.name} compares no groups. Name its measure."
            )
        return comparison

    @property
    def score_unit(self) -> Unit:
        """Return the unit of the score column, as the kind of model gives it."""
        return kind_of(self.experiment.kind).unit_of(self.experiment, self.score)

    @property
    def plain_view(self) -> str:
        """Return the view of the statistic that treats units as independent: the paper's own, where there is one."""
        return INDEPENDENT if self.study in own_studies() else AS_PUBLISHED

    @property
    def gap_fields(self) -> dict[str, str]:
        """Return the fields of a finding that say which two groups are compared, and in what order."""
        group = self.experiment.compares.group
        reference = self.experiment.compares.reference
        return {"contrast": f"{group} - {reference}", "group": group, "reference_group": reference}

    def compared_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the groups that are compared.

        Args:
            rows: scored rows with a column ``group``.
        """
        is_compared = rows["group"].isin(list(self.sides)).to_numpy()
        return rows if is_compared.all() else rows[is_compared]

    def has_all_groups(self, rows: pd.DataFrame) -> bool:
        """Tell whether every compared group has a row.

        Args:
            rows: scored rows with a column ``group``.
        """
        return bool(self.compared_rows(rows)["group"].nunique() == len(self.sides))

    def gaps(self) -> "list[Context]":
        """Return the context of each contrast of two groups."""
        return [replace(self, experiment=experiment) for experiment in self.experiment.gaps]

    def random(self, rows: pd.DataFrame) -> tuple[dict[str, NDArray[np.intp]], str]:
        """Return the clusters of each random factor that the rows vary in, and the names of these.

        A factor whose levels are nested in those of another (conditions in categories) is dropped. A blank is no
        level: it stands in rows that the factor does not vary in.

        Args:
            rows: scored rows with the columns of the factors, as far as they have them.

        Returns:
            By the name of a factor the cluster of each row, shape (rows,), from 0; and ``templates + items``. Blank
            where no factor varies: all rows are then of one cluster, which gives no interval.
        """
        names = {
            column: name for column, name in self.experiment.design.random.items() if column in rows
        }
        if not names:
            return {"rows": np.zeros(len(rows), dtype=np.intp)}, ""
        codes = {column: pd.factorize(rows[column].to_numpy())[0] for column in names}
        varying = [column for column, code in codes.items() if len(code) and code.max() > 0]
        coarsest: list[str] = []
        for column in sorted(varying, key=lambda column: int(codes[column].max())):
            is_level = (rows[column] != "").to_numpy()
            levels = codes[column][is_level]
            if not any(_is_nested(levels, codes[coarser][is_level]) for coarser in coarsest):
                coarsest.append(column)
        crossed = [column for column in varying if column in coarsest]
        factors = {names[column]: codes[column] for column in crossed or names}
        return factors, " + ".join(names[column] for column in crossed)

    def single(self, rows: pd.DataFrame) -> str:
        """Return the random factor of which the rows have one level, which says nothing of others; blank for none.

        A slice by the factor itself is about that level.

        Args:
            rows: scored rows with the columns of the factors, as far as they have them.
        """
        sliced = self._sliced_columns()
        for column, name in self.experiment.design.random.items():
            if column not in rows or column in sliced:
                continue
            if rows[column].nunique() == 1 and rows[column].iloc[0] != "":
                return name
        return ""

    def fixed(self, rows: pd.DataFrame) -> str:
        """Return the fixed levels, beyond which a claim about these rows says nothing: ``3 topics``; blank for none.

        Args:
            rows: scored rows with the columns of the fixed factors, as far as they have them.
        """
        sliced = self._sliced_columns()
        counts = {
            name: rows[column].nunique()
            for column, name in self.experiment.design.fixed.items()
            if column in rows and column not in sliced
        }
        levels = [
            f"{count} {_agree_in_number(name, count)}" for name, count in counts.items() if count
        ]
        return " + ".join(levels)

    def _sliced_columns(self) -> set[str]:
        """Return the columns whose values the slice takes one by one."""
        return {part.column for part in self.experiment.shows.slices if part.name == self.slice_by}

    def finding(
        self, estimate: Estimate, measure: str, contrast: str, **further_fields: Any
    ) -> Finding:
        """Make a finding of an estimate of these rows.

        Args:
            estimate: the estimate in the unit of the measure, or where it has none in that of the score.
            measure: one of ``measures.MEASURES``.
            contrast: the difference that is measured, or the group of a mean.
            further_fields: fields of ``Finding``, which come before those of the context.
        """
        fields: dict[str, Any] = {
            "subset": self.subset,
            "slice_by": self.slice_by,
            "slice_value": self.slice_value,
        }
        if MEASURES[measure].unit:
            fields["unit"] = MEASURES[measure].unit
        elif "unit" not in further_fields:
            fields |= unit_fields(self.score_unit)
        fields |= further_fields
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
    """Return the fields of a finding that say its unit.

    Args:
        unit: the unit of the scores.
    """
    low, high = unit.ends
    return {"unit": unit.name, "unit_low": low, "unit_high": high, "own_unit": unit.taken_from}


def _agree_in_number(name: str, count: int) -> str:
    """Return a plural name as it stands beside a count: ``template`` beside 1."""
    if count != 1:
        return name
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def _is_nested(code: NDArray[np.intp], coarser: NDArray[np.intp]) -> bool:
    """Tell whether all rows of each cluster share a cluster of the coarser factor."""
    last = np.empty(int(code.max()) + 1, dtype=np.intp)
    last[code] = coarser
    return bool((last[code] == coarser).all())
