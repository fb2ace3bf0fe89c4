"""A user's own study: its tables are read (nothing in them is run), faults named by line, and a Corpus made."""

import csv
import json
import logging
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from importlib.resources import files as resources
from itertools import chain, count, islice, product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pandas as pd
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from swapbias.errors import StudyError, UsageError, arguments_named, listed, quoted
from swapbias.files import LOCK, locked, write_whole
from swapbias.measures import REFUSED, SCORE, UNREADABLE, named_group, named_unit
from swapbias.studies.catalogue import corpora, load_study, register
from swapbias.studies.factors import (
    SPREADS_OF,
    Columns,
    column_of,
    constant_columns,
    factors_of,
    own_columns,
    read_columns,
    slices_of,
    spreads_of,
)
from swapbias.studies.fills import UNNAMED, Fills, fills_of
from swapbias.studies.ranges import Range, ScoreRange, range_of, read_range, unit_declared
from swapbias.studies.study import (
    MASK,
    MESSAGES,
    PLACEBO,
    PLACEBO_COLUMNS,
    PROMPT_COLUMNS,
    Candidate,
    Config,
    Corpus,
    Experiment,
    Rubric,
    Study,
    balanced_rankings,
    conversation,
    did_you_mean,
    drawn_names,
    fill,
    names_of,
    shown_cvs,
    slots,
    text_of,
    unknown,
)
from swapbias.studies.table_layout import UNNAMED_COLUMN, composed, layout_of, without_index
from swapbias.studies.tables import Lexicon, decoded, shown_names, table_rows

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
    "where", "counted", "positive_control", "same_input",
}  # fmt: skip
_TEXTS = ("text", "template", "cv", "description")  # columns that are read as they are, blanks at their ends included
_AS_WRITTEN = (*_TEXTS, "candidates", "word")
_COLUMNS = ("pair_id", "group", "text", "construct", "condition", "label", "template", "counted", "wording", "where")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")  # Chinese and Japanese have no blanks between words
EXAMPLES = {"slots": "example", "ranking": "example_ranking"}  # folders of new studies
_log = logging.getLogger("swapbias")
_CONFIGS = {"masks": ("masked",), "questions": ("chat",), "texts": ("classifier", "causal")}  # who reads what
# Of each kind of model the unit of its scores, what a gap above zero means, and a limit for the report.
_KINDS = {
    "masked": (
        "probability mass at the mask",
        "the model gives words of {group} more probability than those of {reference}",
        "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    ),
    "classifier": (
        SCORE, "texts of {group} score higher than the same ones of {reference}", "",
    ),
    "causal": (
        "log-probability",
        "texts of {group} are likelier than the same ones of {reference}",
        "A text of more or rarer words is less likely whatever it says: swapped words must be alike in both.",
    ),
    "chat": (
        "share of answers",
        "answers about {group} count more than those about {reference}",
        "An answer that comes to no decision has no score: see what the gap could be whatever was not answered.",
    ),
}  # fmt: skip

# --- the files of a study -------------------------------------------------------------------------------


@arguments_named()
def open_study(
    source: Any, *, reference: str = "", group: str = "", lexicon: Path | str | None = None, name: str = "",
    origin: str = "", unit: str = "", range: Range = None, fixed: Columns = (),
) -> Study:  # fmt: skip
    """Open a study from a folder, a CSV file, a DataFrame or a Dataset; ``swapping.open_study`` reads more files."""
    files = study_files(
        source, reference=reference, group=group, lexicon=lexicon, name=name, unit=unit, range=range, fixed=fixed
    )
    parsed = parse_study(files)
    named = partial(_with_file_names, source=source, lexicon=lexicon)
    register(corpus := _corpus(parsed, origin, named))
    for sentence in (*warnings(parsed), *_unnamed(corpus)):
        _log.warning("%s", named(sentence))
    return load_study(parsed.declared.name)


def _unnamed(corpus: Corpus) -> list[str]:
    """Advice where the names in the texts could not be found."""
    return [UNNAMED] if corpus.study and any(one.unnamed_fills for one in corpus.study.experiments) else []


class Check(NamedTuple):
    """Faults, for which an audit refuses a study, as sentences with file and line; without any, advice and corpus."""

    faults: list[str]
    advice: list[str]
    corpus: Corpus | None


def check_study(source: Any, **of_table: Any) -> Check:
    """The faults of a user's own study, and without any, advice on what may bend its numbers; as ``open_study``."""
    parsed = parse_study(study_files(source, **of_table))
    named = partial(_with_file_names, source=source, lexicon=of_table.get("lexicon"))
    if found := faults(parsed):
        return Check(list(map(named, found)), [], None)
    corpus = _corpus(parsed)
    return Check([], list(map(named, [*warnings(parsed), *_unnamed(corpus)])), corpus)


def reopen_study(folder: Path, origin: str) -> None:
    """Make a study known from the copy that a run keeps of it; ``origin`` is that of the manifest."""
    register(own_corpus(study_files(folder), origin="" if origin == "local" else origin))


def source_name(source: Any) -> str:
    """Give the name of the file that a table was read from; blank for any other table."""
    return str(getattr(source, "attrs", {}).get("file", ""))


def _with_file_names(sentence: str, source: Any, lexicon: Path | str | None) -> str:
    """A sentence about a study that names the user's own CSV files, where it was made from such."""
    if not isinstance(source, str | Path) or not Path(source).expanduser().is_dir():
        sentence = re.sub(rf"{DECLARATION}:\d+: ", "", sentence)
    if name := source_name(source):
        sentence = sentence.replace(PROMPTS, name)
    for standard, place in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(place, str | Path) and Path(place).expanduser().is_file():
            sentence = sentence.replace(standard, Path(place).name)
    return sentence


def study_files(
    source: Any, *, reference: str = "", group: str = "", lexicon: Path | str | None = None, name: str = "",
    unit: str = "", range: Range = None, fixed: Columns = (),
) -> dict[str, bytes]:  # fmt: skip
    """The files of a study by name: those of a folder, or what a table comes to, as ``open_study`` takes it."""
    place = Path(source).expanduser() if isinstance(source, str | Path) else None
    if place is not None and place.is_dir():
        if reference or group or lexicon or unit or range or fixed:
            raise UsageError(
                f"{place} says reference, group, words, unit, range and fixed columns in its files. Write them "
                "there, and drop --reference and the like."
            )
        if not (place / DECLARATION).is_file():
            raise UsageError(f"{place} holds no {DECLARATION}. Write one with swapbias study new.")
        return {name: (place / name).read_bytes() for name in STUDY_FILES if (place / name).is_file()}
    if place is not None:
        if not place.is_file():
            raise UsageError(f"{source} is no folder of a study and no file of prompts. Check the path.")
        content, name = place.read_bytes(), name or _study_name(place.stem)
    else:
        table = _with_class_names(source)
        if not isinstance(table, pd.DataFrame):
            found = type(source).__name__
            raise UsageError(f"prompts are a {found}, expected a folder, a CSV file, a DataFrame or a Dataset.")
        if "candidates" in table:  # as corpora have them, or as a CSV file does
            table = table.assign(candidates=[_words(one) for one in table["candidates"]])
        if MESSAGES in table:
            table = table.assign(text=[text_of(one) for one in table[MESSAGES]]).drop(columns=MESSAGES)
        if "group" in table:
            reference, group = (named_group(one, set(map(str, table["group"]))) for one in (reference, group))
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode()
        name = name or _study_name(source_name(source).partition(".")[0] or "prompts")
    group, reference = composed(str(group)), composed(str(reference))
    if group and group == reference:
        raise UsageError(f"{shown(group)} is the reference and the group compared with it. Name another group.")
    groups = [group, reference] if group else []
    keys = {
        "name": name, "title": f"Own prompts ({name})", "reference": reference, "groups": groups, "unit": unit,
        "range": list(read_range(range)), "fixed": read_columns(fixed),
    }  # fmt: skip
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items() if value]
    words = {LEXICON: Path(lexicon).expanduser().read_bytes()} if lexicon else {}
    return {DECLARATION: "".join(lines).encode(), PROMPTS: content, **words}


def _with_class_names(source: Any) -> Any:
    """A table as a DataFrame; of a Dataset columns of classes hold the names of these."""
    if not hasattr(source, "to_pandas"):
        return source
    table = source.to_pandas()
    for column, feature in (getattr(source, "features", None) or {}).items():
        if hasattr(feature, "int2str") and isinstance(table, pd.DataFrame):
            classes = [None if pd.isna(value) or value < 0 else int(value) for value in table[column]]
            names = [None if number is None else feature.int2str(number) for number in classes]
            table = table.assign(**{column: names})
    return table


def _words(cell: Any) -> Any:
    """Words that are counted as a cell of a CSV file has them, from a list of ``{"text": ...}`` as corpora have."""
    return cell if isinstance(cell, str) or not hasattr(cell, "__len__") else "|".join(one["text"] for one in cell)


def _study_name(text: str) -> str:
    (name,) = unique_names([text], most=46)
    return name if name[0].isalpha() else f"own_{name}"


def new_study(folder: Path, template: str = "slots") -> list[Path]:
    """Write an example (``slots``, or ``ranking``: candidates with CVs) into a new folder; gives the files."""
    if template not in EXAMPLES:
        raise unknown("template", template, list(EXAMPLES))
    if folder.exists() and (not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    example = sorted(Path(str(resources("swapbias.studies") / EXAMPLES[template])).iterdir())
    with locked(folder):
        for one in example:
            text = one.read_text(encoding="utf-8").replace("STUDY_NAME", _study_name(folder.resolve().name))
            write_whole(folder / one.name, text.encode())
    return [folder / one.name for one in example]


# --- study.toml ---------------------------------------------------------------------------------------


def _new_name(value: str) -> str:
    if value in corpora():
        raise ValueError(f"name is {quoted(value)}, a study of the package. Choose another.")
    return value


Kind = Literal["masked", "classifier", "causal", "chat"]
Reading = Literal["text", "person", "options", "ranking"]
Text = Annotated[str, Field(strict=True, max_length=1_000, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # one line
_as_list = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Texts = Annotated[tuple[Text, ...], _as_list]
Name = Annotated[Text, AfterValidator(composed)]  # of a group, as tables have it


class Declaration(BaseModel, extra="forbid", frozen=True):
    """What ``study.toml`` says, as docs/study_toml.md explains; descriptions say what a value must be, for errors."""

    name: Annotated[
        Text, Field(pattern=r"^[a-z][a-z0-9_]{0,49}$", description="a-z, 0-9 and _, a letter first, 50 at most"),
        AfterValidator(_new_name),
    ] = "study"  # fmt: skip
    title: Text = "study"
    question: Text = ""
    url: Annotated[Text, Field(pattern=r"^(https?://.*)?$", description="one that begins with https://")] = ""
    licence: Text = "other"
    version: Annotated[Text, Field(pattern=r"^\d+\.\d+\.\d+$", description="three numbers as in 1.0.0")] = "1.0.0"
    groups: Annotated[tuple[Name, ...], _as_list] = ()
    reference: Name = ""
    kind: Annotated[tuple[Kind, ...], _as_list, Field(description=", ".join(get_args(Kind)))] = ()
    reading: Annotated[Reading, Field(description=", ".join(get_args(Reading)))] = "text"
    ask: Text = "Rank these candidates for a job as [job], the best first. Answer with names only."
    answers: Annotated[Texts, Field(validate_default=True)] = ()
    rubric: Text = ""
    rubric_options: Annotated[Texts, Field(validate_default=True)] = ()
    unit: Text = ""
    range: Annotated[ScoreRange | None, Field(description="two numbers as in [0, 5], the smaller one first")] = None
    margin: Annotated[
        float | None,
        Field(ge=0, le=1, strict=True, allow_inf_nan=False, description="a number from 0 to 1 (5 points is 0.05)"),
    ] = None
    random: Texts = ()
    fixed: Texts = ()
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
        if not has_question:
            return options
        example = f'{key} = ["0=Yes", "1=No"]'
        try:
            low, high = range_of(options_of(options))
        except ValueError as error:
            raise ValueError(f"{key} cannot be read ({error}) Write {example}.") from error
        if low == high:
            raise ValueError(
                f"{key} all count {low:g}, so that no gap could show. Let two count differently: {example}."
            )
        return options

    @field_validator("range")
    @classmethod
    def _range(cls, ends: ScoreRange | None, info: ValidationInfo) -> ScoreRange | None:
        kinds = info.data.get("kind")
        if ends is not None and kinds and "classifier" not in kinds:
            raise ValueError("range is that of a classifier's scores; answers and words have their own. Remove it.")
        return ends


def options_of(declared: Sequence[str]) -> tuple[Candidate, ...]:
    """The options of a question as ``study.toml`` has them: ``0=Not likely``, ``=Do not know`` (counts nothing)."""
    parts = [part.partition("=") for part in declared]
    try:
        found = tuple(Candidate(text.strip(), float(value) if value.strip() else None) for value, _, text in parts)
    except ValueError:
        found = ()
    texts = {one.text.casefold() for one in found}
    if any(one.value is not None and not math.isfinite(one.value) for one in found):
        found = ()
    counted = [one for one in found if one.value is not None]
    if len(found) < 2 or not counted or texts & {"", REFUSED, UNREADABLE} or len(texts) < len(found):
        raise ValueError(f"options {listed(map(repr, declared))}, expected different ones, each value=option.")
    return found


def read_declaration(content: bytes) -> tuple[Declaration, dict[str, str]]:
    """What ``study.toml`` says without what is wrong, and by key a sentence for each fault, in the order of lines."""
    try:
        values = tomllib.loads(text := decoded(DECLARATION, content))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Declaration(), {"": f"{DECLARATION} is no valid TOML: {error}. Correct it."}
    except ValueError as error:
        return Declaration(), {"": str(error)}
    found: dict[str, tuple[int, str]] = {}
    values = {key: value for key, value in values.items() if value or key not in ("name", "title")}
    for key in sorted({"name", "title"} - {*values}):
        found[key] = text.count("\n") + 1, f'{key} is missing. Add {key} = "...".'
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


def _read_table(name: str, content: bytes, faults: list[str]) -> pd.DataFrame:
    """The rows of a table that can be read, by their lines in the file; what is wrong is added to ``faults``."""
    valid: dict[int, dict[str, str]] = {}
    wrong: list[str] = []
    layout = layout_of(content, _REQUIRED[name])
    try:
        optional = ("candidates", *layout.unnamed)
        rows = table_rows(
            name, layout.content, partial(_header_faults, name), optional=optional, delimiter=layout.delimiter
        )
        for number, row, found in rows:
            line = number + layout.skipped
            if number > 1 and not any(map(str.strip, row.values())):
                continue
            found += [
                f"column {one!r} holds more than {_MOST_LETTERS} letters or what cannot be printed. Shorten it."
                for one, cell in row.items()
                if one not in (*_TEXTS, "candidates")
                and not (len(cell) <= _MOST_LETTERS and cell.strip().isprintable())
            ]
            wrong += [f"{name}:{line}: {what}" for what in found]
            if not found:
                valid[line] = {
                    one: cell if one in _AS_WRITTEN else composed(cell.strip()) for one, cell in row.items()
                }
    except ValueError as error:
        valid, wrong = {}, [str(error)]
    faults += wrong if valid or wrong else [f"{name} holds no rows below its header. Add some."]
    table = pd.DataFrame(list(valid.values()), index=list(valid), dtype=object)
    if name == PROMPTS and "pair" not in table:
        table = table.rename(columns={"pair_id": "pair"})  # as swapped files call it
    table, of_index = without_index(table, layout.unnamed)
    faults += [f"{name}:{1 + layout.skipped}: {fault}" for fault in of_index]
    if name == TEMPLATES and valid and "template_id" not in table:
        table["template_id"] = unique_names(table["template"])
    return table


def _header_faults(name: str, columns: Sequence[str]) -> Iterator[str]:
    for one in _REQUIRED[name]:
        if one not in columns:
            hint = "Save it with commas between cells" if len(columns) == 1 and {*columns[0]} & {*";|"} else "Add it"
            yield f"column {one!r} is missing, found {shown_names(columns)}. {hint}."
    for number, one in enumerate(columns, start=1):
        if one and columns.index(one) < number - 1:
            yield f"a column ({shown_names([one])}) stands twice. Name one of them anew."
        is_pair = one == "pair_id" and name == PROMPTS and "pair" not in columns
        if one in _RESERVED and not is_pair and not (one == "wording" and name == WORDINGS):
            hint = "Call it pair." if one == "pair_id" else "Name it anew."
            yield f"column {quoted(one)} is a name that scored prompts use themselves. {hint}"
        if not (UNNAMED_COLUMN.fullmatch(one) or re.fullmatch(r"[A-Za-z][\w -]{0,39}", one)):
            yield f"cell {number} is no name of a column. Use letters, digits, - and _."


# --- prompts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parsed:
    """The files of a study as parsed, and every prompt that they make, other wordings included.

    Of ``prompts`` ``where`` is file and line, ``counted`` what is counted at the mask (words with bars between, or a
    label of the lexicon), ``unit`` numbers the pairs in each wording, ``masked`` says whether the text holds a mask.
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
    of_tables = pd.concat([table_column(tables, one, "group") for one in (SLOTS, PROMPTS, NAMES)])
    names = tuple(of_tables.unique()) or labels
    groups = declared.groups or names
    made = pd.DataFrame()
    source = [one for one in (TEMPLATES, PROMPTS, CVS) if one in tables]
    if len(source) != 1:
        tables_named = f"{TEMPLATES}, {PROMPTS} or {CVS}"
        faults.append(f"{DECLARATION}: beside it stands {tables_named}, expected one. Add or remove one.")
    elif (CVS in tables) != (NAMES in tables) or (not wrong and (CVS in tables) != (declared.reading == "ranking")):
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
    people = tables[NAMES].assign(line=tables[NAMES].index).drop_duplicates(["group", "name"])
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
    """A readable name for each text: ``non_binary``, and ``non_binary_2`` for a later one that is alike."""
    found: list[str] = []
    for text in texts:
        base = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:most].strip("_") or "other"
        names = chain((base,), (f"{base}_{number}" for number in count(2)))
        found.append(next(one for one in names if one not in found))
    return found


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
    by_form: dict[str, str] = {}
    for name in known:
        if by_form.setdefault(name.casefold(), name) != name:
            first = shown(by_form[name.casefold()])
            yield f"The groups {first} and {shown(name)} differ by case alone. Write both alike."
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
    """The sentence about the first prompt of each line, with its pair, group, words, slot and masks filled in."""
    for row in rows.drop_duplicates("where").to_dict("records"):
        wording = f" in wording {shown(row['wording'])}" if row["wording"] else ""
        what = sentence.format(
            pair=f"pair {shown(row['pair_id'])}{wording}", group=shown(row["group"]), words=shown(row["counted"]),
            slot=next(iter(slots(row["text"])), ""), masks=row["text"].count(MASK), before=row.get("before"),
        )  # fmt: skip
        yield f"{row['where']}: {what}"


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
    """Of columns that the declaration names."""
    known = {*own_columns(parsed.prompts), "template"}
    if parsed.faults:  # of tables that could not be read
        known |= {column for table in parsed.tables.values() for column in table} | {"words", "condition"}
    for key in ("random", "fixed", "slices"):
        for name in getattr(parsed.declared, key):
            column = column_of(name, is_ranking=CVS in parsed.tables)
            where = parsed.line(key, name)
            if column not in known:
                hint = did_you_mean(name, sorted(known - {"text", "group", "pair_id"})) or " Correct it."
                yield f"{where}: {key} names the column {shown(name)}, and no table has it.{hint}"
            elif not parsed.faults and column not in constant_columns(parsed.prompts, [column]):
                yield f"{where}: {shown(name)} differs within a pair, expected one value. Take it out."
            elif key == "fixed" and name in parsed.declared.random:
                yield f"{where}: {shown(name)} stands in random and in fixed. Take it out of one."
            elif key == "fixed" and column == "pair_id":
                yield f"{where}: fixed names the pairs, and every interval is about other pairs too. Take it out."


def warnings(parsed: Parsed) -> Iterator[str]:
    """Texts with blanks at their ends, pairs that share almost nothing."""
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
    """Where texts of a pair stand that share hardly a word and, unlike "doctor" and "doctora", hardly a letter."""
    first = prompts.groupby("unit", sort=False)[["where", "text"]].transform("first")
    rows = zip(prompts["text"], prompts["where"], first["text"], first["where"], prompts["pair_id"], strict=True)
    for text, where, other, before, pair in (row for row in rows if row[0] != row[2]):
        one, two = text.lower(), other.lower()
        words, others = set(_WORD.findall(one)), set(_WORD.findall(two))
        fewest = min(len(words), len(others))
        unlike = fewest >= 3 and len(words & others) < fewest / 4
        if unlike and SequenceMatcher(None, one[:200], two[:200], autojunk=False).ratio() < 0.5:
            yield f"{' and '.join(dict.fromkeys((before, where)))} (pair {shown(pair)})"


# --- the corpus ---------------------------------------------------------------------------------------


def own_corpus(files: Files, *, origin: str = "") -> Corpus:
    """The corpus that the files of a study come to; StudyError has a line for each fault, with file and line."""
    return _corpus(parse_study(files), origin)


def _corpus(parsed: Parsed, origin: str = "", named: Callable[[str], str] = str) -> Corpus:
    if found := faults(parsed):
        rest = [f"{len(found) - 20} more: list all with swapbias study check."] if len(found) > 20 else []
        raise StudyError(named("\n".join([*found[:20], *rest])))
    declared, prompts = parsed.declared, parsed.prompts
    ranks = CVS in parsed.tables
    lexicons, labels = ({}, dict.fromkeys(prompts["counted"], "")) if ranks else _lexicons(parsed)
    prompts = prompts[prompts["group"].isin(parsed.groups)]
    prompts = prompts.assign(
        prompt_id=prompts["pair_id"] + "/" + prompts["group"], lexicon=prompts["counted"].map(labels),
        candidates=prompts["candidates"] if ranks else [()] * len(prompts),
    )  # fmt: skip
    configs: list[Config] = []
    experiments: list[Experiment] = []
    limits: dict[str, None] = {}
    for name, kinds in _CONFIGS.items():
        chosen = prompts[prompts["masked"] == (name == "masks")]
        readers = [one for one in kinds if one in (declared.kind or ("masked", "classifier", "causal"))]
        if not (len(chosen) and readers):
            continue
        plain = chosen if PROMPTS in parsed.tables else chosen[:0]  # of slots the declaration says what is random
        with_templates = "template" in (*declared.random, *declared.fixed)
        fills = fills_of(plain, parsed.compared, declared.reference, with_templates=with_templates)
        if fills.unclear:
            limits[UNNAMED] = None
        for group, words in fills.words.items() if not fills.unclear else ():
            if len(words) == 1 and words[0]:
                what = f"Every prompt names {group} as {quoted(words[0])}"
                limits[f"{what}: other names or words may score otherwise."] = None
        rows = chosen.assign(experiment=readers[0])
        if name == "questions" and not ranks:
            rows["candidates"] = [options_of(declared.answers)] * len(rows)
        made = _configs(name, rows, fills)
        configs += made
        experiments += [_experiment(parsed, kind, [one.name for one in made], chosen, fills) for kind in readers]
    study = Study(
        name=declared.name, title=declared.title, url=declared.url, experiments=tuple(experiments),
        limits=(*declared.limits, *limits),
    )  # fmt: skip
    return Corpus(
        name=declared.name, title=declared.title, licence=declared.licence, version=declared.version, study=study,
        lexicons=lexicons, configs=tuple(configs), own=dict(parsed.files), origin=origin,
    )  # fmt: skip


def _lexicons(parsed: Parsed) -> tuple[dict[str, Callable[[], Lexicon]], dict[str, str]]:
    """The word lists, and what names the words of each cell: one list, or one a cell where cells contradict."""
    corpus, prompts = parsed.declared.name, parsed.prompts
    listed = dict(zip(*(table_column(parsed.tables, LEXICON, one) for one in ("word", "group")), strict=True))
    cells = prompts[~prompts["counted"].isin(["", *parsed.labels])].drop_duplicates("counted", keep="last")
    words = {cell: [word.strip() for word in cell.split("|")] for cell in cells["counted"]}
    groups = dict(zip(cells["counted"], cells["group"], strict=True))
    labels = {word: groups[cell] for cell in words for word in words[cell]}
    lists = {"words": listed} if listed else {}
    found = {"": "", **{one: f"{corpus}/words/{one}" for one in parsed.labels}}
    contradict = any(labels[word] != groups[cell] for cell in words for word in words[cell])
    if listed or contradict or not cells["group"].is_unique:
        for cell, name in zip(words, unique_names(words), strict=True):
            name = f"{name}_counted" if name == "words" else name
            lists[name] = dict.fromkeys(words[cell], "counted")
            found[cell] = f"{corpus}/{name}/counted"
    else:
        lists = {"words": labels}
        found |= {cell: f"{corpus}/words/{group}" for cell, group in groups.items()}
    return {name: partial(_lexicon, f"{corpus}/{name}", one) for name, one in lists.items()}, found


def _lexicon(name: str, words: Mapping[str, str]) -> Lexicon:
    """Words in lower case are matched in any case, others as they are written."""
    lower, proper = ({one: words[one] for one in words if (one == one.lower()) is same} for same in (True, False))
    return Lexicon(name, lower, proper, rest="other words")


def _configs(name: str, prompts: pd.DataFrame, fills: Fills) -> list[Config]:
    """The prompts of one comparison, and its other wordings where there are any."""
    more = [column for column in own_columns(prompts) if column not in PROMPT_COLUMNS]
    filled = {column: prompts["pair_id"].map(fills.by_pair[column]) for column in fills.by_pair}
    rows = prompts.assign(**filled)[[*PROMPT_COLUMNS, *more, *fills.random]]
    again = rows.assign(side=rows["group"], wording=prompts["wording"])[prompts["wording"] != ""]
    ids = {one: again[one] + "/w" + again["wording"] for one in ("prompt_id", "pair_id")}
    parts = [
        (name, "Own prompts", rows[prompts["wording"] == ""]),
        (f"{name}_wordings", "In other wordings", again.assign(**ids, group=PLACEBO)),
    ]
    # Rows share values; pandas would take the tuples of candidates for levels of an index.
    shared = [frame.astype({one: "category" for one in frame if one != "candidates"}) for *_, frame in parts]
    return [
        Config(one, what, partial(frame.to_dict, "records"), tuple(frame))
        for (one, what, _), frame in zip(parts, shared, strict=True) if len(frame)
    ]  # fmt: skip


def _experiment(parsed: Parsed, kind: str, configs: Sequence[str], prompts: pd.DataFrame, fills: Fills) -> Experiment:
    declared, groups = parsed.declared, parsed.compared
    ranks = declared.reading == "ranking"
    factors = factors_of(prompts, fills, random=declared.random, fixed=declared.fixed, is_ranking=ranks)
    unit = unit_declared(kind, named_unit(_KINDS[kind][0]), declared.unit, declared.range, _options(declared))
    higher, limit = _KINDS[kind][1:]
    higher = higher.format(group=groups[0] if len(groups) == 1 else "a group", reference=declared.reference)
    span = unit.span if unit.in_points else 1.0
    rubric, scores = None, ["score", *(("log_odds", "matched_mass") if kind == "masked" else ())]
    crossed: tuple[str, ...] = ()
    if ranks:
        scores += ["unanswered", "refused"]
        named = [one for one in parsed.tables[NAMES] if one not in ("group", "name")]
        if len(named) > 1 and prompts.groupby("group")[named].nunique().eq(1).all(axis=None):
            crossed = tuple(named)
    elif kind == "chat":
        scores += ["unanswered"] if declared.reading == "options" else ["unanswered", "refused", "length"]
        if declared.rubric and declared.reading != "options":
            scores.append("judged")
            table = parsed.tables.get(SLOTS, pd.DataFrame()).drop(columns=["pair", "group"], errors="ignore")
            words = {value: f"[{name}]" for name in table for value in table[name]}  # which a judge is not shown
            rubric = Rubric(question=declared.rubric, candidates=options_of(declared.rubric_options), neutral=words)
    return Experiment(
        name=kind, question=declared.question or declared.title, configs=tuple(configs[:1]),
        placebo=tuple(configs[1:]), kind=kind, measure="paired_gap", group=groups[0], groups=groups[1:],
        reference_group=declared.reference, levels=(*groups, declared.reference),
        unit=unit.name, unit_range=unit.ends if unit.in_points else None,
        direction=f"above zero {higher}, below zero less; further from zero is worse", scores=tuple(scores),
        reading=declared.reading if kind == "chat" else "", rubric=rubric,
        random=factors.random, random_of=fills.random_of, fixed=factors.fixed, unnamed_fills=fills.unclear,
        equal_levels=not ranks,  # rankings are balanced, and selection rates beside their gaps are means of rows
        spreads=spreads_of(kind, factors, fills, span), spreads_of=SPREADS_OF.get(kind, ()),
        slices=slices_of(prompts, declared.slices, is_ranking=ranks), margin=declared.margin,
        limits=(limit,) if limit else (), factors=crossed, rates=("selection",) if ranks else (),
        says="ranks {more} first more often than {less}" if ranks else "",
    )  # fmt: skip


def _options(declared: Declaration) -> tuple[Candidate, ...]:
    """The options whose numbers answers score; none where candidates are ranked, or nothing is asked."""
    return () if declared.reading == "ranking" or not declared.answers else options_of(declared.answers)
