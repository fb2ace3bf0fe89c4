"""Runs that were shared on the Hub, read back at one commit."""

import re
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

import pandas as pd

from swapbias import runs, studies
from swapbias.errors import HubError, UsageError, listed
from swapbias.hub.client import SHARED, Hub, Repo, State, is_shared_name
from swapbias.report import safe_line
from swapbias.runs import LazyItems, Results, Run


def find_run(named: "str | PathLike[str]") -> Results:
    """A finished run by its folder, or its name on the Hub: OWNER/NAME[/RUN][@REVISION]; else UsageError."""
    name = fspath(named)
    if Path(name).exists() or not is_shared_name(name):
        return runs.read_run(Path(name))
    loaded, broken = load_all_shared(Hub(), [name])
    if not loaded:
        raise UsageError(
            f"{name} is no folder here, and no run on the Hub that can be read: {broken[0]}"
        )
    if len(loaded) > 1:
        has = listed(safe_line(one.name) for one in loaded)
        raise UsageError(
            f"{name} holds {len(loaded)} runs ({has}), expected one. Name one of these."
        )
    return loaded[0]


def load_all_shared(hub: Hub, names: Iterable[str]) -> tuple[list[Results], list[str]]:
    """The runs named OWNER/NAME[/RUN][@REVISION], of a repository at one commit, and why others cannot be read."""
    loaded: list[Results] = []
    broken: list[str] = []
    for name in dict.fromkeys(names):
        repo, only, revision = (
            found.groups() if (found := SHARED.fullmatch(name)) else (name, "", "")
        )
        try:
            state = hub.existing_state(Repo("dataset", repo), revision=revision or "main")
            places = (re.fullmatch(r"runs/([^/]+)/results\.json", path) for path in state.files)
            there = sorted(found[1] for found in places if found and only in (None, "", found[1]))
            if not there:
                lacks = (
                    f"no runs/{safe_line(only)}/results.json"
                    if only
                    else "no results.json in a folder of runs"
                )
                raise UsageError(
                    f"{repo} holds {lacks}. Name a repository made with swapbias share."
                )
            for one in there:
                try:
                    loaded.append(_read_run(hub, state, one))
                except HubError:  # the others could not be read either
                    raise
                except ValueError as error:
                    broken.append(str(error))
        except (UsageError, HubError) as error:
            broken.append(str(error))
    return loaded, broken


def _read_run(hub: Hub, state: State, name: str) -> Results:
    where = f"{state.repo.name}/{safe_line(f'runs/{name}')}"
    files = [f"runs/{name}/{file}" for file in ("manifest.json", "results.json")]
    if files[0] not in state.files:
        raise ValueError(f"{where}: manifest.json is missing. Its owner can share it again.")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise ValueError(
            f"{name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename its folder."
        )
    place = hub.fetch(state, files)[files[0]].parent
    there = [
        study for study in studies.studies() if f"runs/{name}/items/{study}.parquet" in state.files
    ]

    def scored(study: str) -> pd.DataFrame:
        hub.fetch(state, [f"runs/{name}/items/{study}.parquet"])
        try:
            return Run(place).items(study)
        except ValueError as error:
            raise ValueError(
                f"{where}: its scored prompts cannot be read. Its owner can audit again."
            ) from error

    run = runs.read_run(place, repo=state.repo.name, commit=state.commit)
    return replace(run, items=LazyItems(there, scored))
