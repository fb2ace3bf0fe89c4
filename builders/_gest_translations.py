"""Sentences of gest in other languages, read from tables of the form of EuroGEST's (Rowe et al. 2025)."""

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import UsageError, listed, quoted
from swapbias.files import file_sha256
from swapbias.studies import corpus_dir, read_table, slots, tables

NAME = "gest"
GROUPS = ("male", "female")
TEMPLATES = "language_templates.csv"
_COLUMNS = ("GEST_ID", "Stereotype_ID", "Neutral", "Masculine", "Feminine")
_TEMPLATE = ("file", "template", "text", "male", "female", "source")
_SLOTS = {"sentence", "word"}
_NUMBER = re.compile(
    r"(\d+)(?:\.0)?"
)  # a column of numbers with gaps is often written with decimals
_NO_LETTERS = re.compile(r"[\W_]+")
_AROUND = ' \t\u00a0.«»“”„"'  # quotation marks and a full stop, which templates have themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A sentence in another language: one that anybody says, or a pair that a man and a woman say."""

    sentence: str
    """The authors' name of the sentence."""
    stereotype: str
    """The number of its stereotype."""
    neutral: str
    """The sentence where it tells no gender of who says it; else blank."""
    pair: Mapping[str, str]
    """By group the sentence where its words tell the gender of who says it; else nothing."""


def language_templates(path: Path) -> list[dict[str, str]]:
    """Read the templates of a language, which put who says a sentence behind it.

    A table of templates beside the language's is read instead of the corpus' own.

    Args:
        path: the table of the language.

    Raises:
        ValueError: a template lacks a slot, has one word for both groups, or has the name of another.
    """
    own = path.with_name(TEMPLATES)
    table = own if own.is_file() else corpus_dir(NAME) / TEMPLATES
    templates = [row for row in read_table(table, _TEMPLATE) if row["file"] == path.stem]
    for template in templates:
        _check_template(f"{table.name}: template {template['template']} of {path.stem}", template)
    count = Counter(template["template"] for template in templates)
    if repeated := [name for name, times in count.items() if times > 1]:
        raise ValueError(
            f"{table.name}: {path.stem} has several templates {repeated[0]}. Give each a name of its own."
        )
    return templates


def _check_template(where: str, template: Mapping[str, str]) -> None:
    """Refuse a template in which a man and a woman are not said by two words, or no sentence stands."""
    if {*slots(template["text"])} != _SLOTS:
        raise ValueError(
            f"{where} has not the slots [sentence] and [word] alone. Correct its text."
        )
    if template["male"] == template["female"]:
        raise ValueError(f"{where} has one word for both groups. Correct it.")


def content_key(path: Path) -> str:
    """Return a sha256 of the files of the user's that the rows of a language are made of.

    Args:
        path: the table of the language.
    """
    own = path.with_name(TEMPLATES)
    files = [path, own] if own.is_file() else [path]
    return tables.fingerprint({"file": file.name, "sha256": file_sha256(file)} for file in files)


def bare(sentence: str) -> str:
    """Return a sentence without the quotation marks and the full stop around it.

    Args:
        sentence: the sentence.
    """
    return sentence.strip(_AROUND)


def language_files(folder: Path) -> list[Path]:
    """List the tables of a folder, one for each language.

    Args:
        folder: the folder, or one of its tables.

    Raises:
        UsageError: it has none.
    """
    if folder.is_file():
        return [folder]
    paths = [path for path in sorted(folder.glob("*.csv")) if path.name != TEMPLATES]
    if not paths:
        raise UsageError(
            f"{folder} has no table (.csv). Give the folder of tables in the form of EuroGEST's."
        )
    return paths


def read_translations(path: Path, stereotypes: Collection[str]) -> list[Translation]:
    """Read the sentences of a language; one without any translation is left out.

    Args:
        path: the table.
        stereotypes: the numbers of stereotypes.

    Raises:
        ValueError: a column is missing or a row is wrong; the error names file and line.
    """
    translations = []
    for line, row in _rows(path):
        translation = _translation(row, stereotypes, f"{path.name}:{line}")
        if translation is not None:
            translations.append(translation)
    count = Counter(one.sentence for one in translations)
    if repeated := [name for name, times in count.items() if times > 1]:
        raise ValueError(
            f"{path.name}: GEST_ID {repeated[0]} is there {count[repeated[0]]} times. Keep one row for each sentence."
        )
    return translations


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the cells of each row."""
    content = path.read_bytes()
    lines = tables.strict_rows(
        path.name, io.StringIO(tables.decoded(path.name, content), newline="")
    )
    header = [cell.strip() for cell in next(lines, (1, []))[1]]

    def header_faults(names: list[str]) -> Iterator[str]:
        if missing := [name for name in _COLUMNS if name not in names]:
            yield f"no column {listed(missing)}, as the tables of EuroGEST have. Fix the header."

    for line, row, faults in tables.table_rows(path.name, content, header_faults, optional=header):
        if faults:
            raise ValueError(f"{path.name}:{line}: {faults[0]}")
        yield line, row


def _translation(
    row: Mapping[str, str], stereotypes: Collection[str], place: str
) -> Translation | None:
    """Make the sentence of a row; None where it is not translated."""
    neutral, *gendered = (row[name].strip() for name in ("Neutral", "Masculine", "Feminine"))
    number = _NUMBER.fullmatch(row["Stereotype_ID"].strip())
    if number is None or number[1] not in stereotypes:
        raise ValueError(
            f"{place}: Stereotype_ID is {quoted(row['Stereotype_ID'])}, expected 1 to {len(stereotypes)}. Correct it."
        )
    if not row["GEST_ID"].strip():
        raise ValueError(f"{place}: GEST_ID is blank. Fill it in.")
    if len({bool(sentence) for sentence in gendered}) > 1:
        raise ValueError(
            f"{place}: of Masculine and Feminine one is blank. Fill it in, or clear both."
        )
    pair = dict(zip(GROUPS, gendered, strict=True)) if all(gendered) else {}
    if pair and gendered[0] == gendered[1]:
        raise ValueError(
            f"{place}: Masculine and Feminine are the same sentence. Move it to Neutral."
        )
    if not pair and not neutral:
        return None
    return Translation(
        sentence=row["GEST_ID"].strip(), stereotype=number[1], neutral=neutral, pair=pair
    )


def config_name(path: Path, table: str) -> str:
    """Name a config of a language.

    Args:
        path: the table of the language.
        table: ``pairs`` or ``templates``.
    """
    return f"{_NO_LETTERS.sub('_', path.stem.lower())}_{table}"
