"""A study of one's own: a folder of tables or one table of prompts, as a Study like those of the package.

Data only: ``study.toml`` is read by tomllib, tables as CSV, and nothing that a folder holds is run.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.resources import files as resources
from itertools import islice
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.files import LOCK, locked, write_whole
from swapbias.studies.catalogue import corpora, load_study, register
from swapbias.studies.prompt import MASK, PLACEBO_COLUMNS, PROMPT_COLUMNS, fill, placebo, slots
from swapbias.studies.study import Config, Corpus, Experiment, Rubric, Slice, Study
from swapbias.studies.tables import Lexicon, shown_names, strict_rows

DECLARATION, TEMPLATES, SLOTS, CONDITIONS = "study.toml", "templates.csv", "slots.csv", "conditions.csv"
WORDINGS, LEXICON, PROMPTS = "wordings.csv", "lexicon.csv", "prompts.csv"
STUDY_FILES = (DECLARATION, TEMPLATES, SLOTS, CONDITIONS, WORDINGS, LEXICON, PROMPTS)
KINDS = ("masked", "classifier", "causal")
CHAT, READINGS = "chat", ("text", "person", "options")  # asked where it is named, and how its answers are read
MOST_BYTES = 64 * 2**20  # of one file
MOST_PROMPTS = 500_000  # of a study; those of the package have some thousands
MOST_LETTERS = 300  # of a cell that is no text: it stands in tables and findings
MOST_VALUES = 100  # of a column that is a slice without being named as one
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_TAKEN = {
    *PLACEBO_COLUMNS, "prompt_id", "pair_id", "experiment", "model_id", "score", "answer", "top_tokens", "non_finite",
}  # fmt: skip
_NEEDED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",), LEXICON: ("word", "group"),
    WORDINGS: ("template_id", "wording", "template"), PROMPTS: ("text",),
}  # fmt: skip
_TEXTS = ("text", "template", "candidates")
_BLANK_ALLOWED = {PROMPTS: ("candidates",)}
_OF_TABLE = ("template", "template_id", "text", "group", "pair", "candidates", "condition", "label", "construct")
_UNITS = {
    "masked": "probability mass at the mask",
    "classifier": "probability of positive sentiment",
    "causal": "log-probability",
    CHAT: "share of answers",
}
_HIGHER = {
    "masked": "the model gives words of {group} more probability than those of {reference}",
    "classifier": "texts of {group} score higher than the same ones of {reference}",
    "causal": "texts of {group} are likelier than the same ones of {reference}",
    CHAT: "answers about {group} count more than those about {reference}",
}
_RANDOM = {"template": "templates", "words": "pairs of words", "condition": "conditions", "pair_id": "pairs"}
# Before a run: the spreads in released outputs of gendered_stigma (masked) and occupation_sentiment (classifier),
# those of its noun pairs for templates too, and for pairs that share nothing their sum.
_SPREADS: Mapping[str, Mapping[str, float]] = {
    "masked": {"template": 0.042, "words": 0.042, "condition": 0.115, "pair_id": 0.13, "": 0.035},
    "classifier": {"template": 0.125, "words": 0.125, "condition": 0.048, "pair_id": 0.19, "": 0.136},
    "causal": {},
    CHAT: {},
}
_LIMITS = {
    CHAT: "An answer that comes to no decision has no score: see what the gap could be whatever was not answered.",
    "masked": "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    "causal": "A text of more or rarer words is less likely whatever it says: swapped words must be alike in both.",
}
Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What ``study.toml`` says; only ``name`` and ``title`` must stand there.

    Attributes:
        name: in findings and file names: a-z, 0-9 and _.
        title, question, url, licence, version: of the study.
        groups: those that are compared; all that the tables hold by default.
        reference: the group that is subtracted.
        kind: kinds of model that read it (masked, classifier, causal, chat): what its texts allow by default, but
            for chat.
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

    name: str
    title: str
    question: str = ""
    url: str = ""
    licence: str = "other"
    version: str = "1.0.0"
    groups: tuple[str, ...] = ()
    reference: str = ""
    kind: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    reading: str = READINGS[0]
    rubric: str = ""
    rubric_options: tuple[str, ...] = ()
    unit: str = ""
    margin: float | None = None
    random: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: rows by column, each with its line in the file."""

    name: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[int, dict[str, str]], ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One prompt to be: where it comes from, its cells, what is counted at its mask, its wording (blank: the first).

    ``counted`` are words with a bar between them, or one label of the lexicon.
    """

    where: str
    cells: Mapping[str, str]
    counted: str = ""
    wording: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """The files of a study as read: what is declared, and its tables."""

    declared: Declared
    sheets: Mapping[str, Sheet]
    files: Files = field(repr=False, default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups of the lexicon's words, in order."""
        return tuple(dict.fromkeys(row["group"] for _, row in self.sheet(LEXICON).rows))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that are compared, the reference among them."""
        if self.declared.groups:
            return self.declared.groups
        held = [row["group"] for name in (SLOTS, PROMPTS) for _, row in self.sheet(name).rows if "group" in row]
        return tuple(dict.fromkeys(held)) or self.labels

    def sheet(self, name: str) -> Sheet:
        """A table; one without rows where the study has none."""
        return self.sheets.get(name, Sheet(name))


# --- what a study is made of --------------------------------------------------------------------------


def open_study(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    origin: str = "",
) -> Study:
    """A study from a folder, a CSV file, a DataFrame or a Dataset, known by its name from now on.

    It can then be audited, loaded and reported as those of the package, by ``study.name``; one that is opened later
    under the same name takes its place.

    Args:
        source: a folder with ``study.toml`` (see ``swapbias study new``); or one table with the columns ``text``,
            ``group`` and ``pair``: a path of a CSV file, a ``pandas.DataFrame`` or a ``datasets.Dataset``. Columns
            ``template`` and ``condition`` are random factors, others are slices. A text with ``<mask>`` needs the
            words that are counted there: a column ``candidates`` (``she|her``) or a lexicon.
        reference: of a table: the group that is subtracted.
        group: of a table: the group that is compared with it; each other one by default.
        lexicon: of a table: a CSV file with the columns ``word`` and ``group``.
        name: of the study; by default that of the file, or ``prompts``.
        origin: where it comes from, for the manifest of a run (``OWNER/NAME@commit``).

    Raises:
        UsageError: no such folder or file, or a reference that is missing or no group.
        ValueError: a broken table, naming file and line.

    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "text": ["He is late.", "She is late.", "He left.", "She left."],
    ...     "group": ["male", "female"] * 2,
    ...     "pair": ["late", "late", "left", "left"],
    ... })
    >>> study = open_study(table, reference="male", name="punctual")
    >>> [one.name for one in study.experiments], study.experiments[0].group
    (['classifier', 'causal'], 'female')
    """
    told: Any = {"reference": reference, "group": group, "lexicon": lexicon, "name": name}
    try:
        corpus = own_corpus(study_files(source, **told), origin=origin)
    except UsageError:
        raise
    except ValueError as error:
        raise ValueError(as_named(str(error), source, lexicon)) from error
    register(corpus)
    return load_study(corpus.name)


def as_named(sentence: str, source: Any, lexicon: Path | str | None = None) -> str:
    """A sentence about a study that names the user's own CSV files, where it was made from such."""
    for standard, place in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(place, str | Path) and Path(place).expanduser().is_file():
            sentence = sentence.replace(standard, Path(place).name)
    return sentence


def study_files(
    source: Any, *, reference: str = "", group: str = "", lexicon: Path | str | None = None, name: str = ""
) -> dict[str, bytes]:
    """The files of a study by name: those of a folder, or what a table comes to.

    Raises:
        UsageError, ValueError: as ``open_study``.
    """
    place = Path(source).expanduser() if isinstance(source, str | Path) else None
    if place is not None and place.is_dir():
        if reference or group or lexicon:
            raise UsageError(f"{place} says reference, group and words in its files. Drop --reference and the like.")
        return _of_folder(place)
    if place is not None and not place.is_file():
        raise UsageError(f"{source} is no folder of a study and no CSV file. Check the path.")
    if place is not None:
        content, name = _content(place), name or _slug(place.stem)
    else:
        table = source.to_pandas() if hasattr(source, "to_pandas") else source
        if not hasattr(table, "to_csv"):
            raise UsageError(
                f"prompts are a {type(source).__name__}, expected a folder, a CSV file, a DataFrame or a Dataset."
            )
        content, name = table.to_csv(index=False, lineterminator="\n").encode(), name or "prompts"
    groups = [group, reference] if group else []
    told = {"name": name, "title": f"Own prompts ({name})", "reference": reference, "groups": groups}
    declaration = "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in told.items() if value
    )
    words = {LEXICON: _content(Path(lexicon).expanduser())} if lexicon else {}
    return {DECLARATION: declaration.encode(), PROMPTS: content, **words}


def _of_folder(folder: Path) -> dict[str, bytes]:
    if not (folder / DECLARATION).is_file():
        raise UsageError(f"{folder} holds no {DECLARATION}. Write one with swapbias study new.")
    return {name: _content(folder / name) for name in STUDY_FILES if (folder / name).is_file()}


def _content(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}. Cut it.")
    return path.read_bytes()


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:50]
    return slug if _NAME.fullmatch(slug) else f"own_{slug}"[:50]


def new_study(folder: Path) -> list[Path]:
    """Write a small complete example of a study into a new folder, named after it; gives the files.

    Raises:
        UsageError: the folder holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return _write_example(folder)


def _write_example(folder: Path) -> list[Path]:
    made = []
    for one in sorted(Path(str(resources("swapbias.studies") / "example")).iterdir()):
        text = one.read_text(encoding="utf-8").replace("STUDY_NAME", _slug(folder.resolve().name))
        write_whole(folder / one.name, text.encode())
        made.append(folder / one.name)
    return made


# --- reading ------------------------------------------------------------------------------------------


def read_draft(files: Files) -> Draft:
    """The files of a study, read but not yet made into prompts.

    Raises:
        ValueError: a file that cannot be read, naming it and its line.
    """
    declared = _declared(files.get(DECLARATION, b""))
    sheets = {name: _sheet(name, files[name]) for name in STUDY_FILES if name in files and name != DECLARATION}
    if (TEMPLATES in sheets) == (PROMPTS in sheets):
        raise ValueError(
            f"{DECLARATION}: beside it stands {TEMPLATES} or {PROMPTS}, expected one. Add or remove one."
        )
    return Draft(declared, sheets, files)


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8 ({error.reason}). Save it as UTF-8.") from error


def _declared(content: bytes) -> Declared:
    text = _text(DECLARATION, content)
    try:
        read = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{DECLARATION}: no TOML: {error}. Mend that line.") from error
    known = {one.name: one.default for one in fields(Declared)}
    values: dict[str, Any] = {}
    for key, value in read.items():
        where = f"{DECLARATION}:{_line_of(text, key)}"
        if key not in known:
            raise ValueError(f"{where}: {key!r} is none of {', '.join(known)}. Correct or remove it.")
        if isinstance(known[key], tuple):
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{where}: {key} is {value!r}, expected a list of texts. Correct it.")
            value = tuple(value)
        elif key == "margin":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{where}: margin is {value!r}, expected a number from 0 to 1. Correct it.")
            value = float(value)
        elif not isinstance(value, str):
            raise ValueError(f"{where}: {key} is {value!r}, expected a text. Put it into quotes.")
        values[key] = value
    for key in ("name", "title"):
        if not values.get(key):
            raise ValueError(f'{DECLARATION}: {key} is missing. Add {key} = "...".')
    _check_declared(Declared(**values), text)
    return Declared(**values)


def _check_declared(declared: Declared, text: str) -> None:
    def where(key: str) -> str:
        return f"{DECLARATION}:{_line_of(text, key)}"

    if not _NAME.fullmatch(declared.name) or declared.name in corpora():
        why = (
            "is a study of the package"
            if declared.name in corpora()
            else "is no name (a-z, 0-9 and _, a letter first)"
        )
        raise ValueError(f"{where('name')}: {declared.name!r} {why}. Choose another.")
    if declared.url and not re.match(r"https?://", declared.url):
        raise ValueError(
            f"{where('url')}: url is {declared.url!r}, expected one that begins with https://. Correct it."
        )
    for kind in declared.kind:
        if kind not in (*KINDS, CHAT):
            known = ", ".join((*KINDS, CHAT))
            raise ValueError(f"{where('kind')}: {kind!r} is no kind, expected {known}. Correct it.")
    if declared.reading not in READINGS:
        known = ", ".join(READINGS)
        raise ValueError(f"{where('reading')}: {declared.reading!r} is no reading, expected {known}. Correct it.")
    for key, needed in (("answers", CHAT in declared.kind), ("rubric_options", bool(declared.rubric))):
        _check_options(getattr(declared, key), where(key), key, needed=needed)
    if not re.fullmatch(r"\d+\.\d+\.\d+", declared.version):
        raise ValueError(f"{where('version')}: {declared.version!r} is no version such as 1.0.0. Correct it.")
    for named in fields(Declared):
        value = getattr(declared, named.name)
        for one in value if isinstance(value, tuple) else [value]:
            if isinstance(one, str) and (len(one) > 1_000 or not one.isprintable()):
                raise ValueError(f"{where(named.name)}: {named.name} is too long or not printable. Shorten it.")


def _check_options(options: Sequence[str], where: str, key: str, *, needed: bool) -> None:
    """Refuse answers that are none, or that nothing is asked for."""
    from swapbias.measures import options_of  # numpy, which listing the studies does not need

    if not needed and options:
        raise ValueError(f'{where}: {key} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.')
    try:
        if any("/" in one or "|" in one for one in options):  # one names a word list, the other parts answers
            raise ValueError("/ or | stands in one.")
        if needed:
            options_of("|".join(options))
    except ValueError as error:
        raise ValueError(f'{where}: {key} cannot be read ({error}) Write {key} = ["0=Yes", "1=No"].') from error


def _line_of(text: str, key: str) -> int:
    found = re.search(rf"^\s*{re.escape(key)}\s*=", text, re.MULTILINE)
    return text.count("\n", 0, found.end()) + 1 if found else 1


def _sheet(name: str, content: bytes) -> Sheet:
    lines = strict_rows(name, iter(_text(name, content).splitlines(keepends=True)))
    _, header = next(lines, (1, []))
    columns = tuple(one.strip() for one in header)
    _check_header(name, columns)
    rows = []
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(columns):
            raise ValueError(f"{name}:{line}: {len(cells)} cells, expected {len(columns)}. Quote or add cells.")
        row = {column: cell.strip() for column, cell in zip(columns, cells, strict=True)}
        blank = [one for one in columns if not row[one] and one not in _BLANK_ALLOWED.get(name, ())]
        if blank:
            raise ValueError(f"{name}:{line}: column {blank[0]!r} is blank, expected a value. Fill it in.")
        odd = [
            one
            for one in columns
            if one not in _TEXTS and (len(row[one]) > MOST_LETTERS or not row[one].isprintable())
        ]
        if odd:
            raise ValueError(
                f"{name}:{line}: column {odd[0]!r} holds more than {MOST_LETTERS} letters or what cannot be printed. "
                "Shorten it."
            )
        rows.append((line, row))
    if not rows:
        raise ValueError(f"{name} holds no rows below its header. Add some.")
    return Sheet(name, columns, tuple(rows))


def _check_header(name: str, columns: Sequence[str]) -> None:
    lost = [one for one in _NEEDED[name] if one not in columns]
    if lost:
        hint = "Save it with commas between cells" if len(columns) == 1 and ";" in columns[0] else "Add it"
        raise ValueError(f"{name}:1: column {lost[0]!r} is missing, found {shown_names(columns)}. {hint}.")
    for number, one in enumerate(columns, start=1):
        if columns.count(one) > 1:
            raise ValueError(f"{name}:1: a column ({shown_names([one])}) stands twice. Name one of them anew.")
        if one in _TAKEN and not (one == "wording" and name == WORDINGS):
            hint = " Call it pair." if one == "pair_id" else " Name it anew."
            raise ValueError(f"{name}:1: column {one!r} is a name that scored prompts use themselves.{hint}")
        if not re.fullmatch(r"[A-Za-z][\w -]{0,39}", one):
            raise ValueError(f"{name}:1: cell {number} is no name of a column. Use letters, digits, - and _.")


# --- prompts ------------------------------------------------------------------------------------------


def lines(draft: Draft) -> list[Line]:
    """Every prompt of a study, other wordings included, as its tables give it.

    Raises:
        ValueError: a template with a slot that no table fills, naming its line.
    """
    made = list(islice(_of_prompts(draft) if PROMPTS in draft.sheets else _of_templates(draft), MOST_PROMPTS + 1))
    if len(made) > MOST_PROMPTS:
        raise ValueError(f"The tables come to more than {MOST_PROMPTS:,} prompts, wordings included. Shorten them.")
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


def _of_templates(draft: Draft) -> Iterator[Line]:
    in_slots = _slots_of(draft)
    for number, (line, row) in enumerate(draft.sheet(TEMPLATES).rows, start=1):
        name = row.get("template_id", f"t{number}")
        beside = {one: row[one] for one in row if one not in ("template", "template_id")}
        yield from _filled(draft, f"{TEMPLATES}:{line}", row["template"], name, beside, in_slots)
    for line, row in draft.sheet(WORDINGS).rows:
        original = _template(draft, row["template_id"], f"{WORDINGS}:{line}")
        beside = {one: original[one] for one in original if one not in ("template", "template_id")}
        where = f"{WORDINGS}:{line}"
        for one in _filled(draft, where, row["template"], row["template_id"], beside, in_slots):
            yield replace(one, wording=row["wording"])


def _template(draft: Draft, name: str, where: str) -> Mapping[str, str]:
    for number, (_, row) in enumerate(draft.sheet(TEMPLATES).rows, start=1):
        if row.get("template_id", f"t{number}") == name:
            return row
    raise ValueError(f"{where}: {TEMPLATES} holds no template {name!r}. Correct its template_id.")


def _filled(
    draft: Draft, where: str, template: str, name: str, beside: Mapping[str, str], in_slots: set[str]
) -> Iterator[Line]:
    """A template with every row of slots and every condition that it asks for."""
    wanted = set(slots(template))
    words, conditions = draft.sheet(SLOTS), draft.sheet(CONDITIONS)
    unknown = wanted - {*words.columns, *conditions.columns} | wanted & {"pair", "group"}
    if unknown:
        raise ValueError(
            f"{where}: no column of {SLOTS} or {CONDITIONS} fills the slot [{min(unknown)}]. Add one, or correct it."
        )
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


def _slots_of(draft: Draft) -> set[str]:
    """The slots of any template: columns that fill one are no slices."""
    texts = (row["template"] for name in (TEMPLATES, WORDINGS) for _, row in draft.sheet(name).rows)
    return {slot for text in texts for slot in slots(text)} - {"condition"}


def faults(draft: Draft, made: Sequence[Line]) -> Iterator[str]:
    """What an audit refuses, a sentence each with file and line."""
    yield from _faults_of_groups(draft)
    yield from _faults_of_texts(draft, made)
    yield from _faults_of_pairs(draft, made)
    yield from _faults_of_columns(draft, made)


def _faults_of_groups(draft: Draft) -> Iterator[str]:
    declared, groups = draft.declared, draft.groups
    named = ", ".join(groups) or "none"
    how = f"--reference (in a folder: reference = ... in {DECLARATION})"
    if len(groups) < 2:
        table = PROMPTS if PROMPTS in draft.sheets else SLOTS
        yield f"{table}: the groups are {named}, expected two or more. Add rows of another."
    elif not declared.reference:
        yield f"The groups are {named}, and none is the reference. Name it with {how}."
    elif declared.reference not in groups:
        yield f"The reference {declared.reference!r} is none of {named}. Correct {how}."
    if PROMPTS in draft.sheets:
        columns = draft.sheet(PROMPTS).columns
        for one in ("group", "pair"):
            if one not in columns and not ("group" not in columns and draft.labels):
                yield f"{PROMPTS}:1: column {one!r} is missing, found {', '.join(columns)}. Add it."


def _faults_of_texts(draft: Draft, made: Sequence[Line]) -> Iterator[str]:
    told: set[tuple[str, str]] = set()
    for line in made:
        for trouble in _trouble(draft, line):
            if (line.where, trouble) not in told:
                told.add((line.where, trouble))
                yield f"{line.where}: {trouble}"


def _trouble(draft: Draft, line: Line) -> Iterator[str]:
    text, group = line.cells["text"], line.cells["group"]
    if slots(text):
        yield f"the slot [{slots(text)[0]}] is not filled. Put a word there, or take the brackets away."
    if re.search(r"\[mask\]", text, re.IGNORECASE):
        yield f"a position to fill is written {MASK}, whatever the model calls it. Replace [MASK]."
    if text.count(MASK) > 1:
        yield f"{text.count(MASK)} times {MASK}, expected one at most. Split the text."
    if MASK in text and not line.counted:
        held = f"{LEXICON} has no words of {group!r}" if draft.labels else "no words are given to count there"
        yield f"the text holds {MASK} and {held}. Add {LEXICON} (--lexicon) or a column candidates."
    if group not in draft.groups and not draft.declared.groups:
        yield f"group {group!r} is none of {', '.join(draft.groups)}. Correct it."


def _faults_of_pairs(draft: Draft, made: Sequence[Line]) -> Iterator[str]:
    compared = {draft.declared.reference} & set(draft.groups)
    held: dict[tuple[str, str], dict[str, Line]] = {}
    for line in made:
        pair, group = line.cells["pair_id"], line.cells["group"]
        mine = held.setdefault((pair, line.wording), {})
        if group in mine:
            yield f"{line.where}: pair {pair!r} has group {group!r} already in {mine[group].where}. Remove one."
        mine.setdefault(group, line)
    many = len(draft.groups) > 2
    for (pair, wording), mine in held.items():
        first = next(iter(mine.values()))
        of_pair = f"pair {pair!r}{f' in wording {wording}' if wording else ''}"
        wanted = compared if many else set(draft.groups)
        for group in sorted(wanted - set(mine)):
            yield f"{first.where}: {of_pair} has no row of {group!r}. Add it, so that the groups are balanced."
        if many and compared and not set(mine) - compared:
            yield f"{first.where}: {of_pair} holds the reference alone. Add a row of another group."
        both = [one for group, one in mine.items() if group in draft.groups]
        if len({MASK in one.cells["text"] for one in both}) > 1:
            yield f"{first.where}: {of_pair} holds {MASK} in one text and not in another. Write both alike."
        if len(both) > 1 and len({(one.cells["text"], one.counted) for one in both}) == 1:
            words = f", for the words of {both[0].counted!r} alone are counted there" if both[0].counted else ""
            yield f"{first.where}: {of_pair} has the same text in every group: nothing is swapped{words}. Change one."


def _faults_of_columns(draft: Draft, made: Sequence[Line]) -> Iterator[str]:
    text = _text(DECLARATION, draft.files.get(DECLARATION, b""))
    known = {one for line in made for one in line.cells} - {"text", "group"}
    for key in ("random", "slices"):
        for column in getattr(draft.declared, key):
            where, name = f"{DECLARATION}:{_line_of(text, key)}", "pair_id" if column == "pair" else column
            if name not in known:
                yield f"{where}: {key} names the column {column!r}, and no table has it. Correct it."
            elif name not in _constant(made):
                yield f"{where}: {column!r} differs within a pair, and a gap of a pair has one value. Take it out."


def _constant(made: Iterable[Line]) -> set[str]:
    """Columns with one value in each pair."""
    first: dict[str, Mapping[str, str]] = {}
    varying: set[str] = set()
    names: set[str] = set()
    for line in made:
        before = first.setdefault(line.cells["pair_id"], line.cells)
        names |= set(line.cells)
        varying |= {one for one, value in line.cells.items() if before.get(one) != value}
    return names - varying


# --- the corpus ---------------------------------------------------------------------------------------


def own_corpus(files: Files, *, origin: str = "") -> Corpus:
    """The corpus that the files of a study come to, with the study that reads it.

    Raises:
        ValueError: broken files: the first fault, naming file and line.
    """
    draft = read_draft(files)
    made = lines(draft)
    if trouble := next(faults(draft, made), ""):
        raise ValueError(trouble)
    return _made(draft, made, origin)


def _made(draft: Draft, made: Sequence[Line], origin: str) -> Corpus:
    declared = draft.declared
    lexicons, named = _lexicons(draft, made)
    extra = _extra_columns(made)
    configs: list[Config] = []
    experiments: list[Experiment] = []
    others = [one for one in draft.groups if one != declared.reference]
    for group, ending in zip(others, _endings(others), strict=True):
        for masked in (True, False):
            chosen = [one for one in made if (MASK in one.cells["text"]) == masked]
            pairs = {one.cells["pair_id"] for one in chosen if one.cells["group"] == group}
            both = (group, declared.reference)
            chosen = [one for one in chosen if one.cells["group"] in both and one.cells["pair_id"] in pairs]
            kinds = [one for one in declared.kind or KINDS if (one == "masked") == masked and one != CHAT]
            if CHAT in declared.kind and chosen and not masked:
                asked = _configs(
                    f"questions{ending}", chosen, CHAT + ending, extra, lambda _: "|".join(declared.answers)
                )
                configs += asked
                names = tuple(one.name for one in asked)
                experiments.append(_experiment(draft, CHAT, group, ending, names, chosen))
            if not chosen or not kinds:
                continue
            mine = _configs(f"{'masks' if masked else 'texts'}{ending}", chosen, kinds[0] + ending, extra, named)
            configs += mine
            names = tuple(one.name for one in mine)
            experiments += [_experiment(draft, kind, group, ending, names, chosen) for kind in kinds]
    if not experiments:
        raise ValueError(f"{DECLARATION}: no text can be read by a model of kind {', '.join(declared.kind)}.")
    limits = [_LIMITS[one] for one in dict.fromkeys(one.kind for one in experiments) if one in _LIMITS]
    study = Study(
        name=declared.name, title=declared.title, url=declared.url, experiments=tuple(experiments),
        limits=(*declared.limits, *limits),
    )  # fmt: skip
    return Corpus(
        name=declared.name, title=declared.title, licence=declared.licence, version=declared.version, study=study,
        lexicons=lexicons, configs=tuple(configs), own=dict(draft.files), origin=origin,
    )  # fmt: skip


def _endings(others: Sequence[str]) -> list[str]:
    """What the names of configs and experiments end on, each another; nothing where there is one group.

    >>> _endings(["women"]), _endings(["Black women", "non-binary", "non binary"])
    ([''], ['_black_women', '_2', '_3'])
    """
    slugs = [re.sub(r"[^a-z0-9]+", "_", one.lower()).strip("_") for one in others]
    told = [slug if slug and slugs.count(slug) == 1 else str(number) for number, slug in enumerate(slugs, start=1)]
    return [f"_{one}" for one in told] if len(others) > 1 else [""]


def _extra_columns(made: Iterable[Line]) -> tuple[str, ...]:
    every = dict.fromkeys(one for line in made for one, value in line.cells.items() if value)
    return tuple(one for one in every if one not in PROMPT_COLUMNS)


def _lexicons(draft: Draft, made: Sequence[Line]) -> tuple[dict[str, Callable[[], Lexicon]], Callable[[Line], str]]:
    """The word lists, and what names the words that a line counts: one list, or one a cell that others contradict."""
    corpus = draft.declared.name
    cells = {one.counted: one.cells["group"] for one in made if MASK in one.cells["text"]}
    listed: dict[str, str] = {row["word"]: row["group"] for _, row in draft.sheet(LEXICON).rows}
    written = {cell: group for cell, group in cells.items() if cell not in draft.labels}
    label_of: dict[str, str] = {}
    consistent = len(set(written.values())) == len(written)
    for cell, group in written.items():
        for word in cell.split("|"):
            consistent &= label_of.setdefault(word.strip(), group) == group
    if not written:
        consistent, label_of = True, listed
    if consistent and (not written or not listed):
        groups = {**written, **{one: one for one in draft.labels}}
        return {
            "words": partial(_lexicon, f"{corpus}/words", label_of)
        }, lambda line: f"{corpus}/words/{groups[line.counted]}" if line.counted else ""
    names = {cell: f"cell{number}" for number, cell in enumerate(written, start=1)}
    several: dict[str, Callable[[], Lexicon]] = {
        name: partial(_lexicon, f"{corpus}/{name}", {word.strip(): "counted" for word in cell.split("|")})
        for cell, name in names.items()
    }
    if listed:
        several["words"] = partial(_lexicon, f"{corpus}/words", listed)
    of = {cell: f"{corpus}/{name}/counted" for cell, name in names.items()}
    of |= {one: f"{corpus}/words/{one}" for one in draft.labels}
    return several, lambda line: of.get(line.counted, "")


def _lexicon(name: str, words: Mapping[str, str]) -> Lexicon:
    """Words in lower case are matched in any case, others as they are written."""
    lower = {word: label for word, label in words.items() if word == word.lower()}
    return Lexicon(
        name, lower, {word: label for word, label in words.items() if word not in lower}, rest="other words"
    )


def _configs(
    name: str, chosen: Sequence[Line], experiment: str, extra: tuple[str, ...], named: Callable[[Line], str]
) -> list[Config]:
    """The prompts of one comparison, and its other wordings where there are any."""
    rows: list[dict[str, str]] = []
    reworded: list[dict[str, str]] = []
    for line in chosen:
        cells = {**dict.fromkeys((*PROMPT_COLUMNS, *extra), ""), **line.cells}
        cells = {one: cells[one] for one in (*PROMPT_COLUMNS, *extra)}
        prompt = f"{cells['pair_id']}/{cells['group']}"
        row = {**cells, "prompt_id": prompt, "candidates": named(line), "experiment": experiment}
        if line.wording:
            reworded.append(placebo(row, line.wording, row["text"]))
        else:
            rows.append(row)
    columns = (*PROMPT_COLUMNS, *extra)
    made = [Config(name=name, description="Own prompts", rows=partial(tuple, rows), columns=columns)]
    if reworded:
        columns = (*columns, *PLACEBO_COLUMNS)
        of = partial(tuple, reworded)
        made.append(Config(name=f"{name}_wordings", description="In other wordings", rows=of, columns=columns))
    return made


def _experiment(
    draft: Draft, kind: str, group: str, ending: str, configs: tuple[str, ...], chosen: Sequence[Line]
) -> Experiment:
    declared, reference = draft.declared, draft.declared.reference
    random = _random(declared, chosen)
    return Experiment(
        name=f"{kind}{ending}",
        question=declared.question or declared.title,
        configs=configs[:1],
        placebo=configs[1:],
        kind=kind,
        measure="paired_gap",
        group=group,
        reference_group=reference,
        unit=(declared.unit if kind == "classifier" else "") or _UNITS[kind],
        direction=f"above zero {_HIGHER[kind].format(group=group, reference=reference)}, below zero less; "
        "further from zero is worse",
        scores=_scores(declared, kind),
        reading=declared.reading if kind == CHAT else "",
        rubric=_rubric(draft) if kind == CHAT else None,
        levels=(group, reference),
        random=random,
        spreads={one: spread for one, spread in _SPREADS[kind].items() if not one or one in random},
        slices=tuple(_slices(declared, chosen)),
        margin=declared.margin,
    )


def _scores(declared: Declared, kind: str) -> tuple[str, ...]:
    if kind == CHAT:
        more = (
            () if declared.reading == "options" else ("refused", "length", *(("judged",) if declared.rubric else ()))
        )
        return ("score", "unanswered", *more)
    return ("score", "closed_list_mass", "matched_mass") if kind == "masked" else ("score",)


def _rubric(draft: Draft) -> Rubric | None:
    """What a judge is asked; it is shown none of the words that fill a slot of a pair."""
    declared = draft.declared
    if not declared.rubric or declared.reading == "options":
        return None
    cells = ((name, row[name]) for _, row in draft.sheet(SLOTS).rows for name in row if name not in ("pair", "group"))
    words = {value: f"[{name}]" for name, value in cells}
    return Rubric(question=declared.rubric, candidates="|".join(declared.rubric_options), neutral=words)


def _random(declared: Declared, chosen: Sequence[Line]) -> dict[str, str]:
    """Columns that are a sample, by what they are called: what is named, else what varies; else the pairs."""
    if declared.random:
        named = ["pair_id" if one == "pair" else one for one in declared.random]
        return {one: _RANDOM.get(one, f"values of {one}") for one in named}
    varying = _values(chosen)
    found = {one: _RANDOM[one] for one in ("template", "words", "condition") if len(varying.get(one, ())) > 1}
    return found or {"pair_id": _RANDOM["pair_id"]}


def _slices(declared: Declared, chosen: Sequence[Line]) -> Iterator[Slice]:
    if declared.slices:
        yield from (Slice("pair_id" if one == "pair" else one, one) for one in declared.slices)
        return
    constant, values = _constant(chosen), _values(chosen)
    for column, held in values.items():
        if column in constant - {"pair_id", "text", "group"} and 1 < len(held) <= MOST_VALUES:
            yield Slice(column, "pair of words" if column == "words" else column)


def _values(chosen: Iterable[Line]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in chosen:
        for column, value in line.cells.items():
            found.setdefault(column, set()).add(value)
    return found
