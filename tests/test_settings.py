"""Settings are their fields, by one name in each entrance; a wrong one is a plain sentence that names it there.

Entrances: an option, a key of -M, audit.toml, the manifest of a run, and arguments in Python.
"""

import inspect
import json
import pickle
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import _sentence, app
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, auto, load_scorer
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.models.training import KINDS, TrainSettings
from swapbias.runs import Settings, setting_classes, settings_of
from swapbias.runs.audit_file import read_request
from swapbias.swapping import Engine
from tests.cli.test_cli import swapbias as command_line

PYDANTIC = re.compile(
    r"Input should|valid (integer|number|string|boolean|tuple|list)|validation error|pydantic|unable to parse|"
    r"less_than|greater_than|type=|keyword argument|Traceback|NoneType"
)
STUDY = "occupation_sentiment:control"
SETTINGS = [setting for options in setting_classes() for setting in options.settings()]
IN_FILES = [
    (options, setting)
    for options in (Settings, LoadOptions, NoteOptions, ChatOptions)
    for setting in options.settings()
    if not setting.use.unsaved
]


def command(*words):
    """Return the output of ``swapbias audit`` and its exit code."""
    error = CliRunner().invoke(app, ["audit", *map(str, words)], standalone_mode=False).exception
    assert error is not None, words
    return _sentence(error)


def raised(work, *arguments, **options):
    with pytest.raises(ValueError, match=r"[.?]$") as error:
        work(*arguments, **options)
    return str(error.value)


def of_file(folder, text):
    """Return the error about an audit.toml, without the folder."""
    (folder / "audit.toml").write_text(text)
    return raised(read_request, folder / "audit.toml").replace(f"{folder}/", "")


def of_manifest(folder, change):
    """Return the error about a manifest after a change."""
    saved = Settings(model="vader", studies=(STUDY,)).saved()
    change(saved)
    (folder / "manifest.json").write_text(
        json.dumps({"settings": saved, "corpora": [], "models": []})
    )
    return raised(read_request, folder / "manifest.json").replace(f"{folder}/", "")


def assert_plain(said):
    for line in said.splitlines():
        assert not PYDANTIC.search(line), line
        assert re.search(r"[^.?!:,;][.?]$", line), line
        assert len(line.split(". ")) <= 3, line


OPTIONS = [
    (("--limit", "x"), "limit is x, expected a whole number of 1 or more. Change --limit."),
    (("--limit", "2.5"), "limit is 2.5, expected a whole number of 1 or more. Change --limit."),
    (("--limit", "0"), "limit is 0, expected a whole number of 1 or more. Change --limit."),
    (("--seed", "-3"), "seed is -3, expected a whole number of 0 or more. Change --seed."),
    (("--seed", "true"), "seed is true, expected a whole number of 0 or more. Change --seed."),
    (("--batch-size", ""), "expected a whole number of 1 or more. Change --batch-size."),
    (("--dtype", "flaot32"), "Unknown dtype 'flaot32': expected float32, bfloat16, float16, auto. Did you mean fl"),
    (("--device", "gpu0"), "Unknown device 'gpu0': expected auto, cpu, cuda, cuda:N, mps."),
    (("--chat", "m", "--max-cost", "nan"), "max-cost is nan, expected a number of 0 or more. Change --max-cost."),
    (("--chat", "m", "--max-cost", "inf"), "max-cost is inf, expected a number of 0 or more. Change --max-cost."),
    (("--chat", "m", "--base-url", "host:80"), "--base-url: 'host:80' is no address, expected http://host:port."),
    (("--trials", "2", "--trials", "3"), "--trials is given twice. Drop one of them."),
    (("--wordings", "--no-wordings"), "is given twice. Drop one of them."),
    (("--margin", "x"), "--margin"),
    (("--temperature", "0"), "--temperature is a setting. Write -M temperature=VALUE"),
    (("--batch-sise", "3"), "Did you mean --batch-size?"),
]  # fmt: skip
KEYS = [
    (
        ("temperature=warm",),
        "temperature is warm, expected a number of 0 or more. Change -M temperature.",
    ),
    (
        ("temperature=nan",),
        "temperature is nan, expected a number of 0 or more. Change -M temperature.",
    ),
    (("timeout=inf",), "timeout is inf, expected a number of 0.001 or more. Change -M timeout."),
    (
        ("max-tokens=true",),
        "max-tokens is true, expected a whole number of 1 or more. Change -M max-tokens.",
    ),
    (
        ("concurrency=101",),
        "concurrency is 101, expected a whole number from 1 to 100. Change -M concurrency.",
    ),
    (("max_doubt=1.5",), "max-doubt is 1.5, expected a number from 0 to 1. Change -M max-doubt."),
    (("no-seed=maybe",), "no-seed is maybe, expected true or false. Change -M no-seed."),
    (
        ("scoring=sample",),
        "Unknown scoring 'sample': expected sampled, log-odds. Did you mean sampled?",
    ),
    (("quantization=3bit",), "Unknown quantization '3bit': expected 8bit, 4bit."),
    (("workers=0",), "workers is 0, expected a whole number of 1 or more. Change -M workers."),
    (("own-address=here",), "-M own-address: 'here' is no address, expected http://host:port."),
    (("temprature=1",), "Unknown setting 'temprature'. Did you mean temperature?"),
    (("embeddings=a.kv",), "Unknown setting 'embeddings'. Did you mean embedding?"),
    (("limit=3",), "limit has an option of its own. Write --limit."),
    (("wordings=false",), "wordings has an option of its own. Write --wordings."),
    (("scorer",), "-M scorer has no value. Write -M scorer=VALUE."),
    (("timeout=1", "timeout=2"), "-M timeout is given twice. Drop one of them."),
    (
        ("temprature=1", "explain=-1"),
        "temperature?\nexplain is -1, expected a whole number of 0 or more.",
    ),
]
TOML = [
    (
        'limit = "3"',
        "audit.toml:1: limit is '3', expected a whole number of 1 or more. Correct it.",
    ),
    (
        "limit = true",
        "audit.toml:1: limit is true, expected a whole number of 1 or more. Correct it.",
    ),
    ("seed = 1.0", "audit.toml:1: seed is 1.0, expected a whole number of 0 or more. Correct it."),
    ("margin = 5", "audit.toml:1: margin is 5, expected a number from 0 to 1. 5 points is 0.05."),
    ("margin = nan", "audit.toml:1: margin is nan, expected a number from 0 to 1."),
    ('wordings = "no"', "audit.toml:1: wordings is 'no', expected true or false. Correct it."),
    ('studies = "gest"', "audit.toml:1: studies is 'gest', expected a list of texts. Correct it."),
    ("studies = [1]", "audit.toml:1: studies is [1], expected a list of texts. Correct it."),
    ("limit = 2024-01-01", "limit is 2024-01-01, expected a whole number"),
    ("studys = []", "audit.toml:1: Unknown setting 'studys'. Did you mean studies?"),
    ("batch_size = 3", "audit.toml:1: Unknown setting 'batch_size'. Write it below [load]."),
    ("chat = 'm'", "audit.toml:1: chat is 'm', expected a table of settings. Correct it."),
    (
        "engine = 'ray'",
        "Unknown setting 'engine'. It says where an audit runs and cannot be in a file: give it to the command.",
    ),
    ("reference = 'male'", "Unknown setting 'reference'. It is about own prompts"),
    ("[prompts]\ngroup = 'a'", "audit.toml:1: Unknown setting 'prompts'. It is about own prompts"),
    ("limit = 1\nlimit = 2", "audit.toml:2: limit appears twice. Keep one of them."),
    ("[load]\ndtype = 'auto'\n[load]\n", "audit.toml:3: [load] appears twice. Keep one of them."),
    ("model = 'a'\nmodels = ['b']", "model and models both say what is audited. Keep one of them."),
    (
        "models = ['a', 3]",
        "audit.toml:1: models is ['a', 3], expected a list of names. Correct it.",
    ),
    (
        "[load]\nbatch-size = 8",
        "audit.toml:2: Unknown setting of [load] 'batch-size'. Write batch_size.",
    ),
    (
        "[load]\ntemperature = 0",
        "audit.toml:2: Unknown setting of [load] 'temperature'. Write it below [chat].",
    ),
    (
        "[load]\ndtype = 'int8'",
        "audit.toml:2: Unknown dtype of [load] 'int8': expected float32, bfloat16",
    ),
    (
        "load.batch_size = '8'",
        "audit.toml:1: batch_size of [load] is '8', expected a whole number of 1 or more.",
    ),
    (
        "[chat]\ntemperature = inf",
        "audit.toml:2: temperature of [chat] is inf, expected a number of 0 or more.",
    ),
    (
        "[chat]\ntrials = 2000",
        "audit.toml:2: trials of [chat] is 2000, expected a whole number from 1 to 1,000.",
    ),
    (
        "[chat]\nown_address = 'http://a'",
        "own_address of [chat] is 'http://a', expected a list of texts.",
    ),
    (
        "[chat]\nbase_url = 'a'",
        "audit.toml:2: base_url of [chat]: 'a' is no address, expected http://host:port.",
    ),
    ("[chat]\nchat = 'm'", "audit.toml:2: Unknown setting of [chat] 'chat'. Write model."),
    (
        "[chat]\napi_key_env = 'AWS'",
        "A file may be anybody's: give it on the command line with -M api-key-env.",
    ),
    (
        "[notes]\nembedding = ['a']",
        "audit.toml:2: Unknown setting of [notes] 'embedding'. Write embeddings.",
    ),
    (
        "[notes]\nexplain = false",
        "audit.toml:2: explain of [notes] is false, expected a whole number of 0 or more.",
    ),
]
MANIFEST = [
    (("limit", "3"), "limit is '3', expected a whole number of 1 or more"),
    (("seed", None), "seed is null, expected a whole number of 0 or more"),
    (("studies", "gest"), "studies is 'gest', expected a list of texts"),
    (("margin", float("nan")), "margin is nan, expected a number from 0 to 1"),
    (("limt", 3), "Unknown setting 'limt'. Did you mean limit?"),
    (("chat.trials", True), "chat.trials is true, expected a whole number from 1 to 1,000"),
    (("chat.temperature", float("inf")), "chat.temperature is inf, expected a number of 0 or more"),
    (("load.batch_size", 0), "load.batch_size is 0, expected a whole number of 1 or more"),
    (("load.temperature", 0), "Unknown setting of load 'temperature'. Write it below chat"),
    (("notes", []), "notes is [], expected a table of settings"),
    (("notes.data", 3), "notes.data is 3, expected a text"),
]
PYTHON = [
    ({"limit": "3"}, "limit is '3', expected a whole number of 1 or more. Change limit."),
    ({"limit": True}, "limit is True, expected a whole number of 1 or more. Change limit."),
    ({"seed": None}, "seed is None, expected a whole number of 0 or more. Change seed."),
    ({"margin": "5pt"}, "margin is '5pt', expected a number from 0 to 1. Change margin."),
    ({"margin": float("nan")}, "margin is nan, expected a number from 0 to 1. 5 points is 0.05."),
    ({"wordings": 1}, "wordings is 1, expected true or false. Change wordings."),
    (
        {"batch_size": 8.0},
        "batch_size is 8.0, expected a whole number of 1 or more. Change batch_size.",
    ),
    ({"dtype": "fp16"}, "Unknown dtype 'fp16': expected float32, bfloat16, float16, auto."),
    ({"device": None}, "Unknown device None: expected auto, cpu, cuda, cuda:N, mps."),
    ({"chat": 3}, "chat is 3, expected a text. Change chat."),
    (
        {"chat": "m", "temperature": "0"},
        "temperature is '0', expected a number of 0 or more. Change temperature.",
    ),
    (
        {"chat": "m", "timeout": float("inf")},
        "timeout is inf, expected a number of 0.001 or more. Change timeout.",
    ),
    (
        {"chat": "m", "base_url": "a"},
        "base_url: 'a' is no address, expected http://host:port. Give the whole address.",
    ),
    ({"embedding": [3]}, "embedding is [3], expected a list of texts. Change embedding."),
    (
        {"positive_label": {"a": 1}},
        "positive_label is {'a': 1}, expected a text or a list of texts.",
    ),
    ({"batchsize": 3}, "audit has no argument batchsize. Did you mean batch_size?"),
    ({"max-tokens": 3}, "audit has no argument max-tokens. Did you mean max_tokens?"),
    ({"studies": 3}, "studies is 3, expected a name, a folder, or a list of them. Change studies."),
    (
        {"studies": [3]},
        "studies is [3], expected a name, a folder, or a list of them. Change studies.",
    ),
    ({"out": 3}, "out is 3, expected a folder or a place in a store. Change out."),
    ({"engine": 3}, "engine is 3, expected a text. Change engine."),
    ({"own_store": "yes"}, "own_store is 'yes', expected true or false. Change own_store."),
    ({"embeddings": "a"}, "audit has no argument embeddings. Did you mean embedding?"),
    (
        {"batch_size": 0, "dtype": "x"},
        "Unknown dtype 'x': expected float32, bfloat16, float16, auto.\nbatch_size",
    ),
]


@pytest.mark.parametrize(
    ("words", "sentence"), OPTIONS, ids=lambda case: " ".join(case) if len(case) < 9 else ""
)
def test_wrong_option(words, sentence):
    """A wrong option is named with its value and what is expected."""
    output, code = command("vader", *words)
    assert sentence in output
    assert code == 2
    assert_plain(output)


@pytest.mark.parametrize(
    ("pairs", "sentence"), KEYS, ids=lambda case: " ".join(case) if len(case) < 9 else ""
)
def test_wrong_model_setting(pairs, sentence):
    """A wrong KEY=VALUE of -M is named with its value and what is expected."""
    output, code = command("vader", *(word for pair in pairs for word in ("-M", pair)))
    assert sentence in output
    assert code == 2
    assert_plain(output)


@pytest.mark.parametrize(("text", "sentence"), TOML)
def test_wrong_key_of_a_file(text, sentence, tmp_path):
    """A wrong key of a settings file is named with its line."""
    output = of_file(tmp_path, text)
    assert sentence in output
    assert_plain(output)


@pytest.mark.parametrize(("change", "sentence"), MANIFEST, ids=lambda case: str(case[0]))
def test_wrong_setting_of_a_manifest(change, sentence, tmp_path):
    """A wrong setting of a manifest is named, and the advice is to start a new run."""

    def changed(saved):
        path, value = change
        section, _, name = path.rpartition(".")
        (saved[section] if section else saved)[name] = value

    text = of_manifest(tmp_path, changed)
    assert text.startswith("manifest.json: The manifest's settings are not of this version. ")
    assert sentence in text
    assert text.endswith("Start a new run.")
    assert not PYDANTIC.search(text)


def test_repeated_key_of_a_manifest(tmp_path):
    """A key that a manifest holds twice is refused."""
    path = tmp_path / "manifest.json"
    path.write_text('{"settings": {"seed": 1, "seed": 2}, "corpora": []}')
    assert "'seed' appears twice" in raised(read_request, path)


@pytest.mark.parametrize(("options", "sentence"), PYTHON, ids=lambda case: str(case)[:40])
def test_wrong_argument(options, sentence):
    """A wrong argument of a call is named in the words of Python."""
    text = raised(swapbias.audit, "vader", **{"studies": STUDY} | options)
    assert sentence in text
    assert not re.search(r"--\w|-M ", text)
    assert_plain(text)


def test_wrong_options_of_a_scorer():
    """Wrong options of a scorer are named with what is expected."""
    assert raised(LoadOptions, batch_size="8") == (
        "batch_size is '8', expected a whole number of 1 or more. Change batch_size."
    )
    text = raised(load_scorer, "vader", options={"batch_size": 8})
    assert (
        text
        == "options is {'batch_size': 8}, expected LoadOptions. Write options=LoadOptions(...)."
    )
    assert "Unknown kind 'sound'" in raised(load_scorer, "vader", kind="sound")


def test_faults_of_a_file_by_line(tmp_path):
    """Every fault of a settings file is listed, in the order of the lines."""
    text = "limt = 3\nseed = -1\n\n[load]\nbatch_size = 0\ntrials = 2\n[chat]\ntrials = 0\n"
    lines = of_file(tmp_path, text).splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        f"audit.toml:{number}:" for number in (1, 2, 5, 6, 8)
    ]
    done = command_line("audit", "audit.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()) == (2, [f"swapbias: {lines[0]}", *lines[1:]])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[chat]\nmodel = 'm'\nprice_in = 1",
            "Costs take both price_in of [chat] and price_out of [chat], and price_in",
        ),
        (
            "[chat]\ntrials = 3",
            "Settings of a chat model are given and no model is. Name it with model of [chat].",
        ),
        (
            "kind = 'masked'",
            "kind masked says what kind a model is, and no model is named. Name one.",
        ),
        (
            "model = 'vader'\nstudies = ['gendered_stigma:rq1']",
            "Choose another model or studies, such as ",
        ),
    ],
    ids=["one price", "chat without model", "kind without model", "model that does not fit"],
)
def test_settings_that_contradict(text, sentence, tmp_path):
    """Settings of a file that contradict each other are named as the file has them."""
    (tmp_path / "audit.toml").write_text(text)
    output, code = command("--dry-run", tmp_path / "audit.toml")
    assert output.startswith(f"{tmp_path}/audit.toml: ")
    assert sentence in output
    assert not re.search(r"--\w|-M ", output)
    assert code == 2


# --- one name all the way ---------------------------------------------------------------------------------

VALUES = {bool: True, int: 7, float: 0.5, str: "x"}


def value_of(setting):
    """A value other than the usual one, and as the command line writes it."""
    choices = [choice for choice in setting.choices if choice not in (setting.default, "cuda:N")]
    value = choices[0] if choices else VALUES[setting.plain_type]
    value = "http://host:1" if setting.name in ("base_url", "own_address") else value
    return ((value,) if setting.is_several else value), str(
        value
    ).lower() if value is True else str(value)


def as_toml(value):
    return json.dumps(list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize(
    ("options", "setting"), IN_FILES, ids=lambda case: getattr(case, "option", "")
)
def test_setting_in_every_entrance(options, setting, tmp_path, monkeypatch):
    """A setting has one meaning in a file, on the command line and in Python."""
    value, text = value_of(setting)
    table = f"[{setting.section}]\n" if setting.section else ""
    (tmp_path / "audit.toml").write_text(f"{table}{setting.name} = {as_toml(value)}\n")
    by_file = read_request(tmp_path / "audit.toml")[1]
    chosen = (
        by_file
        if options is Settings
        else by_file.load
        if options is LoadOptions
        else by_file.of(options)
    )
    assert getattr(chosen, setting.name) == value
    assert Settings.from_manifest(json.loads(json.dumps(by_file.saved()))) == by_file
    if setting.use.elsewhere:  # MODEL and --study
        return
    assert settings_of(None, (), {setting.option: value}) == by_file
    made = []
    monkeypatch.setattr(
        "swapbias.cli.auditing.plan_sentences",
        lambda settings, earlier: made.append(settings) or (),
    )
    words = [f"--{setting.key}", text] if setting.use.flag else ["-M", f"{setting.key}={text}"]
    words = ["--wordings"] if setting.name == "wordings" else words
    trust = ["--trust"] if setting.name == "trust_remote_code" else []
    done = CliRunner().invoke(app, ["audit", "--dry-run", *words, *trust], standalone_mode=False)
    assert done.exception is None, done.exception
    assert made == [by_file]


def test_each_setting_has_one_place():
    """Each setting has a help text of one line and belongs to one group of options."""
    for setting in SETTINGS:
        assert setting.help.endswith("."), setting.name
        assert "\n" not in setting.help
    keys = [setting.option for setting in SETTINGS]
    assert len(set(keys)) == len(keys)
    (kind,) = [setting for setting in SETTINGS if setting.name == "kind"]
    assert kind.help.startswith(", ".join(auto.model_kinds()))
    (kind,) = [setting for setting in TrainSettings.settings() if setting.name == "kind"]
    assert kind.choices == KINDS


def test_arguments_match_settings():
    """The arguments that audit() spells out have the names and defaults of their settings, and all
    others are taken by name."""
    named = inspect.signature(swapbias.audit).parameters
    apart = ("model", "studies", "chat")  # in memory, too; several; and the model of another table
    for setting in SETTINGS:
        if setting.option in named and setting.option not in apart:
            assert named[setting.option].default == setting.default, setting.option
    missing = {one.option for one in Settings.settings()} - named.keys()
    assert not missing


def test_settings_are_frozen():
    """Settings cannot be changed in place, can be pickled, and a changed copy is checked."""
    for settings in (LoadOptions(), ChatOptions(), NoteOptions(), Settings(), Engine()):
        name = type(settings).settings()[0].name
        with pytest.raises(FrozenInstanceError):
            setattr(settings, name, "x")
        assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - its own
        assert replace(settings) == settings
    with pytest.raises(UsageError) as refused:
        LoadOptions(batch_size=0, dtype="x")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301 - as workers send it
    with pytest.raises(
        UsageError,
        match=r"^trials is 0, expected a whole number from 1 to 1,000\. Change trials\.$",
    ):
        replace(ChatOptions(model="m"), trials=0)


def test_paths_and_lists(tmp_path):
    """Paths and lists are accepted where a setting takes a path or several values."""
    (tmp_path / "a.kv").write_text("")
    place = tmp_path / "a.kv"
    settings = settings_of(
        None, (), {"embedding": [place], "judge": place, "chat": place, "adapter": place}
    )
    assert settings.of(NoteOptions).embeddings == (str(place),)
    assert {*settings.of(ChatOptions).judge, settings.load.adapter} == {str(place)}
    assert settings_of(None, (), {"embedding": place}).of(NoteOptions).embeddings == (str(place),)
    assert settings_of(None, (), {"own_address": ["http://a"]}).of(ChatOptions).own_address == (
        "http://a",
    )
    assert settings_of(None, (), {"positive_label": ["a", "b"]}).load.positive_label == ("a", "b")
    assert settings_of(None, (), {"temperature": 0}).of(ChatOptions).temperature == 0.0
    assert Settings(model=Path("x"), studies=["a"]) == Settings(model="x", studies=("a",))
