"""The unit of a user's study: its range is that of the options or the stated one; points are its
hundredths."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

import swapbias
from swapbias.errors import StudyError, UsageError
from swapbias.findings import check_gaps, compare, oriented
from swapbias.findings.terms import FAILS
from swapbias.measures.units import UNITS
from swapbias.report import gate_text, numbers, render_terminal, verdicts
from swapbias.studies import load_study, studies
from swapbias.studies.option_texts import range_of
from swapbias.studies.own import check_study, open_study

NAMES = [("Mary", "John"), ("Ann", "Tom"), ("Sue", "Bob"), ("Eva", "Max"), ("Lea", "Tim")]
THINGS = ("a loan", "a room", "a raise", "help", "advice", "leave")
TEXTS = [f"{{}} asks for {thing}. How likely is it?" for thing in THINGS]
ROWS = [
    {
        "text": template.format(name),
        "group": group,
        "pair": f"{number}-{name_pair}",
        "template": str(number),
        "name": name,
    }
    for number, template in enumerate(TEXTS)
    for name_pair, names in enumerate(NAMES)
    for name, group in zip(names, ("female", "male"), strict=True)
]
TABLE = pd.DataFrame(ROWS)
WOMEN = {female for female, _ in NAMES}


def toml(value):
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(inner)}' for key, inner in value.items())}}}"
    return json.dumps(value)


def study_with_answers(folder, answers, **keys):
    """A study of these prompts that asks a chat model for one of these answers."""
    folder.mkdir()
    TABLE.to_csv(folder / "prompts.csv", index=False)
    sections = {
        "": {"name": folder.name, "title": "Asked", "kind": ["chat"]},
        "reads": {
            "reading": "options",
            "answers": answers,
            **{key: keys[key] for key in keys if key != "unit"},
        },
        "compares": {"reference": "male", **{key: keys[key] for key in keys if key == "unit"}},
    }
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]"] * bool(section) + [
            f"{key} = {toml(value)}" for key, value in values.items()
        ]
    (folder / "study.toml").write_text("\n".join(lines) + "\n")
    return open_study(folder)


def scored(study, score, kind="chat"):
    """Rows of the study with the score that a row has."""
    (experiment,) = [candidate for candidate in study.experiments if candidate.kind == kind]
    rows = swapbias.load_prompts(study.name, experiment.reads.configs[0]).to_pandas()
    return rows.assign(
        experiment=experiment.name,
        model_id="m",
        score=[score(row) for row in rows.to_dict("records")],
    )


def nearly_all(low, high):
    """The high score for women and the low one for men, but for a few."""

    def score(row):
        women = row["group"] == "female"
        odd = sum(map(ord, row["prompt_id"])) % 11 == 0
        return high if women != odd else low

    return score


def printed(finding):
    """Value and interval of a sentence, as numbers."""
    numbers = re.search(
        r"([−+\d.]+) points \(95 % interval ([−+\d.]+) to ([−+\d.]+)\)",
        verdicts.state_verdict(finding).text,
    )
    return [float(number.replace("−", "-")) for number in numbers.groups()]


SCALES = [
    (["0.12=12 percent", "0.14=14 percent", "0.16=16 percent"], 0.12, 0.16),
    (["1=Never", "2=Rarely", "3=Sometimes", "4=Often", "5=Always"], 1, 5),
    (["5=Always", "3=Sometimes", "1=Never", "=Do not know"], 1, 5),  # reversed
    (["-2=Worse", "0=Same", "2=Better"], -2, 2),
    (["-3=Cold", "-1=Warm"], -3, -1),
    (["0=No", "1000=Yes"], 0, 1000),
    (["0=No", "1=Yes"], 0, 1),
]


@pytest.mark.parametrize(("answers", "low", "high"), SCALES, ids=lambda one: str(one)[:20])
def test_points_of_a_scale(answers, low, high, tmp_path):
    """Points are hundredths of the range of the options: the same answers on every scale give the
    same points, margin, verdict and gate, and no interval without its value."""
    study = study_with_answers(tmp_path / "scale", answers)
    found = swapbias.disaggregate(scored(study, nearly_all(low, high)), study)
    plain = study_with_answers(tmp_path / "plain", ["0=No", "1=Yes"])
    (one,) = [each for each in found if each.primary]
    (known,) = [
        each
        for each in swapbias.disaggregate(scored(plain, nearly_all(0, 1)), plain)
        if each.primary
    ]
    assert (one.scale.low, one.scale.high) == (low, high)
    assert one.estimate.value == pytest.approx(known.estimate.value * (high - low))
    assert one.margin == pytest.approx(0.05 * (high - low))
    assert one.verdict == known.verdict == "gap"
    assert numbers.format_value(one) == numbers.format_value(known)
    assert numbers.format_interval(one) == numbers.format_interval(known)
    assert oriented(one)[0] == pytest.approx(oriented(known)[0])
    value, least, most = printed(one)
    assert least <= value <= most <= 100
    (check,) = check_gaps(found).checks
    assert check.outcome == FAILS
    assert (
        f"{numbers.format_value(known)} (95 % interval {numbers.format_interval(known)})"
        in gate_text.describe_check(check)
    )
    levels = {
        each.contrast: each for each in found if each.measure == "mean" and each.slice_by == "all"
    }
    gap = [
        float(numbers.finding_format(levels[name])(levels[name].estimate.value))
        for name in ("female", "male")
    ]
    assert gap[0] - gap[1] == pytest.approx(value, abs=0.11)
    for each in found:
        ends = numbers.clipped_interval(each)
        assert math.isnan(ends[0]) or ends[0] <= each.estimate.value <= ends[1]


def test_missing_answers_are_bounded(tmp_path):
    """Missing answers are bounded by the ends of the scale: with one of ten missing on a scale from
    1 to 5 the mean can move by a tenth of the range at either side."""
    study = study_with_answers(tmp_path / "missing", ["1=Never", "3=Sometimes", "5=Always"])
    rows = scored(study, lambda row: 3.0 + 0.001 * len(row["text"]))
    lost = (rows["group"] == "female") & (rows["template"] == "0")
    found = swapbias.disaggregate(rows.assign(score=rows["score"].mask(lost)), study)
    (mean,) = [
        one
        for one in found
        if (one.measure, one.contrast, one.slice_by) == ("mean", "female", "all")
    ]
    known = 3.0 + 0.001 * rows.loc[(rows["group"] == "female") & ~lost, "text"].str.len().mean()
    assert mean.missing_data_low == pytest.approx(known * 5 / 6 + 1 / 6)
    assert mean.missing_data_high == pytest.approx(known * 5 / 6 + 5 / 6)


def test_two_models_on_one_scale(tmp_path):
    """Two models on one scale differ by points of it."""
    study = study_with_answers(tmp_path / "two", ["1=Never", "3=Sometimes", "5=Always"])
    models = {"a": nearly_all(1, 5), "b": nearly_all(3, 5)}
    items = {name: scored(study, score).assign(model_id=name) for name, score in models.items()}
    found = compare({"two": items})
    (one,) = [each for each in found if each.primary]
    assert (one.scale.low, one.scale.high) == (1, 5)
    assert one.margin == pytest.approx(0.2)
    assert numbers.format_value(one).endswith(" points")


@pytest.mark.parametrize(
    ("key", "options", "wanted"),
    [
        ("answers", ["1=Yes", "1=No"], "answers all count 1"),
        ("answers", ["0.5=Yes", "=No"], "answers all count 0.5"),
        ("answers", ["=Yes", "=No"], "answers cannot be read"),
        ("rubric", ["2=Warm", "2.0=Cold"], "rubric.options all count 2"),
    ],
    ids=["whole numbers", "one option with a value", "no values", "rubric"],
)
def test_options_of_equal_value(key, options, wanted, tmp_path):
    """Options that all count the same are refused with file and line."""
    answers = options if key == "answers" else ["0=No", "1=Yes"]
    of_judge = options if key == "rubric" else ["0=Warm", "1=Cold"]
    with pytest.raises(StudyError, match=wanted):
        study_with_answers(
            tmp_path / "alike", answers, rubric={"question": "How warm is it?", "options": of_judge}
        )
    (fault,) = check_study(tmp_path / "alike").faults
    lines = (tmp_path / "alike" / "study.toml").read_text().splitlines()
    line = next(number for number, one in enumerate(lines, start=1) if one.startswith(key))
    assert fault.startswith(f"study.toml:{line}: {wanted}")


def stars(texts):
    """From 2 to 4 of 5 stars, for women 1.5 more, nearly."""
    return [
        2
        + 1.5 * any(name in text for name in WOMEN)
        + len(text.split()[0]) / 10
        + len(text) % 5 / 20
        for text in texts
    ]


def audited(function=stars, **options):
    return swapbias.audit(function, prompts=TABLE, reference="male", progress=False, **options)


@pytest.mark.usefixtures("audits")
def test_unit_and_range_of_a_function():
    """A function scores prompts of a user in any unit, and its range makes points."""
    run = audited(unit="stars", range=(0, 5))
    one = run.findings.query("primary").iloc[0]
    assert (one["unit"], one["unit_low"], one["unit_high"]) == ("stars", 0, 5)
    assert one["value"] == pytest.approx(1.5)
    assert one["margin"] == pytest.approx(0.25)
    assert "30.0 points" in str(run)
    assert "probability of positive sentiment" not in run.report().read_text()
    with pytest.raises(AssertionError, match=r"30.0 points"):
        run.assert_below(0.05)


@pytest.mark.usefixtures("audits")
def test_scores_outside_the_range():
    """Scores outside the declared range are refused."""
    with pytest.raises(
        ValueError, match=r"numbers from [\d.]+ to [\d.]+, expected 0 to 3 \(or NaN\)"
    ):
        audited(range=(0, 3))


@pytest.mark.usefixtures("audits")
def test_margin_without_range():
    """Without a range a margin applies where all scores lie in 0 to 1."""
    run = audited(lambda texts: [one / 5 for one in stars(texts)], name="fifths")
    one = run.findings.query("primary").iloc[0]
    assert (one["unit"], one["unit_low"], one["unit_high"]) == ("score", 0, 1)
    assert "30.0 points" in str(run)


@pytest.mark.usefixtures("audits")
def test_no_gate_without_range():
    """Without a range no gate passes scores outside 0 to 1, and the run tells how to give one."""
    run = audited(
        lambda texts: [one / 1000 - 0.003 for one in stars(texts)], name="small"
    )  # some below 0
    one = run.findings.query("primary").iloc[0]
    assert one["unit"] == "score"
    assert np.isnan(one["margin"])
    assert one["verdict"] not in ("no gap", "gap within the margin")
    assert "points" not in str(run)
    with pytest.raises(UsageError, match="range"):
        run.assert_below(1.0)
    assert "The range of the score is not known, so no margin applies." in " ".join(
        str(run).split()
    )
    assert "-M range=LOW,HIGH" in run.report().read_text()


@pytest.mark.parametrize("given", ["5,0", "0", "low,high", "0,inf", "1,1"])
def test_wrong_range(given):
    """A wrong range is refused in one sentence."""
    with pytest.raises(UsageError, match=r"range is .*, expected two numbers as in 0,5"):
        audited(range=given)


@pytest.mark.usefixtures("audits")
def test_unit_stays_with_the_run(tmp_path):
    """Unit and range stay with the run and are about prompts of a user only."""
    run = audited(unit="stars", range=(0, 5), out=tmp_path / "run")
    declared = (tmp_path / "run" / "studies" / "prompts" / "study.toml").read_text()
    assert 'unit = {name = "stars", range = [0.0, 5.0]}' in declared
    assert (
        swapbias.Audit.open(tmp_path / "run").findings.query("primary")["unit"].tolist()
        == run.findings.query("primary")["unit"].tolist()
    )
    with pytest.raises(UsageError, match=r"about own prompts. Add prompts="):
        swapbias.audit(stars, "occupation_sentiment", unit="stars", progress=False)


@pytest.mark.usefixtures("audits")
def test_meaning_of_a_function():
    """A study of the package states what it takes the score of a function for."""

    def toxicity(texts):
        return [0.3 + len(one) / 1000 for one in texts]

    run = swapbias.audit(toxicity, "occupation_sentiment:control", progress=False)
    one = run.found[0]
    assert (one.unit, one.own_unit) == ("probability of positive sentiment", "score")
    page = run.report().read_text()
    assert "score of toxicity, taken as probability of positive sentiment" in page
    with pytest.raises(
        ValueError, match=r"expected 0 to 1 .*takes them as probability of positive sentiment"
    ):
        swapbias.audit(stars, "occupation_sentiment:control", progress=False)


@pytest.mark.usefixtures("audits")
def test_label_is_the_unit():
    """A label is the unit for prompts of a user and stands beside what a study takes it for."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["he is kind", "she is awful", "a good day for him", "an awful day for her"]
    fitted = make_pipeline(CountVectorizer(), LogisticRegression()).fit(
        texts, ["fine", "toxic"] * 2
    )
    run = audited(fitted, positive_label="toxic", name="mine")
    one = run.findings.query("primary").iloc[0]
    assert (one["unit"], one["unit_low"], one["unit_high"]) == (
        "probability of the label toxic",
        0,
        1,
    )
    taken = swapbias.audit(
        fitted, "occupation_sentiment:control", positive_label="toxic", name="mine", progress=False
    )
    text = "probability of the label toxic of mine, taken as probability of positive sentiment"
    assert text in taken.report().read_text()


@pytest.mark.usefixtures("audits")
def test_no_sentence_of_another_study():
    """No sentence about a study of the package stands under prompts of a user, in the page, the
    terminal and the table."""
    run = audited(unit="stars", range=(0, 5))
    page = re.sub(r"<(script|style)[\s\S]*?</\1>", "", run.report().read_text())
    shown = page + render_terminal(run.found, verbose=True) + run.findings.to_csv()
    assert "paper" not in shown
    assert "as published" not in shown
    assert "prompts as independent" in page
    for name in studies():
        study = load_study(name)
        assert not [
            limit
            for limit in (*study.limits, *study.synthetic_limits, study.title)
            if limit in shown
        ]
    assert (
        "less likely whatever it says" not in page
    )  # of log-probabilities, which nothing here has


def test_limits_of_synthetic_notes():
    """Limits of synthetic notes stand only where those notes were read."""
    study = load_study("phenotype_fairness")
    (synthetic,) = study.synthetic_limits
    names = [one.name for one in study.experiments]
    assert synthetic in study.limits_of_run(names, own_notes=False)
    assert synthetic not in study.limits_of_run(names, own_notes=True)


def test_units_of_the_package():
    """Every unit that a study declares is in the table of units with its range, and rubrics count
    from 0 to 1."""
    for name in studies():
        for one in load_study(name).experiments:
            assert UNITS[one.compares.unit.name] == one.compares.unit
            if one.reads.rubric is not None:
                assert range_of(one.reads.rubric.candidates) == (0, 1)
