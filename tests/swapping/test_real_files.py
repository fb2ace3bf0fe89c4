"""Files as people have them: other signs between cells, views, codes, splits and revisions."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from swapbias.swapping import Job, swap_files
from tests.cli.test_cli import swapbias


def swapped(tmp_path, source, **options):
    """The rows after a swap, without what a swap adds, and what swap_files gave."""
    done = swap_files(Job(str(source), **options), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/data").to_pylist()
    kept = [
        {name: cell for name, cell in row.items() if not name.startswith("swapbias_")}
        for row in rows
    ]
    return kept, done


def content(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


TWO = [{"id": "1", "text": "She left; at one, or |."}, {"id": "2", "text": "He fell."}]


@pytest.mark.parametrize(
    "text",
    [
        'id,text\n1,"He left; at one, or |."\n2,She fell.\n',
        'id;text\n1;"He left; at one, or |."\n2;She fell.\n',
        '"id";"text"\r\n"1";"He left; at one, or |."\r\n"2";"She fell."\r\n',
        'id|text\n1|"He left; at one, or |."\n2|She fell.\n',
        "id\ttext\n1\tHe left; at one, or |.\n2\tShe fell.\n",
        'sep=;\nid;text\n1;"He left; at one, or |."\n2;She fell.\n',
        '"sep=,"\r\nid,text\r\n1,"He left; at one, or |."\r\n2,She fell.\r\n',
        "SEP=\t\nid\ttext\n1\tHe left; at one, or |.\n2\tShe fell.\n",
        'id, text\n1, "He left; at one, or |."\n2, She fell.\n',
        ' id ,text \n1,"He left; at one, or |."\n2,She fell.\n',
        '\ufeffsep=;\nid;text\n1;"He left; at one, or |."\n2;She fell.\n',
        'id,text\n1,"He left; at one, or |."\n\n2,She fell.\n  \n\t\n',
    ],
)
def test_signs_between_cells(tmp_path, text):
    """Semicolons, tabs, bars, Excel's first line and blanks in a header are read."""
    rows, _ = swapped(tmp_path, content(tmp_path / "a.csv", text))
    assert rows == TWO


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
def test_other_encodings(tmp_path, encoding, name, mark):
    """What spreadsheets save as Unicode text is read, with a byte order mark or without, packed or not."""
    text = mark + "id\ttext\r\n1\tHe left – café.\r\n"
    content = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    rows, _ = swapped(tmp_path, tmp_path / name)
    assert rows == [{"id": "1", "text": "She left – café."}]


def test_signs_within_names(tmp_path):
    """A header with commas is read as it is; texts keep blanks and signs."""
    source = content(tmp_path / "a.csv", "id;x,text\n1;2, He; left\n")
    rows, _ = swapped(tmp_path, source)
    assert rows == [{"id;x": "1;2", "text": " She; left"}]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sep=;\n", "a.csv is empty"),
        ("sep=;\nid;text\n1;he;SECRET\n", "row 2 .* has 3 cells, expected 2"),
        ("id;text\n1;he;SECRET\n", "row 2 .* has 3 cells, expected 2"),
        (" text,text \nSECRET,b\n", r"appears twice in the input \(text\)"),
    ],
)
def test_broken_signs(tmp_path, text, sentence):
    """A wrong row of such a file is one sentence."""
    with pytest.raises(ValueError, match=sentence) as refused:
        swapped(tmp_path, content(tmp_path / "a.csv", text))
    assert "SECRET" not in str(refused.value)


def test_views_of_texts(tmp_path):
    """Views of texts are read as texts in every column, and within lists and structs."""
    view = pa.string_view()
    table = pa.table(
        {
            "text": pa.array(["He is.", None]).cast(view),
            "sex": pa.array(["M", "F"]).cast(view),
            "tags": pa.array([["a"], None], pa.list_(view)),
            "at": pa.array([{"place": "x"}, None], pa.struct([("place", view)])),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows, _ = swapped(tmp_path, tmp_path / "a.parquet")
    assert rows == [
        {"text": "She is.", "sex": "F", "tags": ["a"], "at": {"place": "x"}},
        {"text": None, "sex": "F", "tags": None, "at": None},
    ]


@pytest.mark.parametrize("column", ["text", "sex"])
def test_parquet_that_is_not_utf8(tmp_path, column):
    """A Parquet file that is not UTF-8 is refused with row and column, whichever column it is."""
    cells = pa.array([b"He", b"SECRET \xff"]).view(pa.string())
    table = pa.table({"text": ["He", "She"], "sex": ["M", "F"]})
    table = table.set_column(table.schema.get_field_index(column), column, cells)
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(
        ValueError, match=rf"^a\.parquet: row 2, column '{column}', is not UTF-8"
    ) as no:
        swapped(tmp_path, tmp_path / "a.parquet")
    assert "SECRET" not in str(no.value)


def test_shards_without_values(tmp_path):
    """A column without a value in one shard has the type of the others, in either order."""
    for name, cells in (("0", [None]), ("1", ["d3"]), ("2", [None])):
        pq.write_table(pa.table({"text": ["He is."], "d": cells}), tmp_path / f"s{name}.parquet")
    content(tmp_path / "s3.jsonl", '{"text": "She is.", "d": null}\n')
    rows, _ = swapped(tmp_path, tmp_path)
    assert [row["d"] for row in rows] == [None, "d3", None, None]
    assert rows[3]["text"] == "He is."


GENDERS = [  # name of the column, its values, those of the swapped rows, and how many stay
    ("gender", ["M", "female", "X"], ["F", "male", "X"], 1),
    ("Gender", [0, 1, None], [0, 1, None], 2),
    ("sex", [True, False, None], [True, False, None], 2),
    ("patient_gender", ["0", "1", ""], ["0", "1", ""], 2),
    ("sex", ["men", "Women", "Boys"], ["women", "Men", "Girls"], 0),
    ("sexo", ["hombre", "mujer", None], ["hombre", "mujer", None], 0),
    ("sex", ["hombre", "Mujer", None], ["mujer", "Hombre", None], 0),
    ("is_female", [False, True, None], [True, False, None], 0),
    ("isMale", [1, 0, None], [0, 1, None], 0),
    ("gender_F", [0.0, 1.0, None], [1.0, 0.0, None], 0),
    ("female", ["No", "yes", "?"], ["Yes", "no", "?"], 0),
    ("is_woman", ["0", "1", "n/a"], ["1", "0", "n/a"], 0),
    ("gender (0 = male, 1 = female)", [0, 1, 2], [1, 0, 2], 1),
    ("sex (F: 2, M: 1)", ["1", "2", "9"], ["2", "1", "9"], 1),
    ("sex_at_birth", ["M", "F", None], ["F", "M", None], 0),
]


@pytest.mark.parametrize(("name", "values", "expected", "left"), GENDERS)
def test_columns_of_genders(tmp_path, name, values, expected, left):
    """A gender whose values are known is swapped as it is written; what stays is counted."""
    texts = ["He is.", "She is.", "He was."]
    pq.write_table(pa.table({"text": texts, name: values}), tmp_path / "a.parquet")
    rows, done = swapped(tmp_path, tmp_path / "a.parquet")
    assert [row[name] for row in rows] == expected
    assert [*map(type, expected)] == [type(row[name]) for row in rows]
    assert done.totals.genders_left == ({name: left} if left else {})


def test_genders_of_unswapped_rows(tmp_path):
    """A row in which nothing is swapped keeps its gender, and is not counted."""
    source = content(tmp_path / "a.csv", "text,gender\nNo word.,1\nHe.,M\n")
    rows, done = swapped(tmp_path, source)
    assert [row["gender"] for row in rows] == ["1", "F"]
    assert not done.totals.genders_left


@pytest.mark.parametrize("where", ["file", "card"])
def test_classes_of_genders(tmp_path, where):
    """Classes that a Dataset names are swapped, and tell the patient's gender."""
    names = ["female", "unknown", "male"]
    rows = {"text": ["He saw his doctor, and she left.", "She fell.", "He fell."]}
    rows["gender"] = [2, 0, 1]
    folder = tmp_path / "data"
    folder.mkdir()
    if where == "file":
        features = Features(
            {"text": Value("string"), "gender": ClassLabel(names=names)},
        )
        Dataset.from_dict(rows, features=features).to_parquet(folder / "train.parquet")
    else:
        pq.write_table(pa.table(rows), folder / "train.parquet")
        classes = "".join(f"          '{at}': {name}\n" for at, name in enumerate(names))
        content(
            folder / "README.md",
            "---\ndataset_info:\n  features:\n  - name: text\n    dtype: string\n  - name: gender\n"
            f"    dtype:\n      class_label:\n        names:\n{classes}---\n",
        )
    out, done = swapped(tmp_path, folder, whose="patient", gender="gender")
    assert [row["gender"] for row in out] == [0, 2, 1]
    assert out[0]["text"].startswith("She saw her doctor")
    assert done.totals.genders_left == {"gender": 1}


def test_answers_tell_the_patient(tmp_path):
    """A column that answers whether a patient is female tells the patient's gender."""
    source = content(tmp_path / "a.csv", "text,is_female\nShe met him in the ward.,0\n")
    rows, _ = swapped(tmp_path, source, whose="patient", gender="is_female")
    assert rows == [{"text": "She met her in the ward.", "is_female": "1"}]


def test_command_says_what_stays(tmp_path):
    """The command says that a column of codes stays."""
    source = content(tmp_path / "a.csv", "text,gender\nHe.,0\nShe.,1\n")
    done = swapbias("swap", source, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Column gender stays in 2 swapped rows: nothing says which" in done.stderr
