"""Conversations by the chat template of a tokenizer: every turn is in the prompt, and no reasoning is left open."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.errors import UsageError, listed

Turns = Sequence[Mapping[str, str]]  # role and content of each

# With which some templates end a prompt, such as <think>, [THINK] and <|START_THINKING|>.
_TAG = r"[<\[]\|?{}(?:start_)?(?:seed:)?(?:think|thinking|thought|thoughts|reasoning)\|?[>\]]"
_OPENED = re.compile(_TAG.format("") + r"\s*$", re.IGNORECASE)
_UNCLOSED = {
    "enable_thinking": False,
    "thinking": False,
}  # variables by which templates leave the reasoning out


class ChatTemplate:
    """The chat template of a tokenizer, and what it makes of turns."""

    def __init__(self, tokenizer: Any, model_id: str) -> None:
        self.tokenizer = tokenizer
        self.model_id = model_id
        self.dropped: dict[
            tuple[str, ...], list[int]
        ] = {}  # places of turns that are left out, by template and roles

    def ids(self, messages: Turns, *, answers_at_once: bool) -> list[int]:
        """Return the tokens of a conversation up to the answer.

        The words of a system turn that the template leaves out stand before the user's first.
        ``answers_at_once``: the first token is the answer's, after no reasoning. UsageError: it leaves out another
        turn, or opens a reasoning that cannot be left out.
        """
        complete = self._with_every_turn(messages)
        variables = _UNCLOSED if answers_at_once else {}
        ids = self._render(complete, tokenize=True, **variables)["input_ids"]
        if answers_at_once and opens_reasoning(self._render(complete, tokenize=False, **variables)):
            raise UsageError(
                f"The chat template of {self.model_id} opens a reasoning, and log-odds are of what follows at once. "
                "Use -M scoring=sampled with -M max-tokens=2048."
            )
        return list(ids)

    def _with_every_turn(self, messages: Turns) -> Turns:
        dropped = self._places_dropped(messages)
        roles = {messages[place]["role"] for place in dropped}
        if roles == {"system"}:
            merged = with_system_first(messages)
            roles = {merged[place]["role"] for place in self._places_dropped(merged)}
            messages = merged
        if roles:
            raise UsageError(
                f"The chat template of {self.model_id} leaves out a turn of the conversation ({listed(roles)}). "
                "Use a tokenizer with the chat template of its makers."
            )
        return messages

    def _places_dropped(self, messages: Turns) -> list[int]:
        """Return the places of the turns that are not in the prompt, by marks in their place."""
        from jinja2 import TemplateError  # transformers needs it for chat templates alone

        roles = tuple(turn["role"] for turn in messages)
        key = (str(self.tokenizer.chat_template), *roles)
        if key not in self.dropped:
            marks = [f"swapbias turn {place} of it" for place in range(len(roles))]
            marked = [
                {"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)
            ]
            try:
                text = self._render(marked, tokenize=False)
                self.dropped[key] = [place for place, mark in enumerate(marks) if mark not in text]
            except TemplateError:  # some know no system turn, and say so
                if "system" not in roles:
                    raise
                self.dropped[key] = [place for place, role in enumerate(roles) if role == "system"]
        return self.dropped[key]

    def _render(self, messages: Turns, *, tokenize: bool, **variables: Any) -> Any:
        how: dict[str, Any] = {"return_dict": True} if tokenize else {}
        return self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=tokenize, **how, **variables
        )


def with_system_first(messages: Turns) -> Turns:
    """Return the conversation with its system turns before the user's first words, as makers of models advise."""
    system = [turn["content"] for turn in messages if turn["role"] == "system"]
    first, *rest = (turn for turn in messages if turn["role"] != "system")
    return [{**first, "content": "\n\n".join([*system, first["content"]])}, *rest]


def opens_reasoning(text: str) -> bool:
    """Whether a prompt ends with the tag that opens a reasoning.

    >>> opens_reasoning("<assistant><think>\\n"), opens_reasoning("<think>\\n\\n</think>\\n")
    (True, False)
    """
    return _OPENED.search(text) is not None
