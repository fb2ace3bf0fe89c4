"""name_recognition: its design, planted gaps by hand, what is no gap, and the control."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from swapbias import audit
from swapbias.builders.name_recognition import SETS, groups
from swapbias.findings import check_gaps, disaggregate, primary_findings, terms
from swapbias.studies import config_rows, load_study
from tests import tiny

NAME = "name_recognition"
STUDY = load_study(NAME)
STUDY = STUDY.changed(
    experiments=tuple(
        experiment.changed(shows={"slices": (), "levels": (), "scores": ("score",)})
        for experiment in STUDY.experiments
    )
)


@pytest.fixture(scope="module")
def rows():
    return {name: pd.DataFrame(config_rows(NAME, name)) for name in ("control", "names")}


def answers(rows, is_found, control=lambda table: table["group"] == "name"):
    """Give the primary findings of a made model by experiment and contrast."""
    scores = pd.concat(
        table.assign(model_id="made", score=np.asarray(rule(table), dtype=float))
        for table, rule in ((rows["control"], control), (rows["names"], is_found))
    )
    found = primary_findings(disaggregate(scores, STUDY, robustness=False))
    return {(one.experiment, one.contrast): one for one in found if one.group}


def chance(table, seed=0):
    """Give each text a number from 0 to 1 that does not depend on its name."""
    return np.random.default_rng(seed).random(len(table))


def test_design(rows):
    """Each template has 4 sets of names and each set 4 templates, and a name stands once in its text."""
    table = rows["names"]
    pairs = table.drop_duplicates("pair_id")
    assert set(Counter(pairs["template"]).values()) == {4}
    assert Counter(pairs["names"]) == {f"set {number + 1}": 4 for number in range(SETS)}
    assert table["name"].nunique() == 8 * 72
    assert {len(names) for *_, names in groups().values()} == {72}
    for row in (*config_rows(NAME, "names"), *config_rows(NAME, "control")):
        assert len(re.findall(rf"\b{row['name']}\b", row["text"])) == 1
        assert row["candidates"][0].text == row["name"]


def test_control_rows(rows):
    """The control has each common word 12 times and 18 names of each group."""
    table = rows["control"]
    words = table[table["group"] == "common word"]
    assert set(Counter(words["name"]).values()) == {12}
    names = table[table["group"] == "name"]
    assert set(Counter(zip(names["race"], names["sex"], strict=True)).values()) == {18}


def test_planted_gap_by_hand(rows):
    """Names of Black people missed by 20 points more give that gap: the difference of means over both sexes."""
    table = rows["names"]
    found = chance(table) < np.where(table["race"] == "Black people", 0.6, 0.8)
    gap = answers(rows, lambda _: found)["names", "race: Black people - White people"]
    means = pd.Series(found.astype(float)).groupby([table["race"], table["sex"]]).mean()
    by_hand = means["Black people"].mean() - means["White people"].mean()
    assert gap.estimate.value == pytest.approx(by_hand)
    assert gap.estimate.ci_low <= -0.2 <= gap.estimate.ci_high
    assert gap.verdict == terms.FOUND


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lambda table: chance(table) < 0.8, id="chance"),
        pytest.param(lambda table: table["template"].str.startswith("[name]"), id="position"),
        pytest.param(lambda table: table["template"].str.len() % 2, id="length"),
    ],
)
def test_no_gap_of_groups(rows, rule):
    """A model whose finds go by chance, or by the place of the name or the length of the template, has no gap."""
    found = answers(rows, rule)
    assert not any(one.verdict == terms.FOUND for key, one in found.items() if key[0] == "names")


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["nothing", "every word"])
def test_control_that_fails(rows, share):
    """A model that labels nothing, or every word, is not measured: its equal shares are no "no gap"."""
    found = answers(rows, lambda table: [share] * len(table), lambda table: [share] * len(table))
    reasons = {key[0]: (one.verdict, one.reason) for key, one in found.items()}
    assert reasons == {
        "control": (terms.UNMEASURED, terms.SAME_SCORE),
        "names": (terms.UNMEASURED, terms.CONTROL_NOT_SHOWN),
    }


def test_model_without_error(rows):
    """A model that finds every name and no word passes the control, though no level of it differs from another."""
    found = answers(rows, lambda table: [1.0] * len(table))
    control = found["control", "name - common word"]
    assert control.estimate.value == 1
    assert np.isnan(control.estimate.ci_low)
    assert control.estimate.p_value == pytest.approx(2 / 2**12)  # 12 words, all one sign
    assert terms.UNMEASURED not in {one.verdict for one in found.values()}


def test_gate_without_the_control(rows):
    """A gate does not check the gap of the control, which has to be there, unless the control is named."""
    found = [*answers(rows, lambda table: chance(table) < 0.8).values()]
    assert {check.finding.experiment for check in check_gaps(found).checks} == {"names"}
    named = check_gaps(found, studies=[f"{NAME}:control"]).checks
    assert [check.finding.experiment for check in named] == ["control"]


def test_audit_of_a_token_classifier(tmp_path):
    """An audit of a model that labels words with a capital letter finds all names, and no common word."""
    folder = tiny.save_tagger(tmp_path / "model")
    outcome = audit(
        str(folder), studies=[NAME], limit=16, wordings=False, out=tmp_path / "run", progress=False
    )
    items = outcome.items(NAME)
    shares = items.groupby("group")["score"].mean()
    assert shares["common word"] == 0
    assert set(shares.drop("common word")) == {1}
    assert set(items.loc[items["experiment"] == "names", "answer"]) == {"PER"}
