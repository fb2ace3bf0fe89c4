"""Several judges of the same answers are a random factor: the interval holds for other judges."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from swapbias import measures
from swapbias.findings import disaggregate, judge_findings
from swapbias.report import judge_text
from swapbias.studies import config_rows, load_study

NAME = "stigma_vignettes"
CONFIG = "advice_gender"
(EXPERIMENT,) = [one for one in load_study(NAME).experiments if one.name == CONFIG]
STUDY = load_study(NAME).changed(
    experiments=(EXPERIMENT.changed(shows={"scores": ("score", "judged"), "slices": ()}),)
)
ROWS = pd.DataFrame(
    [row for row in config_rows(NAME, CONFIG) if row["condition"] in ("depression", "control")]
).assign(experiment=CONFIG, model_id="tiny", answer="", score=0.5)
IS_WOMAN = (ROWS["group"] == "woman").to_numpy(float)


def graded(grades, places=None):
    """The rows with what each judge gave, shape (rows,), and the options that it named."""
    columns = {}
    for judge, scores in grades.items():
        first = second = np.full(len(ROWS), math.nan)
        if places:
            first, second = places[judge]
        names = judge_findings.place_columns(judge)
        columns |= {f"judged:{judge}": scores, **dict(zip(names, (first, second), strict=True))}
    return ROWS.assign(judged=pd.DataFrame(grades).mean(axis=1).to_numpy(), **columns)


def findings_of(rows):
    return disaggregate(rows, STUDY, robustness=False, expected={})


def panel_gap(found, judge=""):
    """The gap of all judges, or of one, over the rows with a condition."""
    return next(
        one
        for one in found
        if one.score == "judged"
        and one.measure == "paired_gap"
        and one.subset == "with a condition"
        and one.slice_value == judge
    )


def of_two(found):
    """How every two judges agree, by measure and judges."""
    return {
        (one.measure, one.contrast): one.estimate.value
        for one in found
        if one.measure in ("judge_agreement", "judge_kappa", "judge_correlation")
    }


def random_judges(rng, *, gaps, noise=0.2):
    """Grades of judges with an offset of their own, a gap each, and noise."""
    return {
        f"judge {index}": rng.normal() + gap * IS_WOMAN + rng.normal(0, noise, len(ROWS))
        for index, gap in enumerate(gaps)
    }


def test_slow_definition_of_a_panel():
    """The gap of a panel is that of a row for each judge and answer, over judges and the study's
    factors."""
    rng = np.random.default_rng(1)
    grades = random_judges(rng, gaps=(0.1, 0.3, -0.1, 0.2, 0.4))
    found = panel_gap(findings_of(graded(grades)))
    scores, groups, pairs, factors = [], [], [], {"questions": [], "people": [], "judges": []}
    for judge, of_judge in grades.items():
        for row, score in zip(ROWS.to_dict("records"), of_judge, strict=True):
            if row["label"] != "with a condition":
                continue
            scores.append(score)
            groups.append(row["group"])
            pairs.append(f"{judge} {row['pair_id']}")
            factors["questions"].append(row["template"])
            factors["people"].append(row["person"])
            factors["judges"].append(judge)
    slow = measures.paired_gap(scores, groups, pairs, reference_group="man", cluster_ids=factors)
    assert found.cluster_vars == "questions + people + judges"
    assert found.estimate.n == slow.n == 5 * 54
    for name in ("value", "std_error", "df"):
        assert getattr(found.estimate, name) == pytest.approx(getattr(slow, name)), name


def test_offset_of_a_judge_is_no_gap():
    """A judge who is strict with everybody adds no gap, however strict."""
    rng = np.random.default_rng(2)
    base = rng.normal(0, 0.1, len(ROWS)) + 0.2 * IS_WOMAN
    found = findings_of(graded({f"j{strict}": base + strict for strict in (0, 3, -8, 100, 5)}))
    alone = panel_gap(found, "j0").estimate
    assert panel_gap(found).estimate.value == pytest.approx(alone.value)
    assert panel_gap(found).estimate.std_error == pytest.approx(alone.std_error, rel=0.25)


def test_gaps_of_judges_widen_the_interval():
    """Judges who disagree about the groups make an interval wider than theirs alone, and find a
    planted gap."""
    rng = np.random.default_rng(3)
    grades = random_judges(rng, gaps=(0.1, 0.5, 0.2, 0.4, 0.3), noise=0.1)
    found = findings_of(graded(grades))
    whole = panel_gap(found).estimate
    assert whole.ci_low < 0.3 < whole.ci_high
    assert whole.ci_low > 0
    for index, gap in enumerate((0.1, 0.5, 0.2, 0.4, 0.3)):
        one = panel_gap(found, f"judge {index}").estimate
        assert one.value == pytest.approx(gap, abs=0.1)
        assert one.std_error < 0.7 * whole.std_error


def test_panel_without_a_gap():
    """Of 16 panels of five judges, whose own gaps have mean 0, few intervals leave out 0."""
    rng = np.random.default_rng(4)
    outside = 0
    for _ in range(16):
        gaps = rng.normal(0, 0.1, 5)
        estimate = panel_gap(findings_of(graded(random_judges(rng, gaps=gaps)))).estimate
        outside += not estimate.ci_low <= 0 <= estimate.ci_high
    assert outside <= 3  # of a binomial of 16 and .05 more come seven times in a thousand


def test_two_judges():
    """Two judges are too few for a verdict, whatever they say."""
    rng = np.random.default_rng(5)
    found = findings_of(graded(random_judges(rng, gaps=(0.5, 0.5), noise=0.01)))
    gap = panel_gap(found)
    assert gap.verdict == "too few levels"
    assert (gap.estimate.fewest, gap.estimate.fewest_of) == (2, "judges")
    text = judge_text.state_judged([one for one in found if one.primary], found)
    assert "Too few judges: 2 judges are too few for a verdict; at least 4 are needed." in text


def test_judge_without_grades():
    """A judge who graded nothing is counted as missing, and the other is one judge."""
    rng = np.random.default_rng(6)
    grades = random_judges(rng, gaps=(0.5,), noise=0.01)
    found = findings_of(graded({**grades, "silent": np.full(len(ROWS), math.nan)}))
    gap = panel_gap(found)
    assert gap.verdict == "too few levels"
    assert (gap.estimate.n, gap.estimate.n_unscored, gap.estimate.fewest) == (54, 54, 1)
    assert panel_gap(found, "silent").verdict == "not measured"
    assert math.isnan(panel_gap(found, "silent").estimate.value)


def test_agreement_of_judges():
    """Every two judges are compared on the same readings."""
    count = len(ROWS)
    half = np.arange(count) % 2.0
    same = (half, half)
    flipped = (half, 1 - half)  # alike in the first order, never in the second
    places = {"a": same, "b": same, "c": flipped}
    found = findings_of(graded({"a": 1 - half, "b": 1 - half, "c": np.full(count, 0.5)}, places))
    assert of_two(found) == {
        ("judge_agreement", "a and b"): 1.0,
        ("judge_kappa", "a and b"): 1.0,
        ("judge_correlation", "a and b"): pytest.approx(1.0),
        ("judge_agreement", "a and c"): 0.5,
        ("judge_kappa", "a and c"): pytest.approx(0.0),
        ("judge_correlation", "a and c"): pytest.approx(math.nan, nan_ok=True),
        ("judge_agreement", "b and c"): 0.5,
        ("judge_kappa", "b and c"): pytest.approx(0.0),
        ("judge_correlation", "b and c"): pytest.approx(math.nan, nan_ok=True),
    }
    alone = {one.slice_value: one.estimate.value for one in found if one.measure == "agreement"}
    assert alone == {"a": 1.0, "b": 1.0, "c": 0.0}


def test_judge_that_is_the_model():
    """A judge of the audited model's name is named as one that grades its own answers."""
    rng = np.random.default_rng(7)
    half = np.arange(len(ROWS)) % 2.0
    judges = ("tiny", "b", "c", "d")
    places = dict.fromkeys(judges, (half, half))
    grades = dict(zip(judges, random_judges(rng, gaps=(0, 0, 0, 0)).values(), strict=True))
    judged = judge_findings.findings_of_judge(findings_of(graded(grades, places)))
    sentences = judge_text.describe_judges(judged)
    (own,) = [one for one in sentences if "its own answers" in one]
    assert own.startswith("The judge tiny is the audited model")
    assert judge_text.title_of_judges(judged) == "By 4 judges: tiny, b, c and d"
    others = {name: grades[name] for name in judges[1:]}
    judged = judge_findings.findings_of_judge(findings_of(graded(others, places)))
    assert not any("its own answers" in one for one in judge_text.describe_judges(judged))


def test_answers_that_are_not_kept():
    """Of credentialed answers, whose texts are not kept, nothing is said about blinding."""
    half = np.arange(len(ROWS)) % 2.0
    found = findings_of(graded({"a": half}, {"a": (half, half)}))
    leaks = [one for one in found if one.measure == "group_leakage"]
    assert len(leaks) == 2
    assert all(math.isnan(one.estimate.value) for one in leaks)


def test_judges_of_two_grades():
    """Where options count two numbers alone, kappa says how judges agree, and no correlation is shown."""
    rubric = EXPERIMENT.reads.rubric
    ends = tuple(option for option in rubric.candidates if option.value in (0, 1, None))
    experiment = STUDY.experiments[0].changed(reads={"rubric": replace(rubric, candidates=ends)})
    half = np.arange(len(ROWS)) % 2.0
    rows = graded({"a": half, "b": half}, dict.fromkeys("ab", (half, half)))
    study = STUDY.changed(experiments=(experiment,))
    found = disaggregate(rows, study, robustness=False, expected={})
    assert of_two(found) == {
        ("judge_agreement", "a and b"): 1.0,
        ("judge_kappa", "a and b"): 1.0,
    }
