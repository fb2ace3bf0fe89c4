"""Causal experiments as tasks of lm-evaluation-harness, run by it: the numbers are those of an audit."""

import json
import math
import re
import shutil
import warnings

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.findings import disaggregate
from swapbias.hub.lm_eval import export_study
from swapbias.hub.lm_eval_tasks import (
    gap_of_groups,
    gap_of_pairs,
    mean,
    of_option_odds,
    of_options,
)
from swapbias.models.auto import load_scorer
from swapbias.studies import config_rows, load_study
from tests import tiny
from tests.scoring import read_as, score_rows

FLOAT32 = 1e-4  # of a sum of some twenty log-probabilities whose batches and padding differ
# Every so manieth row, so that a run takes seconds; of pairs, runs of neighbours.
STUDIES = {
    "coreference_schemas": ("sentences", lambda index: index // 3 % 24 == 0),
    "adjective_coreference": ("odds", lambda index: index // 2 % 48 == 0),
    "social_distance": ("antonyms", lambda index: index % 300 in (0, 67)),
}


@pytest.fixture(scope="module", params=["GPT-2", "BERT"])
def folder(request, tmp_path_factory):
    """A model whose tokenizer adds no marks, as GPT-2's, or one before and one behind each text, as BERT's."""
    from transformers import BertTokenizer

    saved = tiny.save_unmarked(tmp_path_factory.mktemp("causal"), positions=256, eos_token="</s>")
    if request.param == "BERT":
        texts = [
            row["text"] for name, (one, _) in STUDIES.items() for row in _rows(name, one)[::11]
        ]
        words = [word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())]
        pieces = list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))[:900]
        vocabulary = {one: at for at, one in enumerate(pieces)}
        BertTokenizer(vocab=vocabulary, model_max_length=256).save_pretrained(saved)
    return saved


def _rows(study, experiment):
    (one,) = [declared for declared in load_study(study).experiments if declared.name == experiment]
    return [
        {**row, "experiment": experiment}
        for name in one.reads.configs
        for row in config_rows(study, name)
    ]


@pytest.fixture(scope="module")
def harness(folder, tmp_path_factory):
    """Run the harness on each study, by the few prompts left in its files."""
    lm_eval = pytest.importorskip("lm_eval", reason="needs lm_eval, which is in the extra dev")
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from transformers import AutoTokenizer

    first = AutoTokenizer.from_pretrained(folder).cls_token_id
    settings = {"pretrained": str(folder), **({} if first is None else {"prefix_token_id": first})}
    tasks = tmp_path_factory.mktemp("files") / "tasks"
    for study, (experiment, kept) in STUDIES.items():
        export_study(study, tasks / study)
        path = tasks / study / f"swapbias_{study}_{experiment}.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for index, line in enumerate(lines) if kept(index)))
    shutil.move(tasks, tasks.with_name("moved"))  # tasks find their files wherever they lie
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lm_eval.simple_evaluate(
            model=HFLM(**settings, dtype="float32", device="cpu", batch_size=32),
            tasks=[f"swapbias_{study}" for study in STUDIES],
            task_manager=TaskManager(
                include_path=str(tasks.with_name("moved")),
                include_defaults=False,
                metadata=settings,
            ),  # as the command does
            log_samples=True,
            bootstrap_iters=0,
        )


@pytest.fixture(scope="module")
def scorer(folder):
    return load_scorer(str(folder))


@pytest.mark.parametrize("study", STUDIES)
def test_harness_equals_audit(study, harness, scorer):
    """The evaluation harness finds the gaps that an audit finds."""
    experiment, kept = STUDIES[study]
    (declared,) = [one for one in load_study(study).experiments if one.name == experiment]
    rows = [row for index, row in enumerate(_rows(study, experiment)) if kept(index)]
    scored = score_rows(rows, read_as(scorer, declared.reads.reading))
    task = f"swapbias_{study}_{experiment}"
    samples = sorted(harness["samples"][task], key=lambda one: one["doc_id"])
    name = {"": "log_probability", "answers": "log_odds", "antonyms": "log_odds"}[
        declared.reads.reading
    ]
    mine = [row["log_odds" if declared.reads.reading == "answers" else "score"] for row in scored]
    assert [one[name] for one in samples] == pytest.approx(mine, abs=FLOAT32)
    results = harness["results"][task]
    found = disaggregate(pd.DataFrame(scored), study, robustness=False)
    plain = (declared.compares.measure, "all", "", "")
    gaps = [one for one in found if (one.measure, one.slice_by, one.subset, one.view) == plain]
    assert gaps
    for one in gaps:
        quantity = (
            one.score if one.score != "score" or declared.reads.reading == "answers" else name
        )
        key = f"{quantity}_{one.contrast.replace(' - ', '_minus_')},none"
        assert results[key] == pytest.approx(one.estimate.value, abs=FLOAT32)
        assert results[key.replace(",", "_stderr,")] == "N/A"  # prompts are not independent
    assert results[f"{name},none"] == pytest.approx(mean(one[name] for one in samples))


def test_log_odds_of_options():
    """Log-odds of options are those of their probabilities; one that counts nothing is left out."""
    doc = {"gaps": [], "sides": [], "values": [1.0, 0.0, None], "choices": [" ab", " abcd", " x"]}
    results = [(math.log(0.2), False), (math.log(0.4), False), (math.log(0.4), False)]
    read = of_option_odds(doc, results)
    assert read["score"] == pytest.approx(math.log(0.2 / 0.4))
    assert read["per_character"] == pytest.approx(math.log(0.2) / 2 - math.log(0.4) / 4)
    assert of_options(doc, results)["score"] == pytest.approx(0.2 / 0.6)
    impossible = [(-math.inf, False), *results[1:]]
    assert math.isnan(of_option_odds(doc, impossible)["score"])


def test_questions_with_options_are_exported(tmp_path):
    """Closed questions have their options as choices with what each counts, and gaps where groups are compared."""
    written = export_study("bbq", tmp_path / "bbq")
    docs = {
        path.stem: path.read_text().splitlines()[0] for path in written if path.suffix == ".jsonl"
    }
    assert {*docs} == {
        f"swapbias_bbq_{name}_odds" for name in ("ambiguous", "disambiguated", "answers")
    }
    doc = json.loads(docs["swapbias_bbq_ambiguous_odds"])
    assert len(doc["choices"]) == len(doc["values"]) == 3
    assert doc["gaps"] == ["stereotyped_minus_counter"]
    assert json.loads(docs["swapbias_bbq_answers_odds"])["gaps"] == []


def test_exported_files(tmp_path):
    """Exported files are plain, the same every time, and name their licences."""
    written = export_study("coreference_schemas", tmp_path / "out")
    assert [path.name for path in written] == [
        "LICENSES.md",
        "swapbias_coreference_schemas.yaml",
        "swapbias_coreference_schemas_sentences.jsonl",
        "swapbias_coreference_schemas_sentences.yaml",
        "swapbias_tasks.py",
    ]
    task = yaml.safe_load(written[3].read_text().replace("!function ", ""))
    assert {task["custom_dataset"], task["process_results"]} == {
        "swapbias_tasks.read",
        "swapbias_tasks.of_text",
    }
    assert task["metadata"]["url"] == "https://arxiv.org/abs/1804.09301"
    assert "mit" in task["metadata"]["licence"]
    assert "Copyright (c) 2018 Rachel Rudinger" in written[0].read_text()
    docs = [json.loads(line) for line in written[2].read_text().splitlines()]
    assert len(docs) == 720
    assert (
        docs[1]["context"] + docs[1]["choices"][0]
        == config_rows("coreference_schemas", "sentences")[1]["text"]
    )
    again = export_study("coreference_schemas", tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_gaps_of_pairs_and_units():
    """Gaps are means over whole pairs and over nested units."""
    pairs = [(1, "a", [], 3.0), (-1, "a", [], 1.0), (1, "b", [], 9.0), (-1, "c", [], 5.0)]
    assert gap_of_pairs(pairs) == 2.0  # b and c lack a side
    assert math.isnan(gap_of_pairs(pairs[2:]))
    groups = [
        (1, "", ["x", "x1"], 1.0), (1, "", ["x", "x1"], 3.0), (1, "", ["x", "x2"], 4.0), (1, "", ["y", "y1"], 7.0),
        (-1, "", ["z", "z1"], 1.0),
    ]  # fmt: skip
    assert gap_of_groups(groups) == 4.0  # x: mean of 2 and 4; with y's 7: 5; minus 1
    assert math.isnan(gap_of_groups(groups[:4]))


def test_export_of_a_config(tmp_path):
    """A config can be exported by name, and other studies are refused without a file."""
    written = export_study("adjective_coreference:wino_style-position", tmp_path / "out")
    (docs,) = [path for path in written if path.suffix == ".jsonl"]
    assert len(docs.read_text().splitlines()) == len(
        config_rows("adjective_coreference", "wino_style-position")
    )
    with pytest.raises(
        UsageError, match="Unknown config of causal experiments of social_distance 'agreement'"
    ):
        export_study("social_distance:agreement", tmp_path / "no")
    with pytest.raises(UsageError, match="stigma_vignettes has no experiment for causal models"):
        export_study("stigma_vignettes", tmp_path / "no")
    with pytest.raises(UsageError, match="is not empty"):
        export_study("coreference_schemas", tmp_path / "out")
    assert not (tmp_path / "no").exists()


def test_export_command(tmp_path):
    """The export command writes a study and refuses unknown studies and forms."""

    def said(*arguments):
        done = CliRunner().invoke(app, ["export", *arguments, "--out", str(tmp_path / "out")])
        return str(done.exception or "") or " ".join(done.output.split())

    assert "Unknown study 'coreference'" in said("lm-eval", "coreference")
    assert "Unknown form 'csv', expected lm-eval" in said("csv", "coreference_schemas")
    assert not (tmp_path / "out").exists()
    assert "Exported: 5 files in" in said("lm-eval", "coreference_schemas")
