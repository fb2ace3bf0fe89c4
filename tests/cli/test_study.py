"""swapbias study, and audits of a user's prompts, from the command line."""

import re
import shlex

import pytest

from tests.conftest import ROOT

FUNCTION = "def score(texts):\n    return [0.7 if 'She' in text else 0.5 for text in texts]\n"


@pytest.fixture
def run_command(monkeypatch, tmp_path, capsys):
    from swapbias.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "own_scorer.py").write_text(FUNCTION)

    def type_in(*arguments):
        code = app([str(argument) for argument in arguments], standalone_mode=False)
        return code or 0, capsys.readouterr().out

    return type_in


def test_second_example_of_the_readme(run_command, tmp_path):
    """The second example of the README runs and prints the answer shown there."""
    section = (
        (ROOT / "README.md").read_text().partition("## Your own question")[2].partition("\n## ")[0]
    )
    blocks = re.findall(r"```(?:\w*)\n(.*?)```", section, re.DOTALL)
    (tmp_path / "my.csv").write_text(
        next(one for one in blocks if one.startswith("text,group,pair"))
    )
    commands = re.findall(r"^swapbias (?!study push).*", "\n".join(blocks), re.MULTILINE)
    said = [run_command(*shlex.split(one, comments=True)[1:])[1] for one in commands]
    parts = (
        "study.toml",
        "It can be audited.",
        "my_study:classifier, vader: ",
        "my:classifier, vader: ",
    )
    assert [part in one for part, one in zip(parts, said, strict=True)] == [True] * 4
    assert "Report  " in said[2]
    (ends,) = set(
        re.findall(r"95 % interval (\S+ to [^\s,):]+)", " ".join(" ".join(blocks).split()))
    )
    assert ends in " ".join(said[2].split())
    report = said[2].partition("Report  ")[2].split()[0]
    assert (
        "written of alike?</p>" in (tmp_path / report).read_text()
    )  # a title that is a question has no full stop
    assert "UNDECIDED" in said[3]  # four pairs are enough for a verdict
    page = (ROOT / "docs" / "getting_started.md").read_text()  # whose table has three
    blocks = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    table, answer = (
        next(block for block in blocks if block.startswith(start))
        for start in ("text,group,pair", "TOO FEW")
    )
    (tmp_path / "applicants.csv").write_text(table)
    shown = run_command("audit", "vader", "--prompts", "applicants.csv", "--reference", "male")[1]
    assert " ".join(answer.split()) in " ".join(shown.split())


def test_prompts_of_a_csv_file(run_command, tmp_path):
    """Prompts of a CSV file are audited, and the run can be resumed without the file."""
    rows = [
        f"{who} is late on day {day}.,{who == 'She'},{day}\n"
        for day in "123"
        for who in ("He", "She")
    ]
    (tmp_path / "my.csv").write_text("text,group,pair\n" + "".join(rows))
    own = ("--prompts", "my.csv", "--reference", "False")
    code, said = run_command("audit", "own_scorer:score", *own, "--out", "run", "--verbose")
    assert code == 0
    assert "is +20.0 points" in " ".join(said.split())
    (tmp_path / "my.csv").unlink()
    run_command("report", "run")
    assert (tmp_path / "run" / "studies" / "my" / "prompts.csv").is_file()
    _, said = run_command("audit", "--resume", "run", "--trust", "--verbose")
    assert "is +20.0 points" in " ".join(said.split())


def test_plan_of_a_folder(run_command):
    """A plan states what a folder could find."""
    run_command("study", "new", "at_work")
    _, said = run_command("plan", "vader", "--study", "./at_work")
    assert "240 pairs, 5 templates x 6 pairs of words x 8 conditions" in said
    _, said = run_command("plan", "vader", "--study", "at_work:texts", "--no-wordings")
    assert "at_work classifier: 480 prompts for vader" in said


def test_failed_check(run_command, tmp_path):
    """A check exits with code 1 where an audit would refuse the study."""
    run_command("study", "new", "at_work")
    (tmp_path / "at_work" / "slots.csv").write_text(
        "pair,group,name,subject,object\n1,female,Emily,she,her\n"
    )
    code, said = run_command("study", "check", "at_work")
    assert code == 1
    assert "templates.csv:2: pair 'works/1/nurse' has no row of 'male'" in said
