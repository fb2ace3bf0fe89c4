"""Chat models from prompts to report, over real HTTP: planted bias, trials, resuming, keys, dry runs."""

import json
import math
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from swapbias.cli.auditing import plan_sentences
from swapbias.errors import UsageError
from swapbias.findings import disaggregate
from swapbias.findings.predictions import BASELINE
from swapbias.models.chat.chat_kind import trial_rows
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings, plan_tasks
from swapbias.studies.catalogue import config_rows
from swapbias.studies.study import PROMPT_COLUMNS
from tests import tiny
from tests.cli.test_cli import swapbias
from tests.models.chat.server import ChatServer, cut_off

STUDY = ("adjective_coreference",)


@pytest.fixture(scope="module")
def rows():
    return {row["text"]: row for row in config_rows("adjective_coreference", "wino_style-stereotype")}


def biased(rows, wrong=25):
    """Right on sentences that fit the stereotype; on the others wrong for a share of the sentences, more with dry."""

    def answer(prompt):
        row = rows[prompt]
        share = wrong * (2 if row["condition"] == "dry/bubbly" else 1)
        fails = row["group"] == "anti" and zlib.crc32(row["template"].encode()) % 100 < share
        return row["incorrect" if fails else "correct"].removeprefix("the ").capitalize() + "."

    return answer


def chat(server, **more):
    return ChatOptions(model="tiny", base_url=server.base_url, **{"trials": 2, **more})


def test_a_planted_bias_is_found_and_every_answer_is_saved(rows, tmp_path, quiet, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", "sk-very-secret")
    with ChatServer(biased(rows), key="sk-very-secret") as server:
        run, found = start(Settings(studies=STUDY, options=(chat(server, trials=1),)), tmp_path / "run", **quiet)
    templates = {row["template"] for row in rows.values()}
    codes = [zlib.crc32(name.encode()) % 100 for name in templates]
    planted = {
        "baseline": 100 * np.mean([c < 25 for c in codes]),
        "dry/bubbly": 100 * np.mean([c < 50 for c in codes]),
    }
    gaps = {one.slice_value: one for one in found if one.measure == "paired_gap" and not one.view}
    for condition, share in planted.items():
        assert gaps[condition].estimate.value == pytest.approx(share)
    paired = next(
        one for one in found if (one.slice_value, one.measure) == ("dry/bubbly", "bias_difference") and not one.view
    )
    assert paired.estimate.value == pytest.approx(planted["dry/bubbly"] - planted["baseline"])
    assert paired.estimate.p_value < 0.05
    assert paired.estimate.n == len(templates)
    lines = (run.folder / "answers.jsonl").read_text().splitlines()
    assert len(lines) == len(server.requests) == len(rows)
    assert "adjective_coreference" in (run.folder / "report.html").read_text()
    for path in run.folder.rglob("*"):
        assert not path.is_file() or b"sk-very-secret" not in path.read_bytes(), path
    skipped = {one["experiment"]: one["reason"] for one in run.manifest()["skipped"]}
    assert "needs a causal model" in skipped["odds"]


def test_a_stopped_run_goes_on_without_asking_twice_and_gives_no_key_because_it_names_a_service(
    rows, tmp_path, quiet, monkeypatch
):
    def fault(prompt, n):
        return "401" if len(server.requests) == 30 else None

    with ChatServer(biased(rows), fault=fault) as server:
        options = (chat(server, concurrency=1, own_address=(server.base_url,)),)
        settings = Settings(studies=STUDY, limit=64, options=options)
        with pytest.raises(ValueError, match="key"):
            start(settings, tmp_path / "run", **quiet)
        assert len((tmp_path / "run" / "answers.jsonl").read_text().splitlines()) == 29
        server.fault = lambda prompt, n: None
        unbroken, _ = start(settings, tmp_path / "unbroken", **quiet)
        asked = len(server.requests)
        monkeypatch.setattr("swapbias.models.chat.chat_options._is_loopback", lambda url: False)
        monkeypatch.setenv("SWAPBIAS_API_KEY", "sk-mine")
        with pytest.raises(UsageError, match=r"which would get the key in SWAPBIAS_API_KEY\. Repeat with --trust"):
            resume(tmp_path / "run", **quiet)
        assert len(server.requests) == asked
        monkeypatch.setenv("MINE", "sk-mine")
        run, _ = resume(tmp_path / "run", **quiet, key_name="MINE")
        answered = len((run.folder / "answers.jsonl").read_text().splitlines())
        assert len(server.requests) - asked == answered - 29  # each of the others once
    assert (run.folder / "findings.csv").read_bytes() == (unbroken.folder / "findings.csv").read_bytes()
    assert run.manifest()["status"] == "complete"


def test_too_many_requests_no_model_or_no_key_leave_nothing(rows, tmp_path, quiet, monkeypatch):
    with ChatServer(biased(rows)) as server:
        with pytest.raises(UsageError, match="takes 1,536 requests, and -M max-requests allows 10"):
            start(Settings(studies=STUDY, options=(chat(server, max_requests=10),)), tmp_path / "run", **quiet)
        assert server.requests == []
    for name in ("SWAPBIAS_API_KEY", "HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="SWAPBIAS_API_KEY"):
        start(Settings(studies=STUDY, options=(ChatOptions(model="owner/name"),)), tmp_path / "run", **quiet)
    with pytest.raises(UsageError, match="Name it with --chat"):
        start(Settings(options=(ChatOptions(trials=3),)), tmp_path / "run", **quiet)
    with pytest.raises(UsageError, match="name one with --chat"):
        start(Settings(studies=STUDY), tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()


def test_truncated_answers_are_marked(rows, tmp_path, quiet):
    with ChatServer(biased(rows), fault=lambda prompt, n: cut_off("The mechanic and")) as server:
        run, _ = start(Settings(studies=STUDY, limit=8, options=(chat(server, trials=1),)), tmp_path / "run", **quiet)
    assert (run.items("adjective_coreference")["truncated"] == 1).all()
    (note,) = run.manifest()["truncated"]
    assert note.startswith("tiny: 8 of 8 answers (100.0 %) were cut off at 16 tokens")
    assert note in (run.folder / "report.html").read_text()
    kept = [json.loads(line) for line in (run.folder / "answers.jsonl").read_text().splitlines()]
    assert {one["finish_reason"] for one in kept} == {"length"}


def test_a_local_chat_model_answers_every_prompt(tmp_path, quiet):
    folder = tiny.save_causal(tmp_path / "local", positions=1024)
    settings = Settings(studies=STUDY, limit=16, options=(ChatOptions(model=str(folder), trials=2, max_tokens=4),))
    run, _ = start(settings, tmp_path / "run", **quiet)
    items = run.items("adjective_coreference")
    assert len(items) == 32
    assert items["score"].isin([0.0, 100.0]).all()
    assert (items["said_other"] + items["said_unsure"] + items["said_correct"] + items["said_incorrect"] == 1).all()
    assert items["correct"].str.startswith("the ").all()  # the key is still there
    again, _ = start(settings, tmp_path / "again", **quiet)
    assert again.items("adjective_coreference")["answer"].tolist() == items["answer"].tolist()
    folder = tiny.save_causal(tmp_path / "short", positions=32)
    settings = Settings(studies=STUDY, limit=16, options=(ChatOptions(model=str(folder), trials=1),))
    _, found = start(settings, tmp_path / "short-run", **quiet)
    gap = next(one for one in found if one.measure == "paired_gap" and one.slice_by == "all")
    assert (gap.estimate.n, gap.estimate.n_unscored) == (0, 1)  # 8 sets of adjectives of one sentence
    assert all(math.isnan(one.estimate.value) for one in found)  # not even that neither side is answered less
    assert all(math.isnan(one.estimate.value) for one in found if one.measure != "nonanswer_gap")


def test_trials_are_told_apart_and_differences_use_them():
    # One sentence and two trials: with adjectives right on pro, wrong on anti both times (bias 100, 100);
    # without them right on both in trial 1 and wrong on anti in trial 2 (bias 0, 100): mean difference 100 - 50.
    base = [
        {**dict.fromkeys(PROMPT_COLUMNS, ""), "prompt_id": f"s/{side}/{condition}", "pair_id": f"s/{condition}",
         "group": side, "condition": condition, "template": "s", "experiment": "answers", "text": "x"}
        for condition in (BASELINE, "old") for side in ("pro", "anti")
    ]  # fmt: skip
    frame = pd.DataFrame(trial_rows(base, 2))
    assert frame["prompt_id"].tolist()[:2] == ["s/pro/baseline/t1", "s/anti/baseline/t1"]
    assert frame["prompt_id"].is_unique
    right = (frame["group"] == "pro") | ((frame["condition"] == BASELINE) & (frame["trial"] == "1"))
    shares = dict.fromkeys(("said_unsure", "said_other", "strict_other"), 0.0)
    frame = frame.assign(score=100.0 * right, strict_correct=right.astype(float), model_id="hand", **shares)
    found = disaggregate(frame, "adjective_coreference", expected={})
    difference = next(one for one in found if one.measure == "bias_difference" and not one.view)
    assert difference.estimate.value == pytest.approx(50)
    assert difference.estimate.n == 1  # sentences, not trials
    gap = next(one for one in found if one.measure == "paired_gap" and one.slice_value == "old")
    assert gap.estimate.value == pytest.approx(100)
    assert gap.estimate.p_value == 1  # the sign of one sentence says nothing
    assert math.isnan(gap.estimate.ci_low)


URL = "http://127.0.0.1:1/v1"  # nobody listens there


def options_of(**more):
    return ChatOptions(model="tiny", base_url=URL, **more)


def test_a_chat_model_that_nothing_asks_is_refused(tmp_path, quiet):
    settings = Settings(studies=("spanish_occupations",), options=(options_of(),))
    with pytest.raises(
        UsageError, match=r"Settings of chat models are read by adjective_coreference and .+ Name it as well"
    ):
        start(settings, tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()
    both = replace(settings, studies=("spanish_occupations", *STUDY), limit=8)
    assert "chat" in {task.experiment.kind for task in plan_tasks(both)[0]}
    with pytest.raises(UsageError, match="Unknown config 'reply'") as raised:
        plan_tasks(Settings(studies=("adjective_coreference:reply",), options=(options_of(),)))
    named = str(raised.value).rstrip(".").partition("one of ")[2].split(", ")
    assert len(named) == len(set(named)) == 8  # six configs, and the experiments that read them


@pytest.mark.parametrize("given", [{"model": "owner/name", "provider": "local"}, {"model": "folder"}])
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_requests": 10}, "-M max-requests"),
        ({"price_in": 1.0, "price_out": 2.0}, "-M price-in and -M price-out"),
    ],
)
def test_a_model_that_runs_here_takes_no_settings_of_a_service(tmp_path, quiet, given, changes, named):
    model = str(tmp_path) if given["model"] == "folder" else given["model"]
    settings = Settings(studies=STUDY, options=(ChatOptions(**{**given, **changes, "model": model}),))
    with pytest.raises(UsageError, match=f"runs on this machine, and {named} is given"):
        start(settings, tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()


def test_a_model_runs_here_or_at_a_service_and_not_both(tmp_path):
    with pytest.raises(UsageError, match="and --base-url is given"):
        ChatOptions(model="owner/name", provider="local", base_url=URL).check()
    with pytest.raises(UsageError, match="is a folder of this machine, and -M provider is given"):
        ChatOptions(model=str(tmp_path), provider="together").check()
    ChatOptions(model=str(tmp_path), base_url=URL).check()  # an endpoint may call its model by a path
    judge = options_of(judge="rater", price_in=1.0, price_out=2.0, max_cost=3.0).of_judge()
    judge.check()
    assert (judge.model, judge.max_cost) == ("rater", None)


def test_a_dry_run_tells_requests_and_cost_and_sends_nothing(rows, tmp_path):
    with ChatServer(biased(rows)) as server:
        done = swapbias(
            "audit", "--study", "adjective_coreference", "--chat", "tiny", "--base-url", server.base_url,
            "-M", "price-in=1", "-M", "price-out=2", "--dry-run", cwd=tmp_path,
        )  # fmt: skip
        assert server.requests == []
    assert "7,680 requests to send" in done.stdout  # 48 pairs x 2 sides x 16 conditions x 5 trials
    assert "at most about" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_asks_nobody_what_kind_a_model_is(monkeypatch):
    from transformers import AutoConfig

    monkeypatch.setattr(AutoConfig, "from_pretrained", None)  # to call it is an error
    with pytest.raises(UsageError, match=r"a dry run asks nobody what kind of model it is. Pass --kind"):
        list(plan_sentences(Settings(model="owner/name")))
    told = list(plan_sentences(Settings(model="owner/name", kind="causal", studies=STUDY)))
    assert told[0].startswith("adjective_coreference odds: ")


def test_a_dry_run_reads_the_kind_of_a_model_in_a_folder_or_in_the_cache(tmp_path, monkeypatch):
    folder = tiny.save_causal(tmp_path / "causal")
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache", lambda model, name, revision=None: str(folder / name)
    )
    for model in (str(folder), "owner/name"):
        told = list(plan_sentences(Settings(model=model, studies=STUDY, limit=32)))
        assert told[0] == f"adjective_coreference odds: 32 prompts for {model}"


def test_the_limit_holds_for_each_trial():
    # 8 prompts a trial, five trials.
    told = list(plan_sentences(Settings(studies=STUDY, limit=8, options=(options_of(),))))
    assert told[0].startswith("adjective_coreference answers: 40 prompts for tiny; 40 requests to send")
    for most, more in ((1_535, True), (1_536, False)):  # 48 pairs x 2 sides x 16 conditions
        told = "".join(plan_sentences(Settings(studies=STUDY, options=(options_of(trials=1, max_requests=most),))))
        assert ("That is more than -M max-requests allows: 1,535." in told) == more
