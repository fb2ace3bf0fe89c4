"""The demonstration, which an audit of no named model and study is: two models of known bias, and own prompts."""

from importlib.resources import files as resources
from pathlib import Path

from swapbias.errors import MODELS, MissingExtraError, need
from swapbias.models import base
from swapbias.runs.settings import Settings, option_classes
from swapbias.runs.task import Skipped, Task
from swapbias.studies import catalogue, load_study
from swapbias.studies.own import reopen_study

OWN_STUDY = "name_pairs"
"""Study of the demonstration that stands for a user's own prompts."""


def is_demonstration(settings: Settings) -> bool:
    """Return whether settings name no model, no study and nothing that asks for one.

    Args:
        settings: the settings of an audit.
    """
    if settings.model is not None or settings.studies:
        return False
    asking = [options for options in option_classes() if options is not type(settings.load)]
    return all(settings.of(options) == options() for options in asking)


def demonstration_tasks() -> list[Task]:
    """Return the tasks of the demonstration, still without rows; its own study is known from then on."""
    reopen_study(Path(str(resources("swapbias.studies") / "demonstration")), "local")
    (outline, calibrated), *_ = catalogue.calibrated()
    study = load_study(outline.name)
    own_study = load_study(OWN_STUDY)
    (planted,) = [part for part in study.experiments if part.name == calibrated.name]
    (scored,) = [part for part in own_study.experiments if part.kind == "classifier"]
    return [
        Task(study, planted, planted.reads.configs, base.CALIBRATION),
        Task(study, planted, planted.reads.configs, base.UNBIASED),
        Task(own_study, scored, scored.reads.configs, base.VADER),
    ]


def without_missing(tasks: list[Task], settings: Settings) -> tuple[list[Task], list[Skipped]]:
    """Return the tasks whose libraries are installed, and the others with the reason.

    Args:
        tasks: the tasks of the demonstration.
        settings: the settings of the audit.

    Raises:
        MissingExtraError: none is installed.
    """
    installed: list[Task] = []
    skipped: dict[tuple[str, str], Skipped] = {}
    errors: list[MissingExtraError] = []
    for task in tasks:
        try:
            if task.model != base.VADER:
                need("A model with a planted bias", *MODELS, extra="models")
            task.kind.check_installed(task.model, task.experiment, settings)
        except MissingExtraError as error:
            errors.append(error)
            name = (task.study.name, task.experiment.name)
            skipped[name] = Skipped(*name, str(error).rstrip("."))
        else:
            installed.append(task)
    if errors and not installed:
        raise errors[0]
    return installed, list(skipped.values())
