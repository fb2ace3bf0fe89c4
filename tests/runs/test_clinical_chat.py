"""Chat models on clinical notes: labels, facts that are kept or left out, and where credentialed notes may go."""

import csv
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from swapbias.errors import UsageError
from swapbias.findings import disaggregate
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.notes.load import load_notes
from swapbias.privacy import credentialed
from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings, note_rows, plan_tasks
from swapbias.studies import tables as checklists
from swapbias.studies.answer_scores import read_facts
from swapbias.studies.catalogue import load_study
from swapbias.studies.study import Candidate, Prompt
from tests.models.chat.server import ChatServer, Reply

SHE = re.compile(r"\bshe\b", re.IGNORECASE)
ILLS = ("gout", "asthma", "anemia", "psoriasis", "glaucoma")
CHECKLIST = "note_id,fact,terms\n" + "".join(f",{one},\n" for one in ILLS) + "n1,fall,fell|fall|falls|fallen\n"


@pytest.fixture
def notes(tmp_path):
    """Twelve notes, six of each gender, and a checklist."""
    with (tmp_path / "notes.csv").open("w", newline="") as handle:
        texts = [
            f"{'She' if n % 2 else 'He'} fell. {'She' if n % 2 else 'He'} has {', '.join(ILLS)}. Room {n}."
            for n in range(12)
        ]
        rows = [(f"n{number}", text, number % 3 == 0) for number, text in enumerate(texts)]
        csv.writer(handle).writerows([("note_id", "text", "label"), *rows])
    (tmp_path / "checklist.csv").write_text(CHECKLIST)
    return tmp_path / "notes.csv"


def asked(notes, server, *, task="summary", own=(), **more):
    about = NoteOptions(
        data=str(notes), checklist=str(notes.parent / "checklist.csv"), question="Does the patient fall?"
    )
    service = ChatOptions(
        model="tiny", base_url=server.base_url, trials=1, temperature=0.0, own_address=tuple(own), **more
    )
    return Settings(studies=(f"clinical_chat:{task}",), options=(about, service))


def primary(found):
    return next(one for one in found if one.primary)


def forgetful(prompt):
    note = prompt.partition("Note:\n")[2]
    return "The patient has " + ", ".join(
        one for one in ILLS if one in note and not (one == "gout" and SHE.search(note))
    )


def test_a_fact_is_stated_by_any_of_its_terms_as_whole_words(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("note_id,fact,terms\n,PT/OT,PT/OT|physical therapy\n7,fall,fell|fall|falls\n,gout,\n")
    facts = checklists.read_checklist(path)
    names = lambda text: [one.name for one in checklists.stated(facts, text)]  # noqa: E731
    assert names("Physical\n therapy after falls.") == ["PT/OT", "fall"]
    assert names("gouty") == []
    assert [one.name for one in checklists.facts_of(facts, "8", ["fell; gout", "fell; GOUT"])] == ["gout"]
    assert [one.name for one in checklists.facts_of(facts, "7", ["fell; gout", "gout"])] == ["gout"]
    prompt = Prompt(candidates=(Candidate("gout", 0.0), Candidate("fell", 1.0), Candidate("fall", 1.0)))
    assert read_facts(prompt, "<think>gout, fall</think>A fall.")[0] == 0.5
    assert read_facts(prompt, "Well.")[0] == 0
    assert math.isnan(read_facts(prompt, "  ")[0])


def test_what_a_model_leaves_out_of_notes_about_women_is_found(notes, tmp_path, quiet):
    # Five ills in all notes, and a fall in n1 alone: without gout women keep 4 of 5 (n1: 4 of 6, for it writes of no
    # fall), men 5 of 5 (5 of 6): the gap is -1/5 in eleven notes and -1/6 in one.
    with ChatServer(forgetful) as server:
        run, found = start(asked(notes, server), tmp_path / "run", **quiet)
        assert len(server.requests) == 24
        assert server.requests[0]["max_tokens"] == 512  # a summary is longer than a letter
        assert {body["messages"][0]["role"] for body in server.requests} == {"system"}
    gap = primary(found)
    assert gap.estimate.value == pytest.approx(-(11 / 5 + 1 / 6) / 12)
    assert (gap.slice_value, gap.verdict, gap.unit) == ("own", "gap", "share of the facts of a checklist")
    assert not [one for one in found if one.measure == "paired_gap" and one.slice_by == "all"]
    assert "keeps more of the facts of notes about men" in (run.folder / "report.html").read_text()


def test_labels_have_flips_and_rates_and_each_note_is_asked_about_once(notes, tmp_path, quiet):
    with ChatServer(lambda prompt: "(A)" if SHE.search(prompt.partition("Note:\n")[2]) else "No.") as server:
        _, found = start(asked(notes, server, task="labels"), tmp_path / "run", draw=False, **quiet)
        assert len(server.requests) == 24
    values = {(one.measure, one.contrast): one.estimate.value for one in found if one.slice_by == "phenotype"}
    assert values["flip_rate", "female and male"] == 1
    assert values["tpr_difference", "female - male"] == values["fpr_difference", "female - male"] == 1


def test_predictions_of_several_trials_are_those_of_most(notes):
    experiment = load_study("clinical_chat").experiments[0]
    data = load_notes(NoteOptions(data=str(notes)), 0, trains=False)
    rows = pd.DataFrame(note_rows(experiment, data, data.pairs(), False))
    said = {"t1": 1.0, "t2": 1.0, "t3": 0.0}
    every = pd.concat(
        rows.assign(trial=trial[1], score=np.where(rows["group"] == "female", value, 0.0), predicted=0.0,
                    prompt_id=rows["prompt_id"] + f"/{trial}", pair_id=rows["pair_id"] + f"/{trial}")
        for trial, value in said.items()
    )  # fmt: skip
    found = disaggregate(every.assign(model_id="chat", top_tokens="[]"), "clinical_chat", expected={})
    values = {one.measure: one.estimate for one in found if one.slice_by == "phenotype" and not one.view}
    assert values["paired_gap"].value == pytest.approx(2 / 3)
    assert (values["flip_rate"].value, values["flip_rate"].n) == (1, 12)


def test_notes_and_a_chat_model_ask_for_the_study_of_both_and_all_notes_are_tested(notes):
    about, service = NoteOptions(data=str(notes), question="Does it?"), ChatOptions(model="tiny", trials=1)
    tasks, _ = plan_tasks(Settings(options=(about, service)))
    assert {task.study.name for task in tasks} == {"care_notes", "clinical_chat"}
    assert {task.n_prompts for task in tasks} == {24}
    others, _ = plan_tasks(Settings(options=(ChatOptions(model="tiny", trials=1),)))
    assert "clinical_chat" not in {task.study.name for task in others}


def test_what_is_missing_is_said_in_a_sentence(notes, tmp_path):
    chat = ChatOptions(model="tiny", trials=1)
    with pytest.raises(UsageError, match="No question is known for the label 'own'"):
        plan_tasks(Settings(studies=("clinical_chat:labels",), options=(NoteOptions(data=str(notes)), chat)))
    with pytest.raises(UsageError, match=r"nowhere.csv does not exist"):
        plan_tasks(Settings(studies=("clinical_chat:summary",), options=(NoteOptions(checklist="nowhere.csv"), chat)))
    bare = tmp_path / "bare.csv"
    bare.write_text("text\nShe is well.\nHe is well.\n")  # no label is needed to look for facts
    with pytest.raises(UsageError, match="states a fact of the checklist in both of its versions"):
        plan_tasks(Settings(studies=("clinical_chat:summary",), options=(NoteOptions(data=str(bare)), chat)))
    with pytest.raises(ValueError, match="no column 'label'"):
        plan_tasks(Settings(studies=("clinical_chat:labels",), options=(NoteOptions(data=str(bare)), chat)))
    with pytest.raises(UsageError, match="'here' is no address, expected http://host:port"):
        ChatOptions(own_address=("here",))


def test_credentialed_notes_go_to_a_declared_address_alone_and_leave_no_text(notes, tmp_path, quiet):
    credentialed.mark(notes.parent)
    with ChatServer(forgetful) as server:
        for own in ((), ("http://127.0.0.1:1",), ("https://" + server.base_url.partition("://")[2],)):
            with pytest.raises(UsageError, match=r"these notes are credentialed.*-M own-address=ADDRESS declares"):
                start(asked(notes, server, own=own), tmp_path / "refused", **quiet)
        assert server.requests == []
        assert not (tmp_path / "refused").exists()
        out = tmp_path.parent / f"{tmp_path.name}-run"
        run, found = start(asked(notes, server, own=(server.base_url,)), out, **quiet)
        assert len(server.requests) == 24
    assert primary(found).estimate.value < -0.19
    assert credentialed.is_credentialed(run.folder)
    for path in run.folder.rglob("*"):
        assert not path.is_file() or b"psoriasis" not in path.read_bytes(), path
    items = run.items("clinical_chat")
    assert set(items["text"]) == set(items["answer"]) == {""}
    assert "candidates" not in items
    line = json.loads((run.folder / "answers.jsonl").read_text().splitlines()[0])
    assert (line["answer"], line["reading"]["unsaid"]) == ("", 0)


def test_a_stopped_run_on_credentialed_notes_goes_on_from_what_was_read(notes, tmp_path, quiet):
    credentialed.mark(notes.parent)
    out, said = tmp_path.parent / f"{tmp_path.name}-run", iter(range(100))
    fault = lambda prompt, n: Reply({"error": f"too long: {prompt}"}, 400) if next(said) > 8 else None  # noqa: E731
    with ChatServer(forgetful, fault=fault) as server, pytest.raises(ValueError, match="is not shown") as error:
        start(asked(notes, server, own=(server.base_url,), concurrency=1), out, draw=False, **quiet)
    assert "psoriasis" not in str(error.value)
    port, before = (
        int(server.base_url.split(":")[2].split("/")[0]),
        len((out / "answers.jsonl").read_text().splitlines()),
    )
    assert 0 < before < 24
    with ChatServer(forgetful, port=port) as again:
        _, found = resume(out, **quiet)
        assert len(again.requests) == 24 - before
    assert primary(found).estimate.value == pytest.approx(-(11 / 5 + 1 / 6) / 12)


def test_a_declared_service_cannot_send_notes_elsewhere(notes, tmp_path, quiet):
    credentialed.mark(notes.parent)
    with ChatServer(forgetful) as elsewhere:
        moved = Reply({}, 307, {"Location": f"{elsewhere.base_url}/chat/completions"})
        with (
            ChatServer(forgetful, fault=lambda prompt, n: moved) as server,
            pytest.raises(ValueError, match="sends requests on to another address"),
        ):
            start(asked(notes, server, own=(server.base_url,)), tmp_path.parent / f"{tmp_path.name}-run", **quiet)
        assert elsewhere.requests == []
