"""Read the study that a corpus of the package declares (``study.toml``), and refuse what its corpus does not have."""

from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.errors import StudyError, listed
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.declared import (
    Declaration,
    Fault,
    RawFault,
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
    wrong = {
        fault.key_path[:2] for fault in faults
    }  # where a key is misspelt, it is not missing too
    raw_faults = [raw for raw in left_out(declaration.values) if raw[0] not in wrong]
    if study is not None:
        raw_faults += disagreements(declaration.values, study)
    _refuse([*faults, *_locate(declaration, raw_faults)])
    assert study is not None  # or it has a fault
    return study


def refuse_declaration(study: str, faults: Sequence[RawFault]) -> None:
    """Refuse a study of the package that has faults.

    Args:
        study: its name.
        faults: what is wrong with it.

    Raises:
        StudyError: there are faults; it has a line for each, with file and line.
    """
    if faults:
        _refuse(_locate(read_study_file(study), faults))


def _locate(declaration: Declaration, faults: Sequence[RawFault]) -> list[Fault]:
    """Give faults with their lines in a declaration."""
    return [declaration.fault(key_path, sentence, value) for key_path, sentence, value in faults]


def _refuse(faults: Sequence[Fault]) -> None:
    """Raise a StudyError of the faults in the order of lines, if there are any."""
    sentences = dict.fromkeys(fault.sentence for fault in sorted(faults, key=line_of_fault))
    if sentences:
        raise StudyError("\n".join(sentences))


def read_study_file(corpus: str) -> Declaration:
    """Parse ``study.toml`` of a corpus of the package.

    Args:
        corpus: its name.

    Raises:
        StudyError: it is missing, or no valid TOML.
    """
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
    """Give the experiments of a study what they take from tables.

    Args:
        study: the study without these values.
        of_tables: values by the name of the field.

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
    experiments = [_with_tables(experiment, of_tables) for experiment in study.experiments]
    return study.changed(experiments=tuple(experiments))


def _with_tables(experiment: Experiment, of_tables: Mapping[str, Any]) -> Experiment:
    """Give an experiment what it takes from tables."""
    sections: dict[str, dict[str, Any]] = {}
    for name in experiment.from_tables:
        sections.setdefault(_SECTION_OF_TABLES[name], {})[name] = of_tables[name]
    return experiment.changed(**sections)
