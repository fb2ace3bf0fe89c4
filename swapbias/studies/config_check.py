"""Check a declared config against the rows that its builder makes, or against its table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swapbias.errors import StudyError, did_you_mean, listed, quoted
from swapbias.studies.chats import turns
from swapbias.studies.corpus_file import ColumnType, DeclaredConfig, read_corpus_file
from swapbias.studies.prompt import Row
from swapbias.studies.tables import read_table, recorded_reads, strict_rows

SPLITS = ("train", "validation", "development", "test")
_BOOLS = ("True", "False")
# a key of the config, a sentence, and the value that it is about
ConfigFault = tuple[str, str, object]


def checked_rows(
    corpus: str, number: int, config: DeclaredConfig, rows: Callable[[], Iterable[Row]]
) -> list[Row]:
    """Make the rows of a config, and refuse what is declared otherwise.

    Args:
        corpus: its name.
        number: the number of the config in ``corpus.toml``, from 0.
        config: the config as declared.
        rows: makes its rows.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    with recorded_reads() as reads:
        config_rows = [*rows()]
    read = [path for of_corpus, path in reads if of_corpus == corpus]
    faults = [*_upstream_faults(config, read), *_row_column_faults(config, config_rows)]
    _refuse(corpus, number, faults or [*_value_faults(config, config_rows)])
    return config_rows


def checked_table(corpus: str, number: int, config: DeclaredConfig, path: Path) -> list[Row]:
    """Read the table of a config, and refuse columns that are declared otherwise.

    Args:
        corpus: its name.
        number: the number of the config in ``corpus.toml``, from 0.
        config: the config as declared.
        path: the path of the table.

    Raises:
        StudyError: every fault, a line each with file and line.
        ValueError: a cell of the table is wrong.
    """
    with path.open(newline="", encoding="utf-8-sig") as handle:
        _, header = next(strict_rows(f"{corpus}/{path.name}", handle), (1, []))
    _refuse(corpus, number, [*_column_faults(config, header)])
    return [*read_table(path, config.all_columns, optional=config.optional)]


def _refuse(corpus: str, number: int, faults: Sequence[ConfigFault]) -> None:
    """Raise a StudyError of faults of a config, with file and line, if there are any."""
    if not faults:
        return
    declaration = read_corpus_file(corpus)
    key_path = ("configs", number)
    of_file = [
        declaration.fault((*key_path, key), sentence, value) for key, sentence, value in faults
    ]
    raise StudyError("\n".join(dict.fromkeys(fault.sentence for fault in of_file)))


def _upstream_faults(config: DeclaredConfig, read: Iterable[str]) -> Iterator[ConfigFault]:
    """Find upstream files that rows are made of, and that the config does not name."""
    for path in dict.fromkeys(read):
        if path not in config.upstream:
            hint = did_you_mean(path, config.upstream) or " Add it."
            sentence = f"rows of {config.name} are made of {quoted(path)}, which upstream does not name.{hint}"
            yield "upstream", sentence, ""


def _row_column_faults(config: DeclaredConfig, rows: Sequence[Row]) -> Iterator[ConfigFault]:
    """Find columns that are declared and that rows lack, and the reverse; and a config without rows."""
    if not rows:
        sentence = f"the config {quoted(config.name)} has no rows. Add some, or take it out."
        yield "name", sentence, config.name
    for columns in dict.fromkeys(map(tuple, rows)):
        yield from _column_faults(config, columns)


def _column_faults(config: DeclaredConfig, columns: Sequence[str]) -> Iterator[ConfigFault]:
    """Find columns that are declared and that rows lack, the reverse, and another order."""
    declared = config.all_columns
    key = "columns" if config.columns else "more"
    strange = [column for column in columns if column not in declared]
    missing = [column for column in declared if column not in columns]
    for column in missing:
        hint = did_you_mean(column, strange) or f" Expected {listed(columns)}."
        yield key, f"{key} names the column {quoted(column)}, and rows have none.{hint}", column
    for column in strange:
        if not did_you_mean(column, missing):
            sentence = f"rows have the column {quoted(column)}, and {key} does not name it. Add it."
            yield key, sentence, ""
    if {*columns} == {*declared} and tuple(columns) != declared:
        sentence = f"rows of {config.name} have the columns in another order: {listed(columns)}. Follow it."
        yield key, sentence, ""


def _value_faults(config: DeclaredConfig, rows: Sequence[Row]) -> Iterator[ConfigFault]:
    """Find values that are of another type than their column, of no split, or turns of a chat."""
    for column in config.all_columns:
        if column in config.types:
            yield from _type_faults(column, config.types[column], [row[column] for row in rows])
        else:
            yield from _untyped_faults(config, column, rows)
    if config.split_column:
        yield from _split_faults(config, [row[config.split_column] for row in rows])
    if "text" in config.all_columns and not config.chats:
        yield from _chat_faults(config, rows)


def _split_faults(config: DeclaredConfig, values: Iterable[str]) -> Iterator[ConfigFault]:
    """Find values that are no name of a split."""
    for value in dict.fromkeys(values):
        if value not in SPLITS:
            hint = did_you_mean(value, SPLITS) or f" Expected one of {listed(SPLITS)}."
            sentence = (
                f"{config.split_column} of a row is {quoted(value)}, which is no split.{hint}"
            )
            yield "split_column", sentence, ""


def _chat_faults(config: DeclaredConfig, rows: Sequence[Row]) -> Iterator[ConfigFault]:
    """Find texts that hold turns of a chat."""
    if any(row["text"] != turns(row["text"])[0]["content"] for row in rows):
        sentence = f"texts of {config.name} contain turns of a chat, and chats is not stated. Add chats = true."
        yield "chats", sentence, ""


def _type_faults(
    column: str, of_column: ColumnType, values: Sequence[str]
) -> Iterator[ConfigFault]:
    """Find values that are not of the type of their column, and numbers that are all whole."""
    if not isinstance(of_column, str):
        yield from _class_faults(column, of_column, {*values})
        return
    wrong = next((value for value in values if not _fits(value, of_column)), None)
    if wrong is not None:
        sentence = (
            f"types says {of_column} of the column {quoted(column)}, "
            f"and a row has {quoted(wrong)}. Correct one."
        )
        yield "types", sentence, ""
    elif of_column == "float64" and all(_fits(value, "int64") for value in values):
        sentence = f"types says float64 of the column {quoted(column)}, and rows contain whole numbers: int64."
        yield "types", sentence, ""


def _class_faults(column: str, classes: Sequence[str], values: set[str]) -> Iterator[ConfigFault]:
    """Find classes that no row has, and values that are no class."""
    strange = sorted(values - {*classes})
    unused = [name for name in classes if name not in values]
    for name in unused:
        hint = did_you_mean(name, strange) or f" Expected {listed(sorted(values))}."
        sentence = f"types names the class {quoted(name)} of {column}, and no row has it.{hint}"
        yield "types", sentence, name
    for value in strange:
        if not did_you_mean(value, unused):
            sentence = (
                f"{column} of a row is {quoted(value)}, and types names no such class. Add it."
            )
            yield "types", sentence, ""


def _untyped_faults(
    config: DeclaredConfig, column: str, rows: Sequence[Mapping[str, Any]]
) -> Iterator[ConfigFault]:
    """Find a column that is published as text, and holds nothing but numbers or truth values."""
    usual = config.usual_types.get(column)
    if usual is not None:
        return
    for of_column in ("bool", "int64", "float64"):
        if all(isinstance(row[column], str) and _fits(row[column], of_column) for row in rows):
            sentence = f"rows contain {of_column} in the column {quoted(column)}, and types does not say so."
            yield "types", f'{sentence} Add {column} = "{of_column}", or "string".', ""
            return


def _fits(value: str, of_column: str) -> bool:
    """Tell whether a value reads as one of a type."""
    if of_column == "string":
        return True
    if of_column == "bool":
        return value in _BOOLS
    try:
        int(value) if of_column == "int64" else float(value)
    except ValueError:
        return False
    return True
