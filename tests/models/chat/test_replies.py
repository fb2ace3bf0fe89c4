"""Hostile and troubled services: bounded, told in one sentence; no key, answer or request goes where it must not."""

import logging
import math
from dataclasses import replace

import pytest

from swapbias.errors import UsageError
from swapbias.models import Request
from swapbias.models.chat import ChatOptions, load_chat, request_pass
from swapbias.models.chat.answering import FIRST_ANSWERS, USAGE, Answer, AnswerLog, option_fields
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
def test_a_reply_that_cannot_be_read_loses_its_prompt_alone(sent, tmp_path):
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


def test_a_count_that_is_none_is_left_out_and_a_reason_of_any_kind_is_short(tmp_path):
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
def test_a_known_key_goes_to_its_own_service_alone(name, monkeypatch):
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


def test_a_key_that_is_named_goes_where_the_user_says(monkeypatch):
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
def test_another_machine_is_asked_over_http_only_where_the_user_allows_it(url, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    asked = ChatOptions(model="m", base_url=url)
    for refuse in (
        asked.check_open,
        lambda: api_key(asked),
        lambda: ChatScorer("m", asked).score(rows(1)),
    ):
        with pytest.raises(UsageError, match=r"over http, where anybody.*-M own-address"):
            refuse()
    ChatOptions(model="m", base_url=url, own_address=(url,)).check_open()
    for here in ("localhost:1", "127.0.0.1", "127.9.9.9", "[::1]:8000"):
        ChatOptions(model="m", base_url=f"http://{here}/v1").check_open()


def test_the_command_refuses_and_allows(tmp_path, monkeypatch):
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
    held = "".join(
        one.read_text(errors="replace") for one in (tmp_path / "run").rglob("*") if one.is_file()
    )
    assert SECRET not in held
    assert "MY_KEY" not in held


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
def test_an_echoed_key_reaches_no_answer(echo, scoring, monkeypatch, tmp_path):
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


def refusing(server, setting, message="unknown field"):
    """A service whose models do not know a setting, in the words of OpenAI."""
    told = Reply(
        {"error": {"message": message, "param": setting, "code": "unsupported_parameter"}}, 400
    )
    return lambda prompt, n: told if setting in server.requests[-1] else None


def test_a_model_that_wants_another_name_for_the_most_tokens_is_asked_by_it():
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
def test_a_setting_that_a_model_refuses_is_named_with_the_way_out(setting, way):
    message = f"Unsupported value: '{setting}' does not support 0 with this model."
    with ChatServer(upper) as server:
        server.fault = refusing(server, setting, message)
        with pytest.raises(ValueError, match=f"{setting}.*Start a new run .*{way}"):
            scorer_of(server, concurrency=1).score(rows(1))
        assert len(server.requests) == 1
        if setting == "seed":
            assert scorer_of(server, no_seed=True).score(rows(1))[0].answer == "TEXT 0"


@pytest.mark.parametrize("inside", [False, True], ids=["status", "body"])
def test_a_limited_rate_is_outlasted_beyond_all_attempts_of_the_client(inside):
    assert (ChatOptions().timeout, ChatOptions().attempts, request_pass.PATIENCE) == (60, 6, 120)
    reply = Reply({"error": {"message": "slow down", "code": 429}}, 200 if inside else 429)
    with ChatServer(upper, fault=lambda prompt, n: reply if n < 9 else None) as server:
        found = scorer_of(server, concurrency=1, attempts=3).score(rows(2))
    assert [one.answer for one in found] == ["TEXT 0", "TEXT 1"]


def test_a_rate_that_stays_limited_ends_the_run_once_patience_does(monkeypatch):
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
def test_thinking_in_a_field_of_its_own_is_no_answer(name, tmp_path):
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
def test_a_model_whose_first_answers_are_cut_off_before_any_text_is_not_asked_on(reply):
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        scorer = scorer_of(server, max_tokens=5)
        with pytest.raises(
            UsageError, match=r"cut off at 5 tokens before they said anything.*-M max-tokens"
        ):
            scorer.score(rows(200))
        asked = len(server.requests)
        assert FIRST_ANSWERS <= asked <= FIRST_ANSWERS + 4  # with those under way
        with pytest.raises(UsageError, match="-M max-tokens"):  # nor when it goes on
            scorer.score(rows(200))
        assert len(server.requests) == asked
        short = scorer_of(server)
        for _ in range(2):  # nor in a short run
            with pytest.raises(UsageError, match="-M max-tokens"):
                short.score(rows(2))
        assert len(server.requests) == asked + 2


@pytest.mark.parametrize(
    "reply",
    [cut_off("The mechanic, as"), cut_off("<think>short</think>\nmechanic"), "null", None],
    ids=["text", "thought", "blank", "half"],
)
def test_answers_that_say_something_or_of_which_half_were_not_cut_off_go_on(reply):
    half = [None, cut_off()] * 10
    with ChatServer(upper, fault=lambda prompt, n: reply or half[int(prompt[5:])]) as server:
        found = scorer_of(server, concurrency=1).score(rows(20))
    assert len(found) == 20
    assert reply or [one.parts["truncated"] for one in found] == [0.0, 1.0] * 10


def test_an_answer_of_which_nobody_says_why_it_ended_is_not_marked(tmp_path):
    log = AnswerLog(tmp_path / "answers.jsonl")
    scorer = ChatScorer("tiny", ChatOptions(base_url="http://127.0.0.1:1/v1"))
    log.add(Answer(key=scorer._keys(rows(1))[0], prompt_id="s0/t0", answer="mechanic"))
    mark = scorer.keeping_answers(tmp_path).score(rows(1))[0].parts["truncated"]
    assert mark != mark  # NaN


OPTIONS = "1=Yes|0=No"


def closed(server, **changes):
    """A scorer whose prompts are closed questions, as an audit makes it."""
    return scorer_of(server, concurrency=1, **changes).reading_with(
        read_option, fields=option_fields
    )


def test_no_variable_of_the_client_reaches_a_service(monkeypatch):
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
def test_to_a_service_of_ones_own_nothing_goes_by_way_of_a_proxy(declared, monkeypatch):
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
def test_no_log_of_any_level_has_a_key_or_of_credentialed_notes_anything(
    credentialed, caplog, monkeypatch
):
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


def test_without_the_openai_package_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("swapbias.errors.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs openai.*pip install 'swapbias\[chat\]'"):
        load_chat(ChatOptions(model="tiny", base_url="http://127.0.0.1:1/v1"), Request())


def test_a_provider_is_named_behind_the_model():
    with ChatServer(upper, model="tiny:together") as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(request_pass, "ROUTER", server.base_url)
            patch.setattr(request_pass, "is_offline_mode", lambda: False)
            patch.setenv("HF_TOKEN", "hf_1")
            found = ChatScorer("tiny", ChatOptions(provider="together")).score(rows(1))
        assert [one.answer for one in found] == ["TEXT 0"]
        assert server.authorizations == {"Bearer hf_1"}


def test_a_schema_of_the_options_is_sent_where_there_are_some_and_the_service_knows_it():
    with ChatServer(lambda prompt: '{"answer": "Yes"}') as server:
        found = closed(server, json_schema=True).score(
            [row("s1", "Is it?", OPTIONS), row("s2", "(A) B?", OPTIONS)]
        )
        schemas = [one["response_format"]["json_schema"]["schema"] for one in server.requests]
    assert [one.score for one in found] == [1.0, 1.0]
    assert [one["properties"]["answer"]["enum"] for one in schemas] == [["Yes", "No"], ["A", "B"]]
    prompts = [row(f"s{n}", f"Is it {n}?", OPTIONS) for n in range(3)]
    with ChatServer(lambda prompt: "Yes") as server:
        server.fault = refusing(server, "response_format")
        found = closed(server, json_schema=True).score(prompts)
        assert [("response_format" in one) for one in server.requests] == [
            True,
            False,
            False,
            False,
        ]
    assert [one.score for one in found] == [1.0] * 3
    with ChatServer(upper) as server:
        closed(server).score([row("s1", "Is it?", OPTIONS)])
        scorer_of(server, json_schema=True).score(
            [row("s3", "Is it?", OPTIONS)]
        )  # answers in free text
        assert not any("response_format" in one for one in server.requests)


def test_one_request_brings_several_trials_and_each_is_kept():
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
def test_where_a_service_gives_one_answer_each_trial_is_asked_for(how):
    trials = [[row(f"s{n}/t{trial}", f"Is it {n}?") for n in range(3)] for trial in (1, 2)]
    with ChatServer(upper) as server:
        server.fault = refusing(server, "n") if how == "refused" else server.fault
        scorer = scorer_of(server, answers_per_request=2, trials=2, concurrency=1)
        found = [one.answer for some in trials for one in scorer.score(some)]
        assert len(server.requests) == 6 + (how == "refused")
    assert found == [f"IS IT {n}?" for n in range(3)] * 2


def test_a_full_disk_is_told_as_one(monkeypatch):
    def full(self, answer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("swapbias.models.chat.answering.AnswerLog.add", full)
    with ChatServer(upper) as server, pytest.raises(OSError, match="No space left"):
        scorer_of(server).score(rows(8))
