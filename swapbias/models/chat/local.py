"""Chat models that run here: a causal model of transformers and its chat template."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessorList

from swapbias.models.chat.answer_log import (
    CUT_OFF,
    NON_FINITE,
    Answer,
    Read,
    refuse_cut_off,
    unread,
)
from swapbias.models.chat.chat_options import ChatOptions, settings
from swapbias.models.chat.log_odds import Forms, Logs, logs_of
from swapbias.models.chat.service import AnsweringScorer, answer_key
from swapbias.models.engine.beginnings import ends
from swapbias.models.engine.generation import Answered, generator
from swapbias.models.loading import length_batches, length_limit, load_model, model_name
from swapbias.models.scorer import LoadOptions, Progress
from swapbias.studies import Prompt, turns

_CHUNK = 64  # prompts whose options are read together: each way to write an option is a text of its own
_TAG, _TAG_TOKENS = "<think>", 12  # with which some templates end a prompt


class LocalChatScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of a model that runs here.

    Sampled from the plain softmax at the temperature, without top-k, top-p or repetition penalty; temperature 0 gives
    the likeliest answer. An answer depends on model, prompt, seed and trial alone, never on the rows beside it, so
    that a run that was stopped goes on as if it had not been: where a token was chosen so narrowly that rounding,
    which rows beside it change, might have chosen another, the prompt is answered again by itself. (Not in bfloat16
    and float16: there a narrow choice may fall otherwise in other company.) NaN, and no answer: prompt and answer are
    longer than the model reads.
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
        read: Read = unread,
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way. Of the options, those of a service do nothing here."""
        super().__init__(model_id, options, read)
        self.model, self.tokenizer, self.batch_size = model.eval(), tokenizer, batch_size
        self.forms = Forms(tokenizer, model_id)
        self.chunk_rows = _CHUNK if self.options.log_odds else self.chunk_rows
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind, **settings(self.options)}

    @classmethod
    def load(cls, model: str, load: LoadOptions, options: ChatOptions | None = None, *, read: Read = unread) -> Self:
        """From a Hub id or local folder.

        Raises:
            ValueError: no such model, or not a causal one.
        """
        loaded, tokenizer, pin = load_model(model, AutoModelForCausalLM, load)
        return cls(
            loaded, tokenizer, model_id=model_name(model), identity=pin, options=options, batch_size=load.batch_size,
            read=read,
        )  # fmt: skip

    def _keys(self, prompts: Sequence[Prompt]) -> list[str]:
        pinned = " ".join([self.model_id, *(str(self.identity.get(name, "")) for name in ("sha256", "revision"))])
        return [answer_key(prompt, model=f"local {pinned}", options=self.options) for prompt in prompts]

    def _ask(self, groups: Mapping[str, Sequence[Prompt]], report: Progress, expected: int) -> None:
        keys, known = list(groups), len(self.log)
        encoded = [self._encode(groups[key][0].text) for key in keys]
        most = length_limit(self.tokenizer, self.model) - self.options.max_tokens
        fits = [index for index, ids in enumerate(encoded) if len(ids) <= most]
        if len(fits) < len(keys):
            report(sum(len(groups[keys[index]]) for index in set(range(len(keys))).difference(fits)))
        expected = known + len(fits)
        refuse_cut_off(self.log, expected, self.options.max_tokens)  # known answers: of a run that goes on
        for members, answers in self._answers([encoded[index] for index in fits], [keys[index] for index in fits]):
            for index, tokens in zip((fits[member] for member in members), answers, strict=True):
                rows, (text, reason) = groups[keys[index]], self._decoded(tokens, encoded[index])
                count = len(tokens or ())
                usage = {"completion_tokens": count, "total_tokens": count + len(encoded[index])}
                self.log.add(
                    Answer(
                        key=keys[index], prompt_id=rows[0].prompt_id, answer=text, finish_reason=reason, usage=usage
                    ),
                    rows[0],
                )  # fmt: skip
                report(len(rows))
            refuse_cut_off(self.log, expected, self.options.max_tokens)

    def option_logs(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Logs | None]:
        """Of each prompt the log-probabilities of its options as the answer's beginning, in nats; nothing is hidden.

        An option is the sum over the ways to write it (``Forms``). None: prompt and options are longer than the
        model reads.

        Raises:
            UsageError: a letter that is no single token.
        """
        limit = length_limit(self.tokenizer, self.model)
        begins = [self._encode(prompt.text) for prompt in prompts]
        forms = [self.forms.of(prompt) for prompt in prompts]
        longest = [max(len(form) for own in each for form in own) for each in forms]
        fits = [place for place, ids in enumerate(begins) if len(ids) + longest[place] <= limit]
        texts = [
            ([*begins[place], *form], len(begins[place])) for place in fits for own in forms[place] for form in own
        ]
        values = [math.nan] * len(texts)
        for places, known in ends(self.model, texts, batch_size=self.batch_size):
            for place, value in zip(places, known, strict=True):
                values[place] = value
            if on_progress:
                on_progress(len(places) * len(fits) / len(texts))
        if on_progress and len(fits) < len(prompts):
            on_progress(len(prompts) - len(fits))
        known_logs, fitting = iter(values), set(fits)
        return [(logs_of(own, known_logs), 0.0) if place in fitting else None for place, own in enumerate(forms)]

    def _encode(self, text: str) -> list[int]:
        """The turns of the prompt; a model without a chat template reads them one below the other."""
        from jinja2 import TemplateError  # transformers needs it for chat templates alone

        messages = turns(text)
        if self.tokenizer.chat_template is None:
            return open_ids(self.tokenizer, "".join(f"{turn['content']}\n" for turn in messages))
        try:
            encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        except TemplateError:  # some know no system turn: the user's first says it then, as their makers advise
            encoded = self.tokenizer.apply_chat_template(
                without_system(messages), add_generation_prompt=True, return_dict=True
            )
        ids: list[int] = encoded["input_ids"]
        return ids

    def _answers(
        self, encoded: Sequence[list[int]], keys: Sequence[str]
    ) -> Iterator[tuple[list[int], list[list[int] | None]]]:
        """Places of prompts and the tokens of their answers, batch by batch; None where these are not chosen at all:

        a probability was NaN or infinite, and the first token of the vocabulary would have looked the likeliest.
        """
        most, ends = self.options.max_tokens, self._ends()
        chooser = _Chooser(self.options.temperature, keys, self.model)
        many = generator(self.model, max(encoded, key=len), most) if len(encoded) > 1 else None
        if many is not None:
            batches = many.answers(encoded, chooser.choose, ends=ends, most=most, batch_size=self.batch_size)
        else:
            batches = self._equally_long(encoded, chooser)
        for places, answers in batches:
            for number, place in enumerate(places):
                if chooser.unclear(place, len(answers[number])) and len(places) > 1:
                    alone = _Chooser(self.options.temperature, [keys[place]], self.model)
                    answers[number] = self._generate([encoded[place]], alone, [0])[0]
                    chooser.lost = chooser.lost - {place} | ({place} if alone.lost else set())
            yield places, [None if place in chooser.lost else own for place, own in zip(places, answers, strict=True)]

    def _equally_long(self, encoded: Sequence[list[int]], chooser: "_Chooser") -> Iterator[Answered]:
        for places in length_batches([len(ids) for ids in encoded], self.batch_size):
            yield places, self._generate([encoded[place] for place in places], chooser, places)

    def _generate(
        self, encoded: Sequence[Sequence[int]], chooser: "_Chooser", places: Sequence[int]
    ) -> list[list[int]]:
        """Answers to equally long prompts as the library gives them, each with the token that ended it, if any."""
        ids, ends = torch.tensor(encoded, device=self.model.device), self._ends()
        chosen = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, num_beams=1, repetition_penalty=1.0, max_new_tokens=self.options.max_tokens,
            eos_token_id=ends or None, pad_token_id=ends[0] if ends else 0,
        )  # fmt: skip
        with torch.inference_mode():
            whole = self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                generation_config=chosen,
                logits_processor=LogitsProcessorList([lambda _, logits: chooser.weighed(logits, places)]),
            )
        return [_until(row, ends) for row in whole[:, ids.shape[1] :].tolist()]

    def _ends(self) -> list[int]:
        """Tokens that end an answer, by the generation settings of the model or else by its tokenizer."""
        found = self.model.generation_config.eos_token_id
        found = self.tokenizer.eos_token_id if found is None else found
        return [] if found is None else [found] if isinstance(found, int) else list(found)

    def _decoded(self, tokens: Sequence[int] | None, prompt_ids: Sequence[int]) -> tuple[str, str]:
        """The text of an answer and why it ended; a reasoning that the chat template has begun is marked as one."""
        if tokens is None:
            return "", NON_FINITE
        ended = bool(tokens) and tokens[-1] in self._ends()
        text = self.tokenizer.decode(tokens[:-1] if ended else tokens, skip_special_tokens=True)
        begun = self.tokenizer.decode(prompt_ids[-_TAG_TOKENS:]).rstrip().endswith(_TAG)
        whole = f"{_TAG}{text}" if begun else text
        return whole.encode(errors="replace").decode(), "stop" if ended else CUT_OFF


def _until(tokens: list[int], ends: Sequence[int]) -> list[int]:
    """Tokens up to the first that ends an answer, with it; what follows is padding."""
    return tokens[: next((place for place, token in enumerate(tokens, start=1) if token in ends), len(tokens))]


def without_system(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The turns with what the system says at the head of the first turn of the user."""
    system = [turn["content"] for turn in messages if turn["role"] == "system"]
    first, *rest = (dict(turn) for turn in messages if turn["role"] != "system")
    return [{**first, "content": "\n\n".join([*system, first["content"]])}, *rest]


def open_ids(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a text that goes on: without the end mark that some tokenizers put behind every text."""
    ids: list[int] = list(tokenizer(text)["input_ids"])
    marks = {tokenizer.eos_token_id, tokenizer.sep_token_id}
    while len(ids) > 1 and ids[-1] in marks:
        ids.pop()
    return ids


# By how much the highest of all logits must lead for rounding not to matter, in parts of the largest: several times
# what padding and company were seen to change. Coarser types round so much that most draws would be narrow.
_CLEAR = {torch.float64: 1e-13, torch.float32: 2e-5}


class _Chooser:
    """Chooses the likeliest token, or by noise on the logits one drawn from the softmax, and knows how narrowly.

    Each prompt has a generator of its own, seeded by its key. (Gumbel-max trick: Maddison et al. 2014.)
    """

    def __init__(self, temperature: float, keys: Sequence[str], model: Any) -> None:
        self.temperature, self.clear = temperature, _CLEAR.get(model.dtype)
        self.generators = [torch.Generator(model.device).manual_seed(int(key[:15], 16)) for key in keys]
        self.chosen = [0] * len(keys)  # tokens of each prompt
        self.first: dict[int, int] = {}  # and its first that was chosen narrowly
        self.lost: set[int] = set()  # prompts of which a logit was NaN, or the highest infinite

    def choose(self, logits: torch.Tensor, places: Sequence[int]) -> list[int]:
        """The next token of each of some prompts; ``logits`` has the shape (prompts, vocabulary)."""
        chosen: list[int] = self.weighed(logits, places).argmax(dim=-1).tolist()
        return chosen

    def unclear(self, place: int, tokens: int) -> bool:
        """Whether one of so many tokens of a prompt was chosen narrowly."""
        return self.first.get(place, tokens) < tokens

    def weighed(self, logits: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """What is to be taken the highest of, shape (prompts, vocabulary)."""
        weighed = self._noisy(logits, places) if self.temperature else logits
        known = logits.amax(dim=-1).isfinite()
        if not known.all():
            self.lost.update(place for place, one in zip(places, known.tolist(), strict=True) if not one)
        if self.clear is not None:
            highest = weighed.topk(2, dim=-1).values
            margin = logits.abs().amax(dim=-1) * self.clear / (self.temperature or 1.0)
            narrow = ~(highest[:, 0] - highest[:, 1] > margin)  # also where they are no numbers
            for place, is_narrow in zip(places, narrow.tolist(), strict=True):
                if is_narrow:
                    self.first.setdefault(place, self.chosen[place])
                self.chosen[place] += 1
        return weighed

    def _noisy(self, logits: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        noise = torch.empty_like(logits)
        for row, place in zip(noise, places, strict=True):
            row.exponential_(generator=self.generators[place])
        return logits / self.temperature - noise.log()
