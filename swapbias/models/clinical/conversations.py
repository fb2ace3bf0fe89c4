"""Notes as conversations: a chat model is asked about a note, or for its summary."""

from collections.abc import Sequence
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.models.clinical.note_kind import NoteOptions
from swapbias.studies import Candidate, Row, chats, corpus_dir, fill, read_table, tables


def note_conversations(
    rows: Sequence[Row], task: str, options: NoteOptions, *, prompts_of: str, facts: bool = False
) -> list[Row]:
    """Notes as conversations with the options or ``facts`` that answers are read by; UsageError: none are known.

    ``prompts_of``: the corpus whose tables hold the questions.
    """
    folder = corpus_dir(prompts_of)
    prompts = {
        one["task"]: one for one in read_table(folder / "prompts.csv", ("task", "system", "user"))
    }
    asks = read_table(folder / "questions.csv", ("phenotype", "question"))
    questions = {one["phenotype"]: options.question or one["question"] for one in asks}
    checklist = Path(options.checklist or folder / "checklist.csv")
    if facts and not checklist.is_file():
        raise UsageError(
            f"{checklist} does not exist, expected a CSV file with note_id, fact and terms."
        )
    known = tables.read_checklist(checklist) if facts else ()
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["pair_id"], []).append(row["text"])
    stated = {
        pair: tables.facts_of(known, pair.partition("/")[2], both) for pair, both in texts.items()
    }
    system = prompts[task]["system"]
    user = prompts[task]["user"]
    found = []
    for row in rows if not facts else [one for one in rows if stated[one["pair_id"]]]:
        known_facts = (
            stated[row["pair_id"]] if facts else []
        )  # of each fact its terms, which count its number
        candidates = [
            Candidate(term, float(number))
            for number, one in enumerate(known_facts)
            for term in one.terms
        ]
        values = {"note": row["text"]}
        if "[question]" in user:
            question = questions.get(row["condition"], options.question)
            if question is None:
                raise UsageError(
                    f"No question is known for the label {row['condition']!r}. Give -M question."
                )
            values["question"] = question
            candidates = [Candidate("yes", 1.0), Candidate("no", 0.0)]
        text = chats.conversation(("system", system), ("user", fill(user, **values)))
        found.append({**row, "text": text, "candidates": tuple(candidates)})
    return found
