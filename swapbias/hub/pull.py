"""What was published, fetched back and checked: datasets, metrics and results as folders, each from one commit."""

import json
import logging
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.audit import parse_manifest, parse_results
from swapbias.errors import HubError, UsageError
from swapbias.hub import header
from swapbias.hub.client import HUB_FILES, Hub, Repo, State, check_names, difference
from swapbias.hub.corpora import recover, standing_in
from swapbias.hub.dataset_card import LICENCES
from swapbias.studies import corpora, load_corpus, metric_path, metrics

CARD = "README.md"
NOTHING_KEPT = "Nothing was kept."
_NAME = re.compile(r"\w[\w.-]*")
_READERS: Mapping[str, Callable[[bytes, str], object]] = {
    "manifest.json": parse_manifest,
    "results.json": parse_results,
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A config as its card declares it: columns in order, and rows by split."""

    columns: tuple[str, ...]
    rows: Mapping[str, int]


def declared(card: bytes, where: str) -> dict[str, Declared]:
    """The configs of a card, which may read files of their own and hold text alone.

    Raises:
        ValueError: it declares something else, such as files from elsewhere or pictures, which are fetched when read.
    """
    told = header.load(header.split(header.decode(card, where)).header, where)
    try:
        splits = {_name(one["config_name"]): _splits(one, where) for one in told["configs"]}
        infos = {_name(one["config_name"]): _info(one, where) for one in told["dataset_info"]}
        known = (len(told["configs"]), len(told["dataset_info"])) == (len(splits), len(infos))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{where}: its header lists no configs with their rows. {NOTHING_KEPT}") from error
    if not known or {name: set(info.rows) for name, info in infos.items()} != splits:
        raise ValueError(f"{where}: its configs and its dataset_info name different ones. {NOTHING_KEPT}")
    return infos


def _name(given: object) -> str:
    """A name of a config or split, which becomes a part of a path.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise TypeError("no name")
    return given


def _splits(config: dict[str, Any], where: str) -> set[str]:
    if not set(config) <= {"config_name", "data_files", "default"}:
        raise ValueError(f"{where}: a config is declared in another way than swapbias does. {NOTHING_KEPT}")
    splits = [_name(one["split"]) for one in config["data_files"]]
    own = [{"split": split, "path": f"{config['config_name']}/{split}-*.parquet"} for split in splits]
    if config["data_files"] != own:
        raise ValueError(f"{where}: a config reads other files than its own. {NOTHING_KEPT}")
    return set(splits)


def _info(info: dict[str, Any], where: str) -> Declared:
    if not set(info) <= {"config_name", "features", "splits", "download_size", "dataset_size"}:
        raise ValueError(f"{where}: a config is declared in another way than swapbias does. {NOTHING_KEPT}")
    columns = tuple(str(one["name"]) for one in info["features"])
    if info["features"] != [{"name": name, "dtype": "string"} for name in columns]:
        raise ValueError(f"{where}: a column is declared as something else than text. {NOTHING_KEPT}")
    rows = {_name(one["name"]): one["num_examples"] for one in info["splits"]}
    if not all(isinstance(number, int) for number in rows.values()):
        raise TypeError("no number")
    return Declared(columns, rows)


def is_declared(name: str, configs: Mapping[str, Declared]) -> bool:
    """Whether a file is one that a config reads."""
    folder, _, file = name.partition("/")
    info = configs.get(folder)
    return info is not None and any(
        file.startswith(f"{split}-") and file.endswith(".parquet") and "/" not in file for split in info.rows
    )


def check_dataset(folder: Path, where: str) -> None:
    """Every config reads, holds text alone and has the rows that the card says.

    Raises:
        ValueError: it does not, or the card reads files from elsewhere.
    """
    card = folder / CARD
    if not card.is_file():
        raise ValueError(f"{where}/{CARD} is missing. {NOTHING_KEPT}")
    configs = declared(card.read_bytes(), f"{where}/{CARD}")
    try:
        for name, config in configs.items():
            for file in sorted((folder / name).glob("*.parquet")):
                _check_columns(file, config, f"{where}/{name}/{file.name}")
        _check_rows(folder, configs, where)
    except ValueError as error:
        if str(error).endswith(NOTHING_KEPT):
            raise
        raise ValueError(_unreadable(where, error)) from error
    except Exception as error:
        raise ValueError(_unreadable(where, error)) from error


def _unreadable(where: str, error: Exception) -> str:
    return f"{where}: it cannot be read as a dataset ({type(error).__name__}). {NOTHING_KEPT}"


def _check_columns(file: Path, config: Declared, where: str) -> None:
    """Columns of strings, also for datasets, which keeps kinds of its own in the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    texts = all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in schema.types)
    features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    kinds = [features[name] for name in features]
    if not texts or not all(kind == {"dtype": "string", "_type": "Value"} for kind in kinds):
        raise ValueError(f"{where}: a column is something else than text. {NOTHING_KEPT}")
    if tuple(schema.names) != config.columns:
        raise ValueError(f"{where}: its columns are not those of the card. {NOTHING_KEPT}")


def _check_rows(folder: Path, configs: Mapping[str, Declared], where: str) -> None:
    from datasets import disable_progress_bars, enable_progress_bars, load_dataset
    from datasets.utils import are_progress_bars_disabled

    shown = not are_progress_bars_disabled()
    chatter = logging.getLogger("datasets")
    level = chatter.level
    disable_progress_bars()
    chatter.setLevel(logging.CRITICAL + 1)  # it names the temporary folder
    try:
        with tempfile.TemporaryDirectory() as cache:
            for name, config in configs.items():
                read = load_dataset(str(folder), name, cache_dir=cache, verification_mode="no_checks")  # but below
                rows = {split: len(read[split]) for split in read}
                del read
                if rows != config.rows:
                    raise ValueError(f"{where}: {name} has {rows} rows, its card says {config.rows}. {NOTHING_KEPT}")
    finally:
        chatter.setLevel(level)
        if shown:
            enable_progress_bars()


def check_metric(folder: Path, where: str) -> None:
    """The module is there; it is not run.

    Raises:
        ValueError: it is not.
    """
    name = where.rpartition("/")[2]
    if not (folder / f"{name}.py").is_file():
        raise ValueError(f"{where} holds no {name}.py. Check its name.")


def check_results(folder: Path, where: str) -> None:
    """Every run can be read.

    Raises:
        ValueError: one cannot, or there is none.
    """
    runs = sorted((folder / "runs").glob("*"))
    if not runs:
        raise ValueError(f"{where} holds no runs. Name a repository made with swapbias share.")
    for run in runs:
        place = f"{where}/runs/{run.name}"
        for name, parse in _READERS.items():
            if not (run / name).is_file():
                raise ValueError(f"{place}: {name} is missing. {NOTHING_KEPT}")
            parse((run / name).read_bytes(), f"{place}/{name}")


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


def pull_repos(hub: Hub, kind: str, repo_name: str, out: Path, *, revision: str = "main") -> Pulled:
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
    names = sorted(name for name in state.files if name not in HUB_FILES)
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
