"""From scored rows to findings: planted effects come back with their sign, in every slice."""

import math
import zlib

import numpy as np
import pandas as pd
import pytest

from swapbias.audit.run import score_prompts, score_rows
from swapbias.findings.disaggregation import disaggregate, findings_table
from swapbias.measures.levels import adjust
from swapbias.studies.catalogue import config_rows, load_prompts, load_study, studies
from swapbias.studies.tables import published_rows
from tests import baselines

CONFIGS = [
    (study, config, experiment)
    for study in studies()
    for experiment in load_study(study).experiments
    for config in experiment.configs[:1]
    # Causal models read the rows of a masked experiment; notes are read in regimes (test_phenotyping) and answers of
    # chat models in trials (test_chat_audit).
    if experiment.kind not in ("causal", "embedding", "chat")
]


def planted(sizes, wide=True):
    """Scores .5, plus the size planted for the group and subset, plus (wide) what depends on the template."""

    def rule(prompt):
        wiggle = (hash_of(prompt.template + prompt.condition) % 100) / 5_000 * wide
        tilt = (hash_of(prompt.pair_id + prompt.group) % 100) / 10_000  # pairs differ, so that there is variance
        return 0.5 + sizes.get((prompt.label, prompt.group), sizes.get(prompt.group, 0.0)) + wiggle + tilt

    return baselines.RuleScorer(rule)


def hash_of(text):
    return zlib.crc32(text.encode())


@pytest.mark.parametrize(("study", "config", "experiment"), CONFIGS)
@pytest.mark.parametrize("effect", [0.2, -0.2])
def test_a_planted_gap_is_found_with_its_sign_in_every_slice(study, config, experiment, effect):
    paired = experiment.measure == "paired_gap"  # what varies with the template cancels in pairs only
    rows = score_rows(config_rows(study, config), planted({experiment.group: effect}, wide=paired))
    gaps = [one for one in disaggregate(pd.DataFrame(rows), study) if one.measure == experiment.measure]
    sliced = {one.name for one in experiment.slices if paired or one.column != "condition"}
    assert {one.slice_by for one in gaps} == {"all", *sliced}
    for one in gaps:
        assert one.estimate.value == pytest.approx(effect, abs=0.011)
        if one.slice_by == "all" or not math.isnan(one.estimate.ci_low):  # a group of one has no interval
            assert one.estimate.ci_low <= one.estimate.value <= one.estimate.ci_high


@pytest.mark.parametrize(("study", "config", "experiment"), CONFIGS)
def test_a_blind_model_has_exactly_no_gap(study, config, experiment):
    rows = score_rows(config_rows(study, config), baselines.blind())
    found = [one for one in disaggregate(pd.DataFrame(rows), study) if one.measure != "mean"]
    assert {one.estimate.value for one in found if one.measure != "correlation"} == {0.0}
    assert all(math.isnan(one.estimate.p_value) for one in found)


@pytest.mark.parametrize(("study", "config", "experiment"), CONFIGS)
def test_a_silent_model_is_counted_not_scored(study, config, experiment):
    rows = score_rows(config_rows(study, config), baselines.silent())
    for one in disaggregate(pd.DataFrame(rows), study):
        assert math.isnan(one.estimate.value)
        assert one.estimate.n == 0
        assert one.estimate.n_unscored > 0


def test_a_gap_planted_in_one_set_is_the_difference_of_gaps():
    rows = score_rows(config_rows("gendered_stigma", "rq1"), planted({("mental_health", "female"): 0.3}))
    found = disaggregate(pd.DataFrame(rows), "gendered_stigma")
    contrast = next(one for one in found if one.measure == "gap_difference" and not one.robust)
    assert contrast.subset == "mental_health - other_health"
    assert contrast.estimate.value == pytest.approx(0.3, abs=0.005)
    by_set = {
        one.subset: one.estimate.value for one in found if one.measure == "paired_gap" and one.slice_by == "all"
    }
    assert contrast.estimate.value == pytest.approx(by_set["mental_health"] - by_set["other_health"])


def test_slices_partition_the_pairs():
    rows = score_rows(config_rows("gendered_stigma", "rq1"), planted({"female": 0.1}))
    found = disaggregate(pd.DataFrame(rows), "gendered_stigma")
    for name, sizes in (("phase", [44, 66, 77]), ("diagnosis", [17] * 11)):
        for subset in ("mental_health", "other_health"):
            gaps = [
                one.estimate.n
                for one in found
                if (one.slice_by, one.subset, one.measure, one.robust) == (name, subset, "paired_gap", "")
            ]
            assert gaps == sizes


def test_families_are_named_and_corrected():
    rows = score_rows(config_rows("gendered_stigma", "rq1"), planted({"female": 0.002}))
    found = disaggregate(pd.DataFrame(rows), "gendered_stigma")
    families = {}
    for one in found:
        if one.estimate.family:
            families.setdefault(one.estimate.family, []).append(one.estimate)
    assert "rq1 paired_gap of score by phase: 6 tests, bonferroni" in families
    for members in families.values():
        expected = adjust([one.p_value for one in members], "bonferroni")
        assert [one.p_adjusted for one in members] == pytest.approx(list(expected))


def test_the_robust_view_has_the_same_value_and_another_interval():
    rows = score_rows(config_rows("occupation_sentiment", "sentences"), planted({"female": 0.05}))
    found = disaggregate(pd.DataFrame(rows), "occupation_sentiment")
    plain, robust = (one for one in found if one.measure == "paired_gap" and one.slice_by == "all")
    assert (plain.robust, robust.robust) == ("", "clustered by template")
    assert plain.estimate.value == pytest.approx(robust.estimate.value)
    assert plain.estimate.ci_low != robust.estimate.ci_low


def test_the_python_api_goes_from_dataset_to_findings():
    scores = score_prompts(load_prompts("occupation_sentiment", "control"), baselines.blind())
    assert scores.column_names[-4:] == ["model_id", "score", "answer", "top_tokens"]
    found = disaggregate(scores, load_study("occupation_sentiment"))
    assert next(one for one in found if one.measure == "paired_gap").estimate.n == 20


def test_rows_of_two_models_or_of_no_study_are_refused():
    rows = score_rows(config_rows("occupation_sentiment", "control"), baselines.blind())
    two = pd.DataFrame([*rows, *({**row, "model_id": "other"} for row in rows)])
    with pytest.raises(ValueError, match=r"models \['blind', 'other'\], expected rows of exactly one"):
        disaggregate(two, "occupation_sentiment")
    with pytest.raises(ValueError, match="no rows of gendered_stigma"):
        disaggregate(pd.DataFrame(rows), "gendered_stigma")


@pytest.mark.parametrize("study", sorted({study for study, _, _ in CONFIGS}))
def test_every_published_number_has_a_finding_to_stand_beside(study):
    """Each key of published.csv must be one that disaggregate makes, or the number is never compared."""
    rows = []
    for experiment in load_study(study).experiments:
        for config in experiment.configs[:1]:
            rows += score_rows(config_rows(study, config), planted({"female": 0.1}))
    keys = {one.key() for one in disaggregate(pd.DataFrame(rows), study)}
    audited = {experiment.name for experiment in load_study(study).experiments if experiment.configs}
    for row in published_rows(study):
        names = ("experiment", "subset", "measure", "contrast", "slice_by", "slice_value")
        if row["experiment"] in audited and row["measure"] != "phrase_table_cells":
            assert tuple(row[name] for name in names) in keys


def test_a_paper_model_is_held_against_its_numbers():
    rows = score_rows(config_rows("gendered_stigma", "rq1"), planted({"female": 0.1}))
    frame = pd.DataFrame(rows).assign(model_id="FacebookAI/roberta-large")
    found = [one for one in disaggregate(frame, "gendered_stigma") if one.published]
    headline = next(one for one in found if one.measure == "paired_gap" and one.slice_by == "all")
    assert headline.published.effect_size == "1.6383"
    assert headline.published.source == "Table 3; Table 4"


def test_the_table_is_long_and_flat():
    rows = score_rows(config_rows("occupation_sentiment", "control"), baselines.blind())
    table = findings_table(disaggregate(pd.DataFrame(rows), "occupation_sentiment"))
    wanted = {"value", "ci_low", "effect_size", "p_value", "p_adjusted", "family", "n", "n_unscored", "unit",
              "direction", "published_value", "slice_by", "slice_value"}  # fmt: skip
    assert wanted <= set(table)


def test_the_robust_contrast_rejects_as_often_as_it_says_when_there_is_no_difference():
    """Gaps with large template effects and small diagnosis effects, the same in both sets: p < .05 in about 5 %.

    Clustered on templates, which stand in both sets, the template effects cancel and the diagnosis effects are
    missed: that way it would be more than half.
    """
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1"))
    rows = rows[rows["group"] != "unspecified"].assign(model_id="simulated", closed_list_mass=0.0)
    rng = np.random.default_rng(0)
    rejected, runs = 0, 60
    for _ in range(runs):
        effects = {name: rng.normal(0, 0.2) for name in rows["template"].unique()}
        effects |= {name: rng.normal(0, 0.02) for name in rows["condition"].unique()}
        gaps = rows["template"].map(effects) + rows["condition"].map(effects) + rng.normal(0, 0.01, len(rows))
        frame = rows.assign(score=0.5 + gaps * (rows["group"] == "female"))
        found = disaggregate(frame, "gendered_stigma")
        contrast = [one for one in found if one.measure == "gap_difference" and one.slice_by == "all"]
        robust = next(one for one in contrast if one.robust == "clustered by condition" and one.score == "score")
        rejected += robust.estimate.p_value < 0.05
    assert rejected <= 9  # 15 %: chance of more at a true rate of 5 % is below 1 in 1,000


def test_the_seed_moves_resampled_intervals_and_nothing_else():
    rows = pd.DataFrame(score_rows(config_rows("social_distance", "sentiment"), planted({"stigmatized": 0.1})))
    first, again, other = (disaggregate(rows, "social_distance", seed=seed) for seed in (1, 1, 2))
    assert [one.estimate.ci_low for one in first if one.robust] == [
        one.estimate.ci_low for one in again if one.robust
    ]
    assert [one.estimate.ci_low for one in first if one.robust] != [
        one.estimate.ci_low for one in other if one.robust
    ]
    assert [one.estimate.value for one in first] == [one.estimate.value for one in other]
