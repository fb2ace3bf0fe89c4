"""Chat templates: no turn is left out, and log-odds are those of the answer and not of a
reasoning."""

import math

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.template import opens_reasoning
from swapbias.studies.chats import conversation
from tests import tiny
from tests.models.chat.test_log_odds import row
from tests.models.chat.test_service import local as loaded

TURNS = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}<assistant>"
TURNS_IF = (
    "{% for m in messages %}{% if CONDITION %}<{{ m.role }}> {{ m.content }}\n{% endif %}"
    "{% endfor %}<assistant>"
)
USERS = TURNS_IF.replace("CONDITION", "m.role != 'system'")
LAST = "<user> {{ messages[-1].content }}\n<assistant>"
NO_REPLIES = TURNS_IF.replace("CONDITION", "m.role == 'user'")
SWITCHED = (
    TURNS
    + "{% if enable_thinking | default(true) %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
)
SWITCH_OF_ANOTHER_NAME = (
    TURNS + "{% if thinking is defined and not thinking %}</think>{% else %}<think>{% endif %}"
)
SYSTEM = conversation(("system", "Be brief."), ("user", "Yes or no?"))
LONG = conversation(
    ("system", "Be brief."), ("user", "Is it?"), ("assistant", "Yes"), ("user", "Yes or no?")
)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return tiny.save_causal(tmp_path_factory.mktemp("template") / "gpt", positions=1024)


def scorer_of(gpt, template, **options):
    tokenizer = AutoTokenizer.from_pretrained(gpt)
    tokenizer.chat_template = template
    model = AutoModelForCausalLM.from_pretrained(gpt)
    chosen = ChatOptions(model="tiny", provider="local", **{"scoring": "log-odds", **options})
    return LocalChatScorer(model, tokenizer, model_id="tiny", identity={}, options=chosen)


def prompt_of(scorer, text):
    return scorer.tokenizer.decode(scorer._encode(text), skip_special_tokens=True)


def score(scorer, text):
    return scorer.score([row(text=text, candidates="1=Yes|0=No")])[0].score


@pytest.mark.parametrize("text", [SYSTEM, LONG])
def test_dropped_system_turn(gpt, text):
    """A system turn that a template drops is put into the user's turn."""
    users = scorer_of(gpt, USERS)
    every = scorer_of(gpt, TURNS)
    merged = text.replace("<|system|>\nBe brief.\n<|user|>\n", "<|user|>\nBe brief.\n\n")
    assert merged != text
    assert users._encode(text) == every._encode(merged)
    assert score(users, text) == pytest.approx(score(every, merged))
    sampled = scorer_of(gpt, USERS, scoring="sampled")
    assert sampled._encode(text) == users._encode(text)


@pytest.mark.parametrize("template", [LAST, NO_REPLIES])
@pytest.mark.parametrize("scoring", ["sampled", "log-odds"])
def test_dropped_turn(gpt, template, scoring):
    """A template that drops another turn is refused."""
    with pytest.raises(
        UsageError, match="chat template of tiny leaves out a turn of the conversation"
    ):
        score(scorer_of(gpt, template, scoring=scoring), LONG)


TAGS = ["<think>", "<think>\n", "<thinking>\n", "[THINK]", "<|START_THINKING|>", "<seed:think>"]


@pytest.mark.parametrize("tag", TAGS)
def test_template_that_opens_reasoning(gpt, tag):
    """Log-odds after a template that opens a reasoning are refused."""
    assert opens_reasoning(tag)
    with pytest.raises(UsageError, match=r"tiny opens a reasoning.*Use -M scoring=sampled"):
        score(scorer_of(gpt, TURNS + tag), "Yes or no?")
    assert prompt_of(scorer_of(gpt, TURNS + tag, scoring="sampled"), "Yes or no?")


@pytest.mark.parametrize(
    ("template", "closed"),
    [(SWITCHED, "<think>\n\n</think>\n\n"), (SWITCH_OF_ANOTHER_NAME, "</think>")],
)
def test_optional_reasoning(gpt, template, closed):
    """A reasoning that a template can leave out is left out."""
    found = score(scorer_of(gpt, template), "Yes or no?")
    assert found == pytest.approx(
        score(scorer_of(gpt, f"{TURNS}{{{{ {closed!r} }}}}"), "Yes or no?")
    )
    assert not math.isnan(found)
    sampled = prompt_of(scorer_of(gpt, template, scoring="sampled"), "Yes or no?")
    assert sampled.rstrip().endswith("think>")
    assert "</" not in sampled[-8:]


def test_sampled_reasoning(gpt):
    """Sampled answers after an opened tag are marked as reasoning."""
    scorer = loaded(gpt, max_tokens=4)
    scorer.tokenizer.chat_template = TURNS + "<think>\n"
    text, _ = scorer._decode_answer([40, 41], scorer._encode("Yes or no?"))
    assert text.startswith("<think>")
