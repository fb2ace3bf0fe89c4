"""Chat models that run here: a causal model of transformers and its chat template."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions
from swapbias.models.chat import answering
from swapbias.models.chat.answering import AnsweringScorer, Groups
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.log_odds import Logs, core, lettered, log_sum, names_of, option_of
from swapbias.models.chat.template import ChatTemplate, opens_reasoning
from swapbias.models.engine import generation
from swapbias.models.engine.loglikelihood import ends_within
from swapbias.models.lengths import length_limit
from swapbias.models.loading import load_model
from swapbias.models.model_names import read_name
from swapbias.models.progress import Progress, silent
from swapbias.models.tokens import refuse_unknown_tokens
from swapbias.studies import Prompt, chats

_CHUNK = (
    64  # prompts whose options are read together: each way to write an option is a text of its own
)
# with which some templates end a prompt
_TAG = "<think>"
_TAG_TOKENS = 12


class LocalChatScorer(AnsweringScorer):
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
        """Wrap a loaded model; ``load`` is the usual way. Of the options, those of a service do nothing here."""
        super().__init__(model_id, options)
        if not tokenizer.chat_template:
            what = f"{model_id} has no chat template: it continues texts and answers no questions"
            raise UsageError(
                f"{what}. Name a chat model, or audit it as a causal model, without --chat."
            )
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        # Tokens that answer for each option, by the options' texts and whether they have letters.
        self._known_forms: dict[tuple[tuple[str, ...], bool], list[list[list[int]]]] = {}
        self.template = ChatTemplate(tokenizer, model_id)
        self.limit = length_limit(tokenizer, model)
        self.chunk_rows = _CHUNK if self.options.log_odds else self.chunk_rows
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind, **settings(self.options)}
        found = self.model.generation_config.eos_token_id
        found = tokenizer.eos_token_id if found is None else found
        self.ends = (
            [] if found is None else [found] if isinstance(found, int) else list(found)
        )  # of an answer

    @classmethod
    def load(cls, model: str, load: LoadOptions, options: ChatOptions | None = None) -> Self:
        """From a Hub id or local folder; a ValueError where there is no such model, or it is not a causal one."""
        loaded, tokenizer, pin = load_model(model, AutoModelForCausalLM, load)
        named: dict[str, Any] = {
            "model_id": read_name(model, pin),
            "identity": pin,
            "batch_size": load.batch_size,
        }
        return cls(loaded, tokenizer, options=options, **named)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """The tokens of each prompt in the model's chat template."""
        return [tuple(self._encode(prompt.text)) for prompt in prompts]

    def _keys(self, prompts: Sequence[Prompt]) -> list[str]:
        adapter = self.identity.get("adapter") or {}
        commits = [
            str(pin.get(name, ""))
            for pin in (self.identity, adapter)
            for name in ("sha256", "revision")
        ]
        pinned = " ".join([self.model_id, *commits]).rstrip()
        return [
            answering.answer_key(prompt, model=f"local {pinned}", options=self.options)
            for prompt in prompts
        ]

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        most = self.options.max_tokens
        encoded = {key: self._encode(rows[0].text) for key, rows in missing.items()}
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, encoded.values())
        keys = [key for key, ids in encoded.items() if len(ids) + most <= self.limit]
        report(
            sum(len(rows) for key, rows in missing.items() if len(encoded[key]) + most > self.limit)
        )
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
        for places, answers in generation.answer(
            self.model, prompts, sampler.weigh, settings=config, batch_size=self.batch_size
        ):
            for place, tokens in zip(places, answers, strict=True):
                rows = missing[keys[place]]
                count = 0 if place in sampler.not_finite else len(tokens)
                text, reason = (
                    self._decoded(tokens, prompts[place]) if count else ("", answering.NON_FINITE)
                )
                usage = {"completion_tokens": count, "total_tokens": count + len(prompts[place])}
                answer = answering.Answer(
                    key=keys[place],
                    prompt_id=rows[0].prompt_id,
                    answer=text,
                    finish_reason=reason,
                    usage=usage,
                )
                self.keep(answer, rows[0])
                report(len(rows))
            self.refuse_useless(expected)

    def option_logs(
        self, prompts: Sequence[Prompt], on_progress: Progress = silent
    ) -> list[Logs | None]:
        """As the answer's beginning, summed over the ways to write an option; nothing is hidden."""
        begins = [self._encode(prompt.text) for prompt in prompts]
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, begins)
        forms = [self._forms(prompt) for prompt in prompts]
        every = zip(begins, forms, strict=True)
        texts = [
            ([*begin, *form], len(begin)) for begin, own in every for some in own for form in some
        ]
        share = len(prompts) / max(1, len(texts))
        how: Any = {
            "batch_size": self.batch_size,
            "on_progress": lambda done: on_progress(done * share),
        }
        values: Any = iter(ends_within(self.model, texts, self.limit, **how))
        logs = [[[next(values) for _ in some] for some in own] for own in forms]
        lost = [any(None in some for some in own) for own in logs]
        return [
            None if no else ([log_sum(some) for some in own], 0.0)
            for no, own in zip(lost, logs, strict=True)
        ]

    def _forms(self, prompt: Prompt) -> list[list[list[int]]]:
        """Return the tokens that answer for each option of a prompt; UsageError: no token is a letter of it.

        They are the single tokens that are read as the option, and the ways to write a text without a letter.
        """
        texts = tuple(option.text for option in prompt.candidates)
        names = names_of(prompt)
        is_lettered = lettered(prompt)
        if (texts, is_lettered) not in self._known_forms:
            forms: list[list[list[int]]] = [[] for _ in texts]
            cores = {core(name) for name in (*names, *texts)}
            for number in sorted(
                {number for name in cores for number in self.tokens.get(name, ())}
            ):
                place = option_of(self.tokenizer.decode([number]), prompt)
                if place is not None:
                    forms[place].append([number])
            if not is_lettered:
                forms = [
                    _without_beginnings(own, self._written(text))
                    for own, text in zip(forms, texts, strict=True)
                ]
            self._known_forms[texts, is_lettered] = forms
        forms = self._known_forms[texts, is_lettered]
        for name, own in zip(names, forms, strict=True):
            if not own:
                raise UsageError(
                    f"The letter {name} is no single token of {self.model_id}. Use -M scoring=sampled."
                )
        return forms

    @cached_property
    def tokens(self) -> Mapping[str, list[int]]:
        """The numbers of the vocabulary's tokens by their ``core``."""
        numbers: dict[str, list[int]] = {}
        for number in sorted(set(self.tokenizer.get_vocab().values())):
            numbers.setdefault(core(self.tokenizer.decode([number])), []).append(number)
        return numbers

    def _written(self, text: str) -> list[list[int]]:
        """Return the tokens of a text in each case, at the start of a line and after a blank."""
        cases = dict.fromkeys(
            (text, text.lower(), text.upper(), text.capitalize(), text[:1].upper() + text[1:])
        )
        spaced = [f"{blank}{one}" for one in cases for blank in ("", " ")]
        return [list(self.tokenizer(one, add_special_tokens=False)["input_ids"]) for one in spaced]

    def _encode(self, text: str) -> list[int]:
        """The turns of the prompt in the model's chat template."""
        messages = chats.turns(text)
        return self.template.ids(messages, answers_at_once=self.options.log_odds)

    def _decoded(self, tokens: Sequence[int], prompt_ids: Sequence[int]) -> tuple[str, str]:
        """The text of an answer and why it ended; a reasoning that the chat template has begun is marked as one."""
        ended = bool(tokens) and tokens[-1] in self.ends
        text = self.tokenizer.decode(tokens[:-1] if ended else tokens, skip_special_tokens=True)
        begun = opens_reasoning(self.tokenizer.decode(prompt_ids[-_TAG_TOKENS:]))
        whole = f"{_TAG}{text}" if begun else text
        return whole.encode(errors="replace").decode(), "stop" if ended else answering.CUT_OFF


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
    """Tokens of a text that goes on: without the end mark that some tokenizers put behind every text."""
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
        self.not_finite: set[int] = (
            set()
        )  # prompts of which a logit was NaN, or the highest infinite

    def weigh(self, logits: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """Logits of some prompts, shape (prompts, vocabulary), with noise unless the temperature is 0."""
        finite = logits.amax(dim=-1).isfinite().tolist()
        self.not_finite.update(place for place, one in zip(places, finite, strict=True) if not one)
        if not self.temperature:
            return logits
        noise = torch.empty_like(logits)
        for row, place in zip(noise, places, strict=True):
            row.exponential_(generator=self.generators[place])
        return logits / self.temperature - noise.log()
