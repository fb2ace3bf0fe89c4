"""Clinical notes put to a chat model: conversations about a note, and the answers or facts that they are read by."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.models.clinical.options import NoteOptions
from swapbias.studies import (
    Fact,
    conversation,
    corpus_dir,
    facts_of,
    facts_written,
    fill,
    read_checklist,
    read_table,
)

FACTS = "facts"
LONG = 512  # tokens of a text, where nothing else is asked for
PROMPTS_OF = "clinical_chat"
YES_OR_NO = "1=yes|0=no"


def posed(
    rows: Sequence[dict[str, str]], task: str, options: NoteOptions, *, facts: bool = False
) -> list[dict[str, str]]:
    """Notes in both genders as conversations, with the options or facts that their answers are read by.

    Notes that state no fact are left out.

    Raises:
        UsageError: no question for a phenotype, or no checklist there. ValueError: a broken checklist.
    """
    folder = corpus_dir(PROMPTS_OF)
    asks = next(one for one in read_table(folder / "prompts.csv", ("task", "system", "user")) if one["task"] == task)
    named = read_table(folder / "questions.csv", ("phenotype", "question"))
    questions = {row["phenotype"]: row["question"] for row in named}
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["pair_id"], []).append(row["text"])
    checklist = _checklist(options) if facts else ()
    stated = {pair: facts_of(checklist, pair.partition("/")[2], both) for pair, both in texts.items()}
    found = []
    for row in rows:
        if facts and not stated[row["pair_id"]]:
            continue
        values = {"note": row["text"]}
        if "[question]" in asks["user"]:
            values["question"] = _question(row["condition"], options, questions)
        text = conversation(("system", asks["system"]), ("user", fill(asks["user"], **values)))
        candidates = facts_written(stated[row["pair_id"]]) if facts else YES_OR_NO
        found.append({**row, "text": text, "candidates": candidates})
    return found


def _question(phenotype: str, options: NoteOptions, known: Mapping[str, str]) -> str:
    question = options.question or known.get(phenotype)
    if question is None:
        raise UsageError(
            f"No question is known for the label {phenotype!r}. Ask one with -M question='Does the note ...?'"
        )
    return question


def _checklist(options: NoteOptions) -> tuple[Fact, ...]:
    if options.checklist is None:
        return read_checklist(corpus_dir(PROMPTS_OF) / "checklist.csv")
    path = Path(options.checklist)
    if not path.is_file():
        raise UsageError(
            f"{path} does not exist, expected a CSV file with note_id, fact and terms. Give another one."
        )
    return read_checklist(path)
