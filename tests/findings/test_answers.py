"""Trials of a chat model repeat a sentence and are no sentences of their own: numbers they
change and keep."""

import math
import zlib

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import compare, disaggregate
from swapbias.findings.predictions import BASELINE
from swapbias.findings.scored_rows import by_sentence, over_trials
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures.contrast import linear_contrast
from swapbias.models.chat.chat_kind import trial_rows
from swapbias.studies.answer_scores import read_coreference
from swapbias.studies.catalogue import as_prompts, config_rows, load_study
from swapbias.studies.prompt import PROMPT_COLUMNS

STUDY = "adjective_coreference"
ANSWERS = next(
    estimate_in for estimate_in in load_study(STUDY).experiments if estimate_in.name == "answers"
)
SIDES = ("pro", "anti")
OCCUPATIONS = ("male_answer", "female_answer")


@pytest.fixture(scope="module")
def prompts():
    """The 48 sentences without adjectives, with one pair of adjectives and with a single one."""
    rows = config_rows(STUDY, "wino_style-stereotype")
    return [row for row in rows if row["condition"] in (BASELINE, "dry/bubbly", "old")]


def is_wrong(row):
    """One fixed answer a sentence, side and adjectives: wrong somewhat more often on anti, and with dry."""
    share = {"pro": 40, "anti": 50}[row["group"]] + 8 * (row["condition"] == "dry/bubbly")
    return zlib.crc32((row["template"] + row["group"]).encode()) % 100 < share


def answered(prompts, trials, fails=lambda row: is_wrong(row)):
    """Scored rows of an audit; ``fails`` says who answers wrong, None: no answer."""
    prompted = trial_rows(prompts, trials)
    scored_rows = []
    for row, prompt in zip(prompted, as_prompts(prompted), strict=True):
        failed = fails(row)
        score, parts = read_coreference(
            prompt, row["incorrect" if failed else "correct"].removeprefix("the "), aliases={}
        )
        if failed is None:
            score = math.nan
            parts = dict.fromkeys(parts, math.nan)
        scored_rows.append(
            {**row, "model_id": "m", "score": score, "answer": "x", "top_tokens": "[]", **parts}
        )
    return pd.DataFrame(scored_rows)


def findings_of(rows):
    return disaggregate(rows, STUDY, expected={})


def estimate_in(findings, measure, *, slice_value="", contrast="pro - anti", view=""):
    wanted = (measure, slice_value, view, contrast)
    (chosen,) = [
        finding
        for finding in findings
        if (finding.measure, finding.slice_value, finding.view, finding.contrast) == wanted
    ]
    return chosen.estimate


def test_repeated_answers(prompts):
    """Repeating the same answers changes no number but those of the published test."""

    def numbers(found):
        return pd.DataFrame([each.row() for each in found if each.view != AS_PUBLISHED])

    once, found = (findings_of(answered(prompts, trials)) for trials in (1, 5))
    assert set(numbers(once)["n"]) == {48}  # sentences, over all rows as by adjectives
    assert numbers(once)["p_value"].notna().sum() > 5
    pd.testing.assert_frame_equal(numbers(found), numbers(once), check_exact=True)
    contrast = f"pro - anti, minus {BASELINE}"
    for condition in ("dry/bubbly", "old"):
        between = estimate_in(
            found, "bias_difference", slice_value=condition, contrast=contrast, view=AS_PUBLISHED
        )
        paired = estimate_in(found, "bias_difference", slice_value=condition, contrast=contrast)
        assert (between.n, paired.n) == (10, 48)
        assert between.value == pytest.approx(paired.value)
        assert math.isnan(between.p_value)  # no trial differs from another


def test_bias_over_sentences(prompts):
    """The bias is that of sentences, and its error that of both occupations."""
    # Each trial flips a coin of its own: the slow way, a sentence's gap is the mean over its 3 x 4 pairs of answers.
    rng = np.random.default_rng(3)
    rows = answered(
        prompts, 4, lambda row: bool(rng.random() < (0.5 if row["group"] == "anti" else 0.3))
    )
    gaps = []
    occupations = {name: [] for name in OCCUPATIONS}
    for _, mine in rows.groupby("template", sort=False):
        assert len(mine) == 3 * 4 * 2
        sides = [mine.loc[mine["group"] == side, "score"].mean() for side in SIDES]
        gaps.append(sides[0] - sides[1])
        for name, values in occupations.items():
            (value,) = set(mine[name])
            values.append(value)
    # Over both ways at once, by the moments of indicators in ``tests/measures/test_crossed.py``.
    gaps, mean = np.array(gaps), np.mean(gaps)
    factors = {
        name: np.unique(values, return_inverse=True)[1] for name, values in occupations.items()
    }
    slow = linear_contrast(gaps, np.zeros(48, dtype=int), (1.0,), factors, confidence=1 - 0.05 / 2)
    found = estimate_in(findings_of(rows), "paired_gap")
    assert found.value == pytest.approx(mean)
    assert (found.std_error, found.df) == pytest.approx((slow.std_error, slow.df))
    assert found.std_error < 100
    assert found.n == 48


def test_means_of_sides(prompts):
    """Means of the two sides differ by the bias and count sentences."""
    found = findings_of(answered(prompts, 5))
    means = {side: estimate_in(found, "mean", contrast=side) for side in SIDES}
    assert means["pro"].value - means["anti"].value == pytest.approx(
        estimate_in(found, "paired_gap").value
    )
    unread = estimate_in(found, "mean", contrast="answers not readable")
    assert {
        unread.n,
        means["pro"].n,
        estimate_in(found, "answer_bias", contrast="pro - anti, strict parser").n,
    } == {48}
    # Trial 1 of every second sentence has no answer: half of the trials of half of the sentences, 25 percent.
    chosen = set(sorted({row["template"] for row in prompts})[::2])
    lost = answered(
        prompts,
        2,
        lambda row: None if row["trial"] == "1" and row["template"] in chosen else is_wrong(row),
    )
    found = findings_of(lost)
    whole = findings_of(answered(prompts, 2))
    assert estimate_in(found, "mean", contrast="answers missing").value == pytest.approx(25)
    assert not [each for each in whole if each.contrast == "answers missing"]
    assert (
        estimate_in(found, "paired_gap").value == estimate_in(whole, "paired_gap").value
    )  # the other trial says the same


def test_trials_before_adjectives():
    """Trials are averaged before adjectives are compared, and unanswered ones are left out."""
    # s1, old: pro 100 and 0 -> 50, anti 0 (one trial unanswered); s1, mean: anti unanswered, so pro is left out.
    # s1: 50 and 0. s2, old: 100 and 100 of one trial. s3: nothing complete.
    nan = math.nan
    names = ("template", "condition", "group", "trial", "score")
    scores = [
        ("s1", "old", "pro", "1", 100.0), ("s1", "old", "pro", "2", 0.0),
        ("s1", "old", "anti", "1", nan), ("s1", "old", "anti", "2", 0.0),
        ("s1", "mean", "pro", "1", 100.0), ("s1", "mean", "anti", "1", nan),
        ("s2", "old", "pro", "1", 100.0), ("s2", "old", "anti", "1", 100.0),
        ("s3", "old", "pro", "1", nan), ("s3", "old", "anti", "1", 100.0),
    ]  # fmt: skip
    rows = pd.DataFrame(scores, columns=names).assign(
        **dict.fromkeys(set(PROMPT_COLUMNS) - {*names}, "")
    )
    trials = over_trials(rows).set_index(["pair_id", "group"])["score"]
    assert (trials["s1/old", "pro"], trials["s1/old", "anti"], trials["s1/mean", "pro"]) == (
        50,
        0,
        100,
    )
    pairs = by_sentence(ANSWERS, rows).pivot(index="template", columns="group", values="score")
    assert pairs.loc["s1"].to_dict() == {"pro": 50, "anti": 0}
    assert pairs.loc["s2"].to_dict() == {"pro": 100, "anti": 100}
    assert pairs.loc["s3"].isna().all()


def test_difference_to_baseline():
    """The difference of each of 16 adjectives to the baseline is paired by sentence, and over
    trials in the published view."""
    rows = config_rows(STUDY, "wino_style-stereotype")
    chosen = {*[*dict.fromkeys(row["template"] for row in rows)][::4]}
    audited = findings_of(answered([row for row in rows if row["template"] in chosen], 2))
    differences = [each for each in audited if each.measure == "bias_difference"]
    assert len(differences) == 2 * 15
    assert {each.estimate.n for each in differences if each.view} == {4}
    # Of 12 sentences each woman's occupation stands beside one man's alone.
    designed = [each for each in differences if not each.view]
    assert {(each.estimate.n, each.cluster_vars) for each in designed} == {
        (12, "men's occupations")
    }
    dry = next(each.estimate for each in designed if each.slice_value == "dry/bubbly")
    assert dry.ci_low < dry.value < dry.ci_high
    wanted = ("paired_gap", "adjectives", "")
    gaps = [each for each in audited if (each.measure, each.slice_by, each.view) == wanted]
    assert len(gaps) == 16
    for each in gaps:
        assert each.estimate.n == 12
        assert each.estimate.ci_low <= each.estimate.value <= each.estimate.ci_high


def test_repeated_questions_add_no_certainty(prompts):
    """Two models differ no more surely when they are asked again."""

    def difference(trials):
        rows = {
            "b": answered(prompts, trials, fails=lambda row: False),
            "a": answered(prompts, trials),
        }
        (found,) = [estimate_in for estimate_in in compare({STUDY: rows}) if estimate_in.primary]
        return found

    once = difference(1)
    often = difference(5)
    assert (once.estimate, once.cluster_vars) == (
        often.estimate,
        "men's occupations + women's occupations",
    )
    assert once.estimate.n == 48  # sentences
    own = estimate_in(findings_of(answered(prompts, 1)), "paired_gap").value
    assert once.estimate.value == pytest.approx(own)  # b is always right on both sides
    assert once.estimate.ci_low < own < once.estimate.ci_high


def test_bounds_of_unread_answers():
    """Bounds leave open what was not read and not what is unsure."""
    rows = config_rows(STUDY, "wino_style-stereotype")[:384]
    made = []
    for place, (row, prompt) in enumerate(zip(rows, as_prompts(rows), strict=True)):
        answer = (
            row["correct"].removeprefix("the ")
            if place % 3
            else ("unsure" if place % 2 else "It is hard.")
        )
        score, parts = read_coreference(prompt, answer, aliases={})
        made.append({**row, "model_id": "m", "trial": "1", "score": score, **parts})
    (every,) = [
        estimate_in for estimate_in in findings_of(pd.DataFrame(made)) if estimate_in.primary
    ]
    assert every.missing_data_low <= every.estimate.value <= every.missing_data_high
    assert every.missing_data_low < every.missing_data_high
    read = [row for row in made if not row["said_other"]]
    whole = pd.DataFrame(
        [
            row
            for row in read
            if [estimate_in["pair_id"] for estimate_in in read].count(row["pair_id"]) == 2
        ]
    )
    (known,) = [estimate_in for estimate_in in findings_of(whole) if estimate_in.primary]
    assert whole["said_unsure"].sum() > 10
    assert math.isnan(known.missing_data_low)
