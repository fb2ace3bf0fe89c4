"""What a corpus lacks is named, and the skeletons of CONTRIBUTING.md lack nothing."""

import re

import pytest

from tests.conftest import ROOT
from tests.distributions import install, run, swapbias

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
NAME = "night_shift"


def skeleton():
    """The files of a corpus that CONTRIBUTING.md has to paste, by path."""
    part = CONTRIBUTING.partition("## Add a corpus")[2].partition("## Add a measure")[0]
    blocks = re.findall(r"^`([\w/.]+)`.*?\n\n(`{3,})\w+\n(.*?)^\2$", part, re.MULTILINE | re.DOTALL)
    return {path: text for path, _, text in blocks}


@pytest.fixture
def pasted(tmp_path):
    """A distribution that holds the skeleton with some texts in place of others."""

    def paste(**changed):
        files = {f"shifts/{path}": text for path, text in skeleton().items()}
        files["shifts/__init__.py"] = ""
        for path, text in files.items():
            for old, new in changed.get(path.rpartition("/")[2].replace(".", "_"), {}).items():
                assert old in text
                files[path] = files[path].replace(old, new)
        points = {"swapbias.corpora": {NAME: f"shifts.builders.{NAME}:CORPUS"}}
        return install(tmp_path / "site", "shifts", points, files)

    return paste


def check(folder, *options):
    done = swapbias("study", "test", NAME, *options, folders=[folder])
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_skeleton_of_a_corpus(pasted):
    """The skeleton of a corpus lacks its recorded rows alone, and can be published once they are."""
    folder = pasted()
    code, said = check(folder)
    assert code == 1
    assert "It can be audited." in said
    assert "night_shift/rows.csv has no line for config sentences. Record its rows." in said
    assert "2 errors; fix them before publishing it." in said
    code, said = check(folder, "--write")
    assert (code, said.splitlines()[-1]) == (0, "It can be published.")
    recorded = (folder / "shifts" / "datasets_src" / NAME / "rows.csv").read_text().splitlines()
    assert recorded[0] == "config,rows,sha256,types,metadata,version"
    assert [line.split(",")[:2] for line in recorded[1:]] == [
        ["sentences", "8"],  # 4 templates, 2 groups
        ["sentences_wordings", "40"],
    ]
    (folder / "shifts" / "datasets_src" / NAME / "templates.csv").write_text(
        "template,label\n[who] works the night shift.,work\n"
    )
    code, said = check(folder)
    assert code == 1
    assert "config sentences has other rows than the recorded ones." in said
    code, _ = check(folder, "--write")
    assert code == 2  # the same version cannot be recorded with other rows


def declared(folder):
    return folder / "shifts" / "datasets_src" / NAME / "corpus.toml"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("", "", "It can be published."),
        ('version = "1.0.0"', 'version = "1.0.1"', "rows.csv is of version 1.0.0, expected 1.0.1."),
        (
            "placebo = true\n",
            'placebo = true\n\n[configs.types]\nlabel = ["rest", "work"]\n',
            "Parquet files of sentences_wordings state other types than recorded. Raise version",
        ),
    ],
    ids=["same", "version", "types"],
)
def test_version_of_recorded_rows(old, new, sentence, pasted):
    """Other types need a new version, and a new version is recorded."""
    folder = pasted()
    check(folder, "--write")
    path = declared(folder)
    path.write_text(path.read_text().replace(old, new))
    code, said = check(folder)
    assert sentence in said
    assert code == (1 if old else 0)
    code, said = check(folder, "--write")
    is_refused = "types" in new
    assert code == (2 if is_refused else 0)
    if is_refused:
        path.write_text(path.read_text().replace('version = "1.0.0"', 'version = "1.1.0"'))
        assert check(folder, "--write")[0] == 0


WITHOUT_WORDINGS = {
    "study_toml": {'rewordings = ["sentences_wordings"]\n': ""},
    "night_shift_py": {', "sentences_wordings": reworded': ""},
    "corpus_toml": {
        '\n[[configs]]\nname = "sentences_wordings"\n': "",
        'description = "The same sentences in 5 wordings"\nplacebo = true\n': "",
    },
}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"README_md": {"## Use and misuse\n": "## Use\n"}}, "no part '## Use and misuse'"),
        ({"README_md": {"# night_shift\n": "# Night\n"}}, "another line than '# night_shift'"),
        (
            {"README_md": {"empty: there are no conditions": "empty"}},
            "is 'empty'. Say in a few words",
        ),
        ({"README_md": {"`work` or `rest`": "work or rest"}}, "does not name rest, work"),
        ({"README_md": {"| `wording` |": "| `words` |"}}, "column 'wording' of config"),
        (
            {"README_md": {'revision="VERSION"': 'revision="main"'}},
            'does not load revision="VERSION"',
        ),
        (WITHOUT_WORDINGS, "has groups and no rewordings"),
    ],
    ids=["part", "title", "short meaning", "values", "meaning", "recipe", "rewordings"],
)
def test_missing_parts(changed, sentence, pasted):
    """A part, value, meaning, load line or rewording that is missing is named."""
    _, said = check(pasted(**changed))
    assert sentence in said
    assert re.search(r"\d errors?; fix (it|them) before publishing it\.", said)


def test_skeletons_of_a_measure_and_a_kind(tmp_path):
    """The skeletons of a measure and a kind of model run as they stand."""
    trimmed, letters = (
        re.search(rf'```python\n("""{start}.*?)```', CONTRIBUTING, re.DOTALL)[1]
        for start in ("The trimmed mean", "A kind of model")
    )
    points = {
        "swapbias.measures": {"trimmed_gap": "trimmed:COMPARISON"},
        "swapbias.kinds": {"letters": "letters:LETTERS"},
    }
    install(tmp_path, "skeletons", points, {"trimmed.py": trimmed, "letters.py": letters})
    code = """
from swapbias.measures import comparison_of
from swapbias.models import kind_of
# Of ten differences 0, 1, ..., 9 the tenth at each end goes: the mean of 1 to 8 is 4.5.
scores = [number if group == "a" else 0.0 for number in [*range(9), 90] for group in "ab"]
pairs = [str(number) for number in range(10) for _ in "ab"]
estimate = comparison_of("trimmed_gap").of_rows(scores, [*"ab"] * 10, pairs, reference_group="b")
print(round(estimate.value, 9), estimate.ci_low < 4.5 < estimate.ci_high, kind_of("letters").load("", None).model_id)
"""
    assert run(code, tmp_path).stdout == "4.5 True letters\n"
