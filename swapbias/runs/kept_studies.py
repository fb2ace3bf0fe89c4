"""The files of the user's own studies that a run keeps beside its manifest, so that it can be repeated."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.studies.own import own_files, reopen_study

STUDIES = "studies"
"""Folder of a run that holds the files of the user's own studies."""
LOCAL = "local"
"""Origin of a study of a folder or table; of others OWNER/NAME@COMMIT."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")


def open_kept_studies(folder: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Make the user's own studies known as the run in a folder read them.

    Args:
        folder: the folder of the run, or of a copy of it.
        manifest: the manifest of the run, which may be anybody's.

    Returns:
        The origin of each study whose files are not there, by its name.

    Raises:
        ValueError: files that are no study.
    """
    origins: Any = manifest.get("own_studies")
    missing: dict[str, str] = {}
    if not isinstance(origins, dict):
        return missing
    for name, origin in origins.items():
        kept = folder / STUDIES / name
        if _NAME.fullmatch(name) and (kept / own_files.STUDY_FILES[0]).is_file():
            reopen_study(kept, str(origin))
        else:
            missing[name] = str(origin)
    return missing
