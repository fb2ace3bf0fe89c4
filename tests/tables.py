"""Tables on disk, in every format that is read."""

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq


def rows_of(path, delimiter=","):
    """The rows of a CSV file by name."""
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle, delimiter=delimiter))


def write(path, columns):
    """A file of columns, or of rows by name, in the format of its name."""
    if not isinstance(columns, dict):
        columns = {name: [row[name] for row in columns] for name in columns[0]}
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.lower()
    rows = list(zip(*columns.values(), strict=True))
    if name.endswith(".parquet"):
        pq.write_table(pa.table(columns), path)
        return path
    with (gzip.open if name.endswith(".gz") else open)(
        path, "wt", encoding="utf-8", newline=""
    ) as handle:
        if ".jsonl" in name:
            handle.writelines(
                json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows
            )
        else:
            csv.writer(handle, delimiter="\t" if ".tsv" in name else ",").writerows(
                [columns, *rows]
            )
    return path
