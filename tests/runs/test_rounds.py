"""Rounds of trials: every prompt once before any twice, limits, and what interrupts a run."""

import random

import numpy as np
import pandas as pd
import pytest

from swapbias.errors import UsageError
from swapbias.models.chat.answering import AnswerLog
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.studies import config_rows, turns
from tests.models.chat.server import ChatServer

NAME = "stigma_vignettes"
TWO = (f"{NAME}:gender", f"{NAME}:order")
ROUND = 48  # rows of each of the two


@pytest.fixture(scope="module")
def asked():
    """The prompts of two experiments, by what a model is asked."""
    names = ("gender", "order")
    return {(turns(row["text"])[-1]["content"]): row for name in names for row in config_rows(NAME, name)}


def leaning(asked, gap, seed=0):
    """Answers by chance, of which so many more are stigmatizing of women, whatever the question."""
    chance = random.Random(seed)

    def answer(prompt):
        row = asked[prompt]
        worse = chance.random() < 0.5 + gap / 2 * (1 if row["gender"] == "woman" else -1)
        values = [one.value for one in row["candidates"]]
        return "ABCDE"[values.index(1 if worse else 0)]

    return answer


def of(server, studies=TWO[:1], rows=ROUND, **more):
    chat = {"trials": 4, "concurrency": 1, "price_in": 1.0, "price_out": 2.0, **more}
    options = (ChatOptions(model="tiny", base_url=server.base_url, **chat),)
    return Settings(studies=studies, limit=rows, options=options)


def items(run):
    return pd.read_parquet(run.folder / "items" / f"{NAME}.parquet")


def test_every_prompt_is_asked_once_before_any_is_asked_twice(asked, tmp_path, quiet):
    with ChatServer(leaning(asked, 0)) as server:
        run, _ = start(of(server, TWO, trials=3), tmp_path / "run", **quiet, draw=False)
        prompts = [body["messages"][-1]["content"] for body in server.requests]
        seeds = [body["seed"] for body in server.requests]
    once = len(set(prompts))
    assert seeds == sorted(seeds)
    assert all(len(set(prompts[start : start + once])) == once for start in range(0, 3 * once, once))
    # What is written down does not tell in which order it was asked.
    assert list(dict.fromkeys(zip(items(run)["experiment"], items(run)["trial"], strict=True))) == [
        (name, trial) for name in ("gender", "order") for trial in "123"
    ]


PAID = {"price_in": 0.0, "price_out": 1000.0, "max_tokens": 2}


@pytest.mark.parametrize(
    ("limit", "trials"),
    [({"max_requests": 3 * ROUND + 5}, 3), ({"max_cost": 0.1, **PAID}, 1), ({"max_cost": 0.2, **PAID}, 2)],
)
def test_limits_end_a_run_after_whole_trials(asked, limit, trials, tmp_path, quiet):
    # By its answers alone a trial of 48 prompts costs 48 x 2 / 1000 = .096.
    with ChatServer(leaning(asked, 0)) as server:
        run, _ = start(of(server, **limit), tmp_path / "run", **quiet)
    assert len(server.requests) == trials * ROUND
    assert items(run)["trial"].astype(int).max() == trials
    assert run.manifest()["status"] == "complete"
    page = (run.folder / "report.html").read_text()
    assert f"<strong>Incomplete.</strong> Of 4 planned trials of each prompt {trials} were run: " in page


def test_less_than_one_trial_is_refused(asked, tmp_path, quiet):
    with ChatServer(leaning(asked, 0)) as server:
        for limit, said in (({"max_requests": 47}, "-M max-requests allows 47"), ({"max_cost": 0.001}, "--max-cost")):
            with pytest.raises(UsageError, match=f"One trial of each prompt takes 48 requests, and {said}"):
                start(of(server, **limit), tmp_path / "run", **quiet)
        assert server.requests == []
    with pytest.raises(UsageError, match="both -M price-in and -M price-out, and --max-cost is given"):
        ChatOptions(model="tiny", max_cost=1.0).check()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), ValueError("The service is gone.")])
def test_what_interrupts_a_run_leaves_a_report_of_its_whole_trials(asked, stop, tmp_path, quiet, monkeypatch):
    settings, add = None, AnswerLog.add

    def breaking(log, answer, prompt):
        if len(log) == 2 * ROUND + 7:
            raise stop
        add(log, answer, prompt)

    with ChatServer(leaning(asked, 0)) as server:
        settings = of(server)
        monkeypatch.setattr(AnswerLog, "add", breaking)
        with pytest.raises(type(stop)):
            start(settings, tmp_path / "run", **quiet)
        page = (tmp_path / "run/report.html").read_text()
        assert "<strong>Incomplete.</strong> Of 4 planned trials of each prompt 2 were run: " in page
        rows = pd.read_parquet(tmp_path / f"run/items/{NAME}.parquet")
        assert (set(rows["trial"]), len(rows)) == ({"1", "2"}, 2 * ROUND)
        monkeypatch.setattr(AnswerLog, "add", add)
        run, found = start(settings, tmp_path / "run", **quiet)
        assert len(server.requests) <= 4 * ROUND + 2  # no answer is requested again
    with ChatServer(leaning(asked, 0)) as server:
        _, whole = start(of(server), tmp_path / "other", **quiet)
    assert "Incomplete" not in (run.folder / "report.html").read_text()
    assert run.manifest()["status"] == "complete"
    assert [one.estimate for one in found if one.primary] != []
    assert [one.key() for one in found] == [one.key() for one in whole]


def test_two_runs_are_compared_over_the_trials_that_both_were_asked():
    from swapbias.findings import compare
    from swapbias.models.chat.chat_kind import trial_rows

    made = np.random.default_rng(1)
    rows = trial_rows([{**row, "experiment": "gender"} for row in config_rows(NAME, "gender")], 3)
    every = pd.DataFrame(rows)
    one, other = (every.assign(model_id=name, score=made.integers(0, 2, len(rows)) * 1.0) for name in "ab")
    short = other[other["trial"] != "3"]
    found, same = (
        [each for each in compare({NAME: {"a": first, "b": short}}) if each.primary]
        for first in (one, one[one["trial"] != "3"])
    )
    assert found == same
    assert found
