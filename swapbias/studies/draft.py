"""The files of a study of one's own as they are read: what is declared, its tables, and every prompt they come to."""

import codecs
import io
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import overload

from swapbias.errors import quoted
from swapbias.files import not_utf8
from swapbias.studies.declaration import DECLARATION, Declared, read_declaration
from swapbias.studies.prompt import MASK, PLACEBO_COLUMNS, fill, slots
from swapbias.studies.rows import Row, Rows
from swapbias.studies.tables import shown_names, strict_rows

TEMPLATES, SLOTS, CONDITIONS = "templates.csv", "slots.csv", "conditions.csv"
WORDINGS, LEXICON, PROMPTS = "wordings.csv", "lexicon.csv", "prompts.csv"
STUDY_FILES = (DECLARATION, TEMPLATES, SLOTS, CONDITIONS, WORDINGS, LEXICON, PROMPTS)
MOST_BYTES = 256 * 2**20  # of one file
MOST_PROMPTS = 1_000_000  # of a study; those of the package have some thousands
_PIECE = 2**20  # of a file that is decoded at once
MOST_FAULTS = 100  # rows of a table that are each told to be wrong
MOST_VALUES = 100  # of a column that is a slice without being named as one
MOST_LETTERS = 300  # of a cell that is no text: it stands in tables and findings
_TAKEN = {
    *PLACEBO_COLUMNS, "prompt_id", "pair_id", "experiment", "model_id", "score", "answer", "top_tokens", "non_finite",
}  # fmt: skip
_NEEDED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",), LEXICON: ("word", "group"),
    WORDINGS: ("template_id", "wording", "template"), PROMPTS: ("text",),
}  # fmt: skip
_SCORED = ("text", "template")  # columns whose cells are read as they are, blanks at their ends included
_TEXTS = (*_SCORED, "candidates")
_BLANK_ALLOWED = {PROMPTS: ("candidates",)}
_OF_TABLE = ("template", "template_id", "text", "group", "pair", "candidates", "condition", "label", "construct")


Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as it is read: its cells, and of each row its line in the file."""

    name: str
    columns: tuple[str, ...] = ()
    cells: Rows = field(default_factory=Rows)
    at: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def rows(self) -> Iterator[tuple[int, Row]]:
        """Each row with its line, in order."""
        return zip(self.at, self.cells, strict=True)


@dataclass(frozen=True, slots=True)
class Line:
    """One prompt to be: where it comes from, its cells, what is counted at its mask, its wording (blank: the first).

    ``counted`` are words with a bar between them, or one label of the lexicon.
    """

    where: str
    cells: Mapping[str, str]
    counted: str = ""
    wording: str = ""


_WHERE, _COUNTED, _WORDING = ":where", ":counted", ":wording"  # no column of a table is called so


class Lines(Sequence[Line]):
    """Every prompt of a study, other wordings included, held by column, with what pairs are told by as numbers.

    Attributes:
        pair: of each line the number of its pair; ``unit``: that of its pair in its wording.
        group: of each line the place of its group in ``groups``.
        masked, worded: of each line whether its text holds a mask, whether it is another wording.
        content: of each line a hash of its text and of what is counted there.
        units: pairs and units are numbered below it, in the order in which they first stand.
        groups: every group by name.
        columns: every column; ``filled``: those that are not blank everywhere.
        faults: of templates that cannot be filled, a sentence each with file and line.
    """

    faults: tuple[str, ...] = ()

    def __init__(self, made: Iterable[Line]) -> None:
        """Read once, so that they may come from a generator."""
        self.pair, self.unit, self.group = array("i"), array("i"), array("i")
        self.masked, self.worded, self.content = bytearray(), bytearray(), array("q")
        self.groups: dict[str, int] = {}
        self.columns: dict[str, None] = {}
        self.filled: dict[str, None] = {}
        numbers: dict[str | tuple[str, str], int] = {}
        self._rows = Rows(self._noted(line, numbers) for line in made)
        self.units = len(numbers)

    def _noted(self, line: Line, numbers: "dict[str | tuple[str, str], int]") -> Row:
        cells, text = line.cells, line.cells["text"]
        pair = unit = numbers.setdefault(cells["pair_id"], len(numbers))
        if line.wording:
            unit = numbers.setdefault((cells["pair_id"], line.wording), len(numbers))
        self.pair.append(pair)
        self.unit.append(unit)
        self.group.append(self.groups.setdefault(cells["group"], len(self.groups)))
        self.masked.append(MASK in text)
        self.worded.append(bool(line.wording))
        self.content.append(hash((text, line.counted)))
        for name, value in cells.items():
            if name not in self.filled:
                self.columns[name] = None
                if value:
                    self.filled[name] = None
        return {**cells, _WHERE: line.where, _COUNTED: line.counted, _WORDING: line.wording}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Line]:
        return map(_line, self._rows)

    @overload
    def __getitem__(self, place: int) -> Line: ...

    @overload
    def __getitem__(self, place: slice) -> list[Line]: ...

    def __getitem__(self, place: int | slice) -> Line | list[Line]:
        """A line, or a list of some."""
        return list(map(_line, self._rows[place])) if isinstance(place, slice) else _line(self._rows[place])

    def at(self, places: Sequence[int]) -> Iterator[Line]:
        """The lines of these places, which rise."""
        return map(_line, self._rows.at(places))


def _line(row: Row) -> Line:
    where, counted, wording = (row.pop(name) for name in (_WHERE, _COUNTED, _WORDING))
    return Line(where, row, counted, wording)


class Columns:
    """What the columns of some lines hold, read once.

    Attributes:
        values: by column its values, of which a hundred and one are enough to tell that it is no slice.
        constant: columns with one value in each pair.
    """

    def __init__(self, made: Lines, places: Sequence[int]) -> None:
        """Of the lines of these places, which rise."""
        self.values: dict[str, set[str]] = {}
        seen = bytearray(made.units)
        first: dict[str, array[int]] = {}  # by column a hash of the value that stands first in each pair
        varying: set[str] = set()
        for place, line in zip(places, made.at(places), strict=True):
            pair = made.pair[place]
            new, seen[pair] = not seen[pair], 1
            for column, value in line.cells.items():
                held = self.values.setdefault(column, set())
                if len(held) <= MOST_VALUES:
                    held.add(value)
                if column in varying:
                    continue
                if column not in first:
                    first[column] = array("q", bytes(8 * made.units))
                if new:
                    first[column][pair] = hash(value) or 1
                elif first[column][pair] != (hash(value) or 1):  # 0: the first line of the pair has no such column
                    varying.add(column)
                    del first[column]
        self.constant = self.values.keys() - varying


@dataclass(frozen=True)
class Draft:
    """The files of a study as read: what is declared, and its tables.

    Attributes:
        faults: what cannot be read, a sentence each with file and line; it is left out of the rest.
        broken: nothing else can be known, since the declaration or a table has no form.
        partial: rows are left out, so that groups and pairs are not whole.
    """

    declared: Declared
    sheets: Mapping[str, Sheet]
    files: Files = field(repr=False, default_factory=dict)
    faults: tuple[str, ...] = ()
    broken: bool = False
    partial: bool = False

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The groups of the lexicon's words, in order."""
        return tuple(dict.fromkeys(self.sheet(LEXICON).cells.column("group")))

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The groups that are compared, the reference among them."""
        return self.declared.groups or self.group_names

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups that the tables hold."""
        sheets = (self.sheet(name) for name in (SLOTS, PROMPTS))
        found = dict.fromkeys(
            one for sheet in sheets if "group" in sheet.columns for one in sheet.cells.column("group")
        )
        return tuple(found) or self.labels

    @cached_property
    def templates(self) -> Mapping[str, Row]:
        """The rows of templates by the names that other tables call them."""
        rows = enumerate(self.sheet(TEMPLATES).cells, start=1)
        found: dict[str, Row] = {}
        for number, row in rows:
            found.setdefault(row.get("template_id", f"t{number}"), row)
        return found

    def sheet(self, name: str) -> Sheet:
        """A table; one without rows where the study has none."""
        return self.sheets.get(name, Sheet(name))


def read_draft(files: Files) -> Draft:
    """The files of a study, read but not yet made into prompts."""
    declared, found = read_declaration(files.get(DECLARATION, b""))
    sheets: dict[str, Sheet] = {}
    broken, before = declared is None, len(found)
    for name in STUDY_FILES:
        if name in files and name != DECLARATION:
            sheets[name] = _sheet(name, files[name], found)
            broken |= not sheets[name].cells
    if (TEMPLATES in sheets) == (PROMPTS in sheets):
        broken = True
        found.append(f"{DECLARATION}: beside it stands {TEMPLATES} or {PROMPTS}, expected one. Add or remove one.")
    partial = len(found) > before
    return Draft(declared or Declared(name="study", title="study"), sheets, files, tuple(found), broken, partial)


def _lines_of(name: str, content: bytes) -> Iterator[str]:
    """The lines that a file's text splits into, which is never held whole; all of it is known to be UTF-8 first."""
    decoder, whole = codecs.getincrementaldecoder("utf-8-sig")(), memoryview(content)
    try:
        for start in range(0, len(content), _PIECE):
            decoder.decode(whole[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error
    with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="") as text:
        yield from text


def _sheet(name: str, content: bytes, found: list[str]) -> Sheet:
    """A table without the rows that cannot be read; what is wrong is added to ``found``."""
    columns: tuple[str, ...] = ()
    at, rows, before = array("q"), Rows(), len(found)
    try:
        lines = strict_rows(name, _lines_of(name, content))
        columns = tuple(one.strip() for one in next(lines, (1, []))[1])
        found += _faults_of_header(name, columns)
        if len(found) == before:
            rows = Rows(_sound_rows(name, columns, lines, at, found))
    except ValueError as error:
        found.append(str(error))
    if not rows and len(found) == before:
        found.append(f"{name} holds no rows below its header. Add some.")
    return Sheet(name, columns, rows, at)


def _sound_rows(
    name: str, columns: tuple[str, ...], lines: Iterable[tuple[int, list[str]]], at: "array[int]", found: list[str]
) -> Iterator[Row]:
    """The rows of a table that are not blank; adds their lines to ``at``, what is wrong with others to ``found``.

    Raises:
        ValueError: so many rows are wrong that the rest is not read.
    """
    wrong = 0
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        row = {one: cell if one in _SCORED else cell.strip() for one, cell in zip(columns, cells, strict=False)}
        if fault := _fault_of_row(name, columns, row, len(cells)):
            wrong += 1
            if wrong > MOST_FAULTS:
                raise ValueError(f"{name}:{line}: {MOST_FAULTS} rows are wrong by here. Mend them first.")
            found.append(f"{name}:{line}: {fault}")
            continue
        at.append(line)
        yield row


def _fault_of_row(name: str, columns: Sequence[str], row: Mapping[str, str], cells: int) -> str:
    """What is wrong with a row; blank for nothing."""
    if cells != len(columns):
        return f"{cells} cells, expected {len(columns)}. Quote or add cells."
    blank = [one for one in columns if not row[one].strip() and one not in _BLANK_ALLOWED.get(name, ())]
    if blank:
        return f"column {blank[0]!r} is blank, expected a value. Fill it in."
    odd = [
        one for one in columns if one not in _TEXTS and (len(row[one]) > MOST_LETTERS or not row[one].isprintable())
    ]
    if odd:
        return f"column {odd[0]!r} holds more than {MOST_LETTERS} letters or what cannot be printed. Shorten it."
    return ""


def _faults_of_header(name: str, columns: Sequence[str]) -> Iterator[str]:
    lost = [one for one in _NEEDED[name] if one not in columns]
    if lost:
        hint = "Save it with commas between cells" if len(columns) == 1 and ";" in columns[0] else "Add it"
        yield f"{name}:1: column {lost[0]!r} is missing, found {shown_names(columns)}. {hint}."
    for number, one in enumerate(columns, start=1):
        if columns.index(one) < number - 1:
            yield f"{name}:1: a column ({shown_names([one])}) stands twice. Name one of them anew."
        if one in _TAKEN and not (one == "wording" and name == WORDINGS):
            hint = " Call it pair." if one == "pair_id" else " Name it anew."
            yield f"{name}:1: column {quoted(one)} is a name that scored prompts use themselves.{hint}"
        if not re.fullmatch(r"[A-Za-z][\w -]{0,39}", one):
            yield f"{name}:1: cell {number} is no name of a column. Use letters, digits, - and _."


# --- prompts ------------------------------------------------------------------------------------------


def lines(draft: Draft) -> Lines:
    """Every prompt of a study, other wordings included, as its tables give it; none where these have no form."""
    found: list[str] = []
    every = _of_prompts(draft) if PROMPTS in draft.sheets else _of_templates(draft, found)
    made = Lines(() if draft.broken else islice(every, MOST_PROMPTS + 1))
    if len(made) > MOST_PROMPTS:
        found.append(f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them.")
    made.faults = tuple(found)
    return made


def _of_prompts(draft: Draft) -> Iterator[Line]:
    sheet = draft.sheet(PROMPTS)
    beside = [one for one in sheet.columns if one not in _OF_TABLE]
    for line, row in sheet.rows:
        where = f"{PROMPTS}:{line}"
        cells = {
            "pair_id": row.get("pair", f"row{line}"), "group": row.get("group", ""), "text": row["text"],
            "construct": row.get("construct", ""), "condition": row.get("condition", ""),
            "label": row.get("label", ""), "template": row.get("template", ""),
            **{one: row[one] for one in beside},
        }  # fmt: skip
        if MASK in row["text"] and "group" not in sheet.columns:  # one text, and the words of each group
            yield from (Line(where, {**cells, "group": one}, one) for one in draft.groups)
        else:
            counted = row.get("candidates", "") if MASK in row["text"] else ""
            yield Line(where, cells, counted or _counted(draft, cells))


def _counted(draft: Draft, cells: Mapping[str, str]) -> str:
    """The label of the words that are counted at a row's mask: its group's, or the only one there is."""
    if MASK not in cells["text"]:
        return ""
    return cells["group"] if cells["group"] in draft.labels else draft.labels[0] if len(draft.labels) == 1 else ""


def _of_templates(draft: Draft, found: list[str]) -> Iterator[Line]:
    """The prompts of templates whose slots are all filled; adds a sentence for each other template to ``found``."""
    in_slots = _slots_of(draft)
    for number, (line, row) in enumerate(draft.sheet(TEMPLATES).rows, start=1):
        name = row.get("template_id", f"t{number}")
        beside = {one: row[one] for one in row if one not in ("template", "template_id")}
        yield from _filled(draft, f"{TEMPLATES}:{line}", row["template"], name, beside, in_slots, found)
    for line, row in draft.sheet(WORDINGS).rows:
        where, name = f"{WORDINGS}:{line}", row["template_id"]
        if name not in draft.templates:
            found.append(f"{where}: {TEMPLATES} holds no template {quoted(name)}. Correct its template_id.")
            continue
        original = draft.templates[name]
        beside = {one: original[one] for one in original if one not in ("template", "template_id")}
        for one in _filled(draft, where, row["template"], name, beside, in_slots, found):
            yield replace(one, wording=row["wording"])


def _filled(
    draft: Draft,
    where: str,
    template: str,
    name: str,
    beside: Mapping[str, str],
    in_slots: set[str],
    found: list[str],
) -> Iterator[Line]:
    """A template with every row of slots and every condition that it asks for."""
    wanted = set(slots(template))
    words, conditions = draft.sheet(SLOTS), draft.sheet(CONDITIONS)
    unknown = wanted - {*words.columns, *conditions.columns} | wanted & {"pair", "group"}
    for one in sorted(unknown):
        found.append(f"{where}: no column of {SLOTS} or {CONDITIONS} fills the slot [{one}]. Add one, or correct it.")
    odd = _written_otherwise(template, {*words.columns, *conditions.columns} - wanted)
    for one in odd:
        found.append(f"{where}: {one} is no slot. Write [name], with a column of that name: a-z and _.")
    if unknown or odd:
        return
    of_words = {one for one in wanted if one in words.columns}
    swapped = [row for _, row in words.rows] if of_words else [{"pair": "", "group": one} for one in draft.groups]
    about = [row for _, row in conditions.rows] if wanted - of_words else [{"condition": ""}]
    for condition in about:
        for row in swapped:
            values = {one: row[one] if one in of_words else condition[one] for one in wanted}
            more = {one: value for one, value in {**row, **condition}.items() if one not in in_slots}
            pair = "/".join(filter(None, (name, row["pair"], condition["condition"])))
            cells = {
                **beside, **more, "words": row["pair"], "pair_id": pair, "group": row["group"],
                "text": fill(template, **values), "condition": condition["condition"], "template": name,
            }  # fmt: skip
            cells.pop("pair", None)
            yield Line(where, cells, _counted(draft, cells))


def _written_otherwise(template: str, columns: Iterable[str]) -> list[str]:
    """Names of columns that are written as no slot: ``{name}``, ``[Name]``, ``[name1]``."""
    names = {one.lower() for one in columns}
    return [one[0] for one in re.finditer(r"\{(\w+)\}|\[(\w+)\]", template) if (one[1] or one[2]).lower() in names]


def _slots_of(draft: Draft) -> set[str]:
    """The slots of any template: columns that fill one are no slices."""
    texts = (row["template"] for name in (TEMPLATES, WORDINGS) for _, row in draft.sheet(name).rows)
    return {slot for text in texts for slot in slots(text)} - {"condition"}
