"""The command line: output, exit codes and one sentence for every error."""

import gc
import io
import os
import re
import shlex
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from swapbias.cli import app, main
from swapbias.cli.terminal import known_settings, read_settings
from swapbias.studies import load_corpus, load_study, studies
from swapbias.studies.catalogue import metrics
from tests import tiny
from tests.conftest import ROOT


def swapbias(*arguments, cwd=None, **environment):
    """Run a command as a user types it, in this process, which has the libraries loaded; return
    output and exit code."""
    streams = (io.StringIO(), io.StringIO())
    cwd = str(cwd or ROOT)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["swapbias", *map(str, arguments)])
        patched.setattr(sys, "path", [cwd, *sys.path])
        patched.setattr(sys, "stdout", streams[0])
        patched.setattr(sys, "stderr", streams[1])
        patched.setattr(gc, "set_threshold", lambda most: None)
        patched.chdir(cwd)
        for name, value in {"COLUMNS": "160", **environment}.items():
            patched.setenv(name, str(value))
        with pytest.raises(SystemExit) as ended:
            main()
        for name in [
            name
            for name, one in list(sys.modules.items())
            if _lies_in(one, cwd) and cwd != str(ROOT)
        ]:
            del sys.modules[name]  # the next test has a module of this name too
    return subprocess.CompletedProcess(
        arguments, ended.value.code or 0, *(stream.getvalue() for stream in streams)
    )


def _lies_in(module, folder):
    return (getattr(module, "__file__", None) or "").startswith(folder)


def refused(done, code, *parts):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    sentence = done.stderr.strip().splitlines()[-1]
    assert sentence.startswith("swapbias: ")
    for part in parts:
        assert part in sentence


def test_list():
    """The list has a line for each study and kind of model, with the names of its experiments, in 60 lines."""
    done = swapbias("list", COLUMNS="80")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= 60
    for name in studies():
        study = load_study(name)
        controls = [study.control_of(question) for question in study.experiments]
        asked = [one for one in study.experiments if one not in controls]
        of_kinds = [
            [one for one in asked if one.kind == kind] for kind in {one.kind for one in asked}
        ]
        assert sum(line.startswith(f"  {name} ") for line in lines) == len(of_kinds)
        for found in of_kinds:
            names = ", ".join(one.name for one in found)
            if len(found) > 4:
                names = f"{len(found)} experiments"
            question = found[0].question if len(found) == 1 else study.title
            assert f"  {name:<22} {question} ({names})" in lines
    assert (
        swapbias("list", "--measures").stdout
        == f"Measures (evaluate modules): {', '.join(metrics())}\n"
    )


def test_list_of_a_study():
    """Every experiment is listed with its question where its study or its kind of model is named."""
    kinds = {one.kind for name in studies() for one in load_study(name).experiments}
    shown = {word: invoke("list", word).output.splitlines() for word in (*studies(), *kinds)}
    for name in studies():
        study = load_study(name)
        assert shown[name][0] == study.title
        for one in study.experiments:
            line = f"  {f'{name}:{one.name}':<34} {one.question}"
            assert line in shown[name]
            assert line in shown[one.kind]
    counts = [sum(line.startswith("  ") for line in shown[kind]) for kind in kinds]
    assert sum(counts) == sum(len(load_study(name).experiments) for name in studies())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("bqb",), ("No study and no kind of model is called 'bqb'.", "Did you mean bbq?")),
        (("xyzzy",), ("See swapbias list.",)),
        (("bbq", "--corpora"), ("--corpora and --measures list all. Drop bbq.",)),
    ],
    ids=["near a study", "near nothing", "with all corpora"],
)
def test_list_of_no_study(words, parts):
    """A name of neither a study nor a kind is refused with the nearest one."""
    refused(swapbias("list", *words), 2, *parts)


@pytest.mark.parametrize(
    "words",
    [("list",), ("list", "bbq"), ("list", "--measures"), ("help", "settings")],
    ids=["all", "study", "measures", "settings"],
)
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_lists_on_a_terminal(columns, words, monkeypatch):
    """A terminal shows whole names and what they are in lines that fit."""
    whole = swapbias(*words).stdout
    wide = io.StringIO()
    terminal = Console(
        file=wide, width=columns, force_terminal=True, color_system=None, markup=False
    )
    monkeypatch.setattr("swapbias.cli.terminal.out", terminal)
    swapbias(*words)
    shown = wide.getvalue()
    assert shown.split() == whole.split()
    assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize("columns", [40, 60])
@pytest.mark.parametrize("words", [(), ("audit",), ("swap",), ("study",)], ids=" ".join)
def test_help_on_a_narrow_terminal(columns, words):
    """A help screen fits a narrow terminal, with the same letters."""
    shown = swapbias(*words, "--help", COLUMNS=str(columns)).stdout
    assert max(map(len, shown.splitlines())) <= columns
    wide = swapbias(*words, "--help", COLUMNS="100").stdout
    assert "".join(shown.split()) == "".join(wide.split())


def test_fresh_process():
    """A fresh process shows the version, collects garbage rarely and has one sentence for bad
    input."""
    run = "import gc; from swapbias.cli import main\ntry: main()\nexcept SystemExit: print(gc.get_threshold()[0])"
    done = subprocess.run(
        [sys.executable, "-c", run, "--version"], capture_output=True, text=True, check=True
    )
    shown, threshold = done.stdout.splitlines()
    assert swapbias("--version").stdout.strip() == shown
    assert shown.startswith("swapbias 0.")
    assert int(threshold) >= 10_000
    command = [sys.executable, "-m", "swapbias", "nope"]
    refused(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False), 2, "nope"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["compare", "tests"], 2, ["contains no run"]),
        (["audit", "--study", "nope"], 2, ["Unknown study 'nope'", "gendered_stigma"]),
        (["audit", "--study", "gendered_stigma:nope"], 2, ["Unknown config 'nope'"]),
        (["audit", "./no/:smile:/:x:"], 2, ["no/:smile:/:x: does not exist"]),
        (
            ["audit", "owner/not-there"],
            2,
            ["cannot be loaded: it is neither", "HF_HUB_OFFLINE is set"],
        ),
        (["audit", "tests"], 2, ["tests is no model folder: it has no config.json"]),
        (["audit", "no_module:f"], 2, ["no_module:f"]),
        (["audit", "vader", "--kind", "masked"], 2, ["Drop --kind"]),
        (["audit", "vader", "--kind", "sound"], 2, ["Unknown kind 'sound'"]),
        (
            ["audit", "vader", "--study", "gendered_stigma"],
            2,
            [
                "Nothing is measured, for no experiment fits. gendered_stigma rq1, gendered_stigma rq2: it needs",
                "needs a masked model",
                "Choose another model or --study, such as occupation_sentiment.",
            ],
        ),
        (["audit", "--resume", "tests"], 2, ["contains no run"]),
        (["audit", "vader", "--resume", "tests"], 2, ["MODEL is given", "Drop the others"]),
        (["audit", "--kind", "masked"], 2, ["no model is named"]),
        (
            [
                "audit",
                "vader",
                "--study",
                "occupation_sentiment",
                "--study",
                "occupation_sentiment:control",
            ],
            2,
            ["named twice"],
        ),
        (["audit", "vader", "--out", "README.md"], 2, ["is a file"]),
        (
            ["audit", "vader", "calibration", "--out", "s3://bucket/run"],
            2,
            ["contains runs of one model each"],
        ),
        (["build", "nope"], 2, ["Unknown corpus 'nope'"]),
        (["plan", "vader", "--study", "occupation_sentiment:contol"], 2, ["Did you mean control?"]),
        (["audit", "vader", "--study", "./nowhere"], 2, ["./nowhere is no folder of a study"]),
        (["audit", "vader", "--reference", "male"], 2, ["Add --prompts"]),
        (
            ["audit", "--limit", "0"],
            2,
            ["limit is 0, expected a whole number of 1 or more. Change --limit."],
        ),
        (
            ["audit", "--batch-size", "x"],
            2,
            ["batch-size is x, expected a whole number of 1 or more."],
        ),
        (["audit", "--studdy", "x"], 2, ["No such option: --studdy"]),
        (["check"], 2, ["See swapbias check --help."]),
        (["push", "--namespace", "me"], 2, ["Missing argument 'KIND'. See swapbias push --help."]),
        (
            ["push", "dataset", "--namespace", "me"],
            2,
            ["Unknown kind 'dataset'. Choose one of datasets, metrics."],
        ),
        (["study"], 2, ["swapbias study needs a command: new, check, test, push."]),
        (["adit"], 2, ["Did you mean 'audit'? See swapbias --help."]),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else None,
)
def test_bad_input(arguments, code, parts):
    """Bad input is one sentence with its exit code."""
    done = swapbias(*arguments)
    refused(done, code, *parts)
    assert len(re.findall("^(?!Model: ).+$", done.stderr, re.MULTILINE)) == 1


def commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


@pytest.mark.parametrize(
    ("path", "command"), [(" ".join(path), one) for path, one in commands(get_command(app))]
)
def test_help(path, command):
    """The help shows every option with its default and every bracket."""
    done = swapbias(*path.split(), "--help", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    shown = re.sub(r"[\s│]", "", done.stdout)
    for one in command.params:
        for name in one.opts + one.secondary_opts if one.opts[0].startswith("-") else ():
            assert name in shown
        if one.show_default and one.default not in (None, "", False, True):
            assert f"[default:{one.default}".replace(" ", "") in shown
        for bracket in re.findall(r"\[[^]]*]", one.help or ""):
            assert bracket.replace(" ", "") in shown
    for bracket in re.findall(r"\[[^]]*]", command.help or ""):
        assert bracket.replace(" ", "") in shown


@pytest.mark.parametrize(
    ("path", "command"), [(" ".join(path), one) for path, one in commands(get_command(app))]
)
def test_words_of_help(path, command):
    """Types are words, and no sentence is cut."""
    shown = swapbias(*path.split(), "--help", COLUMNS="80").stdout
    assert not re.search(r"\[\[|<(str|int|path|list|float)|INTEGER|TEXT|x>=|\{\w", shown)
    assert not re.search(
        r"(\.\.\.|…)$", re.sub(r"^Usage: .*", "", shown, flags=re.MULTILINE), re.MULTILINE
    )
    whole = " ".join(shown.split())
    for name, inner in getattr(command, "commands", {}).items():
        purpose = " ".join(inner.help.split("\n\n")[0].split())
        assert f" {name} {purpose}" in whole


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("audit", "Usage: swapbias audit [OPTIONS] [MODEL...]"),
        ("build", "Usage: swapbias build [OPTIONS] [CORPUS...]"),
        ("check", "Usage: swapbias check [OPTIONS] RUN..."),
        ("study check", "Usage: swapbias study check [OPTIONS] SOURCE"),
    ],
)
def test_help_of_a_command(words, line):
    """Help with a command is the help of that command."""
    shown = swapbias("help", *words.split()).stdout
    assert shown == swapbias(*words.split(), "--help").stdout
    assert shown.splitlines()[0] == line


def test_topics_of_help():
    """Help alone lists the commands; a topic that is none gets the nearest."""
    assert swapbias("help").stdout == swapbias("--help").stdout
    refused(swapbias("help", "adit"), 2, "No help on 'adit'. Did you mean audit?")
    refused(swapbias("help", "study", "chek"), 2, "No help on 'study chek'. Did you mean check?")
    refused(swapbias("help", "settings", "chta"), 2, "No help on 'chta'. Did you mean chat?")
    refused(swapbias("help", "audit", "zzz"), 2, "No help on 'audit zzz'. Expected one of")


COMPLETED = {
    "pl": "plan",
    "audit --study gendered": "gendered_stigma",
    "audit --study gendered_stigma : rq": "rq1 rq2",
    "plan --study = social": "social_distance",
    "check RUN --study gendered_stigma : ch": "choices",
    "plan vader --stu": "--study",
    "build gendered": "gendered_stigma",
    "help stu": "study",
}


def test_completion_in_bash():
    """Bash completes commands, options, studies, and experiments behind a colon, where it splits words."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    asks = "\n".join(f"ask swapbias {line}" for line in COMPLETED)
    script = f"""
        swapbias() {{ {shlex.quote(sys.executable)} -m swapbias "$@"; }}
        eval "$(_SWAPBIAS_COMPLETE=source_bash swapbias | sed 's/ env / /')"
        ask() {{
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _swapbias_completion swapbias
            echo "${{COMPREPLY[*]}}"
        }}
        {asks}
    """
    done = subprocess.run(
        [bash, "--norc", "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout.splitlines() == [*COMPLETED.values()], done.stderr


def raise_bug(*arguments, **options):
    raise KeyError("text")


@pytest.mark.parametrize(
    ("arguments", "bug"),
    [
        (("audit", "--study", "nope"), None),  # a sentence
        (("push", "datasets", "--namespace", "me"), "swapbias.hub.commands.Hub"),
        (("list",), "swapbias.studies.studies"),
    ],
    ids=["bad input", "bug in a push", "bug in the list"],
)
def test_debug(arguments, bug, tmp_path, monkeypatch):
    """The option --debug shows the traceback wherever it stands, and only then."""
    if bug:
        monkeypatch.setattr(bug, raise_bug)
    plain = swapbias(*arguments, cwd=tmp_path)
    assert plain.returncode
    assert "Traceback" not in plain.stderr
    for debugged in (
        (*arguments, "--debug"),
        ("--debug", *arguments),
        (arguments[0], "--debug", *arguments[1:]),
    ):
        done = swapbias(*debugged, cwd=tmp_path)
        assert done.returncode == plain.returncode
        assert done.stderr.count("Traceback (most recent call last)") >= 1
        assert done.stderr.endswith(plain.stderr)  # the sentence still comes last
    assert (
        "Traceback" not in swapbias(*arguments, cwd=tmp_path).stderr
    )  # nor does a later command show any


def test_full_disk(tmp_path, monkeypatch):
    """A full disk is one sentence and leaves no partial file."""
    written = []
    fsync = os.fsync

    def full(place):
        written.append(place)
        if len(written) > 1:
            raise OSError(28, "No space left on device")
        fsync(place)

    monkeypatch.setattr(os, "fsync", full)
    refused(swapbias("audit", "vader", "--out", tmp_path / "run"), 1, "No space left on device")
    assert len(written) > 1
    assert not list(tmp_path.rglob("*.tmp"))


def test_report_is_named_last(tmp_path):
    """An audit names its report and the next command last."""
    done = swapbias("audit", "vader", "--study", "occupation_sentiment", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-2:] == [
        f"Report  {tmp_path}/run/report.html",
        f"Next    swapbias check {tmp_path}/run  # tests whether the gap is below 5 points",
    ]
    assert "occupation_sentiment:control, " in done.stdout
    items = pq.read_table(tmp_path / "run/items/occupation_sentiment.parquet")
    assert items.num_rows == 4840  # 840, and 800 in each of five wordings


def test_build(tmp_path, monkeypatch):
    """A build writes what load_dataset reads offline, holds no upstream file of another licence,
    and is listed with every name."""
    import datasets

    some = ["stigma_vignettes", "gender_lexicon"]  # of all that there are, to be quick
    monkeypatch.setattr("swapbias.cli.data.studies.corpora", lambda: some)
    done = swapbias("build", "--out", tmp_path, SWAPBIAS_UPSTREAM=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "original_conditions: left out" in done.stdout
    assert "Put it into the folder SWAPBIAS_UPSTREAM" in done.stdout
    assert datasets.load_dataset(str(tmp_path / "stigma_vignettes"))["test"].num_rows == 432
    assert datasets.load_dataset(str(tmp_path / "gender_lexicon"), "nouns")["train"].num_rows == 112
    streamed = datasets.load_dataset(
        str(tmp_path / "gender_lexicon"), "pronouns", split="train", streaming=True
    )
    assert len(list(streamed)) == 8
    other = tmp_path / "up/jlcmoore/llms-as-therapists/data/questions.jsonl"
    other.parent.mkdir(parents=True)
    other.write_text("other\n")
    done = swapbias(
        "build", "stigma_vignettes", "--out", tmp_path / "out", SWAPBIAS_UPSTREAM=tmp_path / "up"
    )
    assert done.returncode == 0, done.stderr
    assert re.search(
        "original_conditions: left out.*sha256 is not the pinned", " ".join(done.stdout.split())
    )
    some.append("spanish_occupations")
    shown = invoke("list", "--corpora").output
    assert all(corpus in shown for corpus in some)
    assert all(
        f" {config.name} " in shown for corpus in some for config in load_corpus(corpus).configs
    )


def test_second_build(tmp_path):
    """A built corpus is built again, and another folder is left alone."""
    for _ in range(2):  # without docstrings and assertions, which it hangs on neither of
        assert (
            swapbias("build", "gender_lexicon", "--out", tmp_path, PYTHONOPTIMIZE="2").returncode
            == 0
        )
    (tmp_path / "gendered_stigma").mkdir()
    (tmp_path / "gendered_stigma" / "mine.txt").write_text("keep")
    (tmp_path / "gendered_stigma" / "README.md").write_text("a dataset of somebody else")
    refused(swapbias("build", "gendered_stigma", "--out", tmp_path), 2, "contains something else")
    assert (tmp_path / "gendered_stigma" / "mine.txt").read_text() == "keep"


def test_reproduce(upstream, tmp_path):
    """The command reproduce matches published numbers, names missing files and prints every row on
    request."""
    done = swapbias("reproduce", "care_notes", "occupation_sentiment")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:-1] if line[0] != " "] == [
        "care_notes",
        "occupation_sentiment",
    ]  # a sentence a study
    assert re.search(
        r": 14 of 14 numbers match, 0 explained, 0 do not \(9 recomputed, 4 printed, 1 bound\); ",
        " ".join(map(str.strip, lines)),
    )
    assert re.fullmatch(r"(\d+) of \1 numbers match, 0 explained, 0 do not \(.+\)\.", lines[-1])
    every = invoke("reproduce", "occupation_sentiment", "--all")
    assert every.exit_code == 0
    assert "Skipped: occupation_sentiment" in every.output
    assert every.output.count("yes") == 14
    assert max(map(len, every.output.splitlines())) <= 100
    none = swapbias("reproduce", "occupation_sentiment", SWAPBIAS_UPSTREAM=tmp_path)
    refused(none, 1, "No released output was found")
    unreleased = invoke("reproduce", "phenotype_fairness", "--all")
    assert unreleased.exit_code == 0
    assert "authors released no outputs; 264 numbers not compared" in unreleased.output
    assert "0.90; not compared: its outputs were not released" in unreleased.output


def invoke(*arguments, **environment):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "80", **environment})


def test_studies_with_commas():
    """Studies may be separated by commas."""
    plan = ("audit", "--dry-run", "vader", "--study")
    together = invoke(*plan, "occupation_sentiment:control, social_distance").output
    apart = invoke(*plan, "occupation_sentiment:control", "--study", "social_distance").output
    assert together == apart
    assert "social_distance sentiment" in together


def test_help_of_an_audit():
    """The help of an audit fits a screen, and settings have a page."""
    shown = swapbias("audit", "--help", COLUMNS="80").stdout
    assert len(shown.splitlines()) <= 60
    options = [
        one for one in get_command(app).commands["audit"].params if one.param_type_name == "option"
    ]
    assert len(options) <= 24
    every = invoke("help", "settings").output
    for one in known_settings():
        assert f"  {one.key}=" in every
        assert one.help in every
    assert "temperature=1.0" in invoke("help", "settings", "chat").output
    assert "no help on 'chta'" in str(invoke("help", "settings", "chta").exception).lower()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--temperature", "0"), "--temperature is a setting. Write -M temperature=VALUE"),
        (("--no-seed",), "--no-seed is a setting. Write -M no-seed "),
        (("-M", "temprature=0"), "Unknown setting 'temprature'. Did you mean temperature?"),
        (("-M", "seed=2"), "seed has an option of its own. Write --seed."),
        (
            ("-M", "temperature=warm"),
            "temperature is warm, expected a number of 0 or more. Change -M temperature.",
        ),
        (("-M", "top-logprobs"), "-M top-logprobs has no value."),
        (("-M", "temperature=1", "-M", "temperature=2"), "-M temperature is given twice."),
        (("-M", "temperature=-1", "--chat", "m"), "Change -M temperature."),
    ],
    ids=[
        "option",
        "flag",
        "misspelt",
        "own option",
        "text",
        "no value",
        "given twice",
        "below zero",
    ],
)
def test_unfit_setting(given, said):
    """A setting that does not fit is one sentence."""
    for command in ("audit", "plan"):
        assert said in str(invoke(command, *given).exception)


def test_settings_by_type():
    """Settings are read by their types."""
    given = ["embedding=a.kv", "embedding=b.kv", "max_tokens=20"]
    assert read_settings(given) == {"embedding": ["a.kv", "b.kv"], "max_tokens": 20}
    assert read_settings(["plausible", "no-seed=false", "scorer=x=y"]) == {
        "plausible": True,
        "no_seed": False,
        "scorer": "x=y",
    }


def test_file_stands_alone(tmp_path):
    """A file of settings takes no options beside it, and plans alike."""
    (tmp_path / "audit.toml").write_text(
        'model = "vader"\nstudies = ["occupation_sentiment:control"]\n'
    )
    done = invoke("audit", tmp_path / "audit.toml", "--limit", "3")
    assert "limit is given. Drop the others." in str(done.exception)
    planned = invoke("audit", tmp_path / "audit.toml", "--dry-run").output
    assert "20 pairs" in planned
    assert invoke("plan", tmp_path / "audit.toml").output.startswith(planned)


def test_file_gets_no_key(tmp_path):
    """A file that names a service gets no key of the environment."""
    file = tmp_path / "audit.toml"
    service = '[chat]\nmodel = "m"\nbase_url = "https://collector.example/v1"\n'
    file.write_text(f'studies = ["adjective_coreference"]\n{service}')
    done = invoke("audit", file, "--out", tmp_path / "run", SWAPBIAS_API_KEY="sk-mine")
    text = (
        "names collector.example, which would get the key in SWAPBIAS_API_KEY. Repeat with --trust"
    )
    assert text in str(done.exception)
    assert not (tmp_path / "run").exists()
    assert invoke("plan", file, SWAPBIAS_API_KEY="sk-mine").exit_code == 0  # which asks no service


def test_several_models(tmp_path):
    """Several models are named with their reports, and a failed one with its error."""
    (tmp_path / "pair.py").write_text(
        "def bad(texts):\n    raise KeyError('text')\n"
        "def one(texts):\n    return [.5 + .01 * (len(text) % 7) for text in texts]\n"
        "def other(texts):\n    return [.4 + .02 * (len(text) % 5) for text in texts]\n"
    )
    models = ("pair:one", "pair:nothing", "pair:bad", "pair:other")
    arguments = ("audit", *models, "--study", "occupation_sentiment:control", "--out", "all")
    done = swapbias(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    for part in (
        "Failed: pair:nothing: pair:nothing: AttributeError",
        "Report: all/pair-one/report.html",
        "Comparison: all/comparison",
        "Report: all/pair-other/report.html",
    ):
        assert part in done.stdout
    for part in (
        "Model 4 of 4: pair:other.",
        "2 of 4 models failed. Run the same command to try them again",
    ):
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    again = swapbias(*arguments, "--debug", cwd=tmp_path)
    assert 'pair.py", line 2, in bad' in again.stderr
    assert "KeyError" in again.stderr


def test_unfit_or_damaged_model(tmp_path):
    """A model that does not fit or is damaged is one sentence and leaves no folder."""
    tiny.save_causal(tmp_path / "gpt")
    folder = tiny.save("bert", tmp_path / "model")
    shutil.copytree(folder, tmp_path / "config")
    (tmp_path / "config" / "config.json").write_text("{ no json")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    (tmp_path / "exits.py").write_text("import sys; sys.exit()\n")
    (tmp_path / "broken.py").write_text("def broken(:\n")
    for arguments, code, part in (
        (
            ("./gpt", "--study", "gendered_stigma"),
            2,
            "needs a masked model and gpt is of kind causal",
        ),
        (("./gpt", "--kind", "masked"), 2, "is of kind causal, not masked"),
        (("./model", "--study", "gendered_stigma:rq1"), 2, "model.safetensors is cut off"),
        (("./config", "--study", "gendered_stigma:rq1"), 2, "config.json"),
        (("exits:f",), 2, "exits:f"),
        (("broken:f",), 2, "broken:f"),
    ):
        done = swapbias("audit", *arguments, "--out", "run", cwd=tmp_path)
        refused(done, code, part)
        assert "bug in swapbias" not in done.stderr
        assert not (tmp_path / "run").exists()


def test_plan():
    """A plan states the size of an audit, the gap that it could find and what is unknown."""
    done = swapbias("plan", "someone/model", "--kind", "masked", "--study", "gendered_stigma")
    assert done.returncode == 0, done.stderr
    # 17 templates x 22 diagnoses, each text in six wordings, 17 about no condition; at most 111 calls for each of
    # 27 x 22 texts.
    assert (
        "374 pairs, 17 templates x 22 diagnoses; has 80 % power for gaps of 16.8 points"
        in done.stdout
    )
    assert f"{374 * 6 + 17:,} model calls." in done.stdout
    assert "at most 65,934 model calls." in done.stdout
    alias = swapbias(
        "audit", "someone/model", "--kind", "masked", "--study", "gendered_stigma", "--dry-run"
    )
    next_step = "Next    swapbias audit someone/model --kind masked --study gendered_stigma\n"
    assert done.stdout == alias.stdout + next_step
    done = swapbias(
        "plan",
        "someone/model",
        "--kind",
        "causal",
        "--study",
        "adjective_coreference",
        "--limit",
        "32",
    )
    assert "16 pairs" in done.stdout
    assert (
        "the gap that it could find is unknown before a run; at most 64 model calls." in done.stdout
    )
