"""Results are read back exactly, and nothing that a stranger writes into them gets past the reader."""

import json
import math
from dataclasses import replace

import pytest

from swapbias.findings.finding import AS_PUBLISHED
from swapbias.measures.estimate import Estimate
from swapbias.runs import results as result_files
from swapbias.runs.results import parse_manifest, parse_results
from tests.hub.shared_runs import GAP, MANIFEST, UNDEFINED, results, written


def changed(**keys):
    """results.json whose second finding has these keys instead."""
    read = json.loads(results([GAP, UNDEFINED]))
    read["findings"][1].update(keys)
    return json.dumps(read).encode()


def refusal(content):
    with pytest.raises(ValueError, match=r"them/results\.json") as caught:
        parse_results(content, "them/results.json")
    told = str(caught.value)
    assert len(told) < 200
    assert "\n" not in told
    return told


def test_findings_come_back_as_they_were_written():
    first, second = parse_results(results([GAP, UNDEFINED]), "here")
    assert first == GAP
    assert first.estimate == GAP.estimate
    assert second.published is None
    assert math.isnan(second.estimate.value)  # null in the file
    assert math.isnan(second.estimate.p_adjusted)
    assert replace(second, estimate=Estimate(0.0)) == replace(UNDEFINED, estimate=Estimate(0.0))
    small = replace(GAP, view=AS_PUBLISHED, primary=False, estimate=Estimate(-0.0, p_value=2e-298))
    content = results([GAP, UNDEFINED, small])
    assert results(parse_results(content, "here")) == content


def test_a_run_of_ones_own_notes_may_name_phenotypes_in_any_way_and_a_strangers_may_not():
    odd = replace(GAP, slice_by="phenotype", slice_value="falls\nat night, " + "very long " * 300)
    assert parse_results(results([odd]), "here", own_names=True) == [odd]
    with pytest.raises(ValueError, match=r"'slice_value': String should have at most 2000 characters"):
        parse_results(results([odd]), "here")
    for content in (results([replace(GAP, unit="a\nb")]), changed(slice_value=3)):  # that field alone, and a text
        with pytest.raises(ValueError, match=r"has control characters|be a valid string"):
            parse_results(content, "here", own_names=True)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("n", -1, "'n'"), ("n", True, "'n'"), ("n", 3.0, "'n'"), ("n", 2**60, "'n'"), ("n", None, "'n'"),
        ("value", True, "'value'"), ("value", "1e999", "'value'"), ("value", [0.1], "'value'"),
        ("value", 10**400, "'value'"), ("p_value", 1.5, "'p_value'"), ("p_adjusted", -0.1, "'p_adjusted'"),
        ("study", "../../etc", "'study': it is none that this version knows"),
        ("measure", "bias_score", "'measure': it is none that this version knows"),
        ("model_id", 7, "'model_id': Input should be a valid string"),
        ("model_id", "a" * 2001, "'model_id': String should have at most 2000 characters"),
        ("model_id", "gpt\x1b[31m2", "'model_id': it has control characters"),
        ("slice_value", "two\nlines", "'slice_value': it has control characters"),
        ("unit", "\u202egnp.exe", "'unit': it has control characters"),
        ("primary", 1, "'primary': Input should be a valid boolean"),
        ("surprise", 1, "'surprise': Extra inputs are not permitted"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_by_finding_and_key_and_not_repeated(key, value, told):
    said = refusal(changed(**{key: value}))
    assert f"entry 2, {told}" in said
    assert "gpt" not in said
    assert "etc" not in said


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no JSON"), (b"{'a': 1}", "no JSON"), (b"\xff\xfe{}", "no JSON"), (b"[" * 150_000, "no JSON"),
        (b'{"a": ' * 100_000, "no JSON"), (b"[[1," + b"1," * 8_000_001 + b"1]]", "be an object"),
        (b"[]", "be an object"),
        (b'{"swapbias": "0.1.0", "findings": {}}', "'findings': Input should be a valid array"),
        (b'{"swapbias": "0.1.0", "findings": [3]}', "entry 1: Input should be an object"),
        (b'{"swapbias": "0.1.0", "findings": [NaN]}', "entry 1"),
        (results([GAP]).replace(b'"value": 0.25', b'"value": 1e999'), "entry 1, 'value': Input should be a finite"),
        (b'{"swapbias": "0.1.0", "findings": [' + b"9" * 5000 + b"]}", ""),
    ],
)  # fmt: skip
def test_what_is_no_results_file_is_refused(content, told):
    assert told in refusal(content)
    read = json.loads(results([GAP]))
    del read["findings"][0]["ci_low"]
    assert "entry 1, 'ci_low': Field required" in refusal(json.dumps(read).encode())


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("status", 1, "'status': Input should be a valid string"),
        ("corpora", {}, "'corpora': Input should be a valid array"),
        ("corpora", [{"corpus": "c", "config": "x", "sha256": "y", "rows": -1}], "entry 1, 'rows'"),
        ("corpora", [{"corpus": "c", "config": "x", "rows": 1}], "entry 1, 'sha256': Field required"),
        ("models", ["gpt"], "entry 1"),
        ("models", [{"model_id": "a"}] * 501, "at most 500 items"),
        ("settings", [], "'settings'"),
        ("credentialed", "no", "'credentialed': Input should be a valid boolean"),
        ("extra", {"a": "\x1b]0;owned\x07"}, "a text is too long or has control characters"),
    ],
)
def test_a_manifest_of_other_types_is_refused(key, value, told):
    with pytest.raises(ValueError, match=r"them/manifest\.json") as caught:
        parse_manifest(json.dumps({**MANIFEST, key: value}).encode(), "them/manifest.json")
    assert told in str(caught.value)


def test_a_manifest_keeps_what_a_newer_version_adds_and_lacks_no_key(monkeypatch):
    assert parse_manifest(written({**MANIFEST, "more": ["lines\nof text"]}), "here")["more"] == ["lines\nof text"]
    less = {key: value for key, value in MANIFEST.items() if key != "corpora"}
    with pytest.raises(ValueError, match="'corpora': Field required"):
        parse_manifest(written(less), "here")
    content = results([GAP, GAP, GAP])
    monkeypatch.setattr(result_files, "MOST_BYTES", 100)
    assert "bytes, expected at most 100" in refusal(content)
