"""Chat models whose tokens are known here: prompts and answers by their tokenizer and chat template."""

from collections.abc import Hashable, Sequence
from typing import Any

from swapbias.errors import UsageError
from swapbias.models.chat import answering
from swapbias.models.chat.answering import AnsweringScorer
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.chat.template import ChatTemplate, opens_reasoning
from swapbias.studies import Prompt, chats

_TAG = "<think>"  # some templates end a prompt with it
_TAG_TOKENS = 12


class TemplatedScorer(AnsweringScorer):
    """An ``AnsweringScorer`` whose prompts are written here, in the model's chat template."""

    runner = "local"
    """What answers: a part of the keys of answers."""

    def __init__(
        self, tokenizer: Any, *, model_id: str, options: ChatOptions | None = None
    ) -> None:
        """Make a scorer of a tokenizer.

        Args:
            tokenizer: the model's tokenizer, with a chat template.
            model_id: the name of the model in findings.
            options: settings of sampling; those of a service do nothing here.

        Raises:
            UsageError: the tokenizer has no chat template.
        """
        super().__init__(model_id, options)
        if not tokenizer.chat_template:
            raise UsageError(
                f"{model_id} has no chat template: it continues texts and answers no questions. "
                "Name a chat model, or audit it as a causal model, without --chat."
            )
        self.tokenizer = tokenizer
        self.template = ChatTemplate(tokenizer, model_id)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return the tokens of each prompt in the model's chat template.

        Args:
            prompts: rows to score.

        Returns:
            Token ids, one tuple per prompt.
        """
        return [tuple(self._encode(prompt.text)) for prompt in prompts]

    def _answer_keys(self, prompts: Sequence[Prompt]) -> list[str]:
        adapter = self.identity.get("adapter") or {}
        parts = [self.runner, self.model_id]
        for pin in (self.identity, adapter):
            parts += [str(pin.get("sha256", "")), str(pin.get("revision", ""))]
        model = " ".join(parts).rstrip()
        return [
            answering.answer_key(prompt, model=model, options=self.options) for prompt in prompts
        ]

    def _encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt's turns in the model's chat template."""
        messages = chats.turns(text)
        return self.template.ids(messages, answers_at_once=self.options.log_odds)

    def _mark_reasoning(self, text: str, prompt_ids: Sequence[int]) -> str:
        """Return the text of an answer; a reasoning that the chat template has begun is marked."""
        if opens_reasoning(self.tokenizer.decode(prompt_ids[-_TAG_TOKENS:])):
            text = f"{_TAG}{text}"
        # Half of a surrogate pair cannot be written down.
        return text.encode(errors="replace").decode()
