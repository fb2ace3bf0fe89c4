"""A stand-in of vLLM: ``LLM`` and ``SamplingParams`` with the arguments that are used, answered by transformers."""

from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """The settings of an answer that swapbias sets, with the defaults of vLLM."""

    temperature: float = 1.0
    max_tokens: int = 16
    seed: int | None = None
    logprobs: int | None = None


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
            "max_logprobs": max_logprobs,
            "tensor_parallel_size": tensor_parallel_size,
        }
        self.asked = []  # prompts and settings of each request, in order
        self.model = AutoModelForCausalLM.from_pretrained(model).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        limit = self.model.config.max_position_embeddings
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=limit))

    def generate(self, prompts, sampling_params, *, use_tqdm):
        assert not use_tqdm
        assert len(prompts) == len(sampling_params)
        self.asked += zip(prompts, sampling_params, strict=True)
        return [
            self._answer(prompt, chosen)
            for prompt, chosen in zip(prompts, sampling_params, strict=True)
        ]

    def _answer(self, prompt, chosen):
        ids = prompt["prompt_token_ids"]
        assert len(ids) + chosen.max_tokens <= self.llm_engine.model_config.max_model_len
        assert chosen.logprobs is None or chosen.logprobs <= self.made["max_logprobs"]
        tokens, shown = self._tokens(ids, chosen)
        has_end = tokens[-1] == self.tokenizer.eos_token_id
        completion = SimpleNamespace(
            token_ids=tokens,
            text=self.tokenizer.decode(tokens, skip_special_tokens=True),
            finish_reason="stop" if has_end else "length",
            logprobs=shown if chosen.logprobs is not None else None,
        )
        return SimpleNamespace(prompt_token_ids=ids, outputs=[completion])

    def _tokens(self, ids, chosen):
        """Tokens of an answer, and for each the likeliest tokens with their logs."""
        seeded = torch.Generator().manual_seed(chosen.seed or 0)
        tokens = []
        shown = []
        for _ in range(chosen.max_tokens):
            with torch.inference_mode():
                logs = self.model(torch.tensor([[*ids, *tokens]])).logits[0, -1].log_softmax(-1)
            if chosen.temperature:
                shares = (logs / chosen.temperature).softmax(-1)
                tokens.append(int(torch.multinomial(shares, 1, generator=seeded)))
            else:
                tokens.append(int(logs.argmax()))
            tops = logs.topk(min(chosen.logprobs or 1, len(logs)))
            pairs = zip(tops.indices.tolist(), tops.values.tolist(), strict=True)
            shown.append({token: SimpleNamespace(logprob=log) for token, log in pairs})
            if tokens[-1] == self.tokenizer.eos_token_id:
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
