"""Read what ``corpus.toml`` of a corpus declares, which imports no builder and reads no table of its rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from swapbias.errors import StudyError, did_you_mean, listed, quoted
from swapbias.studies.corpus_folders import CORPORA, corpus_dir
from swapbias.studies.declared import Declaration, Fault, parse_declaration, validate
from swapbias.studies.declared_values import EXPECTED, Switch, Text, Texts
from swapbias.studies.experiment import Declared
from swapbias.studies.prompt import PLACEBO_COLUMNS, PROMPT_COLUMNS
from swapbias.studies.tables import pinned_files
from swapbias.studies.toml_lines import KeyPath

CORPUS_FILE = "corpus.toml"
TYPES = ("string", "int64", "float64", "bool")
# Licences under which what is derived from a file may be passed on, given credit. Anything else is not published.
REDISTRIBUTABLE = (
    "Apache-2.0", "MIT", "MIT-0", "ISC", "Zlib", "Unlicense", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0",
    "CC-BY-4.0", "PDDL-1.0", "ODC-By-1.0", "Unicode-3.0",
)  # fmt: skip
# Words that corpora are found by on the Hub. A corpus may name others, if they are none of these misspelt.
TAGS = (
    "gender-bias", "social-bias", "race-bias", "age-bias", "religion-bias", "nationality-bias", "disability-bias",
    "counterfactual", "coreference", "hiring", "lexicon", "medical", "mental-health", "summarization", "synthetic",
)  # fmt: skip
_TAG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_WORDS = re.compile(r"[\W_]+")
# how alike a tag and a usual one are, by difflib, of which one is the other misspelt
_MISSPELT = 0.85
ColumnType = str | tuple[str, ...]
Names = tuple[Text, ...]  # a list, and no text in the place of one


def _as_types(value: Any) -> Mapping[str, ColumnType]:
    """Read columns with a type each, or with the names of its classes."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"types is {quoted(value)}, expected columns with a type each. Correct it."
        )
    return {column: _as_type(column, of_column) for column, of_column in value.items()}


def _as_type(column: str, value: Any) -> ColumnType:
    """Read the type of a column, or the names of its classes."""
    if isinstance(value, str) and value in TYPES:
        return value
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if is_list and len(value) > 1:
        return tuple(value)
    near = did_you_mean(value, TYPES) if isinstance(value, str) else ""
    hint = near or " Correct it."
    raise ValueError(
        f"the type of {column} is {quoted(value)}, expected one of {listed(TYPES)}, or a list of classes.{hint}"
    )


class DeclaredConfig(Declared):
    """One table of a corpus, as it is published."""

    name: Text
    """Its name: that of the rows of the builder, or of the table in the folder of the corpus."""
    description: Text
    """What it holds, in a line."""
    more: Names = ()
    """Of prompts: their columns beside those that every prompt has."""
    placebo: Switch = False
    """Of prompts: whether they are reworded and nothing in them is swapped (columns ``side`` and ``wording``)."""
    columns: Names = ()
    """Of a table without prompts: all of its columns."""
    optional: Names = ()
    """Columns of such a table that may be blank."""
    types: Annotated[Mapping[str, ColumnType], BeforeValidator(_as_types)] = {}
    """Columns that are published as something else than text: a type, or the names of classes. A table with
    ``columns`` states them, empty where there are none."""
    upstream: Names = ()
    """Files of ``sources.csv`` that its rows are made of."""
    split_column: Text = ""
    """The column that says the split of a row; blank: ``test`` for prompts, ``train`` for a table."""
    chats: Switch = False
    """Whether its texts are chats, which are published as ``messages``."""

    @property
    def usual_types(self) -> dict[str, str]:
        """The types of columns that need not be declared."""
        types: dict[str, str] = {}
        if not self.columns:
            types["candidates"] = "candidates"
        if self.placebo:
            types[PLACEBO_COLUMNS[-1]] = "int64"
        return types

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Its columns in order."""
        if self.columns:
            return self.columns
        columns = (*PROMPT_COLUMNS, *self.more)
        return (*columns, *PLACEBO_COLUMNS) if self.placebo else columns


class DeclaredCorpus(Declared):
    """A corpus: tables that are published together under one name."""

    title: Text
    """What it is, in a line."""
    # Of str: a required field of Text with a pattern takes the default of another field in pydantic before 2.11.10.
    version: Annotated[
        str,
        Field(
            pattern=r"^\d+\.\d+\.\d+$", json_schema_extra={EXPECTED: "three numbers as in 1.0.0"}
        ),
    ]
    """Raised with every change of a row or of the card."""
    licence: Text
    """The licence of the project's own part, by its SPDX identifier."""
    tags: Names
    """What it is found by on the Hub."""
    reads_folders: Literal["", "notes", "data"] = ""
    """What a folder of the user's holds that its configs can be made of: clinical ``notes``, or ``data`` in the form
    of the authors'; blank: they cannot."""
    limits_of_data: Texts = ()
    """Limits of a run on such ``data``, in place of those of the study; ``[language]`` is that of the data."""
    configs: tuple[DeclaredConfig, ...]
    """Its tables in order; one may begin ``like`` an earlier one."""


def read_corpus_file(corpus: str) -> Declaration:
    """Parse ``corpus.toml`` of a corpus.

    Args:
        corpus: its name.

    Raises:
        StudyError: it is missing, or no valid TOML.
    """
    path = corpus_dir(corpus) / CORPUS_FILE
    name = f"{corpus}/{CORPUS_FILE}"
    if not path.is_file():
        raise StudyError(
            f"{name} is missing. Write one with title, version, licence, tags and [[configs]]."
        )
    try:
        return parse_declaration(name, path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StudyError(str(error)) from None


@cache
def corpus_declaration(corpus: str) -> DeclaredCorpus:
    """Return what ``corpus.toml`` in the folder of a corpus declares.

    Args:
        corpus: its name.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    declaration = read_corpus_file(corpus)
    declared, faults = validate(declaration, DeclaredCorpus, declaration.values)
    if declared is not None:
        faults = [
            *_head_faults(declaration, declared, of_package=not CORPORA.distribution(corpus)),
            *_config_faults(declaration, declared, [*pinned_files(corpus)]),
        ]
    if declared is None or faults:
        raise StudyError("\n".join(dict.fromkeys(fault.sentence for fault in faults)))
    return declared


def _head_faults(
    declaration: Declaration, corpus: DeclaredCorpus, *, of_package: bool
) -> Iterator[Fault]:
    """Find a licence under which nothing is published, misspelt tags, and data whose limits are not stated."""
    if (corpus.reads_folders == "data") != bool(corpus.limits_of_data):
        key = "limits_of_data" if corpus.limits_of_data else "reads_folders"
        sentence = 'reads_folders = "data" and limits_of_data go together. Add what is missing.'
        yield declaration.fault((key,), sentence)
    if corpus.licence not in REDISTRIBUTABLE:
        near = did_you_mean(corpus.licence, REDISTRIBUTABLE)
        if near or of_package:
            expected = near or f" Expected one of {listed(REDISTRIBUTABLE)}."
            sentence = (
                f"licence is {quoted(corpus.licence)}, under which nothing is published.{expected}"
            )
            yield declaration.fault(("licence",), sentence)
    for tag in corpus.tags:
        if tag not in TAGS and (near := _misspelt(tag)):
            yield declaration.fault(
                ("tags",), f"tags names {quoted(tag)}. Did you mean {near}?", tag
            )
        elif not _TAG.fullmatch(tag):
            expected = f"expected words with hyphens, as {listed(TAGS)}"
            yield declaration.fault(
                ("tags",), f"tags names {quoted(tag)}, {expected}. Correct it.", tag
            )


def _misspelt(tag: str) -> str:
    """Return the known tag that a tag is a misspelling of; blank where it is none."""
    typed = _WORDS.sub("-", tag.casefold()).strip("-")
    near = get_close_matches(typed, TAGS, n=1, cutoff=_MISSPELT)
    return near[0] if near else ""


def _config_faults(
    declaration: Declaration, corpus: DeclaredCorpus, pinned: Sequence[str]
) -> Iterator[Fault]:
    """Find what configs declare and their own columns, or the sources of the corpus, do not have."""
    names: set[str] = set()
    for number, config in enumerate(corpus.configs):
        key_path: KeyPath = ("configs", number)
        if config.name in names:
            yield declaration.fault(
                (*key_path, "name"), f"the name {quoted(config.name)} appears twice. Change one."
            )
        names.add(config.name)
        yield from _column_faults(declaration, key_path, config)
        for path in config.upstream:
            if path not in pinned:
                near = did_you_mean(path, pinned) or " Add a row to it."
                sentence = f"upstream names {quoted(path)}, which sources.csv does not name.{near}"
                yield declaration.fault((*key_path, "upstream"), sentence, path)


def _column_faults(
    declaration: Declaration, key_path: KeyPath, config: DeclaredConfig
) -> Iterator[Fault]:
    """Find columns that a config declares twice, or that it does not have."""
    of_prompts = [key for key in ("more", "placebo", "chats") if getattr(config, key)]
    if config.columns and of_prompts:
        sentence = f"{of_prompts[0]} is of prompts, and columns are those of a table without. Drop one of them."
        yield declaration.fault((*key_path, of_prompts[0]), sentence)
    if config.columns and "types" not in config.model_fields_set:
        sentence = "types is missing, which a table with columns states. Add types = {} where all are texts."
        yield declaration.fault(key_path, sentence)
    if config.optional and not config.columns:
        sentence = "optional is of a table with columns, and none are stated."
        yield declaration.fault((*key_path, "optional"), sentence)
    columns = config.all_columns
    repeated = [name for name in columns if columns.count(name) > 1]
    if repeated:
        key = "columns" if config.columns else "more"
        sentence = f"{key} names the column {quoted(repeated[0])} twice. Drop one."
        yield declaration.fault((*key_path, key), sentence, repeated[0])
    yield from _unknown_columns(declaration, key_path, config)
    if "split" in columns and not config.split_column:
        yield declaration.fault(
            key_path, 'rows have the column split, and split_column is missing. Add it: "split".'
        )


def _unknown_columns(
    declaration: Declaration, key_path: KeyPath, config: DeclaredConfig
) -> Iterator[Fault]:
    """Find columns that other keys name, and that the config does not have."""
    columns = config.all_columns
    names_by_key = {
        "optional": config.optional,
        "types": [*config.types],
        "split_column": [config.split_column],
    }
    for key, names in names_by_key.items():
        for name in names:
            if name and name not in columns:
                hint = did_you_mean(name, columns) or f" Expected one of {listed(columns)}."
                sentence = f"{key} names the column {quoted(name)}, and there is none.{hint}"
                yield declaration.fault((*key_path, key), sentence, name)
