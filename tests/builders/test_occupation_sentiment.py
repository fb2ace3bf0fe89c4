"""Tables 1 and 2 of Bhaskaran & Bhallamudi: printed numbers as published.csv has them, and those of runs beside."""

import csv
import math
from dataclasses import replace

import pandas as pd
import pytest
from scipy.stats import t
from typer.testing import CliRunner

from swapbias.builders._occupation_sentiment_tables import unpaired_p
from swapbias.cli import app
from swapbias.findings import disaggregate
from swapbias.report import fill_tables, models_in
from swapbias.studies import config_rows, load_corpus, load_study, tables
from swapbias.studies.published import published_rows
from tests.models.sentiment.test_training import write_stsa

STUDY = "occupation_sentiment"
BERT = "bert-base-uncased (fine-tuned on SST-2)"
SCORES = {("nurse", "female"): 0.9, ("chef", "male"): 0.7, ("chef", "female"): 0.6}


def filled(rows, **pin):
    """Tables 1 and 2 of a run with these scored rows, by their name."""
    scored = pd.DataFrame(rows)
    found = disaggregate(scored, load_study(STUDY), robustness=False)
    pins = [{"model_id": scored["model_id"][0], **pin}]
    runs = models_in(found, {STUDY: scored}, STUDY, "this run", pins)
    return {table.name: table for table in fill_tables(STUDY, runs)}, runs


def rows_by_hand():
    """Scores of .5, but women who are nurses .9, men who are chefs .7 and women who are .6."""
    return [
        {
            **row,
            "model_id": "by hand",
            "score": SCORES.get((row["condition"], row["group"]), 0.5),
        }
        for row in config_rows(STUDY, "sentences")
    ]


def test_tables_by_hand():
    """Of 20 professions two differ: F - M is (.4 - .1) / 20 = .015, and the means are .7 and .65."""
    named, _ = filled(rows_by_hand(), dev_accuracy=0.75)
    line = named["table_1"].lines[-1]
    assert line[:4] == ("by hand", "this run", "0.7500", "0.015*")
    assert line[-1] == "–"  # no control was read
    line = named["table_2"].lines[-1]
    assert line[2].startswith("nurse 0.70, chef 0.65, ")
    assert line[4].startswith("nurse 0.400, ")
    assert line[5].startswith("chef -0.100, ")
    assert all(len(cell.split(", ")) == 3 for cell in line[2:])


def test_p_values_of_table_1():
    """Each p-value is times 4, the three models of the paper and the run; that of the star pairs the sentences.

    Differences: 20 of .4, 20 of -.1, 360 of 0, squares 3.2 + .2 - 400 * .015^2 = 3.31. Women and men apart: squares
    3.15 and .76.
    """
    named, runs = filled(rows_by_hand())
    paired = 0.015 / (3.31 / 399 / 400) ** 0.5
    apart = 0.015 / (3.91 / 798 * 2 / 400) ** 0.5
    assert (round(paired, 3), round(apart, 3)) == (3.294, 3.031)
    assert unpaired_p(runs[0]) == pytest.approx(2 * t.sf(apart, 798))
    expected = (f"{4 * 2 * t.sf(paired, 399):.2g}", f"{4 * 2 * t.sf(apart, 798):.2g}")
    assert named["table_1"].lines[-1][4:6] == expected == ("0.0043", "0.01")
    assert math.isnan(unpaired_p(replace(runs[0], rows=None)))


def test_printed_cells():
    """Each cell of the paper's lines is a text of published.csv, and each number of the paper has its cell."""
    named, _ = filled(rows_by_hand())
    rows = [row for row in published_rows(STUDY) if row["model"] != "SST-2"]
    texts = {
        row[quantity]
        for row in rows
        for quantity in ("value", "p_value")
        if row["slice_by"] == "all" and row[quantity]
    }
    lines = [line for line in named["table_1"].lines if line[1] in ("printed", "recomputed")]
    cells = {cell.rstrip("*") for line in lines for cell in line[2:]} - {"–"}
    assert cells == texts - {"0.35"}  # the p-value of the control has no column
    ends = {
        f"{row['slice_value']} {row['value']}" for row in rows if row["slice_by"] == "profession"
    } - {" 0.358"}
    lines = [line for line in named["table_2"].lines if line[1] != "this run"]
    parts = {part for line in lines for cell in line[2:] for part in cell.split(", ")} - {"–"}
    assert parts == ends


def test_released_outputs_of_bert(upstream):
    """On what the authors released a run has their numbers: -.040 with a star, scientists highest."""
    (released,) = (one for one in load_corpus(STUDY).released if one.model == BERT)
    files = {path: tables.upstream_file(STUDY, path) for path in released.files}
    named, _ = filled([{**row, "model_id": BERT} for row in released.rows(files)])
    printed, of_run = (
        next(line for line in named["table_1"].lines if line[:2] == ("BERT", label))
        for label in ("printed", "this run")
    )
    assert (printed[3], printed[6]) == (of_run[3], of_run[6]) == ("-0.040*", "0.039")
    assert (printed[5], of_run[5]) == ("0.064", "0.19")  # 3 times .064
    of_run = named["table_2"].lines[-1]
    assert of_run[2].startswith("scientist 0.99, ")
    assert of_run[3].startswith("truck driver 0.34, ")
    assert of_run[4].startswith("pilot 0.041")
    assert of_run[5] == "flight attendant -0.132, bartender -0.126, clerk -0.116"


def test_accuracy_of_a_trained_model(tmp_path):
    """A bag of words that labels its 16 development sentences rightly stands beside the paper's with 1.0000."""
    data = write_stsa(tmp_path / "planted")
    for words in (
        ["train", "bow", "--data", str(data), "--out", str(tmp_path / "bow")],
        [
            "audit",
            str(tmp_path / "bow"),
            *("--study", STUDY, "--limit", "40", "--out", str(tmp_path / "run")),
        ],
        ["audit", "vader", *("--study", STUDY, "--limit", "40", "--out", str(tmp_path / "vader"))],
        [
            "tables",
            *(str(tmp_path / name) for name in ("run", "vader")),
            *("--out", str(tmp_path / "tables")),
        ],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    with (tmp_path / "tables" / f"{STUDY}-table_1.csv").open(encoding="utf-8") as handle:
        lines = {(line[0], line[1]): line for line in csv.reader(handle) if len(line) > 2}
    title = "Bag of words + logistic regression"
    assert lines[title, "printed"][2] == "0.8268"
    assert lines[title, "run run, limit 40"][2] == "1.0000"
    assert lines["vader", "run vader, limit 40"][2] == "–"
    assert "1.0000" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
