"""A fault in paper.toml of any study is an error with file, line and the nearest right word."""

import pytest

from swapbias.errors import StudyError
from swapbias.studies import load_corpus, load_study, paper, paper_models
from swapbias.studies.corpus_folders import corpora, corpus_dir
from swapbias.studies.declared import parse_declaration

TABLE = """\
[[tables]]
name = "table_3"
title = "By phase"
source = "Table 3"
rows = ["model", "subset"]
stars = [[0.05, "*"]]

[[tables.cells]]
heading = "p"
experiment = "rq1"
measure = "paired_gap"
subset = ["mental_health", "other_health"]
quantity = "p_value"
"""
WITH_PAPER = [name for name in corpora() if (corpus_dir(name) / paper.PAPER_FILE).is_file()]


def faults(text, calculated=()):
    """What is wrong with a paper.toml of gendered_stigma."""
    declaration = parse_declaration("paper.toml", text)
    try:
        paper.check_paper(declaration, load_study("gendered_stigma"), calculated)
    except StudyError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", WITH_PAPER)
def test_papers_of_the_package(name):
    """Each paper.toml of the package fits its study."""
    declared = paper.load_paper(name)
    assert declared.tables or declared.figures


def test_study_without_paper():
    """A study without paper.toml has no tables."""
    without = next(name for name in corpora() if name not in WITH_PAPER and load_corpus(name).study)
    assert paper.load_paper(without) == paper.DeclaredPaper()


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"rq1"', '"rq11"', 10, "Did you mean rq1?"),
        ('"paired_gap"', '"paired_gab"', 11, "Did you mean paired_gap?"),
        ("quantity =", 'slice_by = "phases"\nquantity =', 13, "Did you mean phase?"),
        ('rows = ["model", "subset"]', "", 12, "subset names"),
        ('"subset"]', '"subset"]\ncolumns = ["subset"]', 6, "appears twice"),
        ("measure =", "measur =", 8, "Did you mean measure?"),
        ('[[0.05, "*"]]', '[[0.01, "**"], [0.05, "*"]]', 6, "Sort them"),
        ('"p_value"', '"p"', 13, "expected one of"),
    ],
)
def test_faults(old, new, line, words):
    """A name that the study lacks, and parts that do not fit each other, are told with their line."""
    assert faults(TABLE) == ""
    sentence = faults(TABLE.replace(old, new))
    assert sentence.startswith(f"paper.toml:{line}: ")
    assert words in sentence


def test_stars_without_levels():
    """Stars of a cell need the levels of its table."""
    text = TABLE.replace('stars = [[0.05, "*"]]\n', "").replace('"p_value"', '"stars"')
    assert "stars of the table is missing" in faults(text)


def test_calculated_tables():
    """A table has cells, or a function of the builder by its name, and not both."""
    without_cells = TABLE[: TABLE.index("[[tables.cells]]")]
    assert "it has no cells" in faults(without_cells)
    assert faults(without_cells, ["table_3"]) == ""
    assert "Drop one of them" in faults(TABLE, ["table_3"])
    assert "no table is called so. Did you mean table_3?" in faults(TABLE, ["table_4"])


def test_names_of_models():
    """A model is the paper's by its name, title or an alias, in any case; not by a part of its name."""
    for name in ("roberta-large", "FacebookAI/RoBERTa-large", "RoBERTa", "roberta-large/"):
        assert paper_models.find_model("gendered_stigma", name).title == "RoBERTa"
    for name in ("roberta-base", "roberta-large + adapter", "models/roberta-large"):
        assert paper_models.find_model("gendered_stigma", name) is None
