"""The catalogue: corpora build their declared rows, tables are strict, a study is one file and
one folder."""

import os
import shutil
import subprocess
import sys

import pytest
from datasets import ClassLabel, Value

import swapbias
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub.corpus_check import recorded_rows
from swapbias.studies import catalogue as studies, tables as sources
from swapbias.studies.corpus import Config
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.prompt import MASK, PROMPT_COLUMNS, fill, slots
from swapbias.studies.tables import fingerprint, read_table
from tests.conftest import ROOT
from tests.tables import rows_of

# Rows, sha256 and types of what is no text, of each config: a change of templates, tables, of the generator of notes
# or of the swap makes a new version, and is recorded by swapbias study test NAME --write.
RECORDED = {
    (corpus, config): row
    for corpus in studies.corpora()
    for config, row in recorded_rows(corpus).items()
}
CONFIGS = [
    (corpus, config.name)
    for corpus in studies.corpora()
    for config in studies.load_corpus(corpus).configs
]
READERS = {
    "string": str,
    "int64": int,
    "float64": float,
    "bool": bool,
    "candidates": list,
    "messages": list,
}


@pytest.mark.parametrize(("corpus", "name"), CONFIGS)
def test_recorded_rows_and_types(corpus, name):
    """Rows of each config have the recorded number and sha256 and the declared types."""
    config = studies.load_corpus(corpus).config(name)
    recorded = RECORDED.get((corpus, name))
    types = {column: config.type_of(column) for column in config.published_columns}
    shown = {
        column: kind if isinstance(kind, str) else "|".join(kind) for column, kind in types.items()
    }
    typed_columns = " ".join(
        f"{column}={kind}" for column, kind in shown.items() if kind != "string"
    )
    mend = f"swapbias study test {corpus} --write"
    assert recorded, f"{corpus} {name} has no line in datasets_src/{corpus}/rows.csv: {mend}"
    assert recorded["types"] == typed_columns, f"other types than the recorded ones: {mend}"
    try:
        rows = studies.config_rows(corpus, name, download=False)
    except UpstreamMissingError:
        pytest.skip("needs the authors' files")
    found = {"rows": str(len(rows)), "sha256": fingerprint(rows)[:16]}
    assert {key: recorded[key] for key in found} == found, f"a new version is recorded by {mend}"
    assert {tuple(row) for row in rows} == {config.columns}
    if config.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS:
        study = studies.load_corpus(corpus).study
        masked = {one.name for one in study.experiments if one.kind == "masked"} if study else set()
        assert len({row["prompt_id"] for row in rows}) == len(rows)
        assert len({(row["pair_id"], row.get("side", row["group"])) for row in rows}) == len(rows)
        assert all(row["text"].strip() and not slots(row["text"]) for row in rows)
        assert all(row["text"].count(MASK) == 1 for row in rows if rows[0]["experiment"] in masked)
    for column, source in zip(config.published_columns, config.columns, strict=True):
        values = {row[source] for row in rows}
        kind = types[column]
        if kind == "string":  # all that are numbers or truth values are declared so
            assert not values <= {"True", "False"}, column
            assert not all(one.lstrip("-").replace(".", "", 1).isdigit() for one in values), column
        else:
            typed = [config.publish_row({**rows[0], source: one})[column] for one in values]
            assert {type(one) for one in typed} == {
                READERS.get(kind, int) if isinstance(kind, str) else int
            }
            if not isinstance(kind, str):
                assert {kind[number] for number in typed} == values  # no class without rows


def test_types_of_a_dataset():
    """The declared types become the types of a data set."""
    assert set(RECORDED) == set(CONFIGS)
    notes = swapbias.load_prompts("clinical_notes", "alcohol_abuse-original")
    assert notes.features["label"] == ClassLabel(names=["negative", "positive"])
    assert notes.features["credentialed"] == Value("bool")
    first = studies.config_rows("clinical_notes", "alcohol_abuse-original")[0]
    assert notes.features["label"].int2str(notes[0]["label"]) == first["label"]
    # A column of that name that a user wrote stays text.
    own = Config(name="own", description="", rows=tuple, columns=("wording", "text"))
    assert own.type_of("wording") == "string"


def test_value_of_another_type():
    """A value of another type is refused with config, column and value."""
    types = {"a": "int64", "b": ("no", "yes"), "c": "bool"}
    config = Config(name="odd", description="", rows=tuple, columns=("a", "b", "c"), types=types)
    right = {"a": "-3", "b": "yes", "c": "True"}
    assert config.publish_row(right) == {"a": -3, "b": 1, "c": True}
    for wrong, words in (
        ({"a": "3.5"}, "odd: a is '3.5', expected int64"),
        ({"b": ""}, "one of no, yes"),
        ({"c": "maybe"}, "c is 'maybe', expected bool"),
    ):
        with pytest.raises(ValueError, match=words):
            config.publish_row(right | wrong)


@pytest.mark.parametrize("corpus", studies.corpora())
def test_corpus_is_whole(corpus):
    """Each corpus has a README, different names of configs, descriptions, and pinned files for its
    upstream."""
    leaf = studies.load_corpus(corpus)
    assert leaf.name == corpus
    assert (corpus_dir(corpus) / "README.md").read_text().startswith(f"# {corpus}\n")
    assert len({config.name for config in leaf.configs}) == len(leaf.configs)
    pinned = sources.pinned_files(corpus)
    for config in leaf.configs:
        assert config.description
        assert set(config.upstream) <= set(pinned)
    for released in leaf.released:
        assert set(released.files) <= set(pinned)
    if leaf.study:
        for experiment in leaf.study.experiments:
            assert experiment.words.direction
            assert experiment.compares.unit.name
            home = studies.load_corpus(experiment.reads.notes.corpus or corpus)
            assert set(experiment.reads.configs) <= {config.name for config in home.configs}
            for config in experiment.reads.configs[:1]:
                rows = studies.config_rows(home.name, config)
                assert {experiment.compares.group, experiment.compares.reference} - {""} <= {
                    row["group"] for row in rows
                }
                readers = {
                    one.name for one in leaf.study.experiments if config in one.reads.configs
                }
                readers |= (
                    {"phenotyping"} if experiment.reads.notes.corpus else set()
                )  # an audit names the experiment of notes
                assert {row["experiment"] for row in rows} <= readers


def test_designs_of_papers():
    """Designs of corpora are those that their papers print."""
    rows = studies.config_rows("gendered_stigma", "rq1")
    assert len({row["text"] for row in rows}) == 374
    by_phase = {row["template"]: row["construct"] for row in rows}
    counts = [
        list(by_phase.values()).count(phase) for phase in ("diagnosis", "intention", "action")
    ]
    assert counts == [4, 6, 7]
    assert all(row["text"].startswith("<mask> ") and not row["text"].endswith(".") for row in rows)
    pairs = studies.config_rows("clinical_notes", "pairs")
    assert all(
        row["subject_id"] == row["pair_id"].partition("/")[2].replace("-0", "-patient-0")
        for row in pairs
    )
    names = studies.config_rows("gender_lexicon", "names")
    female, male = (
        {row["word"] for row in names if row["group"] == group} for group in ("female", "male")
    )
    assert not female & male
    assert min(len(female), len(male)) > 200


def test_original_prompts_are_released_ones(upstream):
    """The original prompts and sentences are the released ones."""
    lexicon = studies.load_lexicon("gendered_stigma/rq1_original")
    assert (len(lexicon.words), len(lexicon.proper)) == (20, 2000)
    released = rows_of(
        sources.upstream_file("occupation_sentiment", "data/gender_corpus.tsv"), "\t"
    )
    sentences = [row["text"] for row in studies.config_rows("occupation_sentiment", "sentences")]
    assert sentences == [row["sentence"] for row in released]


def test_unknown_names(tmp_path, monkeypatch):
    """An unknown name is refused with the known ones."""
    known = "expected one of adjective_coreference, bbq, care_notes, clinical_chat, clinical_notes"
    for call, sentence in (
        (lambda: studies.load_corpus("nope"), f"Unknown corpus 'nope': {known}"),
        (lambda: studies.load_study("gender_lexicon"), "Unknown study"),
        (
            lambda: swapbias.load_prompts("gendered_stigma", "rq9"),
            "Unknown config of gendered_stigma 'rq9'",
        ),
        (
            lambda: studies.metric_path("nope"),
            "expected one of answer_bias, bias_correlation, direct_bias",
        ),
        (lambda: studies.load_lexicon("gendered_stigma/nope"), "Unknown lexicon"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    with pytest.raises(
        UpstreamMissingError, match=r"was not found\. Put it into the folder SWAPBIAS"
    ):
        studies.config_rows("stigma_vignettes", "original_conditions")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,c\n1,2\n", r"t.csv:1: columns a, c, expected a, b"),
        ("a,b\n1,2\n3\n", r"t.csv:3: 1 cells, expected 2"),
        ("a,b\n1, \n", r"t.csv:2: column 'b' is blank"),
        ("", r"t.csv:1: columns none, expected a, b"),
    ],
)
def test_strict_tables(tmp_path, text, sentence):
    """A table with wrong columns, cells or blanks is refused with its line."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_table(tmp_path / "t.csv", ("a", "b"))


def test_wrong_slot(tmp_path):
    """A wrong slot is named, fingerprints depend on order and content, and words such as nan stay
    text."""
    with pytest.raises(ValueError, match="Fix the slot name"):
        fill("[a] and [b]", a="x")
    rows = [{"a": "1"}, {"a": "2"}]
    assert fingerprint(rows) == fingerprint([dict(row) for row in rows])
    assert (
        len({fingerprint(rows), fingerprint(rows[::-1]), fingerprint([{"a": "1"}, {"a": "3"}])})
        == 3
    )
    (tmp_path / "t.csv").write_text("a,b\nnan,null\nTRUE,\n")
    found = read_table(tmp_path / "t.csv", ("a", "b"), optional=("b",))
    assert found == [{"a": "nan", "b": "null"}, {"a": "TRUE", "b": ""}]


NEW_LEAF = '''
"""toy: a study in one file and one folder."""
from swapbias.studies import corpus_dir, declared_corpus, fill, prompt_row, read_table


def rows():
    for row in read_table(corpus_dir("toy") / "templates.csv", ("template",)):
        for group in ("cats", "dogs"):
            text = fill(row["template"], who=group)
            yield prompt_row(row["template"], group, text, "toy", template=row["template"], label="pets")


CORPUS = declared_corpus("toy", {"default": rows})
'''
NEW_CORPUS = """
title = "Toy"
version = "1.0.0"
licence = "Apache-2.0"
tags = []

[[configs]]
name = "default"
description = "Two rows a template"
"""
NEW_STUDY = """
title = "Toy"
url = "https://example.org"
correction = "holm"
family = "study"
limits = []

[[experiments]]
name = "toy"
question = "Cats or dogs?"
kind = "classifier"

[experiments.reads]
configs = ["default"]
reading = ""

[experiments.compares]
measure = "paired_gap"
test = "t"
groups = ["cats"]
reference = "dogs"
factors = []
subset = ""
contrast = []
unit = {name = "liking", range = [0, 100]}
margin = 0.05

[experiments.design]
random = {template = "templates"}
aggregate = []

[experiments.shows]
slices = {template = "template"}

[experiments.words]
direction = "above zero: cats"
"""


def test_study_is_one_file_and_one_folder(tmp_path):
    """A study added as one file and one folder is listed, built and audited, and a wrong slot in it
    is one sentence."""
    import datasets

    pytest.importorskip("torch", reason="needs torch: pip install 'swapbias[models]'")
    package = tmp_path / "copy" / "swapbias"
    shutil.copytree(ROOT / "swapbias", package)
    for leaves in ("builders", "metrics", "datasets_src"):
        shutil.copytree(ROOT / leaves, package / leaves)
    (package / "builders" / "toy.py").write_text(NEW_LEAF)
    folder = package / "datasets_src" / "toy"
    folder.mkdir()
    (folder / "templates.csv").write_text(
        "template\nI like [who].\nI fear [who].\nHere are [who].\n"
    )
    (folder / "README.md").write_text("# toy\n")
    (folder / "corpus.toml").write_text(NEW_CORPUS)
    (folder / "study.toml").write_text(NEW_STUDY)
    (tmp_path / "pets.py").write_text(
        "def likes_cats(texts):\n"
        "    return [70 * ('cats' in t) + (30 + 10 * ('fear' in t)) * ('dogs' in t) for t in texts]\n"
    )
    typed = f"""
import pathlib, sys
from typer.main import get_command
from swapbias.cli import app, main
for line in ("list", "build toy --out built", "audit pets:likes_cats --study toy --out run"):
    assert not get_command(app)(line.split(), prog_name="swapbias", standalone_mode=False)
pathlib.Path({str(folder)!r}, "templates.csv").write_text("template\\nI like [whom].\\n")
sys.argv = "swapbias build toy --out again".split()
print("At last:", file=sys.stderr)
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", typed],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "copy")},
    )
    assert "Cats or dogs?" in done.stdout, done.stderr
    assert "toy default: 6 rows" in done.stdout
    assert datasets.load_dataset(str(tmp_path / "built" / "toy"), split="test").num_rows == 6
    # Gaps 70 - 30, 70 - 40 and 70 - 30 of 100: their mean is 36.7.
    assert "+36.7 points" in " ".join(done.stdout.split())
    assert "Cats or dogs?" in (tmp_path / "run" / "report.html").read_text()
    output = done.stderr.partition("At last:")[2].strip()
    assert (
        output == "swapbias: 'I like [whom].': slots ['whom'], expected ['who']. Fix the slot name."
    )
    assert done.returncode == 2
