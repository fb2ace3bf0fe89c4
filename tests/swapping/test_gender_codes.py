"""A column of patients' genders with codes is refused, never ignored."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.swapping import Job, swap_files

TEXT = "Pt fell at home. She was called and came at once."


def swap_genders(tmp_path, genders, *, gender="sex", kind="csv"):
    table = pd.DataFrame({"text": [TEXT] * len(genders), "sex": genders})
    path = tmp_path / f"notes.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    out = tmp_path / "out"
    swap_files(Job(str(path), "text", whose="patient", gender=gender), out)
    return [
        row for file in sorted(out.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


@pytest.mark.parametrize(
    "genders",
    [
        [0, 1],
        [1, 2],
        [1.0, 2.0],
        [True, False],
        ["F", "2"],
        ["M", "W"],
        ["h", "m"],
        ["0", "1"],
        [None, 1.0],
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_codes_are_refused(genders, kind, tmp_path):
    """Codes for genders are refused before a row is written."""
    if kind == "parquet" and {*map(type, genders)} == {str}:
        pytest.skip("a column of one type")
    with pytest.raises(
        UsageError, match=r"Column 'sex' contains the code .*, expected female or male"
    ):
        swap_genders(tmp_path, genders, kind=kind)
    assert not list(tmp_path.rglob("out/*.parquet"))


def test_other_words_are_refused(tmp_path):
    """Words that are no genders are refused and not repeated."""
    with pytest.raises(UsageError, match="contains other words than female and male") as refused:
        swap_genders(tmp_path, ["Jane Doe", "John Doe"])
    assert "Doe" not in str(refused.value)


@pytest.mark.parametrize(
    "genders", [["F", "M "], ["female", "Male"], ["f", "Undetermined"], ["F", None]], ids=repr
)
def test_words_for_genders(genders, tmp_path):
    """Words for genders are read, with unknown and missing ones."""
    rows = swap_genders(tmp_path, genders)
    assert len(rows) == len(genders)
