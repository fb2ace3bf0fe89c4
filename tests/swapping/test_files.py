"""Swapping whole files: every format and mode, resuming, bounded batches, one sentence for every
error."""

import csv
import gzip
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields, replace

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.swapping import Job, swap_files
from swapbias.swapping.readers import open_source
from swapbias.swapping.row_formats import LONGEST
from swapbias.swapping.swapped_rows import Totals
from tests.cli.test_cli import swapbias
from tests.conftest import ROOT
from tests.tables import write

# "he" and "she" are replaced once each; "Nothing" not at all; quotes, commas and newlines must survive.
TEXTS = [
    'He said "no",\nthen left.',
    "",
    "Nothing here.",
    "She is 40, NA",
    "She, she and he.",
    "Pregnant woman.",
]
SWAPPED = [
    'She said "no",\nthen left.',
    "",
    "Nothing here.",
    "He is 40, NA",
    "He, he and she.",
    "Pregnant man.",
]
NEUTRAL = [
    'They said "no",\nthen left.',
    "",
    "Nothing here.",
    "They are 40, NA",
    "They, they and they.",
    "Pregnant person.",
]
IDS = ["007", "NA", "", "3.0", "1e5", "null"]  # text that a guessing reader would change
COLUMNS = {"id": IDS, "text": TEXTS}
VERSIONS = ["original", "swapped"]


def run(source, out, **options):
    """The rows written, and what swap_files gave."""
    of_job = {field.name: options.pop(field.name) for field in fields(Job) if field.name in options}
    done = swap_files(Job(str(source), **of_job), out, **options)
    return rows_of(out), done


def parts_of(out):
    return sorted(out.glob("data/*.parquet"))


def rows_of(out):
    return [row for part in parts_of(out) for row in pq.read_table(part).to_pylist()]


def manifest(out):
    return json.loads((out / "swap.json").read_text())


PLAIN = {
    "id": IDS, "text": SWAPPED, "swapbias_replaced": [1, 0, 0, 1, 3, 1],
    "swapbias_specific": [0, 0, 0, 0, 0, 1],  # pregnant
}  # fmt: skip
FILES = ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"]
AUGMENTED = [text for pair in zip(TEXTS, SWAPPED, strict=True) for text in pair]
PAIRED = {  # He | She | She, she and he (2 of 3) | woman
    "pair_id": ["0", "0", "3", "3", "4", "4", "5", "5"], "swapbias_version": VERSIONS * 4,
    "group": ["male", "female", *["female", "male"] * 3],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        *((name, "swap", PLAIN) for name in FILES),
        ("a.csv", "neutralise", {"text": NEUTRAL}),
        ("a.csv", "augment", {"text": AUGMENTED, "swapbias_version": VERSIONS * 6}),
        ("a.csv", "pairs", PAIRED),
    ],
)
def test_formats_and_modes(tmp_path, name, mode, expected):
    """Every format gives the same rows, and every mode its columns."""
    rows, _ = run(write(tmp_path / name, COLUMNS), tmp_path / "out", mode=mode)
    assert {column: [row[column] for row in rows] for column in expected} == expected


TYPES = {
    "n": [1, None, 3],
    "x": [0.5, 1.5, None],
    "flag": [True, None, False],
    "when": ["2020-01-01", None, "2021-05-05T00:00:00Z"],  # looks like a time, is text
    "labels": [["a", "b"], [], None],
    "visit": [{"day": 1, "text": "a"}, None, {"day": 2, "text": "b"}],
    "text": ["he", None, "she"],
}
PARQUET_TYPES = {
    "day": pa.array([1, 2, None], pa.date32()),
    "small": pa.array([1, 2, 3], pa.int8()),
}
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", [None, *KINDS], ids=str)
def test_types_and_null_texts(tmp_path, kind):
    """Types and null texts stay, and the footer of a file repeats no text."""
    columns = (
        TYPES
        if kind is None
        else TYPES | PARQUET_TYPES | {"text": pa.array(TYPES["text"]).cast(kind)}
    )
    path = write(tmp_path / ("a.jsonl" if kind is None else "a.parquet"), columns)
    rows, done = run(path, tmp_path / "out")
    (part,) = parts_of(tmp_path / "out")
    expected = pa.table(columns).drop_columns("text")
    assert pq.read_table(part).select(expected.column_names).equals(expected)
    assert [row["text"] for row in rows] == ["she", None, "he"]
    assert done.totals.rows_replaced == 2
    footer = pq.read_metadata(part).row_group(0)
    stored = {
        footer.column(at).path_in_schema: footer.column(at).is_stats_set
        for at in range(footer.num_columns)
    }
    assert stored["text"] is False
    assert stored["swapbias_replaced"]  # readers skip rows by it


@pytest.mark.parametrize(
    "name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.parquet", "one.parquet"]
)
def test_too_long_text(tmp_path, name):
    """A text that is too long is refused with one sentence in every format."""
    long = "SECRET " * (LONGEST // 6)
    texts = [long] if name == "one.parquet" else ["he", long, "she"]
    path = write(tmp_path / name, {"id": ["1"] * len(texts), "text": texts})
    with pytest.raises(ValueError, match=r"longer than 8 MB") as caught:
        list(open_source(str(path), "text").read(1_000))
    assert re.search(r"row 3|a row|row [12] below", str(caught.value))
    assert "SECRET" not in str(caught.value)
    texts[len(texts) // 2] = "he " * (LONGEST // 4)
    path = write(tmp_path / name, {"id": ["1"] * len(texts), "text": texts})
    assert sum(len(batch) for batch, _ in open_source(str(path), "text").read(1_000)) == len(texts)


def test_progress_bar(tmp_path, monkeypatch):
    """The bar is full when all is swapped, not when all is read."""
    monkeypatch.setattr("swapbias.swapping.row_formats.LONGEST", 1 << 16)
    source = open_source(
        str(write(tmp_path / "a.csv", {"text": ["She is here. " * 20] * 2_000})), "text"
    )
    shares = [position / source.size for _, position in source.read(2_000)]
    assert shares == sorted(shares)
    assert (shares[0] < 0.2, shares[len(shares) // 2] < 0.7, shares[-1]) == (True, True, 1)


def test_late_json_type(tmp_path):
    """A JSON type that shows late in a file is known from the start, and a contradiction is
    refused."""

    def written(name, rows):
        return content(tmp_path / name, "\n".join(map(json.dumps, rows)).encode())

    # the first chunk of about 4 MB has "late" only as null and "n" only as whole numbers
    rows = [{"text": "he " * 200_000, "n": 1, "late": None}] * 10 + [
        {"text": "she", "n": 2.5, "late": "x", "new": 1}
    ]
    found, _ = run(written("a.jsonl", rows), tmp_path / "out")
    assert [row["n"] for row in found] == [1.0] * 10 + [2.5]
    assert found[0]["late"] is None
    assert (found[-1]["late"], found[-1]["new"], found[-1]["text"]) == ("x", 1, "he")
    rows = [{"text": "x" * 3_000_000, "n": 1}] * 2 + [{"text": "he", "n": "one"}]
    with pytest.raises(
        ValueError, match="lines 3 to 3: column 'n' contains values of more than one type"
    ):
        run(written("b.jsonl", rows), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.parquet"])
def test_file_without_rows(tmp_path, name):
    """A file without rows gives a part without rows."""
    columns = {"id": pa.array([], pa.string()), "text": pa.array([], pa.string())}
    rows, done = run(write(tmp_path / name, columns), tmp_path / "out", mode="pairs")
    assert (rows, done.totals, manifest(tmp_path / "out")["status"]) == ([], Totals(), "complete")
    assert "group" in pq.read_schema(tmp_path / "out/data/part-00000.parquet").names


def test_folder_in_order_of_names(tmp_path):
    """The files of a folder are read in the order of their names."""
    write(tmp_path / "in/b.csv", {"id": ["2"], "text": ["he"]})
    write(tmp_path / "in/a.csv.gz", {"text": ["she"], "id": ["1"]})  # same columns in another order
    content(tmp_path / "in/notes.txt", b"not read")
    rows, _ = run(tmp_path / "in", tmp_path / "out", mode="pairs")
    assert [(row["id"], row["text"], row["pair_id"]) for row in rows] == [
        ("1", "she", "0"),
        ("1", "he", "0"),
        ("2", "he", "1"),
        ("2", "she", "1"),
    ]
    columns = {"note_id": ["n-1", None, "n-3"], "text": ["he", "he and she", "none"]}
    rows, done = run(write(tmp_path / "a.parquet", columns), tmp_path / "other", mode="pairs")
    assert [row["pair_id"] for row in rows] == [
        "n-1",
        "n-1",
        "1",
        "1",
    ]  # row 1 has no id of its own
    assert [row["group"] for row in rows] == [
        "male",
        "female",
        "",
        "",
    ]  # as many words of both sides: no group
    assert done.totals.rows_left_out == 1


def test_files_of_a_built_corpus(tmp_path):
    """The files of a built corpus are found in its folders, and several configs are refused."""
    for config in ("pairs", "original"):
        write(tmp_path / "corpus" / config / "train.parquet", {"text": ["he"]})
    with pytest.raises(UsageError, match=r"corpus/original.*corpus/pairs.*Give one of them"):
        run(tmp_path / "corpus", tmp_path / "out")
    (tmp_path / "corpus/original/train.parquet").unlink()
    rows, _ = run(tmp_path / "corpus", tmp_path / "again")
    assert [row["text"] for row in rows] == ["she"]


def test_gender_of_the_swapped_text(tmp_path):
    """A column of genders holds the gender of the swapped text."""
    columns = {
        "sex": ["F", "M", "U", "F"],
        "text": ["she", "he", "her leg", "no one"],  # nothing is swapped in the last
        "patient_gender": ["Female", "male", "", None],
    }
    source = write(tmp_path / "a.parquet", columns)
    for mode, sexes in (("augment", "FMMFUUFF"), ("pairs", "FMMFUU"), ("neutralise", "FMUF")):
        rows, done = run(source, tmp_path / mode, mode=mode)
        assert "".join(row["sex"] for row in rows) == sexes
        assert done.totals.rows_left_out == (mode == "pairs")
        if mode == "augment":
            found = [row["patient_gender"] for row in rows]
            assert found == ["Female", "Male", "male", "female", "", "", None, None]


def test_implausible_rows(tmp_path):
    """Implausible rows are left out on request and counted."""
    texts = [
        "She had a mammogram.",
        "He is G2P1.",
        "She has para-aortic nodes.",
        "Tamsulosin.",
        "He left.",
    ]
    source = write(tmp_path / "a.csv", {"text": texts})
    for mode, kept, left in (
        ("swap", [2, 4], 3),
        ("pairs", [2, 2, 4, 4], 2),
        ("augment", [0, 1, 2, 2, 3, 4, 4], 3),
    ):
        rows, done = run(source, tmp_path / mode, mode=mode, plausible=True)
        assert [row["swapbias_specific"] for row in rows] == [int(at in (0, 1, 3)) for at in kept]
        assert done.totals.rows_implausible == left
    assert done.totals.rows_specific == 3
    assert done.totals.specific_terms == {"mammogram": 1, "G#P#": 1, "tamsulosin": 1}


def test_report_adds_up(tmp_path):
    """The counts of the report add up."""
    _, done = run(write(tmp_path / "a.csv", COLUMNS), tmp_path / "out")
    totals = done.totals
    assert (totals.rows_read, totals.rows_written, totals.rows_replaced, totals.rows_specific) == (
        6,
        6,
        4,
        1,
    )
    assert totals.terms == {"he -> she": 2, "she -> he": 3, "woman -> man": 1}
    assert totals.text_bytes == sum(len(text) for text in TEXTS)
    with (tmp_path / "out/report.csv").open(newline="") as handle:
        report = {(row["kind"], row["term"]): int(row["count"]) for row in csv.DictReader(handle)}
    assert report[("replaced", "she -> he")] == 3
    assert report[("specific", "pregnant")] == 1
    assert manifest(tmp_path / "out")["totals"]["terms"] == dict(totals.terms)
    assert manifest(tmp_path / "out")["parts"] == 1
    run(
        write(tmp_path / "a.csv", {"text": ["abcd", "ab", "abcdef", "a"]}),
        tmp_path / "other",
        part_bytes=6,
    )
    # 4 + 2 = 6 | 6 | 1
    assert [pq.read_metadata(part).num_rows for part in parts_of(tmp_path / "other")] == [2, 1, 1]


def test_folder_is_a_dataset(tmp_path):
    """The folder loads as a data set."""
    run(write(tmp_path / "a.csv", COLUMNS), tmp_path / "out", part_bytes=20)
    assert len(parts_of(tmp_path / "out")) > 1
    data = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert data["train"]["text"][:] == SWAPPED


def many(rows=60):
    """Texts of 3 to 3 + 4 * 6 bytes; every third row has nothing to replace."""
    texts = [
        " ".join(["he" if row % 2 else "she"] * (row % 7 + 1)) if row % 3 else "nix"
        for row in range(rows)
    ]
    return {"id": [str(row) for row in range(rows)], "text": texts}


@pytest.mark.parametrize("mode", ["swap", "pairs"])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_batches_parts_and_processes(tmp_path, name, mode):
    """Batch rows, part bytes and processes do not change the rows."""
    source = write(tmp_path / name, many())
    expected, done = run(source, tmp_path / "whole", mode=mode)
    sizes = []
    several = 2 if (name, mode) == ("a.csv", "pairs") else 1
    for batch_rows, part_bytes, processes in ((1, 1, 1), (7, 100, several), (1000, 100, 1)):
        out = tmp_path / f"{batch_rows}-{part_bytes}"
        how = {"batch_rows": batch_rows, "part_bytes": part_bytes, "processes": processes}
        rows, other = run(source, out, mode=mode, **how)
        assert rows == expected
        assert other.totals == done.totals
        sizes.append([pq.read_metadata(part).num_rows for part in parts_of(out)])
    assert sizes[1] == sizes[2]  # parts end at the same rows, whatever the batches
    assert len(sizes[1]) > 3


def test_flipped_bit_of_a_part(tmp_path):
    """A flipped bit of a part is an error when it is read."""
    run(write(tmp_path / "a.csv", many()), tmp_path / "out")
    (part,) = parts_of(tmp_path / "out")
    data = part.read_bytes()
    part.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])  # of the first page
    with pytest.raises(ValueError, match="no whole Parquet file"):
        list(open_source(str(part), "text").read(100))


KILLED = """
import sys, time
from pathlib import Path
from swapbias.swapping import Job, swap_files
if __name__ == "__main__":
    times = iter(range(4))
    def advance(more):
        if next(times, None) is None:
            print("at work", flush=True)
            time.sleep(60)
    swap_files(Job(sys.argv[1], mode="pairs"), Path(sys.argv[2]), part_bytes=50, batch_rows=100,
               processes=int(sys.argv[3]), bar=lambda title, total: advance)
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_job(tmp_path, processes):
    """A killed job and the same command again equal an unbroken job, and only parts that are
    missing or damaged are written again."""
    source = write(tmp_path / "a.csv", many())
    whole = tmp_path / "whole"
    out = tmp_path / "out"
    expected, done = run(source, whole, mode="pairs", part_bytes=50)
    script = content(tmp_path / "job.py", KILLED.encode())
    command = [sys.executable, script, source, out, str(processes)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as begun:
        assert begun.stdout.readline() == "at work\n"
        begun.send_signal(signal.SIGKILL)
        begun.communicate(
            timeout=30
        )  # until its workers, who have this pipe too, have gone with it
    assert begun.returncode == -signal.SIGKILL
    assert list(out.glob(".planned/*"))  # the part it was at
    assert manifest(out)["status"] == "running"
    assert not (out / "report.csv").exists()
    first, second, *others = parts_of(out)
    assert 0 < len(others) < len(parts_of(whole)) - 2
    time = first.stat().st_mtime_ns
    second.write_bytes(b"PAR1")  # as a crash may leave it
    content(out / "data/.part-00009.parquet.1.tmp", b"half")
    rows, other = run(source, out, mode="pairs", part_bytes=50, batch_rows=9)
    assert rows == expected
    assert other.totals == done.totals
    assert (out / "report.csv").read_text() == (whole / "report.csv").read_text()
    assert first.stat().st_mtime_ns == time
    assert not list(out.rglob(".*"))


def test_dead_worker(tmp_path):
    """A worker that dies is one sentence, and whole parts stay."""
    source = write(tmp_path / "a.csv", many())
    out = tmp_path / "out"

    times = iter(range(2))

    def advance(more):
        if next(times, None) is None:
            for worker in multiprocessing.active_children():
                worker.kill()

    with pytest.raises(ValueError, match="A worker process died"):
        run(
            source, out, part_bytes=100, batch_rows=1, processes=2, bar=lambda title, total: advance
        )
    assert parts_of(out)
    rows, _ = run(source, out, part_bytes=100)
    assert [row["id"] for row in rows] == many()["id"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mode": "neutralise"}, "another mode: 'swap', now 'neutralise'"),
        ({"table": "paper"}, "another table: 'resolved', now 'paper'"),
        ({"column": "id"}, "another column"),
        ({"credentialed": True}, "another credentialed"),
        ({}, "another input"),
    ],
    ids=["mode", "table", "column", "credentialed", "input"],
)
def test_resume_with_other_settings(tmp_path, change, named):
    """Going on with other settings or an edited input is refused."""
    job = Job(str(write(tmp_path / "a.csv", many())))
    out = tmp_path / "out"
    swap_files(job, out)
    content(out / "swap.json", json.dumps(manifest(out) | {"status": "running"}).encode())
    if not change:
        write(tmp_path / "a.csv", many(61))
    with pytest.raises(UsageError, match=named):
        swap_files(replace(job, **change), out)


def test_hub_dataset(tmp_path, monkeypatch):
    """A data set of the Hub is streamed at its commit."""

    class Info:
        sha = "abc123"

    def load_dataset(name, config, *, split, revision, streaming):
        if (name, config, split, revision, streaming) != (
            "owner/notes",
            "one",
            "test",
            "abc123",
            True,
        ):
            raise FileNotFoundError(f"no split {split}.\nlong story")
        return datasets.Dataset.from_dict(COLUMNS).to_iterable_dataset()

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda self, name, revision: Info)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    rows, _ = run("owner/notes:one", tmp_path / "out", split="test", batch_rows=4)
    assert [row["text"] for row in rows] == SWAPPED
    identity = {"dataset": "owner/notes", "config": "one", "split": "test", "revision": "abc123"}
    assert manifest(tmp_path / "out")["input"] == identity
    assert "split: test" in (tmp_path / "out/README.md").read_text()
    sentence = r"^owner/notes \(split train\) is neither .*no split train\)\. Check"
    with pytest.raises(ValueError, match=sentence) as caught:
        run("owner/notes", tmp_path / "other", split="train")
    assert "long story" not in str(caught.value)


def content(path, data):
    path.write_bytes(data)
    return path


BROKEN = [
    ("a.csv", b"", ["a.csv is empty", "header"]),
    ("a.csv", b"id,text\n1,he\n2,he,SECRET\n", ["row 3", "3 cells, expected 2"]),
    ("a.csv", b"id,text\n1,he\n2,\xff\xfe SECRET\n", ["not UTF-8"]),
    ("a.csv", b"id,text\n" + b"1,he\n" * 50_000 + b"2,\xff SECRET\n", ["after row ", "not UTF-8"]),
    ("a.csv", b"id,text,id\n", ["appears twice in the input (id)"]),
    ("a.csv", b'id,text\n1,"' + b"he SECRET " * 2_000_000, ["row 2 (line 2;", "Close its quote"]),
    ("a.csv.gz", b"id,text\n", ["no whole gzip file"]),
    (
        "a.csv.gz",
        gzip.compress(b"id,text\n" + os.urandom(60_000).hex().encode())[:40_000],
        ["no whole gzip file"],
    ),
    ("a.jsonl", b"", ["a.jsonl is empty"]),
    ("a.jsonl", b'{"text": "he"}\n{"text": SECRET}\n', ["a.jsonl:2", "no JSON"]),
    ("a.jsonl", b'{"text": "he"}\n\n["SECRET"]\n', ["a.jsonl:3", "a list"]),
    ("a.jsonl", b'{"text": "he"}\n{"text": "\xff"}\n', ["a.jsonl:2", "not UTF-8"]),
    (
        "a.jsonl",
        b'{"text": "he", "n": 1}\n{"text": "he", "n": "x"}\n',
        ["lines 1 to 2", "column 'n'"],
    ),
    ("a.jsonl.gz", gzip.compress(b'{"text": "he"}\n' * 9)[:-9], ["no whole gzip file"]),
    ("a.parquet", b"PAR1 nothing", ["no whole Parquet file"]),
]


@pytest.mark.parametrize(("name", "data", "parts"), BROKEN, ids=range(len(BROKEN)))
def test_broken_file(tmp_path, name, data, parts):
    """A broken file is one sentence without its text."""
    with pytest.raises(ValueError, match=r"\.$") as caught:
        run(content(tmp_path / name, data), tmp_path / "out")
    assert [part for part in (*parts, "SECRET", "\n") if part in str(caught.value)] == parts
    assert (
        caught.value.__suppress_context__ or caught.value.__context__ is None
    )  # which would repeat the text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"column": "note"}, "no column 'note'.*id, text, n, group"),
        ({"mode": "turn"}, "Unknown mode 'turn'.*pair"),
        ({"processes": 0}, "processes 0.*1 or more"),
        ({"batch_rows": 0}, "batch rows 0"),
        ({"split": "train"}, "no Hub dataset.*Drop --split"),
        ({"table": "nope"}, "nope"),
        ({"column": "n"}, "contains int64, expected texts"),
        ({"mode": "pairs"}, "'group', which mode pairs adds"),
    ],
    ids=[
        "column",
        "mode",
        "processes",
        "batch rows",
        "split",
        "table",
        "type of the column",
        "added column",
    ],
)
def test_wrong_request(tmp_path, options, sentence):
    """A wrong request is refused before anything is written."""
    source = write(tmp_path / "a.parquet", {**COLUMNS, "n": range(len(IDS)), "group": IDS})
    with pytest.raises(UsageError, match=sentence):
        run(source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_unusable_inputs_and_folders(tmp_path):
    """Inputs and folders that cannot be used are refused."""
    for name in ("empty", "pipes"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipes" / "a.csv")
    content(tmp_path / "a.docx", b"x")
    source = write(tmp_path / "in/a.csv", COLUMNS)
    write(tmp_path / "columns/a.csv", COLUMNS)
    write(tmp_path / "columns/b.csv", {"text": ["he"]})
    write(tmp_path / "types/a.csv", COLUMNS)
    write(tmp_path / "types/b.parquet", {"id": [1], "text": ["he"]})
    run(source, tmp_path / "out")
    write(tmp_path / "strange/a.csv", COLUMNS)
    content(tmp_path / "strange/swap.json", b'{"mine": 1}')
    for name, out, sentence in (
        ("pipes/a.csv", "new", "is a pipe, a socket or a device, expected a file"),
        ("pipes", "new", "a.csv is a pipe"),
        ("/dev/null", "new", "null is a pipe, a socket or a device"),
        ("nope.csv", "new", "does not exist"),
        ("no/such/place", "new", "does not exist"),
        ("empty", "new", "contains no files of rows"),
        ("a.docx", "new", "of no known format"),
        ("columns", "new", r"b\.csv has the columns text, expected id, text as in a\.csv"),
        ("types", "new", r"b\.parquet: a column has another type than in a\.csv"),
        (source, "in", "is not empty"),
        (source, "a.docx", "is a file"),
        (source, "out", "is complete"),
        (source, "strange", "was not written by swapbias"),
    ):
        with pytest.raises((UsageError, ValueError), match=sentence):
            run(tmp_path / name, tmp_path / out)


def test_swap_command(tmp_path):
    """The command writes the rows and shows counts."""
    source = write(tmp_path / "a.csv", {"note": TEXTS})
    options = ("--column", "note", "--mode", "pairs", "--credentialed")
    done = swapbias("swap", source, *options, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for part in (
        "rows read",
        "she -> he",
        "specific: pregnant",
        "rows left out",
        str(tmp_path / "out"),
    ):
        assert part in done.stdout
    assert "MB of text" in done.stderr
    assert "publish, upload or send none" in done.stderr
    assert len(rows_of(tmp_path / "out")) == 8
