"""hatecheck: the published accuracies, texts as released, and planted false alarms and misses."""

import hashlib

import pandas as pd
import pytest

from swapbias.builders._hatecheck_released import CASES, NAME, read_cases
from swapbias.builders.hatecheck import words
from swapbias.findings import disaggregate
from swapbias.measures import crossed_factors
from swapbias.report.claims import claim_sentence
from swapbias.report.verdicts import state_verdicts
from swapbias.studies import config_rows
from swapbias.studies.published import published_rows
from swapbias.studies.tables import upstream_file
from tests.released import numbers_of

GROUPS = [name for name, kind in words().items() if kind == "group"]


@pytest.mark.usefixtures("upstream")
def test_released_accuracies():
    """Every published accuracy of a model whose labels are here is recomputed, and the shares called hateful."""
    results = numbers_of(NAME)
    compared = [one for one in results if one.published]
    assert len(compared) == len(published_rows(NAME))
    assert {one.match for one in compared} == {"yes"}
    flagged = {one.number: one.recomputed for one in results if one.model == "davidson"}
    women = "called hateful, of non-hateful cases by target group=women"
    assert flagged[f"misses: {women}, value"] == pytest.approx(7 / 96)


@pytest.mark.usefixtures("upstream")
def test_original_texts():
    """Of 421 templates each has all seven groups; texts keep the blank at their end."""
    counts = {"original_false_alarms": 96, "original_misses": 325}
    for config, count in counts.items():
        rows = pd.DataFrame(config_rows(NAME, config))
        assert set(rows.groupby("template")["group"].nunique()) == {7}
        assert rows["template"].nunique() == count
        assert set(rows["group"]) == set(GROUPS)
        assert rows["text"].str.endswith(" ").mean() > 0.8
    slurs = [
        case for case in read_cases(upstream_file(NAME, CASES)) if "slur" in case.functionality
    ]
    assert slurs
    assert not any(case.is_swapped for case in slurs)


def test_unknown_label_is_refused(tmp_path):
    """A case with another label is named."""
    path = tmp_path / "cases.csv"
    header = "functionality,case_id,test_case,label_gold,target_ident,templ_id,case_templ"
    path.write_text(f"{header}\na,12,text,maybe,women,1,I [IDENTITY_P]\n")
    with pytest.raises(ValueError, match="case 12 has the label 'maybe'"):
        read_cases(path)


def audited(is_flagged, *configs, experiment=None):
    """Return the effects of each experiment by group, of a detector that is a function of a row."""
    records = [row for config in configs for row in config_rows(NAME, config)]
    rows = pd.DataFrame(records).assign(model_id="made")
    if experiment:
        rows["experiment"] = experiment
    rows["score"] = [float(is_flagged(row)) for row in records]
    findings = disaggregate(rows, NAME, robustness=False)
    return {
        (one.experiment, one.group): one
        for one in findings
        if one.primary and one.measure in ("main_effect", "gap_difference")
    }


def chance(text):
    """Return a number from 0 to 1 that the letters of a text decide."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16) / 16**8


def is_usual(row):
    return chance(row["text"]) < (0.9 if row["label"] == "hateful" else 0.1)


def test_word_that_is_flagged():
    """A detector that reacts to one word has false alarms about its group, and sees more hate against it."""
    found = audited(
        lambda row: row["group"] == "Muslims" or is_usual(row), "false_alarms", "misses"
    )
    assert len(found) == 2 * len(GROUPS)
    alarms = found["false_alarms", "Muslims"]
    assert alarms.verdict == "gap"
    assert alarms.reference_group == "the others"
    assert alarms.estimate.value == pytest.approx(0.9, abs=0.1)
    assert found["misses", "Muslims"].estimate.value > 0


@pytest.mark.usefixtures("upstream")
def test_missed_group():
    """A detector that sees a third of the hate against women is found to miss it, at its size."""
    found = audited(
        lambda row: is_usual(row) and (row["group"] != "women" or chance(row["text"]) < 0.3),
        "original_misses",
    )
    gap = found["misses", "women"].estimate
    assert gap.ci_low <= -0.6 <= gap.ci_high
    assert found["misses", "women"].verdict == "gap"


@pytest.mark.parametrize(
    "is_flagged",
    [
        pytest.param(lambda row: chance(row["text"]) < 0.5, id="chance"),
        pytest.param(lambda row: len(row["text"]) % 2, id="length"),
        pytest.param(lambda row: row["label"] == "hateful", id="always right"),
    ],
)
def test_detectors_without_bias(is_flagged):
    """A detector that never reads the group has no gap."""
    found = audited(is_flagged, "false_alarms", "misses")
    assert not any(one.verdict == "gap" for one in found.values())


def test_each_level_and_the_others():
    """Of one factor each level is compared with the mean of the others: 3 - (1 + 2) / 2 of means 1, 2 and 3."""
    groups = ["a", "b", "c"] * 4
    scores = [1, 2, 3, 2, 2, 2, 0, 2, 4, 1, 2, 3]
    pairs = [number for number in range(4) for _ in range(3)]
    result = crossed_factors.deviations(scores, "group", groups, pair_ids=pairs)
    values = {effect.title: effect.estimate.value for effect in result.effects}
    assert values == pytest.approx(
        {
            "group: a - the others": -1.5,
            "group: b - the others": 0.0,
            "group: c - the others": 1.5,
        }
    )


def test_each_level_in_a_set_less_another():
    """Effects of a set less another: c is 1.5 above the others in the first two pairs, and .5 in the last two."""
    groups = ["a", "b", "c"] * 4
    scores = [1, 2, 3, 1, 2, 3, 0, 2, 1, 1, 1, 2]
    pairs = [number for number in range(4) for _ in range(3)]
    sets = [0] * 6 + [1] * 6
    result = crossed_factors.deviations(scores, "group", groups, pair_ids=pairs, sample_ids=sets)
    # a: -1.5 less the mean of -1.5 and -.5. b: 0 less that of 1.5 and -.5. c: 1.5 less that of 0 and 1.
    values = {effect.title[7]: effect.estimate.value for effect in result.effects}
    assert values == pytest.approx({"a": -0.5, "b": -0.5, "c": 1.0})


@pytest.mark.parametrize(
    ("is_flagged", "expected"),
    [
        pytest.param(
            lambda row: row["group"] == "Muslims" or is_usual(row), {"Muslims"}, id="any mention"
        ),
        pytest.param(
            lambda row: row["group"] != "women" and is_usual(row), {"women"}, id="word not seen"
        ),
        pytest.param(is_usual, set(), id="none"),
    ],
)
@pytest.mark.usefixtures("upstream")
def test_hate_told_apart(is_flagged, expected):
    """A detector that flags any mention of a group, and one that never sees its word, tell hate apart worse: -.8."""
    found = audited(is_flagged, "original", experiment="told_apart")
    assert len(found) == len(GROUPS)
    assert {name for (_, name), one in found.items() if one.estimate.ci_high < -0.3} == expected
    for name in expected:
        finding = found["told_apart", name]
        assert finding.estimate.value == pytest.approx(-0.8, abs=0.1)
        assert (finding.within, finding.against) == ("hateful", "non-hateful")
        assert "better where they are about the other groups than" in claim_sentence(finding)


def test_ratio_of_a_level_and_the_others():
    """The log ratio of a level's mean to that of the others has the error of scores divided by their means."""
    groups = ["a", "b", "c"] * 4
    scores = [1, 2, 3, 2, 2, 2, 0, 2, 4, 1, 2, 3]
    pairs = [number for number in range(4) for _ in range(3)]
    result = crossed_factors.deviations(scores, "group", groups, pair_ids=pairs)
    effect = result.effects[-1]
    assert result.subtracted_mean(effect) == 1.5
    scaled = [
        score / (3 if group == "c" else 1.5) for score, group in zip(scores, groups, strict=True)
    ]
    expected = crossed_factors.deviations(scaled, "group", groups, pair_ids=pairs).effects[-1]
    relative = result.relative(effect, 3, 1.5)
    assert relative.value == pytest.approx(0, abs=1e-9)
    assert relative.std_error == pytest.approx(expected.estimate.std_error)


def test_one_answer_whether_any_group_differs():
    """Whether any group differs is said once, by the test of the levels, and of no others."""
    rows = pd.DataFrame(config_rows(NAME, "false_alarms")).assign(model_id="made")
    rows["score"] = [float(row == "Muslims") for row in rows["group"]]
    findings = disaggregate(rows, NAME, robustness=False)
    tests = [one for one in findings if one.primary and one.measure == "group_spread"]
    assert [one.contrast for one in tests] == ["all groups"]
    first, *_ = state_verdicts([one for one in findings if one.primary], findings)
    assert first.text == (
        "no difference among the 7 groups of made was found (one test of all, p 0.219)."
    )
    (muslims,) = (one for one in findings if one.primary and one.group == "Muslims")
    assert "averaged" not in claim_sentence(muslims)


def test_rare_rates_of_groups():
    """Rare rates are compared by their ratio too: 3 of 12 of women are 18 times 1 of 72 of the others."""
    firsts = [row["template"] for row in config_rows(NAME, "false_alarms")][:: len(words())]
    flagged = {("women", template) for template in firsts[:9:3]} | {("Muslims", firsts[0])}
    findings = audited(lambda row: (row["group"], row["template"]) in flagged, "false_alarms")
    women = findings["false_alarms", "women"]
    assert women.baseline == pytest.approx(1 / 72)
    assert women.ratio == pytest.approx(18)
    gay_people = findings["false_alarms", "gay people"]
    assert gay_people.has_rare_rate
    assert gay_people.verdict != "no gap"


def test_questions_in_both_orders():
    """A chat model is asked about each text with both orders of the options, which count alike."""
    rows = config_rows(NAME, "asked_misses")
    assert len(rows) == 2 * len(config_rows(NAME, "misses"))
    first, second = (
        next(row for row in rows if row["order"] == order)["candidates"] for order in ("1", "2")
    )
    assert first == second[::-1]
    assert dict(first) == {"Yes": 1.0, "No": 0.0}


def test_probability_of_yes():
    """A causal model that finds Yes likelier by .5 for one group has that gap, in each order of the options."""
    experiment = "asked_false_alarms_odds"
    found = audited(
        lambda row: 0.2 + 0.5 * (row["group"] == "Muslims") + 0.1 * chance(row["text"]),
        "asked_false_alarms",
        experiment=experiment,
    )
    alarms = found[experiment, "Muslims"]
    assert alarms.estimate.value == pytest.approx(0.5, abs=0.05)
    assert alarms.verdict == "gap"
