"""Chat models: faults are retried or end the run, requests are not repeated, keys stay hidden;
local models."""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections import Counter

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.import_utils import is_serve_available

from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.models.causal import AnswerOddsScorer
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.answer_log import Answer, AnswerLog
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.openai_client import ChatScorer
from swapbias.models.engine.generation import until
from swapbias.runs import Settings, start
from swapbias.studies import Candidate, Prompt
from swapbias.studies.chats import conversation
from tests import tiny
from tests.conftest import ROOT
from tests.models.chat.server import ChatServer, Reply, cut_off
from tests.models.engine.test_loglikelihood import whole_log_likelihood

SECRET = "sk-swapbias-secret-0123456789"
# Asks 40 prompts within a loop that runs already, as in a notebook: argv is the base URL and the log.
SCRIPT = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
from pathlib import Path
from swapbias.models.chat.openai_client import ChatScorer
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.studies.prompt import Prompt
options = ChatOptions(base_url=sys.argv[1], concurrency=4)
scorer = ChatScorer("tiny", options).keeping_answers(Path(sys.argv[2]).parent)
async def within():
    scorer.score([Prompt(f"s{n}/t0", "p", "pro", f"text {n}") for n in range(40)])
asyncio.new_event_loop().run_until_complete(within())
"""


def row(name, text=None, candidates=""):
    parts = (candidate.rpartition("=") for candidate in candidates.split("|"))
    offered = tuple(Candidate(text, float(value) if value else None) for value, _, text in parts)
    return Prompt(name, "p", "pro", text or f"Text {name}", offered)


def rows(n, trial=0):
    return [row(f"s{number}/t{trial}", f"text {number}") for number in range(n)]


def upper(prompt):
    return prompt.upper()


def scorer_of(server, log=None, **changes):
    scorer = ChatScorer(
        "tiny", ChatOptions(**{"base_url": server.base_url, "concurrency": 4, **changes})
    )
    return scorer.keeping_answers(log.parent) if log else scorer


def first(fault, prompt="text 3", times=1):
    return lambda asked, n: fault if asked == prompt and n <= times else None


def test_results_in_order():
    """Results stand in the order of the prompts, whichever answer arrives first."""
    last = threading.Event()

    def answer(prompt):
        if prompt == "text 7":
            last.set()
        if prompt == "text 0":  # held back until the last prompt was asked
            last.wait(10)
        return prompt.upper()

    with ChatServer(answer) as server:
        scorer = scorer_of(server)
        found = scorer.score(rows(8))
    assert [one.answer for one in found] == [f"TEXT {number}" for number in range(8)]
    assert last.is_set()
    answered = [one.answer for one in scorer.log.values()]
    assert (
        answered.index("TEXT 0") >= 4
    )  # with four at once the last is asked after four others are answered
    with ChatServer(upper, meet=3) as server:  # the server answers only once three wait
        scorer_of(server, concurrency=3).score(rows(12))
        assert server.most_at_once == 3


def test_request_and_answer():
    """A prompt becomes one request, and its answer one score."""
    prompt = conversation(("system", "Be brief."), ("user", "Who?"))
    with ChatServer(upper) as server:
        scorer_of(server, seed=10, temperature=0.7, max_tokens=5).score(
            [row("s1/pro/old/t3", prompt)]
        )
        (body,) = server.requests
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    assert body == {
        "model": "tiny",
        "messages": messages,
        "seed": 13,
        "temperature": 0.7,
        "max_tokens": 5,
    }
    same = [row("s1/pro/t1", "same"), row("s1/anti/t1", "same"), row("s1/pro/t2", "same")]
    with ChatServer(upper) as server:
        found = scorer_of(server).score(same)
        assert sorted(body["seed"] for body in server.requests) == [1, 2]
    assert [one.answer for one in found] == ["SAME"] * 3

    def read(prompt, text, *, cut=False):
        return float(text == "TEXT 1"), {"length": float(len(text))}

    with ChatServer(upper) as server:
        scorer = scorer_of(server).with_reader(read)
        found = scorer.score(rows(2))
        plain = scorer_of(server).score(rows(2))
    assert [one.score for one in found] == [0.0, 1.0]
    assert found[0].parts == {"tokens": 9.0, "truncated": 0.0, "length": 6.0}
    assert all(math.isnan(one.score) for one in plain)
    calls = []
    with ChatServer(upper) as server:
        scorer = scorer_of(server)
        scorer.score(rows(3))
        scorer.score([*rows(5), row("again/t0", "text 4")], calls.append)
    assert calls[0] == 3
    assert sum(calls) == 6


def test_offline_mode(monkeypatch):
    """A user's server is used in offline mode, and inference providers are not."""
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    with ChatServer(upper) as server:
        assert scorer_of(server).score(rows(1))[0].answer == "TEXT 0"
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set: unset it"):
        ChatScorer("owner/model").score(rows(1))


def broken(finish="error", **choice):
    whole = cut_off("").body
    whole["choices"][0] |= {"finish_reason": finish, **choice}
    return Reply(whole)


def error(message, **options):
    return Reply({"error": {"message": message, **options}})


@pytest.mark.parametrize(
    "fault",
    [
        "429 after 0.1",
        "500",
        "408",
        "slow",
        "cut",
        "half",
        "empty",
        "other",
        broken(),
        broken("stop", error={"message": "provider down"}),
        error("rate limited", code=429),
        Reply({"error": "overloaded"}),
    ],
    ids=str,
)
def test_passing_trouble(fault):
    """Trouble that passes is retried and repeats no other request."""
    with ChatServer(upper, fault=first(fault, times=2)) as server:
        scorer = scorer_of(server, timeout=0.5)
        found = scorer.score(rows(8))
        counts = Counter(body["messages"][0]["content"] for body in server.requests)
    assert [one.answer for one in found] == [f"TEXT {number}" for number in range(8)]
    assert counts == Counter({**{f"text {number}": 1 for number in range(8)}, "text 3": 3})
    assert sorted(answer.answer for answer in scorer.log.values()) == [one.answer for one in found]


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (
            "400",
            ValueError,
            "cannot answer s1/t0 .400: planned 400",
        ),  # the first may be refused for its text
        ("401", UsageError, "refuses the key .401"),
        ("403", UsageError, "refuses the key .403"),
        ("404", UsageError, "does not know model 'tiny' .404"),
        (
            error("no money", code=402),
            ValueError,
            "answers no more because the quota is spent .402: no money",
        ),
        (error("bad key", code="401"), UsageError, "refuses the key .401: bad key"),
        (error("gone", code=502), ValueError, "in 2 attempts .502: gone"),
        (error("odd", code="a_word"), ValueError, "in 2 attempts .odd"),
        (broken(), ValueError, "in 2 attempts .the answer broke off with an error"),
        (broken(error={"message": "down", "code": 503}), ValueError, "in 2 attempts .503: down"),
    ],
    ids=[
        "400",
        "401",
        "403",
        "404",
        "quota",
        "key in body",
        "gateway",
        "word as code",
        "broken",
        "broken with code",
    ],
)
def test_lasting_trouble(fault, kind, message):
    """Trouble that stays ends the run in the words of the service."""
    with ChatServer(upper, fault=lambda prompt, n: fault) as server:
        scorer = scorer_of(server, attempts=2, concurrency=1)
        with pytest.raises(kind, match=message):
            scorer.score(rows(20))
        assert len(server.requests) == (2 if "attempts" in message or "s1" in message else 1)
    assert len(scorer.log) == 0


def test_requests_in_flight_are_kept():
    """Answers to requests in flight are kept when another request ends the run."""
    both = threading.Event()
    refused = threading.Event()

    def fault(prompt, n):
        if prompt == "text 0":  # refused once the other is under way
            both.wait(10)
            refused.set()
        return "401" if prompt == "text 0" else None

    def answer(prompt):
        both.set()
        refused.wait(10)
        server.closing.wait(0.2)  # the refusal arrives before
        return prompt.upper()

    with ChatServer(answer, fault=fault) as server:
        scorer = scorer_of(server, concurrency=2)
        with pytest.raises(ValueError, match="Answers so far: 1"):
            scorer.score(rows(20))
        assert len(server.requests) == 2
    assert [one.answer for one in scorer.log.values()] == ["TEXT 1"]


def test_shared_requests():
    """Requests are counted by what they share, and other settings have other keys."""
    # Texts of 6 characters are 2 tokens (6 / 4, rounded up); two of ten rows have one text.
    scorer = ChatScorer("tiny", ChatOptions(base_url="http://localhost/v1"))
    found = scorer.requests([*rows(9), row("twin/t0", "text 1")])
    assert list(found.values()) == [(2, 16)] * 9
    options = ChatOptions(price_in=2.0, price_out=5.0)
    assert options.cost(18, 144) == pytest.approx((18 * 2 + 144 * 5) / 1e6)
    assert math.isnan(ChatOptions().cost(18, 144))
    changes = [
        {}, {"temperature": 0.5}, {"seed": 1}, {"max_tokens": 3}, {"provider": "together"}, {"json_schema": True},
    ]  # fmt: skip
    keys = {ChatScorer("m", ChatOptions(**one))._answer_keys(rows(1))[0] for one in changes}
    assert len(keys) == len(changes)
    assert ChatScorer("m", ChatOptions(concurrency=1, timeout=1.0))._answer_keys(rows(1))[0] in keys


URL = "http://127.0.0.1:1/v1"  # nobody listens there
# a folder; scored without trials
LOCAL_FOLDER = {"model": ".", "base_url": None}
LOG_ODDS = {"scoring": "log-odds"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"concurrency": 101}, "concurrency is 101"),
        ({"timeout": 0.0}, "timeout is 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"scoring": "guess"}, "expected sampled, log-odds"),
        ({"price_in": math.inf, "price_out": 1.0}, "price_in is inf"),
        ({"price_in": 1.0}, "-M price-in is given"),
        ({"max_cost": 1.0}, "both -M price-in and -M price-out, and --max-cost is given"),
        (
            {"base_url": "localhost:8000"},
            "'localhost:8000' is no address, expected http://host:port",
        ),
        ({"base_url": "ftp://host/v1"}, "is no address"),
        ({"base_url": "http://host:port/v1"}, "is no address"),
        ({"base_url": "http://me:key@host/v1"}, "given with a user, password or query"),
        ({"base_url": "https://host/v1?api-key=x"}, "given with a user, password or query"),
        ({"own_address": ("here",)}, "'here' is no address"),
        ({"provider": "together"}, "named with --base-url, and -M provider is given"),
        ({"provider": "local"}, "tiny runs on this machine, and --base-url is given"),
        (
            {**LOCAL_FOLDER, "provider": "together"},
            "is a folder of this machine, and -M provider is given",
        ),
        (
            {**LOCAL_FOLDER, "max_requests": 10},
            "runs on this machine, and -M max-requests is given",
        ),
        (
            {**LOCAL_FOLDER, "price_in": 1.0, "price_out": 2.0},
            "-M price-in and -M price-out is given",
        ),
        ({**LOG_ODDS, "trials": 2}, "samples nothing, and --trials is given"),
        ({**LOG_ODDS, "temperature": 0.0, "max_tokens": 1}, "-M temperature and"),
        ({"top_logprobs": 5}, "Answers are sampled, and -M top-logprobs is given"),
    ],
    ids=lambda case: " and ".join(case) if isinstance(case, dict) else None,
)
def test_contradicting_settings(changes, sentence):
    """Settings that contradict each other or are out of range are refused."""
    with pytest.raises(UsageError, match=re.escape(sentence)):
        ChatOptions(**{"model": "tiny", "base_url": URL, **changes}).check()


def test_path_as_model_and_judge(tmp_path):
    """An endpoint may name its model by a path, and a judge has no prices."""
    ChatOptions(model=str(tmp_path), base_url=URL).check()
    options = ChatOptions(
        model="tiny", base_url=URL, judge=("rater",), price_in=1.0, price_out=2.0, max_cost=3.0
    )
    (judge,) = options.of_judges()
    judge.check()
    assert (judge.model, judge.max_cost) == ("rater", None)


def test_provider_key(monkeypatch):
    """Inference providers need a key of plain characters, which is not shown."""
    with pytest.raises(UsageError, match="neither SWAPBIAS_API_KEY nor HF_TOKEN is set"):
        ChatScorer("owner/model").score(rows(1))
    monkeypatch.setenv("SWAPBIAS_API_KEY", f"{SECRET}é")
    with pytest.raises(UsageError, match="SWAPBIAS_API_KEY contains") as raised:
        ChatScorer("owner/model").score(rows(1))
    assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("fault", [None, "500"])
def test_key_is_never_shown(monkeypatch, tmp_path, fault):
    """A key is never written or shown."""
    # The server repeats the key in its refusal, as some services do.
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    accepted = SECRET if fault else "another"
    log = tmp_path / "answers.jsonl"
    with ChatServer(upper, key=accepted, fault=lambda prompt, n: fault) as server:
        scorer = scorer_of(server, log, attempts=2, concurrency=1)
        with pytest.raises(ValueError, match="Answers so far") as raised:
            scorer.score(rows(5))
        assert server.authorizations == {f"Bearer {SECRET}"}
    assert raised.value.__context__ is None
    shown = [*traceback.format_exception(raised.value), repr(vars(scorer)), repr(scorer.options)]
    shown += [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert SECRET[3:] not in "".join(shown)


def test_line_of_the_log(tmp_path):
    """A line of the log holds all about an answer."""
    path = tmp_path / "answers.jsonl"
    with ChatServer(lambda prompt: "Köchin \ud800 x") as server:
        scorer = scorer_of(server, path)
        scorer.score(rows(1))
    line = json.loads(path.read_text(encoding="utf-8"))
    assert line["prompt_id"] == "s0/t0"
    assert line["answer"] == "Köchin ? x"  # half of a surrogate pair is no text
    assert line["finish_reason"] == "stop"
    assert line["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    assert line["time"].endswith("+00:00")
    assert AnswerLog(path)[line["key"]].answer == "Köchin ? x"


@pytest.mark.parametrize(
    "torn", [b'{"key": "b", "prom', b'{"key": "b"}\n', b"\0\0\0", b"\0\0\n", b"[]\n"]
)
def test_torn_last_line(tmp_path, torn):
    """A torn last line of the log is cut."""
    path = tmp_path / "answers.jsonl"
    AnswerLog(path).add(Answer(key="a", prompt_id="1", answer="one"))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    log = AnswerLog(path)
    assert list(log) == ["a"]
    assert path.read_bytes() == whole
    log.add(Answer(key="b", prompt_id="2", answer="two"))
    assert list(AnswerLog(path)) == ["a", "b"]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
def test_stopped_run(by, tmp_path):
    """A run that is stopped keeps the answers that arrived and repeats no request."""
    path = tmp_path / "answers.jsonl"
    with ChatServer(
        upper, fault=first("slow", "text 10") if by == signal.SIGINT else None, pause=0.02
    ) as server:
        command = [sys.executable, "-c", SCRIPT, server.base_url, str(path)]
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 8):
            time.sleep(0.01)
        process.send_signal(by)
        _, shown = process.communicate(timeout=20)  # the slow answer would take 60 seconds
        assert (
            process.returncode == -signal.SIGKILL
            if by == signal.SIGKILL
            else "KeyboardInterrupt" in shown
        )
        scorer = scorer_of(server, path)
        answered = {one.prompt_id for one in scorer.log.values()}
        assert 8 <= len(answered) < 40
        found = scorer.score(rows(40))
        request_counts = {prompt.prompt_id: server.asked(prompt.text) for prompt in rows(40)}
    assert [one.answer for one in found] == [f"TEXT {number}" for number in range(40)]
    assert {request_counts[name] for name in answered} == {1}
    assert sum(request_counts.values()) <= 44  # the four under way may be asked again


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    return tiny.save_causal(tmp_path_factory.mktemp("chat") / "gpt")


def local(folder, *, batch_size=64, **changes):
    options = ChatOptions(**{"max_tokens": 4, **changes})
    return LocalChatScorer.load(str(folder), LoadOptions(batch_size=batch_size), options)


def ids_of(tokenizer, text):
    """This tokenizer puts <s> before a text and </s> behind it; a text that goes on has no </s>."""
    return tokenizer("<s>" + text, add_special_tokens=False)["input_ids"]


def answers_of(scorer, prompts):
    return [result.answer for result in scorer.score(prompts)]


def test_local_answer_and_batch(chat_model, monkeypatch):
    """A local answer does not depend on the rows beside it and is generated once."""
    prompts = [
        *rows(6),
        row("long/t1", "He is a doctor and she is a nurse."),
        row("twin/t2", "text 2"),
    ]
    whole = local(chat_model)
    calls = []
    together = answers_of(whole, prompts)
    monkeypatch.setattr(whole.model, "generate", None)
    assert [one.answer for one in whole.score(prompts, calls.append)] == together
    assert calls == [8]
    assert together == answers_of(local(chat_model, batch_size=1), prompts)
    assert together[::-1] == answers_of(local(chat_model, batch_size=3), prompts[::-1])
    trials = [row(f"s1/t{trial}", "She is a nurse.") for trial in range(4)]
    found = answers_of(local(chat_model, seed=1), trials)
    assert found == answers_of(local(chat_model, seed=1), trials)
    assert len(set(found)) == 4
    assert not set(found) & set(answers_of(local(chat_model, seed=2), trials))


def test_greedy_and_sampled(chat_model):
    """Answers are greedy at temperature zero and else drawn from the softmax."""
    tokenizer = AutoTokenizer.from_pretrained(chat_model)
    model = AutoModelForCausalLM.from_pretrained(chat_model)
    ids = ids_of(tokenizer, "She is a nurse.\n")
    start = len(ids)
    for _ in range(6):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    found = local(chat_model, temperature=0.0, max_tokens=6).score(
        [row("s/t1", "She is a nurse.")]
    )[0]
    assert found.answer == tokenizer.decode(ids[start:])
    assert found.parts["tokens"] == len(ids)
    with torch.no_grad():
        logits = model(torch.tensor([ids_of(tokenizer, "Who?\n")])).logits[0, -1]
    expected = Counter()
    for token, share in enumerate(torch.softmax(logits / 0.5, dim=-1).tolist()):
        expected[tokenizer.decode([token], skip_special_tokens=True)] += share
    n = 2000
    trials = [row(f"s/t{trial}", "Who?") for trial in range(n)]
    found = Counter(
        answers_of(local(chat_model, temperature=0.5, max_tokens=1, batch_size=500), trials)
    )
    for answer, share in expected.most_common(5):
        deviation = math.sqrt(share * (1 - share) / n)  # of a binomial share
        assert found[answer] / n == pytest.approx(share, abs=4 * deviation), answer


def test_conversation_by_turns(chat_model):
    """A conversation is given turn by turn, also to a template without a system turn."""
    output = conversation(
        ("system", "Be brief."), ("user", "Yes?"), ("assistant", "A"), ("user", "No?")
    )
    scorer = local(chat_model)
    assert scorer._encode(output) == ids_of(scorer.tokenizer, "Be brief.\nYes?\nA\nNo?\n")
    roles = "{% for m in messages %}{{ m['role'][0] + m['content'] }}{% endfor %}"
    refuses = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + roles
    )
    encoded = []
    for template in (roles, refuses):
        scorer.tokenizer.chat_template = template
        encoded.append(scorer.tokenizer.decode(scorer._encode(output), skip_special_tokens=True))
    plain = [
        scorer.tokenizer.decode(scorer.tokenizer(text)["input_ids"], skip_special_tokens=True)
        for text in ("sBe brief.uYes?aAuNo?", "uBe brief.\n\nYes?aAuNo?")
    ]
    assert encoded == plain


def test_local_limits(
    chat_model,
):
    """A local prompt that is too long, an answer that ends and a reasoning that does not are
    marked."""
    calls = []
    scorer = local(chat_model).with_reader(lambda prompt, text, *, cut: (1.0, {"correct": 1.0}))
    found = scorer.score([row("long/t1", "nurse " * 300), row("s/t1", "She")], calls.append)
    assert math.isnan(found[0].score)
    assert set(found[0].parts) == set(found[1].parts) == {"tokens", "truncated", "correct"}
    assert all(math.isnan(value) for value in found[0].parts.values())
    assert found[1].score == 1.0
    assert sum(calls) == 2
    assert len(scorer.log) == 1
    scorer = local(chat_model)._changed(ends=[5, 6])
    assert until([40, 41, 6, 42, 5], scorer.ends) == [40, 41, 6]
    assert scorer._decode_answer([40, 41, 6], [40]) == (scorer.tokenizer.decode([40, 41]), "stop")
    assert scorer._decode_answer(until([40, 41], scorer.ends), []) == (
        scorer.tokenizer.decode([40, 41]),
        "length",
    )
    scorer = local(chat_model)
    scorer.tokenizer.chat_template = "{{ messages[0]['content'] }}<think>\n"
    with pytest.raises(UsageError, match="hit the limit of 4 tokens before any text"):
        scorer.score(rows(3))
    assert all(one.answer.startswith("<think>") and one.blank for one in scorer.log.values())


@pytest.fixture(scope="module")
def odds(chat_model):
    return AnswerOddsScorer(load_scorer(str(chat_model)))


@pytest.mark.parametrize("pair", ["the nurse|the construction worker", "the doctor|the nurse"])
def test_odds_equal_slow_definition(odds, chat_model, pair):
    """Odds of two answers equal a slow product of their tokens."""
    text = "The doctor met the nurse because she was ill. Who does 'she' refer to?"
    model = AutoModelForCausalLM.from_pretrained(chat_model).eval()
    tokenizer = odds.inner.tokenizer
    ids = ids_of(tokenizer, text)
    owns = (
        tokenizer(f" {answer}", add_special_tokens=False)["input_ids"] for answer in pair.split("|")
    )
    one, other = (whole_log_likelihood(model, ids + own, len(ids)) for own in owns)
    found = odds.score([row("s", text, pair)])[0]
    assert found.parts["log_odds"] == pytest.approx(one - other, abs=1e-3)
    assert found.score == float(one > other)
    assert found.answer == pair.split("|")[one < other]
    share = math.exp(one) / (math.exp(one) + math.exp(other))
    assert json.loads(found.top_tokens)[0][1] == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("candidates", ["", "the nurse", "a|b|c", "the nurse|"])
def test_wrong_candidates(odds, candidates):
    """Candidates that are not two answers are refused with the prompt."""
    with pytest.raises(
        ValueError, match=r"s1: candidates .* expected a correct and an incorrect one"
    ):
        odds.score([row("s1", "Who?", candidates)])
    found = odds.score([row("long", "nurse " * 300, "the nurse|the doctor")])[0]
    assert math.isnan(found.score)
    assert all(math.isnan(value) for value in found.parts.values())


def _healthy(url, process):
    for _ in range(900):  # three minutes: a busy machine takes long to import
        try:
            with urllib.request.urlopen(url, timeout=1) as response:
                return response.status == 200
        except OSError:
            if process.poll() is not None:
                return False
            time.sleep(0.2)
    return False


@pytest.fixture
def transformers_service(tmp_path):
    """A tiny model with a chat template, and the address where ``transformers serve`` answers for it."""
    if not is_serve_available():
        pytest.skip("needs transformers serve: pip install 'transformers[serving]'")
    folder = tiny.save_causal(tmp_path / "served", positions=1024)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    )
    tokenizer.save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = "from transformers.cli.transformers import main; main()"
    arguments = [
        "serve",
        str(folder),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    with (tmp_path / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", command, *arguments], stdout=log, stderr=log
        )
    try:
        if not _healthy(f"http://127.0.0.1:{port}/health", process):
            pytest.skip(
                f"transformers serve does not start here: {(tmp_path / 'serve.log').read_text()[-200:]}"
            )
        yield folder, f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def test_transformers_serve(transformers_service, tmp_path, quiet):
    """An audit over transformers serve equals that of the local model."""
    # The vignettes have a system turn and a worked example; at temperature 0 both take the likeliest tokens.
    folder, url = transformers_service
    model_settings = {"model": str(folder), "trials": 1, "temperature": 0.0, "max_tokens": 6}
    items = []
    for name, options in (
        ("here", ChatOptions(**model_settings)),
        ("there", ChatOptions(**model_settings, base_url=url)),
    ):
        settings = Settings(studies=("stigma_vignettes:conditions",), limit=8, options=(options,))
        run, _ = start(settings, tmp_path / name, draw=False, **quiet)
        items.append(run.items("stigma_vignettes").drop(columns="model_id"))
    here, there = items
    assert len(set(here["answer"])) > 1
    pd.testing.assert_frame_equal(here, there)
