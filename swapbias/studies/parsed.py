"""The files of a study of one's own: what study.toml declares, its tables, the prompts they make, and every fault."""

import io
import re
import tomllib
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import islice, pairwise
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
_NEEDED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",),
    WORDINGS: ("template_id", "wording", "template"), LEXICON: ("word", "group"), PROMPTS: ("text",),
}  # fmt: skip
STUDY_FILES = (DECLARATION, *_NEEDED)
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
_TEXTS = ("text", "template")  # columns that are read as they are, blanks at their ends included
_TOGETHER = ("kind", "answers", "rubric", "rubric_options")  # keys that are valid only with each other
# Of two texts that are no pair, fewer than a quarter of the words of the shorter are in the other, and less than half
# of the letters match (difflib): "El doctor cansado" and "La doctora cansada" share no word and most letters.
_SHARED_WORDS, _SHARED_LETTERS = 1 / 4, 0.5
_FEW_WORDS = 3  # of shorter texts the swapped words may be all
_COMPARED = 200  # letters of each text
_MOST_UNLIKE, _NAMED_UNLIKE = 20, 5  # pairs that are looked for, and those that are named
_MOST_GROUPS = 10  # that one sentence names
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words


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
    """What ``study.toml`` says, as docs/own.md explains; descriptions say what a value must be, for errors.

    ``random`` names columns whose values are a sample of many; ``answers`` and ``rubric_options`` are options of
    a question, each with what it counts: ``0=Yes``, ``1=No``, ``=It depends``.
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
        key, known = info.field_name, info.data
        needed = known.get("rubric") if key == "rubric_options" else "chat" in known.get("kind", ())
        if options and not needed and {"kind", "rubric"} & known.keys():
            raise ValueError(f'{key} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.')
        try:
            if any("/" in one or "|" in one for one in options):  # one names a word list, the other parts answers
                raise ValueError("/ or | stands in one.")
            if needed:
                options_of("|".join(options))
        except ValueError as error:
            raise ValueError(f'{key} cannot be read ({error}) Write {key} = ["0=Yes", "1=No"].') from error
        return options


def read_declaration(content: bytes) -> tuple[Declaration, dict[str, str]]:
    """What ``study.toml`` says without what is wrong, and by key a sentence with its line for each fault, by line."""
    right: dict[str, Any] = {}
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Declaration(name="study", title="study"), {"": str(not_utf8(DECLARATION, error))}
    right, found = _read_toml(text)
    for key in ("name", "title"):
        if not right.get(key) and key not in found:
            found[key] = text.count("\n") + 1, f'{key} is missing. Add {key} = "...".'
    right = {"name": "study", "title": "study"} | {key: one for key, one in right.items() if key not in found}
    while True:
        try:
            declared = Declaration(**right)
            break
        except ValidationError as error:
            for fault in error.errors():
                key, value = str(fault["loc"][0]), fault["input"]
                found.setdefault(key, (line_of(text, key, value), _sentence(key, value, fault)))
                for one in _TOGETHER if key in _TOGETHER else (key,):
                    right.pop(one, None)
            right = {"name": "study", "title": "study"} | right
    every = sorted(found.items(), key=lambda one: one[1][0])
    return declared, {key: f"{DECLARATION}:{line}: {what}" for key, (line, what) in every}


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
        return f"{shown(key)} is none of {', '.join(known)}.{did_you_mean(key, list(known)) or ' Remove it.'}"
    if (own := fault.get("ctx", {}).get("error")) and str(own):
        return str(own)
    listed = known[key].default == () and len(fault["loc"]) == 1
    form = "a list of texts" if listed else "a text of one line, 1,000 letters at most"
    return f"{key} is {quoted(value)}, expected {known[key].description or form}. Correct it."


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


def _first_few(faults: Iterable[str]) -> Iterator[str]:
    """Faults of one kind: the first of them one by one, and how many more there are."""
    found = list(faults)
    yield from found[:_LISTED]
    if len(found) > _LISTED:
        name = found[_LISTED].partition(":")[0]
        yield f"{name}: {len(found) - _LISTED:,} more rows like the {_LISTED} before. Correct these first."


def _read_table(name: str, content: bytes, faults: list[str]) -> pd.DataFrame:
    """The rows of a table that can be read, by their lines in the file; what is wrong is added to ``faults``."""
    try:
        text = content.decode("utf-8-sig")
        read = partial(
            pd.read_csv,
            header=None,
            dtype=object,
            engine="python",
            na_filter=False,
            skip_blank_lines=False,
            index_col=False,
        )
        columns = [one.strip() for one in read(io.StringIO(text, newline=""), nrows=1).iloc[0]]
        if wrong := list(_header_faults(name, columns)):
            faults += wrong
            return pd.DataFrame()
        width = len(columns)
        # One column more, in which a row that is too long has a cell; what a short row lacks is None.
        try:
            rows = read(io.StringIO(text, newline=""), names=range(width + 1))
        except pd.errors.ParserError:  # a row that is still longer, or an open quote
            most = max(map(len, (one.split(",") for one in text.splitlines())))
            rows = read(io.StringIO(text, newline=""), names=range(max(most, width + 1)))
    except UnicodeDecodeError as error:
        faults.append(str(not_utf8(name, error)))
        return pd.DataFrame()
    except (ValueError, IndexError) as error:
        faults.append(_unreadable(name, text, error))
        return pd.DataFrame()
    texts = rows.where(rows.notna(), "").astype(str)
    breaks = sum(texts[one].str.count(r"\r\n|\r|\n") for one in texts)
    rows.index = pd.Index((breaks + 1).cumsum().shift(fill_value=0).astype(int) + 1)
    texts.index = rows.index
    blank_rows = pd.concat([texts[one].str.strip() == "" for one in texts], axis=1).all(axis=1)
    del texts  # of large tables another copy
    rows = rows[1:][~blank_rows[1:]]
    counts = rows.notna().sum(axis=1)
    found = [(line, f"{count} cells, expected {width}. Quote or add cells.")
             for line, count in counts[counts != width].items()]  # fmt: skip
    table = rows[counts == width][list(range(width))].set_axis(columns, axis=1)
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
    faults += _first_few(f"{name}:{line}: {what}" for line, what in sorted(found))
    if not len(rows):
        faults.append(f"{name} holds no rows below its header. Add some.")
    return table[sound]


def _unreadable(name: str, text: str, error: Exception) -> str:
    """Why pandas read nothing; of a quote that is not closed the row, which pandas does not say."""
    try:
        deque(strict_rows(name, io.StringIO(text, newline="")), 0)
    except ValueError as found:
        return str(found)
    empty = isinstance(error, pd.errors.EmptyDataError | IndexError)
    why = f"{name}:1: columns are missing" if empty else f"{name} cannot be read ({error})"
    return f"{why}. Write them as {', '.join(_NEEDED[name])}, with commas between cells."


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

_COLUMNS = ("pair_id", "group", "text", "construct", "condition", "label", "template", "counted", "wording", "where")


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
        made = pd.DataFrame()
        if (TEMPLATES in self.tables) != (PROMPTS in self.tables) and all(map(len, self.tables.values())):
            made = self._of_prompts() if PROMPTS in self.tables else self._of_templates()
        if len(made) > MOST_PROMPTS:
            self.faults.append(
                f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them."
            )
            made = made[:0]
        made = made.reindex(columns=list(dict.fromkeys([*made, *_COLUMNS]))).astype(object)
        made = made.where(made.notna(), "")
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
        rows = pd.Series([f"row{line}" for line in made.index], made.index) if "pair" not in made else made["pair"]
        made = made.rename(columns={"candidates": "counted"}).drop(columns="pair", errors="ignore")
        made = made.assign(pair_id=rows, where=[f"{PROMPTS}:{line}" for line in made.index])
        if "group" in made:
            return made
        masked = made["text"].str.contains(MASK, regex=False)  # one text, and the words of each group
        groups = pd.Series(self.groups, name="group", dtype=object)
        of_groups = made[masked].drop(columns="counted", errors="ignore").merge(groups, how="cross")
        return pd.concat([made[~masked], of_groups])

    def _of_templates(self) -> pd.DataFrame:
        templates = self.templates.assign(where=[f"{TEMPLATES}:{line}" for line in self.templates.index], wording="")
        again = self.table(WORDINGS)
        again = again.assign(where=[f"{WORDINGS}:{line}" for line in again.index])
        known = set(templates["template_id"])
        for row in again.itertuples():
            if row.template_id not in known:
                what = f"{TEMPLATES} holds no template {shown(row.template_id)}"
                self.faults.append(f"{row.where}: {what}. Correct its template_id.")
        again = again[again["template_id"].isin(known)] if len(again) else again
        every = pd.concat([templates, again])[["where", "template_id", "template", "wording"]]
        in_slots = {slot for text in every["template"] for slot in slots(text)} - {"condition"}
        beside = self.templates.drop_duplicates("template_id").set_index("template_id").drop(columns="template")
        parts: list[pd.DataFrame] = []
        for where, name, template, wording in every.itertuples(index=False):
            part = self._crossed(where, template, in_slots)
            if part is not None:
                names = [pd.Series(name, part.index), part["words"], part["condition"]]
                pairs = ["/".join(filter(None, one)) for one in zip(*names, strict=True)]
                of_template = {one: value for one, value in beside.loc[name].items() if one not in part}
                part = part.assign(pair_id=pairs, template=name, wording=wording, where=where)
                parts.append(pd.DataFrame(of_template, index=part.index).join(part))
            if sum(map(len, parts)) > MOST_PROMPTS:
                break
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
    tables = {name: _read_table(name, files[name], faults) for name in _NEEDED if name in files}
    if (TEMPLATES in tables) == (PROMPTS in tables):
        faults.append(f"{DECLARATION}: beside it stands {TEMPLATES} or {PROMPTS}, expected one. Add or remove one.")
    return Parsed(declared, files, wrong, tables, faults)


# --- faults -------------------------------------------------------------------------------------------


def faults(parsed: Parsed) -> list[str]:
    """Everything for which an audit refuses a study, a sentence each with file and line; nothing of what follows."""
    prompts = parsed.prompts  # whose making may find faults of templates
    found = [*parsed.wrong.values(), *parsed.faults]
    whole = not parsed.faults and not parsed.wrong.keys() & {"", "groups", "reference"}
    if whole and len(prompts):
        found += _group_faults(parsed)
    else:
        found += _reference_faults(parsed, parsed.declared.groups)
    if len(prompts):
        found += _text_faults(parsed)
        found += _pair_faults(parsed) if whole else ()
        found += _column_faults(parsed)
    return found


def _group_faults(parsed: Parsed) -> Iterator[str]:
    declared, groups, known = parsed.declared, parsed.groups, parsed.group_names
    table = PROMPTS if PROMPTS in parsed.tables else SLOTS
    for name in declared.groups:
        if known and name not in (*known, declared.reference):
            where = _declared_at(parsed, "groups", name)
            yield f"{where}: The group {shown(name)} is none of {_names(known)}.{_correction(name, known)}"
    yield from _reference_faults(parsed, known)
    how = f"--reference (in a folder: reference = ... in {DECLARATION})"
    if len(groups) < 2:
        yield f"{table}: the groups are {_names(groups)}, expected two or more. Add rows of another."
    elif not declared.reference:
        yield f"The groups are {_names(groups)}, and none is the reference. Name it with {how}."
    elif declared.reference not in groups and declared.reference in known:
        where = _declared_at(parsed, "reference")
        yield f"{where}: The reference {shown(declared.reference)} is none of {_names(groups)}. Correct {how}."
    columns = list(parsed.table(PROMPTS))
    for one in ("group", "pair") if columns else ():
        if one not in columns and not ("group" not in columns and parsed.labels):
            yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."
    # Where words alone name groups, only the spelling of one that nothing compares is looked at.
    alone = known == parsed.labels
    compared = groups if alone else known
    words = parsed.table(LEXICON).get("group", pd.Series(dtype=object)) if len(parsed.labels) > 1 else pd.Series()
    for line, name in words[~words.isin(compared)].items():
        if not alone or did_you_mean(name, compared):
            yield f"{LEXICON}:{line}: group {shown(name)} is none of {_names(compared)}.{_correction(name, compared)}"


def _reference_faults(parsed: Parsed, known: Sequence[str]) -> Iterator[str]:
    name = parsed.declared.reference
    if name and known and name not in known:
        where = _declared_at(parsed, "reference")
        yield f"{where}: The reference {shown(name)} is none of {_names(known)}.{_correction(name, known)}"


def _declared_at(parsed: Parsed, key: str, value: str = "") -> str:
    text = parsed.files.get(DECLARATION, b"").decode("utf-8-sig", "replace")
    return f"{DECLARATION}:{line_of(text, key, value)}"


def _names(groups: Sequence[str]) -> str:
    names = [one if shown(one) == quoted(one) else shown(one) for one in groups]
    more = len(names) - _MOST_GROUPS
    return (", ".join(names[:_MOST_GROUPS]) or "none") + (f" and {more} more" if more > 0 else "")


def _correction(name: str, known: Sequence[str]) -> str:
    return did_you_mean(name, known) or " Correct it."


def _of_rows(rows: pd.DataFrame, fault: Callable[[Any], str]) -> Iterator[str]:
    return _first_few(dict.fromkeys(f"{row.where}: {fault(row)}" for row in rows.itertuples()))


def _text_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    text = prompts["text"].astype(str)
    odd = prompts[text.str.contains("[", regex=False)]
    yield from _of_rows(
        odd[odd["text"].map(slots).astype(bool)],
        lambda row: f"the slot [{slots(row.text)[0]}] is not filled. Put a word there, or take the brackets away.",
    )
    yield from _of_rows(
        odd[odd["text"].map(str.upper).str.contains("[MASK]", regex=False)],
        lambda row: f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK].",
    )
    yield from _of_rows(
        prompts[text.str.count(MASK) > 1],
        lambda row: f"{row.text.count(MASK)} times {MASK}, expected one at most. Split the text.",
    )
    where = f"{LEXICON} has no words of {{}}" if parsed.labels else "no words are given to count there"
    yield from _of_rows(
        prompts[prompts["masked"] & (prompts["counted"] == "")],
        lambda row: (
            f"the text holds {MASK} and {where.format(shown(row.group))}. Add {LEXICON} (-M lexicon) or a column "
            "candidates."
        ),
    )
    if not parsed.declared.groups:
        yield from _of_rows(
            prompts[~prompts["group"].isin(parsed.groups)],
            lambda row: f"group {shown(row.group)} is none of {_names(parsed.groups)}. Correct it.",
        )


def _pair_faults(parsed: Parsed) -> Iterator[str]:
    """Of each pair, in each of its wordings."""
    prompts, groups, reference = parsed.prompts, parsed.groups, parsed.declared.reference
    first_of_group = prompts.groupby(["unit", "group"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first_of_group)[prompts.duplicated(["unit", "group"])]
    yield from _of_rows(
        again, lambda row: f"pair {_named(row)} has group {shown(row.group)} already in {row.before}. Remove one."
    )
    units = prompts.drop_duplicates("unit").set_index("unit")
    compared = prompts[prompts["group"].isin(groups)].drop_duplicates(["unit", "group"])
    has = pd.crosstab(compared["unit"], compared["group"]).reindex(units.index, columns=groups, fill_value=0) > 0
    many = len(groups) > 2
    for group in sorted({reference} & {*groups} if many else groups):
        what = f"has no row of {shown(group)}. Add it, so that the groups are balanced."
        yield from _of_pairs(units[~has[group]], what)
    if many and reference in groups:
        alone = units[has[reference] & ~has.drop(columns=reference).any(axis=1)]
        yield from _of_pairs(alone, "holds the reference alone. Add a row of another group.")
    by_unit = compared.groupby("unit", sort=False)
    mixed = (by_unit["masked"].nunique() > 1).reindex(units.index, fill_value=False)
    yield from _of_pairs(units[mixed], f"holds {MASK} in one text and not in another. Write both alike.")
    differ = compared.drop_duplicates(["unit", "text", "counted"]).groupby("unit", sort=False).size()
    same = units[((differ == 1) & (by_unit.size() > 1)).reindex(units.index, fill_value=False)]
    what = "has the same text in every group: nothing is swapped"
    yield from _of_pairs(same[same["counted"] == ""], f"{what}. Change one.")
    yield from _of_rows(
        same[same["counted"] != ""],
        lambda row: (
            f"pair {_named(row)} {what}, for the words of {shown(row.counted)} alone are counted there. Change one."
        ),
    )


def _of_pairs(rows: pd.DataFrame, what: str) -> Iterator[str]:
    return _of_rows(rows, lambda row: f"pair {_named(row)} {what}")


def _named(row: Any) -> str:
    return shown(row.pair_id) + (f" in wording {shown(row.wording)}" if row.wording else "")


def _column_faults(parsed: Parsed) -> Iterator[str]:
    prompts = parsed.prompts
    headers = {one for table in parsed.tables.values() for one in table} | {"words", "condition"}
    known = {*prompts, *(headers if parsed.faults else ())} - {"text", "group"}
    for key in ("random", "slices"):
        for column in getattr(parsed.declared, key):
            where, name = _declared_at(parsed, key, column), "pair_id" if column == "pair" else column
            if name not in known:
                yield f"{where}: {key} names the column {shown(column)}, and no table has it. Correct it."
            elif not parsed.faults and name not in constant_columns(prompts, [name]):
                yield f"{where}: {shown(column)} differs within a pair, expected one value. Take it out."


# --- what may bend numbers ----------------------------------------------------------------------------


def spellings(parsed: Parsed) -> Iterator[str]:
    """Groups that are spelled nearly alike, and texts with blanks at their ends, a sentence each."""
    alike: dict[str, list[str]] = {}
    for group in dict.fromkeys((*parsed.group_names, *parsed.labels)):
        alike.setdefault(unicodedata.normalize("NFKC", group).casefold(), []).append(group)
    for names in alike.values():
        if len(names) > 1:
            # with codes for letters that may look alike
            named = " and ".join(
                shown(one) if unicodedata.is_normalized("NFKC", one) else ascii(one) for one in names
            )
            yield f"{named} are {len(names)} groups, spelled nearly alike. Spell a group in one way."
    texts = parsed.prompts["text"].astype(str)
    ends = parsed.prompts["where"][texts != texts.str.strip()]
    if len(ends):
        counted = f"{len(ends):,} texts begin or end" if len(ends) > 1 else "A text begins or ends"
        yield f"{ends.iloc[0]}: {counted} with blanks, which models read too. Remove those that should not be there."


def unlike_pairs(parsed: Parsed) -> Iterator[str]:
    """A warning that names the rows of pairs whose texts share almost nothing; none where there are no such pairs."""
    prompts = parsed.prompts
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(prompts["text"], prompts["where"], first["text"], first["where"], prompts["pair_id"], strict=True)
    unlike = (
        f"{' and '.join(dict.fromkeys((before, where)))} (pair {shown(pair)})"
        for text, where, other, before, pair in rows
        if text != other and _is_unlike(text.lower(), other.lower())
    )
    if found := list(islice(unlike, _MOST_UNLIKE + 1)):
        more = len(found) - _NAMED_UNLIKE
        rest = f"; {more}{' or more' if len(found) > _MOST_UNLIKE else ''} others" if more > 0 else ""
        why = "A gap between them does not come from the swapped words. Check the pairs."
        yield f"Texts of one pair share almost nothing: {'; '.join(found[:_NAMED_UNLIKE])}{rest}. {why}"


def _is_unlike(one: str, other: str) -> bool:
    words = [set(_WORD.findall(text)) for text in (one, other)]
    fewest = min(map(len, words))
    if fewest < _FEW_WORDS or len(words[0] & words[1]) >= _SHARED_WORDS * fewest:
        return False
    return SequenceMatcher(None, one[:_COMPARED], other[:_COMPARED], autojunk=False).ratio() < _SHARED_LETTERS
