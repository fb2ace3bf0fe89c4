"""Make the prompts that the files of a user's own study come to."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd

from swapbias.studies.chats import conversation
from swapbias.studies.declared import Declaration
from swapbias.studies.experiment import OwnStudy
from swapbias.studies.name_bank import with_names
from swapbias.studies.own.own_declaration import USUAL_REQUEST, quote_name, read_declaration
from swapbias.studies.own.own_files import (
    CONDITIONS,
    CVS,
    DECLARATION,
    DOCUMENTS,
    LEXICON,
    NAMES,
    PROMPTS,
    REQUIRED,
    SLOTS,
    TEMPLATES,
    WORDINGS,
    Files,
)
from swapbias.studies.own.own_tables import read_own_table, table_column
from swapbias.studies.prompt import MASK, fill, slots
from swapbias.studies.ranking import (
    Applicant,
    balanced_rankings,
    drawn_names,
    names_of,
    shown_cvs,
)

MOST_PROMPTS = 1_000_000  # of a study
_COLUMNS = (
    "pair_id", "group", "text", "construct", "condition", "label", "template", "counted", "wording", "where",
    "inserted",
)  # fmt: skip
Tables = Mapping[str, pd.DataFrame]  # by the names of their files


@dataclass(frozen=True)
class Parsed:
    """The files of a study as parsed, and every prompt that they make, other wordings included."""

    files: Files = field(repr=False)
    """Content of each file by its name."""
    declared: OwnStudy
    """What study.toml says, without what is wrong."""
    declaration: Declaration = field(repr=False)
    """The file, with the lines of its keys."""
    declaration_faults: Mapping[str, str]
    """A sentence on what is wrong with study.toml, by key."""
    tables: Tables
    """Tables as texts, indexed by lines in the file; templates have a template_id."""
    table_faults: list[str]
    """Sentences on what is wrong with tables and templates; what is wrong is not among the rows."""
    labels: tuple[str, ...]
    """The groups of the lexicon's words, in order."""
    group_names: tuple[str, ...]
    """Groups that the tables hold, in order."""
    groups: tuple[str, ...]
    """Groups that are compared, the reference among them."""
    prompts: pd.DataFrame
    """A row for each prompt, none where files cannot be read. ``where`` is file and line, ``counted`` what is counted
    at the mask (words with bars between, or a label of the lexicon), ``unit`` the number of the pair in its wording,
    ``masked`` whether the text holds a mask, ``inserted`` the name in the text, of a slot or a column ``name``."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The groups that are compared with the reference."""
        reference = self.declared.compares.reference
        return tuple(group for group in self.groups if group != reference)

    def line(self, key: str, value: str = "") -> str:
        """Give file and line of a key of the declaration.

        Args:
            key: the key without its section.
            value: a text in the list of the key, whose line is given where it stands on one of its own.
        """
        paths = (path for path in self.declaration.lines if path[-1] == key)
        return f"{DECLARATION}:{self.declaration.line(next(paths, ()), value)}"


def parse_study(files: Files) -> Parsed:
    """Parse the files of a study; faults are collected, not raised.

    Args:
        files: content of each file by its name.
    """
    declared, declaration_faults, declaration = read_declaration(files.get(DECLARATION, b""))
    table_faults: list[str] = []
    tables = {
        name: read_own_table(name, files[name], table_faults) for name in REQUIRED if name in files
    }
    if SLOTS in tables:
        tables[SLOTS] = _with_drawn_names(tables[SLOTS], table_faults)
    labels = tuple(table_column(tables, LEXICON, "group").unique())
    of_tables = pd.concat([table_column(tables, name, "group") for name in (SLOTS, PROMPTS, NAMES)])
    names = tuple(of_tables.unique()) or labels
    groups = _compared_groups(declared, names)
    source_fault = _source_fault(tables, declared, is_valid=not declaration_faults)
    prompts = pd.DataFrame()
    if source_fault:
        table_faults.append(source_fault)
    elif all(map(len, tables.values())):
        prompts = _make_prompts(tables, declared, groups, table_faults)
    if len(prompts) > MOST_PROMPTS:
        table_faults.append(
            f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them."
        )
        prompts = prompts[:0]
    return Parsed(
        files=files,
        declared=declared,
        declaration=declaration,
        declaration_faults=declaration_faults,
        tables=tables,
        table_faults=table_faults,
        labels=labels,
        group_names=names,
        groups=groups,
        prompts=_complete(prompts, labels, is_ranking=CVS in tables),
    )


def _with_drawn_names(table: pd.DataFrame, faults: list[str]) -> pd.DataFrame:
    """Give the rows of slots with the names that cells ask for; faults are added to ``faults``."""
    lines: list[int] = []
    rows: list[dict[str, str]] = []
    for line, row in with_names(_records({SLOTS: table}, SLOTS)):
        if isinstance(row, str):
            faults.append(f"{SLOTS}:{line}: {row}")
        else:
            lines.append(line)
            rows.append(row)
    return pd.DataFrame(rows, index=lines, columns=table.columns, dtype=object)


def _source_fault(tables: Tables, declared: OwnStudy, *, is_valid: bool) -> str:
    """Write what is wrong with the tables that prompts are made of; blank where nothing is."""
    sources = [name for name in (TEMPLATES, PROMPTS, CVS) if name in tables]
    if len(sources) != 1:
        return (
            f"{DECLARATION}: expected one of {TEMPLATES}, {PROMPTS} and {CVS} next to it. "
            "Add or remove one."
        )
    has_cvs = CVS in tables
    if has_cvs != (NAMES in tables) or (is_valid and has_cvs != declared.is_ranking):
        return (
            f'{DECLARATION}: {CVS}, {NAMES} and reading = "ranking" go together. '
            "Add what is missing."
        )
    return ""


def _make_prompts(
    tables: Tables, declared: OwnStudy, groups: Sequence[str], faults: list[str]
) -> pd.DataFrame:
    """Make the prompts of a table of candidates, of prompts, or of templates; faults are added to ``faults``."""
    if CVS in tables:
        return _rank_candidates(tables, groups, declared.reads.ask or USUAL_REQUEST, faults)
    if PROMPTS in tables:
        return _read_prompts(tables[PROMPTS], groups)
    return _fill_templates(tables, groups, faults)


def _complete(prompts: pd.DataFrame, labels: Sequence[str], *, is_ranking: bool) -> pd.DataFrame:
    """Add the columns that tables lack, what is counted at masks, and the number of the pair."""
    columns = list(dict.fromkeys([*prompts, *_COLUMNS]))
    prompts = prompts.reindex(columns=columns).astype(object).fillna("")
    masked = prompts["text"].str.contains(MASK, regex=False).astype(bool)
    if labels:  # the words of its group, or the only ones there are
        only = labels[0] if len(labels) == 1 else ""
        listed = prompts["group"].where(prompts["group"].isin(labels), only)
        prompts["counted"] = prompts["counted"].where(prompts["counted"] != "", listed)
    prompts["counted"] = prompts["counted"].where(masked | is_ranking, "")
    units = prompts.groupby(["pair_id", "wording"], sort=False).ngroup()
    return prompts.assign(unit=units, masked=masked).reset_index(drop=True)


def _compared_groups(declared: OwnStudy, names: tuple[str, ...]) -> tuple[str, ...]:
    """Give the groups that are compared, the reference among them: those declared, else those of the tables."""
    groups = declared.compares.groups
    reference = declared.compares.reference
    if reference in groups:
        return groups
    return (*groups, reference) if groups and reference in names else names


def _read_prompts(table: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    """Give the prompts of a table of plain prompts; one text with a mask is a prompt for the words of each group."""
    pairs = table["pair"] if "pair" in table else [f"row{line}" for line in table.index]
    prompts = table.rename(columns={"candidates": "counted"}).drop(columns="pair", errors="ignore")
    prompts = prompts.assign(pair_id=pairs, where=[f"{PROMPTS}:{line}" for line in table.index])
    if "name" in prompts:
        prompts["inserted"] = prompts["name"]
    if "group" in prompts:
        return prompts
    masked = prompts["text"].str.contains(MASK, regex=False)
    with_masks = prompts[masked].drop(columns="counted", errors="ignore")
    of_groups = with_masks.merge(pd.Series(groups, name="group", dtype=object), how="cross")
    return pd.concat([prompts[~masked], of_groups])


# --- templates ------------------------------------------------------------------------------------------


def _fill_templates(tables: Tables, groups: Sequence[str], faults: list[str]) -> pd.DataFrame:
    """Fill every template and wording with every row of slots and every condition that it names."""
    filler = _Filler(tables, groups)
    templates = [
        (f"{name}:{line}", record)
        for name in (TEMPLATES, WORDINGS)
        for line, record in _records(tables, name)
    ]
    prompts: list[dict[str, str]] = []
    for line, record in templates:
        sentences = filler.faults(record)
        faults += [f"{line}: {sentence}" for sentence in sentences]
        if not sentences:
            prompts += filler.fill(record, line)
        if len(prompts) > MOST_PROMPTS:
            break
    return pd.DataFrame(prompts, dtype=object).drop(columns="template_id", errors="ignore")


def _records(tables: Tables, name: str) -> list[tuple[int, dict[str, str]]]:
    """List the rows of a table with their lines; none where there is no table."""
    if name not in tables:
        return []
    return list(zip(tables[name].index, tables[name].to_dict("records"), strict=True))


class _Filler:
    """Fills templates with the rows of slots and conditions that they name."""

    def __init__(self, tables: Tables, groups: Sequence[str]) -> None:
        templates = _records(tables, TEMPLATES)
        wordings = _records(tables, WORDINGS)
        self._templates = {record["template_id"]: record for _, record in reversed(templates)}
        self._words = [record for _, record in _records(tables, SLOTS)]
        self._conditions = [record for _, record in _records(tables, CONDITIONS)]
        self._word_columns = set(self._words[0]) if self._words else set()
        self._condition_columns = set(self._conditions[0]) if self._conditions else set()
        self._without_words = [{"pair": "", "group": group} for group in groups]
        texts = [record["template"] for _, record in (*templates, *wordings)]
        texts.extend(table_column(tables, DOCUMENTS, "text"))
        filled = {slot for text in texts for slot in slots(text)}
        # columns that are no values of a prompt of their own: they stand in its text, or elsewhere
        self._not_copied = filled - {"condition"} | {"pair", "group"}

    def faults(self, record: Mapping[str, str]) -> list[str]:
        """List what is wrong with a template or another wording of one."""
        name = record["template_id"]
        if name not in self._templates:
            return [
                f"{TEMPLATES} contains no template {quote_name(name)}. Correct its template_id."
            ]
        return list(_slot_faults(record["template"], self._word_columns | self._condition_columns))

    def fill(self, record: Mapping[str, str], line: str) -> list[dict[str, str]]:
        """Make the prompts of a template, or of another wording of one."""
        name = record["template_id"]
        wanted = set(slots(record["template"]))
        words = self._words if wanted & self._word_columns else self._without_words
        conditions = [{"condition": ""}]
        if wanted - self._word_columns:
            conditions = self._conditions
        prompts: list[dict[str, str]] = []
        for condition, word in product(conditions, words):
            # Of a column in both tables the one of conditions counts, unless the template has a slot for it.
            kept = condition.keys() - (wanted & self._word_columns)
            values = {**condition, **word, **{column: condition[column] for column in kept}}
            copied = {
                column: cell for column, cell in values.items() if column not in self._not_copied
            }
            parts = (name, word["pair"], values["condition"])
            prompts.append(
                {
                    **self._templates[name],
                    **copied,
                    "words": word["pair"],
                    "group": word["group"],
                    "pair_id": "/".join(part for part in parts if part),
                    "text": fill(record["template"], **{slot: values[slot] for slot in wanted}),
                    "template": name,
                    "wording": record.get("wording", ""),
                    "where": line,
                    "inserted": values["name"] if "name" in wanted else "",
                }
            )
        return prompts


def _slot_faults(template: str, columns: set[str]) -> Iterator[str]:
    """Find slots of a template that no column fills, and what is written like a slot and is none."""
    wanted = set(slots(template))
    for slot in sorted(wanted - columns | wanted & {"pair", "group"}):
        yield f"no column of {SLOTS} or {CONDITIONS} fills the slot [{slot}]. Add one, or correct it."
    others = {name.lower() for name in columns - wanted}
    for match in re.finditer(r"\{(\w+)\}|\[(\w+)\]", template):
        if (match[1] or match[2]).lower() in others:
            yield f"{match[0]} is no slot. Write [name], with a column of that name: a-z and _."


# --- candidates -----------------------------------------------------------------------------------------


def _rank_candidates(
    tables: Tables, groups: Sequence[str], request: str, faults: list[str]
) -> pd.DataFrame:
    """Make rankings of one candidate of each group, balanced over places and CVs; a row for each candidate."""
    cvs = {str(job): part for job, part in tables[CVS].groupby("job", sort=False)}
    people = tables[NAMES].assign(line=tables[NAMES].index).drop_duplicates(["group", "name"])
    names = {group: people.loc[people["group"] == group, "name"].tolist() for group in groups}
    faults += _candidate_faults(names, cvs)
    if faults or len(groups) < 2:
        return pd.DataFrame()
    facts = {(record["group"], record["name"]): record for record in people.to_dict("records")}
    counts = {job: len(part) for job, part in cvs.items()}
    rows: list[dict[str, Any]] = []
    for job, number, order in balanced_rankings(counts, drawn_names(names)):
        text = _ranking_text(cvs[job], order, request.replace("[job]", job))
        for index, applicant in enumerate(order):
            fact = facts[applicant.group, applicant.name]
            rows.append(
                {
                    **{column: cell for column, cell in fact.items() if column != "line"},
                    "where": f"{NAMES}:{fact['line']}",
                    "pair_id": f"{job}/{number + 1}",
                    "text": text,
                    "counted": applicant.name,
                    "condition": job,
                    "candidates": names_of(order, index),
                    "template": f"{job}, CV {applicant.cv + 1}",
                    "names": f"set {number + 1}",
                    "position": str(index + 1),
                }
            )
    return pd.DataFrame(rows, dtype=object)


def _candidate_faults(
    names: Mapping[str, Sequence[str]], cvs: Mapping[str, pd.DataFrame]
) -> Iterator[str]:
    """Find groups with too few names, jobs with too few CVs, and CVs without a place for the name."""
    size = len(names)
    for group, of_group in names.items():
        if len(of_group) < size:
            yield (
                f"{NAMES}: group {quote_name(group)} has {len(of_group)} names, "
                f"expected {size} or more. Add some."
            )
    for job, part in cvs.items():
        if len(part) < size:
            yield (
                f"{CVS}:{part.index[0]}: job {quote_name(job)} has {len(part)} CVs, "
                f"expected {size} or more. Add some."
            )
        for line, text in part["cv"].items():
            if "[name]" not in text:
                yield f"{CVS}:{line}: the CV has no slot [name]. Write it in place of the name."


def _ranking_text(cvs: pd.DataFrame, order: Sequence[Applicant], request: str) -> str:
    """Write the chat in which candidates are ranked: the description of the job, if there is one, and the request."""
    descriptions = cvs.get("description", pd.Series(dtype=object))
    described = [description for description in descriptions if description.strip()]
    turns = [("system", described[0])] if described else []
    texts = [cvs["cv"].iloc[applicant.cv].replace("[name]", applicant.name) for applicant in order]
    return conversation(*turns, ("user", f"{request}\n\n{shown_cvs(texts).strip()}"))
