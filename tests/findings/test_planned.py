"""Planning: from the spreads of released outputs to the smallest detectable gap."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias.builders import _adjective_coreference_released as chat
from swapbias.builders._adjective_coreference_sentences import stereotypes
from swapbias.findings import disaggregate, with_verdicts
from swapbias.findings.context import Context
from swapbias.findings.planning import planned_gap, planned_std_error, planned_units
from swapbias.findings.scored_rows import condition_means
from swapbias.findings.unit_rows import pair_gaps
from swapbias.measures.design import Design
from swapbias.measures.intervals import detectable_gap, power
from swapbias.models.text_kinds import CAUSAL
from swapbias.report.cautions import describe_certainty
from swapbias.studies.catalogue import config_rows, load_corpus, load_lexicon, load_study
from swapbias.studies.tables import upstream_file
from tests import tiny
from tests.cli.test_cli import swapbias


def experiment_of(study, name):
    return next(
        experiment for experiment in load_study(study).experiments if experiment.name == name
    )


def planned_in(study, name):
    experiment = experiment_of(study, name)
    return experiment, [
        row for config in experiment.reads.configs for row in config_rows(study, config)
    ]


def test_planned_error_by_hand():
    """The planned error has the value worked out by hand, and compared pairs are counted."""
    # Templates have pairs in both sets of conditions, so their effects cancel. Conditions: .115^2 (1/11 + 1/11) =
    # .00240455; the rest: .035^2 (1/187 + 1/187) = .0000131. Together .00241765, the root of which is .049170. Its
    # freedom is nearly that of 11 + 11 conditions: 20.
    std_error, df = planned_std_error(*planned_in("gendered_stigma", "rq1"))
    assert std_error == pytest.approx(math.sqrt(0.115**2 * 2 / 11 + 0.035**2 * 2 / 187), rel=1e-9)
    assert std_error == pytest.approx(0.04917, abs=5e-6)
    assert df == pytest.approx(20, abs=0.01)
    # 20 x 20 pairs: .125^2 / 20 + .048^2 / 20 + .136^2 / 400 = .00078125 + .0001152 + .00004624 = .00094269.
    std_error, df = planned_std_error(*planned_in("occupation_sentiment", "sentences"))
    assert std_error**2 == pytest.approx(0.00094269, abs=1e-8)
    assert 19 < df < 38
    for study, name in (("social_distance", "attitude"), ("adjective_coreference", "odds")):
        assert np.isnan(planned_std_error(*planned_in(study, name))).all()
    for study, name, (count, of_minus), levels in (
        ("gendered_stigma", "rq1", (374, 187), {"templates": 17, "diagnoses": 22}),
        ("social_distance", "sentiment", (122, 29), {"categories": 12}),
        (
            "adjective_coreference",
            "answers",
            (48, 0),
            {"men's occupations": 20, "women's occupations": 20},
        ),
    ):
        minus, clusters = planned_units(*planned_in(study, name))
        assert (len(minus), minus.sum()) == (count, of_minus)
        assert {name: len(set(codes)) for name, codes in clusters.items()} == levels
    assert CAUSAL.readings["antonyms"].passes == len(
        load_lexicon("social_distance/antonyms").entries()
    )


def test_expected_error():
    """The expected error is the mean of the errors of scores with these spreads."""
    # Unbalanced: two samples, 6 and 9 crossed clusters of unequal size. The slow definition is 3,000 samples.
    rng = np.random.default_rng(0)
    sides = np.repeat([0, 1], [60, 45])
    factors = {"a": rng.integers(6, size=105), "b": np.sort(rng.integers(9, size=105))}
    spreads = {"a": 0.5, "b": 1.0, "": 0.7}
    variances = []
    design = Design.of_means(sides, factors)
    for _ in range(3_000):
        values = rng.normal(size=105) * spreads[""]
        values += sum(spreads[name] * rng.normal(size=9)[codes] for name, codes in factors.items())
        variances.append(design.spread(values)[0] ** 2)
    assert design.expected(spreads)[0] ** 2 == pytest.approx(np.mean(variances), rel=0.05)
    sides = np.zeros(8, dtype=int)
    one = {"a": np.zeros(8, dtype=int)}
    two = {"a": np.arange(8) % 2}
    for clusters, spreads in (
        (one, {"a": 1.0, "": 1.0}),
        (two, {"a": 0.0, "": 0.0}),
        (two, {"": 1.0}),
    ):
        assert np.isnan(Design.of_means(sides, clusters).expected(spreads)).all()


@pytest.mark.parametrize(
    ("study", "name"), [("gendered_stigma", "rq1"), ("occupation_sentiment", "sentences")]
)
def test_detectable_gap_of_simulations(study, name):
    """A planned gap is the one that audits of simulated scores call detectable."""
    experiment, rows = planned_in(study, name)
    experiment = experiment.changed(
        shows={"slices": (), "levels": (), "covariates": (), "scores": ("score",)}
    )
    alone = load_study(study).changed(experiments=(experiment,))
    rows = pd.DataFrame(rows).assign(model_id="simulated").query("group in ('female', 'male')")
    rng = np.random.default_rng(0)
    detected = []
    for _ in range(30):
        gaps = sum(
            spread * rng.normal(size=len(set(codes)))[codes]
            for column, spread in experiment.design.planned_sd.items()
            for codes in [pd.factorize(rows[column or "pair_id"])[0]]
        )
        scored = rows.assign(score=gaps * np.where(rows["group"] == "female", 0.5, -0.5))
        found = disaggregate(scored, alone, robustness=False)
        detected += [one.minimum_detectable_effect for one in found if one.primary]
    assert len(detected) == 30
    assert planned_gap(load_study(study), experiment, rows.to_dict("records")) == pytest.approx(
        np.mean(detected), rel=0.1
    )


def test_plan_and_audit_agree(tmp_path):
    """A plan and an audit state the same detectable gap in the same unit."""
    # Effects of conditions have the assumed SD: the error is that of the plan, .04917 with 20 degrees of freedom.
    experiment, rows = planned_in("gendered_stigma", "rq1")
    experiment = experiment.changed(shows={"slices": (), "levels": (), "covariates": ()})
    rows = pd.DataFrame(rows).assign(model_id="simulated")
    effect = {}
    for conditions in rows.groupby("label")["condition"].unique():
        drawn = np.linspace(-1, 1, len(conditions))
        effect |= dict(zip(conditions, drawn / drawn.std(ddof=1), strict=True))
    rest = np.random.default_rng(0).normal(size=len(rows)) * experiment.design.planned_sd[""]
    gaps = rows["condition"].map(effect) * experiment.design.planned_sd["condition"] + rest
    scored = rows.assign(score=gaps.where(rows["group"] == "female", 0.0))
    alone = load_study("gendered_stigma").changed(experiments=(experiment,))
    found = with_verdicts(disaggregate(scored, alone, robustness=False))
    primary = next(one for one in found if one.primary and one.measure == "gap_difference")
    gap = detectable_gap(0.04917 * (1 + 0.8 / 20), 20, level=primary.level)
    planned = f"has 80 % power for gaps of {100 * gap:.1f} points"
    tiny.save("bert", tmp_path / "model")
    output = swapbias("plan", tmp_path / "model", "--study", "gendered_stigma:rq1").stdout
    assert f"374 pairs, 17 templates x 22 diagnoses; {planned};" in output
    sources = "4.2 points between templates, 11.5 between diagnoses, 3.5 left, as in the released outputs of"
    assert f"Assumed: SD {sources} gendered_stigma for roberta-large." in output
    match = re.search(r"has 80 % power for gaps of (\S+) points", describe_certainty(primary))
    assert float(match[1]) == pytest.approx(float(planned.split()[-2]), rel=0.06)


@pytest.mark.parametrize("df", [1.5, 7.0, 40.0])
@pytest.mark.parametrize(
    "gap", [0.0, 0.2, 1.0, 5.0, 9.0]
)  # scipy has NaN for the other tail of 9 at 1.5
def test_power(df, gap):
    """The power is the chance of a large t."""
    # t = (z + gap) / s with s^2 a chi square over its freedom: the chance given s, over all s.
    most = stats.t.isf(0.025, df)
    quantiles = (np.arange(200_000) + 0.5) / 200_000
    reach = most * np.sqrt(stats.chi2.ppf(quantiles, df) / df)
    wanted = (stats.norm.sf(reach - gap) + stats.norm.cdf(-reach - gap)).mean()
    assert power(gap, 1.0, df) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("df", [1.0, 1.2, 2.0, 1e6])
def test_detectable_gap_of_any_df(df):
    """There is a detectable gap for any degrees of freedom."""
    gap = detectable_gap(1.0, df)
    assert power(gap, 1.0, df) == pytest.approx(0.8, abs=1e-4)


def components(values, factors, sides):
    """SDs of crossed random effects and of the rest by the method of moments (MINQUE with no prior weights)."""
    fixed = (np.asarray(sides)[:, None] == np.unique(sides)).astype(float)
    off = np.eye(len(values)) - fixed @ np.linalg.pinv(fixed)
    left = off @ values
    kernels = [(codes[:, None] == codes).astype(float) for codes in factors] + [np.eye(len(values))]
    cleared = [off @ kernel for kernel in kernels]
    expected = [[np.sum(first * second.T) for second in cleared] for first in cleared]
    return np.sqrt(np.linalg.solve(expected, [left @ kernel @ left for kernel in kernels]))


def test_moments_of_a_balanced_table():
    """The moments of a balanced table are those of its analysis of variance."""
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
    assert components(table.ravel(), [rows, columns], np.zeros(48)) ** 2 == pytest.approx(by_hand)


def released(corpus, model, experiment):
    leaf = load_corpus(corpus)
    one = next(
        outputs
        for outputs in leaf.released
        if (outputs.model, outputs.experiment) == (model, experiment)
    )
    return pd.DataFrame(one.rows({path: upstream_file(corpus, path) for path in one.files}))


@pytest.mark.parametrize(
    ("study", "name", "model", "subset"),
    [
        ("gendered_stigma", "rq1", "roberta-large", "mental_health"),
        ("gendered_stigma", "rq2", "roberta-large", "mental_health"),
        ("occupation_sentiment", "sentences", "bert-base-uncased (fine-tuned on SST-2)", ""),
    ],
)
def test_spreads_of_released_pairs(upstream, study, name, model, subset):
    """Declared spreads of pairs are those of the released outputs."""
    rows = released(study, model, name)
    experiment = experiment_of(study, name)
    pairs = pair_gaps(Context("", "", experiment, "score"), rows[rows["experiment"] == name])
    pairs = pairs[pairs["label"] == subset] if subset else pairs
    codes = [pd.factorize(pairs[column])[0] for column in ("template", "condition")]
    found = components(pairs["gap"].to_numpy(), codes, np.zeros(len(pairs)))
    assert found == pytest.approx(
        [experiment.design.planned_sd[one] for one in ("template", "condition", "")], abs=6e-4
    )


def test_spreads_of_released_conditions(upstream):
    """Declared spreads of controls, conditions and answers are those of the released outputs."""
    rows = released("occupation_sentiment", "bert-base-uncased (fine-tuned on SST-2)", "sentences")
    control = experiment_of("occupation_sentiment", "control")
    gaps = pair_gaps(Context("", "", control, "score"), rows[rows["experiment"] == "control"])
    assert gaps["gap"].std() == pytest.approx(0.18, abs=6e-4)
    assert control.design.planned_sd == {"template": 0.18, "": 0.0}
    experiment = experiment_of("social_distance", "sentiment")
    rows = released(
        "social_distance", "distilbert-base-uncased-finetuned-sst-2-english", "sentiment"
    )
    means = condition_means(
        experiment,
        rows[rows["group"].isin([experiment.compares.group, experiment.compares.reference])],
    )
    found = components(means["score"].to_numpy(), [pd.factorize(means["label"])[0]], means["group"])
    assert found == pytest.approx(
        [experiment.design.planned_sd["label"], experiment.design.planned_sd[""]], abs=6e-4
    )

    def right(trial, side, condition):
        path = chat.answers_path(trial, side, condition)
        files = {
            one: upstream_file("adjective_coreference", one) for one in (path, *chat.KEYS.values())
        }
        return np.array(
            [one == "correct" for one in chat.classes(files, trial, side, condition)], dtype=float
        )

    pro, anti = (
        [right(trial, side, one) for trial in (1, 2) for one in chat.CODES] for side in chat.SIDES
    )
    gaps = 100 * (np.mean(pro, axis=0) - np.mean(anti, axis=0))
    known = {name.lower(): gender for name, gender in stereotypes().items()}
    aliases = chat.key_aliases()
    keys = [
        chat._words(upstream_file("adjective_coreference", path), heading=False)
        for path in chat.KEYS.values()
    ]
    named = [[aliases.get(word, word).lower() for word in both] for both in zip(*keys, strict=True)]
    codes = [
        pd.factorize(
            np.array([next(word for word in both if known[word] == gender) for both in named])
        )[0]
        for gender in ("male", "female")
    ]
    found = components(gaps, codes, np.zeros(len(gaps)))
    spreads = experiment_of("adjective_coreference", "answers").design.planned_sd
    assert found == pytest.approx(
        [spreads[one] for one in ("male_answer", "female_answer", "")], abs=0.06
    )
