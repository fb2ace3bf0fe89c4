"""Findings of more than two groups: contrasts, the test of all groups and crossed factors."""

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import disaggregate
from swapbias.findings.terms import FOUND, UNDECIDED
from swapbias.measures import factorial, omnibus, paired_gap
from swapbias.studies.declared_values import Slice
from swapbias.studies.experiment import Study
from swapbias.studies.prompt import PLACEBO, PROMPT_COLUMNS
from tests.experiments import experiment

CELLS = {"white man": ("man", "white"), "white woman": ("woman", "white")}
CELLS |= {"black man": ("man", "black"), "black woman": ("woman", "black")}


def rows(seed=0, templates=6, conditions=8, noise=0.02, **planted):
    """Scores of every group in every template and condition; of a group what is planted in it."""
    rng = np.random.default_rng(seed)
    records = []
    by = rng.normal(0, noise / 2, (templates + conditions, len(CELLS)))
    for number in range(templates * conditions):
        template, condition = divmod(number, conditions)
        common = rng.normal(0.5, 0.1)
        for place, (group, (gender, race)) in enumerate(CELLS.items()):
            noise_of_row = (
                by[template, place] + by[templates + condition, place] + rng.normal(0, noise)
            )
            row = {
                "pair_id": f"p{number}",
                "prompt_id": f"p{number}/{group}",
                "group": group,
                "gender": gender,
                "race": race,
                "template": f"t{template}",
                "condition": f"c{condition}",
                "experiment": "tiny",
                "label": "early" if condition % 2 else "late",
                "model_id": "m",
                "score": common + noise_of_row + planted.get(group.replace(" ", "_"), 0.0),
            }
            records.append(dict.fromkeys(PROMPT_COLUMNS, "") | row)
    return pd.DataFrame(records)


def findings_in(frame, *, robustness=False, **declared):
    crossed = {"template": "templates", "condition": "conditions"}
    usual = {
        "groups": ("white woman", "black man", "black woman"),
        "reference": "white man",
        "random": crossed,
    }
    tiny_experiment = experiment(
        name="tiny",
        question="?",
        kind="masked",
        unit="P(negative)",
        direction="above zero: worse",
        **usual | declared,
    )
    study = Study(name="tiny", title="", url="", experiments=(tiny_experiment,))
    return disaggregate(frame, study, expected={}, robustness=robustness)


def primary_by_key(some):
    return {(finding.measure, finding.contrast): finding for finding in some if finding.primary}


def test_contrasts_are_corrected_together():
    """Each contrast and the test of all groups are primary findings that are corrected together."""
    frame = rows(black_woman=0.1)
    chosen = primary_by_key(findings_in(frame))
    assert list(chosen) == [
        ("paired_gap", "white woman - white man"),
        ("paired_gap", "black man - white man"),
        ("paired_gap", "black woman - white man"),
        ("group_spread", "all groups"),
    ]
    for one in chosen.values():
        part = frame[frame["group"].isin([one.group, "white man"])] if one.group else frame
        clusters = {"templates": part["template"], "conditions": part["condition"]}
        rows_of = {
            "pair_ids": part["pair_id"],
            "reference_group": "white man",
            "cluster_ids": clusters,
        }
        slow = (paired_gap if one.group else omnibus)(part["score"], part["group"], **rows_of)
        estimate = slow if one.group else slow.estimate
        assert (one.estimate.value, one.estimate.p_value) == pytest.approx(
            (estimate.value, estimate.p_value)
        )
        assert one.cluster_vars.startswith("templates + conditions")
        times = 3 if one.group else 1  # three questions; the test of all counts them already
        assert one.estimate.p_adjusted == pytest.approx(min(1.0, times * one.estimate.p_value))
    assert chosen["paired_gap", "black woman - white man"].verdict == FOUND
    assert chosen["paired_gap", "black man - white man"].verdict != FOUND


def test_robustness_of_each_contrast():
    """Each primary finding of several groups has its own robustness."""
    chosen = primary_by_key(findings_in(rows(black_woman=0.1), robustness=True))
    for name, least in (("black woman", 0.08), ("black man", -0.02)):
        one = chosen["paired_gap", f"{name} - white man"]
        assert least < one.loo_min <= one.estimate.value <= one.loo_max
    some = findings_in(rows(), slices=(Slice("label", "label"),))
    mine = [
        one.estimate
        for one in some
        if (one.measure, one.slice_by, one.view) == ("paired_gap", "label", "")
    ]
    assert len(mine) == 3 * 2
    assert {one.family for one in mine} == {
        "tiny paired_gap of score by label: 6 tests, bonferroni"
    }


def test_contrast_of_subsets():
    """A contrast of subsets tests the gaps of all groups."""
    frame = rows()
    frame.loc[(frame["group"] == "black man") & (frame["label"] == "late"), "score"] += 0.2
    chosen = primary_by_key(findings_in(frame, subset="label", contrast=("late", "early")))
    assert [measure for measure, _ in chosen] == ["gap_difference"] * 3 + ["group_spread"]
    assert chosen["group_spread", "all groups, gaps"].estimate.p_adjusted < 0.01
    assert chosen["gap_difference", "black man - white man"].estimate.value == pytest.approx(
        0.2, abs=0.03
    )
    chosen = primary_by_key(
        findings_in(rows(black_man=0.2), measure="group_gap", aggregate=("condition",))
    )
    assert len(chosen) == 4
    assert chosen["group_spread", "all groups"].estimate.p_value < 0.05


FACTORS = {"factors": ("gender", "race")}


def test_effects_of_factors():
    """Effects of the factors are primary findings, and cells are not."""
    frame = rows(black_woman=0.1)
    some = findings_in(frame, **FACTORS)
    chosen = primary_by_key(some)
    assert list(chosen) == [
        ("group_spread", "all groups"),
        ("main_effect", "gender: woman - man"),
        ("main_effect", "race: black - white"),
        ("interaction", "gender x race: (woman - man) x (black - white)"),
    ]
    slow = factorial(
        frame["score"],
        {name: frame[name] for name in FACTORS["factors"]},
        pair_ids=frame["pair_id"],
        reference={"gender": "man", "race": "white"},
        cluster_ids={"templates": frame["template"], "conditions": frame["condition"]},
    )
    for one, each in zip(list(chosen.values())[1:], slow.effects, strict=True):
        wanted = pytest.approx((each.estimate.value, each.estimate.p_value))
        assert (one.estimate.value, one.estimate.p_value) == wanted
    cells = [one for one in some if one.measure == "paired_gap" and not one.view]
    assert {one.estimate.family for one in cells} == {
        "tiny paired_gap of score by all: 3 tests, bonferroni"
    }


def test_three_factors():
    """Three factors are crossed."""
    frame = rows()
    older = frame.assign(
        group=frame["group"] + ", old",
        age="old",
        prompt_id=frame["prompt_id"] + "o",
        score=frame["score"] + 0.1,
    )
    every = pd.concat([frame.assign(age="young"), older])
    groups = tuple(name for name in every["group"].unique() if name != "white man")
    chosen = primary_by_key(findings_in(every, groups=groups, factors=("gender", "race", "age")))
    assert chosen["main_effect", "age: old - young"].estimate.value == pytest.approx(0.1)
    measures = [measure for measure, _ in chosen]
    assert (measures.count("interaction"), measures.count("interaction_of_three")) == (3, 1)
    chosen = primary_by_key(
        findings_in(rows(black_woman=0.2, black_man=0.1, white_woman=0.1), **FACTORS)
    )
    assert chosen["interaction", "gender x race: (woman - man) x (black - white)"].verdict != FOUND
    assert chosen["main_effect", "race: black - white"].verdict == FOUND


@pytest.mark.parametrize("measure", ["paired_gap", "group_gap"])
def test_robustness_of_effects(measure):
    """Effects have the same robustness as gaps: left-out items, other wordings, and bounds of
    missing answers."""
    frame = rows(black_woman=0.1, templates=4, conditions=5)
    one = frame["group"] == "black woman"
    frame.loc[one & (frame["template"] == "t0"), "score"] += 0.4
    frame.loc[frame.index[one][:2], "score"] = np.nan
    worded = [
        frame.assign(
            group=PLACEBO,
            side=frame["group"],
            wording=str(number),
            score=frame["score"] + 0.01 * number,
            pair_id=frame["pair_id"] + f"/w{number}",
        )
        for number in (1, 2)
    ]
    every = pd.concat([frame, *worded], ignore_index=True)
    chosen = primary_by_key(some := findings_in(every, robustness=True, measure=measure, **FACTORS))
    cells = list(CELLS)
    weights = {"main_effect": (-0.5, 0.5, -0.5, 0.5), "interaction": (1, -1, -1, 1)}
    for name in ("gender: woman - man", "gender x race: (woman - man) x (black - white)"):
        one = next(each for (_, contrast), each in chosen.items() if contrast == name)
        weighed = dict(zip(cells, weights[one.measure], strict=True))

        def value(table, weighed=weighed):
            if measure == "paired_gap":
                lost = table.loc[table["score"].isna(), "pair_id"]
                table = table[~table["pair_id"].isin(set(lost))]
            means = table.groupby("group")["score"].mean()
            return sum(weight * means[group] for group, weight in weighed.items())

        each = [
            frame[frame[column] != item]
            for column in ("template", "condition")
            for item in frame[column].unique()
        ]
        assert one.estimate.value == pytest.approx(value(frame))
        assert (one.loo_min, one.loo_max) == pytest.approx(
            (min(map(value, each)), max(map(value, each)))
        )
        filled = [value(frame.fillna({"score": end})) for end in (0.0, 1.0)]
        assert (one.missing_data_low, one.missing_data_high) == pytest.approx(
            (min(filled), max(filled))
        )
        assert one.sign_agreement == 1
        assert {each.measure for each in some if each.contrast == name} > {
            "gap_beyond_wording",
            "nonanswer_gap",
        }


def test_effect_of_rounding():
    """An effect of rounding alone is undecided, where every name scores the same in each of 8
    professions."""
    of_condition = pd.Series(
        np.random.default_rng(0).uniform(size=8), index=[f"c{n}" for n in range(8)]
    )
    frame = rows().assign(score=lambda table: table["condition"].map(of_condition))
    for measure in ("paired_gap", "group_gap"):
        chosen = primary_by_key(findings_in(frame, measure=measure, **FACTORS))
        assert {one.verdict for (name, _), one in chosen.items() if name != "group_spread"} == {
            UNDECIDED
        }


def test_group_names_with_separators():
    """Names of groups may hold the separators, and a group has one level of each factor."""
    names = dict(zip(CELLS, ("a - b", "a", "b - c", "c"), strict=True))
    frame = rows(black_woman=0.1).assign(group=lambda table: table["group"].map(names))
    declared = {"groups": ("a", "b - c", "c"), "reference": "a - b"}
    some = [
        one
        for one in findings_in(frame, robustness=True, **declared)
        if one.measure == "paired_gap" and one.primary
    ]
    assert len({(one.group, one.reference_group) for one in some}) == 3
    means = frame.groupby("group")["score"].mean()
    for one in some:
        assert one.estimate.value == pytest.approx(means[one.group] - means[one.reference_group])
        assert one.loo_min < one.estimate.value < one.loo_max
    with pytest.raises(
        ValueError, match="have no column 'race', expected the level of each group in every factor"
    ):
        findings_in(rows().drop(columns="race"), **FACTORS)
    with pytest.raises(ValueError, match="has several levels of gender, race"):
        findings_in(
            rows().assign(race=lambda table: table["condition"].str[:1] + table["label"]), **FACTORS
        )


def test_planted_interaction():
    """A planted interaction is found in each of 20 studies without a false main effect."""
    for seed in range(20):
        frame = rows(seed, black_woman=0.06, white_man=0.06, black_man=-0.06, white_woman=-0.06)
        chosen = primary_by_key(findings_in(frame, **FACTORS))
        verdicts = {
            measure: one.verdict for (measure, _), one in chosen.items() if measure != "main_effect"
        }
        assert verdicts["interaction"] == FOUND
        assert all(
            one.verdict != FOUND for (measure, _), one in chosen.items() if measure == "main_effect"
        )


def test_false_alarms():
    """Few primary findings report a gap where no group differs."""
    wrong = sum(
        any(
            one.estimate.p_adjusted < 0.05
            for one in primary_by_key(findings_in(rows(seed, templates=4, conditions=3))).values()
        )
        for seed in range(40)
    )
    assert wrong <= 6  # of 40 at .05; 7 or more would come by chance three times in a thousand
