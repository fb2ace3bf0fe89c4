"""Corpora: the configs that are published together, and the outputs that authors of a study released."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.errors import StudyError, did_you_mean, listed, quoted, unknown_name
from swapbias.studies.chats import MESSAGES, turns
from swapbias.studies.config_check import checked_rows, checked_table
from swapbias.studies.corpus_file import (
    DeclaredCorpus,
    corpus_declaration,
    read_corpus_file,
)
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.declared import Declaration, Fault
from swapbias.studies.experiment import Study
from swapbias.studies.package_study import STUDY_FILE, declared_study
from swapbias.studies.prompt import PLACEBO_COLUMNS, PROMPT_COLUMNS, Row
from swapbias.studies.row_check import check_columns
from swapbias.studies.tables import Lexicon

# of a column: the name of a type (``Config.typed``), or names of classes
Type = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a corpus."""

    name: str
    """The name of the config."""
    description: str
    """A line on what it holds."""
    rows: Callable[[], Iterable[Mapping[str, Any]]]
    """A function that makes its rows; every value but candidates is a text."""
    columns: tuple[str, ...] = PROMPT_COLUMNS
    """Its columns in order."""
    types: Mapping[str, Type] = field(default_factory=dict)
    """The types of columns that are published as something else."""
    upstream: tuple[str, ...] = ()
    """Pinned files that it must read."""
    split: str = "test"
    """The split of its rows."""
    split_column: str = ""
    """The column in which rows say their split; blank where all have the same."""
    chats: bool = False
    """True where texts are conversations, and published as ``messages``."""
    stored: Callable[["Config"], Path] | None = None
    """A function for rows too many for memory: writes them as Arrow to a file of the user's alone, and gives it."""

    @property
    def published(self) -> tuple[str, ...]:
        """The columns as they are published."""
        if not self.chats:
            return self.columns
        return tuple(MESSAGES if column == "text" else column for column in self.columns)

    def type_of(self, column: str) -> Type:
        """Give the type of a column: ``string`` where nothing is declared and all prompts have no other type.

        Args:
            column: as it is published.
        """
        usual: dict[str, Type] = {}
        if self.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS:
            usual["candidates"] = "candidates"
        if self.chats:
            usual[MESSAGES] = MESSAGES
        if self.columns[-len(PLACEBO_COLUMNS) :] == PLACEBO_COLUMNS:
            usual[PLACEBO_COLUMNS[-1]] = "int64"
        return self.types.get(column, usual.get(column, "string"))

    def typed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Give a row as it is published: every value of its column's type, a class by its number.

        Args:
            row: as ``rows`` makes it.

        Raises:
            ValueError: a value is of another type.
        """
        (typed,) = self.typed_rows([row])
        return typed

    def typed_rows(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Give rows as they are published, as ``typed`` does; how each column is read is found out once.

        Args:
            rows: as ``rows`` makes them.

        Raises:
            ValueError: a value is of another type.
        """
        kinds = [self.type_of(column) for column in self.published]
        columns = [*zip(self.published, self.columns, kinds, map(_reader, kinds), strict=True)]
        for row in rows:
            typed: dict[str, Any] = {}
            for column, source, kind, read in columns:
                value = row[source]
                try:
                    typed[column] = read(value)
                except (ValueError, KeyError) as error:
                    expected = kind if isinstance(kind, str) else f"one of {listed(kind)}"
                    raise ValueError(
                        f"{self.name}: {column} is {quoted(value)}, expected {expected}. Correct the table."
                    ) from error
            yield typed


def _reader(kind: Type) -> Callable[[Any], Any]:
    """Give the function that makes the published value of a text, or of candidates."""
    if not isinstance(kind, str):
        return kind.index
    read: Mapping[str, Callable[[Any], Any]] = {
        "string": str,
        "int64": int,
        "float64": float,
        "bool": {"True": True, "False": False}.__getitem__,
        "candidates": lambda candidates: [candidate._asdict() for candidate in candidates],
        MESSAGES: turns,
    }
    return read[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows."""

    model: str
    """The model that gave the outputs."""
    experiment: str
    """The experiment of the study that they belong to."""
    files: tuple[str, ...]
    """The pinned files that hold them."""
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]
    """A function that makes rows of the files by path, each with a ``score``."""
    counts: Callable[[Mapping[str, Path]], Iterable[tuple[str, str, str, float]]] | None = None
    """A function that gives facts that are no comparison of groups: subset, measure, contrast and number."""
    note: str = ""
    """A note on a run that the authors corrected after they printed another."""
    corrected: tuple[str, ...] = ()
    """The values of slices that the correction changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A leaf: tables that are published together, and the study that reads them, if one does."""

    name: str
    """The name of the corpus."""
    title: str
    """A line on what it is."""
    configs: tuple[Config, ...]
    """Its tables in order."""
    licence: str = "Apache-2.0"
    """The licence of the project's own part."""
    version: str = "1.0.0"
    """The version, raised with every change of a row or of the card."""
    tags: tuple[str, ...] = ()
    """Words that it is found by on the Hub."""
    study: Study | None = None
    """The study that reads it; None where none does."""
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    """Functions that read its word lists, by name."""
    released: tuple[Released, ...] = ()
    """Outputs that the authors of the study released."""
    local: Callable[[Path], tuple[Config, ...]] | None = None
    """A function that makes configs of a folder of the user's (MIMIC, own notes)."""
    own: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files of a user's own study by name; none of a corpus of the package."""
    origin: str = ""
    """Where on the Hub these were read (``OWNER/NAME@commit``)."""

    def config(self, name: str) -> Config:
        """Give the config of that name.

        Args:
            name: of a config.

        Raises:
            UsageError: there is none; it names those there are.
        """
        by_name = {config.name: config for config in self.configs}
        if name not in by_name:
            raise unknown_name(f"config of {self.name}", name, list(by_name))
        return by_name[name]


def declared_corpus(
    name: str, rows: Mapping[str, Callable[[], Iterable[Row]]] | None = None, **fields: Any
) -> Corpus:
    """Return the corpus that ``corpus.toml`` in its folder declares (``DeclaredCorpus``).

    Args:
        name: of the corpus.
        rows: make those of each config by name; any other config is the table of its name in the folder.
        fields: further fields of ``Corpus``; the study is that of ``study.toml`` by default.

    Raises:
        StudyError: a file declares what it should not, or what the builder does not give; every fault is a line.
    """
    declared = corpus_declaration(name)
    builder_rows = rows or {}
    reads_folders = fields.get("local") is not None
    _refuse_strange_rows(name, declared, builder_rows, reads_folders=reads_folders)
    if "study" not in fields and (corpus_dir(name) / STUDY_FILE).exists():
        fields["study"] = declared_study(name)
    if fields.get("study") is not None:
        columns = {config.name: config.all_columns for config in declared.configs}
        models = [released.model for released in fields.get("released", ())]
        check_columns(fields["study"], columns, models)
    configs = [_config(name, number, builder_rows) for number in range(len(declared.configs))]
    return Corpus(
        name=name,
        title=declared.title,
        version=declared.version,
        licence=declared.licence,
        tags=declared.tags,
        configs=tuple(configs),
        **fields,
    )


def _refuse_strange_rows(
    name: str, declared: DeclaredCorpus, rows: Collection[str], *, reads_folders: bool
) -> None:
    """Refuse rows of a config that is not declared, a config with neither rows nor a table, and other folders."""
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
    if reads_folders != declared.reads_folders:
        value = "true" if reads_folders else "false"
        sentence = f"reads_folders is not {value}, as the builder says by its local. Write reads_folders = {value}."
        faults.append(declaration.fault(("reads_folders",), sentence))
    if faults:
        raise StudyError("\n".join(fault.sentence for fault in faults))


def _missing_row_faults(
    name: str, declared: DeclaredCorpus, declaration: Declaration, rows: Collection[str]
) -> list[Fault]:
    """Find configs that have neither rows of the builder nor a table."""
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


def _config(corpus: str, number: int, rows: Mapping[str, Callable[[], Iterable[Row]]]) -> Config:
    """Make a config of its declaration, whose rows are checked against it where they are read."""
    declared = corpus_declaration(corpus).configs[number]
    path = corpus_dir(corpus) / f"{declared.name}.csv"
    table = partial(checked_table, corpus, number, declared, path)
    checked = partial(checked_rows, corpus, number, declared, rows.get(declared.name, table))
    return Config(
        name=declared.name,
        description=declared.description,
        rows=checked,
        columns=declared.all_columns,
        types=declared.types,
        upstream=declared.upstream,
        split="train" if declared.columns and not declared.split_column else "test",
        split_column=declared.split_column,
        chats=declared.chats,
    )
