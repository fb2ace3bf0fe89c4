"""A stand-in of vLLM: ``LLM`` and ``SamplingParams`` with the arguments that are used, answered by transformers.

What it returns and refuses is what vLLM 0.32 did on a CPU: tests/models/chat/test_real_vllm.py asks both.
"""

from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

STEP = 600  # tokens that are read in one step


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """The settings of an answer that swapbias sets, with the defaults of vLLM."""

    temperature: float = 1.0
    max_tokens: int = 16
    seed: int | None = None
    logprobs: int | None = None
    detokenize: bool = True


class VLLMValidationError(Exception):
    """What vLLM raises of a request that it refuses."""


class EngineDeadError(Exception):
    """What vLLM raises once its engine has ended; why is in the log alone."""

    def __init__(self):
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause."
        )


class Engine:
    """What runs in processes of its own."""

    def __init__(self):
        self.ended = 0

    def shutdown(self):
        self.ended += 1


class LLM:
    """Answers by a model of transformers, a token at a time; keeps how it was made and what it was asked."""

    def __init__(
        self,
        model,
        *,
        dtype,
        revision,
        tokenizer_revision,
        seed,
        trust_remote_code,
        enable_prefix_caching,
        max_model_len,
        max_logprobs,
        tensor_parallel_size,
    ):
        self.made = {
            "dtype": dtype,
            "revision": revision,
            "tokenizer_revision": tokenizer_revision,
            "seed": seed,
            "trust_remote_code": trust_remote_code,
            "enable_prefix_caching": enable_prefix_caching,
            "max_model_len": max_model_len,
            "max_logprobs": max_logprobs,
            "tensor_parallel_size": tensor_parallel_size,
        }
        self.asked = []  # prompts and settings of each request, in order
        self.model = AutoModelForCausalLM.from_pretrained(model).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        known = SimpleNamespace(
            max_model_len=self.model.config.max_position_embeddings,
            get_vocab_size=lambda: self.model.config.vocab_size,
        )
        steps = SimpleNamespace(max_num_batched_tokens=STEP)
        self.llm_engine = SimpleNamespace(
            engine_core=Engine(),
            model_config=known,
            vllm_config=SimpleNamespace(scheduler_config=steps),
        )
        ends = self.model.generation_config.eos_token_id
        self.ends = {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}

    def generate(self, prompts, sampling_params, *, use_tqdm):
        assert not use_tqdm
        assert len(prompts) == len(sampling_params)
        self.asked += zip(prompts, sampling_params, strict=True)
        tokens = sum(len(prompt["prompt_token_ids"]) for prompt in prompts)
        if tokens > STEP and any(chosen.seed is not None for chosen in sampling_params):
            raise EngineDeadError  # on a CPU
        return [
            self._answer(prompt, chosen)
            for prompt, chosen in zip(prompts, sampling_params, strict=True)
        ]

    def _answer(self, prompt, chosen):
        ids = prompt["prompt_token_ids"]
        known = self.llm_engine.model_config
        if len(ids) >= known.max_model_len:
            raise VLLMValidationError(f"The decoder prompt (length {len(ids)}) is too long.")
        if (chosen.logprobs or 0) > self.made["max_logprobs"]:
            raise VLLMValidationError(f"Requested sample logprobs of {chosen.logprobs}.")
        if (chosen.logprobs or 0) > known.get_vocab_size():
            raise EngineDeadError
        tokens, shown = self._tokens(ids, chosen)
        has_end = tokens[-1] in self.ends
        text = self.tokenizer.decode(tokens[:-1] if has_end else tokens, skip_special_tokens=True)
        completion = SimpleNamespace(
            token_ids=tokens,
            # The bytes of a letter that is cut off are left out.
            text=text.rstrip("\ufffd") if chosen.detokenize else "",
            finish_reason="stop" if has_end else "length",
            logprobs=shown if chosen.logprobs is not None else None,
        )
        return SimpleNamespace(prompt_token_ids=ids, outputs=[completion])

    def _tokens(self, ids, chosen):
        """Tokens of an answer, and for each the likeliest tokens with their logs."""
        seeded = torch.Generator().manual_seed(chosen.seed or 0)
        tokens = []
        shown = []
        room = self.llm_engine.model_config.max_model_len - len(ids)
        for _ in range(min(chosen.max_tokens, room)):
            with torch.inference_mode():
                logs = self.model(torch.tensor([[*ids, *tokens]])).logits[0, -1].log_softmax(-1)
            if chosen.temperature:
                shares = (logs / chosen.temperature).softmax(-1)
                tokens.append(int(torch.multinomial(shares, 1, generator=seeded)))
            else:
                tokens.append(int(logs.argmax()))
            tops = logs.topk(chosen.logprobs or 1)
            pairs = zip(tops.indices.tolist(), tops.values.tolist(), strict=True)
            shown.append({token: SimpleNamespace(logprob=log) for token, log in pairs})
            if tokens[-1] in self.ends:
                break
        return tokens, shown


def module():
    """The module ``vllm``, as ``sys.modules`` has it."""
    made = ModuleType("vllm")
    made.__spec__ = ModuleSpec("vllm", None)
    made.__version__ = "0.0.fake"
    made.LLM = LLM
    made.SamplingParams = SamplingParams
    return made
