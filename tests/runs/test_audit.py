"""A run from prompts to report: its files, resuming after a kill, several models, settings from
a file."""

import csv
import errno
import json
import math
import re
import shutil
import time
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

from swapbias.cli.finished_runs import figures
from swapbias.cli.plans import skipped_note
from swapbias.errors import UsageError
from swapbias.files import cache_dir
from swapbias.findings import primary_findings
from swapbias.models import LoadOptions, calibration as tiny_model
from swapbias.models.masked import MaskedScorer
from swapbias.report import claims
from swapbias.runs import (
    Run,
    Settings,
    audit_several,
    plan_tasks,
    resume,
    run_folders,
    several_models,
    start,
)
from swapbias.runs.audit_file import read_request
from swapbias.runs.manifest_entries import fingerprints, partial_note
from swapbias.runs.run import REQUIRED
from swapbias.runs.run_folders import default_folder
from swapbias.studies import PROMPT_COLUMNS
from tests import tiny


@pytest.fixture(scope="module")
def default_run(tmp_path_factory, calibration, quiet):
    return start(Settings(), tmp_path_factory.mktemp("runs") / "default", **quiet)


def test_audits_of_one_second(tmp_path, monkeypatch):
    """Audits that begin in the same second have different folders."""
    monkeypatch.chdir(tmp_path)
    moment = datetime(2026, 1, 2, 3, 4, 5)
    monkeypatch.setattr(run_folders, "datetime", SimpleNamespace(now=lambda zone: moment))
    for _ in range(3):
        default_folder(Settings(model="org/a b")).mkdir(parents=True)
    began = "org-a-b-20260102-030405"
    made = sorted(one.name for one in (tmp_path / "swapbias-runs").iterdir())
    assert made == [began, f"{began}-2", f"{began}-3"]


def test_audit_without_model(default_run):
    """An audit without a model and a study is the demonstration: two known models, and VADER on own
    prompts; every question is measured."""
    run, found = default_run
    manifest = run.manifest()
    assert manifest["status"] == "complete"
    assert [model["model_id"] for model in manifest["models"]] == [
        "calibration",
        "calibration-unbiased",
        "vader",
    ]
    assert manifest["skipped"] == []
    verdicts = [
        (one.study, one.model_id, claims.verdict_word(one)) for one in primary_findings(found)
    ]
    assert verdicts == [
        ("gendered_stigma", "calibration", "Gap"),
        ("gendered_stigma", "calibration-unbiased", "No gap"),
        ("name_pairs", "vader", "Undecided"),
    ]
    written = {
        str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()
    }
    assert {
        "manifest.json",
        "findings.csv",
        "results.json",
        "report.html",
        "lexicon_coverage.csv",
        "items/gendered_stigma.parquet",
        "items/name_pairs.parquet",
        "studies/name_pairs/templates.csv",
    } <= written
    assert not [path for path in written if "parts" in path or path.endswith(".tmp")]


def test_planted_gaps_are_recovered(default_run):
    """The audit recovers the planted gaps of both calibration models."""
    _, found = default_run
    planted_here = [one for one in found if one.published and one.published.source == "planted"]
    planted = [one for one in planted_here if not one.view]
    assert Counter(one.model_id for one in planted) == {
        "calibration": 9,
        "calibration-unbiased": 9,
    }
    assert {one.key() for one in planted_here if one.view} == {
        one.key() for one in planted if one.measure != "mean"
    }
    for one in planted:
        assert one.estimate.value == pytest.approx(float(one.published.value), abs=0.02)
    biased = [one for one in planted if one.model_id == "calibration"]
    gap = {one.subset: one.estimate for one in biased if one.measure == "paired_gap"}
    assert gap["mental_health"].p_adjusted < 0.001
    levels = {one.contrast: one.estimate.value for one in biased if one.subset == "mental_health"}
    assert levels["female"] / levels["male"] == pytest.approx(2, abs=0.15)


def test_shifts_of_conditions():
    """Conditions of the unbiased model differ by up to the spread, and not on average in a class."""
    rows = [{"label": label, "condition": f"{label}{n}"} for label in "ab" for n in range(5)]
    shifts = tiny_model.condition_shifts([*rows, *rows], 0.04)
    by_hand = [-0.04, -0.02, 0, 0.02, 0.04]
    assert list(shifts.values()) == pytest.approx(by_hand * 2)


def test_calibration_model_is_kept(calibration, monkeypatch):
    """The calibration model is small and kept, not trained again."""
    saved = list(cache_dir().glob("calibration-*/model.safetensors"))
    assert saved
    for path in saved:
        assert 20_000 < sum(one.numel() for one in load_file(path).values()) < 500_000
    monkeypatch.setattr(tiny_model, "train", lambda *a, **k: pytest.fail("trained again"))
    again = tiny_model.load_calibration()
    assert again.identity == calibration.identity


def test_calibration_model_in_threads(calibration, tmp_path, monkeypatch):
    """Several threads that need the calibration model at once have it trained once."""
    trained = []

    def train(rows, *_more):
        trained.append(len(rows))
        time.sleep(0.2)
        return calibration.model, calibration.tokenizer

    monkeypatch.setattr(tiny_model, "train", train)
    monkeypatch.setattr(tiny_model, "cache_dir", lambda: tmp_path / "new")
    loaded = (calibration.model, calibration.tokenizer, {})
    monkeypatch.setattr(tiny_model, "load_model", lambda folder, auto_class, options: loaded)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tiny_model.load_calibration().model_id, range(4)))
    assert found == ["calibration"] * 4
    assert len(trained) == 1


def test_files_of_a_run(
    default_run,
):
    """A run has a row per prompt, equal findings in CSV and JSON, and one page that loads nothing
    from outside."""
    run, found = default_run
    items = run.items("gendered_stigma")
    assert len(items) == 2 * 1122  # of two models
    assert tuple(items.columns) == (
        *(one for one in PROMPT_COLUMNS if one != "candidates"),
        "model_id",
        "score",
        "closed_list_mass",
        "matched_mass",
        "answer",
        "top_tokens",
    )
    assert (items["closed_list_mass"] >= items["score"] - 1e-6).all()
    with (run.folder / "findings.csv").open(newline="", encoding="utf-8") as handle:
        table = list(csv.DictReader(handle))
    results = json.loads((run.folder / "results.json").read_text())["findings"]
    assert len(table) == len(results) == len(found)
    for row, result, one in zip(table, results, found, strict=True):
        assert result["value"] == (None if math.isnan(one.estimate.value) else one.estimate.value)
        assert row["family"] == result["family"] == one.estimate.family
        assert result["n"] == one.estimate.n
    page = (run.folder / "report.html").read_text()
    loads = re.findall(
        r"""<(?:img|script|link|iframe|source)[^>]*?(?:src|href)=["']([^"']+)""", page
    )
    assert all(target.startswith("data:") for target in loads)
    assert "@import" not in page
    assert "url(" not in page
    assert "was trained by swapbias with a bias of known size" in page
    assert '<th scope="row">mean, female</th><td>mental health</td><td class="n">0.60</td>' in page


def test_figures_for_papers(default_run, tmp_path, capsys):
    """Figures for papers are written beside the run, and wrong words are one sentence."""
    run, _ = default_run
    figures([str(run.folder)], "pdf", tmp_path / "out")
    stdout = capsys.readouterr().out
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert {"results.pdf", "gendered_stigma-rq1-phase-gap-calibration.pdf"} <= {*written}
    assert all(name in stdout for name in written)
    assert not (run.folder / "figures").exists()
    with pytest.raises(UsageError, match=r"--format is 'gif', expected one of pdf, svg, png\."):
        figures([str(run.folder)], "gif", tmp_path / "other")
    bare = Run(tmp_path / "bare")
    shutil.copytree(run.folder, bare.folder)
    (bare.folder / "results.json").write_text(json.dumps({"swapbias": "1", "findings": []}))
    with pytest.raises(
        ValueError, match=r"results\.json is damaged: its sha256 is not the one in manifest\.json"
    ):
        figures([str(bare.folder)], "pdf", tmp_path / "other")
    bare.write_manifest(
        {name: value for name, value in bare.manifest().items() if name != "sha256"}
    )  # an older run
    with pytest.raises(
        UsageError, match=r"bare has no figures\. Its numbers are in findings\.csv and its report\."
    ):
        figures([str(bare.folder)], "pdf", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_unfit_model_is_skipped(tmp_path, quiet):
    """An experiment that a model does not fit is skipped, and the report says so."""
    model = str(tiny.save("bert", tmp_path / "model"))
    run, found = start(Settings(model=model, limit=40), tmp_path / "run", **quiet)
    reasons = {one["experiment"]: one["reason"] for one in run.manifest()["skipped"]}
    needed = "it needs a classifier model and model is of kind masked"
    assert reasons["sentences"] == reasons["control"] == needed
    assert {one.experiment for one in found} == {
        "rq1",
        "rq2",
        "attitude",
    }  # slow ones as well, in part
    assert "it needs a classifier model" in (run.folder / "report.html").read_text()


def test_killed_run_is_resumed(tmp_path, quiet, monkeypatch):
    """A killed run goes on where it was and ends with the same findings."""
    monkeypatch.setattr("swapbias.models.scorer.Scorer.chunk_rows", 100)
    folder = str(tiny.save("bert", tmp_path / "model"))
    settings = Settings(
        model=folder,
        studies=("gendered_stigma:rq1",),
        wordings=False,
        load=LoadOptions(batch_size=16),
    )
    whole, _ = start(settings, tmp_path / "whole", **quiet)
    real = MaskedScorer.score
    calls = []

    def killed(self, prompts, on_progress=None):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(len(prompts))
        return real(self, prompts, on_progress)

    monkeypatch.setattr(MaskedScorer, "score", killed)
    with pytest.raises(KeyboardInterrupt):
        start(settings, tmp_path / "broken", **quiet)
    assert Run.open(tmp_path / "broken").manifest()["status"] == "running"
    done = sum(calls)
    seen = []

    def counted(self, prompts, report=None):
        seen.append(len(prompts))
        return real(self, prompts, report)

    monkeypatch.setattr(MaskedScorer, "score", counted)
    (tmp_path / "broken" / ".report.html.1.tmp").write_text("half")
    broken, _ = resume(tmp_path / "broken", **quiet)
    assert done + sum(seen) == 1122  # nothing was scored twice
    assert not list(broken.folder.rglob(".*"))  # what was left behind is removed
    assert broken.items("gendered_stigma").equals(whole.items("gendered_stigma"))
    for name in ("findings.csv", "results.json", "lexicon_coverage.csv"):
        assert (broken.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    seen.clear()
    resume(tmp_path / "broken", **quiet)
    assert seen == []  # a finished run is only written again


@pytest.mark.parametrize("edited", ["model", "sha256", "lexicons"])
def test_resume_on_other_inputs(tmp_path, quiet, edited):
    """A run is not resumed on another model, other prompts or other word lists."""
    folder = tiny.save("bert", tmp_path / "model")
    settings = Settings(model=str(folder), studies=("gendered_stigma:rq1",), limit=30)
    run, _ = start(settings, tmp_path / "run", **quiet)
    manifest = run.manifest() | {"status": "running"}
    assert list(manifest["corpora"][0]["lexicons"]) == ["gendered_stigma/rq1"]
    if edited == "model":
        tiny.save("distilbert", folder)
    else:
        manifest["corpora"][0][edited] = (
            "0" * 64 if edited == "sha256" else {"gendered_stigma/rq1": "0" * 64}
        )
    run.write_manifest(manifest)
    with pytest.raises(
        UsageError, match="another version of the model" if edited == "model" else "other prompts"
    ):
        resume(run.folder, **quiet)


def test_limit_keeps_whole_pairs(tmp_path, quiet):
    """A limit keeps whole pairs that are spread over the config."""
    run, found = start(Settings(model=FIRST, limit=40), tmp_path / "run", **quiet)
    items = run.items("occupation_sentiment")
    sentences = items[items["experiment"] == "sentences"]
    assert len(sentences) == 40
    assert sentences["condition"].nunique() == 20
    assert all(one.estimate.n_unscored == 0 for one in found if one.measure == "paired_gap")


def test_phrases_sum_to_scores(tmp_path, quiet):
    """The probabilities of the listed phrases sum to the score."""
    settings = Settings(
        model=str(tiny.save("bert", tmp_path / "model")), studies=("gendered_stigma:rq2",), limit=24
    )
    run, found = start(settings, tmp_path / "run", **quiet)
    items = run.items("gendered_stigma")
    sums = [
        sum(probability for _, probability in json.loads(phrases))
        for phrases in items["top_tokens"]
    ]
    assert sums == pytest.approx(items["score"].to_numpy(), abs=1e-6)
    assert {one.slice_by for one in found} == {"all", "dimension", "polarity", "diagnosis"}


def test_repeated_call(tmp_path, quiet, monkeypatch):
    """The same call again loads no model, and other settings are refused."""
    settings = Settings(
        model=str(tiny.save("bert", tmp_path / "model")), studies=("gendered_stigma:rq1",), limit=30
    )
    run, found = start(settings, tmp_path / "run", **quiet)
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    monkeypatch.setattr("swapbias.runs.audit.load_readers", lambda *a, **k: pytest.fail("loaded"))
    again, same = start(settings, tmp_path / "run", **quiet)
    assert [one.row() for one in same] == [one.row() for one in found]
    assert {path: path.stat().st_mtime_ns for path in again.folder.rglob("*")} == before
    with pytest.raises(UsageError, match="was begun with limit 30, now 20"):
        start(replace(settings, limit=20), tmp_path / "run", **quiet)


# Several models in one folder, settings from a file, a run repeated, and what runs where nothing is named.

STUDIES = ("occupation_sentiment:control",)
FIRST, SECOND, BROKEN = (
    f"tests.runs.test_audit:{name}" for name in ("first_scorer", "second_scorer", "broken")
)
mended = []


def first_scorer(texts):
    return [0.5 + 0.01 * (len(text) % 7) for text in texts]


def second_scorer(texts):
    return [0.4 + 0.02 * (len(text) % 5) for text in texts]


def broken(texts):
    return first_scorer(texts) if mended else [0.5]


def test_several_models(tmp_path, quiet):
    """Each of several models has a run, and all have one comparison."""
    done = audit_several([FIRST, SECOND], Settings(studies=STUDIES), tmp_path / "all", **quiet)
    assert not done.failed
    assert [run.manifest()["settings"]["model"] for run in done.runs.values()] == [FIRST, SECOND]
    table = (tmp_path / "all/comparison/side_by_side.csv").read_text()
    assert FIRST in table
    assert SECOND in table
    page = (tmp_path / "all/comparison/report.html").read_text()
    linked = re.findall(r'<a href="(\.\./[^"]+)">', page)
    assert len(linked) == 2
    assert all((tmp_path / "all/comparison" / one).is_file() for one in linked)
    assert "Whether" in page or " lies " in page or " gives exactly " in page
    alone, _ = start(Settings(model=FIRST, studies=STUDIES), tmp_path / "alone", **quiet)
    assert (done.runs[FIRST].folder / "findings.csv").read_bytes() == (
        alone.folder / "findings.csv"
    ).read_bytes()


def test_failed_model(tmp_path, quiet):
    """A model that fails does not stop the others and is tried again by the next call."""
    mended.clear()
    done = audit_several(
        [FIRST, BROKEN, SECOND], Settings(studies=STUDIES), tmp_path / "all", **quiet
    )
    assert list(done.runs) == [FIRST, SECOND]
    assert list(done.failed) == [BROKEN]
    assert "returned shape" in done.failed[BROKEN]
    left = [
        path.name
        for path in (tmp_path / "all").rglob("*")
        if path.is_file() and "broken" in str(path.parent)
    ]
    assert left == ["manifest.json"]
    finished = done.runs[FIRST].manifest()["finished"]
    mended.append(True)
    again = audit_several(
        [FIRST, BROKEN, SECOND], Settings(studies=STUDIES), tmp_path / "all", **quiet
    )
    assert not again.failed
    assert again.runs[FIRST].manifest()["finished"] == finished  # what is done is not done again
    assert BROKEN in (tmp_path / "all/comparison/side_by_side.csv").read_text()
    run, _ = resume(again.runs[BROKEN].folder, trust=True, **quiet)  # each is an ordinary run
    assert run.manifest()["status"] == "complete"


def test_repeated_model_and_name(tmp_path, quiet):
    """A model named twice is refused, and two models of one name have two folders."""
    with pytest.raises(UsageError, match="each once"):
        audit_several(["vader", "vader"], Settings(), tmp_path / "all", **quiet)
    assert not (tmp_path / "all").exists()
    for place in ("a/m", "b/m"):
        (tmp_path / place).mkdir(parents=True)
    models = [str(tmp_path / place) for place in ("a/m", "b/m")]
    done = audit_several(models, Settings(), tmp_path / "all", **quiet)
    assert "it has no config.json" in done.failed[models[0]]
    assert "it has no config.json" in done.failed[models[1]]


def test_models_are_loaded_one_by_one(tmp_path, quiet, monkeypatch):
    """Each of five models is loaded once, timed alone and freed before the next, and the sentences
    count them."""
    alive = set()
    most = []
    loads = []

    class Model:
        model_id = kind = ""

    def start(settings, place, **how):
        one = Model()
        one.itself = one  # as transformers' modules do: only the collector frees it
        alive.add(weakref.ref(one, alive.discard))
        most.append(len(alive))
        loads.append(settings.model)
        if settings.model == "m3":
            raise RuntimeError("note text")
        Run.create(place, {**manifest, "settings": settings.saved()})

    manifest = {key: [] for key in REQUIRED} | {"status": "complete", "models": [], "finished": ""}
    monkeypatch.setattr(several_models, "start", start)
    monkeypatch.setattr(several_models, "read_run", lambda folder: None)
    monkeypatch.setattr(several_models, "compare_runs", lambda runs: None)
    monkeypatch.setattr(several_models, "write_comparison", lambda folder, compared: None)
    calls = []
    models = [f"m{number}" for number in range(5)]
    shown = {**quiet, "say": calls.append}
    done = audit_several(models, Settings(studies=STUDIES), tmp_path / "all", **shown)
    assert loads == models
    assert set(most) == {1}
    assert calls[4 + 1] == "Model 5 of 5: m4."
    assert done.failed == {
        "m3": "RuntimeError. Audit it alone to see more."
    }  # whatever it said may be a note's text
    assert list(done.runs) == [one for one in models if one != "m3"]


def test_damaged_finished_run(tmp_path, quiet):
    """A damaged file of a finished run is named, and other settings are refused."""
    done = audit_several(
        [FIRST, SECOND], Settings(studies=STUDIES, limit=8), tmp_path / "all", **quiet
    )
    path = done.runs[FIRST].folder / "results.json"
    path.write_bytes(path.read_bytes().replace(b"control", b"contrcl", 1))
    again = audit_several([FIRST, SECOND], Settings(studies=STUDIES, limit=8), done.folder, **quiet)
    assert "results.json is damaged" in again.failed[FIRST]
    other = audit_several([FIRST, SECOND], Settings(studies=STUDIES, limit=4), done.folder, **quiet)
    assert "was begun with limit 8, now 4" in other.failed[SECOND]


def test_full_disk(tmp_path, quiet, monkeypatch):
    """A full disk ends an audit of many models."""

    def start(settings, place, **how):
        raise OSError(errno.ENOSPC, "No space left on device", str(place))

    monkeypatch.setattr(several_models, "start", start)
    with pytest.raises(OSError, match="No space"):
        audit_several([FIRST, SECOND], Settings(studies=STUDIES), tmp_path / "all", **quiet)


def test_settings_file(tmp_path):
    """A file names models, studies and settings."""
    (tmp_path / "mine").mkdir()
    file = tmp_path / "audit.toml"
    file.write_text(
        'models = ["mine", "vader"]\nstudies = ["occupation_sentiment"]\nlimit = 40\nmargin = 1\n'
        '[load]\nbatch_size = 8\n[chat]\nmodel = "m"\ntrials = 2\n'
    )
    models, settings, repeated = read_request(file)
    assert models == [str(tmp_path / "mine"), "vader"]
    assert (settings.studies, settings.limit, settings.margin) == (
        ("occupation_sentiment",),
        40,
        1.0,
    )
    assert settings.load.batch_size == 8
    assert settings.saved()["chat"]["trials"] == 2
    assert repeated is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("studys = []", "Unknown setting 'studys'.* Did you mean studies"),
        ("[load]\ndevise = 1", r"Unknown setting of \[load\].*Did you mean device"),
        ('limit = "x"', "limit is 'x', expected"),
        ("models = 3", "expected a list of names"),
        ("models = [", "cannot be read"),
    ],
)
def test_wrong_settings_file(tmp_path, text, part):
    """A file with unknown or wrong settings is refused."""
    (tmp_path / "audit.toml").write_text(text)
    with pytest.raises(ValueError, match=part):
        read_request(tmp_path / "audit.toml")


def test_manifest_repeats_a_run(tmp_path, quiet):
    """A manifest repeats its run exactly, and other prompts are refused."""
    first, _ = start(Settings(model=FIRST, studies=STUDIES, seed=3), tmp_path / "first", **quiet)
    models, settings, repeated = read_request(first.folder / "manifest.json")
    assert (models, settings) == ([FIRST], Settings.from_manifest(first.manifest()["settings"]))
    again, _ = start(settings, tmp_path / "again", expected=repeated, **quiet)
    for name in ("findings.csv", "items/occupation_sentiment.parquet"):
        assert (again.folder / name).read_bytes() == (first.folder / name).read_bytes()
    for name, part in (("corpora", "prompts or word lists"), ("models", "another version")):
        changed = json.loads(json.dumps(repeated))
        changed[name][0]["sha256"] = "0" * 64
        with pytest.raises(UsageError, match=part):
            start(settings, tmp_path / name, expected=changed, **quiet)
        assert not (tmp_path / name).exists()


def test_causal_model(tmp_path):
    """A causal model is audited with the experiments for its kind and no other."""
    settings = Settings(model=str(tiny.save_causal(tmp_path / "gpt")))
    tasks, skipped = plan_tasks(settings)
    assert {task.experiment.name for task in tasks} == {"odds", "antonyms"}
    part = next(task for task in tasks if task.experiment.name == "antonyms")
    assert 0 < part.n_prompts < part.n_available
    assert part.n_prompts * part.kind.readings["antonyms"].passes <= 8_000
    assert f"social_distance antonyms ({part.n_prompts} of {part.n_available:,})" in partial_note(
        tasks
    )
    assert "Read all with --study social_distance." in partial_note(tasks)
    whole, _ = plan_tasks(
        Settings(model=settings.model, studies=("social_distance",))
    )  # as it says
    assert [(task.n_prompts, task.n_available) for task in whole] == [(part.n_available, 0)]
    entry = next(one for one in fingerprints(tasks, settings) if one["corpus"] == "social_distance")
    assert (entry["rows"], entry["of"]) == (part.n_prompts, part.n_available)  # for the card
    sentence = skipped_note(skipped, {"causal"})
    assert "3 masked" in sentence
    assert sentence.count("Not run") == 1
    assert "\n" not in sentence


def test_experiment_of_no_calibration_model():
    """An experiment that no calibration model is trained for says so, and not to name it."""
    skipped = plan_tasks(Settings(studies=("gendered_stigma",)))[1]
    reasons = {one.experiment: one.reason for one in skipped}
    assert "trained for rq1 alone" in reasons["rq2"]
