"""A table of hard lines: what each becomes and that it comes back, in memory, in files and in a map."""

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from swapbias.swapping import Job, Swapper, swap_files
from tests.cli.test_cli import swapbias

with (Path(__file__).parent / "lines.csv").open(newline="", encoding="utf-8") as handle:
    LINES = [(row["text"], row["swapped"]) for row in csv.DictReader(handle)]
TEXTS, SWAPPED = ([line[at] for line in LINES] for at in (0, 1))
SWAPPER = Swapper()


def test_the_table_has_lines_that_stay_and_lines_that_change():
    same = sum(text == swapped for text, swapped in LINES)
    assert len(set(TEXTS)) == len(LINES) >= 60
    assert min(same, len(LINES) - same) >= 30
    assert SWAPPER.swap(SWAPPER.swap(["Mrs. Smith", "Miss Smith"])) == ["Ms. Smith", "Ms Smith"]


@pytest.mark.parametrize(("text", "swapped"), LINES)
def test_a_line_is_swapped_and_comes_back(text, swapped):
    assert SWAPPER.swap([text]) == [swapped]
    assert SWAPPER.swap([swapped]) == [text]


@pytest.mark.parametrize("processes", [1, 2])
def test_files_are_swapped_as_texts_in_memory_are(tmp_path, processes):
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "lines.parquet", row_group_size=7)
    swap_files(Job(str(tmp_path / "lines.parquet")), tmp_path / "out", processes=processes)
    parts = sorted((tmp_path / "out").glob("data/*.parquet"))
    assert [text for part in parts for text in pq.read_table(part)["text"].to_pylist()] == SWAPPED


def test_the_command_and_map_swap_as_texts_in_memory_are(tmp_path):
    source = Path(__file__).parent / "lines.csv"
    assert swapbias("swap", source, "--column", "text", "--out", tmp_path / "out").returncode == 0
    (part,) = (tmp_path / "out").glob("data/*.parquet")
    assert pq.read_table(part)["text"].to_pylist() == SWAPPED
    mapped = Dataset.from_dict({"text": TEXTS}).map(
        lambda batch: {"text": SWAPPER.swap(batch["text"])}, batched=True, batch_size=7, keep_in_memory=True
    )
    assert list(mapped["text"]) == SWAPPED
