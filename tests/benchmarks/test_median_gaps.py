"""The simulation of median gaps: every cell is audited, and null gaps are null."""

import numpy as np
import pytest

from benchmarks import median_gaps


@pytest.mark.parametrize("title", ["8 templates", "6 templates x 8 words"])
def test_cells_of_effects(title):
    """Every kind of effects has a cell for each column."""
    for kind in median_gaps.KINDS:
        assert len(median_gaps.measure_cell(title, kind, 2)) == len(median_gaps.COLUMNS)


def test_centre_of_lognormal_gaps():
    """Lognormal gaps are centred at what the measure estimates: the average of two lies above as
    often as below."""
    title = "30 templates"
    kind = "lognormal gaps"
    centre = median_gaps._centre(title, kind)
    rng = np.random.default_rng(1)
    both = rng.lognormal(size=(2, 20_000)).mean(axis=0)
    assert (both > centre).mean() == pytest.approx(0.5, abs=0.02)


def test_measure_by_its_name():
    """Another measure of pairs is simulated by its name, and the mean of lognormal gaps is exp(1 /
    2)."""
    assert [one.name for one in median_gaps.SERIES][:1] == ["median_gaps"]
    series = median_gaps.series_of("paired_gap")
    assert series.name == "median_gaps-paired_gap"
    cells = median_gaps.measure_cell("8 templates", "normal", 2, "paired_gap")
    assert len(cells) == len(series.columns)
    centre = median_gaps._centre("8 templates", "lognormal gaps", "paired_gap")
    assert centre == pytest.approx(np.exp(0.5), abs=0.03)
