"""Margins are shares or points of a range, and any other number is refused."""

import pytest

import swapbias
from swapbias.cli.terminal import share_of_range
from swapbias.errors import UsageError
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.runs import Settings
from swapbias.runs.run_folders import default_folder
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
def test_share_or_points(text, share):
    """A margin is a share of the range or a number of points."""
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
    "option",
    [("audit", "vader", "--margin"), ("check", "nowhere", "--max-gap")],
    ids=["audit", "check"],
)
def test_wrong_margin(option, text, hint, capsys):
    """Any other margin is refused with the share that its points are."""
    assert command(*option, text) == 2
    stderr = capsys.readouterr().err
    assert option[-1] in stderr
    assert hint in stderr
    assert "Traceback" not in stderr


def test_python_and_gate():
    """Python and the gate refuse a margin in the same words."""
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


def test_points_as_shares(tmp_path):
    """Points pass as the share that they are."""
    run = swapbias.audit(
        lambda texts: [0.5 + len(text) / 1000 for text in texts],
        "occupation_sentiment",
        out=tmp_path / "run",
    )
    codes = [command("check", run.run.folder, "--max-gap", margin) for margin in ("0.5", "50pt")]
    assert codes[0] == codes[1]


def test_folder_of_a_chat_run():
    """The folder of a chat run carries the name of its model."""
    chat = Settings(options=(ChatOptions(model="owner/some-chat"),))
    assert default_folder(chat).name.startswith("owner-some-chat-")
    assert default_folder(Settings(model="roberta-base")).name.startswith("roberta-base-")
    assert default_folder(Settings()).name.startswith("default-")
