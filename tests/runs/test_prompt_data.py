"""Data of a user's in place of a study's own prompts: which are read, in which language, and what is refused."""

import pytest

import swapbias
from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED
from swapbias.hub.run_cards import study_parts
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import manifest_redaction
from swapbias.runs import Settings, start
from swapbias.runs.command import repeat_command
from swapbias.runs.plan import plan_tasks, reads_installed
from swapbias.runs.prompt_data import data_corpus
from swapbias.runs.settings import WordOptions
from tests import tiny
from tests.builders.test_bbq_forms import ASKED, BOTH, spanish, spanish_lines, write_lines
from tests.builders.test_gest_translations import HEADER, NEUTRAL, PAIR, write_table
from tests.models.chat.server import ChatServer

CHAT = ChatOptions(model="tiny", base_url="http://localhost:1/v1")


def settings_of(study, place, **options):
    return Settings(
        studies=(study,), options=(CHAT, WordOptions(prompt_data=str(place))), **options
    )


def read(study, place):
    """Experiments with the tables that they read."""
    tasks, _ = plan_tasks(settings_of(study, place))
    return {task.experiment.name: task.configs for task in tasks}


@pytest.fixture
def spanish_data(tmp_path):
    """Two files in the form of EsBBQ."""
    for name in ("Age", "Gender"):
        lines = [{**line, "category": name} for line in spanish_lines()]
        write_lines(tmp_path / "data_es" / f"{name}.jsonl", lines)
    return tmp_path


def test_tables_of_experiments(spanish_data):
    """Each experiment reads its table of every file, or of a file or table that is named."""
    tables = {table: (f"age_{table}", f"gender_{table}") for table in ("ambiguous", "answers")}
    found = read("bbq", spanish_data)
    assert {name: found[name] for name in tables} == tables
    assert read("bbq:ambiguous", spanish_data) == {"ambiguous": tables["ambiguous"]}
    assert read("bbq:age_answers", spanish_data) == {"answers": ("age_answers",)}
    file = spanish_data / "data_es" / "Age.jsonl"
    assert read("bbq:ambiguous", file) == {"ambiguous": ("age_ambiguous",)}


def test_audit_in_spanish(spanish_data, tmp_path, quiet):
    """An audit of data in Spanish says so in its title, limits, manifest and command, and nothing of English."""
    with ChatServer(lambda prompt: "(A) El abuelo") as server:
        chat = ChatOptions(model="tiny", base_url=server.base_url, trials=1)
        words = WordOptions(prompt_data=str(spanish_data))
        settings = Settings(studies=("bbq:ambiguous",), options=(chat, words))
        run, found = start(settings, tmp_path / "run", **quiet)
    manifest = run.manifest()
    (entry,) = manifest["corpora"]
    assert (entry["config"], entry["language"]) == ("age_ambiguous, gender_ambiguous", "Spanish")
    assert not reads_installed(manifest)
    public = manifest_redaction.public_manifest(manifest)
    assert public["settings"]["words"]["prompt_data"] == spanish_data.name
    assert public["corpora"][0]["language"] == "Spanish"
    assert f"-M prompt-data=PLACE/{spanish_data.name}" in repeat_command(manifest)
    page = (run.folder / "report.html").read_text()
    (card,) = study_parts(found, public, model_name="me/tiny").values()
    for text in (page, card):
        assert "asked of other data (Spanish)" in text
        assert (
            "Data of the user&#39;s in Spanish" in text or "Data of the user's in Spanish" in text
        )
        assert "in English" not in text
    assert "with data of another source." in card
    assert r"other data in Spanish: age\_ambiguous, gender\_ambiguous" in card
    assert all(finding.published is None for finding in found)


def test_audit_of_a_language_table(tmp_path):
    """A causal model reads one table of a language; the page names the language."""
    rows = [
        [f"{sentence}", f"{number}.0", "", "", f"Soy {word}o {sentence}", f"Soy {word}a {sentence}"]
        for sentence, (number, word) in enumerate(
            (number, word) for number in range(1, 17) for word in ("apasionad", "buen")
        )
    ]
    write_table(tmp_path, [*rows, ["99", *NEUTRAL[1:]]])
    folder = tiny.save_causal(tmp_path / "model")
    run = swapbias.audit(
        str(folder),
        "gest:spanish_pairs",
        prompt_data=tmp_path,
        out=tmp_path / "run",
        progress=False,
    )
    (entry,) = run.run.manifest()["corpora"]
    assert (entry["config"], entry["rows"], entry["language"]) == ("spanish_pairs", 64, "Spanish")
    page = run.report().read_text()
    assert "first-person sentences in Spanish" in page
    assert "English" not in page.partition("Method and settings")[0]


@pytest.mark.parametrize(
    ("study", "sentence"),
    [
        ("gest", r"gest reads one table of data at a time, and there are spanish_pairs, spanish_templates"),
        ("gest:spanish_pear", r"Unknown config 'spanish_pear'.* Did you mean spanish_pairs"),
        ("group_packs", r"-M prompt-data is read by .*bbq.*gest.*Name one of them with --study"),
    ],
    ids=["several tables", "misspelt", "other study"],
)  # fmt: skip
def test_refused_data(study, sentence, tmp_path):
    """What an audit cannot read of data is said with the next step."""
    write_table(tmp_path, [PAIR, NEUTRAL])
    with pytest.raises(UsageError, match=sentence):
        plan_tasks(settings_of(study, tmp_path))


def test_data_given_as_notes(spanish_data):
    """Data that are given as clinical notes are refused with the setting that they have."""
    options = (CHAT, NoteOptions(data=str(spanish_data)))
    with pytest.raises(UsageError, match=r"which bbq does not read\. Give its data"):
        plan_tasks(Settings(studies=("bbq:ambiguous",), options=options))


def test_data_of_two_studies(tmp_path):
    """Data are of one study, and those that are not there are named."""
    settings = Settings(
        studies=("bbq", "gest"), options=(CHAT, WordOptions(prompt_data=str(tmp_path)))
    )
    write_table(tmp_path, [PAIR])
    write_lines(tmp_path / "Age_es.jsonl", [spanish(BOTH[0], "abuelo", *asked) for asked in ASKED])
    with pytest.raises(UsageError, match="would be read by bbq, gest"):
        plan_tasks(settings)
    with pytest.raises(UsageError, match="none does not exist"):
        plan_tasks(settings_of("gest", tmp_path / "none"))


def test_data_in_two_languages(tmp_path):
    """Data in several languages are not pooled."""
    for folder in ("data_es", "data_ca"):
        write_lines(tmp_path / folder / "Age.full.jsonl", spanish_lines())
    with pytest.raises(
        UsageError, match="The data are in Spanish, Catalan, and an audit reads one"
    ):
        plan_tasks(settings_of("bbq", tmp_path))
    assert read("bbq:data_ca_age_full_ambiguous", tmp_path)
    assert read("bbq", tmp_path / "data_ca")


def test_credentialed_data(tmp_path):
    """Data in a folder that is marked credentialed are refused before a line of them is read."""
    (tmp_path / "Spanish.csv").write_text(",".join(HEADER) + "\nSecret\n")
    (tmp_path / CREDENTIALED).touch()
    with pytest.raises(UsageError, match="must not be read as data of a study") as refusal:
        plan_tasks(settings_of("gest", tmp_path))
    assert "Secret" not in str(refusal.value)


def test_changed_data_are_read_again(tmp_path):
    """Tables that are added or changed between two audits of a session are read."""
    for row, table in ((PAIR, "spanish_pairs"), (NEUTRAL, "spanish_templates")):
        write_table(tmp_path, [row])
        (config,) = data_corpus("gest", str(tmp_path)).configs
        assert config.name == table


def test_experiments_of_causal_models(tmp_path):
    """An experiment whose name is not that of its table's rows reads data too, and a repeated line counts once."""
    write_lines(tmp_path / "Age_es.jsonl", [*spanish_lines(), *spanish_lines()])
    folder = tiny.save_causal(tmp_path / "model")
    words = WordOptions(prompt_data=str(tmp_path))
    settings = Settings(model=str(folder), studies=("bbq:ambiguous_odds",), options=(words,))
    (task,), _ = plan_tasks(settings)
    assert task.experiment.name == "ambiguous_odds"
    assert "12 of 24 pairs repeat another pair's texts and count once" in task.repeats
    assert task.n_prompts == 24


def test_data_of_one_side(tmp_path):
    """Data that lack what an experiment compares are named as such; other experiments read them."""
    told = [line for line in spanish_lines() if line["context_condition"] == "disambig"]
    write_lines(tmp_path / "Age_es.jsonl", told)
    tasks, skipped = plan_tasks(settings_of("bbq", tmp_path))
    assert [task.experiment.name for task in tasks] == ["disambiguated", "answers"]
    reason = next(skip.reason for skip in skipped if skip.experiment == "ambiguous")
    assert reason.startswith("the data have no prompts of the answer of the stereotype")
    with pytest.raises(UsageError, match="the data have no prompts of the answer of the ster"):
        plan_tasks(settings_of("bbq:ambiguous", tmp_path))


def test_data_of_the_same_prompts(tmp_path):
    """Two files that have the same prompts are refused, for a pair would be of four rows."""
    for name in ("Age_es", "Copy_es"):
        write_lines(tmp_path / f"{name}.jsonl", spanish_lines())
    with pytest.raises(UsageError, match="age_es_ambiguous and copy_es_ambiguous both have the"):
        plan_tasks(settings_of("bbq:ambiguous", tmp_path))
