"""Chat models that run here: a causal model of transformers and its chat template."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions
from swapbias.models.chat import answer_log
from swapbias.models.chat.answering import Groups
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.log_odds import (
    OptionLogProbs,
    core,
    lettered,
    log_sum,
    names_of,
    option_of,
)
from swapbias.models.chat.templated import TemplatedScorer
from swapbias.models.engine import generation, layer_choice
from swapbias.models.engine.fastest_layers import with_fastest_layers
from swapbias.models.engine.loglikelihood import log_probs_within
from swapbias.models.lengths import length_limit
from swapbias.models.loading import load_model
from swapbias.models.model_names import read_name
from swapbias.models.progress import Progress, silent
from swapbias.models.tokens import refuse_unknown_tokens
from swapbias.studies import Prompt

# Prompts whose options are read together: each way to write an option is a text of its own.
_CHUNK = 64


class LocalChatScorer(TemplatedScorer):
    """An ``AnsweringScorer`` of a model that runs here.

    Sampled from the plain softmax at the temperature, without top-k, top-p or repetition penalty; temperature 0 gives
    the likeliest answer. An answer depends on model, prompt, seed and trial; the rows beside it change it only where
    two tokens are equal up to rounding. NaN, and no answer: prompt and answer are longer than the model reads.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        model_id: str,
        identity: Mapping[str, Any],
        options: ChatOptions | None = None,
        batch_size: int = 64,
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way.

        Args:
            model: a causal model of transformers.
            tokenizer: the model's tokenizer, with a chat template.
            model_id: the name of the model in findings.
            identity: pins the model down in the manifest.
            options: settings of sampling; those of a service do nothing here.
            batch_size: most prompts that are read at once.

        Raises:
            UsageError: the tokenizer has no chat template.
        """
        super().__init__(tokenizer, model_id=model_id, options=options)
        self.model, layers = with_fastest_layers(model.eval(), model_id)
        self.batch_size = batch_size
        # Tokens that answer for each option, by the options' texts and whether they have letters.
        self._known_forms: dict[tuple[tuple[str, ...], bool], list[list[list[int]]]] = {}
        self.limit = length_limit(tokenizer, model)
        if self.options.log_odds:
            self.chunk_rows = _CHUNK
        computed_by = {layer_choice.KEY: layers} if layers else {}
        self.identity: Mapping[str, Any] = {
            **identity,
            "kind": self.kind,
            **settings(self.options),
            **computed_by,
        }
        self.ends = _ends_of_answers(model, tokenizer)

    @classmethod
    def load(cls, model: str, load: LoadOptions, options: ChatOptions | None = None) -> Self:
        """Load a model that runs here.

        Args:
            model: a Hub id or local folder.
            load: says how it is loaded.
            options: settings of sampling.

        Returns:
            A scorer.

        Raises:
            ValueError: there is no such model, or it is not a causal one.
        """
        loaded, tokenizer, pin = load_model(model, AutoModelForCausalLM, load)
        return cls(
            loaded,
            tokenizer,
            model_id=read_name(model, pin),
            identity=pin,
            options=options,
            batch_size=load.batch_size,
        )

    def _request_answers(self, missing: Groups, report: Progress, expected: int) -> None:
        most = self.options.max_tokens
        encoded = {key: self._encode(rows[0].text) for key, rows in missing.items()}
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, encoded.values())
        keys = [key for key, ids in encoded.items() if len(ids) + most <= self.limit]
        too_long = missing.keys() - set(keys)
        report(sum(len(missing[key]) for key in too_long))
        expected = len(self.log) + len(keys)
        sampler = _Sampler(self.options.temperature, keys, self.model.device)
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            max_new_tokens=most,
            eos_token_id=self.ends or None,
            pad_token_id=0,  # masked; an ending may lie outside of the vocabulary
        )
        prompts = [encoded[key] for key in keys]
        for indices, answers in generation.answer(
            self.model, prompts, sampler.weigh, settings=config, batch_size=self.batch_size
        ):
            not_finite = sampler.not_finite()
            for index, tokens in zip(indices, answers, strict=True):
                key = keys[index]
                rows = missing[key]
                answer = self._make_answer(
                    key, rows[0], prompts[index], [] if index in not_finite else list(tokens)
                )
                self.keep(answer, rows[0])
                report(len(rows))
            self.refuse_useless_answers(expected)

    def _make_answer(
        self, key: str, prompt: Prompt, prompt_ids: Sequence[int], tokens: Sequence[int]
    ) -> answer_log.Answer:
        """Return the answer of these tokens; without any, one whose probabilities are not finite."""
        text = ""
        reason = answer_log.NON_FINITE
        if tokens:
            text, reason = self._decode_answer(tokens, prompt_ids)
        count = len(tokens)
        return answer_log.Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=text,
            finish_reason=reason,
            usage={"completion_tokens": count, "total_tokens": count + len(prompt_ids)},
        )

    def option_log_probs(
        self, prompts: Sequence[Prompt], on_progress: Progress = silent
    ) -> list[OptionLogProbs | None]:
        """Return log-probabilities of options as the answer's beginning, summed over the ways to write each.

        Args:
            prompts: prompts with candidates.
            on_progress: called with the number of further prompts that are done.

        Returns:
            Natural logarithms; nothing is hidden. None: a text is longer than the model reads.

        Raises:
            UsageError: the letter of an option is several tokens.
        """
        begins = [self._encode(prompt.text) for prompt in prompts]
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, begins)
        forms_of_prompts = [self._option_forms(prompt) for prompt in prompts]
        texts = [
            ([*begin, *form], len(begin))
            for begin, forms in zip(begins, forms_of_prompts, strict=True)
            for option_forms in forms
            for form in option_forms
        ]
        share = len(prompts) / max(1, len(texts))
        read = log_probs_within(
            self.model,
            texts,
            self.limit,
            batch_size=self.batch_size,
            on_progress=lambda done: on_progress(done * share),
        )
        values: Iterator[Any] = iter(read)
        return [
            _sum_forms([[next(values) for _ in option_forms] for option_forms in forms])
            for forms in forms_of_prompts
        ]

    def _option_forms(self, prompt: Prompt) -> list[list[list[int]]]:
        """Return the tokens that answer for each option of a prompt; UsageError: no token is a letter of it."""
        texts = tuple(option.text for option in prompt.candidates)
        key = (texts, lettered(prompt))
        if key not in self._known_forms:
            self._known_forms[key] = self._find_forms(prompt)
        forms = self._known_forms[key]
        for name, option_forms in zip(names_of(prompt), forms, strict=True):
            if not option_forms:
                raise UsageError(
                    f"The letter {name} is no single token of {self.model_id}. Use -M scoring=sampled."
                )
        return forms

    def _find_forms(self, prompt: Prompt) -> list[list[list[int]]]:
        """Return the single tokens that are read as each option, and the ways to write a text without a letter."""
        texts = [option.text for option in prompt.candidates]
        forms: list[list[list[int]]] = [[] for _ in texts]
        cores = {core(name) for name in (*names_of(prompt), *texts)}
        candidates = {token_id for name in cores for token_id in self.tokens.get(name, ())}
        for token_id in sorted(candidates):
            index = option_of(self.tokenizer.decode([token_id]), prompt)
            if index is not None:
                forms[index].append([token_id])
        if lettered(prompt):
            return forms
        return [
            _without_beginnings(of_option, self._written_forms(text))
            for of_option, text in zip(forms, texts, strict=True)
        ]

    @cached_property
    def tokens(self) -> Mapping[str, list[int]]:
        """The ids of the vocabulary's tokens by their ``core``."""
        ids: dict[str, list[int]] = {}
        for token_id in sorted(set(self.tokenizer.get_vocab().values())):
            ids.setdefault(core(self.tokenizer.decode([token_id])), []).append(token_id)
        return ids

    def _written_forms(self, text: str) -> list[list[int]]:
        """Return the tokens of a text in each case, at the start of a line and after a blank."""
        cases = dict.fromkeys(
            (text, text.lower(), text.upper(), text.capitalize(), text[:1].upper() + text[1:])
        )
        spaced = [f"{blank}{case}" for case in cases for blank in ("", " ")]
        return [
            list(self.tokenizer(case, add_special_tokens=False)["input_ids"]) for case in spaced
        ]

    def _decode_answer(self, tokens: Sequence[int], prompt_ids: Sequence[int]) -> tuple[str, str]:
        """Return the text of an answer and why it ended; a reasoning that the chat template has begun is marked."""
        has_end = bool(tokens) and tokens[-1] in self.ends
        text = self.tokenizer.decode(tokens[:-1] if has_end else tokens, skip_special_tokens=True)
        ending = "stop" if has_end else answer_log.CUT_OFF
        return self._mark_reasoning(text, prompt_ids), ending


def _ends_of_answers(model: Any, tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that end an answer."""
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    if ends is None:
        return []
    return [ends] if isinstance(ends, int) else list(ends)


def _sum_forms(logs: Sequence[Sequence[float | None]]) -> OptionLogProbs | None:
    """Return the log of each option, summed over the ways to write it; None where a text is too long to read."""
    sums = []
    for of_option in logs:
        read = [log for log in of_option if log is not None]
        if len(read) < len(of_option):
            return None
        sums.append(log_sum(read))
    return sums, 0.0


def _without_beginnings(
    single: Sequence[list[int]], written: Sequence[list[int]]
) -> list[list[int]]:
    """Return single tokens and ways to write a text, each once, without those that another one begins."""
    forms = list(single)
    for ids in sorted(written, key=len):
        if ids and not any(ids[: len(form)] == form for form in forms):
            forms.append(ids)
    return forms


def open_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a text that goes on: without the end mark that some tokenizers put behind every text.

    Args:
        tokenizer: a tokenizer of transformers.
        text: a beginning.

    Returns:
        Token ids.
    """
    ids: list[int] = list(tokenizer(text)["input_ids"])
    marks = {tokenizer.eos_token_id, tokenizer.sep_token_id}
    while len(ids) > 1 and ids[-1] in marks:
        ids.pop()
    return ids


class _Sampler:
    """Noise on the logits whose highest is then a draw from the softmax (Gumbel-max trick), seeded by prompt."""

    def __init__(self, temperature: float, keys: Sequence[str], device: Any) -> None:
        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(int(key[:15], 16)) for key in keys]
        self._are_finite: list[tuple[Sequence[int], torch.Tensor]] = []

    def not_finite(self) -> set[int]:
        """Return the indices of prompts of which a logit was NaN, or the highest infinite, since this was last asked.

        A GPU is asked when answers are complete: it would be waited for at every token.
        """
        flags = [(indices, are_finite.tolist()) for indices, are_finite in self._are_finite]
        self._are_finite.clear()
        return {
            index
            for indices, are_finite in flags
            for index, is_finite in zip(indices, are_finite, strict=True)
            if not is_finite
        }

    def weigh(self, logits: torch.Tensor, indices: Sequence[int]) -> torch.Tensor:
        """Return logits with noise unless the temperature is 0.

        Args:
            logits: the logits of some prompts, shape (prompts, vocabulary).
            indices: the indices of the prompts.

        Returns:
            Shape (prompts, vocabulary).
        """
        self._are_finite.append((indices, logits.amax(dim=-1).isfinite()))
        if not self.temperature:
            return logits
        noise = torch.empty_like(logits)
        for row, index in zip(noise, indices, strict=True):
            row.exponential_(generator=self.generators[index])
        return logits / self.temperature - noise.log()
