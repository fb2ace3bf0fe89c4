"""A run of which no answer can be read: no value anywhere, on no page and in no file."""

import csv
import io
import math
import re
import zlib
from dataclasses import replace

import pytest
from rich.console import Console

from swapbias.findings import compare
from swapbias.hub.cards import study_parts
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.report import terminal, verdicts
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.studies import Candidate, Prompt, config_rows, turns
from swapbias.studies.answer_scores import read_label
from tests.baselines import letter
from tests.models.chat.server import ChatServer

NUMBERS = ("value", "ci_low", "ci_high", "p_value", "baseline")
NUMBERS += ("missing_data_low", "missing_data_high", "loo_min", "loo_max")
SHARES = re.compile("answers (not readable|unsure)")  # what is told: that all of it is unreadable


@pytest.fixture(scope="module")
def unread(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("unread")
    names = ("adjective_coreference", "stigma_vignettes:race")
    with ChatServer(lambda prompt: "%%%") as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1)
        settings = Settings(studies=names, limit=32, options=(chat,))
        run, found = start(settings, folder / "run", **quiet)
    return found, run


def told(rows):
    """The rows that tell a number which is no share of unreadable answers."""
    return [row for row in rows if not SHARES.match(row["contrast"]) and any(row[name] for name in NUMBERS)]


def test_no_finding_file_page_card_or_difference_has_a_value(unread):
    found, _ = unread
    every = [{name: one.row()[name] for name in (*NUMBERS, "contrast")} for one in found]
    rows = [{name: "" if value != value else str(value) for name, value in row.items()} for row in every]
    assert len(rows) > 50
    assert told(rows) == []
    assert {one.verdict for one in found} == {"", "undecided"}
    found, run = unread
    with (run.folder / "findings.csv").open() as file:
        assert told(csv.DictReader(file)) == []
    screen = Console(file=io.StringIO(), record=True, width=300)
    screen.print(terminal(found, verbose=True), markup=False)
    card = "\n".join(study_parts(found, run.manifest(), model_name="owner/tiny").values())
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert len(rows) > 2  # head, rule, and a row at least
    for shown in (screen.export_text(), "\n".join(rows)):
        assert not re.search(r"\d\.\d", shown)
    page = re.sub(r"<(script|style|code)[\s\S]*?</\1>", "", (run.folder / "report.html").read_text())
    first = re.sub(r"<[^>]+>", " ", page).partition("Published results")[0]
    assert "could not score what the question needs" in first
    assert not re.search(r"[\d.]\d+ (?:points|to)\b|Gap:|No gap:", first)
    _, run = unread
    items = {
        name: {model: run.items(name).assign(model_id=model) for model in ("a", "b")}
        for name in ("adjective_coreference", "stigma_vignettes")
    }
    differences = compare(items)
    assert differences
    assert [one for one in differences if not math.isnan(one.estimate.value)] == []


def audited_by_gender(answer, folder, study="stigma_vignettes:gender", **more):
    """The primary finding of a chat model that answers ``answer(row)``, all findings, the run, and what was said."""
    name, _, config = study.partition(":")
    rows = {turns(row["text"])[-1]["content"]: row for row in config_rows(name, config)}
    said = []
    with ChatServer(lambda prompt: answer(rows[prompt])) as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1, temperature=0.0, **more)
        settings = Settings(studies=(study,), options=(chat,))
        run, found = start(settings, folder, say=said.append, bar=lambda title, total: lambda done: None)
    (primary,) = [one for one in found if one.primary]
    return primary, found, run, " ".join(said)


@pytest.mark.parametrize(
    "refusal", ["I refuse to select D.", "I'm sorry, but I can't answer yes or no to that. Choose D yourself."]
)
def test_a_model_that_refuses_every_question_about_women_is_not_measured(refusal, tmp_path):
    primary, found, run, said = audited_by_gender(
        lambda row: refusal if row["group"] == "woman" else "D", tmp_path / "run"
    )
    assert math.isnan(primary.estimate.value)
    assert primary.verdict == "undecided"
    wanted = ("paired_gap", "refused", primary.subset, "all", "")
    (refused,) = [one for one in found
                  if (one.measure, one.score, one.subset, one.slice_by, one.view) == wanted]  # fmt: skip
    assert (refused.contrast, refused.estimate.value) == ("woman - man", 1.0)
    items = run.items("stigma_vignettes")
    women = items[items["group"] == "woman"]
    assert women["score"].isna().all()
    assert (women["refused"] == 1).all()
    assert f"refused {len(women):,} of {len(items):,} answers, and 0 are unreadable" in said
    assert "-M scoring=log-odds" in said
    page = (run.folder / "report.html").read_text()
    assert f"100.0 % ({len(women)})" in page


def test_a_verdict_that_unread_answers_could_change_is_undecided(tmp_path):
    def answer(row, share):
        drawn = zlib.crc32(row["prompt_id"].encode())
        if row["group"] == "woman" and drawn // 100 % 100 < share:
            return "I would rather think about it."
        return letter(row, drawn % 100 < (90 if row["group"] == "woman" else 10))

    few, *_ = audited_by_gender(lambda row: answer(row, 2), tmp_path / "few")
    assert few.missing_data_low > 0.5
    many, _, _, said = audited_by_gender(lambda row: answer(row, 80), tmp_path / "many")
    assert many.estimate.value > 0.5  # among the answers that were read
    assert many.missing_data_low < 0.05
    assert many.verdict == "undecided"
    sure = replace(many, estimate=replace(many.estimate, p_adjusted=0.001))
    assert "Counting the others either way" in str(verdicts([sure])[0])
    assert "are unreadable" in said


def test_no_way_to_judge_is_no_negative_label():
    prompt = Prompt(
        prompt_id="p", pair_id="p", group="female", text="Does the patient have depression?",
        candidates=(Candidate("yes", 1.0), Candidate("no", 0.0)),
    )  # fmt: skip
    for text in ("As an AI I have no access to records, so I have no way to judge.", "There is no sign of it."):
        score, parts = read_label(prompt, text)
        assert math.isnan(score)
        assert math.isnan(parts["predicted"])
        assert parts["unanswered"] == 1
    assert read_label(prompt, "No.")[0] == 0
    assert read_label(prompt, "**Yes**")[0] == 1
