"""What people push and pull, each in turn: trouble with one does not stop the others; and studies of their own."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack

from swapbias import swapping
from swapbias.errors import UsageError, exit_code, listed, log_traceback
from swapbias.hub.cards import CARD
from swapbias.hub.client import Hub
from swapbias.hub.dry_run import DryHub
from swapbias.hub.metric_spaces import FORMS, STATIC, push_metric
from swapbias.hub.pull import DATASET, METRIC, RESULTS, pull_repo, wanted_repos
from swapbias.hub.push import Push, PushOptions, Say, push_repo
from swapbias.hub.repository import Repo
from swapbias.privacy import credentialed, is_credentialed, refuse
from swapbias.studies import (
    Study,
    catalogue,
    corpus_folders,
    load_corpus,
    metric_path,
    studies,
)
from swapbias.studies.own import open_study, own_corpus, own_files, own_source

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
    form: str = STATIC,
    **options: Unpack[PushOptions],
) -> int:
    """Publish corpora as datasets or metrics as Spaces.

    Args:
        kind: DATASET or METRIC.
        names: the names of corpora or metrics; all where none is given.
        namespace: the user or organisation.
        complain: gets a sentence for each that failed.
        form: what shows a metric, one of ``metric_spaces.FORMS``.
        options: the options of each push.

    Returns:
        the exit code, 1 where any failed.

    Raises:
        UsageError: an unknown name, or a namespace that the token may not write to, which is known before the work
            starts.
    """
    from swapbias.hub.datasets import push_dataset

    say = options["say"]
    pushes = list[Push]()
    hub = DryHub(Hub(), namespace, say=complain) if options.get("dry_run") else Hub()
    push: Callable[..., Push]
    if kind == DATASET:
        push = push_dataset
        names = [load_corpus(name).name for name in names or corpus_folders.CORPORA.built_in()]
    else:
        push = partial(push_metric, form=form)
        names = names or catalogue.metrics()
        for name in names:
            metric_path(name)
        if form not in FORMS:
            raise UsageError(f"Unknown form {form!r}: expected one of {listed(FORMS)}.")
    owners = hub.owners()
    if namespace not in owners:
        raise UsageError(
            f"The token may not write to {namespace!r}, expected one of {listed(owners, 'its accounts')}."
        )

    def push_named(name: str) -> None:
        pushed = push(hub, name, namespace=namespace, **options)
        pushes.append(pushed)
        say(pushed.sentence())

    codes = _act_on_all(names, push_named, complain)
    changed = sum(pushed.status != "unchanged" for pushed in pushes)
    verb = "changed"
    if any(pushed.status.startswith("would") for pushed in pushes):
        verb = "would change"
    failed = len(codes) - len(pushes)
    say(f"{len(pushes)} done, {changed} of them {verb}; {failed} failed.")
    return int(any(codes.values()))


def _act_on_all(items: Iterable[str], act: Callable[[str], None], complain: Say) -> dict[str, int]:
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
                file = f"{error.filename}: " if error.filename else ""
                sentence = f"{file}{error.strerror or error}. Check the place and its free space."
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
    revision: str = "",
) -> int:
    """Fetch repositories of a kind to a folder.

    Args:
        kind: DATASET, METRIC or RESULTS.
        names: the names of corpora or metrics, all of the namespace's where none is given; of results OWNER/NAME.
        out: the folder.
        say: gets a line for each.
        complain: gets a sentence for each that failed.
        namespace: owner of the corpora or metrics.
        revision: a branch, tag or commit of each; blank for the tag of the installed version, of results for main.

    Returns:
        the exit code: 0 where everything is there and whole, 1 otherwise, 2 for a wrong name.
    """
    hub = Hub()
    repos = names
    if kind != RESULTS:
        repos = wanted_repos(hub, kind, namespace, names)

    def pull_named(name: str) -> None:
        say(pull_repo(hub, kind, name, out, revision=revision))

    codes = _act_on_all(repos, pull_named, complain)
    if kind in _OF_OTHERS and 0 in codes.values():
        say(_OF_OTHERS[kind])
    return max(codes.values(), default=0)


# --- studies of the user's own ----------------------------------------------------------------------------


def push_study(hub: Hub, folder: Path, repo_name: str, **options: Unpack[PushOptions]) -> Push:
    """Publish a study's folder as a dataset, tagged with its version: its tables, its prompts as Parquet, a card.

    Args:
        hub: the Hub.
        folder: the folder of the study.
        repo_name: OWNER/NAME of the dataset; made where it is not there.
        options: the options of the push.

    Returns:
        the push that was made, or would be.

    Raises:
        UsageError: as ``push_repo``.
        HubError: as ``push_repo``.
        ValueError: a broken study, or a README with a header of its own.
    """
    from swapbias.hub.dataset_card import local_card
    from swapbias.hub.datasets import write_config

    refuse(folder, "published")
    if options.get("dry_run"):
        hub = DryHub(hub, repo_name.partition("/")[0], say=options["say"])
    tables = own_source.study_files(folder)
    corpus = own_corpus.corpus_from_files(tables)
    path = folder / CARD
    readme = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
    if readme.startswith("---"):
        raise ValueError(
            f"{path} begins with a header of its own, expected text. The push writes one: remove it."
        )
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        infos = {}
        for config in corpus.configs:
            infos[config.name] = write_config(Path(scratch) / config.name, corpus, config)
        card = local_card(corpus, infos, is_credentialed=False)
        card += f"\nRun it: `swapbias audit MODEL --study {repo_name}`\n\n{readme}"
        files: dict[str, bytes | Path] = dict(tables)
        for file in sorted(Path(scratch).rglob("*.parquet")):
            files[file.relative_to(scratch).as_posix()] = file
        files[CARD] = card.encode()
        return push_repo(
            hub,
            Repo("dataset", repo_name),
            files,
            tag=f"v{corpus.version}",
            version_hint=f"raise version in study.toml (now {corpus.version})",
            **options,
        )


def pull_study(hub: Hub, repo_name: str, *, revision: str = "main") -> Study:
    """Open a study that somebody pushed, from its tables at one commit; nothing else of it is fetched.

    Args:
        hub: the Hub.
        repo_name: OWNER/NAME of the dataset.
        revision: a branch, tag or commit.

    Returns:
        the study.

    Raises:
        UsageError: no such dataset, or none that holds a study.
        ValueError: a broken study.
    """
    state = hub.existing_state(Repo("dataset", repo_name), revision=revision)
    if own_files.STUDY_FILES[0] not in state.files:
        raise UsageError(
            f"{repo_name} contains no study: it has no {own_files.STUDY_FILES[0]}. Check its name."
        )
    with tempfile.TemporaryDirectory(prefix="swapbias-study-") as folder:
        for name in own_files.STUDY_FILES:
            if name in state.files:
                (Path(folder) / name).write_bytes(hub.content(state, name))
        return open_study(folder, origin=f"{repo_name}@{state.commit}")


def study_name(source: "str | PathLike[str]") -> str:
    """Return the name by which an audit knows a study, with its config; a folder or dataset is opened.

    Args:
        source: a study's name, its folder, or OWNER/NAME of its dataset; each with ``:CONFIG`` or without.

    Returns:
        the name, with ``:CONFIG`` where one is given.

    Raises:
        UsageError: no such folder or dataset.
        ValueError: a broken study.
    """
    text = fspath(source)
    study, colon, config = text.partition(":")
    if study in studies():
        return text
    if _is_folder_name(study):
        folder = Path(study).expanduser()
        if not folder.is_dir():
            raise UsageError(
                f"{study} is no folder of a study. Check it, or write one with swapbias study new."
            )
        if not (folder / own_files.STUDY_FILES[0]).is_file():
            raise UsageError(
                f"{study} contains no {own_files.STUDY_FILES[0]}. Write one with swapbias study new."
            )
        return own_study(Path(study)).name + colon + config
    if study.count("/") != 1:
        return text
    name, _, revision = study.partition("@")
    return pull_study(Hub(), name, revision=revision or "main").name + colon + config


def _is_folder_name(text: str) -> bool:
    """Tell whether a text is written as a folder, or is one of a study."""
    is_path = text.startswith((".", "~", "/")) or "\\" in text
    return is_path or (Path(text) / own_files.STUDY_FILES[0]).is_file()


def study_names(sources: "Iterable[str | PathLike[str]]") -> list[str]:
    """Name studies as ``study_name`` does; a folder or dataset of which several configs are asked is opened once.

    Args:
        sources: names, folders or datasets, each with ``:CONFIG`` or without.

    Returns:
        names, in their order.
    """
    opened: dict[str, str] = {}
    names = []
    for source in sources:
        study, colon, config = fspath(source).partition(":")
        if study not in opened:
            opened[study] = study_name(study)
        names.append(opened[study] + colon + config)
    return names


def own_study(source: Any, **options: Any) -> Study:
    """Open a study of the user's own that holds no credentialed text: a run keeps its prompts.

    Args:
        source: a folder, a file of prompts, or a table, as ``open_study`` takes it.
        options: as ``open_study`` takes them.

    Returns:
        the study.

    Raises:
        UsageError: it may hold credentialed clinical notes.
        ValueError: a broken study.
    """
    path = Path(source).expanduser() if isinstance(source, str | PathLike) else None
    if path is None or not path.exists() or not is_credentialed(path):
        study = swapping.open_study(source, **options)
        if not _has_credentialed_rows(study):
            return study
    prompts = path.name if path else "These prompts"
    raise UsageError(
        f"{prompts} may contain credentialed clinical notes, and a run keeps prompts of your own as they are. Give "
        "notes with -M data to a clinical or chat model; other kinds read only texts that may be kept."
    )


def _has_credentialed_rows(study: Study) -> bool:
    """Tell whether a row of a study is marked, or has the columns of a credentialed table."""
    for config in load_corpus(study.name).configs:
        for row in config.rows():
            is_marked = row.get("credentialed", "").lower() in ("true", "1", "yes")
            if is_marked or credentialed.is_mimic_columns(row):
                return True
    return False
