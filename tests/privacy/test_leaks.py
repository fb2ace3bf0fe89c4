"""A word planted in every place that a run knows of, looked for in all that leaves a machine: none comes out.

Ways out are the program's own commands: a new one is listed here, with what it puts out or why that is nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import zlib
from base64 import b64decode
from io import BytesIO

import pyarrow.parquet as pq
import pytest

from swapbias.report import FORMATS
from swapbias.runs import Run
from swapbias.runs.audit import start
from swapbias.studies.own import new_study
from swapbias.studies.own.own_corpus import corpus_from_files
from swapbias.studies.own.own_source import study_files
from swapbias.swapping import Job, swap_files
from tests.cli.test_cli import swapbias
from tests.conftest import ROOT, files_below
from tests.hub.clients import online
from tests.hub.own_runs import MODEL, QUIET, RUN_SETTINGS, WEIGHTS, audit_own, of_weights
from tests.hub.server import LocalHub
from tests.privacy.test_credentialed import commands

# What is planted, by the place: one word each, in no other text.
PLACES = {
    "text of a note": "zqtextzq", "file of the notes": "zqfilezq", "folder of the notes": "zqfolderzq",
    "folder of the run": "zqrunzq", "user": "zquserzq", "host": "zqhostzq",
    "key in the environment": "zqkeyzqzqkeyzq", "folder of a model": "zqmodelzq",
    "address of a service": "zqservicezq", "log of a model": "zqlogzq",
    "checklist": "zqchecklistzq", "stray file of a study": "zqstrayzq", "stray file of a run": "zqleftzq",
}  # fmt: skip
COLUMNS = "text,label,gender,phenotype"
NOTES = (
    "After falls he met {0}.,1,M,falls\nShe is well in {0}.,0,F,falls\n"
    "He fell at {0} and falls.,1,M,falls\nShe met {0}.,0,F,falls\n"
).format(PLACES["text of a note"])


@pytest.fixture(scope="module")
def planted_run(tmp_path_factory):
    """A finished run of own notes, in places whose names are planted, with a manifest that names all the others."""
    folder = tmp_path_factory.mktemp("leaks") / "home" / PLACES["user"]
    notes = folder / PLACES["folder of the notes"] / f"{PLACES['file of the notes']}.csv"
    notes.parent.mkdir(parents=True)
    notes.write_text(f"{COLUMNS}\n{NOTES}")
    run = audit_own(notes, folder / PLACES["folder of the run"])
    return with_planted_files(run, folder), folder


def with_planted_files(run, place):
    """The run with a manifest that names all places, and with stray files."""
    manifest = run.manifest()
    settings = manifest["settings"]
    settings["model"] = f"{place}/{PLACES['folder of a model']}/mini"
    settings["notes"] |= {"checklist": f"{place}/{PLACES['checklist']}.csv"}
    settings["chat"] |= {
        "model": f"/srv/{PLACES['folder of a model']}/chat",
        "base_url": f"http://{PLACES['host']}.internal:8000/{PLACES['address of a service']}",
        "own_address": [f"http://{PLACES['host']}:8000"],
        "judge": [f"/srv/{PLACES['folder of a model']}/judge"],
        "log": f"{place}/{PLACES['log of a model']}/a.eval",
    }
    run.write_manifest(manifest)
    (run.folder / f"{PLACES['stray file of a run']}.txt").write_text(PLACES["stray file of a run"])
    (run.folder / "items" / f".{PLACES['stray file of a run']}.tmp").write_text(
        PLACES["stray file of a run"]
    )
    return run


@pytest.fixture
def output_of(planted_run, tmp_path):
    """Run a command: every byte that it says and writes into a folder of its own."""
    key = PLACES["key in the environment"]
    out = tmp_path / "out"
    places = {
        "USER": PLACES["user"],
        "HOSTNAME": PLACES["host"],
        "SWAPBIAS_API_KEY": key,
        "OPENAI_API_KEY": key,
    }

    def tell(*arguments, said=False):
        done = swapbias(
            *(str(argument).replace("OUT", str(out)) for argument in arguments), **places
        )
        written = files_below(out)
        assert said or (done.returncode == 0 and written), done.stderr
        return written | ({"said": (done.stdout + done.stderr).encode()} if said else {})

    return tell


def planted_words(files):
    """The planted words in files by place: in their names, bytes, tables, embedded images and compressed parts."""
    files_by_word = {}
    for name, content in files.items():
        text = b"\n".join([name.encode(), *pieces(name, content)]).lower()
        for place, word in PLACES.items():
            if word.encode() in text or word.encode("utf-16-be") in text:
                files_by_word.setdefault(place, set()).add(name)
    return files_by_word


def pieces(name, content):
    yield content
    if name.endswith(".parquet"):
        file = pq.ParquetFile(BytesIO(content))
        yield f"{file.read().to_pylist()} {file.metadata.metadata} {file.schema_arrow}".encode()
    for packed in re.findall(rb"base64,([A-Za-z0-9+/=]{8,})", content):
        yield from inflated(b64decode(packed))
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL):  # of a PDF
        yield from inflated(stream)
    for chunk in re.findall(rb"zTXt[^\0]*\0\0(.*)", content, re.DOTALL):  # of a PNG
        yield from inflated(chunk)


def inflated(data):
    yield data
    try:
        yield zlib.decompressobj().decompress(data)
    except zlib.error:
        return


# Ways out: arguments of the command that puts something out, for each of the forms that it has.
RUN_WAYS = {
    "share": [],  # in test_files_on_the_hub
    "figures": [("figures", "RUN", "--format", form, "--out", "OUT") for form in FORMATS],
    "report": [],  # report.html of the run, in test_files_shown_to_others
    "compare": [("compare", "RUN", "OTHER", "--out", "OUT")],
    "check": [("check", "RUN", "--max-gap", "0.5", "--junit", "OUT/junit.xml")],
}
OTHER_WAYS = {
    "export": "a study of the package, or a run that may be shared", "push": "corpora and measures of the package",
    "swap": "its card, in test_card_of_swapped_rows", "study push": "in test_pushed_study",
    "help": "reads no file", "audit": "keeps everything in its folder; what it says of trouble is in test_quoting",
    "plan": "says what an audit would do, and puts nothing out",
    "build": "writes a folder of this machine: one made of own notes is refused where it would be pushed",
    "train": "writes a model of this machine", "list": "what the package holds",
    "reproduce": "numbers that are published",
    "tables": "own notes are in no paper's table; names of models are in tests/report/test_paper_tables.py",
    "study new": "an example of the package", "study check": "says what is wrong with tables of one's own",
    "study test": "says what a corpus of the package lacks", "pull": "fetches",
}  # fmt: skip
# What a way puts out on purpose, on this machine alone.
ALLOWED = {
    "compare": {"folder of the run", "user"},  # names the runs as they were given to it
    "figures": {
        "text of a note"
    },  # words of a note that was explained: share leaves these figures out
}


def test_every_command_is_listed():
    """Every command is listed with its arguments."""
    assert {*RUN_WAYS, *OTHER_WAYS} == set(commands())


def test_every_place_is_planted(planted_run):
    """Every setting and file that may name a path holds a planted word, in the run, its manifest
    and its notes."""
    run, place = planted_run
    files = planted_words(files_below(place))
    own = {"key in the environment", "stray file of a study"}
    assert set(PLACES) - set(files) == own
    known = set(Run.open(run.folder).manifest()["settings"]["chat"])
    named = {"base_url", "own_address", "judge", "log", "model"}
    plain = {
        name
        for name in known
        if not re.search(r"url|address|log$|model|judge$|path|folder|file|key", name)
    }
    assert known == named | plain, "a new setting may name a place: plant it"


@pytest.mark.parametrize(
    "arguments", [one for ways in RUN_WAYS.values() for one in ways], ids=" ".join
)
def test_output_of_commands(planted_run, output_of, tmp_path, arguments):
    """Nothing planted comes out of a run by any command."""
    run, _ = planted_run
    other = tmp_path / "other"
    if "OTHER" in arguments:
        shutil.copytree(run.folder, other)
    places = {"RUN": run.folder, "OTHER": other}
    kept = planted_words(
        output_of(*(places.get(one, one) for one in arguments), said=arguments[0] == "check")
    )
    assert not {
        place: names for place, names in kept.items() if place not in ALLOWED.get(arguments[0], ())
    }


def test_files_on_the_hub(planted_run, output_of, monkeypatch, tmp_path):
    """No planted word is in any byte that lies on the Hub after a share, with its cards."""
    assert (
        b"findings of notes may tell"
        in output_of("share", planted_run[0].folder, "--results", "a/a", said=True)["said"]
    )
    place = tmp_path / PLACES["user"]
    run = with_planted_files(
        start(RUN_SETTINGS, place / PLACES["folder of the run"], **QUIET)[0], place
    )
    with LocalHub() as hub:
        hub.add_user("alice", token="hf_alice")
        hub.add_repo("model", "alice/m", files={"README.md": b"# Mine\n", **WEIGHTS})
        of_weights(run)
        with online(monkeypatch, hub, home=tmp_path / "hf", token="hf_alice"):
            card = ("--model", "alice/m", "--audited", MODEL, "--commit")
            output_of(
                "share", run.folder, "--results", "alice/a", "--findings-only", *card, said=True
            )
            contents = {
                f"{kind}/{name}/{path}": content
                for kind, name in hub.repositories
                for path, content in hub.files(kind, name).items()
            }
    assert {name.split("/")[2] for name in contents} >= {"a", "m"}
    assert not planted_words(contents)


def test_files_shown_to_others(planted_run):
    """The files of a run that are shown to others hold no planted word."""
    run, _ = planted_run
    shown = {
        name: (run.folder / name).read_bytes()
        for name in ("findings.csv", "results.json", "report.html")
    }
    assert not planted_words(shown)


def test_card_of_swapped_rows(tmp_path):
    """The card, settings and counts of swapped rows name no path of the machine."""
    place = tmp_path / PLACES["folder of the notes"]
    place.mkdir(parents=True)
    (place / "rows.csv").write_text("text\nHis wife is well.\n")
    swap_files(Job(str(place / "rows.csv")), tmp_path / "out")
    assert not planted_words(files_below(tmp_path / "out"))


def test_pushed_study(output_of, tmp_path):
    """A pushed study holds no planted word and no stray file."""
    folder = tmp_path / PLACES["user"] / "mine"
    new_study(folder)
    (folder / f"{PLACES['stray file of a study']}.csv").write_text(PLACES["stray file of a study"])
    files = study_files(folder)
    assert not planted_words(dict(files))
    assert not planted_words({"study": repr(corpus_from_files(files)).encode()})


_TELLING = ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_OFFLINE", "DISABLE_TELEMETRY", "DO_NOT_TRACK")


@pytest.mark.parametrize("first", ["swapbias", "huggingface_hub.constants"])
@pytest.mark.parametrize(("chosen", "off"), [(None, True), ("0", False)])
def test_telemetry(first, chosen, off):
    """No library sends data about this machine to the Hub unless the user wants it."""
    script = f"import {first}, swapbias, huggingface_hub.constants as told; print(told.HF_HUB_DISABLE_TELEMETRY)"
    known = {name: value for name, value in os.environ.items() if name not in _TELLING}
    environment = {**known, **({"HF_HUB_DISABLE_TELEMETRY": chosen} if chosen else {})}
    output = subprocess.check_output(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, text=True
    )
    assert output.strip() == str(off)
