"""gest in other languages: made tables of the form of EuroGEST's, their faults, and planted stereotypes."""

import csv

import numpy as np
import pandas as pd
import pytest

import swapbias
from swapbias.builders._gest_translations import bare
from swapbias.errors import UsageError
from swapbias.findings import disaggregate, primary_findings
from swapbias.studies import config_rows
from swapbias.studies.catalogue import local_corpus

NAME = "gest"
# The columns of EuroGEST's tables; numbers of stereotypes are also written with decimals there.
HEADER = ["GEST_ID", "Stereotype_ID", "Source", "Neutral", "Masculine", "Feminine"]
PAIR = ["3", "15", "I am passionate.", "", "Soy apasionado", "Soy apasionada"]
NEUTRAL = ["26", "12.0", "I paid for all.", "Pagué el café de todos.", "", ""]
UNTRANSLATED = ["99", "1", "I cry a lot.", "", "", ""]


def write_table(folder, rows, name="Spanish"):
    """Write a table of a language."""
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([HEADER, *rows])


def texts_of(folder, config):
    """Return pair, group and text of the rows of a config."""
    rows = config_rows(local_corpus(NAME, folder), config)
    return [(row["pair_id"], row["group"], row["text"]) for row in rows]


def test_pairs_are_read_as_they_are(tmp_path):
    """Both sentences of a pair are rows, with the stereotype of their number; an untranslated one is left out."""
    write_table(tmp_path, [PAIR, NEUTRAL, UNTRANSLATED])
    assert texts_of(tmp_path, "spanish_pairs") == [
        ("words of the sentence/3", "male", "Soy apasionado"),
        ("words of the sentence/3", "female", "Soy apasionada"),
    ]
    (row, _) = config_rows(local_corpus(NAME, tmp_path), "spanish_pairs")
    assert (row["construct"], row["label"], row["condition"]) == ("sexual", "men", "sentence 3")


def test_neutral_sentences_get_templates(tmp_path):
    """A sentence that tells no gender is in each template of its language, of a man and of a woman."""
    write_table(tmp_path, [PAIR, NEUTRAL])
    texts = [text for _, _, text in texts_of(tmp_path, "spanish_templates")]
    said = "“Pagué el café de todos”, dijo"
    assert texts == [f"{said} {word}" for word in ("el hombre", "la mujer", "él", "ella")]
    assert bare(" « Je pleure. » ") == "Je pleure"


@pytest.mark.parametrize("language", ["Spanish", "Italian", "French"])
def test_templates_of_three_languages(tmp_path, language):
    """Each of three languages has two templates, which differ by the words for a man and a woman alone."""
    write_table(tmp_path, [NEUTRAL], language)
    rows = texts_of(tmp_path, f"{language.lower()}_templates")
    assert len({pair for pair, _, _ in rows}) == 2
    assert len({text for _, _, text in rows}) == 4


def test_other_languages(tmp_path):
    """A language without templates has its pairs alone; templates beside its table are read."""
    write_table(tmp_path, [PAIR, NEUTRAL], "Czech")
    (pairs,) = local_corpus(NAME, tmp_path).configs
    assert pairs.name == "czech_pairs"
    before = pairs.content_key()
    (tmp_path / "language_templates.csv").write_text(
        'file,template,text,male,female,source\nCzech,řekl,"""[sentence]"", [word]",řekl,řekla,own\n',
        encoding="utf-8",
    )
    assert [text for _, _, text in texts_of(tmp_path, "czech_templates")] == [
        '"Pagué el café de todos", řekl',
        '"Pagué el café de todos", řekla',
    ]
    assert pairs.content_key() != before  # stored rows are made again


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (["3", "17", "", "Lloro", "", ""], "Stereotype_ID is '17', expected 1 to 16"),
        (["", "1", "", "Lloro", "", ""], "GEST_ID is blank"),
        (["4", "1", "", "", "Soy listo", ""], "of Masculine and Feminine one is blank"),
        (["4", "1", "", "", "Soy feliz", "Soy feliz"], "are the same sentence"),
        (PAIR, "GEST_ID 3 is there 2 times"),
        (["4", "1", "", "Lloro"], "4 cells, expected 6"),
    ],
)
def test_wrong_rows_are_named(tmp_path, row, fault):
    """A wrong row is refused with its file, what is wrong and what to do."""
    write_table(tmp_path, [PAIR, row])
    with pytest.raises(ValueError, match=rf"Spanish.csv.*{fault}"):
        local_corpus(NAME, tmp_path)


def test_wrong_folders_are_named(tmp_path):
    """A folder without tables, a table without the columns, and one with nothing to compare are refused."""
    with pytest.raises(UsageError, match="has no table"):
        local_corpus(NAME, tmp_path)
    write_table(tmp_path, [NEUTRAL], "Danish")
    with pytest.raises(UsageError, match="pairs, or templates of its language"):
        local_corpus(NAME, tmp_path)
    (tmp_path / "Danish.csv").write_text("sentence,stereotype\nHej,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"Danish.csv:1: no column GEST_ID"):
        local_corpus(NAME, tmp_path)


def test_tables_are_of_notes(tmp_path):
    """A table of words to swap, which is of notes, is refused for data."""
    write_table(tmp_path, [PAIR])
    with pytest.raises(UsageError, match="gest reads data, and tables are of notes"):
        local_corpus(NAME, tmp_path, table="paper")


def made_sentences():
    """Rows of 16 stereotypes, each of 12 pairs and 12 sentences that tell no gender, women first."""
    rows = []
    for number in range(16 * 24):
        stereotype = str(number % 16 + 1)
        words = ["", f"Soy {number}o", f"Soy {number}a"]
        if number >= 16 * 12:
            words = [f"Digo {number}", "", ""]
        rows.append([str(number), stereotype, "", *words])
    return rows


@pytest.mark.parametrize("config", ["spanish_pairs", "spanish_templates"])
@pytest.mark.parametrize("planted", [0.5, 0.0])
def test_planted_stereotype(tmp_path, config, planted):
    """A planted stereotype is found at its size; the words for a man and the length of a text are none."""
    write_table(tmp_path, made_sentences())
    table = swapbias.load_prompts(NAME, config, data=tmp_path).to_pandas()
    rng = np.random.default_rng(5)
    construct = dict(zip(table["construct"].unique(), rng.normal(0, 0.05, 16), strict=True))
    says = np.where(table["label"] == "men", planted, 0.0) + table["construct"].map(construct)
    score = np.where(table["group"] == "male", says + 1.5, 0.0)
    score += rng.normal(0, 0.2, len(table)) - 0.3 * table["text"].str.len()
    scored = table.assign(model_id="made", score=score, experiment="causal")
    (one,) = primary_findings(disaggregate(pd.DataFrame(scored), NAME, robustness=False))
    assert one.estimate.ci_low <= planted <= one.estimate.ci_high
    assert (one.verdict == "gap") == (planted > 0)
    assert one.cluster_vars == "stereotypes"


def test_names_in_other_letters(tmp_path):
    """Tables whose names are of other letters than a to z have configs of these names."""
    for name in ("中文", "日本語"):
        write_table(tmp_path, [PAIR], name)
    configs = local_corpus(NAME, tmp_path).configs
    assert [config.name for config in configs] == ["中文_pairs", "日本語_pairs"]


@pytest.mark.parametrize(
    ("templates", "fault"),
    [
        (["x,[sentence],he,she"], r"template x of Czech has not the slots \[sentence\] and \[word\]"),
        (["x,[sentence] [word] [other],he,she"], "has not the slots"),
        (["x,[sentence] [word],he,he"], "template x of Czech has one word for both groups"),
        (["x,[sentence] [word],he,she", "x,[word]: [sentence],he,she"], "Czech has several templates x"),
    ],
    ids=["no word", "another slot", "one word", "one name"],
)  # fmt: skip
def test_wrong_templates_are_named(tmp_path, templates, fault):
    """A template that cannot tell a man from a woman is refused with its table and name."""
    write_table(tmp_path, [NEUTRAL], "Czech")
    rows = "".join(f"Czech,{template},own\n" for template in templates)
    header = "file,template,text,male,female,source\n"
    (tmp_path / "language_templates.csv").write_text(header + rows, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"language_templates\.csv: .*{fault}"):
        local_corpus(NAME, tmp_path)


def test_table_with_semicolons(tmp_path):
    """A table with another sign between its cells is refused by that sign, not by its columns."""
    lines = [";".join(row) for row in (HEADER, PAIR)]
    (tmp_path / "Spanish.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"Spanish.csv:1: cells are separated by ';'. Save it with commas"
    ):
        texts_of(tmp_path, "spanish_pairs")
