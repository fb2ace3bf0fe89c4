"""What was pulled, held against what it should be, before it is put in place."""

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from swapbias.cards import header
from swapbias.result_files import parse_manifest, parse_results

_DATA_FILE = re.compile(r"[\w.-]+/[\w.-]+-\*\.parquet")
_NAME = re.compile(r"\w[\w.-]*")
_READERS: Mapping[str, Callable[[bytes, str], object]] = {
    "manifest.json": parse_manifest,
    "results.json": parse_results,
}


def check_dataset(folder: Path, where: str) -> None:
    """Every config reads and has the rows that the card says.

    Raises:
        ValueError: it does not, or the card reads files from elsewhere.
    """
    from datasets import disable_progress_bars, enable_progress_bars, load_dataset
    from datasets.utils import are_progress_bars_disabled

    expected = _card_rows(folder / "README.md", f"{where}/README.md")
    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        with tempfile.TemporaryDirectory() as cache:
            for config, splits in expected.items():
                read = load_dataset(str(folder), config, cache_dir=cache, verification_mode="no_checks")  # but below
                rows = {name: len(read[name]) for name in read}
                del read
                if rows != splits:
                    raise ValueError(f"{where}: {config} has {rows} rows, its card says {splits}. Nothing was kept.")
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"{where}: it cannot be read as a dataset ({type(error).__name__}). Nothing was kept."
        ) from error
    finally:
        if shown:
            enable_progress_bars()


def _card_rows(card: Path, where: str) -> dict[str, dict[str, int]]:
    """Rows by config and split, as a card says; nothing in it may point outside the folder."""
    if not card.is_file():
        raise ValueError(f"{where} is missing. Nothing was kept.")
    told = header.load(header.split(header.decode(card.read_bytes(), where)).header, where)
    try:
        for config in told["configs"]:
            if not set(config) <= {"config_name", "data_files", "default"} or not _NAME.fullmatch(
                config["config_name"]
            ):
                raise ValueError(
                    f"{where}: a config is declared in another way than swapbias does. Nothing was kept."
                )
            if not all(_DATA_FILE.fullmatch(one["path"]) for one in config["data_files"]):
                raise ValueError(f"{where}: a config reads other files than its own. Nothing was kept.")
        names = [config["config_name"] for config in told["configs"]]
        rows = {
            one["config_name"]: {split["name"]: split["num_examples"] for split in one["splits"]}
            for one in told["dataset_info"]
        }
    except (TypeError, KeyError) as error:
        raise ValueError(f"{where}: its header lists no configs with their rows. Nothing was kept.") from error
    if sorted(names) != sorted(rows):
        raise ValueError(f"{where}: its configs and its dataset_info name different ones. Nothing was kept.")
    return rows


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
                raise ValueError(f"{place}: {name} is missing. Nothing was kept.")
            parse((run / name).read_bytes(), f"{place}/{name}")
