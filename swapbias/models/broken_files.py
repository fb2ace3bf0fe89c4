"""Files of a model that are not what their names say: pointers of Git LFS, cut off, empty, or absent."""

import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swapbias.errors import first_line
from swapbias.files import parse_json
from swapbias.models.model_names import weight_files

_POINTER = b"version https://git-lfs"
_ARCHIVE = b"PK\x03\x04"
_PAGE = re.compile(rb"\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
_BEGINNING = 64  # bytes of a file
_SIZE_BYTES = 8  # of the size of the header, with which a file of safetensors begins
_METADATA = "__metadata__"
_LARGEST_HEADER = 100_000_000  # bytes that safetensors allows
_AGAIN = "Download it again."
_PART = re.compile(r"-\d+-of-\d+\.")
_TEXTS = (".txt", ".jinja", ".model", ".codes", ".spm")
_JSON_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
)  # fmt: skip
_INDEXES = {
    "model.safetensors": "model.safetensors.index.json",
    "pytorch_model.bin": "pytorch_model.bin.index.json",
}
"""The file of weights that is read first, and the list of those that are read in its place."""


def refuse_broken_files(folder: Path) -> None:
    """Refuse a model or adapter of which a file that is read was not fetched, or not whole.

    Args:
        folder: its folder, or any other path.

    Raises:
        ValueError: A file is a pointer of Git LFS, empty, cut off, no JSON, a web page, or absent.
    """
    if not folder.is_dir():
        return
    names = sorted(os.listdir(folder))
    for name in names:
        if name.endswith((*_TEXTS, ".json")):
            refuse_broken_file(folder / name)
    for single, index in _INDEXES.items():
        if single in names:
            break
        if index in names:
            _refuse_absent_files(folder, index, names)
            break
    weights = weight_files(names)
    if any(map(_PART.search, weights)) and not {*_INDEXES.values()} & {*names}:
        raise ValueError(
            f"{folder} has its weights in parts, and no {_INDEXES['model.safetensors']}, which lists them. {_AGAIN}"
        )
    for name in weights:
        _refuse_broken_weights(folder / name)


def refuse_broken_file(path: Path) -> None:
    """Refuse a text file that was not fetched, or not whole.

    Args:
        path: the file, which may not exist.

    Raises:
        ValueError: It is a pointer of Git LFS, or JSON of a tokenizer or a list of files that cannot be read.
    """
    if not path.is_file():
        return
    _refuse_pointer(path)
    if path.name in _JSON_FILES or path.name in _INDEXES.values():
        _read_json(path)


def _refuse_pointer(path: Path) -> bytes:
    """Return the beginning of a file; a ValueError for a pointer of Git LFS."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if beginning.startswith(_POINTER):
        raise ValueError(
            f"{path} is a pointer of Git LFS, and the file itself was not fetched. Run git lfs pull in its folder."
        )
    return beginning


def _read_json(path: Path) -> Any:
    """Return what a JSON file holds; a ValueError where it cannot be read."""
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        fault = f"{path} is no JSON, or is cut off ({first_line(error)}). {_AGAIN}"
        raise ValueError(fault) from error


def _refuse_absent_files(folder: Path, index: str, names: list[str]) -> None:
    """Raise a ValueError where files that hold weights by their list are not there."""
    content = _read_json(folder / index)
    places = content.get("weight_map") if isinstance(content, Mapping) else None
    if not isinstance(places, Mapping) or not places:
        raise ValueError(f"{folder / index} lists no files of weights. {_AGAIN}")
    files = sorted({str(file) for file in places.values()})
    absent = [file for file in files if file not in names]
    if absent:
        raise ValueError(
            f"{folder} lacks {len(absent)} of the {len(files)} files of its weights, first {absent[0]}. "
            "Download them again."
        )
    for file in files:
        listed = {key for key, stored_in in places.items() if stored_in == file}
        tensors, _ = _header(folder / file)
        if tensors and not listed & tensors.keys():
            raise ValueError(
                f"{folder / file} has none of the weights that {index} lists in it. {_AGAIN}"
            )


def _refuse_broken_weights(path: Path) -> None:
    """Raise a ValueError for a file of weights that is a pointer, empty, cut off or something else."""
    beginning = _refuse_pointer(path)
    if not beginning:
        raise ValueError(f"{path} is empty. {_AGAIN}")
    if _PAGE.match(beginning):
        raise ValueError(f"{path} is a web page and has no weights. {_AGAIN}")
    if path.suffix == ".safetensors":
        _refuse_cut_tensors(path)
    elif beginning.startswith(_ARCHIVE) and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is cut off. {_AGAIN}")


def _refuse_cut_tensors(path: Path) -> None:
    """Raise a ValueError for a file of safetensors whose size is not that which its header says."""
    tensors, data_begins = _header(path)
    size = path.stat().st_size
    expected = data_begins + max(_ends(tensors), default=0)
    if not tensors or size < expected:
        sizes = f": it has {size:,} of {expected:,} bytes" if tensors else ", or is no safetensors"
        raise ValueError(f"{path} is cut off{sizes}. {_AGAIN}")


def _ends(tensors: Mapping[str, Any]) -> Iterator[int]:
    """Yield where the data of each tensor ends, by the header of a file, whoever wrote it."""
    for tensor in tensors.values():
        offsets = tensor.get("data_offsets") if isinstance(tensor, Mapping) else None
        match offsets:
            case [int(), int() as end]:
                yield end


def _header(path: Path) -> tuple[Mapping[str, Any], int]:
    """Return the tensors that a file of safetensors lists by name, and where their data begin.

    No tensors are those of any other file, and of one whose header is broken.
    """
    nothing: tuple[Mapping[str, Any], int] = ({}, 0)
    if path.suffix != ".safetensors":
        return nothing
    with path.open("rb") as file:
        size = int.from_bytes(file.read(_SIZE_BYTES), "little")
        if size > min(_LARGEST_HEADER, path.stat().st_size):
            return nothing
        header = file.read(size)
    try:
        tensors = parse_json(header)
    except ValueError:
        return nothing
    if not isinstance(tensors, Mapping):
        return nothing
    return {key: tensor for key, tensor in tensors.items() if key != _METADATA}, _SIZE_BYTES + size
