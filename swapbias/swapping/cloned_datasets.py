"""Files of a cloned dataset: which of them are of one split and one config, so that no two splits are mixed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, listed

_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_WORD = re.compile(
    r"(?:^|[-._ 0-9/])(" + "|".join(sum(_WORDS.values(), ())) + r")(?=[-._ 0-9/]|$)", re.IGNORECASE
)
_SHARD = re.compile(r"(?P<split>[^/]+?)-\d{3,}-of-\d{3,}\.")  # gold-00000-of-00001.parquet
_HEAD = re.compile(r"\s*---\s*\n(?P<yaml>.*?)\n---\s*(?:\n|$)", re.DOTALL)
_OTHERS = "others"
_Config = Mapping[str, Any]
_Patterns = Mapping[str, Sequence[str]]  # by split


def local_folder(name: str) -> tuple[Path, str]:
    """Return the path of ``folder:config`` where there is such a folder, and the config, blank for none.

    Args:
        name: a path, with or without a config.
    """
    folder, _, config = name.rpartition(":")
    if folder and not Path(name).exists() and Path(folder).is_dir():
        return Path(folder), config
    return Path(name), ""


def files_of_split(
    folder: Path, files: Sequence[Path], split: str | None, config: str
) -> list[Path]:
    """Return those files of a folder that are of one config and one split.

    Args:
        folder: the folder.
        files: its files of rows.
        split: the split; None: the only one.
        config: a config of its README.md; blank: the only one, or the default.

    Raises:
        UsageError: no such config or split, or several and none chosen.
    """
    by_split = _declared_files(folder, files, config) or _files_by_name(folder, files)
    if split is not None:
        kept = by_split.get(split) or by_split.get(_usual_name(split), [])
        if not kept:
            raise UsageError(
                f"{folder} has no split {split!r}, there are {listed(by_split)}. Choose another with --split."
            )
        return kept
    if len(by_split) > 1:
        raise UsageError(
            f"{folder} contains files of the splits {listed(by_split)}. Choose one with --split, or give its file."
        )
    return next(iter(by_split.values()), [])


def _usual_name(split: str) -> str:
    """Return the usual name of a split, "validation" for "dev"; one that has none is given back."""
    return next((name for name, words in _WORDS.items() if split.lower() in words), split)


def _files_by_name(folder: Path, files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return files by the split that their name says."""
    by_split: dict[str, list[Path]] = {}
    for file in files:
        path = file.relative_to(folder).as_posix()
        by_split.setdefault(_split_of(path), []).append(file)
    return by_split


def _split_of(path: str) -> str:
    """Return the split that the path of a file says."""
    word = _WORD.search(path)
    if word:
        return _usual_name(word[1])
    shard = _SHARD.match(path.rpartition("/")[2])
    return shard["split"] if shard else _OTHERS


def _declared_files(
    folder: Path, files: Sequence[Path], config: str
) -> dict[str, list[Path]] | None:
    """Return the files of a config by split as README.md declares them, None where it declares no files."""
    declared = _declared_configs(folder)
    configs = dict(_configs(declared))
    default = next((_name_of(entry) for entry in declared if entry.get("default")), "default")
    if config and config not in configs:
        there = f"there are {listed(configs)}" if configs else "its README.md declares none"
        raise UsageError(f"{folder} has no config {config!r}, {there}. Choose another.")
    if not configs:
        return None
    if not config and len(configs) > 1 and default not in configs:
        names = listed(configs)
        raise UsageError(
            f"{folder} has the configs {names}. Choose one: {folder}:{next(iter(configs))}."
        )
    config = config or (default if default in configs else next(iter(configs)))
    by_split = {
        split: [file for file in files if _is_among(file, folder, patterns)]
        for split, patterns in configs[config].items()
    }
    return {split: kept for split, kept in by_split.items() if kept} or None


def _is_among(file: Path, folder: Path, patterns: Sequence[str]) -> bool:
    """Tell whether a file of a folder fits one of some patterns of paths, as datasets reads them."""
    path = file.relative_to(folder).as_posix()
    return any(re.fullmatch(_as_regex(pattern), path) for pattern in patterns)


def _as_regex(pattern: str) -> str:
    """Return the regular expression of a pattern: ``*`` stays within a folder, ``**`` does not."""
    parts = re.split(r"(\*\*/?|\*|\?)", pattern.removeprefix("./"))
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(signs.get(part, re.escape(part)) for part in parts)


def _name_of(declared: _Config) -> str:
    """Return the name of a config."""
    return str(declared.get("config_name", "default"))


def _configs(declared: Sequence[_Config]) -> Iterator[tuple[str, _Patterns]]:
    """Yield the name of each config that declares files, and its patterns of files by split."""
    for config in declared:
        if not config.get("data_files"):
            continue
        within = f"{config['data_dir']}/" if config.get("data_dir") else ""
        patterns = {
            split: [f"{within}{path}" for path in paths]
            for split, paths in _patterns(config["data_files"])
        }
        yield _name_of(config), patterns


def _patterns(declared: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield each split with its patterns, in any of the forms that README.md may have."""
    if isinstance(declared, dict):
        for split, paths in declared.items():
            yield str(split), _as_list(paths)
    elif isinstance(declared, list) and all(isinstance(entry, dict) for entry in declared):
        for entry in declared:
            yield str(entry.get("split", "train")), _as_list(entry.get("path", []))
    else:
        yield "train", _as_list(declared)


def _as_list(paths: Any) -> list[str]:
    return [str(path) for path in paths] if isinstance(paths, list) else [str(paths)]


def declared_classes(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of each column that README.md declares as one of classes.

    Args:
        folder: the folder of a cloned dataset.
    """
    infos = _head(folder).get("dataset_info", [])
    listed_infos = infos if isinstance(infos, list) else [infos]
    configs = [info for info in listed_infos if isinstance(info, dict)]
    columns = {}
    for config in configs:
        for feature in config.get("features") or []:
            try:
                names = feature["dtype"]["class_label"]["names"]
                columns[str(feature["name"])] = tuple(map(str, names.values()))
            except (TypeError, KeyError, AttributeError):
                continue
    return columns


def _declared_configs(folder: Path) -> list[_Config]:
    """Return what README.md declares as configs."""
    configs = _head(folder).get("configs")
    if not isinstance(configs, list):
        return []
    return [config for config in configs if isinstance(config, dict)]


def _head(folder: Path) -> dict[str, Any]:
    """Return the first lines of README.md by name; nothing where they cannot be read."""
    import yaml

    path = folder / "README.md"
    if not path.is_file():
        return {}
    head = _HEAD.match(path.read_text(encoding="utf-8", errors="replace"))
    try:
        declared = yaml.safe_load(head["yaml"]) if head else None
    except yaml.YAMLError:
        return {}
    return declared if isinstance(declared, dict) else {}
