"""Data of the user's in place of a study's own prompts: which tables of a folder each experiment reads."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from swapbias.errors import UsageError, listed
from swapbias.files import is_there
from swapbias.privacy import refuse
from swapbias.studies import Config, Corpus, Experiment, Study, catalogue, corpora, corpus_file

OPTION = "-M prompt-data"
"""The setting, as the command line writes it."""


def reads_data(study: str) -> bool:
    """Return whether a study can be asked of data of the user's.

    Args:
        study: its name.
    """
    return study in corpora() and corpus_file.corpus_declaration(study).reads_folders == "data"


def source_of(study: str, source: str | None) -> str:
    """Return the data that a study reads in place of its own prompts; blank where it reads its own.

    Args:
        study: its name.
        source: the folder or the file that the user names; None: none.
    """
    return source if source and reads_data(study) else ""


def data_corpus(study: str, source: str) -> Corpus:
    """Return the corpus of a study with the tables of data of the user's.

    Args:
        study: its name.
        source: the folder of the data, or one of their files.

    Raises:
        UsageError: there are no such data, or they are credentialed: a run keeps its prompts.
        ValueError: a file is wrong; the error names file and line.
    """
    if not is_there(source):
        raise UsageError(f"{source} does not exist. Give the folder or the file of the data.")
    refuse(Path(source), "read as data of a study")
    return _read_corpus(study, source, _state_of(Path(source)))


@lru_cache(maxsize=8)  # an audit asks often, and each time all files would be read
def _read_corpus(study: str, source: str, state: frozenset[tuple[str, int, int]]) -> Corpus:
    """Return the corpus of data in a state."""
    return catalogue.local_corpus(study, source)


def _state_of(source: Path) -> frozenset[tuple[str, int, int]]:
    """Return name, time and size of the files of data, and of those beside one file: a notebook may change some."""
    paths = (
        source.parent.iterdir() if source.is_file() else chain(source.glob("*"), source.glob("*/*"))
    )
    states = [(path, path.stat()) for path in paths if path.is_file()]
    return frozenset((str(path), state.st_mtime_ns, state.st_size) for path, state in states)


def reading_data(study: Study, source: str, config: str) -> Study:
    """Return a study whose experiments read data of the user's; those that read none of them are left out.

    Args:
        study: the study of the package.
        source: the folder of the data, or one of their files.
        config: the name of one of their tables, or of an experiment; blank: all.

    Raises:
        UsageError: an experiment would read tables that are never pooled, or texts in several languages.
    """
    tables = data_corpus(study.name, source).configs
    chosen = [table for table in tables if table.name == config] or tables
    experiments: list[Experiment] = []
    for experiment in study.experiments:
        read = [table for table in chosen if table.reads_as in experiment.reads.configs]
        if read and config in ("", experiment.name, *(table.name for table in read)):
            _refuse_mixed(study.name, experiment, read)
            names = tuple(table.name for table in read)
            experiments.append(
                experiment.changed(
                    reads={
                        "configs": names,
                        "alternatives": (),
                        "rewordings": (),
                        "baseline": (),
                    }
                )
            )
    return study.changed(experiments=tuple(experiments))


def _refuse_mixed(study: str, experiment: Experiment, tables: Sequence[Config]) -> None:
    """Raise a UsageError for tables of several languages, and for several of which a gap would be the mean."""
    languages = dict.fromkeys(table.language for table in tables)
    if len(languages) > 1:
        raise UsageError(
            f"The data are in {listed(languages)}, and an audit reads one language. Give a folder or file of one."
        )
    if len(tables) > 1 and experiment.compares.primary.slice == "all":
        names = [table.name for table in tables]
        raise UsageError(
            f"{study} reads one table of data at a time, and there are {listed(names)}. "
            f"Name one, as in --study {study}:{names[0]}."
        )


def language_of(study: str, source: str, configs: Sequence[str]) -> str:
    """Return the language of the data that a study reads.

    Args:
        study: its name.
        source: the folder of the data, or one of their files.
        configs: the tables that are read.
    """
    corpus = data_corpus(study, source)
    return next(iter({corpus.config(name).language for name in configs}), "")
