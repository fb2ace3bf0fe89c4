"""The median gap: a measure of one file and one folder, which an audit uses wherever it uses the mean gap."""

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
from swapbias.measures import COMPARISONS, MOSTLY_TIED, Estimate, comparison_of, is_comparison
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


def of(values, factors=None, **more):
    values = np.asarray(values, dtype=np.float64)
    return MEDIAN.estimate(
        values, np.zeros(len(values), dtype=np.intp), (1.0,), factors or {}, **more
    )


# --- the estimate ---------------------------------------------------------------------------------------


def test_three_pairs_by_hand():
    """Differences .1, .2 and .9 have the averages .15, .5 and .55, whose median is .5; their mean is .4."""
    scores = [0.6, 0.5, 0.7, 0.5, 1.4, 0.5]
    found = MEDIAN.of_rows(
        scores, ["f", "m"] * 3, ["a", "a", "b", "b", "c", "c"], reference_group="m"
    )
    assert found.value == pytest.approx(0.5)
    assert found.n == 3


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 31])
def test_the_value_is_the_median_of_the_averages_of_every_two(n):
    values = RNG.lognormal(size=n)
    slow = np.median([(first + second) / 2 for first, second in combinations(values, 2)])
    assert of(values).value == pytest.approx(slow, abs=1e-9)


def test_a_shift_shifts_a_scale_scales_and_swapped_groups_turn_it():
    values = RNG.normal(size=TEMPLATES * WORDS)
    plain = of(values, CROSSED)
    moved = of(3 * values + 1, CROSSED)
    for name in ("value", "ci_low", "ci_high"):
        assert getattr(moved, name) == pytest.approx(3 * getattr(plain, name) + 1, abs=1e-8)
    turned = of(-values, CROSSED)
    assert (turned.value, turned.ci_low) == (
        pytest.approx(-plain.value),
        pytest.approx(-plain.ci_high),
    )
    assert turned.p_value == pytest.approx(plain.p_value)


def test_neither_the_order_of_pairs_nor_the_names_of_levels_matter():
    values = RNG.normal(size=TEMPLATES * WORDS)
    order = RNG.permutation(TEMPLATES * WORDS)
    plain = of(values, CROSSED)
    mixed = of(values[order], {name: 90 - codes[order] for name, codes in CROSSED.items()})
    assert (mixed.value, mixed.ci_low, mixed.fewest) == (
        pytest.approx(plain.value),
        pytest.approx(plain.ci_low),
        plain.fewest,
    )


def test_a_few_large_differences_move_the_mean_and_not_the_median():
    values = RNG.normal(0, 0.01, 40)
    values[:4] += 0.9
    samples = np.zeros(40, dtype=np.intp)
    assert MEAN.estimate(values, samples, (1.0,), {}).value > 0.08
    assert abs(of(values).value) < 0.01


def test_weights_count_as_copies_do():
    values = RNG.normal(size=12)
    times = np.arange(1, 13)
    shares = times / times.sum()
    assert of(values, shares=shares).value == pytest.approx(
        of(np.repeat(values, times)).value, abs=0.2
    )
    assert of(values, shares=np.full(12, 1 / 12)).value == of(values).value


def test_the_interval_is_over_the_scarcest_random_factor():
    values = (RNG.normal(size=TEMPLATES)[:, None] + RNG.normal(0, 0.1, (TEMPLATES, WORDS))).ravel()
    crossed = of(values, CROSSED)
    rows = of(values)
    assert crossed.value == rows.value
    assert crossed.ci_high - crossed.ci_low > 2 * (rows.ci_high - rows.ci_low)
    assert (crossed.fewest_of, crossed.fewest) == ("templates", TEMPLATES)


def test_one_value_for_more_than_half_of_the_pairs_says_nothing():
    values = np.where(np.arange(40) < 22, 0.0, RNG.normal(0.4, 0.1, 40))
    assert MEDIAN.why_unmeasured(values, np.zeros(40, dtype=np.intp)) == MOSTLY_TIED
    assert math.isnan(of(values).value)
    assert of(np.full(40, 0.2)).value == pytest.approx(
        0.2
    )  # all the same is the same rule as of a mean
    assert of(np.full(40, 0.2)).test == "sign test"


def test_ties_leave_an_interval():
    values = np.round(RNG.normal(0.1, 0.4, 60), 1)
    found = of(values)
    assert found.ci_low < found.value < found.ci_high
    assert found.std_error > 0.02


@pytest.mark.parametrize("draw", ["normal", "skewed scores", "ties"])
def test_where_there_is_no_gap_few_intervals_leave_out_zero(draw):
    """Crossed effects; benchmarks/truth.py does this at full size."""
    rng = np.random.default_rng(5)
    runs = 200
    wrong = 0
    for _ in range(runs):
        parts = [rng.lognormal(size=(2, *shape)) for shape in ((8, 1), (1, 10), (8, 10))]
        values = sum(part[0] - part[1] for part in parts)
        if draw != "skewed scores":
            values = sum(rng.normal(size=shape) for shape in ((8, 1), (1, 10), (8, 10)))
        found = of((np.round(values) if draw == "ties" else values).ravel(), CROSSED)
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
def test_an_audit_by_the_median_gap_is_a_normal_audit(tmp_path):
    """Screen, page, gate, JUnit, comparison and pairs, of a planted gap of 20 points."""
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
def test_the_mean_stands_beside_a_median_that_a_few_templates_do_not_move(tmp_path):
    outcome = swapbias.audit(rare, prompts=study_folder(tmp_path / "study"), progress=False)
    (one,) = [finding for finding in outcome.found if finding.primary]
    assert one.row_mean == pytest.approx(0.1, abs=0.01)
    assert abs(one.estimate.value) < 0.05
    assert "The plain mean of all pairs is +10." in " ".join(repr(outcome).split())


@pytest.mark.usefixtures("audits")
def test_scores_of_0_and_1_are_not_measured_and_say_what_to_do(tmp_path):
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
def test_several_groups_have_a_median_gap_each_and_one_test(tmp_path):
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


def test_a_plan_needs_a_little_more_for_a_median_than_for_a_mean(tmp_path):
    """The error of the estimate is that of a mean over the root of its efficiency, 3 / pi, for normal effects."""
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


def test_a_shipped_experiment_is_asked_by_the_median_gap():
    """Difference of two sets, slices and views of the same rows: names of findings are those of its measure."""
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
def test_a_name_that_no_measure_has_is_refused_with_file_and_line(tmp_path):
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
def test_every_command_reads_a_median_gap(tmp_path):
    """Plan, audit, check with JUnit, and compare."""
    folder = study_folder(tmp_path / "study")
    model = f"{planted.__module__}:planted"
    planned = command("plan", model, "--study", folder)
    assert "60 pairs, 6 templates x 10 titles" in planned
    assert "detects gaps of" in planned
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
    assert "detects gaps of" in like


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


def test_a_measure_of_another_distribution_audits_at_once(tmp_path):
    pytest.importorskip("torch", reason="needs the extra audit")
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
        ("1 / 0", "(ZeroDivisionError: division by zero). Mend or uninstall trimming."),
    ],
)
def test_what_is_no_measure_is_named_in_a_sentence(text, sentence, tmp_path):
    point = {"swapbias.measures": {"zz_gap": "trimming:TRIMMED"}}
    install(tmp_path / "site", "trimming", point, {"trimming.py": text})
    done = run(
        AUDIT.format(folder=str(study_folder(tmp_path / "study", "zz_gap"))), tmp_path / "site"
    )
    assert done.returncode != 0
    assert sentence in " ".join(done.stderr.split())


def test_no_code_compares_the_name_of_a_comparison():
    """All that is asked of one is asked of the object; its name stands in its own file and in declarations."""
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


def test_every_comparison_says_all_about_itself():
    for name in ("paired_gap", "group_gap", "median_gap"):
        comparison = comparison_of(name)
        assert is_comparison(name)
        assert comparison.name == comparison.record.name == name
        assert comparison.of_shares.is_mean
        assert isinstance(of([0.1, 0.2, 0.4]), Estimate)
    assert comparison_of("") is None
    with pytest.raises(UsageError, match="Unknown measure 'mean'"):
        comparison_of("mean")
