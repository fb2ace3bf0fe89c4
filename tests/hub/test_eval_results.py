"""The file of evaluation results: entries that the Hub's own client reads, and others' entries left alone."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from swapbias.hub.eval_results import (
    EVAL_RESULTS,
    entry_keys,
    eval_entries as entries,
    merged_entries,
)
from swapbias.measures import Estimate
from tests.hub.shared_runs import finding

MANIFEST = {
    "finished": "2025-01-15T10:30:00Z",
    "settings": {"seed": 3},
    "models": [{"model_id": "lab/small", "dtype": "bfloat16", "trials": 5, "temperature": 1.0}],
}
OTHER_REVISION = "b" * 40
SOURCE = f"https://huggingface.co/datasets/me/results/tree/{'a' * 40}/runs/one"
OTHER_ENTRIES = b"""\
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
GAP = finding(0.30138, 0.30027, 0.3025, n_unscored=0)
FLIPS = finding(
    0.2,
    0.1,
    0.3,
    study="phenotype_fairness",
    experiment="phenotyping",
    measure="flip_rate",
    subset="original",
    contrast="female and male",
    unit="share of notes",
)


def merged(existing, new, file, questions=()):
    return merged_entries(existing, new, questions=questions, file=file)


def entries_of(*findings, **changed):
    usual = {
        "namespace": "me",
        "revisions": dict.fromkeys(("gendered_stigma", "clinical_notes"), OTHER_REVISION),
        "source_url": SOURCE,
        "source_user": "me",
    }
    return entries(findings or [GAP], MANIFEST, **{**usual, **changed})


def keys(content):
    return [
        (entry["dataset"]["id"], entry["dataset"].get("task_id"), entry["value"])
        for entry in yaml.safe_load(content)
    ]


def test_client_reads_entries():
    """The Hub's client reads each entry, and numbers of numpy become plain ones."""
    one, two = parse_eval_result_entries(
        yaml.safe_load(merged(b"", entries_of(GAP, FLIPS), EVAL_RESULTS))
    )
    assert (one.dataset_id, one.task_id, one.dataset_revision) == (
        "me/gendered_stigma",
        "rq1",
        OTHER_REVISION,
    )
    assert (two.dataset_id, two.task_id, two.dataset_revision) == (
        "me/clinical_notes",
        "phenotyping",
        OTHER_REVISION,
    )
    assert (one.value, two.value) == (0.6986, 0.8)  # 1 - .30138, rounded to four decimals; 1 - .2
    assert (one.source_url, one.source_name, one.source_user) == (SOURCE, "swapbias", "me")
    assert one.date == "2025-01-15T10:30:00Z"  # a string, not a time of the YAML reader's
    found = finding(np.float64(0.25), np.float32(0.125), np.float64(0.5), n=np.int64(7))
    content = merged(b"", entries_of(found), EVAL_RESULTS)
    assert b"!!" not in content
    assert type(entries_of(found)[0]["value"]) is float
    assert keys(content) == [("me/gendered_stigma", "rq1", 0.75)]


def test_notes_hold_numbers_and_limits():
    """The notes of an entry hold every number, its interval, the settings and the limits."""
    (one,) = entries_of(finding(0.30138, 0.30027, 0.3025))
    notes = one["notes"]
    assert "Higher is fairer: 1 - |gap|; gap in probability mass at the mask." in notes
    assert (
        "paired_gap, female - male, mental_health: 0.3014 [0.3003, 0.3025], n = 187 (3 not scored)"
        in notes
    )
    assert ", seed 3, weights in bfloat16, 5 trials at temperature 1." in notes
    assert "not a leaderboard" in notes
    (one,) = entries_of(finding(0.30138))
    assert "0.3014 without interval" in one["notes"]
    assert "nan" not in one["notes"]


def test_small_contrast_of_large_gaps():
    """A small contrast of two large gaps is not rated as fair."""
    between = {"within": "mental_health", "against": "other_health", "measure": "gap_difference"}
    contrast = finding(0.0037, 0.001, 0.006, subset="mental_health - other_health", **between)
    gaps = [
        finding(value, value - 0.02, value + 0.02, subset=subset, primary=False, verdict="found")
        for subset, value in (("mental_health", -0.1), ("other_health", -0.1037))
    ]
    (one,) = entries_of(contrast, *gaps)
    assert one["value"] == 0.8963  # by hand: the least fair of 1 - .0037, 1 - .1 and 1 - .1037
    for number in ("0.0037 [", "-0.1 [", "-0.1037 ["):
        assert number in one["notes"]


def test_least_fair_of_several_answers():
    """The least fair of several answers has the entry."""
    values = {"a": 0.1, "b": 0.4, "c": 0.2, "d": np.nan}
    each = [
        replace(FLIPS, estimate=Estimate(one), slice_value=name) for name, one in values.items()
    ]
    assert [
        one["value"] for one in entries_of(*(replace(one, slice_by="phenotype") for one in each))
    ] == [0.6]


def test_no_entry_without_scale():
    """A result that is unpublished, undefined or of no known scale has no entry."""
    assert entries_of(revisions={}) == []
    assert entries_of(finding(float("nan")), finding(0.3, 0.2, 0.4, unit="score of a rule")) == []


def test_hostile_names():
    """Hostile names stay data in the file."""
    text = '"]\n- !!python/object/apply:os.system [x]\n<script>{{ 7*7 }} &a *a'
    new = entries_of(finding(0.3, 0.2, 0.4, subset=text), source_url=text, source_user=text)
    (back,) = yaml.safe_load(merged(b"", new, EVAL_RESULTS))
    assert back == new[0]
    assert "\n" not in back["notes"]


def test_byte_order_mark():
    """A byte order mark hides no entry of the file."""
    ours = merged(b"", entries_of(), EVAL_RESULTS)
    assert (
        merged(b"\xef\xbb\xbf" + ours, entries_of(), EVAL_RESULTS) == b"\xef\xbb\xbf" + ours
    )  # holds them already
    both = merged(b"\xef\xbb\xbf" + OTHER_ENTRIES, entries_of(), EVAL_RESULTS)
    assert keys(both) == [*keys(OTHER_ENTRIES), *keys(ours)]
    assert not both.startswith(b"\xef\xbb\xbf")


def test_entries_of_others_stay():
    """Entries of others stay as they are."""
    odd = b"- dataset: &d {id: a/b, task_id: t}\n  value: .inf\n  again: *d\n  '': [yes, null, 1:30, \"\\ud800\"]\n"
    assert yaml.safe_load(merged(odd, entries_of(), EVAL_RESULTS))[:1] == yaml.safe_load(odd)
    once = merged(OTHER_ENTRIES, entries_of(), EVAL_RESULTS)
    after = yaml.safe_load(once)
    assert after == [*yaml.safe_load(OTHER_ENTRIES), *entries_of()]
    assert after[0]["date"] == date(2025, 1, 15)
    assert merged(once, entries_of(), EVAL_RESULTS) == once


def test_update_in_place():
    """An entry of swapbias is replaced in place, and the order stays."""
    before = merged(merged(b"", entries_of(), EVAL_RESULTS), entries_of(FLIPS), EVAL_RESULTS)
    after = merged(before, entries_of(finding(0.5, 0.4, 0.6)), EVAL_RESULTS)
    assert keys(after) == [
        ("me/gendered_stigma", "rq1", 0.5),
        ("me/clinical_notes", "phenotyping", 0.8),
    ]
    (one,) = entries_of()
    after = merged(
        yaml.safe_dump([one, {**one, "value": 0.1}]).encode(), entries_of(), EVAL_RESULTS
    )  # ours twice
    assert keys(after) == [("me/gendered_stigma", "rq1", 0.6986)]


@pytest.mark.parametrize(
    "source",
    [{"user": "you"}, {"name": "other"}, None],
    ids=["other user", "other name", "no source"],
)
def test_same_task_of_another_source(source):
    """An entry of the same task from another source is kept."""
    (ours,) = entries_of()
    theirs = {**ours, "value": 0.1, "source": source and {**ours["source"], **source}}
    after = merged(yaml.safe_dump([theirs]).encode(), entries_of(), EVAL_RESULTS)
    assert [value for _, _, value in keys(after)] == [0.1, 0.6986]


@pytest.mark.parametrize(
    "content",
    [
        b"- dataset: {id: !!python/object/apply:os.system ['true']}\n  value: 1\n",
        b"- dataset: {id: a/b}\n  value: !!python/name:os.system\n",
        b"dataset: {id: a/b}\nvalue: 1\n",
        b"just text",
        b"- text",
        b"- dataset: a/b\n  value: 1\n",
        b"- dataset: {id: a/b}\n",
        b"- dataset: {id: 3}\n  value: 1\n",
        b"- dataset: {id: a/b}\n  value: 2025-99-99\n",
        b"- dataset: {id: a/b}\n  value: 1\n---\n- dataset: {id: a/b}\n  value: 1\n",
        b"- &a [*a]\n",
        b"[" * 100_000,
        b"- {",
        b"\xff\xfe",
        b"- a\x00b",
    ],
    ids=lambda content: content[:30].decode("latin-1"),
)
def test_hostile_files(content):
    """A hostile or broken file is refused in one sentence."""
    with pytest.raises(ValueError, match=r"^\.eval_results/swapbias\.yaml") as caught:
        merged(content, entries_of(), EVAL_RESULTS)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_earlier_number_goes():
    """An entry of a question that a later audit asked and could not measure goes; those of others stay."""
    keys = {"namespace": "me", "source_user": "me"}
    unmeasured = finding(np.nan, n=0)
    assert not entries_of(unmeasured)
    before = merged(OTHER_ENTRIES, entries_of(GAP, FLIPS), EVAL_RESULTS)
    after = merged(before, [], EVAL_RESULTS, entry_keys([unmeasured], **keys))
    others = yaml.safe_load(OTHER_ENTRIES)
    assert yaml.safe_load(after) == [*others, *entries_of(FLIPS)]
    alone = merged(b"", entries_of(GAP), EVAL_RESULTS)
    assert merged(alone, [], EVAL_RESULTS, entry_keys([unmeasured], **keys)) == b""
    theirs = {"namespace": "me", "source_user": "somebody"}
    assert merged(alone, [], EVAL_RESULTS, entry_keys([unmeasured], **theirs)) == alone
