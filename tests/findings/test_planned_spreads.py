"""Spreads that plans assume: named, recomputed from released outputs, and split into components."""

import math

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import disaggregate, primary_findings
from swapbias.findings.compared_units import primary_rows
from swapbias.findings.context import Context
from swapbias.findings.planned_spreads import Spreads, design_of
from swapbias.findings.planning import PlannedExperiment, enlarged, plan_gaps
from swapbias.findings.terms import SPREAD
from swapbias.findings.unit_rows import gap_units
from swapbias.measures.design import Design
from swapbias.report.planning_text import planned_basis
from swapbias.studies import own_studies
from swapbias.studies.catalogue import config_rows, load_corpus, load_study, studies
from swapbias.studies.own.own_study import open_study
from swapbias.studies.tables import upstream_file


def experiment_of(study, name):
    return next(
        experiment for experiment in load_study(study).experiments if experiment.name == name
    )


@pytest.mark.parametrize("study", studies())
def test_spreads_name_their_outputs(study):
    """Declared spreads name the study and the model of the outputs that they come from."""
    for one in load_study(study).experiments:
        assert bool(one.design.planned_sd) == bool(one.design.planned_sd_of), one.name
        if one.design.planned_sd:
            source, model = one.design.planned_sd_of
            by_authors = model in {released.model for released in load_corpus(source).released}
            assert by_authors == (one.design.sd_measured_by == "authors"), one.name


def test_prompts_of_a_user_name_their_spreads():
    """Prompts of a user name the outputs from which their spreads come."""
    pairs = [(word, number) for number in range(5) for word in ("he", "she")]
    rows = pd.DataFrame(
        [{"text": f"{word} is {number}", "group": word, "pair": number} for word, number in pairs]
    )
    study = open_study(rows, reference="he", name="sourced")
    assert "sourced" in own_studies()
    by_kind = {one.kind: one for one in study.experiments}
    assert by_kind["classifier"].design.planned_sd_of[0] == "occupation_sentiment"
    whole = np.sqrt(
        0.125**2 + 0.048**2 + 0.136**2
    )  # pairs that share nothing vary by all that varies there
    assert by_kind["classifier"].design.planned_sd == {
        "pair_id": pytest.approx(whole, abs=5e-4),
        "": 0.0,
    }
    assert by_kind["causal"].design.planned_sd == {}
    assert by_kind["causal"].design.planned_sd_of == ()


@pytest.mark.parametrize(
    ("name", "model"), [("masked", "albert-base-v2"), ("causal", "pythia-410m")]
)
def test_spreads_of_gest(upstream, name, model):
    """Spreads of GEST are those of the released scores."""
    experiment = experiment_of("gest", name)
    assert experiment.design.planned_sd_of == ("gest", model)
    released = next(
        one for one in load_corpus("gest").released if (one.model, one.experiment) == (model, name)
    )
    rows = pd.DataFrame(
        released.rows({path: upstream_file("gest", path) for path in released.files})
    )
    units = gap_units(Context("", "", experiment, "score"), rows)
    found = design_of(units).components(units.columns[0])
    declared = {
        experiment.design.random.get(column, column): value
        for column, value in experiment.design.planned_sd.items()
    }
    assert found == pytest.approx(declared, abs=6e-4)


def test_components_of_a_balanced_table():
    """Components of a balanced table are those of its analysis of variance."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 1)) + 2 * rng.normal(size=(1, 8)) + 0.5 * rng.normal(size=(6, 8))
    rows, columns = np.indices(table.shape).reshape(2, -1)
    rest = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    residual = (rest**2).sum() / (5 * 7)
    by_hand = [
        table.mean(1).var(ddof=1) - residual / 8,
        table.mean(0).var(ddof=1) - residual / 6,
        residual,
    ]
    design = Design.of_means(np.zeros(48, dtype=int), {"rows": rows, "columns": columns}, (1.0,))
    assert design.components(table.ravel()) == pytest.approx(
        dict(zip(("rows", "columns", ""), np.sqrt(by_hand), strict=True))
    )
    one_level = Design.of_means(np.zeros(8, dtype=int), {"a": np.zeros(8, dtype=int)}, (1.0,))
    assert one_level.components(np.arange(8.0)) == {}
    assert [*design.components(np.ones(48)).values()] == pytest.approx([0, 0, 0], abs=1e-12)


def test_components_give_expected_error():
    """Components give the expected error of the audit, whatever the design."""
    # Two sides, unequal clusters that both sides share, unequal weights: the audit's own error, from its components.
    rng = np.random.default_rng(1)
    for weights in ((1.0,), (1.0, -1.0)):
        sides = rng.integers(len(weights), size=90)
        factors = {"a": rng.integers(7, size=90), "b": rng.integers(9, size=90)}
        shares = rng.uniform(1, 3, size=90)
        shares /= np.bincount(sides, shares)[sides]
        design = Design.of_means(sides, factors, weights, shares)
        values = (
            rng.normal(size=90)
            + rng.normal(size=7)[factors["a"]]
            + 2 * rng.normal(size=9)[factors["b"]]
        )
        std_error, df, _ = design.spread(values)
        assert design.expected(design.components(values), independent=True) == pytest.approx(
            (std_error, df)
        )


def test_enlarged_design():
    """An enlarged design has the levels and the error of one that is made so."""

    # 4 templates x 3 names on each of two sides, the templates three times: as 12 templates x 3 names.
    def crossed(templates, names):
        side, template, name = np.indices((2, templates, names)).reshape(3, -1)
        return Design.of_means(
            side, {"templates": template + templates * side, "names": name}, (1.0, -1.0)
        )

    sds = {"templates": 0.3, "names": 0.2, "": 0.1}
    spreads = Spreads(sds, run="a run")
    tripled = enlarged(crossed(4, 3), {"templates": 3.0})
    assert spreads.error(tripled) == pytest.approx(spreads.error(crossed(12, 3)))
    both = enlarged(crossed(4, 3), {"templates": 2.0, "names": 2.0})
    assert spreads.error(both) == pytest.approx(spreads.error(crossed(8, 6)))
    fewer = enlarged(crossed(4, 3), {"templates": 0.5})
    assert spreads.error(fewer) == pytest.approx(spreads.error(crossed(2, 3)))
    for design in (tripled, both, fewer):
        assert np.bincount(design.sides, design.shares) == pytest.approx(1)
    ninth = enlarged(crossed(8, 3), {"templates": 9 / 8})
    assert len(np.unique(ninth.factors["templates"])) == 18  # 9 on each side


def test_nested_factor():
    """Effects of a factor that is nested in another are part of the remainder."""
    # 20 pairs: 5 templates, each with 2 conditions of its own, each with 2 pairs. Conditions add .048^2 / 10 to the
    # variance of the gap, which is 2 x .048^2 for each of 20 pairs; templates .125^2 / 5, the rest .136^2 / 20.
    pairs = [
        (template, condition, number)
        for template in range(5)
        for condition in range(2)
        for number in range(2)
    ]
    rows = pd.DataFrame(
        [
            {
                "text": f"{word} {template} {condition} {number}",
                "group": word,
                "pair": f"{template}/{condition}/{number}",
                "template": template,
                "condition": f"{template}/{condition}",
            }
            for template, condition, number in pairs
            for word in ("he", "she")
        ]
    )
    study = open_study(rows, reference="he", name="nested")
    experiment = experiment_of("nested", "classifier")
    ((gap,),) = plan_gaps(
        [PlannedExperiment(study, experiment, config_rows("nested", experiment.reads.configs[0]))]
    )
    assert gap.levels == {"templates": 5}
    left = np.sqrt(0.136**2 + 2 * 0.048**2)
    assert gap.spreads.sds == pytest.approx({"templates": 0.125, "conditions": 0.048, "": left})
    std_error, _ = gap.spreads.error(gap.design)
    assert std_error**2 == pytest.approx(0.125**2 / 5 + 0.048**2 / 10 + 0.136**2 / 20)


@pytest.mark.parametrize("name", ["false_alarms", "misses", "told_apart"])
def test_spreads_of_hatecheck(upstream, name):
    """Spreads of HateCheck are those of the released labels: of each group against the others, pooled."""
    study = load_study("hatecheck")
    experiment = experiment_of("hatecheck", name)
    source, model = experiment.design.planned_sd_of
    (released,) = [one for one in load_corpus(source).released if one.model == model]
    rows = pd.DataFrame(
        released.rows({path: upstream_file(source, path) for path in released.files})
    )
    if name == "told_apart":
        rows["experiment"] = name
    rows = rows[rows["experiment"] == name].assign(model_id=model).reset_index(drop=True)
    bare = experiment.changed(shows={"slices": (), "levels": ()})
    alone = study.changed(experiments=(bare,))
    found = disaggregate(rows, alone, expected={}, robustness=False)
    components = []
    for finding in primary_findings(found):
        if finding.measure != SPREAD:
            units = gap_units(*primary_rows(finding, alone, rows, model))
            spreads = design_of(units).components(units.columns[0])
            # A group less the mean of six others varies by 1 + 1/6, a gap of two groups by 2.
            components.append({key: spread / math.sqrt(7 / 12) for key, spread in spreads.items()})
    pooled = pd.DataFrame(components).pow(2).mean().pow(0.5).to_dict()
    assert len(components) == 7
    assert pooled == pytest.approx(
        {
            "functionalities": experiment.design.planned_sd["construct"],
            "": experiment.design.planned_sd[""],
        },
        abs=6e-4,
    )


@pytest.mark.parametrize(
    ("study", "name", "model"),
    [
        ("profile_search", "race", "all-MiniLM-L6-v2"),
        ("name_recognition", "names", "en_core_web_sm 3.8.0 of spaCy"),
    ],
)
def test_measured_spreads_are_called_so(study, name, model):
    """A plan by spreads that no author released says whose audit they are of, and knows the gap it can find."""
    experiment = experiment_of(study, name)
    rows = [row for config in experiment.reads.configs for row in config_rows(study, config)]
    (gaps,) = plan_gaps([PlannedExperiment(load_study(study), experiment, rows)])
    basis = " ".join(planned_basis(gaps))
    assert f", as in an audit of {model} by this project." in basis
    assert all(0 < gap.detectable < 1 for gap in gaps)


def test_spreads_of_an_effect_of_several_groups():
    """Effects of four groups of weight 1/2 vary half as much as those of two groups: squares add up to 1 and to 2."""
    experiment = experiment_of("name_recognition", "names")
    rows = config_rows("name_recognition", "names")
    (gaps,) = plan_gaps([PlannedExperiment(load_study("name_recognition"), experiment, rows)])
    declared = experiment.design.planned_sd["names"]
    by_contrast = {gap.finding.contrast: gap.spreads.sds["sets of names"] for gap in gaps}
    assert by_contrast["race: Black people - White people"] == pytest.approx(
        declared * math.sqrt(4 * 0.25 / 2)
    )
    assert by_contrast["sex: women - men"] == pytest.approx(declared * math.sqrt(8 / 16 / 2))
