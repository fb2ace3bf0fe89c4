"""The simulated audits at the edges: designs, gaps and truths have their stated sizes, and rows
all cells."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import edge_designs, truth_edges
from benchmarks.edge_designs import ALL_EFFECTS, EDGES
from benchmarks.simulating import conclusion, share_of
from swapbias.findings import Check, disaggregate, primary_findings
from swapbias.findings.terms import FAILS, FOUND, NONE, OPEN, PASSES, SMALL, UNDECIDED


@pytest.fixture(scope="module")
def grid():
    return EDGES["10 x 10"]()


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(edge_designs, "_DRAWS", 20_000)


def still(edge):
    """The edge without effects."""
    return replace(
        edge, design=replace(edge.design, spreads=dict.fromkeys(edge.design.spreads, 0.0))
    )


@pytest.mark.parametrize("name", EDGES)
def test_cells_of_designs(name):
    """Every design is audited with a cell for each column."""
    for measured in truth_edges.measure_edge(name, 2):
        assert len(measured.cells) == len(truth_edges.SERIES.columns)
        assert measured.cells[2] == measured.effects


def test_any_gap_of_five_studies(monkeypatch):
    """Any gap of five studies counts."""

    def measure(name, count):
        called = (name == "10 x 10", False)
        return [
            truth_edges.Measured(effects, ("",) * 12, called) for effects in ("normal", "lognormal")
        ]

    monkeypatch.setattr(truth_edges, "measure_edge", measure)
    rows = truth_edges.SERIES.rows(0.001, 1)
    assert [row[4] for row in rows[-2:]] == [
        ".500",
        ".500",
    ]  # in one of two runs one of the five shows a gap


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("uneven templates", {"template": 12}),
        ("uneven names", {"template": 20, "fill_pair": 12}),
        ("topics", {"topic": 10, "template": 40}),
        ("adjectives", {"adjective": 8, "template": 12}),
        ("variable names", {"group_fill": 8, "reference_fill": 8}),
        ("4 x 12", {"template": 4, "fill_pair": 12}),
    ],
    ids=["uneven templates", "uneven names", "topics", "adjectives", "variable names", "4 x 12"],
)
def test_levels_of_designs(name, levels):
    """Designs have the levels that the table states."""
    rows = EDGES[name]().design.rows
    assert {column: rows[column].nunique() for column in levels} == levels


def test_uneven_templates():
    """Uneven templates have 1 to 40 rows."""
    counts = (
        EDGES["uneven templates"]()
        .design.rows.drop_duplicates("pair_id")["template"]
        .value_counts()
    )
    assert (counts.min(), counts.max(), len(counts)) == (1, 40, 12)


def test_effects_are_standardised():
    """Effects have mean 0 and a spread of 1."""
    for effects in ALL_EFFECTS.values():
        drawn = effects(np.random.default_rng(0), 400_000)
        assert (drawn.mean(), drawn.std()) == pytest.approx((0, 1), abs=0.03)


def test_replayed_audits(grid):
    """Replayed audits are those of disaggregate."""
    draw = grid.drawer(np.random.default_rng(1), "lognormal")
    conclude = conclusion(grid.design, draw(0.0))
    for planted in (0.0, 0.05, 0.3):
        scores = draw(planted)
        audited = disaggregate(
            grid.design.rows.assign(score=scores), grid.design.study, expected={}, robustness=False
        )
        (whole,), (replayed,) = primary_findings(audited), conclude(scores)
        assert replayed.verdict == whole.verdict
        assert replayed.estimate.ci_low == pytest.approx(whole.estimate.ci_low)
        assert replayed.minimum_detectable_effect == pytest.approx(whole.minimum_detectable_effect)


def test_planted_gap_of_every_group():
    """A planted gap is the gap of every group without effects."""
    for name in ("10 x 10", "5 groups"):
        edge = still(EDGES[name]())
        scores = edge.drawer(np.random.default_rng(0), "normal")(0.2)
        groups = edge.design.rows["group"].to_numpy()
        means = {group: scores[groups == group].mean() for group in set(groups)}
        reference = means.pop("male")
        assert [mean - reference for mean in means.values()] == pytest.approx([0.2] * len(means))


@pytest.mark.parametrize("name", ["steps", "rate 0.02", "rate 0.98", "rankings"])
def test_gap_of_rounded_scores(name, monkeypatch):
    """Scores that are rounded or ranked have the intended gap."""
    monkeypatch.setattr(edge_designs, "_DRAWS", 200_000)
    edge = EDGES[name]()
    draw = edge.drawer(np.random.default_rng(2), "normal")
    latent = edge.latent_gap("normal", edge.limit)
    groups = edge.design.rows["group"].to_numpy()
    gaps = []
    for _ in range(800):
        scores = draw(latent)
        gaps.append(scores[groups != "male"].mean() - scores[groups == "male"].mean())
    assert np.mean(gaps) == pytest.approx(edge.limit, abs=4 * np.std(gaps) / math.sqrt(800))


def test_rates_at_their_limit():
    """Rates at their limit have a ratio of 1.25."""
    edge = EDGES["rate 0.02"]()
    assert (0.02 + edge.limit / 2) / (0.02 - edge.limit / 2) == pytest.approx(1.25)
    assert EDGES["rate 0.98"]().limit == pytest.approx(edge.limit)
    assert EDGES["rate 0.5"]().limit == 0.05


def test_few_affected_levels():
    """A few affected levels make the whole gap."""
    edge = EDGES["few affected"]()
    simulated = replace(edge, read=None).drawer(np.random.default_rng(0), "1 of 20")
    rows = edge.design.rows
    pairs = rows[rows["group"] == "female"].index, rows[rows["group"] == "male"].index
    scores = np.array([simulated(edge.limit) for _ in range(400)])
    differences = scores[:, pairs[0]] - scores[:, pairs[1]]
    affected = differences > 0.5
    assert differences[~affected] == pytest.approx(0.0, abs=1e-9)
    assert differences[affected] == pytest.approx(1.0)
    assert affected.mean() == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("verdict", "outcome", "disagree"),
    [
        (NONE, PASSES, False),
        (SMALL, PASSES, False),
        (FOUND, FAILS, False),
        (FOUND, OPEN, False),
        (UNDECIDED, OPEN, False),
        (UNDECIDED, PASSES, True),
        (NONE, OPEN, True),
        (UNDECIDED, FAILS, True),
    ],
)
def test_disagreeing_verdicts(grid, verdict, outcome, disagree):
    """A verdict and a gate that disagree are reported."""
    (finding,) = conclusion(grid.design, grid.drawer(np.random.default_rng(3), "normal")(0.0))(
        grid.drawer(np.random.default_rng(4), "normal")(0.0)
    )
    check = Check(finding=replace(finding, verdict=verdict), margin=0.05, outcome=outcome)
    assert truth_edges.disagrees(check) == disagree


@pytest.mark.simulation
def test_null_audits(grid):
    """Null audits of a balanced grid err as rarely as stated."""
    auditor = truth_edges.Auditor(grid, "normal", 300, 5)
    called = share_of(
        check.finding.verdict in truth_edges.CALLED
        for audit in auditor.audits(0.0)
        for check in audit
    )
    assert called < 0.1
    assert auditor.passed() < 0.08
    assert auditor.disagreeing == 0
