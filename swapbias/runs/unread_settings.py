"""Settings that nothing of an audit reads, each refused with the next step."""

from collections.abc import Sequence

from swapbias.errors import UsageError, listed
from swapbias.models import kind_of, model_names
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.runs import prompt_data
from swapbias.runs.manifest_entries import reads_adjectives
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.studies import corpora


def refuse_unread_adjectives(settings: Settings, tasks: Sequence[Task]) -> None:
    """Refuse a file of adjectives, with a UsageError, where no task puts any into its sentences.

    Args:
        settings: the settings of the audit.
        tasks: the tasks that are planned.
    """
    if settings.adjectives and not any(reads_adjectives(task.study.name) for task in tasks):
        able = listed([name for name in corpora() if reads_adjectives(name)])
        raise UsageError(f"-M adjectives is read by {able}. Name such a study with --study.")


def refuse_unread_notes(settings: Settings, kind: str | None) -> None:
    """Refuse notes, with a UsageError, where the model is of a kind that is asked about texts in another way.

    Args:
        settings: the settings of the audit.
        kind: the kind of the model; None: no model is named.
    """
    step = kind_of(kind).own_texts if kind else ""
    if settings.of(NoteOptions).data is not None and step:
        name = model_names.short_name(settings.model)
        raise UsageError(
            f"-M data gives clinical notes, and {name} is of kind {kind}, which reads none. {step}"
        )


def refuse_notes_for_data(settings: Settings, tasks: Sequence[Task]) -> None:
    """Refuse notes, with a UsageError, where a study without notes is audited that reads data by another setting.

    Args:
        settings: the settings of the audit.
        tasks: the tasks that are planned.
    """
    if settings.of(NoteOptions).data is None or any(task.notes is not None for task in tasks):
        return
    names = dict.fromkeys(task.study.name for task in tasks)
    if reading := [name for name in names if prompt_data.reads_data(name)]:
        raise UsageError(
            f"-M data gives clinical notes, which {listed(reading)} does not read. "
            f"Give its data with {prompt_data.OPTION}."
        )


def refuse_unread_data(settings: Settings, names: Sequence[str]) -> None:
    """Refuse data of the user's, with a UsageError, where no study reads them, or where several would.

    Args:
        settings: the settings of the audit.
        names: the studies that are audited.
    """
    if settings.prompt_data is None:
        return
    reading = [name for name in dict.fromkeys(names) if prompt_data.reads_data(name)]
    if not reading:
        able = listed([name for name in corpora() if prompt_data.reads_data(name)])
        raise UsageError(f"{prompt_data.OPTION} is read by {able}. Name one of them with --study.")
    if len(reading) > 1:
        raise UsageError(
            f"{prompt_data.OPTION} would be read by {listed(reading)}. Audit one of them at a time."
        )


def refuse_unread_splits(settings: Settings, tasks: Sequence[Task]) -> None:
    """Refuse several splits, with a UsageError, where no classifier is trained on any.

    Args:
        settings: the settings of the audit.
        tasks: the tasks that are planned.
    """
    if settings.of(NoteOptions).splits > 1 and not any(task.split for task in tasks):
        raise UsageError(
            "Several splits are for classifiers that the audit trains, and it trains none. Leave -M splits out."
        )


def refuse_unread_weights(settings: Settings) -> None:
    """Refuse settings of weights, with a UsageError, where only a model behind a service is read.

    Args:
        settings: the settings of the audit.
    """
    chat = settings.of(ChatOptions)
    notes = settings.of(NoteOptions)
    if settings.model is None and chat.model and not chat.local and notes == NoteOptions():
        settings.load.refuse_weights_settings(chat.model)
