"""Hostile and failing services: bounded waiting, one sentence, and no key or request at a wrong
host."""

import logging
import math
from dataclasses import replace

import pytest

from swapbias.errors import UsageError
from swapbias.models import Request
from swapbias.models.chat import ChatOptions, load_chat, request_pass
from swapbias.models.chat.answer_log import USAGE, Answer, AnswerLog
from swapbias.models.chat.answering import FIRST_ANSWERS, option_fields
from swapbias.models.chat.chat_options import KEYS, api_key, key_names
from swapbias.models.chat.openai_client import ChatScorer
from swapbias.studies import Candidate
from swapbias.studies.answer_scores import read_option
from tests.cli.test_cli import swapbias
from tests.models.chat.server import ChatServer, Raw, Reply, _completion, cut_off
from tests.models.chat.test_service import SECRET, first, row, rows, scorer_of, upper

HOSTS = {name: f"https://{host}/v1" for host, name in KEYS.items()}


def reply(**choice):
    whole = _completion("TEXT 3")
    whole["choices"][0] |= choice
    return whole


HOSTILE = {
    "packed otherwise": Raw(b"x", {"Content-Encoding": "gzip"}),
    "deep": Raw(b'{"choices": ' + b"[" * 40_000 + b"]" * 40_000 + b"}"),
    "many digits": Raw(b'{"choices": ' + b"9" * 5_000 + b"}"),
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_unreadable_reply(sent, tmp_path):
    """A reply that cannot be read loses its prompt alone, with a short reason."""
    with ChatServer(upper, fault=first(sent, times=99)) as server:
        scorer = scorer_of(server, tmp_path / "answers.jsonl", attempts=2, concurrency=1)
        scorer.score(rows(5))
    answers = AnswerLog(tmp_path / "answers.jsonl").values()
    (withheld,) = [answer for answer in answers if answer.withheld]
    assert (withheld.prompt_id, withheld.withheld, len(answers)) == ("s3/t0", "unanswered", 5)
    assert withheld.reason
    assert "\n" not in withheld.reason


COUNTS = [math.nan, math.inf, 10**400, -1, True, "7", 2.5, [7], {}, None, 2**62]
REASONS = ["x" * 10**5, {"a": 1}, ["stop"], 7, "\ud800"]


def test_wrong_counts_and_reasons(tmp_path):
    """A wrong count of tokens is left out, and a reason of any kind is short."""

    def fault(prompt, n):
        place = int(prompt.split()[1])
        whole = reply(finish_reason=REASONS[place % len(REASONS)])
        return Reply({**whole, "usage": dict.fromkeys(USAGE, COUNTS[place])})

    with ChatServer(upper, fault=fault) as server:
        scorer = scorer_of(server, tmp_path / "answers.jsonl", price_in=1.0, price_out=1.0)
        found = scorer.score(rows(len(COUNTS)))
    assert {one.answer for one in found} == {"TEXT 3"}
    assert all(math.isnan(one.parts["tokens"]) for one in found)
    again = AnswerLog(tmp_path / "answers.jsonl").values()
    assert all(
        one.usage == {} and len(one.finish_reason) <= request_pass.MAX_REASON for one in again
    )
    assert len(again) == len(COUNTS)
    assert "tokens not counted" in scorer.notes["spent"]


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_known_key(name, monkeypatch):
    """A key that is known for a service goes to that service alone."""
    monkeypatch.setenv(name, "secret-of-this-service")
    assert api_key(ChatOptions(model="m", base_url=HOSTS[name])) == "secret-of-this-service"
    host = HOSTS[name].removeprefix("https://").removesuffix("/v1")
    others = [url for key, url in HOSTS.items() if key != name]
    others += [
        f"https://{host}.evil.example/v1",
        f"https://evil.example/{host}",
        f"https://{host}:8443/v1",
    ]
    others += [f"https://x{host}/v1", "http://localhost:8000/v1", "https://evil.example/v1"]
    for url in others:
        assert api_key(ChatOptions(model="m", base_url=url)) == "none", url
    monkeypatch.setenv("SWAPBIAS_API_KEY", " one\n")
    with ChatServer(upper) as server:
        scorer_of(server).score(rows(1))
        assert server.authorizations == {"Bearer one"}


def test_named_key(monkeypatch):
    """A key that a user names goes where the user says."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-openai")
    named = ChatOptions(
        model="m", base_url="https://proxy.example/v1", api_key_env="OPENAI_API_KEY"
    )
    assert api_key(named) == "secret-of-openai"
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("SWAPBIAS_API_KEY", "EMPTY")
    with pytest.raises(UsageError, match="-M api-key-env names OPENAI_API_KEY, which is not set"):
        api_key(named)
    names = key_names(ChatOptions(model="m", base_url=HOSTS["OPENAI_API_KEY"]))
    assert names == ("SWAPBIAS_API_KEY", "OPENAI_API_KEY")
    with ChatServer(lambda prompt: "EMPTY room") as server:
        assert scorer_of(server).score(rows(1))[0].answer == "EMPTY room"


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.5:8000/v1",
        "http://gpu:8000/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://localhost.evil.example/v1",
        "http://0.0.0.0:8000/v1",
        "HTTP://API.OPENAI.COM/v1",
    ],
)
def test_other_machine_over_http(url, monkeypatch):
    """Another machine is used over HTTP only where the user allows it."""
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    options = ChatOptions(model="m", base_url=url)
    for refuse in (
        options.check_open,
        lambda: api_key(options),
        lambda: ChatScorer("m", options).score(rows(1)),
    ):
        with pytest.raises(UsageError, match=r"over http, where anybody.*-M own-address"):
            refuse()
    ChatOptions(model="m", base_url=url, own_address=(url,)).check_open()
    for here in ("localhost:1", "127.0.0.1", "127.9.9.9", "[::1]:8000"):
        ChatOptions(model="m", base_url=f"http://{here}/v1").check_open()


def test_command_refuses_and_allows(tmp_path, monkeypatch):
    """The command refuses HTTP to another machine and allows it where it is declared."""
    chosen = (
        "--study",
        "gendered_stigma:choices",
        "--limit",
        "2",
        "--trials",
        "1",
        "--out",
        tmp_path / "run",
    )
    done = swapbias("audit", "--chat", "m", "--base-url", "http://gpu:8000/v1", *chosen)
    assert (done.returncode, "-M own-address" in done.stderr) == (2, True)
    with ChatServer(lambda prompt: "A", model="m", key=SECRET) as server:
        named = ("--base-url", server.base_url, "-M", "api-key-env=MY_KEY")
        assert (
            swapbias("audit", "--chat", "m", *named, *chosen, MY_KEY="wrong-secret").returncode == 2
        )
        assert (
            swapbias("audit", "--resume", tmp_path / "run").returncode == 2
        )  # by the usual name there is none
        done = swapbias(
            "audit", "--resume", tmp_path / "run", "-M", "api-key-env=MY_KEY", MY_KEY=SECRET
        )
        assert done.returncode == 0, done.stderr
    kept = "".join(
        one.read_text(errors="replace") for one in (tmp_path / "run").rglob("*") if one.is_file()
    )
    assert SECRET not in kept
    assert "MY_KEY" not in kept


ECHOES = {
    "answer": lambda: reply(
        message={"role": "assistant", "content": f"Your key is {SECRET}, is it?"}
    ),
    "reason": lambda: reply(finish_reason=SECRET),
    "token": lambda: reply(
        logprobs={
            "content": [
                {
                    "token": SECRET,
                    "logprob": 0,
                    "top_logprobs": [{"token": f"A{SECRET}", "logprob": -0.1}],
                }
            ]
        }
    ),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("scoring", ["sampled", "log-odds"])
def test_echoed_key(echo, scoring, monkeypatch, tmp_path):
    """A key that a service echoes reaches no answer, log or error."""
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    with ChatServer(upper, fault=lambda prompt, n: Reply(echo())) as server:
        scorer = scorer_of(server, tmp_path / "answers.jsonl", scoring=scoring)
        try:
            one = replace(
                row("s0/t0", "Is it? yes or no"),
                candidates=(Candidate("yes", 1.0), Candidate("no", 0.0)),
            )
            found = repr(scorer.score([one]))
        except ValueError as error:
            found = str(error)
    assert SECRET not in found + (tmp_path / "answers.jsonl").read_text() + repr(scorer.log)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_to_another_host(status, monkeypatch):
    """A request follows no redirect to another host."""
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    with ChatServer(upper) as other:
        moved = Reply({}, status, {"Location": f"{other.base_url}/chat/completions"})
        with (
            ChatServer(upper, fault=lambda prompt, n: moved) as server,
            pytest.raises(ValueError, match="another address"),
        ):
            scorer_of(server, attempts=2).score(rows(1))
        assert (other.requests, other.authorizations) == ([], set())


def refusing(server, setting, message="unknown field"):
    """A service whose models do not know a setting, in the words of OpenAI."""
    reply = Reply(
        {"error": {"message": message, "param": setting, "code": "unsupported_parameter"}}, 400
    )
    return lambda prompt, n: reply if setting in server.requests[-1] else None


def test_other_name_of_max_tokens():
    """A model that uses another name for the limit of tokens is asked by that name."""
    message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
    with ChatServer(upper) as server:
        server.fault = refusing(server, "max_tokens", message)
        found = scorer_of(server, max_tokens=9, concurrency=1).score(rows(5))
        sent = [
            {name: body[name] for name in request_pass.LENGTHS if name in body}
            for body in server.requests
        ]
    assert [one.answer for one in found] == [f"TEXT {number}" for number in range(5)]
    assert sent == [{"max_tokens": 9}, *[{"max_completion_tokens": 9}] * 5]
    message = "neither max_tokens nor max_completion_tokens is known here"
    reply = Reply({"error": {"message": message, "param": "max_tokens"}}, 400)
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        with pytest.raises(ValueError, match=r"cannot answer s0/t0 .400: neither max_tokens nor"):
            scorer_of(server, concurrency=1).score(rows(5))
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("setting", "way"),
    [("temperature", "that it takes, mostly 1"), ("seed", "with -M no-seed, and trials")],
)
def test_refused_setting(setting, way):
    """A setting that a model refuses is named with the way out."""
    message = f"Unsupported value: '{setting}' does not support 0 with this model."
    with ChatServer(upper) as server:
        server.fault = refusing(server, setting, message)
        with pytest.raises(ValueError, match=f"{setting}.*Start a new run .*{way}"):
            scorer_of(server, concurrency=1).score(rows(1))
        assert len(server.requests) == 1
        if setting == "seed":
            assert scorer_of(server, no_seed=True).score(rows(1))[0].answer == "TEXT 0"


@pytest.mark.parametrize("inside", [False, True], ids=["status", "body"])
def test_limited_rate(inside):
    """A limited rate is waited for beyond all attempts of the client."""
    assert (ChatOptions().timeout, ChatOptions().attempts, request_pass.PATIENCE) == (60, 6, 120)
    reply = Reply({"error": {"message": "slow down", "code": 429}}, 200 if inside else 429)
    with ChatServer(upper, fault=lambda prompt, n: reply if n < 9 else None) as server:
        found = scorer_of(server, concurrency=1, attempts=3).score(rows(2))
    assert [one.answer for one in found] == ["TEXT 0", "TEXT 1"]


def test_rate_that_stays_limited(monkeypatch):
    """A rate that stays limited ends the run after the patience."""
    monkeypatch.setattr(request_pass, "PATIENCE", 0.5)
    expected = pytest.raises(
        ValueError, match=r"did not answer s0/t0 in \d+ attempts .429: planned 429"
    )
    with ChatServer(upper, fault=lambda prompt, n: "429") as server, expected:
        scorer_of(server, concurrency=1, attempts=2).score(rows(8))
    assert len(server.requests) > 2


@pytest.mark.parametrize(
    "name", ["reasoning_content", "reasoning"]
)  # of vLLM, llama.cpp and DeepSeek; of others
def test_reasoning_field(name, tmp_path):
    """Reasoning in a field of its own is no answer."""
    reply = cut_off("B", **{name: "The clerk, so A"})
    reply.body["choices"][0]["finish_reason"] = "stop"
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        scorer = scorer_of(server, tmp_path / "answers.jsonl")
        assert [one.answer for one in scorer.score(rows(2))] == ["B", "B"]
    assert "clerk" not in scorer.log.path.read_text()


@pytest.mark.parametrize(
    "reply",
    [
        cut_off(reasoning_content="The clerk told the mechanic"),
        cut_off(""),
        cut_off(" \n"),
        cut_off("<think>\nOkay, the clerk asked the mechanic whether"),
    ],
    ids=["reasoning", "blank", "white", "think"],
)
def test_first_answers_cut(reply):
    """A model whose first answers are all cut before any text is not asked further."""
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        scorer = scorer_of(server, max_tokens=5)
        with pytest.raises(
            UsageError, match=r"hit the limit of 5 tokens before any text.*-M max-tokens"
        ):
            scorer.score(rows(200))
        request_count = len(server.requests)
        assert FIRST_ANSWERS <= request_count <= FIRST_ANSWERS + 4  # with those under way
        with pytest.raises(UsageError, match="-M max-tokens"):  # nor when it goes on
            scorer.score(rows(200))
        assert len(server.requests) == request_count
        short = scorer_of(server)
        for _ in range(2):  # nor in a short run
            with pytest.raises(UsageError, match="-M max-tokens"):
                short.score(rows(2))
        assert len(server.requests) == request_count + 2


@pytest.mark.parametrize(
    "reply",
    [cut_off("The mechanic, as"), cut_off("<think>short</think>\nmechanic"), "null", None],
    ids=["text", "thought", "blank", "half"],
)
def test_partly_cut_answers(reply):
    """Answers with text, or of which half were not cut, let the run go on."""
    half = [None, cut_off()] * 10
    with ChatServer(upper, fault=lambda prompt, n: reply or half[int(prompt[5:])]) as server:
        found = scorer_of(server, concurrency=1).score(rows(20))
    assert len(found) == 20
    assert reply or [one.parts["truncated"] for one in found] == [0.0, 1.0] * 10


def test_answer_without_finish_reason(tmp_path):
    """An answer without a finish reason is not marked as truncated."""
    log = AnswerLog(tmp_path / "answers.jsonl")
    scorer = ChatScorer("tiny", ChatOptions(base_url="http://127.0.0.1:1/v1"))
    log.add(Answer(key=scorer._answer_keys(rows(1))[0], prompt_id="s0/t0", answer="mechanic"))
    mark = scorer.keeping_answers(tmp_path).score(rows(1))[0].parts["truncated"]
    assert mark != mark  # NaN


OPTIONS = "1=Yes|0=No"


def closed_scorer(server, **changes):
    """A scorer whose prompts are closed questions, as an audit makes it."""
    return scorer_of(server, concurrency=1, **changes).with_reader(
        read_option, fields=option_fields
    )


def test_client_variables(monkeypatch):
    """No environment variable of the client reaches a service."""
    with ChatServer(upper) as elsewhere, ChatServer(upper) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.base_url)
        names = ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET")
        for name in names:
            monkeypatch.setenv(f"OPENAI_{name}", f"canary-{name}")
        monkeypatch.setenv(
            "OPENAI_CUSTOM_HEADERS", "X-Canary: canary\nAuthorization: Bearer canary"
        )
        scorer_of(server).score(rows(1))
        assert elsewhere.requests == []
    (headers,) = server.headers
    assert "canary" not in str(headers)
    assert {name.lower() for name in headers} <= {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
    }


@pytest.mark.parametrize("declared", [True, False])
def test_proxy(declared, monkeypatch):
    """Requests to a user's service go through no proxy."""
    with ChatServer(upper) as proxy, ChatServer(upper) as server:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        own = (server.base_url,) if declared else ()
        try:
            scorer_of(server, own_address=own, attempts=1).score(rows(1))
        except ValueError:  # this proxy hands nothing on
            assert not declared
        assert (len(server.requests), len(proxy.requests)) == ((1, 0) if declared else (0, 1))


@pytest.mark.parametrize("credentialed", [True, False])
def test_logs_hold_no_secret(credentialed, caplog, monkeypatch):
    """No log of any level holds a key, or anything of credentialed notes."""
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_LOG", "debug")
    names = ("openai", "httpx2", "httpcore2")
    with caplog.at_level(logging.DEBUG), ChatServer(lambda prompt: "an answer") as server:
        for name in names:
            caplog.set_level(logging.DEBUG, logger=name)
        scorer = scorer_of(server).reading_notes() if credentialed else scorer_of(server)
        scorer.score([row("s1", "a psoriasis of the knee")])
        assert all(logging.getLogger(name).level == logging.DEBUG for name in names)  # as they were
    shown = [one.getMessage() for one in caplog.records if one.name.split(".")[0] in names]
    assert not any(word in line for line in shown for word in (SECRET, "psoriasis", "an answer"))
    assert bool(shown) is not credentialed


def test_missing_openai(monkeypatch):
    """Without the openai package one sentence names the command to install it."""
    monkeypatch.setattr("swapbias.errors.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs openai.*pip install 'swapbias\[chat\]'"):
        load_chat(ChatOptions(model="tiny", base_url="http://127.0.0.1:1/v1"), Request())


def test_provider_behind_the_model():
    """A provider is named behind the model."""
    with ChatServer(upper, model="tiny:together") as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(request_pass, "ROUTER", server.base_url)
            patch.setattr(request_pass, "is_offline_mode", lambda: False)
            patch.setenv("HF_TOKEN", "hf_1")
            found = ChatScorer("tiny", ChatOptions(provider="together")).score(rows(1))
        assert [one.answer for one in found] == ["TEXT 0"]
        assert server.authorizations == {"Bearer hf_1"}


def test_json_schema():
    """A schema of the options is sent where there are options and the service knows it."""
    with ChatServer(lambda prompt: '{"answer": "Yes"}') as server:
        found = closed_scorer(server, json_schema=True).score(
            [row("s1", "Is it?", OPTIONS), row("s2", "(A) B?", OPTIONS)]
        )
        schemas = [one["response_format"]["json_schema"]["schema"] for one in server.requests]
    assert [one.score for one in found] == [1.0, 1.0]
    assert [one["properties"]["answer"]["enum"] for one in schemas] == [["A", "B"], ["Yes", "No"]]
    prompts = [row(f"s{n}", f"Is it {n}?", OPTIONS) for n in range(3)]
    with ChatServer(lambda prompt: "Yes") as server:
        server.fault = refusing(server, "response_format")
        found = closed_scorer(server, json_schema=True).score(prompts)
        assert [("response_format" in one) for one in server.requests] == [
            True,
            False,
            False,
            False,
        ]
    assert [one.score for one in found] == [1.0] * 3
    with ChatServer(upper) as server:
        closed_scorer(server).score([row("s1", "Is it?", OPTIONS)])
        scorer_of(server, json_schema=True).score(
            [row("s3", "Is it?", OPTIONS)]
        )  # answers in free text
        assert not any("response_format" in one for one in server.requests)


def test_several_answers_a_request():
    """One request brings several trials, and each is kept."""
    first, later = [row(f"s/t{trial}", "Is it?") for trial in (1, 2)]
    with ChatServer(upper, several=True) as server:
        scorer = scorer_of(server, answers_per_request=2, trials=3, seed=10)
        scorer.score([first])
        assert [(one["n"], one["seed"]) for one in server.requests] == [(2, 11)]
        assert scorer.score([later])[0].answer == "IS IT?"
        scorer.score([row("s/t3", "Is it?")])  # the last of three trials comes alone
        assert len(server.requests) == 2
        assert "n" not in server.requests[1]
    usages = [one.usage for one in scorer.log.values()]
    assert [one.get("total_tokens") for one in usages] == [9, None, 9]  # a request is counted once


@pytest.mark.parametrize("how", ["refused", "ignored"])
def test_one_answer_a_request(how):
    """Each trial has its request where a service gives one answer a request."""
    trials = [[row(f"s{n}/t{trial}", f"Is it {n}?") for n in range(3)] for trial in (1, 2)]
    with ChatServer(upper) as server:
        server.fault = refusing(server, "n") if how == "refused" else server.fault
        scorer = scorer_of(server, answers_per_request=2, trials=2, concurrency=1)
        found = [one.answer for some in trials for one in scorer.score(some)]
        assert len(server.requests) == 6 + (how == "refused")
    assert found == [f"IS IT {n}?" for n in range(3)] * 2


def test_full_disk(monkeypatch):
    """A full disk is reported as such."""

    def full(self, answer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("swapbias.models.chat.answer_log.AnswerLog.add", full)
    with ChatServer(upper) as server, pytest.raises(OSError, match="No space left"):
        scorer_of(server).score(rows(8))
