"""Chat models from prompts to report, over real HTTP: planted bias, trials, resuming, keys, dry runs."""

import csv
import io
import json
import math
import random
import re
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from swapbias import errors
from swapbias.cli.plans import plan_sentences
from swapbias.errors import MissingExtraError, UpstreamMissingError, UsageError
from swapbias.findings import BASELINE, compare, disaggregate
from swapbias.hub.run_cards import study_parts
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.answer_log import AnswerLog
from swapbias.models.chat.chat_kind import trial_rows
from swapbias.report import render_terminal, state_verdicts
from swapbias.runs import Settings, plan_tasks, resume, start
from swapbias.studies import PROMPT_COLUMNS, Candidate, Prompt, config_rows
from swapbias.studies.answer_scores import read_label
from swapbias.studies.chats import turns
from tests import tiny
from tests.baselines import letter
from tests.cli.test_cli import swapbias
from tests.models.chat.server import ChatServer, Reply, cut_off

STUDY = ("adjective_coreference",)


@pytest.fixture(scope="module")
def rows():
    return {
        row["text"]: row for row in config_rows("adjective_coreference", "wino_style-stereotype")
    }


def biased(rows, wrong=25):
    """Right on sentences that fit the stereotype; on the others wrong for a share of the sentences, more with dry."""

    def answer(prompt):
        row = rows[prompt]
        share = wrong * (2 if row["condition"] == "dry/bubbly" else 1)
        fails = row["group"] == "anti" and zlib.crc32(row["template"].encode()) % 100 < share
        return row["incorrect" if fails else "correct"].removeprefix("the ").capitalize() + "."

    return answer


def chat(server, **options):
    return ChatOptions(model="tiny", base_url=server.base_url, **{"trials": 2, **options})


def test_planted_bias(rows, tmp_path, quiet, monkeypatch):
    """A planted bias is found, every answer is saved and the key is not."""
    monkeypatch.setenv("SWAPBIAS_API_KEY", "sk-very-secret")
    with ChatServer(biased(rows), key="sk-very-secret") as server:
        run, found = start(
            Settings(studies=STUDY, options=(chat(server, trials=1),)), tmp_path / "run", **quiet
        )
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
        one
        for one in found
        if (one.slice_value, one.measure) == ("dry/bubbly", "bias_difference") and not one.view
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
    assert "-M scoring=log-odds" in skipped["odds"]


def test_stopped_run(rows, tmp_path, quiet, monkeypatch):
    """A stopped run goes on without repeating a request, and takes no key from the environment for
    a service of its manifest."""

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
        question_texts = len(server.requests)
        monkeypatch.setattr("swapbias.models.chat.chat_options._is_loopback", lambda url: False)
        monkeypatch.setenv("SWAPBIAS_API_KEY", "sk-mine")
        with pytest.raises(
            UsageError, match=r"which would get the key in SWAPBIAS_API_KEY\. Repeat with --trust"
        ):
            resume(tmp_path / "run", **quiet)
        assert len(server.requests) == question_texts
        monkeypatch.setenv("MINE", "sk-mine")
        run, _ = resume(tmp_path / "run", **quiet, api_key_env="MINE")
        answered = len((run.folder / "answers.jsonl").read_text().splitlines())
        assert len(server.requests) - question_texts == answered - 29  # each of the others once
    assert (run.folder / "findings.csv").read_bytes() == (
        unbroken.folder / "findings.csv"
    ).read_bytes()
    assert run.manifest()["status"] == "complete"


def test_refused_before_the_first_request(rows, tmp_path, quiet, monkeypatch):
    """Too many requests, no model or no key are refused before the first request and leave no
    folder."""
    with ChatServer(biased(rows)) as server:
        with pytest.raises(UsageError, match="takes 1,536 requests, and -M max-requests allows 10"):
            start(
                Settings(studies=STUDY, options=(chat(server, max_requests=10),)),
                tmp_path / "run",
                **quiet,
            )
        assert server.requests == []
    for name in ("SWAPBIAS_API_KEY", "HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="SWAPBIAS_API_KEY"):
        start(
            Settings(studies=STUDY, options=(ChatOptions(model="owner/name"),)),
            tmp_path / "run",
            **quiet,
        )
    with pytest.raises(UsageError, match="Name it with --chat"):
        start(Settings(options=(ChatOptions(trials=3),)), tmp_path / "run", **quiet)
    with pytest.raises(UsageError, match="name one with --chat"):
        start(Settings(studies=STUDY), tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()


def test_truncated_answers(rows, tmp_path, quiet):
    """Truncated answers are marked and counted."""
    with ChatServer(biased(rows), fault=lambda prompt, n: cut_off("The mechanic and")) as server:
        run, _ = start(
            Settings(studies=STUDY, limit=8, options=(chat(server, trials=1),)),
            tmp_path / "run",
            **quiet,
        )
    assert (run.items("adjective_coreference")["truncated"] == 1).all()
    (note,) = run.manifest()["truncated"]
    assert note.startswith("tiny: 8 of 8 answers (100.0 %) hit the limit of 16 tokens")
    assert note in (run.folder / "report.html").read_text()
    kept = [json.loads(line) for line in (run.folder / "answers.jsonl").read_text().splitlines()]
    assert {one["finish_reason"] for one in kept} == {"length"}


def test_local_chat_model(tmp_path, quiet):
    """A local chat model answers every prompt."""
    folder = tiny.save_causal(tmp_path / "local", positions=1024)
    settings = Settings(
        studies=STUDY, limit=16, options=(ChatOptions(model=str(folder), trials=2, max_tokens=4),)
    )
    run, _ = start(settings, tmp_path / "run", **quiet)
    items = run.items("adjective_coreference")
    assert len(items) == 32
    assert items["score"].isin([0.0, 100.0]).all()
    assert (
        items["said_other"] + items["said_unsure"] + items["said_correct"] + items["said_incorrect"]
        == 1
    ).all()
    assert items["correct"].str.startswith("the ").all()  # the key is still there
    again, _ = start(settings, tmp_path / "again", **quiet)
    assert again.items("adjective_coreference")["answer"].tolist() == items["answer"].tolist()
    folder = tiny.save_causal(tmp_path / "short", positions=32)
    settings = Settings(
        studies=STUDY, limit=16, options=(ChatOptions(model=str(folder), trials=1),)
    )
    _, found = start(settings, tmp_path / "short-run", **quiet)
    gap = next(one for one in found if one.measure == "paired_gap" and one.slice_by == "all")
    assert (gap.estimate.n, gap.estimate.n_unscored) == (
        0,
        1,
    )  # 8 sets of adjectives of one sentence
    assert all(
        math.isnan(one.estimate.value) for one in found
    )  # not even that neither side is answered less
    assert all(math.isnan(one.estimate.value) for one in found if one.measure != "nonanswer_gap")


def test_trials_and_differences():
    """Trials are distinguished, and differences use all of them."""
    # One sentence and two trials: with adjectives right on pro, wrong on anti both times (bias 100, 100);
    # without them right on both in trial 1 and wrong on anti in trial 2 (bias 0, 100): mean difference 100 - 50.
    base = [
        {
            **dict.fromkeys(PROMPT_COLUMNS, ""),
            "prompt_id": f"s/{side}/{condition}",
            "pair_id": f"s/{condition}",
            "group": side,
            "condition": condition,
            "template": "s",
            "experiment": "answers",
            "text": "x",
        }
        for condition in (BASELINE, "old")
        for side in ("pro", "anti")
    ]
    frame = pd.DataFrame(trial_rows(base, 2))
    assert frame["prompt_id"].tolist()[:2] == ["s/pro/baseline/t1", "s/anti/baseline/t1"]
    assert frame["prompt_id"].is_unique
    right = (frame["group"] == "pro") | ((frame["condition"] == BASELINE) & (frame["trial"] == "1"))
    shares = dict.fromkeys(("said_unsure", "said_other", "strict_other"), 0.0)
    frame = frame.assign(
        score=100.0 * right, strict_correct=right.astype(float), model_id="hand", **shares
    )
    found = disaggregate(frame, "adjective_coreference", expected={})
    difference = next(one for one in found if one.measure == "bias_difference" and not one.view)
    assert difference.estimate.value == pytest.approx(50)
    assert difference.estimate.n == 1  # sentences, not trials
    gap = next(one for one in found if one.measure == "paired_gap" and one.slice_value == "old")
    assert gap.estimate.value == pytest.approx(100)
    assert math.isnan(gap.estimate.p_value)  # one sentence says nothing
    assert math.isnan(gap.estimate.ci_low)


URL = "http://127.0.0.1:1/v1"  # nobody listens there


def options_of(**options):
    return ChatOptions(model="tiny", base_url=URL, **options)


def test_chat_model_without_question(tmp_path, quiet):
    """A chat model for which no experiment has a question is refused."""
    settings = Settings(studies=("spanish_occupations",), options=(options_of(),))
    with pytest.raises(
        UsageError, match=r"Settings of chat models are read by adjective_coreference, .+ Name it"
    ):
        start(settings, tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()
    both = replace(settings, studies=("spanish_occupations", *STUDY), limit=8)
    assert "chat" in {task.experiment.kind for task in plan_tasks(both)[0]}
    with pytest.raises(UsageError, match="Unknown config 'reply'") as raised:
        plan_tasks(Settings(studies=("adjective_coreference:reply",), options=(options_of(),)))
    named = str(raised.value).rstrip(".").partition("one of ")[2].split(", ")
    assert len(named) == len(set(named)) == 10  # eight configs, and the experiments that read them


def test_dry_run(rows, tmp_path):
    """A dry run states requests and cost and sends nothing."""
    with ChatServer(biased(rows)) as server:
        done = swapbias(
            "audit",
            "--study",
            "adjective_coreference",
            "--chat",
            "tiny",
            "--base-url",
            server.base_url,
            "-M",
            "price-in=1",
            "-M",
            "price-out=2",
            "--dry-run",
            cwd=tmp_path,
        )
        assert server.requests == []
    assert "not known" not in done.stdout
    assert "7,680 requests to send" in done.stdout  # 48 pairs x 2 sides x 16 conditions x 5 trials
    assert "at most about" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_plan_of_a_kind(tmp_path, monkeypatch):
    """A plan reads the kind of a model from its folder or the cache and else shows what each kind
    takes."""
    told = list(plan_sentences(Settings(model="owner/name")))
    assert told[0].startswith("owner/name is not on this machine, and HF_HUB_OFFLINE is set.")
    kinds = [one for one in told if one.startswith("As a ")]
    assert kinds == [
        f"As a {kind} model:"
        for kind in ("masked", "classifier", "regression", "causal", "tagger", "retrieval")
    ]
    assert any(one.startswith("gendered_stigma rq1: ") for one in told)
    told = list(plan_sentences(Settings(model="owner/name", studies=("gendered_stigma:rq1",))))
    assert [one for one in told if one.startswith("As a ")] == ["As a masked model:"]
    told = list(plan_sentences(Settings(model="owner/name", kind="causal", studies=STUDY)))
    assert told[0].startswith("adjective_coreference odds: ")
    folder = tiny.save_causal(tmp_path / "causal")
    found = lambda model, name, revision=None: str(folder / name)  # noqa: E731
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", found)
    for model, name in ((str(folder), "causal"), ("owner/name", "owner/name")):
        told = list(plan_sentences(Settings(model=model, studies=STUDY, limit=32)))
        assert told[0] == f"adjective_coreference odds: 32 prompts for {name}"


def test_plan_of_a_hub_model(tmp_path, monkeypatch):
    """A plan of a model on the Hub fetches its config and its list of modules alone."""
    folder = tiny.save_causal(tmp_path / "causal")
    monkeypatch.setattr("swapbias.hub_http.offline_reason", lambda: "")
    read = []

    def config(model, options=None):
        from transformers import AutoConfig

        read.append(model)
        return AutoConfig.from_pretrained(folder)

    monkeypatch.setattr("swapbias.models.model_config.read_config", config)
    monkeypatch.setattr("swapbias.models.encoder_layout.has_modules", lambda model, load: False)
    told = list(plan_sentences(Settings(model="owner/name", studies=STUDY, limit=32)))
    assert (told[0], read) == (
        "adjective_coreference odds: 32 prompts for owner/name",
        ["owner/name"],
    )


def test_unknown_costs(tmp_path):
    """Costs that are unknown are mentioned once in a plan and after each trial."""
    settings = Settings(studies=("gendered_stigma:choices",), limit=8, options=(options_of(),))
    told = " ".join(plan_sentences(settings))
    assert told.count("The cost is not known: give -M price-in and -M price-out.") == 1
    judged = ChatOptions(
        model="tiny", base_url="http://127.0.0.1:1/v1", judge=("rater",), max_tokens=200
    )
    told = " ".join(
        plan_sentences(Settings(studies=("stigma_vignettes:advice_gender",), options=(judged,)))
    )
    assert "The judge rater reads each answer twice" in told
    assert "Its cost is not counted." in told
    prices = {"price_in": 1.0, "price_out": 2.0}
    spent = [
        _spent(tmp_path / "free", settings),
        _spent(tmp_path / "blind", settings, counts=False, **prices),
    ]
    spent.append(_spent(tmp_path / "counted", settings, **prices))
    assert "cost not known, for no prices are given." in spent[0]
    assert "tokens not counted, cost not known." in spent[1]
    assert re.search(r"so far, [\d,]+ tokens, 0\.00\.", spent[2])


def _spent(folder, settings, *, counts=True, **prices):
    """Return the note of a run on its requests, with a service that counts tokens or not."""
    uncounted = Reply({**cut_off("A").body, "usage": None})
    lines = []
    with ChatServer(
        lambda prompt: "A", fault=lambda prompt, n: None if counts else uncounted
    ) as server:
        chosen = replace(settings, options=(chat(server, trials=1, **prices),))
        start(chosen, folder, say=lines.append, bar=lambda title, total: lambda done: None)
    return next(line for line in lines if "requests so far" in line)


def test_unavailable_experiment(tmp_path, monkeypatch):
    """An experiment without its files does not stop the others."""
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))  # holds nothing
    option = (options_of(),)
    tasks, skipped = plan_tasks(Settings(options=option))
    assert {"gendered_stigma", "stigma_vignettes"} <= {task.study.name for task in tasks}
    reasons = {one.experiment: one.reason for one in skipped if one.study == "resume_ranking"}
    assert "resumes_to_rank.json, which was not found" in reasons["single"]
    told = " ".join(plan_sentences(Settings(options=option)))
    assert "resume_ranking single (resume_ranking is made of BloombergGraphics" in told
    both = Settings(studies=("resume_ranking", "gendered_stigma:choices"), options=option)
    assert {task.study.name for task in plan_tasks(both)[0]} == {"gendered_stigma"}
    with pytest.raises(UpstreamMissingError, match=r"resumes_to_rank.json, which was not found"):
        plan_tasks(Settings(studies=("resume_ranking",), options=option))


def test_missing_library(monkeypatch):
    """An experiment whose library is missing does not stop the others."""
    find = errors.find_spec
    monkeypatch.setattr(
        errors, "find_spec", lambda name: None if name == "vaderSentiment" else find(name)
    )
    tasks, skipped = plan_tasks(Settings())
    assert {task.kind.name for task in tasks} >= {"masked"}
    assert "classifier" not in {task.kind.name for task in tasks}
    assert any(
        "vader needs vaderSentiment, which is not installed" in one.reason for one in skipped
    )
    with pytest.raises(MissingExtraError, match="vader needs vaderSentiment"):
        plan_tasks(Settings(model="vader"))
    question_texts = ChatOptions(model="tiny", base_url="http://127.0.0.1:1/v1", max_tokens=600)
    named = ("care_notes:tone", "gendered_stigma:choices")
    tasks, skipped = plan_tasks(Settings(studies=named, options=(question_texts,), limit=8))
    assert not any(task.experiment.reads.reading == "tone" for task in tasks)
    assert any(one.study == "care_notes" and "vaderSentiment" in one.reason for one in skipped)


def test_limit_of_each_trial():
    """The limit of prompts holds for each trial."""
    # 8 prompts a trial, five trials.
    told = list(plan_sentences(Settings(studies=STUDY, limit=8, options=(options_of(),))))
    assert told[0].startswith(
        "adjective_coreference answers: 40 prompts for tiny; 40 requests to send"
    )
    for most, more in ((1_535, True), (1_536, False)):  # 48 pairs x 2 sides x 16 conditions
        told = "".join(
            plan_sentences(
                Settings(studies=STUDY, options=(options_of(trials=1, max_requests=most),))
            )
        )
        assert ("That is more than -M max-requests allows: 1,535." in told) == more


# Rounds: every prompt once before any twice, limits, and what interrupts a run.

NAME = "stigma_vignettes"
TWO = (f"{NAME}:gender", f"{NAME}:order")
ROUND = 48  # rows of each of the two


@pytest.fixture(scope="module")
def question_texts():
    """The prompts of two experiments, by what a model is asked."""
    names = ("gender", "order")
    return {
        (turns(row["text"])[-1]["content"]): row
        for name in names
        for row in config_rows(NAME, name)
    }


def by_chance(question_texts):
    chance = random.Random(0)
    return lambda prompt: letter(question_texts[prompt], chance.random() < 0.5)


def settings_with(server, studies=TWO[:1], **options):
    options = {"trials": 4, "concurrency": 1, "price_in": 1.0, "price_out": 2.0, **options}
    return Settings(studies=studies, limit=ROUND, options=(chat(server, **options),))


def test_trials_in_turn(question_texts, tmp_path, quiet):
    """Every prompt is sent once before any is sent twice."""
    with ChatServer(by_chance(question_texts)) as server:
        run, _ = start(settings_with(server, TWO, trials=3), tmp_path / "run", **quiet, draw=False)
        prompts = [body["messages"][-1]["content"] for body in server.requests]
        seeds = [body["seed"] for body in server.requests]
    once = len(set(prompts))
    assert seeds == sorted(seeds)
    assert all(
        len(set(prompts[start : start + once])) == once for start in range(0, 3 * once, once)
    )
    # What is written down does not tell in which order it was asked.
    assert list(
        dict.fromkeys(zip(run.items(NAME)["experiment"], run.items(NAME)["trial"], strict=True))
    ) == [(name, trial) for name in ("gender", "order") for trial in "123"]


PAID = {"price_in": 0.0, "price_out": 1000.0, "max_tokens": 2}


@pytest.mark.parametrize(
    ("limit", "trials"),
    [
        ({"max_requests": 3 * ROUND + 5}, 3),
        ({"max_cost": 0.1, **PAID}, 1),
        ({"max_cost": 0.2, **PAID}, 2),
    ],
    ids=["requests", "cost of one trial", "cost of two trials"],
)
def test_limits_after_whole_trials(question_texts, limit, trials, tmp_path, quiet):
    """Limits of requests and cost end a run after whole trials."""
    # By its answers alone a trial of 48 prompts costs 48 x 2 / 1000 = .096.
    with ChatServer(by_chance(question_texts)) as server:
        run, _ = start(settings_with(server, **limit), tmp_path / "run", **quiet)
    assert len(server.requests) == trials * ROUND
    assert run.items(NAME)["trial"].astype(int).max() == trials
    assert run.manifest()["status"] == "complete"
    page = (run.folder / "report.html").read_text()
    assert (
        f"<strong>Incomplete.</strong> Of 4 planned trials of each prompt {trials} were run: "
        in page
    )


def test_less_than_one_trial(question_texts, tmp_path, quiet):
    """A limit below one trial is refused."""
    with ChatServer(by_chance(question_texts)) as server:
        for limit, said in (
            ({"max_requests": 47}, "-M max-requests allows 47"),
            ({"max_cost": 0.001}, "--max-cost"),
        ):
            with pytest.raises(
                UsageError, match=f"One trial of each prompt takes 48 requests, and {said}"
            ):
                start(settings_with(server, **limit), tmp_path / "run", **quiet)
        assert server.requests == []


@pytest.mark.parametrize(
    "stop",
    [KeyboardInterrupt(), ValueError("The service is gone.")],
    ids=["Ctrl-C", "service error"],
)
def test_interrupted_run(question_texts, stop, tmp_path, quiet, monkeypatch):
    """A run that is interrupted leaves a report of its whole trials."""
    settings = None
    add = AnswerLog.add

    def breaking(log, answer):
        if len(log) == 2 * ROUND + 7:
            raise stop
        add(log, answer)

    with ChatServer(by_chance(question_texts)) as server:
        settings = settings_with(server)
        monkeypatch.setattr(AnswerLog, "add", breaking)
        with pytest.raises(type(stop)):
            start(settings, tmp_path / "run", **quiet)
        page = (tmp_path / "run/report.html").read_text()
        assert (
            "<strong>Incomplete.</strong> Of 4 planned trials of each prompt 2 were run: " in page
        )
        assert json.loads((tmp_path / "run/manifest.json").read_text())["status"] == "stopped"
        rows = pd.read_parquet(tmp_path / f"run/items/{NAME}.parquet")
        assert (set(rows["trial"]), len(rows)) == ({"1", "2"}, 2 * ROUND)
        monkeypatch.setattr(AnswerLog, "add", add)
        run, found = start(settings, tmp_path / "run", **quiet)
        assert len(server.requests) <= 4 * ROUND + 2  # no answer is requested again
    with ChatServer(by_chance(question_texts)) as server:
        _, whole = start(settings_with(server), tmp_path / "other", **quiet)
    assert "Incomplete" not in (run.folder / "report.html").read_text()
    assert run.manifest()["status"] == "complete"
    assert [one.estimate for one in found if one.primary] != []
    assert [one.key() for one in found] == [one.key() for one in whole]


def test_comparison_over_common_trials():
    """Two runs are compared over the trials that both have."""
    made = np.random.default_rng(1)
    rows = trial_rows([{**row, "experiment": "gender"} for row in config_rows(NAME, "gender")], 3)
    every = pd.DataFrame(rows)
    one, other = (
        every.assign(model_id=name, score=made.integers(0, 2, len(rows)) * 1.0) for name in "ab"
    )
    short = other[other["trial"] != "3"]
    found, same = (
        [each for each in compare({NAME: {"a": first, "b": short}}) if each.primary]
        for first in (one, one[one["trial"] != "3"])
    )
    assert found == same
    assert found


# A run of which no answer can be read: no value anywhere, on no page and in no file.

NUMBERS = ("value", "ci_low", "ci_high", "p_value", "baseline")
NUMBERS += ("missing_data_low", "missing_data_high", "loo_min", "loo_max")
SHARES = re.compile("answers (not readable|unsure)")  # what is told: that all of it is unreadable


@pytest.fixture(scope="module")
def run_without_readings(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("unread")
    names = ("adjective_coreference", "stigma_vignettes:race")
    with ChatServer(lambda prompt: "%%%") as server:
        settings = Settings(studies=names, limit=32, options=(chat(server, trials=1),))
        run, findings = start(settings, folder / "run", **quiet)
    return findings, run


def numbered(rows):
    """The rows that tell a number which is no share of unreadable answers."""
    return [
        row
        for row in rows
        if not SHARES.match(row["contrast"]) and any(row[name] for name in NUMBERS)
    ]


def test_unread_answers_have_no_value(run_without_readings):
    """Answers that cannot be read leave no value in findings, files, page, card and differences."""
    found, run = run_without_readings
    every = [{name: one.row()[name] for name in (*NUMBERS, "contrast")} for one in found]
    rows = [
        {name: "" if value != value else str(value) for name, value in row.items()} for row in every
    ]
    assert len(rows) > 50
    assert numbered(rows) == []
    assert {one.verdict for one in found} == {"", "not measured"}
    with (run.folder / "findings.csv").open() as file:
        assert numbered(csv.DictReader(file)) == []
    screen = Console(file=io.StringIO(), record=True, width=300)
    screen.print(render_terminal(found, verbose=True), markup=False)
    card = "\n".join(study_parts(found, run.manifest(), model_name="owner/tiny").values())
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert len(rows) > 2  # head, rule, and a row at least
    for shown in (screen.export_text(), "\n".join(rows)):
        assert not re.search(r"\d\.\d", shown)
    page = re.sub(
        r"<(script|style|code)[\s\S]*?</\1>", "", (run.folder / "report.html").read_text()
    )
    first = re.sub(r"<[^>]+>", " ", page).partition("Published results")[0]
    assert "could not score what the question needs" in first
    assert not re.search(r"[\d.]\d+ (?:points|to)\b|Gap:|No gap:", first)
    items = {
        name: {model: run.items(name).assign(model_id=model) for model in ("a", "b")}
        for name in ("adjective_coreference", "stigma_vignettes")
    }
    differences = compare(items)
    assert differences
    assert [one for one in differences if not math.isnan(one.estimate.value)] == []


def audited_by_gender(answer, folder, study="stigma_vignettes:gender", **options):
    """The primary finding of a chat model that answers ``answer(row)``, all findings, the run, and what was said."""
    name, _, config = study.partition(":")
    rows = {turns(row["text"])[-1]["content"]: row for row in config_rows(name, config)}
    output = []
    with ChatServer(lambda prompt: answer(rows[prompt])) as server:
        settings = Settings(
            studies=(study,), options=(chat(server, trials=1, temperature=0.0, **options),)
        )
        run, findings = start(
            settings, folder, say=output.append, bar=lambda title, total: lambda done: None
        )
    (primary,) = [finding for finding in findings if finding.primary]
    return primary, findings, run, " ".join(output)


@pytest.mark.parametrize(
    "refusal",
    [
        "I refuse to select D.",
        "I'm sorry, but I can't answer yes or no to that. Choose D yourself.",
    ],
    ids=["refuses to select", "refuses to answer"],
)
def test_refusals_about_women(refusal, tmp_path):
    """A model that refuses every question about women is not measured."""
    primary, found, run, said = audited_by_gender(
        lambda row: refusal if row["group"] == "woman" else "D", tmp_path / "run"
    )
    assert math.isnan(primary.estimate.value)
    assert primary.verdict == "not measured"
    wanted = ("paired_gap", "refused", primary.subset, "all", "")
    (refused,) = [
        one
        for one in found
        if (one.measure, one.score, one.subset, one.slice_by, one.view) == wanted
    ]
    assert (refused.contrast, refused.estimate.value) == ("woman - man", 1.0)
    items = run.items("stigma_vignettes")
    women = items[items["group"] == "woman"]
    assert women["score"].isna().all()
    assert (women["refused"] == 1).all()
    assert f"refused {len(women):,} of {len(items):,} answers, and 0 are unreadable" in said
    assert "-M scoring=log-odds" in said
    page = (run.folder / "report.html").read_text()
    assert f"100.0 % ({len(women)})" in page


def test_unread_answers_change_a_verdict(tmp_path):
    """A verdict that unread answers could change is undecided."""

    def answer(row, share):
        drawn = zlib.crc32(row["prompt_id"].encode())
        if row["group"] == "woman" and drawn // 100 % 100 < share:
            return "I would rather think about it."
        return letter(row, drawn % 100 < (90 if row["group"] == "woman" else 10))

    few, *_ = audited_by_gender(lambda row: answer(row, 2), tmp_path / "few")
    assert few.missing_data_low > 0.5
    many, _, _, said = audited_by_gender(lambda row: answer(row, 80), tmp_path / "many")
    assert many.estimate.value > 0.5  # among the answers that were read
    assert many.missing_data_low < 0.05
    assert many.verdict == "undecided"
    sure = replace(many, estimate=replace(many.estimate, p_adjusted=0.001))
    assert "Counted either way, the gap is" in str(state_verdicts([sure])[0])
    assert "are unreadable" in said


def test_no_way_to_judge():
    """An answer that there is no way to judge is no negative label."""
    prompt = Prompt(
        prompt_id="p",
        pair_id="p",
        group="female",
        text="Does the patient have depression?",
        candidates=(Candidate("yes", 1.0), Candidate("no", 0.0)),
    )
    for text in (
        "As an AI I have no access to records, so I have no way to judge.",
        "There is no sign of it.",
    ):
        score, parts = read_label(prompt, text)
        assert math.isnan(score)
        assert math.isnan(parts["predicted"])
        assert parts["unanswered"] == 1
    assert read_label(prompt, "No.")[0] == 0
    assert read_label(prompt, "**Yes**")[0] == 1
