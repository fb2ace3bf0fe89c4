"""A verdict is one plain sentence that claims no more than its finding."""

import math
import re
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import Finding, disaggregate
from swapbias.findings.terms import VERDICTS
from swapbias.measures import Estimate
from swapbias.report import (
    cautions,
    claims,
    finding_names,
    meanings,
    numbers,
    terminal_text,
    verdicts,
)
from swapbias.studies import config_rows, load_study, studies

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = VERDICTS
SURE_VERDICTS = (FOUND, SMALL, UNSTABLE)
SURE_WORDS = ("prefers women's words", "prefers men's words")


def summary(results, found=()):
    return " ".join(map(str, verdicts.state_verdicts(results, found)))


def answer(finding, found=()):
    return SimpleNamespace(
        sentence=summary([finding], found),
        certainty=cautions.describe_certainty(finding),
        meaning=meanings.sign_meaning(finding),
        cautions=[*cautions.list_cautions(finding)],
    )


def gap(value, verdict, *, std_error=0.01, width=0.02, **options):
    ends = {"ci_low": value - width, "ci_high": value + width} if not math.isnan(std_error) else {}
    facts = {
        "study": "gendered_stigma", "experiment": "rq1", "model_id": "m", "measure": "paired_gap",
        "contrast": "female - male", "unit": "probability mass at the mask", "primary": True, "margin": 0.05,
        "cluster_vars": "templates + diagnoses", "verdict": verdict, "minimum_detectable_effect": 0.03,
    }  # fmt: skip
    return Finding(
        **{**facts, **options}, estimate=Estimate(value, n=10, std_error=std_error, **ends)
    )


MOVES = (
    "m's gap between women and men differs between mental-health conditions and "
    "other health conditions"
)
SETS = {"within": "mental_health", "against": "other_health"}


def moved(group):
    """The claim that a gap lies further toward a group, as far as its size."""
    sets = "mental-health conditions than with other health conditions"
    return f"m's gap lies further toward {group} with {sets}, by"


def change(value, verdict, **options):
    return gap(
        value,
        verdict,
        measure="gap_difference",
        subset=" - ".join(SETS.values()),
        **SETS,
        **options,
    )


WOMEN = "m's gap, women minus men, is"
WITHIN_MARGIN = "The whole interval is within the margin of 5 points."
BELOW_MARGIN = "The gap is smaller than the margin of 5 points."
MAY_BE_CHANCE = "This may be chance, and may be larger than the margin of 5 points."
STIGMA = {"study": "social_distance", "contrast": "stigmatized - other"}
LOG_ODDS = "mean log-odds of the disapproving antonym"


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            gap(0.1, FOUND, slice_by="phenotype", slice_value="own"),
            "Gap: for these notes, m prefers women's words by 10.0 points (95 % interval 8.0 to 12.0).",
        ),
        (
            gap(0.1, FOUND),
            "Gap: m prefers women's words by 10.0 points (95 % interval 8.0 to 12.0).",
        ),
        (
            gap(-0.1, FOUND),
            "Gap: m prefers men's words by 10.0 points (95 % interval 8.0 to 12.0).",
        ),
        (
            gap(-0.012, SMALL, width=0.01),
            f"Gap: m prefers men's words by 1.2 points (95 % interval 0.2 to 2.2). {BELOW_MARGIN}",
        ),
        (
            gap(0.1, UNSTABLE, sign_agreement=0.4),
            "Gap: m prefers women's words by 10.0 points (95 % interval 8.0 to 12.0). Not robust: only 40 % of "
            "rewordings have the same sign.",
        ),
        (
            gap(0.01, NONE),
            f"No gap: {WOMEN} +1.0 points (95 % interval −1.0 to +3.0). {WITHIN_MARGIN}",
        ),
        (
            gap(0.0, NONE, std_error=math.nan),
            "No gap: all 10 pairs about women and men score the same.",
        ),
        (
            gap(-0.06, UNDECIDED, width=0.07),
            f"Undecided: {WOMEN} −6.0 points (95 % interval −13.0 to +1.0). {MAY_BE_CHANCE}",
        ),
        (
            gap(0.06, UNDECIDED, std_error=math.nan),
            f"Undecided: {WOMEN} +6.0 points. There is no interval, because too little varies or was scored.",
        ),
        (
            gap(0.0, UNDECIDED, std_error=math.nan),
            "Undecided: all 10 pairs about women and men score the same, but 72 are needed to rule out a gap of 5 "
            "points.",
        ),
        (
            gap(0.0, UNMEASURED, std_error=math.nan, reason="same_score"),
            "Not measured: m gives every prompt the same score.",
        ),
        (
            gap(0.0, UNMEASURED, std_error=math.nan, reason="same_input"),
            "Not measured: m reads the same input for both texts of each pair.",
        ),
        (
            gap(0.0, UNMEASURED, std_error=math.nan, reason="unread_swap"),
            "Not measured: m does not seem to read the swapped words. Strong words in their place move no score "
            "either.",
        ),
        (gap(math.nan, UNDECIDED), "Not measured: m could not score what the question needs."),
        (
            gap(0.0001, SMALL, width=0.0),
            f"Gap: m prefers women's words by less than 0.1 points (95 % interval 0.01 to 0.01). {BELOW_MARGIN}",
        ),
        (
            gap(0.3, FOUND, **STIGMA, experiment="antonyms", unit=LOG_ODDS, width=0.1),
            "Gap: m disapproves more of stigmatized people than of other people by an odds ratio of 1.35 (95 % "
            "interval 1.22 to 1.49).",
        ),
        (
            gap(0.07, FOUND, **STIGMA, experiment="sentiment", unit="share of negative labels"),
            "Gap: m labels sentences about stigmatized people negative more often than those about other people by "
            "7.0 points (95 % interval 5.0 to 9.0).",
        ),
        (
            gap(0.03, NONE, **STIGMA, experiment="antonyms", unit=LOG_ODDS, margin=0.2),
            "No gap: m's gap, stigmatized people minus other people, is an odds ratio of 1.03 (95 % interval 1.01 to "
            "1.05). The whole interval is within the margin of 1.22.",
        ),
        (
            replace(
                gap(0.1, TOO_FEW), estimate=Estimate(0.1, n=3, fewest=3, fewest_of="templates")
            ),
            "Too few templates: 3 templates are too few for a verdict; at least 4 are needed. Among them m's gap, "
            "women minus men, is +10.0 points.",
        ),
        (
            replace(gap(-0.06, FOUND), estimate=Estimate(-0.06, n=20, p_value=0.001)),
            "Gap: m prefers men's words by 6.0 points in each of 20 pairs.",
        ),
        (
            gap(0.031, "", measure="flip_rate", unit="share of notes"),
            "m: the share of notes whose prediction changes with the patient's gender is 3.1 % (95 % interval 1.1 % "
            "to 5.1 %).",
        ),
        (
            gap(0.41, "", measure="correlation", contrast="attitude", unit="correlation"),
            "m: correlation, attitude is 0.410 (95 % interval 0.390 to 0.430).",
        ),
    ],
    ids=lambda case: case[:60] if isinstance(case, str) else case.verdict,
)
def test_sentence_of_each_verdict(finding, said):
    """Each verdict has its sentence."""
    assert answer(finding).sentence == said


CERTAINTIES = {"sure": {}, "unsure": {"width": 0.2}, "no interval": {"std_error": math.nan}}
SIGN_AGREEMENTS = (math.nan, 0.4, 1.0)
INFLUENTIAL_ITEMS = ("", '[["score", "x", "-0.1"]]')
UNSCORED_SHARES = (math.nan, 0.3)


def parts(first, second, *verdicts):
    finding = gap(first, verdicts[0], subset="mental_health", primary=False)
    return [finding, gap(second, verdicts[-1], subset="other_health", primary=False)]


@pytest.mark.parametrize(
    ("difference", "beside", "said"),
    [
        (
            change(0.007, NONE),
            parts(-0.105, -0.112, FOUND),
            f"No gap: {MOVES} by +0.7 points (95 % interval −1.3 to +2.7). {WITHIN_MARGIN} "
            "Gap: in each case m prefers men's words, by 10.5 points with mental-health conditions and by 11.2 "
            "points with other health conditions. Each interval leaves out zero.",
        ),
        (
            change(0.1, FOUND),
            parts(0.1, 0.0, FOUND, NONE),
            f"Gap: {moved('women')} 10.0 points (95 % interval 8.0 to 12.0). With mental-health "
            "conditions, m prefers women's words by 10.0 points (95 % interval 8.0 to 12.0). With other health "
            f"conditions, {WOMEN} 0.0 points (95 % interval −2.0 to +2.0). {WITHIN_MARGIN}",
        ),
        (
            change(-0.01, UNDECIDED),
            [],
            f"Undecided: {MOVES} by −1.0 points (95 % interval −3.0 to +1.0). {MAY_BE_CHANCE}",
        ),
        (
            change(-0.1, FOUND),
            [],
            f"Gap: {moved('men')} 10.0 points (95 % interval 8.0 to 12.0).",
        ),
    ],
    ids=["no gap", "gap", "undecided", "gap toward men"],
)
def test_difference_of_gaps(difference, beside, said):
    """A difference of gaps is described with both gaps."""
    assert answer(difference, beside).sentence == said


def test_phenotypes_are_not_pooled():
    """Gaps of several phenotypes are never pooled."""

    def of(value, verdict, name):
        return gap(value, verdict, slice_by="phenotype", slice_value=name)

    found = [of(0.1, FOUND, "a"), of(0.3, FOUND, "b"), of(-0.2, FOUND, "c"), of(0.01, NONE, "d")]
    found.append(of(0.05, FOUND, "e"))
    assert summary(found) == (
        "Gap: for b, m prefers women's words by 30.0 points (95 % interval 28.0 to 32.0). Gap: for c, m prefers "
        "men's words by 20.0 points (95 % interval 18.0 to 22.0). Gap: the gaps for a and e lie toward women by up "
        f"to 10.0 points. No gap: for d, {WOMEN} +1.0 points (95 % interval −1.0 to +3.0). {WITHIN_MARGIN}"
    )


def test_study_without_words(monkeypatch):
    """A study without words of its own has plain ones."""
    monkeypatch.setattr("swapbias.report.claims.experiment_of", lambda finding: None)
    monkeypatch.setattr("swapbias.report.finding_names.experiment_of", lambda finding: None)
    one = gap(0.1, FOUND, contrast="cats - dogs", group="cats", reference_group="dogs")
    assert (
        answer(one).sentence
        == "Gap: m scores cats higher than dogs by 10.0 points (95 % interval 8.0 to 12.0)."
    )


def of_groups(experiment, measure, **options):
    """A primary finding of the prompt packs; sides as in the fields of findings."""
    contrast = f"{options.get('group', '')} - {options.get('reference_group', '')}"
    facts = {
        "study": "group_packs",
        "experiment": experiment,
        "measure": measure,
        "contrast": contrast,
    }
    return partial(gap, **{**facts, "unit": "probability of positive sentiment", **options})


def nation(value, verdict, name, **options):
    finding = of_groups(
        "occupation_nationality", "paired_gap", group=name, reference_group="American"
    )
    return finding(value, verdict, **options)


def spread(p, experiment="occupation_nationality", value=0.04, **options):
    finding = of_groups(experiment, "group_spread", contrast="all groups", **options)(value, "")
    return replace(
        finding, estimate=Estimate(value, p_value=p, p_adjusted=p, n=10, test="F"), margin=math.nan
    )


def test_several_groups():
    """Several groups are described by the test of all, the largest gap and the groups that differ."""
    found = [
        nation(-0.12, FOUND, "Egyptian"),
        nation(-0.064, FOUND, "Nigerian"),
        nation(-0.06, FOUND, "Indian"),
        nation(0.02, SMALL, "British"),
        nation(0.001, NONE, "Polish"),
        nation(0.0, NONE, "Chinese", std_error=math.nan),
        nation(-0.06, UNDECIDED, "Russian"),
        nation(0.07, UNDECIDED, "Mexican"),
        spread(0.001),
    ]
    assert summary(found) == (
        "Gap: m scores the 10 groups differently (one test of all, p 0.001). Gap: m scores American higher "
        "than Egyptian by 12.0 points (95 % interval 10.0 to 14.0). Gap: the gaps Nigerian minus American and "
        "Indian minus American lie toward American by up to 6.4 points. Gap: m scores British higher than "
        "American by 2.0 points (95 % interval 0.0 to 4.0). The gap is smaller than the margin of 5 points. No gap: "
        "the gaps Polish minus American and Chinese minus American are within the margin of 5 points. Undecided: "
        "the gaps Russian minus American and Mexican minus American may be chance."
    )


@pytest.mark.parametrize(
    ("p", "value", "said"),
    [
        (0.049, 0.04, "Gap: m scores the 10 groups differently (one test of all, p 0.049)."),
        (
            0.051,
            0.04,
            "Undecided: no difference among the 10 groups of m was found (one test of all, p 0.051).",
        ),
        (math.nan, 0.0, "No gap: m scores the 10 groups the same."),
        (
            math.nan,
            0.04,
            "Undecided: no difference among the 10 groups of m was found (too little varies for a test).",
        ),
    ],
    ids=["below .05", "above .05", "equal", "too little varies"],
)
def test_of_all_groups(p, value, said):
    """The test of all groups states no more than its p-value."""
    assert summary([nation(0.01, NONE, "Polish"), spread(p, value=value)]).startswith(said)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("verdict", VERDICTS)
def test_claims_about_several_groups(verdict, sign):
    """No sentence about several groups claims more than its verdicts, for each pair of verdicts of
    gaps, effects and differences of gaps."""
    effect = of_groups(
        "occupation_names",
        "main_effect",
        contrast="race: black - white",
        group="black",
        reference_group="white",
    )
    both = of_groups(
        "occupation_names",
        "interaction",
        contrast="g x r: (woman - man) x (black - white)",
        group="woman",
        reference_group="man",
        within="black",
        against="white",
    )
    three = of_groups("occupation_names", "interaction_of_three", contrast="a x b x c: all")
    for other, way in product(VERDICTS, (1, -1)):
        for one, more in ((effect, both), (both, effect), (three, effect)):
            first, second = one(sign * 0.2, verdict), more(way * 0.07, other)
            output = summary([spread(0.01, "occupation_names"), first, second])
            for word, names in (
                ("Gap: ", SURE_VERDICTS),
                ("No gap: ", (NONE,)),
                ("Undecided: ", (UNDECIDED,)),
                ("Not measured: ", (UNMEASURED,)),
                ("Too few pairs: ", (TOO_FEW,)),
            ):
                of_both = [
                    one in names for one in (verdict, other)
                ]  # unsure ones are said in one sentence
                assert output.count(word) == (1 + sum(of_both) if word == "Gap: " else any(of_both))
            if verdict in SURE_VERDICTS:
                toward = {
                    effect: ("black higher than white", "white higher than black"),
                    both: ("toward woman", "toward man"),
                    three: ("interaction", "interaction"),
                }[one]
                assert toward[sign < 0] in output
            assert "nan" not in output
            assert answer(first).sentence.endswith(".")


SIZES = (0.002, 0.049, 0.05, 0.2)  # below, just below, at and above the margin


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("certainty", CERTAINTIES)
@pytest.mark.parametrize(
    "beside", [None, (), (FOUND, FOUND), (FOUND, NONE), (UNDECIDED, SMALL)], ids=str
)
def test_claims_of_a_sentence(verdict, certainty, beside):
    """No sentence claims more than its verdict, for each combination of sign, size, certainty,
    rewordings, influences and missing scores."""
    exact = certainty == "no interval"
    sure = verdict in SURE_VERDICTS
    both = parts(0.1, -0.1, *beside) if beside else []
    known = [*product(SIGN_AGREEMENTS, INFLUENTIAL_ITEMS, UNSCORED_SHARES)]
    for sign, size, (kept, turned, lost) in product(
        (1, -1), SIZES, (known[0], known[-1]) if beside else known
    ):
        finding = (gap if beside is None else change)(
            sign * size,
            verdict,
            **CERTAINTIES[certainty],
            sign_agreement=kept,
            influential_items=turned,
            missing_data_low=size - lost,
            missing_data_high=size + lost,
        )
        finding = replace(
            finding, estimate=replace(finding.estimate, n_unscored=0 if math.isnan(lost) else 3)
        )
        output = answer(finding, both)
        first = str(verdicts.state_verdict(finding))
        if beside is None:
            assert [words in first for words in SURE_WORDS] == [
                sure and sign > 0,
                sure and sign < 0,
            ]
            assert ("no interval" in output.certainty) == exact
        else:
            assert (f" toward {'women' if sign > 0 else 'men'} with " in first) == sure
            claims = [one in SURE_VERDICTS for one in beside or (NONE, NONE)]
            assert [claim in output.sentence for claim in SURE_WORDS] == claims
            assert ("no interval" in first) == (exact and verdict == UNDECIDED)
        assert output.sentence.startswith(first)
        assert ("smaller than the margin of 5 points" in first) == (verdict == SMALL)
        assert ("Not robust" in first) == (verdict == UNSTABLE)
        assert ("whole interval is within the margin" in first) == (verdict == NONE)
        cautions = " ".join(output.cautions)
        assert ("of rewordings have the same sign" in cautions) == (not math.isnan(kept))
        assert ("x has the other sign" in cautions) == bool(turned)
        assert ("Counting missing answers either way" in cautions) == (not math.isnan(lost))
        assert ("could turn its sign" in cautions) == (size < lost)
        assert ("3 of 13 units (23 %) were not scored." in output.cautions) == (
            not math.isnan(lost)
        )
        assert all(
            text.endswith(".") and "nan" not in text for text in (output.sentence, *output.cautions)
        )


def test_lost_gap_and_test_of_rates():
    """A lost gap is named, and a test of rates states what differs."""
    lost = [
        gap(math.nan, "", slice_by="phenotype", slice_value="lost"),
        gap(0.1, FOUND, slice_by="phenotype"),
    ]
    assert "Not measured: for lost, " in summary([replace(lost[0], verdict=UNDECIDED), lost[1]])
    one = replace(spread(0.2), contrast="all groups, positives")
    assert (
        answer(one).sentence
        == "m: all groups, positives: no difference shown (one test of all, p 0.200)."
    )


@pytest.mark.parametrize("verdict", ["", *(one for one in VERDICTS if one != UNMEASURED)])
def test_unscored_is_no_answer(verdict):
    """A question without scores has no answer, whatever else is known."""
    for kept, turned, measure in product(
        SIGN_AGREEMENTS, INFLUENTIAL_ITEMS, ("paired_gap", "gap_difference", "flip_rate")
    ):
        sets = SETS if measure == "gap_difference" else {}
        finding = gap(
            math.nan,
            verdict,
            measure=measure,
            **sets,
            sign_agreement=kept,
            influential_items=turned,
        )
        output = answer(finding)
        assert output.sentence == "Not measured: m could not score what the question needs."
        assert output.certainty == ""
        assert "nan" not in " ".join(output.cautions)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (gap(0.95, FOUND, width=0.1), "+85.0 to +100.0"),
        (gap(-0.95, FOUND, width=0.1), "−100.0 to −85.0"),
        (change(-1.5, FOUND, width=1.0), "−200.0 to −50.0"),
        (gap(0.02, "", measure="mean", contrast="female", width=0.1), "0.0 to 12.0"),
        (gap(0.98, "", measure="flip_rate", unit="share of notes", width=0.1), "88.0 % to 100.0 %"),
        (
            gap(0.3, FOUND, unit="mean log-odds of the disapproving antonym", width=9.0),
            "−8.700 to +9.300",
        ),
        (gap(0.3, FOUND, std_error=math.nan), "–"),
    ],
    ids=["upper end", "lower end", "difference", "mean", "rate", "log-odds", "no interval"],
)
def test_interval_within_the_range(finding, said):
    """No interval reaches beyond the range of its quantity."""
    assert numbers.format_interval(finding) == said


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (gap(0.1, FOUND, group="female", reference_group="male"), "women minus men"),
        (gap(0.1, FOUND, score="matched"), "gap, female − male (matched)"),
        (
            gap(0.1, FOUND, contrast="pro - anti, strict parser", measure="answer_bias"),
            "gap, pro − anti, strict parser",
        ),
        (
            gap(
                0.1,
                FOUND,
                study="group_packs",
                experiment="occupation_full_names",
                group="asian",
                reference_group="white",
            ),
            "asian minus white",
        ),
        (change(0.1, FOUND), "difference of gaps, women minus men"),
    ],
    ids=["gap", "matched", "parser", "other groups", "difference"],
)
def test_direction_of_a_subtraction(finding, said):
    """The direction of a subtraction is stated in the names of groups."""
    assert finding_names.contrast_name(finding) == said


FURTHER = "The gap lies further toward {} with mental-health conditions than with other health conditions."
SAME_GAP = "The gap is the same with mental-health conditions and with other health conditions."


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.02, FURTHER.format("women")), (-0.02, FURTHER.format("men")), (0.0, SAME_GAP)],
    ids=["toward women", "toward men", "zero"],
)
def test_sign_of_a_caption(value, said):
    """The caption of a difference of gaps has the sign of the number."""
    # Whatever both gaps are: of -11.2 and -10.5 points the second is the smaller one, and lies further toward women.
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1")).assign(
        experiment="rq1", model_id="m"
    )
    base = rows["group"].map({"female": 0.1, "male": 0.5}).fillna(0.0)
    moved = value * ((rows["group"] == "female") & (rows["label"] == "mental_health"))
    found = disaggregate(rows.assign(score=base + moved), "gendered_stigma", robustness=False)
    finding = next(one for one in found if one.primary and one.measure == "gap_difference")
    assert finding.estimate.value == pytest.approx(value)
    lies = "above zero the gap lies further toward female with mental_health than with other_health, below zero "
    assert meanings.direction_meaning(finding) == f"{lies}further toward male"
    assert answer(finding).meaning.startswith(said)


def long_sentences(said):
    """Sentences of more than 25 words, or of 30 with the interval in brackets; its verdict does not count."""
    texts = (said, 30), (re.sub(r" \(95 % interval [^)]*\)", "", said), 25)
    return [
        clause
        for whole, most in texts
        for clause in re.split(r"[.:;] |\.$", whole)
        if len([word for word in clause.split() if re.search("[A-Za-z0-9]", word)]) > most
    ]


@pytest.mark.parametrize("study", studies())
def test_length_of_verdicts(study):
    """No verdict on any study is longer than a reader can hold."""
    for experiment, verdict, value in product(load_study(study).experiments, VERDICTS, (0.2, -0.2)):
        sides = {
            "group": experiment.compares.group,
            "reference_group": experiment.compares.reference,
        }
        both = dict(
            zip(("within", "against"), experiment.compares.contrast or ("", ""), strict=True)
        )
        unit = experiment.compares.unit.name
        rates = {"baseline": 0.1, "ratio": 3.0, "ratio_std_error": 0.2, "ratio_df": 30.0}
        facts = {
            "study": study,
            "experiment": experiment.name,
            "unit": unit,
            "model_id": "OWNER/some-model",
            **sides,
        }
        one = gap(value, verdict, **facts, **(rates if unit == "share of answers" else {}))
        moved = (
            replace(one, measure="gap_difference", ratio=math.nan, **both)
            if experiment.compares.contrast
            else one
        )
        output = (
            verdicts.state_verdict(one).text,
            verdicts.state_verdict(moved).text,
            meanings.sign_meaning(moved),
            cautions.describe_certainty(one),
        )
        assert long_sentences(" ".join(map(str, output))) == []


def test_question_fits_a_screen():
    """One question with its table fits a screen."""
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1")).assign(
        experiment="rq1", model_id="OWNER/some-model"
    )
    score = np.random.default_rng(0).normal(0.3, 0.1, len(rows)) + 0.1 * (
        rows["label"] == "mental_health"
    )
    found = disaggregate(rows.assign(score=score.where(rows.index > 40)), "gendered_stigma")
    lines = terminal_text.render_terminal(found).splitlines()
    assert len(lines) <= 22  # of 24: the report and the next step follow
    assert max(map(len, lines)) <= 80
    at = [
        next(place for place, one in enumerate(lines) if word in one)
        for word in ("rq1", "chance", "verdict")
    ]
    assert at == sorted(at)
    assert "were not scored" in lines[-1]
    assert "An audit of this size has 80 % power for" in " ".join(
        terminal_text.render_terminal(found, verbose=True).split()
    )


def test_low_rates():
    """Low rates are compared by their ratio as well."""
    rates = {
        "unit": "share of answers",
        "unit_low": 0.0,
        "unit_high": 1.0,
        "baseline": 0.02,
        "is_rate": True,
    }
    rates |= {"ratio": 3.0, "ratio_std_error": 0.2, "ratio_df": 30.0}
    text = "by 4.0 points (95 % interval 2.0 to 6.0). The ratio of the two rates is 3.00 (95 % interval 1.99"
    assert text in answer(gap(0.04, FOUND, **rates)).sentence
    low = answer(gap(0.01, NONE, **{**rates, "baseline": 0.2, "ratio": 1.05})).sentence
    assert low.endswith(
        "The ratio of the two rates is 1.05. The whole interval is within the margin of 5 points."
    )
    rare = answer(gap(0.001, NONE, **{**rates, "ratio": 1.05})).sentence
    assert "The ratio of the two rates is 1.05 (95 % interval" in rare
    assert rare.endswith("within the margin of 5 points and a ratio of 0.8 to 1.25.")


def printed_ends(text):
    """Numbers of an interval as a reader sees them."""
    low, high = text.replace("−", "-").replace("+", "").split(" to ")
    return float(low), float(high)


def side(number, mark):
    return (number > mark) - (number < mark)


@pytest.mark.parametrize("low", [-0.0502, -0.0497, -0.0003, 0.0, 0.0003, 0.04999, 0.05])
@pytest.mark.parametrize("width", [0.0001, 0.0498, 0.0499999, 0.1])
@pytest.mark.parametrize("unit", ["probability mass at the mask", LOG_ODDS])
def test_printed_interval_decides_the_word(low, width, unit):
    """A printed end is on the side of zero and of the margin where the end is, in tables, sentences and ratios."""
    scale = 1 if unit == LOG_ODDS else 100
    finding = gap(0.0, UNDECIDED, unit=unit)
    estimate = replace(finding.estimate, value=low + width / 2, ci_low=low, ci_high=low + width)
    finding = replace(finding, estimate=estimate)
    printed = printed_ends(numbers.format_interval(finding))
    sentence = claims.size_with_interval(finding).split("95 % interval ")[1].rstrip(")")
    in_sentence = printed_ends(sentence)
    for end, in_table, in_words in zip((low, low + width), printed, in_sentence, strict=True):
        for mark in (0, 0.05, -0.05):
            expected = side(round(end, 9), mark)
            assert side(in_table, scale * mark) == expected
            if unit != LOG_ODDS:
                assert side(in_words, scale * mark) == expected
        if unit == LOG_ODDS:
            assert side(in_words, 1) == side(end, 0)
