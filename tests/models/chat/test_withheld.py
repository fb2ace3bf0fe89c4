"""Answers that a service withholds: a prompt is refused or left without an answer, and the
others go on."""

import json
import math

import pytest

import swapbias
from swapbias.errors import ServiceError, UsageError
from swapbias.models.chat import request_pass
from swapbias.models.chat.answer_log import AnswerLog
from swapbias.models.chat.blank_answers import text_of
from tests.cli.test_cli import swapbias as command
from tests.models.chat.server import ChatServer, Reply
from tests.models.chat.test_replies import OPTIONS, closed_scorer
from tests.models.chat.test_service import first, row, rows, scorer_of, upper


def reply(**choice):
    usual = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}
    return Reply({"choices": [{**usual, **choice}], "usage": {"total_tokens": 5}})


def error(http, **fields):
    return Reply({"error": fields}, http)


MESSAGE = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
REFUSALS = {
    "a refusal of the model": reply(message=MESSAGE),
    "a refusal as a part": reply(message={"content": [{"type": "refusal", "refusal": "No help."}]}),
    "a filtered answer": reply(finish_reason="content_filter", message={"content": "Yes, for"}),
    "a filtered answer without message": Reply(
        {"choices": [{"finish_reason": "content_filter", "index": 0}]}
    ),
    "an ending of Google": reply(finish_reason="SAFETY"),
    "an ending behind a router": reply(
        finish_reason="error", native_finish_reason="PROHIBITED_CONTENT"
    ),
    "an ending of Anthropic": reply(finish_reason="refusal"),
    "an ending of Bedrock": reply(finish_reason="guardrail_intervened"),
    "feedback on the prompt": Reply({"promptFeedback": {"blockReason": "SAFETY"}, "choices": []}),
    "an error in a choice": reply(
        error={"code": "content_filter", "message": "filtered"}, finish_reason="error"
    ),
    "an error in the body": Reply({"error": {"code": "content_filter", "message": "no"}}),
    "Azure": error(
        400,
        message="The response was filtered.",
        type=None,
        param="prompt",
        code="content_filter",
        status=400,
        innererror={
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True}},
        },
    ),
    "the inner error of Azure": error(
        400, message="no", innererror={"code": "ResponsibleAIPolicyViolation"}
    ),
    "OpenAI": error(
        400, message="no", type="invalid_request_error", code="content_policy_violation"
    ),
    "a reasoning model of OpenAI": error(
        400, message="no", type="invalid_request_error", code="invalid_prompt"
    ),
    "Anthropic": error(
        400, message="Output blocked by content filtering policy", type="invalid_request_error"
    ),
    "DeepSeek": error(
        400,
        message="Content Exists Risk",
        type="invalid_request_error",
        code="invalid_request_error",
    ),
    "DashScope": error(400, message="no", code="data_inspection_failed"),
    "OpenRouter": error(
        403, message="no", code=403, metadata={"reasons": ["violence"], "flagged_input": "text"}
    ),
    "a provider behind a router": error(
        400,
        message="Provider returned error",
        code=400,
        metadata={"raw": '{"error": {"code": "content_filter"}}'},
    ),
    "xAI": Reply({"code": "no permission", "error": "Content violates usage guidelines."}, 403),
    "a flagged prompt of Azure": Reply(
        {
            "choices": [],
            "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}],
        }
    ),
    "a flagged answer of Azure": reply(
        message={"content": ""},
        content_filter_results={"hate": {"filtered": True, "severity": "high"}},
    ),
    "an ending of Google behind its other layer": reply(finish_reason="content_filter: SAFETY"),
    "a list of errors": Reply([{"error": {"code": 400, "message": "no", "status": "SAFETY"}}], 400),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_refusal_of_the_service(refusal, tmp_path):
    """A refusal of the service is a refusal and is not retried."""
    prompts = [row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(6)]
    with ChatServer(lambda prompt: "Yes", fault=first(refusal, times=99)) as server:
        scorer = closed_scorer(server).keeping_answers(tmp_path)
        scored = scorer.score(prompts)
        assert server.asked("text 3") == 1
        assert [one.score for one in scored[:3] + scored[4:]] == [1.0] * 5
        assert math.isnan(scored[3].score)
        assert (scored[3].parts["refused"], scored[3].parts["unanswered"]) == (1.0, 1.0)
        assert sum(one.parts["refused"] for one in scored) == 1
        assert "withheld 1 of 6 answers (1 refused)" in scorer.notes["withheld"]
        again = closed_scorer(server).keeping_answers(tmp_path)
        request_count = len(server.requests)
        assert [one.parts["refused"] for one in again.score(prompts)] == [
            one.parts["refused"] for one in scored
        ]
        assert len(server.requests) == request_count


@pytest.mark.parametrize(
    "trouble",
    [
        Reply({"choices": [], "usage": None}),
        Reply({"choices": None}),
        reply(message=None),
        reply(message={"content": 7}),
        error(400, message="no", code="context_length_exceeded", param="messages"),
        error(
            400,
            message="This model's maximum context length is 4096 tokens.",
            type="BadRequestError",
        ),
    ],
    ids=["no choices", "null choices", "no message", "a number", "too long", "too long in words"],
)
def test_prompt_without_answer(trouble, tmp_path):
    """A prompt without an answer is left out after its attempts and not repeated by a resumed run."""
    with ChatServer(lambda prompt: "Yes", fault=first(trouble, "text 0", times=99)) as server:
        prompts = [row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(4)]
        # One after the other: the first answer comes later.
        scorer = closed_scorer(server, attempts=2).keeping_answers(tmp_path)
        scored = scorer.score(prompts)
        assert [math.isnan(one.score) for one in scored] == [True, False, False, False]
        assert (scored[0].parts["refused"], scored[0].parts["unanswered"]) == (0.0, 1.0)
        assert server.asked("text 0") == (1 if trouble.status == 400 else 2)
        assert "(1 not given)" in scorer.notes["withheld"]
        (line,) = [
            one
            for one in map(json.loads, scorer.log.path.read_text().splitlines())
            if one.get("withheld")
        ]
        assert line["reason"]
        again = closed_scorer(server).keeping_answers(tmp_path)
        request_count = len(server.requests)
        again.score(prompts)
        assert len(server.requests) == request_count


TROUBLES = {
    "vLLM": Reply(
        {"object": "error", "message": "Invalid token", "type": "BadRequestError", "param": None},
        400,
    ),
    "Google": Reply(
        [{"error": {"code": 400, "message": "Invalid argument.", "status": "INVALID_ARGUMENT"}}],
        400,
    ),
    "Groq": error(400, message="Failed to generate JSON", code="json_validate_failed"),
    "Anthropic": Reply(
        {"type": "error", "error": {"type": "invalid_request_error", "message": "no text"}}, 400
    ),
    "too large": error(413, message="Request too large", type="tokens"),
    "no JSON": Reply("bad request", 400),
    "Mistral": Reply({"object": "error", "message": "not allowed", "type": "moderation"}, 403),
    "Ollama": error(500, message="llama runner process has terminated"),
    "an error in a body": Reply({"error": "Something broke"}),
    "something else": Reply({"detail": "no"}),
    "an answer that broke off": reply(finish_reason="abort", message={"content": "Yes"}),
    "DeepSeek": reply(finish_reason="insufficient_system_resource", message={"content": "Yes"}),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_prompt_of_no_service(trouble, tmp_path):
    """A prompt that a service cannot answer neither ends nor repeats the run."""
    prompts = [row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(6)]
    with ChatServer(lambda prompt: "Yes", fault=first(trouble, times=99)) as server:
        scorer = closed_scorer(server, attempts=2).keeping_answers(tmp_path)
        scored = scorer.score(prompts)
        assert [one.score for one in scored[:3] + scored[4:]] == [1.0] * 5
        assert math.isnan(scored[3].score)
        assert (scored[3].parts["refused"], scored[3].parts["unanswered"]) == (0.0, 1.0)
        again = closed_scorer(server).keeping_answers(tmp_path)
        request_count = len(server.requests)
        again.score(prompts)
        assert len(server.requests) == request_count


def test_service_that_breaks(tmp_path):
    """A service that breaks for good ends the run, no prompt counts as unanswered, and a resumed
    run asks again."""
    prompts = [row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(100, 140)]

    def fault(prompt, number):
        return "500" if int(prompt.split()[1]) > 104 else None

    with ChatServer(lambda prompt: "Yes", fault=fault) as server:
        scorer = closed_scorer(server, attempts=1).keeping_answers(tmp_path)
        with pytest.raises(ServiceError, match=r"did not answer .*500.* Answers so far: 5"):
            scorer.score(prompts)
        server.fault = lambda prompt, number: None
        assert [one.score for one in scorer.score(prompts)] == [1.0] * 40


@pytest.mark.parametrize(
    "ending",
    [
        {"finish_reason": "MAX_TOKENS"},
        {"finish_reason": "max_tokens"},
        {"finish_reason": "model_length"},
        {"finish_reason": "stop", "native_finish_reason": "max_output_tokens"},
    ],
    ids=["MAX_TOKENS", "max_tokens", "model_length", "native"],
)
def test_words_for_truncation(ending, tmp_path):
    """The limit of tokens is known in the words of any service."""
    cut = reply(message={"content": "Yes, for"}, **ending)
    with ChatServer(lambda prompt: "Yes", fault=first(cut, times=99)) as server:
        scored = closed_scorer(server).score(
            [row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(5)]
        )
    assert [one.parts["truncated"] for one in scored] == [0, 0, 0, 1, 0]


def test_service_without_answers():
    """A service that answers no prompt ends the run and leaves nothing."""
    empty = Reply({"choices": []})
    with ChatServer(upper, fault=lambda prompt, n: empty) as server:
        scorer = scorer_of(server, attempts=1, concurrency=1)
        with pytest.raises(
            ServiceError, match=r"did not answer s17/t0 in 1 attempts .the reply contains no answer"
        ):
            scorer.score(rows(40))  # in the order of their texts: 0, 1, 10, 11, ...
        assert len(server.requests) == 10
        with pytest.raises(ServiceError, match="contains no answer"):
            scorer.score(rows(3))
        assert len(scorer.log) == 0


def test_refusal_of_credentialed_notes(tmp_path):
    """A refusal of credentialed notes leaves no text."""
    refusal = reply(message={"content": None, "refusal": "Nothing about psoriasis."})
    filtered = error(400, message="The text psoriasis is filtered", code="content_filter")
    with ChatServer(
        upper, fault=lambda prompt, n: refusal if "0" in prompt else filtered
    ) as server:
        scorer = closed_scorer(server).keeping_answers(tmp_path, text=False)
        scored = scorer.score([row(f"s{n}", f"text {n}", OPTIONS) for n in range(2)])
    assert [one.parts["refused"] for one in scored] == [1.0, 1.0]
    assert "psoriasis" not in (tmp_path / "answers.jsonl").read_text()
    assert [one.reading["refused"] for one in AnswerLog(tmp_path / "answers.jsonl").values()] == [
        1.0,
        1.0,
    ]


TEXT = {"type": "text", "text": "Yes"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "No?"}]}, TEXT], "Yes"),
        ([{"type": "text", "text": "Ye"}, {"type": "text", "text": "s"}], "Yes"),
        (["Yes"], "Yes"),
        (
            [
                {"type": "reasoning", "text": "No"},
                {"type": "output_text", "text": {"value": "Yes"}},
            ],
            "Yes",
        ),
        (TEXT, "Yes"),
        ([], ""),
        (None, ""),
        (7, None),
    ],
    ids=[
        "reasoning and text",
        "two texts",
        "strings",
        "output text",
        "one part",
        "no part",
        "none",
        "number",
    ],
)
def test_content_in_parts(content, text):
    """Content in parts is one text."""
    assert text_of(content) == text
    if isinstance(content, list) and text:
        with ChatServer(
            upper, fault=lambda prompt, n: reply(message={"content": content})
        ) as server:
            assert scorer_of(server).score(rows(1))[0].answer == text
            assert len(server.requests) == 1


BLANKS = {
    "null": ({"content": None}, "the content of the answer is null"),
    "no content": ({"role": "assistant"}, "the content of the answer is null"),
    "white": ({"content": " \n"}, "the answer is empty"),
    "no parts": ({"content": []}, "the answer is empty"),
    "a tool": ({"content": None, "tool_calls": [{"type": "function"}]}, "the model called a tool"),
    "a function": ({"content": "", "function_call": {"name": "f"}}, "the model called a tool"),
    "a tool as a part": ({"content": [{"type": "tool_use"}]}, "the model called a tool"),
    "reasoning": (
        {"content": None, "reasoning_content": "No?"},
        "the model thought and wrote no answer",
    ),
    "reasoning by another name": (
        {"content": "", "reasoning": "No?"},
        "the model thought and wrote no answer",
    ),
    "reasoning as a part": (
        {"content": [{"type": "thinking", "thinking": "No?"}]},
        "the model thought and wrote no answer",
    ),
    "reasoning in tags": (
        {"content": "<think>No?</think>"},
        "the model thought and wrote no answer",
    ),
    "an image": ({"content": [{"type": "image_url"}]}, "the answer has parts that are no text"),
    "a voice": (
        {"content": None, "audio": {"transcript": "No"}},
        "the answer has parts that are no text",
    ),
}


@pytest.mark.parametrize("stored", [True, False], ids=["open", "credentialed"])
@pytest.mark.parametrize(("message", "reason"), BLANKS.values(), ids=BLANKS)
def test_answer_without_text(message, reason, stored, tmp_path):
    """An answer without text has no score, its reason is stored and counted, and a resumed run knows it."""
    prompts = [row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(5)]
    with ChatServer(lambda prompt: "Yes", fault=first(reply(message=message), times=99)) as server:
        scorer = closed_scorer(server).keeping_answers(tmp_path, text=stored)
        scored = scorer.score(prompts)
        assert [math.isnan(one.score) for one in scored] == [False, False, False, True, False]
        assert (scored[3].parts["unanswered"], scored[3].parts["refused"]) == (1.0, 0.0)
        told = f"1 of 5 answers of tiny have no text (1: {reason})."
        assert scorer.notes["withheld"] == told
        again = closed_scorer(server).keeping_answers(tmp_path, text=stored)
        assert again.notes["withheld"] == told
        assert [answer.reason for answer in again.log.values() if answer.reason] == [reason]


@pytest.mark.parametrize("refusal", [True, ["No help."], {"text": "No help.", "type": "text"}])
def test_refusal_of_another_form(refusal):
    """A refusal that is no text is a refusal."""
    refused = reply(message={"content": None, "refusal": refusal})
    with ChatServer(lambda prompt: "Yes", fault=first(refused, "text 0", times=99)) as server:
        scorer = closed_scorer(server)
        scored = scorer.score([row(f"s{n}/t0", f"text {n}", OPTIONS) for n in range(2)])
    assert [one.parts["refused"] for one in scored] == [1.0, 0.0]
    words = "" if refusal is True else "No help."
    assert [answer.answer for answer in scorer.log.values() if answer.withheld] == [words]


SPENT = {
    "OpenAI": error(
        429,
        message="You exceeded your current quota",
        type="insufficient_quota",
        code="insufficient_quota",
    ),
    "in the body": Reply({"error": {"message": "no", "code": 429, "type": "insufficient_quota"}}),
    "payment required": error(402, message="no credits"),
    "Anthropic": error(
        400,
        message="Your credit balance is too low to access the API.",
        type="invalid_request_error",
    ),
    "Moonshot": error(429, message="no", type="exceeded_current_quota_error"),
    "a billing limit": error(429, message="no", code="billing_hard_limit_reached"),
    "forbidden": error(403, message="no", code="insufficient_user_quota"),
}


@pytest.mark.parametrize("spent", SPENT.values(), ids=SPENT)
def test_spent_quota(spent, monkeypatch):
    """A spent quota ends the run at once."""
    monkeypatch.setattr(request_pass, "PATIENCE", 0.5)
    with ChatServer(upper, fault=first(spent, times=99)) as server:
        scorer = scorer_of(server, concurrency=1)
        with pytest.raises(
            ServiceError, match=r"no more because the quota is spent .*Answers so far: 3"
        ) as raised:
            scorer.score(rows(10))
        assert not isinstance(raised.value, UsageError)
        assert len(server.requests) == 4


def test_resume_in_words_of_python(tmp_path):
    """A stopped call tells in words of Python how to go on."""
    named = {"chat": "tiny", "trials": 1, "limit": 8, "progress": False}
    study = "gendered_stigma:choices"
    with ChatServer(
        lambda prompt: "A", fault=lambda prompt, n: "401" if len(server.requests) == 3 else None
    ) as server:
        with pytest.raises(
            ServiceError, match=r"They are not kept: with out=FOLDER the same call resumes\.$"
        ):
            swapbias.audit(None, study, base_url=server.base_url, concurrency=1, **named)
        server.requests.clear()
        out = tmp_path / "run"
        with pytest.raises(
            ServiceError, match=r"Answers so far: 2\. The same call resumes\.$"
        ) as raised:
            swapbias.audit(None, study, base_url=server.base_url, concurrency=1, out=out, **named)
        assert "--" not in str(raised.value)
        done = command("audit", "--resume", out)
        assert done.returncode == 0, done.stderr
        server.requests.clear()
        words = (
            "--study",
            study,
            "--chat",
            "tiny",
            "--base-url",
            server.base_url,
            "-M",
            "concurrency=1",
        )
        done = command(
            "audit", *words, "--trials", "1", "--limit", "8", "--out", tmp_path / "other"
        )
    assert done.returncode == 2
    assert (
        f"Answers so far: 2. Continue with swapbias audit --resume {tmp_path / 'other'}."
        in " ".join(done.stderr.split())
    )
