"""What was published, fetched back: datasets, metrics and results as folders, each from one commit."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapbias.building import put_in_place
from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub, Repo, State
from swapbias.hub.files import KEPT, check_names
from swapbias.publishing.pull_checks import check_dataset, check_metric, check_results
from swapbias.studies import corpora, load_corpus, metric_path, metrics

SOURCE = "source.json"  # where a pulled folder is from; tells it from a user's own
MOST_BYTES = 4 * 2**30  # of one file
MOST_FILES = 2_000
DATASET, METRIC, RESULTS = "dataset", "metric", "results"
METRIC_SUFFIXES = (".py", ".md", ".txt", ".html")
_KINDS = {DATASET: "dataset", METRIC: "space", RESULTS: "dataset"}  # as the Hub calls the repository
_PATTERNS = {
    DATASET: re.compile(r"README\.md|[\w.-]+/[\w.-]+\.parquet"),
    METRIC: re.compile(r"[\w.-]+"),
    RESULTS: re.compile(r"README\.md|runs/[\w.-]+/(?:[\w. -]+/)?[\w. -]+\.(?:json|jsonl|csv|parquet|html|svg|png)"),
}
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
    same commit stays as it is; one from another commit is replaced once the new one is complete.

    Raises:
        UsageError: no such repository, or a folder in its place that no pull made.
        ValueError: what came is not what it should be. HubError: the Hub refuses, or names in it are unsafe.
        OSError: ``out`` cannot be written.
    """
    repo = Repo(_KINDS[kind], repo_name)
    target = out / repo_name if kind == RESULTS else out / repo_name.rpartition("/")[2]
    before = _source(target)
    if before is None and target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} holds something else than what was pulled before. Choose another --out.")
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is not there, or cannot be seen with this token. Check its name, or log in.")
    chosen, left_out = _chosen(state, kind)
    tag = _tag(state, revision)
    source = {"repo": repo_name, "kind": repo.kind, "commit": state.commit, "tag": tag, "files": chosen}
    same = before is not None and {**before, "tag": tag} == source
    if same and all((target / name).is_file() for name in chosen):
        return Pulled(repo_name, target, state.commit, tag, len(chosen), True, left_out)
    target.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _fetch(hub, state, chosen, making)
        _CHECKS[kind](making, repo_name)
        (making / SOURCE).write_text(json.dumps(source, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        making.chmod(0o755)
        put_in_place(making, target)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return Pulled(repo_name, target, state.commit, tag, len(chosen), False, left_out)


def _source(folder: Path) -> dict[str, Any] | None:
    """What a pull noted down in a folder, or None where none did."""
    try:
        read = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return read if isinstance(read, dict) and {"repo", "commit", "files"} <= set(read) else None


def _tag(state: State, revision: str) -> str:
    """The tag that was asked for, else the last by name that stands at the commit; blank where there is none."""
    if revision in state.tags:
        return revision
    return max((name for name, commit in state.tags.items() if commit == state.commit), default="")


def _chosen(state: State, kind: str) -> tuple[list[str], int]:
    """The files to fetch, and how many are of other kinds.

    Raises:
        HubError: names that could leave the folder or hide a file. ValueError: a metric with files of other kinds.
    """
    names = sorted(name for name in state.files if name not in KEPT)
    if len(names) > MOST_FILES:
        raise ValueError(f"{state.repo.name} holds {len(names)} files, at most {MOST_FILES} are fetched.")
    check_names(state.repo.name, [*names, SOURCE])
    chosen = [name for name in names if _PATTERNS[kind].fullmatch(name)]
    if kind == METRIC:
        odd = [name for name in names if name not in chosen or not name.endswith(METRIC_SUFFIXES)]
        if odd:
            raise ValueError(
                f"{state.repo.name} holds the file {odd[0][:80]!r}, expected {', '.join(METRIC_SUFFIXES)} only. "
                "Nothing was kept."
            )
    if not chosen:
        raise ValueError(f"{state.repo.name} holds no files that a {kind} has. Check its name.")
    return chosen, len(names) - len(chosen)


def _fetch(hub: Hub, state: State, chosen: Sequence[str], folder: Path) -> None:
    """Exactly the chosen files."""
    only = tuple(re.sub(r"([\[*?])", r"[\1]", name) for name in chosen)
    hub.download(state.repo, folder, revision=state.commit, only=only, limit=MOST_BYTES)
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    if there != list(chosen) or links:
        raise HubError(f"{state.repo.name}: other files came than it lists. Run the command again.")
