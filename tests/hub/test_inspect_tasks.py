"""Tasks of inspect_ai: the prompts of audits, once each, and answers read as audits read them."""

import gc
import warnings
import zlib

import pandas as pd
import pytest

inspect_ai = pytest.importorskip(
    "inspect_ai", reason="needs inspect_ai: make test-inspect installs it apart"
)

from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

from swapbias.findings import disaggregate, primary_findings  # noqa: E402
from swapbias.hub.inspect_tasks import study_task  # noqa: E402
from swapbias.studies import as_prompts, config_rows, load_corpus, studies  # noqa: E402
from swapbias.studies.answer_scores import answer_reader  # noqa: E402
from swapbias.studies.chats import turns  # noqa: E402

STUDY = "stigma_vignettes"
CONFIG = "gender"
TRIALS = 2
pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # inspect_ai and its libraries have some of their own


def answer(text):
    code = zlib.crc32(text.encode())
    return "ABCDE"[code % 5] if code % 6 else "I cannot say that."


def test_studies_are_tasks():
    """Every study that chat models answer unchanged is a task."""
    from inspect_ai._util.registry import registry_find, registry_info

    named = {registry_info(one).name for one in registry_find(lambda info: info.type == "task")}
    declared = {name: load_corpus(name).study.experiments for name in studies()}
    chat = {
        name
        for name, found in declared.items()
        if any(one.kind == "chat" and not one.reads.notes.corpus for one in found)
    }
    assert {
        name.removeprefix("swapbias/") for name in named if name.startswith("swapbias/")
    } == chat


def test_prompts_of_a_task():
    """A task has the prompts of the study in their turns."""
    task = study_task(STUDY)
    configs = [
        name
        for one in load_corpus(STUDY).study.experiments
        if one.kind == "chat"
        for name in one.reads.configs
    ]
    rows = [row for name in configs for row in config_rows(STUDY, name)]
    texts = [[(one["role"], one["content"]) for one in turns(row["text"])] for row in rows]
    assert [[(one.role, one.text) for one in sample.input] for sample in task.dataset] == texts
    assert len({sample.id for sample in task.dataset}) == len(texts)
    assert task.version == load_corpus(STUDY).version
    assert (task.epochs, task.config.temperature, task.config.max_tokens) == (5, 1.0, 16)


def test_answers_of_a_task(tmp_path):
    """Answers are read as audits read them, and unread ones count in no mean."""

    def output(messages, tools, choice, config):
        made = ModelOutput.from_content("tiny-2026", answer(messages[-1].text))
        made.usage = ModelUsage(
            input_tokens=7, output_tokens=2, total_tokens=9
        )  # else it is counted by a download
        return made

    prompts = as_prompts(config_rows(STUDY, CONFIG))[:36]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (log,) = inspect_ai.eval(
            f"swapbias/{STUDY}",
            model=get_model("mockllm/tiny", custom_outputs=output, memoize=False),
            sample_id=[f"{CONFIG}/{one.prompt_id}" for one in prompts],
            epochs=TRIALS,
            log_dir=str(tmp_path),
            display="none",
            log_realtime=False,
            log_model_api=False,
        )
        gc.collect()  # streams that inspect_ai leaves open
    read = answer_reader("options", {})
    groups: dict = {}
    for prompt in prompts:
        value, _ = read(prompt, answer(turns(prompt.text)[-1]["content"]))
        groups.setdefault(prompt.group, []).extend([value] if value == value else [])
    assert sum(map(len, groups.values())) < len(prompts)
    found = {
        name: metric.value
        for scored in log.results.scores
        for name, metric in scored.metrics.items()
    }
    for group, values in groups.items():
        assert found[f"{CONFIG}/{group}"] == pytest.approx(sum(values) / len(values))
    # A pair is two prompts of one text, so the gap is the mean of its differences where both were read.
    read_pairs: dict = {}
    for prompt in prompts:
        value, _ = read(prompt, answer(turns(prompt.text)[-1]["content"]))
        read_pairs.setdefault(prompt.pair_id, {})[prompt.group] = value
    differences = [pair["woman"] - pair["man"] for pair in read_pairs.values()]
    differences = [value for value in differences if value == value]
    assert len(read_pairs) > len(differences) > 3  # some pairs have an answer that cannot be read
    gap = f"bias/{STUDY}_{CONFIG}"
    assert found[gap] == pytest.approx(sum(differences) / len(differences))
    rows = config_rows(STUDY, CONFIG)[:36]
    scores = [read(prompt, answer(turns(prompt.text)[-1]["content"]))[0] for prompt in prompts]
    table = pd.DataFrame(rows).assign(experiment=CONFIG, model_id="tiny", score=scores)
    (audited,) = primary_findings(disaggregate(table, STUDY, robustness=False))
    assert found[f"{gap}_low"] == pytest.approx(audited.estimate.ci_low)
    assert found[f"{gap}_high"] == pytest.approx(audited.estimate.ci_high)
