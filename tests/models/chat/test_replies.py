"""Hostile replies of services: bounded, told in one sentence; no key, answer or request goes where it must not."""

import math
from dataclasses import replace

import pytest

from swapbias.errors import UsageError
from swapbias.models.chat import openai_client
from swapbias.models.chat.answering import USAGE, AnswerLog
from swapbias.models.chat.chat_options import KEYS, ChatOptions, api_key, key_names
from swapbias.models.chat.openai_client import ChatScorer
from swapbias.studies import Candidate
from tests.cli.test_cli import swapbias
from tests.models.chat.server import ChatServer, Raw, Reply, _completion
from tests.models.chat.test_service import SECRET, first, row, rows, scorer_of, upper

HOSTS = {name: f"https://{host}/v1" for host, name in KEYS.items()}


def reply(**choice):
    """A reply whose one choice says other things as well."""
    whole = _completion("TEXT 3")
    whole["choices"][0] |= choice
    return whole


HOSTILE = {
    "packed otherwise": Raw(b"x", {"Content-Encoding": "gzip"}),
    "deep": Raw(b'{"choices": ' + b"[" * 40_000 + b"]" * 40_000 + b"}"),
    "many digits": Raw(b'{"choices": ' + b"9" * 5_000 + b"}"),
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_a_reply_that_cannot_be_read_is_one_sentence_and_loses_nothing(sent, tmp_path):
    with ChatServer(upper, fault=first(sent, times=99)) as server:
        scorer = scorer_of(server, attempts=2, concurrency=1)
        scorer.log = AnswerLog(tmp_path / "answers.jsonl")
        with pytest.raises(ValueError, match=r"in 2 attempts.*Answers in answers.jsonl: 3") as raised:
            scorer.score(rows(5))
    assert "\n" not in str(raised.value)
    assert len(AnswerLog(tmp_path / "answers.jsonl")) == 3


COUNTS = [math.nan, math.inf, 10**400, -1, True, "7", 2.5, [7], {}, None, 2**62]
REASONS = ["x" * 10**5, {"a": 1}, ["stop"], 7, "\ud800"]


def test_a_count_that_is_none_is_left_out_and_a_reason_of_any_kind_is_short(tmp_path):
    def fault(prompt, n):
        place = int(prompt.split()[1])
        whole = reply(finish_reason=REASONS[place % len(REASONS)])
        return Reply({**whole, "usage": dict.fromkeys(USAGE, COUNTS[place])})

    with ChatServer(upper, fault=fault) as server:
        scorer = scorer_of(server, price_in=1.0, price_out=1.0)
        scorer.log = AnswerLog(tmp_path / "answers.jsonl")
        found = scorer.score(rows(len(COUNTS)))
    assert {one.answer for one in found} == {"TEXT 3"}
    assert all(math.isnan(one.parts["tokens"]) for one in found)
    again = AnswerLog(tmp_path / "answers.jsonl").values()
    assert all(one.usage == {} and len(one.finish_reason) <= openai_client.MAX_REASON for one in again)
    assert len(again) == len(COUNTS)
    assert "tokens not counted" in scorer.notes["spent"]


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_a_known_key_goes_to_its_own_service_alone(name, monkeypatch):
    monkeypatch.setenv(name, "secret-of-this-service")
    assert api_key(ChatOptions(model="m", base_url=HOSTS[name])) == "secret-of-this-service"
    host = HOSTS[name].removeprefix("https://").removesuffix("/v1")
    others = [url for key, url in HOSTS.items() if key != name]
    others += [f"https://{host}.evil.example/v1", f"https://evil.example/{host}", f"https://{host}:8443/v1"]
    others += [f"https://x{host}/v1", "http://localhost:8000/v1", "https://evil.example/v1"]
    for url in others:
        assert api_key(ChatOptions(model="m", base_url=url)) == "none", url


def test_a_key_that_is_named_goes_where_the_user_says(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-openai")
    named = ChatOptions(model="m", base_url="https://proxy.example/v1", key_name="OPENAI_API_KEY")
    assert api_key(named) == "secret-of-openai"
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("SWAPBIAS_API_KEY", "another")
    with pytest.raises(UsageError, match="-M api-key-env names OPENAI_API_KEY, which is not set"):
        api_key(named)
    names = key_names(ChatOptions(model="m", base_url=HOSTS["OPENAI_API_KEY"]))
    assert names == ("SWAPBIAS_API_KEY", "OPENAI_API_KEY")
    monkeypatch.setenv("SWAPBIAS_API_KEY", "EMPTY")
    with ChatServer(lambda prompt: "EMPTY room") as server:
        assert scorer_of(server).score(rows(1))[0].answer == "EMPTY room"


@pytest.mark.parametrize(
    "url",
    ["http://localhost:1/v1", "http://127.0.0.1/v1", "http://127.9.9.9/v1", "http://[::1]:8000/v1", "https://a.b/v1"],
)
def test_this_machine_may_be_asked_in_the_open(url):
    ChatOptions(model="m", base_url=url).check_open()


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.5:8000/v1", "http://gpu:8000/v1", "http://127.0.0.1.evil.example/v1", "http://localhost.evil.example/v1",
     "http://0.0.0.0:8000/v1", "HTTP://API.OPENAI.COM/v1"],
)  # fmt: skip
def test_another_machine_is_asked_over_http_only_where_the_user_allows_it(url, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    asked = ChatOptions(model="m", base_url=url)
    for refuse in (asked.check_open, lambda: api_key(asked), lambda: ChatScorer("m", asked).score(rows(1))):
        with pytest.raises(UsageError, match=r"over http, where anybody.*-M own-address"):
            refuse()
    ChatOptions(model="m", base_url=url, own_address=(url,)).check_open()


def test_the_command_refuses_and_allows(tmp_path, monkeypatch):
    chosen = ("--study", "gendered_stigma:choices", "--limit", "2", "--trials", "1", "--out", tmp_path / "run")
    done = swapbias("audit", "--chat", "m", "--base-url", "http://gpu:8000/v1", *chosen)
    assert (done.returncode, "-M own-address" in done.stderr) == (2, True)
    with ChatServer(lambda prompt: "A", model="m", key=SECRET) as server:
        named = ("--base-url", server.base_url, "-M", "api-key-env=MY_KEY")
        assert swapbias("audit", "--chat", "m", *named, *chosen, MY_KEY="wrong-secret").returncode == 2
        assert swapbias("audit", "--resume", tmp_path / "run").returncode == 2  # by the usual name there is none
        done = swapbias("audit", "--resume", tmp_path / "run", "-M", "api-key-env=MY_KEY", MY_KEY=SECRET)
        assert done.returncode == 0, done.stderr
    held = "".join(one.read_text(errors="replace") for one in (tmp_path / "run").rglob("*") if one.is_file())
    assert SECRET not in held
    assert "MY_KEY" not in held


ECHOES = {
    "answer": lambda: reply(message={"role": "assistant", "content": f"Your key is {SECRET}, is it?"}),
    "reason": lambda: reply(finish_reason=SECRET),
    "token": lambda: reply(logprobs={"content": [{"token": SECRET, "logprob": 0, "top_logprobs": [
        {"token": f"A{SECRET}", "logprob": -0.1}]}]}),
}  # fmt: skip


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("scoring", ["sampled", "log-odds"])
def test_an_echoed_key_reaches_no_answer(echo, scoring, monkeypatch, tmp_path):
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    with ChatServer(upper, fault=lambda prompt, n: Reply(echo())) as server:
        scorer = scorer_of(server, scoring=scoring)
        scorer.log = AnswerLog(tmp_path / "answers.jsonl")
        try:
            one = replace(row("s0/t0", "Is it? yes or no"), candidates=(Candidate("yes", 1.0), Candidate("no", 0.0)))
            found = repr(scorer.score([one]))
        except ValueError as error:
            found = str(error)
    assert SECRET not in found + (tmp_path / "answers.jsonl").read_text() + repr(scorer.log)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_what_is_asked_follows_to_no_other_host(status, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    with ChatServer(upper) as other:
        moved = Reply({}, status, {"Location": f"{other.base_url}/chat/completions"})
        with (
            ChatServer(upper, fault=lambda prompt, n: moved) as server,
            pytest.raises(ValueError, match="another address"),
        ):
            scorer_of(server, attempts=2).score(rows(1))
        assert (other.requests, other.authorizations) == ([], set())
