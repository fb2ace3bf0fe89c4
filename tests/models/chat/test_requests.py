"""Services in trouble: errors within answers, limited rates, answers cut off before they say anything."""

import pytest

from swapbias.errors import UsageError
from swapbias.models.chat import openai_client
from swapbias.models.chat.answering import FIRST_ANSWERS, Answer, AnswerLog
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.chat.openai_client import ChatScorer
from tests.models.chat.server import ChatServer, Reply, cut_off
from tests.models.chat.test_service import rows, scorer_of, upper

LIMITED = 429


def broken(finish="error", **choice):
    whole = cut_off("").body
    whole["choices"][0] |= {"finish_reason": finish, **choice}
    return Reply(whole)


@pytest.mark.parametrize(
    "reply",
    [
        broken(), broken("stop", error={"message": "provider down"}),
        Reply({"error": {"message": "rate limited", "code": 429}}), Reply({"error": "overloaded"}),
    ],
    ids=["finish_reason", "choice", "code", "words"],
)  # fmt: skip
def test_an_error_in_place_of_an_answer_is_asked_again_and_not_kept(reply):
    with ChatServer(upper, fault=lambda prompt, n: reply if n == 1 else None) as server:
        scorer = scorer_of(server)
        assert [one.answer for one in scorer.score(rows(3))] == ["TEXT 0", "TEXT 1", "TEXT 2"]
        assert len(server.requests) == 6
    assert sorted(answer.answer for answer in scorer.log.values()) == ["TEXT 0", "TEXT 1", "TEXT 2"]


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply({"error": {"message": "gone", "code": 502}}), ValueError, "in 2 attempts .502: gone"),
        (Reply({"error": {"message": "no money", "code": 402}}), ValueError, "cannot answer s0/t0 .402: no money"),
        (Reply({"error": {"message": "bad key", "code": "401"}}), UsageError, "refuses the key .401: bad key"),
        (Reply({"error": {"message": "odd", "code": "a_word"}}), ValueError, "in 2 attempts .odd"),
        (broken(), ValueError, "in 2 attempts .the answer broke off with an error"),
        (broken(error={"message": "down", "code": 503}), ValueError, "in 2 attempts .503: down"),
    ],
)
def test_an_error_in_place_of_an_answer_is_told_in_the_words_of_the_service(reply, kind, message):
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        scorer = scorer_of(server, attempts=2, concurrency=1)
        with pytest.raises(kind, match=message):
            scorer.score(rows(1))
    assert len(scorer.log) == 0


def refusing(server, setting, message):
    """A service whose models do not know a setting, in the words of OpenAI."""
    told = Reply({"error": {"message": message, "param": setting, "code": "unsupported_parameter"}}, 400)
    return lambda prompt, n: told if setting in server.requests[-1] else None


def test_a_model_that_wants_another_name_for_the_most_tokens_is_asked_by_it():
    message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
    with ChatServer(upper) as server:
        server.fault = refusing(server, "max_tokens", message)
        found = scorer_of(server, max_tokens=9, concurrency=1).score(rows(5))
        sent = [{name: body[name] for name in openai_client.LENGTHS if name in body} for body in server.requests]
    assert [one.answer for one in found] == [f"TEXT {number}" for number in range(5)]
    assert sent == [{"max_tokens": 9}, *[{"max_completion_tokens": 9}] * 5]
    message = "neither max_tokens nor max_completion_tokens is known here"
    reply = Reply({"error": {"message": message, "param": "max_tokens"}}, 400)
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        with pytest.raises(ValueError, match=r"cannot answer s0/t0 .400: neither max_tokens nor"):
            scorer_of(server, concurrency=1).score(rows(5))
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("setting", "way"), [("temperature", "that it takes, mostly 1"), ("seed", "with -M no-seed, and trials")]
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
    reply = Reply({"error": {"message": "slow down", "code": LIMITED}}, 200 if inside else LIMITED)
    with ChatServer(upper, fault=lambda prompt, n: reply if n < 9 else None) as server:
        found = scorer_of(server, concurrency=1, attempts=3).score(rows(2))
    assert [one.answer for one in found] == ["TEXT 0", "TEXT 1"]


def test_a_rate_that_stays_limited_ends_the_run_once_patience_does(monkeypatch):
    monkeypatch.setattr(openai_client, "PATIENCE", 0.5)
    expected = pytest.raises(ValueError, match=r"did not answer s0/t0 in \d+ attempts .429: planned 429")
    with ChatServer(upper, fault=lambda prompt, n: "429") as server, expected:
        scorer_of(server, concurrency=1, attempts=2).score(rows(8))
    assert len(server.requests) > 2


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])  # of vLLM, llama.cpp and DeepSeek; of others
def test_thinking_in_a_field_of_its_own_is_no_answer(name, tmp_path):
    reply = cut_off("B", **{name: "The clerk, so A"})
    reply.body["choices"][0]["finish_reason"] = "stop"
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        scorer = scorer_of(server)
        scorer.log = AnswerLog(tmp_path / "answers.jsonl")
        assert [one.answer for one in scorer.score(rows(2))] == ["B", "B"]
    assert "clerk" not in scorer.log.path.read_text()


@pytest.mark.parametrize(
    "reply",
    [
        cut_off(reasoning_content="The clerk told the mechanic"), cut_off(""), cut_off(" \n"),
        cut_off("<think>\nOkay, the clerk asked the mechanic whether"),
    ],
    ids=["reasoning", "blank", "white", "think"],
)  # fmt: skip
def test_a_model_whose_first_answers_are_cut_off_before_any_text_is_not_asked_on(reply):
    with ChatServer(upper, fault=lambda prompt, n: reply) as server:
        scorer = scorer_of(server, max_tokens=5)
        with pytest.raises(UsageError, match=r"cut off at 5 tokens before they said anything.*-M max-tokens"):
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
    log.add(Answer(key=scorer._keys(rows(1))[0], prompt_id="s0/t0", answer="mechanic"), rows(1)[0])
    scorer.log = log
    mark = scorer.score(rows(1))[0].parts["truncated"]
    assert mark != mark  # NaN
