"""Chat models by vLLM itself, on a CPU: the numbers of transformers, its prefix cache, and what its stand-in copies.

`make test-vllm` installs it.
"""

import functools
import json
from importlib.util import find_spec

import pytest

from swapbias.models import LoadOptions
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.offline_vllm import VllmScorer
from swapbias.studies import Prompt
from tests import tiny
from tests.models.chat import fake_vllm
from tests.models.chat.test_vllm import OPTIONS, PROMPTS, QUESTION

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None, reason="needs vllm on a CPU: make test-vllm"
)
LONG = [
    Prompt(f"long {number}/t1", "p", "woman", "She likes the town. " * 60 + QUESTION.format(number), OPTIONS)
    for number in range(4)
]  # fmt: skip
TOPS = 5_000  # more than there are tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose answers end at many tokens."""
    folder = tiny.save_llama(tmp_path_factory.mktemp("vllm") / "llama")
    path = folder / "generation_config.json"
    ends = {"eos_token_id": [2, *range(300, 400)]}
    path.write_text(json.dumps(json.loads(path.read_text()) | ends))
    return str(folder)


@pytest.fixture(scope="module")
def loaded(folder):
    """The model by vLLM, not compiled, which takes longer than all that is asked here."""
    import vllm

    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        changed.setattr(vllm, "LLM", functools.partial(vllm.LLM, enforce_eager=True))
        options = ChatOptions(provider="vllm", model=folder, scoring="log-odds", top_logprobs=TOPS)
        return VllmScorer.load(folder, LoadOptions(), options)


def by_vllm(loaded, **changes):
    return VllmScorer(
        loaded.llm,
        loaded.tokenizer,
        model_id="m",
        identity=loaded.identity,
        options=ChatOptions(provider="vllm", **changes),
        output=loaded.output,
    )


def by_transformers(loaded, folder, **changes):
    return LocalChatScorer.load(folder, LoadOptions(), ChatOptions(**changes))


def answers(scorer, prompts=PROMPTS):
    scorer.score(prompts)
    return {
        answer.prompt_id: (answer.answer, answer.finish_reason) for answer in scorer.log.values()
    }


def test_log_odds(loaded, folder):
    """Log-odds are those of transformers."""
    chosen = {"scoring": "log-odds"}
    here = by_transformers(loaded, folder, **chosen).score(PROMPTS)
    there = by_vllm(loaded, top_logprobs=TOPS, **chosen).score(PROMPTS)
    for scored, expected in zip(there, here, strict=True):
        assert scored.score == pytest.approx(expected.score, abs=1e-5)
        assert scored.parts == pytest.approx(expected.parts, abs=1e-4)


@pytest.mark.parametrize("most", [1, 5, 40])
def test_greedy_answers(most, loaded, folder):
    """Greedy answers and their ends are those of transformers, also where a letter is cut off."""
    chosen = {"temperature": 0.0, "max_tokens": most}
    expected = answers(by_transformers(loaded, folder, **chosen))
    assert answers(by_vllm(loaded, **chosen)) == expected


def test_sampled_answers(loaded):
    """Sampled answers hang on model, prompt, seed and trial alone, in more steps than one as well."""
    many = [
        Prompt(f"q{number}/t1", "p", "woman", QUESTION.format(number), OPTIONS)
        for number in range(100)
    ]
    first = answers(by_vllm(loaded, max_tokens=3), many)
    again = answers(by_vllm(loaded, max_tokens=3), many[::-1])
    assert len(first) == len(many)
    assert first == again
    assert len(set(first.values())) > 50


def test_prefix_cache(loaded):
    """What prompts share is read once."""
    outputs = []
    generate = loaded.llm.generate

    def keep(*asked, **how):
        answered = generate(*asked, **how)
        outputs.extend(answered)
        return answered

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(loaded.llm, "generate", keep)
        by_vllm(loaded, scoring="log-odds", top_logprobs=20).score(LONG)
    lengths = [len(output.prompt_token_ids) for output in outputs]
    cached = [output.num_cached_tokens for output in outputs]
    assert cached[0] == 0
    assert all(2 * count > length for count, length in zip(cached[1:], lengths[1:], strict=True))


def test_what_the_stand_in_copies(loaded, folder):
    """The stand-in returns and refuses what vLLM does."""
    import vllm

    made = {"dtype": "float32", "revision": None, "tokenizer_revision": None, "seed": 0}
    stand_in = fake_vllm.LLM(
        folder,
        **made,
        trust_remote_code=False,
        enable_prefix_caching=True,
        max_model_len=-1,
        max_logprobs=TOPS,
        tensor_parallel_size=1,
    )
    limit = loaded.limit
    asked = [  # tokens of a prompt, settings of an answer
        (9, {"temperature": 0.0, "max_tokens": 30}),
        (9, {"temperature": 0.0, "max_tokens": 5, "detokenize": False}),
        (9, {"temperature": 0.0, "max_tokens": 1, "logprobs": 7}),
        (9, {"temperature": 0.0, "max_tokens": 1, "logprobs": len(loaded.tokenizer)}),
        (limit - 4, {"temperature": 0.0, "max_tokens": 16}),
        (limit - 1, {"temperature": 0.0, "max_tokens": 1}),
        (limit, {"temperature": 0.0, "max_tokens": 1}),
        (limit + 1, {"temperature": 0.0, "max_tokens": 1}),
        (9, {"temperature": 0.0, "max_tokens": 1, "logprobs": TOPS + 1}),
    ]
    for length, chosen in asked:
        prompt = {"prompt_token_ids": [20] * length}
        both = []
        for model, params in (
            (loaded.llm, vllm.SamplingParams),
            (stand_in, fake_vllm.SamplingParams),
        ):
            try:
                (output,) = model.generate([prompt], [params(**chosen)], use_tqdm=False)
            except Exception as error:  # noqa: BLE001 (each has a class of its own)
                both.append(type(error).__name__)
                continue
            (completion,) = output.outputs
            tops = completion.logprobs and [set(top) for top in completion.logprobs]
            both.append(
                (
                    list(output.prompt_token_ids),
                    list(completion.token_ids),
                    completion.text,
                    completion.finish_reason,
                    tops,
                )
            )
        assert both[0] == both[1], (length, chosen)
    for name in ("max_model_len", "get_vocab_size"):
        real, copied = (
            getattr(model.llm_engine.model_config, name) for model in (loaded.llm, stand_in)
        )
        assert (real() if callable(real) else real) == (copied() if callable(copied) else copied)
    steps = loaded.llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens
    assert isinstance(steps, int)
    assert callable(loaded.llm.llm_engine.engine_core.shutdown)
