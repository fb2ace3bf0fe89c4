"""What a user names: shared runs, and a study in a folder or on the Hub, whose client loads only for the latter."""

import re
from os import PathLike, fspath
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.studies import open_study, studies

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
    if place in studies():
        return fspath(named)
    if _is_folder(place):
        return open_study(Path(place)).name + colon + config
    if place.count("/") != 1:
        return fspath(named)
    from swapbias.hub.client import Hub
    from swapbias.hub.corpora import pull_study

    name, _, revision = place.partition("@")
    return pull_study(Hub(), name, revision=revision or "main").name + colon + config


def _is_folder(named: str) -> bool:
    """Whether a study is named by its place: it looks like one, or holds a study."""
    if named.startswith((".", "~", "/")) or "\\" in named:
        if not Path(named).expanduser().is_dir():
            raise UsageError(f"{named} is no folder of a study. Check it, or write one with swapbias study new.")
        return True
    return (Path(named) / "study.toml").is_file()
