"""Results read back from a run are those that were written, and nothing shown names a place on the machine."""

import json
import random
import shutil

import pandas as pd
import pytest

from swapbias.models.chat.chat_options import ChatOptions
from swapbias.privacy.manifest_schema import OWN_ENDPOINT, private_strings, public_manifest, public_model
from swapbias.report.page import render
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.runs.results import Results, as_public, read_run, rebuild_report, write_results
from tests import tiny
from tests.conftest import files_below
from tests.hub.own_runs import copy
from tests.models.chat.server import ChatServer

KEPT = ("items", "manifest.json")  # all that a report needs beside results.json and coverage


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("masked")
    model = str(tiny.save("bert", folder / "model"))
    settings = Settings(model=model, studies=("gendered_stigma:rq2",), limit=24)
    return start(settings, folder / "run", **quiet)[0]


def emptied(run):
    for path in [path for path in run.folder.rglob("*") if path.is_file()]:
        if path.relative_to(run.folder).parts[0] not in KEPT:
            path.unlink()


def test_written_again_every_file_is_the_same_to_the_byte(masked_run, tmp_path):
    again = copy(masked_run, tmp_path / "again")
    results = read_run(again.folder)
    emptied(again)
    write_results(again, results)
    before = files_below(masked_run.folder)
    assert {"findings.csv", "results.json", "report.html", "lexicon_coverage.csv"} <= set(before)
    assert files_below(again.folder) == before


def test_a_report_is_drawn_again_and_nothing_else_is_touched(masked_run, tmp_path, monkeypatch):
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


def test_words_that_look_like_blanks_stay_words(masked_run, tmp_path):
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
def test_a_missing_or_broken_file_is_named(masked_run, tmp_path, name):
    run = copy(masked_run, tmp_path / "run")
    (run.folder / name).write_bytes(b"half")
    with pytest.raises(ValueError, match=name):
        dict(read_run(run.folder).items)
    (run.folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing"):
        dict(read_run(run.folder).items)


def test_the_report_names_no_folder_and_shows_no_texts_where_there_are_no_items(masked_run, tmp_path):
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


def manifest(**settings):
    notes = {"embeddings": [], "classifier": "svm", "data": None, "plausible": False} | settings.pop("notes", {})
    chat = {"model": None, "base_url": None, "trials": 5, "price_in": None, "price_out": None}
    chat |= settings.pop("chat", {})
    models = settings.pop("models", [])
    return {
        "swapbias": "1", "settings": {"model": None, "seed": 7, "notes": notes, "chat": chat} | settings,
        "models": models, "skipped": [], "corpora": [],
    }  # fmt: skip


def test_paths_become_the_name_of_their_last_part_wherever_they_stand():
    whole = manifest(
        model="/home/alice/models/tuned",
        notes={
            "embeddings": ["/srv/vectors/pub.bin", "/srv/vectors/own.txt", "C:\\Users\\bob\\v.txt"],
            "classifier": "/home/alice/c.joblib",
            "data": "/mnt/ward/notes.csv",
        },
        models=[{"model_id": "tuned", "sha256": "ab" * 20}],
    )
    shown = public_manifest(whole)
    assert shown["settings"]["model"] == "tuned"
    assert shown["settings"]["notes"]["embeddings"] == ["pub.bin", "own.txt", "v.txt"]
    assert shown["settings"]["notes"]["classifier"] == "c.joblib"
    assert shown["settings"]["notes"]["data"] == "own notes"
    assert shown["settings"]["seed"] == 7
    assert shown["models"] == whole["models"]
    private = private_strings(whole)
    assert {"/home/alice/models/tuned", "/home/alice", "/srv/vectors", "/mnt/ward/notes.csv"} <= set(private)
    assert "notes.csv" in private  # the name alone may tell of a ward or a patient
    assert {"C:\\Users\\bob", "C:\\Users\\bob\\v.txt"} <= set(private)
    assert not {"/", "/home", "/srv", "/mnt", "C:"} & set(private)
    assert not [one for one in private if one in json.dumps(shown)]
    whole = manifest(model="/home/alice/tuned", models=[{"model_id": "tuned", "subfolder": "/home/alice/tuned"}])
    whole["skipped"] = [{"study": "s", "experiment": "e", "reason": "/home/alice/tuned is no classifier"}]
    shown = public_manifest(whole)
    assert shown["skipped"][0]["reason"] == "tuned is no classifier"
    assert shown["models"][0]["subfolder"] == "tuned"
    whole = manifest(model="thesis/tuned", models=[{"model_id": "tuned", "sha256": "ab" * 20}])
    assert public_manifest(whole)["settings"]["model"] == "tuned"
    assert private_strings(whole) == ()  # it might be the name of a model on the Hub as well


def test_what_is_public_stays_and_is_not_taken_out_twice():
    hub = manifest(
        model="owner/bert",
        notes={"embeddings": ["owner/enc"]},
        models=[
            {"model_id": "owner/bert", "revision": "c0"},
            {"model_id": "owner/enc+svm", "features": {"revision": "c1"}},
        ],
    )
    assert public_manifest(hub)["settings"]["model"] == "owner/bert"
    assert public_manifest(hub)["settings"]["notes"]["embeddings"] == ["owner/enc"]
    assert private_strings(hub) == ()
    own = manifest(model="/a/b/c", chat={"model": "/m/llama", "base_url": "http://10.0.0.1:8000/v1"})
    once = public_manifest(own)
    assert public_manifest(once) == once
    assert private_strings(once) == ()


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
def test_an_endpoint_is_named_by_a_public_host_or_not_at_all(address, shown):
    netloc = address.split("/")[2]
    whole = manifest(
        chat={"model": "m", "base_url": address, "price_in": 2.5, "price_out": 10.0},
        models=[{"model_id": "m", "host": netloc}],
    )
    found = public_manifest(whole)
    assert found["settings"]["chat"] == {"model": "m", "base_url": shown, "trials": 5}
    assert found["models"][0]["host"] == shown
    assert address in private_strings(whole)
    telling = "." in netloc or ":" in netloc  # a bare name is too short to look for
    assert (netloc in private_strings(whole)) == (shown == OWN_ENDPOINT and telling)


@pytest.mark.parametrize("data", ["/mnt/ward7/smith.csv", "smith.csv", "smith", "ward7/smith.jsonl"])
def test_the_users_notes_have_no_name(data):
    whole = manifest(notes={"data": data})
    whole["skipped"] = [{"study": "s", "experiment": "e", "reason": f"{data} has too few notes"}]
    shown = public_manifest(whole)
    assert shown["settings"]["notes"]["data"] == "own notes"
    if data.endswith((".csv", ".jsonl")):  # a bare word might stand in any text
        assert "smith" not in json.dumps(shown).replace("ward7/smith.jsonl", "")
        assert data.rpartition("/")[2] in private_strings(whole)
    assert public_manifest(shown) == shown
    assert private_strings(shown) == ()
    # Notes that are called as a file of every run do not stop it.
    assert "findings.csv" not in private_strings(manifest(notes={"data": "/mnt/ward/findings.csv"}))


def test_a_model_served_by_its_path_is_called_by_its_name_wherever_it_is_shown(tmp_path, quiet):
    assert public_model("/models/llama") == "llama"
    assert public_model("accounts/x/models/llama") == "accounts/x/models/llama"  # a public name of a service
    with ChatServer(lambda prompt: "The doctor.", model="/models/llama") as server:
        chat = ChatOptions(model="/models/llama", base_url=server.base_url, trials=1)
        run, found = start(
            Settings(studies=("adjective_coreference",), limit=32, options=(chat,)), tmp_path / "r", **quiet
        )
    raw = render(run.manifest(), [], {}, pd.DataFrame())  # the page takes no manifest as it is, either
    for page in ((run.folder / "report.html").read_text(), raw):
        assert "audit of llama" in page
        assert "own endpoint" in page
        for private in ("/models/llama", server.base_url, f":{server.http.server_port}"):
            assert private not in page
    assert {one.model_id for one in found} == {"/models/llama"}  # the run itself keeps the name
    shown = as_public(read_run(run.folder))
    assert {one.model_id for one in shown.found} == set(shown.items["adjective_coreference"]["model_id"]) == {"llama"}


def sentiment(texts):
    """A gap of .1 with every second letter that a text may have."""
    return [0.6 - 0.1 * (text.startswith("She") and len(text) % 2) for text in texts]


SETTINGS = Settings(model="tests.runs.test_results:sentiment", studies=("occupation_sentiment:sentences",), limit=400)


def attempt(work):
    try:
        return work(), None
    except (ValueError, OSError) as error:
        return None, error


def flipped(folder, times, seed):
    """Copies of a folder, each with one bit of one of its files flipped; every file has its turn."""
    draw = random.Random(seed)
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [name for name in files if (folder / name).stat().st_size]
    for number in range(times):
        place = folder.with_name(f"{folder.name}-{number}")
        shutil.copytree(folder, place)
        path = place / files[number % len(files)]
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        yield place, path
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, quiet):
    return start(SETTINGS, tmp_path_factory.mktemp("runs") / "whole", draw=False, **quiet)[0].folder


def told(folder):
    results = read_run(folder)
    items = {name: rows.to_dict("list") for name, rows in results.items.items()}
    manifest = {
        name: value for name, value in results.manifest.items() if name not in ("started", "finished", "sha256")
    }
    return repr((results.found, items, manifest))


def test_no_flipped_bit_of_a_finished_run_changes_a_result_silently(whole):
    files = ("results.json", "findings.csv", "occupation_sentiment.parquet", "lexicon_coverage.csv")
    expected, detected = told(whole), 0
    for place, path in flipped(whole, 24, seed=1):
        if path.name not in files:  # nothing records the sha256 of the manifest itself
            continue
        what, error = attempt(lambda place=place: told(place))
        assert path.name in str(error) if error else what == expected, (path, error)
        detected += error is not None
    assert detected > 8  # of some files nothing is read: tables for people
