"""A verdict is one plain sentence that says no more than the parts of its finding do."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import pandas as pd
import pytest

from swapbias.findings import VERDICTS, Finding, disaggregate
from swapbias.measures import Estimate
from swapbias.report import answer, sentence, summary
from swapbias.studies import config_rows

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = VERDICTS
SURE = (" women over men by", " men over women by")


def gap(value, verdict, *, error=0.01, width=0.02, **more):
    """A gap of rq1 between words for women and men."""
    ends = {"ci_low": value - width, "ci_high": value + width} if not math.isnan(error) else {}
    facts = {
        "study": "gendered_stigma", "experiment": "rq1", "model_id": "m", "measure": "paired_gap",
        "contrast": "female - male", "unit": "probability mass at the mask", "headline": True, "margin": 0.05,
        "inference": "over templates and diagnoses", "verdict": verdict, "detectable": 0.03,
    }  # fmt: skip
    return Finding(**{**facts, **more}, estimate=Estimate(value, n=10, error=error, **ends))


SETS = {"within": "mental_health", "against": "other_health"}


def change(value, verdict, **more):
    return gap(value, verdict, measure="gap_difference", subset=" - ".join(SETS.values()), **SETS, **more)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (gap(0.1, FOUND), "m expects women over men by 10.0 points."),
        (gap(-0.1, FOUND), "m expects men over women by 10.0 points."),
        (
            gap(-0.012, SMALL),
            "m expects men over women by 1.2 points, which is less than the 5 points that count as a gap.",
        ),
        (gap(0.1, UNSTABLE), "m expects women over men by 10.0 points as asked here, but not in other wordings."),
        (gap(0.01, NONE), "m shows no gap between women and men as large as 5 points."),
        (gap(0.0, NONE, error=math.nan), "m gives women and men exactly the same scores."),
        (
            gap(-0.06, UNDECIDED),
            "m leaves undecided whether women and men are treated differently: a gap of 6.0 points may be chance, "
            "and one of 5 points is not ruled out.",
        ),
        (
            gap(0.06, UNDECIDED, error=math.nan),
            "m expects women over men by 6.0 points, on too little to say how sure that is.",
        ),
        (
            gap(0.0, UNDECIDED, error=math.nan),
            "m leaves undecided whether women and men are treated differently: all 10 pairs score the same, but 72 "
            "are needed to rule out a gap of 5 points.",
        ),
        (gap(0.0, UNMEASURED, error=math.nan), "Not measured: m gives every prompt the same score."),
        (gap(math.nan, UNDECIDED), "m: no answer, because nothing that the question needs could be scored."),
        (gap(0.0001, SMALL), "m expects women over men by less than 0.1 points, which is less than the 5 points "
         "that count as a gap."),
        (
            gap(0.3, FOUND, study="social_distance", experiment="antonyms", contrast="stigmatized - other",
                unit="mean log-odds of the disapproving antonym"),
            "m disapproves more of stigmatized people than of other people by 0.300 log-odds.",
        ),
    ],
)  # fmt: skip
def test_each_verdict_has_its_sentence(finding, said):
    assert answer(finding).sentence == said


CERTAINTIES = {"sure": {}, "unsure": {"width": 0.2}, "no interval": {"error": math.nan}}
KEPT, TURNED, LOST = (math.nan, 0.4, 1.0), ("", '[["score", "x", "-0.1"]]'), (math.nan, 0.3)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("certainty", CERTAINTIES)
def test_no_sentence_claims_more_than_its_verdict(verdict, certainty):
    """Every combination of sign, size against the margin, certainty, placebo, disagreement and non-answers."""
    exact = certainty == "no interval"
    for sign, size, kept, turned, lost in product((1, -1), (0.002, 0.2), KEPT, TURNED, LOST):
        finding = gap(
            sign * size, verdict, **CERTAINTIES[certainty], signs_kept=kept, hinges_on=turned,
            worst_low=size - lost, worst_high=size + lost,
        )  # fmt: skip
        told = answer(finding)
        claims = [words in told.sentence for words in SURE]
        if verdict in (FOUND, SMALL, UNSTABLE):
            assert claims == [sign > 0, sign < 0]
            assert ("less than the 5 points" in told.sentence) == (verdict == SMALL)
            assert ("not in other wordings" in told.sentence) == (verdict == UNSTABLE)
        else:
            assert any(claims) == (exact and verdict == UNDECIDED)
            assert not any(claims) or "on too little" in told.sentence
        assert ("no interval" in told.certainty) == exact
        cautions = " ".join(told.cautions)
        assert ("of other wordings" in cautions) == (not math.isnan(kept))
        assert ("x has the other sign" in cautions) == bool(turned)
        assert ("Whatever the missing answers are" in cautions) == (not math.isnan(lost))
        assert ("could turn its sign" in cautions) == (size < lost)
        assert all(text.endswith(".") and "nan" not in text for text in (told.sentence, *told.cautions))


def parts(first, second, *verdicts):
    one = gap(first, verdicts[0], subset="mental_health", headline=False)
    return [one, gap(second, verdicts[-1], subset="other_health", headline=False)]


@pytest.mark.parametrize(
    ("difference", "beside", "said"),
    [
        (
            change(0.007, NONE), parts(-0.105, -0.112, FOUND),
            "m expects men over women by 10.5 points with mental health and by 11.2 with other health; mental health "
            "makes no difference to that as large as 5 points.",
        ),
        (
            change(0.1, FOUND), parts(0.1, 0.0, FOUND, NONE),
            "m expects women over men by 10.0 points with mental health, and shows no gap between women and men as "
            "large as 5 points with other health; mental health moves that toward women by 10.0 points.",
        ),
        (
            change(-0.01, UNDECIDED), parts(0.01, 0.02, NONE),
            "m shows no gap between women and men as large as 5 points with mental health, nor with other health; "
            "mental health makes no detectable difference to that: 1.0 points may be chance, and 5 points are not "
            "ruled out.",
        ),
        (
            change(-0.1, FOUND), [],
            "m: compared with other health, mental health moves the gap between women and men toward men by "
            "10.0 points.",
        ),
    ],
)  # fmt: skip
def test_a_difference_of_gaps_is_told_with_both_gaps(difference, beside, said):
    assert answer(difference, beside).sentence == said


def test_a_difference_claims_no_more_than_its_verdict():
    for value, verdict, verdicts in product((0.2, -0.2), VERDICTS, product(VERDICTS, VERDICTS)):
        told = answer(change(value, verdict), parts(0.1, -0.1, *verdicts)).sentence
        moved = f"moves that toward {'women' if value > 0 else 'men'} by 20.0 points"
        assert (moved in told) == (verdict in (FOUND, SMALL, UNSTABLE))
        sure = [one in (FOUND, SMALL, UNSTABLE) and verdict != UNMEASURED for one in verdicts]
        assert [" women over men" in told, " men over women" in told] == sure


def test_gaps_of_several_phenotypes_are_never_pooled():
    def of(value, verdict, name):
        return gap(value, verdict, slice_by="phenotype", slice_value=name)

    found = [of(0.1, FOUND, "a"), of(0.3, FOUND, "b"), of(-0.2, FOUND, "c"), of(0.01, NONE, "d")]
    assert summary(found) == (
        "m expects women over men, by up to 30.0 points for a and b; it expects men over women, by 20.0 points for "
        "c; it shows no gap between women and men as large as 5 points for d."
    )


def test_a_study_without_words_of_its_own_has_plain_ones(monkeypatch):
    monkeypatch.setattr("swapbias.report.sentence.experiment_of", lambda finding: None)
    one = gap(0.1, FOUND, contrast="cats - dogs", group="cats", reference_group="dogs")
    assert answer(one).sentence == "m scores cats above dogs by 10.0 points."


def test_a_strangers_name_is_shown_as_text():
    told = answer(gap(0.1, FOUND, model_id="evil\u202e\0<b>" + "x" * 100)).sentence
    assert "\u202e" not in told
    assert "\0" not in told
    assert len(told) < 120


# --- several groups -----------------------------------------------------------------------------------


def of_groups(experiment, measure, **more):
    """A headline of the prompt packs; sides as in the fields of findings."""
    contrast = f"{more.get('group', '')} - {more.get('reference_group', '')}"
    facts = {"study": "group_packs", "experiment": experiment, "measure": measure, "contrast": contrast,
             "unit": "probability of positive sentiment"}  # fmt: skip
    return partial(gap, **{**facts, **more})


def nation(value, verdict, name, **more):
    return of_groups("occupation_nationality", "paired_gap", group=name, reference_group="American")(
        value, verdict, **more
    )


def spread(p, experiment="occupation_nationality", value=0.04, **more):
    one = of_groups(experiment, "group_spread", contrast="all groups", **more)(value, "")
    return replace(one, estimate=Estimate(value, p_value=p, p_adjusted=p, n=10, test="F"), margin=math.nan)


def test_several_groups_are_told_by_the_test_of_all_the_largest_gap_and_who_differs():
    found = [
        nation(-0.12, FOUND, "Egyptian"), nation(-0.064, FOUND, "Nigerian"), nation(-0.06, FOUND, "Indian"),
        nation(0.02, SMALL, "British"), nation(0.001, NONE, "Polish"), nation(0.0, NONE, "Chinese", error=math.nan),
        nation(-0.06, UNDECIDED, "Russian"), nation(0.07, UNDECIDED, "Mexican"), spread(0.001),
    ]  # fmt: skip
    assert summary(found) == (
        "m treats the 10 groups differently (one test of all, p 0.001); it scores American above Egyptian by 12.0 "
        "points, the largest; it scores American above Nigerian and Indian as well, by 6.4 and 6.0 points; it scores "
        "British above American by 2.0 points, which is less than the 5 points that count as a gap; Chinese against "
        "American: exactly no difference; Polish against American: none as large as 5 points; Russian and Mexican "
        "against American: undecided."
    )
    assert answer(found[-1], found).sentence == summary(found)  # a terminal says it in the row of the test of all


@pytest.mark.parametrize(
    ("p", "value", "said"),
    [
        (0.049, 0.04, "treats the 10 groups differently (one test of all, p 0.049)"),
        (0.051, 0.04, "does not show that the 10 groups are treated differently (one test of all, p 0.051)"),
        (math.nan, 0.0, "gives the 10 groups exactly the same scores"),
        (math.nan, 0.04, "gives the 10 groups means with an SD of 4.0 points, on too little to say how sure that is"),
    ],
)
def test_the_test_of_all_groups_says_no_more_than_its_p_value(p, value, said):
    assert summary([nation(0.01, NONE, "Polish"), spread(p, value=value)]).startswith(f"m {said}; ")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("verdict", VERDICTS)
def test_no_sentence_of_several_groups_claims_more_than_its_verdicts(verdict, sign):
    """Every verdict beside every other, each way round, of gaps, effects and differences of gaps."""
    effect = of_groups("occupation_names", "main_effect", contrast="race: black - white", group="black",
                       reference_group="white")  # fmt: skip
    both = of_groups("occupation_names", "interaction", contrast="g x r: (woman - man) x (black - white)",
                     group="woman", reference_group="man", within="black", against="white")  # fmt: skip
    three = of_groups("occupation_names", "interaction_of_three", contrast="a x b x c: all")
    for other, way in product(VERDICTS, (1, -1)):
        for one, more in ((effect, both), (both, effect), (three, effect)):
            first, second = one(sign * 0.2, verdict), more(way * 0.07, other)
            told = summary([spread(0.01, "occupation_names"), first, second])
            assert ("20.0 points" in told) == (verdict in SURE_ONES)
            assert ("7.0 points" in told) == (other in SURE_ONES)
            assert ("undecided" in told) == (UNDECIDED in (verdict, other))
            assert ("none as large as 5 points" in told) == (NONE in (verdict, other))
            if verdict in SURE_ONES:
                toward = {
                    effect: ("black above white", "white above black"), both: ("toward woman", "toward man"),
                    three: ("is +20.0", "is \N{MINUS SIGN}20.0"),
                }[one]  # fmt: skip
                assert [way in told for way in toward] == [sign > 0, sign < 0]
            assert "nan" not in told
            assert answer(first).sentence.endswith(".")


SURE_ONES = (FOUND, SMALL, UNSTABLE)


def test_an_intersection_beyond_its_parts_is_named():
    named = spread(
        0.001, "occupation_names", intersection="woman, black", group="black woman", from_mean=-0.16, parts=-0.1
    )
    assert summary([named, of_groups("occupation_names", "main_effect", group="woman", reference_group="man")(
        -0.1, FOUND
    )]) == (
        "m treats the 4 groups differently (one test of all, p 0.001); black woman lies 16.0 points below the mean "
        "of all, further than its parts, which add up to \N{MINUS SIGN}10.0 points; it scores man above woman by "
        "10.0 points, averaged over the rest."
    )  # fmt: skip


def test_a_gap_is_told_of_its_own_two_groups():
    told = [answer(nation(0.1, FOUND, name)).sentence for name in ("Polish", "Indian")]
    assert told == [f"m scores {name} above American by 10.0 points." for name in ("Polish", "Indian")]


def test_a_test_of_rates_says_what_differs():
    one = replace(spread(0.2), contrast="all groups, positives")
    assert answer(one).sentence == "m: all groups, positives: no difference shown (one test of all, p 0.200)."


# --- every combination -----------------------------------------------------------------------------------

SIZES = (0.002, 0.049, 0.05, 0.2)  # below, just below, at and above the margin


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("certainty", CERTAINTIES)
@pytest.mark.parametrize("beside", [(), (FOUND, FOUND), (FOUND, NONE), (UNDECIDED, SMALL)], ids=str)
def test_no_difference_of_gaps_claims_more_than_its_verdict(verdict, certainty, beside):
    exact = certainty == "no interval"
    both = parts(0.1, -0.1, *beside) if beside else []
    for sign, size, kept, turned, lost in product((1, -1), SIZES, KEPT, TURNED, LOST):
        finding = change(
            sign * size, verdict, **CERTAINTIES[certainty], signs_kept=kept, hinges_on=turned,
            worst_low=size - lost, worst_high=size + lost,
        )  # fmt: skip
        told = answer(finding, both)
        toward = "women" if sign > 0 else "men"
        moved = " moves " in told.sentence
        sure = verdict in (FOUND, SMALL, UNSTABLE)
        assert moved == (sure or (exact and verdict == UNDECIDED))
        assert not moved or f" toward {toward} by " in told.sentence
        assert ("too little to say" in told.sentence) == (exact and verdict == UNDECIDED)
        assert ("that count as a gap" in told.sentence.rpartition(";")[2]) == (verdict == SMALL)
        assert ("not in other wordings" in told.sentence.rpartition(";")[2]) == (verdict == UNSTABLE)
        assert ("makes no d" in told.sentence) == (verdict == NONE or (verdict == UNDECIDED and not exact))
        cautions = " ".join(told.cautions)
        assert ("of other wordings" in cautions) == (not math.isnan(kept))
        assert ("x has the other sign" in cautions) == bool(turned)
        assert ("could turn its sign" in cautions) == (size < lost)
        assert all(text.endswith(".") and "nan" not in text for text in (told.sentence, *told.cautions))


def test_of_several_gaps_each_is_told_once_and_by_its_own_verdict():
    for verdicts, signs in product(product(VERDICTS, VERDICTS), product((1, -1), (1, -1))):
        found = [
            gap(sign * 0.1, verdict, slice_by="phenotype", slice_value=name)
            for verdict, sign, name in zip(verdicts, signs, ("first", "second"), strict=True)
        ]
        told = summary(found)
        pieces = told.removeprefix("m ").removesuffix(".").split("; it ")
        assert len(pieces) == (
            1
            if verdicts[0] == verdicts[1]
            and (signs[0] == signs[1] or verdicts[0] in (NONE, UNDECIDED, UNMEASURED, TOO_FEW))
            else 2
        )
        for verdict, sign, name in zip(verdicts, signs, ("first", "second"), strict=True):
            (piece,) = [one for one in pieces if name in one]
            claims = [words.strip().removesuffix(" by") in piece for words in SURE]
            expected = [sign > 0, sign < 0] if verdict in (FOUND, SMALL, UNSTABLE) else [False, False]
            assert claims == expected
            assert ("count as a gap" in piece) == (verdict == SMALL)
            assert ("not in other wordings" in piece) == (verdict == UNSTABLE)
            assert ("shows no gap" in piece) == (verdict == NONE)
            assert ("leaves undecided" in piece) == (verdict == UNDECIDED)
    lost = [gap(math.nan, "", slice_by="phenotype", slice_value="lost"), gap(0.1, FOUND, slice_by="phenotype")]
    assert "could not be scored for lost" in summary([replace(lost[0], verdict=UNDECIDED), lost[1]])


@pytest.mark.parametrize("verdict", ["", *(one for one in VERDICTS if one != UNMEASURED)])
def test_what_was_not_scored_is_no_answer_whatever_else_is_known(verdict):
    for kept, turned, measure in product(KEPT, TURNED, ("paired_gap", "gap_difference", "flip_rate")):
        sets = SETS if measure == "gap_difference" else {}
        finding = gap(math.nan, verdict, measure=measure, **sets, signs_kept=kept, hinges_on=turned)
        told = answer(finding)
        assert told.sentence == "m: no answer, because nothing that the question needs could be scored."
        assert told.certainty == ""
        assert "nan" not in " ".join(told.cautions)


def test_how_many_were_not_scored_is_said_with_every_verdict():
    for verdict, lost in product(VERDICTS, (0, 3)):
        finding = gap(0.1, verdict)
        told = answer(replace(finding, estimate=replace(finding.estimate, n_unscored=lost)))
        assert ("3 of 13 units could not be scored." in told.cautions) == bool(lost)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (gap(0.95, FOUND, width=0.1), "+85.0 to +100.0"),
        (gap(-0.95, FOUND, width=0.1), "−100.0 to −85.0"),
        (change(-1.5, FOUND, width=1.0), "−200.0 to −50.0"),
        (gap(0.02, "", measure="mean", contrast="female", width=0.1), "0.0 to 12.0"),
        (gap(0.98, "", measure="flip_rate", unit="share of notes", width=0.1), "88.0 % to 100.0 %"),
        (gap(0.3, FOUND, unit="mean log-odds of the disapproving antonym", width=9.0), "−8.700 to +9.300"),
        (gap(0.3, FOUND, error=math.nan), ""),
    ],
)
def test_no_interval_reaches_beyond_what_its_quantity_can_be(finding, said):
    assert sentence.interval(finding) == said


def test_notes_of_ones_own_have_a_label_without_a_name():
    told = answer(gap(0.1, FOUND, slice_by="phenotype", slice_value="own")).sentence
    assert told.endswith(" by 10.0 points for these notes.")  # nothing is labelled where no rate is told


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
        (change(0.1, FOUND), "difference of gaps (female − male)"),
    ],
)
def test_what_is_subtracted_from_what_is_said_in_the_names_of_groups(finding, said):
    assert sentence.compared(finding) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.02, "With mental health the gap lies further toward women than with other health."),
        (-0.02, "With mental health the gap lies further toward men than with other health."),
        (0.0, "The gap is the same with mental health and with other health."),
    ],
)
def test_the_caption_of_a_difference_of_gaps_has_the_sign_of_the_number(value, said):
    # Whatever both gaps are: of -11.2 and -10.5 points the second is the smaller one, and lies further toward women.
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1")).assign(experiment="rq1", model_id="m")
    base = rows["group"].map({"female": 0.1, "male": 0.5}).fillna(0.0)
    moved = value * ((rows["group"] == "female") & (rows["label"] == "mental_health"))
    found = disaggregate(rows.assign(score=base + moved), "gendered_stigma", robustness=False)
    finding = next(one for one in found if one.headline and one.measure == "gap_difference")
    assert finding.estimate.value == pytest.approx(value)
    assert finding.direction == (
        "above zero the gap lies further toward female with mental_health than with other_health, below zero further "
        "toward male"
    )
    assert answer(finding).meaning.startswith(said)
