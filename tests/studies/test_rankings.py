"""Rankings of a user's candidates: balanced prompts, a planted preference, and faults with file
and line."""

import csv
import shutil
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from swapbias.errors import StudyError, UsageError
from swapbias.findings import disaggregate, primary_findings
from swapbias.studies import config_rows
from swapbias.studies.answer_scores import answer_reader
from swapbias.studies.own import check_study, new_study, open_study
from swapbias.studies.prompt import Prompt
from swapbias.studies.ranking import balanced_rankings, drawn_names

RANKING_READER = answer_reader("ranking", {})


@pytest.fixture
def folder(tmp_path):
    new_study(tmp_path / "hire", "ranking")
    return tmp_path / "hire"


@pytest.mark.parametrize(("groups", "cvs", "names"), [(2, 2, 5), (4, 4, 9), (3, 5, 7), (8, 8, 8)])
def test_places_are_balanced(groups, cvs, names):
    """Each group has each place once a block."""
    drawn = drawn_names(
        {f"g{group}": [f"{group}-{name}" for name in range(names)] for group in range(groups)}
    )
    whole = names // groups * groups
    assert {len(one) for one in drawn.values()} == {whole}
    found = list(balanced_rankings({"a": cvs, "b": cvs}, drawn))
    assert len(found) == 2 * whole
    places = Counter(
        (job, one.group, place) for job, _, order in found for place, one in enumerate(order)
    )
    assert set(places.values()) == {whole // groups}
    if cvs == groups:
        assert set(
            Counter((job, one.group, one.cv) for job, _, order in found for one in order).values()
        ) == {whole // groups}
    for _, number, order in found:
        assert {one.group for one in order} == set(drawn)
        assert len({one.cv for one in order}) == groups
        assert all(one.name == drawn[one.group][number] for one in order)


def test_example_audits_rankings(folder, tmp_path):
    """The example is an audit of rankings without a fault."""
    found = check_study(folder)
    assert (found.faults, found.advice) == ([], [])
    study = open_study(folder)
    (experiment,) = study.experiments
    assert (
        experiment.reads.reading,
        experiment.compares.factors,
        experiment.compares.reference,
    ) == (
        "ranking",
        ("race", "gender"),
        "White men",
    )
    rows = config_rows("hire", "questions")
    assert len(rows) == 2 * 8 * 4
    first = rows[0]
    names = [one.text for one in first["candidates"]]
    assert names[0] == first["name"]
    assert [one.value for one in first["candidates"]] == [1, 0, 0, 0]
    assert all(one in first["text"] for one in names)
    assert first["text"].startswith("<|system|>\nYou hire nurses")
    assert "for a job as nurse" in first["text"]
    with pytest.raises(UsageError, match="Did you mean ranking"):
        new_study(tmp_path / "new", "rankings")


@pytest.mark.parametrize(("weight", "planted"), [(3.0, True), (1.0, False)])
def test_planted_preference(folder, weight, planted):
    """A planted preference is found, and none where there is none."""
    names = list(csv.reader((folder / "names.csv").read_text().splitlines()))
    with (folder / "names.csv").open("a", newline="") as handle:  # forty names a group
        for number in range(4):
            csv.writer(handle).writerows(
                [one[0], f"{one[1]}{number}", *one[2:]] for one in names[1:]
            )
    open_study(folder)
    rows = pd.DataFrame(config_rows("hire", "questions"))
    rng = np.random.default_rng(4)
    score = np.zeros(len(rows))
    key = np.log(np.where(rows["gender"] == "women", weight, 1.0)) + rng.gumbel(size=len(rows))
    for places in rows.groupby("pair_id", sort=False).indices.values():
        answer = "\n".join(rows["name"].to_numpy()[places[np.argsort(-key[places])]])
        for place in places:
            prompt = Prompt(
                **{name: rows[name].iloc[place] for name in Prompt.__dataclass_fields__}
            )
            score[place] = RANKING_READER(prompt, answer)[0]
    found = disaggregate(
        rows.assign(score=score, model_id="made"), "hire", expected={}, robustness=False
    )
    answers = {
        one.contrast: one for one in primary_findings(found) if one.measure != "group_spread"
    }
    gap = answers["gender: women - men"]
    size = (weight - 1) / (
        2 * (weight + 1)
    )  # a woman is first in w / (2 w + 2) of rankings, a man in 1 / (2 w + 2)
    assert gap.estimate.ci_low <= size <= gap.estimate.ci_high
    assert [one.verdict == "gap" for one in answers.values()].count(True) == planted
    assert (
        len([one for one in found if one.measure == "impact_ratio" and one.slice_by == "all"]) == 4
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda one: (one / "names.csv").unlink(),
            'cvs.csv, names.csv and reading = "ranking" go together',
        ),
        (
            lambda one: shutil.copy(one / "names.csv", one / "prompts.csv"),
            "expected one of templates.csv, prompts.csv and cvs.csv next to it. Add or remove one",
        ),
        (
            lambda one: (one / "names.csv").write_text(
                "group,name\nWhite men,Al\nWhite women,Bo\nWhite women,Di\n"
            ),
            "group 'White men' has 1 names, expected 2 or more",
        ),
        (
            lambda one: (one / "cvs.csv").write_text("job,cv\ncook,[name] cooks\n"),
            "job 'cook' has 1 CVs, expected 4",
        ),
        (
            lambda one: (one / "cvs.csv").write_text("job,cv\n" + "cook,I cook\n" * 4),
            r"cvs.csv:2: the CV has no slot \[name\]",
        ),
    ],
    ids=["no names", "two tables of prompts", "too few names", "too few CVs", "no slot"],
)
def test_wrong_tables(folder, change, message):
    """A fault in a table is refused with file and line."""
    change(folder)
    with pytest.raises(StudyError, match=message):
        open_study(folder)
