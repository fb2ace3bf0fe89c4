"""The inference at its edges, through the public API: no result without equal evidence reads as
"no gap"."""

import itertools
import json
import math
import zlib

import numpy as np
import pandas as pd
import pytest

import swapbias
from swapbias.findings import check_gaps, disaggregate, primary_findings
from swapbias.measures import omnibus
from swapbias.report import render_terminal
from swapbias.report.gate_text import describe_check
from swapbias.report.numbers import interval_name
from swapbias.report.verdicts import state_verdict
from swapbias.studies.own import open_study
from tests.test_all_clears import audited, check, even, primary

NAMES = {
    "female": ["Ann", "Eve", "Mia", "Zoe", "Ida", "Amy", "Liz", "Joy"],
    "male": ["Bob", "Tom", "Max", "Leo", "Ian", "Jon", "Ray", "Sam"],
}
MARGIN = 0.05


def with_names(templates, names=8, **columns):
    """A table of every template with every pair of names."""
    return pd.DataFrame(
        {
            "text": text.format(NAMES[group][number]),
            "group": group,
            "pair": f"{place}-{number}",
            "name": NAMES[group][number],
        }
        | {key: make(place) for key, make in columns.items()}
        for place, text in enumerate(templates)
        for number in range(names)
        for group in NAMES
    )


def stories(count):
    return [f"{{}} tells story {number}." for number in range(count)]


def numbered(texts):
    """A share from 0 to 1 for each text, without what stands before its first blank."""
    return [zlib.crc32((text.partition(" ")[2] or text).encode()) % 1000 / 1000 for text in texts]


def study_of(table, **options):
    name = f"edge{zlib.crc32(pd.util.hash_pandas_object(table).values.tobytes())}"
    study = open_study(table, reference="male", name=name, **options)
    experiment = next(
        candidate for candidate in study.experiments if candidate.kind == "classifier"
    )
    return study, experiment


def found_of(table, gaps, **options):
    """The findings of scores whose gap is that of each pair, on prompts of a user's own."""
    study, experiment = study_of(table, **options)
    rows = pd.DataFrame(swapbias.studies.config_rows(study.name, experiment.reads.configs[0]))
    side = np.where(rows["group"] == "female", 0.5, -0.5)
    base = 0.3 + 0.4 * np.asarray(numbered(rows["pair_id"]))
    scores = base + side * rows["pair_id"].map(gaps).to_numpy(dtype=float)
    rows = rows.assign(score=scores, experiment=experiment.name, model_id="m")
    return disaggregate(rows, study, expected={}, robustness=False)


def gap_of(table, gaps, **options):
    (finding,) = primary_findings(found_of(table, gaps, **options))
    return finding


def test_names_over_templates():
    """Nine templates with the same eight names are eight independent units, too few to decide."""
    run = audited(even, with_names(stories(9)))
    assert (primary(run)["verdict"], primary(run)["independent"], primary(run)["n"]) == (
        "undecided",
        8,
        72,
    )
    assert check(run.run.folder).exit_code == 3
    assert "72 pairs of names are needed to rule out a gap of 5 points" in " ".join(
        str(run).split()
    )


@pytest.mark.parametrize("spread", [0.0, 1e-4, 4e-3])
def test_four_almost_equal_pairs(spread):
    """Four pairs that hardly differ are "no gap" neither in the verdict nor in the gate."""
    table = with_names(stories(4), names=1)
    gaps = dict(zip(table["pair"].unique(), [spread, -spread, spread / 2, 0.0], strict=True))
    found = gap_of(table, gaps)
    assert found.verdict == "undecided"
    assert check_gaps([found]).code == 3
    assert math.isnan(found.estimate.ci_low)  # no interval beside it that would say otherwise


def test_equal_scores_from_72_templates():
    """Equal scores are "no gap" from 72 templates on and undecided below."""
    for count, word in ((71, "undecided"), (72, "no gap")):
        table = with_names(stories(count), names=1)
        assert gap_of(table, dict.fromkeys(table["pair"], 0.0)).verdict == word


def test_one_template():
    """One template is too few levels unless the claim is about that template."""
    table = with_names(["{} is late."])
    gaps = dict(zip(table["pair"].unique(), np.linspace(-0.02, 0.02, 8), strict=True))
    found = gap_of(table, gaps)
    assert (found.verdict, found.estimate.fewest, found.estimate.fewest_of) == (
        "too few levels",
        1,
        "templates",
    )
    assert check_gaps([found]).code == 3
    about_it = gap_of(table, gaps, fixed="template")
    assert about_it.verdict != "too few levels"
    assert str(state_verdict(about_it)).split(": ", 1)[1].startswith("for this one template")


def test_levels_weigh_alike():
    """Each level weighs the same however many rows it has, and the sentence says so."""
    sizes = (8, 1, 1, 1, 1, 1)
    parts = [
        with_names([text], names=size).assign(
            template=text, pair=lambda rows, text=text: text + rows["name"].str[-2:]
        )
        for text, size in zip(stories(6), sizes, strict=True)
    ]
    table = pd.concat(parts)
    pair_of = {name: str(number) for names in NAMES.values() for number, name in enumerate(names)}
    table["pair"] = table["template"] + table["name"].map(pair_of)
    gaps = {
        pair: 0.4 if "story 0" in pair else number / 100
        for number, pair in enumerate(table["pair"].unique())
    }
    found = gap_of(table, gaps)
    pairs = table.drop_duplicates("pair")
    by_template = pairs["pair"].map(gaps).groupby(pairs["template"])
    assert found.estimate.value == pytest.approx(by_template.mean().mean())
    assert found.row_mean == pytest.approx(np.mean(list(gaps.values())))
    assert "count the same; the plain mean of all pairs is" in str(state_verdict(found))
    means = {
        one.contrast: one.estimate.value
        for one in found_of(table, gaps)
        if (one.measure, one.slice_by, one.view) == ("mean", "all", "")
    }
    assert means["female"] - means["male"] == pytest.approx(found.estimate.value)


def test_fixed_column():
    """The verdict is limited to the values of a column that has few of them."""
    table = with_names(stories(9), topic=lambda place: f"topic {place % 3}")
    found = gap_of(table, dict.fromkeys(table["pair"], 0.2))
    assert found.fixed == "3 topics"
    assert "for these 3 topics" in str(state_verdict(found))


def test_labels_swapped_in_half():
    """Labels that are swapped in half of the pairs are "no gap" neither in the verdict nor in the
    gate."""
    table = with_names(stories(200), names=1)
    table["name"] = ""
    table["text"] = [
        f"{group} {number} waits."
        for number, group in enumerate(table["text"].str.split(" ").str[0])
    ]
    gaps = {
        pair: 0.2 * (-1) ** number + 0.001 * (number % 7)
        for number, pair in enumerate(table["pair"].unique())
    }
    found = gap_of(table.drop(columns="name"), gaps)
    assert found.mean_absolute == pytest.approx(0.2, abs=0.01)
    assert found.verdict != "no gap"
    assert check_gaps([found]).code == 3


def test_unanimous_units_of_group_gap():
    """Units that all agree on a side of zero are a gap in a comparison of three groups too."""
    table = pd.DataFrame(
        {"text": f"Story {pair} of {group}s.", "group": group, "pair": str(pair)}
        for pair in range(16)
        for group in ("female", "other", "male")
    )
    study, experiment = study_of(table)
    rows = pd.DataFrame(swapbias.studies.config_rows(study.name, experiment.reads.configs[0]))
    rows = rows.assign(
        score=(rows["group"] == "female").astype(float), experiment=experiment.name, model_id="m"
    )
    found = primary_findings(disaggregate(rows, study, expected={}))
    whole = next(one for one in found if one.measure == "group_spread")
    assert whole.estimate.p_adjusted < 0.01
    text = " ".join(render_terminal(found).split())
    assert "no difference among" not in text
    first = next(one for one in found if one.contrast == "female - male")
    assert first.verdict == "gap"


def test_interval_names(tmp_path):
    """One question has a plain 95 % interval, and several questions have one that names its
    correction."""
    options = {"limit": 60, "wordings": False, "progress": False}
    alone = swapbias.audit(None, "gendered_stigma:rq1", **options).found
    (one,) = primary_findings(alone)
    assert (one.questions, interval_name(one)) == (1, "95 % interval")
    rows = [finding for finding in alone if finding.slice_by == "phase" and finding.verdict]
    assert rows
    for row in rows:
        assert row.questions > 1
        if row.verdict in ("gap", "gap within the margin"):
            assert row.estimate.ci_low > 0 or row.estimate.ci_high < 0
        if row.verdict == "no gap":
            assert row.estimate.ci_low <= 0 <= row.estimate.ci_high


def test_margin_of_audit_and_gate(tmp_path):
    """The margin is that of the audit unless the gate is given one."""

    def model(texts):
        return [
            0.5 + 0.3 * (number - 0.5) + 0.03 * text.startswith(tuple(NAMES["female"]))
            for text, number in zip(texts, numbered(texts), strict=True)
        ]

    run = audited(model, with_names(stories(90), names=1), margin=0.01, out=tmp_path / "run")
    record = json.loads(check(tmp_path / "run", "--json").output)
    assert record["checks"][0]["margin"] == pytest.approx(0.01)
    assert "the margin of 1 point." in " ".join(check(tmp_path / "run", "--verbose").output.split())
    wider = json.loads(check(tmp_path / "run", "--max-gap", "0.5", "--json").output)
    assert wider["checks"][0]["margin"] == 0.5
    assert "margin of 1 point" in run.report().read_text()


def test_unread_answers_decide_nothing():
    """Equal answers beside unread ones leave the verdict undecided."""
    scores = [0.2, 0.4, *[0.6] * 14, *[math.nan] * 4]
    drawn = itertools.cycle(scores)
    table = with_names(stories(40), names=1)
    study, experiment = study_of(table)
    rows = pd.DataFrame(swapbias.studies.config_rows(study.name, experiment.reads.configs[0]))
    rows = rows.assign(
        score=[next(drawn) for _ in rows.index], experiment=experiment.name, model_id="m"
    )
    (found,) = primary_findings(disaggregate(rows, study, expected={}))
    assert found.repeated_share == pytest.approx(0.7)
    assert found.verdict == "undecided"
    assert check_gaps([found]).code == 3


def of_three_groups(count, score):
    """The findings of pairs about three groups, by a function of group and pair."""
    table = pd.DataFrame(
        {"text": f"Story {pair} of {group}s.", "group": group, "pair": str(pair)}
        for pair in range(count)
        for group in ("female", "other", "male")
    )
    study, experiment = study_of(table)
    rows = pd.DataFrame(swapbias.studies.config_rows(study.name, experiment.reads.configs[0]))
    scores = [
        score(group, pair) for group, pair in zip(rows["group"], rows["pair_id"], strict=True)
    ]
    rows = rows.assign(score=scores, experiment=experiment.name, model_id="m")
    return disaggregate(rows, study, expected={})


@pytest.mark.parametrize(("count", "word", "code"), [(20, "Undecided", 3), (80, "No gap", 0)])
def test_equal_scores_of_three_groups(count, word, code):
    """Equal scores of three groups have one word with the reason for it."""

    def even_score(group, pair):
        return 0.3 + 0.4 * numbered([f"x {pair}"])[0]

    found = of_three_groups(count, even_score)
    text = " ".join(render_terminal(found).split())
    assert f"{word.upper()} m scores the 3 groups the same." in text
    assert "may be chance" not in text
    if code:
        assert "hardly vary over too few pairs to rule out a gap of 5 points" in text
    assert check_gaps(found).code == code


def test_pairs_that_differ_both_ways():
    """Pairs whose differences cancel are not said to score the same."""
    table = with_names(stories(4), names=1)
    gaps = dict(zip(table["pair"].unique(), [0.002, -0.002, 0.001, -0.001], strict=True))
    assert "score the same" not in " ".join(
        render_terminal(found_of(table, gaps), verbose=True).split()
    )


def test_passing_gate_names_unscored():
    """A gate that passes names the pairs that have no score."""
    table = with_names(stories(80), names=1)
    rng = np.random.default_rng(3)
    gaps = {pair: rng.normal(0, 0.01) for pair in table["pair"].unique()}
    gaps[table["pair"].iloc[0]] = math.nan
    found = found_of(table, gaps)
    (check_of_gap,) = check_gaps(found).checks
    assert check_of_gap.outcome == "passes"
    assert describe_check(check_of_gap).endswith(
        "within the margin of 5 points; 1 of 80 has no score."
    )


def test_undecided_gap_without_influences():
    """An undecided gap names no influential item if it is undecided without that item too."""
    table = with_names(stories(8), names=1)
    gaps = dict(
        zip(table["pair"].unique(), [0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0.05, -0.04], strict=True)
    )
    study, experiment = study_of(table)
    rows = pd.DataFrame(swapbias.studies.config_rows(study.name, experiment.reads.configs[0]))
    side = np.where(rows["group"] == "female", 0.5, -0.5)
    scores = 0.5 + side * rows["pair_id"].map(gaps).to_numpy(dtype=float)
    (found,) = primary_findings(
        disaggregate(
            rows.assign(score=scores, experiment=experiment.name, model_id="m"), study, expected={}
        )
    )
    assert found.verdict == "undecided"
    assert found.loo_min < 0 < found.loo_max
    assert found.influences == []


def test_no_spread_beside_baseline(tmp_path):
    """A gap without spread does not pass beside a baseline: all eight names change by one point,
    and the two gaps differ by less than half a point."""

    def model(shift):
        def score_of(text, number):
            is_female = text.startswith(tuple(NAMES["female"]))
            return (
                0.2
                + 0.5 * number
                + shift * is_female
                + 0.02 * (zlib.crc32(text.encode()) % 1000 / 1000)
            )

        def score(texts):
            return [
                score_of(text, number) for text, number in zip(texts, numbered(texts), strict=True)
            ]

        return score

    table = with_names(stories(9))
    audited(model(0.0), table, name="old", out=tmp_path / "old")
    audited(model(0.01), table, name="new", out=tmp_path / "new")
    assert check(tmp_path / "new").exit_code == 3
    assert check(tmp_path / "new", "--baseline", tmp_path / "old").exit_code == 3


@pytest.mark.parametrize("name", ["stigma_social_class", "stigma_race"])
def test_zero_difference_of_equal_gaps(name):
    """A difference of zero between two gaps of 100 points is not called the same score."""
    study = swapbias.studies.load_study("group_packs")
    experiment = next(one for one in study.experiments if one.name == name)
    rows = pd.DataFrame(swapbias.studies.config_rows("group_packs", experiment.reads.configs[0]))
    scores = (rows["group"] == experiment.compares.group).astype(float)
    rows = rows.assign(score=scores, experiment=name, model_id="m")
    found = disaggregate(rows, study, expected={}, robustness=False)
    text = " ".join(render_terminal(found, verbose=True).split())
    assert "score the same" not in text
    assert "groups the same" not in text
    assert "interval leaves out" not in text  # there is none
    assert "the gaps difference" not in text
    assert check_gaps(found).code == 3


@pytest.mark.parametrize("name", ["occupation_names", "occupation_age", "diagnosis_age"])
def test_unanimous_crossed_factors(name):
    """An effect of crossed factors is decided when all its units agree."""
    study = swapbias.studies.load_study("group_packs")
    experiment = next(one for one in study.experiments if one.name == name)
    rows = pd.DataFrame(swapbias.studies.config_rows("group_packs", experiment.reads.configs[0]))
    scores = (rows["group"] == experiment.compares.group).astype(float)
    found = disaggregate(
        rows.assign(score=scores, experiment=name, model_id="m"),
        study,
        expected={},
        robustness=False,
    )
    effects = [one for one in primary_findings(found) if one.verdict]
    assert {one.verdict for one in effects} == {"gap"}
    assert "no difference among" not in " ".join(render_terminal(found).split())


@pytest.mark.parametrize(("templates", "is_decided"), [(4, False), (5, False), (6, True)])
def test_constant_gap_over_templates(templates, is_decided):
    """A constant gap takes six templates if both groups share them: four templates with names on
    one side each are not eight."""
    rows = [
        (group, template, f"{group}{name}")
        for group in "ab"
        for template in range(templates)
        for name in range(9)
    ]
    groups, places, names = zip(*rows, strict=True)
    whole = omnibus(
        [float(group == "a") for group in groups],
        groups,
        cluster_ids={"templates": places, "names": names},
        reference_group="b",
    )
    assert (whole.estimate.p_value < 0.05) == is_decided
