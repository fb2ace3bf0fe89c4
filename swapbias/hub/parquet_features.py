"""Types of columns in the form that every supported version of ``datasets`` reads."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from datasets import Features

from swapbias.files import whole_file

# The key in the metadata of a Parquet file under which datasets keeps the types of columns.
_KEY = b"huggingface"


def portable_features(features: Features) -> dict[str, Any]:
    """Return the types of columns as ``datasets`` before 4 writes them, which later versions read too.

    >>> from datasets import Value
    >>> portable_features(Features({"words": [Value("string")]}))
    {'words': [{'dtype': 'string', '_type': 'Value'}]}

    Args:
        features: the types of columns.
    """
    return {column: _portable(feature) for column, feature in features.to_dict().items()}


def _portable(feature: Any) -> Any:
    """Return a type with each list as a list of the type that it holds."""
    if not isinstance(feature, dict):
        return feature
    if feature.get("_type") == "List":
        return [_portable(feature["feature"])]
    return {name: _portable(part) for name, part in feature.items()}


def restate_features(path: Path, features: Features) -> None:
    """Write a Parquet file anew, with the same rows and the types of its columns in the portable form.

    Args:
        path: a Parquet file that ``datasets`` wrote.
        features: the types of its columns.
    """
    metadata = {_KEY: json.dumps({"info": {"features": portable_features(features)}})}
    with pq.ParquetFile(path) as table, whole_file(path) as restated:
        schema = table.schema_arrow.with_metadata(metadata)
        with pq.ParquetWriter(restated, schema, write_page_index=True) as writer:
            for group in range(table.num_row_groups):
                writer.write_table(table.read_row_group(group).cast(schema))
