"""Experiments of causal models' options, read by chat models: letters, both orders, what a service hides."""

import math
import zlib
from itertools import pairwise, takewhile
from random import Random

import pandas as pd
import pytest

from swapbias.findings import disaggregate
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.answering import by_shared_beginnings
from swapbias.models.chat.chat_kind import CHAT
from swapbias.models.chat.log_odds import orders, score_right_answer, with_letters
from swapbias.models.chat.openai_client import ChatScorer
from swapbias.runs import Settings, plan_tasks
from swapbias.studies import Candidate, Prompt, as_prompts, config_rows, load_study
from tests.models.chat.server import ChatServer

ODDS = "adjective_coreference:odds"
RIGHT = (Candidate("the nurse", 1.0), Candidate("the guest", 0.0))
QUESTION = Prompt("q", "p", "pro", with_letters("Who left?", RIGHT), RIGHT)


def settings(server, *studies, **options):
    values = {"model": "tiny", "base_url": server.base_url, "scoring": "log-odds", **options}
    return Settings(studies=studies, options=(ChatOptions(**values),))


def logs_of(*shares):
    """The logs of options in both orders, each with the probability that is hidden."""
    return [
        ([math.log(share) if share else -math.inf for share in order], hidden)
        for order, hidden in shares
    ]


@pytest.mark.parametrize(
    ("shares", "score"),
    [
        ([((0.6, 0.3), 0.0), ((0.3, 0.6), 0.0)], 1.0),  # the first is right, then the second
        ([((0.3, 0.6), 0.0), ((0.6, 0.3), 0.0)], 0.0),
        ([((0.75, 0.25), 0.0), ((0.75, 0.25), 0.0)], 0.5),  # it likes the letter A
        ([((0.9, 0.05), 0.05), ((0.9, 0.05), 0.05)], math.nan),  # it could be either's
        ([((0.9, 0.05), 0.05), ((0.3, 0.65), 0.05)], 1.0),  # log(.9/.1) + log(.65/.35) > 0
        ([((0.9, 0.0), 0.1), ((0.0, 0.9), 0.1)], 1.0),  # not shown is at most what is hidden
        ([((0.9, 0.0), 0.1), ((0.9, 0.0), 0.1)], math.nan),
        ([((0.0, 0.0), 1.0), ((0.0, 0.9), 0.1)], math.nan),
        ([((1.0, 0.0), 0.0), ((0.0, 1.0), 0.0)], 1.0),
    ],
    ids=["right", "wrong", "position", "close", "clear", "unshown", "unshown-position", "all-hidden", "sure"],
)  # fmt: skip
def test_right_answer_by_hand(shares, score):
    """The right answer is preferred where its log-odds over both orders are above 0 whatever is hidden."""
    scored = score_right_answer(QUESTION, orders(QUESTION), logs_of(*shares))
    assert scored.score == pytest.approx(score, nan_ok=True)
    assert scored.parts["not_answered"] == float(math.isnan(score))


def test_right_answer_without_probabilities():
    """A question of which one order is not known, or not finite, has no score."""
    known = logs_of(((0.6, 0.3), 0.0))[0]
    for other in (None, ([math.nan, -1.0], 0.0)):
        scored = score_right_answer(QUESTION, orders(QUESTION), [known, other])
        assert math.isnan(scored.score)
        assert scored.parts["not_answered"] == 1.0


def test_letters_of_a_question():
    """A question gets letters once, and in reverse order its right answer has the other letter."""
    assert with_letters(QUESTION.text, RIGHT) == QUESTION.text
    (straight, _), (reverse, _) = orders(QUESTION)
    assert "(A) the nurse\n(B) the guest" in straight.text
    assert "(A) the guest\n(B) the nurse" in reverse.text
    assert reverse.text.replace("guest", "nurse").count("nurse") == 2


def odds_of_letters(gap, seed=""):
    """A model whose log-odds for the right answer hang on the sentence, and are ``gap`` more for pro ones.

    It says the letter A 3 nats rather than B.
    """

    def logs(prompts, report):
        logs_of_prompts = []
        for prompt in prompts:
            draw = zlib.crc32(f"{seed} {prompt.prompt_id}".encode()) / 2**32 - 0.5
            odds = 4 * draw + gap * (prompt.group == "pro")
            is_first_right = prompt.candidates[0].value == 1
            first = 1 / (1 + math.exp(-3 - (odds if is_first_right else -odds)))
            logs_of_prompts.append(([math.log(first), math.log(1 - first)], 0.0))
        return logs_of_prompts

    return logs


def primary_gap(logs):
    experiment = load_study("adjective_coreference").experiments[1]
    request = Settings(options=(ChatOptions(model="tiny", scoring="log-odds"),))
    rows = [
        row
        for row in config_rows("adjective_coreference", "wino_style-stereotype")
        if row["condition"] == "baseline"
    ]
    rows = [{**row, "experiment": "odds"} for row in CHAT.expand(rows, request, experiment)]
    scorer = CHAT.read(ChatScorer("tiny", request.of(ChatOptions)), experiment, request)
    scored = scorer._changed(option_log_probs=logs).score(as_prompts(rows))
    table = pd.DataFrame(rows).assign(model_id="tiny", score=[score.score for score in scored])
    findings = disaggregate(table, "adjective_coreference", robustness=False)
    (primary,) = [finding for finding in findings if finding.primary]
    return primary.estimate


def test_planted_gap_and_position():
    """A gap that is planted is found, and a liking for a letter alone gives none."""
    found = primary_gap(odds_of_letters(2.0))
    assert found.value > 0.2
    assert found.ci_low > 0
    none = primary_gap(odds_of_letters(0.0))
    assert none.ci_low < 0 < none.ci_high
    assert none.n == found.n == 48


def shared_characters(texts):
    """How many characters each text begins with that the one before it begins with too, in all."""
    return sum(
        len(list(takewhile(lambda both: both[0] == both[1], zip(*pair, strict=False))))
        for pair in pairwise(texts)
    )


def test_order_of_requests():
    """Requests that begin alike follow one another, each trial after the last, and ask for one token."""
    prompts = Random(1).sample(as_prompts(config_rows("hatecheck", "asked_misses")), 14)
    with ChatServer(str, tokens=lambda prompt: [("A", -0.1), ("B", -3.0)]) as server:
        options = settings(server, concurrency=1).of(ChatOptions)
        ChatScorer("tiny", options).score(prompts)
        bodies = server.requests
    asked = [body["messages"][-1]["content"] for body in bodies]
    rows = [ordered.text for prompt in prompts for ordered, _ in orders(prompt)]
    assert asked == sorted(rows)
    assert shared_characters(asked) > shared_characters(rows)
    assert all("prompt_logprobs" not in body for body in bodies)
    assert {(body["max_tokens"], body["logprobs"], body["top_logprobs"]) for body in bodies} == {
        (1, True, 20)
    }
    trials = {name: [Prompt(f"q/t{name[-1]}", text=name[0])] for name in ("b1", "a2", "a1", "b2")}
    assert [*by_shared_beginnings(trials)] == ["a1", "b1", "a2", "b2"]


@pytest.mark.parametrize(
    ("study", "kinds"),
    [
        ("bbq:ambiguous_odds", {"ambiguous_odds": "chat"}),
        ("hatecheck:asked_false_alarms_odds", {"asked_false_alarms_odds": "chat"}),
        ("adjective_coreference", {"odds": "chat"}),
        ("bbq", {"ambiguous": "chat", "disambiguated": "chat", "answers": "chat"}),
    ],
)
def test_experiments_by_log_odds(study, kinds):
    """A chat model reads a causal model's options where they are named, or nothing else asks the same."""
    with ChatServer(str) as server:
        tasks, _ = plan_tasks(settings(server, study))
        assert {task.experiment.name: task.kind.name for task in tasks} == kinds
        assert not server.requests


def test_sampled_answers_name_log_odds():
    """Without log-odds a chat model is told the setting by which it reads them."""
    with ChatServer(str) as server:
        with pytest.raises(ValueError, match=r"alone; ask it with -M scoring=log-odds\."):
            plan_tasks(settings(server, ODDS, scoring="sampled"))
        _, skipped = plan_tasks(settings(server, "adjective_coreference", scoring="sampled"))
    assert [(skip.experiment, "-M scoring=log-odds" in skip.reason) for skip in skipped] == [
        ("odds", True)
    ]
