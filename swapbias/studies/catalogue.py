"""What a study is, and how its leaf (one builder file, one folder of tables) is found by name."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.errors import UsageError, first_line, listed, unknown_name
from swapbias.public_calls import public_call
from swapbias.studies.chats import MESSAGES, text_of
from swapbias.studies.corpus import Config, Corpus
from swapbias.studies.corpus_file import corpus_declaration
from swapbias.studies.corpus_folders import CORPORA, corpora, corpus_dir
from swapbias.studies.declared import RawFault, unknown_names
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.package_study import STUDY_FILE, refuse_declaration, study_outline
from swapbias.studies.prompt import PROMPT_COLUMNS, SPLIT, Candidate, Prompt, Row
from swapbias.studies.row_check import column_faults
from swapbias.studies.tables import Lexicon, upstream_file

if TYPE_CHECKING:
    from datasets import Features

_OWN: dict[str, Corpus] = {}  # the user's own studies by name


def own_studies() -> list[str]:
    """List the names of the user's own studies that were opened in this process (``open_study``)."""
    return list(_OWN)


def register(corpus: Corpus) -> None:
    """Make a corpus of the user's own known by its name; it takes the place of an earlier one.

    Args:
        corpus: the corpus of an own study.
    """
    _OWN[corpus.name] = corpus
    load_lexicon.cache_clear()


@public_call
def load_corpus(name: str) -> Corpus:
    """Return the corpus of that name: one of the user's own, of the package, or of another distribution.

    Args:
        name: the name of the corpus.

    Raises:
        UsageError: there is none, two distributions have it, or its distribution does not load.
    """
    return _OWN.get(name) or _installed(name)


@cache
def _installed(name: str) -> Corpus:
    """Return the corpus of that name which is installed."""
    if clash := CORPORA.clash(name):  # of two corpora none is audited under the name of the other
        raise UsageError(clash)
    if name not in CORPORA.names():
        raise unknown_name("corpus", name, [*corpora(), *own_studies()])
    corpus = CORPORA.load(name)
    if not isinstance(corpus, Corpus) or corpus.name != name:
        raise UsageError(
            f"{CORPORA.place(name)} is not the corpus {name!r}. Correct its entry point, or its name."
        )
    return corpus


def studies() -> list[str]:
    """Return the names of all studies that are installed; it imports no builder."""
    return [name for name in corpora() if (corpus_dir(name) / STUDY_FILE).is_file()]


@public_call
def load_study(name: str) -> Study:
    """Return the study of that name.

    Args:
        name: the name of a study of the package, of another distribution, or of one that was opened.

    Raises:
        UsageError: there is none; it names those there are.

    >>> [experiment.name for experiment in load_study("occupation_sentiment").experiments]
    ['sentences', 'control', 'ratings']
    """
    study = None
    if name in CORPORA or name in _OWN or CORPORA.clash(name):
        study = load_corpus(name).study
    if study is None:
        raise unknown_name("study", name, [*studies(), *own_studies()])
    return study


def check_notes(study: Study) -> None:
    """Refuse a study of the package that names notes, or tables about them, that there are not.

    Args:
        study: a study of the package.

    Raises:
        StudyError: a line each with file and line.
    """
    faults: list[RawFault] = []
    for number, experiment in enumerate(study.experiments):
        faults += _note_faults(number, experiment)
    refuse_declaration(study.name, faults)


def _note_faults(number: int, experiment: Experiment) -> list[RawFault]:
    """Find corpora of notes, their configs and columns that an experiment names and that there are not."""
    notes = experiment.reads.notes
    path = ("experiments", number, "reads")
    names = [name for name in (notes.corpus, notes.prompts) if name]
    faults = list(unknown_names((*path, "notes"), names, corpora(), "corpus"))
    if notes.corpus not in corpora():
        return faults
    # An audit adds the split.
    configs = {
        config.name: (*config.columns, SPLIT) for config in load_corpus(notes.corpus).configs
    }
    read = (*experiment.reads.configs, *experiment.reads.rewordings)
    thing = f"config of {notes.corpus}"
    strange = list(unknown_names((*path, "configs"), read, [*configs], thing))
    return [*faults, *(strange or column_faults(number, experiment, configs))]


def outline(name: str) -> Study:
    """Return a study as its ``study.toml`` states it: without what its tables add, and without a builder.

    Args:
        name: the name of the study.

    Raises:
        StudyError: it cannot be read.
    """
    corpus = _OWN.get(name)
    if corpus is not None and corpus.study is not None:
        return corpus.study
    return _installed_outline(name)


_installed_outline = cache(study_outline)


def outlines() -> list[Study]:
    """Return the outlines of all studies that can be read; ``unreadable_studies`` tells of the others."""
    broken = unreadable_studies()
    return [outline(name) for name in studies() if name not in broken]


def unreadable_studies() -> dict[str, str]:
    """Say what is wrong with each study whose ``study.toml`` cannot be read, by its name, in a sentence."""
    sentences: dict[str, str] = {}
    for name in studies():
        try:
            outline(name)
        except ValueError as error:
            sentences[name] = first_line(error)
    return sentences


def experiments_that(fit: Callable[[Experiment], bool]) -> list[str]:
    """List the installed experiments that fit by their outline.

    Args:
        fit: tells whether an experiment fits.

    Returns:
        Each as ``study:config``, as an audit names it.
    """
    return [
        f"{study.name}:{experiment.reads.configs[0]}"
        for study in outlines()
        for experiment in study.experiments
        if fit(experiment)
    ]


def calibrated() -> list[tuple[Study, Experiment]]:
    """Return the outlines of the experiments that the calibration model is trained for."""
    return [
        (study, experiment)
        for study in outlines()
        for experiment in study.experiments
        if experiment.reads.calibrated
    ]


def metrics() -> list[str]:
    """List the names of all evaluate modules."""
    return sorted(path.name for path in Path(str(files("swapbias.metrics"))).glob("[a-z]*"))


@public_call
def metric_path(name: str) -> str:
    """Return the folder of an evaluate module, for ``evaluate.load``.

    Args:
        name: the name of the module.

    Raises:
        UsageError: there is none; it names those there are.

    >>> Path(metric_path("paired_gap")).name
    'paired_gap'
    """
    if name not in metrics():
        raise unknown_name("measure", name, metrics())
    return str(files("swapbias.metrics") / name)


def local_corpus(name: str, folder: "str | PathLike[str]", *, table: str = "") -> Corpus:
    """Return the corpus with configs of a folder of the user's (MIMIC, own notes, data in the form of the authors').

    Args:
        name: the name of the corpus.
        folder: a folder of what ``reads_folders`` of the corpus says.
        table: the words that are swapped in notes (``notes.load.TABLES``); blank: the usual ones.

    Raises:
        UsageError: it reads no folder, or no notes whose words could be swapped, or there is no such table.
    """
    corpus = load_corpus(name)
    if corpus.local is None:
        able = [reader for reader in corpora() if corpus_declaration(reader).reads_folders]
        raise UsageError(f"{name} reads no folder, expected {listed(able)}. Leave the folder out.")
    if table and corpus_declaration(name).reads_folders != "notes":
        raise UsageError(f"{name} reads data, and tables are of notes. Leave the table out.")
    title = f"{name}, made from a folder of one's own"
    options = {}
    if table:
        title = f"{title}, swapped by the table {table}"
        options["table"] = table
    configs = corpus.local(Path(folder), **options)
    count = Counter(config.name for config in configs)
    if repeated := [config for config, times in count.items() if times > 1]:
        raise ValueError(
            f"Two files of {folder} would both be the table {repeated[0]}. Rename one of them."
        )
    return replace(corpus, configs=configs, title=title, licence="other")


def study_of_run(name: str, corpora_read: Iterable[Mapping[str, Any]]) -> Study:
    """Return the study of a run: where it read data of the user's, title and limits say so, with their language.

    Args:
        name: the name of the study.
        corpora_read: the entries of a manifest for what was read.
    """
    study = load_study(name)
    entries = [entry for entry in corpora_read if entry.get("corpus") == name]
    languages = [str(entry["language"]) for entry in entries if "language" in entry]
    if not languages:
        return study
    language = next(filter(None, languages), "")
    limits = [
        sentence.replace("[language]", language)
        for sentence in corpus_declaration(name).limits_of_data
    ]
    in_language = f" ({language})" if language else ""
    title = f"{study.title.rstrip('.')}, asked of other data{in_language}"
    return study.changed(title=title, limits=tuple(limits) or study.limits)


def corpus_with_adjectives(name: str, path: "str | PathLike[str]") -> Corpus:
    """Return the corpus with the adjectives of a file of the user's in its sentences.

    Args:
        name: the name of the corpus.
        path: the path of the file.

    Raises:
        UsageError: the corpus has no adjectives, or there is no such file.
        ValueError: a line of the file is wrong.
    """
    corpus = load_corpus(name)
    if corpus.with_adjectives is None:
        raise UsageError(f"{name} has no adjectives to replace. Drop the file of adjectives.")
    rows = corpus.with_adjectives(Path(path))
    configs = [
        replace(config, rows=rows.get(config.name, config.rows)) for config in corpus.configs
    ]
    return replace(corpus, configs=tuple(configs))


def config_rows(corpus: Corpus | str, config: str, *, download: bool = True) -> Sequence[Row]:
    """Make the rows of a config of a corpus.

    Args:
        corpus: the corpus, or its name.
        config: the name of one of its configs.
        download: fetch upstream files that are missing.

    Raises:
        UsageError: an unknown name.
        UpstreamMissingError: an upstream file is not reachable.
    """
    leaf = load_corpus(corpus) if isinstance(corpus, str) else corpus
    table = leaf.config(config)
    for path in table.upstream:
        upstream_file(leaf.name, path, download=download)
    return [dict(row) for row in table.rows()]


def as_prompts(rows: Iterable[Mapping[str, Any]]) -> list[Prompt]:
    """Make prompts of rows; columns that a Prompt does not have are left out.

    Args:
        rows: rows with the columns of a prompt.
    """
    return [Prompt(**{name: row[name] for name in PROMPT_COLUMNS}) for row in rows]


def published_prompts(rows: Iterable[Mapping[str, Any]]) -> list[Prompt]:
    """Make prompts of rows as they are published.

    Args:
        rows: rows with candidates by name, and chats as ``messages``.
    """
    return as_prompts(map(_unpublished, rows))


def _unpublished(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give a row as builders make it: candidates as such, a chat as one text."""
    candidates = tuple(Candidate(**candidate) for candidate in row["candidates"])
    text = text_of(row[MESSAGES]) if MESSAGES in row else row["text"]
    return {**row, "text": text, "candidates": candidates}


def config_features(config: Config) -> "Features":
    """Give the columns of a config with their types, as ``datasets`` writes them.

    Args:
        config: the config of a corpus.
    """
    from datasets import ClassLabel, Features, Value

    structured = {
        "candidates": [{"text": Value("string"), "value": Value("float64")}],
        MESSAGES: [{"role": Value("string"), "content": Value("string")}],
    }
    features: dict[str, Any] = {}
    for column in config.published_columns:
        column_type = config.type_of(column)
        if isinstance(column_type, str):
            features[column] = structured.get(column_type) or Value(column_type)
        else:
            features[column] = ClassLabel(names=list(column_type))
    return Features(features)


@cache
@public_call
def load_lexicon(name: str) -> Lexicon:
    """Read a lexicon.

    Args:
        name: ``corpus/lexicon``.

    Raises:
        UsageError: there is none; it names those of the corpus.
    """
    corpus, _, lexicon = name.partition("/")
    lexicons = load_corpus(corpus).lexicons
    if lexicon not in lexicons:
        raise unknown_name(f"lexicon of {corpus}", lexicon, sorted(lexicons))
    return lexicons[lexicon]()
