"""Chat models that run here: a causal model of transformers and its chat template."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessor, LogitsProcessorList

from swapbias.scorers.chat.answers import (
    CUT_OFF,
    Answer,
    Read,
    refuse_cut_off,
    unread,
)
from swapbias.scorers.chat.options import ChatOptions, settings
from swapbias.scorers.chat.service import AnsweringScorer, answer_key
from swapbias.scorers.checkpoint import length_batches, length_limit, load_model, model_name
from swapbias.scorers.scorer import LoadOptions, Progress
from swapbias.studies import Prompt, turns


class LocalChatScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of a model that runs here.

    Sampled from the plain softmax at the temperature, without top-k, top-p or repetition penalty; temperature 0 gives
    the likeliest answer. An answer depends on model, prompt, seed and trial alone, never on the rows beside it, so
    that a run that was stopped goes on as if it had not been. NaN, and no answer: prompt and answer are longer than
    the model reads.
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
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind, **settings(self.options)}

    @classmethod
    def load(cls, model: str, load: LoadOptions, options: ChatOptions | None = None, *, read: Read = unread) -> Self:
        """From a Hub id or local folder.

        Raises:
            ValueError: no such model, or not a causal one.
        """
        loaded, tokenizer, pin = load_model(model, AutoModelForCausalLM, device=load.device, dtype=load.dtype)
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
        most = length_limit(self.tokenizer, self.model.config) - self.options.max_tokens
        fits = [index for index, ids in enumerate(encoded) if len(ids) <= most]
        if len(fits) < len(keys):
            report(sum(len(groups[keys[index]]) for index in set(range(len(keys))).difference(fits)))
        expected = known + len(fits)
        refuse_cut_off(self.log, expected, self.options.max_tokens)  # known answers: of a run that goes on
        for batch in length_batches([len(encoded[index]) for index in fits], self.batch_size):
            members = [fits[index] for index in batch]
            answers = self._generate([encoded[index] for index in members], [keys[index] for index in members])
            for index, (text, tokens, reason) in zip(members, answers, strict=True):
                rows = groups[keys[index]]
                usage = {"completion_tokens": tokens, "total_tokens": tokens + len(encoded[index])}
                self.log.add(
                    Answer(
                        key=keys[index], prompt_id=rows[0].prompt_id, answer=text, finish_reason=reason, usage=usage
                    ),
                    rows[0],
                )  # fmt: skip
                report(len(rows))
            refuse_cut_off(self.log, expected, self.options.max_tokens)

    def _encode(self, text: str) -> list[int]:
        """The turns of the prompt; a model without a chat template reads them one below the other."""
        from jinja2 import TemplateError  # transformers needs it for chat templates alone

        told = turns(text)
        if self.tokenizer.chat_template is None:
            return open_ids(self.tokenizer, "".join(f"{turn['content']}\n" for turn in told))
        try:
            encoded = self.tokenizer.apply_chat_template(told, add_generation_prompt=True, return_dict=True)
        except TemplateError:  # some know no system turn: the user's first says it then, as their makers advise
            encoded = self.tokenizer.apply_chat_template(
                without_system(told), add_generation_prompt=True, return_dict=True
            )
        ids: list[int] = encoded["input_ids"]
        return ids

    def _generate(self, encoded: Sequence[Sequence[int]], keys: Sequence[str]) -> list[tuple[str, int, str]]:
        """Text, number of tokens and why it ended, for each of the prompts, which are equally long."""
        ids = torch.tensor(encoded, device=self.model.device)
        ends = self._ends()
        chosen = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, num_beams=1, repetition_penalty=1.0, max_new_tokens=self.options.max_tokens,
            eos_token_id=ends or None, pad_token_id=ends[0] if ends else 0,
        )  # fmt: skip
        noise = [_Sampler(self.options.temperature, keys, self.model.device)] if self.options.temperature else []
        with torch.inference_mode():
            whole = self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                generation_config=chosen,
                logits_processor=LogitsProcessorList(noise),
            )
        return [self._decoded(row, ends) for row in whole[:, ids.shape[1] :].tolist()]

    def _ends(self) -> list[int]:
        """Tokens that end an answer, by the generation settings of the model or else by its tokenizer."""
        found = self.model.generation_config.eos_token_id
        found = self.tokenizer.eos_token_id if found is None else found
        return [] if found is None else [found] if isinstance(found, int) else list(found)

    def _decoded(self, row: list[int], ends: Sequence[int]) -> tuple[str, int, str]:
        stop = next((place for place, token in enumerate(row) if token in ends), len(row))
        reason = CUT_OFF if stop == len(row) else "stop"
        text = self.tokenizer.decode(row[:stop], skip_special_tokens=True)
        return text.encode(errors="replace").decode(), min(stop + 1, len(row)), reason


def without_system(told: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The turns with what the system says at the head of the first turn of the user."""
    system = [turn["content"] for turn in told if turn["role"] == "system"]
    first, *rest = (dict(turn) for turn in told if turn["role"] != "system")
    return [{**first, "content": "\n\n".join([*system, first["content"]])}, *rest]


def open_ids(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a text that goes on: without the end mark that some tokenizers put behind every text."""
    ids: list[int] = list(tokenizer(text)["input_ids"])
    marks = {tokenizer.eos_token_id, tokenizer.sep_token_id}
    while len(ids) > 1 and ids[-1] in marks:
        ids.pop()
    return ids


class _Sampler(LogitsProcessor):
    """Turns the likeliest token into a draw from the softmax: argmax of logits / temperature plus Gumbel noise.

    Each row has a generator of its own, seeded by its key. (Gumbel-max trick: Maddison et al. 2014.)
    """

    def __init__(self, temperature: float, keys: Sequence[str], device: torch.device) -> None:
        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(int(key[:15], 16)) for key in keys]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores with noise, shape (rows, vocabulary)."""
        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores / self.temperature - noise.log()
