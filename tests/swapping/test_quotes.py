"""An open quote in a CSV file is refused with its row by every reader; well quoted text is
unchanged."""

import csv
import gzip
import io
from functools import partial
from itertools import product

import pytest

from swapbias.errors import UsageError
from swapbias.notes.annotations import VOTES, read_votes
from swapbias.notes.load import own_notes, stream_notes
from swapbias.studies import read_table
from swapbias.swapping.readers import read_files
from swapbias.swapping.table import load_table

ROWS = 1000
LONG = 'He said ""no"",\nand left.\r\n' * 300  # a note as it stands between quotes


def swap_file(path):
    return [row for batch, _ in read_files([path]).read(1000) for row in batch.to_pylist()]


def read_notes(path):
    return list(stream_notes(path.parent))


NOTES = "note_id,subject_id,hadm_id,note_type,charttime,text"
# What reads, file, header, row of a number.
READERS = {
    "swap": (swap_file, "a.csv", "id,text", "{},fine"),
    "swap_tsv_gz": (swap_file, "a.tsv.gz", "id\ttext", "{}\tfine"),
    "own_notes_gz": (own_notes, "own.csv.gz", "label,text", "1,fine {}"),
    "mimic": (read_notes, "discharge.csv", NOTES, "{},2,3,DS,,fine"),
    "votes": (read_votes, "votes.csv", "row_id," + ",".join(VOTES), "{}" + ",0" * len(VOTES)),
    "swap_table": (load_table, "pairs.csv", "east,west", "e{0}x,w{0}x"),
    "table": (partial(read_table, columns=("a", "b")), "t.csv", "a,b", "{},x"),
}


def write_file(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def with_open_quote(row):
    """The same row with a quote before its last cell."""
    at = max(row.rfind(","), row.rfind("\t")) + 1
    return f'{row[:at]}"{row[at:]}'


@pytest.mark.parametrize("name", READERS)
def test_open_quote(name, tmp_path):
    """An open quote is refused with its row and without its text, in every reader."""
    read, file, header, row = READERS[name]
    whole = [header, *(row.format(number) for number in range(2, ROWS + 1))]
    read(write_file(tmp_path / file, "\n".join(whole) + "\n"))
    for at, later in product((1, 2, 500, ROWS), ("unquoted", "quoted")):
        rows = [*whole[: at - 1], with_open_quote(whole[at - 1]), *whole[at:]]
        if later == "quoted":
            rows[at:] = [f'{with_open_quote(row)}"' for row in rows[at:]]
        sentence = rf"^{file}: row {at} \(line {at}; .*quote.*\.$" if at > 1 else None
        with pytest.raises((ValueError, UsageError), match=sentence) as caught:
            read(write_file(tmp_path / file, "\n".join(rows) + "\n"))
        assert "\n" not in str(caught.value)
        assert "fine" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_rows_behind_an_open_quote(tmp_path, name):
    """No row that swallowed others is returned."""
    path = write_file(
        tmp_path / name,
        "id,text\n" + f"1,{'he ' * 300}\n" * 90_000 + '2,"open\n' + "3,he\n" * 90_000,
    )
    batches = read_files([path]).read(1000)
    texts = set()
    with pytest.raises(ValueError, match=r"row 90002 \(line 90002;"):
        texts.update(text for batch, _ in batches for text in batch.column("text").to_pylist())
    assert texts <= {"he " * 300}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_rows_and_lines(tmp_path, name):
    """The error names row and line, which differ behind notes of many lines."""
    good = f'1,"{LONG}"\r\n\r\n2,"a\rb"\r\n'  # 600 lines and more, a blank one, and a lone carriage return
    reader = csv.reader(io.StringIO("id,text\r\n" + good, newline=""))
    lines = [reader.line_num for _ in reader][-1]
    path = write_file(
        tmp_path / name, f'\ufeffid,text\r\n{good}3,"open\r\n4,fine\r\n5,"closed"\r\n'
    )
    with pytest.raises(ValueError, match=rf"row 4 \(line {lines + 1};"):
        swap_file(path)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz"])
def test_quoted_notes_round_trip(tmp_path, name):
    """Well quoted notes come back byte for byte."""
    texts = [
        LONG.replace('""', '"'),
        '"',
        '""',
        '"x"',
        'x"',
        "",
        ",\t\n",
        '",\n"',
        "plain",
        '\n"\n' * 90_000,
    ] * 20
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if "tsv" in name else ",", quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *enumerate(texts)])
    assert [row["text"] for row in swap_file(write_file(tmp_path / name, text.getvalue()))] == texts


def test_quote_in_an_unquoted_cell(tmp_path):
    """A quote within an unquoted cell stays text."""
    path = write_file(
        tmp_path / "a.csv", 'id,text\n1,5" tube\n2,"5"" tube"\n3,a "b" c\n4,d""\n5, "e"\n'
    )
    assert [row["text"] for row in swap_file(path)] == [
        '5" tube',
        '5" tube',
        'a "b" c',
        'd""',
        ' "e"',
    ]
    path = write_file(tmp_path / "own.csv", f'label,text\n1,"{LONG}"\n0,"""a"""\n0,5" tube\n')
    assert [row["text"] for row in own_notes(path)] == [LONG.replace('""', '"'), '"a"', '5" tube']


@pytest.mark.parametrize("text", ['id,text\n1,"a" b\n2,c\n', 'id,text\n1,"abc "12" x"\n'])
def test_text_behind_a_closing_quote(tmp_path, text):
    """Text behind a closing quote is refused with its row."""
    with pytest.raises(ValueError, match=r"row 2 \(line 2;"):
        swap_file(write_file(tmp_path / "a.csv", text))
    path = write_file(tmp_path / "a.csv", 'id,text,x\n1,"open,y\n2,he",x,y\n')
    with pytest.raises(ValueError, match=r"row 2 .* has 4 cells, expected 3"):
        swap_file(path)
    path = write_file(tmp_path / "mine.csv", 'word,label\n"good,positive\nbad",negative,\n')
    with pytest.raises(ValueError, match=r"mine\.csv:2: 3 cells, expected 2"):
        read_table(path, ("word", "label"))
