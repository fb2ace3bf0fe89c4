"""Chat models by ``vllm.LLM``, with a stand-in for vLLM: the answers of transformers, its seeds and its refusals."""

import json
import math
import sys

import pytest

import swapbias
from swapbias.cli.terminal import read_settings
from swapbias.errors import MissingExtraError, UsageError
from swapbias.models import LoadOptions
from swapbias.models.chat import ChatOptions, load_chat
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.offline_vllm import VllmScorer
from swapbias.runs import Settings, start
from swapbias.studies import Candidate, Prompt
from tests import tiny
from tests.cli.test_cli import refused, swapbias as run_swapbias
from tests.conftest import QUIET
from tests.models.chat import fake_vllm

OPTIONS = (Candidate("Very likely", 1.0), Candidate("Not likely", 0.0), Candidate("Do not know"))
QUESTION = "Is it {}?\n- (A): Very likely\n- (B): Not likely\n- (C): Do not know\n\nAnswer with the letter alone."
PROMPTS = [
    Prompt(f"q{number}/t1", "p", "woman", QUESTION.format(number), OPTIONS) for number in (3, 1, 2)
]


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm.module())
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tiny.save_causal(tmp_path_factory.mktemp("vllm") / "gpt", positions=256))


def offline(folder, load=None, **changes):
    return VllmScorer.load(
        folder, load or LoadOptions(), ChatOptions(provider="vllm", model=folder, **changes)
    )


def test_log_odds_of_transformers(folder):
    """Where vLLM shows every token, log-odds are those of transformers, and nothing of the prompt is asked for."""
    scorer = offline(folder, scoring="log-odds", top_logprobs=5_000)
    here = LocalChatScorer.load(folder, LoadOptions(), ChatOptions(scoring="log-odds"))
    for scored, expected in zip(scorer.score(PROMPTS), here.score(PROMPTS), strict=True):
        assert scored.score == pytest.approx(expected.score, abs=1e-5)
        assert scored.parts == pytest.approx(expected.parts, abs=1e-4)
    prompts = [
        scorer.tokenizer.decode(prompt["prompt_token_ids"]) for prompt, _ in scorer.llm.asked
    ]
    assert prompts == sorted(prompts)  # those that begin alike follow one another
    assert len(prompts) == 6  # each in two orders
    assert {chosen.max_tokens for _, chosen in scorer.llm.asked} == {1}
    few = offline(folder, scoring="log-odds", top_logprobs=2).score(PROMPTS)
    assert all(math.isnan(scored.score) for scored in few)  # what is not shown is not zero
    assert all(scored.parts["hidden"] > 0.5 for scored in few)


def test_answers_of_transformers(folder):
    """Greedy answers are those of transformers; sampled ones hang on model, prompt, seed and trial alone."""
    greedy = {"temperature": 0.0, "max_tokens": 5}
    scorer = offline(folder, **greedy)
    here = LocalChatScorer.load(folder, LoadOptions(), ChatOptions(**greedy))
    texts = {}
    for name, answering in (("vllm", scorer), ("transformers", here)):
        answering.score(PROMPTS)
        texts[name] = {
            answer.prompt_id: (answer.answer, answer.finish_reason)
            for answer in answering.log.values()
        }
    assert texts["vllm"] == texts["transformers"]
    sampled = []
    for prompts in (PROMPTS, PROMPTS[::-1]):
        again = offline(folder, max_tokens=5)
        again.score(prompts)
        sampled.append({answer.prompt_id: answer.answer for answer in again.log.values()})
    assert sampled[0] == sampled[1]
    seeds = [chosen.seed for _, chosen in again.llm.asked]
    assert len(set(seeds)) == 3


def test_prompt_longer_than_the_model(folder):
    """A prompt longer than vLLM reads gets no answer and no score, and others do."""
    long = Prompt("long", "p", "woman", QUESTION.format("so " * 300), OPTIONS)
    (first, second) = offline(folder, scoring="log-odds", top_logprobs=5_000).score(
        [long, PROMPTS[0]]
    )
    assert math.isnan(first.score)
    assert first.parts["not_answered"] == 1.0
    assert 0 <= second.score <= 1


def test_how_it_is_loaded(folder):
    """Type, revision, prefix cache and seed are given to vLLM, no code of others runs, and the manifest pins them."""
    scorer = offline(folder, LoadOptions(dtype="bfloat16"), scoring="log-odds", top_logprobs=40)
    assert scorer.llm.made == {
        "dtype": "bfloat16",
        "revision": None,
        "tokenizer_revision": None,
        "seed": 0,
        "trust_remote_code": False,
        "enable_prefix_caching": True,
        "max_logprobs": 40,
        "tensor_parallel_size": 1,
    }
    pinned = {
        name: scorer.identity[name]
        for name in ("architecture", "dtype", "library", "scoring", "top_logprobs")
    }
    assert pinned == {
        "architecture": "GPT2LMHeadModel",
        "dtype": "bfloat16",
        "library": "vllm 0.0.fake",
        "scoring": "log-odds",
        "top_logprobs": 40,
    }
    assert len(scorer.identity["sha256"]) == 64


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (
            {"quantization": "4bit"},
            r"-M quantization is given\. Drop it, or leave -M engine=vllm out\.",
        ),
        ({"batch_size": 8, "device": "cpu"}, r"--device and --batch-size is given"),
    ],
)
def test_settings_of_transformers(folder, load, told):
    """A setting of loading that vLLM does not read is refused."""
    with pytest.raises(UsageError, match=told):
        offline(folder, LoadOptions(**load))


def test_missing_vllm(folder, monkeypatch):
    """Without vLLM the engine is refused in one sentence that says what to install."""
    monkeypatch.delitem(sys.modules, "vllm")
    monkeypatch.setattr("swapbias.errors.find_spec", lambda name: None)
    options = ChatOptions(model=folder, provider="vllm")
    with pytest.raises(
        MissingExtraError,
        match=r"^The engine vllm needs vllm, .* pip install 'swapbias\[vllm\]'\.$",
    ):
        load_chat(options, Settings(options=(options,)))


def test_engine_on_the_command_line():
    """The engine vllm is the provider of that name, which a manifest has; another provider contradicts it."""
    assert read_settings(["engine=vllm", "scoring=log-odds"]) == {
        "provider": "vllm",
        "scoring": "log-odds",
    }
    assert read_settings(["engine=ray"]) == {"engine": "ray"}
    with pytest.raises(
        UsageError, match=r"^-M engine=vllm runs the chat model here\. Drop -M provider\.$"
    ):
        read_settings(["engine=vllm", "provider=local"])
    with pytest.raises(
        UsageError, match="vLLM takes the memory of the GPUs for one model, and --judge is given"
    ):
        ChatOptions(model="m", provider="vllm", judge=("j",)).check()
    refused(run_swapbias("audit", "--study", "bbq", "-M", "engine=vllm"), 2, "Name it with --chat.")


def test_audit_by_vllm(folder, tmp_path):
    """An audit by vLLM runs from Python, is resumed from its manifest, and equals that of transformers."""
    chosen = {
        "limit": 8,
        "scoring": "log-odds",
        "top_logprobs": 5_000,
        "wordings": False,
        "progress": False,
    }
    study = "hatecheck:asked_misses_odds"
    there = swapbias.audit(None, study, chat=folder, engine="vllm", out=tmp_path / "run", **chosen)
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["settings"]["chat"]["provider"] == "vllm"
    assert manifest["models"][0]["library"] == "vllm 0.0.fake"
    settings = Settings.from_manifest(manifest["settings"])
    assert settings.of(ChatOptions).by_vllm
    here, _ = start(
        Settings(
            studies=(study,),
            limit=8,
            wordings=False,
            options=(ChatOptions(model=folder, scoring="log-odds"),),
        ),
        tmp_path / "here",
        **QUIET,
        draw=False,
    )
    scores = [run.folder.joinpath("items/hatecheck.parquet") for run in (there.run, here)]
    import pandas as pd

    by_vllm, by_transformers = (pd.read_parquet(path) for path in scores)
    assert by_vllm["text"].tolist() == by_transformers["text"].tolist()
    assert by_vllm["score"].to_numpy() == pytest.approx(
        by_transformers["score"].to_numpy(), abs=1e-5
    )
