"""What people push and pull, each in turn: trouble with one does not stop the others; and studies of their own."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack

from swapbias import swapping
from swapbias.errors import HubError, UsageError, exit_code, listed, log_traceback
from swapbias.files import atomic_directory
from swapbias.hub.cards import CARD
from swapbias.hub.client import Hub, Push, PushOptions, Repo, Say, difference, push_repo
from swapbias.hub.dry_run import DryHub
from swapbias.hub.metric_spaces import push_metric, shipped
from swapbias.privacy import credentialed, is_credentialed, refuse
from swapbias.studies import (
    Study,
    catalogue,
    corpora,
    corpus_folders,
    load_corpus,
    metric_path,
    studies,
)
from swapbias.studies.own import open_study, own_corpus, own_files, own_source

DATASET = "dataset"
METRIC = "metric"
RESULTS = "results"
_KINDS = {
    DATASET: "dataset",
    METRIC: "space",
    RESULTS: "dataset",
}  # as the Hub calls the repository
_FETCHED = {  # nothing else comes: of what runs, the module of a metric and those of ours that lie beside it
    DATASET: r"README\.md|LICENSES\.md|\w[\w.-]*/[\w.-]+\.parquet",
    METRIC: r"(?:{name}|{shipped}|app)\.py|README\.md|requirements\.txt",
    RESULTS: r"README\.md|runs/[\w.-]+/(?:[\w. -]+/)?[\w. -]+\.(?:json|jsonl|csv|parquet|html|svg|png)",
}
_OF_OTHERS = {
    METRIC: "A metric is code of its owner: read it before you load it.",
    RESULTS: "Reports and figures are files of their owners: open them as you would a page of a stranger's.",
}


def push_all(
    kind: str,
    names: Sequence[str],
    *,
    namespace: str,
    complain: Say,
    **options: Unpack[PushOptions],
) -> int:
    """Publish corpora as datasets or metrics as Spaces, all by default; the exit code.

    ``complain`` gets a sentence for each that failed. UsageError: an unknown name, or a namespace that the token may
    not write to, which is known before the work starts.
    """
    from swapbias.hub.datasets import push_dataset

    say = options["say"]
    done = list[Push]()
    hub = DryHub(Hub(), namespace, say=complain) if options.get("dry_run") else Hub()
    push: Callable[..., Push] = push_dataset if kind == DATASET else push_metric
    chosen = (
        [load_corpus(name).name for name in names or corpus_folders.CORPORA.built_in()]
        if kind == DATASET
        else names or catalogue.metrics()
    )
    for name in chosen if kind == METRIC else ():
        metric_path(name)
    if namespace not in (owners := hub.owners()):
        raise UsageError(
            f"The token may not write to {namespace!r}, expected one of {listed(owners, 'its accounts')}."
        )

    def one(name: str) -> None:
        made = push(hub, name, namespace=namespace, **options)
        done.append(made)
        at = f" at {made.commit[:12]}" if made.commit else ""
        say(
            f"{made.repo.name}: {made.status}{' (private)' if made.private else ''}, {made.tag}{at}"
        )

    codes = _each(chosen, one, complain)
    changed = sum(one.status != "unchanged" for one in done)
    what = "would change" if any(one.status.startswith("would") for one in done) else "changed"
    say(f"{len(done)} done, {changed} of them {what}; {len(codes) - len(done)} failed.")
    return int(any(codes.values()))


def _each(items: Iterable[Any], act: Callable[[Any], None], complain: Say) -> dict[Any, int]:
    """Act on each, and complain of those that fail; the exit code of each."""
    codes = dict.fromkeys(items, 0)
    for item in codes:
        try:
            act(item)
        except (ValueError, OSError) as error:
            log_traceback(error)
            codes[item] = exit_code(error)
            sentence = str(error)
            if isinstance(error, OSError):
                place = f"{error.filename}: " if error.filename else ""
                sentence = f"{place}{error.strerror or error}. Check the place and its free space."
            complain(f"swapbias: {item}: {' '.join(sentence.split())}")
    return codes


# --- pull ---------------------------------------------------------------------------------------------------


def pull_all(
    kind: str,
    names: Sequence[str],
    *,
    out: Path,
    say: Say,
    complain: Say,
    namespace: str = "",
    revision: str = "main",
) -> int:
    """Fetch repositories of a kind to a folder: of a namespace those named, all by default; results by OWNER/NAME.

    The exit code: 0 where everything is there and whole, 1 otherwise, 2 for a wrong name.
    """
    hub = Hub()
    repos = names if kind == RESULTS else wanted_repos(hub, kind, namespace, names)
    codes = _each(
        repos, lambda name: say(pull_repo(hub, kind, name, out, revision=revision)), complain
    )
    if kind in _OF_OTHERS and 0 in codes.values():
        say(_OF_OTHERS[kind])
    return max(codes.values(), default=0)


def wanted_repos(hub: Hub, kind: str, namespace: str, names: Sequence[str]) -> list[str]:
    """The datasets or metrics of an owner by those names, all that the package knows by default; UsageError: none."""
    for name in names:
        load_corpus(name) if kind == DATASET else metric_path(name)
    if names:
        return [f"{namespace}/{name}" for name in dict.fromkeys(names)]
    Repo(_KINDS[kind], f"{namespace}/all")  # a namespace that cannot be one is refused
    there = hub.repos(namespace, _KINDS[kind])
    known = corpora() if kind == DATASET else catalogue.metrics()
    found = [f"{namespace}/{name}" for name in known if f"{namespace}/{name}" in there]
    if not found:
        raise UsageError(
            f"{namespace} has no {kind} of swapbias that can be seen. Check the name, or log in."
        )
    return found


def pull_repo(hub: Hub, kind: str, repo_name: str, out: Path, *, revision: str = "main") -> str:
    """Fetch a repository to the new folder ``out/NAME`` (results: ``out/OWNER/NAME``); a sentence that says so.

    UsageError: no such repository, or something else in its place, which is never replaced. ValueError: it has no
    files of its kind. HubError: the Hub refuses, or other files came than it lists.
    """
    repo = Repo(_KINDS[kind], repo_name)
    name = repo_name.rpartition("/")[2]
    target = out / (repo_name if kind == RESULTS else name)
    state = hub.existing_state(repo, revision=revision)
    pattern = (
        _FETCHED[kind].replace("{shipped}", "|".join(shipped())).replace("{name}", re.escape(name))
    )
    wanted = [path for path in state.files if re.fullmatch(pattern, path)]
    if not set(wanted) - {CARD}:
        raise ValueError(f"{repo_name} holds no {kind} of swapbias. Check its name.")
    files = {one.relative_to(target).as_posix(): one for one in target.rglob("*") if one.is_file()}
    there = {path: file for path, file in files.items() if re.fullmatch(pattern, path)}
    done = f"{len(wanted)} of {len(state.files)} files"
    if there.keys() == {*wanted} and not difference(state, there).write:
        done = "unchanged"
    else:
        with atomic_directory(target, new=True) as making:
            files = {path: making / path for path in wanted}
            for path, cached in hub.fetch(state, wanted).items():
                files[path].parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(cached, files[path])
            if difference(state, files).write:
                raise HubError(
                    f"{repo_name}: other files came than it lists. Run the command again."
                )
    version = f"{revision} ({state.commit[:8]})" if revision in state.tags else state.commit[:8]
    return f"{repo_name} {version}: {done} in {target}"


# --- studies of the user's own ----------------------------------------------------------------------------


def push_study(hub: Hub, folder: Path, repo_name: str, **options: Unpack[PushOptions]) -> Push:
    """Publish a study's folder as a dataset, tagged with its version: its tables, its prompts as Parquet, a card.

    UsageError, HubError: as ``push_repo``. ValueError: a broken study, or a README with a header of its own.
    """
    from swapbias.hub.datasets import local_card, write_config

    refuse(folder, "published")
    if options.get("dry_run"):
        hub = DryHub(hub, repo_name.partition("/")[0], say=options["say"])
    tables = own_source.study_files(folder)
    corpus = own_corpus.corpus_from_files(tables)
    readme = folder / CARD
    own = readme.read_text(encoding="utf-8-sig") if readme.is_file() else ""
    if own.startswith("---"):
        raise ValueError(
            f"{readme} begins with a header of its own, expected text. The push writes one: remove it."
        )
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        infos = {
            one.name: write_config(Path(scratch) / one.name, corpus, one) for one in corpus.configs
        }
        parquet = {
            path.relative_to(scratch).as_posix(): path
            for path in sorted(Path(scratch).rglob("*.parquet"))
        }
        card = local_card(corpus, infos, is_credentialed=False)
        card += f"\nRun it: `swapbias audit MODEL --study {repo_name}`\n\n{own}"
        files: dict[str, bytes | Path] = {**tables, **parquet, CARD: card.encode()}
        tag = f"v{corpus.version}"
        hint = f"raise version in study.toml (now {corpus.version})"
        return push_repo(
            hub, Repo("dataset", repo_name), files, tag=tag, version_hint=hint, **options
        )


def pull_study(hub: Hub, repo_name: str, *, revision: str = "main") -> Study:
    """A study that somebody pushed, opened from its tables at one commit; nothing else of it is fetched.

    UsageError: no such dataset, or none that holds a study. ValueError: a broken study.
    """
    state = hub.existing_state(Repo("dataset", repo_name), revision=revision)
    if own_files.STUDY_FILES[0] not in state.files:
        raise UsageError(
            f"{repo_name} holds no study: it has no {own_files.STUDY_FILES[0]}. Check its name."
        )
    with tempfile.TemporaryDirectory(prefix="swapbias-study-") as folder:
        for name in own_files.STUDY_FILES:
            if name in state.files:
                (Path(folder) / name).write_bytes(hub.content(state, name))
        return open_study(folder, origin=f"{repo_name}@{state.commit}")


def study_name(named: "str | PathLike[str]") -> str:
    """What an audit knows a study by, with its config: its name, or that of the folder or dataset, which is opened.

    UsageError: no such folder or dataset. ValueError: a broken study.
    """
    place, colon, config = fspath(named).partition(":")
    if place in studies():
        return fspath(named)
    if (
        place.startswith((".", "~", "/"))
        or "\\" in place
        or (Path(place) / own_files.STUDY_FILES[0]).is_file()
    ):
        if not Path(place).expanduser().is_dir():
            raise UsageError(
                f"{place} is no folder of a study. Check it, or write one with swapbias study new."
            )
        if not (Path(place).expanduser() / own_files.STUDY_FILES[0]).is_file():
            raise UsageError(
                f"{place} holds no {own_files.STUDY_FILES[0]}. Write one with swapbias study new."
            )
        return own_study(Path(place)).name + colon + config
    if place.count("/") != 1:
        return fspath(named)
    name, _, revision = place.partition("@")
    return pull_study(Hub(), name, revision=revision or "main").name + colon + config


def study_names(places: "Iterable[str | PathLike[str]]") -> list[str]:
    """Name studies as ``study_name`` does; a folder or dataset of which several configs are asked is opened once."""
    opened: dict[str, str] = {}
    names = []
    for named in places:
        place, colon, config = fspath(named).partition(":")
        if place not in opened:
            opened[place] = study_name(place)
        names.append(opened[place] + colon + config)
    return names


def own_study(source: Any, **options: Any) -> Study:
    """``open_study`` of what is no credentialed text, else UsageError: a run keeps its prompts."""
    place = Path(source).expanduser() if isinstance(source, str | PathLike) else None
    may_be = place is not None and place.exists() and is_credentialed(place)
    if not may_be:
        study = swapping.open_study(source, **options)
        rows = (row for one in load_corpus(study.name).configs for row in one.rows())
        marks = ("true", "1", "yes")
        may_be = any(
            credentialed.is_mimic_columns(row) or row.get("credentialed", "").lower() in marks
            for row in rows
        )
    if may_be:
        raise UsageError(
            f"{place.name if place else 'These prompts'} may hold credentialed clinical notes, and a run keeps "
            "prompts of your own as they are. Give notes with -M data."
        )
    return study
