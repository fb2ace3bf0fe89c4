"""What a corpus of the package still lacks before it is published: recorded rows, parts of its card, rewordings."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from swapbias.errors import StudyError, UpstreamMissingError, UsageError, listed, quoted
from swapbias.files import write_whole
from swapbias.hub.cards import CARD
from swapbias.hub.dataset_card import RECIPE, SECTION, citation, meanings, section
from swapbias.hub.licences import withheld_configs
from swapbias.hub.parquet_features import portable_features
from swapbias.studies import (
    PROMPT_COLUMNS,
    Config,
    Corpus,
    Experiment,
    catalogue,
    config_rows,
    corpus_dir,
    load_corpus,
    paper,
    read_table,
    tables,
)

# Of a corpus' folder: the version, and of each config its rows, their sha256 and its types.
ROWS = "rows.csv"
_COLUMNS = ("config", "rows", "sha256", "types", "metadata", "version")
_PARTS = (SECTION, "Where it comes from", "Use and misuse", "Citation", RECIPE)
_DIGITS = 16  # of a sha256 that is recorded, hexadecimal
_MOST_CODE = 20  # lines of the code with which a card ends
_LEAST_LETTERS = 9  # of a meaning
_MOST_VALUES = 14  # a column with fewer values names each in its meaning
_OF_FEW_VALUES = (
    "group",
    "label",
    "construct",
    "category",
    "pronoun",
    "mode",
    "match",
    "polarity",
    "role",
    "kind",
)


class Lacking(NamedTuple):
    """Faults and remarks of a corpus."""

    faults: list[str]
    """A sentence for each thing to mend before it is published."""
    remarks: list[str]
    """A sentence for each thing that may be as it should."""


def check_corpus(name: str, *, cards_only: bool = False) -> Lacking:
    """Find what a corpus of the package, or of another distribution, lacks before it is published.

    Args:
        name: the name of the corpus.
        cards_only: whether its card alone is looked at: its rows cannot be read.

    Returns:
        what it lacks.
    """
    faults = [*card_faults(name)]
    remarks: list[str] = []
    if not cards_only:
        corpus = load_corpus(name)
        faults += row_faults(corpus)
        faults += _paper_faults(name)
        for config in corpus.configs:
            faults += _column_faults(corpus, config)
        remarks += [*_rewording_remarks(corpus), *_licence_remarks(corpus)]
    return Lacking([*dict.fromkeys(faults)], [*dict.fromkeys(remarks)])


def _paper_faults(name: str) -> list[str]:
    """List the faults of the tables of a paper."""
    try:
        paper.load_paper(name)
    except StudyError as error:
        return str(error).splitlines()
    return []


# --- recorded rows ----------------------------------------------------------------------------------------


def row_faults(corpus: Corpus) -> Iterator[str]:
    """Compare the rows of a corpus, and the types that its Parquet files state, with those that its folder records.

    Args:
        corpus: the corpus.

    Returns:
        a sentence for each config that differs.
    """
    file = f"{corpus.name}/{ROWS}"
    recorded = recorded_rows(corpus.name)
    for config in corpus.configs:
        if config.name not in recorded:
            yield f"{file} has no line for config {config.name}. Record its rows."
            continue
        before = recorded[config.name]
        now = _line(corpus, config, before)
        next_step = "Record its rows."
        if before["version"] == corpus.version:
            next_step = f"Raise version in corpus.toml (now {corpus.version}), and record its rows."
        if before["types"] != now["types"]:
            yield (
                f"{file} has {before['types'] or 'no types'} for config {config.name}, expected "
                f"{now['types'] or 'none'}. {next_step}"
            )
        if [before["rows"], before["sha256"]] != [now["rows"], now["sha256"]]:
            yield (
                f"{file}: config {config.name} has other rows than the recorded ones. Undo the change, or: "
                f"{next_step}"
            )
        if before["metadata"] != now["metadata"]:
            yield f"{file}: Parquet files of {config.name} state other types than recorded. {next_step}"
        if before["version"] != corpus.version:
            yield f"{file} is of version {before['version']}, expected {corpus.version}. Record its rows."
    for name in recorded.keys() - {config.name for config in corpus.configs}:
        yield f"{file} has a line for {name}, which is no config. Record the rows again."


def recorded_rows(name: str) -> dict[str, dict[str, str]]:
    """Read what the folder of a corpus records of its rows.

    Args:
        name: the name of the corpus.

    Returns:
        the line of each config; none where nothing is recorded.
    """
    path = corpus_dir(name) / ROWS
    if not path.is_file():
        return {}
    return {row["config"]: row for row in read_table(path, _COLUMNS, optional=("types",))}


def record_rows(name: str) -> Path:
    """Write the number of rows of each config of a corpus, their sha256, and types of columns, into its folder.

    Args:
        name: the name of the corpus. Rows of a config that are missing stay as they were recorded.

    Returns:
        the file.

    Raises:
        UsageError: a config differs from what is recorded of the same version.
    """
    corpus = load_corpus(name)
    recorded = recorded_rows(name)
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    table.writeheader()
    for config in corpus.configs:
        before = recorded.get(config.name, {})
        line = _line(corpus, config, before)
        if before and before != line and before["version"] == corpus.version:
            raise UsageError(
                f"{name}: config {config.name} differs from what is recorded of version {corpus.version}. Raise "
                "version in corpus.toml, then record its rows."
            )
        if line["rows"]:
            table.writerow(line)
    path = corpus_dir(name) / ROWS
    write_whole(path, text.getvalue().encode())
    return path


def _line(corpus: Corpus, config: Config, recorded: Mapping[str, str]) -> dict[str, str]:
    """Return what is recorded of a config; its rows as they are recorded where they are not at hand."""
    count, digest = recorded.get("rows", ""), recorded.get("sha256", "")
    rows = _rows_at_hand(corpus, config)
    if rows is not None:
        count, digest = str(len(rows)), tables.fingerprint(rows)[:_DIGITS]
    stated = json.dumps(portable_features(catalogue.config_features(config)), sort_keys=True)
    return {
        "config": config.name,
        "rows": count,
        "sha256": digest,
        "types": _types(config),
        "metadata": hashlib.sha256(stated.encode()).hexdigest()[:_DIGITS],
        "version": corpus.version,
    }


def _rows_at_hand(corpus: Corpus, config: Config) -> "list[dict[str, str]] | None":
    """Read the rows of a config; None where its upstream files are missing."""
    try:
        return list(config_rows(corpus.name, config.name, download=False))
    except UpstreamMissingError:
        return None


def _types(config: Config) -> str:
    """Name the types of the published columns that are no text: ``column=type`` or its classes."""
    texts = []
    for column in config.published_columns:
        kind = config.type_of(column)
        if not isinstance(kind, str):
            kind = "|".join(kind)
        if kind != "string":
            texts.append(f"{column}={kind}")
    return " ".join(texts)


# --- the card ---------------------------------------------------------------------------------------------


def card_faults(name: str) -> Iterator[str]:
    """Find the parts of a corpus' README that are missing, or not as its card needs them.

    Args:
        name: the name of the corpus.

    Returns:
        a sentence for each.
    """
    path = corpus_dir(name) / CARD
    if not path.is_file():
        return  # which the check of the study says
    file = f"{name}/{CARD}"
    text = path.read_text(encoding="utf-8-sig")
    if text.partition("\n")[0] != f"# {name}":
        yield f"{file}:1: begins with another line than '# {name}'. Write this title."
    about = text.partition("\n\n")[2].lstrip()
    if not about or about.startswith("#"):
        yield f"{file} has no text below its title. Write a paragraph on what {name} is."
    for part in _PARTS:
        if not section(text, part):
            yield f"{file} has no part '## {part}'. Write it."
    recipe = section(text, RECIPE)
    if recipe:
        yield from _recipe_faults(name, text, recipe)
    try:
        citation(name)
    except ValueError as error:
        yield str(error)


def _recipe_faults(name: str, text: str, recipe: str) -> Iterator[str]:
    """Find what is wrong with the code with which a card ends."""
    file = f"{name}/{CARD}"
    if not text.rstrip().endswith(recipe.rstrip()):
        yield f"{file} has parts behind '## {RECIPE}', which is the last. Move it to the end."
    code = re.fullmatch(r"(?s)## .+?\n\n```python\n(.+)```\s*", recipe)
    if code is None:
        yield f"{file}: '## {RECIPE}' is no block of Python alone. Write one that prints an interval."
        return
    count = len(code[1].splitlines())
    if count > _MOST_CODE:
        yield f"{file}: the code at its end has {count} lines, expected {_MOST_CODE} at most. Shorten it."
    for needed in (f'"NS/{name}"', 'revision="VERSION"'):
        if needed not in code[1]:
            yield f"{file}: the code at its end does not load {needed}. Load the rows by it."


def _column_faults(corpus: Corpus, config: Config) -> Iterator[str]:
    """Find columns without a meaning, and meanings that do not name the few values of their column."""
    file = f"{corpus.name}/{CARD}"
    meaning_of = {}
    try:
        meaning_of = dict(meanings(corpus, config))
    except ValueError as error:
        yield str(error)
    for column, meaning in meaning_of.items():
        if len(meaning) < _LEAST_LETTERS:
            yield (
                f"{file}: the meaning of column {column} in config {config.name} is {quoted(meaning)}. Say in a few "
                "words what it contains."
            )
    rows = _rows_at_hand(corpus, config) or []
    for column in _OF_FEW_VALUES:
        if column not in meaning_of:
            continue
        values = {row[column] for row in rows if column in row} - {""}
        unnamed = [value for value in sorted(values) if not _names(meaning_of[column], value)]
        if unnamed and len(values) < _MOST_VALUES:
            yield (
                f"{file}: the meaning of column {column} in config {config.name} does not name {listed(unnamed)}. "
                "Write what each value stands for, as `value`."
            )


def _names(text: str, value: str) -> bool:
    """Tell whether a text names a value; of criteria in a series (A1 to A9) it names the ends."""
    if f"`{value}`" in text:
        return True
    return bool(re.fullmatch(r".+ A[2-9]", value)) and f"`{value[:-1]}1`" in text


# --- rewordings and licences ------------------------------------------------------------------------------


def _rewording_remarks(corpus: Corpus) -> Iterator[str]:
    """Name the experiments that have neither rewordings nor a reason to have none."""
    study = corpus.study
    if study is None:
        return
    for experiment in study.experiments:
        home = load_corpus(experiment.reads.notes.corpus or corpus.name)
        if experiment.reads.rewordings or not needs_rewordings(home, experiment):
            continue
        yield (
            f"{corpus.name} {experiment.name} has groups and no rewordings, so nothing tells whether its finding "
            "depends on the wording. Add a config of five other wordings of each template with placebo = true, and "
            "its name to rewordings."
        )


def needs_rewordings(home: Corpus, experiment: Experiment) -> bool:
    """Tell whether an experiment should have five other wordings of each template.

    Args:
        home: the corpus of its configs.
        experiment: the experiment.

    Returns:
        False without groups, for further readings of chat models, rows of upstream files, and controls.
    """
    if experiment.comparison is None:
        return False
    if experiment.kind == "chat" and experiment.reads.reading:
        return False
    configs = [home.config(name) for name in experiment.reads.configs]
    if any(config.upstream for config in configs):
        return False
    if any(config.columns[: len(PROMPT_COLUMNS)] != PROMPT_COLUMNS for config in configs):
        return False
    constructs = {
        row["construct"] for config in configs for row in config_rows(home.name, config.name)
    }
    return constructs != {"control"}


def _licence_remarks(corpus: Corpus) -> Iterator[str]:
    """Name the configs that will not be published."""
    for name, refused in withheld_configs(corpus).items():
        yield f"{corpus.name} {name} is not published: its upstream files have the licence {', '.join(refused)}."
