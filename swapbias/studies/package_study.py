"""Read the study that a corpus of the package declares (``study.toml``), and refuse what its corpus does not have."""

from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.errors import StudyError, listed
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.declared import (
    Declaration,
    Fault,
    Found,
    line_of_fault,
    parse_declaration,
    validate,
)
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.package_checks import disagreements, left_out, unknown_measures

STUDY_FILE = "study.toml"
# What an experiment takes from the one that it is like; what it reads and compares it states itself.
TAKEN = ("on_request", "from_tables", "shows", "words")
_SECTION_OF_TABLES = {"aliases": "reads", "rubric": "reads", "covariates": "shows"}


def declared_study(corpus: str, **of_tables: Any) -> Study:
    """Read the study that ``study.toml`` of a corpus declares.

    Args:
        corpus: its name, which is that of the study.
        of_tables: values of the fields that experiments name in ``from_tables``, as its builder reads them.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    study = study_outline(corpus)
    refuse_declaration(corpus, [*unknown_measures(study)])
    return with_tables(study, of_tables)


def study_outline(corpus: str) -> Study:
    """Read the same study without the values that tables give, which takes no builder and no statistics.

    Args:
        corpus: its name.

    Raises:
        StudyError: every fault but those of measures, a line each with file and line.
    """
    declaration = read_study_file(corpus)
    study, faults = validate(declaration, Study, {"name": corpus, **declaration.values})
    wrong = {fault.place[:2] for fault in faults}  # where a key is misspelt, it is not missing too
    found = [found for found in left_out(declaration.values) if found[0] not in wrong]
    found += disagreements(declaration.values, study) if study else ()
    _refuse(
        [*faults, *(declaration.fault(place, sentence, value) for place, sentence, value in found)]
    )
    assert study is not None  # or it has a fault
    return study


def refuse_declaration(study: str, found: Sequence[Found]) -> None:
    """Raise a StudyError of a line each, with file and line, where anything is wrong with a study of the package."""
    if found:
        declaration = read_study_file(study)
        _refuse([declaration.fault(place, sentence, value) for place, sentence, value in found])


def _refuse(faults: Sequence[Fault]) -> None:
    """Raise a StudyError of the faults in the order of lines, if there are any."""
    sentences = dict.fromkeys(fault.sentence for fault in sorted(faults, key=line_of_fault))
    if sentences:
        raise StudyError("\n".join(sentences))


def read_study_file(corpus: str) -> Declaration:
    """Parse ``study.toml`` of a corpus of the package; StudyError: it is missing, or no valid TOML."""
    path = corpus_dir(corpus) / STUDY_FILE
    if not path.is_file():
        raise StudyError(
            f"{corpus}/{STUDY_FILE} is missing. Write one with title, url and [[experiments]]."
        )
    try:
        return parse_declaration(f"{corpus}/{STUDY_FILE}", path.read_text(encoding="utf-8"), TAKEN)
    except ValueError as error:
        raise StudyError(str(error)) from None


def with_tables(study: Study, of_tables: Mapping[str, Any]) -> Study:
    """Give the experiments of a study what they take from tables, by the name of the field.

    Raises:
        StudyError: an experiment takes what no table gives, or no experiment takes what one does.
    """
    wanted = {name for experiment in study.experiments for name in experiment.from_tables}
    if missing := sorted(wanted - of_tables.keys()):
        raise StudyError(
            f"{study.name}/{STUDY_FILE}: no table gives {listed(missing)}. Take it out of from_tables."
        )
    if unused := sorted(of_tables.keys() - wanted):
        raise StudyError(
            f"{study.name}/{STUDY_FILE}: no experiment takes {listed(unused)}. Add it to from_tables."
        )
    return study.changed(
        experiments=tuple(_with_tables(one, of_tables) for one in study.experiments)
    )


def _with_tables(experiment: Experiment, of_tables: Mapping[str, Any]) -> Experiment:
    sections: dict[str, dict[str, Any]] = {}
    for name in experiment.from_tables:
        sections.setdefault(_SECTION_OF_TABLES[name], {})[name] = of_tables[name]
    return experiment.changed(**sections)
