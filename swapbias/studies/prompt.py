"""Prompts: the row that every study comes to, its text with slots, turns and wordings."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from swapbias.studies.chats import MESSAGES

MASK = "<mask>"
# the column of notes that says (0 or 1) whether it is doubtful whose words were swapped
DOUBTFUL = "doubtful"
# the column of notes that says by which train/test split they are tested, where there are several
SPLIT = "split"
PLACEBO = "placebo"  # the group of rows that are reworded and in which nothing is swapped
PLACEBO_COLUMNS = ("side", "wording")
JUDGED = "judged"  # the score column of what a judge read in free text
_SLOT = re.compile(r"\[([a-z_]+)\]")
Row = dict[str, Any]  # candidates as a tuple, all else as text


class Candidate(NamedTuple):
    """An answer that a prompt offers."""

    text: str
    """The answer."""
    value: float | None = None
    """The number that it counts; None: nothing ("Do not know")."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One stimulus for one group: rows of a pair differ in the swapped slot alone.

    >>> Prompt(prompt_id="1/female", pair_id="1", group="female", text="She is here.").row()["group"]
    'female'
    """

    prompt_id: str = ""
    """unique within a config"""
    pair_id: str = ""
    """shared by the rows that are compared with each other"""
    group: str = ""
    """what stands (or is looked for) in the swapped slot, e.g. `female`"""
    text: str = ""
    """what the model reads; `<mask>` marks the position a masked model fills"""
    candidates: tuple[Candidate, ...] = ()
    """the answers offered, in order, each with what it counts (null: nothing, as of `Do not know`); empty where
    none are"""
    lexicon: str = ""
    """`corpus/lexicon/label` of the words that are counted; blank where none are"""
    construct: str = ""
    """the theme that the template is about (a phase, a dimension of stigma, an act); blank for none"""
    condition: str = ""
    """what the text is about (a diagnosis, a profession, a set of adjectives)"""
    label: str = ""
    """a class to distinguish results by, mostly that of the condition (mental or other health)"""
    template: str = ""
    """the template the row is made from: rows that share it are not independent"""
    experiment: str = ""
    """the experiment of the study that reads the row"""

    def row(self) -> Row:
        """Give the prompt as a plain row."""
        return {column: getattr(self, column) for column in PROMPT_COLUMNS}


PROMPT_COLUMNS = tuple(column.name for column in fields(Prompt))


_BLANK_ROW = Prompt().row()


@cache
def field_meanings(record: type) -> Mapping[str, str]:
    """Return the docstring under each field of a class on one line, by the name of the field.

    They are read from the source, where alone they stand.

    Args:
        record: a class at the top of a module.
    """
    (definition,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(definition, ast.ClassDef)
    meanings = {}
    for field, docstring in pairwise(definition.body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(docstring, ast.Expr):
            continue
        if isinstance(field.target, ast.Name) and isinstance(docstring.value, ast.Constant):
            meanings[field.target.id] = " ".join(str(docstring.value.value).split())
    return meanings


def prompt_meanings() -> dict[str, str]:
    """Return the meaning of each column of a prompt."""
    meanings = dict(field_meanings(Prompt))
    meanings[MESSAGES] = "what the model reads, turn by turn, as `apply_chat_template` takes it"
    return meanings


def prompt_row(
    pair: str,
    group: str,
    text: str,
    experiment: str,
    *,
    prompt_id: str = "",
    candidates: Iterable[Candidate] = (),
    **others: str,
) -> Row:
    """Make the row of a prompt.

    Args:
        pair: its pair_id.
        group: what stands in the swapped slot.
        text: what the model reads.
        experiment: the one that reads the row.
        prompt_id: the id of the pair with the group ("1/female") where it is blank.
        candidates: the answers offered.
        others: further columns of a prompt.
    """
    row: Row = {
        **_BLANK_ROW,
        "prompt_id": prompt_id or f"{pair}/{group}",
        "pair_id": pair,
        "group": group,
        "text": text,
        "candidates": tuple(candidates),
        "experiment": experiment,
        **others,
    }
    if len(row) > len(_BLANK_ROW):
        Prompt(**row)  # whose error names the column that no prompt has
    return row


def slots(template: str) -> list[str]:
    """List the slots of a template in order: ``noun`` and ``profession`` of "[noun] is a [profession].".

    Args:
        template: a text with slots in brackets.
    """
    return _SLOT.findall(template)


def fill(template: str, **values: str) -> str:
    """Fill every slot of a template.

    Args:
        template: a text with slots in brackets.
        values: the text of each slot by its name.

    Raises:
        ValueError: its slots are not exactly these.
    """
    if _slot_names(template) != sorted(values):
        raise ValueError(
            f"{template!r}: slots {slots(template)}, expected {sorted(values)}. Fix the slot name."
        )
    return _SLOT.sub(lambda match: values[match.group(1)], template)


@lru_cache(maxsize=1_000)  # most templates are filled many times
def _slot_names(template: str) -> list[str]:
    """List the names of the slots of a template, each once, in the order of the alphabet."""
    return sorted(set(slots(template)))


def placebo(row: Mapping[str, Any], wording: str, text: str) -> Row:
    """Make the row of a prompt whose carrier words are reworded: nothing in it is swapped.

    Args:
        row: the row of the prompt; its group becomes ``side``.
        wording: the number of the wording.
        text: the text in that wording.
    """
    return {
        **row,
        "prompt_id": f"{row['prompt_id']}/w{wording}",
        "pair_id": f"{row['pair_id']}/w{wording}",
        "group": PLACEBO,
        "text": text,
        "side": row["group"],
        "wording": wording,
    }


def column(rows: Iterable[Mapping[str, Any]], name: str, missing: str = "") -> Iterator[Any]:
    """Give the values of a column, in the order of the rows.

    Args:
        rows: rows in order.
        name: the name of the column.
        missing: the value of rows that do not have it.
    """
    return (row.get(name, missing) for row in rows)
