"""What differs between a run and the paper is computed of the run's manifest."""

import pytest

from swapbias.report.paper_differences import find_differences, state_differences
from swapbias.studies import corpora, load_corpus, load_study, paper
from swapbias.studies.published_settings import NOT_HERE, published_settings

STUDY = "gendered_stigma"
SAME = "The run read what the paper read: decimals can be compared."


def manifest_of(config, words, *, corpus=STUDY, rows=1122, limit=None):
    """The manifest of a run of one config and one word list."""
    lexicons = {words: "11e07c609760fdd4"} if words else {}
    entry = {"corpus": corpus, "config": config, "rows": rows, "lexicons": lexicons}
    return {"settings": {"limit": limit}, "corpora": [entry]}


def test_nothing_differs_under_exact_wording():
    """Under the paper's own wording and words nothing is said to differ."""
    exact = manifest_of("rq1_original", f"{STUDY}/rq1_original")
    assert find_differences(exact, STUDY, "rq1", ["roberta-large"]).sentence == SAME


def test_every_difference_is_named():
    """Sentences, number of prompts, words and model that differ are named, and nothing else."""
    ours = manifest_of("rq1", f"{STUDY}/rq1", rows=150, limit=150)
    parts = find_differences(ours, STUDY, "rq1", ["mini-mlm"]).parts
    assert parts == (
        "sentences (this run read rq1; the paper's own is rq1_original)",
        "number of prompts (150 of them, for the run has the limit 150)",
        "words (this run counts gendered_stigma/rq1 11e07c60; the paper's is gendered_stigma/rq1_original)",
        "model (mini-mlm is no model of the paper)",
    )


def test_prompts_of_several_models_count_once():
    """Two models that read the same 150 prompts read 150, not 300."""
    ours = manifest_of("rq1_original", f"{STUDY}/rq1_original", rows=150, limit=150)
    ours["corpora"] *= 2
    (part,) = find_differences(ours, STUDY, "rq1").parts
    assert part == "number of prompts (150 of them, for the run has the limit 150)"


@pytest.mark.parametrize(
    ("manifest", "models", "thing"),
    [
        (manifest_of("rq1", f"{STUDY}/rq1_original"), ["roberta-large"], "sentences"),
        (manifest_of("rq1_original", f"{STUDY}/rq1"), ["roberta-large"], "words"),
        (manifest_of("rq1_original", f"{STUDY}/rq1_original"), ["toy"], "model"),
        (
            manifest_of("rq1_original", f"{STUDY}/rq1_original", limit=9),
            ["roberta-large"],
            "number of prompts",
        ),
    ],
    ids=["sentences", "words", "model", "limit"],
)
def test_a_single_difference(manifest, models, thing):
    """Each thing that differs alone is the only one that is named."""
    (part,) = find_differences(manifest, STUDY, "rq1", models).parts
    assert part.startswith(f"{thing} (")


def test_words_that_no_package_has():
    """A word list that this package does not have differs, also under the paper's own wording."""
    manifest = manifest_of("original", "social_distance/attitude", corpus="social_distance")
    (part,) = find_differences(manifest, "social_distance", "attitude").parts
    assert part.endswith("the paper's is not in this package)")
    sentiment = manifest_of("sentiment_original", "", corpus="social_distance")
    assert find_differences(sentiment, "social_distance", "sentiment").sentence == SAME


def test_undeclared_experiments_claim_nothing():
    """Where a study does not declare what its paper read, nothing is said to be the same."""
    found = find_differences({}, "phenotype_fairness", "phenotyping")
    assert (found.declared, "not recorded" in found.sentence) == (False, True)


def test_table_tells_its_own_experiments():
    """A table states what differs in its own experiments, of each run once."""
    table = paper.load_paper(STUDY).tables[0]
    run = paper.PaperRun(
        title="RoBERTa",
        label="this run",
        model_id="roberta-large",
        differs={"rq1": "A.", "rq2": "B."},
    )
    assert state_differences(table, [run, run]) == ("RoBERTa, this run, rq1: A.",)


def test_declared_settings_exist():
    """Declared experiments, configs and word lists are there, and no note of a number is a constant."""
    studies = [name for name in corpora() if published_settings(name)]
    assert {STUDY, "social_distance", "gest", "occupation_sentiment"} <= {*studies}
    for name in studies:
        corpus = load_corpus(name)
        experiments = {experiment.name for experiment in load_study(name).experiments}
        for experiment, settings in published_settings(name).items():
            assert experiment in experiments
            assert all(corpus.config(config) for config in settings.configs)
            for words in {*settings.words} - {NOT_HERE}:
                assert words.partition("/")[2] in load_corpus(words.partition("/")[0]).lexicons
