"""Results are read back exactly, and nothing that a stranger writes into them gets past the reader."""

import json
import math
from dataclasses import replace

import pytest

from swapbias.findings.finding import AS_PUBLISHED
from swapbias.measures.estimate import Estimate
from swapbias.runs import results as result_files
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
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


def test_writing_what_was_read_gives_the_same_bytes():
    content = results(
        [
            GAP,
            UNDEFINED,
            replace(GAP, view=AS_PUBLISHED, headline=False, estimate=Estimate(-0.0, p_value=2e-298)),
        ]
    )
    assert results(parse_results(content, "here")) == content


def test_a_run_of_ones_own_notes_may_name_phenotypes_in_any_way_and_a_strangers_may_not():
    odd = replace(GAP, slice_by="phenotype", slice_value="falls\nat night, " + "very long " * 300)
    assert parse_results(results([odd]), "here", own_names=True) == [odd]
    with pytest.raises(ValueError, match=r"'slice_value' has 3016 characters"):
        parse_results(results([odd]), "here")
    for content in (results([replace(GAP, unit="a\nb")]), changed(slice_value=3)):  # that field alone, and a text
        with pytest.raises(ValueError, match=r"holds control characters|is no text"):
            parse_results(content, "here", own_names=True)


def test_a_real_run_comes_back_byte_for_byte(tmp_path, quiet):
    pytest.importorskip("vaderSentiment")
    settings = Settings(model="vader", studies=("occupation_sentiment", "social_distance"), limit=40)
    run, found = start(settings, tmp_path / "run", **quiet)
    content = (run.folder / "results.json").read_bytes()
    assert results(parse_results(content, "here")) == content
    assert len(found) > 50
    manifest = (run.folder / "manifest.json").read_bytes()
    assert written(parse_manifest(manifest, "here")) == manifest


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("n", -1, "'n' is no count"),
        ("n", True, "'n' is no count"),
        ("n", 3.0, "'n' is no count"),
        ("n", 2**60, "'n' is no count"),
        ("n", None, "'n' is no count"),
        ("value", True, "'value' is no finite number"),
        ("value", "1e999", "'value' is no finite number"),
        ("value", [0.1], "'value' is no finite number"),
        ("value", 10**400, "'value' is no finite number"),
        ("p_value", 1.5, "'p_value' is outside 0 to 1"),
        ("p_adjusted", -0.1, "'p_adjusted' is outside 0 to 1"),
        ("study", "../../etc", "'study' is none that this version knows"),
        ("measure", "bias_score", "'measure' is none that this version knows"),
        ("model_id", 7, "'model_id' is no text"),
        ("model_id", None, "'model_id' is no text"),
        ("model_id", "a" * 2001, "'model_id' has 2001 characters"),
        ("model_id", "gpt\x1b[31m2", "'model_id' holds control characters"),
        ("slice_value", "two\nlines", "'slice_value' holds control characters"),
        ("unit", "\u202egnp.exe", "'unit' holds control characters"),
        ("unit", "\ud800", "'unit' holds control characters"),
        ("published_note", "\x00", "'published_note' holds control characters"),
        ("inference", None, "'inference' is no text"),
        ("headline", 1, "'headline' is neither true nor false"),
        ("headline", None, "'headline' is neither true nor false"),
        ("surprise", 1, f"{len(GAP.row()) + 1} keys, expected {len(GAP.row())}"),
    ],
)
def test_a_wrong_value_is_named_by_finding_and_key_and_not_repeated(key, value, told):
    said = refusal(changed(**{key: value}))
    assert f"finding 2: {told}" in said or f"finding 2: it has {told}" in said
    assert "gpt" not in said
    assert "etc" not in said


def test_a_missing_key_is_named():
    read = json.loads(results([GAP]))
    del read["findings"][0]["ci_low"]
    assert "finding 1: 'ci_low' is missing" in refusal(json.dumps(read).encode())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no JSON from line 1"),
        (b"{'a': 1}", "no JSON from line 1"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 150_000, "nested too deeply"),
        (b"[" * 300_000, "more lists or values"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"[[1," + b"1," * 8_000_001 + b"1]]", "more lists or values"),
        (b"[]", "keys are other than"),
        (b'{"swapbias": "0.1.0", "findings": {}}', "'findings' is no list"),
        (b'{"swapbias": "0.1.0", "findings": [3]}', "finding 1: it is no object"),
        (b'{"swapbias": 1, "findings": []}', "'swapbias' is no text"),
        (b'{"swapbias": "0.1.0", "findings": [], "findings": []}', "a key twice"),
        (b'{"swapbias": "0.1.0", "findings": [NaN]}', "a number that is none"),
        (b'{"swapbias": "0.1.0", "findings": [-Infinity]}', "a number that is none"),
        (b'{"swapbias": "0.1.0", "findings": [' + b"9" * 5000 + b"]}", "a number that is none"),
    ],
)
def test_what_is_no_results_file_is_refused(content, told):
    assert told in refusal(content)


def test_a_number_literal_beyond_what_floats_hold_is_refused():
    content = results([GAP]).replace(b'"value": 0.25', b'"value": 1e999')
    assert "finding 1: 'value' is no finite number" in refusal(content)


def test_too_many_bytes_and_too_many_findings_are_refused(monkeypatch):
    content = results([GAP, GAP, GAP])
    monkeypatch.setattr(result_files, "MOST_FINDINGS", 2)
    assert "3 findings, expected at most 2" in refusal(content)
    monkeypatch.setattr(result_files, "MOST_BYTES", 100)
    assert "bytes, expected at most 100" in refusal(content)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("status", 1, "'status' is no text"),
        ("corpora", {}, "'corpora' is no list"),
        ("corpora", [{"corpus": "c", "config": "x", "sha256": "y", "rows": -1}], "entry 1: 'rows' is no count"),
        ("corpora", [{"corpus": "c", "config": "x", "rows": 1}], "entry 1: 'sha256' is no text"),
        ("models", ["gpt"], "entry 1, is no object"),
        ("models", [{"model_id": "a"}] * 501, "501 entries"),
        ("settings", [], "'settings' is no object"),
        ("versions", {"python": 3}, "'versions' is no text"),
        ("credentialed", "no", "'credentialed' is neither true nor false"),
        ("extra", {"a": "\x1b]0;owned\x07"}, "a value holds control characters"),
        ("extra", {"\x1b": 1}, "a key holds control characters"),
    ],
)
def test_a_manifest_of_other_types_is_refused(key, value, told):
    with pytest.raises(ValueError, match=r"them/manifest\.json") as caught:
        parse_manifest(json.dumps({**MANIFEST, key: value}).encode(), "them/manifest.json")
    assert told in str(caught.value)


def test_a_manifest_keeps_what_a_newer_version_adds():
    assert parse_manifest(written({**MANIFEST, "more": ["lines\nof text"]}), "here")["more"] == ["lines\nof text"]


def test_a_manifest_lacking_a_key_or_nested_deeply_is_refused():
    less = {key: value for key, value in MANIFEST.items() if key != "corpora"}
    with pytest.raises(ValueError, match="'corpora' is missing"):
        parse_manifest(written(less), "here")
    deep = current = {}
    for _ in range(20):
        current["a"] = current = {}
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_manifest(written({**MANIFEST, "more": deep}), "here")
