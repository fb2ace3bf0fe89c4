"""The simulated audits: effects and gaps have their planted sizes, and tables have a cell for
each column."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import truth
from benchmarks.simulating import EFFECTS, drawn_effects, level_codes

WORDED = truth.worded_designs
CROSSED = truth.crossed_designs


@pytest.fixture(scope="module")
def phase():
    return next(truth.designs())


def test_planted_sizes(phase):
    """Planted gaps, effects and spreads are those of the design."""
    still = replace(phase, spreads={"template": 0.0, "condition": 0.0, "": 0.0})
    (audit,) = truth.audits(still, "normal", 1, planted=0.3)
    assert [one.estimate.value for one in audit.primary] == pytest.approx([0.3])
    assert audit.primary[0].estimate.n == 44  # 4 templates x 11 conditions
    assert len(audit.published) == 1
    for draw in truth.EFFECTS.values():
        drawn = draw(np.random.default_rng(0), 400_000)
        assert (drawn.mean(), drawn.std()) == pytest.approx((0, 1), abs=0.03)
    # Of the mean of 4 x 11 pairs: .042^2 / 4 + .115^2 / 11 + .035^2 / 44 = .001671.
    values = [audit.primary[0].estimate.value for audit in truth.audits(phase, "normal", 200)]
    assert np.var(values) == pytest.approx(0.042**2 / 4 + 0.115**2 / 11 + 0.035**2 / 44, rel=0.3)


def rejected(design, effects, count):
    """The shares of audits that reject by the design, and as published."""
    both = [
        (findings.primary, findings.published) for findings in truth.audits(design, effects, count)
    ]
    return [truth._rejected(truth._flat(one)) for one in zip(*both, strict=True)]


def test_null_audits(phase):
    """Null audits find something as often as stated, and the published test much more often."""
    wrong, published = rejected(phase, "normal", 150)
    assert 0.01 < wrong < 0.11
    assert published > 0.3


def test_templates_that_lean():
    """Templates and acts that lean by group are no gap between groups."""
    design = next(one for one in truth.designs() if one.title == "attitude")
    wrong, published = rejected(design, "0/1 at .1", 60)
    assert wrong <= stats.binom.isf(0.001, 60, 0.05) / 60 < 0.18 < published + 0.08


def test_primary_finding_of_every_design():
    """Every design has a primary finding and the statistic of the paper."""
    for design in truth.designs():
        (audit,) = truth.audits(design, "lognormal", 1)
        count = 4 if design.title == "clinical pairs" else 1
        assert len(audit.primary) == count, design.title
        papers = (
            0 if design.title.startswith("own prompts") else count
        )  # no paper has a test of own prompts
        assert len(audit.published) == papers, design.title
        assert len(audit.subset) == len(audit.subset_published) == bool(design.subset)


def test_cells_of_the_tables(phase, monkeypatch):
    """The tables have a cell for each column."""
    monkeypatch.setattr(truth, "designs", lambda: iter([replace(phase, reported=True)]))
    monkeypatch.setattr(truth, "worded_designs", lambda: iter([next(WORDED())]))
    monkeypatch.setattr(truth, "crossed_designs", lambda: iter([next(CROSSED())]))
    # Six kinds of effects; one shipped experiment; four of what crossed factors plant;
    # three designs of groups that are served alike and not, three shares of facts that are left out.
    for series, rows in zip(truth.SERIES, (6, 1, 1, 1, 4, 2, 8, 3), strict=True):
        found = series.rows(0.002, 1)
        assert len(found) == rows
        assert all(len(row) == len(series.columns) for row in found)


def test_blank_has_no_effect():
    """Rows whose column is blank are of no level: they get no effect, and rows of one level get the same."""
    codes = level_codes(pd.Series(["Ann", "", "Ann", "Bob"]), "")

    effects = drawn_effects(np.random.default_rng(0), EFFECTS["normal"], codes)

    assert codes.tolist() == [0, -1, 0, 2]
    assert effects[1] == 0
    assert effects[0] == effects[2] != effects[3] != 0
