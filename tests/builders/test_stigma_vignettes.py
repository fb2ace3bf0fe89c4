"""stigma_vignettes: the authors' rows and figures, planted gaps, and bounds of missing answers."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from swapbias.builders._stigma_vignettes_released import CONTROL, released_rows
from swapbias.findings import disaggregate
from swapbias.findings.reproduce import agrees
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.report.paper_tables import tables_of_page
from swapbias.runs.audit import start
from swapbias.runs.settings import Settings
from swapbias.studies import config_rows, load_corpus
from swapbias.studies.chats import turns
from swapbias.studies.paper_models import published_for
from swapbias.studies.published import published_rows
from swapbias.studies.tables import upstream_file
from tests.baselines import letter, mixed
from tests.models.chat.server import ChatServer

NAME = "stigma_vignettes"
SLOTS = ("gender", "race", "education")
LARGEST = "meta-llama/Meta-Llama-3.1-405B-Instruct-Turbo"


def answered(config, stigma):
    """Scored rows of a config, of the shares that ``stigma(row)`` gives; NaN: not answered."""
    rows = [{**row, "model_id": "made", "score": stigma(row)} for row in config_rows(NAME, config)]
    return pd.DataFrame([{**row, "unanswered": float(math.isnan(row["score"]))} for row in rows])


def findings_of_run(model, experiment):
    run = next(
        released
        for released in load_corpus(NAME).released
        if (released.model.split("/")[-1], released.experiment) == (model, experiment)
    )
    rows = run.rows({path: upstream_file(NAME, path) for path in run.files})
    return disaggregate(
        pd.DataFrame([{**row, "model_id": model} for row in rows]), NAME, robustness=False
    )


def test_prompts_are_those_of_the_authors(upstream):
    """The prompts are those that the authors used."""
    path = next(
        one.files[0] for one in load_corpus(NAME).released if one.experiment == "conditions"
    )
    released = [json.loads(line) for line in upstream_file(NAME, path).read_text().splitlines()]
    mine = [
        row for name in ("conditions", "beliefs") for row in config_rows(NAME, f"original_{name}")
    ]
    assert len(mine) == len(released) == 72 * 14
    assert {turns(row["text"])[-1]["content"] for row in mine} == {
        row["prompt"] for row in released
    }
    plain, therapist = (
        turns(config_rows(NAME, f"original_{name}")[0]["text"])
        for name in ("conditions", "therapist")
    )
    assert [one["role"] for one in plain] == ["system", "user", "assistant", "user"]
    assert therapist[0]["content"].endswith(f"their thinking).\n\n{plain[0]['content']}")


def test_repaired_prompts(upstream):
    """Repaired prompts differ from the published ones by the repairs alone."""
    known = {row["prompt_id"]: row["text"] for row in config_rows(NAME, "original_beliefs")}
    for row in config_rows(NAME, "beliefs"):
        text = known[row["prompt_id"]].replace("How likely it is that", "How likely is it that")
        text = (
            text.replace("a African", "an African").replace("Juan", "John").replace("Maria", "Mary")
        )
        assert row["text"] == text.replace("- (A) Yes\n - (B) No", "- (A): Yes\n- (B): No")


@pytest.mark.parametrize("slot", SLOTS)
def test_pair_differs_in_slot(slot):
    """The two texts of a pair differ in the words of their slot alone."""
    words = {
        "he",
        "she",
        "him",
        "her",
        "his",
        "himself",
        "herself",
        "man",
        "woman",
        "John",
        "Mary",
        "a",
        "an",
    }
    words |= {"He", "She", "His", "Her"} if slot == "gender" else set()
    words |= {
        "White",
        "African",
        "American",
        "Hispanic",
        "8th",
        "grade",
        "high",
        "school",
        "college",
    }
    for _, pair in pd.DataFrame(config_rows(NAME, slot)).groupby("pair_id"):
        assert sorted(pair["group"]) == sorted(set(pair[slot]))
        assert all(
            pair[other].nunique() == 1 for other in {*SLOTS, "condition", "template"} - {slot}
        )
        word_sets = [
            set(text.replace(".", " ").replace("'", " ").replace(",", " ").split())
            for text in pair["text"]
        ]
        assert set.union(*word_sets) - set.intersection(*word_sets) <= words


def test_printed_rate_of_largest_model():
    """The printed rate of the largest model follows from its omissions."""
    printed = published_for(NAME, LARGEST)
    rate = printed["therapist", "", "mean", "all", "vignettes", "with a condition"].value
    omitted = int(
        printed["therapist", "", "answers", "with a condition: none of 324", "all", ""].value
    )
    codes = round(float(rate) * (324 - omitted))  # 229 of 306: the bounds are .707 and .762
    assert agrees(rate, codes / (324 - omitted))
    assert (round(codes / 324, 3), round((codes + omitted) / 324, 3)) == (0.707, 0.762)


def test_unanswered_bounds_a_rate(upstream):
    """The missing answers of a model bound its rate."""
    found = findings_of_run("gpt-4o-2024-08-06", "therapist")
    (rate,) = [
        one
        for one in found
        if (one.measure, one.contrast, one.slice_value, one.score)
        == ("mean", "all", "with a condition", "score")
    ]
    assert round(rate.estimate.value, 6) == 0.38255
    assert (round(rate.missing_data_low, 3), round(rate.missing_data_high, 3)) == (0.176, 0.716)
    # 175 of 324 rows with a condition and none of the control are not answered: 54 points in the mean of the three.
    gaps = [
        one.estimate.value
        for one in found
        if one.score == "unanswered"
        and one.primary is False
        and one.measure == "paired_gap"
        and one.slice_by == "all"
        and not one.view
    ]
    assert np.mean(gaps) == pytest.approx(175 / 324)


def test_released_file_of_any_model(tmp_path, upstream):
    """A file of the released shape is read whatever its model is."""
    path = next(one.files[0] for one in load_corpus(NAME).released if one.experiment == "therapist")
    known = [json.loads(line) for line in upstream_file(NAME, path).read_text().splitlines()]
    made = tmp_path / "2025-01-01.jsonl"
    made.write_text(
        "".join(
            json.dumps({**one, "output": None, "answer": None, "code": None}) + "\n"
            for one in known
        )
    )
    rows = [
        {**row, "model_id": "m"}
        for row in released_rows(("conditions", "beliefs", *SLOTS), {"": made})
    ]
    found = disaggregate(pd.DataFrame(rows), NAME)
    assert len(found) > 100
    assert all(
        math.isnan(number)
        for one in found
        for number in (
            one.estimate.value,
            one.estimate.ci_low,
            one.missing_data_low,
            one.missing_data_high,
        )
    )
    assert {one.verdict for one in found} <= {"", "not measured"}


def test_people_beside_the_model():
    """The rates of a survey of people stand beside the model's."""
    found = disaggregate(answered("conditions", lambda row: 0.0), NAME, robustness=False)
    people = {
        one.slice_value: one.estimate.value for one in found if one.contrast == "US adults 2018"
    }
    # Unwilling to work closely with, live next door to, socialize with, befriend, marry; violent toward others.
    assert people["schizophrenia"] == pytest.approx((0.65 + 0.49 + 0.46 + 0.36 + 0.36 + 0.67) / 6)
    assert people["depression: marriage"] == 0.25


def test_planted_gap_of_letters(tmp_path, quiet):
    """A planted gap is recovered from a chat model that answers by letter."""
    rows = {turns(row["text"])[-1]["content"]: row for row in config_rows(NAME, "gender")}

    def stigma(row):
        share = 0.3 + 0.25 * (row["group"] == "woman") - 0.2 * (row["condition"] == CONTROL)
        return mixed(row["template"], row["person"], row["condition"]) < share

    def answer(prompt):
        row = rows[prompt]
        if mixed("refused", prompt) < 0.02:
            return "I cannot help with that."
        return f"{letter(row, 1 if stigma(row) else 0)}.\nBased on this"

    with ChatServer(answer) as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1, temperature=0.0)
        settings = Settings(studies=(f"{NAME}:gender",), options=(chat,))
        run, found = start(settings, tmp_path / "run", **quiet, draw=False)
    (gap,) = [one for one in found if one.primary]
    assert gap.estimate.ci_low < 0.25 < gap.estimate.ci_high
    assert gap.questions == 1  # that the run answers
    assert "questions + people" in gap.cluster_vars
    items = pd.read_parquet(run.folder / "items" / f"{NAME}.parquet")
    refused = sum(mixed("refused", prompt) < 0.02 for prompt in rows)
    assert items["unanswered"].sum() == items["score"].isna().sum() == refused
    assert gap.missing_data_low < gap.estimate.value < gap.missing_data_high


def test_tables_of_a_chat_model(tmp_path, quiet):
    """Rates and counts of a run stand beside those of the paper, whose cells are the texts of published.csv.

    Of 432 answers 108 count 1 (depression), 108 count 0 (alcohol), 108 are refusals and 108 "Do not know".
    """
    rows = {turns(row["text"])[-1]["content"]: row for row in config_rows(NAME, "therapist")}
    letters = {"depression": 1, "alcohol dependence": 0, CONTROL: None}

    def answer(prompt):
        row = rows[prompt]
        if row["condition"] == "schizophrenia":
            return "I cannot help with that."
        return letter(row, letters[row["condition"]])

    with ChatServer(answer) as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1, temperature=0.0)
        settings = Settings(studies=(f"{NAME}:therapist",), options=(chat,))
        run, found = start(settings, tmp_path / "run", **quiet, draw=False)
    items = pd.read_parquet(run.folder / "items" / f"{NAME}.parquet")
    tables = {table.name: table for table in tables_of_page({}, found, {NAME: items})}
    rates, answers = tables["stigma_rates"], tables["answers"]
    (line,) = (line for line in rates.lines if line[1] == "tiny")
    prompt = "asked as a good therapist"
    assert line == (prompt, "tiny", "this run", "1.000000", "0.000000", "–", "–", "0.500000")
    assert answers.lines[-1] == ("tiny", "this run", prompt, "432", "324", "216", "0.500")
    published = published_rows(NAME)
    printed = [cell for line in rates.lines if line[2] == "printed" for cell in line[3:]]
    assert sorted(cell for cell in printed if cell != "–") == sorted(
        row["value"] for row in published if row["measure"] == "mean"
    )
    lines = [line for line in answers.lines if line[1] == "recomputed"]
    assert sorted(cell for line in lines for cell in line[4:6]) == sorted(
        row["value"] for row in published if row["contrast"].endswith("of 1008")
    )
    assert ("Llama-2-70b", "recomputed", prompt, "1008", "198", "198", "0.196") in lines


def test_blind_model_has_no_gap():
    """A blind model has no gap between any groups of people."""
    blind = {
        config: answered(config, lambda row: float(row["condition"] != CONTROL)) for config in SLOTS
    }
    found = disaggregate(pd.concat(blind.values()), NAME)
    gaps = [one for one in found if one.measure in ("paired_gap", "group_spread")]
    assert gaps
    assert [one.estimate.value for one in gaps] == pytest.approx([0.0] * len(gaps), abs=1e-6)
    # Six questions, all of which score the same: fewer than the 72 that rule a gap out.
    few = [one for one in gaps if one.primary and one.measure == "paired_gap"]
    assert {(one.estimate.independent, one.verdict) for one in few} == {(6, "undecided")}


def test_trials_are_no_prompts():
    """Further trials of a prompt count as no further prompts."""

    def some(row, trial):
        return (
            float("nan")
            if mixed(row["prompt_id"], trial) < 0.2
            else float(mixed(row["pair_id"], trial) < 0.5)
        )

    trials = [
        {
            **row,
            **{name: f"{row[name]}/t{trial}" for name in ("prompt_id", "pair_id")},
            "trial": str(trial),
            "model_id": "made",
            "score": some(row, str(trial)),
        }
        for trial in (1, 2, 3)
        for row in config_rows(NAME, "gender")
    ]
    (gap,) = [one for one in disaggregate(pd.DataFrame(trials), NAME) if one.primary]
    assert gap.estimate.n + gap.estimate.n_unscored == 162  # pairs with a condition
    everything = pd.DataFrame(trials)[lambda rows: rows["label"] == "with a condition"]
    lost = everything["score"].isna().mean()
    # The bounds are as far apart as the share of trials that say nothing, of both sides together.
    assert gap.missing_data_high - gap.missing_data_low == pytest.approx(2 * lost)
