"""A run of which no answer can be read: no value anywhere, on no page and in no file."""

import csv
import io
import math
import re

import pytest
from rich.console import Console

from swapbias.audit.audit import start
from swapbias.audit.exports import export_run
from swapbias.audit.plan import Settings
from swapbias.findings import compare
from swapbias.hub.model_card import audited, part
from swapbias.report.tables import headline_tables
from swapbias.scorers.chat.options import ChatOptions
from tests.scorers.chat.server import ChatServer

NUMBERS = ("value", "ci_low", "ci_high", "worst_low", "worst_high", "lowest", "highest", "p_value", "baseline")
SHARES = re.compile("answers (not readable|unsure)")  # what is told: that all of it is unreadable


@pytest.fixture(scope="module")
def unread(tmp_path_factory):
    """Findings and run."""
    folder = tmp_path_factory.mktemp("unread")
    names = ("adjective_coreference", "stigma_vignettes:race")
    with ChatServer(lambda prompt: "%%%") as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1)
        settings = Settings(studies=names, limit=32, options=(chat,))
        quiet = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
        run, found = start(settings, folder / "run", **quiet)
    return found, run


def told(rows):
    """The rows that tell a number which is no share of unreadable answers."""
    return [row for row in rows if not SHARES.match(row["contrast"]) and any(row[name] for name in NUMBERS)]


def test_no_finding_has_a_value(unread):
    found, _ = unread
    every = [{name: one.row()[name] for name in (*NUMBERS, "contrast")} for one in found]
    rows = [{name: "" if value != value else str(value) for name, value in row.items()} for row in every]
    assert len(rows) > 50
    assert told(rows) == []
    assert {one.verdict for one in found} == {"", "undecided"}


def test_no_file_page_card_or_table_has_a_value(unread, tmp_path):
    found, run = unread
    export_run(run, "csv", tmp_path / "csv")
    for path in (run.folder / "findings.csv", tmp_path / "csv" / "findings.csv"):
        with path.open() as file:
            assert told(csv.DictReader(file)) == []
    screen = Console(file=io.StringIO(), record=True, width=300)
    for table in headline_tables(found):
        screen.print(table)
    card = "\n".join(part(one) for one in audited(found, run.manifest(), model_name="owner/tiny"))
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert len(rows) > 4
    for shown in (screen.export_text(), "\n".join(rows)):
        assert not re.search(r"\d\.\d", shown)
    page = re.sub(r"<(script|style|code)[\s\S]*?</\1>", "", (run.folder / "report.html").read_text())
    first = re.sub(r"<[^>]+>", " ", page).partition("The evidence")[0]
    assert "no answer, because nothing that the question needs could be scored" in first
    assert not re.search(r"[\d.]\d+ (?:points|to)\b|gap found|no gap larger", first)


def test_no_difference_between_two_such_models_is_told(unread):
    _, run = unread
    items = {
        name: {model: run.items(name).assign(model_id=model) for model in ("a", "b")}
        for name in ("adjective_coreference", "stigma_vignettes")
    }
    differences = compare(items)
    assert differences
    assert [one for one in differences if not math.isnan(one.estimate.value)] == []
