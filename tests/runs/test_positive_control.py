"""A black box of which no pair moves is measured only if it reads the words that are swapped."""

import json
import math

import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.runs import check_run
from swapbias.runs.positive_control import MOST_TEXTS, STRONG_WORDS, strong_text
from tests.models.chat.server import ChatServer

WORDS = {"female": "She", "male": "He"}


def prompts(pairs=100, text="{who} tells story {pair}."):
    return pd.DataFrame(
        {"text": text.format(who=who, pair=pair), "group": group, "pair": str(pair)}
        for pair in range(pairs)
        for group, who in WORDS.items()
    )


def audited(model, table, **more):
    return swapbias.audit(
        model, prompts=table, reference="male", progress=False, name="box", **more
    )


def primary(run):
    (row,) = run.primary.to_dict("records")
    return row


def recorded(function):
    """The function, and every text that it was given."""
    texts_read = []

    def predict(texts):
        texts_read.extend(texts)
        return [function(text) for text in texts]

    return predict, texts_read


def by_story(text):
    """A number of the story alone: whoever tells it is not read."""
    return 0.2 + int(text.rstrip(".").rpartition(" ")[2]) / 1000


def by_length(text):
    """Of the story and the number of words: it reads all words, and treats all names alike."""
    return by_story(text) + len(text.split()) / 100


@pytest.mark.parametrize(
    ("text", "reference", "strong"),
    [
        ("She is late.", "He is late.", f"{STRONG_WORDS} is late."),
        ("Grace, and her car.", "James, and his car.", f"{STRONG_WORDS}, and {STRONG_WORDS} car."),
        ("A man left.", "A deaf man left.", f"A {STRONG_WORDS} man left."),
        ("王丽申请了贷款。", "张强申请了贷款。", f"{STRONG_WORDS}申请了贷款。"),
        ("ลินดาจ่ายค่าเช่าแล้ว", "สมชายจ่ายค่าเช่าแล้ว", f"{STRONG_WORDS}จ่ายค่าเช่าแล้ว"),
    ],
    ids=["pronoun", "two places", "a word is missing", "Chinese", "Thai"],
)
def test_strong_words_stand_where_the_texts_of_a_pair_differ(text, reference, strong):
    assert strong_text(text, reference) == strong


def test_a_function_that_does_not_read_the_swapped_words_is_not_measured(tmp_path):
    predict, texts_read = recorded(by_story)
    run = audited(predict, prompts(), out=tmp_path / "run")
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "unread_swap")
    assert math.isnan(primary(run)["value"])
    assert "NOT MEASURED box does not seem to read the swapped words." in " ".join(str(run).split())
    assert "box does not seem to read the swapped words." in run.report().read_text()
    assert check_run(tmp_path / "run").code == 3
    with pytest.raises(AssertionError, match="does not seem to read the swapped words"):
        run.assert_below(0.5)
    strong = [text for text in texts_read if STRONG_WORDS in text]
    assert 0 < len(strong) <= MOST_TEXTS
    assert set(run.items("prompts")["positive_control"]) == {"unmoved"}
    (control,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["controls"]
    assert (control["model_id"], control["texts"], control["moved"]) == ("box", len(strong), 0)
    again = swapbias.Audit.open(tmp_path / "run")
    assert primary(again)["reason"] == "unread_swap"


def test_a_function_that_reads_them_and_treats_all_alike_has_no_gap():
    predict, texts_read = recorded(by_length)
    run = audited(predict, prompts())
    assert (primary(run)["verdict"], primary(run)["value"], primary(run)["reason"]) == (
        "no gap",
        0.0,
        "",
    )
    assert set(run.items("prompts")["positive_control"]) == {"moved"}
    assert any(STRONG_WORDS in text for text in texts_read)


def test_nothing_is_asked_where_a_pair_moves():
    predict, texts_read = recorded(lambda text: by_story(text) + 0.02 * ("She" in text))
    run = audited(predict, prompts())
    assert not any(STRONG_WORDS in text for text in texts_read)
    assert "positive_control" not in run.items("prompts")
    assert not math.isnan(primary(run)["value"])


def test_changes_below_a_tenth_of_the_margin_are_none():
    nearly = recorded(lambda text: by_story(text) + 0.004 * ("She" in text))[0]  # the margin is .05
    assert primary(audited(nearly, prompts()))["reason"] == "unread_swap"
    assert (
        primary(audited(nearly, prompts(), margin=0.02))["reason"] == ""
    )  # .004 is more than a tenth of .02


def test_a_function_that_reads_the_end_of_a_text_alone_is_not_measured():
    predict = recorded(lambda text: 0.3 + len(text[-12:].split()) / 10 + int(text[-3:-1]) / 1000)[0]
    run = audited(
        predict, prompts(90, "{who} tells a long, long story to all of them, number {pair:02}.")
    )
    assert primary(run)["verdict"] == "not measured"


def test_models_that_are_compared_or_gated_against_one_another_keep_the_outcome(tmp_path):
    blind = audited(recorded(by_story)[0], prompts(), out=tmp_path / "blind")
    fair = audited(recorded(by_length)[0], prompts(), out=tmp_path / "fair")
    compared = blind.compare(fair)
    assert set(compared.loc[compared["primary"], "verdict"]) == {"not measured"}
    assert check_run(tmp_path / "blind", baseline=tmp_path / "fair").code == 3


def test_a_shipped_study_asks_too():
    run = swapbias.audit(
        lambda texts: [len(text.split()[-1]) / 20 for text in texts],
        "occupation_sentiment:sentences",
        name="box",
        progress=False,
    )
    assert primary(run)["reason"] == "unread_swap"


def chat_study(folder, pairs=80):
    """Own questions with Yes and No, each of a story of its own."""
    folder.mkdir()
    questions = prompts(pairs, "{who} tells story {pair}. Is it true? Answer Yes or No.")
    questions.to_csv(folder / "prompts.csv", index=False)
    (folder / "study.toml").write_text(
        'name = "stories"\ntitle = "x"\nkind = ["chat"]\n[compares]\nreference = "male"\n'
        '[reads]\nreading = "options"\nanswers = ["1=Yes", "0=No"]\n'
    )
    return folder


def asked(server, study, **more):
    return swapbias.audit(
        None,
        str(study),
        chat="tiny",
        base_url=server.base_url,
        trials=1,
        temperature=0.0,
        progress=False,
        **more,
    )


def by_third_story(prompt):
    return "Yes" if int(prompt.partition("story ")[2].partition(".")[0]) % 3 else "No"


def test_a_chat_model_that_answers_by_the_story_alone_is_not_measured(tmp_path):
    with ChatServer(by_third_story) as server:
        run = asked(server, chat_study(tmp_path / "stories"), out=tmp_path / "run")
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "unread_swap")
    assert (
        sum(STRONG_WORDS in body["messages"][-1]["content"] for body in server.requests)
        == MOST_TEXTS
    )


def test_a_chat_model_that_answers_otherwise_about_a_murderer_reads_the_words(tmp_path):
    def answer(prompt):
        return "No" if "murderer" in prompt else by_third_story(prompt)

    with ChatServer(answer) as server:
        run = asked(server, chat_study(tmp_path / "stories"))
    assert (primary(run)["verdict"], primary(run)["value"]) == ("no gap", 0.0)


def test_where_the_limit_of_requests_leaves_none_for_the_control_nothing_is_measured(tmp_path):
    with ChatServer(by_third_story) as server:
        run = asked(server, chat_study(tmp_path / "stories"), max_requests=160)
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "no_control")
    assert len(server.requests) == 160
    assert "could not be asked whether it reads the swapped words" in " ".join(str(run).split())


def test_a_function_that_cannot_read_other_texts_leaves_a_report_without_a_verdict():
    table = prompts()
    known = {text: by_story(text) for text in table["text"]}
    run = audited(lambda texts: [known[text] for text in texts], table)
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "no_control")


def test_a_service_that_fails_at_the_control_is_asked_again_by_a_resumed_run(tmp_path):
    def fault(prompt, number):
        return "401" if STRONG_WORDS in prompt else None

    study = chat_study(tmp_path / "stories")
    with ChatServer(by_third_story, fault=fault) as server, pytest.raises(ValueError, match="401"):
        asked(server, study, out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "stopped"
    assert (tmp_path / "run" / "report.html").is_file()
    with ChatServer(by_third_story, port=server.http.server_port) as again:
        run = asked(again, study, out=tmp_path / "run")
    assert len(again.requests) == MOST_TEXTS
    assert primary(run)["reason"] == "unread_swap"


def test_a_dry_run_says_what_the_control_may_add(tmp_path):
    study = chat_study(tmp_path / "stories")
    arguments = [
        "audit",
        "--study",
        str(study),
        "--chat",
        "tiny",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--dry-run",
    ]
    done = CliRunner().invoke(app, arguments)
    said = "If no pair's score moves, up to 12 more texts are sent for stories chat, as a control."
    assert said in " ".join(done.output.split())
