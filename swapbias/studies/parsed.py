"""Parse the files of a user's own study: what study.toml declares, its tables, and the prompts that they make."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise, product
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
from swapbias.files import not_utf8
from swapbias.measures import options_of
from swapbias.studies.catalogue import corpora
from swapbias.studies.prompt import MASK, PLACEBO_COLUMNS, fill, slots
from swapbias.studies.study import did_you_mean
from swapbias.studies.tables import shown_names, table_rows

DECLARATION = "study.toml"
TEMPLATES, SLOTS, CONDITIONS = "templates.csv", "slots.csv", "conditions.csv"
WORDINGS, LEXICON, PROMPTS = "wordings.csv", "lexicon.csv", "prompts.csv"
_REQUIRED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",),
    WORDINGS: ("template_id", "wording", "template"), LEXICON: ("word", "group"), PROMPTS: ("text",),
}  # fmt: skip
STUDY_FILES = (DECLARATION, *_REQUIRED)
MOST_PROMPTS = 1_000_000  # of a study
Files = Mapping[str, bytes]
_MOST_LISTED = 20  # faults of one kind that are listed one by one
_MOST_LETTERS = 300  # of a cell that is no text: it stands in tables and findings
_RESERVED = {
    *PLACEBO_COLUMNS, "prompt_id", "pair_id", "experiment", "model_id", "score", "answer", "top_tokens", "non_finite",
    "where", "counted",
}  # fmt: skip
_TEXTS = ("text", "template")  # columns that are read as they are, blanks at their ends included
_COLUMNS = ("pair_id", "group", "text", "construct", "condition", "label", "template", "counted", "wording", "where")

# --- study.toml ---------------------------------------------------------------------------------------


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError
    return value


def _new_name(value: str) -> str:
    if value in corpora():
        raise ValueError(f"name is {quoted(value)}, a study of the package. Choose another.")
    return value


Kind = Literal["masked", "classifier", "causal", "chat"]
Text = Annotated[str, Field(strict=True, max_length=1_000), AfterValidator(_one_line)]
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
    answers: Annotated[Texts, Field(validate_default=True)] = ()
    reading: Annotated[Literal["text", "person", "options"], Field(description="text, person or options")] = "text"
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
        has_question = bool(question) if key == "rubric_options" else "chat" in question
        if options and not has_question:
            raise ValueError(f'{key} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.')
        try:
            if any("/" in one or "|" in one for one in options):  # one names a word list, the other parts answers
                raise ValueError("/ or | stands in one.")
            if has_question:
                options_of("|".join(options))
        except ValueError as error:
            raise ValueError(f'{key} cannot be read ({error}) Write {key} = ["0=Yes", "1=No"].') from error
        return options


def read_declaration(content: bytes) -> tuple[Declaration, dict[str, str]]:
    """What ``study.toml`` says without what is wrong, and by key a sentence for each fault, in the order of lines."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Declaration(), {"": str(not_utf8(DECLARATION, error))}
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
    """Faults of one kind: the first of them one by one, and how many more there are."""
    found = list(faults)
    yield from found[:_MOST_LISTED]
    if len(found) > _MOST_LISTED:
        name = found[_MOST_LISTED].partition(":")[0]
        yield f"{name}: {len(found) - _MOST_LISTED:,} more rows like the {_MOST_LISTED} before. Correct these first."


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
    return pd.DataFrame(list(valid.values()), index=list(valid), dtype=object)


def _header_faults(name: str, columns: Sequence[str]) -> Iterator[str]:
    if not any(columns):
        yield f"columns are missing. Write them as {', '.join(_REQUIRED[name])}, with commas between cells."
        return
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
    """The files of a study as parsed.

    Attributes:
        declared: what ``study.toml`` says, without what is wrong.
        wrong: by key of ``study.toml`` what is wrong with it.
        tables: rows by file, as texts, indexed by their lines in the file.
        faults: of tables and templates, a sentence each with file and line; what is wrong is not among the rows.
    """

    declared: Declaration
    files: Files = field(repr=False)
    wrong: Mapping[str, str]
    tables: Mapping[str, pd.DataFrame]
    faults: list[str]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The groups of the lexicon's words, in order."""
        return tuple(self.table(LEXICON).get("group", pd.Series(dtype=object)).unique())

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups that the tables hold, in order."""
        columns = [self.table(name)["group"] for name in (SLOTS, PROMPTS) if "group" in self.table(name)]
        return tuple(pd.concat(columns).unique()) if columns else self.labels

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that are compared, the reference among them."""
        return self.declared.groups or self.group_names

    @property
    def compared(self) -> tuple[str, ...]:
        """The groups that are compared with the reference."""
        return tuple(one for one in self.groups if one != self.declared.reference)

    def table(self, name: str) -> pd.DataFrame:
        """A table; one without rows where the study has none."""
        return self.tables.get(name, pd.DataFrame())

    def line(self, key: str, value: str = "") -> str:
        """File and line of a key of the declaration, or of a text in its value."""
        text = self.files.get(DECLARATION, b"").decode("utf-8-sig", "replace")
        return f"{DECLARATION}:{line_of(text, key, value)}"

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """Every prompt, other wordings included, a row each, with the columns of ``Prompt`` that tables give.

        ``where`` is its file and line, ``counted`` what is counted at its mask (words with a bar between them, or a
        label of the lexicon; blank for none), ``wording`` the name of another wording, ``unit`` numbers the pairs in
        each wording, ``masked`` says whether its text holds a mask. No rows where files cannot be read.
        """
        made = pd.DataFrame()
        if (TEMPLATES in self.tables) != (PROMPTS in self.tables) and all(map(len, self.tables.values())):
            made = self._of_prompts() if PROMPTS in self.tables else pd.DataFrame(self._of_templates(), dtype=object)
        if len(made) > MOST_PROMPTS:
            self.faults.append(
                f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them."
            )
            made = made[:0]
        made = made.reindex(columns=list(dict.fromkeys([*made, *_COLUMNS]))).astype(object).fillna("")
        masked = made["text"].str.contains(MASK, regex=False).astype(bool)
        if self.labels:  # the words of its group, or the only ones there are
            only = self.labels[0] if len(self.labels) == 1 else ""
            listed = made["group"].where(made["group"].isin(self.labels), only)
            made["counted"] = made["counted"].where(made["counted"] != "", listed)
        made["counted"] = made["counted"].where(masked, "")
        units = made.groupby(["pair_id", "wording"], sort=False).ngroup()
        return made.assign(unit=units, masked=masked).reset_index(drop=True)

    def _of_prompts(self) -> pd.DataFrame:
        made = self.table(PROMPTS)
        pairs = made["pair"] if "pair" in made else [f"row{line}" for line in made.index]
        made = made.rename(columns={"candidates": "counted"}).drop(columns="pair", errors="ignore")
        made = made.assign(pair_id=pairs, where=[f"{PROMPTS}:{line}" for line in made.index])
        if "group" in made:
            return made
        masked = made["text"].str.contains(MASK, regex=False)  # one text, and the words of each group
        groups = pd.Series(self.groups, name="group", dtype=object)
        of_groups = made[masked].drop(columns="counted", errors="ignore").merge(groups, how="cross")
        return pd.concat([made[~masked], of_groups])

    @cached_property
    def templates(self) -> pd.DataFrame:
        """Templates with their ``template_id``: of those that have none their words, joined by _."""
        table = self.table(TEMPLATES)
        if "template_id" in table or not len(table):
            return table
        return table.assign(template_id=unique_names(table["template"]))

    def _of_templates(self) -> list[dict[str, str]]:
        """Every template and wording with every row of slots and every condition that it asks for."""
        words, conditions = self.table(SLOTS), self.table(CONDITIONS)
        known = self.templates.drop_duplicates("template_id").set_index("template_id")
        parts = [(TEMPLATES, self.templates), (WORDINGS, self.table(WORDINGS))]
        every = [(f"{name}:{line}", one) for name, table in parts for line, one in table.iterrows()]
        filling = {slot for _, one in every for slot in slots(one["template"])} - {"condition"}
        groups = [{"pair": "", "group": group} for group in self.groups]
        rows: list[dict[str, str]] = []
        for where, one in every:
            name, wanted = one["template_id"], set(slots(one["template"]))
            if name not in known.index:
                what = f"{TEMPLATES} holds no template {shown(name)}"
                self.faults.append(f"{where}: {what}. Correct its template_id.")
                continue
            if found := [f"{where}: {what}" for what in self._slot_faults(one["template"], wanted)]:
                self.faults.extend(found)
                continue
            of_template, in_words = dict(known.loc[name].drop("template")), wanted & {*words}
            for condition, word in product(
                conditions.to_dict("records") if wanted - in_words else [{"condition": ""}],
                words.to_dict("records") if in_words else groups,
            ):
                values = {**condition, **word, **{one: condition[one] for one in condition if one not in in_words}}
                text = fill(one["template"], **{slot: values[slot] for slot in wanted})
                more = {key: cell for key, cell in values.items() if key not in {*filling, "pair", "group"}}
                pair = "/".join(filter(None, (name, word["pair"], values["condition"])))
                this = {"words": word["pair"], "group": word["group"], "text": text, "pair_id": pair}
                beside = {"template": name, "wording": one.get("wording", ""), "where": where}
                rows.append({**of_template, **more, **this, **beside})
            if len(rows) > MOST_PROMPTS:
                break
        return rows

    def _slot_faults(self, template: str, wanted: set[str]) -> Iterator[str]:
        """Slots of a template that no column fills, and what is written like a slot and is none."""
        columns = {*self.table(SLOTS), *self.table(CONDITIONS)}
        for one in sorted(wanted - columns | wanted & {"pair", "group"}):
            yield f"no column of {SLOTS} or {CONDITIONS} fills the slot [{one}]. Add one, or correct it."
        for one in re.finditer(r"\{(\w+)\}|\[(\w+)\]", template):
            if (one[1] or one[2]).lower() in {name.lower() for name in columns - wanted}:
                yield f"{one[0]} is no slot. Write [name], with a column of that name: a-z and _."


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


def parse_study(files: Files) -> Parsed:
    """The files of a study, parsed; faults are collected, not raised."""
    declared, wrong = read_declaration(files.get(DECLARATION, b""))
    faults: list[str] = []
    tables = {name: _read_table(name, files[name], faults) for name in _REQUIRED if name in files}
    if (TEMPLATES in tables) == (PROMPTS in tables):
        faults.append(f"{DECLARATION}: beside it stands {TEMPLATES} or {PROMPTS}, expected one. Add or remove one.")
    return Parsed(declared, files, wrong, tables, faults)
