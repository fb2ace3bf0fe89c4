"""Chat models that run here by vLLM, which answers many prompts at once and keeps what they share (prefix cache)."""

import atexit
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from swapbias.errors import UsageError, joined
from swapbias.models.base import LoadOptions
from swapbias.models.broken_files import refuse_broken_files
from swapbias.models.chat import answer_log
from swapbias.models.chat.answering import Groups, by_shared_beginnings
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.templated import TemplatedScorer
from swapbias.models.chat.vllm_log import VllmLog
from swapbias.models.chat.vllm_signals import stopped_by_signals
from swapbias.models.devices import pick_device
from swapbias.models.formats import refuse_without_weights
from swapbias.models.loading import dtype_of
from swapbias.models.model_config import architectures, locate_config, source_settings
from swapbias.models.model_names import read_name
from swapbias.models.model_pins import files_pin
from swapbias.models.progress import Progress
from swapbias.models.tokens import tokenizer_pin

_CHUNK = 1_024  # prompts that are answered before their answers are saved
_USUAL_TOPS = 20  # first tokens that vLLM shows at most, where nothing else is set
# The most tokens of a prompt with its answer: as many as the model reads and the memory holds.
_FITTING = -1
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
        output: VllmLog | None = None,
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way.

        Args:
            llm: a ``vllm.LLM``.
            tokenizer: the model's tokenizer, of transformers, with a chat template.
            model_id: the name of the model in findings.
            identity: pins the model down in the manifest.
            options: settings of sampling.
            output: what vLLM prints, which says why it ended; None: the terminal has it.

        Raises:
            UsageError: the tokenizer has no chat template.
        """
        super().__init__(tokenizer, model_id=model_id, options=options)
        self.llm = llm
        self.output = output or VllmLog()
        config = llm.llm_engine.model_config
        self.limit = int(config.max_model_len)
        # vLLM ends where it is asked for more first tokens than there are.
        self.most_tops = min(self.options.top_logprobs, int(config.get_vocab_size()))
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
        output = VllmLog()  # before vLLM is imported, which reads its settings then
        with output.kept():
            import vllm
        from transformers import AutoTokenizer

        options = options or ChatOptions()
        located, config = locate_config(model, load)
        refuse_without_weights(model, Path(model))
        refuse_broken_files(Path(model))
        name, source = source_settings(located, load)
        dtype = dtype_of(model, config, load)
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, **source)
            with output.kept(), stopped_by_signals():
                llm = vllm.LLM(
                    model=name,
                    dtype=dtype,
                    revision=source["revision"],
                    tokenizer_revision=source["revision"],
                    seed=options.seed,
                    trust_remote_code=False,
                    enable_prefix_caching=True,
                    max_model_len=_FITTING,
                    max_logprobs=max(_USUAL_TOPS, options.top_logprobs),
                    tensor_parallel_size=_count_gpus() if load.device_map else 1,
                )
        except Exception as error:
            raise ValueError(
                f"Model {model!r} cannot be loaded by vLLM: {output.reason(error)}."
            ) from error
        atexit.register(_end, weakref.ref(llm.llm_engine.engine_core))
        pin = {
            "architecture": [*architectures(config), config.model_type][0],
            **files_pin(located),
            **tokenizer_pin(tokenizer),
            "device": pick_device("auto").type,
            "dtype": dtype,
            "library": f"vllm {vllm.__version__}",
        }
        if load.device_map:
            pin["device_map"] = load.device_map
        name = read_name(model, pin)
        return cls(llm, tokenizer, model_id=name, identity=pin, options=options, output=output)

    def _request_answers(self, missing: Groups, report: Progress, expected: int) -> None:
        most = 1 if self.options.log_odds else self.options.max_tokens
        encoded: dict[str, list[int]] = {}
        for key, rows in by_shared_beginnings(missing).items():
            ids = self._encode(rows[0].text)
            if len(ids) + most <= self.limit:
                encoded[key] = ids
        report(sum(len(rows) for key, rows in missing.items() if key not in encoded))
        expected = len(self.log) + len(encoded)
        for keys in self._portions(encoded):
            for key, output in zip(keys, self._generate(encoded, keys, most), strict=True):
                rows = missing[key]
                self.keep(self._make_answer(key, rows[0].prompt_id, output), rows[0])
                report(len(rows))
            self.refuse_useless_answers(expected)

    def _portions(self, encoded: Mapping[str, list[int]]) -> Iterator[list[str]]:
        """Yield the keys of prompts that are answered before their answers are saved.

        On a CPU no more than vLLM reads in one step: it ends where an answer has a seed and its prompt takes two.
        """
        room = math.inf
        if self.identity.get("device") == "cpu":
            room = self.llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens
        keys: list[str] = []
        tokens = 0
        for key, ids in encoded.items():
            tokens += len(ids)
            if keys and (len(keys) == _CHUNK or tokens > room):
                yield keys
                keys, tokens = [], len(ids)
            keys.append(key)
        if keys:
            yield keys

    def _generate(
        self, encoded: Mapping[str, list[int]], keys: Sequence[str], most: int
    ) -> Sequence[Any]:
        """Return vLLM's output for the prompt of each key; a ValueError where vLLM ends."""
        printed = self.output.size()
        try:
            outputs: Sequence[Any] = self.llm.generate(
                [{"prompt_token_ids": encoded[key]} for key in keys],
                [self._sampling(key, most) for key in keys],
                use_tqdm=False,
            )
        except Exception as error:
            reason = self.output.reason(error, printed)
            if self.is_credentialed:  # it might quote a note
                reason = type(error).__name__
            raise ValueError(
                f"vLLM ended while {self.model_id} answered ({reason}). Run the same command again to resume."
            ) from error
        return outputs

    def _sampling(self, key: str, most: int) -> Any:
        """Return how an answer is sampled: from the plain softmax, by a seed of its own.

        Tokens are decoded here, as with transformers: vLLM leaves out the beginning of a letter that is cut off.
        """
        import vllm

        if self.options.log_odds:
            chosen = {"temperature": 0.0, "logprobs": self.most_tops}
        else:
            chosen = {"temperature": self.options.temperature, "seed": int(key[:15], 16)}
        return vllm.SamplingParams(max_tokens=most, detokenize=False, **chosen)

    def _make_answer(self, key: str, prompt_id: str, output: Any) -> answer_log.Answer:
        """Return the answer in an output of vLLM, for log-odds with its likeliest first tokens."""
        (completion,) = output.outputs
        tokens = list(completion.token_ids)
        count = len(tokens)
        reason = completion.finish_reason
        if reason == "stop":  # the last token ends the answer
            tokens.pop()
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return answer_log.Answer(
            key=key,
            prompt_id=prompt_id,
            answer=self._mark_reasoning(text, output.prompt_token_ids),
            finish_reason=answer_log.CUT_OFF if reason == "length" else str(reason or ""),
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


def _end(engine: Callable[[], Any]) -> None:
    """End the processes of an engine that is still there.

    As Python ends it waits for them, and only then does what vLLM has asked for to end them: it would wait for ever.
    """
    core = engine()
    if core is not None:
        core.shutdown()


def _count_gpus() -> int:
    """Return the number of GPUs that a model is spread over."""
    import torch

    return max(1, torch.cuda.device_count())
