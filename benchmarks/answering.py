"""Answers of a chat model that runs here: prompts of the stigma vignettes, beside the library's ``generate``."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from benchmarks.filling import every
from benchmarks.frame import Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import VOCABULARY, tokenizer
from swapbias.studies import Prompt, as_prompts, config_rows
from swapbias.studies.chats import turns

TOKENS = 10
ONE_BY_ONE = "generate, one by one"
_TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] + '\n' + m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@cache
def _model() -> Any:
    """The shape of small Qwen2 models, made smaller still: 8 layers, 256 wide, 19 million weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    ends = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        intermediate_size=704,
        max_position_embeddings=2_048,
        tie_word_embeddings=True,
        initializer_range=0.05,
        **sizes,
        **ends,
    )
    return Qwen2ForCausalLM(config).eval()


def _prompts(scale: Scale) -> list[Prompt]:
    """The 14 questions about the 18 people of one condition, as an audit asks them."""
    rows = [
        row for name in ("conditions", "beliefs") for row in config_rows("stigma_vignettes", name)
    ]
    asked = as_prompts([row for row in rows if row["condition"] == rows[0]["condition"]])
    return asked[: scaled(len(asked), scale)]


def _scorer(temperature: float) -> Any:
    from swapbias.models.chat.chat_options import ChatOptions
    from swapbias.models.chat.local import LocalChatScorer

    words = tokenizer()
    words.model_max_length = 2_048
    words.chat_template = _TEMPLATE
    options = ChatOptions(
        model="made", provider="local", temperature=temperature, max_tokens=TOKENS
    )
    return LocalChatScorer(
        _model(), words, model_id="Qwen2 of random weights", identity={}, options=options
    )


def _ours(prompts: Sequence[Prompt], temperature: float) -> Callable[[], list[str]]:
    scorer = _scorer(temperature)

    def run() -> list[str]:
        scorer.log.clear()  # nothing is known from the round before
        return [one.answer for one in scorer.score(prompts)]

    return run


def _peer(prompts: Sequence[Prompt], **sampling: Any) -> Callable[[], list[str]]:
    """Answer as the library's documentation says it: the chat template, ``generate``, the new tokens decoded."""
    import torch

    model = _model()
    words = _scorer(0.0).tokenizer

    def run() -> list[str]:
        answers = []
        for prompt in prompts:
            asked = words.apply_chat_template(
                turns(prompt.text),
                add_generation_prompt=True,
                return_dict=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                whole = model.generate(**asked, max_new_tokens=TOKENS, **sampling)
            answers.append(
                words.decode(whole[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)
            )
        return answers

    return run


def _prepare(scale: Scale) -> Prepared:
    prompts = _prompts(scale)
    places = every(range(len(prompts)), 24)

    def check(outputs: Any) -> str:
        ours = outputs["swapbias"]
        alone = outputs[ONE_BY_ONE]
        if [ours[place] for place in places] != alone:
            raise ValueError("answers differ.")
        return f"the same answers, {len(set(ours))} different ones"

    return Prepared(
        ours=(Side("swapbias", _ours(prompts, 0.0)),),
        peers=(
            Side(
                ONE_BY_ONE,
                _peer([prompts[place] for place in places], do_sample=False),
                share=len(places) / len(prompts),
            ),
        ),
        check=check,
        size=f"{len(prompts)} prompts, {TOKENS} tokens each, temperature 0",
    )


def _prepare_trials(scale: Scale) -> Prepared:
    prompts = [
        replace(prompt, prompt_id=f"{prompt.prompt_id}/t{trial}")
        for prompt in _prompts(scale / 5)
        for trial in range(5)
    ]
    some = every(prompts, 24)

    def check(outputs: Any) -> str:
        return (
            f"answers are drawn: {len(set(outputs['swapbias']))} different ones of {len(prompts)}"
        )

    return Prepared(
        ours=(Side("swapbias", _ours(prompts, 1.0)),),
        peers=(
            Side(
                ONE_BY_ONE,
                _peer(some, do_sample=True, top_k=0, temperature=1.0),
                share=len(some) / len(prompts),
            ),
        ),
        check=check,
        size=f"{len(prompts) // 5} prompts, 5 trials, {TOKENS} tokens each, temperature 1",
    )


_GOAL = {("swapbias", ONE_BY_ONE): 4.0}
WORKLOAD = (
    Workload("answering", "Answers of a local chat model", _GOAL, _prepare),
    Workload("answering-trials", "Answers of a local chat model, 5 trials", _GOAL, _prepare_trials),
)
