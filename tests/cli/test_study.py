"""swapbias study, and own prompts in an audit, as a user types them."""

import re
import shlex

import pytest

from tests.conftest import ROOT

FUNCTION = "def score(texts):\n    return [0.7 if 'She' in text else 0.5 for text in texts]\n"


@pytest.fixture
def typed(monkeypatch, tmp_path, capsys):
    from swapbias.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "own_scorer.py").write_text(FUNCTION)

    def type_in(*arguments):
        code = app([str(one) for one in arguments], standalone_mode=False)
        return code or 0, capsys.readouterr().out

    return type_in


def test_the_readmes_second_example_runs(typed, tmp_path):
    section = (
        (ROOT / "README.md").read_text().partition("## Your own question")[2].partition("\n## ")[0]
    )
    blocks = re.findall(r"```(?:\w*)\n(.*?)```", section, re.DOTALL)
    (tmp_path / "my.csv").write_text(
        next(one for one in blocks if one.startswith("text,group,pair"))
    )
    commands = re.findall(r"^swapbias (?!study push).*", "\n".join(blocks), re.MULTILINE)
    said = [typed(*shlex.split(one, comments=True)[1:])[1] for one in commands]
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
    page = (
        ROOT / "docs" / "getting_started.md"
    ).read_text()  # which asks the same of the same table
    (answer,) = re.findall(r"```\n(TOO FEW.*?)```", page, re.DOTALL)
    assert " ".join(answer.split()) in " ".join(said[3].split())


def test_prompts_of_a_csv_file_are_audited_and_the_run_is_whole_without_it(typed, tmp_path):
    rows = [
        f"{who} is late on day {day}.,{who == 'She'},{day}\n"
        for day in "123"
        for who in ("He", "She")
    ]
    (tmp_path / "my.csv").write_text("text,group,pair\n" + "".join(rows))
    own = ("--prompts", "my.csv", "--reference", "False")
    code, said = typed("audit", "own_scorer:score", *own, "--out", "run", "--verbose")
    assert code == 0
    assert "is +20.0 points" in " ".join(said.split())
    (tmp_path / "my.csv").unlink()
    typed("report", "run")
    assert (tmp_path / "run" / "studies" / "my" / "prompts.csv").is_file()
    _, said = typed("audit", "--resume", "run", "--trust", "--verbose")
    assert "is +20.0 points" in " ".join(said.split())


def test_a_plan_tells_what_a_folder_could_find(typed):
    typed("study", "new", "at_work")
    _, said = typed("plan", "vader", "--study", "./at_work")
    assert "240 pairs, 5 templates x 6 pairs of words x 8 conditions" in said
    _, said = typed("plan", "vader", "--study", "at_work:texts", "--no-wordings")
    assert "at_work classifier: 480 prompts for vader" in said


def test_a_check_exits_with_1_where_an_audit_would_refuse(typed, tmp_path):
    typed("study", "new", "at_work")
    (tmp_path / "at_work" / "slots.csv").write_text(
        "pair,group,name,subject,object\n1,female,Emily,she,her\n"
    )
    code, said = typed("study", "check", "at_work")
    assert code == 1
    assert "templates.csv:2: pair 'works/1/nurse' has no row of 'male'" in said
