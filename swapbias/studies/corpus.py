"""Corpora: tables (configs) that are published together, the study that reads them, its released outputs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from swapbias.errors import StudyError, did_you_mean, listed, quoted, unknown_name
from swapbias.studies.chats import MESSAGES, turns
from swapbias.studies.config_check import checked_rows, checked_table
from swapbias.studies.corpus_file import (
    ColumnType,
    DeclaredConfig,
    DeclaredCorpus,
    corpus_declaration,
    read_corpus_file,
)
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.declared import Declaration, Fault
from swapbias.studies.experiment import Study
from swapbias.studies.package_study import STUDY_FILE, declared_study
from swapbias.studies.prompt import PLACEBO_COLUMNS, PROMPT_COLUMNS, Candidate, Row
from swapbias.studies.published import ReleasedNumber
from swapbias.studies.row_check import check_columns
from swapbias.studies.tables import Lexicon


class CalculatedTable(NamedTuple):
    """A table of a paper that a builder calculates."""

    heads: Sequence[str]
    """Its header; the first two are model and numbers."""
    lines: Sequence[Sequence[str]]
    """The cells of each line; no line where no run has a number."""
    notes: tuple[str, ...] = ()
    """Sentences below it."""


# a table of a paper, of the models of runs
CalculateTable = Callable[[Sequence[Any]], CalculatedTable]

# by the name of a config the function that makes its rows
RowMakers = Mapping[str, Callable[[], Iterable[Row]]]


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a corpus."""

    name: str
    """The name of the config."""
    description: str
    """One line on what the table holds."""
    rows: Callable[[], Iterable[Mapping[str, Any]]]
    """A function that makes the rows; each value is a text, except in ``candidates``."""
    columns: tuple[str, ...] = PROMPT_COLUMNS
    """The columns in order."""
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    """The types of columns that are not published as ``string``: the name of a type, or the names of the classes."""
    upstream: tuple[str, ...] = ()
    """The files of ``sources.csv`` that its rows are made from."""
    split: str = "test"
    """The split of all rows, where ``split_column`` is blank."""
    split_column: str = ""
    """The column with the split of each row; blank where all rows have the same."""
    chats: bool = False
    """True where texts are conversations, which are published as ``messages``."""
    content_key: Callable[[], str] | None = None
    """A function that gives a sha256 of the files of the user's that the rows are made of; None: of no such files."""
    streamed: bool = False
    """True where the rows are too many for memory, and are read as they come."""
    reads_as: str = ""
    """The config of the corpus in whose place experiments read it, of data of the user's; blank: it is none."""
    language: str = ""
    """The language of data of the user's, as sentences name it; blank: that of the corpus."""

    @property
    def published_columns(self) -> tuple[str, ...]:
        """The columns in order, by their published names."""
        if not self.chats:
            return self.columns
        return tuple(MESSAGES if column == "text" else column for column in self.columns)

    def type_of(self, column: str) -> ColumnType:
        """Return the declared type of a column; else the one that it has in every table of prompts; else ``string``.

        Args:
            column: the published name of the column.
        """
        usual: dict[str, ColumnType] = {}
        # Tables without prompts may have columns of the same names: theirs are of the type that is declared.
        if self.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS:
            usual["candidates"] = "candidates"
        if self.chats:
            usual[MESSAGES] = MESSAGES
        if self.columns[-len(PLACEBO_COLUMNS) :] == PLACEBO_COLUMNS:
            usual[PLACEBO_COLUMNS[-1]] = "int64"
        return self.types.get(column, usual.get(column, "string"))

    def publish_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row as it is published: each value of its column's type, a class by its number.

        Args:
            row: one row that ``rows`` makes.

        Raises:
            ValueError: a value is of another type.
        """
        (published_row,) = self.publish_rows([row])
        return published_row

    def publish_rows(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield rows as they are published, as ``publish_row`` returns one; faster for many.

        Args:
            rows: rows that ``rows`` makes.

        Raises:
            ValueError: a value is of another type.
        """
        types = [self.type_of(column) for column in self.published_columns]
        readers = [_value_reader(column_type) for column_type in types]
        columns = [*zip(self.published_columns, self.columns, types, readers, strict=True)]
        for row in rows:
            published_row: dict[str, Any] = {}
            for column, source, column_type, read in columns:
                value = row[source]
                try:
                    published_row[column] = read(value)
                except (ValueError, KeyError) as error:
                    expected = column_type
                    if not isinstance(column_type, str):
                        expected = f"one of {listed(column_type)}"
                    raise ValueError(
                        f"{self.name}: {column} is {quoted(value)}, expected {expected}. Correct the table."
                    ) from error
            yield published_row


def _publish_candidates(candidates: Iterable[Candidate]) -> list[dict[str, Any]]:
    """Return candidates as they are published."""
    return [candidate._asdict() for candidate in candidates]


# By type the function that makes the published value of a text, or of candidates.
_VALUE_READERS: Mapping[str, Callable[[Any], Any]] = {
    "string": str,
    "int64": int,
    "float64": float,
    "bool": {"True": True, "False": False}.__getitem__,
    "candidates": _publish_candidates,
    MESSAGES: turns,
}


def _value_reader(column_type: ColumnType) -> Callable[[Any], Any]:
    """Return the function that makes a value of a column as it is published; of classes their number."""
    if not isinstance(column_type, str):
        return column_type.index
    return _VALUE_READERS[column_type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows."""

    model: str
    """The model that gave the outputs."""
    experiment: str
    """The experiment of the study that the outputs belong to."""
    files: tuple[str, ...]
    """The files of ``sources.csv`` that hold the outputs."""
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]
    """A function that makes rows, each with a ``score``, from the files: by name their path on this machine."""
    counts: Callable[[Mapping[str, Path]], Iterable[ReleasedNumber]] | None = None
    """A function that makes numbers of no scored rows (counts of outputs) from the files."""
    note: str = ""
    """A note where the authors corrected the outputs after they had printed others; blank for no correction."""
    corrected: tuple[str, ...] = ()
    """The values of slices whose outputs the authors corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Tables that are published together, and the study that reads them, if one does."""

    name: str
    """The name of the corpus."""
    title: str
    """One line on what the corpus is."""
    configs: tuple[Config, ...]
    """The tables in order."""
    licence: str = "Apache-2.0"
    """The licence of the project's own part."""
    version: str = "1.0.0"
    """The version, raised with every change of a row or of the card."""
    tags: tuple[str, ...] = ()
    """Words by which users find it on the Hub."""
    study: Study | None = None
    """The study that reads it; None where none does."""
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    """By name the functions that read its word lists."""
    released: tuple[Released, ...] = ()
    """Outputs that the authors of the study released."""
    local: Callable[..., tuple[Config, ...]] | None = None
    """A function that makes the configs from a folder of the user's (MIMIC, own notes), and by ``table`` with other
    words swapped; None: it reads no folder."""
    with_adjectives: Callable[[Path], RowMakers] | None = None
    """A function that reads a file of the user's adjectives, and gives by config what makes its rows with them; None:
    it has no adjectives."""
    calculated_tables: Mapping[str, CalculateTable] = field(default_factory=dict)
    """By name the functions that calculate tables of the paper of which a cell is no single finding: of the models of
    runs (``studies.paper.PaperRun``)."""
    own_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The files of a user's own study by name; empty for a corpus of the package."""
    origin: str = ""
    """The repository of the Hub that these files were read from (``OWNER/NAME@commit``); blank: from this machine."""

    def config(self, name: str) -> Config:
        """Return the config of that name.

        Args:
            name: the name of the config.

        Raises:
            UsageError: there is no such config; the error names those there are.
        """
        by_name = {config.name: config for config in self.configs}
        if name not in by_name:
            raise unknown_name(f"config of {self.name}", name, list(by_name))
        return by_name[name]


def declared_corpus(
    name: str,
    rows: Mapping[str, Callable[[], Iterable[Row]]] | None = None,
    *,
    study: Study | str | None = STUDY_FILE,
    lexicons: Mapping[str, Callable[[], Lexicon]] | None = None,
    released: tuple[Released, ...] = (),
    local: Callable[..., tuple[Config, ...]] | None = None,
    with_adjectives: Callable[[Path], RowMakers] | None = None,
    calculated_tables: Mapping[str, CalculateTable] | None = None,
) -> Corpus:
    """Return the corpus that ``corpus.toml`` in its folder declares (``DeclaredCorpus``).

    Args:
        name: the name of the corpus, and of its folder.
        rows: the function that makes its rows, by the name of a config; any other config is the table of its name in
            the folder.
        study: the study that reads the corpus, or the name of the file in the folder that declares it, if it is
            there; None: no study.
        lexicons: the functions that read its word lists, by name.
        released: outputs that the authors of the study released.
        local: a function that makes the configs from a folder of the user's.
        with_adjectives: a function that gives, for a file of the user's adjectives, what makes the rows with them.
        calculated_tables: the functions that calculate tables of the paper, by name.

    Raises:
        StudyError: a file declares what it should not, or what the builder does not give; every fault is a line.
    """
    declared = corpus_declaration(name)
    builder_rows = rows or {}
    _check_rows_declared(name, declared, builder_rows, reads_folders=local is not None)
    corpus_study = None if isinstance(study, str) else study
    if isinstance(study, str) and (corpus_dir(name) / study).exists():
        corpus_study = declared_study(name)
    if corpus_study is not None:
        columns = {config.name: config.all_columns for config in declared.configs}
        models = [outputs.model for outputs in released]
        check_columns(corpus_study, columns, models)
    configs = [
        _make_config(name, number, config, builder_rows)
        for number, config in enumerate(declared.configs)
    ]
    return Corpus(
        name=name,
        title=declared.title,
        version=declared.version,
        licence=declared.licence,
        tags=declared.tags,
        configs=tuple(configs),
        study=corpus_study,
        lexicons=lexicons or {},
        released=released,
        local=local,
        with_adjectives=with_adjectives,
        calculated_tables=calculated_tables or {},
    )


def _check_rows_declared(
    name: str, declared: DeclaredCorpus, rows: Collection[str], *, reads_folders: bool
) -> None:
    """Refuse rows of a config that is not declared, a config without rows or a table, and an undeclared ``local``."""
    # The parsed file, beside what it declares: it has the lines that errors name.
    declaration = read_corpus_file(name)
    faults = _missing_row_faults(name, declared, declaration, rows)
    if not faults:
        names = [config.name for config in declared.configs]
        faults = [
            declaration.fault(
                (), f"the builder has rows of {quoted(config)}, and no config is called so. Add it."
            )
            for config in rows
            if config not in names
        ]
    if reads_folders != bool(declared.reads_folders):
        value = '"notes" or "data"' if reads_folders else '""'
        sentence = f"reads_folders is not {value}, as the builder says by its local. Write reads_folders = {value}."
        faults.append(declaration.fault(("reads_folders",), sentence))
    if faults:
        raise StudyError("\n".join(fault.sentence for fault in faults))


def _missing_row_faults(
    name: str, declared: DeclaredCorpus, declaration: Declaration, rows: Collection[str]
) -> list[Fault]:
    """Find configs that have neither rows from the builder nor a table in the folder."""
    tables = [path.stem for path in corpus_dir(name).glob("*.csv")]
    faults: list[Fault] = []
    for number, config in enumerate(declared.configs):
        if config.name in rows or config.name in tables:
            continue
        near = did_you_mean(config.name, [*rows, *tables])
        hint = near or f" Add {config.name}.csv, or rows to the builder."
        sentence = (
            f"the builder has no rows of {quoted(config.name)}, and its folder no such table.{hint}"
        )
        faults.append(declaration.fault(("configs", number, "name"), sentence))
    return faults


def _make_config(
    corpus: str,
    number: int,
    declared: DeclaredConfig,
    rows: Mapping[str, Callable[[], Iterable[Row]]],
) -> Config:
    """Make the config that is the declaration's number ``number``; its rows are checked against it when read."""
    path = corpus_dir(corpus) / f"{declared.name}.csv"
    table = partial(checked_table, corpus, number, declared, path)
    # As ``corpus.toml`` says: prompts are a test split, and a table of its own columns is data to train on.
    split = "train" if declared.columns and not declared.split_column else "test"
    checked = partial(checked_rows, corpus, number, declared, rows.get(declared.name, table))
    return Config(
        name=declared.name,
        description=declared.description,
        rows=checked,
        columns=declared.all_columns,
        types=declared.types,
        upstream=declared.upstream,
        split=split,
        split_column=declared.split_column,
        chats=declared.chats,
    )
