"""The commands on a card and a page repeat a run, and so does its manifest from any folder."""

import html
import json
import re
import shlex
import shutil
import zlib
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from swapbias.models.clinical import phenotype
from swapbias.privacy import public_manifest
from swapbias.runs import Run
from swapbias.studies import catalogue
from swapbias.studies.own import new_study
from tests import adapters, tiny
from tests.hub.clients import command
from tests.models.chat.server import ChatServer

OPTIONS = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}<assistant>"
ROWS = "text,group,pair,name\n" + "".join(
    f"{name} {what}.,{group},{number},{name}\n"
    for number, (what, pair) in enumerate(
        (what, pair)
        for what in ("is a nurse", "is a surgeon", "is happy", "fell down the stairs")
        for pair in (("Anna", "Bert"), ("Clara", "Dirk"), ("Emma", "Finn"))
    )
    for name, group in zip(pair, ("women", "men"), strict=True)
)
SMALL = ("--limit", "12", "--no-wordings")


@pytest.fixture(scope="module")
def server_folder(tmp_path_factory):
    """A folder with models, an adapter and prompts, in which commands are run."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "bert").mkdir()
    tiny.save("bert", folder / "bert")
    tiny.save_causal(folder / "gpt", positions=1024)
    chat = tiny.save_causal(folder / "chat", positions=1024)
    tokenizer = AutoTokenizer.from_pretrained(chat)
    tokenizer.chat_template = OPTIONS
    tokenizer.save_pretrained(chat)
    tiny.save_classifier(folder / "labels", ["LABEL_0", "LABEL_1"])
    tiny.save_classifier(folder / "raw", ["x"])
    size = json.loads((folder / "bert/config.json").read_text())["vocab_size"]
    adapters.save_adapter(folder / "lora", "bert", size=size)
    for name in ("bert", "chat", "lora"):
        shutil.copytree(folder / name, folder / "elsewhere" / name)
    (folder / "my prompts.csv").write_text(ROWS)
    (folder / "words.csv").write_text("word,group\nhe,men\nshe,women\n")
    new_study(folder / "at work")
    (folder / "scores.py").write_text(
        "import zlib\n\ndef score(texts):\n    return [zlib.crc32(text.encode()) % 1000 / 1000 for text in texts]\n"
    )
    return folder


def letter(prompt):
    return f"({'ABC'[zlib.crc32(prompt.encode()) % 2]})"


@pytest.fixture(scope="module")
def url():
    """The address of a chat service."""
    with ChatServer(letter) as server:
        yield server.base_url


VIGNETTES = ("--study", "stigma_vignettes:gender", "--limit", "16", "-M", "max-tokens=32")
KINDS = {
    "masked": ("bert", "--study", "gendered_stigma:rq1", *SMALL, "--seed", "3", "--margin", "0.1"),
    "in another type": (
        "bert",
        "--study",
        "gendered_stigma:rq1",
        *SMALL,
        "--dtype",
        "bfloat16",
        "--batch-size",
        "3",
    ),
    "attitude": ("bert", "--study", "social_distance:attitude", "--limit", "48", "--no-wordings"),
    "causal": ("gpt", "--study", "gest:causal", *SMALL),
    "classifier": (
        "labels",
        "--study",
        "occupation_sentiment:sentences",
        *SMALL,
        "-M",
        "positive-label=LABEL_1",
    ),
    "regression": (
        "raw",
        "--kind",
        "regression",
        "--study",
        "occupation_sentiment:control",
        *SMALL,
    ),
    "vader": (
        "vader",
        "--study",
        "occupation_sentiment,social_distance:sentiment",
        "--limit",
        "20",
        "--wordings",
    ),
    "function": ("scores:score", *SMALL, "--study", "occupation_sentiment:sentences"),
    "own study": ("vader", "--study", "./at work", *SMALL),
    "own prompts": (
        "labels",
        "--prompts",
        "my prompts.csv",
        "--reference",
        "men",
        "-M",
        "positive-label=LABEL_0",
    ),
    "chat": (
        "--chat",
        "tiny",
        "--base-url",
        "URL",
        *VIGNETTES,
        "--trials",
        "2",
        "-M",
        "temperature=0.25",
    ),
    "within limits": (
        "--chat",
        "tiny",
        "--base-url",
        "URL",
        *VIGNETTES,
        "-M",
        "max-requests=20",
        "--trials",
        "3",
    ),
    "local chat": ("--chat", "chat", *VIGNETTES[:4], "--trials", "1", "-M", "max-tokens=4"),
    "log-odds": ("--chat", "chat", *VIGNETTES[:4], "-M", "scoring=log-odds"),
    "adapter": ("bert", "-M", "adapter=lora", "--study", "gendered_stigma:rq1", *SMALL),
    "adapter alone": ("lora", "--study", "gendered_stigma:rq1", *SMALL),
    "by paths": (
        "PLACE/bert",
        "-M",
        "adapter=PLACE/lora",
        "--study",
        "gendered_stigma:rq1",
        *SMALL,
    ),
    "chat by its path": ("--chat", "PLACE/chat", *VIGNETTES[:4], "-M", "scoring=log-odds"),
    "notes": (
        "--study",
        "phenotype_fairness:phenotyping",
        *SMALL,
        "-M",
        "classifier=rf",
        "-M",
        "explain=0",
    ),
}
OWN_KINDS = ("own study", "own prompts")


@pytest.fixture
def workdir(server_folder, monkeypatch, tmp_path):
    """Commands are run among the models, and write to a folder of the test."""
    adapters.use(monkeypatch)
    monkeypatch.chdir(server_folder)
    monkeypatch.syspath_prepend(str(server_folder))
    monkeypatch.setattr(phenotype, "TREES", 5)  # what is learned is no matter here
    return tmp_path


@pytest.fixture(scope="module")
def audits_by_kind():
    """Folders of runs that tests have made."""
    return {}


@pytest.fixture
def audited(workdir, url, audits_by_kind, tmp_path_factory):
    """Copy the run of a kind into the folder of the test; it was made once, in a place that is no more."""

    def copy_of(kind):
        if kind not in audits_by_kind:
            folder = tmp_path_factory.mktemp("audited")
            words = [filled(word, url) for word in KINDS[kind]]
            assert command("audit", *words, "--no-cache", "--out", folder / "run") == 0
            audits_by_kind[kind] = shutil.move(folder / "run", folder / "moved")
            assert str(folder) not in page_command(audits_by_kind[kind])
        return shutil.copytree(audits_by_kind[kind], workdir / "run")

    return copy_of


def findings(folder):
    return (folder / "findings.csv").read_bytes()


def page_command(run):
    """The command that the page of a run prints."""
    page = html.unescape((run / "report.html").read_text())
    (line,) = re.findall(r"<code>(swapbias audit [^<]*?)</code></p>\n<p class=\"soft\">", page)
    return line


def card_command(card):
    return set(re.findall(r"^swapbias audit .*$", card, re.MULTILINE))


def filled(word, url):
    """A word of a command in which placeholders are what they stand for."""
    return word.replace("URL", url).replace("PLACE/", f"{Path.cwd()}/elsewhere/")


def repeat(line, url, run, out):
    words = [filled(word, url).replace("RUN/", f"{run}/") for word in shlex.split(line)]
    assert command(*words[1:], "--out", out) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_printed_commands_repeat_findings(hub, workdir, audited, url, kind):
    """The command on the page, also of a run that was shared and pulled, and on the card gives the same findings."""
    run = audited(kind)
    again = workdir / "again"
    line = page_command(run)
    assert url not in line
    if kind in OWN_KINDS:
        assert command("share", run, "--results", "alice/audits") == 2
    else:
        assert command("share", run, "--results", "alice/audits") == 0
        files = hub.files("dataset", "alice/audits")
        assert card_command(files["README.md"].decode()) == {line}
        assert command("pull", "results", "alice/audits", "--out", workdir / "pulled") == 0
        (pulled,) = (workdir / "pulled/alice/audits/runs").iterdir()
        assert page_command(pulled) == line
    repeat(line, url, run, again)
    assert findings(again) == findings(run)
    assert page_command(again).replace("RUN/studies", "") == line.replace("RUN/studies", "")


def test_command_of_each_model(workdir):
    """Each of several models has a command that repeats its findings."""
    both = (
        "labels",
        "vader",
        "--study",
        "occupation_sentiment:sentences",
        *SMALL,
        "-M",
        "positive-label=LABEL_1",
    )
    assert command("audit", *both, "--out", workdir / "both") == 0
    for name in ("labels", "vader"):
        line = page_command(workdir / "both" / name)
        assert f"audit {name} --study" in line
        repeat(line, "", workdir, workdir / name)
        assert findings(workdir / name) == findings(workdir / "both" / name)


@pytest.mark.parametrize("kind", [*OWN_KINDS, "chat", "adapter", "notes", "log-odds"])
@pytest.mark.parametrize("public", [False, True], ids=["own", "shared"])
def test_manifest_repeats_a_run(workdir, audited, url, kind, public, monkeypatch):
    """A manifest repeats the run from a copy of its folder, also after it was made public."""
    run = audited(kind)
    if public:
        Run(run).write_manifest(public_manifest(Run(run).manifest()))
    monkeypatch.setattr(catalogue, "_OWN", {})  # as in a new process
    address = ("--base-url", url) if public and "URL" in KINDS[kind] else ()
    assert command("audit", run / "manifest.json", *address, "--out", workdir / "again") == 0
    assert findings(workdir / "again") == findings(run)
