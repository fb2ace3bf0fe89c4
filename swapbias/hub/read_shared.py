"""Runs that were shared on the Hub, read back at one commit."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias import runs, studies
from swapbias.errors import HubError, UsageError, listed
from swapbias.hub.client import Hub
from swapbias.hub.repository import SHARED, Repo, State, is_shared_name
from swapbias.report import safe_line
from swapbias.runs import Results, Run, results as run_results


def find_run(source: "str | PathLike[str]") -> Results:
    """Read a finished run of a folder or the Hub.

    Args:
        source: its folder, or its name on the Hub: OWNER/NAME[/RUN][@REVISION].

    Returns:
        the run.

    Raises:
        UsageError: no folder, and no name of one run on the Hub that can be read.
    """
    name = fspath(source)
    if not _is_on_hub(name):
        return runs.read_run(Path(name))
    loaded, broken = load_all_shared(Hub(), [name])
    if not loaded:
        raise UsageError(
            f"{name} is no folder here, and no run on the Hub that can be read: {broken[0]}"
        )
    if len(loaded) > 1:
        names = listed(safe_line(run.name) for run in loaded)
        raise UsageError(
            f"{name} contains {len(loaded)} runs ({names}), expected one. Name one of these."
        )
    return loaded[0]


def find_runs(sources: Sequence[str]) -> tuple[list[Results], list[str]]:
    """Read finished runs of folders and the Hub, those of folders first.

    Args:
        sources: folders, or names on the Hub: OWNER/NAME for all of its runs, OWNER/NAME/RUN, either with @REVISION.

    Returns:
        the runs, and a sentence for each that is on the Hub and cannot be read.
    """
    on_hub = [source for source in sources if _is_on_hub(source)]
    local = [runs.read_run(Path(source)) for source in sources if source not in on_hub]
    if not on_hub:
        return local, []
    shared, broken = load_all_shared(Hub(), on_hub)
    return local + shared, broken


def _is_on_hub(source: str) -> bool:
    """Tell whether a source is the name of shared runs, and nothing here has it."""
    return is_shared_name(source) and not Path(source).exists()


def load_all_shared(hub: Hub, names: Iterable[str]) -> tuple[list[Results], list[str]]:
    """Read shared runs, those of a repository at one commit.

    Args:
        hub: the Hub.
        names: OWNER/NAME[/RUN][@REVISION].

    Returns:
        the runs, and a sentence for each that cannot be read.

    Raises:
        HubError: the Hub could not be reached for a run that it lists.
    """
    loaded: list[Results] = []
    broken: list[str] = []
    for name in dict.fromkeys(names):
        repo_id = name
        run_name = ""
        revision = ""
        if match := SHARED.fullmatch(name):
            repo_id, run_name, revision = match.groups()
        try:
            state = hub.existing_state(Repo("dataset", repo_id), revision=revision or "main")
            for run in _runs_there(state, run_name):
                try:
                    loaded.append(_read_run(hub, state, run))
                except HubError:  # the others could not be read either
                    raise
                except ValueError as error:
                    broken.append(str(error))
        except (UsageError, HubError) as error:
            broken.append(str(error))
    return loaded, broken


def _runs_there(state: State, run_name: str | None) -> list[str]:
    """List the runs of a repository, or the named one; UsageError where there is none."""
    matches = (re.fullmatch(r"runs/([^/]+)/results\.json", path) for path in state.files)
    names = sorted(match[1] for match in matches if match)
    if run_name:
        names = [name for name in names if name == run_name]
    if names:
        return names
    repo_id = state.repo.name
    if run_name:
        raise UsageError(
            f"{repo_id} contains no runs/{safe_line(run_name)}/results.json. "
            "Name a repository made with swapbias share."
        )
    raise UsageError(
        f"{repo_id} contains no results.json in a folder of runs. Name a repository made with swapbias share."
    )


def _read_run(hub: Hub, state: State, name: str) -> Results:
    """Read a run of a repository; its scored prompts are fetched when they are looked at."""
    folder = f"{state.repo.name}/{safe_line(f'runs/{name}')}"
    manifest = f"runs/{name}/manifest.json"
    if manifest not in state.files:
        raise ValueError(f"{folder}: manifest.json is missing. Its owner can share it again.")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise ValueError(
            f"{name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename its folder."
        )
    cached = hub.fetch(state, [manifest, f"runs/{name}/results.json"])[manifest].parent

    def items_path(study: str) -> str:
        return f"runs/{name}/items/{study}.parquet"

    def read_items(study: str, **options: Any) -> pd.DataFrame:
        hub.fetch(state, [items_path(study)])
        try:
            return Run(cached).items(study, **options)
        except ValueError as error:
            raise ValueError(
                f"{folder}: its scored prompts cannot be read. Its owner can audit again."
            ) from error

    with_items = [study for study in studies.studies() if items_path(study) in state.files]
    run = runs.read_run(cached, repo=state.repo.name, commit=state.commit)
    return replace(run, items=run_results.LazyItems(with_items, read_items))
