"""Read the files of a user's own study, and find what is wrong with them or may bend its numbers."""

import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from itertools import islice, pairwise, product
from typing import Annotated, Any, Literal, get_args

import pandas as pd
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from swapbias.errors import quoted
from swapbias.measures import REFUSED, UNREADABLE
from swapbias.studies.catalogue import corpora
from swapbias.studies.rankings import balanced_rankings, drawn_names, names_of, shown_cvs
from swapbias.studies.study import MASK, PLACEBO_COLUMNS, Candidate, conversation, did_you_mean, fill, slots
from swapbias.studies.tables import decoded, shown_names, table_rows

DECLARATION = "study.toml"
TEMPLATES, SLOTS, CONDITIONS = "templates.csv", "slots.csv", "conditions.csv"
WORDINGS, LEXICON, PROMPTS = "wordings.csv", "lexicon.csv", "prompts.csv"
CVS, NAMES = "cvs.csv", "names.csv"  # of candidates to rank
_REQUIRED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",),
    WORDINGS: ("template_id", "wording", "template"), LEXICON: ("word", "group"), PROMPTS: ("text",),
    CVS: ("job", "cv"), NAMES: ("group", "name"),
}  # fmt: skip
STUDY_FILES = (DECLARATION, *_REQUIRED)
MOST_PROMPTS = 1_000_000  # of a study
Files = Mapping[str, bytes]
_MOST_LETTERS = 300  # of a cell that is no text: it stands in tables and findings
_RESERVED = {
    *PLACEBO_COLUMNS, "prompt_id", "pair_id", "experiment", "model_id", "score", "answer", "top_tokens", "non_finite",
    "where", "counted",
}  # fmt: skip
_TEXTS = ("text", "template", "cv", "description")  # columns that are read as they are, blanks at their ends included
_COLUMNS = ("pair_id", "group", "text", "construct", "condition", "label", "template", "counted", "wording", "where")
_ARTICLE = re.compile(r"\b([Aa]n?) ([A-Za-z][\w'-]*)")
_AN = re.compile(
    r"(?!one|once|eu|ewe|uni(?!n|m))([aeio]|u(?!ni|s[aeiu]|t[aei]|r[aeiou]|k)|hour|honest|honou?r|heir)", re.I
)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words

# --- study.toml ---------------------------------------------------------------------------------------


def _new_name(value: str) -> str:
    if value in corpora():
        raise ValueError(f"name is {quoted(value)}, a study of the package. Choose another.")
    return value


Kind = Literal["masked", "classifier", "causal", "chat"]
Text = Annotated[str, Field(strict=True, max_length=1_000, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # one line
_as_list = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Texts = Annotated[tuple[Text, ...], _as_list]


class Declaration(BaseModel):
    """What ``study.toml`` says, as docs/study_toml.md explains; descriptions say what a value must be, for errors.

    ``answers`` and ``rubric_options`` are options of a question, and what each counts: ``0=Yes``, ``=It depends``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[
        Text, Field(pattern=r"^[a-z][a-z0-9_]{0,49}$", description="a-z, 0-9 and _, a letter first, 50 at most"),
        AfterValidator(_new_name),
    ] = "study"  # fmt: skip
    title: Text = "study"
    question: Text = ""
    url: Annotated[Text, Field(pattern=r"^(https?://.*)?$", description="one that begins with https://")] = ""
    licence: Text = "other"
    version: Annotated[Text, Field(pattern=r"^\d+\.\d+\.\d+$", description="three numbers as in 1.0.0")] = "1.0.0"
    groups: Texts = ()
    reference: Text = ""
    kind: Annotated[tuple[Kind, ...], _as_list, Field(description=", ".join(get_args(Kind)))] = ()
    reading: Annotated[
        Literal["text", "person", "options", "ranking"], Field(description="text, person, options or ranking")
    ] = "text"
    ask: Text = "Rank these candidates for a job as [job], the best first. Answer with names only."
    answers: Annotated[Texts, Field(validate_default=True)] = ()
    rubric: Text = ""
    rubric_options: Annotated[Texts, Field(validate_default=True)] = ()
    unit: Text = ""
    margin: Annotated[
        float | None, Field(ge=0, le=1, strict=True, allow_inf_nan=False, description="a number from 0 to 1")
    ] = None
    random: Texts = ()
    slices: Texts = ()
    limits: Texts = ()

    @field_validator("answers", "rubric_options")
    @classmethod
    def _options(cls, options: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        key, before = info.field_name, info.data
        question = before.get("rubric" if key == "rubric_options" else "kind")
        if question is None:  # which is wrong itself
            return options
        ranks = before.get("reading") == "ranking"
        has_question = bool(question) if key == "rubric_options" else "chat" in question and not ranks
        if options and not has_question:
            raise ValueError(f'{key} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.')
        try:
            if has_question:
                options_of(options)
        except ValueError as error:
            raise ValueError(f'{key} cannot be read ({error}) Write {key} = ["0=Yes", "1=No"].') from error
        return options


def options_of(declared: Sequence[str]) -> tuple[Candidate, ...]:
    """The options of a question as ``study.toml`` has them, each ``value=option``; blank: it counts nothing.

    >>> options_of(["0=Not likely", "1=Very likely", "=Do not know"])[1:]
    (Candidate(text='Very likely', value=1.0), Candidate(text='Do not know', value=None))
    """
    parts = [part.partition("=") for part in declared]
    try:
        found = tuple(Candidate(text.strip(), float(value) if value.strip() else None) for value, _, text in parts)
    except ValueError:
        found = ()
    texts = {one.text.casefold() for one in found}
    if any(one.value is not None and not math.isfinite(one.value) for one in found):
        found = ()
    if len(found) < 2 or texts & {"", REFUSED, UNREADABLE} or len(texts) < len(found):
        raise ValueError(f"options {', '.join(declared)!r}, expected different ones, each value=option.")
    return found


def read_declaration(content: bytes) -> tuple[Declaration, dict[str, str]]:
    """What ``study.toml`` says without what is wrong, and by key a sentence for each fault, in the order of lines."""
    try:
        text = decoded(DECLARATION, content)
    except ValueError as error:
        return Declaration(), {"": str(error)}
    values, found = _read_toml(text)
    for key in ("name", "title"):
        if not values.get(key) and key not in found:
            found[key] = text.count("\n") + 1, f'{key} is missing. Add {key} = "...".'
    values = {key: value for key, value in values.items() if key not in found}
    try:
        declared = Declaration(**values)
    except ValidationError as error:
        for fault in error.errors():
            key, value = str(fault["loc"][0]), fault["input"]
            found.setdefault(key, (line_of(text, key, value), _sentence(key, value, fault)))
        together = {"kind", "answers", "rubric", "rubric_options"}  # valid only with each other
        dropped = {*found, *(together if found.keys() & together else ())}
        declared = Declaration(**{key: value for key, value in values.items() if key not in dropped})
    by_line = sorted(found.items(), key=lambda one: one[1][0])
    return declared, {key: f"{DECLARATION}:{line}: {what}" for key, (line, what) in by_line}


def _read_toml(text: str) -> tuple[dict[str, Any], dict[str, tuple[int, str]]]:
    """The keys of a declaration; of text that is not TOML those that can be read alone, and the faults of others."""
    try:
        return tomllib.loads(text), {}
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        whole = str(error)
    read: dict[str, Any] = {}
    found: dict[str, tuple[int, str]] = {}
    starts = [0, *(one.start() for one in re.finditer(r"^[ \t]*[\w.\"'-]+[ \t]*=", text, re.MULTILINE)), len(text)]
    for start, end in pairwise(starts):
        try:
            read |= tomllib.loads(text[start:end])
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            key, why = text[start:end].partition("=")[0].strip(), re.sub(r" \(at .*", "", str(error))
            found[key] = text.count("\n", 0, start) + 1, f"{shown(key)} is no TOML ({why}). Correct it."
    return read, found or {"": (1, f"no TOML: {whole}. Correct it.")}


def _sentence(key: str, value: Any, fault: Mapping[str, Any]) -> str:
    known = Declaration.model_fields
    if key not in known:
        return f"{shown(key)} is none of {', '.join(known)}.{did_you_mean(key, list(known)) or ' Remove it.'}"
    if message := str(fault.get("ctx", {}).get("error", "")):
        return message
    is_list = known[key].default == () and len(fault["loc"]) == 1
    form = "a list of texts" if is_list else "a text of one line, 1,000 letters at most"
    return f"{key} is {quoted(value)}, expected {known[key].description or form}. Correct it."


def line_of(text: str, key: str, value: Any = "") -> int:
    """The line of a declaration where a key stands, or after it the text that is its value; 1 where none does."""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*=", text, re.MULTILINE)
    start = found.end() if found else 0
    inside = text.find(f'"{value}"', start) if isinstance(value, str) and value else -1
    return text.count("\n", 0, max(start, inside)) + 1


# --- tables -------------------------------------------------------------------------------------------


def shown(name: str) -> str:
    """A name of a group or pair in a sentence; what is long may be a text, and is not repeated."""
    return quoted(name) if len(name) <= 40 and len(name.split()) <= 4 else f"(a name of {len(name)} letters)"


def first_few(faults: Iterable[str]) -> Iterator[str]:
    """Faults of one kind: twenty of them one by one, and how many more there are."""
    found = list(faults)
    yield from found[:20]
    if more := found[20:]:
        yield f"{more[0].partition(':')[0]}: {len(more):,} more rows like the 20 before. Correct these first."


def _read_table(name: str, content: bytes, faults: list[str]) -> pd.DataFrame:
    """The rows of a table that can be read, by their lines in the file; what is wrong is added to ``faults``."""
    valid: dict[int, dict[str, str]] = {}
    wrong: list[str] = []
    try:
        rows = table_rows(name, content, partial(_header_faults, name), optional=("candidates",))
        for line, row, found in rows:
            if line > 1 and not any(map(str.strip, row.values())):
                continue
            found += [
                f"column {one!r} holds more than {_MOST_LETTERS} letters or what cannot be printed. Shorten it."
                for one, cell in row.items()
                if one not in (*_TEXTS, "candidates")
                and not (len(cell) <= _MOST_LETTERS and cell.strip().isprintable())
            ]
            wrong += [f"{name}:{line}: {what}" for what in found]
            if not found:
                valid[line] = {one: cell if one in _TEXTS else cell.strip() for one, cell in row.items()}
    except ValueError as error:
        valid, wrong = {}, [str(error)]
    faults += first_few(wrong if valid or wrong else [f"{name} holds no rows below its header. Add some."])
    table = pd.DataFrame(list(valid.values()), index=list(valid), dtype=object)
    if name == TEMPLATES and valid and "template_id" not in table:
        table["template_id"] = unique_names(table["template"])
    return table


def _header_faults(name: str, columns: Sequence[str]) -> Iterator[str]:
    for one in _REQUIRED[name]:
        if one not in columns:
            hint = "Save it with commas between cells" if len(columns) == 1 and ";" in columns[0] else "Add it"
            yield f"column {one!r} is missing, found {shown_names(columns)}. {hint}."
    for number, one in enumerate(columns, start=1):
        if columns.index(one) < number - 1:
            yield f"a column ({shown_names([one])}) stands twice. Name one of them anew."
        if one in _RESERVED and not (one == "wording" and name == WORDINGS):
            hint = "Call it pair." if one == "pair_id" else "Name it anew."
            yield f"column {quoted(one)} is a name that scored prompts use themselves. {hint}"
        if not re.fullmatch(r"[A-Za-z][\w -]{0,39}", one):
            yield f"cell {number} is no name of a column. Use letters, digits, - and _."


# --- prompts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parsed:
    """The files of a study as parsed, and every prompt that they make, other wordings included.

    Of ``prompts``, with the columns of ``Prompt`` that tables give, ``where`` is file and line, ``counted`` what is
    counted at the mask (words with bars between, or a label of the lexicon; blank for none), ``wording`` the name
    of another wording, ``unit`` numbers the pairs in each wording, ``masked`` says whether the text holds a mask.
    """

    files: Files = field(repr=False)
    declared: Declaration  # what study.toml says, without what is wrong
    wrong: Mapping[str, str]  # by key of study.toml what is wrong with it
    tables: Mapping[str, pd.DataFrame]  # as texts, indexed by lines in the file; templates have a template_id
    faults: list[str]  # of tables and templates; what is wrong is not among the rows
    labels: tuple[str, ...]  # the groups of the lexicon's words, in order
    group_names: tuple[str, ...]  # those that the tables hold, in order
    groups: tuple[str, ...]  # those that are compared, the reference among them
    prompts: pd.DataFrame  # none where files cannot be read

    @property
    def compared(self) -> tuple[str, ...]:
        """The groups that are compared with the reference."""
        return tuple(one for one in self.groups if one != self.declared.reference)

    def line(self, key: str, value: str = "") -> str:
        """File and line of a key of the declaration, or of a text in its value."""
        text = self.files.get(DECLARATION, b"").decode("utf-8-sig", "replace")
        return f"{DECLARATION}:{line_of(text, key, value)}"


def parse_study(files: Files) -> Parsed:
    """The files of a study, parsed; faults are collected, not raised."""
    declared, wrong = read_declaration(files.get(DECLARATION, b""))
    faults: list[str] = []
    tables = {name: _read_table(name, files[name], faults) for name in _REQUIRED if name in files}
    labels = tuple(table_column(tables, LEXICON, "group").unique())
    names = (
        tuple(pd.concat([table_column(tables, one, "group") for one in (SLOTS, PROMPTS, NAMES)]).unique()) or labels
    )
    groups = declared.groups or names
    made = pd.DataFrame()
    source = [one for one in (TEMPLATES, PROMPTS, CVS) if one in tables]
    if len(source) != 1:
        tables_named = f"{TEMPLATES}, {PROMPTS} or {CVS}"
        faults.append(f"{DECLARATION}: beside it stands {tables_named}, expected one. Add or remove one.")
    elif (CVS in tables) != (NAMES in tables) or (CVS in tables) != (declared.reading == "ranking"):
        faults.append(f'{DECLARATION}: {CVS}, {NAMES} and reading = "ranking" go together. Add what is missing.')
    elif all(map(len, tables.values())):
        if CVS in tables:
            made = _of_candidates(tables, groups, declared.ask, faults)
        else:
            made = _of_table(tables[PROMPTS], groups) if PROMPTS in tables else _of_templates(tables, groups, faults)
    if len(made) > MOST_PROMPTS:
        faults.append(f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them.")
        made = made[:0]
    made = made.reindex(columns=list(dict.fromkeys([*made, *_COLUMNS]))).astype(object).fillna("")
    masked = made["text"].str.contains(MASK, regex=False).astype(bool)
    if labels:  # the words of its group, or the only ones there are
        listed = made["group"].where(made["group"].isin(labels), labels[0] if len(labels) == 1 else "")
        made["counted"] = made["counted"].where(made["counted"] != "", listed)
    made["counted"] = made["counted"].where(masked | (CVS in tables), "")
    units = made.groupby(["pair_id", "wording"], sort=False).ngroup()
    prompts = made.assign(unit=units, masked=masked).reset_index(drop=True)
    return Parsed(files, declared, wrong, tables, faults, labels, names, groups, prompts)


def table_column(tables: Mapping[str, pd.DataFrame], table: str, name: str) -> "pd.Series[str]":
    """A column of a table; without values where there is none."""
    return tables.get(table, pd.DataFrame()).get(name, pd.Series(dtype=object))


def _of_table(made: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    pairs = made["pair"] if "pair" in made else [f"row{line}" for line in made.index]
    made = made.rename(columns={"candidates": "counted"}).drop(columns="pair", errors="ignore")
    made = made.assign(pair_id=pairs, where=[f"{PROMPTS}:{line}" for line in made.index])
    if "group" in made:
        return made
    masked = made["text"].str.contains(MASK, regex=False)  # one text, and the words of each group
    of_groups = made[masked].drop(columns="counted", errors="ignore")
    return pd.concat([made[~masked], of_groups.merge(pd.Series(groups, name="group", dtype=object), how="cross")])


def _of_templates(tables: Mapping[str, pd.DataFrame], groups: Sequence[str], faults: list[str]) -> pd.DataFrame:
    """Every template and wording with every row of slots and every condition that it asks for."""
    records = {name: table.to_dict("records") for name, table in tables.items()}
    words, conditions = (records.get(one, []) for one in (SLOTS, CONDITIONS))
    of_words, of_conditions = ({*one[0]} if one else set() for one in (words, conditions))
    every = [
        (f"{name}:{line}", one)
        for name in (TEMPLATES, WORDINGS) if name in tables
        for line, one in zip(tables[name].index, records[name], strict=True)
    ]  # fmt: skip
    known = {one["template_id"]: one for one in reversed(records[TEMPLATES])}
    filling = {slot for _, one in every for slot in slots(one["template"])} - {"condition"} | {"pair", "group"}
    alone = [{"pair": "", "group": group} for group in groups]
    rows: list[dict[str, str]] = []
    for where, one in every:
        name, wanted = one["template_id"], set(slots(one["template"]))
        found = list(_slot_faults(one["template"], of_words | of_conditions))
        if name not in known:
            found = [f"{TEMPLATES} holds no template {shown(name)}. Correct its template_id."]
        faults += [f"{where}: {what}" for what in found]
        pairs = words if wanted & of_words else alone
        about = conditions if wanted - of_words else [{"condition": ""}]
        for condition, word in product(about, pairs) if not found else ():
            values = {**condition, **word, **{key: condition[key] for key in condition.keys() - (wanted & of_words)}}
            more = {key: cell for key, cell in values.items() if key not in filling}
            pair = "/".join(filter(None, (name, word["pair"], values["condition"])))
            rows.append({
                **known[name], **more, "words": word["pair"], "group": word["group"], "pair_id": pair,
                "text": fill(one["template"], **{slot: values[slot] for slot in wanted}), "template": name,
                "wording": one.get("wording", ""), "where": where,
            })  # fmt: skip
        if len(rows) > MOST_PROMPTS:
            break
    return pd.DataFrame(rows, dtype=object).drop(columns="template_id", errors="ignore")


def _of_candidates(
    tables: Mapping[str, pd.DataFrame], groups: Sequence[str], ask: str, faults: list[str]
) -> pd.DataFrame:
    """Rankings of one candidate of each group, balanced over places and CVs; a row a candidate."""
    cvs = {str(job): part for job, part in tables[CVS].groupby("job", sort=False)}
    people = tables[NAMES].drop_duplicates(["group", "name"]).assign(line=tables[NAMES].index)
    names = {group: people.loc[people["group"] == group, "name"].tolist() for group in groups}
    facts = {(one["group"], one["name"]): one for one in people.to_dict("records")}
    size = len(groups)
    faults += [
        f"{NAMES}: group {shown(group)} has {len(every)} names, expected {size} or more. Add some."
        for group, every in names.items() if len(every) < size
    ]  # fmt: skip
    for job, part in cvs.items():
        if len(part) < size:
            faults.append(
                f"{CVS}:{part.index[0]}: job {shown(job)} has {len(part)} CVs, expected {size} or more. Add some."
            )
        faults += [
            f"{CVS}:{line}: the CV has no slot [name]. Write it where the name stands."
            for line, text in part["cv"].items() if "[name]" not in text
        ]  # fmt: skip
    if faults or size < 2:
        return pd.DataFrame()
    rows = []
    for job, number, order in balanced_rankings({job: len(part) for job, part in cvs.items()}, drawn_names(names)):
        part = cvs[job]
        described = [one for one in part.get("description", pd.Series(dtype=object)) if one.strip()]
        shown_text = shown_cvs([part["cv"].iloc[one.cv].replace("[name]", one.name) for one in order])
        turns = [("system", described[0])] if described else []
        text = conversation(*turns, ("user", f"{ask.replace('[job]', job)}\n\n{shown_text.strip()}"))
        for place, one in enumerate(order):
            fact = facts[one.group, one.name]
            rows.append({
                **{key: value for key, value in fact.items() if key != "line"}, "where": f"{NAMES}:{fact['line']}",
                "pair_id": f"{job}/{number + 1}", "text": text, "counted": one.name, "condition": job,
                "candidates": names_of(order, place),
                "template": f"{job}, CV {one.cv + 1}", "names": f"set {number + 1}", "position": str(place + 1),
            })  # fmt: skip
    return pd.DataFrame(rows, dtype=object)


def _slot_faults(template: str, columns: set[str]) -> Iterator[str]:
    """Slots of a template that no column fills, and what is written like a slot and is none."""
    wanted = set(slots(template))
    for one in sorted(wanted - columns | wanted & {"pair", "group"}):
        yield f"no column of {SLOTS} or {CONDITIONS} fills the slot [{one}]. Add one, or correct it."
    for odd in re.finditer(r"\{(\w+)\}|\[(\w+)\]", template):
        if (odd[1] or odd[2]).lower() in {name.lower() for name in columns - wanted}:
            yield f"{odd[0]} is no slot. Write [name], with a column of that name: a-z and _."


def unique_names(texts: Iterable[str], most: int = 40) -> list[str]:
    """A readable name for each text, made of its letters and digits; of two that are alike the later has a number.

    >>> unique_names(["Black women", "non-binary", "non binary"])
    ['black_women', 'non_binary', 'non_binary_2']
    """
    found: list[str] = []
    for text in texts:
        base = name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:most].strip("_") or "other"
        number = 1
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found.append(name)
    return found


def constant_columns(prompts: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """Those of the columns that have one value in each pair."""
    pairs = prompts["pair_id"].nunique()
    return [one for one in columns if len(prompts.drop_duplicates(["pair_id", one])) == pairs]


# --- faults -------------------------------------------------------------------------------------------


def faults(parsed: Parsed) -> list[str]:
    """Everything for which an audit refuses a study, a sentence each with file and line; nothing of what follows."""
    found = [*parsed.wrong.values(), *parsed.faults]
    is_made = len(parsed.prompts) > 0
    whole = is_made and not parsed.faults and not parsed.wrong.keys() & {"", "groups", "reference"}
    found += _group_faults(parsed, whole)
    if is_made:
        found += [*_text_faults(parsed), *(_pair_faults(parsed) if whole else ()), *_column_faults(parsed)]
    return list(dict.fromkeys(found))


def _group_faults(parsed: Parsed, whole: bool) -> Iterator[str]:
    """Of names of groups; where other faults hide some of them only whether the declaration agrees with itself."""
    groups, declared, reference = parsed.groups, parsed.declared.groups, parsed.declared.reference
    known = parsed.group_names if whole else declared
    for name in declared:
        if known and name not in (*known, reference):
            yield f"{parsed.line('groups', name)}: The group {_none_of(name, known)}"
    if reference and known and reference not in known:
        yield f"{parsed.line('reference')}: The reference {_none_of(reference, known)}"
    if not whole:
        return
    how = "--reference (in a folder: reference = ... in study.toml)"
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in parsed.tables else SLOTS
        yield f"{table}: the groups are {_names(groups)}, expected two or more. Add rows of another."
    elif not reference:
        yield f"The groups are {_names(groups)}, and none is the reference. Name it with {how}."
    elif reference not in groups and reference in known:
        yield f"{parsed.line('reference')}: The reference {_none_of(reference, groups)}"
    columns = list(parsed.tables.get(PROMPTS, ()))
    for one in ("group", "pair") if columns else ():
        if one not in columns and not ("group" not in columns and parsed.labels):
            yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."
    # Where words alone name groups, only the spelling of one that nothing compares is looked at.
    words_only = known == parsed.labels
    compared = groups if words_only else known
    for line, name in table_column(parsed.tables, LEXICON, "group").items() if len(parsed.labels) > 1 else ():
        if name not in compared and (not words_only or did_you_mean(name, compared)):
            yield f"{LEXICON}:{line}: group {_none_of(name, compared)}"


def _none_of(name: str, known: Sequence[str]) -> str:
    return f"{shown(name)} is none of {_names(known)}.{did_you_mean(name, known) or ' Correct it.'}"


def _names(groups: Sequence[str]) -> str:
    names = [one if shown(one) == quoted(one) else shown(one) for one in groups]
    return (", ".join(names[:10]) or "none") + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _of_rows(rows: pd.DataFrame, sentence: str) -> Iterator[str]:
    """The sentence about each of the prompts, with its pair, group, words, slot and number of masks filled in."""
    found: dict[str, None] = {}
    for row in rows.to_dict("records"):
        wording = f" in wording {shown(row['wording'])}" if row["wording"] else ""
        what = sentence.format(
            pair=f"pair {shown(row['pair_id'])}{wording}", group=shown(row["group"]), words=shown(row["counted"]),
            slot=next(iter(slots(row["text"])), ""), masks=row["text"].count(MASK), before=row.get("before"),
        )  # fmt: skip
        found[f"{row['where']}: {what}"] = None
    return first_few(found)


def _text_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    text, masked = prompts["text"].astype(str), prompts["masked"]
    what = "is not filled. Put a word there, or take the brackets away."
    yield from _of_rows(prompts[text.map(slots).astype(bool)], f"the slot [{{slot}}] {what}")
    what = f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK]."
    yield from _of_rows(prompts[text.str.upper().str.contains("[MASK]", regex=False)], what)
    what = f"{{masks}} times {MASK}, expected one at most. Split the text."
    yield from _of_rows(prompts[text.str.count(MASK) > 1], what)
    what = f"{LEXICON} has no words of {{group}}" if parsed.labels else "no words are given to count there"
    what = f"the text holds {MASK} and {what}. Add {LEXICON} (-M lexicon) or a column candidates."
    yield from _of_rows(prompts[masked & (prompts["counted"] == "")], what)
    kinds = set(parsed.declared.kind)
    if kinds and not ("masked" in kinds and masked.any()) and not (kinds - {"masked"} and not masked.all()):
        yield f"{parsed.line('kind')}: no text can be read by a model of kind {', '.join(sorted(kinds))}. Change it."


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Of each pair, in each of its wordings."""
    prompts, groups = parsed.prompts, parsed.groups
    first = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first)[prompts.duplicated(["unit", "group"])]
    yield from _of_rows(again, "{pair} has group {group} already in {before}. Remove one.")
    units = prompts.drop_duplicates("unit")
    compared = prompts[prompts["group"].isin(groups)].drop_duplicates(["unit", "group"])
    for group in sorted(groups):
        lacking = units[~units["unit"].isin(compared["unit"][compared["group"] == group])].assign(group=group)
        yield from _of_rows(lacking, "{pair} has no row of {group}. Add it, so that the groups are balanced.")
    counts = compared.assign(read=compared["text"] + "\n" + compared["counted"]).groupby("unit")
    counts = counts[["group", "masked", "read"]].nunique().reindex(units["unit"], fill_value=1).set_axis(units.index)
    mixed = units[counts["masked"] > 1]
    yield from _of_rows(mixed, f"{{pair}} holds {MASK} in one text and not in another. Write both alike.")
    same = units[(counts["read"] == 1) & (counts["group"] > 1)]
    what = "{pair} has the same text in every group: nothing is swapped"
    yield from _of_rows(same[same["counted"] == ""], f"{what}. Change one.")
    what = f"{what}, for the words of {{words}} alone are counted there. Change one."
    yield from _of_rows(same[same["counted"] != ""], what)


def _column_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    headers = {one for table in parsed.tables.values() for one in table} | {"words", "condition"}
    known = {*prompts, *(headers if parsed.faults else ())} - {"text", "group"}
    for key in ("random", "slices"):
        for column in getattr(parsed.declared, key):
            where, name = parsed.line(key, column), "pair_id" if column == "pair" else column
            if name not in known:
                yield f"{where}: {key} names the column {shown(column)}, and no table has it. Correct it."
            elif not parsed.faults and name not in constant_columns(prompts, [name]):
                yield f"{where}: {shown(column)} differs within a pair, expected one value. Take it out."


# --- advice -------------------------------------------------------------------------------------------


def advice(parsed: Parsed) -> list[str]:
    """What an audit does not refuse and what may bend the numbers, a sentence each."""
    return list(dict.fromkeys([*warnings(parsed), *_of_texts(parsed), *_of_words(parsed), *_of_wordings(parsed)]))


def warnings(parsed: Parsed) -> Iterator[str]:
    """Groups that are written nearly alike, texts with blanks at their ends, pairs that share almost nothing."""
    alike: dict[str, list[str]] = {}
    for group in dict.fromkeys((*parsed.group_names, *parsed.labels)):
        alike.setdefault(unicodedata.normalize("NFKC", group).casefold(), []).append(group)
    for names in alike.values():
        if len(names) > 1:  # with codes for letters that may look alike
            plain = (shown(one) if unicodedata.is_normalized("NFKC", one) else ascii(one) for one in names)
            yield f"{' and '.join(plain)} are {len(names)} groups, written nearly alike. Write a group in one way."
    texts = parsed.prompts["text"].astype(str)
    ends = parsed.prompts["where"][texts != texts.str.strip()]
    if len(ends):
        counted = f"{len(ends):,} texts begin or end" if len(ends) > 1 else "A text begins or ends"
        yield f"{ends.iloc[0]}: {counted} with blanks, which models read too. Remove those that should not be there."
    if found := list(islice(_unlike_pairs(parsed.prompts), 21)):  # so many are looked for, and five are named
        rest = f"; {len(found) - 5}{' or more' if len(found) > 20 else ''} others" if len(found) > 5 else ""
        why = "A gap between them does not come from the swapped words. Check the pairs."
        yield f"Texts of one pair share almost nothing: {'; '.join(found[:5])}{rest}. {why}"


def _unlike_pairs(prompts: pd.DataFrame) -> Iterator[str]:
    """Where texts of a pair stand that share almost nothing.

    Fewer than a quarter of the words of the shorter are in the other, and less than half of the letters match: "El
    doctor cansado" and "La doctora cansada" share no word and most letters. Of fewer than three words all may differ.
    """
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(prompts["text"], prompts["where"], first["text"], first["where"], prompts["pair_id"], strict=True)
    for text, where, other, before, pair in (row for row in rows if row[0] != row[2]):
        one, two = text.lower(), other.lower()
        words, others = set(_WORD.findall(one)), set(_WORD.findall(two))
        fewest = min(len(words), len(others))
        unlike = fewest >= 3 and len(words & others) < fewest / 4
        if unlike and SequenceMatcher(None, one[:200], two[:200], autojunk=False).ratio() < 0.5:
            yield f"{' and '.join(dict.fromkeys((before, where)))} (pair {shown(pair)})"


def article_is_wrong(article: str, word: str) -> bool:
    """Whether "a" or "an" does not go with a word, by its letters; of a word in capitals nobody can tell."""
    return not word.isupper() and bool(_AN.match(word)) != (article.lower() == "an")


def _of_texts(parsed: Parsed) -> Iterator[str]:
    """Articles that do not go with what follows, once a template; texts that stand twice."""
    prompts = parsed.prompts
    for where, texts in prompts.groupby("where", sort=False)["text"]:
        for article, word in dict.fromkeys(found for text in texts for found in _ARTICLE.findall(text)):
            if article_is_wrong(article, word):
                better = "a" if article.lower() == "an" else "an"
                yield f"{where}: '{article} {word}', expected '{better} {word}'. Write it into the value."
    keys = ["text", "group", "counted"]
    again = prompts.assign(before=prompts.groupby(keys, sort=False)["where"].transform("first"))
    for row in again[prompts.duplicated(keys)].drop_duplicates("where").itertuples():
        before = "the same line" if row.before == row.where else row.before
        yield f"{row.where}: the text stands in {before} already: pairs of the same texts count once. Remove one."


def _of_words(parsed: Parsed) -> Iterator[str]:
    """Articles before a mask favour words by their first letter; words that no token can be."""
    prompts, words = parsed.prompts, table_column(parsed.tables, LEXICON, "word")
    if len({article_is_wrong("a", word) for word in words}) > 1:
        for where in prompts["where"][prompts["text"].str.contains(rf"\b[Aa]n? {MASK}").astype(bool)].unique():
            yield f"{where}: the article before {MASK} favours words by their first letter. Put it elsewhere."
    for line, word in words.items():
        if not re.fullmatch(r"[^\W_]+(['’][^\W_]+)?", word):
            yield f"{LEXICON}:{line}: {word!r} is no single word and can never be counted. Replace it."


def _of_wordings(parsed: Parsed) -> Iterator[str]:
    if CVS in parsed.tables:
        return
    if TEMPLATES not in parsed.tables:
        yield f"{PROMPTS}: there are no other wordings of the texts, and nothing tells whether a gap hangs on them."
        return
    for line, name in table_column(parsed.tables, TEMPLATES, "template_id").items():
        if name not in set(table_column(parsed.tables, WORDINGS, "template_id")):
            what = f"{TEMPLATES}:{line}: template {name} has no other wording in {WORDINGS}"
            why = "nothing tells whether a gap hangs on its words"
            yield f"{what}: {why}. Add some; the studies of the package have 5."
