"""Tables of users as programs write them: an index, tabs, Excel's first line, UTF-16, classes,
accents."""

import unicodedata

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, Features, Value

import swapbias
from swapbias.errors import StudyError, UsageError, did_you_mean, unknown_name
from swapbias.studies import config_rows
from swapbias.studies.own import open_study

ROWS = [
    ("Eve ran.", "female", "a"), ("Al ran.", "male", "a"),
    ("They met Ida.", "female", "b"), ("They met Bob.", "male", "b"),
]  # fmt: skip
PROMPTS = pd.DataFrame(ROWS, columns=["text", "group", "pair"])


def file_with(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def exported(**options):
    return PROMPTS.to_csv(lineterminator="\n", **options)


FILES = {
    "an index": exported(),
    "an index that was read and written again": exported().replace(",text", "Unnamed: 0,text", 1),
    "an index that was read and written twice": exported().replace(",text", "Unnamed: 0.1,text", 1),
    "a first line of Excel": "sep=,\n" + exported(index=False),
    "a first line of Excel and semicolons": "sep=;\n" + exported(index=False, sep=";"),
    "semicolons": exported(index=False, sep=";"),
    "tabs": exported(index=False, sep="\t"),
    "an index and tabs": exported(sep="\t"),
    "an empty last column": exported(index=False).replace("\n", ",\n"),
}


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
@pytest.mark.parametrize("kind", FILES)
def test_files_of_programs(kind, encoding, tmp_path):
    """A file is read as programs write it, with an index, a mark or another encoding."""
    path = file_with(tmp_path / "mine.csv", FILES[kind], encoding)
    study = open_study(path, reference="male")
    rows = config_rows(study.name, "texts")
    assert [(row["text"], row["group"], row["pair_id"]) for row in rows] == ROWS
    assert set(rows[0]) >= {"text", "group"}
    assert not any(name.startswith("Unnamed") or not name for name in rows[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            exported(index=False).encode("utf-16")[:-1],
            "mine.csv is not UTF-16-LE (truncated data).",
        ),
        (
            exported(index=False).replace("male", "m\xe2le").encode("cp1252"),
            "mine.csv is not UTF-8 (invalid continuation byte).",
        ),
        (
            exported(index=False).replace("Ida", "I\0da").encode(),
            "mine.csv:4: a cell has a character of code 0.",
        ),
    ],
    ids=["cut off", "Windows", "zero"],
)
def test_damaged_text(content, message, tmp_path):
    """A file that is not in its encoding, or has a character of no text, is refused in one sentence."""
    (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises(StudyError) as refused:
        open_study(tmp_path / "mine.csv", reference="male")
    first, _, rest = str(refused.value).partition(". ")
    assert f"{first}." == message
    assert rest in ("Save it as UTF-8.", "Remove it.")


def test_long_texts(tmp_path):
    """A text of up to 8 MB is read; a longer one is refused with that limit."""
    long = PROMPTS.assign(text=PROMPTS["text"] + " x" * 100_000)
    long.to_csv(tmp_path / "mine.csv", index=False)
    study = open_study(tmp_path / "mine.csv", reference="male")
    texts = [row["text"] for row in config_rows(study.name, "texts")]
    assert texts == [*long["text"]]
    long.loc[1, "text"] *= 42
    long.to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(StudyError, match=r"^mine\.csv: row 3 .* a cell longer than 8 MB"):
        open_study(tmp_path / "mine.csv", reference="male")


def test_lines_of_faults(tmp_path):
    """Lines of faults are those of the file."""
    text = "sep=,\n" + exported(index=False).replace("Al ran.", "")
    with pytest.raises(StudyError, match=r"mine\.csv:4: column 'text' is blank"):
        open_study(file_with(tmp_path / "mine.csv", text), reference="male")


def test_column_without_name(tmp_path):
    """A column without a name that is no index is refused with its cause."""
    text = exported().replace("\n0,", "\nfirst,")
    with pytest.raises(StudyError, match=r"mine\.csv:1: a column has no name\..*index=False"):
        open_study(file_with(tmp_path / "mine.csv", text), reference="male")


@pytest.mark.parametrize("typed", ["NFC", "NFD"])
def test_accents_in_two_forms(typed):
    """Accents in two Unicode forms are one name."""
    groups = [unicodedata.normalize(form, "mujér") for form in ("NFC", "NFD")]
    prompts = PROMPTS.assign(group=[groups[0], "male", groups[1], "male"])
    study = open_study(
        prompts, reference="male", group=unicodedata.normalize(typed, "mujér"), name="accents"
    )
    assert study.experiments[0].compares.group == groups[0]


def test_groups_that_differ_by_case():
    """Groups that differ by case alone are refused."""
    with pytest.raises(StudyError, match="'female' and 'Female' differ by case alone"):
        open_study(PROMPTS.assign(group=["female", "male", "Female", "male"]), reference="male")


@pytest.mark.usefixtures("audits")
@pytest.mark.parametrize(
    "names", [["female", "male"], ["male", "female"]], ids=["female first", "male first"]
)
def test_classes_of_a_dataset(names, tmp_path):
    """Classes of a data set are groups by their names, whatever number a class has."""
    features = Features(
        {"text": Value("string"), "pair": Value("string"), "group": ClassLabel(names=names)}
    )
    columns = {"text": list(PROMPTS["text"]), "pair": list(PROMPTS["pair"])}
    numbers = [names.index(group) for group in PROMPTS["group"]]
    rows = Dataset.from_dict({**columns, "group": numbers}, features=features)
    assert (
        open_study(rows, reference="male", name="classes").experiments[0].compares.group == "female"
    )
    rows.to_parquet(tmp_path / "classes.parquet")
    study = swapbias.open_study(str(tmp_path / "classes.parquet"), reference="male")
    assert study.experiments[0].compares.group == "female"
    ran = swapbias.audit(
        lambda texts: [0.5 + 0.01 * len(text) for text in texts], prompts=rows, reference="male"
    )
    assert ran.primary.contrast.tolist() == ["female - male"]


@pytest.mark.parametrize(
    ("typed", "known", "proposed"),
    [
        ("male", ["Female", "Male"], "Male"),
        ("MALE", ["female", "male"], "male"),
        ("male", ["Female"], ""),
        ("women", ["Men", "Others"], ""),
        ("non binary", ["nonbinary", "non-binary"], "non-binary"),
        (unicodedata.normalize("NFD", "Mujér"), ["hombre", "mujér"], "mujér"),
        ("Occupation-Sentiment", ["occupation_sentiment"], "occupation_sentiment"),
        ("femlae", ["male", "female"], "female"),
    ],
    ids=[
        "lower case",
        "upper case",
        "other sex",
        "no near name",
        "hyphen",
        "accent",
        "underscore",
        "swapped letters",
    ],
)
def test_nearest_name(typed, known, proposed):
    """The nearest name is proposed whatever its case."""
    assert did_you_mean(typed, known) == (f" Did you mean {proposed}?" if proposed else "")


def test_unknown_name_among_none():
    """An unknown name where there is none is a whole sentence."""
    assert str(unknown_name("group", "x", [])) == "Unknown group 'x': there is none."


def test_reference_in_another_case():
    """A reference in another case is answered with the right one."""
    groups = [group.title() for group in PROMPTS["group"]]
    with pytest.raises(StudyError, match=r"Did you mean Male\?"):
        open_study(PROMPTS.assign(group=groups), reference="male")


def test_reference_against_itself(tmp_path):
    """The reference cannot be compared with itself."""
    (tmp_path / "rows.csv").write_text("text,group,pair\nHe left.,men,1\nShe left.,women,1\n")
    with pytest.raises(UsageError, match="'men' is the reference and the group compared with it"):
        swapbias.open_study(tmp_path / "rows.csv", reference="men", group="men")
