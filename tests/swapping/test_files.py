"""Swapping whole files: every format and mode, resuming, bounded batches, one sentence for every trouble."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.swapping import Job, swap_files
from swapbias.swapping.jobs import Totals
from swapbias.swapping.readers import LONGEST, open_source
from tests.cli.test_cli import swapbias
from tests.conftest import ROOT

# "he" and "she" are replaced once each; "Nothing" not at all; quotes, commas and newlines must survive.
TEXTS = ['He said "no",\nthen left.', "", "Nothing here.", "She is 40, NA", "She, she and he.", "Pregnant woman."]
SWAPPED = ['She said "no",\nthen left.', "", "Nothing here.", "He is 40, NA", "He, he and she.", "Pregnant man."]
REPLACED = [1, 0, 0, 1, 3, 1]
IDS = ["007", "NA", "", "3.0", "1e5", "null"]  # text that a guessing reader would change
COLUMNS = {"id": IDS, "text": TEXTS}


def write_csv(path, columns, delimiter=","):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_jsonl(path, rows):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as handle:
        handle.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def write_parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


def as_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write(path, columns):
    """A file in the format that its name tells."""
    if ".jsonl" in path.name:
        return write_jsonl(path, as_rows(columns))
    if path.suffix == ".parquet":
        return write_parquet(path, columns)
    return write_csv(path, columns, "\t" if ".tsv" in path.name else ",")


def run(source, out, *, mode="swap", **options):
    """The rows written, and what swap_files gave."""
    of_job = {name: options.pop(name) for name in ("column", "credentialed", "split", "table") if name in options}
    job = Job(str(source), mode=mode, **of_job)
    done = swap_files(job, out, **options)
    return rows_of(out), done


def rows_of(out):
    return [row for part in sorted(out.glob("data/*.parquet")) for row in pq.read_table(part).to_pylist()]


def manifest(out):
    return json.loads((out / "swap.json").read_text())


FILES = ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"]


EACH = [*((name, "swap") for name in FILES), *(("a.csv.gz", mode) for mode in ("neutralise", "augment", "pairs"))]


@pytest.mark.parametrize(("name", "mode"), EACH)
def test_every_format_gives_the_same_rows_and_every_mode_its_own(tmp_path, name, mode):
    rows, _ = run(write(tmp_path / name, COLUMNS), tmp_path / "out", mode=mode)
    if mode == "swap":
        assert [row["text"] for row in rows] == SWAPPED
        assert [row["swapbias_replaced"] for row in rows] == REPLACED
        assert [row["swapbias_specific"] for row in rows] == [0, 0, 0, 0, 0, 1]  # pregnant
        assert [row["id"] for row in rows] == IDS
    elif mode == "neutralise":
        texts = [row["text"] for row in rows]
        assert len(texts) == 6
        assert texts[1:3] == TEXTS[1:3]
        assert not re.search(r"\b(he|she|woman)\b", " ".join(texts), re.IGNORECASE)
    elif mode == "augment":
        assert [row["text"] for row in rows] == [text for pair in zip(TEXTS, SWAPPED, strict=True) for text in pair]
        assert [row["swapbias_version"] for row in rows] == ["original", "swapped"] * 6
    else:
        assert [row["pair_id"] for row in rows] == ["0", "0", "3", "3", "4", "4", "5", "5"]
        # He | She | She, she and he (2 of 3) | woman
        assert [row["group"] for row in rows] == ["male", "female", *["female", "male"] * 3]
        assert [row["swapbias_version"] for row in rows] == ["original", "swapped"] * 4


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_types_and_null_texts_stay(tmp_path, name):
    columns = {
        "n": [1, None, 3],
        "x": [0.5, 1.5, None],
        "flag": [True, None, False],
        "when": ["2020-01-01", None, "2021-05-05T00:00:00Z"],  # looks like a time, is text
        "labels": [["a", "b"], [], None],
        "text": ["he", None, "she"],
    }
    rows, done = run(write(tmp_path / name, columns), tmp_path / "out")
    assert [{key: row[key] for key in columns} for row in rows] == [
        {**row, "text": text} for row, text in zip(as_rows(columns), ["she", None, "he"], strict=True)
    ]
    assert pq.read_schema(tmp_path / "out/data/part-00000.parquet").field("n").type == pa.int64()
    assert done.totals.rows_replaced == 2


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_of_every_type_are_swapped_and_other_columns_keep_theirs(tmp_path, kind):
    days, small = pa.array([1, 2], pa.date32()), pa.array([1, 2], pa.int8())
    text = pa.array(["he", "she"]).cast(kind)
    pq.write_table(pa.table({"day": days, "small": small, "text": text}), tmp_path / "a.parquet")
    rows, _ = run(tmp_path / "a.parquet", tmp_path / "out")
    assert [row["text"] for row in rows] == ["she", "he"]
    schema = pq.read_schema(tmp_path / "out/data/part-00000.parquet")
    assert [schema.field(name).type for name in ("day", "small")] == [days.type, small.type]


def test_the_footer_repeats_no_text(tmp_path):
    visit = pa.array([{"day": 1, "text": "a"}, {"day": 2, "text": "b"}])
    pq.write_table(pa.table({"text": ["he rests", "she rests"], "visit": visit}), tmp_path / "a.parquet")
    run(tmp_path / "a.parquet", tmp_path / "out")
    footer = pq.read_metadata(tmp_path / "out/data/part-00000.parquet").row_group(0)
    stored = {footer.column(at).path_in_schema: footer.column(at).is_stats_set for at in range(footer.num_columns)}
    assert stored.pop("text") is False
    assert stored["swapbias_replaced"]  # readers skip rows by it


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.parquet", "one.parquet"])
def test_a_text_that_is_too_long_is_refused_alike_in_every_format(tmp_path, name):
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


def test_the_bar_is_full_when_all_is_swapped_and_not_when_all_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("swapbias.swapping.readers.LONGEST", 1 << 16)
    source = open_source(str(write_csv(tmp_path / "a.csv", {"text": ["She is here. " * 20] * 2_000})), "text")
    told = [position / source.size for _, position in source.read(2_000)]
    assert told == sorted(told)
    assert (told[0] < 0.2, told[len(told) // 2] < 0.7, told[-1]) == (True, True, 1)


def test_a_json_type_that_shows_late_is_known_from_the_start(tmp_path):
    # the first chunk of about 4 MB has "late" only as null and "n" only as whole numbers
    rows = [{"text": "he " * 200_000, "n": 1, "late": None}] * 10 + [{"text": "she", "n": 2.5, "late": "x", "new": 1}]
    found, _ = run(write_jsonl(tmp_path / "a.jsonl", rows), tmp_path / "out")
    assert [row["n"] for row in found] == [1.0] * 10 + [2.5]
    assert found[0]["late"] is None
    assert (found[-1]["late"], found[-1]["new"], found[-1]["text"]) == ("x", 1, "he")
    rows = [{"text": "x" * 3_000_000, "n": 1}] * 2 + [{"text": "he", "n": "one"}]
    with pytest.raises(ValueError, match="lines 3 to 3: column 'n' holds values of more than one type"):
        run(write_jsonl(tmp_path / "a.jsonl", rows), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.parquet"])
def test_a_file_without_rows_gives_a_part_without_rows(tmp_path, name):
    columns = {"id": pa.array([], pa.string()), "text": pa.array([], pa.string())}
    rows, done = run(write(tmp_path / name, columns), tmp_path / "out", mode="pairs")
    assert rows == []
    assert done.totals == Totals()
    assert "group" in pq.read_schema(tmp_path / "out/data/part-00000.parquet").names
    assert manifest(tmp_path / "out")["status"] == "complete"


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "b.csv", {"id": ["2"], "text": ["he"]})
    write_csv(folder / "a.csv.gz", {"text": ["she"], "id": ["1"]})  # same columns in another order
    (folder / "notes.txt").write_text("not read")
    rows, _ = run(folder, tmp_path / "out", mode="pairs")
    assert [(row["id"], row["text"], row["pair_id"]) for row in rows] == [
        ("1", "she", "0"), ("1", "he", "0"), ("2", "he", "1"), ("2", "she", "1"),
    ]  # fmt: skip
    columns = {"note_id": ["n-1", None, "n-3"], "text": ["he", "he and she", "none"]}
    rows, done = run(write_parquet(tmp_path / "a.parquet", columns), tmp_path / "other", mode="pairs")
    assert [row["pair_id"] for row in rows] == ["n-1", "n-1", "1", "1"]  # row 1 has no id of its own
    assert [row["group"] for row in rows] == ["male", "female", "", ""]  # as many words of both sides: no group
    assert done.totals.rows_left_out == 1


def test_the_files_of_a_built_corpus_are_found_in_its_folders(tmp_path):
    for config in ("pairs", "original"):
        (tmp_path / "corpus" / config).mkdir(parents=True)
        write_parquet(tmp_path / "corpus" / config / "train.parquet", {"text": ["he"]})
    with pytest.raises(UsageError, match=r"corpus/original.*corpus/pairs.*Give one of them"):
        run(tmp_path / "corpus", tmp_path / "out")
    (tmp_path / "corpus/original/train.parquet").unlink()
    rows, _ = run(tmp_path / "corpus", tmp_path / "again")
    assert [row["text"] for row in rows] == ["she"]


def test_a_column_of_genders_tells_that_of_the_swapped_text(tmp_path):
    columns = {
        "sex": ["F", "M", "U", "F"],
        "text": ["she", "he", "her leg", "no one"],
        "patient_gender": ["Female", "male", "", None],
    }
    source = write_parquet(tmp_path / "a.parquet", columns)
    rows, _ = run(source, tmp_path / "augmented", mode="augment")
    assert [row["sex"] for row in rows] == ["F", "M", "M", "F", "U", "U", "F", "F"]  # nothing is swapped in the last
    assert [row["patient_gender"] for row in rows] == ["Female", "Male", "male", "female", "", "", None, None]
    rows, done = run(source, tmp_path / "pairs", mode="pairs")
    assert [row["sex"] for row in rows] == ["F", "M", "M", "F", "U", "U"]
    assert done.totals.rows_left_out == 1
    rows, _ = run(source, tmp_path / "neutral", mode="neutralise")
    assert [row["sex"] for row in rows] == ["F", "M", "U", "F"]


def test_implausible_rows_are_left_out_on_request(tmp_path):
    texts = ["She had a mammogram.", "He is G2P1.", "She has para-aortic nodes.", "Tamsulosin.", "He left."]
    source = write_csv(tmp_path / "a.csv", {"text": texts})
    for mode, kept, left in (("swap", [2, 4], 3), ("pairs", [2, 2, 4, 4], 2), ("augment", [0, 1, 2, 2, 3, 4, 4], 3)):
        done = swap_files(Job(str(source), mode=mode, plausible=True), tmp_path / mode)
        rows = pq.read_table(tmp_path / mode / "data").to_pylist()
        assert [row["swapbias_specific"] for row in rows] == [int(at in (0, 1, 3)) for at in kept]
        assert done.totals.rows_implausible == left
    assert done.totals.rows_specific == 3
    assert done.totals.specific_terms == {"mammogram": 1, "G#P#": 1, "tamsulosin": 1}


def test_the_report_adds_up(tmp_path):
    _, done = run(write_csv(tmp_path / "a.csv", COLUMNS), tmp_path / "out")
    totals = done.totals
    assert (totals.rows_read, totals.rows_written, totals.rows_replaced, totals.rows_specific) == (6, 6, 4, 1)
    assert totals.terms == {"he -> she": 2, "she -> he": 3, "woman -> man": 1}
    assert totals.text_bytes == sum(len(text) for text in TEXTS)
    with (tmp_path / "out/report.csv").open(newline="") as handle:
        report = {(row["kind"], row["term"]): int(row["count"]) for row in csv.DictReader(handle)}
    assert report[("replaced", "she -> he")] == 3
    assert report[("specific", "pregnant")] == 1
    assert manifest(tmp_path / "out")["totals"]["terms"] == dict(totals.terms)
    assert manifest(tmp_path / "out")["parts"] == 1
    run(write_csv(tmp_path / "a.csv", {"text": ["abcd", "ab", "abcdef", "a"]}), tmp_path / "other", part_bytes=6)
    # 4 + 2 = 6 | 6 | 1
    assert [pq.read_metadata(part).num_rows for part in sorted((tmp_path / "other/data").iterdir())] == [2, 1, 1]


def test_the_folder_loads_as_a_dataset(tmp_path):
    from datasets import load_dataset

    run(write_csv(tmp_path / "a.csv", COLUMNS), tmp_path / "out", part_bytes=20)
    data = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert data["train"]["text"][:] == SWAPPED
    files = [str(path) for path in sorted((tmp_path / "out/data").glob("*.parquet"))]
    assert len(files) > 1
    again = load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert again["text"][:] == SWAPPED


def many(rows=60):
    """Texts of 3 to 3 + 4 * 6 bytes; every third row has nothing to replace."""
    texts = [" ".join(["he" if row % 2 else "she"] * (row % 7 + 1)) if row % 3 else "nix" for row in range(rows)]
    return {"id": [str(row) for row in range(rows)], "text": texts}


@pytest.mark.parametrize("mode", ["swap", "pairs"])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_batch_rows_parts_and_processes_do_not_change_the_rows(tmp_path, name, mode):
    source = write(tmp_path / name, many())
    expected, done = run(source, tmp_path / "whole", mode=mode)
    for batch_rows, part_bytes, processes in ((1, 1, 1), (7, 100, 1 + (mode == "pairs")), (1000, 100, 1)):
        out = tmp_path / f"{batch_rows}-{part_bytes}"
        how = {"batch_rows": batch_rows, "part_bytes": part_bytes, "processes": processes}
        rows, other = run(source, out, mode=mode, **how)
        assert rows == expected
        assert other.totals == done.totals
    one = [pq.read_metadata(part).num_rows for part in sorted((tmp_path / "7-100/data").iterdir())]
    other = [pq.read_metadata(part).num_rows for part in sorted((tmp_path / "1000-100/data").iterdir())]
    assert one == other  # parts end at the same rows, whatever the batches
    assert len(one) > 3


class StoppedError(Exception):
    pass


def stop_after(rows):
    def on_progress(step):
        if step.rows >= rows:
            raise StoppedError

    return on_progress


def test_a_stopped_job_goes_on_with_the_parts_that_are_missing_or_damaged(tmp_path):
    source = write_csv(tmp_path / "a.csv", many())
    expected, done = run(source, tmp_path / "whole", part_bytes=100)
    out, seen = tmp_path / "out", []
    with pytest.raises(StoppedError):
        run(source, out, part_bytes=100, batch_rows=4, on_progress=stop_after(40))
    assert 2 < len(list((out / "data").iterdir())) < len(list((tmp_path / "whole/data").iterdir()))
    assert manifest(out)["status"] == "running"
    assert not (out / "report.csv").exists()
    first = (out / "data/part-00000.parquet").stat().st_mtime_ns
    (out / "data/part-00001.parquet").write_bytes(b"PAR1")  # as a crash may leave it
    (out / "data/.part-00009.parquet.1.tmp").write_bytes(b"half")
    rows, other = run(source, out, part_bytes=100, batch_rows=9, on_progress=seen.append)
    assert rows == expected
    assert not list((out / "data").glob(".*"))
    assert (out / "data/part-00000.parquet").stat().st_mtime_ns == first
    assert other.totals == done.totals
    assert (out / "report.csv").read_text() == (tmp_path / "whole/report.csv").read_text()
    assert seen[0].rows > 15  # it did not begin anew


def test_a_flipped_bit_of_a_part_is_seen_when_it_is_read(tmp_path):
    run(write_csv(tmp_path / "a.csv", many()), tmp_path / "out")
    part = tmp_path / "out/data/part-00000.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])  # of the first page
    with pytest.raises(ValueError, match="no whole Parquet file"):
        list(open_source(str(part), "text").read(100))


KILLED = """
import os, sys, time
from pathlib import Path
from swapbias.swapping import Job, swap_files
if __name__ == "__main__":
    def on_progress(step):
        if step.rows >= 40:
            Path(sys.argv[2] + ".reached").touch()
            time.sleep(60)
    swap_files(Job(sys.argv[1], mode="pairs"), Path(sys.argv[2]), part_bytes=100, batch_rows=4,
               processes=int(sys.argv[3]), on_progress=on_progress)
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_kill_9_and_the_same_command_again_equal_an_unbroken_job(tmp_path, processes):
    source = write_csv(tmp_path / "a.csv", many())
    expected, done = run(source, tmp_path / "whole", mode="pairs", part_bytes=100)
    script, out = tmp_path / "job.py", tmp_path / "out"
    script.write_text(KILLED)
    begun = subprocess.Popen([sys.executable, script, source, out, str(processes)], cwd=ROOT)
    until(lambda: (tmp_path / "out.reached").exists() or begun.poll() is not None)
    workers = children(begun.pid)
    begun.send_signal(signal.SIGKILL)
    assert begun.wait() == -signal.SIGKILL
    assert list(out.glob(".planned/*"))  # the part it was at
    rows, other = run(source, out, mode="pairs", part_bytes=100)
    assert rows == expected
    assert other.totals == done.totals
    assert not list((out / "data").glob(".part-*"))
    assert not (out / ".planned").exists()
    until(lambda: not any(map(alive, workers)))  # they went with their parent


def until(reached):
    for _ in range(600):
        if reached():
            return
        time.sleep(0.05)
    pytest.fail("waited for 30 seconds")


def children(pid):
    path = f"/proc/{pid}/task/{pid}/children"
    if not os.path.exists(path):
        return []
    with open(path) as handle:
        return [int(child) for child in handle.read().split()]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc to find the worker processes")
def test_a_worker_that_dies_is_one_sentence_and_whole_parts_stay(tmp_path):
    source, out = write_csv(tmp_path / "a.csv", many()), tmp_path / "out"

    def on_progress(step):
        if step.rows >= 30:
            for worker in children(os.getpid()):
                if "spawn_main" in commandline(worker):
                    os.kill(worker, signal.SIGKILL)

    with pytest.raises(ValueError, match="A worker process died"):
        run(source, out, part_bytes=100, batch_rows=1, processes=2, on_progress=on_progress)
    assert [*(out / "data").glob("part-*.parquet")]
    rows, _ = run(source, out, part_bytes=100)
    assert [row["id"] for row in rows] == many()["id"]


def commandline(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as handle:
            return handle.read()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mode": "neutralise"}, "another mode: 'swap', now 'neutralise'"),
        ({"table": "paper"}, "another table: 'resolved', now 'paper'"), ({"column": "id"}, "another column"),
        ({"credentialed": True}, "another credentialed"), ({}, "another input"),
    ],
)  # fmt: skip
def test_going_on_with_other_settings_or_an_edited_input_is_refused(tmp_path, change, named):
    job = Job(str(write_csv(tmp_path / "a.csv", many())))
    with pytest.raises(StoppedError):
        swap_files(job, tmp_path / "out", part_bytes=100, batch_rows=4, on_progress=stop_after(30))
    if not change:
        write_csv(tmp_path / "a.csv", many(61))
    with pytest.raises(UsageError, match=named):
        swap_files(replace(job, **change), tmp_path / "out", part_bytes=100)


# Credentialed rows


@pytest.mark.parametrize(
    ("name", "columns", "marked"),
    [
        ("NOTEEVENTS.csv.gz", {"text": ["he"]}, True),
        ("own.csv", {"credentialed": ["False", "True"], "text": ["he", "she"]}, True),
        ("own.parquet", {"credentialed": [False, True], "text": ["he", "she"]}, True),
        ("own.csv", {"credentialed": ["False", ""], "text": ["he", "she"]}, False),
    ],
)
def test_credentialed_input_marks_every_row_and_the_folder_and_other_input_does_not(tmp_path, name, columns, marked):
    rows, done = run(write(tmp_path / name, columns), tmp_path / "out")
    wanted = [True] * len(rows) if marked else columns["credentialed"]
    assert [row["credentialed"] for row in rows] == wanted
    assert manifest(tmp_path / "out")["credentialed"] is bool(done.credentialed_because) is marked
    assert ("must not be published" in (tmp_path / "out/README.md").read_text()) is marked


@pytest.fixture
def hub(monkeypatch):
    """A Hub that holds one dataset, owner/notes with the config one."""
    import datasets
    import huggingface_hub

    class Info:
        sha = "abc123"

    def load_dataset(name, config, *, split, revision, streaming):
        if (name, config, split, revision, streaming) != ("owner/notes", "one", "test", "abc123", True):
            raise FileNotFoundError(f"no split {split}.\nlong story")
        return datasets.Dataset.from_dict(COLUMNS).to_iterable_dataset()

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda self, name: Info)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)


def test_a_hub_dataset_is_streamed_at_its_commit(tmp_path, hub):
    rows, _ = run("owner/notes:one", tmp_path / "out", split="test", batch_rows=4)
    assert [row["text"] for row in rows] == SWAPPED
    wanted = {"dataset": "owner/notes", "config": "one", "split": "test", "revision": "abc123"}
    assert manifest(tmp_path / "out")["input"] == wanted
    assert "split: test" in (tmp_path / "out/README.md").read_text()
    wanted = r"^owner/notes \(split train\) is neither .*no split train\)\. Check"
    with pytest.raises(ValueError, match=wanted) as caught:
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
    ("a.csv", b"id,text,id\n", ["stands twice in the input (id)"]),
    ("a.csv", b'id,text\n1,"' + b"he SECRET " * 2_000_000, ["row 2 (line 2;", "Close its quote"]),
    ("a.csv.gz", b"id,text\n", ["no whole gzip file"]),
    ("a.csv.gz", gzip.compress(b"id,text\n" + os.urandom(60_000).hex().encode())[:40_000], ["no whole gzip file"]),
    ("a.jsonl", b"", ["a.jsonl is empty"]),
    ("a.jsonl", b'{"text": "he"}\n{"text": SECRET}\n', ["a.jsonl:2", "no JSON"]),
    ("a.jsonl", b'{"text": "he"}\n\n["SECRET"]\n', ["a.jsonl:3", "a list"]),
    ("a.jsonl", b'{"text": "he"}\n{"text": "\xff"}\n', ["a.jsonl:2", "not UTF-8"]),
    ("a.jsonl", b'{"text": "he", "n": 1}\n{"text": "he", "n": "x"}\n', ["lines 1 to 2", "column 'n'"]),
    ("a.jsonl.gz", gzip.compress(b'{"text": "he"}\n' * 9)[:-9], ["no whole gzip file"]),
    ("a.jsonl.gz", b'{"text": "he"}\n', ["no whole gzip file"]),
    ("a.parquet", b"PAR1 nothing", ["no whole Parquet file"]),
]


@pytest.mark.parametrize(("name", "data", "parts"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_one_sentence_without_its_text(tmp_path, name, data, parts):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        run(content(tmp_path / name, data), tmp_path / "out")
    for part in parts:
        assert part in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"column": "note"}, ["no column 'note'", "id, text, n"]),
        ({"mode": "turn"}, ["Unknown mode 'turn'", "pairs"]), ({"processes": 0}, ["processes 0", "1 or more"]),
        ({"batch_rows": 0}, ["batch rows 0"]), ({"split": "train"}, ["no Hub dataset", "Drop --split"]),
        ({"table": "nope"}, ["nope"]), ({"column": "n"}, ["holds int64, expected texts"]),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_before_anything_is_written(tmp_path, options, parts):
    source = write_parquet(tmp_path / "a.parquet", {**COLUMNS, "n": range(len(IDS))})
    with pytest.raises(UsageError) as caught:
        run(source, tmp_path / "out", **options)
    for part in parts:
        assert part in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("mode", "name"), [("swap", "swapbias_replaced"), ("pairs", "group")])
def test_an_input_with_a_column_that_would_be_added_is_refused(tmp_path, mode, name):
    with pytest.raises(UsageError, match=f"{name}.*which mode {mode} adds"):
        run(write_csv(tmp_path / "a.csv", {name: ["x"], "text": ["he"]}), tmp_path / "out", mode=mode)


def test_missing_and_unknown_inputs_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "a.csv")
    for name, part in (
        ("pipes/a.csv", "is a pipe, a socket or a device, expected a file"),
        ("pipes", "a.csv is a pipe"),
        ("/dev/null", "null is a pipe, a socket or a device"),
        ("nope.csv", "does not exist"),
        ("no/such/place", "does not exist"),
        ("empty", "holds no files to swap"),
        ("a.docx", "of no known format"),
    ):
        content(tmp_path / "a.docx", b"x")
        with pytest.raises(UsageError, match=part):
            open_source(str(tmp_path / name), "text")


def test_a_folder_of_different_files_is_refused(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "a.csv", COLUMNS)
    write_csv(folder / "b.csv", {"text": ["he"]})
    with pytest.raises(ValueError, match=r"b\.csv has the columns text, expected id, text as in a\.csv"):
        run(folder, tmp_path / "out")
    write_parquet(folder / "b.csv", {"x": [1]})
    (folder / "b.csv").rename(folder / "b.parquet")
    write_parquet(folder / "b.parquet", {"id": [1], "text": ["he"]})
    with pytest.raises(ValueError, match=r"b\.parquet: a column has another type than in a\.csv"):
        run(folder, tmp_path / "out")
    source = write_csv(tmp_path / "a.csv", COLUMNS)
    with pytest.raises(UsageError, match="is not empty"):
        run(source, tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        run(source, source)
    run(source, tmp_path / "out")
    with pytest.raises(UsageError, match="is complete"):
        run(source, tmp_path / "out")
    content(tmp_path / "swap.json", b'{"mine": 1}')
    with pytest.raises(UsageError, match="was not written by swapbias"):
        run(source, tmp_path)


def test_the_command_writes_the_rows_and_shows_what_was_done(tmp_path):
    source = write_csv(tmp_path / "a.csv", {"note": TEXTS})
    options = ("--column", "note", "--mode", "pairs", "--credentialed")
    done = swapbias("swap", source, *options, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for part in ("rows read", "she -> he", "specific: pregnant", "rows left out", str(tmp_path / "out")):
        assert part in done.stdout
    assert "MB of text" in done.stderr
    assert "publish, upload or send none" in done.stderr
    assert len(rows_of(tmp_path / "out")) == 8
