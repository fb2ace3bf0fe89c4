"""From scored rows to findings: planted effects come back with their sign in every slice."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias import load_prompts
from swapbias.findings import disaggregate, findings_table, with_verdicts
from swapbias.findings.analysis import experiment_findings
from swapbias.findings.context import Context
from swapbias.findings.finding import primary_findings
from swapbias.measures import adjust
from swapbias.measures.gaps import group_gap
from swapbias.measures.intervals import at_level
from swapbias.runs.run import score_prompts
from swapbias.studies.catalogue import config_rows, load_study, studies
from swapbias.studies.published import published_rows
from tests import baselines
from tests.baselines import hash_of
from tests.experiments import uncontrolled
from tests.scoring import score_rows

CONFIGS = [
    (study, config, experiment)
    for study in studies()
    for experiment in load_study(study).experiments
    for config in experiment.reads.configs[:1]
    # Causal models read the rows of a masked experiment; notes are read in regimes (test_clinical) and answers of
    # chat models in trials (test_chat). Several groups have tests of their own (test_groups, test_packs).
    if experiment.kind not in ("causal", "embedding", "chat") and not experiment.compares.groups[1:]
]


def planted(sizes, wide=True):
    """Scores .5, plus the size planted for the group and subset, plus (wide) what depends on the template."""

    def rule(prompt):
        wiggle = (hash_of(prompt.template + prompt.condition) % 100) / 5_000 * wide
        tilt = (
            hash_of(prompt.pair_id + prompt.group) % 100
        ) / 10_000  # pairs differ, so that there is variance
        return (
            0.5
            + sizes.get((prompt.label, prompt.group), sizes.get(prompt.group, 0.0))
            + wiggle
            + tilt
        )

    return baselines.RuleScorer(rule)


def some_rows(study, config):
    """The rows of a config; of one of thousands those of every second, third ... pair."""
    rows = config_rows(study, config)
    pairs = list(dict.fromkeys(row["pair_id"] for row in rows))
    chosen = set(pairs[:: 1 + len(rows) // 400])
    return [row for row in rows if row["pair_id"] in chosen]


@pytest.mark.parametrize(
    ("study", "config", "experiment", "effect"),
    [(*one, 0.2 * (-1) ** at) for at, one in enumerate(CONFIGS)],
)
def test_planted_gap_in_every_slice(study, config, experiment, effect):
    """A planted gap is found with its sign in every slice of every config."""
    paired = experiment.is_paired  # what varies with the template cancels in pairs only
    rows = score_rows(
        some_rows(study, config), planted({experiment.compares.group: effect}, wide=paired)
    )
    found = disaggregate(pd.DataFrame(rows), uncontrolled(study), robustness=False)
    gaps = [one for one in found if one.measure == experiment.compares.measure]
    sliced = {one.name for one in experiment.shows.slices if paired or one.column != "condition"}
    assert {one.slice_by for one in gaps} == {"all", *sliced}
    for one in gaps:
        assert one.estimate.value == pytest.approx(effect, abs=0.011)
        if one.slice_by == "all" or not math.isnan(
            one.estimate.ci_low
        ):  # a group of one has no interval
            assert one.estimate.ci_low <= one.estimate.value <= one.estimate.ci_high


@pytest.mark.parametrize(("study", "config", "experiment"), CONFIGS)
def test_constant_and_silent_models(study, config, experiment):
    """A constant model has no gap, a silent one no score, and one that sees no group a gap of
    exactly zero."""
    rows = some_rows(study, config)

    def found_of(scorer):
        return disaggregate(pd.DataFrame(score_rows(rows, scorer)), uncontrolled(study))

    found = [one for one in found_of(baselines.blind()) if one.measure != "mean"]
    assert all(math.isnan(one.estimate.value) or one.measure == "count_above" for one in found)
    assert all(math.isnan(one.estimate.p_value) for one in found)
    for one in found_of(baselines.silent()):
        if one.measure == "nonanswer_gap":  # neither group is answered
            assert one.estimate.value == 0
            continue
        assert math.isnan(one.estimate.value)
        assert one.estimate.n == 0
        assert one.estimate.n_unscored > 0
    if experiment.compares.measure == "paired_gap":
        seen = baselines.RuleScorer(lambda prompt: 0.4 + (hash_of(prompt.pair_id) % 100) / 1_000)
        of_pairs = ("paired_gap", "gap_difference", "gap_beyond_wording")
        gaps = [one for one in found_of(seen) if one.measure in of_pairs]
        assert {one.estimate.value for one in gaps} == {0.0}
        assert all(math.isnan(one.estimate.p_value) for one in gaps)


def test_gap_in_one_subset():
    """A gap that is planted in one subset is the difference of gaps, and a model of the paper
    stands beside its numbers."""
    rows = score_rows(
        config_rows("gendered_stigma", "rq1"), planted({("mental_health", "female"): 0.3})
    )
    found = disaggregate(
        pd.DataFrame(rows).assign(model_id="FacebookAI/roberta-large"), "gendered_stigma"
    )
    contrast = next(one for one in found if one.measure == "gap_difference" and not one.view)
    assert contrast.subset == "mental_health - other_health"
    assert contrast.estimate.value == pytest.approx(0.3, abs=0.005)
    by_set = {
        one.subset: one.estimate.value
        for one in found
        if one.measure == "paired_gap" and one.slice_by == "all"
    }
    assert contrast.estimate.value == pytest.approx(
        by_set["mental_health"] - by_set["other_health"]
    )
    for name, sizes in (
        ("phase", [44, 66, 77]),
        ("diagnosis", [17] * 11),
    ):  # slices partition the pairs
        for subset in ("mental_health", "other_health"):
            gaps = [
                one.estimate.n
                for one in found
                if (one.slice_by, one.subset, one.measure, one.view)
                == (name, subset, "paired_gap", "")
            ]
            assert gaps == sizes
    published = [one for one in found if one.published]
    primary = next(
        one for one in published if one.measure == "paired_gap" and one.slice_by == "all"
    )
    assert primary.published.effect_size == "1.6383"
    assert primary.published.source == "Table 3; Table 4"


def families_of(findings):
    families = {}
    for finding in findings:
        if finding.estimate.family:
            families.setdefault(finding.estimate.family, []).append(finding)
    return families


def test_families():
    """Families are named and corrected, and nothing is corrected across studies."""
    rows = score_rows(config_rows("gendered_stigma", "rq1"), planted({"female": 0.2}))
    families = families_of(disaggregate(pd.DataFrame(rows), "gendered_stigma"))
    assert "rq1 paired_gap of score by phase: 6 tests, bonferroni" in families
    # The published t tests of the slices beside: to count them in would double the price of every slice.
    assert "rq1 paired_gap of score by phase, as published: 6 tests, bonferroni" in families
    for name, members in families.items():
        if members[0].primary:
            assert name == ""  # one question was run
            continue
        assert name.endswith(f": {len(members)} tests, bonferroni")
        expected = adjust([one.estimate.p_value for one in members], name.rsplit(" ", 1)[-1])
        assert [one.estimate.p_adjusted for one in members] == pytest.approx(
            list(expected), nan_ok=True
        )
        assert len({one.view for one in members}) == 1
    rows = score_rows(config_rows("occupation_sentiment", "control"), planted({"female": 0.05}))
    (one,) = primary_findings(disaggregate(pd.DataFrame(rows), "occupation_sentiment"))
    other = replace(
        one, study="gendered_stigma", experiment="rq1", estimate=replace(one.estimate, p_value=0.04)
    )
    both = with_verdicts([one, other])
    assert [each.questions for each in both] == [1, 1]
    assert both[0].estimate == one.estimate
    assert both[1].estimate.p_adjusted == pytest.approx(0.04)


@pytest.mark.parametrize("run", [("sentences", "control"), ("control",)], ids=["both", "control"])
def test_questions_of_a_study(run):
    """The questions of a study that a run answers are one family."""
    rows = []
    for config in run:
        rows += score_rows(config_rows("occupation_sentiment", config), planted({"female": 0.2}))
    found = disaggregate(pd.DataFrame(rows), "occupation_sentiment")
    answers = primary_findings(found)
    assert len(answers) == len(run)
    name = f"{len(run)} questions of occupation_sentiment" if len(run) > 1 else ""
    assert {one.estimate.family for one in answers} == {name}
    for one in answers:
        estimate = one.estimate
        assert estimate.p_adjusted == pytest.approx(min(1, len(run) * estimate.p_value))
        assert (estimate.ci_low > 0 or estimate.ci_high < 0) == (estimate.p_adjusted < 0.05)
        again = at_level(estimate, 0.05 / len(run))
        assert (estimate.ci_low, estimate.ci_high) == (again.ci_low, again.ci_high)


def test_python_api():
    """The Python functions lead from a data set to findings."""
    scores = score_prompts(load_prompts("occupation_sentiment", "control"), baselines.blind())
    assert scores.column_names[-4:] == ["model_id", "score", "answer", "top_tokens"]
    found = disaggregate(scores, load_study("occupation_sentiment"))
    assert next(one for one in found if one.measure == "paired_gap").estimate.n == 20
    rows = score_rows(config_rows("occupation_sentiment", "control"), baselines.blind())
    table = findings_table(disaggregate(pd.DataFrame(rows), "occupation_sentiment"))
    wanted = {
        "value",
        "ci_low",
        "effect_size",
        "p_value",
        "p_adjusted",
        "family",
        "n",
        "n_unscored",
        "unit",
        "cluster_vars",
        "published_value",
        "slice_by",
        "slice_value",
    }
    assert wanted <= set(table)
    two = pd.DataFrame([*rows, *({**row, "model_id": "other"} for row in rows)])
    with pytest.raises(
        ValueError, match=r"models \['blind', 'other'\], expected rows of exactly one"
    ):
        disaggregate(two, "occupation_sentiment")
    with pytest.raises(ValueError, match="no rows of gendered_stigma"):
        disaggregate(pd.DataFrame(rows), "gendered_stigma")


@pytest.mark.parametrize(
    "study", sorted({study for study, _, _ in CONFIGS if published_rows(study)})
)
def test_published_numbers_have_findings(study):
    """Every key of published.csv is one that disaggregate makes, so that each published number is
    compared, but those that are marked as not compared."""
    # of released outputs and tables, not of prompts
    counted = (
        "phrase_table_cells",
        "stereotype rate",
        "count",
        "dev_accuracy",
        "tau",
        "d_score",
    )
    published = [
        row
        for row in published_rows(study)
        if row["measure"] not in counted and not row["note"].startswith("not compared")
    ]
    names = {row["experiment"] for row in published}
    experiments = [
        one for one in load_study(study).experiments if one.reads.configs and one.name in names
    ]
    audited = {one.name: one.reads.configs[0] for one in experiments}
    rows = []
    for config in audited.values():
        rows += score_rows(config_rows(study, config), planted({"female": 0.1}))
    keys = (
        {one.key() for one in disaggregate(pd.DataFrame(rows), study, robustness=False)}
        if rows
        else set()
    )
    for row in published:
        names = ("experiment", "subset", "measure", "contrast", "slice_by", "slice_value")
        if row["experiment"] in audited:
            assert tuple(row[name] for name in names) in keys


def test_error_rate_of_the_contrast():
    """The contrast rejects in about 5 % where there is no difference: templates of both sets cancel
    and diagnoses do not, while the published t test over 374 gaps rejects more than half of the
    time."""
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1"))
    rows = rows[rows["group"] != "unspecified"].assign(model_id="simulated")
    whole = load_study("gendered_stigma")
    experiment = next(one for one in whole.experiments if one.name == "rq1")
    alone = whole.changed(
        experiments=(experiment.changed(shows={"slices": (), "levels": (), "covariates": ()}),)
    )
    rng = np.random.default_rng(0)
    rejected = {"": 0, "as published": 0}
    runs = 40
    for _ in range(runs):
        effects = {name: rng.normal(0, 0.042) for name in rows["template"].unique()}
        effects |= {name: rng.normal(0, 0.115) for name in rows["condition"].unique()}
        gaps = (
            rows["template"].map(effects)
            + rows["condition"].map(effects)
            + rng.normal(0, 0.035, len(rows))
        )
        frame = rows.assign(score=0.5 + gaps * (rows["group"] == "female"))
        for one in disaggregate(frame, alone, robustness=False):
            if one.measure == "gap_difference" and one.slice_by == "all":
                assert one.primary == (one.view == "")
                rejected[one.view] += one.estimate.p_value < 0.05
    assert rejected[""] <= 7  # of 40: at a true rate of 5 % more come below 1 in 1,000 times
    assert rejected["as published"] > 13


RQ1 = load_study("gendered_stigma").experiments[0]
IN_CATEGORIES = {"k": "aaaabb", "c": "xxyyzz"}  # each condition is of one category


@pytest.mark.parametrize(
    ("factors", "columns", "named"),
    [
        ("tc", {"t": "aabb", "c": "xyxy"}, "templates + conditions"),  # they cross
        (
            "kc",
            IN_CATEGORIES,
            "categories",
        ),  # what lies in another is held by that one, whatever the order
        ("kc", dict(reversed(IN_CATEGORIES.items())), "categories"),
        ("ck", IN_CATEGORIES, "categories"),
        (
            "kc",
            {"k": "aaaabb", "c": "xxyyzx"},
            "categories + conditions",
        ),  # a condition is in two categories
        (
            "tn",
            {"t": "xxyy", "n": "ppqq"},
            "templates",
        ),  # of two names for the same clusters the first
        ("nt", {"t": "xxyy", "n": "ppqq"}, "noun pairs"),
        ("tck", {"t": "ababab", **IN_CATEGORIES}, "templates + categories"),
        ("tc", {"t": "abab", "c": "xxxx"}, "templates"),  # a constant is no sample
        ("tc", {"t": "aaaa", "c": "xxxx"}, ""),  # where nothing is one, all rows are one cluster
        ("tc", {"other": "abcd"}, ""),
    ],
    ids=[
        "crossed",
        "nested",
        "nested in reverse",
        "nested first",
        "two categories of a condition",
        "same clusters",
        "same clusters in reverse",
        "three factors",
        "constant condition",
        "constant factors",
        "missing columns",
    ],
)
def test_nested_and_constant_factors(factors, columns, named):
    """Factors that are nested in another one or constant are not named."""
    names = {"t": "templates", "c": "conditions", "k": "categories", "n": "noun pairs"}
    experiment = RQ1.changed(design={"random": {one: names[one] for one in factors}})
    rows = pd.DataFrame({name: list(values) for name, values in columns.items()})
    clusters, found = Context("gendered_stigma", "m", experiment, "score").random(rows)
    assert found == named
    if named:
        assert " + ".join(clusters) == named
    else:
        assert {code for codes in clusters.values() for code in codes} == {0}


def gaps(**columns):
    """The gaps over all rows of pairs with gaps of .1, .2, .3 and so on, with the columns given."""
    blank = dict.fromkeys(("phase", "dimension", "act", "construct", "text", "polarity"), "x")
    rows = [
        {
            **blank,
            "experiment": "rq1",
            "model_id": "m",
            "label": "mental_health",
            "pair_id": f"p{number}",
            "prompt_id": f"{group}{number}",
            "group": group,
            "score": 0.2 + (number + 1) / 10 * (group == "female"),
            **{name: value(number) for name, value in columns.items()},
        }
        for number in range(6)
        for group in ("female", "male")
    ]
    findings = experiment_findings(
        Context("gendered_stigma", "m", RQ1, "score"), pd.DataFrame(rows)
    )
    return [
        finding
        for finding in findings
        if finding.measure == "paired_gap" and finding.slice_by == "all"
    ]


def test_rows_of_one_cluster():
    """Six prompts of one template and one diagnosis have a mean of .35 and no interval, since they
    are no sample of others."""
    designed, published = gaps(template=lambda number: "t", condition=lambda number: "c")
    assert (designed.cluster_vars, published.view) == ("", "as published")
    assert (published.estimate.test, published.estimate.df) == ("paired t", 5)
    assert designed.estimate.value == published.estimate.value == pytest.approx(0.35)
    one = designed.estimate
    assert all(math.isnan(x) for x in (one.ci_low, one.ci_high, one.p_value))
    assert published.estimate.p_value < 0.05  # the paper's test takes them for six independent ones
    (designed, _) = gaps(template=lambda number: "t", condition=lambda number: f"c{number // 2}")
    assert designed.cluster_vars == "diagnoses"
    # Cluster means .15, .35, .55: SD .2, error .2 / sqrt 3; t(2) at .975 = 4.302653.
    assert designed.estimate.std_error == pytest.approx(0.2 / math.sqrt(3))
    assert designed.estimate.df == pytest.approx(2)
    assert designed.estimate.ci_low == pytest.approx(0.35 - 4.302653 * 0.2 / math.sqrt(3), abs=1e-6)


def test_design_and_published_test():
    """The gap over categories of the design comes before the paper's Welch test."""
    study = load_study("social_distance")
    number = np.arange(60)
    names = {key: [f"c{one}" for one in number] for key in ("condition", "rendering", "text")}
    frame = pd.DataFrame({**names, "label": [f"k{one % 10}" for one in number]}).assign(
        experiment="sentiment",
        model_id="m",
        pair_id="",
        template="t",
        group=np.where(number % 3, "stigmatized", "other"),
        score=np.random.default_rng(4).uniform(size=60),
    )
    wanted = ("group_gap", "all", "score")
    every = disaggregate(frame, study, expected={})
    found = [one for one in every if (one.measure, one.slice_by, one.score) == wanted]
    both = [(one.cluster_vars, one.view, one.primary) for one in found]
    assert both == [("categories", "", True), ("", "as published", False)]
    over = {"reference_group": "other", "cluster_ids": frame["label"]}
    slow = group_gap(frame["score"], frame["group"], **over).p_value
    sides = (frame.loc[frame["group"] == name, "score"] for name in ("stigmatized", "other"))
    published = stats.ttest_ind(*sides, equal_var=False)
    assert [one.estimate.p_value for one in found] == pytest.approx([slow, published.pvalue])
    assert len({one.estimate.value for one in found}) == 1
