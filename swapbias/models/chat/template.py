"""Conversations by the chat template of a tokenizer: every turn is in the prompt, and no reasoning is left open."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.errors import UsageError, listed

Turns = Sequence[Mapping[str, str]]  # each with role and content
# Some templates end a prompt with a tag such as <think>, [THINK] and <|START_THINKING|>.
_TAG_PATTERN = (
    r"[<\[]\|?{}(?:start_)?(?:seed:)?(?:think|thinking|thought|thoughts|reasoning)\|?[>\]]"
)
_OPENED_TAG = re.compile(_TAG_PATTERN.format("") + r"\s*$", re.IGNORECASE)
# Variables by which templates leave the reasoning out.
_WITHOUT_REASONING = {"enable_thinking": False, "thinking": False}


class ChatTemplate:
    """The chat template of a tokenizer, with all turns and no reasoning left open."""

    def __init__(self, tokenizer: Any, model_id: str) -> None:
        """Wrap a tokenizer.

        Args:
            tokenizer: a tokenizer of transformers, with a chat template.
            model_id: names the model in errors.
        """
        self.tokenizer = tokenizer
        self.model_id = model_id
        self.dropped: dict[tuple[str, ...], list[int]] = {}
        """Indices of the turns that are left out, by template and roles."""

    def ids(self, messages: Turns, *, answers_at_once: bool) -> list[int]:
        """Return the tokens of a conversation up to the answer.

        The words of a system turn that the template leaves out stand before the user's first.

        Args:
            messages: turns.
            answers_at_once: whether the first token is the answer's, after no reasoning.

        Returns:
            Token ids.

        Raises:
            UsageError: the template leaves out another turn, or opens a reasoning that cannot be left out.
        """
        complete = self._with_every_turn(messages)
        variables = _WITHOUT_REASONING if answers_at_once else {}
        ids = self._render(complete, tokenize=True, **variables)["input_ids"]
        if answers_at_once and opens_reasoning(self._render(complete, tokenize=False, **variables)):
            raise UsageError(
                f"The chat template of {self.model_id} opens a reasoning, and log-odds are of what follows at once. "
                "Use -M scoring=sampled with -M max-tokens=2048."
            )
        return list(ids)

    def _with_every_turn(self, messages: Turns) -> Turns:
        """Return turns that the template does not leave out; a UsageError where there are none such."""
        roles = self._roles_dropped(messages)
        if roles == {"system"}:
            messages = with_system_first(messages)
            roles = self._roles_dropped(messages)
        if roles:
            raise UsageError(
                f"The chat template of {self.model_id} leaves out a turn of the conversation ({listed(roles)}). "
                "Use a tokenizer with the chat template of its makers."
            )
        return messages

    def _roles_dropped(self, messages: Turns) -> set[str]:
        """Return the roles of the turns that are not in the prompt."""
        roles = tuple(turn["role"] for turn in messages)
        key = (str(self.tokenizer.chat_template), *roles)
        if key not in self.dropped:
            self.dropped[key] = self._find_dropped(roles)
        return {roles[index] for index in self.dropped[key]}

    def _find_dropped(self, roles: Sequence[str]) -> list[int]:
        """Return the indices of turns that are not in the prompt, by marks in place of their words."""
        from jinja2 import TemplateError  # transformers needs it for chat templates alone

        marks = [f"swapbias turn {index} of it" for index in range(len(roles))]
        marked = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
        try:
            text = self._render(marked, tokenize=False)
        except TemplateError:  # some know no system turn, and say so
            if "system" not in roles:
                raise
            return [index for index, role in enumerate(roles) if role == "system"]
        return [index for index, mark in enumerate(marks) if mark not in text]

    def _render(self, messages: Turns, *, tokenize: bool, **variables: Any) -> Any:
        if tokenize:
            variables["return_dict"] = True
        return self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=tokenize, **variables
        )


def with_system_first(messages: Turns) -> Turns:
    """Return a conversation with its system turns before the user's first words, as makers of models advise.

    Args:
        messages: turns.

    Returns:
        Turns without the role ``system``.
    """
    system = [turn["content"] for turn in messages if turn["role"] == "system"]
    first, *rest = (turn for turn in messages if turn["role"] != "system")
    return [{**first, "content": "\n\n".join([*system, first["content"]])}, *rest]


def opens_reasoning(text: str) -> bool:
    """Return whether a prompt ends with the tag that opens a reasoning.

    >>> opens_reasoning("<assistant><think>\\n"), opens_reasoning("<think>\\n\\n</think>\\n")
    (True, False)

    Args:
        text: a prompt in a chat template.

    Returns:
        True for a tag of any model.
    """
    return _OPENED_TAG.search(text) is not None
