"""Chat models that run here by vLLM, which answers many prompts at once and keeps what they share (prefix cache)."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from swapbias.errors import UsageError, first_line, joined
from swapbias.models.base import LoadOptions
from swapbias.models.chat import answer_log
from swapbias.models.chat.answering import Groups, by_shared_beginnings
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.templated import TemplatedScorer
from swapbias.models.devices import pick_device
from swapbias.models.formats import refuse_without_weights
from swapbias.models.loading import dtype_of
from swapbias.models.model_config import architectures, locate_config, source_settings
from swapbias.models.model_names import read_name
from swapbias.models.model_pins import files_pin
from swapbias.models.progress import Progress

_CHUNK = 1_024  # prompts that are answered before their answers are saved
_USUAL_TOPS = 20  # first tokens that vLLM shows at most, where nothing else is set
# Settings of loading that are of transformers alone.
_UNREAD = (
    "device", "batch_size", "quantization", "attn_implementation", "subfolder", "adapter", "trust_remote_code",
)  # fmt: skip


class VllmScorer(TemplatedScorer):
    """A ``TemplatedScorer`` of a model that runs here by ``vllm.LLM``.

    Sampled from the plain softmax at the temperature, each answer with a seed of its own; log-odds are read off the
    likeliest first tokens, never off the prompt. NaN, and no answer: prompt and answer are longer than vLLM reads.
    """

    runner = "vllm"

    def __init__(
        self,
        llm: Any,
        tokenizer: Any,
        *,
        model_id: str,
        identity: Mapping[str, Any],
        options: ChatOptions | None = None,
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way.

        Args:
            llm: a ``vllm.LLM``.
            tokenizer: the model's tokenizer, of transformers, with a chat template.
            model_id: the name of the model in findings.
            identity: pins the model down in the manifest.
            options: settings of sampling.

        Raises:
            UsageError: the tokenizer has no chat template.
        """
        super().__init__(tokenizer, model_id=model_id, options=options)
        self.llm = llm
        self.limit = int(llm.llm_engine.model_config.max_model_len)
        self.identity: Mapping[str, Any] = {
            **identity,
            "kind": self.kind,
            **settings(self.options),
        }

    @classmethod
    def load(cls, model: str, load: LoadOptions, options: ChatOptions | None = None) -> Self:
        """Load a model by vLLM, all files of one commit.

        Args:
            model: a Hub id or local folder.
            load: its type, and whether it is spread over all GPUs.
            options: settings of sampling.

        Returns:
            A scorer.

        Raises:
            UsageError: a setting that vLLM does not read.
            ValueError: there is no such model, or vLLM does not load it.
        """
        _refuse_unread_settings(load)
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # nothing about an audit leaves
        import vllm
        from transformers import AutoTokenizer

        options = options or ChatOptions()
        located, config = locate_config(model, load)
        refuse_without_weights(model, Path(model))
        name, source = source_settings(located, load)
        dtype = dtype_of(model, config, load)
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, **source)
            llm = vllm.LLM(
                model=name,
                dtype=dtype,
                revision=source["revision"],
                tokenizer_revision=source["revision"],
                seed=options.seed,
                trust_remote_code=False,
                enable_prefix_caching=True,
                max_logprobs=max(_USUAL_TOPS, options.top_logprobs),
                tensor_parallel_size=_count_gpus() if load.device_map else 1,
            )
        except Exception as error:
            raise ValueError(
                f"Model {model!r} cannot be loaded by vLLM: {first_line(error)}."
            ) from error
        pin = {
            "architecture": [*architectures(config), config.model_type][0],
            **files_pin(located),
            "device": pick_device("auto").type,
            "dtype": dtype,
            "library": f"vllm {vllm.__version__}",
        }
        if load.device_map:
            pin["device_map"] = load.device_map
        return cls(llm, tokenizer, model_id=read_name(model, pin), identity=pin, options=options)

    def _request_answers(self, missing: Groups, report: Progress, expected: int) -> None:
        most = 1 if self.options.log_odds else self.options.max_tokens
        encoded: dict[str, list[int]] = {}
        for key, rows in by_shared_beginnings(missing).items():
            ids = self._encode(rows[0].text)
            if len(ids) + most <= self.limit:
                encoded[key] = ids
        report(sum(len(rows) for key, rows in missing.items() if key not in encoded))
        expected = len(self.log) + len(encoded)
        ordered = list(encoded)
        for start in range(0, len(ordered), _CHUNK):
            keys = ordered[start : start + _CHUNK]
            outputs = self.llm.generate(
                [{"prompt_token_ids": encoded[key]} for key in keys],
                [self._sampling(key, most) for key in keys],
                use_tqdm=False,
            )
            for key, output in zip(keys, outputs, strict=True):
                rows = missing[key]
                self.keep(self._make_answer(key, rows[0].prompt_id, output), rows[0])
                report(len(rows))
            self.refuse_useless_answers(expected)

    def _sampling(self, key: str, most: int) -> Any:
        """Return how an answer is sampled: from the plain softmax, by a seed of its own."""
        import vllm

        if self.options.log_odds:
            return vllm.SamplingParams(
                temperature=0.0, max_tokens=most, logprobs=self.options.top_logprobs
            )
        return vllm.SamplingParams(
            temperature=self.options.temperature, max_tokens=most, seed=int(key[:15], 16)
        )

    def _make_answer(self, key: str, prompt_id: str, output: Any) -> answer_log.Answer:
        """Return the answer in an output of vLLM, for log-odds with its likeliest first tokens."""
        (completion,) = output.outputs
        count = len(completion.token_ids)
        is_cut = completion.finish_reason == "length"
        return answer_log.Answer(
            key=key,
            prompt_id=prompt_id,
            answer=self._mark_reasoning(completion.text, output.prompt_token_ids),
            finish_reason=answer_log.CUT_OFF if is_cut else str(completion.finish_reason or ""),
            usage={
                "completion_tokens": count,
                "total_tokens": count + len(output.prompt_token_ids),
            },
            logprobs=self._first_tokens(completion.logprobs),
        )

    def _first_tokens(
        self, logprobs: Sequence[Mapping[int, Any]] | None
    ) -> tuple[tuple[str, float], ...]:
        """Return the likeliest first tokens with their natural logs; none where none were asked for."""
        if not logprobs:
            return ()
        logs = [(token_id, float(token.logprob)) for token_id, token in logprobs[0].items()]
        return tuple(
            (self.tokenizer.decode([token_id]), log) for token_id, log in logs if math.isfinite(log)
        )


def _refuse_unread_settings(load: LoadOptions) -> None:
    """Refuse, with a UsageError, settings of loading that vLLM does not read."""
    unread = [setting.written for setting in load.not_usual(*_UNREAD)]
    if unread:
        raise UsageError(
            f"vLLM reads a model by itself, and {joined(unread)} is given. "
            "Drop it, or leave -M engine=vllm out."
        )


def _count_gpus() -> int:
    """Return the number of GPUs that a model is spread over."""
    import torch

    return max(1, torch.cuda.device_count())
