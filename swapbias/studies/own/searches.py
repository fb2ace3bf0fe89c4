"""Searches of a user's own study: the other documents of a query, and the control, whose edits name no group."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from swapbias.measures import units
from swapbias.studies.declared_values import Slice
from swapbias.studies.experiment import Experiment, Words
from swapbias.studies.own.factors import factors_of
from swapbias.studies.own.fills import Fills
from swapbias.studies.own.own_declaration import quote_name
from swapbias.studies.own.own_files import CONDITIONS, DOCUMENTS, EDITS, PROMPTS
from swapbias.studies.own.own_prompts import Parsed
from swapbias.studies.own.own_tables import table_column
from swapbias.studies.prompt import Candidate, fill, slots

RETRIEVAL = "retrieval"
"""The kind of models that search."""
RANK = "share of other documents ranked lower"
"""The unit of ranks."""
CONTROL = "edits"
"""The config and the experiment of the control."""
AS_WRITTEN = "as written"
EDITED = "edited"
NO_FILLS = Fills({}, {}, {}, pd.DataFrame())
"""The fills of the control: names are none of its factors."""
_WITH_CONTROL = (
    "A gap that is no larger than those of edits that name no group is no sign of a group."
)
_WITHOUT_CONTROL = (
    "There is no control: edits that name no group may move a document as far as this gap."
)
_ADD_CONTROL = (
    f"There is no control, which shows how far any edit of a word moves a document. Add {EDITS} with edit, usual and "
    "other: words that name no group, and others with as many letters."
)


class Edit(NamedTuple):
    """Words that name no group, and others of as many letters that replace them."""

    name: str
    """What is edited."""
    usual: str
    """Words of the documents."""
    replacement: str
    """Words that replace them."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return a pattern that finds the words, not inside longer ones."""
        return re.compile(rf"(?<!\w){re.escape(self.usual)}(?!\w)")

    def apply(self, text: str) -> str:
        """Give a text of a query and a document with the edit in the document.

        Args:
            text: the query on the first line, the document below it.
        """
        query, line_end, document = text.partition("\n")
        return f"{query}{line_end}{self.pattern.sub(lambda _: self.replacement, document)}"


def is_ranked(parsed: Parsed) -> bool:
    """Tell whether documents are ranked among others, which a table lists; else their similarity is the score.

    Args:
        parsed: the files of a study.
    """
    return DOCUMENTS in parsed.tables


def other_documents(parsed: Parsed) -> dict[str, tuple[Candidate, ...]]:
    """List by condition the documents among which those of its prompts are ranked; none where no table lists any.

    Args:
        parsed: the files of a study without faults.
    """
    return {
        condition: tuple(
            Candidate(_filled(document["text"], values))
            for document in _documents_of(parsed, condition)
        )
        for condition, values in _conditions(parsed).items()
    }


def _filled(text: str, values: Mapping[str, str]) -> str:
    return fill(text, **{slot: values[slot] for slot in set(slots(text))})


def _conditions(parsed: Parsed) -> dict[str, dict[str, str]]:
    """Give by condition of the prompts what fills the slots of its documents."""
    records = parsed.tables.get(CONDITIONS, pd.DataFrame()).to_dict("records")
    by_name = {record["condition"]: record for record in records}
    return {name: by_name.get(name, {}) for name in parsed.prompts["condition"].unique()}


def _documents_of(parsed: Parsed, condition: str) -> list[dict[str, str]]:
    """List the rows of the other documents that are for a condition, or for all."""
    documents = parsed.tables.get(DOCUMENTS, pd.DataFrame()).to_dict("records")
    return [row for row in documents if row.get("condition", condition) == condition]


# --- the control ----------------------------------------------------------------------------------------


def control_prompts(parsed: Parsed, prompts: pd.DataFrame, fills: Fills) -> pd.DataFrame:
    """Make the pairs of the control: each document of the reference group as written, and with each edit.

    Args:
        parsed: the files of a study without faults.
        prompts: prompts of the study.
        fills: the templates that were found in plain prompts.

    Returns:
        Rows with the columns of the prompts and ``edit``; of plain prompts also ``pair``, which several edits share.
    """
    is_usual = (prompts["group"] == parsed.declared.compares.reference) & (prompts["wording"] == "")
    chosen = prompts[is_usual]
    if PROMPTS in parsed.tables:
        chosen = chosen.assign(pair=chosen["pair_id"])
    if "template" in fills.by_pair:
        chosen = chosen.assign(template=chosen["pair_id"].map(fills.by_pair["template"]))
    parts = [chosen[:0].assign(edit="")]
    for edit in _edits(parsed).values():
        texts = chosen["text"].map(edit.apply)
        changed = chosen[texts != chosen["text"]]
        changed = changed.assign(pair_id=changed["pair_id"] + f"/{edit.name}", edit=edit.name)
        parts.append(changed.assign(group=AS_WRITTEN))
        parts.append(changed.assign(group=EDITED, text=texts))
    pairs = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    ids = pairs["pair_id"] + "/" + pairs["group"]
    return pairs.assign(prompt_id=ids, construct="control", experiment=CONTROL)


def _edits(parsed: Parsed) -> dict[int, Edit]:
    """Give the edits of the control by line."""
    table = parsed.tables.get(EDITS, pd.DataFrame(columns=["edit", "usual", "other"]))
    cells = zip(table["edit"], table["usual"], table["other"], strict=True)
    return dict(zip(table.index, (Edit(*row) for row in cells), strict=True))


def control_experiment(parsed: Parsed, searches: Experiment, prompts: pd.DataFrame) -> Experiment:
    """Make the experiment of the control.

    Args:
        parsed: the files of a study without faults.
        searches: the experiment of the groups.
        prompts: the rows of the control.
    """
    design = parsed.declared.design
    factors = factors_of(prompts, NO_FILLS, random=design.random, fixed=design.fixed)
    moved = "change how similar a document is to its query"
    higher = "is more similar to its query"
    says = "finds {more} more similar to their query than {less}"
    if is_ranked(parsed):
        moved = "move a document among the others"
        higher = "is ranked higher"
        says = "ranks {more} above {less}"
    return searches.changed(
        name=CONTROL,
        question=f"Control: how far do edits that name no group {moved}?",
        reads={"configs": (CONTROL,), "rewordings": ()},
        compares={"groups": (EDITED,), "reference": AS_WRITTEN},
        design={
            "random": factors.random,
            "fixed": factors.fixed,
            "random_of": {},
            "unnamed_fills": False,
        },
        shows={
            "levels": (EDITED, AS_WRITTEN),
            "slices": (Slice("edit", "what is edited"),),
            "categories": {},
        },
        words=Words(
            direction=f"above zero the edited document {higher}; the size is what such edits do",
            says=says,
            named={EDITED: "documents with an edit", AS_WRITTEN: "the same ones as written"},
        ),
    )


def group_words(parsed: Parsed, direction: str) -> Words:
    """Write how sentences say what the experiment of the groups found.

    Args:
        parsed: the files of a study.
        direction: what above and below zero mean.
    """
    says = "finds documents of {more} more similar to their query than the same ones of {less}"
    if is_ranked(parsed):
        says = "ranks documents of {more} above the same ones of {less}"
    return Words(
        direction=direction,
        says=says,
        limits=(_WITH_CONTROL if EDITS in parsed.tables else _WITHOUT_CONTROL,),
    )


# --- faults ---------------------------------------------------------------------------------------------


def search_faults(parsed: Parsed) -> Iterator[str]:
    """Find texts that are no query with a document, documents and edits that do not fit, and unread tables.

    Args:
        parsed: the files of a study with prompts.

    Yields:
        A sentence each, with file and line.
    """
    if RETRIEVAL not in parsed.declared.kind:
        for name in (DOCUMENTS, EDITS):
            if name in parsed.tables:
                yield (
                    f'{name} is read by models that search alone. Add kind = ["{RETRIEVAL}"] to study.toml, or '
                    "remove the table."
                )
        return
    yield from _text_faults(parsed)
    yield from _document_faults(parsed)
    yield from _edit_faults(parsed)
    if is_ranked(parsed):
        ranked = parsed.declared.changed(compares={"unit": units.named_unit(RANK)})
        for sentence in ranked.decision_faults():
            yield f"{parsed.line('decisions')}: {sentence}"


def _text_faults(parsed: Parsed) -> Iterator[str]:
    """Find texts without a query or without a document."""
    for row in parsed.prompts.drop_duplicates("where").to_dict("records"):
        query, _, document = row["text"].partition("\n")
        if not (row["masked"] or (query.strip() and document.strip())):
            yield (
                f"{row['where']}: the text is no query with a document. "
                "Write the query on the first line, and the document below it."
            )


def _document_faults(parsed: Parsed) -> Iterator[str]:
    """Find other documents with slots that nothing fills, of no condition, and conditions without any."""
    if not is_ranked(parsed):
        return
    conditions = _conditions(parsed)
    yield from _repeated_documents(parsed.tables[DOCUMENTS])
    for line, row in parsed.tables[DOCUMENTS].iterrows():
        name = row.get("condition", "")
        if name and name not in conditions:
            yield (
                f"{DOCUMENTS}:{line}: no prompt has the condition {quote_name(name)}. Correct it."
            )
        read_for = [values for key, values in conditions.items() if name in ("", key)]
        for slot in _unfilled_slots(row["text"], read_for):
            yield (
                f"{DOCUMENTS}:{line}: no column of {CONDITIONS} fills the slot [{slot}] for every prompt. "
                "Correct it, or write the words."
            )
    for condition in conditions:
        if not _documents_of(parsed, condition):
            yield (
                f"{DOCUMENTS}: there is no document for the condition {quote_name(condition)}. Add some."
            )


def _repeated_documents(documents: pd.DataFrame) -> Iterator[str]:
    """Find documents that a rank would count several times for one condition."""
    line_of: dict[tuple[str, str], int] = {}
    for line, row in documents.iterrows():
        first = line_of.setdefault((row["text"].strip(), row.get("condition", "")), line)
        if first != line:
            yield f"{DOCUMENTS}:{line}: the text is in line {first} too, and a rank would count both. Remove one."


def _unfilled_slots(text: str, read_for: Sequence[Mapping[str, str]]) -> list[str]:
    """List the slots of a text that the values of some condition do not fill."""
    return [slot for slot in slots(text) if not all(slot in values for values in read_for)]


def _edit_faults(parsed: Parsed) -> Iterator[str]:
    """Find edits that change the length or nothing, or what is swapped, and names of edits that recur."""
    documents = parsed.prompts["text"].str.partition("\n")[2]
    names = table_column(parsed.tables, EDITS, "edit")
    for line, edit in _edits(parsed).items():
        fault = _edit_fault(edit, documents, parsed.prompts["unit"])
        if (names == edit.name).sum() > 1:
            fault = f"the edit {quote_name(edit.name)} appears twice. Rename one."
        if fault:
            yield f"{EDITS}:{line}: {fault}"


def _edit_fault(edit: Edit, documents: "pd.Series[str]", units_of_rows: "pd.Series[int]") -> str:
    """Write what is wrong with an edit; blank where nothing is."""
    if len(edit.usual) != len(edit.replacement):
        return (
            f"{quote_name(edit.usual)} has {len(edit.usual)} letters and {quote_name(edit.replacement)} "
            f"{len(edit.replacement)}, and a change of length may count by itself. Choose words that are as long."
        )
    if edit.usual == edit.replacement:
        return "usual and other are the same. Change one."
    has_words = documents.str.contains(edit.pattern)
    of_units = has_words.groupby(units_of_rows)
    if not has_words.any():
        return f"no document contains {quote_name(edit.usual)}. Correct it."
    if (of_units.any() & ~of_units.all()).any():
        return (
            f"{quote_name(edit.usual)} is part of what is swapped: one text of a pair has it and another has not. "
            "Choose words that both have."
        )
    return ""


def control_advice(parsed: Parsed) -> Iterator[str]:
    """Find searches without a control.

    Args:
        parsed: the files of a study without faults.

    Yields:
        A sentence.
    """
    if RETRIEVAL in parsed.declared.kind and EDITS not in parsed.tables:
        yield _ADD_CONTROL
