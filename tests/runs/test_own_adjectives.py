"""A user's own adjectives stand in the sentences of adjective_coreference, and are read as those of the study."""

import pytest

from swapbias.builders._adjective_coreference_file import read_adjectives
from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED, file_sha256
from swapbias.models.chat import ChatOptions
from swapbias.privacy import manifest_redaction
from swapbias.runs import Settings, resume, start
from swapbias.runs.command import repeat_command
from swapbias.runs.plan import plan_tasks, reads_installed
from swapbias.runs.settings import WordOptions
from swapbias.studies.catalogue import config_rows, corpus_with_adjectives
from swapbias.studies.corpus_folders import corpus_dir
from tests.models.chat.server import ChatServer

NAME = "adjective_coreference"
LIST = "lazy\n\nself-assured\n"
TABLE = "male,female\nlazy,shy\n,honest\n"


@pytest.fixture
def written(tmp_path):
    """Write a file of adjectives."""

    def write(text):
        path = tmp_path / "adjectives.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_list_gives_two_conditions_a_word(written):
    """An adjective of a list stands once before the occupation of each stereotype."""
    assert read_adjectives(written(LIST)) == [
        {"condition": "baseline", "male": "", "female": ""},
        {"condition": "lazy/-", "male": "lazy", "female": ""},
        {"condition": "-/lazy", "male": "", "female": "lazy"},
        {"condition": "self-assured/-", "male": "self-assured", "female": ""},
        {"condition": "-/self-assured", "male": "", "female": "self-assured"},
    ]


def test_table_gives_a_condition_a_row(written):
    """A row of a table is a pair, or a single adjective where a cell is blank."""
    names = [row["condition"] for row in read_adjectives(written(TABLE))]
    assert names == ["baseline", "lazy/shy", "-/honest"]
    named = "condition,male,female\nbaseline,,\nold,old,\nlazy/shy,lazy,shy\n"
    names = [row["condition"] for row in read_adjectives(written(named))]
    assert names == ["baseline", "old", "lazy/shy"]


def test_table_of_the_study_gives_its_rows():
    """The table of the study, read as a file of one's own, gives the same rows."""
    path = corpus_dir(NAME) / "adjectives.csv"
    corpus = corpus_with_adjectives(NAME, path)
    for config in ("wino_style-stereotype", "wino_style-position"):
        assert config_rows(corpus, config) == config_rows(NAME, config)


def test_adjectives_stand_in_winobias(written, upstream):
    """396 sentence pairs under five conditions are 3,960 prompts, the adjective before its occupation."""
    rows = config_rows(corpus_with_adjectives(NAME, written(LIST)), "winobias_dev-stereotype")
    assert len(rows) == 396 * 2 * 5
    for row in rows:
        male, _, female = row["condition"].partition("/")
        for adjective, gender in ((male, "male"), (female, "female")):
            if row["condition"] != "baseline" and adjective != "-":
                occupation = row[f"{gender}_answer"].removeprefix("the ")
                assert f"{adjective} {occupation}".lower() in row["text"].lower()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lazy\nvery slow\n", "adjectives.csv:2: 'very slow' is no adjective, expected one word"),
        ("lazy\n\nlazy\n", "adjectives.csv:3: the adjectives of line 1 stand here again"),
        ("male,women\nlazy,shy\n", "adjectives.csv:1: columns male, women, expected male and fem"),
        ("lazy, shy\n", "adjectives.csv:1: columns lazy, shy, expected male and female, with"),
        ("male,female\nlazy\n", "adjectives.csv:2: 1 cells, expected 2"),
        ("male,female\n,\n", "adjectives.csv:2: no adjective stands here, expected one or two"),
        ("male,female\nlazy,4th\n", "adjectives.csv:2: '4th' is no adjective"),
        (
            "male,female,condition\nlazy,shy,kind\n",
            "adjectives.csv:2: condition is 'kind', expected 'lazy/shy'",
        ),
        ("\n\n", "adjectives.csv has no adjectives"),
    ],
)
def test_wrong_lines_are_named(written, text, sentence):
    """Of a wrong file the error names the line and what is expected there."""
    with pytest.raises(ValueError, match="^" + sentence.replace("(", r"\(")):
        read_adjectives(written(text))


def answer(rows):
    """Right, except against the stereotype: with ``lazy/-`` never, with ``-/lazy`` for every other sentence."""

    def reply(prompt):
        row = rows[prompt]
        fails = row["condition"] == "lazy/-"
        fails |= row["condition"] == "-/lazy" and int(row["template"][1:]) % 2 == 0
        is_wrong = fails and row["group"] == "anti"
        occupation = row["incorrect" if is_wrong else "correct"].removeprefix("the ")
        male, _, female = row["condition"].partition("/")
        adjective = male if row["male_answer"] == f"the {occupation}" else female
        return f"The {adjective} {occupation}." if adjective.isalpha() else occupation

    return reply


def test_audit_with_own_adjectives(written, tmp_path, quiet):
    """Each adjective has a finding of its own, the family of all, and the file's sha256 stands in the manifest."""
    path = written("lazy\n")
    rows = config_rows(corpus_with_adjectives(NAME, path), "wino_style-stereotype")
    with ChatServer(answer({row["text"]: row for row in rows})) as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1)
        words = WordOptions(adjectives=str(path))
        settings = Settings(studies=(NAME,), options=(chat, words))
        run, found = start(settings, tmp_path / "run", **quiet)
    by_condition = {
        row.slice_value: row
        for row in found
        if row.slice_by == "adjectives"
        and row.score == "score"
        and row.measure == "paired_gap"
        and not row.view
    }
    assert {name: row.estimate.value for name, row in by_condition.items()} == {
        "baseline": 0.0,
        "lazy/-": 100.0,
        "-/lazy": 50.0,
    }
    assert {row.questions for row in by_condition.values()} == {3}
    manifest = run.manifest()
    (entry,) = manifest["corpora"]
    assert (entry["rows"], entry["adjectives_sha256"]) == (288, file_sha256(path))
    assert manifest["settings"]["words"] == {"adjectives": str(path), "prompt_data": None}
    public = manifest_redaction.public_manifest(manifest)
    assert public["settings"]["words"]["adjectives"] == "adjectives.csv"
    assert public["corpora"][0]["adjectives_sha256"] == file_sha256(path)
    assert "-M adjectives=PLACE/adjectives.csv" in repeat_command(manifest)
    assert not reads_installed(manifest)


def test_other_adjectives_are_no_resumption(written, tmp_path, quiet):
    """A run that stopped does not go on with a file that has changed since."""
    path = written("lazy\n")
    with ChatServer(lambda prompt: "x") as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1)
        settings = Settings(studies=(NAME,), options=(chat, WordOptions(adjectives=str(path))))
        run, _ = start(settings, tmp_path / "run", **quiet)
        run.write_manifest(run.manifest() | {"status": "running"})
        written("lazy\nshy\n")
        with pytest.raises(UsageError, match="prompts"):
            resume(tmp_path / "run", **quiet)


def test_adjectives_without_their_study(written, real_masked_model):
    """A file of adjectives is refused where no experiment reads it, and where it does not exist."""
    words = WordOptions(adjectives=str(written(LIST)))
    settings = Settings(
        model=str(real_masked_model), studies=("gendered_stigma",), options=(words,)
    )
    with pytest.raises(UsageError, match="-M adjectives is read by adjective_coreference"):
        plan_tasks(settings)
    with pytest.raises(UsageError, match="does not exist, expected a file of adjectives"):
        corpus_with_adjectives(NAME, "no.csv")
    with pytest.raises(UsageError, match="gendered_stigma has no adjectives"):
        corpus_with_adjectives("gendered_stigma", written(LIST))


def test_adjectives_of_credentialed_data(written):
    """A file in a folder that is marked credentialed is refused before a line of it is read."""
    path = written("She was admitted.\n")
    (path.parent / CREDENTIALED).touch()
    words = WordOptions(adjectives=str(path))
    chat = ChatOptions(model="tiny", base_url="http://localhost:1/v1")
    settings = Settings(studies=(NAME,), options=(chat, words))
    with pytest.raises(UsageError, match="must not be read as adjectives") as refusal:
        plan_tasks(settings)
    assert "admitted" not in str(refusal.value)
