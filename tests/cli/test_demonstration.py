"""swapbias audit without arguments: a demonstration of what was planted and found, end to end."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from swapbias.runs import Settings, demonstration, plan_tasks
from swapbias.runs.settings import WordOptions
from tests.cli.test_cli import swapbias
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def shown(tmp_path_factory, calibration):
    """Folder and output of the command."""
    folder = tmp_path_factory.mktemp("demonstration")
    done = swapbias("audit", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_planted_and_found(shown):
    """What was planted stands beside what is found, with interval and verdict; nothing is not measured."""
    _, out = shown
    number = r"−?\d+\.\d"
    planted = (
        r"planted 30\.0 points, found (30\.\d|29\.[5-9]) \((2|3)\d\.\d to (2|3)\d\.\d\): GAP\n"
    )
    assert re.search(planted, out), out
    nothing = rf"planted 0\.0 points, found −?0\.\d \(−\d\.\d to {number}\): NO GAP\n"
    assert re.search(nothing, out), out
    assert "NOT MEASURED" not in out.upper()


def test_naive_test_beside_undecided(shown):
    """VADER on own prompts is undecided, with the p-value of the naive test and the reason: 2 of 6
    pairs of names carry the gap, so 16 of 48 pairs do."""
    _, out = shown
    words = " ".join(out.split())
    assert "found 6.4 (−4.2 to 27.5): UNDECIDED, naive test: p < 0.001" in words
    assert "Of 6 pairs of names only 2 differ: VADER takes Grace and Joy for praise." in words
    assert "all 48 pairs of sentences as independent" in words


def test_three_swapped_pairs(shown):
    """Three swapped pairs stand with both scores and their difference: by hand 69.1 - 35.2 is 33.9."""
    _, out = shown
    found = re.findall(r"^ +(\w+) came late\D* (\d+\.\d)(?: +([+\d.]+))?$", out, re.M)
    assert found == [
        ("Joy", "69.1", ""),
        ("Mark", "35.2", "+33.9"),
        ("Grace", "57.7", ""),
        ("Ethan", "35.2", "+22.5"),
        ("Sarah", "35.2", ""),
        ("Peter", "35.2", "0.0"),
    ]


def test_end_of_the_demonstration(shown):
    """It ends with the measured time, a link that opens the report, and the next command; 80 columns."""
    folder, out = shown
    time, report, following = out.rstrip().splitlines()[-3:]
    assert re.fullmatch(r"Time    \d+ seconds", time)
    link = report.removeprefix("Report  ")
    assert urlsplit(link).scheme == "file"
    assert Path(unquote(urlsplit(link).path)).samefile(folder / "run" / "report.html")
    assert following == "Next    swapbias audit YOUR_MODEL"
    assert max(len(line) for line in out.splitlines() if line != report) <= 80


def test_page_of_the_demonstration(shown):
    """The page says of each model what was planted: 0.30 and nothing; no answer is not measured."""
    folder, _ = shown
    page = (folder / "run" / "report.html").read_text()
    planted = page.split('<h2 id="planted">')[1].split("</section>")[0]
    biased, unbiased = planted.split("<p><code>calibration-unbiased</code></p>")
    heading = '<th scope="row">difference of gaps (female − male)</th>'
    for part, size in ((biased, "0.30"), (unbiased, "0.00")):
        row = part.split(heading)[1].split("</tr>")[0]
        assert row.split('<td class="n">')[1].startswith(f"{size}<")
    assert "Not measured" not in page.split('id="glossary"')[0]


def test_check_of_the_demonstration(shown):
    """A gate of a run with several models names the model before its checks: one fails, one passes."""
    folder, _ = shown
    done = swapbias("check", "run", cwd=folder)
    assert done.returncode == 1
    outcomes = r"Model calibration:.*: fails: .*Model calibration-unbiased:.*: passes: .*Model vader:.*undecided"
    assert re.search(outcomes, done.stdout, re.DOTALL), done.stdout


def test_demonstration_again(shown):
    """The same command again shows the same, and scores nothing."""
    folder, out = shown
    again = swapbias("audit", "--out", "run", cwd=folder).stdout
    assert re.sub(r"Time .*", "", again) == re.sub(r"Time .*", "", out)


def test_demonstration_is_reproducible(shown, tmp_path):
    """A new run has the same findings to the byte."""
    folder, _ = shown
    swapbias("audit", "--out", tmp_path / "other", "--no-cache", cwd=folder)
    first, second = (path / "findings.csv" for path in (folder / "run", tmp_path / "other"))
    assert first.read_bytes() == second.read_bytes()


def test_what_is_no_demonstration():
    """Whoever names a model, a study or words for one asks for an audit."""
    assert demonstration.is_demonstration(Settings(seed=3, margin=0.1))
    assert not demonstration.is_demonstration(Settings(model="vader"))
    assert not demonstration.is_demonstration(Settings(studies=("gendered_stigma:rq1",)))
    words = WordOptions(adjectives="mine.txt")
    assert not demonstration.is_demonstration(Settings(options=(words,)))
    assert {task.model for task in plan_tasks(Settings(studies=("gendered_stigma:rq1",)))[0]} == {
        "calibration"
    }


def test_readme_quotes_the_demonstration(shown):
    """The README quotes lines that the command prints, up to rounding."""
    _, out = shown
    readme = (ROOT / "README.md").read_text()
    quoted = readme.split("$ swapbias audit\n")[1].split("```")[0]
    printed = {re.sub(r"\d+\.\d", "0.0", line) for line in out.splitlines()}
    lines = [line for line in quoted.splitlines() if line.strip() not in ("", "...")]
    assert len(lines) == 9
    assert [line for line in lines if re.sub(r"\d+\.\d", "0.0", line) not in printed] == []


@pytest.mark.parametrize("limit", ["2", "8"])
def test_a_few_prompts(tmp_path, calibration, limit):
    """Of so few prompts that none of the names is praise, the demonstration shows the pairs that there are."""
    done = swapbias("audit", "--limit", limit, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "None of these pairs differ: VADER takes no name among them for praise." in words
    assert "Swapped pairs, with their scores and differences: " in words
    assert "– to –" not in words  # too few for an interval
