"""Prompts of a user are read from every format that a swap reads and writes, with the same
findings."""

import gzip
import json

import pandas as pd
import pytest

import swapbias
from swapbias.errors import StudyError, UsageError

ROWS = pd.DataFrame(
    [
        {"pair_id": number, "group": group, "text": f"{name} was late for work {number}."}
        for number in range(8)
        for group, name in (("male", "He"), ("female", "She"))
    ]
)


@pytest.fixture
def run_command(monkeypatch):
    from swapbias.cli import app

    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: app(list(map(str, arguments)), standalone_mode=False) or 0


def score(texts):
    return [0.5 + 0.1 * text.startswith("She") + len(text) / 1000 for text in texts]


def folder_of_parquet(path):
    path.mkdir()
    ROWS[:6].to_parquet(path / "1.parquet")
    ROWS[6:].to_parquet(path / "2.parquet")


WRITERS = {
    "prompts.csv": lambda path: ROWS.to_csv(path, index=False),
    "prompts.csv.gz": lambda path: path.write_bytes(
        gzip.compress(ROWS.to_csv(index=False).encode())
    ),
    "prompts.tsv": lambda path: ROWS.to_csv(path, index=False, sep="\t"),
    "prompts.jsonl": lambda path: ROWS.to_json(path, orient="records", lines=True),
    "prompts.parquet": lambda path: ROWS.to_parquet(path),
    "prompts": folder_of_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_prompts_in_every_format(tmp_path, name):
    """Prompts have the same findings in every format."""
    WRITERS[name](tmp_path / name)
    run = swapbias.audit(score, prompts=tmp_path / name, reference="male", progress=False)
    whole = swapbias.audit(score, prompts=ROWS, reference="male", progress=False)
    assert run.primary["study"].tolist() == ["prompts"]
    pd.testing.assert_frame_equal(run.findings, whole.findings)
    pd.testing.assert_frame_equal(run.items("prompts"), whole.items("prompts"))


def test_swap_in_pairs_feeds_an_audit(tmp_path, run_command):
    """The output of a swap in pairs can be audited as it is."""
    ROWS[::2][["text"]].assign(answer="x").rename(columns={"answer": "note"}).to_csv(
        tmp_path / "in.csv", index=False
    )
    out = tmp_path / "pairs"
    assert run_command("swap", tmp_path / "in.csv", "--mode", "pairs", "--out", out) == 0
    run = swapbias.audit(score, prompts=out, reference="male", progress=False)
    items = run.items("pairs")
    assert sorted(items["text"]) == sorted(ROWS["text"])
    assert run.primary["value"].tolist() == pytest.approx([0.1 + 1 / 1000])
    assert not [name for name in items if name.startswith("swapbias_")]
    assert run_command("study", "check", out, "--reference", "male") == 0
    manifest = json.loads((out / "swap.json").read_text())
    (out / "swap.json").write_text(json.dumps({**manifest, "status": "running"}))
    with pytest.raises(UsageError, match="is not complete"):
        swapbias.audit(score, prompts=out, reference="male")
    (out / "swap.json").write_text(json.dumps({**manifest, "credentialed": True}))
    with pytest.raises(UsageError, match="may contain credentialed clinical notes"):
        swapbias.audit(score, prompts=out, reference="male")


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tsv"])
@pytest.mark.parametrize(
    "more", [{"credentialed": "yes"}, {"hadm_id": "1"}], ids=["marked", "columns"]
)
def test_credentialed_rows(tmp_path, ending, more):
    """Credentialed rows are refused in every format."""
    rows = ROWS.assign(**more)
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        rows.to_parquet(path)
    elif ending == "tsv":
        rows.to_csv(path, index=False, sep="\t")
    else:
        rows.to_json(path, orient="records", lines=True)
    with pytest.raises(UsageError, match="may contain credentialed clinical notes"):
        swapbias.audit(score, prompts=path, reference="male")


def test_faults_name_the_file(tmp_path):
    """Faults name the file, and a folder without prompts is refused in one sentence."""
    ROWS.assign(text="[name] is late.").to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(StudyError, match=r"^mine\.parquet:2: the slot \[name\] is not filled"):
        swapbias.open_study(tmp_path / "mine.parquet", reference="male")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="contains no files of rows"):
        swapbias.open_study(tmp_path / "empty", reference="male")
    (tmp_path / "broken.jsonl").write_text('{"text": ')
    with pytest.raises(ValueError, match=r"broken\.jsonl:1: no JSON"):
        swapbias.open_study(tmp_path / "broken.jsonl", reference="male")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("my.xlsx", b"PK\x03\x04 cells", "my.xlsx is a workbook or an archive, expected text"),
        ("my.xls", b"\xd0\xcf\x11\xe0 cells", "my.xls is a workbook, expected text"),
        ("my.csv", b"PAR1 cells", "my.csv is a Parquet file, expected text"),
        ("other.csv", b"\x1f\x8b cells", "other.csv is packed by gzip, expected text"),
        ("my.json", b'[{"text": "He left."}]', "my.json is of no known format, expected .csv"),
    ],
)
def test_files_that_are_no_text(name, content, told, tmp_path):
    """A workbook, an archive or a JSON document is refused by what it is, not by its columns."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises((StudyError, UsageError), match=told):
        swapbias.open_study(tmp_path / name, reference="male")
