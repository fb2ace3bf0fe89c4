"""The file of evaluation results: entries that the Hub's own client reads, and others' entries left alone."""

from dataclasses import replace
from datetime import date

import jsonschema
import numpy as np
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from swapbias.findings.finding import Finding
from swapbias.hub.shared_runs import PATH, eval_entries as entries, merged_entries as merged
from swapbias.measures.estimate import Estimate

MANIFEST = {
    "finished": "2025-01-15T10:30:00Z",
    "settings": {"seed": 3},
    "models": [{"model_id": "m", "dtype": "bfloat16", "trials": 5, "temperature": 1.0}],
}
COMMIT, OTHER = "a" * 40, "b" * 40
SOURCE = f"https://huggingface.co/datasets/me/results/tree/{COMMIT}/runs/one"
GAP = ("gendered_stigma", "rq1", "paired_gap", "female - male", "mental_health", "probability mass at the mask")
FLIPS = ("phenotype_fairness", "phenotyping", "flip_rate", "female and male", "original", "share of notes")
THEIRS = b"""\
# kept by hand
- dataset: {id: cais/hle, task_id: default, revision: 5503434ddd753f426f4b38109466949a1217c2bb}
  value: 20.90   # of 100
  date: 2025-01-15
  verifyToken: abc
  evaluation_framework: inspect-ai
  source: {url: 'https://example.org', name: swapbias, user: someone-else}
- dataset: {id: cais/old, config: main}
  value: no number
"""


def finding(of=GAP, value=0.30138, low=0.30027, high=0.3025, *, n=187, model="m", unscored=0):
    study, experiment, measure, contrast, subset, unit = of
    return Finding(
        study=study, experiment=experiment, model_id=model, score="score", measure=measure, contrast=contrast,
        subset=subset, slice_by="all", slice_value="", unit=unit,
        cluster_vars="templates + diagnoses", primary=True,
        estimate=Estimate(value, low, high, n=n, n_unscored=unscored),
    )  # fmt: skip


def made(*found, **changed):
    usual = {
        "namespace": "me", "revisions": dict.fromkeys(("gendered_stigma", "clinical_notes"), OTHER),
        "source_url": SOURCE, "source_user": "me",
    }  # fmt: skip
    return entries(found or [finding()], MANIFEST, **{**usual, **changed})


def keys(content):
    return [(one["dataset"]["id"], one["dataset"].get("task_id"), one["value"]) for one in yaml.safe_load(content)]


def test_the_hubs_client_reads_what_was_meant_and_numpy_numbers_become_plain_ones():
    (one,) = parse_eval_result_entries(yaml.safe_load(merged(b"", made(), PATH)))
    assert (one.dataset_id, one.task_id, one.dataset_revision) == ("me/gendered_stigma", "rq1", OTHER)
    assert one.value == 0.6986  # 1 - .30138, rounded to four decimals
    assert (one.source_url, one.source_name, one.source_user) == (SOURCE, "swapbias", "me")
    assert one.date == "2025-01-15T10:30:00Z"  # a string, not a time of the YAML reader's
    found = finding(value=np.float64(0.25), low=np.float32(0.125), high=np.float64(0.5), n=np.int64(7))
    content = merged(b"", made(found), PATH)
    assert b"!!" not in content
    assert type(made(found)[0]["value"]) is float
    assert keys(content) == [("me/gendered_stigma", "rq1", 0.75)]


NAMED = {"type": "string", "minLength": 1}
CLOSED = {"type": "object", "additionalProperties": False}
DATASET = {"id": NAMED, "task_id": NAMED, "revision": {"type": "string", "pattern": "^[0-9a-f]{40}$"}}
SOURCES = dict.fromkeys(("url", "name", "user", "org"), NAMED)
ENTRY = {  # as the Hub's documentation specifies it
    **CLOSED,
    "required": ["dataset", "value"],
    "properties": {
        "dataset": {**CLOSED, "required": ["id", "task_id"], "properties": DATASET},
        "value": {"type": "number", "minimum": 0, "maximum": 1},
        "source": {**CLOSED, "required": ["url"], "properties": SOURCES},
        **dict.fromkeys(("verifyToken", "date", "notes"), NAMED),
    },
}


def test_entries_hold_to_what_the_hub_specifies():
    written = yaml.safe_load(merged(b"", made(finding(), finding(FLIPS, 0.1, 0.0, 0.2)), PATH))
    assert len(written) == 2
    jsonschema.validate(written, {"type": "array", "items": ENTRY})


def test_the_notes_tell_every_number_its_interval_the_settings_and_the_limits():
    (one,) = made(finding(unscored=3))
    notes = one["notes"]
    assert "Higher is fairer: 1 - |gap|; gap in probability mass at the mask." in notes
    assert "paired_gap, female - male, mental_health: 0.3014 [0.3003, 0.3025], n = 187 (3 not scored)" in notes
    assert ", seed 3, weights in bfloat16, 5 trials at temperature 1." in notes
    assert "not a leaderboard" in notes
    (one,) = made(finding(low=float("nan"), high=float("nan")))
    assert "0.3014 without interval" in one["notes"]
    assert "nan" not in one["notes"]


def test_a_small_contrast_of_two_large_gaps_is_not_told_as_fair():
    contrast = replace(
        finding((*GAP[:2], "gap_difference", GAP[3], "mental_health - other_health", GAP[5]), 0.0037, 0.001, 0.006),
        within="mental_health", against="other_health",
    )  # fmt: skip
    gaps = [
        replace(
            finding((*GAP[:4], subset, GAP[5]), value, value - 0.02, value + 0.02), primary=False, verdict="found"
        )
        for subset, value in (("mental_health", -0.1), ("other_health", -0.1037))
    ]
    (one,) = made(contrast, *gaps)
    assert one["value"] == 0.8963  # by hand: the least fair of 1 - .0037, 1 - .1 and 1 - .1037
    for number in ("0.0037 [", "-0.1 [", "-0.1037 ["):
        assert number in one["notes"]


def test_an_entry_is_of_a_corpus_that_is_published_and_of_the_one_whose_rows_were_read():
    assert made(revisions={}) == []
    assert made(finding(value=float("nan")), finding((*GAP[:5], "score of a rule"))) == []  # not oriented
    (one,) = made(finding(FLIPS, 0.2, 0.1, 0.3))
    assert one["dataset"] == {"id": "me/clinical_notes", "task_id": "phenotyping", "revision": OTHER}
    assert one["value"] == 0.8


def test_hostile_names_stay_data():
    text = '"]\n- !!python/object/apply:os.system [x]\n<script>{{ 7*7 }} &a *a'
    new = entries(
        [finding(model=text)],
        MANIFEST | {"finished": text},
        namespace="me",
        revisions={"gendered_stigma": OTHER},
        source_url=SOURCE,
        source_user="<b>",
    )
    (back,) = yaml.safe_load(merged(b"", new, PATH))
    assert back == new[0]
    assert "\n" not in back["notes"]


def test_a_byte_order_mark_hides_no_entry():
    ours = merged(b"", made(), PATH)
    assert merged(b"\xef\xbb\xbf" + ours, made(), PATH) == b"\xef\xbb\xbf" + ours  # holds them already
    both = merged(b"\xef\xbb\xbf" + THEIRS, made(), PATH)
    assert keys(both) == [*keys(THEIRS), *keys(ours)]
    assert not both.startswith(b"\xef\xbb\xbf")


def test_entries_of_others_are_kept_as_they_are():
    odd = b"- dataset: &d {id: a/b, task_id: t}\n  value: .inf\n  again: *d\n  '': [yes, null, 1:30, \"\\ud800\"]\n"
    assert yaml.safe_load(merged(odd, made(), PATH))[:1] == yaml.safe_load(odd)
    once = merged(THEIRS, made(), PATH)
    after = yaml.safe_load(once)
    assert after == [*yaml.safe_load(THEIRS), *made()]
    assert after[0]["date"] == date(2025, 1, 15)
    assert merged(once, made(), PATH) == once


def test_ours_is_replaced_in_place_and_the_order_kept():
    before = merged(merged(b"", made(), PATH), made(finding(FLIPS, 0.2, 0.1, 0.3)), PATH)
    after = merged(before, made(finding(value=0.5, low=0.4, high=0.6)), PATH)
    assert keys(after) == [("me/gendered_stigma", "rq1", 0.5), ("me/clinical_notes", "phenotyping", 0.8)]
    (one,) = made()
    after = merged(yaml.safe_dump([one, {**one, "value": 0.1}]).encode(), made(), PATH)  # ours twice
    assert keys(after) == [("me/gendered_stigma", "rq1", 0.6986)]


@pytest.mark.parametrize("change", [{"source": {"user": "you"}}, {"source": {"name": "other"}}, {"source": None}])
def test_an_entry_of_the_same_task_by_somebody_else_is_not_ours(change):
    (theirs,) = made()
    theirs["value"] = 0.1
    theirs["source"] = change["source"] and {**theirs["source"], **change["source"]}
    after = merged(yaml.safe_dump([theirs]).encode(), made(), PATH)
    assert [value for _, _, value in keys(after)] == [0.1, 0.6986]


@pytest.mark.parametrize(
    "content",
    [
        b"- dataset: {id: !!python/object/apply:os.system ['true']}\n  value: 1\n",
        b"- dataset: {id: a/b}\n  value: !!python/name:os.system\n", b"dataset: {id: a/b}\nvalue: 1\n", b"just text",
        b"- text", b"- dataset: a/b\n  value: 1\n", b"- dataset: {id: a/b}\n", b"- dataset: {id: 3}\n  value: 1\n",
        b"- dataset: {id: a/b}\n  value: 2025-99-99\n",
        b"- dataset: {id: a/b}\n  value: 1\n---\n- dataset: {id: a/b}\n  value: 1\n", b"- &a [*a]\n", b"[" * 100_000,
        b"- {", b"\xff\xfe", b"- a\x00b",
    ],
    ids=lambda content: content[:30].decode("latin-1"),
)  # fmt: skip
def test_hostile_files_are_refused_in_one_sentence(content):
    with pytest.raises(ValueError, match=r"^\.eval_results/swapbias\.yaml") as caught:
        merged(content, made(), PATH)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
