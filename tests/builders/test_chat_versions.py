"""Chat versions of the masked studies: planted gaps are recovered, blind models have none, rows
are the same."""

import math
from typing import ClassVar

import pandas as pd
import pytest

from swapbias import load_prompts
from swapbias.findings import disaggregate
from swapbias.findings.terms import UNMEASURED
from swapbias.models import Scored, Scorer
from swapbias.models.auto import kind_of
from swapbias.runs.run import score_prompts
from swapbias.studies import as_prompts, config_rows, load_study
from swapbias.studies.answer_scores import read_completion, read_option
from swapbias.studies.chats import turns
from tests.baselines import mixed

READ = {"options": read_option, "completion": read_completion}


def audited(study, name, answer, *, slices=True):
    """Findings of the answers that ``answer(row)`` gives, which sees what a model sees and the row beside it."""
    declared = load_study(study)
    experiment = next(candidate for candidate in declared.experiments if candidate.name == name)
    experiment = experiment if slices else experiment.changed(shows={"slices": ()})
    declared = declared.changed(experiments=(experiment,))
    rows = config_rows(study, name)
    read = READ[experiment.reads.reading]
    scored = [read(prompt, answer(row)) for prompt, row in zip(as_prompts(rows), rows, strict=True)]
    columns = kind_of("chat").readings[experiment.reads.reading].units.keys()
    scored_rows = [
        {
            **row,
            "model_id": "made",
            "score": score,
            **{key: value for key, value in parts.items() if key in columns},
        }
        for row, (score, parts) in zip(rows, scored, strict=True)
    ]
    findings = disaggregate(pd.DataFrame(scored_rows), declared, expected={}, robustness=False)
    (primary,) = [finding for finding in findings if finding.primary]
    return primary, findings


def option(row, said):
    return "ABCDE"[[candidate.text for candidate in row["candidates"]].index(said)]


def choice(row):
    woman = mixed(row["condition"], row["template"]) < (
        0.8 if row["label"] == "mental_health" else 0.5
    )
    return option(row, "She" if woman else "He")


def subject(row):
    return (
        "She"
        if mixed(row["condition"], row["template"]) < 0.7 and row["label"] == "mental_health"
        else "He"
    )


def agreement(row):
    share = {"stigmatized": 0.6, "other": 0.2}.get(row["group"], 0.0)
    return f"({option(row, 'Disagree' if mixed(row['condition'], row['construct']) < share else 'Agree')})"


def rating(row):
    return option(
        row, "Positive" if row["group"] == "female" and mixed(row["pair_id"]) < 0.5 else "Neutral"
    )


@pytest.mark.parametrize(
    ("study", "name", "answer", "planted", "blind", "measured"),
    [
        ("gendered_stigma", "choices", choice, 2 * 0.3, "A", True),  # a choice moves both groups
        ("gendered_stigma", "completions", subject, 2 * 0.7, "Somebody", True),
        ("social_distance", "agreement", agreement, 0.4, "B", False),
        ("occupation_sentiment", "ratings", rating, 0.25 * 0.5, "(B)", False),
    ],
    ids=["choices", "completions", "agreement", "ratings"],
)
def test_planted_gap_of_answers(study, name, answer, planted, blind, measured):
    """A planted gap lies in its interval, and one answer to all prompts has no gap."""
    found, _ = audited(study, name, answer, slices=False)
    assert 0 < found.estimate.ci_low < planted < found.estimate.ci_high
    found, _ = audited(study, name, lambda row: blind, slices=False)
    if measured:  # by options in both orders, or by words of both groups
        assert found.estimate.value == 0
    else:
        assert (found.verdict, found.estimate.n > 0) == (UNMEASURED, True)


def test_refusals_measure_nothing():
    """Answers that all refuse measure nothing."""
    _, every = audited(
        "gendered_stigma", "completions", lambda row: "I am sorry, but I cannot help with this."
    )
    assert all(math.isnan(one.estimate.value) for one in every)


def test_refusals_of_one_gender():
    """Refusals about one gender are a gap of refusals, beside the gap of scores."""

    def answer(row):
        drawn = mixed(row["prompt_id"])
        if row["group"] == "female" and drawn < 0.3:
            return "I'm sorry, but as an AI I cannot judge people."
        return option(row, "Neutral") if drawn < 0.9 else "hm"

    found, every = audited("occupation_sentiment", "ratings", answer)
    gaps = {
        one.score: one
        for one in every
        if (one.measure, one.slice_by, one.view) == ("paired_gap", "all", "")
    }
    refused, unsure, lost = (
        gaps[name].estimate for name in ("refused", "said_unsure", "unanswered")
    )
    assert refused.ci_low < 0.3 < refused.ci_high
    assert refused.ci_low > 0.2
    assert refused.value == pytest.approx(lost.value, abs=0.05)  # as many of both are unreadable
    assert unsure.value == 0
    assert found.verdict == UNMEASURED  # all that could be read are Neutral


def test_unanswered_bounds_a_mean():
    """A mean over conditions is bounded by the prompts without an answer."""

    def answer(row):
        return "no idea" if mixed(row["prompt_id"]) < 0.25 else option(row, "Disagree")

    _, every = audited("social_distance", "agreement", answer, slices=False)
    (mean,) = [
        one
        for one in every
        if (one.measure, one.contrast, one.view, one.score, one.slice_by)
        == ("mean", "stigmatized", "", "score", "all")
    ]
    assert (mean.estimate.value, mean.missing_data_high) == (1, pytest.approx(1))
    assert 0.7 < mean.missing_data_low < 0.8


def test_prompts_of_a_dataset():
    """Prompts of a data set are scored with the number that each of their options counts."""

    class First(Scorer):
        kind = "chat"
        unit = "share of answers"
        model_id = "first"
        identity: ClassVar[dict[str, str]] = {}

        def score(self, prompts, on_progress=None):
            read.extend(turns(one.text) for one in prompts)
            return [Scored(READ["options"](one, "(A)")[0]) for one in prompts]

    read = []
    prompts = load_prompts("stigma_vignettes", "gender").select(range(12))
    scored = score_prompts(prompts, First())
    assert scored["score"][:] == [row["candidates"][0]["value"] for row in prompts]
    assert scored.features["candidates"] == prompts.features["candidates"]
    assert read == prompts["messages"][:]
