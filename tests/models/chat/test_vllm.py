"""Chat models by ``vllm.LLM``, with a stand-in for vLLM: the answers of transformers, its seeds and its refusals."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import swapbias
from swapbias.cli.terminal import read_settings
from swapbias.errors import MissingExtraError, UsageError
from swapbias.models import LoadOptions
from swapbias.models.chat import ChatOptions, load_chat
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.chat.offline_vllm import VllmScorer
from swapbias.models.chat.vllm_log import VllmLog
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


VARIABLES = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm.module())
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # back to what it was
        monkeypatch.delenv(name)


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


WORKER = """(EngineCore pid=7) ERROR 11-29 23:54:25 [core.py:15] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-29 23:54:25 [core.py:15] torch.OutOfMemoryError: CUDA out of memory. Tried hard.
(EngineCore pid=7) ERROR 11-29 23:54:26 [core.py:15] RuntimeError: Engine core ended
"""
PASSED_ON = "[core.py:15] RuntimeError: Worker failed with error 'No room for a prompt. Buy more', please check"


def vllm_that_says(text, monkeypatch, name="generate"):
    """Let the stand-in print a log from a process that it starts, and end."""

    def end(self, *unused, **settings):
        code = "import sys; print(sys.argv[1]); print(sys.argv[1], file=sys.stderr)"
        subprocess.run([sys.executable, "-c", code, text], check=True)
        raise fake_vllm.EngineDeadError

    monkeypatch.setattr(fake_vllm.LLM, name, end)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (WORKER, "CUDA out of memory"),
        (PASSED_ON, "No room for a prompt"),
        ("KeyError: 'layers'", "KeyError 'layers'"),
        ("Loading 100 %", "EngineCore encountered an issue"),
    ],
    ids=["out of memory", "passed on", "one word", "no reason"],
)
def test_reason_of_an_end(said, told, folder, monkeypatch, capfd):
    """Why vLLM ends is the first error that a process of it prints, and the terminal has one sentence alone."""
    vllm_that_says(said, monkeypatch, "__init__")
    with pytest.raises(
        ValueError, match=rf"^Model '.*' cannot be loaded by vLLM: {re.escape(told)}\.$"
    ):
        offline(folder)
    assert capfd.readouterr() == ("", "")


def test_end_while_answering(folder, monkeypatch):
    """A vLLM that ends on the way is told of with its reason, of notes by its kind alone."""
    scorer = offline(folder, max_tokens=2)
    vllm_that_says(WORKER, monkeypatch)
    told = r"^vLLM ended while .* answered \(CUDA out of memory\)\. Run the same command again to resume\.$"
    with scorer.output.kept(), pytest.raises(ValueError, match=told):
        scorer.score(PROMPTS)
    with (
        scorer.output.kept(),
        pytest.raises(ValueError, match=r"answered \(EngineDeadError\)\. Run"),
    ):
        scorer.reading_notes().score(PROMPTS)


def test_log_of_vllm(monkeypatch, capfd):
    """vLLM logs errors alone, not on the standard output, and nothing is sent; a level of the user's is kept."""
    with VllmLog().kept():
        os.write(1, b"INFO")
    assert capfd.readouterr() == ("", "")
    assert {name: os.environ[name] for name in VARIABLES} == VARIABLES
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    with VllmLog().kept():
        os.write(2, b"DEBUG")
    assert capfd.readouterr() == ("", "DEBUG")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_stop_while_loading(name, folder, monkeypatch):
    """A signal ends loading, though vLLM leaves out a KeyboardInterrupt there; later signals do what they did."""
    number = getattr(signal, name)

    def end(number, frame):
        raise KeyboardInterrupt(128 + number)

    def leave_out(self, *unused, **settings):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(number)

    monkeypatch.setattr(fake_vllm.LLM, "__init__", leave_out)
    before = signal.signal(number, end)
    try:
        with pytest.raises(KeyboardInterrupt, match=str(128 + number)):
            offline(folder)
        assert signal.getsignal(number) is end
    finally:
        signal.signal(number, before)


def test_loading_in_a_thread(folder):
    """A thread, where Python takes no signals, loads a model too."""
    with ThreadPoolExecutor(1) as pool:
        scorer = pool.submit(offline, folder).result()
    assert len(scorer.score(PROMPTS)) == len(PROMPTS)


def test_end_of_python(folder, monkeypatch):
    """The processes of vLLM are ended as Python ends, before it waits for them, and not if they have ended."""
    asked = []
    monkeypatch.setattr("atexit.register", lambda *call: asked.append(call))
    scorer = offline(folder)
    engine = scorer.llm.llm_engine.engine_core
    end, reference = asked[-1]
    end(reference)
    assert engine.ended == 1
    end(lambda: None)


def test_portions_on_a_cpu(folder, monkeypatch):
    """On a CPU prompts are asked in portions that vLLM reads in one step, with the answers of one portion."""
    texts = []
    for step in (fake_vllm.STEP, 10_000):
        monkeypatch.setattr(fake_vllm, "STEP", step)
        loaded = offline(folder, max_tokens=2)
        scorer = VllmScorer(
            loaded.llm,
            loaded.tokenizer,
            model_id="m",
            identity={"device": "cpu"},
            options=loaded.options,
        )
        many = [
            Prompt(f"q{number}/t1", "p", "woman", QUESTION.format(number), OPTIONS)
            for number in range(20)
        ]
        scorer.score(many)
        texts.append({answer.prompt_id: answer.answer for answer in scorer.log.values()})
    assert len(texts[0]) == 20
    assert texts[0] == texts[1]


def test_more_tops_than_tokens(folder):
    """More first tokens than the model has are not asked for: vLLM would end."""
    scorer = offline(folder, scoring="log-odds", top_logprobs=5_000)
    scorer.score(PROMPTS)
    assert {chosen.logprobs for _, chosen in scorer.llm.asked} == {len(scorer.tokenizer)}


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
        "max_model_len": -1,  # as many as the memory holds
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
