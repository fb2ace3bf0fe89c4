"""Names of the folders of runs."""

import re
from datetime import UTC, datetime
from pathlib import Path

from swapbias.models import LoadOptions, model_names
from swapbias.runs.settings import Settings


def default_folder(settings: Settings) -> Path:
    """Return ``swapbias-runs/<model>-<time>``, with a number for runs that begin in one second.

    Args:
        settings: name the model, or a chat model.
    """
    models_named = [
        settings.model,
        *(getattr(options, "model", None) for options in settings.options),
    ]
    model = next(filter(None, models_named), None)
    name = folder_name(model, settings.load) if model else "default"
    first = Path("swapbias-runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = first
    number = 1
    while folder.exists():
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder


def folder_name(model: str, load: LoadOptions) -> str:
    """Return the name of a run's folder: that of its model, with revision, adapter and quantization.

    Args:
        model: name or folder.
        load: settings of its weights.
    """
    _, revision = model_names.split_revision(model)
    name = model_names.planned_name(model, load)
    return re.sub(r"-{2,}", "-", file_name(f"{name} {revision}")).strip("-.") or "model"


def file_name(text: str) -> str:
    """Return a text as the name of a file or folder on every system.

    Args:
        text: anything.
    """
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in text)
