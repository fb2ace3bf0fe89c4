"""Margins are shares or points of a range, and a number that is neither says so."""

import pytest

import swapbias
from swapbias.cli.terminal import share_of_range
from swapbias.errors import UsageError
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.runs import Settings, default_folder
from tests.hub.clients import command


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.05", 0.05),
        (".05", 0.05),
        ("5pt", 0.05),
        ("5 pt", 0.05),
        ("2.5pts", 0.025),
        ("10 points", 0.1),
        ("0", 0.0),
    ],
)
def test_a_margin_is_a_share_or_points(text, share):
    assert share_of_range(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("5", "5 points is 0.05"),
        ("10", "10 points is 0.1"),
        ("-1", "5 points is 0.05"),
        ("5%", "5 points is 0.05"),
        ("nan", "5 points is 0.05"),
        ("200pt", "5 points is 0.05"),
        ("x", "5 points is 0.05"),
        ("", "5 points is 0.05"),
    ],
)
@pytest.mark.parametrize(
    "option", [("audit", "vader", "--margin"), ("check", "nowhere", "--max-gap")]
)
def test_any_other_margin_is_refused_with_what_points_are(option, text, hint, capsys):
    assert command(*option, text) == 2
    said = capsys.readouterr().err
    assert option[-1] in said
    assert hint in said
    assert "Traceback" not in said


def test_python_and_a_gate_say_the_same():
    run = swapbias.audit(
        lambda texts: [0.5 + len(text) / 1000 for text in texts], "occupation_sentiment:control"
    )
    with pytest.raises(UsageError, match=r"margin is 5.*5 points is 0\.05"):
        run.assert_below(5)
    with pytest.raises(
        UsageError, match=r"margin is 10\.0, expected a number from 0 to 1\. 10 points is 0\.1\."
    ):
        swapbias.audit(
            lambda texts: [0.5 for _ in texts], "occupation_sentiment:control", margin=10
        )


def test_points_pass_as_the_share_that_they_are(tmp_path):
    run = swapbias.audit(
        lambda texts: [0.5 + len(text) / 1000 for text in texts],
        "occupation_sentiment",
        out=tmp_path / "run",
    )
    codes = [command("check", run.run.folder, "--max-gap", margin) for margin in ("0.5", "50pt")]
    assert codes[0] == codes[1]


def test_the_folder_of_a_chat_run_carries_the_name_of_its_model():
    chat = Settings(options=(ChatOptions(model="owner/some-chat"),))
    assert default_folder(chat).name.startswith("owner-some-chat-")
    assert default_folder(Settings(model="roberta-base")).name.startswith("roberta-base-")
    assert default_folder(Settings()).name.startswith("default-")
