"""The gate of uploads: credentialed text, keys and paths of this machine never pass, in any kind
of file."""

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
MARKED_ROWS = pd.DataFrame({"text": ["", ""], "credentialed": ["False", "True"]})


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
    "figure within the report": lambda text: {
        "report.html": embedded(f"<svg><text>{text}</text></svg>")
    },
    "prompts within the report": lambda text: {
        "report.html": deflated(json.dumps({"texts": [text]}))
    },
    "items": lambda text: {
        "items/a.parquet": parquet(pd.DataFrame({"n": [1], "text": [f"he {text} she"]}))
    },
    "column name": lambda text: {"items/a.parquet": parquet(pd.DataFrame({text: [1]}))},
    "manifest": lambda text: {"manifest.json": json.dumps({"model": text}).encode()},
    "log": lambda text: {"answers.jsonl": json.dumps({"answer": text}).encode()},
}


@pytest.mark.parametrize("place", PLACES)
def test_keys_and_paths(place, monkeypatch):
    """Keys and paths of this machine are found wherever they stand and not repeated."""
    monkeypatch.setenv("SWAPBIAS_API_KEY", "correct horse battery")  # of no known form
    check(PLACES[place]("an ordinary sentence"), never=["/data/private"])
    for text, output in (
        (KEY, "looks like an access key"),
        ("say correct horse battery staple", "contains the value of SWAPBIAS_API_KEY"),
        ("read from /data/private/notes.csv", "names a place of this machine"),
    ):
        with pytest.raises(UsageError, match=output) as refused:
            check(PLACES[place](text), never=["/data/private"])
        assert text not in str(refused.value)


COLUMNS = {
    "categories": lambda text: pa.array([text, "b", text]).dictionary_encode(),
    "lists": lambda text: pa.array([[text], [], None]),
    "structs": lambda text: pa.array([{"a": text}, None]),
    "bytes": lambda text: pa.array([text.encode()]),
    "views": lambda text: pa.array([text], pa.string_view()),
    "large texts": lambda text: pa.array([text], pa.large_string()),
}
KEYS = [
    "hf_" + "a1B2" * 9, "api_org_" + "aB" * 17, "github_pat_" + "a1_B" * 10, "glpat-" + "a1B2" * 5,
    "gsk_" + "a1B2" * 10, "xai-" + "a1B2" * 10, "ASIA" + "A1B2" * 4, "nvapi-" + "a1-B" * 10,
    "sk-" + "a1-B" * 5, "AKIA" + "A1B2" * 4, *(f"gh{kind}_" + "a1B2" * 9 for kind in "pousr"),
    *(f"xox{kind}-" + "a1-B" * 3 for kind in "abprs"), "AIza" + "a1_-B" * 7, "r8_" + "a1B2" * 10,
    "Bearer  " + "a1~B" * 5, "Bearer\n" + "a1+/" * 5,
]  # fmt: skip
NOTE = {"note": "x" * 500 + f" {KEY}"}
NUMBERS = pa.field("n", pa.int64())
SECRET = 'gr\u00fc"n & blau'  # as other formats write it
AS_KEY = "looks like an access key"
AS_SECRET = "contains the value of MY_SECRET"
AS_NOTES = "credentialed clinical"
REFUSED = [
    *(
        ("a.parquet", written(pa.table({"c": column(f"x {KEY} y")})), AS_KEY)
        for column in COLUMNS.values()
    ),
    ("a.parquet", written(pa.table({"n": [1]}, pa.schema([NUMBERS], NOTE))), AS_KEY),
    ("a.parquet", written(pa.table({"n": [1]}, pa.schema([NUMBERS.with_metadata(NOTE)]))), AS_KEY),
    *(("a.txt", f"x {key} y".encode(), AS_KEY) for key in KEYS),
    ("a.txt", b"x\n-----BEGIN RSA PRIVATE KEY-----\ny", AS_KEY),
    ("a.txt", json.dumps({"a": SECRET}).encode(), AS_SECRET),
    ("a.txt", b"gr\xc3\xbc&quot;n &amp; blau", AS_SECRET),
    ("a.txt", b"?k=gr%C3%BC%22n%20%26%20blau", AS_SECRET),
    ("items/a.parquet", parquet(MARKED_ROWS), AS_NOTES),
    ("items/a.csv", MARKED_ROWS.to_csv(index=False).encode(), AS_NOTES),
    ("manifest.json", b'{"credentialed": true}', AS_NOTES),
    ("manifest.json", b'{\n  "credentialed" :\n true}', AS_NOTES),
    ("README.md", f"{credentialed.WARNING}\n".encode(), AS_NOTES),
    ("CREDENTIALED", b"x", AS_NOTES),
    ("data/NOTEEVENTS.csv.gz", b"x", AS_NOTES),
    ("data/discharge.csv", b"x", AS_NOTES),
    (
        "report.html",
        deflated("x").replace(b"base64,", b"base64,AAAA"),
        "contains what cannot be unpacked",
    ),
    ("a.parquet", b"PAR1" * 9, "no Parquet that can be read"),
    ("a.csv", b'text,credentialed\n"a,False\nb,True\n', "quotes that are not closed"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_refused_files(name, content, sentence, monkeypatch):
    """A file that may not be uploaded, or cannot be searched, is refused."""
    monkeypatch.setenv("MY_SECRET", SECRET)
    with pytest.raises((UsageError, ValueError), match=sentence):
        check({name: content})


@pytest.mark.parametrize("key", KEYS)
def test_words_that_end_like_keys(key):
    """What begins as a key does in the middle of a word is none, and neither is a key cut short."""
    check({"a.txt": f"ta{key} {key[:12]}".encode()})
    with pytest.raises(UsageError, match=AS_KEY):
        check({"a.txt": f"ta{key} {key}".encode()})


def test_marked_folder(tmp_path):
    """A file from a marked folder is refused whatever it holds."""
    (tmp_path / "items").mkdir()
    file = tmp_path / "items" / "a.txt"
    file.write_text("nothing of note")
    check({"a.txt": file})
    credentialed.mark(tmp_path)
    with pytest.raises(UsageError, match="credentialed clinical data, which must not be published"):
        check({"a.txt": file})


def test_unmarked_rows():
    """Rows that are marked as not credentialed pass."""
    check(
        {
            "a.parquet": parquet(MARKED_ROWS.head(1)),
            "a.csv": MARKED_ROWS.head(1).to_csv(index=False).encode(),
        }
    )
    check(
        {"a.parquet": parquet(pd.DataFrame({"answer": ["data:application/zlib;base64,AAAA"]}))}
    )  # no report
    check({"manifest.json": b'{"credentialed": false}'})
