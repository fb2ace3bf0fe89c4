"""What people push and pull, each in turn: trouble with one does not stop the others; and studies of their own."""

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from swapbias import __version__
from swapbias.errors import HubError, UsageError
from swapbias.files import parse_json
from swapbias.hub.cards import CARD
from swapbias.hub.client import HUB_FILES, Hub, PushResult, Repo, Say, difference, push_repo
from swapbias.hub.metric_spaces import check_release, push_metric, shipped_names
from swapbias.privacy import is_credentialed, is_mimic_columns, log_traceback, refuse
from swapbias.runs import Run
from swapbias.studies import (
    STUDY_FILES,
    Study,
    corpora,
    load_corpus,
    metric_path,
    metrics,
    open_study,
    own_corpus,
    study_files,
)

if TYPE_CHECKING:
    from swapbias.hub.shared_runs import ShareOptions

SOURCE = "source.json"  # where a pulled folder is from; tells it from a user's own
MOST_BYTES = 16 * 2**30
MOST_FILES = 2_000
DATASET, METRIC, RESULTS = "dataset", "metric", "results"
_KINDS = {DATASET: "dataset", METRIC: "space", RESULTS: "dataset"}  # as the Hub calls the repository
_FETCHED = {  # nothing else comes: of what runs, the module of a metric and those of ours that lie beside it
    DATASET: r"README\.md|LICENSES\.md|\w[\w.-]*/[\w.-]+\.parquet",
    METRIC: r"(?:{name}|{shipped})\.py|README\.md|requirements\.txt|index\.html|style\.css",
    RESULTS: r"README\.md|runs/[\w.-]+/(?:[\w. -]+/)?[\w. -]+\.(?:json|jsonl|csv|parquet|html|svg|png)",
}


_OF_OTHERS = {
    METRIC: "A metric is code of its owner: read it before you load it.",
    RESULTS: "Reports and figures are files of their owners: open them as you would a page of a stranger's.",
}


def push_datasets(names: Sequence[str], *, namespace: str, private: bool, dry_run: bool) -> int:
    """Publish corpora, all by default.

    Returns:
        The exit code: 0, 1 where one failed, 2 for a wrong argument, 130 where the user stopped it.
    """
    from swapbias.hub.datasets import push_dataset

    return push_each(
        namespace,
        lambda: [load_corpus(name).name for name in names or corpora()],
        lambda hub, name: push_dataset(hub, name, namespace=namespace, private=private, dry_run=dry_run, say=say),
    )


def push_metrics(names: Sequence[str], *, namespace: str, private: bool, dry_run: bool, untagged: bool) -> int:
    """Publish metrics as Spaces, all by default, of a release that is tagged unless ``untagged``; the exit code."""

    def chosen() -> Sequence[str]:
        folders = [Path(metric_path(name)) for name in names or metrics()]
        if untagged:
            say(f"v{__version__} is not checked: the pages name a release that may not be there.")
        else:
            check_release(folders[0], __version__)
        return names or metrics()

    return push_each(
        namespace,
        chosen,
        lambda hub, name: push_metric(hub, name, namespace=namespace, private=private, dry_run=dry_run, say=say),
    )


def push_space(results: Sequence[str], *, space: str, private: bool, dry_run: bool) -> int:
    """Publish shared runs side by side as a static Space; the exit code."""
    from swapbias.hub.shared_runs import push_comparison

    return push_each(
        space.partition("/")[0],
        lambda: [space],
        lambda hub, name: push_comparison(hub, results, name, private=private, dry_run=dry_run, say=say),
    )


def push_results(folders: Sequence[Path], options: "ShareOptions") -> int:
    """Share several runs in one repository; the exit code."""
    from swapbias.hub.shared_runs import share_run

    def share(folder: Path) -> None:
        for done in share_run(Run.open(folder), options, Hub(), say=say):
            say(f"{folder}: {done.repo.name} {done.status}. {done.url}")

    return max(_each(dict.fromkeys(folders), share).values(), default=0)


def pull_all(kind: str, names: Sequence[str], *, namespace: str = "", out: Path, revision: str = "main") -> int:
    """Fetch repositories of a kind to a folder: of a namespace those named, all by default; results by OWNER/NAME.

    Returns:
        The exit code: 0 when everything asked for is there and whole, 1 otherwise, 2 for a wrong argument, 130 where
        the user stopped it.
    """
    try:
        hub = Hub()
        repos = names if kind == RESULTS else wanted_repos(hub, kind, namespace, names)
    except ValueError as error:
        complain(error)
        return _exit_code(error)
    codes = _each(repos, lambda name: say(pull_repo(hub, kind, name, out, revision=revision)))
    if kind in _OF_OTHERS and 0 in codes.values():
        say(_OF_OTHERS[kind])
    return max(codes.values(), default=0)


def check_namespace(hub: Hub, namespace: str) -> None:
    """Know before the work starts that the token may write there.

    Raises:
        UsageError: it may not, naming where it may.
        HubError: there is no token, or it is refused.
    """
    owners = hub.owners()
    if namespace not in owners:
        raise UsageError(f"The token may not write to {namespace!r}, expected one of {', '.join(owners)}.")


def push_each(namespace: str, names: Callable[[], Iterable[str]], push: Callable[[Hub, str], PushResult]) -> int:
    """Check, push one after the other, say so; the exit code.

    Args:
        namespace: where to.
        names: gives what is to be pushed; raises UsageError or ValueError for what cannot be.
        push: pushes one of them.
    """
    try:
        chosen = dict.fromkeys(names())
        hub = Hub()
        check_namespace(hub, namespace)
    except ValueError as error:
        complain(error)
        return _exit_code(error)
    done: list[PushResult] = []

    def one(name: str) -> None:
        pushed = push(hub, name)
        done.append(pushed)
        at = f" at {pushed.commit[:12]}" if pushed.commit else ""
        say(f"{pushed.repo.name}: {pushed.status}{' (private)' if pushed.private else ''}, {pushed.tag}{at}")

    code = max(_each(chosen, one).values(), default=0)
    if code < 128:  # not stopped by the user
        changed = sum(one.status != "unchanged" for one in done)
        what = "would change" if any(one.status.startswith("would") for one in done) else "changed"
        say(f"{len(done)} done, {changed} of them {what}; {len(chosen) - len(done)} failed.")
        code = 1 if len(done) < len(chosen) else 0
    return code


def _each(names: Iterable[Any], act: Callable[[Any], None]) -> dict[Any, int]:
    """Act on each, and complain of those that fail; the exit code of each, up to the one where the user stopped."""
    codes = {}
    for name in names:
        codes[name] = 0
        try:
            act(name)
        except KeyboardInterrupt as stop:
            complain(f"stopped at {name}. What is complete stays: run the command again to go on.")
            codes[name] = stop.args[0] if stop.args else 130  # of a signal: 128 and its number
            break
        except Exception as error:  # noqa: BLE001 - the last resort before a traceback
            codes[name] = _exit_code(error)
            if isinstance(error, OSError) and not isinstance(error, HubError):
                place = f"{error.filename}: " if error.filename else ""
                complain(f"{name}: {place}{error.strerror or error}. Check the place and its free space.")
            elif isinstance(error, ValueError):
                complain(f"{name}: {error}")
            else:
                complain(f"{name}: {type(error).__name__}. This is a fault of swapbias: see it with --debug.")
    return codes


def _exit_code(error: Exception) -> int:
    return 2 if isinstance(error, UsageError) else 1


def say(line: str) -> None:
    """A line of the result."""
    _write(sys.stdout, line)


def complain(sentence: object) -> None:
    """A sentence of trouble, on one line; that of a caught error logs its traceback."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception):
        log_traceback(error)
    _write(sys.stderr, f"swapbias: {' '.join(str(sentence).split())}")


def _write(stream: TextIO, line: str) -> None:
    """A line now; once nobody reads any more, lines go nowhere and the work goes on."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # of a terminal that cannot show every letter
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # what is still to be flushed at the end would fail as well
        os.close(nowhere)


# --- pull ---------------------------------------------------------------------------------------------------


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
    there = hub.repos(namespace, _KINDS[kind])
    known = corpora() if kind == DATASET else metrics()
    found = [f"{namespace}/{name}" for name in known if f"{namespace}/{name}" in there]
    if not found:
        raise UsageError(f"{namespace} has no {kind} of swapbias that can be seen. Check the name, or log in.")
    return found


def pull_repo(hub: Hub, kind: str, repo_name: str, out: Path, *, revision: str = "main") -> str:
    """Fetch a repository into a folder of its own: whole, or not at all; gives a sentence that says so.

    Datasets and metrics come to ``out/NAME``, results to ``out/OWNER/NAME``. A folder that was pulled from the
    same commit, and is as it was pulled, stays; one from another commit is replaced once the new one is complete.

    Raises:
        UsageError: no such repository, or a folder in its place that no pull of it made, or with files of the user's.
        ValueError: it is too large, or has no files of its kind. HubError: the Hub refuses, names in it are unsafe,
            or what came is not what it lists. OSError: ``out`` cannot be written.
    """
    repo = Repo(_KINDS[kind], repo_name)
    name = repo_name.rpartition("/")[2]
    target = out / repo_name if kind == RESULTS else out / name
    from swapbias.hub.datasets import atomic_directory, recover

    recover(target)
    _check_place(target, repo)
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is not there, or cannot be seen with this token. Check its name, or log in.")
    pattern = _FETCHED[kind].replace("{shipped}", "|".join(shipped_names())).replace("{name}", re.escape(name))
    size = sum(state.sizes.values())
    if len(state.files) > MOST_FILES or size > MOST_BYTES:
        raise ValueError(
            f"{repo_name} holds {len(state.files):,} files of {size:,} bytes, expected at most "
            f"{MOST_FILES:,} and {MOST_BYTES:,}. Check its name."
        )
    wanted = replace(state, files={path: one for path, one in state.files.items() if re.fullmatch(pattern, path)})
    if not set(wanted.files) - {CARD}:
        raise ValueError(f"{repo_name} holds no {kind} of swapbias. Check its name.")
    done = "unchanged"
    if _source(target).get("commit") != state.commit or difference(wanted, _files(target)):
        done = f"{len(wanted.files)} files"
        source = {"repo": repo.name, "kind": repo.kind, "commit": state.commit, "files": dict(wanted.files)}
        with atomic_directory(target) as making:
            hub.download(wanted, making, wanted.files)
            if difference(wanted, _files(making)) or any(path.is_symlink() for path in making.rglob("*")):
                raise HubError(f"{repo_name}: other files came than it lists. Run the command again.")
            note = json.dumps(source, indent=2, ensure_ascii=False) + "\n"
            (making / SOURCE).write_text(note, encoding="utf-8")
    tag = revision if revision in state.tags else ""
    version = f"{tag} ({state.commit[:8]})" if tag else state.commit[:8]
    others = len(set(state.files) - HUB_FILES - set(wanted.files))
    other = f", {others} of other kinds left out" if others else ""
    return f"{repo_name} {version}: {done}{other} in {target}"


def _check_place(target: Path, repo: Repo) -> None:
    """A folder that would be replaced holds nothing but what was pulled from this very repository."""
    there, before = _files(target), _source(target)
    if there and (before.get("repo"), before.get("kind")) != (repo.name, repo.kind):
        raise UsageError(
            f"{target} holds something else than what was pulled from {repo.name}. Choose another --out."
        )
    own = sorted(there.keys() - set(before.get("files", ())))
    if own:
        raise UsageError(
            f"{target} holds {own[0]!r}, which was not pulled and would be lost. Move it, or choose another --out."
        )


def _files(folder: Path) -> dict[str, Path]:
    """What a folder holds besides the note of a pull, links included."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {name: path for name, path in found.items() if name != SOURCE and (path.is_symlink() or path.is_file())}


def _source(folder: Path) -> dict[str, Any]:
    """What a pull noted down in a folder; empty where none did."""
    try:
        read = parse_json((folder / SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) and isinstance(read.get("files"), dict) else {}


# --- studies of the user's own ----------------------------------------------------------------------------


def push_study(
    hub: Hub, folder: Path, repo_name: str, *, private: bool = True, dry_run: bool = False, say: Say
) -> PushResult:
    """Publish a study's folder as a dataset, tagged with its version: its tables, its prompts as Parquet, a card.

    Raises:
        UsageError, HubError: as ``push_repo``. ValueError: a broken study, or a README with a header of its own.
    """
    from swapbias.hub.datasets import local_card, write_config

    refuse(folder, "published")
    tables = study_files(folder)
    corpus = own_corpus(tables)
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        infos = {one.name: write_config(Path(scratch) / one.name, corpus, one) for one in corpus.configs}
        parquet = {path.relative_to(scratch).as_posix(): path for path in sorted(Path(scratch).rglob("*.parquet"))}
        card = local_card(corpus, infos, is_credentialed=False) + _how_to_run(repo_name, folder)
        return push_repo(
            hub,
            Repo("dataset", repo_name),
            {**tables, **parquet, "README.md": card.encode()},
            tag=f"v{corpus.version}",
            message=f"{corpus.name} {corpus.version}",
            private=private,
            raise_hint=f"raise version in study.toml (now {corpus.version})",
            dry_run=dry_run,
            say=say,
        )


def _how_to_run(repo_name: str, folder: Path) -> str:
    """What stands below the configs on the card: the command, and the folder's README."""
    readme = folder / "README.md"
    own = readme.read_text(encoding="utf-8-sig") if readme.is_file() else ""
    if own.startswith("---"):
        raise ValueError(f"{readme} begins with a header of its own, expected text. The push writes one: remove it.")
    return f"\nRun it: `swapbias audit MODEL --study {repo_name}`\n\n{own}"


def pull_study(hub: Hub, repo_name: str, *, revision: str = "main") -> Study:
    """A study that somebody pushed, opened from its tables at one commit; nothing else of it is fetched.

    Raises:
        UsageError: no such dataset, or none that holds a study. HubError: the Hub refuses or is out of reach.
        ValueError: a broken study.
    """
    state = hub.state(Repo("dataset", repo_name), revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is not there, or cannot be seen with this token. Check its name, or log in.")
    if STUDY_FILES[0] not in state.files:
        raise UsageError(f"{repo_name} holds no study: it has no {STUDY_FILES[0]}. Check its name.")
    with tempfile.TemporaryDirectory(prefix="swapbias-study-") as folder:
        for name in STUDY_FILES:
            if name in state.files:
                (Path(folder) / name).write_bytes(hub.content(state, name))
        return open_study(folder, origin=f"{repo_name}@{state.commit}")


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
    name, _, revision = place.partition("@")
    return pull_study(Hub(), name, revision=revision or "main").name + colon + config


def own_study(source: Any, **options: Any) -> Study:
    """``studies.open_study`` of what is no credentialed text: a run keeps prompts of the user's own as they are.

    Raises:
        UsageError: the prompts come from credentialed notes. UsageError, ValueError: as ``open_study``.
    """
    place = Path(source).expanduser() if isinstance(source, str | PathLike) else None
    may_be = place is not None and place.exists() and is_credentialed(place)
    if not may_be:
        study = open_study(source, **options)
        rows = (row for one in load_corpus(study.name).configs for row in one.rows())
        may_be = any(is_mimic_columns(row) or row.get("credentialed", "").lower() in ("true", "1") for row in rows)
    if may_be:
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
