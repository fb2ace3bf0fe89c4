"""A run from prompts to report: what it writes, how it goes on after a kill, that nothing half is left."""

import csv
import json
import math
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

from swapbias.cli.finished_runs import figures
from swapbias.errors import UsageError
from swapbias.files import cache_dir
from swapbias.models import calibration as tiny_model
from swapbias.models.base import LoadOptions
from swapbias.models.masked import MaskedScorer
from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings, default_folder
from swapbias.runs.run import Run
from swapbias.studies.study import PROMPT_COLUMNS
from tests import tiny

CALLS = []


def sentiment(texts):
    CALLS.append(len(texts))
    female = ("She", "girl", "woman", "mother", "daughter", "aunt", "wife", "sister", "lady", "bride")
    return [0.6 - 0.1 * any(word in text for word in female) * ("er" in text) for text in texts]


MODEL = "tests.runs.test_audit:sentiment"


@pytest.fixture(scope="module")
def default_run(tmp_path_factory, calibration, quiet):
    return start(Settings(), tmp_path_factory.mktemp("runs") / "default", **quiet)


def test_audits_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    moment = datetime(2026, 1, 2, 3, 4, 5)
    module = import_module("swapbias.runs.plan")  # the room has a function of that name
    monkeypatch.setattr(module, "datetime", SimpleNamespace(now=lambda zone: moment))
    names = []
    for _ in range(3):
        default_folder(Settings(model="org/a b")).mkdir(parents=True)
        names.append(sorted(one.name for one in (tmp_path / "swapbias-runs").iterdir()))
    began = "org-a-b-20260102-030405"
    assert names[2] == [began, f"{began}-2", f"{began}-3"]


def test_no_model_audits_the_calibration_model_and_vader(default_run):
    run, found = default_run
    manifest = run.manifest()
    assert manifest["status"] == "complete"
    assert [model["model_id"] for model in manifest["models"]] == ["calibration", "vader"]
    assert {one.study for one in found} == {"gendered_stigma", "occupation_sentiment", "social_distance"}
    skipped = {(one["study"], one["experiment"]) for one in manifest["skipped"]}
    assert skipped == {
        ("gendered_stigma", "rq2"), ("social_distance", "attitude"), ("social_distance", "antonyms"),
        ("phenotype_fairness", "phenotyping"), ("phenotype_fairness", "leakage"),
        ("phenotype_fairness", "direct_bias"),
        ("adjective_coreference", "answers"), ("adjective_coreference", "odds"),
        ("gendered_stigma", "choices"), ("gendered_stigma", "completions"), ("occupation_sentiment", "ratings"),
        ("social_distance", "agreement"),
    }  # fmt: skip
    written = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    assert {
        "manifest.json", "findings.csv", "results.json", "report.html", "lexicon_coverage.csv",
        "items/gendered_stigma.parquet", "items/occupation_sentiment.parquet",
    } <= written  # fmt: skip
    assert not [path for path in written if "parts" in path or path.endswith(".tmp")]


def test_the_audit_recovers_what_was_planted(default_run):
    _, found = default_run
    held = [one for one in found if one.published and one.published.source == "planted"]
    planted = [one for one in held if not one.view]
    assert len(planted) == 9
    assert {one.key() for one in held if one.view} == {one.key() for one in planted if one.measure != "mean"}
    for one in planted:
        assert one.estimate.value == pytest.approx(float(one.published.value), abs=0.02)
    gap = {one.subset: one.estimate for one in planted if one.measure == "paired_gap"}
    assert gap["mental_health"].p_adjusted < 0.001
    levels = {one.contrast: one.estimate.value for one in planted if one.subset == "mental_health"}
    assert levels["female"] / levels["male"] == pytest.approx(2, abs=0.15)


def test_the_calibration_model_is_small_and_kept(calibration, monkeypatch):
    saved = list(cache_dir().glob("calibration-*/model.safetensors"))
    assert saved
    for path in saved:
        assert 20_000 < sum(one.numel() for one in load_file(path).values()) < 500_000
    monkeypatch.setattr(tiny_model, "train", lambda *a, **k: pytest.fail("trained again"))
    again = tiny_model.load_calibration()
    assert again.identity == calibration.identity


def test_who_needs_the_calibration_model_at_once_has_it_trained_once(calibration, tmp_path, monkeypatch):
    trained = []

    def train(rows, **_more):
        trained.append(len(rows))
        time.sleep(0.2)
        return calibration.model, calibration.tokenizer

    monkeypatch.setattr(tiny_model, "train", train)
    monkeypatch.setattr(tiny_model, "cache_dir", lambda: tmp_path / "new")
    monkeypatch.setattr(tiny_model.MaskedScorer, "load", lambda folder, options: SimpleNamespace(identity={}))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tiny_model.load_calibration().model_id, range(4)))
    assert found == ["calibration"] * 4
    assert len(trained) == 1


def test_a_run_has_a_row_per_prompt_findings_in_csv_and_json_alike_and_one_page_that_fetches_nothing(default_run):
    run, _ = default_run
    items = run.items("gendered_stigma")
    assert len(items) == 1122
    assert tuple(items.columns) == (
        *(one for one in PROMPT_COLUMNS if one != "candidates"),
        "model_id", "score", "closed_list_mass", "matched_mass", "answer", "top_tokens",
    )  # fmt: skip
    assert (items["closed_list_mass"] >= items["score"] - 1e-6).all()
    run, found = default_run
    with (run.folder / "findings.csv").open(newline="", encoding="utf-8") as handle:
        table = list(csv.DictReader(handle))
    results = json.loads((run.folder / "results.json").read_text())["findings"]
    assert len(table) == len(results) == len(found)
    for row, result, one in zip(table, results, found, strict=True):
        assert result["value"] == (None if math.isnan(one.estimate.value) else one.estimate.value)
        assert row["family"] == result["family"] == one.estimate.family
        assert result["n"] == one.estimate.n
    page = (run.folder / "report.html").read_text()
    loads = re.findall(r"""<(?:img|script|link|iframe|source)[^>]*?(?:src|href)=["']([^"']+)""", page)
    assert all(target.startswith("data:") for target in loads)
    assert "@import" not in page
    assert "url(" not in page
    assert "was trained by swapbias with a bias of known size" in page
    assert '<th scope="row">mean, female</th><td>mental health</td><td class="n">0.60</td>' in page


def test_figures_for_papers_are_written_beside_the_run_and_bad_words_are_one_sentence(default_run, tmp_path, capsys):
    run, _ = default_run
    figures(run.folder, "pdf", tmp_path / "out")
    told = capsys.readouterr().out
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert {"results.pdf", "gendered_stigma-rq1-phase-gap-calibration.pdf"} <= {*written}
    assert all(name in told for name in written)
    assert not (run.folder / "figures").exists()
    with pytest.raises(UsageError, match=r"--format is 'gif', expected one of pdf, svg, png\."):
        figures(run.folder, "gif", tmp_path / "other")
    bare = Run(tmp_path / "bare")
    shutil.copytree(run.folder, bare.folder)
    (bare.folder / "results.json").write_text(json.dumps({"swapbias": "1", "findings": []}))
    with pytest.raises(ValueError, match=r"results\.json is damaged: its sha256 is not the one in manifest\.json"):
        figures(bare.folder, "pdf", tmp_path / "other")
    bare.write_manifest({name: value for name, value in bare.manifest().items() if name != "sha256"})  # an older run
    with pytest.raises(UsageError, match=r"bare has no figures\. Its numbers are in findings\.csv and its report\."):
        figures(bare.folder, "pdf", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_model_that_does_not_fit_is_skipped_and_the_report_says_so(tmp_path, quiet):
    run, found = start(
        Settings(model=str(tiny.save("bert", tmp_path / "model")), limit=40), tmp_path / "run", **quiet
    )
    reasons = {one["experiment"]: one["reason"] for one in run.manifest()["skipped"]}
    for name in ("sentences", "control"):
        assert reasons[name] == "it needs a classifier model and model is of kind masked"
    assert {one.experiment for one in found} == {"rq1", "rq2", "attitude"}  # slow ones as well, in part
    assert "it needs a classifier model" in (run.folder / "report.html").read_text()


def test_a_killed_run_goes_on_where_it_was_and_ends_the_same(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr("swapbias.models.base.Scorer.chunk_rows", 100)
    folder = str(tiny.save("bert", tmp_path / "model"))
    settings = Settings(
        model=folder, studies=("gendered_stigma:rq1",), wordings=False, load=LoadOptions(batch_size=16)
    )
    whole, _ = start(settings, tmp_path / "whole", **quiet)
    real, calls = MaskedScorer.score, []

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
    monkeypatch.setattr(MaskedScorer, "score", real)
    seen = []
    monkeypatch.setattr(
        MaskedScorer, "score", lambda self, prompts, p=None: seen.append(len(prompts)) or real(self, prompts, p)
    )
    broken, _ = resume(tmp_path / "broken", **quiet)
    assert done + sum(seen) == 1122  # nothing was scored twice
    assert broken.items("gendered_stigma").equals(whole.items("gendered_stigma"))
    for name in ("findings.csv", "results.json", "lexicon_coverage.csv"):
        assert (broken.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    seen.clear()
    resume(tmp_path / "broken", **quiet)
    assert seen == []  # a finished run is only written again


@pytest.mark.parametrize("edited", ["model", "sha256", "lexicons"])
def test_a_run_is_not_resumed_on_another_model_other_prompts_or_word_lists(tmp_path, quiet, edited):
    folder = tiny.save("bert", tmp_path / "model")
    settings = Settings(model=str(folder), studies=("gendered_stigma:rq1",), limit=30)
    run, _ = start(settings, tmp_path / "run", **quiet)
    manifest = run.manifest() | {"status": "running"}
    assert list(manifest["corpora"][0]["lexicons"]) == ["gendered_stigma/rq1"]
    if edited == "model":
        tiny.save("distilbert", folder)
    else:
        manifest["corpora"][0][edited] = "0" * 64 if edited == "sha256" else {"gendered_stigma/rq1": "0" * 64}
    run.write_manifest(manifest)
    with pytest.raises(UsageError, match="another version of the model" if edited == "model" else "other prompts"):
        resume(run.folder, **quiet)


def test_a_limit_keeps_whole_pairs_spread_over_the_config(tmp_path, quiet):
    run, found = start(Settings(model=MODEL, limit=40), tmp_path / "run", **quiet)
    items = run.items("occupation_sentiment")
    sentences = items[items["experiment"] == "sentences"]
    assert len(sentences) == 40
    assert sentences["condition"].nunique() == 20
    assert all(one.estimate.n_unscored == 0 for one in found if one.measure == "paired_gap")


def test_a_failing_model_leaves_a_run_that_can_go_on(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr("tests.runs.test_audit.sentiment", lambda texts: [0.5])
    with pytest.raises(ValueError, match="returned shape"):
        start(Settings(model=MODEL, limit=40), tmp_path / "run", **quiet)
    left = [path.name for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert left == ["manifest.json"]
    monkeypatch.undo()
    run, _ = resume(tmp_path / "run", trust=True, **quiet)
    assert run.manifest()["status"] == "complete"


def test_phrases_sum_to_the_scores(tmp_path, quiet):
    settings = Settings(model=str(tiny.save("bert", tmp_path / "model")), studies=("gendered_stigma:rq2",), limit=24)
    run, found = start(settings, tmp_path / "run", **quiet)
    items = run.items("gendered_stigma")
    sums = [sum(probability for _, probability in json.loads(phrases)) for phrases in items["top_tokens"]]
    assert sums == pytest.approx(items["score"].to_numpy(), abs=1e-6)
    assert {one.slice_by for one in found} == {"all", "dimension", "polarity", "diagnosis"}


def test_the_same_call_again_loads_no_model_and_other_settings_are_refused(tmp_path, quiet, monkeypatch):
    settings = Settings(model=str(tiny.save("bert", tmp_path / "model")), studies=("gendered_stigma:rq1",), limit=30)
    run, found = start(settings, tmp_path / "run", **quiet)
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    monkeypatch.setattr("swapbias.runs.audit.load_readers", lambda *a, **k: pytest.fail("loaded"))
    again, same = start(settings, tmp_path / "run", **quiet)
    assert [one.row() for one in same] == [one.row() for one in found]
    assert {path: path.stat().st_mtime_ns for path in again.folder.rglob("*")} == before
    with pytest.raises(UsageError, match="was begun with limit 30, now 20"):
        start(replace(settings, limit=20), tmp_path / "run", **quiet)


def test_what_a_killed_run_left_behind_is_removed(tmp_path, quiet):
    run, _ = start(Settings(model=MODEL, studies=("occupation_sentiment",), limit=40), tmp_path / "run", **quiet)
    run.write_manifest(run.manifest() | {"status": "running"})
    (run.folder / ".report.html.1.tmp").write_text("half")
    (run.folder / ".scores").mkdir()
    (run.folder / ".scores" / "0.parquet").write_bytes(b"half")
    resume(run.folder, trust=True, **quiet)
    assert not list(run.folder.rglob(".*"))
