"""A user's own study: opened for audits, checked, opened again from a run, and written as an example."""

import logging
import re
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

from swapbias.errors import UsageError, unknown_name
from swapbias.files import LOCK, locked, write_whole
from swapbias.public_calls import public_call
from swapbias.studies.catalogue import load_study, register
from swapbias.studies.corpus import Corpus
from swapbias.studies.experiment import Study
from swapbias.studies.own.factors import Columns
from swapbias.studies.own.fills import UNNAMED
from swapbias.studies.own.own_corpus import corpus_from_files, make_corpus, refuse_study
from swapbias.studies.own.own_faults import find_faults, find_warnings
from swapbias.studies.own.own_files import DECLARATION, LEXICON, PROMPTS
from swapbias.studies.own.own_prompts import parse_study
from swapbias.studies.own.own_source import source_name, study_files, study_name
from swapbias.studies.own.ranges import Range

EXAMPLES = {
    "slots": "example",
    "ranking": "example_ranking",
    "judge": "example_judge",
    "retrieval": "example_retrieval",
    "tagger": "example_tagger",
}
"""Folders of new studies, by template."""
_log = logging.getLogger("swapbias")


@public_call
def open_study(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    origin: str = "",
    unit: str = "",
    range: Range = None,
    fixed: Columns = (),
    shared_fills: bool = False,
) -> Study:
    """Open a study from a folder, a CSV file, a DataFrame or a Dataset; ``swapping.open_study`` reads more files.

    Args:
        source: the folder or table. The other arguments but ``origin`` are those of tables.
        reference: the group that is subtracted.
        group: the group that is compared with it.
        lexicon: a CSV file of words and their groups.
        name: the name of the study; that of the file where it is blank.
        origin: the repository of the Hub that it was read from.
        unit: the unit of the scores.
        range: the ends of the range of the scores.
        fixed: columns whose values the claim is about.
        shared_fills: whether a name or word may stand for two groups.

    Raises:
        UsageError: there is no such folder or file, or arguments do not fit.
        StudyError: the study has faults, a line each with file and line.
    """
    files = study_files(
        source,
        reference=reference,
        group=group,
        lexicon=lexicon,
        name=name,
        unit=unit,
        range=range,
        fixed=fixed,
        shared_fills=shared_fills,
    )
    parsed = parse_study(files)
    rename_files = partial(_with_file_names, source=source, lexicon=lexicon)
    refuse_study(find_faults(parsed), rename_files)
    corpus = make_corpus(parsed, origin)
    register(corpus)
    for sentence in (*find_warnings(parsed), *_advice_on_names(corpus)):
        _log.warning("%s", rename_files(sentence))
    return load_study(parsed.declared.name)


def _advice_on_names(corpus: Corpus) -> list[str]:
    """Give advice where the names in the texts could not be found."""
    experiments = corpus.study.experiments if corpus.study else ()
    if any(experiment.design.unnamed_fills for experiment in experiments):
        return [UNNAMED]
    return []


class Check(NamedTuple):
    """The faults of a study, or without any what may bend its numbers."""

    faults: list[str]
    """Sentences with file and line, for which an audit refuses the study."""
    advice: list[str]
    """Sentences on what may bend its numbers; none where there are faults."""
    corpus: Corpus | None
    """The corpus that it comes to; None where there are faults."""


def check_study(source: Any, **of_table: Any) -> Check:
    """Check a user's own study.

    Args:
        source: the folder or table.
        of_table: further arguments of ``open_study`` for a table.

    Raises:
        UsageError: there is no such folder or file, or arguments do not fit.
    """
    parsed = parse_study(study_files(source, **of_table))
    rename_files = partial(_with_file_names, source=source, lexicon=of_table.get("lexicon"))
    faults = find_faults(parsed)
    if faults:
        return Check([rename_files(sentence) for sentence in faults], [], None)
    corpus = make_corpus(parsed)
    advice = [*find_warnings(parsed), *_advice_on_names(corpus)]
    return Check([], [rename_files(sentence) for sentence in advice], corpus)


def reopen_study(folder: Path, origin: str) -> None:
    """Make a study known from the copy that a run keeps of it.

    Args:
        folder: the folder of the copy.
        origin: the origin in the manifest: the repository of the Hub that it was read from, or ``local``.

    Raises:
        StudyError: the copy has faults.
    """
    files = study_files(folder)
    register(corpus_from_files(files, origin="" if origin == "local" else origin))


def _with_file_names(sentence: str, source: Any, lexicon: Path | str | None) -> str:
    """Write a sentence about a study with the names of the user's own CSV files, where it was made from such."""
    if not isinstance(source, str | Path) or not Path(source).expanduser().is_dir():
        sentence = re.sub(rf"{DECLARATION}:\d+: ", "", sentence)
    if name := source_name(source):
        sentence = sentence.replace(PROMPTS, name)
    for standard, path in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(path, str | Path) and Path(path).expanduser().is_file():
            sentence = sentence.replace(standard, Path(path).name)
    return sentence


def new_study(folder: Path, template: str = "slots") -> list[Path]:
    """Write an example of a study into a new folder.

    Args:
        folder: one that is empty, or that there is not.
        template: ``slots``; ``ranking``: candidates with CVs; ``judge``: texts that a model grades; ``retrieval``:
            documents that a search finds; ``tagger``: notes with names to find.

    Returns:
        The files that were written.

    Raises:
        UsageError: the folder is not empty, or there is no such template.
    """
    if template not in EXAMPLES:
        raise unknown_name("template", template, list(EXAMPLES))
    if folder.exists() and not _is_empty(folder):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    example = sorted(Path(str(resources("swapbias.studies") / EXAMPLES[template])).iterdir())
    name = study_name(folder.resolve().name)
    with locked(folder):
        for path in example:
            text = path.read_text(encoding="utf-8").replace("STUDY_NAME", name)
            write_whole(folder / path.name, text.encode())
    return [folder / path.name for path in example]


def _is_empty(folder: Path) -> bool:
    """Tell whether a path is a folder without files but the lock of another process."""
    return folder.is_dir() and all(path.name == LOCK for path in folder.iterdir())
