"""Trials of a chat model repeat a sentence and are none themselves: what they may change, what the report shows."""

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
ANSWERS = next(one for one in load_study(STUDY).experiments if one.name == "answers")
SIDES = ("pro", "anti")
OCCUPATIONS = ("male_answer", "female_answer")


@pytest.fixture(scope="module")
def prompts():
    """The 48 sentences without adjectives, with one pair of adjectives and with a single one."""
    rows = config_rows(STUDY, "wino_style-stereotype")
    return [row for row in rows if row["condition"] in (BASELINE, "dry/bubbly", "old")]


def wrong(row):
    """One fixed answer a sentence, side and adjectives: wrong somewhat more often on anti, and with dry."""
    share = {"pro": 40, "anti": 50}[row["group"]] + 8 * (row["condition"] == "dry/bubbly")
    return zlib.crc32((row["template"] + row["group"]).encode()) % 100 < share


def answered(prompts, trials, fails=lambda row: wrong(row)):
    """Scored rows of an audit; ``fails`` says who answers wrong, None: no answer."""
    prompted = trial_rows(prompts, trials)
    found = []
    for row, prompt in zip(prompted, as_prompts(prompted), strict=True):
        failed = fails(row)
        score, parts = read_coreference(
            prompt, row["incorrect" if failed else "correct"].removeprefix("the "), aliases={}
        )
        if failed is None:
            score = math.nan
            parts = dict.fromkeys(parts, math.nan)
        found.append(
            {**row, "model_id": "m", "score": score, "answer": "x", "top_tokens": "[]", **parts}
        )
    return pd.DataFrame(found)


def findings_of(rows):
    return disaggregate(rows, STUDY, expected={})


def one(found, measure, *, slice_value="", contrast="pro - anti", view=""):
    wanted = (measure, slice_value, view, contrast)
    (chosen,) = [
        each
        for each in found
        if (each.measure, each.slice_value, each.view, each.contrast) == wanted
    ]
    return chosen.estimate


def test_repeating_the_same_answers_changes_no_number_but_those_of_the_published_test(prompts):
    def numbers(found):
        return pd.DataFrame([each.row() for each in found if each.view != AS_PUBLISHED])

    once, found = (findings_of(answered(prompts, trials)) for trials in (1, 5))
    assert set(numbers(once)["n"]) == {48}  # sentences, over all rows as by adjectives
    assert numbers(once)["p_value"].notna().sum() > 5
    pd.testing.assert_frame_equal(numbers(found), numbers(once), check_exact=True)
    contrast = f"pro - anti, minus {BASELINE}"
    for condition in ("dry/bubbly", "old"):
        between = one(
            found, "bias_difference", slice_value=condition, contrast=contrast, view=AS_PUBLISHED
        )
        paired = one(found, "bias_difference", slice_value=condition, contrast=contrast)
        assert (between.n, paired.n) == (10, 48)
        assert between.value == pytest.approx(paired.value)
        assert math.isnan(between.p_value)  # no trial differs from another


def test_the_bias_is_that_of_sentences_and_its_error_that_of_both_occupations(prompts):
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
    found = one(findings_of(rows), "paired_gap")
    assert found.value == pytest.approx(mean)
    assert (found.std_error, found.df) == pytest.approx((slow.std_error, slow.df))
    assert found.std_error < 100
    assert found.n == 48


def test_means_of_sides_differ_by_the_bias_and_count_sentences(prompts):
    found = findings_of(answered(prompts, 5))
    means = {side: one(found, "mean", contrast=side) for side in SIDES}
    assert means["pro"].value - means["anti"].value == pytest.approx(one(found, "paired_gap").value)
    unread = one(found, "mean", contrast="answers not readable")
    assert {
        unread.n,
        means["pro"].n,
        one(found, "answer_bias", contrast="pro - anti, strict parser").n,
    } == {48}
    # Trial 1 of every second sentence has no answer: half of the trials of half of the sentences, 25 percent.
    chosen = set(sorted({row["template"] for row in prompts})[::2])
    lost = answered(
        prompts,
        2,
        lambda row: None if row["trial"] == "1" and row["template"] in chosen else wrong(row),
    )
    found = findings_of(lost)
    whole = findings_of(answered(prompts, 2))
    assert one(found, "mean", contrast="answers missing").value == pytest.approx(25)
    assert not [each for each in whole if each.contrast == "answers missing"]
    assert (
        one(found, "paired_gap").value == one(whole, "paired_gap").value
    )  # the other trial says the same


def test_trials_are_averaged_before_adjectives_and_unanswered_ones_left_out():
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


def test_each_difference_to_the_baseline_is_paired_by_sentence_and_over_trials_as_published():
    """Of planted answers to every fourth sentence, 12, under all 16 adjectives."""
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


def test_two_models_differ_no_more_surely_when_asked_again(prompts):
    def difference(trials):
        rows = {
            "b": answered(prompts, trials, fails=lambda row: False),
            "a": answered(prompts, trials),
        }
        (found,) = [one for one in compare({STUDY: rows}) if one.primary]
        return found

    once = difference(1)
    often = difference(5)
    assert (once.estimate, once.cluster_vars) == (
        often.estimate,
        "men's occupations + women's occupations",
    )
    assert once.estimate.n == 48  # sentences
    own = one(findings_of(answered(prompts, 1)), "paired_gap").value
    assert once.estimate.value == pytest.approx(own)  # b is always right on both sides
    assert once.estimate.ci_low < own < once.estimate.ci_high


def test_bounds_leave_open_what_was_not_read_and_not_what_is_unsure():
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
    (every,) = [one for one in findings_of(pd.DataFrame(made)) if one.primary]
    assert every.missing_data_low <= every.estimate.value <= every.missing_data_high
    assert every.missing_data_low < every.missing_data_high
    read = [row for row in made if not row["said_other"]]
    whole = pd.DataFrame(
        [row for row in read if [one["pair_id"] for one in read].count(row["pair_id"]) == 2]
    )
    (known,) = [one for one in findings_of(whole) if one.primary]
    assert whole["said_unsure"].sum() > 10
    assert math.isnan(known.missing_data_low)
