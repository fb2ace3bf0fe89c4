"""Make the prompts that the files of a user's own study come to."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pandas as pd

from swapbias.studies.chats import conversation
from swapbias.studies.declared import Declaration
from swapbias.studies.experiment import OwnStudy
from swapbias.studies.own.own_declaration import USUAL_REQUEST, read_declaration, shown
from swapbias.studies.own.own_files import (
    CONDITIONS,
    CVS,
    DECLARATION,
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
from swapbias.studies.ranking import balanced_rankings, drawn_names, names_of, shown_cvs

MOST_PROMPTS = 1_000_000  # of a study
_COLUMNS = (
    "pair_id",
    "group",
    "text",
    "construct",
    "condition",
    "label",
    "template",
    "counted",
    "wording",
    "where",
)


@dataclass(frozen=True)
class Parsed:
    """The files of a study as parsed, and every prompt that they make, other wordings included.

    Of ``prompts`` ``where`` is file and line, ``counted`` what is counted at the mask (words with bars between, or a
    label of the lexicon), ``unit`` numbers the pairs in each wording, ``masked`` says whether the text holds a mask.
    """

    files: Files = field(repr=False)
    declared: OwnStudy
    """What study.toml says, without what is wrong."""
    declaration: Declaration = field(repr=False)
    """The file, with the lines of its keys."""
    wrong: Mapping[str, str]
    """By key of study.toml what is wrong with it."""
    tables: Mapping[str, pd.DataFrame]
    """As texts, indexed by lines in the file; templates have a template_id."""
    faults: list[str]
    """Of tables and templates; what is wrong is not among the rows."""
    labels: tuple[str, ...]
    """The groups of the lexicon's words, in order."""
    group_names: tuple[str, ...]
    """Those that the tables hold, in order."""
    groups: tuple[str, ...]
    """Those that are compared, the reference among them."""
    prompts: pd.DataFrame
    """None where files cannot be read."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The groups that are compared with the reference."""
        return tuple(one for one in self.groups if one != self.declared.compares.reference)

    def line(self, key: str, value: str = "") -> str:
        """File and line of a key of the declaration, or of a text in its value."""
        places = (place for place in self.declaration.lines if place[-1] == key)
        return f"{DECLARATION}:{self.declaration.line(next(places, ()), value)}"


def parse_study(files: Files) -> Parsed:
    """The files of a study, parsed; faults are collected, not raised."""
    declared, wrong, declaration = read_declaration(files.get(DECLARATION, b""))
    faults: list[str] = []
    tables = {name: read_own_table(name, files[name], faults) for name in REQUIRED if name in files}
    labels = tuple(table_column(tables, LEXICON, "group").unique())
    of_tables = pd.concat([table_column(tables, one, "group") for one in (SLOTS, PROMPTS, NAMES)])
    names = tuple(of_tables.unique()) or labels
    groups = _groups(declared, names)
    made = pd.DataFrame()
    source = [one for one in (TEMPLATES, PROMPTS, CVS) if one in tables]
    if len(source) != 1:
        tables_named = f"{TEMPLATES}, {PROMPTS} or {CVS}"
        faults.append(
            f"{DECLARATION}: beside it stands {tables_named}, expected one. Add or remove one."
        )
    elif (CVS in tables) != (NAMES in tables) or (
        not wrong and (CVS in tables) != declared.is_ranking
    ):
        faults.append(
            f'{DECLARATION}: {CVS}, {NAMES} and reading = "ranking" go together. Add what is missing.'
        )
    elif all(map(len, tables.values())):
        if CVS in tables:
            made = _of_candidates(tables, groups, declared.reads.ask or USUAL_REQUEST, faults)
        else:
            made = (
                _of_table(tables[PROMPTS], groups)
                if PROMPTS in tables
                else _of_templates(tables, groups, faults)
            )
    if len(made) > MOST_PROMPTS:
        faults.append(
            f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them."
        )
        made = made[:0]
    made = made.reindex(columns=list(dict.fromkeys([*made, *_COLUMNS]))).astype(object).fillna("")
    masked = made["text"].str.contains(MASK, regex=False).astype(bool)
    if labels:  # the words of its group, or the only ones there are
        listed = made["group"].where(
            made["group"].isin(labels), labels[0] if len(labels) == 1 else ""
        )
        made["counted"] = made["counted"].where(made["counted"] != "", listed)
    made["counted"] = made["counted"].where(masked | (CVS in tables), "")
    units = made.groupby(["pair_id", "wording"], sort=False).ngroup()
    prompts = made.assign(unit=units, masked=masked).reset_index(drop=True)
    return Parsed(
        files, declared, declaration, wrong, tables, faults, labels, names, groups, prompts
    )


def _groups(declared: OwnStudy, names: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that are compared, the reference among them: those declared, else those of the tables."""
    groups = declared.compares.groups
    reference = declared.compares.reference
    if reference in groups:
        return groups
    return (*groups, reference) if groups and reference in names else names


def _of_table(made: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    pairs = made["pair"] if "pair" in made else [f"row{line}" for line in made.index]
    made = made.rename(columns={"candidates": "counted"}).drop(columns="pair", errors="ignore")
    made = made.assign(pair_id=pairs, where=[f"{PROMPTS}:{line}" for line in made.index])
    if "group" in made:
        return made
    masked = made["text"].str.contains(MASK, regex=False)  # one text, and the words of each group
    of_groups = made[masked].drop(columns="counted", errors="ignore")
    return pd.concat(
        [made[~masked], of_groups.merge(pd.Series(groups, name="group", dtype=object), how="cross")]
    )


def _of_templates(
    tables: Mapping[str, pd.DataFrame], groups: Sequence[str], faults: list[str]
) -> pd.DataFrame:
    """Every template and wording with every row of slots and every condition that it asks for."""
    records = {name: table.to_dict("records") for name, table in tables.items()}
    words, conditions = (records.get(one, []) for one in (SLOTS, CONDITIONS))
    of_words, of_conditions = ({*one[0]} if one else set() for one in (words, conditions))
    every = [
        (f"{name}:{line}", one)
        for name in (TEMPLATES, WORDINGS)
        if name in tables
        for line, one in zip(tables[name].index, records[name], strict=True)
    ]
    known = {one["template_id"]: one for one in reversed(records[TEMPLATES])}
    filling = {slot for _, one in every for slot in slots(one["template"])} - {"condition"} | {
        "pair",
        "group",
    }
    alone = [{"pair": "", "group": group} for group in groups]
    rows: list[dict[str, str]] = []
    for where, one in every:
        name = one["template_id"]
        wanted = set(slots(one["template"]))
        found = list(_slot_faults(one["template"], of_words | of_conditions))
        if name not in known:
            found = [f"{TEMPLATES} holds no template {shown(name)}. Correct its template_id."]
        faults += [f"{where}: {what}" for what in found]
        pairs = words if wanted & of_words else alone
        about = conditions if wanted - of_words else [{"condition": ""}]
        for condition, word in product(about, pairs) if not found else ():
            values = {
                **condition,
                **word,
                **{key: condition[key] for key in condition.keys() - (wanted & of_words)},
            }
            more = {key: cell for key, cell in values.items() if key not in filling}
            pair = "/".join(filter(None, (name, word["pair"], values["condition"])))
            rows.append(
                {
                    **known[name],
                    **more,
                    "words": word["pair"],
                    "group": word["group"],
                    "pair_id": pair,
                    "text": fill(one["template"], **{slot: values[slot] for slot in wanted}),
                    "template": name,
                    "wording": one.get("wording", ""),
                    "where": where,
                }
            )
        if len(rows) > MOST_PROMPTS:
            break
    return pd.DataFrame(rows, dtype=object).drop(columns="template_id", errors="ignore")


def _of_candidates(
    tables: Mapping[str, pd.DataFrame], groups: Sequence[str], ask: str, faults: list[str]
) -> pd.DataFrame:
    """Rankings of one candidate of each group, balanced over places and CVs; a row a candidate."""
    cvs = {str(job): part for job, part in tables[CVS].groupby("job", sort=False)}
    people = tables[NAMES].assign(line=tables[NAMES].index).drop_duplicates(["group", "name"])
    names = {group: people.loc[people["group"] == group, "name"].tolist() for group in groups}
    facts = {(one["group"], one["name"]): one for one in people.to_dict("records")}
    size = len(groups)
    faults += [
        f"{NAMES}: group {shown(group)} has {len(every)} names, expected {size} or more. Add some."
        for group, every in names.items()
        if len(every) < size
    ]
    for job, part in cvs.items():
        if len(part) < size:
            faults.append(
                f"{CVS}:{part.index[0]}: job {shown(job)} has {len(part)} CVs, expected {size} or more. Add some."
            )
        faults += [
            f"{CVS}:{line}: the CV has no slot [name]. Write it where the name stands."
            for line, text in part["cv"].items()
            if "[name]" not in text
        ]
    if faults or size < 2:
        return pd.DataFrame()
    rows = []
    for job, number, order in balanced_rankings(
        {job: len(part) for job, part in cvs.items()}, drawn_names(names)
    ):
        part = cvs[job]
        described = [one for one in part.get("description", pd.Series(dtype=object)) if one.strip()]
        shown_text = shown_cvs(
            [part["cv"].iloc[one.cv].replace("[name]", one.name) for one in order]
        )
        turns = [("system", described[0])] if described else []
        text = conversation(
            *turns, ("user", f"{ask.replace('[job]', job)}\n\n{shown_text.strip()}")
        )
        for place, one in enumerate(order):
            fact = facts[one.group, one.name]
            rows.append(
                {
                    **{key: value for key, value in fact.items() if key != "line"},
                    "where": f"{NAMES}:{fact['line']}",
                    "pair_id": f"{job}/{number + 1}",
                    "text": text,
                    "counted": one.name,
                    "condition": job,
                    "candidates": names_of(order, place),
                    "template": f"{job}, CV {one.cv + 1}",
                    "names": f"set {number + 1}",
                    "position": str(place + 1),
                }
            )
    return pd.DataFrame(rows, dtype=object)


def _slot_faults(template: str, columns: set[str]) -> Iterator[str]:
    """Slots of a template that no column fills, and what is written like a slot and is none."""
    wanted = set(slots(template))
    for one in sorted(wanted - columns | wanted & {"pair", "group"}):
        yield f"no column of {SLOTS} or {CONDITIONS} fills the slot [{one}]. Add one, or correct it."
    for odd in re.finditer(r"\{(\w+)\}|\[(\w+)\]", template):
        if (odd[1] or odd[2]).lower() in {name.lower() for name in columns - wanted}:
            yield f"{odd[0]} is no slot. Write [name], with a column of that name: a-z and _."
