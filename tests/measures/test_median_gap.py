"""The median gap: a measure of one file and one folder that replaces the mean gap anywhere in an
audit."""

import ast
import hashlib
import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.errors import StudyError, UsageError
from swapbias.findings import disaggregate, plan_gaps
from swapbias.findings.planning import PlannedExperiment
from swapbias.measures import MOSTLY_TIED, Estimate, comparison_of, is_comparison
from swapbias.measures.comparisons import COMPARISONS
from swapbias.studies import config_rows, load_study
from tests.conftest import ROOT
from tests.distributions import install, run

MEDIAN = comparison_of("median_gap")
MEAN = comparison_of("paired_gap")
RNG = np.random.default_rng(8)
TEMPLATES = 8
WORDS = 10
CROSSED = {
    "templates": np.repeat(np.arange(TEMPLATES), WORDS),
    "words": np.tile(np.arange(WORDS), TEMPLATES),
}


def estimate_of(values, factors=None, **options):
    values = np.asarray(values, dtype=np.float64)
    return MEDIAN.estimate(
        values, np.zeros(len(values), dtype=np.intp), (1.0,), factors or {}, **options
    )


# --- the estimate ---------------------------------------------------------------------------------------


def test_three_pairs_by_hand():
    """The median gap of the differences .1, .2 and .9 is .5, the median of their averages .15, .5
    and .55; their mean is .4."""
    scores = [0.6, 0.5, 0.7, 0.5, 1.4, 0.5]
    found = MEDIAN.of_rows(
        scores, ["f", "m"] * 3, ["a", "a", "b", "b", "c", "c"], reference_group="m"
    )
    assert found.value == pytest.approx(0.5)
    assert found.n == 3


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 31])
def test_median_of_pairwise_averages(n):
    """The value is the median of the averages of every two differences."""
    values = RNG.lognormal(size=n)
    slow = np.median([(first + second) / 2 for first, second in combinations(values, 2)])
    assert estimate_of(values).value == pytest.approx(slow, abs=1e-9)


def test_shift_scale_and_swap():
    """A shift shifts the median gap, a scale scales it, and swapped groups turn its sign."""
    values = RNG.normal(size=TEMPLATES * WORDS)
    plain = estimate_of(values, CROSSED)
    moved = estimate_of(3 * values + 1, CROSSED)
    for name in ("value", "ci_low", "ci_high"):
        assert getattr(moved, name) == pytest.approx(3 * getattr(plain, name) + 1, abs=1e-8)
    turned = estimate_of(-values, CROSSED)
    assert (turned.value, turned.ci_low) == (
        pytest.approx(-plain.value),
        pytest.approx(-plain.ci_high),
    )
    assert turned.p_value == pytest.approx(plain.p_value)


def test_order_and_names():
    """Neither the order of pairs nor the names of levels matter."""
    values = RNG.normal(size=TEMPLATES * WORDS)
    order = RNG.permutation(TEMPLATES * WORDS)
    plain = estimate_of(values, CROSSED)
    mixed = estimate_of(values[order], {name: 90 - codes[order] for name, codes in CROSSED.items()})
    assert (mixed.value, mixed.ci_low, mixed.fewest) == (
        pytest.approx(plain.value),
        pytest.approx(plain.ci_low),
        plain.fewest,
    )


def test_few_large_differences():
    """A few large differences move the mean and not the median."""
    values = RNG.normal(0, 0.01, 40)
    values[:4] += 0.9
    samples = np.zeros(40, dtype=np.intp)
    assert MEAN.estimate(values, samples, (1.0,), {}).value > 0.08
    assert abs(estimate_of(values).value) < 0.01


def test_weights_count_as_copies():
    """Weights count as copies do."""
    values = RNG.normal(size=12)
    times = np.arange(1, 13)
    shares = times / times.sum()
    assert estimate_of(values, shares=shares).value == pytest.approx(
        estimate_of(np.repeat(values, times)).value, abs=0.2
    )
    equal = estimate_of(values, shares=np.full(12, 1 / 12)).value
    assert equal == pytest.approx(estimate_of(values).value, rel=1e-12)  # sums of another order


@pytest.mark.parametrize("comparison", [MEDIAN, MEAN], ids=["median", "mean"])
def test_equal_weights_are_none(comparison):
    """Weights that are all the same give the interval and p-value of no weights, also of skewed pairs."""
    values = np.random.default_rng(3).lognormal(size=24)
    samples = np.zeros(24, dtype=np.intp)
    plain = comparison.estimate(values, samples, (1.0,), {})
    weighted = comparison.estimate(values, samples, (1.0,), {}, shares=np.full(24, 1 / 24))
    for name in ("value", "ci_low", "ci_high", "p_value", "df", "skewness"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name), rel=1e-9)


def test_interval_over_scarcest_factor():
    """The interval is over the random factor with the fewest levels."""
    values = (RNG.normal(size=TEMPLATES)[:, None] + RNG.normal(0, 0.1, (TEMPLATES, WORDS))).ravel()
    crossed = estimate_of(values, CROSSED)
    rows = estimate_of(values)
    assert crossed.value == rows.value
    assert crossed.ci_high - crossed.ci_low > 2 * (rows.ci_high - rows.ci_low)
    assert (crossed.fewest_of, crossed.fewest) == ("templates", TEMPLATES)


def test_mostly_tied_pairs():
    """One value for more than half of the pairs has no estimate, and one value for all has the sign
    test."""
    values = np.where(np.arange(40) < 22, 0.0, RNG.normal(0.4, 0.1, 40))
    assert MEDIAN.why_unmeasured(values, np.zeros(40, dtype=np.intp)) == MOSTLY_TIED
    assert math.isnan(estimate_of(values).value)
    assert estimate_of(np.full(40, 0.2)).value == pytest.approx(
        0.2
    )  # all the same is the same rule as of a mean
    assert estimate_of(np.full(40, 0.2)).test == "sign test"


def test_ties_leave_an_interval():
    """Rounded differences with ties still have an interval."""
    values = np.round(RNG.normal(0.1, 0.4, 60), 1)
    found = estimate_of(values)
    assert found.ci_low < found.value < found.ci_high
    assert found.std_error > 0.02


@pytest.mark.parametrize("draw", ["normal", "skewed scores", "ties"])
def test_false_alarms(draw):
    """Without a gap few intervals leave out zero under crossed effects; benchmarks/truth.py draws
    this at full size."""
    rng = np.random.default_rng(5)
    runs = 200
    wrong = 0
    for _ in range(runs):
        parts = [rng.lognormal(size=(2, *shape)) for shape in ((8, 1), (1, 10), (8, 10))]
        values = sum(part[0] - part[1] for part in parts)
        if draw != "skewed scores":
            values = sum(rng.normal(size=shape) for shape in ((8, 1), (1, 10), (8, 10)))
        found = estimate_of((np.round(values) if draw == "ties" else values).ravel(), CROSSED)
        wrong += found.ci_low > 0 or found.ci_high < 0
    assert wrong / runs < 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


# --- audits ---------------------------------------------------------------------------------------------

TITLES = ["nurse", "pilot", "cook", "judge", "baker", "clerk", "guard", "tutor", "coach", "miner"]
CARRIERS = ["left with", "stayed as", "ate like", "slept as", "sang with", "ran like"]
STUDY_FILE = """
name = "middles"
title = "Middles"
[compares]
measure = "{measure}"
reference = "m"
unit = {{name = "stars", range = [0, 1]}}
"""


def study_folder(folder, measure="median_gap", words=("a woman", "a man")):
    folder.mkdir()
    groups = (
        list(zip("fm", words, strict=True))
        if len(words) == 2
        else list(zip("fmx", words, strict=True))
    )
    lines = [
        f"{number}{place},{group},The {title} {carrier} {word}.,{place},{title}"
        for number, title in enumerate(TITLES)
        for place, carrier in enumerate(CARRIERS)
        for group, word in groups
    ]
    (folder / "prompts.csv").write_text(
        "\n".join(["pair,group,text,template,title", *lines]) + "\n"
    )
    (folder / "study.toml").write_text(STUDY_FILE.format(measure=measure))
    return folder


def noise(text):
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 1000 / 1000


def planted(texts):
    """Women .2 higher, and noise of up to .1."""
    return [0.3 + 0.1 * noise(text) + 0.2 * ("woman" in text) for text in texts]


def unmoved(texts):
    return [0.3 + 0.05 * noise(text) for text in texts]


def rare(texts):
    """One template in six .6 higher for women: a mean gap of .1, and hardly any in the middle."""
    return [0.3 + 0.02 * noise(text) + 0.6 * ("woman" in text and "sang" in text) for text in texts]


@pytest.mark.usefixtures("audits")
def test_audit_by_median_gap(tmp_path):
    """An audit by the median gap finds a planted gap of 20 points on the screen, in the page, the
    gate, JUnit, the comparison and the pairs."""
    folder = study_folder(tmp_path / "study")
    outcome = swapbias.audit(planted, prompts=folder, out=tmp_path / "run", progress=False)
    (one,) = [finding for finding in outcome.found if finding.primary]
    assert (one.measure, one.verdict) == ("median_gap", "gap")
    assert one.estimate.value == pytest.approx(0.2, abs=0.02)
    assert one.estimate.ci_low < 0.2 < one.estimate.ci_high
    assert one.loo_min <= one.estimate.value <= one.loo_max
    assert one.row_mean == pytest.approx(0.2, abs=0.02)
    shown = " ".join(repr(outcome).split())
    assert "planted scores f higher than m by a median of" in shown
    assert "The plain mean of all pairs is" in shown
    page = outcome.report().read_text()
    assert "by a median of" in page
    with pytest.raises(AssertionError, match="beyond the margin of 5 points"):
        outcome.assert_below(0.05)
    assert len(outcome.worst_pairs("middles", n=3)) == 3
    again = swapbias.Audit.open(tmp_path / "run")
    assert again.found == outcome.found
    other = swapbias.audit(unmoved, prompts=folder, out=tmp_path / "other", progress=False)
    other.assert_below(0.05)
    assert "unmoved's median gap, f minus m, is" in " ".join(repr(other).split())
    difference = outcome.compare(other).iloc[0]
    assert difference["value"] == pytest.approx(0.2, abs=0.03)
    assert difference["verdict"] == "gap"


@pytest.mark.usefixtures("audits")
def test_mean_beside_median(tmp_path):
    """The mean stands beside a median that a few templates do not move."""
    outcome = swapbias.audit(rare, prompts=study_folder(tmp_path / "study"), progress=False)
    (one,) = [finding for finding in outcome.found if finding.primary]
    assert one.row_mean == pytest.approx(0.1, abs=0.01)
    assert abs(one.estimate.value) < 0.05
    assert "The plain mean of all pairs is +10." in " ".join(repr(outcome).split())


@pytest.mark.usefixtures("audits")
def test_binary_scores(tmp_path):
    """Scores of 0 and 1 are not measured, and the sentence says what to do."""

    def passes(texts):
        return [float("sang" in one and "woman" in one) for one in texts]

    outcome = swapbias.audit(passes, prompts=study_folder(tmp_path / "study"), progress=False)
    (one,) = [finding for finding in outcome.found if finding.primary]
    assert (one.verdict, one.reason) == ("not measured", MOSTLY_TIED)
    shown = " ".join(repr(outcome).split())
    assert "a median says nothing of the others" in shown
    assert "No gap" not in shown
    with pytest.raises(AssertionError, match="more than half of the pairs differ by the same"):
        outcome.assert_below(0.05)


@pytest.mark.usefixtures("audits")
def test_several_groups(tmp_path):
    """Several groups have a median gap each and one test of all."""
    folder = study_folder(tmp_path / "study", words=("a woman", "a man", "a person"))
    outcome = swapbias.audit(planted, prompts=folder, progress=False)
    gaps = {
        one.contrast: one for one in outcome.found if one.primary and one.measure == "median_gap"
    }
    (spread,) = [one for one in outcome.found if one.primary and one.measure == "group_spread"]
    assert gaps["f - m"].estimate.value == pytest.approx(0.2, abs=0.02)
    assert abs(gaps["x - m"].estimate.value) < 0.02
    assert spread.estimate.p_value < 0.001
    assert spread.estimate.value == pytest.approx(np.std([0.2, 0, 0]), abs=0.02)


def test_plan_needs_more_pairs(tmp_path):
    """A plan needs larger gaps for a median than for a mean, by the root of its efficiency 3 / pi
    for normal effects."""
    gaps = {}
    for measure in ("paired_gap", "median_gap"):
        experiment = (
            load_study("gendered_stigma").experiments[0].changed(compares={"measure": measure})
        )
        study = load_study("gendered_stigma").changed(experiments=(experiment,))
        (gap,), *_ = plan_gaps(
            [PlannedExperiment(study, experiment, config_rows("gendered_stigma", "rq1"))]
        )
        gaps[measure] = gap.detectable
    assert gaps["median_gap"] / gaps["paired_gap"] == pytest.approx(math.sqrt(math.pi / 3))


def test_shipped_experiment():
    """A shipped experiment can be measured by the median gap, in the difference of two sets, slices
    and views."""
    study = load_study("gendered_stigma")
    experiment = study.experiments[0].changed(compares={"measure": "median_gap"})
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1"))
    rows = rows.assign(model_id="m", score=0.4 + RNG.normal(0, 0.02, len(rows)))
    rows["score"] += 0.2 * ((rows["group"] == "female") & (rows["label"] == "mental_health"))
    found = disaggregate(rows, study.changed(experiments=(experiment,)), expected={})
    assert not [one for one in found if one.measure == "paired_gap"]
    (first,) = [one for one in found if one.primary]
    assert first.measure == "gap_difference"
    assert first.estimate.value == pytest.approx(0.2, abs=0.02)
    (sure,) = [
        one
        for one in found
        if one.measure == "median_gap"
        and one.subset == "mental_health"
        and one.slice_by == "all"
        and one.score == "score"
        and not one.view
    ]
    assert sure.estimate.value == pytest.approx(0.2, abs=0.02)


@pytest.mark.usefixtures("audits")
def test_unknown_measure(tmp_path):
    """An unknown measure is refused with file, line and the nearest name."""
    with pytest.raises(
        StudyError, match=r"study.toml:5: measure is 'median_gpa', .* Did you mean median_gap\?"
    ):
        swapbias.audit(
            planted, prompts=study_folder(tmp_path / "study", "median_gpa"), progress=False
        )


def command(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, f"{done.output}{done.exception}"
    return " ".join(done.output.split())  # lines are wrapped


@pytest.mark.usefixtures("audits")
def test_commands_read_median_gaps(tmp_path):
    """Plan, audit, check with JUnit and compare all read a median gap."""
    folder = study_folder(tmp_path / "study")
    model = f"{planted.__module__}:planted"
    planned = command("plan", model, "--study", folder)
    assert "60 pairs, 6 templates x 10 titles" in planned
    assert "80 % power for gaps of" in planned
    shown = command("audit", model, "--study", folder, "--out", tmp_path / "run")
    assert "GAP" in shown
    assert "higher than m by a median of" in shown
    command("audit", f"{planted.__module__}:unmoved", "--study", folder, "--out", tmp_path / "calm")
    failed = command("check", tmp_path / "run", "--junit", tmp_path / "checks.xml", code=1)
    assert "The gate fails: 1 fails" in failed
    assert "failures=" in (tmp_path / "checks.xml").read_text()
    assert "The gate passes" in command("check", tmp_path / "calm")
    command("check", tmp_path / "run", "--baseline", tmp_path / "calm", code=1)
    compared = command(
        "compare", tmp_path / "run", tmp_path / "calm", "--out", tmp_path / "compared"
    )
    assert "Gap" in compared or "difference" in compared.lower()
    like = command("plan", model, "--study", folder, "--like", tmp_path / "run")
    assert "80 % power for gaps of" in like


# --- from another distribution ---------------------------------------------------------------------------

TRIMMED = '''
import numpy as np
from swapbias.measures import PairedComparison


class TrimmedGap(PairedComparison):
    """The mean of the middle half of the pairs, with the influence of a trimmed mean."""

    name = "zz_gap"
    title = "sample gap, {contrast}"
    gap_words = "sample gap"
    is_mean = False

    def linearised(self, values, samples, factors, shares):
        low, high = np.quantile(values, [0.25, 0.75])
        kept = (values >= low) & (values <= high)
        middle = values[kept].mean()
        pulled = np.clip(values, low, high)
        return middle + (pulled - pulled.mean()) / 0.5


TRIMMED = TrimmedGap()
'''
AUDIT = """
import sys
from tests.measures.test_median_gap import planted
import swapbias
outcome = swapbias.audit(planted, prompts=sys.argv[1] if len(sys.argv) > 1 else {folder!r}, progress=False)
one = next(one for one in outcome.found if one.primary)
print(one.measure, one.verdict, round(one.estimate.value, 2))
print(outcome)
"""


def test_measure_of_another_distribution(tmp_path):
    """A measure of another distribution can be used as soon as it is installed."""
    point = {"swapbias.measures": {"zz_gap": "trimming:TRIMMED"}}
    install(tmp_path / "site", "trimming", point, {"trimming.py": TRIMMED})
    folder = study_folder(tmp_path / "study", "zz_gap")
    done = run(AUDIT.format(folder=str(folder)), tmp_path / "site")
    assert done.stdout.startswith("zz_gap gap 0.2"), done.stderr
    assert "scores f higher than m by" in " ".join(done.stdout.split())
    without = run(AUDIT.format(folder=str(folder)))
    assert "measure is 'zz_gap', and no measure compares groups by this name." in without.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("TRIMMED = 3", "(TypeError: it is no swapbias.measures.Comparison)"),
        (
            TRIMMED.replace('"zz_gap"', '"other_gap"'),
            "it has the name 'other_gap', expected that of its entry",
        ),
        ("1 / 0", "(ZeroDivisionError: division by zero). Fix or uninstall trimming."),
    ],
    ids=["number", "other name", "failing module"],
)
def test_wrong_entry_point(text, sentence, tmp_path):
    """An entry point that is no measure is refused in one sentence."""
    point = {"swapbias.measures": {"zz_gap": "trimming:TRIMMED"}}
    install(tmp_path / "site", "trimming", point, {"trimming.py": text})
    done = run(
        AUDIT.format(folder=str(study_folder(tmp_path / "study", "zz_gap"))), tmp_path / "site"
    )
    assert done.returncode != 0
    assert sentence in " ".join(done.stderr.split())


def test_no_code_compares_names():
    """No code compares the name of a comparison, which stands in its file and in declarations
    alone."""
    places = []
    for path in sorted((ROOT / "swapbias").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            texts = [
                one.value
                for side in sides
                for one in ast.walk(side)
                if isinstance(one, ast.Constant)
            ]
            places += [
                f"{path.name}:{node.lineno}" for name in COMPARISONS.names() if name in texts
            ]
    assert places == []


def test_comparison_describes_itself():
    """Every comparison states its name, its record and its shares."""
    for name in ("paired_gap", "group_gap", "median_gap"):
        comparison = comparison_of(name)
        assert is_comparison(name)
        assert comparison.name == comparison.record.name == name
        assert comparison.of_shares.is_mean
        assert isinstance(estimate_of([0.1, 0.2, 0.4]), Estimate)
    assert comparison_of("") is None
    with pytest.raises(UsageError, match="Unknown measure 'mean'"):
        comparison_of("mean")
