"""What was pulled, held against what it should be, before it is put in place."""

import json
import logging
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapbias.cards import header
from swapbias.result_files import parse_manifest, parse_results

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
