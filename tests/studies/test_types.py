"""Columns of corpora have types: every value of every config is of the one that its config declares."""

import pytest
from datasets import ClassLabel, Value

from swapbias.errors import UpstreamMissingError
from swapbias.studies.catalogue import checked_rows, config_features, corpora, load_corpus, load_prompts
from swapbias.studies.study import Config

# What is no text, by corpus and column. Whatever else holds numbers or truth values alone is a mistake.
TYPED = {
    ("clinical_notes", "credentialed"): "bool",
    ("clinical_notes", "label"): ("negative", "positive"),
    ("clinical_notes", "specific"): "int64",
    ("clinical_swaps", "author"): "int64",
    ("coreference_schemas", "bergsma_percent_women"): "float64",
    ("coreference_schemas", "bls_percent_women"): "float64",
    ("coreference_schemas", "bls_year"): "int64",
    ("gest", "about"): ("women", "men"),
    ("gest", "number"): "int64",
    ("gest", "sentences"): "int64",
    ("resume_ranking", "position"): "int64",
    ("resume_ranking", "resume"): "int64",
    ("stigma_vignettes", "percent"): "int64",
    ("gender_lexicon", "weight"): "float64",
    ("social_distance", "label"): ("negative", "neutral", "positive", "irrelevant"),
    **{
        (name, "wording"): "int64"
        for name in corpora()
        if any("_wordings" in c.name for c in load_corpus(name).configs)
    },
}
READ = {"string": str, "int64": int, "float64": float, "bool": bool}


@pytest.mark.parametrize("corpus", corpora())
def test_every_value_is_of_the_type_that_its_config_declares_and_no_number_is_a_text(corpus):
    found = {}
    for config in load_corpus(corpus).configs:
        try:
            rows = checked_rows(load_corpus(corpus), config.name, download=False)
        except UpstreamMissingError:
            continue
        for column in config.columns:
            values, kind = {row[column] for row in rows}, config.type_of(column)
            if kind == "string":
                assert not values <= {"True", "False"}, (config.name, column)
                assert not all(one.lstrip("-").replace(".", "", 1).isdigit() for one in values), (config.name, column)
            else:
                found[corpus, column] = kind
                typed = [config.typed({**rows[0], column: one})[column] for one in values]
                assert {type(one) for one in typed} == {READ.get(kind, int) if isinstance(kind, str) else int}
                if not isinstance(kind, str):
                    assert {kind[number] for number in typed} == values  # no class without rows
    assert found == {key: kind for key, kind in TYPED.items() if key[0] == corpus}


def test_a_column_can_be_used_as_what_it_is():
    notes = load_prompts("clinical_notes", "alcohol_abuse-original")
    assert notes.features["label"] == ClassLabel(names=["negative", "positive"])
    assert notes.features["credentialed"] == Value("bool")
    assert not any(notes["credentialed"])
    first = checked_rows(load_corpus("clinical_notes"), "alcohol_abuse-original")[0]
    assert notes.features["label"].int2str(notes[0]["label"]) == first["label"]
    weights = load_prompts("gender_lexicon", "his_him_weights")
    assert (
        weights.filter(lambda row: row["weight"] > 0).num_rows
        + weights.filter(lambda row: row["weight"] < 0).num_rows
        == weights.num_rows
    )
    assert set(load_prompts("occupation_sentiment", "sentences_wordings")["wording"]) == {1, 2, 3, 4, 5}


def test_a_value_of_another_type_is_told_by_config_column_and_value():
    config = Config(
        name="odd", description="", rows=tuple, columns=("a", "b"), types={"a": "int64", "b": ("no", "yes")}
    )
    assert config.typed({"a": "-3", "b": "yes"}) == {"a": -3, "b": 1}
    for row, words in (
        ({"a": "3.5", "b": "no"}, "odd: a is '3.5', expected int64"),
        ({"a": "3", "b": ""}, "one of no, yes"),
    ):
        with pytest.raises(ValueError, match=words):
            config.typed(row)
    truth = Config(name="odd", description="", rows=tuple, columns=("a",), types={"a": "bool"})
    with pytest.raises(ValueError, match="a is 'maybe', expected bool"):
        truth.typed({"a": "maybe"})


def test_a_users_own_column_of_that_name_stays_text():
    assert Config(name="own", description="", rows=tuple, columns=("wording", "text")).type_of("wording") == "string"
    assert config_features(load_corpus("phenotype_fairness").configs[0])["label"] == Value("string")
