"""What a user names: shared runs, and a study in a folder or on the Hub, whose client loads only for the latter."""

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.privacy import is_credentialed, is_mimic_columns
from swapbias.studies import Study, corpora, load_corpus, open_study

SHARED = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/([^/@]+))?(?:@(.+))?")


def is_shared_name(name: str) -> bool:
    """Whether a name can be one of shared runs: OWNER/NAME, OWNER/NAME/RUN, either with @REVISION."""
    return SHARED.fullmatch(name) is not None


def study_name(named: "str | PathLike[str]") -> str:
    """What an audit knows a study by, with its config: its name, or that of the folder or dataset, which is opened.

    Raises:
        UsageError: no such folder or dataset. ValueError: a broken study. HubError: the Hub is out of reach.
    """
    place, colon, config = fspath(named).partition(":")
    if place in corpora() and load_corpus(place).study is not None:  # which loads no other
        return fspath(named)
    if _is_folder(place):
        return own_study(Path(place)).name + colon + config
    if place.count("/") != 1:
        return fspath(named)
    from swapbias.hub.client import Hub
    from swapbias.hub.corpora import pull_study

    name, _, revision = place.partition("@")
    return pull_study(Hub(), name, revision=revision or "main").name + colon + config


def own_study(source: Any, **told: Any) -> Study:
    """``studies.open_study`` of what is no credentialed text: a run keeps prompts of the user's own as they are.

    Raises:
        UsageError: the prompts come from credentialed notes. UsageError, ValueError: as ``open_study``.
    """
    place = Path(source).expanduser() if isinstance(source, str | PathLike) else None
    held = place is not None and place.exists() and is_credentialed(place)
    if not held:
        study = open_study(source, **told)
        rows = (row for one in load_corpus(study.name).configs for row in one.rows())
        held = any(is_mimic_columns(row) or row.get("credentialed", "").lower() in ("true", "1") for row in rows)
    if held:
        raise UsageError(
            f"{place.name if place else 'These prompts'} may hold credentialed clinical notes, and a run keeps "
            "prompts of your own as they are. Give notes with -M data."
        )
    return study


def _is_folder(named: str) -> bool:
    """Whether a study is named by its place: it looks like one, or holds a study."""
    if named.startswith((".", "~", "/")) or "\\" in named:
        if not Path(named).expanduser().is_dir():
            raise UsageError(f"{named} is no folder of a study. Check it, or write one with swapbias study new.")
        return True
    return (Path(named) / "study.toml").is_file()
