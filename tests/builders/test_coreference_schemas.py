"""coreference_schemas: the published sentences, and gaps that follow the share of women of an
occupation."""

import math

import pandas as pd
import pytest

from swapbias.findings import disaggregate
from swapbias.models.base import LoadOptions
from swapbias.models.masked import MaskedScorer
from swapbias.models.masked_readings import LogMassScorer
from swapbias.studies import as_prompts, config_rows
from swapbias.studies.answer_scores import read_option
from swapbias.studies.tables import upstream_file
from tests.tables import rows_of

NAME = "coreference_schemas"
WOMEN = {
    row["occupation"]: float(row["bls_percent_women"]) for row in config_rows(NAME, "occupations")
}


def audited(config, score, occupations=tuple(WOMEN)):
    prompts = [row for row in config_rows(NAME, config) if row["condition"] in occupations]
    rows = [{**row, "model_id": "made", "score": score(row)} for row in prompts]
    return disaggregate(pd.DataFrame(rows), NAME, robustness=False)


def test_sentences_are_those_released(upstream):
    """The sentences equal the released ones."""
    rows = rows_of(upstream_file(NAME, "data/all_sentences.tsv"), "\t")
    released = {row["sentid"]: row["sentence"] for row in rows}
    mine = {
        "{condition}.{1}.{0}.{group}.txt".format(
            int(row["label"] == "participant"), row["pair_id"].split(".")[1], **row
        ): row["text"]
        for row in config_rows(NAME, "sentences")
    }
    assert mine == released


def test_masked_sentence_with_its_pronoun():
    """A masked sentence filled with its pronoun is the whole sentence."""
    whole = {row["prompt_id"]: row["text"] for row in config_rows(NAME, "sentences")}
    for row in config_rows(NAME, "masked"):
        assert row["text"].replace("<mask>", row["pronoun"]) == whole[row["prompt_id"]]


def test_gaps_that_follow_share_of_women():
    """A gap that follows the share of women of an occupation is found, and a blind model has none."""
    found = audited(
        "sentences", lambda row: -40 + WOMEN[row["condition"]] / 50 * (row["group"] == "female")
    )
    r = {one.contrast: one.estimate.value for one in found if one.measure == "correlation"}
    assert r["gap ~ percent women by BLS"] == pytest.approx(1)
    assert 0 < r["gap ~ percent women by Bergsma and Lin"] < 1
    gaps = {
        one.contrast: one.estimate.value
        for one in found
        if one.primary and one.measure == "paired_gap"
    }
    assert gaps == {
        "female - male": pytest.approx(sum(WOMEN.values()) / 50 / 60),
        "neutral - male": 0,
    }
    blind = audited("sentences", lambda row: float(-len(row["pair_id"])), [*WOMEN][::6])
    assert {one.estimate.value for one in blind if one.primary and one.measure == "paired_gap"} == {
        0.0
    }
    assert all(math.isnan(one.estimate.value) for one in blind if one.measure == "correlation")


def test_choice_by_letter_or_name():
    """A choice is read by its letter or by the name of the person."""
    prompts = as_prompts(
        [row for row in config_rows(NAME, "choices") if row["prompt_id"].startswith("technician")]
    )
    technician, someone = (
        next(one for one in prompts if one.construct == who) for who in ("participant", "someone")
    )
    assert [read_option(technician, text)[0] for text in ("A", "The customer.", "(B)")] == [1, 0, 0]
    assert read_option(someone, "someone")[0] == 0
    unsure = read_option(technician, "C")
    assert math.isnan(unsure[0])
    assert (unsure[1]["unanswered"], unsure[1]["said_unsure"], unsure[1]["said_other"]) == (1, 1, 0)


def test_masked_score_is_log_mass(real_masked_model):
    """The score of a masked model is the logarithm of the probability mass of the pronoun."""
    rows = as_prompts(config_rows(NAME, "masked")[:6])
    masked = MaskedScorer.load(str(real_masked_model), LoadOptions())
    plain = masked.score(rows)
    logs = LogMassScorer(masked).score(rows)
    assert [math.exp(one.score) for one in logs] == pytest.approx(
        [one.parts["closed_list_mass"] for one in plain]
    )
