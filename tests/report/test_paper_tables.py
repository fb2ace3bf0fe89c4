"""Tables of papers hold the printed numbers as printed, and those of runs beside them."""

import csv
import io
import math
import re
import shutil
from dataclasses import replace

import pandas as pd
from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.findings import Finding, disaggregate
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures import Estimate
from swapbias.privacy import credentialed
from swapbias.report import TABLE_FORMS, fill_tables, models_in, paper_tables
from swapbias.studies import load_corpus, load_study, paper, tables
from swapbias.studies.corpus import CalculatedTable
from swapbias.studies.declared import parse_declaration

STUDY = "gendered_stigma"
LIN = ("table_3", "table_4", "table_5", "table_6")
TABLE = """\
[[tables]]
name = "table_3"
title = "Gap of 5 % by set_and_phase"
source = "Table 3"
rows = ["slice_value"]
columns = ["model"]
order.slice_value = ["action", ""]
order.model = ["RoBERTa", "MentalRoBERTa", "ClinicalLongformer"]
named.slice_value = {"" = "all"}
stars = [[0.05, "*"], [0.01, "**"], [0.001, "***"]]
correction = "bonferroni"

[[tables.cells]]
heading = "p"
experiment = "rq1"
subset = "mental_health"
measure = "paired_gap"
contrast = "female - male"
slice_by = ["all", "phase"]
quantity = "p_value"
decimals = 3
stars = true

[[tables.cells]]
heading = "gap"
experiment = "rq1"
subset = "mental_health"
measure = "paired_gap"
contrast = "female - male"
slice_by = ["all", "phase"]
decimals = 1
scale = 100
"""
GAP = Finding(
    study=STUDY,
    experiment="rq1",
    model_id="mine",
    measure="paired_gap",
    contrast="female - male",
    subset="mental_health",
    unit="probability mass at the mask",
    estimate=Estimate(-0.0004, p_value=0.004),
)


def fill(monkeypatch, text, findings):
    """The only table of a paper.toml, with findings of a run."""
    declared = paper.check_paper(parse_declaration("paper.toml", text), load_study(STUDY))
    monkeypatch.setattr(paper, "load_paper", lambda study: declared)
    (table,) = fill_tables(STUDY, models_in(findings, {}, STUDY, "this run"))
    return table


def run_of_released_outputs(model):
    """Findings of what the authors released for a model."""
    rows = {}
    for released in load_corpus(STUDY).released:
        if released.model == model and not released.note:
            files = {path: tables.upstream_file(STUDY, path) for path in released.files}
            for row in released.rows(files):
                rows.setdefault(released.experiment, []).append({**row, "model_id": model})
    found = []
    for of_experiment in rows.values():
        found += disaggregate(pd.DataFrame(of_experiment), load_study(STUDY), robustness=False)
    return found


def test_released_outputs_give_the_printed_numbers(upstream):
    """Of the released outputs of RoBERTa every cell that Lin et al. print is that of the run, 200 in all."""
    runs = models_in(run_of_released_outputs("roberta-large"), {}, STUDY, "this run")
    filled = {table.name: table for table in fill_tables(STUDY, runs)}
    assert {*LIN} < {*filled}
    count = 0
    for name in LIN:
        table = filled[name]
        lines = {line[: table.text_columns]: line[table.text_columns :] for line in table.lines}
        printed = {line[:-1]: cells for line, cells in lines.items() if line[-1] == "printed"}
        of_run = {line[:-1]: cells for line, cells in lines.items() if line[-1] == "this run"}
        assert of_run == {line: cells for line, cells in printed.items() if line[0] == "RoBERTa"}
        count += sum(map(len, of_run.values()))
    assert count == 200


def test_printed_numbers_are_as_printed(upstream):
    """A line of Table 3 has the texts that the paper prints, with the stars of its raw p-value."""
    runs = models_in(run_of_released_outputs("roberta-large"), {}, STUDY, "this run")
    (table,) = (one for one in fill_tables(STUDY, runs) if one.name == "table_3")
    printed = ("0.2227", "0.2343", "0.2234", "", "-0.1522")
    assert ("RoBERTa", "non-MH", "diagnosis", "printed", *printed) in table.lines
    longformer = ("0.0917", "0.0721", "0.0410", "*", "0.3033")
    assert ("ClinicalLongformer", "non-MH", "diagnosis", "printed", *longformer) in table.lines


def test_correction_by_models_of_the_table(monkeypatch):
    """A p-value of .004 is .016 where three printed models and the run are the family; printed ones stay."""
    table = fill(monkeypatch, TABLE, [GAP])
    assert table.heads[-2:] == (("mine, this run", "p"), ("mine, this run", "gap"))
    assert table.lines[1][0] == "all"
    assert table.lines[1][-2:] == ("0.016*", "0.0")
    assert table.lines[1][1:3] == ("0.0000***", "0.1343")
    assert table.lines[0][0] == "action"
    assert table.lines[0][-2:] == ("–", "–")


def test_statistic_of_the_paper_comes_first(monkeypatch):
    """A cell takes the paper's statistic before that of the design, and no other column of scores."""
    own = replace(GAP, view=AS_PUBLISHED, estimate=Estimate(0.25, p_value=math.nan))
    mass = replace(GAP, score="closed_list_mass", estimate=Estimate(0.9, p_value=0.5))
    table = fill(monkeypatch, TABLE, [mass, GAP, own])
    assert table.lines[1][-2:] == ("0.016*", "25.0")


def test_escaped_cells(monkeypatch):
    """Names of models are text in each form: no formula, no column, no command."""
    name = "=a|b_c&d"
    table = fill(
        monkeypatch, TABLE.replace('columns = ["model"]', ""), [replace(GAP, model_id=name)]
    )
    texts = {form: write(table) for form, write in TABLE_FORMS.items()}
    (line,) = (row for row in csv.reader(io.StringIO(texts["csv"])) if "a|b" in row[0])
    assert line == [f"'{name}", "all", "this run", "0.016*", "0.0"]
    assert r"| =a\|b\_c&d | all | this run | 0.016\* | 0.0 |" in texts["md"]
    assert r"=a|b\_c\&d & all & this run & 0.016* & 0.0 \\" in texts["tex"]
    assert r"\caption{Gap of 5 \% by set\_and\_phase}" in texts["tex"]


def test_groups_of_columns(monkeypatch):
    """In LaTeX the heading of a group stands over its columns, with a rule below."""
    text = TABLE_FORMS["tex"](fill(monkeypatch, TABLE, [GAP]))
    assert r"\multicolumn{2}{c}{RoBERTa, printed}" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


def test_recomputed_numbers_stand_apart(monkeypatch):
    """A number that nobody prints has a line of its own; a printed bound has the stars of its level."""
    text = TABLE[: TABLE.index("[[tables.cells]]")].replace('columns = ["model"]', "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("order", "named")))
    text = text.replace('"slice_value"', '"experiment"')
    cell = """
[[tables.cells]]
heading = "{}"
measure = "paired_gap"
quantity = "{}"
"""
    text += cell.format("gap", "value") + cell.format("p", "p_value") + cell.format("s", "stars")
    study = "occupation_sentiment"
    declared = paper.check_paper(parse_declaration("paper.toml", text), load_study(study))
    monkeypatch.setattr(paper, "load_paper", lambda name: declared)
    gap = replace(GAP, study=study, experiment="control", subset="")
    (table,) = fill_tables(study, models_in([gap], {}, study, "this run"))
    lines = [line[1:] for line in table.lines if "BERT" in line[0]]
    assert lines == [
        ("sentences", "printed", "-0.040", "<0.01", "**"),
        ("control", "printed", "0.039", "–", "–"),
        ("control", "recomputed", "–", "0.35", ""),
    ]
    assert table.lines[-1] == ("mine", "control", "this run", "0.00", "0.02", "*")


def test_calculated_table(monkeypatch):
    """A function of the builder is given the models of runs; its lines and notes stand as they are."""
    without_cells = TABLE[: TABLE.index("[[tables.cells]]")]
    name = parse_declaration("paper.toml", without_cells)
    declared = paper.check_paper(name, load_study(STUDY), ["table_3"])
    monkeypatch.setattr(paper, "load_paper", lambda study: declared)
    head = ("model", "numbers", "count")

    def count(models):
        lines = [(model.title, model.label, str(len(model.findings))) for model in models]
        return CalculatedTable(head, lines, ("Counted by hand.",))

    corpus = replace(load_corpus(STUDY), calculated_tables={"table_3": count})
    monkeypatch.setattr(paper_tables, "load_corpus", lambda study: corpus)
    (table,) = fill_tables(STUDY, models_in([GAP, GAP], {}, STUDY, "this run"))
    assert (table.flat_heads, table.lines) == ([*head], (("mine", "this run", "2"),))
    assert table.notes[-1] == "Counted by hand."


def test_printed_bounds():
    """A p-value that is printed as a bound reaches the level that it names."""
    assert paper_tables.printed_number("<0.01") == 0.01
    declared = paper.check_paper(parse_declaration("paper.toml", TABLE), load_study(STUDY))
    for text, stars in (("<0.01", "**"), ("0.01", "*"), ("", ""), (">0.05", "")):
        fact = paper_tables._Fact({}, {"p_value": text})
        assert paper_tables._stars(declared.tables[0], fact, 5) == stars


def test_tables_of_a_run(audits, real_masked_model, tmp_path):
    """The command and the page show a small model beside the paper's; of credentialed notes for the user alone."""
    run = tmp_path / "run"
    done = CliRunner().invoke(
        app,
        [
            "audit",
            str(real_masked_model),
            "--study",
            f"{STUDY}:rq1",
            "--limit",
            "40",
            "--out",
            str(run),
        ],
    )
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["tables", str(run), "--out", str(tmp_path / "tables")])
    assert done.exit_code == 0, done.output
    files = {path.name for path in (tmp_path / "tables").iterdir()}
    assert files >= {f"{STUDY}-table_{number}.{form}" for number in "34" for form in TABLE_FORMS}
    assert not any(str(tmp_path) in path.read_text() for path in (tmp_path / "tables").iterdir())
    text = (tmp_path / "tables" / f"{STUDY}-table_4.csv").read_text()
    assert 'mini-mlm,all,"this run, limit 40",' in text
    assert "RoBERTa,all,printed,0.1343,0.0354,0.0000,***,0.9906" in text
    page = (run / "report.html").read_text()
    assert "The paper's tables" in page
    assert "Lin et al. 2022, Table 4" in page
    shutil.copytree(run, tmp_path / "second")
    both = ["tables", str(run), str(tmp_path / "second"), "--out", str(tmp_path / "both")]
    assert CliRunner().invoke(app, both).exit_code == 0
    text = (tmp_path / "both" / f"{STUDY}-table_4.csv").read_text()
    assert re.findall('mini-mlm,all,"(run [a-z]+), limit 40"', text) == ["run run", "run second"]
    credentialed.mark(run)
    done = CliRunner().invoke(app, ["tables", str(run), "--out", str(tmp_path / "held")])
    assert done.exit_code == 0, done.output
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "held").iterdir()} == {0}


def test_run_without_tables(audits, tmp_path):
    """Of prompts of one's own there is no table of a paper, which is told in a sentence."""
    prompts = tmp_path / "own.csv"
    lines = [
        f"{word} pleased the {job}.,{word},{job}"
        for job in ("clerk", "chef")
        for word in ("He", "She")
    ]
    prompts.write_text("\n".join(["text,group,pair", *lines]))
    run = tmp_path / "run"
    options = ["--prompts", str(prompts), "--reference", "He", "--out", str(run)]
    done = CliRunner().invoke(app, ["audit", "vader", *options])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["tables", str(run), "--out", str(tmp_path / "tables")])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == (
        "run has no table of a paper: own declares none. Its numbers are in findings.csv."
    )
    assert not (tmp_path / "tables").exists()
