"""The files of a study of one's own as parsed: what study.toml declares, its tables, and every prompt they make."""

import io
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
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
from swapbias.studies.tables import shown_names, strict_rows

DECLARATION = "study.toml"
TEMPLATES, SLOTS, CONDITIONS = "templates.csv", "slots.csv", "conditions.csv"
WORDINGS, LEXICON, PROMPTS = "wordings.csv", "lexicon.csv", "prompts.csv"
STUDY_FILES = (DECLARATION, TEMPLATES, SLOTS, CONDITIONS, WORDINGS, LEXICON, PROMPTS)
MOST_BYTES = 256 * 2**20  # of one file
MOST_PROMPTS = 1_000_000  # of a study
Files = Mapping[str, bytes]
Kind = Literal["masked", "classifier", "causal", "chat"]
_LISTED = 20  # faults of one kind that are named one by one
_MOST_LETTERS = 300  # of a cell that is no text: it stands in tables and findings
_SHOWN_LETTERS, _SHOWN_WORDS = 40, 4  # of a name in a sentence: what is longer may be a text
_RESERVED = {
    *PLACEBO_COLUMNS, "prompt_id", "pair_id", "experiment", "model_id", "score", "answer", "top_tokens", "non_finite",
    "where", "counted",
}  # fmt: skip
_NEEDED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",), LEXICON: ("word", "group"),
    WORDINGS: ("template_id", "wording", "template"), PROMPTS: ("text",),
}  # fmt: skip
_TEXTS = ("text", "template")  # columns that are read as they are, blanks at their ends included


# --- study.toml ---------------------------------------------------------------------------------------


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError
    return value


def _new_name(value: str) -> str:
    if value in corpora():
        raise ValueError(f"name is {quoted(value)}, a study of the package. Choose another.")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(strict=True, max_length=1_000), AfterValidator(_one_line)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class Declaration(BaseModel):
    """What ``study.toml`` says; ``name`` and ``title`` are required. Descriptions say what a value must be.

    Attributes:
        name: in findings and file names.
        title, question, url, licence, version: of the study.
        groups: those that are compared; all that the tables hold by default.
        reference: the group that is subtracted.
        kind: kinds of model that read it: what its texts allow by default, but for chat.
        answers: of chat models, each with what it counts: ``0=Yes``, ``1=No``, ``=It depends``.
        reading: of their answers: ``text`` (the decision that free text comes to), ``person`` (who is named) or
            ``options`` (a letter or the words of one).
        rubric, rubric_options: the question that a judge is asked of an answer, and its options as ``answers``.
        unit: of what a classifier or function gives.
        margin: a gap below this share of the range of its unit counts as none.
        random: columns whose values are a sample of many; templates, word pairs and conditions by default.
        slices: columns to break findings down by; by default those that stand beside the needed ones.
        limits: sentences that every report repeats.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[
        Text, Field(pattern=r"^[a-z][a-z0-9_]{0,49}$", description="a-z, 0-9 and _, a letter first, 50 at most"),
        AfterValidator(_new_name),
    ]  # fmt: skip
    title: Annotated[Text, Field(min_length=1)]
    question: Text = ""
    url: Annotated[Text, Field(pattern=r"^(https?://.*)?$", description="one that begins with https://")] = ""
    licence: Text = "other"
    version: Annotated[Text, Field(pattern=r"^\d+\.\d+\.\d+$", description="three numbers as in 1.0.0")] = "1.0.0"
    groups: Texts = ()
    reference: Text = ""
    kind: Annotated[tuple[Kind, ...], BeforeValidator(_listed), Field(description=", ".join(get_args(Kind)))] = ()
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
        asked = (
            info.data.get("rubric") if info.field_name == "rubric_options" else "chat" in info.data.get("kind", ())
        )
        if not asked and options and {"kind", "rubric"} & info.data.keys():
            raise ValueError(
                f'{info.field_name} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.'
            )
        try:
            if any("/" in one or "|" in one for one in options):  # one names a word list, the other parts answers
                raise ValueError("/ or | stands in one.")
            if asked:
                options_of("|".join(options))
        except ValueError as error:
            raise ValueError(
                f'{info.field_name} cannot be read ({error}) Write {info.field_name} = ["0=Yes", "1=No"].'
            ) from error
        return options


def read_declaration(content: bytes) -> tuple[Declaration, dict[str, str]]:
    """What ``study.toml`` says without what is wrong, and by key a sentence with its line for each fault, by line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Declaration(name="study", title="study"), {"": str(not_utf8(DECLARATION, error))}
    read, found = _read_toml(text)
    for key in ("name", "title"):
        if not read.get(key) and key not in found:
            found[key] = text.count("\n") + 1, f'{key} is missing. Add {key} = "...".'
    right = {key: value for key, value in read.items() if key not in found}
    try:
        declared = Declaration(**{"name": "study", "title": "study", **right})
    except ValidationError as error:
        for fault in error.errors():
            key, value = str(fault["loc"][0]), fault["input"]
            found.setdefault(key, (line_of(text, key, value), _sentence(key, value, fault)))
        declared = _without(found.keys(), read)
    every = sorted(found.items(), key=lambda one: one[1][0])
    return declared, {key: f"{DECLARATION}:{line}: {what}" for key, (line, what) in every}


def _without(wrong: Iterable[str], read: Mapping[str, Any]) -> Declaration:
    """What else a declaration says that tables can be checked by."""
    left_out = {*wrong, "kind", "answers", "rubric", "rubric_options"}  # which go together
    right = {key: value for key, value in read.items() if key not in left_out}
    return Declaration(**{"name": "study", "title": "study", **right})


def _read_toml(text: str) -> tuple[dict[str, Any], dict[str, tuple[int, str]]]:
    """The keys of a declaration; of no TOML those that can be read alone, and line and fault of others."""
    try:
        return tomllib.loads(text), {}
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        whole = str(error)
    read: dict[str, Any] = {}
    found: dict[str, tuple[int, str]] = {}
    starts = [0, *(one.start() for one in re.finditer(r"^[ \t]*[\w.\"'-]+[ \t]*=", text, re.MULTILINE)), len(text)]
    for start, end in pairwise(starts):
        key, line = text[start:end].partition("=")[0].strip(), text.count("\n", 0, start) + 1
        try:
            values = tomllib.loads(text[start:end])
            if values.keys() & read.keys():
                found[key] = line, f"{key} stands twice. Remove one."
            read |= values
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            why = re.sub(r" \(at .*", "", str(error))
            found[key] = line, f"{shown(key)} is no TOML ({why}). Correct it."
    return read, found or {"": (1, f"no TOML: {whole}. Correct it.")}


def _sentence(key: str, value: Any, fault: Mapping[str, Any]) -> str:
    known = Declaration.model_fields
    if key not in known:
        return (
            f"{shown(key)} is none of {', '.join(known)}.{did_you_mean(key, list(known)) or ' Correct or remove it.'}"
        )
    own = fault.get("ctx", {}).get("error")
    if own and str(own):
        return str(own)
    listed = known[key].default == () and len(fault["loc"]) == 1
    expected = known[key].description or (
        "a list of texts" if listed else "a text of one line, 1,000 letters at most"
    )
    return f"{key} is {quoted(value)}, expected {expected}. Correct it."


def line_of(text: str, key: str, value: Any = "") -> int:
    """The line of a declaration where a key stands, or after it the text that is its value; 1 where none does."""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*=", text, re.MULTILINE) or re.search("", text)
    at = found.end() if found else 0
    inside = text.find(f'"{value}"', at) if isinstance(value, str) and value else -1
    return text.count("\n", 0, max(at, inside)) + 1


# --- tables -------------------------------------------------------------------------------------------


def shown(name: str) -> str:
    """A name of a group or pair in a sentence; what is long may be a text, and is not repeated."""
    short = len(name) <= _SHOWN_LETTERS and len(name.split()) <= _SHOWN_WORDS
    return quoted(name) if short else f"(a name of {len(name)} letters)"


def first_few(faults: Iterable[str], most: int = _LISTED) -> Iterator[str]:
    """Faults of one kind: the first of them one by one, and how many more there are."""
    found = list(faults)
    yield from found[:most]
    if len(found) > most:
        name = found[most].partition(":")[0]
        yield f"{name}: {len(found) - most:,} more rows like the {most} before. Correct these first."


def _read_table(name: str, content: bytes, faults: list[str]) -> pd.DataFrame:
    """The rows of a table that can be read, by their lines in the file; what is wrong is added to ``faults``."""
    try:
        text = content.decode("utf-8-sig")
        lines = strict_rows(name, io.StringIO(text, newline=""))
        columns = tuple(one.strip() for one in next(lines, (1, []))[1])
        if wrong := list(_header_faults(name, columns)):
            faults += wrong
            return pd.DataFrame()
        every = [(line, cells) for line, cells in lines if any(map(str.strip, cells))]
    except UnicodeDecodeError as error:
        faults.append(str(not_utf8(name, error)))
        return pd.DataFrame()
    except ValueError as error:
        faults.append(str(error))
        return pd.DataFrame()
    width = len(columns)
    found = [(line, f"{len(cells)} cells, expected {width}. Quote or add cells.") for line, cells in every
             if len(cells) != width]  # fmt: skip
    whole = [(line, cells) for line, cells in every if len(cells) == width]
    table = pd.DataFrame(
        [cells for _, cells in whole], columns=list(columns), index=[line for line, _ in whole], dtype=object
    )
    sound = pd.Series(True, table.index)
    for column in columns:
        bare = table[column].str.strip()
        if column not in _TEXTS:
            table[column] = bare
        blank = (bare == "") & (column != "candidates")
        found += [(line, f"column {column!r} is blank, expected a value. Fill it in.") for line in table.index[blank]]
        odd = ~blank & (column not in (*_TEXTS, "candidates"))
        odd &= (bare.str.len() > _MOST_LETTERS) | ~bare.map(str.isprintable).astype(bool)
        hint = f"holds more than {_MOST_LETTERS} letters or what cannot be printed. Shorten it."
        found += [(line, f"column {column!r} {hint}") for line in table.index[odd]]
        sound &= ~blank & ~odd
    faults += first_few(f"{name}:{line}: {what}" for line, what in sorted(found))
    if not every:
        faults.append(f"{name} holds no rows below its header. Add some.")
    return table[sound]


def _header_faults(name: str, columns: Sequence[str]) -> Iterator[str]:
    for one in _NEEDED[name]:
        if one not in columns:
            hint = "Save it with commas between cells" if len(columns) == 1 and ";" in columns[0] else "Add it"
            yield f"{name}:1: column {one!r} is missing, found {shown_names(columns)}. {hint}."
    for number, one in enumerate(columns, start=1):
        if columns.index(one) < number - 1:
            yield f"{name}:1: a column ({shown_names([one])}) stands twice. Name one of them anew."
        if one in _RESERVED and not (one == "wording" and name == WORDINGS):
            hint = " Call it pair." if one == "pair_id" else " Name it anew."
            yield f"{name}:1: column {quoted(one)} is a name that scored prompts use themselves.{hint}"
        if not re.fullmatch(r"[A-Za-z][\w -]{0,39}", one):
            yield f"{name}:1: cell {number} is no name of a column. Use letters, digits, - and _."


# --- prompts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parsed:
    """The files of a study as parsed.

    Attributes:
        declared: what ``study.toml`` says, without what is wrong.
        wrong: by key of ``study.toml`` what is wrong with it.
        tables: rows by file, as texts, indexed by their lines in the file.
        faults: of tables and templates, a sentence each with file and line; what is wrong is left out of the rest.
    """

    declared: Declaration
    files: Files = field(repr=False, default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

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

    def table(self, name: str) -> pd.DataFrame:
        """A table; one without rows where the study has none."""
        return self.tables.get(name, pd.DataFrame())

    @cached_property
    def templates(self) -> pd.DataFrame:
        """Templates with their ``template_id``: of those that have none their words, joined by _."""
        table = self.table(TEMPLATES)
        if "template_id" in table or not len(table):
            return table
        return table.assign(template_id=unique_names(table["template"]))

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """Every prompt, other wordings included, a row each, with the columns of ``Prompt`` that tables give.

        ``where`` is its file and line, ``counted`` what is counted at its mask (words with a bar between them, or a
        label of the lexicon; blank for none), ``wording`` the name of another wording, ``unit`` numbers the pairs in
        each wording, ``masked`` says whether its text holds a mask. No rows where files cannot be read.
        """
        if (TEMPLATES in self.tables) == (PROMPTS in self.tables) or any(
            table.empty for table in self.tables.values()
        ):
            made = pd.DataFrame()
        else:
            made = self._of_prompts() if PROMPTS in self.tables else self._of_templates()
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
        if len(made) > MOST_PROMPTS:
            self.faults.append(_too_many())
            return made[:0]
        rows = pd.Series([f"row{line}" for line in made.index], made.index) if "pair" not in made else made["pair"]
        made = made.rename(columns={"candidates": "counted"}).drop(columns="pair", errors="ignore")
        made = made.assign(pair_id=rows, where=[f"{PROMPTS}:{line}" for line in made.index])
        if "group" in made:
            return made
        masked = made["text"].str.contains(MASK, regex=False)  # one text, and the words of each group
        groups = pd.Series(self.groups, name="group", dtype=object)
        return pd.concat(
            [made[~masked], made[masked].drop(columns="counted", errors="ignore").merge(groups, how="cross")]
        )

    def _of_templates(self) -> pd.DataFrame:
        templates = self.templates.set_index("template_id", drop=False)
        asked = [(f"{TEMPLATES}:{line}", row.template_id, row.template, "")
                 for line, row in zip(self.templates.index, self.templates.itertuples(), strict=True)]  # fmt: skip
        for line, row in self.table(WORDINGS).iterrows():
            where = f"{WORDINGS}:{line}"
            if row["template_id"] in templates.index:
                asked.append((where, row["template_id"], row["template"], row["wording"]))
            else:
                what = f"{TEMPLATES} holds no template {shown(row['template_id'])}"
                self.faults.append(f"{where}: {what}. Correct its template_id.")
        in_slots = {slot for _, _, text, _ in asked for slot in slots(text)} - {"condition"}
        beside = templates[~templates.index.duplicated()].drop(columns=["template", "template_id"])
        parts: list[pd.DataFrame] = []
        count = 0
        for where, name, template, wording in asked:
            part = self._crossed(where, template, in_slots)
            if part is None:
                continue
            count += len(part)
            if count > MOST_PROMPTS:
                self.faults.append(_too_many())
                return pd.DataFrame()
            names = [pd.Series(name, part.index), part["words"], part["condition"]]
            pairs = ["/".join(filter(None, one)) for one in zip(*names, strict=True)]
            of_template = {one: value for one, value in beside.loc[name].items() if one not in part}
            part = part.assign(pair_id=pairs, template=name, wording=wording, where=where)
            parts.append(pd.DataFrame(of_template, index=part.index).join(part))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _crossed(self, where: str, template: str, in_slots: set[str]) -> pd.DataFrame | None:
        """A template with every row of slots and every condition that it asks for; None where a slot is not known."""
        wanted, words, conditions = set(slots(template)), self.table(SLOTS), self.table(CONDITIONS)
        unknown = wanted - {*words, *conditions} | wanted & {"pair", "group"}
        names = {one.lower() for one in {*words, *conditions} - wanted}
        odd = [one[0] for one in re.finditer(r"\{(\w+)\}|\[(\w+)\]", template) if (one[1] or one[2]).lower() in names]
        for one in sorted(unknown):
            what = f"no column of {SLOTS} or {CONDITIONS} fills the slot [{one}]"
            self.faults.append(f"{where}: {what}. Add one, or correct it.")
        for one in odd:
            self.faults.append(f"{where}: {one} is no slot. Write [name], with a column of that name: a-z and _.")
        if unknown or odd:
            return None
        of_words = wanted & {*words}
        if not of_words:
            words = pd.DataFrame({"pair": "", "group": list(self.groups)})
        if not wanted - of_words:
            conditions = pd.DataFrame({"condition": [""]})
        conditions = conditions.drop(columns=[*of_words & {*conditions}])
        rows = conditions.merge(words.drop(columns=[*{*words} & {*conditions}]), how="cross")
        texts = [fill(template, **row) for row in rows[sorted(wanted)].to_dict("records")]
        rows = rows.drop(columns=[*in_slots & {*rows}]).rename(columns={"pair": "words"})
        order = [one for one in rows if one not in ("words", "group", "condition")]
        return rows.assign(text=texts)[[*order, "words", "group", "text", "condition"]]


_COLUMNS = ("pair_id", "group", "text", "construct", "condition", "label", "template", "counted", "wording", "where")


def _too_many() -> str:
    return f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them."


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
    tables = {
        name: _read_table(name, files[name], faults) for name in STUDY_FILES if name in files and name != DECLARATION
    }
    if (TEMPLATES in tables) == (PROMPTS in tables):
        faults.append(f"{DECLARATION}: beside it stands {TEMPLATES} or {PROMPTS}, expected one. Add or remove one.")
    return Parsed(declared, files, wrong, tables, faults)
