"""What was published, fetched back: datasets, metrics and results as folders, each from one commit."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.building import recover, standing_in
from swapbias.cards.provenance import LICENCES
from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub, Repo, State, difference
from swapbias.hub.files import KEPT, check_names
from swapbias.publishing.pull_checks import CARD, check_dataset, check_metric, check_results, declared, is_declared
from swapbias.studies import corpora, load_corpus, metric_path, metrics

SOURCE = "source.json"  # where a pulled folder is from; tells it from a user's own
MOST_BYTES = 4 * 2**30  # of one file
MOST_FILES = 2_000
DATASET, METRIC, RESULTS = "dataset", "metric", "results"
METRIC_FILES = (CARD, "requirements.txt", "index.html", "style.css")  # and the module
_KINDS = {DATASET: "dataset", METRIC: "space", RESULTS: "dataset"}  # as the Hub calls the repository
_OF_RUNS = re.compile(r"README\.md|runs/[\w.-]+/(?:[\w. -]+/)?[\w. -]+\.(?:json|jsonl|csv|parquet|html|svg|png)")
_CHECKS: Mapping[str, Callable[[Path, str], None]] = {
    DATASET: check_dataset,
    METRIC: check_metric,
    RESULTS: check_results,
}


@dataclass(frozen=True, slots=True)
class Pulled:
    """A folder as it stands now: from which repository, commit and tag, and whether it was there already."""

    repo: str
    folder: Path
    commit: str
    tag: str
    files: int
    unchanged: bool
    left_out: int = 0

    def told(self) -> str:
        """In a sentence."""
        version = f"{self.tag} ({self.commit[:8]})" if self.tag else self.commit[:8]
        state = "unchanged" if self.unchanged else f"{self.files} files"
        other = f", {self.left_out} of other kinds left out" if self.left_out else ""
        return f"{self.repo} {version}: {state}{other} in {self.folder}"


def wanted_repos(hub: Hub, kind: str, namespace: str, names: Sequence[str]) -> list[str]:
    """The datasets or metrics of an owner by those names; all that the package knows by default.

    Raises:
        UsageError: an unknown corpus or measure, or the owner has none of them.
        HubError: the Hub refuses or cannot be reached.
    """
    for name in names:
        load_corpus(name) if kind == DATASET else metric_path(name)
    if names:
        return [f"{namespace}/{name}" for name in dict.fromkeys(names)]
    Repo(_KINDS[kind], f"{namespace}/all")  # a namespace that cannot be one is refused
    known = corpora() if kind == DATASET else metrics()
    there = {name.rpartition("/")[2] for name in hub.repos(namespace, _KINDS[kind])}
    found = [f"{namespace}/{name}" for name in known if name in there]
    if not found:
        raise UsageError(f"{namespace} has no {kind} of swapbias that can be seen. Check the name, or log in.")
    return found


def pull(hub: Hub, kind: str, repo_name: str, out: Path, *, revision: str = "main") -> Pulled:
    """Fetch a repository into a folder of its own: whole and checked, or not at all.

    Datasets and metrics come to ``out/NAME``, results to ``out/OWNER/NAME``. A folder that was pulled from the
    same commit, and is as it was pulled, stays; one from another commit is replaced once the new one is complete.

    Raises:
        UsageError: no such repository, or a folder in its place that no pull of it made, or with files of the user's.
        ValueError: what came is not what it should be. HubError: the Hub refuses, or names in it are unsafe.
        OSError: ``out`` cannot be written.
    """
    repo = Repo(_KINDS[kind], repo_name)
    target = out / repo_name if kind == RESULTS else out / repo_name.rpartition("/")[2]
    recover(target)
    before = _source(target)
    _check_place(target, before, repo)
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is not there, or cannot be seen with this token. Check its name, or log in.")
    tag = _tag(state, revision)
    names = sorted(name for name in state.files if name not in KEPT)
    if before and before["commit"] == state.commit and _is_whole(state, before["files"], target):
        held = before["files"]
        return Pulled(repo_name, target, state.commit, tag, len(held), True, len(names) - len(held))
    chosen = _chosen(hub, state, names, kind)
    source = {"repo": repo_name, "kind": repo.kind, "commit": state.commit, "tag": tag, "files": chosen}
    with standing_in(target) as making:
        _fetch(hub, state, chosen, making)
        _CHECKS[kind](making, repo_name)
        (making / SOURCE).write_text(json.dumps(source, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Pulled(repo_name, target, state.commit, tag, len(chosen), False, len(names) - len(chosen))


def _source(folder: Path) -> dict[str, Any] | None:
    """What a pull noted down in a folder, or None where none did."""
    try:
        read = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(read, dict) or not {"repo", "kind", "commit", "files"} <= set(read):
        return None
    files = read["files"]
    return read if isinstance(files, list) and all(isinstance(name, str) for name in files) else None


def _check_place(target: Path, before: Mapping[str, Any] | None, repo: Repo) -> None:
    """A folder that would be replaced holds nothing but what was pulled from this very repository.

    Raises:
        UsageError: it holds something else.
    """
    held = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_symlink() or path.is_file()}
    if held and before is None:
        raise UsageError(f"{target} holds something else than what was pulled before. Choose another --out.")
    if before and (before["repo"], before["kind"]) != (repo.name, repo.kind):
        raise UsageError(f"{target} was pulled from another repository, {before['repo']}. Choose another --out.")
    own = sorted(held - {SOURCE, *before["files"]}) if before else []
    if own:
        raise UsageError(
            f"{target} holds {own[0]!r}, which was not pulled and would be lost. Move it, or choose another --out."
        )


def _is_whole(state: State, files: Sequence[str], folder: Path) -> bool:
    """Whether a folder has these files as the repository has them."""
    here = {name: folder / name for name in files if (folder / name).is_file()}
    return len(here) == len(files) > 0 and not difference(_only(state, files), here)


def _only(state: State, files: Sequence[str]) -> State:
    return replace(state, files={name: state.files[name] for name in files if name in state.files})


def _tag(state: State, revision: str) -> str:
    """The tag that was asked for, else the last by name that stands at the commit; blank where there is none."""
    if revision in state.tags:
        return revision
    return max((name for name, commit in state.tags.items() if commit == state.commit), default="")


def _chosen(hub: Hub, state: State, names: Sequence[str], kind: str) -> list[str]:
    """The files to fetch.

    Raises:
        HubError: names that could leave the folder or hide a file. ValueError: a metric with other files than its
            own, or a dataset whose card declares none.
    """
    if len(names) > MOST_FILES:
        raise ValueError(
            f"{state.repo.name} holds {len(names)} files, at most {MOST_FILES} are fetched. Check its name."
        )
    check_names(state.repo.name, [*names, SOURCE])
    if kind == METRIC:
        own = (f"{state.repo.name.rpartition('/')[2]}.py", *METRIC_FILES)
        odd = [name for name in names if name not in own]
        if odd:
            raise ValueError(
                f"{state.repo.name} holds the file {odd[0][:80]!r}, expected {', '.join(own)} only. Nothing was kept."
            )
        chosen = list(names)
    elif kind == DATASET and CARD in names:
        card = hub.read(state.repo, CARD, revision=state.commit)
        configs = declared(card, f"{state.repo.name}/{CARD}")
        chosen = [name for name in names if name in (CARD, LICENCES) or is_declared(name, configs)]
    else:
        chosen = [name for name in names if _OF_RUNS.fullmatch(name)] if kind == RESULTS else []
    if not chosen:
        raise ValueError(f"{state.repo.name} holds no files that a {kind} has. Check its name.")
    return chosen


def _fetch(hub: Hub, state: State, chosen: Sequence[str], folder: Path) -> None:
    """Exactly the chosen files, as the repository lists them."""
    only = tuple(re.sub(r"([\[*?])", r"[\1]", name) for name in chosen)
    hub.download(state.repo, folder, revision=state.commit, only=only, limit=MOST_BYTES)
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    there = sorted(path.relative_to(folder).as_posix() for path in paths)
    links = any(path.is_symlink() for path in paths)
    if there != list(chosen) or links or difference(_only(state, chosen), {name: folder / name for name in chosen}):
        raise HubError(f"{state.repo.name}: other files came than it lists. Run the command again.")
