"""Corpora: the configs that are published together, and the outputs that authors of a study released."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.errors import listed, quoted
from swapbias.studies.declared import parse_declaration
from swapbias.studies.experiment import Study
from swapbias.studies.names import unknown
from swapbias.studies.package_study import declared_study
from swapbias.studies.prompt import MESSAGES, PLACEBO_COLUMNS, PROMPT_COLUMNS, Row, turns
from swapbias.studies.row_check import check_columns
from swapbias.studies.tables import Lexicon, corpus_dir, read_table

Type = str | tuple[str, ...]  # of a column: the name of a type (``Config.typed``), or names of classes


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a corpus."""

    name: str
    description: str
    rows: Callable[[], Iterable[Mapping[str, Any]]]  # every value but candidates a text
    columns: tuple[str, ...] = PROMPT_COLUMNS
    types: Mapping[str, Type] = field(default_factory=dict)  # of columns that are published as something else
    upstream: tuple[str, ...] = ()  # pinned files that it must read
    split: str = "test"
    split_column: str = ""  # where rows say their split
    chats: bool = False  # texts are conversations, and published as ``messages``
    # Of rows too many for memory: writes them as Arrow to a file that is the user's alone, and gives that file.
    stored: Callable[["Config"], Path] | None = None

    @property
    def published(self) -> tuple[str, ...]:
        """The columns as they are published."""
        return tuple(MESSAGES if self.chats and one == "text" else one for one in self.columns)

    def type_of(self, column: str) -> Type:
        """What a column holds: ``string`` where nothing is declared and all prompts have no other type."""
        usual = {"candidates": "candidates"} if self.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS else {}
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
        "string": str, "int64": int, "float64": float, "bool": {"True": True, "False": False}.__getitem__,
        "candidates": lambda every: [one._asdict() for one in every], MESSAGES: turns,
    }  # fmt: skip
    return read[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows."""

    model: str
    experiment: str
    files: tuple[str, ...]
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]  # of the files by path; each with a ``score``
    # (subset, measure, contrast, number) of facts that are no comparison of groups.
    counts: Callable[[Mapping[str, Path]], Iterable[tuple[str, str, str, float]]] | None = None
    note: str = ""  # of a run that the authors corrected after they printed another
    corrected: tuple[str, ...] = ()  # the values of slices that it changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A leaf: tables that are published together, and the study that reads them, if one does."""

    name: str
    title: str
    configs: tuple[Config, ...]
    licence: str = "Apache-2.0"  # of the project itself
    version: str = "1.0.0"
    tags: tuple[str, ...] = ()  # that it is found by on the Hub
    study: Study | None = None
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    released: tuple[Released, ...] = ()
    local: Callable[[Path], tuple[Config, ...]] | None = None  # configs of a folder of the user's (MIMIC, own notes)
    own: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # files of a user's own study
    origin: str = ""  # where on the Hub these were read (``OWNER/NAME@commit``)

    def config(self, name: str) -> Config:
        """The config of that name; UsageError names those there are."""
        found = {config.name: config for config in self.configs}
        if name not in found:
            raise unknown(f"config of {self.name}", name, list(found))
        return found[name]


def declared_corpus(name: str, rows: Mapping[str, Callable[[], Iterable[Row]]] | None = None, **more: Any) -> Corpus:
    """The corpus that ``corpus.toml`` in its folder declares, by the fields of Corpus and Config.

    ``rows`` makes those of each config by name; any other config is the table of its name in the folder, published as
    the split ``train``. Columns are those of prompts, then ``more``, then with ``placebo`` those of placebo rows;
    ``columns`` are all of them, of which ``optional`` ones may be blank. A config may begin ``like`` an earlier one.

    Raises:
        StudyError: the study names a config or column that there is not.
    """
    declaration = parse_declaration(
        f"{name}/corpus.toml", (corpus_dir(name) / "corpus.toml").read_text(encoding="utf-8")
    )
    values = declaration.values
    if "study" not in more and (corpus_dir(name) / "study.toml").exists():
        more["study"] = declared_study(name)
    configs = list(more.pop("configs", ()))
    for one in values.pop("configs", ()):
        extra = (*one.pop("more", ()), *(PLACEBO_COLUMNS if one.pop("placebo", False) else ()))
        whole, optional = tuple(one.pop("columns", ())), one.pop("optional", ())
        columns = whole or (*PROMPT_COLUMNS, *extra)
        table = partial(read_table, corpus_dir(name) / f"{one['name']}.csv", columns, optional=optional)
        one |= {"split": one.get("split", "train" if whole else "test"), "rows": (rows or {}).get(one["name"], table)}
        one |= {"types": {column: _as_tuple(value) for column, value in one.get("types", {}).items()}}
        configs.append(Config(columns=columns, **{key: _as_tuple(value) for key, value in one.items()}))
    more |= {key: _as_tuple(value) for key, value in values.items()}
    if more.get("study") is not None:
        check_columns(more["study"], {config.name: config.columns for config in configs})
    return Corpus(name=name, configs=tuple(configs), **more)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
