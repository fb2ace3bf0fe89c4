"""A user's own study: its tables are read (nothing in them is run), faults named by line, and a Corpus made."""

import logging
import re
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

from swapbias.errors import UsageError, arguments_named, unknown_name
from swapbias.files import LOCK, locked, write_whole
from swapbias.studies.catalogue import load_study, register
from swapbias.studies.corpus import Corpus
from swapbias.studies.experiment import Study
from swapbias.studies.own.factors import (
    Columns,
)
from swapbias.studies.own.fills import UNNAMED
from swapbias.studies.own.own_corpus import corpus_from_files, corpus_of, refuse_study
from swapbias.studies.own.own_faults import faults, warnings
from swapbias.studies.own.own_files import (
    DECLARATION,
    LEXICON,
    PROMPTS,
)
from swapbias.studies.own.own_prompts import parse_study
from swapbias.studies.own.own_source import source_name, study_files, study_name
from swapbias.studies.own.ranges import Range

EXAMPLES = {"slots": "example", "ranking": "example_ranking"}  # folders of new studies
_log = logging.getLogger("swapbias")

# --- the files of a study -------------------------------------------------------------------------------


@arguments_named()
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
    """Open a study from a folder, a CSV file, a DataFrame or a Dataset; ``swapping.open_study`` reads more files."""
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
    named = partial(_with_file_names, source=source, lexicon=lexicon)
    refuse_study(faults(parsed), named)
    register(corpus := corpus_of(parsed, origin))
    for sentence in (*warnings(parsed), *_unnamed(corpus)):
        _log.warning("%s", named(sentence))
    return load_study(parsed.declared.name)


def _unnamed(corpus: Corpus) -> list[str]:
    """Advice where the names in the texts could not be found."""
    return (
        [UNNAMED]
        if corpus.study and any(one.design.unnamed_fills for one in corpus.study.experiments)
        else []
    )


class Check(NamedTuple):
    """Faults, for which an audit refuses a study, as sentences with file and line; without any, advice and corpus."""

    faults: list[str]
    advice: list[str]
    corpus: Corpus | None


def check_study(source: Any, **of_table: Any) -> Check:
    """The faults of a user's own study, and without any, advice on what may bend its numbers; as ``open_study``."""
    parsed = parse_study(study_files(source, **of_table))
    named = partial(_with_file_names, source=source, lexicon=of_table.get("lexicon"))
    if found := faults(parsed):
        return Check(list(map(named, found)), [], None)
    corpus = corpus_of(parsed)
    return Check([], list(map(named, [*warnings(parsed), *_unnamed(corpus)])), corpus)


def reopen_study(folder: Path, origin: str) -> None:
    """Make a study known from the copy that a run keeps of it; ``origin`` is that of the manifest."""
    register(corpus_from_files(study_files(folder), origin="" if origin == "local" else origin))


def _with_file_names(sentence: str, source: Any, lexicon: Path | str | None) -> str:
    """A sentence about a study that names the user's own CSV files, where it was made from such."""
    if not isinstance(source, str | Path) or not Path(source).expanduser().is_dir():
        sentence = re.sub(rf"{DECLARATION}:\d+: ", "", sentence)
    if name := source_name(source):
        sentence = sentence.replace(PROMPTS, name)
    for standard, place in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(place, str | Path) and Path(place).expanduser().is_file():
            sentence = sentence.replace(standard, Path(place).name)
    return sentence


def new_study(folder: Path, template: str = "slots") -> list[Path]:
    """Write an example (``slots``, or ``ranking``: candidates with CVs) into a new folder; gives the files."""
    if template not in EXAMPLES:
        raise unknown_name("template", template, list(EXAMPLES))
    if folder.exists() and (
        not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())
    ):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    example = sorted(Path(str(resources("swapbias.studies") / EXAMPLES[template])).iterdir())
    with locked(folder):
        for one in example:
            text = one.read_text(encoding="utf-8").replace(
                "STUDY_NAME", study_name(folder.resolve().name)
            )
            write_whole(folder / one.name, text.encode())
    return [folder / one.name for one in example]


# --- the corpus ---------------------------------------------------------------------------------------
