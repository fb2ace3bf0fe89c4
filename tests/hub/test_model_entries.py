"""The metadata of a model card: what of an audit is listed, as what, and what is not."""

import math
from dataclasses import replace

from swapbias.hub.model_card import audited, part
from swapbias.hub.model_entries import entries
from tests.hub.card_findings import FOUND, MANIFEST, URL, finding


def test_entries_are_what_the_hub_reads_as_results():
    from huggingface_hub import ModelCardData
    from huggingface_hub.repocard_data import model_index_to_eval_results

    made = entries(
        [*FOUND, finding(math.nan, subset="x")], MANIFEST, model_name="o/m", results_url=URL, dataset_namespace="ns",
        revisions={"gendered_stigma": "v1.0.0"},
    )  # fmt: skip
    name, results = model_index_to_eval_results([{"name": "m", "results": made}])
    assert name == "m"
    assert [(one.metric_type, one.metric_value) for one in results] == [("paired_gap", 0.25), ("paired_gap", -0.5)]
    first = results[0]
    assert (first.task_type, first.dataset_type, first.dataset_config) == ("fill-mask", "ns/gendered_stigma", "rq1")
    assert (first.dataset_revision, first.dataset_split, first.source_url) == ("v1.0.0", "test", URL)
    arguments = first.metric_args
    assert (arguments["ci_low"], arguments["ci_high"], arguments["p_adjusted"], arguments["n"]) == (
        0.2,
        0.3,
        0.02,
        187,
    )
    assert (arguments["robust"], arguments["robust_ci_low"]) == ("clustered by template", 0.1)
    assert "robust" not in results[1].metric_args
    card = ModelCardData(model_name="m", eval_results=results)
    assert model_index_to_eval_results(card.to_dict()["model-index"]) == (name, results)


def entries_of(found, manifest=MANIFEST):
    revisions = {"gendered_stigma": "c" * 40, "clinical_notes": "d" * 40}
    return entries(found, manifest, model_name="m", results_url=URL, dataset_namespace="ns", revisions=revisions)


def of_notes(data=None, **more):
    """A finding about notes, and the manifest of its run."""
    found = [replace(finding(subset=""), study="phenotype_fairness", experiment="phenotyping")]
    notes = {"classifier": "svm", "data": data, **more}
    corpora = [{"corpus": "clinical_notes", "config": "pairs", "rows": 8}]
    return found, MANIFEST | {"settings": {"limit": None, "notes": notes}, "corpora": corpora}


def test_notes_of_ones_own_are_no_public_data_set():
    assert entries_of(*of_notes(data="own notes")) == []
    found, manifest = of_notes(data="own notes")
    (about,) = audited(found, manifest, model_name="o/m")
    text = part(about)
    assert "Read: the user's own notes (8 prompts)." in text
    assert "swapbias audit" not in text
    assert "the card's model-index does not list the numbers" in text


def test_a_classifier_of_notes_is_listed_as_one():
    (made,) = entries_of(*of_notes())
    assert made["task"]["type"] == "text-classification"
    assert (made["dataset"]["type"], made["dataset"]["revision"]) == ("ns/clinical_notes", "d" * 40)
    (made,) = entries_of(*of_notes(plausible=True))
    assert "revision" not in made["dataset"]
    assert made["metrics"][0]["args"]["plausible"] is True


def test_other_configs_than_the_usual_are_named_in_entries_and_command():
    other = MANIFEST | {"corpora": [{"corpus": "gendered_stigma", "config": "rq1_original", "rows": 10}]}
    (made,) = entries_of([finding()], other)
    assert made["dataset"]["config"] == "rq1_original"
    (about,) = audited([finding()], other, model_name="owner/model")
    assert "swapbias audit owner/model --study gendered_stigma:rq1_original\n" in part(about)


def test_what_is_not_finite_is_left_out_of_entries():
    (made,) = entries(
        [finding(ci=(math.nan, math.inf))],
        MANIFEST,
        model_name="m",
        results_url=URL,
        dataset_namespace="ns",
        revisions={},
    )
    assert not {"ci_low", "ci_high"} & set(made["metrics"][0]["args"])
    assert "revision" not in made["dataset"]
    assert entries_of([finding(math.nan)]) == []
