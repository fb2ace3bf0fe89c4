"""No error has an empty list, two full stops, a list in Python's form, or a placeholder for a
known value."""

import ast
import re

import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias import load_prompts
from swapbias.cli import _sentence, app
from swapbias.errors import listed, unknown_name
from swapbias.hub import study_names
from swapbias.runs import Settings, plan_tasks
from swapbias.studies.own import check_study, open_study
from tests.conftest import ROOT

FILES = sorted((ROOT / "swapbias").rglob("*.py"))
# A list that is empty, an end that stands twice, brackets of Python, what is to be filled in though it is known.
BROKEN = re.compile(
    r"(?<!\.)\.\s*\.(?!\.)"
    r"|[:,;]\s*\.(?!\w)|\b(one of|expected|has)\s*[.,;:](?!\w)|\[\]|\(\)|\{\}|none of\s*\.|  |--resume DIR"
)
PROMPTS = pd.DataFrame(
    {"text": ["He ran.", "She ran."], "group": ["male", "female"], "pair": ["a", "a"]}
)

STUDY = 'name = "runners"\ntitle = "Runners"\nkind = "classifier"\n[compares]\nreference = "male"\n'


def score_prompts(rows):
    return pd.DataFrame(
        rows, columns=["prompt_id", "pair_id", "group", "experiment", "model_id", "text", "score"]
    )


WRONG = {
    "a name among none": lambda: (_ for _ in ()).throw(unknown_name("group", "x", [])),
    "scores without rows": lambda: swapbias.disaggregate(score_prompts([]), "occupation_sentiment"),
    "scores of another study": lambda: swapbias.disaggregate(
        score_prompts([("1", "1", "male", "other", "m", "", 0.1)]), "occupation_sentiment"
    ),
    "an unknown study": lambda: load_prompts("no_study"),
    "an unknown config": lambda: load_prompts("gendered_stigma", "no_config"),
    "prompts without rows": lambda: open_study(PROMPTS[:0], reference="male"),
    "prompts without columns": lambda: open_study(pd.DataFrame(), reference="male"),
    "prompts of one group": lambda: open_study(PROMPTS[:1], reference="male"),
    "prompts without a reference": lambda: open_study(PROMPTS),
    "prompts without texts": lambda: open_study(PROMPTS.drop(columns="text"), reference="male"),
    "prompts of a wrong reference": lambda: open_study(PROMPTS, reference="mal"),
    "prompts that are no table": lambda: open_study(3, reference="male"),
    "a study that a model does not fit": lambda: plan_tasks(
        Settings(model="vader", studies=("social_distance:attitude",))
    ),
    "an unknown measure": lambda: swapbias.metric_path("gap"),
    "no group": lambda: swapbias.paired_gap([], [], [], reference_group="m"),
    "a type of setting": lambda: swapbias.audit("vader", "occupation_sentiment", limit="3"),
    "a folder that is a number": lambda: swapbias.audit("vader", "occupation_sentiment", data=3),
    "an engine that is none": lambda: swapbias.audit("vader", "occupation_sentiment", engine=3),
    "a seed below 0": lambda: swapbias.audit("vader", "occupation_sentiment", seed=-1),
    "a setting out of its range": lambda: swapbias.audit(
        "vader", "occupation_sentiment", batch_size=0
    ),
    "a setting that is none": lambda: swapbias.audit("vader", "occupation_sentiment", batch=1),
    "a margin above the range": lambda: swapbias.audit("vader", "occupation_sentiment", margin=5),
    "a reference without prompts": lambda: swapbias.audit("vader", reference="male"),
    "a name without a model in memory": lambda: swapbias.audit("vader", name="mine"),
    "an own study of the wrong kind": lambda: swapbias.audit(
        "vader", prompts=PROMPTS.assign(text="a <mask> b")
    ),
}


COMMANDS = (
    "audit vader --study occupation_sentiment --limit x",
    "audit vader --study occupation_sentiment --limit 0",
    "audit vader --study occupation_sentiment --seed -1",
    "audit vader --batch-size many",
    "audit --chat m --trials 5000",
    "audit --chat m --max-cost x",
    "audit vader --margin x",
    "audit vader --studdy occupation_sentiment",
    "audit vader --study nope",
    "audit vader --study occupation_sentiment:nope",
    "audit vader --study ./nowhere",
    "audit vader --study tests",
    "audit vader --study gendered_stigma",
    "audit vader --kind sound",
    "audit vader --reference male",
    "audit vader --resume tests",
    "audit --resume tests",
    "audit ./nowhere",
    "audit tests",
    "audit vader -M max-tokens=x",
    "audit vader -M max-tokens",
    "audit vader -M temprature=1",
    "audit vader -M no-seed=maybe",
    "audit vader -M seed=1",
    "audit --chat m -M temperature=-1",
    "audit owner/name -M trust-remote-code --trust --study gendered_stigma:rq1",
    "help settings chta",
    "build nope",
    "export nope occupation_sentiment --out nowhere",
    "push dataset --namespace me",
    "check",
    "check tests",
    "check tests --max-gap 5",
    "figures tests --format gif",
    "compare tests",
    "swap nowhere.csv --out nowhere",
    "swap README.md --out nowhere",
    "study",
    "study check nowhere",
    "study test nowhere",
    "adit",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_command_sentences(command, monkeypatch, tmp_path):
    """A sentence about a wrong command ends once, lists something where it lists and has none of
    pydantic's words."""
    monkeypatch.chdir(ROOT)
    error = CliRunner().invoke(app, command.split(), standalone_mode=False).exception
    assert error is not None
    sentence, code = _sentence(error)
    assert code == 2
    assert not BROKEN.search(sentence), sentence
    assert re.search(r"[^.?!:,;][.?]$", sentence.strip()), sentence
    assert not re.search(
        r"Input should be|valid (integer|number|string|boolean)|validation error", sentence
    )


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "audit vader --limit x",
            "limit is x, expected a whole number of 1 or more. Change --limit.",
        ),
        (
            "audit vader --limit 0",
            "limit is 0, expected a whole number of 1 or more. Change --limit.",
        ),
        (
            "audit --chat m --trials 2000",
            "trials is 2000, expected a whole number from 1 to 1,000. Change --trials.",
        ),
        (
            "audit vader -M max-tokens=x",
            "max-tokens is x, expected a whole number of 1 or more. Change -M max-tokens.",
        ),
        (
            "audit vader -M no-seed=maybe",
            "no-seed is maybe, expected true or false. Change -M no-seed.",
        ),
        (
            "export nope gendered_stigma --out x",
            "Unknown form 'nope', expected lm-eval or every-eval-ever. "
            "Write swapbias export lm-eval gendered_stigma.",
        ),
    ],
    ids=[
        "limit as text",
        "limit of zero",
        "too many trials",
        "max-tokens as text",
        "no-seed as text",
        "unknown form",
    ],
)
def test_sentence_names_value(command, sentence):
    """A sentence about a wrong value names the value, what is expected and the option."""
    assert _sentence(CliRunner().invoke(app, command.split(), standalone_mode=False).exception) == (
        sentence,
        2,
    )


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_sentences(case):
    """A sentence about wrong input is whole: no list in it is empty and it ends in one period."""
    with pytest.raises((ValueError, KeyError)) as raised:
        WRONG[case]()
    sentence = str(raised.value)
    assert not BROKEN.search(sentence), sentence
    assert re.search(r"[^.?!:,;][.?]['\"]?$", sentence), sentence


def test_advice_once_for_several_configs(caplog, tmp_path):
    """Advice on prompts of a folder is logged once, though ``study:config`` names the folder
    several times."""
    (tmp_path / "study.toml").write_text(STUDY)
    PROMPTS.assign(text=["He ran. ", "She ran."]).to_csv(tmp_path / "prompts.csv", index=False)
    names = study_names([f"{tmp_path}:{config}" for config in ("a", "b", "c")])
    assert [name.partition(":")[2] for name in names] == ["a", "b", "c"]
    advice = [
        record.message
        for record in caplog.records
        if "begins or ends with blanks" in record.message
    ]
    assert len(advice) == 1


def test_faults_of_a_study():
    """Each fault that check_study lists is a whole sentence."""
    for wrong in (
        PROMPTS[:0],
        PROMPTS[:1],
        PROMPTS.assign(group=""),
        PROMPTS.assign(text="[slot]"),
    ):
        for fault in check_study(wrong, reference="male").faults:
            assert not BROKEN.search(fault), fault


def constants(path):
    """The texts of a file that are not docstrings, what is filled in left out as ``{x}``."""
    tree = ast.parse(path.read_text())
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{x}" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.value


def test_commands_name_the_run():
    """No command in a sentence names a run by a placeholder, since the code that stops or fails
    knows the folder."""
    found = [
        f"{path.name}: {text}"
        for path in FILES
        for text in constants(path)
        if re.search(r"swapbias (audit --resume|check|report|share) (DIR|RUN|FOLDER)\b", text)
        and "python" not in text
        and not text.lstrip().startswith(("-", "Usage"))
    ]
    assert found == []


def test_listed_of_nothing():
    """A list in an error names "none" or the given word when it is empty."""
    assert (listed(["a", "", "b"]), listed([]), listed([], "nothing")) == (
        "a, b",
        "none",
        "nothing",
    )


# Joins in errors that cannot be empty, by file and function, with the reason.
NEVER_EMPTY = {
    "cli/data.py _resolver": "inside if needless",
    "measures/answer_accuracy.py answer_bias": "a constant",
    "measures/crossed_factors.py crossed": "a cell has a level of each factor; fewer than two are refused",
    "measures/evaluate_module.py compute": "inside if strange, or some are missing; a module has columns",
    "measures/evaluate_module.py _whole": "inside if missing; a module has columns",
    "measures/rates.py _dependence": "more than one factor",
    "models/model_files.py read_model_json": "a path whose last part is a constant",
    "models/auto.py model_kind": "the kinds of the package",
    "models/base.py refuse_weights_settings": "inside if changed",
    "models/chat/chat_options.py api_key": "key_names has the variable of every provider",
    "models/chat/chat_options.py _refuse_unread": "unread has a name",
    "models/clinical/word_vectors.py _read_keyed": "the numbers of a first line, which is not a list of names",
    "models/clinical/phenotype.py _train": "the classes of a target",
    "models/training_data.py _from_file": "a constant",
    "models/training.py check": "a constant",
    "notes/diagnosis_codes.py coded_notes": "inside if missing",
    "outcome.py assert_below": "inside if wrong; sentences, which are no list",
    "runs/plan.py _refuse_model": "sentences, none where nothing was left out",
    "runs/settings.py from_manifest": "inside if settings is None, which has faults",
    "studies/config_check.py _refuse": "lines of faults, behind if not faults: return",
    "studies/corpus.py _check_rows_declared": "lines of faults, inside if faults",
    "studies/corpus_file.py corpus_declaration": "lines of faults; what is not valid has some",
    "studies/own/own_corpus.py refuse_study": "lines of faults, inside if faults",
    "studies/package_study.py _refuse": "lines of faults; what is not valid has some",
    "studies/paper.py check_paper": "lines of faults; what is not valid has some",
    "swapping/referents/persons.py __init__": "a constant",
    "swapping/resolvers.py load_resolver": "inside if settings",
    "swapping/swapper.py _prepared_persons": "a constant; a table has two groups",
    "swapping/swapper.py run": "a constant",
    "swapping/table.py load_table": "a constant",
    "hub/metric_spaces.py standing_alone": "alternatives of a pattern, with the module itself",
}


def joins_in_errors(function):
    """Lists that an error of a function holds, in it or by the name of a local."""
    parts = list(ast.walk(function))
    local = {}
    for node in parts:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                local.setdefault(ast.unparse(target), []).append(node.value)
        elif isinstance(node, ast.NamedExpr):
            local.setdefault(node.target.id, []).append(node.value)
    waiting = [
        node
        for node in parts
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error")
    ]
    looked_at = set()
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Call) and re.match(r"'[^']*'\.join$", ast.unparse(node.func)):
                yield ast.unparse(node)
            if isinstance(node, ast.Name) and node.id not in looked_at:
                looked_at.add(node.id)
                waiting += local.get(node.id, [])


def test_lists_in_errors():
    """Each list in an error goes through listed() or is known never to be empty."""
    places = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(joins_in_errors(node)):
                places.add(f"{path.relative_to(ROOT / 'swapbias').as_posix()} {node.name}")
    assert places == NEVER_EMPTY.keys(), places ^ NEVER_EMPTY.keys()


# In capitals, for what an error cannot know: the user chooses it.
CHOSEN_BY_THE_USER = {
    "OWNER/NAME": "the form of a name that is none",
    "BUCKET/FOLDER": "the form of a URL that is none",
    "OWNER/REPOSITORY/PATH": "the form of paths in a folder of the user",
    "--data DIR": "where the user has the data",
    "out=FOLDER": "a folder that the user has to choose",
    "own-address=ADDRESS": "the user declares it, and has to know it",
    "=VALUE": "the value that is missing",
}
PLACEHOLDER = re.compile(
    r"\b(DIR|FOLDER|RUN|STUDY|MODEL|NAME|COMMIT|VALUE|ADDRESS|FILE|PATH|TEXT|GROUP|CONFIG)\b"
)


def test_no_placeholder_for_known_values():
    """No error holds a placeholder for a value that the program knows."""
    texts = [
        f"{path.name}: {part.value}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error")
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    chosen = re.compile("|".join(map(re.escape, CHOSEN_BY_THE_USER)))
    assert [text for text in texts if PLACEHOLDER.search(chosen.sub("", text))] == []
