"""Check that a study of the package names kinds of models, readings and score columns that there are."""

from collections.abc import Iterator
from itertools import chain

from swapbias.errors import UpstreamMissingError, UsageError, contributed_fault
from swapbias.measures import MEASURES
from swapbias.models.auto import KINDS, kind_of
from swapbias.studies import (
    Experiment,
    Study,
    catalogue,
    config_rows,
    corpora,
    corpus_dir,
    declared,
    load_study,
    package_study,
    published as paper_numbers,
    row_check,
    tables,
)


def check_readings(study: Study) -> None:
    """Refuse a study of the package whose experiments cannot be read as they say.

    Args:
        study: a study of the package, or of a distribution that adds to it.

    Raises:
        StudyError: a line each with file and line for unknown kinds, readings and score columns.
    """
    faults = [
        fault
        for number, experiment in enumerate(study.experiments)
        for fault in _faults(number, experiment)
    ]
    package_study.refuse_declaration(study.name, faults)


def _faults(number: int, experiment: Experiment) -> Iterator[declared.RawFault]:
    """Find kinds, readings and score columns that an experiment names and that there are not."""
    location = ("experiments", number)
    kinds = KINDS.names()
    yield from declared.unknown_names(
        (*location, "kind"), [experiment.kind], kinds, "kind of model"
    )
    try:
        readings = kind_of(experiment.kind).readings
    except UsageError:  # one from outside may not load, which is told where it is read
        return
    name = experiment.reads.reading
    if name not in readings:
        yield from declared.unknown_names(
            (*location, "reads", "reading"), [name], [*readings], "reading"
        )
        return
    reading = readings[name]
    columns = list(dict.fromkeys(("score", *reading.units, *reading.columns)))
    shows = experiment.shows
    for key, scores in (("scores", shows.scores), ("reported", shows.reported)):
        yield from declared.unknown_names(
            (*location, "shows", key), scores, columns, "score column"
        )
    yield from declared.unknown_names(
        (*location, "shows", "beside"),
        shows.beside,
        [*MEASURES, *columns],
        "measure or score column",
    )


def package_faults(name: str) -> tuple[list[str], list[str]]:
    """Find everything that is wrong with a study of the package, its tables and its rows included.

    Args:
        name: name of the study, or of a folder of tables that has no builder yet.

    Returns:
        A sentence for each fault, with file and line; and one for each experiment whose rows are missing.
    """
    faults = [*_file_faults(name)]
    if name not in corpora():
        return faults, []
    try:
        study = load_study(name)
        check_readings(study)
        catalogue.check_notes(study)
    except Exception as error:  # noqa: BLE001 - builders may raise anything
        return list(dict.fromkeys([*faults, *_sentences(error)])), []
    experiments = [
        experiment for experiment in study.experiments if not experiment.reads.notes.corpus
    ]
    unread: list[str] = []
    for experiment in experiments:
        try:
            _check_rows(study, experiment)
        except UpstreamMissingError as error:
            unread.append(f"The rows of {experiment.name} are not looked at: {error}")
        except Exception as error:  # noqa: BLE001 - builders may raise anything
            faults += _sentences(error)
    for config in dict.fromkeys(chain.from_iterable(map(_further_configs, experiments))):
        try:
            config_rows(name, config, download=False)
        except UpstreamMissingError as error:
            unread.append(f"The rows of {config} are not looked at: {error}")
        except Exception as error:  # noqa: BLE001 - builders may raise anything
            faults += _sentences(error)
    return list(dict.fromkeys(faults)), unread


def _check_rows(study: Study, experiment: Experiment) -> None:
    """Check an experiment against the rows of its configs."""
    rows = [
        row
        for config in experiment.reads.configs
        for row in config_rows(study.name, config, download=False)
    ]
    row_check.check_rows(study, experiment, rows)


def _further_configs(experiment: Experiment) -> Iterator[str]:
    """Yield the configs that an experiment reads beside its usual ones."""
    yield from experiment.reads.alternatives
    yield from experiment.reads.baseline
    yield from experiment.reads.rewordings


def _file_faults(name: str) -> Iterator[str]:
    """Find files of a study that are missing, and its tables that cannot be read."""
    if name not in corpora():
        yield f"builders/{name}.py is missing. Write one that makes its CORPUS."
    folder = corpus_dir(name)
    if not (folder / package_study.STUDY_FILE).is_file():
        yield f"{name}/{package_study.STUDY_FILE} is missing. Write one with title, url and [[experiments]]."
    if not (folder / "README.md").is_file():
        yield f"{name}/README.md is missing. Write one that says what the study measures."
    for read in (paper_numbers.published_rows, tables.outside_sources):
        try:
            read(name)
        except ValueError as error:
            yield str(error)


def _sentences(error: Exception) -> list[str]:
    """Split what an error of a builder says into sentences, one a line; any other error is raised again."""
    if isinstance(error, UsageError) and str(error).startswith("Unknown study"):
        return []  # it has no study.toml, which is told already
    if contributed := contributed_fault(error):
        return [contributed]
    if isinstance(error, ValueError | OSError):
        return str(error).splitlines()
    raise error
