"""Results are read back as they were written, checked when they are from others, and name no
path."""

import json
import math
import random
from dataclasses import replace

import pandas as pd
import pytest

from swapbias.errors import UsageError
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures import Estimate
from swapbias.models.chat import ChatOptions
from swapbias.privacy import public_manifest, public_model, writing
from swapbias.privacy.manifest_redaction import OWN_ENDPOINT, private_strings
from swapbias.report import render
from swapbias.runs import (
    Results,
    Run,
    Settings,
    read_run,
    start,
)
from swapbias.runs.results import as_public, rebuild_report, write_results
from swapbias.runs.results_schema import parse_manifest, parse_results
from tests import tiny
from tests.conftest import files_below
from tests.hub.own_runs import copy
from tests.hub.shared_runs import GAP, MANIFEST, UNDEFINED, on_disk, results, written
from tests.models.chat.server import ChatServer

INPUT_FILES = ("items", "manifest.json")  # all that a report needs beside results.json and coverage


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("masked")
    model = str(tiny.save("bert", folder / "model"))
    settings = Settings(model=model, studies=("gendered_stigma:rq2",), limit=24)
    return start(settings, folder / "run", **quiet)[0]


def test_rewritten_files(masked_run, tmp_path):
    """Files that are written again are equal byte for byte."""
    again = copy(masked_run, tmp_path / "again")
    read = read_run(again.folder)
    for path in [path for path in again.folder.rglob("*") if path.is_file()]:
        if path.relative_to(again.folder).parts[0] not in INPUT_FILES:
            path.unlink()
    write_results(again, read)
    before = files_below(masked_run.folder)
    assert {"findings.csv", "results.json", "report.html", "lexicon_coverage.csv"} <= set(before)
    assert files_below(again.folder) == before


def test_redrawn_report(masked_run, tmp_path, monkeypatch):
    """A report is drawn again, and no other file changes."""
    again = copy(masked_run, tmp_path / "again")
    (again.folder / "report.html").write_text("lost")
    (again.folder / "findings.csv").write_text("mine")
    assert rebuild_report(again) == again.folder / "report.html"
    assert files_below(again.folder) == files_below(masked_run.folder) | {"findings.csv": b"mine"}
    again = copy(masked_run, tmp_path / "other")
    (again.folder / "figures/paper").mkdir(parents=True)  # the user's own: swapbias figures --out
    monkeypatch.setattr("swapbias.report.render", lambda *values: "of a later version")
    rebuild_report(again)
    assert (again.folder / "report.html").read_text() == "of a later version"
    assert read_run(again.folder)
    again.checked("report.html")
    assert "figures/paper" not in again.sums()


def test_long_names(tmp_path):
    """A report shows names of a user that are too long to share."""
    name = "a very long name " * 30
    changed = {
        "settings": {**MANIFEST["settings"], "load": {}}, "models": [{"model_id": name, "kind": "masked"}],
        "skipped": [{"study": "gendered_stigma", "experiment": f"rq1, {name}", "reason": "3 training notes"}],
    }  # fmt: skip
    page = rebuild_report(Run(on_disk(tmp_path / "run", model=name, **changed))).read_text()
    assert f"gendered_stigma:rq1, {name} (3 training notes)" in page


def test_words_like_blanks(masked_run, tmp_path):
    """Words such as null and nan stay words."""
    run = copy(masked_run, tmp_path / "run")
    table = pd.DataFrame(
        {
            "model_id": ["m", "m"], "lexicon": ["l", "l"], "word": ["null", "nan"], "label": ["1", "NA"],
            "in_vocabulary": [True, False], "matched": [True, False],
        }
    )  # fmt: skip
    run.write_csv("lexicon_coverage.csv", table)
    run.write_manifest(run.manifest() | {"sha256": run.sums()})
    pd.testing.assert_frame_equal(read_run(run.folder).coverage, table)


@pytest.mark.parametrize("name", ["results.json", "items/gendered_stigma.parquet"])
def test_missing_file(masked_run, tmp_path, name):
    """A missing or broken file is named."""
    run = copy(masked_run, tmp_path / "run")
    (run.folder / name).write_bytes(b"half")
    with pytest.raises(ValueError, match=name):
        dict(read_run(run.folder).items)
    (run.folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing"):
        dict(read_run(run.folder).items)


def test_report_without_rows(masked_run, tmp_path):
    """The report names no folder and shows no texts where there are no rows."""
    whole = read_run(masked_run.folder)
    run = copy(masked_run, tmp_path / "run")
    text = whole.items["gendered_stigma"]["text"].iloc[0]
    pairs = "Pairs that differ most"
    page = (run.folder / "report.html").read_text()
    assert pairs in page
    private = private_strings(masked_run.manifest())  # no folder of the machine
    assert masked_run.manifest()["settings"]["model"] in private
    assert not [one for one in private if one in page]
    write_results(run, Results(whole.manifest, whole.found, {}, whole.coverage))
    bare = (run.folder / "report.html").read_text()
    assert pairs not in bare
    assert text not in bare
    assert "items/" not in bare
    for heading in ("The answer</h2>", "Sensitivity</h3>", "Limits</h2>"):
        assert heading in bare


def manifest(models=(), notes=None, chat=None, **settings):
    chosen = {"model": None, "seed": 7, "notes": notes or {}, "chat": chat or {}} | settings
    return {
        "swapbias": "1",
        "settings": chosen,
        "models": list(models),
        "skipped": [],
        "corpora": [],
    }


TUNED = {"model_id": "tuned", "sha256": "ab" * 20}
HUB = {"model_id": "owner/bert", "revision": "c0"}
ENCODER = {"model_id": "owner/enc+svm", "features": {"revision": "c1"}}


@pytest.mark.parametrize(
    ("whole", "shown", "private"),
    [
        # Paths become the name of their last part, of any system.
        (
            manifest([TUNED], model="/home/alice/models/tuned"),
            {"model": "tuned"},
            {"/home/alice/models/tuned", "/home/alice/models", "/home/alice"},
        ),
        (
            manifest(notes={"classifier": "/srv/c.joblib"}),
            {"classifier": "c.joblib"},
            {"/srv/c.joblib"},
        ),
        (
            manifest(notes={"embeddings": ["/srv/vectors/own.txt", "C:\\Users\\bob\\v.txt"]}),
            {"embeddings": ["own.txt", "v.txt"]},
            {"/srv/vectors/own.txt", "/srv/vectors", "C:\\Users\\bob\\v.txt", "C:\\Users\\bob"},
        ),
        # The users' notes have no name: it may tell of a ward or a patient.
        (
            manifest(notes={"data": "/mnt/ward/smith.csv"}),
            {"data": "own notes"},
            {"/mnt/ward/smith.csv", "/mnt/ward", "smith.csv"},
        ),
        (manifest(notes={"data": "ward7/smith.jsonl"}), {"data": "own notes"}, {"smith.jsonl"}),
        (manifest(notes={"data": "smith.csv"}), {"data": "own notes"}, {"smith.csv"}),
        (
            manifest(notes={"data": "smith"}),
            {"data": "own notes"},
            set(),
        ),  # a bare word might stand in any text
        (
            manifest(notes={"data": "/mnt/ward/findings.csv"}),
            {"data": "own notes"},
            {"/mnt/ward/findings.csv", "/mnt/ward"},
        ),  # a file that every run has itself does not stop it
        # What is public stays; a relative path might be the name of a model on the Hub as well.
        (manifest([HUB], model="owner/bert"), {"model": "owner/bert"}, set()),
        (
            manifest([ENCODER], notes={"embeddings": ["owner/enc"]}),
            {"embeddings": ["owner/enc"]},
            set(),
        ),
        (manifest([TUNED], model="thesis/tuned"), {"model": "tuned"}, set()),
    ],
    ids=[
        "model",
        "classifier",
        "embeddings",
        "notes",
        "notes in a folder",
        "notes file",
        "bare word",
        "file of every run",
        "Hub model",
        "Hub encoder",
        "relative path",
    ],
)
def test_public_manifest(whole, shown, private):
    """A public manifest names no path of the machine."""
    path = max(private, key=len, default="it")  # wherever it stands
    found = public_manifest({**whole, "skipped": [{"reason": f"{path} is no classifier"}]})
    for name, value in shown.items():
        assert (found["settings"]["notes"] | found["settings"])[name] == value
    assert set(private_strings(whole)) == private
    assert not [one for one in private if one in json.dumps(found)]
    assert (found["settings"]["seed"], found["models"]) == (7, whole["models"])
    assert public_manifest(found) == found
    assert private_strings(found) == ()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://api.openai.com/v1", "api.openai.com"),
        ("https://api.openai.com:8443/v1/team-7", "api.openai.com"),
        ("http://api.openai.com/v1", OWN_ENDPOINT),  # not https
        ("http://127.0.0.1:8000/v1", OWN_ENDPOINT),
        ("https://192.168.1.5/v1", OWN_ENDPOINT),
        ("https://[::1]:8000/v1", OWN_ENDPOINT),
        ("https://gpu3/v1", OWN_ENDPOINT),
        ("https://gpu3.lab.internal/v1", OWN_ENDPOINT),
        ("https://localhost:8000/v1", OWN_ENDPOINT),
    ],
)
def test_public_endpoint(address, shown):
    """An endpoint is named by its public host or not at all."""
    netloc = address.split("/")[2]
    chat = {"model": "m", "base_url": address, "price_in": 2.5, "price_out": 10.0, "trials": 5}
    whole = manifest([{"model_id": "m", "host": netloc}], chat=chat)
    found = public_manifest(whole)
    assert found["settings"]["chat"] == {"model": "m", "base_url": shown, "trials": 5}
    assert found["models"][0]["host"] == shown
    assert address in private_strings(whole)
    telling = "." in netloc or ":" in netloc  # a bare name is too short to look for
    assert (netloc in private_strings(whole)) == (shown == OWN_ENDPOINT and telling)
    assert public_manifest(found) == found


def test_model_served_by_path(tmp_path, quiet):
    """A model that is served by its path is called by its name wherever it is shown."""
    assert public_model("/models/llama") == "llama"
    assert (
        public_model("accounts/x/models/llama") == "accounts/x/models/llama"
    )  # a public name of a service
    with ChatServer(lambda prompt: "The doctor.", model="/models/llama") as server:
        chat = ChatOptions(model="/models/llama", base_url=server.base_url, trials=1)
        run, found = start(
            Settings(studies=("adjective_coreference",), limit=32, options=(chat,)),
            tmp_path / "r",
            **quiet,
        )
    raw = render(
        run.manifest(), [], {}, pd.DataFrame()
    )  # the page takes no manifest as it is, either
    for page in ((run.folder / "report.html").read_text(), raw):
        assert "audit of llama" in page
        assert "own endpoint" in page
        for private in ("/models/llama", server.base_url, f":{server.http.server_port}"):
            assert private not in page
    assert {one.model_id for one in found} == {"/models/llama"}  # the run itself keeps the name
    shown = as_public(read_run(run.folder))
    assert (
        {one.model_id for one in shown.found}
        == set(shown.items["adjective_coreference"]["model_id"])
        == {"llama"}
    )


def results_of(folder):
    read = read_run(folder)
    items = {name: rows.to_dict("list") for name, rows in read.items.items()}
    manifest = {
        name: value
        for name, value in read.manifest.items()
        if name not in ("started", "finished", "sha256")
    }
    return repr((read.found, items, manifest))


def test_flipped_bits(tmp_path, quiet):
    """No flipped bit of a finished run changes a result without an error."""
    model = "tests.hub.own_runs:scored"
    studies = ("occupation_sentiment:sentences",)
    run, _ = start(
        Settings(model=model, studies=studies, limit=400), tmp_path / "run", draw=False, **quiet
    )
    files = (
        "results.json",
        "findings.csv",
        "items/occupation_sentiment.parquet",
        "lexicon_coverage.csv",
    )
    draw = random.Random(1)
    expected = results_of(run.folder)
    named = []
    for path in [run.folder / name for name in files if (run.folder / name).exists()] * 6:
        whole = path.read_bytes()
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        try:
            assert results_of(run.folder) == expected, path
        except (ValueError, OSError) as error:
            named.append(path.name in str(error))
        path.write_bytes(whole)
    assert all(named)
    assert len(named) > 8  # of some files nothing is read: tables for people


# What a stranger may write into results.json and manifest.json.


def changed(**keys):
    """results.json whose second finding has these keys instead."""
    read = json.loads(results([GAP, UNDEFINED]))
    read["findings"][1].update(keys)
    return json.dumps(read).encode()


def refusal(content):
    with pytest.raises(ValueError, match=r"them/results\.json") as caught:
        parse_results(content, "them/results.json")
    message = str(caught.value)
    assert len(message) < 200
    assert "\n" not in message
    return message


def test_findings_round_trip():
    """Findings come back as they were written."""
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
    sorted_keys = json.dumps(json.loads(content), sort_keys=True).encode()
    assert results(parse_results(sorted_keys, "here")) == content


def test_names_of_phenotypes():
    """A run of a user's notes may name phenotypes in any way, and one from outside may not."""
    odd = replace(GAP, slice_by="phenotype", slice_value="falls\nat night, " + "very long " * 300)
    assert parse_results(results([odd]), "here", own_names=True) == [odd]
    with pytest.raises(
        ValueError, match=r"'slice_value': String should have at most 2000 characters"
    ):
        parse_results(results([odd]), "here")
    for content in (
        results([replace(GAP, unit="a\nb")]),
        changed(slice_value=3),
    ):  # that field alone, and a text
        with pytest.raises(ValueError, match=r"has control characters|be a valid string"):
            parse_results(content, "here", own_names=True)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("n", -1, "'n'"),
        ("n", True, "'n'"),
        ("n", 3.0, "'n'"),
        ("n", 2**60, "'n'"),
        ("n", None, "'n'"),
        ("value", True, "'value'"),
        ("value", "1e999", "'value'"),
        ("value", [0.1], "'value'"),
        ("value", 10**400, "'value'"),
        ("p_value", 1.5, "'p_value'"),
        ("p_adjusted", -0.1, "'p_adjusted'"),
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
    ids=lambda case: repr(case)[:40],
)
def test_wrong_value_of_a_finding(key, value, sentence):
    """A wrong value is named by finding and key and not repeated."""
    text = refusal(changed(**{key: value}))
    assert f"entry 2, {sentence}" in text
    assert "gpt" not in text
    assert "etc" not in text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no JSON"),
        (b"{'a': 1}", "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b"[" * 150_000, "no JSON"),
        (b'{"a": ' * 100_000, "no JSON"),
        (b"[[1," + b"1," * 8_000_001 + b"1]]", "be an object"),
        (b"[]", "be an object"),
        (b'{"swapbias": "0.1.0", "findings": {}}', "'findings': Input should be a valid array"),
        (b'{"swapbias": "0.1.0", "findings": [3]}', "entry 1: Input should be an object"),
        (b'{"swapbias": "0.1.0", "findings": [NaN]}', "entry 1"),
        (
            results([GAP]).replace(b'"value": 0.25', b'"value": 1e999'),
            "entry 1, 'value': Input should be a finite",
        ),
        (b'{"swapbias": "0.1.0", "findings": [' + b"9" * 5000 + b"]}", ""),
    ],
    ids=[
        "empty",
        "Python dict",
        "wrong bytes",
        "deep list",
        "deep object",
        "long list",
        "list",
        "findings as object",
        "finding as number",
        "NaN",
        "infinite",
        "long number",
    ],
)
def test_no_results_file(content, sentence):
    """A file that is no results file is refused."""
    assert sentence in refusal(content)
    read = json.loads(results([GAP]))
    del read["findings"][0]["ci_low"]
    assert "entry 1, 'ci_low': Field required" in refusal(json.dumps(read).encode())


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("status", 1, "'status': Input should be a valid string"),
        ("corpora", {}, "'corpora': Input should be a valid array"),
        ("corpora", [{"corpus": "c", "config": "x", "sha256": "y", "rows": -1}], "entry 1, 'rows'"),
        (
            "corpora",
            [{"corpus": "c", "config": "x", "rows": 1}],
            "entry 1, 'sha256': Field required",
        ),
        ("models", ["gpt"], "entry 1"),
        ("models", [{"model_id": "a"}] * 501, "at most 500 items"),
        ("settings", [], "'settings'"),
        ("credentialed", "no", "'credentialed': Input should be a valid boolean"),
        ("extra", {"a": "\x1b]0;owned\x07"}, "a text is too long or has control characters"),
    ],
    ids=lambda case: repr(case)[:40],
)
def test_wrong_manifest(key, value, sentence):
    """A manifest with other types is refused."""
    with pytest.raises(ValueError, match=r"them/manifest\.json") as caught:
        parse_manifest(json.dumps({**MANIFEST, key: value}).encode(), "them/manifest.json")
    assert sentence in str(caught.value)


def test_manifest_of_a_newer_version(monkeypatch):
    """A manifest keeps keys of a newer version, and a missing key is refused."""
    assert parse_manifest(written({**MANIFEST, "more": ["lines\nof text"]}), "here")["more"] == [
        "lines\nof text"
    ]
    less = {key: value for key, value in MANIFEST.items() if key != "corpora"}
    with pytest.raises(ValueError, match="'corpora': Field required"):
        parse_manifest(written(less), "here")
    content = results([GAP, GAP, GAP])
    monkeypatch.setattr("swapbias.runs.results_schema.MOST_BYTES", 100)
    assert "bytes, expected at most 100" in refusal(content)


def without(key):
    """The manifest of a complete run without one of its keys."""
    return {name: entry for name, entry in MANIFEST.items() if name != key}


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        ({**MANIFEST, "settings": None}, "'settings' is no JSON object. Start a new run"),
        ({**MANIFEST, "settings": []}, "'settings' is no JSON object. Start a new run"),
        ({}, "lacks 'swapbias'. Start a new run"),
        ([], "lacks 'swapbias'. Start a new run"),
        (without("credentialed"), "lacks 'credentialed'. Start a new run"),
        (without("started"), "lacks 'started'. Start a new run"),
        (without("models"), "lacks 'models'. Start a new run"),
    ],
    ids=["null", "list", "empty", "no object", "unmarked", "no time", "no models"],
)
def test_manifest_without_settings(tmp_path, manifest, fault):
    """A manifest of which nothing can be read is refused before anything is looked up in it."""
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        Run(tmp_path).manifest()


def test_folder_of_several_names(tmp_path):
    """A run is one run by its whole path, by a path with dots and through a link."""
    folder = on_disk(tmp_path / "run")
    (tmp_path / "link").symlink_to(folder)
    keys = {read_run(path).key for path in (folder, folder / ".." / "run", tmp_path / "link")}
    assert len(keys) == 1
    assert read_run(on_disk(tmp_path / "other")).key not in keys


@pytest.mark.parametrize("out", ["file", "file/below", "nothing"])
def test_place_that_is_no_folder(out, tmp_path):
    """A file, a place below one and a link to nothing are refused before the work starts, and by all that write."""
    (tmp_path / "file").touch()
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"Choose another --out\.$"):
        Run.check_new(tmp_path / out)
    with (
        pytest.raises(UsageError, match=r"Choose another --out\.$"),
        writing(tmp_path / out, credentialed=False),
    ):
        pass
