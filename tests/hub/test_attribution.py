"""A run is named after model and adapter, and its results stand on the page of that model alone."""

import csv
import io
import json
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import replace

import pytest

from swapbias import Audit
from swapbias.errors import UsageError
from swapbias.hub.client import Hub
from swapbias.hub.eval_results import eval_entries
from swapbias.hub.model_pages import commit_read, findings_of
from swapbias.hub.repository import Repo
from swapbias.hub.share import COMMIT, PULL_REQUEST, ShareOptions, share_run
from swapbias.models import loading
from swapbias.privacy import public_manifest
from swapbias.runs import Run, settings_of, start
from swapbias.runs.audit_file import read_request
from swapbias.runs.run_folders import default_folder
from tests import adapters, tiny
from tests.conftest import QUIET, files_below
from tests.hub.clients import command
from tests.hub.own_runs import edited
from tests.hub.shared_runs import GAP

BASE = "bob/bert"
LORA = "alice/lora"
BASE_AND_LORA = f"{BASE} + {LORA}"
STUDY = ("gendered_stigma:rq1",)
ENTRIES = {
    "namespace": "swapbias", "revisions": {"gendered_stigma": "a" * 40},
    "source_url": "https://x", "source_user": "u",
}  # fmt: skip


@pytest.fixture(scope="module")
def base_files(tmp_path_factory):
    return files_below(tiny.save("bert", tmp_path_factory.mktemp("bert") / "base"))


@pytest.fixture
def pushed(hub, base_files, tmp_path, monkeypatch):
    """A model of bob's and an adapter of it, of alice's, on the local Hub; an empty cache of scores."""
    adapters.use(monkeypatch)
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SWAPBIAS_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(
        "transformers.utils.hub._hf_api", None
    )  # it keeps the address of the Hub that it saw first
    size = (
        base_files["vocab.txt"].count(b"\n")
        if "vocab.txt" in base_files
        else _vocabulary(base_files)
    )
    hub.add_repo("model", BASE, files=base_files)
    for owner in ("alice/bert", "alice/base"):
        hub.add_repo("model", owner, files=base_files)
    hub.add_repo(
        "model", LORA, files=files_below(adapters.save_adapter(tmp_path / "lora", BASE, size=size))
    )
    hub.size = size
    return hub


def _vocabulary(files):
    return json.loads(files["config.json"])["vocab_size"]


def audited(model, folder, **load):
    settings = settings_of(model, STUDY, load, limit=12, wordings=False)
    return start(settings, folder, cache=True, **QUIET)[0]


def scores(run):
    return run.items("gendered_stigma")["closed_list_mass"].tolist()


def head(hub, name):
    return hub.commits("model", name)[0][0]


def share_findings(run, **options):
    usual = {"results": "alice/audits", "model_change": COMMIT}
    return share_run(run, ShareOptions(**{**usual, **options}), Hub(), say=str)


def propose(run, **options):
    return share_findings(
        run, **{"results": "alice/open", "model_change": PULL_REQUEST, "public": True, **options}
    )


def models_of(run):
    with (run.folder / "findings.csv").open() as file:
        return {row["model_id"] for row in csv.DictReader(file)}


def test_audit_with_adapter(pushed, tmp_path):
    """An audit with an adapter is named after base and adapter, and its manifest pins both."""
    run = audited(BASE, tmp_path / "run", adapter=LORA)
    (pin,) = run.manifest()["models"]
    assert (pin["model_id"], pin["base"], pin["revision"]) == (
        BASE_AND_LORA,
        BASE,
        head(pushed, BASE),
    )
    assert (pin["adapter"]["name"], pin["adapter"]["revision"]) == (LORA, head(pushed, LORA))
    assert models_of(run) == {BASE_AND_LORA}
    assert f"audit of {BASE_AND_LORA}" in (run.folder / "report.html").read_text()
    assert default_folder(settings_of(BASE, STUDY, {"adapter": LORA})).name.startswith(
        "bob-bert-alice-lora-2"
    )
    # Nothing that was scored without the adapter is taken for it.
    plain = audited(BASE, tmp_path / "plain")
    assert plain.manifest()["from_cache"] == 0
    assert scores(plain) != scores(run)
    again = audited(BASE, tmp_path / "again", adapter=LORA)
    assert (again.manifest()["from_cache"], scores(again)) == (12, scores(run))
    pushed.push(
        "model",
        LORA,
        files_below(adapters.save_adapter(tmp_path / "new", BASE, size=pushed.size, seed=1)),
    )
    later = audited(BASE, tmp_path / "later", adapter=LORA)
    assert later.manifest()["from_cache"] == 0
    assert scores(later) != scores(run)


def test_adapter_in_place_of_a_model(pushed, tmp_path):
    """An adapter given as the model is scored on its base and named after both."""
    both = audited(BASE, tmp_path / "both", adapter=LORA)
    alone = audited(LORA, tmp_path / "alone")
    assert (models_of(alone), scores(alone)) == ({BASE_AND_LORA}, scores(both))
    folder = audited(str(tmp_path / "lora"), tmp_path / "folder")
    assert (models_of(folder), scores(folder)) == ({f"{BASE} + lora"}, scores(both))
    with pytest.raises(UsageError, match=r"alice/lora is an adapter, and -M adapter names another"):
        audited(LORA, tmp_path / "twice", adapter=str(tmp_path / "lora"))


@pytest.mark.parametrize("model", [BASE, LORA])
def test_pages_of_base_and_adapter(pushed, model, tmp_path, monkeypatch):
    """Results of an adapter are refused on the page of its base, and the page of the adapter
    repeats the run."""
    how = {} if model == LORA else {"adapter": LORA}
    run = audited(model, tmp_path / "run", **how)
    before = pushed.files("model", BASE)
    pinned = head(pushed, LORA)
    for more in ({}, {"audited": BASE_AND_LORA}):
        with pytest.raises(
            UsageError, match=rf"read bob/bert with the adapter alice/lora, whose .* --model {LORA}"
        ):
            propose(run, model=BASE, **more)
    assert ("dataset", "alice/open") not in pushed.repositories
    assert [one.status for one in share_findings(run, model=LORA)] == ["created", "updated"]
    assert pushed.files("model", BASE) == before
    card = pushed.files("model", LORA)["README.md"].decode()
    assert (
        f"measured {BASE_AND_LORA}, the model {BASE} with the adapter {LORA} at commit {pinned}"
        in card
    )
    # Others push to both; the card names the commits that were read.
    pushed.push("model", LORA, {adapters.WEIGHTS: b"later"})
    pushed.push("model", BASE, {"model.safetensors": b"later"})
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "other"))
    (line,) = re.findall(r"^swapbias (audit .*)$", card, re.MULTILINE)
    assert f"-M adapter={LORA}@{pinned}" in line
    assert command(*shlex.split(line), "--out", tmp_path / "again") == 0
    first, again = ((tmp_path / name / "findings.csv").read_bytes() for name in ("run", "again"))
    assert first == again


def test_shared_manifest_repeats_adapter(pushed, tmp_path):
    """A shared manifest repeats the run with its adapter."""
    run = audited(BASE, tmp_path / "run", adapter=LORA)
    before = scores(run)
    share_findings(run, model=None, model_change="")
    (path,) = (
        path for path in pushed.files("dataset", "alice/audits") if path.endswith("manifest.json")
    )
    (tmp_path / "manifest.json").write_bytes(pushed.files("dataset", "alice/audits")[path])
    pushed.push("model", LORA, {adapters.WEIGHTS: b"later"})
    _, settings, manifest = read_request(tmp_path / "manifest.json")
    assert settings.load.adapter == LORA
    again, _ = start(settings, tmp_path / "again", expected=manifest, **QUIET)
    assert scores(again) == before


def test_folder_of_an_adapter(pushed, tmp_path):
    """A folder of an adapter is the one on the Hub that has its weights."""
    run = audited(BASE, tmp_path / "run", adapter=str(tmp_path / "lora"))
    name = f"{BASE} + lora"
    assert [one.status for one in propose(run, model=LORA, audited=name, dry_run=True)][
        1
    ].startswith("pull request")
    with pytest.raises(UsageError, match=r"Push the adapter and name its page"):
        propose(run, model=BASE)
    pushed.push("model", LORA, {adapters.WEIGHTS: b"trained further"})
    with pytest.raises(UsageError, match="alice/lora has other weights than bob/bert"):
        propose(run, model=LORA, audited=name)


@pytest.fixture
def eight_bit_rounding(monkeypatch):
    """Weights that are quantized on loading, by a library that is not there."""
    monkeypatch.setattr(loading, "_weight_settings", lambda options: {})


@pytest.mark.usefixtures("eight_bit_rounding")
def test_quantized_results(pushed, tmp_path):
    """Results of quantized weights are refused on the page of the model and name the quantization
    first."""
    run = audited(BASE, tmp_path / "run", quantization="4bit")
    assert models_of(run) == {f"{BASE} (4bit)"}
    for more in ({}, {"audited": f"{BASE} (4bit)"}):
        with pytest.raises(
            UsageError,
            match=r"The run read bob/bert in 4bit, and such results go to a page of your",
        ):
            propose(run, model=BASE, **more)
    mine = audited("alice/bert", tmp_path / "mine", quantization="4bit")
    share_findings(mine, model="alice/bert")
    card = pushed.files("model", "alice/bert")["README.md"].decode()
    part = card.partition("### gendered")[2]
    assert part.split("\n\n")[1].startswith("**Not the model as it is:** it was read in 4bit")
    assert "measured alice/bert (4bit) at commit" in card
    assert "-M quantization=4bit" in card
    entries = eval_entries(Audit.open(mine.folder).found, mine.manifest(), **ENTRIES)
    assert all(
        one["notes"].startswith("Measured: alice/bert (4bit). Higher is fairer") for one in entries
    )
    assert entries
    both = audited(BASE, tmp_path / "both", quantization="8bit", adapter=LORA)
    assert models_of(both) == {f"{BASE_AND_LORA} (8bit)"}
    assert "4bit" not in str(both.manifest()["models"])


def test_subfolder_of_a_repository(pushed, base_files, tmp_path):
    """An audit of a subfolder of a repository is no audit of the repository."""
    pushed.push("model", BASE, {f"small/{name}": content for name, content in base_files.items()})
    run = audited(BASE, tmp_path / "run", subfolder="small")
    assert models_of(run) == {f"{BASE} (small)"}
    with pytest.raises(UsageError, match="read bob/bert in the subfolder small"):
        propose(run, model=BASE)


def test_adapter_on_another_base(pushed, tmp_path):
    """Results of an adapter on another base are refused on the adapter's page."""
    run = audited("alice/base", tmp_path / "run", adapter=LORA)
    with pytest.raises(
        UsageError, match="alice/lora is an adapter of bob/bert, and the run read it on alice/base"
    ):
        share_findings(run, model=LORA)
    share_findings(run)
    card = pushed.files("dataset", "alice/audits")["README.md"].decode()
    told = "**Not on its own base:** The adapter alice/lora is of bob/bert by its config, and was put on alice/base."
    assert told in card
    share_findings(audited(BASE, tmp_path / "own", adapter=LORA))
    assert pushed.files("dataset", "alice/audits")["README.md"].decode().count(told) == 1


def test_base_is_not_its_adapter(hub):
    """A base is not taken for its adapter when a user names the model."""
    pins = [
        {"model_id": "lab/m + me/lora", "base": "lab/m", "adapter": {"name": "me/lora"}},
        {"model_id": "lab/n"},
    ]
    found = [replace(GAP, model_id=pin["model_id"]) for pin in pins]
    assert [one.model_id for one in findings_of(found, "me/lora", None, pins)] == [
        "lab/m + me/lora"
    ]
    assert [one.model_id for one in findings_of(found, "lab/n", None, pins)] == ["lab/n"]
    with pytest.raises(UsageError, match="read lab/m with the adapter me/lora"):
        findings_of(found, "lab/m", None, pins)
    with pytest.raises(UsageError, match="read lab/m with the adapter me/lora"):
        commit_read(Hub(), Repo("model", "lab/m"), {"models": pins}, "lab/m + me/lora")


def test_public_manifest_names():
    """A public manifest keeps names on the Hub and drops names of folders."""
    adapter = {"name": "me/lora", "revision": "a" * 40}
    manifest = {
        "settings": {
            "model": "lab/m@main",
            "load": {"adapter": "me/lora@v1"},
            "chat": {"judge": ["lab/judge"]},
        },
        "models": [{"model_id": "lab/m + me/lora", "base": "lab/m", "adapter": adapter}],
    }
    public = public_manifest(manifest)
    assert public["settings"] == {**manifest["settings"], "chat": {"judge": ["judge"]}}
    assert public["models"] == manifest["models"]
    manifest["settings"]["load"]["adapter"] = "/home/me/adapters/lora"
    assert public_manifest(manifest)["settings"]["load"] == {"adapter": "lora"}
    manifest["models"][0]["judges"] = [{"model_id": "lab/judge"}]
    assert public_manifest(manifest)["settings"]["chat"] == {"judge": ["lab/judge"]}


def test_terminal_names_what_was_read(pushed, tmp_path):
    """The terminal and a comparison name base and adapter of each run."""
    arguments = ("--study", STUDY[0], "--limit", "12", "--no-wordings")
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert (
            command("audit", BASE, *arguments, "-M", f"adapter={LORA}", "--out", tmp_path / "a")
            == 0
        )
        assert command("audit", BASE, *arguments, "--out", tmp_path / "b") == 0
        assert command("compare", tmp_path / "a", tmp_path / "b") == 0
        assert command("plan", BASE, *arguments, "-M", f"adapter={LORA}") == 0
    text = " ".join(shown.getvalue().split())
    assert f"prompts for {BASE_AND_LORA}" in text
    assert f"gendered_stigma:rq1, {BASE_AND_LORA}" in text
    assert f"{BASE_AND_LORA}" in text.partition("Report")[2]
    assert (
        edited(Run(tmp_path / "a"), tmp_path / "c").manifest()["models"][0]["model_id"]
        == BASE_AND_LORA
    )
