"""Completion in a shell: commands, options, and the names of studies, experiments and corpora."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise

from swapbias import models, studies
from swapbias.studies import catalogue

_REQUEST = (
    "_SWAPBIAS_COMPLETE"  # the variable by which a shell asks; its value names shell and question
)
_BASH = "complete_bash"
_OTHERS = "_TYPER_COMPLETE_ARGS"  # the whole line, of zsh, fish and PowerShell
_PLAN = re.compile(r"^(\S+\s+)plan(?=\s)")


def is_requested() -> bool:
    """Return whether this process is a shell's question."""
    return _REQUEST in os.environ


def answer(command: Callable[..., object]) -> None:
    """Print what may follow the words that were typed, for the shell that asks.

    Args:
        command: the command of all commands.
    """
    typed = ""
    if os.environ[_REQUEST] == _BASH:
        words, position = _bash_words()
        words = [
            "audit" if word == "plan" and index == 1 else word for index, word in enumerate(words)
        ]
        typed = words[position]
        os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(position)}
    elif _OTHERS in os.environ:
        os.environ[_OTHERS] = _PLAN.sub(r"\1audit", os.environ[_OTHERS])
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            command([], prog_name="swapbias", standalone_mode=False)
    except SystemExit:  # how typer ends it
        pass
    kept = typed[: typed.rfind(":") + 1].rpartition("=")[2]
    lines = printed.getvalue().splitlines()
    sys.stdout.write("".join(f"{line.removeprefix(kept)}\n" for line in lines))


def _bash_words() -> tuple[list[str], int]:
    """Return the words that were typed and the number of the last; bash splits them at colons and equals signs."""
    parts = os.environ["COMP_WORDS"].split("\n")
    position = int(os.environ["COMP_CWORD"])
    parts = [*parts, ""][: position + 1]
    words = parts[:1]
    for before, part in pairwise(parts):
        if part in (":", "=") or before in (":", "="):
            words[-1] += part
        else:
            words.append(part)
    return words, len(words) - 1


def complete_studies(incomplete: str) -> list[str]:
    """List the studies that may be meant, and after a colon the experiments of one.

    Args:
        incomplete: what is typed; names before its last comma stay.
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _studies_or_experiments(last)]


def _studies_or_experiments(name: str) -> Iterator[str]:
    """Yield names of studies, or of a study with a colon those of its experiments."""
    study, colon, _ = name.partition(":")
    if not colon:
        yield from studies.studies()
    elif study in studies.studies():
        yield from (f"{study}:{part.name}" for part in catalogue.outline(study).experiments)


def complete_corpora(incomplete: str) -> Sequence[str]:
    """List the corpora.

    Args:
        incomplete: what is typed.
    """
    return [name for name in studies.corpora() if name.startswith(incomplete)]


def complete_listed(incomplete: str) -> Sequence[str]:
    """List the studies and kinds of models.

    Args:
        incomplete: what is typed.
    """
    names = [*studies.studies(), *(kind.name for kind in models.kinds())]
    return [name for name in names if name.startswith(incomplete)]
