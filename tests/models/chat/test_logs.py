"""Answers that inspect_ai logged: its tasks ask our prompts, and its logs give the findings of an audit."""

import json
import math
import warnings
import zipfile
import zlib
from dataclasses import replace

import pandas as pd
import pytest

inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect_ai: make test-inspect installs it apart")

from inspect_ai.log import read_eval_log, write_eval_log  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from swapbias.cli import app  # noqa: E402
from swapbias.errors import UsageError  # noqa: E402
from swapbias.findings import findings_table  # noqa: E402
from swapbias.models.chat import ChatOptions  # noqa: E402
from swapbias.models.chat.tasks import chat_prompts, read_header, study_task  # noqa: E402
from swapbias.privacy import private_strings, public_manifest  # noqa: E402
from swapbias.runs import Settings, settings_of, start  # noqa: E402
from swapbias.studies import load_corpus, studies, turns  # noqa: E402
from tests.models.chat.server import ChatServer  # noqa: E402

STUDY, CONFIG, TRIALS, LIMIT = "stigma_vignettes", "gender", 2, 36
pytestmark = pytest.mark.filterwarnings("ignore")  # inspect_ai and its libraries have some of their own


def answer(text):
    """A letter that follows from the prompt, or a refusal of every sixth."""
    code = zlib.crc32(text.encode())
    return "ABCDE"[code % 5] if code % 6 else "I cannot say that."


def limited():
    """The prompts of an audit with --limit, each once."""
    settings = settings_of(None, [f"{STUDY}:{CONFIG}"], {"chat": "tiny", "trials": 1})
    from swapbias.runs.plan import plan_tasks

    (task,), _ = plan_tasks(replace(settings, limit=LIMIT))
    return [row["prompt_id"].removesuffix("/t1") for row in task.rows]


def ask(folder, respond, *, form="eval", **more):
    """The log of a task, answered by inspect's own mock model."""

    def output(messages, tools, choice, config):
        made = respond(messages[-1].text)
        if isinstance(made, Exception):
            raise made
        made = ModelOutput.from_content("tiny-2026", made) if isinstance(made, str) else made
        made.usage = ModelUsage(input_tokens=7, output_tokens=2, total_tokens=9)  # else it is counted by a download
        return made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = {"task_args": {"config": CONFIG}, "sample_id": [f"{CONFIG}/{one}" for one in limited()]}
        (log,) = inspect_ai.eval(
            f"swapbias/{STUDY}", model=get_model("mockllm/tiny", custom_outputs=output, memoize=False),
            log_dir=str(folder), log_format=form, display="none", log_realtime=False, log_model_api=False,
            **{"epochs": TRIALS, "temperature": 0.5, **usual, **more},
        )  # fmt: skip
    return log


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return ask(tmp_path_factory.mktemp("logs"), answer)


@pytest.fixture(scope="module")
def path(log):
    from pathlib import Path

    return Path(log.location)


def of_log(path, **more):
    return replace(settings_of(None, (), {"log": str(path)}), limit=LIMIT, **more)


@pytest.fixture(scope="module")
def quietly():
    return {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None, "draw": False}


@pytest.fixture(scope="module")
def logged(path, tmp_path_factory, quietly):
    return start(of_log(path), tmp_path_factory.mktemp("run") / "logged", **quietly)


@pytest.fixture(scope="module")
def asked(tmp_path_factory, quietly):
    """An audit of ours of the same model."""
    with ChatServer(answer, model="mockllm/tiny") as server:
        chat = ChatOptions(model="mockllm/tiny", base_url=server.base_url, trials=TRIALS, temperature=0.5)
        settings = Settings(studies=(f"{STUDY}:{CONFIG}",), options=(chat,), limit=LIMIT)
        return start(settings, tmp_path_factory.mktemp("run") / "asked", **quietly)


def test_every_study_that_chat_models_answer_is_a_task():
    from inspect_ai._util.registry import registry_find, registry_info

    named = [registry_info(one).name for one in registry_find(lambda info: info.type == "task")]
    chat = {one for one in studies() if any(two.kind == "chat" for two in load_corpus(one).study.experiments)}
    assert {f"swapbias/{one}" for one in chat} <= set(named)


def test_a_task_asks_the_prompts_of_the_study_each_text_once_in_its_turns(log):
    task = study_task(STUDY)
    texts = {
        tuple((one["role"], one["content"]) for one in turns(prompt.text))
        for some in chat_prompts(STUDY).values()
        for prompt in some
    }
    asked = [tuple((one.role, one.text) for one in sample.input) for sample in task.dataset]
    assert len(asked) == len(set(asked))
    assert set(asked) == texts
    assert (task.version, task.epochs, task.config.temperature, task.config.max_tokens) == ("1.0.0", 5, 1.0, 16)
    assert [one.role for one in log.samples[0].messages] == ["system", "user", "assistant", "user", "assistant"]


def test_a_log_gives_the_findings_of_an_audit_with_the_same_answers(logged, asked):
    (mine, found), (other, wanted) = logged, asked
    pd.testing.assert_frame_equal(findings_table(found), findings_table(wanted), rtol=0, atol=1e-12)
    assert len(found) > 20
    assert any(math.isfinite(one.estimate.p_value) for one in found)
    columns = ["prompt_id", "trial", "answer", "score", "unanswered", "tokens", "truncated"]
    assert mine.items(STUDY)[columns].equals(other.items(STUDY)[columns])


def test_the_manifest_says_what_the_log_says_and_no_place(logged, path, log):
    manifest = logged[0].manifest()
    chat, (model,) = manifest["settings"]["chat"], manifest["models"]
    assert (chat["model"], chat["trials"], chat["temperature"], chat["max_tokens"]) == ("mockllm/tiny", 2, 0.5, 16)
    assert (model["model_id"], model["task"]) == ("mockllm/tiny", f"swapbias/{STUDY}")
    assert model["inspect_ai"] == log.eval.packages["inspect_ai"]
    assert len(model["log_sha256"]) == 64
    assert str(path) in private_strings(manifest)
    assert str(path.parent) not in json.dumps(public_manifest(manifest))
    assert public_manifest(manifest)["settings"]["chat"]["log"] == path.name


def test_what_has_no_answer_has_no_score_and_is_told(tmp_path, quietly):
    texts = [one.text for one in chat_prompts(STUDY, CONFIG)[CONFIG]]
    lost = {turns(text)[-1]["content"] for text in texts if zlib.crc32(text.encode()) % 4 == 0}
    log = ask(
        tmp_path, lambda text: ValueError("down") if text in lost else answer(text),
        fail_on_error=False, epochs=1, form="json",
    )  # fmt: skip
    told = []
    run, _ = start(of_log(log.location), tmp_path / "run", **{**quietly, "say": told.append})
    items = run.items(STUDY)
    missing = [turns(text)[-1]["content"] in lost for text in items["text"]]
    assert 0 < sum(missing) < len(items)
    assert items["answer"].eq("").tolist() == missing
    assert items.loc[missing, ["score", "unanswered"]].isna().all(axis=None)
    (sentence,) = [one for one in told if "no answer" in one]
    assert f"no answer to {sum(missing)} of {len(items)} prompts" in sentence
    assert f"({sum(missing)} samples broke off with an error)" in sentence


def test_thinking_is_no_answer_and_what_is_cut_off_is_marked(tmp_path, quietly):
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ContentReasoning, ContentText

    def respond(text):
        said = [ContentReasoning(reasoning="Surely (A)."), ContentText(text="B")]
        cut = zlib.crc32(text.encode()) % 2 == 0
        message = ChatMessageAssistant(content=said[:1] if cut else said)
        choice = ChatCompletionChoice(message=message, stop_reason="max_tokens" if cut else "stop")
        return ModelOutput(model="tiny", choices=[choice])

    log = ask(tmp_path, respond, epochs=1)
    run, _ = start(of_log(log.location), tmp_path / "run", **quietly)
    items = run.items(STUDY)
    assert set(items["answer"]) == {"", "B"}
    assert items["truncated"].eq(items["answer"].eq("")).all()
    assert items["unanswered"].eq(items["truncated"]).all()


def edited(log, path, change):
    """A copy of a log with something changed."""
    copy = read_eval_log(log.location)
    change(copy)
    write_eval_log(copy, str(path))
    return path


def another_prompt(log):
    log.samples[3].input[-1].content += " Really?"


def another_solver(log):
    log.samples[3].messages.insert(0, log.samples[3].messages[0].model_copy(update={"content": "Think first."}))


def another_task(log):
    log.eval.task = log.eval.task_registry_name = "inspect_evals/bbq"


def another_version(log):
    log.eval.task_version = "0.9.0"


def another_system(log):
    log.plan.config.system_message = "Be kind."


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            another_prompt,
            "1 of 72 samples put something else than a prompt of swapbias/stigma_vignettes before the model",
        ),
        (
            another_solver,
            "1 of 72 samples put something else than a prompt of swapbias/stigma_vignettes before the model",
        ),
        (another_task, "is a log of the task 'inspect_evals/bbq'"),
        (another_version, "asks version 0.9.0 of stigma_vignettes, and this swapbias has 1.0.0"),
        (another_system, "a system message of its own"),
    ],
)
def test_a_log_of_something_else_is_refused(log, tmp_path, quietly, change, said):
    path = edited(log, tmp_path / "edited.eval", change)
    with pytest.raises(UsageError, match=said):
        start(of_log(path), tmp_path / "run", **quietly)
    assert not (tmp_path / "run").exists()


def test_settings_of_the_task_go_before_those_of_the_model(log, tmp_path):
    def change(copy):
        copy.eval.model_generate_config.temperature, copy.eval.model_generate_config.seed = 0.9, 7
        copy.eval.model, copy.eval.model_args = "hf/OWNER/NAME", {"revision": "abc123", "api_key": "sk-secret"}

    options, identity, _ = read_header(edited(log, tmp_path / "edited.json", change))
    assert (options.model, options.temperature) == ("hf/OWNER/NAME", 0.5)
    assert (identity["seed"], identity["revision"]) == (7, "abc123")
    assert "sk-secret" not in repr((options, identity))
    here = edited(log, tmp_path / "here.json", lambda copy: setattr(copy.eval, "model", "hf//home/me/model"))
    assert read_header(here)[0].model == "/home/me/model"  # which public manifests shorten


def test_a_broken_file_is_one_sentence(path, tmp_path):
    whole = path.read_bytes()
    for number, content in enumerate((whole[: len(whole) // 2], b"PK\x03\x04 none", b"", b'{"version": 2}')):
        for suffix in (".eval", ".json"):
            broken = tmp_path / f"broken{number}{suffix}"
            broken.write_bytes(content)
            with pytest.raises(ValueError, match=r"broken\d\.\w+ cannot be read as a log of inspect_ai"):
                of_log(broken)


def test_what_the_log_says_is_not_said_otherwise(path, tmp_path):
    def refuse(given, studies=(), model=None):
        return settings_of(model, studies, {"log": str(path), **given})

    with pytest.raises(UsageError, match="-M log says how the model was asked, and --chat, --trials is given too"):
        refuse({"chat": "tiny", "trials": 3})
    with pytest.raises(UsageError, match="A log says which study was asked, and gendered_stigma is named too"):
        refuse({}, ["gendered_stigma"])
    with pytest.raises(UsageError, match="There is no log"):
        settings_of(None, (), {"log": str(tmp_path / "none.eval")})
    done = CliRunner().invoke(app, ["plan", "-M", f"log={path}", "--limit", str(LIMIT)])
    assert done.exit_code == 0, done.output
    assert "nothing is asked" in done.output
    assert zipfile.is_zipfile(path)
