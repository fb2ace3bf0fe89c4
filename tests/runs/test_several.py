"""Several models in one folder, settings from a file, a run repeated, and what runs where nothing is named."""

import errno
import json
import re
import weakref
from importlib import import_module

import pytest

from swapbias.cli.auditing import skipped_note
from swapbias.errors import UsageError
from swapbias.runs import Run, Settings, audit_several, read_request, resume, start
from swapbias.runs.plan import fingerprints, partial_note, plan_tasks
from swapbias.runs.run import REQUIRED
from tests import tiny

several = import_module("swapbias.runs.audit")

STUDIES = ("occupation_sentiment:control",)
ONE, OTHER, BROKEN = (f"tests.runs.test_several:{name}" for name in ("one", "other", "broken"))
mended = []


def one(texts):
    return [0.5 + 0.01 * (len(text) % 7) for text in texts]


def other(texts):
    return [0.4 + 0.02 * (len(text) % 5) for text in texts]


def broken(texts):
    return one(texts) if mended else [0.5]


def test_each_model_has_a_run_and_all_have_one_comparison(tmp_path, quiet):
    done = audit_several([ONE, OTHER], Settings(studies=STUDIES), tmp_path / "all", **quiet)
    assert not done.failed
    assert [run.manifest()["settings"]["model"] for run in done.runs.values()] == [ONE, OTHER]
    table = (tmp_path / "all/comparison/side_by_side.csv").read_text()
    assert ONE in table
    assert OTHER in table
    page = (tmp_path / "all/comparison/report.html").read_text()
    linked = re.findall(r'<a href="(\.\./[^"]+)">', page)
    assert len(linked) == 2
    assert all((tmp_path / "all/comparison" / one).is_file() for one in linked)
    assert "Whether" in page or " lies " in page or " gives exactly " in page
    alone, _ = start(Settings(model=ONE, studies=STUDIES), tmp_path / "alone", **quiet)
    assert (done.runs[ONE].folder / "findings.csv").read_bytes() == (alone.folder / "findings.csv").read_bytes()


def test_a_failed_model_fails_alone_and_is_tried_again(tmp_path, quiet):
    mended.clear()
    done = audit_several([ONE, BROKEN, OTHER], Settings(studies=STUDIES), tmp_path / "all", **quiet)
    assert list(done.runs) == [ONE, OTHER]
    assert list(done.failed) == [BROKEN]
    assert "returned shape" in done.failed[BROKEN]
    finished = done.runs[ONE].manifest()["finished"]
    mended.append(True)
    again = audit_several([ONE, BROKEN, OTHER], Settings(studies=STUDIES), tmp_path / "all", **quiet)
    assert not again.failed
    assert again.runs[ONE].manifest()["finished"] == finished  # what is done is not done again
    assert BROKEN in (tmp_path / "all/comparison/side_by_side.csv").read_text()
    resume(again.runs[BROKEN].folder, trust=True, **quiet)  # each is an ordinary run


def test_a_model_twice_is_refused_and_one_name_has_two_folders(tmp_path, quiet):
    with pytest.raises(UsageError, match="each once"):
        audit_several(["vader", "vader"], Settings(), tmp_path / "all", **quiet)
    assert not (tmp_path / "all").exists()
    for place in ("a/m", "b/m"):
        (tmp_path / place).mkdir(parents=True)
    models = [str(tmp_path / place) for place in ("a/m", "b/m")]
    done = audit_several(models, Settings(), tmp_path / "all", **quiet)
    assert "it has no config.json" in done.failed[models[0]]
    assert "it has no config.json" in done.failed[models[1]]


def test_each_of_many_is_loaded_once_and_let_go_before_the_next(tmp_path, quiet, monkeypatch):
    """Five models: sentences that count them, at most one in memory, none in the next's time."""
    alive, most, loads = set(), [], []

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

    manifest = {key: [] for key in REQUIRED} | {"status": "complete"}
    monkeypatch.setattr(several, "start", start)
    monkeypatch.setattr(several, "read_run", lambda folder: None)
    monkeypatch.setattr(several, "compare_runs", lambda runs: None)
    monkeypatch.setattr(several, "write_comparison", lambda folder, compared: None)
    told, models = [], [f"m{number}" for number in range(5)]
    shown = {**quiet, "say": told.append}
    done = audit_several(models, Settings(studies=STUDIES), tmp_path / "all", **shown)
    assert loads == models
    assert set(most) == {1}
    assert told[4 + 1] == "Model 5 of 5: m4."
    assert done.failed == {"m3": "RuntimeError. Audit it alone to see more."}  # whatever it said may be a note's text
    assert list(done.runs) == [one for one in models if one != "m3"]


def test_a_damaged_file_of_a_finished_run_is_named_and_other_settings_are_refused(tmp_path, quiet):
    done = audit_several([ONE, OTHER], Settings(studies=STUDIES, limit=8), tmp_path / "all", **quiet)
    path = done.runs[ONE].folder / "results.json"
    path.write_bytes(path.read_bytes().replace(b"control", b"contrcl", 1))
    again = audit_several([ONE, OTHER], Settings(studies=STUDIES, limit=8), done.folder, **quiet)
    assert "results.json is damaged" in again.failed[ONE]
    other = audit_several([ONE, OTHER], Settings(studies=STUDIES, limit=4), done.folder, **quiet)
    assert "was begun with limit 8, now 4" in other.failed[OTHER]


def test_a_full_disk_ends_an_audit_of_many(tmp_path, quiet, monkeypatch):
    def start(settings, place, **how):
        raise OSError(errno.ENOSPC, "No space left on device", str(place))

    monkeypatch.setattr(several, "start", start)
    with pytest.raises(OSError, match="No space"):
        audit_several([ONE, OTHER], Settings(studies=STUDIES), tmp_path / "all", **quiet)


def test_a_file_names_models_studies_and_settings(tmp_path):
    (tmp_path / "mine").mkdir()
    file = tmp_path / "audit.toml"
    file.write_text(
        'models = ["mine", "vader"]\nstudies = ["occupation_sentiment"]\nlimit = 40\nmargin = 1\n'
        '[load]\nbatch_size = 8\n[chat]\nmodel = "m"\ntrials = 2\n'
    )
    models, settings, repeated = read_request(file)
    assert models == [str(tmp_path / "mine"), "vader"]
    assert (settings.studies, settings.limit, settings.margin) == (("occupation_sentiment",), 40, 1.0)
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
def test_a_file_that_says_something_else_is_refused(tmp_path, text, part):
    (tmp_path / "audit.toml").write_text(text)
    with pytest.raises(ValueError, match=part):
        read_request(tmp_path / "audit.toml")


def test_a_manifest_repeats_its_run_exactly(tmp_path, quiet):
    first, _ = start(Settings(model=ONE, studies=STUDIES, seed=3), tmp_path / "first", **quiet)
    models, settings, repeated = read_request(first.folder / "manifest.json")
    assert (models, settings) == ([ONE], Settings.from_manifest(first.manifest()["settings"]))
    again, _ = start(settings, tmp_path / "again", expected=repeated, **quiet)
    for name in ("findings.csv", "items/occupation_sentiment.parquet"):
        assert (again.folder / name).read_bytes() == (first.folder / name).read_bytes()
    for name, part in (("corpora", "prompts or word lists"), ("models", "another version")):
        changed = json.loads(json.dumps(repeated))
        changed[name][0]["sha256"] = "0" * 64
        with pytest.raises(UsageError, match=part):
            start(settings, tmp_path / name, expected=changed, **quiet)
        assert not (tmp_path / name).exists()


def test_a_causal_model_is_audited_out_of_the_box(tmp_path):
    settings = Settings(model=str(tiny.save_causal(tmp_path / "gpt")))
    tasks, skipped = plan_tasks(settings)
    assert {task.experiment.name for task in tasks} == {"odds", "antonyms"}
    part = next(task for task in tasks if task.experiment.name == "antonyms")
    assert 0 < part.n_prompts < part.n_available
    assert part.n_prompts * part.kind.readings["antonyms"].passes <= 8_000
    assert f"social_distance antonyms ({part.n_prompts} of {part.n_available:,})" in partial_note(tasks)
    assert "Read all with --study social_distance." in partial_note(tasks)
    whole, _ = plan_tasks(Settings(model=settings.model, studies=("social_distance",)))  # as it says
    assert [(task.n_prompts, task.n_available) for task in whole] == [(part.n_available, 0)]
    entry = next(one for one in fingerprints(tasks) if one["corpus"] == "social_distance")
    assert (entry["rows"], entry["of"]) == (part.n_prompts, part.n_available)  # for the card
    told = skipped_note(skipped, {"causal"})
    assert "3 masked" in told
    assert told.count("Not run") == 1
    assert "\n" not in told


def test_kind_is_tested_before_cost():
    _, skipped = plan_tasks(Settings(model="vader"))
    assert not [one for one in skipped if "many times" in one.reason]
    skipped = plan_tasks(Settings())[1]
    reasons = {one.experiment: one.reason for one in skipped}
    assert "trained for rq1 alone" in reasons["rq2"]  # not "name it", which would not run it
    for named in {one.reason.partition("run it with --study ")[2] for one in skipped} - {""}:
        mine = {one.experiment for one in skipped if one.reason.endswith(f" {named}")}
        assert mine <= {task.experiment.name for task in plan_tasks(Settings(studies=(named,), limit=8))[0]}
