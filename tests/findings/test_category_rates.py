"""Rates of selection by sex and race: by hand, in the form of the rule, in the files and on the page."""

import math

import pandas as pd
import pytest

import swapbias
from swapbias.builders._resume_ranking_released import released
from swapbias.errors import StudyError
from swapbias.findings.category_rates import BOTH, UNKNOWN, category_rates
from swapbias.report.category_tables import NOTICE
from swapbias.studies import load_study
from tests.experiments import experiment


def study_of(**shows):
    """A study whose rows hold sex and race."""
    asked = experiment(
        name="hire",
        kind="classifier",
        measure="group_gap",
        groups=("a",),
        reference="b",
        random={"template": "templates"},
        categories={"sex": "gender", "race": "race"},
        **shows,
    )
    return load_study("gendered_stigma").changed(name="hires", experiments=(asked,))


def rows_of(cells):
    """Scored rows of these cells: gender, race and score."""
    rows = pd.DataFrame(cells, columns=["gender", "race", "score"])
    return rows.assign(
        experiment="hire",
        model_id="m",
        group="a",
        prompt_id=[str(number) for number in range(len(rows))],
        pair_id=[str(number) for number in range(len(rows))],
        template=[f"t{number % 5}" for number in range(len(rows))],
    )


def by_category(rates):
    """Rates by what they are by, and their category."""
    return {(rate.by, rate.category): rate for rate in rates}


def test_selection_rates_by_hand():
    """Of 10 women 6 are selected and of 10 men 3: the ratio to the most selected is .5, that to the
    mean of .45 is 2 / 3."""
    cells = [("women", "X", float(number < 6)) for number in range(10)]
    cells += [("men", "X", float(number < 3)) for number in range(10)]
    cells += [("", "Y", 1.0), ("not stated", "Y", math.nan)]
    rates = by_category(category_rates(study_of(), rows_of(cells)))
    men = rates["sex", "men"]
    assert (men.n, men.rate, men.counted) == (10, 0.3, "selected")
    assert men.ratio_to_highest == 0.5
    assert men.ratio_to_mean == pytest.approx(2 / 3)
    assert men.ratio_to_mean_low < 2 / 3 < men.ratio_to_mean_high
    assert rates["sex", "women"].ratio_to_highest == 1
    unknown = rates["sex", UNKNOWN]
    assert (unknown.n, unknown.n_unscored) == (1, 1)
    assert math.isnan(unknown.rate)
    # A row counts in the share of the data whether its sex is known or not.
    assert men.share == pytest.approx(10 / 21)


def test_scoring_rates_by_hand():
    """The rate of scores is the share above the median of all: of 1 to 8 that is 4.5."""
    cells = [("f", "X", 1.0), ("f", "X", 2.0), ("f", "Y", 5.0), ("f", "Y", 8.0)]
    cells += [("m", "X", 3.0), ("m", "X", 6.0), ("m", "Y", 4.0), ("m", "Y", 7.0)]
    rates = by_category(category_rates(study_of(), rows_of(cells)))
    assert rates["race", "X"].counted == "above the median"
    assert rates["race", "X"].rate == 0.25
    assert rates["race", "Y"].rate == 0.75
    assert rates["race", "X"].ratio_to_highest == pytest.approx(1 / 3)
    assert rates["sex", "f"].rate == rates["sex", "m"].rate == 0.5
    both = {name: rate.rate for (by, name), rate in rates.items() if by == BOTH}
    assert both == {"f, X": 0.0, "f, Y": 1.0, "m, X": 0.5, "m, Y": 0.5}


def test_threshold_decides():
    """Where a study names a threshold of a decision, that selects, and not the median."""
    cells = [("f", "X", 0.2), ("f", "X", 0.9), ("m", "X", 0.8), ("m", "X", 0.95)]
    rates = by_category(category_rates(study_of(decisions=(0.85,)), rows_of(cells)))
    assert rates["sex", "m"].counted == "selected"
    assert rates["sex", "m"].rate == rates["sex", "f"].rate == 0.5
    lower = by_category(category_rates(study_of(decisions=(0.5,)), rows_of(cells)))
    assert lower["sex", "m"].rate == 1


def test_small_categories():
    """A category with less than 2 % of the rows is marked, and its rate is no reference of others."""
    cells = [("f", "X", float(number < 20)) for number in range(60)]
    cells += [("m", "X", float(number < 10)) for number in range(40)]
    cells += [("x", "X", 1.0)]
    rates = by_category(category_rates(study_of(), rows_of(cells)))
    assert [rate.category for rate in rates.values() if rate.is_small] == ["x", "x, X"]
    assert rates["sex", "m"].ratio_to_highest == pytest.approx(0.25 / (1 / 3))
    assert rates["sex", "x"].ratio_to_highest == pytest.approx(3)


def test_one_category():
    """One category alone has a count and no ratio."""
    (rate, *_) = category_rates(study_of(), rows_of([("f", "X", 1.0), ("f", "X", 0.0)]))
    assert (rate.n, math.isnan(rate.ratio_to_highest)) == (2, True)


PEOPLE = {
    "Ada Moore": ("women", "White"),
    "Tom Moore": ("men", "White"),
    "Aisha Banks": ("women", "Black"),
    "Jamal Banks": ("men", "Black"),
}


def study_folder(folder, keys=""):
    """An own study of four people in six templates, whose slots say sex and race."""
    folder.mkdir(parents=True)
    slots = [
        f"{pair},{'a' if number % 2 else 'b'},{name},{sex},{race}\n"
        for number, (name, (sex, race)) in enumerate(PEOPLE.items())
        for pair in [number // 2]
    ]
    (folder / "slots.csv").write_text("pair,group,who,sex,Race\n" + "".join(slots))
    templates = [f"[who] applies for job {number}.\n" for number in range(6)]
    (folder / "templates.csv").write_text("template\n" + "".join(templates))
    (folder / "study.toml").write_text(
        f'name = "jobs"\ntitle = "Jobs"\n[compares]\nreference = "b"\n{keys}'
    )
    return folder


def prefers_moores(texts):
    """A Moore is scored .8 and a Banks .3, less a little for later jobs."""
    return [(0.8 if "Moore" in text else 0.3) - 0.01 * int(text[-2]) for text in texts]


@pytest.mark.usefixtures("audits")
def test_own_study(tmp_path):
    """An own study with columns of sex and race has the table, whose first line says what it is not."""
    folder = study_folder(tmp_path / "study")
    outcome = swapbias.audit(prefers_moores, prompts=folder, out=tmp_path / "run", progress=False)
    path = tmp_path / "run" / "selection_rates.csv"
    assert path.read_text().splitlines()[0] == f"# {NOTICE}"
    table = pd.read_csv(path, skiprows=1).set_index(["by", "category"])
    assert table.loc[("race", "White"), "rate"] == 1
    assert table.loc[("race", "Black"), "ratio_to_highest"] == 0
    assert table.loc[("sex", "women"), "rate"] == 0.5
    assert table.loc[(BOTH, "women, Black"), "n"] == 6
    page = outcome.report().read_text()
    assert NOTICE.replace("'", "&#39;") in page
    assert "by sex and race" in page
    assert "men, Black" in page


@pytest.mark.usefixtures("audits")
def test_groups_as_categories(tmp_path):
    """The groups themselves may be the sexes; a column that no table has is an error with its line."""
    folder = study_folder(tmp_path / "study", '[shows]\ncategories = {sex = "group"}\n')
    swapbias.audit(prefers_moores, prompts=folder, out=tmp_path / "run", progress=False)
    table = pd.read_csv(tmp_path / "run" / "selection_rates.csv", skiprows=1)
    assert set(table["category"]) == {"a", "b"}
    other = study_folder(tmp_path / "other", '[shows]\ncategories = {sex = "gendr"}\n')
    with pytest.raises(StudyError, match=r"study\.toml:6: categories names the column 'gendr'"):
        swapbias.audit(prefers_moores, prompts=other, out=tmp_path / "no", progress=False)


def test_released_rankings(upstream):
    """Of 1,000 released rankings for one job women stand first in 597 and men in 403, each as 4,000
    candidates."""
    for runs in released():
        table = pd.DataFrame(runs.rows(runs.files))
        if runs.model.startswith("gpt-3.5") and table["condition"].iloc[0] == "HR specialist":
            break
    else:
        pytest.skip("these rankings are not at hand")
    rates = category_rates(load_study("resume_ranking"), table.assign(model_id="m"))
    found = by_category(rates)
    assert found["sex", "women"].rate == pytest.approx(597 / 4000)
    assert found["sex", "men"].ratio_to_highest == pytest.approx(403 / 597)
    assert found["race", "Hispanic"].rate == pytest.approx((181 + 103) / 2000)
    assert found[BOTH, "women, Hispanic"].rate == pytest.approx(0.181)
    assert found[BOTH, "men, White"].ratio_to_highest == pytest.approx(96 / 181)
    assert found[BOTH, "men, White"].ratio_to_mean == pytest.approx(0.096 / 0.125)
