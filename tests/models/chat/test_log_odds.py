"""Options by their probabilities: every order, letters that move, services and local models that say the same."""

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swapbias.cli.auditing import plan_sentences
from swapbias.errors import UsageError
from swapbias.models.chat import ChatOptions, scoring_in_words, trial_rows
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.log_odds import orders, shown_logs
from swapbias.runs import Settings, plan_tasks, resume, start
from swapbias.studies import Prompt, as_prompts, config_rows
from swapbias.studies.custom import options_of
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


@pytest.fixture(scope="module", params=[None, TEMPLATE], ids=["plain", "template"])
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
    total = math.log(math.fsum(math.exp(one - most) for one in logits)) + most
    return [(named(local.tokenizer, number), one - total) for number, one in enumerate(logits)]


@cache
def named(tokenizer, number):
    """A token as a service tells it, which names those that are no text by their bytes."""
    text = tokenizer.decode([number])
    return f"bytes:{number}" if "\N{REPLACEMENT CHARACTER}" in text else text


@pytest.mark.parametrize(("study", "config"), CONFIGS)
def test_every_closed_question_is_asked_in_two_orders(study, config):
    for prompt in as_prompts(config_rows(study, config)):
        (straight, _), (turned, places) = orders(prompt)
        said = prompt.candidates
        assert straight == prompt
        assert tuple(said[place] for place in places) == turned.candidates
        silent = [place for place, one in enumerate(said) if one.value is None]
        assert [places[place] for place in silent] == silent  # "Do not know" stays the last
        counted = [place for place in places if place not in silent]
        assert counted == sorted(counted, reverse=True)
        for letter, one in zip("ABCDE", turned.candidates, strict=False):
            assert f"- ({letter}): {one.text}" in turned.text.rpartition("?")[2]
        assert orders(turned)[1][0] == prompt  # there and back


def test_the_reverse_order_is_the_one_of_the_study():
    published, turned = {}, {}
    for prompt in as_prompts(config_rows("stigma_vignettes", "order")):
        (turned if prompt.group == "reversed" else published)[prompt.pair_id] = prompt
    assert len(published) == 432
    for pair, prompt in published.items():
        other, _ = orders(prompt)[1]
        assert (other.text, other.candidates) == (turned[pair].text, turned[pair].candidates)
    assert [one.text for one, _ in orders(row(text=WORDS, candidates="1=she|0=he|=nobody"))] == [WORDS]
    told = row(text="Answer yes or no.", candidates="1=yes|0=no")
    assert [one.text for one, _ in orders(told)] == ["Answer yes or no.", "Answer no or yes."]


@pytest.mark.parametrize("candidates", ["1=yes|1=no", "1=yes|=no"])
def test_fewer_than_two_options_that_count_are_refused(candidates):
    with pytest.raises(ValueError, match="expected two candidates at least that count different numbers"):
        orders(row(candidates=candidates))


def test_first_tokens_are_options_by_letter_or_word_and_what_is_left_is_hidden():
    told = [("A", math.log(0.4)), (" A", math.log(0.1)), ("(B", math.log(0.2)), ("As", math.log(0.1)), ("a", -3.0)]
    logs, hidden = shown_logs(row(), told)
    assert [math.exp(one) for one in logs] == pytest.approx([0.5, 0.2, 0.0])
    assert hidden == pytest.approx(1 - 0.8 - math.exp(-3))
    words = row(text=WORDS, candidates="1=Very likely|0=Very bad|0.5=Not good")
    logs, _ = shown_logs(words, [("Not", math.log(0.3)), ("Very", math.log(0.5)), ("Ver", math.log(0.1))])
    assert [math.exp(one) for one in logs] == pytest.approx([0, 0, 0.3])  # "Very" begins two


def test_by_a_slow_definition_every_order_of_letters(local):
    for prompt in as_prompts(config_rows("stigma_vignettes", "conditions"))[::200]:
        by_text = {one.text: [] for one in prompt.candidates}
        for one, _ in orders(prompt):
            tokens = first_tokens(local, one.text)
            for letter, said in zip("ABCDE", one.candidates, strict=True):
                mass = math.fsum(math.exp(log) for token, log in tokens if token.strip(" (.)\n:*\"'") == letter)
                by_text[said.text].append(mass)
        mean = {text: sum(masses) / 2 for text, masses in by_text.items()}
        values = {text: value for text, value in prompt.candidates if value is not None}
        counted = sum(mean[text] for text in values)
        sides = [[text for text, value in values.items() if value == side] for side in (1, 0)]
        each = [[math.log(sum(by_text[text][order] for text in side)) for side in sides] for order in (0, 1)]
        (found,) = local.score([prompt])
        assert found.score == pytest.approx(sum(value * mean[text] for text, value in values.items()) / counted)
        assert found.parts["log_odds"] == pytest.approx(sum(more - less for more, less in each) / 2, abs=1e-5)
        assert found.parts["unanswered"] == pytest.approx(1 - counted / sum(mean.values()), abs=1e-6)
        assert found.parts["outside"] == pytest.approx(1 - sum(mean.values()), abs=1e-6)
        assert found.parts["not_answered"] == pytest.approx(1 - counted, abs=1e-6)
        assert found.answer == max(mean, key=mean.get)


def test_by_a_slow_definition_an_option_without_a_letter_is_the_product_of_its_tokens(local):
    prompt = row(text="Is it so? It is", candidates="1=very likely|0=she|=nobody")
    (found,) = local.score([prompt])
    single = first_tokens(local, prompt.text)
    masses = [0.0, *(math.fsum(math.exp(log) for token, log in single if token.strip(" .\n(") == name)
                     for name in ("she", "nobody"))]  # fmt: skip
    for place, name in enumerate(("very likely", "she", "nobody")):
        ids = local.tokenizer(name, add_special_tokens=False)["input_ids"]
        if len(ids) > 1:
            whole = torch.tensor([local._encode(prompt.text) + ids])
            with torch.no_grad():
                each = torch.log_softmax(local.model(whole).logits[0].double(), -1)
            at = whole.shape[1] - len(ids)
            masses[place] += math.exp(sum(float(each[at + n - 1, token]) for n, token in enumerate(ids)))
    assert masses[0] > 0
    assert found.score == pytest.approx(masses[0] / (masses[0] + masses[1]), rel=1e-4)
    assert found.parts["outside"] == pytest.approx(1 - sum(masses), abs=1e-6)


def test_a_prompt_longer_than_the_model_reads_is_counted_and_a_letter_of_two_tokens_is_refused(local, monkeypatch):
    long, short = local.score([row("long", QUESTION.replace("Is it?", "Is it? " * 600)), row()])
    assert math.isnan(long.score)
    assert (long.finite, long.parts["not_answered"], math.isnan(long.parts["outside"])) == (True, 1.0, True)
    assert 0 <= short.score <= 1
    monkeypatch.setattr(local, "forms", {"B": []})
    with pytest.raises(UsageError, match="The letter B is no single token of tiny"):
        local.score([row()])
    broken = [([math.nan, -1.0, -1.0], 0.0)] * 2
    monkeypatch.setattr(local, "option_logs", lambda prompts, report=None: broken)
    (found,) = local.score([row()])
    assert not found.finite
    assert math.isnan(found.score)


def service(server, **more):
    return scorer_of(server, scoring="log-odds", **{"top_logprobs": 2_000, **more})


def test_a_service_that_tells_all_tokens_says_what_the_local_model_says(gpt):
    tokenizer, model = AutoTokenizer.from_pretrained(gpt), AutoModelForCausalLM.from_pretrained(gpt)
    here = LocalChatScorer(model, tokenizer, model_id="tiny", identity={}, options=ChatOptions(scoring="log-odds"))
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
    other = {"A": "B", "B": "A"}[first]
    return [(first, math.log(0.6)), (other, math.log(0.3)), ("I", math.log(0.05)), ("As", math.log(0.05))]


def test_the_first_tokens_that_a_service_tells_bound_what_it_hides():
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


def test_a_service_without_log_probabilities_is_told_after_the_requests_under_way_and_never_asked_again(tmp_path):
    with ChatServer(str) as server:
        asking = service(server, concurrency=1)
        asking.keep_answers(tmp_path)
        with pytest.raises(UsageError, match=r"without log-prob.*, which -M scoring=log-odds needs\. Start a new"):
            asking.score([row()])
        again = service(server)
        again.keep_answers(tmp_path)
        with pytest.raises(UsageError, match="without log-probabilities"):
            again.score([row()])
        assert len(server.requests) == 1
    refusal = Reply({"error": {"message": "logprobs is not supported"}}, status=400)
    with ChatServer(str, fault=lambda prompt, n: refusal) as server:
        with pytest.raises(ValueError, match=r"logprobs is not supported\); not every service gives log-probab"):
            service(server, concurrency=1).score([row()])
        assert len(server.requests) == 1


def settings(server, *studies, **more):
    chat = ChatOptions(model="tiny", base_url=server.base_url, scoring="log-odds", concurrency=1, **more)
    return Settings(studies=studies, limit=16, options=(chat,))


def liking(prompt):
    """Probabilities of the letters that hang on the prompt alone."""
    rng = np.random.default_rng(sum(prompt.encode()))
    return [(letter, float(log)) for letter, log in zip("ABCDE", np.log(rng.dirichlet([2] * 5)), strict=True)]


def test_a_run_says_its_way_goes_on_without_asking_twice_and_never_another_way(tmp_path, quiet):
    def fault(prompt, n):
        return "401" if len(server.requests) == 12 else None

    with ChatServer(str, tokens=liking, fault=fault) as server:
        asked = settings(server, "stigma_vignettes:gender")
        told = " ".join(plan_sentences(asked))
        assert "16 prompts for tiny; 32 requests to send" in told
        with pytest.raises(ValueError, match="key"):
            start(asked, tmp_path / "run", **quiet)
        lines = (tmp_path / "run" / "answers.jsonl").read_text().splitlines()
        assert [len(json.loads(line)["logprobs"]) for line in lines] == [5] * 11
        server.fault = lambda prompt, n: None
        sampled = replace(asked, options=(replace(asked.options[0], scoring="sampled"),))
        with pytest.raises(UsageError, match=r"log-odds.*sampled"):
            start(sampled, tmp_path / "run", **quiet)
        run, found = resume(tmp_path / "run", **quiet)
        assert len(server.requests) == 33  # 32, and the one that was refused
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


def test_what_has_no_options_or_compares_their_orders_is_left_out_and_says_why():
    chat = ChatOptions(model="tiny", base_url="http://127.0.0.1:1/v1", scoring="log-odds")
    tasks, skipped = plan_tasks(Settings(studies=("gendered_stigma", "stigma_vignettes"), limit=16, options=(chat,)))
    assert {"choices", "conditions", "gender"} <= {task.experiment.name for task in tasks}
    why = {one.experiment: one.reason for one in skipped}
    assert "no options to score by log-odds" in why["completions"]
    assert "averaged over the orders that it compares" in why["order"]
    rows = config_rows("gendered_stigma", "choices")
    kept = trial_rows(rows, 5, "log-odds")
    assert len(kept) == len(rows) / 2 == len({(one["group"], one["template"], one["condition"]) for one in kept})
    vignettes = config_rows("stigma_vignettes", "conditions")
    assert trial_rows(vignettes, 5, "log-odds") == vignettes
