"""The gate: credentialed text, keys and places of this machine never pass, whatever file they stand in."""

import base64
import io
import json
import zlib

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.privacy import credentialed
from swapbias.privacy.upload_check import check_upload as check

KEY = "hf_" + "aBcDeFgHiJ" * 3  # of the form of a token, and no token
HELD = pd.DataFrame({"text": ["", ""], "credentialed": ["False", "True"]})


def written(table):
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def parquet(frame):
    return written(pa.Table.from_pandas(frame))


def embedded(text):
    return b'<img src="data:image/svg+xml;base64,' + base64.b64encode(text.encode()) + b'">'


def deflated(text):
    packed = base64.b64encode(zlib.compress(text.encode()))
    return b'<script type="text/plain">data:application/zlib;base64,' + packed + b"</script>"


PLACES = {
    "card": lambda text: {"README.md": f"# Card\n\n{text}\n".encode()},
    "figure": lambda text: {"figures/a.svg": f"<svg><text>{text}</text></svg>".encode()},
    "figure within the report": lambda text: {"report.html": embedded(f"<svg><text>{text}</text></svg>")},
    "prompts within the report": lambda text: {"report.html": deflated(json.dumps({"texts": [text]}))},
    "items": lambda text: {"items/a.parquet": parquet(pd.DataFrame({"n": [1], "text": [f"he {text} she"]}))},
    "column name": lambda text: {"items/a.parquet": parquet(pd.DataFrame({text: [1]}))},
    "manifest": lambda text: {"manifest.json": json.dumps({"model": text}).encode()},
    "log": lambda text: {"answers.jsonl": json.dumps({"answer": text}).encode()},
}


@pytest.mark.parametrize("place", PLACES)
def test_keys_and_places_of_this_machine_are_found_wherever_they_stand_and_not_repeated(place, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_API_KEY", "correct horse battery")  # of no known form
    check(PLACES[place]("an ordinary sentence"), never=["/data/private"])
    for text, said in (
        (KEY, "looks like an access key"),
        ("say correct horse battery staple", "holds the value of SWAPBIAS_API_KEY"),
        ("read from /data/private/notes.csv", "names a place of this machine"),
    ):
        with pytest.raises(UsageError, match=said) as refused:
            check(PLACES[place](text), never=["/data/private"])
        assert text not in str(refused.value)


COLUMNS = {
    "categories": lambda text: pa.array([text, "b", text]).dictionary_encode(),
    "lists": lambda text: pa.array([[text], [], None]), "structs": lambda text: pa.array([{"a": text}, None]),
    "bytes": lambda text: pa.array([text.encode()]), "views": lambda text: pa.array([text], pa.string_view()),
    "large texts": lambda text: pa.array([text], pa.large_string()),
}  # fmt: skip


def test_a_report_whose_prompts_cannot_be_unpacked_is_refused():
    with pytest.raises(UsageError, match="holds what cannot be unpacked"):
        check({"report.html": deflated("x").replace(b"base64,", b"base64,AAAA")})


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_key_is_found_in_columns_of_every_type(kind):
    with pytest.raises(UsageError, match="looks like an access key"):
        check({"a.parquet": written(pa.table({"c": COLUMNS[kind](f"x {KEY} y")}))})


def test_a_key_is_found_in_the_metadata_of_a_table_and_of_a_field():
    note = {"note": "x" * 500 + f" {KEY}"}
    fields = pa.field("n", pa.int64()), pa.field("n", pa.int64(), metadata=note)
    for schema in (pa.schema(fields[:1], metadata=note), pa.schema(fields[1:])):
        with pytest.raises(UsageError, match="looks like an access key"):
            check({"a.parquet": written(pa.table({"n": [1]}, schema=schema))})


@pytest.mark.parametrize(
    "key",
    [
        "hf_" + "a1B2" * 9, "api_org_" + "aB" * 17, "github_pat_" + "a1_B" * 10, "glpat-" + "a1B2" * 5,
        "gsk_" + "a1B2" * 10, "xai-" + "a1B2" * 10, "ASIA" + "A1B2" * 4, "nvapi-" + "a1-B" * 10,
    ],
    ids=lambda key: key.split("_")[0][:6],
)  # fmt: skip
def test_keys_of_many_services_are_known(key):
    with pytest.raises(UsageError, match="looks like an access key"):
        check({"a.txt": f"x {key} y".encode()})


def test_a_secret_is_found_as_other_formats_write_it(monkeypatch):
    monkeypatch.setenv("MY_SECRET", 'gr\u00fc"n & blau')
    plain = json.dumps({"a": 'gr\u00fc"n & blau'})
    for content in (plain, "gr\u00fc&quot;n &amp; blau", "?k=gr%C3%BC%22n%20%26%20blau"):
        with pytest.raises(UsageError, match="holds the value of MY_SECRET"):
            check({"a.txt": content.encode()})


@pytest.mark.parametrize(
    "files",
    [
        {"items/a.parquet": parquet(HELD)}, {"items/a.csv": HELD.to_csv(index=False).encode()},
        {"manifest.json": b'{"credentialed": true}'}, {"manifest.json": b'{\n  "credentialed" :\n true}'},
        {"README.md": f"{credentialed.WARNING}\n".encode()}, {"CREDENTIALED": b"x"}, {"data/NOTEEVENTS.csv.gz": b"x"},
        {"data/discharge.csv": b"x"},
    ],
    ids=lambda files: next(iter(files)),
)  # fmt: skip
def test_credentialed_data_is_refused(files):
    with pytest.raises(UsageError, match="credentialed clinical"):
        check(files)


def test_a_file_from_a_marked_folder_is_refused_whatever_it_holds(tmp_path):
    (tmp_path / "items").mkdir()
    file = tmp_path / "items" / "a.txt"
    file.write_text("nothing of note")
    check({"a.txt": file})
    credentialed.mark(tmp_path)
    with pytest.raises(UsageError, match="credentialed clinical data, which must not be published"):
        check({"a.txt": file})


def test_a_table_that_cannot_be_looked_into_does_not_pass():
    with pytest.raises(ValueError, match="no Parquet that can be read"):
        check({"a.parquet": b"PAR1" * 9})


def test_rows_that_say_they_are_not_credentialed_pass():
    check({"a.parquet": parquet(HELD.head(1)), "a.csv": HELD.head(1).to_csv(index=False).encode()})
    check({"manifest.json": b'{"credentialed": false}'})
