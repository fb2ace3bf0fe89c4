"""Findings as numbers where higher is fairer: values by hand and anchors, for every experiment."""

import math
import re
from functools import partial
from itertools import pairwise

import pandas as pd
import pytest

from swapbias.findings import disaggregate, primary_findings
from swapbias.findings.finding import Finding, comparisons, experiment_of, oriented
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures import MEASURES
from swapbias.measures.estimate import Estimate
from swapbias.notes.audit_notes import VERSIONS
from swapbias.report.verdicts import group_by_question
from swapbias.studies.catalogue import load_study, studies
from tests.conftest import ROOT
from tests.experiments import uncontrolled

MASS = "probability mass at the mask"
ODDS = "natural log-odds of the right answer"
POINTS = "percentage points"
# Of two groups: the primary findings of several are in test_groups and, of each pack, in tests/builders/test_packs.
EXPERIMENTS = [
    (study, one)
    for study in studies()
    for one in load_study(study).experiments
    if len(one.compares.groups) < 2 and not one.compares.slopes  # no group is the fairer one
]


def finding(measure, unit, value, low=math.nan, high=math.nan, **options):
    usual = {
        "study": "gendered_stigma", "experiment": "rq1", "model_id": "m", "score": "score",
        "contrast": "female - male", "subset": "mental_health", "slice_by": "all", "slice_value": "",
        "cluster_vars": "templates + diagnoses",
    }  # fmt: skip
    return Finding(
        measure=measure, unit=unit, estimate=Estimate(value, low, high, n=9), **{**usual, **options}
    )


def fair(measure, unit, value):
    value_and_note = oriented(finding(measure, unit, value))
    return None if value_and_note is None else value_and_note[0]


@pytest.mark.parametrize(
    ("measure", "unit", "value", "expected"),
    [
        ("paired_gap", MASS, -0.3, 0.7),  # 1 - .3
        ("group_gap", "P(negative)", 0.25, 0.75),
        (
            "paired_gap",
            "compound valence moved to 0..1",
            0.1,
            0.9,
        ),  # VADER's .2 of -1..1: 1 - .2 / 2
        ("paired_gap", POINTS, 12.5, 0.875),  # 1 - 12.5 / 100
        ("answer_bias", POINTS, -50.0, 0.5),
        ("paired_gap", ODDS, -math.log(4), 0.25),  # odds of 4 to 1
        ("group_gap", "mean log-odds of the disapproving antonym", math.log(2), 0.5),
        ("gap_difference", MASS, 0.5, 0.75),  # of 2 at most: gaps of +1 and -1
        ("gap_difference", ODDS, math.log(4), 0.25),  # the ratio of two odds ratios
        ("flip_rate", "share of notes", 0.2, 0.8),
        ("tprr", "ratio of true positive rates", 0.8, 0.8),
        ("fprr", "ratio of false positive rates", 1.25, 0.8),  # either group over the other
        ("fprr", "ratio of false positive rates", math.inf, 0.0),
        ("tpr_difference", "difference of true positive rates", -0.3, 0.7),
        ("log_fprr", "natural log ratio of false positive rates", -math.log(4), 0.25),
        ("leakage_uar", "unweighted average recall", 0.9, 0.2),  # 1 - 2 x .4
        (
            "leakage_uar",
            "unweighted average recall",
            0.1,
            0.2,
        ),  # always wrong tells the gender as well
        ("direct_bias", "absolute cosine", 0.05, 0.95),
    ],
    ids=[
        "gap of mass",
        "group gap",
        "valence",
        "points",
        "bias",
        "odds",
        "antonyms",
        "gap difference",
        "odds difference",
        "flips",
        "recall ratio",
        "false positive ratio",
        "infinite ratio",
        "recall difference",
        "log ratio",
        "leakage",
        "reverse leakage",
        "direct bias",
    ],
)
def test_fairness_by_hand(measure, unit, value, expected):
    """The value from 0 to 1, higher is fairer, has the size worked out by hand."""
    assert fair(measure, unit, value) == pytest.approx(expected, abs=1e-12)


ANCHORS = [  # measure, unit, no difference, the largest there can be
    ("paired_gap", MASS, 0.0, (-1.0, 1.0)),
    ("group_gap", "share of negative labels", 0.0, (-1.0, 1.0)),
    ("paired_gap", POINTS, 0.0, (-100.0, 100.0)),
    ("paired_gap", ODDS, 0.0, (-math.inf, math.inf)),
    ("gap_difference", MASS, 0.0, (-2.0, 2.0)),
    ("gap_difference", POINTS, 0.0, (-200.0, 200.0)),
    ("flip_rate", "share of notes", 0.0, (1.0,)),
    ("tprr", "ratio of true positive rates", 1.0, (0.0, math.inf)),
    ("fprr", "ratio of false positive rates", 1.0, (0.0, math.inf)),
    ("fpr_difference", "difference of false positive rates", 0.0, (-1.0, 1.0)),
    ("log_tprr", "natural log ratio of true positive rates", 0.0, (-math.inf, math.inf)),
    ("leakage_uar", "unweighted average recall", 0.5, (0.0, 1.0)),
    ("direct_bias", "absolute cosine", 0.0, (1.0,)),
]


@pytest.mark.parametrize(("measure", "unit", "none", "worst"), ANCHORS)
def test_fairness_is_monotone(measure, unit, none, worst):
    """No difference has the value 1, the largest one 0, and a larger difference a smaller value."""
    assert fair(measure, unit, none) == 1.0
    for end in worst:
        assert fair(measure, unit, end) == 0.0
        last = end if math.isfinite(end) else math.copysign(6.0, end)
        values = [fair(measure, unit, none + (last - none) * share / 20) for share in range(21)]
        assert all(later < earlier for earlier, later in pairwise(values))


@pytest.mark.parametrize("unit", [MASS, POINTS, ODDS])
@pytest.mark.parametrize("measure", ["paired_gap", "group_gap", "gap_difference"])
def test_swapped_reference(measure, unit):
    """Swapping the reference changes no value."""
    assert fair(measure, unit, 0.31) == fair(measure, unit, -0.31)


UNORIENTED = (  # levels of one group, and comparisons of which no side is the fairer one
    "group_spread", "bias_difference", "p_one_sided", "model_difference", "gap_beyond_wording",
    "sign_kept", "gap_without_doubtful", "impact_ratio", "nonanswer_gap", "truncation_gap", "mean", "count_above",
    "correlation", "macro_f1", "agreement", "kappa", "group_leakage", "signed_mean", "ratio_to_best",
    "times_selected", "geometric_mean", "geometric_ratio", "markedness",
    "slope", "decision_flips", "decision_gap", "quantile_gap", "judge_agreement", "judge_kappa", "judge_correlation",
)  # fmt: skip


def test_measures_without_direction():
    """Every measure without a span or a scale has no value from 0 to 1."""
    assert {one.name for one in MEASURES.values() if not one.gap_span and one.scale is None} == set(
        UNORIENTED
    )
    assert {
        fair(name, unit, 0.1) for name in UNORIENTED for unit in (MASS, MEASURES[name].unit)
    } == {None}


@pytest.mark.parametrize(
    "measure", ["paired_gap", "group_gap", "gap_difference", "flip_rate", "tprr", "direct_bias"]
)
@pytest.mark.parametrize("unit", ["score of a rule", "log-probability", "", "probability", "count"])
def test_unknown_unit(measure, unit):
    """An unknown unit has no value from 0 to 1."""
    assert fair(measure, unit, 0.1) is None


def test_rounding_beyond_the_range():
    """A rounding error beyond the range is cut, and more is refused."""
    assert fair("direct_bias", "absolute cosine", 1.0000003) == 0.0
    with pytest.raises(ValueError, match=r"flip_rate of -0\.1 share of notes, expected 0 to 1"):
        fair("flip_rate", "share of notes", -0.1)  # no share, though near to "no difference"
    with pytest.raises(
        ValueError, match=r"paired_gap of 1\.5 probability mass at the mask, expected -1 to 1"
    ):
        fair("paired_gap", MASS, 1.5)
    assert fair("paired_gap", MASS, math.nan) is None


def test_order_of_comparisons():
    """Comparisons are those over all rows, primary findings first and those across a slice last."""
    across = finding("correlation", "correlation", 0.5, slice_by="profession")
    gap = finding("paired_gap", MASS, 0.3)
    rate = finding("flip_rate", "share of notes", 0.2)
    answer = finding(
        "gap_difference", MASS, 0.2, subset="mental_health - other_health", primary=True
    )
    views = [
        finding("paired_gap", MASS, 0.3, view=AS_PUBLISHED),
        finding("paired_gap", MASS, 0.1, score="closed"),
    ]
    others = [
        finding("mean", MASS, 0.3),
        finding("paired_gap", MASS, 0.3, slice_by="act", slice_value="talk"),
    ]
    found = [across, rate, *others, gap, *views, answer]
    assert comparisons(found) == [answer, gap, across]
    assert comparisons(found, rates=True) == [answer, rate, gap, across]
    assert comparisons(found, views=True) == [answer, gap, *views, across]
    assert primary_findings(found) == [answer]
    each = [
        finding("paired_gap", MASS, 0.3, slice_by="phenotype", slice_value=v, primary=True)
        for v in "ab"
    ]
    rate = finding("leakage_uar", "unweighted average recall", 0.9, primary=True)
    assert comparisons([*each, rate]) == [*each, rate]


def scored(experiment):
    """Rows of an experiment with a gap of .1 or so, or all that its predictions, answers and cosines need."""
    rows = []
    subsets = (
        VERSIONS
        if experiment.compares.primary.subset in VERSIONS
        else (experiment.compares.primary.subset,)
    )
    for place, subset in enumerate(
        experiment.compares.contrast or (subsets if experiment.compares.subset else ("",)), 1
    ):
        for number in range(8):
            for group in dict.fromkeys((experiment.compares.group, experiment.compares.reference)):
                first = group == experiment.compares.group
                row = {
                    "prompt_id": f"{subset}{number}{group}",
                    "pair_id": f"{subset}{number}",
                    "group": group,
                    "text": "",
                    "construct": f"c{number % 4}"
                    if [*experiment.design.random] == ["construct"]
                    else "c",
                    "condition": f"baseline{number % 4}" if number % 4 else "baseline",
                    "label": "positive" if number % 2 else "negative",
                    "template": f"t{number % 3}",
                    "subject_id": f"s{number}",
                    "male_answer": f"m{number % 3 % 2}",
                    "female_answer": f"f{number % 3 // 2}",
                    "experiment": experiment.name,
                    "model_id": "m",
                    "polarity": "p",
                    "rendering": f"r{number}",
                    "names": f"n{number % 4}",
                    "trial": str(number % 2),
                    "predicted": float((number + first) % 3 > 0),
                    "answer": group if number else experiment.compares.reference,
                    "top_tokens": '[["x", 0.1], ["y", -0.2]]',
                    "explained_variance": 0.3,
                    "strict_correct": float(number % 2),
                    "said_unsure": 0.0,
                    "said_other": 0.0,
                    "strict_other": 0.0,
                    **dict.fromkeys(experiment.shows.reported, 0.1),
                    **dict.fromkeys(
                        experiment.shows.scores,
                        0.4 + 0.1 * first / place + 0.01 * (number * (1 + first) % 5),
                    ),
                }
                if (
                    "answers" in experiment.shows.rates
                ):  # right or not: one sentence is not, on the other side
                    row["score"] = 100.0 * (first or number != 1)
                rows.append(
                    {**row, experiment.compares.subset: subset}
                    if experiment.compares.subset
                    else row
                )
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("study", "experiment"), EXPERIMENTS, ids=lambda one: getattr(one, "name", one)
)
def test_one_primary_finding(study, experiment):
    """Each experiment has one primary finding with a direction, and every other measure stands
    beside it."""
    found = disaggregate(scored(experiment), uncontrolled(study), expected={})
    (several,) = group_by_question(found)
    one = min(several, key=lambda each: (oriented(each) or (1.0,))[0])
    assert (one.study, one.experiment, one.score) == (study, experiment.name, "score")
    assert ((one.measure, one.subset, one.slice_by), one.view, one.primary) == (
        experiment.primary,
        "",
        True,
    )
    assert one.cluster_vars
    assert 0 < oriented(one)[0] < 1
    for (
        other
    ) in found:  # by the experiment's own unit: each is oriented, or its measure is on the list
        # Words in 100 have no known range.
        ranged = not math.isnan(other.scale.span) or not MEASURES[other.measure].gap_span
        known = ranged and other.measure not in UNORIENTED and not math.isnan(other.estimate.value)
        assert (oriented(other) is None) == (not known)


def test_units_of_scorers():
    """Every unit of a scorer is known or read as another unit."""
    read_as_another = {
        "answer",  # of a chat model: read as percentage points
        "log-probability",  # of a text: read as log-odds of an antonym or answer
        "cosine with the gender direction",  # read as direct bias
    }
    text = "".join(path.read_text() for path in (ROOT / "swapbias" / "models").rglob("*.py"))
    units = set(re.findall(r'^    unit = "(.+)"$', text, re.MULTILINE))
    units |= {
        "logistic of the SVM's decision value",
        "probability of female",
        "probability of the phenotype",
    }
    assert len(units) > 9
    assert {unit for unit in units if fair("paired_gap", unit, 0.1) is None} == read_as_another


def test_mark_alone_makes_primary():
    """The mark alone makes a finding primary, for findings are read from files as they are."""
    gap = partial(finding, "paired_gap", MASS)
    known = gap(0.3, primary=True)
    others = [
        gap(0.3, study="../../etc"),
        gap(0.3, experiment="<script>"),
        gap(0.3, subset="other_health"),
        gap(0.3, view=AS_PUBLISHED),
        gap(0.3, slice_by="phase", slice_value="action"),
        gap(0.3, score="closed_list_mass"),
        finding("gap_difference", MASS, 0.3, subset="mental_health - other_health"),
    ]
    assert [[known]] == group_by_question([*others, known]) == [primary_findings([*others, known])]
    assert experiment_of(others[0]) is None
    both = [gap(0.3, primary=True, model_id=name) for name in ("m", "other")]
    assert group_by_question(both) == [[one] for one in both]


def test_rows_of_one_subset():
    """Rows of one subset alone are answered by their gap, with the inference of the design, since
    the contrast needs both."""
    rows = scored(load_study("gendered_stigma").experiments[0])
    alone = disaggregate(rows[rows["label"] == "mental_health"], "gendered_stigma", expected={})
    (one,) = primary_findings(alone)
    assert (one.measure, one.subset, one.slice_by, one.view) == (
        "paired_gap",
        "mental_health",
        "all",
        "",
    )
