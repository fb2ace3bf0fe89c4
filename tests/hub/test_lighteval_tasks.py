"""Tasks of lighteval, run by it on tiny models: the gaps and intervals are those of an audit."""

import math
import sys
import types
import warnings
from types import SimpleNamespace

import pandas as pd
import pytest

pytest.importorskip("lighteval", reason="needs lighteval: make test-lighteval installs it apart")
pytestmark = pytest.mark.filterwarnings("ignore")  # lighteval and its libraries have many

from swapbias.errors import UsageError  # noqa: E402
from swapbias.findings import disaggregate, primary_findings  # noqa: E402
from swapbias.hub import harness_scores, lighteval_tasks  # noqa: E402
from swapbias.hub.lighteval_tasks import TASKS_TABLE  # noqa: E402
from swapbias.models import load_scorer  # noqa: E402
from swapbias.studies import answer_scores, as_prompts, load_study  # noqa: E402
from tests import tiny  # noqa: E402
from tests.scoring import read_as, score_rows  # noqa: E402

FLOAT32 = (
    1e-3  # of a sum of some twenty log-probabilities, which lighteval pads and stores as decimals
)
# Some prompts of each experiment, so that a run takes seconds; of pairs, runs of neighbours.
CAUSAL = {
    ("coreference_schemas", "sentences"): lambda index: index // 3 % 12 == 0,
    ("adjective_coreference", "odds"): lambda index: index // 2 % 12 == 0,
    ("social_distance", "antonyms"): lambda index: index % 300 in (0, 67),
}
CHAT = {("occupation_sentiment", "ratings"): lambda index: index // 2 % 10 == 0}
ROWS_BY_NAME = harness_scores.rows_by_name


@pytest.fixture(scope="module")
def few_prompts():
    """Leave some prompts in each experiment, for lighteval and for what reads its scores."""

    def few(study, experiments):
        rows = {}
        for experiment in experiments:
            kept = {**CAUSAL, **CHAT}[study, experiment.name]
            named = ROWS_BY_NAME(study, [experiment]).items()
            rows |= {name: row for index, (name, row) in enumerate(named) if kept(index)}
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness_scores, "rows_by_name", few)
        patch.setattr(lighteval_tasks, "rows_by_name", few)
        # Built-in tasks that fetch files when they are imported.
        for name in ("tiny_benchmarks", "ifbench", "mt_bench", "ifeval"):
            for module in (f"{name}", f"{name}.main"):
                full = f"lighteval.tasks.tasks.{module}"
                patch.setitem(sys.modules, full, types.ModuleType(full))
        yield few


def run(folder, experiments, out, **settings):
    """Run tasks by the command of lighteval; returns the results of each."""
    from lighteval.main_accelerate import accelerate

    model = {"model_name": folder, "device": "cpu", "dtype": "float32", "batch_size": 640}
    names = [f"swapbias_{study}_{experiment}" for study, experiment in experiments]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = accelerate(
            ",".join(f"{name}={value}" for name, value in {**model, **settings}.items()),
            ",".join(names),
            custom_tasks="swapbias.hub.lighteval_tasks",
            output_dir=str(out),
        )
    return {name: results["results"][f"{name}:0"] for name in names}


def experiment_of(study, name):
    (experiment,) = [one for one in load_study(study).experiments if one.name == name]
    return experiment


def assert_same_gaps(results, scored, study, experiment):
    """The primary gaps of scored rows, as ``disaggregate`` finds them, are the results of a task."""
    found = primary_findings(disaggregate(pd.DataFrame(scored), study, robustness=False))
    found = [finding for finding in found if not math.isnan(finding.estimate.ci_low)]
    assert found
    names = [name for name in results if name.startswith("bias/")]
    assert len(names) == 3 * len(found)
    values = [
        value
        for finding in found
        for value in (finding.estimate.value, finding.estimate.ci_low, finding.estimate.ci_high)
    ]
    assert [results[name] for name in names] == pytest.approx(values, abs=FLOAT32)
    assert results[f"scored/{study}_{experiment}"] == sum(
        row["score"] == row["score"] for row in scored
    )


def begin_texts(folder):
    """Let a tokenizer put BOS before a text, as Llama's does: lighteval adds none where the tokenizer does not."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    start = [("<s>", tokenizer.bos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=start
    )
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def causal(tmp_path_factory, few_prompts):
    folder = tmp_path_factory.mktemp("causal")
    tiny.save_unmarked(folder, positions=256, bos_token="<s>", eos_token="</s>")
    begin_texts(folder)
    return folder, run(folder, CAUSAL, tmp_path_factory.mktemp("out"), override_chat_template=False)


@pytest.mark.parametrize(("study", "name"), CAUSAL)
def test_causal_tasks_equal_audits(study, name, causal, few_prompts):
    """A task of a causal experiment finds the gaps that an audit of the same model finds."""
    folder, results = causal
    experiment = experiment_of(study, name)
    rows = list(few_prompts(study, [experiment]).values())
    scorer = read_as(load_scorer(str(folder), kind="causal"), experiment.reads.reading)
    assert_same_gaps(results[f"swapbias_{study}_{name}"], score_rows(rows, scorer), study, name)


def test_chat_task_equals_reading(tmp_path, few_prompts, monkeypatch):
    """A task of a chat experiment asks each prompt once, and reads the answers as audits do."""
    ((study, name),) = CHAT
    folder = tiny.save_causal(tmp_path / "chat", positions=256)
    answers = {}
    read = lighteval_tasks.ScoreOfPrompt.compute

    def noting(self, model_response, doc, **unused):
        # The words of a tiny model say nothing: its first letter chooses an option.
        code = sum(map(ord, model_response.text[0]))
        text = "ABCDE"[code % 5] if code % 4 else model_response.text[0]
        answers[doc.specific["name"]] = text
        answered = SimpleNamespace(final_text=[text], output_tokens=[[1, 2]])
        return read(self, answered, doc)

    monkeypatch.setattr(lighteval_tasks.ScoreOfPrompt, "compute", noting)
    results = run(folder, CHAT, tmp_path / "out")[f"swapbias_{study}_{name}"]
    experiment = experiment_of(study, name)
    rows = few_prompts(study, [experiment])
    assert answers.keys() == rows.keys()
    reader = answer_scores.answer_reader(experiment.reads.reading, experiment.reads.aliases)
    scored = []
    for (key, row), prompt in zip(rows.items(), as_prompts(rows.values()), strict=True):
        score, parts = reader(prompt, answers[key])
        scored.append({**row, "model_id": "tiny", "score": score, **parts})
    assert_same_gaps(results, scored, study, name)


def test_tasks_of_all_studies():
    """Every causal experiment is a task, and every chat experiment without notes."""
    names = {task.name for task in TASKS_TABLE}
    assert {f"swapbias_{study}_{experiment}" for study, experiment in (*CAUSAL, *CHAT)} <= names
    assert "swapbias_gest_causal" in names
    assert not any(name.startswith("swapbias_care_notes") for name in names)


def test_turns_are_refused():
    """An experiment that asks in several turns is refused with the way to run it."""
    experiment = experiment_of("stigma_vignettes", "gender")
    prompts = lighteval_tasks.ExperimentPrompts("stigma_vignettes", experiment)
    vars(prompts)["rows"] = ROWS_BY_NAME("stigma_vignettes", [experiment])
    with pytest.raises(UsageError, match=r"asks in several turns.*inspect eval swapbias/stigma"):
        prompts.write()


@pytest.mark.parametrize(
    ("tokens", "is_cut"),
    [([5, 6, 7, 8], True), ([5, 6, 2, 2], False), ([5, 6, 2], False), ([], False)],
    ids=["at the limit", "padded behind its end", "short", "none"],
)
def test_cut_answers(tokens, is_cut):
    """An answer of the most tokens is cut, unless padding shows that it ended before."""
    assert lighteval_tasks._ends_at_limit([tokens] if tokens else [], 4) is is_cut


def test_shared_start():
    """What a pair shares ends before a blank, so that tokens of words stay whole."""
    assert lighteval_tasks._shared_start(
        ["He said that she ran.", "He said that shy men ran."]
    ) == ("He said that")
