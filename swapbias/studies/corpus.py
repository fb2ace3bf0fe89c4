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
from swapbias.studies.declared import Fault
from swapbias.studies.experiment import Study
from swapbias.studies.package_study import STUDY_FILE, declared_study
from swapbias.studies.prompt import PLACEBO_COLUMNS, PROMPT_COLUMNS, Row
from swapbias.studies.row_check import check_columns
from swapbias.studies.tables import Lexicon

Type = (
    str | tuple[str, ...]
)  # of a column: the name of a type (``Config.typed``), or names of classes


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a corpus."""

    name: str
    description: str
    rows: Callable[[], Iterable[Mapping[str, Any]]]
    """Every value but candidates a text."""
    columns: tuple[str, ...] = PROMPT_COLUMNS
    types: Mapping[str, Type] = field(default_factory=dict)
    """Of columns that are published as something else."""
    upstream: tuple[str, ...] = ()
    """Pinned files that it must read."""
    split: str = "test"
    split_column: str = ""
    """Where rows say their split."""
    chats: bool = False
    """Texts are conversations, and published as ``messages``."""
    # Of rows too many for memory: writes them as Arrow to a file that is the user's alone, and gives that file.
    stored: Callable[["Config"], Path] | None = None

    @property
    def published(self) -> tuple[str, ...]:
        """The columns as they are published."""
        return tuple(MESSAGES if self.chats and one == "text" else one for one in self.columns)

    def type_of(self, column: str) -> Type:
        """What a column holds: ``string`` where nothing is declared and all prompts have no other type."""
        usual = (
            {"candidates": "candidates"}
            if self.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS
            else {}
        )
        if self.chats:
            usual[MESSAGES] = MESSAGES
        if self.columns[-len(PLACEBO_COLUMNS) :] == PLACEBO_COLUMNS:
            usual[PLACEBO_COLUMNS[-1]] = "int64"
        return self.types.get(column, usual.get(column, "string"))

    def typed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row as it is published: every value of its column's type, a class by its number, else ValueError."""
        (found,) = self.typed_rows([row])
        return found

    def typed_rows(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows as they are published, as of ``typed``; how each column is read is found out once."""
        kinds = [self.type_of(column) for column in self.published]
        columns = [*zip(self.published, self.columns, kinds, map(_reader, kinds), strict=True)]
        for row in rows:
            found: dict[str, Any] = {}
            for column, source, kind, read in columns:
                value = row[source]
                try:
                    found[column] = read(value)
                except (ValueError, KeyError) as error:
                    expected = kind if isinstance(kind, str) else f"one of {listed(kind)}"
                    what = f"{self.name}: {column} is {quoted(value)}, expected {expected}"
                    raise ValueError(f"{what}. Correct the table.") from error
            yield found


def _reader(kind: Type) -> Callable[[Any], Any]:
    """What makes the published value of a text (of candidates: of candidates)."""
    if not isinstance(kind, str):
        return kind.index
    read: Mapping[str, Callable[[Any], Any]] = {
        "string": str,
        "int64": int,
        "float64": float,
        "bool": {"True": True, "False": False}.__getitem__,
        "candidates": lambda every: [one._asdict() for one in every],
        MESSAGES: turns,
    }
    return read[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows."""

    model: str
    experiment: str
    files: tuple[str, ...]
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]
    """Of the files by path; each with a ``score``."""
    # (subset, measure, contrast, number) of facts that are no comparison of groups.
    counts: Callable[[Mapping[str, Path]], Iterable[tuple[str, str, str, float]]] | None = None
    note: str = ""
    """Of a run that the authors corrected after they printed another."""
    corrected: tuple[str, ...] = ()
    """The values of slices that it changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A leaf: tables that are published together, and the study that reads them, if one does."""

    name: str
    title: str
    configs: tuple[Config, ...]
    licence: str = "Apache-2.0"
    """Of the project itself."""
    version: str = "1.0.0"
    tags: tuple[str, ...] = ()
    """That it is found by on the Hub."""
    study: Study | None = None
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    released: tuple[Released, ...] = ()
    local: Callable[[Path], tuple[Config, ...]] | None = None
    """Configs of a folder of the user's (MIMIC, own notes)."""
    own: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files of a user's own study."""
    origin: str = ""
    """Where on the Hub these were read (``OWNER/NAME@commit``)."""

    def config(self, name: str) -> Config:
        """The config of that name; UsageError names those there are."""
        found = {config.name: config for config in self.configs}
        if name not in found:
            raise unknown_name(f"config of {self.name}", name, list(found))
        return found[name]


def declared_corpus(
    name: str, rows: Mapping[str, Callable[[], Iterable[Row]]] | None = None, **more: Any
) -> Corpus:
    """Return the corpus that ``corpus.toml`` in its folder declares (``DeclaredCorpus``).

    Args:
        name: of the corpus.
        rows: make those of each config by name; any other config is the table of its name in the folder.
        more: further fields of ``Corpus``; the study is that of ``study.toml`` by default.

    Raises:
        StudyError: a file declares what it should not, or what the builder does not give; every fault is a line.
    """
    declared = corpus_declaration(name)
    made = rows or {}
    _refuse_strange_rows(name, declared, made, reads_folders=more.get("local") is not None)
    if "study" not in more and (corpus_dir(name) / STUDY_FILE).exists():
        more["study"] = declared_study(name)
    if more.get("study") is not None:
        columns = {config.name: config.all_columns for config in declared.configs}
        check_columns(
            more["study"], columns, [released.model for released in more.get("released", ())]
        )
    return Corpus(
        name=name,
        title=declared.title,
        version=declared.version,
        licence=declared.licence,
        tags=declared.tags,
        configs=tuple(_config(name, number, made) for number in range(len(declared.configs))),
        **more,
    )


def _refuse_strange_rows(
    name: str, declared: DeclaredCorpus, rows: Collection[str], *, reads_folders: bool
) -> None:
    """Refuse rows of a config that is not declared, a config with neither rows nor a table, and other folders."""
    names = [config.name for config in declared.configs]
    declaration = read_corpus_file(name)
    tables = [path.stem for path in corpus_dir(name).glob("*.csv")]
    faults: list[Fault] = []
    for number, config in enumerate(names):
        if config not in rows and config not in tables:
            near = (
                did_you_mean(config, [*rows, *tables])
                or f" Add {config}.csv, or rows to the builder."
            )
            sentence = (
                f"the builder has no rows of {quoted(config)}, and its folder no such table.{near}"
            )
            faults.append(declaration.fault(("configs", number, "name"), sentence))
    missing = [config for config in rows if config not in names]
    for config in missing if not faults else ():
        faults.append(
            declaration.fault(
                (), f"the builder has rows of {quoted(config)}, and no config is called so. Add it."
            )
        )
    if reads_folders != declared.reads_folders:
        value = "true" if reads_folders else "false"
        sentence = f"reads_folders is not {value}, as the builder says by its local. Write reads_folders = {value}."
        faults.append(declaration.fault(("reads_folders",), sentence))
    if faults:
        raise StudyError("\n".join(fault.sentence for fault in faults))


def _config(corpus: str, number: int, rows: Mapping[str, Callable[[], Iterable[Row]]]) -> Config:
    """Make a config of its declaration, whose rows are checked against it where they are read."""
    declared = corpus_declaration(corpus).configs[number]
    table = partial(
        checked_table, corpus, number, declared, corpus_dir(corpus) / f"{declared.name}.csv"
    )
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
