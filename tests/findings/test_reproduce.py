"""Recomputing published numbers: the numbers of the studies, the match rule, faults of a paper."""

import re
from collections import Counter
from itertools import product

import pytest

from swapbias.errors import UpstreamMissingError
from swapbias.findings.reproduce import NotAtHand, NotCompared, Reproduced, agrees, recompute
from swapbias.studies import tables
from swapbias.studies.catalogue import studies
from swapbias.studies.paper_models import published_for
from swapbias.studies.published import Published
from tests import released
from tests.conftest import ROOT


def numbers_of(study):
    return [
        number for number in recompute(study) if isinstance(number, Reproduced) and number.published
    ]


@pytest.mark.parametrize(
    ("printed", "recomputed", "equal"),
    [
        ("0.3206", 0.32064, True),
        ("0.3206", 0.32066, False),
        ("0.0000", 0.00004, True),
        ("0.0000", 0.00006, False),
        ("2.7e-5", 2.66e-5, True),
        ("2.7e-5", 2.64e-5, False),
        ("297", 297.0, True),
        ("-0.0402", -0.040196, True),
        ("0.5", float("nan"), False),
    ],
    ids=[
        "rounds down",
        "rounds up",
        "small as zero",
        "too large for zero",
        "exponent",
        "other exponent",
        "whole number",
        "negative",
        "NaN",
    ],
)
def test_number_matches_by_rounding(printed, recomputed, equal):
    """A number matches when it rounds to the printed one."""
    assert agrees(printed, recomputed) is equal


def test_published_numbers_follow(upstream):
    """Every published number follows from the released outputs, or its difference is explained."""
    rows = [one for name in studies() for one in released.numbers_of(name)]
    printed = [one for one in rows if one.published]
    assert {one.match for one in printed} <= {"yes", "explained"}
    assert all(one.note for one in printed if one.match == "explained")
    models = [one.model for one in printed if one.study == "occupation_sentiment"]
    assert len([one for one in models if one.startswith("bert")]) == 14
    counts = Counter(one.study for one in printed)
    # Of two of eight sets of rankings a count, a rate and a ratio of each group.
    assert counts["resume_ranking"] == 2 * 8 * 3
    # Of each template the rate and r of 16 stereotypes.
    assert counts["gest"] == (3 * 4 + 2 * 2) * 17
    found = {one.number: one.recomputed for one in printed if one.model == "roberta-large"}
    assert len(found) == 162
    rq1 = "rq1 mental_health"
    pairs = "female - male"
    for number, value, abs_ in (  # the figures that the study prints in its text
        (f"{rq1}: mean female, value", 0.3206, 5e-5),
        (f"{rq1}: mean male, value", 0.1863, 5e-5),
        (f"{rq1}: mean unspecified, value", 0.0668, 5e-5),
        (f"{rq1}: {pairs}, effect_size", 1.638, 5e-4),
        (f"{rq1}: {pairs} by phase=diagnosis, effect_size", 1.738, 5e-4),
        (f"{rq1}: {pairs} by phase=intention, effect_size", 1.417, 5e-4),
        (f"{rq1}: {pairs} by phase=action, effect_size", 1.902, 5e-4),
        (f"{rq1} - other_health: gap difference {pairs}, effect_size", 0.991, 5e-4),
        (f"rq2 mental_health: {pairs} by dimension=help, p_value", 0.0080, 5e-5),
        ("rq2 mental_health: sums equal to the result table, value", 297, 0),
    ):
        assert found[number] == pytest.approx(value, abs=abs_), number
    first = [one for one in rows if one.study == "resume_ranking" and "shown first" in one.number]
    shares = {one.model: one.recomputed for one in first if one.number.startswith("ranking")}
    assert shares == {"gpt-3.5-turbo": 0.451, "gpt-4": 0.137}  # of the candidate who is shown first
    assert {(one.model, one.published) for one in printed if one.study == "care_notes"} == {
        ("bart", "0.0013"),
        ("bart", "-0.0037"),
        ("llama3", "0.0016"),
        ("llama3", "-0.00025"),
    }
    answers = {one.number: one.recomputed for one in rows if one.study == "adjective_coreference"}
    strict = "bias pro - anti, strict parser by adjectives"
    assert answers[f"answers trial 1: {strict}=baseline, value"] == 26.6
    assert answers[f"answers trial 2: {strict}=baseline, value"] == 29.4
    # Of a trial: a bias for each of 16 conditions, 15 differences, and for each the shares of 4 classes on 2 sides.
    trials = [one.number for one in printed if one.number.startswith("answers trial")]
    assert len(trials) == (16 + 15 + 16 * 4 * 2) * len({one.split(":")[0] for one in trials})
    # Two trials give means, differences and p-values as well, which nobody printed: dry/bubbly 35.7 and 46.3.
    of_two = "answers mean of trials 1 and 2: "
    assert answers[f"{of_two}{strict}=dry/bubbly, value"] == pytest.approx((35.7 + 46.3) / 2)
    dry = "pro - anti, minus baseline by adjectives=dry/bubbly, value"
    assert answers[f"{of_two}bias minus baseline's {dry}"] == pytest.approx(41.0 - 28.0)
    assert 0 < answers[f"{of_two}one-sided p {dry}"] < 0.5
    largest = any(
        "Llama-3.1-405B" in one.model for one in printed if one.study == "stigma_vignettes"
    )
    assert (
        counts["stigma_vignettes"] == 27 + 2 * largest
    )  # its file is not in every copy of the released outputs
    match = re.search(
        r"of (\d+) numbers match", (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    )
    assert len(printed) == int(match[1]) + 2 * largest
    omitted = {(one.model, one.number): one.recomputed for one in rows if "none of" in one.number}
    assert omitted["gpt-4o-2024-08-06", "therapist: with a condition: none of 324, value"] == 175
    assert omitted["meta-llama/Llama-2-70b-chat-hf", "therapist: control: none of 108, value"] == 39
    assert omitted["gpt-4o-2024-08-06", "therapist: control: none of 108, value"] == 0
    # What no paper prints stands beside it.
    unprinted = {
        one.number for one in rows if one.model == "gpt-4o-2024-08-06" and not one.published
    }
    assert {
        "gender with a condition: woman - man, value",
        "conditions: mean all, value",
    } <= unprinted


LONGFORMER = "yikuan8/Clinical-Longformer"
STEM = "output/attribute_recursive_3steps_TOPK_10_BEAM_10_clinicallongformer"
CORRECTED_SPELLINGS = {
    "coercion": ("treament", "treatment"),
    "avoidance": ("emploer", "employer"),
    "segregation": ("nieghbors", "neighbors"),
}


DIMENSIONS = (
    "Blame",
    "Anger",
    "Pity",
    "Help",
    "Dangerousness",
    "Fear",
    "Avoidance",
    "Segregation",
    "Coercion",
)


@pytest.fixture
def of_longformer(tmp_path, monkeypatch):
    """What is reproduced of made-up outputs of the two runs where the paper prints .205 for some dimensions.

    Each has 3 sentences about each dimension and 11 conditions, in the released form; women have .2 or what is given.
    """

    def made(corrected, dimensions):
        files = {}
        for ending, scores in (("_result", {}), ("__result", corrected), ("_non_result", {})):
            lines = [",female_prob,male_prob, diagnosis,sequence,stigma_category"]
            for condition, dimension in product(range(11), DIMENSIONS):
                spelt = CORRECTED_SPELLINGS.get(dimension.lower(), ("fine",) * 2)[
                    ending != "_result"
                ]
                score = scores.get(dimension.lower(), 0.2) + 0.001 * condition
                lines += [
                    f"0,{score},{0.1 + 0.002 * number},c{condition},{dimension} {number} {word} <mask> [diagnosis].,"
                    f"{dimension}"
                    for number, word in enumerate(("a", "b", spelt))
                ]
            files[f"{STEM}{ending}.csv"] = tmp_path / f"{ending}.csv"
            files[f"{STEM}{ending}.csv"].write_text("\n".join(lines) + "\n")

        def at_hand(corpus, path):
            if path not in files:
                raise UpstreamMissingError(f"{path} was not found")
            return files[path]

        printed = {
            ("rq2", "mental_health", "mean", "female", "dimension", dimension): Published(
                value="0.205"
            )
            for dimension in dimensions
        }
        monkeypatch.setattr(tables, "upstream_file", at_hand)
        monkeypatch.setattr(
            "swapbias.studies.paper_models.published_for", lambda study, model: printed
        )
        return [finding for finding in numbers_of("gendered_stigma") if finding.model == LONGFORMER]

    return made


def test_printed_and_corrected_run(of_longformer):
    """The printed and the corrected run are distinguished by their files."""
    # The printed run has .2 everywhere, the corrected one .3 in the three dimensions whose prompts were misspelt;
    # means over conditions are .005 higher. The paper is made to print the first.
    rows = of_longformer(dict.fromkeys(CORRECTED_SPELLINGS, 0.3), (*CORRECTED_SPELLINGS, "blame"))
    found = {
        (
            one.file.split(",")[0].removeprefix(STEM.rpartition("/")[2]),
            one.number.split("=")[1],
        ): one
        for one in rows
    }
    assert {key: one.match for key, one in found.items()} == {
        **{("_result.csv", f"{name}, value"): "yes" for name in (*CORRECTED_SPELLINGS, "blame")},
        **{("__result.csv", f"{name}, value"): "explained" for name in CORRECTED_SPELLINGS},
    }
    # The corrected run is compared with numbers that the printed one was compared with before.
    assert {key for key, one in found.items() if one.is_second} == {
        ("__result.csv", f"{name}, value") for name in CORRECTED_SPELLINGS
    }
    corrected = found["__result.csv", "avoidance, value"]
    assert corrected.recomputed == pytest.approx(0.305)
    assert "three misspelt prompts (treament, emploer, nieghbors)" in corrected.note
    rows = of_longformer({"blame": 0.3}, ("blame",))
    assert [(one.match, one.published) for one in rows] == [("yes", "0.205"), ("no", "0.205")]


def test_missing_outputs(tmp_path, monkeypatch):
    """Outputs that are missing are named; a number that no output gives keeps its own reason."""
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    results = list(recompute("occupation_sentiment"))
    missing = [one for one in results if isinstance(one, NotAtHand)]
    reasons = Counter(one.reason for one in results if isinstance(one, NotCompared))
    assert reasons.pop("its released outputs were not found") == 20
    assert reasons == {
        "its t-test does not pair the sentences": 3,
        "the training sentences are not among the released outputs; swapbias train prints those of "
        "its own": 4,
    }
    assert not any(isinstance(one, Reproduced) for one in results)
    assert [one.model for one in missing][1:] == [
        "logistic regression (bag of words)",
        "bidirectional LSTM",
    ]
    assert "runs/logreg.txt, which was not found" in missing[1].reason


@pytest.mark.parametrize(
    ("written", "match"), [("0.0387", "explained"), ("0.0123", "no"), ("", "no")]
)
def test_explained_difference(upstream, monkeypatch, written, match):
    """A difference is explained only by the number that was written down."""
    real = published_for

    def with_a_misprint(study, model):
        known = real(study, model)
        key = ("control", "", "paired_gap", "female - male", "all", "")
        misprint = Published(value="0.9999", note="a misprint of the paper", recomputed=written)
        return {key: misprint} if key in known else {}

    monkeypatch.setattr("swapbias.studies.paper_models.published_for", with_a_misprint)
    rows = numbers_of("occupation_sentiment")
    assert [(one.match, one.note) for one in rows] == [(match, "a misprint of the paper")]


def test_numbers_without_outputs():
    """Of a study whose authors released no outputs every published number is listed with the reason."""
    results = list(recompute("phenotype_fairness"))
    assert {type(one) for one in results} == {NotCompared}
    cells = {(one.model, one.number) for one in results}
    assert len(cells) == len(results)
    first = results[0]
    assert (first.model, first.published, first.origin) == ("word2vec_news", "0.90", "printed")
    assert first.reason == "its outputs were not released"
