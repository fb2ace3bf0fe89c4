"""JSON files beside the weights of a model: in its folder, or on the Hub at a commit."""

from pathlib import Path
from typing import Any

from swapbias.errors import first_line
from swapbias.files import is_there, parse_json
from swapbias.models.broken_files import refuse_broken_file
from swapbias.models.model_names import split_revision


def read_model_json(
    model: str, file: str, subfolder: str = "", *, offline: bool, remedy: str
) -> Any | None:
    """Read a JSON file of a folder, or of a model of the Hub at a commit.

    Args:
        model: a folder, or ``OWNER/NAME@COMMIT``.
        file: the name of the file.
        subfolder: the subfolder in which the file is; empty: at the root.
        offline: whether nothing is fetched from the Hub.
        remedy: a sentence on what to do about a file that is no JSON.

    Returns:
        The content of the file; None where there is no such file.

    Raises:
        ValueError: It cannot be fetched, or is no JSON.
    """
    name, commit = split_revision(model)
    if is_there(model):
        path: Path | None = Path(model, subfolder, file)
    else:
        path = _fetched_file(name, commit, "/".join(filter(None, (subfolder, file))), offline)
    if path is None or not path.is_file():
        return None
    refuse_broken_file(path)
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}). {remedy}") from error


def _fetched_file(name: str, commit: str, file: str, offline: bool) -> Path | None:
    """Return the path of a file of a model of the Hub at a commit; None where it has none."""
    from huggingface_hub import errors, hf_hub_download, try_to_load_from_cache

    if not commit:
        return None
    cached = try_to_load_from_cache(name, file, revision=commit)
    if cached is not None:  # a path, or a mark that the commit has no such file
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(hf_hub_download(name, file, revision=commit, local_files_only=offline))
    except errors.EntryNotFoundError:  # also of a model that was fetched whole before
        return None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        return None  # whoever reads the model says it
    except Exception as error:
        fault = f"{file} of {name} cannot be read ({first_line(error)}). Check the connection."
        raise ValueError(fault) from error
