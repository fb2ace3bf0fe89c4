"""Options by their probabilities: orders, letters, and services that agree with local models."""

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swapbias.cli.plans import plan_sentences
from swapbias.errors import UsageError
from swapbias.models.chat import ChatOptions, scoring_in_words
from swapbias.models.chat.chat_kind import trial_rows
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.log_odds import orders, shown_log_probs
from swapbias.runs import Settings, plan_tasks, resume, start
from swapbias.runs.positive_control import STRONG_WORDS
from swapbias.studies import Prompt, as_prompts, config_rows
from swapbias.studies.answer_scores import read_option
from swapbias.studies.option_texts import options_of
from tests import tiny
from tests.models.chat.server import ChatServer, Reply
from tests.models.chat.test_service import scorer_of

CONFIGS = [
    ("stigma_vignettes", "conditions"), ("stigma_vignettes", "beliefs"), ("coreference_schemas", "choices"),
    ("gendered_stigma", "choices"), ("social_distance", "agreement"), ("occupation_sentiment", "ratings"),
]  # fmt: skip
TEMPLATE = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}<assistant>"
CLOSED = "1=Very likely|0=Not likely|=Do not know"
QUESTION = "Is it?\n- (A): Very likely\n- (B): Not likely\n- (C): Do not know\n\nAnswer with the letter alone."
WORDS = "Is she ill? Answer she or he or nobody."


def row(name="q", text=QUESTION, candidates=CLOSED):
    return Prompt(name, "p", "woman", text, options_of(candidates.split("|")))


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return tiny.save_causal(tmp_path_factory.mktemp("odds") / "gpt", positions=1024)


@pytest.fixture(scope="module", params=[tiny.CHAT_TEMPLATE, TEMPLATE], ids=["plain", "template"])
def local(request, gpt):
    tokenizer = AutoTokenizer.from_pretrained(gpt)
    tokenizer.chat_template = request.param
    options = ChatOptions(model="tiny", provider="local", scoring="log-odds")
    model = AutoModelForCausalLM.from_pretrained(gpt)
    return LocalChatScorer(model, tokenizer, model_id="tiny", identity={}, options=options)


def first_tokens(local, text):
    """Every token of the vocabulary with its log-probability as the first of an answer, in plain Python."""
    with torch.no_grad():
        logits = local.model(torch.tensor([local._encode(text)])).logits[0, -1].tolist()
    most = max(logits)
    total = math.log(math.fsum(math.exp(logit - most) for logit in logits)) + most
    return [
        (candidates_of(local.tokenizer, number), one - total) for number, one in enumerate(logits)
    ]


def without_letters(token):
    return token.strip(" (.)\n:*\"',;!").casefold()


@cache
def candidates_of(tokenizer, number):
    """A token as a service tells it, which names those that are no text by their bytes."""
    text = tokenizer.decode([number])
    return f"bytes:{number}" if "\N{REPLACEMENT CHARACTER}" in text else text


@pytest.mark.parametrize(("study", "config"), CONFIGS)
def test_closed_questions_in_two_orders(study, config):
    """Every closed question is put in two orders of its options, and turning twice gives the
    prompt."""
    for prompt in as_prompts(config_rows(study, config)):
        (straight, _), (turned, places) = orders(prompt)
        text = prompt.candidates
        assert straight == prompt
        assert tuple(text[place] for place in places) == turned.candidates
        silent = [place for place, one in enumerate(text) if one.value is None]
        assert [places[place] for place in silent] == silent  # "Do not know" stays the last
        counted = [place for place in places if place not in silent]
        assert counted == sorted(counted, reverse=True)
        for letter, one in zip("ABCDE", turned.candidates, strict=False):
            assert f"- ({letter}): {one.text}" in turned.text.rpartition("?")[2]
        assert orders(turned)[1][0] == prompt  # there and back


def test_reverse_order_of_the_study():
    """The reverse order is the one that the study publishes."""
    published = {}
    turned = {}
    for prompt in as_prompts(config_rows("stigma_vignettes", "order")):
        (turned if prompt.group == "reversed" else published)[prompt.pair_id] = prompt
    assert len(published) == 432
    for pair, prompt in published.items():
        other, _ = orders(prompt)[1]
        assert (other.text, other.candidates) == (turned[pair].text, turned[pair].candidates)
    assert [one.text for one, _ in orders(row(text=WORDS, candidates="1=she|0=he|=nobody"))] == [
        WORDS
    ]
    instructed = row(text="Answer yes or no.", candidates="1=yes|0=no")
    assert [one.text for one, _ in orders(instructed)] == ["Answer yes or no.", "Answer no or yes."]


@pytest.mark.parametrize("candidates", ["1=yes|1=no", "1=yes|=no"])
def test_options_without_two_values(candidates):
    """Options that do not count two different numbers are refused."""
    with pytest.raises(
        ValueError, match="expected two candidates at least that count different numbers"
    ):
        orders(row(candidates=candidates))


def test_first_tokens():
    """First tokens are read as options by letter or word, and the rest of the probability is
    hidden."""
    tops = [
        ("A", math.log(0.4)),
        (" A", math.log(0.1)),
        ("(B", math.log(0.2)),
        ("As", math.log(0.1)),
        ("a", -3.0),
    ]
    logs, hidden = shown_log_probs(row(), tops)
    assert [math.exp(one) for one in logs] == pytest.approx([0.5 + math.exp(-3), 0.2, 0.0])
    assert hidden == pytest.approx(1 - 0.8 - math.exp(-3))
    words = row(text=WORDS, candidates="1=Very likely|0=Very bad|0.5=Not good")
    logs, hidden = shown_log_probs(
        words, [("Not", math.log(0.3)), ("Very", math.log(0.5)), ("Ver", math.log(0.1))]
    )
    assert [math.exp(one) for one in logs] == pytest.approx([0, 0, 0.3])  # "Very" begins two
    assert hidden == pytest.approx(0.6)


CASES = [
    (
        "1=Yes|0=No",
        [
            "Yes",
            "yes",
            "YES",
            " yes",
            "\u2581Yes",
            "\u0120YES",
            "Yes.",
            '"Yes',
            "yes,",
            "**Yes**",
            "Yes\n",
        ],
    ),
    ("1=S\u00ed|0=No", ["S\u00ed", "s\u00ed", " S\u00cd", "si\u0301"]),
    ("1=Very likely|0=Unlikely", ["Very", "very", " VERY", "(very"]),
    ("1=no opinion|0=no|0.5=yes", []),  # "no" may begin the first
    ("1=\u0414\u0430|0=\u041d\u0435\u0442", ["\u0414\u0430", "\u0434\u0430", " \u0414\u0410"]),
]


@pytest.mark.parametrize(("candidates", "tokens"), CASES)
def test_first_token_in_every_case(candidates, tokens):
    """A first token is an option in every case in which answers are read."""
    prompt = row(text="Is it? Answer.", candidates=candidates)
    for token in tokens:
        logs, hidden = shown_log_probs(prompt, [(token, math.log(0.7)), ("Well", math.log(0.1))])
        assert math.exp(logs[0]) == pytest.approx(0.7), token
        assert hidden == pytest.approx(0.2)
    logs, hidden = shown_log_probs(prompt, [("no", math.log(0.7)), ("Yes?", math.log(0.1))])
    assert hidden == pytest.approx(0.9 if "opinion" in candidates else 0.2)


def test_letters():
    """A letter counts as it does in sampled answers."""
    prompt = row()
    for place, tokens in enumerate((["A", "a", " (a", "A:", "A)"], ["b", "B"], ["c."])):
        for token in tokens:
            logs, _ = shown_log_probs(prompt, [(token, math.log(0.7))])
            assert math.exp(logs[place]) == pytest.approx(0.7), token
            assert read_option(prompt, token)[1]["said_other"] == 0.0
    logs, _ = shown_log_probs(
        prompt, [("Very", math.log(0.7)), ("An", math.log(0.1)), ("D", math.log(0.1))]
    )
    assert all(math.isinf(one) for one in logs)


@pytest.mark.parametrize(
    ("tokens", "overfull"),
    [
        ([("Yes", 0.6), ("No", 0.4)], True),
        ([("Yes", 0.0), ("No", -1.0)], True),
        ([("Yes", 0.1)], True),
        ([("Yes", 60.0)], True),
        ([("Yes", 800.0)], True),
        ([("Yes", math.log(0.6)), ("No", math.log(0.5))], True),
        ([("Yes", 0.0), ("No", -20.0)], False),
        ([("Yes", 1e-4)], False),
        ([("Yes", math.log(0.9))], False),
    ],
    ids=[
        "two above 1",
        "certain and more",
        "slightly above 1",
        "far above 1",
        "overflow",
        "sum above 1",
        "sum of 1",
        "rounding",
        "below 1",
    ],
)
def test_too_much_probability(tokens, overfull):
    """First tokens whose probabilities sum to more than 1 have no score, and the run ends."""
    prompt = row(text="Is it? Yes or no.", candidates="1=Yes|0=No")
    assert (shown_log_probs(prompt, tokens) is None) == overfull
    with ChatServer(str, tokens=lambda asked: tokens) as server:
        scorer = service(server, concurrency=1)
        if overfull:
            with pytest.raises(
                UsageError, match=r"a probability of more than 1, so they are no log-prob.*sampled"
            ):
                scorer.score([prompt])
        else:
            scorer.score([prompt])


def test_few_answers_with_too_much_probability():
    """A few answers above the whole probability have no score and are counted."""
    prompts = [row(f"q{n}", f"Is it {n}? Answer.", "1=Yes|0=No") for n in range(12)]

    def tokens(prompt):
        return (
            [("Yes", 0.6), ("No", 0.4)]
            if " 3?" in prompt
            else [("yes", math.log(0.6)), ("NO", math.log(0.4))]
        )

    with ChatServer(str, tokens=tokens) as server:
        scorer = service(server)
        scores = [one.score for one in scorer.score(prompts)]
    assert scores[:3] + scores[4:] == pytest.approx([0.6] * 11)
    assert math.isnan(scores[3])
    assert "1 of 12 answers of tiny have no score" in scorer.notes["withheld"]


@pytest.mark.parametrize(
    "refusal",
    [
        {
            "message": "Invalid value for 'top_logprobs': must be at most 5.",
            "param": "top_logprobs",
        },
        {
            "message": "Requested sample logprobs of 20, which is greater than max allowed: 5",
            "param": None,
        },
        {"message": "top_logprobs is too large", "param": "top_logprobs"},
    ],
    ids=["OpenAI", "vLLM", "plain"],
)
def test_fewer_first_tokens(refusal):
    """A service that shows fewer first tokens is asked for fewer."""
    prompts = [row(f"q{n}", f"Is it {n}? Answer.", "1=Yes|0=No") for n in range(6)]

    def fault(prompt, n):
        return (
            Reply({"error": refusal}, 400)
            if server.requests[-1].get("top_logprobs", 0) > 5
            else None
        )

    shares = zip(["Yes", "No", "A", "B", "C", "D"], (0.6, 0.3, 0.04, 0.03, 0.02, 0.01), strict=True)
    shown = [(word, math.log(share)) for word, share in shares]
    with ChatServer(str, tokens=lambda prompt: shown, fault=fault) as server:
        scorer = service(server, top_logprobs=20, concurrency=1)
        assert [one.score for one in scorer.score(prompts)] == pytest.approx([2 / 3] * 6)
        assert {body["top_logprobs"] for body in server.requests[2:]} == {5}
    assert "shows 5 first tokens at most, and 20 were" in scorer.notes["withheld"]


def test_other_model_is_named():
    """Where the service says that another model answered, the note names it, of a path its last part alone."""
    prompts = [row(f"q{n}", f"Is it {n}? Answer.", "1=Yes|0=No") for n in range(4)]
    reply = Reply({"model": "/home/me/small-2026", "choices": [{"message": {"content": "Yes"}}]})

    def fault(prompt, n):
        return reply if " 3?" in prompt else None

    tokens = [("Yes", -0.1), ("No", -3.0)]
    with ChatServer(str, fault=fault, tokens=lambda prompt: tokens) as server:
        scorer = service(server, concurrency=1)
        scorer.score(prompts)
    note = scorer.notes["withheld"]
    assert "The service of tiny says that small-2026 gave 1 of 4 answers." in note
    assert "/home" not in note
    assert [answer.model for answer in scorer.log.values()] == ["", "", "", "small-2026"]


def test_other_model_of_credentialed_texts():
    """What a service calls its model could repeat a credentialed text and is not kept, nor are control signs."""
    reply = {"model": "a note\x1b[2J of a patient", "choices": [{"message": {"content": "Yes"}}]}
    with ChatServer(str, fault=lambda prompt, n: Reply(reply)) as server:
        scorers = [scorer_of(server), scorer_of(server).reading_notes()]
        for scorer in scorers:
            scorer.score([row("q", "Is it? Answer.", "1=Yes|0=No")])
    models = [answer.model for scorer in scorers for answer in scorer.log.values()]
    assert models == ["a note[2J of a patient", "another model"]


def test_refused_questions():
    """Refused questions have no log-odds, and the others do."""
    filtered = Reply({"error": {"code": "content_filter", "message": "no"}}, 400)
    prompts = [row(f"q{n}", f"Is it {n}? Answer.", "1=Yes|0=No") for n in range(4)]
    tokens = [("Yes", math.log(0.6)), ("No", math.log(0.4))]

    def fault(prompt, n):
        return filtered if " 0?" in prompt else None

    with ChatServer(str, tokens=lambda prompt: tokens, fault=fault) as server:
        refused, *others = service(server).score(prompts)
    assert math.isnan(refused.score)
    assert refused.parts["not_answered"] == 1.0
    assert [one.score for one in others] == pytest.approx([0.6] * 3)


def test_letters_equal_slow_definition(local):
    """Scores of lettered options equal a slow mean over both orders."""
    for prompt in as_prompts(config_rows("stigma_vignettes", "conditions"))[::200]:
        by_text = {one.text: [] for one in prompt.candidates}
        for one, _ in orders(prompt):
            tokens = first_tokens(local, one.text)
            for letter, answer in zip("ABCDE", one.candidates, strict=True):
                names = (letter.casefold(), answer.text.casefold())
                by_text[answer.text].append(
                    math.fsum(
                        math.exp(log) for token, log in tokens if without_letters(token) in names
                    )
                )
        mean = {text: sum(masses) / 2 for text, masses in by_text.items()}
        values = {text: value for text, value in prompt.candidates if value is not None}
        counted = sum(mean[text] for text in values)
        sides = [[text for text, value in values.items() if value == side] for side in (1, 0)]
        each = [
            [math.log(sum(by_text[text][order] for text in side)) for side in sides]
            for order in (0, 1)
        ]
        (found,) = local.score([prompt])
        assert found.score == pytest.approx(
            sum(value * mean[text] for text, value in values.items()) / counted
        )
        assert found.parts["log_odds"] == pytest.approx(
            sum(more - less for more, less in each) / 2, abs=1e-5
        )
        assert found.parts["unanswered"] == pytest.approx(
            1 - counted / sum(mean.values()), abs=1e-6
        )
        assert found.parts["outside"] == pytest.approx(1 - sum(mean.values()), abs=1e-6)
        assert found.parts["not_answered"] == pytest.approx(1 - counted, abs=1e-6)
        assert found.answer == max(mean, key=mean.get)


def test_words_equal_slow_definition(local):
    """The probability of an option without a letter is the product of its tokens."""
    prompt = row(text="Is it so? It is", candidates="1=very likely|0=she|=nobody")
    (found,) = local.score([prompt])
    single = first_tokens(local, prompt.text)
    masses = [
        0.0,
        *(
            math.fsum(math.exp(log) for token, log in single if without_letters(token) == name)
            for name in ("she", "nobody")
        ),
    ]
    for place, name in enumerate(("very likely", "she", "nobody")):
        forms = {
            f"{blank}{one}"
            for one in (name, name.upper(), name.capitalize())
            for blank in ("", " ")
        }
        every = {
            tuple(local.tokenizer(one, add_special_tokens=False)["input_ids"]) for one in forms
        }
        for ids in (
            [*one] for one in every if without_letters(local.tokenizer.decode([one[0]])) != name
        ):
            whole = torch.tensor([local._encode(prompt.text) + ids])
            with torch.no_grad():
                each = torch.log_softmax(local.model(whole).logits[0].double(), -1)
            at = whole.shape[1] - len(ids)
            masses[place] += math.exp(
                sum(float(each[at + n - 1, token]) for n, token in enumerate(ids))
            )
    assert masses[0] > 0
    assert found.score == pytest.approx(masses[0] / (masses[0] + masses[1]), rel=1e-4)
    assert found.parts["outside"] == pytest.approx(1 - sum(masses), abs=1e-6)


def test_long_prompt_and_long_letter(
    local,
):
    """A prompt longer than the model reads is counted, and a letter of two tokens is refused."""
    long, short = local.score([row("long", QUESTION.replace("Is it?", "Is it? " * 600)), row()])
    assert math.isnan(long.score)
    assert (long.finite, long.parts["not_answered"], math.isnan(long.parts["outside"])) == (
        True,
        1.0,
        True,
    )
    assert 0 <= short.score <= 1
    tokens = {name: ids for name, ids in local.tokens.items() if name != "b"}
    with pytest.raises(UsageError, match="The letter B is no single token of tiny"):
        local._changed(_known_forms={}, tokens=tokens).score([row()])
    broken = [([math.nan, -1.0, -1.0], 0.0)] * 2
    (found,) = local._changed(option_log_probs=lambda prompts, report=None: broken).score([row()])
    assert not found.finite
    assert math.isnan(found.score)


def service(server, **options):
    return scorer_of(server, scoring="log-odds", **{"top_logprobs": 2_000, **options})


def test_service_equals_local_model(gpt):
    """A service that shows all tokens has the scores of the local model."""
    tokenizer = AutoTokenizer.from_pretrained(gpt)
    model = AutoModelForCausalLM.from_pretrained(gpt)
    here = LocalChatScorer(
        model, tokenizer, model_id="tiny", identity={}, options=ChatOptions(scoring="log-odds")
    )
    prompts = [*as_prompts(config_rows("occupation_sentiment", "ratings"))[:3], row()]
    with ChatServer(str, tokens=lambda prompt: first_tokens(here, prompt)) as server:
        there = service(server).score(prompts)
        assert len(server.requests) == 8
        assert {body["max_tokens"] for body in server.requests} == {1}
        assert {body["temperature"] for body in server.requests} == {1}
    for one, other in zip(there, here.score(prompts), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)
        assert one.parts == pytest.approx(other.parts, abs=1e-6)
        assert one.answer == other.answer


def letters(prompt):
    """.6 on the letter of the first option that counts 1, .3 on that of another, .05 on each of two other words."""
    first = "A" if "(A): Very likely" in prompt else "B"
    second = {"A": "B", "B": "A"}[first]
    return [
        (first, math.log(0.6)),
        (second, math.log(0.3)),
        ("I", math.log(0.05)),
        ("As", math.log(0.05)),
    ]


def test_bounds_of_hidden_tokens():
    """The first tokens that a service shows bound what it hides."""
    with ChatServer(str, tokens=letters) as server:
        (four,) = service(server).score([row()])
        (three,) = service(server, top_logprobs=3).score([row()])
        (one,) = service(server, top_logprobs=1).score([row()])
    assert four.score == pytest.approx(0.6 / 0.9)
    assert (four.parts["outside"], four.parts["hidden"]) == pytest.approx((0.1, 0.0))
    assert three.score == pytest.approx(0.6 / 0.9)  # .05 more could move it by .035 at most
    assert (three.parts["outside"], three.parts["hidden"]) == pytest.approx((0.1, 0.05))
    assert math.isnan(one.score)  # the other letter is not shown: .4 could be its
    assert math.isnan(one.parts["log_odds"])
    assert (one.parts["outside"], one.parts["not_answered"]) == pytest.approx((0.4, 1.0))


def test_service_without_log_probabilities(
    tmp_path,
):
    """A service without log-probabilities ends the run after the requests in flight and is not
    asked again."""
    with ChatServer(str) as server:
        asking = service(server, concurrency=1).keeping_answers(tmp_path)
        with pytest.raises(
            UsageError, match=r"without log-prob.*, which -M scoring=log-odds needs\. Start a new"
        ):
            asking.score([row()])
        again = service(server).keeping_answers(tmp_path)
        with pytest.raises(UsageError, match="without log-probabilities"):
            again.score([row()])
        assert len(server.requests) == 1
    refusal = Reply({"error": {"message": "logprobs is not supported"}}, status=400)
    with ChatServer(str, fault=lambda prompt, n: refusal) as server:
        with pytest.raises(
            ValueError, match=r"logprobs is not supported\); not every service gives log-probab"
        ):
            service(server, concurrency=1).score([row()])
        assert len(server.requests) == 1


def settings(server, *studies, **options):
    chat = ChatOptions(
        model="tiny", base_url=server.base_url, scoring="log-odds", concurrency=1, **options
    )
    return Settings(studies=studies, limit=16, options=(chat,))


def prefer_group(prompt):
    """Probabilities of the letters that hang on the prompt alone."""
    rng = np.random.default_rng(sum(prompt.encode()))
    return [
        (letter, float(log))
        for letter, log in zip("ABCDE", np.log(rng.dirichlet([2] * 5)), strict=True)
    ]


def test_run_keeps_its_scoring(tmp_path, quiet):
    """A run names its scoring, is resumed without repeated requests and never with another scoring."""

    def fault(prompt, n):
        return "401" if len(server.requests) == 12 else None

    with ChatServer(str, tokens=prefer_group, fault=fault) as server:
        run_settings = settings(server, "stigma_vignettes:gender")
        sentences = " ".join(plan_sentences(run_settings))
        assert "16 prompts for tiny; 32 requests to send" in sentences
        with pytest.raises(ValueError, match="key"):
            start(run_settings, tmp_path / "run", **quiet)
        lines = (tmp_path / "run" / "answers.jsonl").read_text().splitlines()
        assert [len(json.loads(line)["logprobs"]) for line in lines] == [5] * 11
        server.fault = lambda prompt, n: None
        sampled = replace(
            run_settings, options=(replace(run_settings.options[0], scoring="sampled"),)
        )
        with pytest.raises(UsageError, match=r"log-odds.*sampled"):
            start(sampled, tmp_path / "run", **quiet)
        run, found = resume(tmp_path / "run", **quiet)
        planned = [body for body in server.requests if STRONG_WORDS not in str(body["messages"])]
        assert len(planned) == 33  # 32, and the one that was refused
    items = run.items("stigma_vignettes")
    assert len(items) == 16
    assert "trial" not in items
    assert {"score", "log_odds", "unanswered", "outside", "hidden", "not_answered"} <= set(items)
    assert items["not_answered"].between(0.01, 0.99).any()
    assert {one.score for one in found} == {"score", "log_odds", "unanswered", "outside"}
    (model,) = run.manifest()["models"]
    assert scoring_in_words(model) == scoring_in_words(run.manifest()["settings"]["chat"])
    page = (run.folder / "report.html").read_text()
    assert page.count(scoring_in_words(model)) == 1
    (primary,) = [one for one in found if one.primary]
    assert primary.missing_data_low < 0 < primary.missing_data_high


def test_unfit_experiments():
    """Experiments without options, or that compare their orders, are skipped with the reason."""
    chat = ChatOptions(model="tiny", base_url="http://127.0.0.1:1/v1", scoring="log-odds")
    tasks, skipped = plan_tasks(
        Settings(studies=("gendered_stigma", "stigma_vignettes"), limit=16, options=(chat,))
    )
    assert {"choices", "conditions", "gender"} <= {task.experiment.name for task in tasks}
    why = {one.experiment: one.reason for one in skipped}
    assert "no options to score by log-odds" in why["completions"]
    assert "averaged over the orders that it compares" in why["order"]
    rows = config_rows("gendered_stigma", "choices")
    kept = trial_rows(rows, 5, "log-odds")
    assert (
        len(kept)
        == len(rows) / 2
        == len({(one["group"], one["template"], one["condition"]) for one in kept})
    )
    vignettes = config_rows("stigma_vignettes", "conditions")
    assert trial_rows(vignettes, 5, "log-odds") == vignettes


def test_odds_of_a_model_that_thinks():
    """First tokens of thoughts are none of an answer: a service that gives them alone is not asked further."""
    message = {"role": "assistant", "content": None, "reasoning_content": "A"}
    tops = {
        "content": [
            {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -0.1}]}
        ]
    }
    thought = Reply(
        {"choices": [{"message": message, "logprobs": tops, "finish_reason": "length"}]}
    )
    with ChatServer(lambda prompt: "A", fault=lambda prompt, n: thought) as server:
        scorer = scorer_of(server, scoring="log-odds", concurrency=1)
        with pytest.raises(UsageError, match=r"without log-probabilities.*-M scoring=sampled"):
            scorer.score([row(f"q{n}", f"{n} {QUESTION}") for n in range(30)])
        assert len(server.requests) <= 12
    assert not any(answer.logprobs for answer in scorer.log.values())
