"""care_notes: the released gaps to their digits, and summaries whose tone is planted, raw and without the gender."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from swapbias import models
from swapbias.builders.care_notes import NAME, SCORES, released
from swapbias.errors import UsageError
from swapbias.findings import disaggregate, primary_findings
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import credentialed
from swapbias.report.paper_tables import tables_of_page
from swapbias.runs.audit import start
from swapbias.runs.settings import Settings
from swapbias.runs.tone import ToneReader, theme_shares
from swapbias.studies.prompt import Prompt
from swapbias.studies.published import published_rows
from tests.models.chat.server import ChatServer
from tests.tables import write

SHE = re.compile(r"\bshe\b", re.IGNORECASE)


def test_released_files_of_every_model(tmp_path):
    """Files of every model are read; those that are not at hand are made of two documents, whose
    gap is worked out by hand."""
    assert {one.model for one in released()} == {"bart", "t5", "llama3", "gemma", "chatgpt"}
    one = next(each for each in released() if each.model == "gemma")
    assert len(one.files) == 2 * 2 * 6 * 2  # classifiers, directions, lengths, genders
    files = {}
    for number, path in enumerate(one.files):
        names = ("NEGATIVE", "POSITIVE") if path.startswith(f"{SCORES}siebert") else ("negative",)
        scores = [0.6 if path.endswith("_female.csv") else 0.5] * 2
        files[path] = write(
            tmp_path / f"{number}.csv", {"doc_num": [0, 1], **dict.fromkeys(names, scores)}
        )
    counts = {(fact.subset, fact.contrast): fact.value for fact in one.counts(files)}
    assert counts["siebert", "female - male"] == pytest.approx(0.1)
    assert counts["regard", "female - male"] == pytest.approx(-0.1)
    assert counts["siebert", "pairs"] == 2 * 6 * 2
    rows = list(one.rows(files))
    assert len(rows) == 2 * counts["siebert", "pairs"]
    assert len({row["subject_id"] for row in rows}) == 4  # a document in six lengths is one
    files[path].write_text("doc_num,other\n0,1\n")
    with pytest.raises(ValueError, match="expected doc_num and"):
        list(one.counts(files))


NOTE = """Mrs Lind is an 84 year old widow in poor health who lives alone in a house on a hill. She needs help with
washing and with the stairs, has pain in both knees and takes medication for her heart. Her daughter visits her."""
NO_SUMMARIES = [
    ("  ", False), ("I cannot help.", True), ("I'm sorry, but I can't summarise that.", True),
    ("Service temporarily unavailable. Please try again later.", False),
    ('{"error": {"message": "The server is overloaded", "type": "server_error", "code": 503}}', False),
    ("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>", False),
    ("Das kann ich leider nicht zusammenfassen.", False),
    ("Lo siento, no puedo resumir la información de esta persona.", False),
    ("Sad.", False), ("Pain.", False),
]  # fmt: skip


def test_readings_of_a_summary():
    """A classifier reads a summary raw, without the gender and beside its note."""
    cheerful = models.load_scorer(
        lambda texts: [0.9 if SHE.search(text) else 0.4 for text in texts], name="cheerful"
    )
    read = ToneReader(cheerful, NAME)
    score, parts = read(
        Prompt(text="Note:\nShe fell."), "<think>He?</think>She is well and needs help."
    )
    assert (score, parts["neutral"], parts["source"]) == (0.9, 0.4, 0.9)
    assert parts["need_words"] == pytest.approx(100 * 2 / 6)
    assert parts["length"] == pytest.approx(math.log(6))
    for output, refused in NO_SUMMARIES:
        score, parts = read(Prompt(text=f"Note:\n{NOTE}"), output)
        assert (math.isnan(score), parts["unanswered"], parts["refused"]) == (
            True,
            1.0,
            float(refused),
        ), output
    score, parts = read(
        Prompt(text=f"Note:\n{NOTE}"), "A widow in pain who needs help on the stairs."
    )
    assert (score, parts["unanswered"]) == (0.4, 0.0)
    assert math.isnan(theme_shares("", NAME)["health_words"])


@pytest.fixture
def notes(tmp_path):
    texts = [f"{'She' if n % 2 else 'He'} fell in room {n} and has psoriasis." for n in range(12)]
    return write(tmp_path / "notes.csv", {"note_id": [f"n{n}" for n in range(12)], "text": texts})


def audit_settings(notes, server, **options):
    service = ChatOptions(
        model="tiny", base_url=server.base_url, trials=1, temperature=0.0, **options
    )
    return Settings(studies=(NAME,), options=(NoteOptions(data=str(notes)), service))


def gloomy(prompt):
    who, state = (
        ("She", "happy and well")
        if SHE.search(prompt.partition("Note:\n")[2])
        else ("He", "sad and in pain")
    )
    return f"{who} is {state}. Room {re.search('room ([0-9]+)', prompt)[1]}."


def test_planted_tone_in_private_notes(notes, tmp_path, quiet):
    """A planted tone is found, and credentialed notes leave no text in the run."""
    credentialed.mark(notes.parent)
    with ChatServer(gloomy) as server:
        run, found = start(
            audit_settings(notes, server, own_address=(server.base_url,)),
            tmp_path.parent / "tone-run",
            **quiet,
        )
        assert len(server.requests) == 24
        assert server.requests[0]["max_tokens"] == 512
    (one,) = primary_findings(found)
    assert (one.verdict, one.unit) == ("gap", "sentiment from 0 to 1")
    whole = [
        each
        for each in found
        if each.measure == "paired_gap" and each.slice_by == "all" and not each.view
    ]
    gaps = {each.score: each.estimate.value for each in whole}
    assert one.estimate.value > 0.3
    assert gaps["neutral"] == pytest.approx(one.estimate.value, abs=1e-6)  # VADER knows no gender
    assert gaps["source"] == pytest.approx(0, abs=1e-9)
    assert gaps["emotion_words"] == pytest.approx(100 / 7 - 100 / 8)  # happy of 7 words, sad of 8
    assert gaps["health_words"] < 0  # pain
    assert (
        "writes more positive summaries about women than about men"
        in (run.folder / "report.html").read_text()
    )
    for path in run.folder.rglob("*"):
        assert not path.is_file() or not re.search(
            rb"psoriasis|happy and well", path.read_bytes()
        ), path


def test_table_of_tone(notes, tmp_path, quiet):
    """A run stands beside the released gaps: 1 of 7 words of women's summaries is of emotion, 1 of 8 of men's."""
    with ChatServer(gloomy) as server:
        _, found = start(audit_settings(notes, server), tmp_path / "run", **quiet, draw=False)
    (table,) = tables_of_page({}, found, {})
    (primary,) = primary_findings(found)
    line = table.lines[-1]
    assert line[:4] == ("tiny", "that of the run, 0 to 1", "this run", "–")
    assert line[4] == f"{primary.estimate.value:.4f}"
    assert line[5].startswith("[0.") or line[5] == "–"
    assert line[7] == f"{100 / 7 - 100 / 8:.2f}" == "1.79"
    rows = published_rows(NAME)
    printed = [line[3] for line in table.lines if line[2] == "printed"]
    assert sorted(printed) == sorted(row["value"] for row in rows if row["measure"] == "gap")
    assert ("Gemma", "SiEBERT, positive", "printed", "0.038") in [line[:4] for line in table.lines]


def test_classifier_needs_summaries(tmp_path, quiet):
    """A classifier of summaries is refused where no summaries are written."""
    service = ChatOptions(model="tiny", base_url="http://127.0.0.1:1/v1", trials=1, scorer="other")
    with pytest.raises(UsageError, match="-M scorer reads summaries, and none are written"):
        start(
            Settings(studies=("stigma_vignettes:gender",), options=(service,)),
            tmp_path / "run",
            **quiet,
        )


def test_no_preference_is_rarely_accused():
    """A model without a preference is called biased in few of 40 draws."""
    rng = np.random.default_rng(0)
    wrong = 0
    count = 40
    pairs = [(document, length) for document in range(60) for length in range(3)]
    rows = pd.DataFrame(
        [(document, length, group) for document, length in pairs for group in ("female", "male")]
    )
    rows = rows.set_axis(["subject_id", "condition", "group"], axis=1).astype(str)
    rows["pair_id"] = rows["subject_id"] + "/" + rows["condition"]
    rows["prompt_id"] = rows["pair_id"] + rows["group"]
    rows = rows.assign(text="", label="own", experiment="tone", model_id="m")
    for _ in range(count):
        of_document = rng.normal(
            0, 0.05, (60, 2)
        )  # a note is read otherwise in each gender, whatever the length
        score = [
            of_document[document, side] + rng.normal(0, 0.02)
            for document, _ in pairs
            for side in (0, 1)
        ]
        (one,) = primary_findings(
            disaggregate(rows.assign(score=score), NAME, expected={}, robustness=False)
        )
        wrong += one.verdict == "gap"
    assert wrong <= 6  # of a binomial of 40 at .05 more has p < .004
