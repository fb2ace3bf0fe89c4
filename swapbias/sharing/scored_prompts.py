"""Scored prompts as they may leave: the columns that swapbias writes, made anew, and no other."""

import io
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.prompts import PROMPT_COLUMNS
from swapbias.runs import Run
from swapbias.studies import load_corpus, load_study

_TEXTS = ("trial", "model_id", "answer", "top_tokens")  # what an audit writes beside the columns of its prompts
# What scorers give: the score, and the parts that it was made from.
_NUMBERS = re.compile(
    r"score|log_odds|log_odds_per_token|antonym_log_odds|positive_probability|predicted|explained_variance"
    r"|tokens|truncated|non_finite|(closed_list|pruned|top|positive|negative|neutral|irrelevant|unrated)_mass"
    r"|(said|strict)_(correct|incorrect|unsure|other)"
)


def shared_items(run: Run, items: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """The scored prompts of each study as Parquet, by path within the run; the same rows give the same bytes.

    Args:
        run: holds the rows.
        items: the same rows with models by their public names.

    Raises:
        ValueError: a column of numbers or texts holds something else.
    """
    return {f"items/{study}.parquet": _made_anew(run, study, rows) for study, rows in items.items()}


def unknown_columns(path: Path) -> list[str]:
    """The columns of a file of scored prompts that no audit writes, and that do not leave."""
    return [name for name in pq.read_schema(path).names if _type(path.stem, name) is None]


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet, without what its maker noted beside it; the same rows give the same bytes."""
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata().combine_chunks(), buffer)
    return buffer.getvalue()


def _made_anew(run: Run, study: str, rows: pd.DataFrame) -> bytes:
    path = run.folder / "items" / f"{study}.parquet"
    table = pq.read_table(path)
    types = {name: _type(study, name) for name in table.column_names}
    schema = pa.schema([(name, kind) for name, kind in types.items() if kind is not None])
    table = table.select(schema.names)
    names = pa.array(list(rows["model_id"]), pa.string())
    table = table.set_column(table.column_names.index("model_id"), "model_id", names)
    try:
        return parquet(table.cast(schema))
    except pa.ArrowException as error:
        raise ValueError(
            f"{path} holds numbers or texts of another kind than an audit writes. Audit again."
        ) from error


def _type(study: str, column: str) -> pa.DataType | None:
    """The type of a column that an audit writes; None of any other one."""
    if column in _prompt_columns(study) or column in _TEXTS:
        return pa.string()
    return pa.float64() if _NUMBERS.fullmatch(column) else None


@cache
def _prompt_columns(study: str) -> frozenset[str]:
    """The columns of the prompts that a study reads, its own and those made from a corpus of notes."""
    found = set(PROMPT_COLUMNS)
    for one in load_study(study).experiments:
        corpus = load_corpus(one.corpus or study)
        for name in (*one.configs, *one.alternatives):
            found.update(corpus.config(name).columns)
    return frozenset(found)
