"""One stimulus, one row: the Prompt, filled templates, turns of a chat, and what makes a set of prompts valid."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, compress
from typing import Any

MASK = "<mask>"
PLACEBO = "placebo"  # the group of rows that are reworded and in which nothing is swapped
PLACEBO_COLUMNS = ("side", "wording")
_SLOT = re.compile(r"\[([a-z_]+)\]")
_TURN = re.compile(r"(?:\A|\n)<\|(system|user|assistant)\|>\n")


def _meaning(meaning: str) -> Any:
    """A column with its meaning as data: docstrings are not there under ``python -OO``."""
    return field(metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class Prompt:
    """One stimulus for one group: rows of a pair differ in the swapped slot alone.

    The metadata of each field are its ``meaning``.
    """

    prompt_id: str = _meaning("unique within a config")
    pair_id: str = _meaning("shared by the rows that are compared with each other")
    group: str = _meaning("what stands (or is looked for) in the swapped slot, e.g. `female`")
    text: str = _meaning(
        "what the model reads; `<mask>` marks the position a masked model fills; of a chat with more than one turn "
        "see `conversation`"
    )
    candidates: str = _meaning(
        "`corpus/lexicon/label` of the words counted at the mask, `right|wrong` of two answers, or "
        "`value=option|value=option` of a closed question, the value blank where an option says nothing; blank "
        "where nothing is filled in"
    )
    construct: str = _meaning(
        "the theme that the template is about (a phase, a dimension of stigma, an act); blank for none"
    )
    condition: str = _meaning("what the text is about (a diagnosis, a profession, a set of adjectives)")
    label: str = _meaning("a class to distinguish results by, mostly that of the condition (mental or other health)")
    template: str = _meaning("the template the row is made from: rows that share it are not independent")
    experiment: str = _meaning("the experiment of the study that reads the row")

    def row(self) -> dict[str, str]:
        """The prompt as a plain row."""
        return {column: getattr(self, column) for column in PROMPT_COLUMNS}


PROMPT_COLUMNS = tuple(one.name for one in fields(Prompt))
PROMPT_MEANINGS: dict[str, str] = {one.name: one.metadata["meaning"] for one in fields(Prompt)}


def prompt_row(
    pair: str, group: str, text: str, experiment: str, *, prompt_id: str = "", candidates: str = "",
    construct: str = "", condition: str = "", label: str = "", template: str = "",
) -> "Row":  # fmt: skip
    """The row of a prompt; its id is that of the pair with the group, unless another is given.

    >>> prompt_row("1", "female", "She is here.", "toy")["prompt_id"]
    '1/female'
    """
    name = prompt_id or f"{pair}/{group}"
    return Prompt(name, pair, group, text, candidates, construct, condition, label, template, experiment).row()


def slots(template: str) -> list[str]:
    """The slot names of a template in order.

    >>> slots("[noun] is a [profession].")
    ['noun', 'profession']
    """
    return _SLOT.findall(template)


def fill(template: str, **values: str) -> str:
    """The template with every slot filled.

    >>> fill("<mask> has [diagnosis]", diagnosis="OCD")
    '<mask> has OCD'

    Raises:
        ValueError: when the slots of the template are not exactly the values given.
    """
    if sorted(set(slots(template))) != sorted(values):
        raise ValueError(f"{template!r}: slots {slots(template)}, expected {sorted(values)}. Fix the slot name.")
    return _SLOT.sub(lambda match: values[match.group(1)], template)


def conversation(*turns: tuple[str, str]) -> str:
    """The text of a chat: each turn after a line with its role (system, user or assistant), the user's last.

    >>> conversation(("system", "Answer with a letter."), ("user", "Is it?"))
    '<|system|>\\nAnswer with a letter.\\n<|user|>\\nIs it?'
    """
    return "\n".join(f"<|{role}|>\n{content}" for role, content in turns)


def turns(text: str) -> list[dict[str, str]]:
    """The turns of a ``conversation``; any other text is one turn of the user.

    >>> turns(conversation(("system", "Be brief."), ("user", "Is it?")))[0], turns("Is it?")
    ({'role': 'system', 'content': 'Be brief.'}, [{'role': 'user', 'content': 'Is it?'}])
    """
    before, *parts = _TURN.split(text)
    if before or not parts:
        return [{"role": "user", "content": text}]
    return [{"role": role, "content": content} for role, content in zip(parts[::2], parts[1::2], strict=True)]


def placebo(row: Mapping[str, str], wording: str, text: str) -> dict[str, str]:
    """The row with its carrier words reworded and nothing swapped: what a model's number moves by for no reason.

    ``side`` is the group of the row that it rewords, ``wording`` the number of the wording; pair and prompt are those
    of that row with ``/w`` and the number, the rest is as there.

    >>> row = {"prompt_id": "i/female", "pair_id": "i", "group": "female", "text": "x"}
    >>> list(placebo(row, "2", "y").values())
    ['i/female/w2', 'i/w2', 'placebo', 'y', 'female', '2']
    """
    reworded = {"prompt_id": f"{row['prompt_id']}/w{wording}", "pair_id": f"{row['pair_id']}/w{wording}"}
    return {**row, **reworded, "group": PLACEBO, "text": text, "side": row["group"], "wording": wording}


def check_templates(table: str, rows: list[dict[str, str]], expected: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a template table, once the slots of each column ``template`` are those expected.

    Raises:
        ValueError: naming table and line (the header is line 1).
    """
    wanted = sorted(expected)
    for line, row in enumerate(rows, start=2):
        if sorted(set(slots(row["template"]))) != wanted:
            found = slots(row["template"])
            raise ValueError(f"{table}:{line}: slots {found}, expected {wanted}. Fix the slot name.")
    return rows


def check_prompts(rows: Sequence[Mapping[str, str]], *, masked: bool = False) -> None:
    """Check a set of rows of prompts.

    Raises:
        ValueError: for a repeated prompt_id, a blank text, an unfilled slot, two rows of one group in a pair (of a
            placebo row the group that it rewords), or (``masked``) a text without exactly one ``<mask>``.
    """
    keys = Counter(f"prompt_id {row['prompt_id']!r}" for row in rows)
    keys.update(f"group {row.get('side', row['group'])!r} of pair {row['pair_id']!r}" for row in rows)
    for key, times in keys.items():
        if times > 1:
            raise ValueError(f"{key} stands {times} times, expected once. Fix the table.")
    for row in rows:
        name, text = row["prompt_id"], row["text"]
        if not text.strip() or slots(text):
            raise ValueError(f"prompt {name!r}: text {text!r}, expected every slot filled.")
        if masked and text.count(MASK) != 1:
            raise ValueError(f"prompt {name!r}: text {text!r}, expected exactly one {MASK}.")


# --- rows of prompts ----------------------------------------------------------------------------------

Row = dict[str, str]


def column(rows: Iterable[Mapping[str, str]], name: str, missing: str = "") -> Iterator[str]:
    """The values of a column, in the order of the rows; ``missing`` of rows that have none."""
    return (row.get(name, missing) for row in rows)


def having(rows: Iterable[Row], **values: str) -> list[Row]:
    """Copies of the rows with one value of these columns for all."""
    return [{**row, **values} for row in rows]


def only(rows: Iterable[Row], chosen: Iterable[bool]) -> list[Row]:
    """Those rows that are chosen."""
    return list(compress(rows, chosen))


def joined(parts: Iterable[Iterable[Row]]) -> list[Row]:
    """The rows of all parts in order."""
    return list(chain.from_iterable(parts))
