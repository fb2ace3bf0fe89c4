"""Check that a study of the package names kinds of models, readings and score columns that there are."""

from collections.abc import Iterator
from itertools import chain

from swapbias.errors import StudyError, UpstreamMissingError, UsageError
from swapbias.models.auto import KINDS, kind_of
from swapbias.studies import (
    Experiment,
    Found,
    Study,
    check_notes,
    check_rows,
    config_rows,
    load_study,
    refuse_declaration,
    unknown_names,
)


def check_readings(study: Study) -> None:
    """Refuse a study of the package whose experiments cannot be read as they say.

    Args:
        study: of the package, or of a distribution that adds to it.

    Raises:
        StudyError: a line each with file and line for unknown kinds, readings and score columns.
    """
    faults = [fault for number, experiment in enumerate(study.experiments) for fault in _faults(number, experiment)]
    refuse_declaration(study.name, faults)


def _faults(number: int, experiment: Experiment) -> Iterator[Found]:
    place = ("experiments", number)
    known = KINDS.names()
    yield from unknown_names((*place, "kind"), [experiment.kind], known, "kind of model")
    try:
        readings = kind_of(experiment.kind).readings
    except UsageError:  # one from outside may not load, which is told where it is read
        return
    reading = experiment.reads.reading
    if reading not in readings:
        yield from unknown_names((*place, "reads", "reading"), [reading], [*readings], "reading")
        return
    columns = ["score", *readings[reading].units, *readings[reading].columns]
    yield from unknown_names((*place, "shows", "scores"), experiment.shows.scores, columns, "score column")
    yield from unknown_names((*place, "shows", "reported"), experiment.shows.reported, columns, "score column")


def package_faults(name: str) -> tuple[list[str], list[str]]:
    """Find everything that is wrong with a study of the package, its rows included.

    Args:
        name: of the study.

    Returns:
        A sentence for each fault, with file and line; and one for each experiment whose rows are not at hand.
    """
    try:
        study = load_study(name)
        check_readings(study)
        check_notes(study)
    except StudyError as error:
        return str(error).splitlines(), []
    faults: list[str] = []
    unread: list[str] = []
    for experiment in study.experiments:
        if experiment.reads.notes.corpus:
            continue
        try:
            configs = [config_rows(name, config, download=False) for config in experiment.reads.configs]
            check_rows(study, experiment, [*chain.from_iterable(configs)])
        except UpstreamMissingError as error:
            unread.append(f"The rows of {experiment.name} are not looked at: {error}")
        except StudyError as error:
            faults += str(error).splitlines()
    return list(dict.fromkeys(faults)), unread
