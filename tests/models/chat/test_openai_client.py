"""What leaves for a chat service, and what does not; answers bound to options."""

import logging

import pytest

from swapbias.errors import UsageError
from swapbias.models.base import Request
from swapbias.models.chat import load_chat
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.chat.openai_client import ChatScorer
from swapbias.studies.answer_scores import read_option
from tests.models.chat.server import ChatServer, Reply
from tests.models.chat.test_service import SECRET, row, rows, scorer_of, upper

OPTIONS = "1=Yes|0=No"
REFUSES = Reply({"error": {"message": "unknown field"}}, 400)


def closed(server, **changes):
    """A scorer whose prompts are closed questions, as an audit makes it."""
    scorer = scorer_of(server, concurrency=1, **changes)
    scorer.read, scorer.closed = read_option, True
    return scorer


def refuses(server, name):
    """A service that does not know a field."""
    return lambda prompt, n: REFUSES if name in server.requests[-1] else None


def test_no_variable_of_the_client_reaches_a_service(monkeypatch):
    with ChatServer(upper) as elsewhere, ChatServer(upper) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.base_url)
        names = ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET")
        for name in names:
            monkeypatch.setenv(f"OPENAI_{name}", f"canary-{name}")
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Canary: canary\nAuthorization: Bearer canary")
        scorer_of(server).score(rows(1))
        assert elsewhere.requests == []
    (headers,) = server.headers
    assert "canary" not in str(headers)
    assert {name.lower() for name in headers} <= {
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host",
    }  # fmt: skip


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
def test_no_log_of_any_level_has_a_key_or_of_credentialed_notes_anything(credentialed, caplog, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_LOG", "debug")
    names = ("openai", "httpx2", "httpcore2")
    with caplog.at_level(logging.DEBUG), ChatServer(lambda prompt: "an answer") as server:
        for name in names:
            caplog.set_level(logging.DEBUG, logger=name)
        scorer = scorer_of(server)
        scorer.is_credentialed = credentialed
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
        from swapbias.models.chat import openai_client

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(openai_client, "ROUTER", server.base_url)
            patch.setattr(openai_client, "is_offline_mode", lambda: False)
            patch.setenv("HF_TOKEN", "hf_1")
            found = ChatScorer("tiny", ChatOptions(provider="together")).score(rows(1))
        assert [one.answer for one in found] == ["TEXT 0"]
        assert server.authorizations == {"Bearer hf_1"}


def test_a_schema_of_the_options_is_sent_where_there_are_some_and_the_service_knows_it():
    with ChatServer(lambda prompt: '{"answer": "Yes"}') as server:
        found = closed(server, json_schema=True).score([row("s1", "Is it?", OPTIONS), row("s2", "(A) B?", OPTIONS)])
        schemas = [one["response_format"]["json_schema"]["schema"] for one in server.requests]
    assert [one.score for one in found] == [1.0, 1.0]
    assert [one["properties"]["answer"]["enum"] for one in schemas] == [["Yes", "No"], ["A", "B"]]
    prompts = [row(f"s{n}", f"Is it {n}?", OPTIONS) for n in range(3)]
    with ChatServer(lambda prompt: "Yes") as server:
        server.fault = refuses(server, "response_format")
        found = closed(server, json_schema=True).score(prompts)
        assert [("response_format" in one) for one in server.requests] == [True, False, False, False]
    assert [one.score for one in found] == [1.0] * 3
    with ChatServer(upper) as server:
        closed(server).score([row("s1", "Is it?", OPTIONS)])
        scorer_of(server, json_schema=True).score([row("s3", "Is it?", OPTIONS)])  # answers in free text
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
        server.fault = refuses(server, "n") if how == "refused" else server.fault
        scorer = scorer_of(server, answers_per_request=2, trials=2, concurrency=1)
        found = [one.answer for some in trials for one in scorer.score(some)]
        assert len(server.requests) == 6 + (how == "refused")
    assert found == [f"IS IT {n}?" for n in range(3)] * 2


def test_a_full_disk_is_told_as_one(monkeypatch):
    def full(self, answer, prompt):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("swapbias.models.chat.answering.AnswerLog.add", full)
    with ChatServer(upper) as server, pytest.raises(OSError, match="No space left"):
        scorer_of(server).score(rows(8))
