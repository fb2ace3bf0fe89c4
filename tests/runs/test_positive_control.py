"""A model whose pairs all score the same is measured only if it reads the swapped words."""

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


def audited(model, table, **options):
    return swapbias.audit(
        model, prompts=table, reference="male", progress=False, name="box", **options
    )


def primary(run):
    (row,) = run.findings.query("primary").to_dict("records")
    return row


def record_texts(function):
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
def test_strong_words(text, reference, strong):
    """Strong words replace the words in which the texts of a pair differ."""
    assert strong_text(text, reference) == strong


def test_function_that_ignores_the_swap(tmp_path):
    """A function that does not read the swapped words is not measured."""
    predict, texts_read = record_texts(by_story)
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


def test_function_that_treats_all_alike():
    """A function that reads the swapped words and treats all alike has no gap."""
    predict, texts_read = record_texts(by_length)
    run = audited(predict, prompts())
    assert (primary(run)["verdict"], primary(run)["value"], primary(run)["reason"]) == (
        "no gap",
        0.0,
        "",
    )
    assert set(run.items("prompts")["positive_control"]) == {"moved"}
    assert any(STRONG_WORDS in text for text in texts_read)


def test_no_control_for_moving_pairs():
    """No control text is scored where a pair moves."""
    predict, texts_read = record_texts(lambda text: by_story(text) + 0.02 * ("She" in text))
    run = audited(predict, prompts())
    assert not any(STRONG_WORDS in text for text in texts_read)
    assert "positive_control" not in run.items("prompts")
    assert not math.isnan(primary(run)["value"])


def test_small_changes():
    """Changes below a tenth of the margin count as none."""
    nearly = record_texts(lambda text: by_story(text) + 0.004 * ("She" in text))[
        0
    ]  # the margin is .05
    assert primary(audited(nearly, prompts()))["reason"] == "unread_swap"
    assert (
        primary(audited(nearly, prompts(), margin=0.02))["reason"] == ""
    )  # .004 is more than a tenth of .02


def test_function_of_the_end():
    """A function that reads the end of a text alone is not measured."""
    predict = record_texts(
        lambda text: 0.3 + len(text[-12:].split()) / 10 + int(text[-3:-1]) / 1000
    )[0]
    run = audited(
        predict, prompts(90, "{who} tells a long, long story to all of them, number {pair:02}.")
    )
    assert primary(run)["verdict"] == "not measured"


def test_outcome_in_comparison_and_gate(tmp_path):
    """Models that are compared or gated against each other keep the outcome of the control."""
    blind = audited(record_texts(by_story)[0], prompts(), out=tmp_path / "blind")
    fair = audited(record_texts(by_length)[0], prompts(), out=tmp_path / "fair")
    compared = blind.compare(fair)
    assert set(compared.loc[compared["primary"], "verdict"]) == {"not measured"}
    assert check_run(tmp_path / "blind", baseline=tmp_path / "fair").code == 3


def test_shipped_study():
    """A study of the package has the control too."""
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


def audit_of_chat(server, study, **options):
    return swapbias.audit(
        None,
        str(study),
        chat="tiny",
        base_url=server.base_url,
        trials=1,
        temperature=0.0,
        progress=False,
        **options,
    )


def by_third_story(prompt):
    return "Yes" if int(prompt.partition("story ")[2].partition(".")[0]) % 3 else "No"


def test_chat_model_that_ignores_the_swap(tmp_path):
    """A chat model that answers by the story alone is not measured."""
    with ChatServer(by_third_story) as server:
        run = audit_of_chat(server, chat_study(tmp_path / "stories"), out=tmp_path / "run")
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "unread_swap")
    assert (
        sum(STRONG_WORDS in body["messages"][-1]["content"] for body in server.requests)
        == MOST_TEXTS
    )


def test_chat_model_that_reads_the_words(tmp_path):
    """A chat model that answers differently about a murderer reads the words."""

    def answer(prompt):
        return "No" if "murderer" in prompt else by_third_story(prompt)

    with ChatServer(answer) as server:
        run = audit_of_chat(server, chat_study(tmp_path / "stories"))
    assert (primary(run)["verdict"], primary(run)["value"]) == ("no gap", 0.0)


def test_no_requests_for_the_control(tmp_path):
    """The run is not measured where the limit of requests leaves none for the control."""
    with ChatServer(by_third_story) as server:
        run = audit_of_chat(server, chat_study(tmp_path / "stories"), max_requests=160)
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "no_control")
    assert len(server.requests) == 160
    assert "could not be asked whether it reads the swapped words" in " ".join(str(run).split())


def test_function_of_known_texts():
    """A function that cannot score other texts leaves a report without a verdict."""
    table = prompts()
    known = {text: by_story(text) for text in table["text"]}
    run = audited(lambda texts: [known[text] for text in texts], table)
    assert (primary(run)["verdict"], primary(run)["reason"]) == ("not measured", "no_control")


def test_service_that_fails_at_the_control(tmp_path):
    """A control at which the service failed is repeated by a resumed run."""

    def fault(prompt, number):
        return "401" if STRONG_WORDS in prompt else None

    study = chat_study(tmp_path / "stories")
    with ChatServer(by_third_story, fault=fault) as server, pytest.raises(ValueError, match="401"):
        audit_of_chat(server, study, out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "stopped"
    assert (tmp_path / "run" / "report.html").is_file()
    with ChatServer(by_third_story, port=server.http.server_port) as again:
        run = audit_of_chat(again, study, out=tmp_path / "run")
    assert len(again.requests) == MOST_TEXTS
    assert primary(run)["reason"] == "unread_swap"


def test_control_in_a_dry_run(tmp_path):
    """A dry run states how many texts the control may add."""
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
    text = "If no pair's score moves, up to 12 more texts are sent for stories chat, as a control."
    assert text in " ".join(done.output.split())
