"""Notes as conversations: a chat model is asked about a note, or for its summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.models.clinical.note_kind import NoteOptions
from swapbias.studies import Candidate, Row, chats, checklists, corpus_dir, fill, read_table


def note_conversations(
    rows: Sequence[Row], task: str, options: NoteOptions, *, prompts_of: str, facts: bool = False
) -> list[Row]:
    """Return notes as conversations with the candidates that answers are read by.

    Args:
        rows: notes in both genders.
        task: names the prompts of the conversation.
        options: the user's question and checklist, if any.
        prompts_of: the corpus whose tables hold prompts, questions and a checklist.
        facts: whether answers are read by facts of a checklist; a note without any is left out then.

    Returns:
        Rows whose text is the conversation.

    Raises:
        UsageError: a label without a question, or a checklist that does not exist.
    """
    folder = corpus_dir(prompts_of)
    prompts = {
        prompt["task"]: prompt
        for prompt in read_table(folder / "prompts.csv", ("task", "system", "user"))
    }
    questions = _read_questions(folder, options)
    facts_of_pairs: Mapping[str, Sequence[checklists.Fact]] = {}
    if facts:
        facts_of_pairs = _read_facts(rows, Path(options.checklist or folder / "checklist.csv"))
    system = prompts[task]["system"]
    user = prompts[task]["user"]
    conversations = []
    for row in rows:
        values = {"note": row["text"]}
        candidates: list[Candidate] = []
        if facts:
            facts_of_pair = facts_of_pairs[row["pair_id"]]
            if not facts_of_pair:
                continue
            candidates = _fact_candidates(facts_of_pair)
        if "[question]" in user:
            question = questions.get(row["condition"], options.question)
            if question is None:
                raise UsageError(
                    f"No question is known for the label {row['condition']!r}. Give -M question."
                )
            values["question"] = question
            candidates = [Candidate("yes", 1.0), Candidate("no", 0.0)]
        text = chats.conversation(("system", system), ("user", fill(user, **values)))
        conversations.append({**row, "text": text, "candidates": tuple(candidates)})
    return conversations


def _read_questions(folder: Path, options: NoteOptions) -> dict[str, str]:
    """Return the question about each phenotype; the user's in place of all."""
    questions = read_table(folder / "questions.csv", ("phenotype", "question"))
    return {row["phenotype"]: options.question or row["question"] for row in questions}


def _read_facts(rows: Sequence[Row], checklist: Path) -> dict[str, Sequence[checklists.Fact]]:
    """Return the facts of a checklist that both versions of each note state, by pair."""
    if not checklist.is_file():
        raise UsageError(
            f"{checklist} does not exist, expected a CSV file with note_id, fact and terms."
        )
    facts = checklists.read_checklist(checklist)
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["pair_id"], []).append(row["text"])
    return {
        pair: checklists.facts_of(facts, pair.partition("/")[2], both)
        for pair, both in texts.items()
    }


def _fact_candidates(facts: Sequence[checklists.Fact]) -> list[Candidate]:
    """Return the terms of facts; each counts the number of its fact."""
    return [
        Candidate(term, float(number)) for number, fact in enumerate(facts) for term in fact.terms
    ]
