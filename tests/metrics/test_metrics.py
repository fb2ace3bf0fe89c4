"""The evaluate modules: loaded by path, the same numbers as the library, native floats."""

import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import swapbias
from swapbias.measures import CLASSES
from swapbias.studies import catalogue as studies

evaluate = pytest.importorskip("evaluate")

NAN = math.nan
ROWS = {
    "predictions": [0.75, 0.25, 1.0, 0.25, 0.5, 0.25],
    "groups": ["female", "male"] * 3,
    "pair_ids": ["a", "a", "b", "b", "c", "c"],
}
KEYS = ["value", "ci_low", "ci_high", "effect_size", "effect_size_z", "p_value", "n", "n_unscored"]


@pytest.mark.parametrize(
    ("name", "without", "n"), [("paired_gap", "", 3), ("group_gap", "effect_size_z", 6)]
)
def test_keys_of_a_gap(name, without, n):
    """A gap gives its keys as native floats."""
    rows = {
        column: values
        for column, values in ROWS.items()
        if column != "pair_ids" or name == "paired_gap"
    }
    found = evaluate.load(studies.metric_path(name)).compute(**rows, reference_group="male")
    assert list(found) == [key for key in KEYS if key != without]
    assert {type(value) for value in found.values()} == {float}
    # By hand: differences .5, .75, .25 have the mean .5 and the SD .25, so d_z is 2.
    assert (found["value"], found["n"]) == (pytest.approx(0.5), n)
    assert found.get("effect_size_z", 2) == pytest.approx(2)


def test_two_groups():
    """A module compares two groups with a reference."""
    module = evaluate.load(studies.metric_path("group_gap"))
    with pytest.raises(ValueError, match=r"groups \['a', 'b', 'c'\], expected exactly two"):
        module.compute(predictions=[1.0, 2.0, 3.0], groups=["a", "b", "c"])


IDS = {"groups": [1, 0] * 4, "pair_ids": [7, 7, 8, 8, 9, 9, 10, 10]}
PLAIN = {"paired_gap", "group_gap", "flip_rate", "rate_ratio"}


@pytest.mark.parametrize("name", sorted(PLAIN))
@pytest.mark.parametrize("kind", [list, np.array], ids=["list", "array"])
def test_numbers_as_ids(name, kind):
    """Numbers can be ids, and arrays can be columns."""
    rows = {"predictions": [1, 0, 1, 1, 0, 0, 1, 0], "references": [1, 1, 1, 1, 0, 0, 0, 0], **IDS}
    module = evaluate.load(studies.metric_path(name))
    taken = {
        column: kind(values) for column, values in rows.items() if column in module._feature_names()
    }
    texts = {
        column: list(map(str, values)) if column in IDS else list(values)
        for column, values in taken.items()
    }
    found = module.compute(**taken, reference_group=0, cluster_ids=kind([1, 1, 2, 2, 3, 3, 4, 4]))
    clusters = {"subject": list("aabbccdd")}
    np.testing.assert_equal(
        found, module.compute(**texts, reference_group="0", cluster_ids=clusters)
    )


@pytest.mark.parametrize(
    ("lexicon", "shares", "sentence"),
    [
        ({"she": "n", "he": "male"}, [0.5, 0.25], r"labels \['n'\], which are keys of the result"),
        (
            {"she": "n_unscored"},
            [0.5, 0.25],
            r"labels \['n_unscored'\], which are keys of the result",
        ),
        (
            {"ci_low_x": "ci_low_x"},
            [0.5, 0.25],
            r"labels \['ci_low_x'\], which are keys of the result",
        ),
        (
            {"She": "female", "she": "male"},
            [0.5, 0.25],
            r"has 'she' as 'male' and, in other letters, as 'female', expected one",
        ),
        ({"she": "female"}, [0.9, 0.9], "at most 1"),
        ({"she": "female"}, [0.5], "expected one for each"),
    ],
    ids=["key n", "key n_unscored", "key ci_low", "two cases", "above 1", "lengths"],
)
def test_wrong_lexicon(lexicon, shares, sentence):
    """A lexicon that would count nothing or hide a label, and wrong shares, are refused."""
    mass = evaluate.load(studies.metric_path("lexicon_mass"))
    with pytest.raises(ValueError, match=sentence):
        mass.compute(predictions=[["she", "he"]], probabilities=[shares], lexicon=lexicon)


def test_masses_by_hand():
    """Masses have the values worked out by hand."""
    # she .5 and mother .1 are female, he .2 male, it .05 neither; with threshold .1 "it" falls out.
    mass = evaluate.load(studies.metric_path("lexicon_mass"))
    rows = {
        "predictions": [[" She", "he", "mother", "it"]],
        "probabilities": [[0.5, 0.2, 0.1, 0.05]],
        "lexicon": {"she": "female", "mother": "female", "he": "male"},
    }
    found = mass.compute(**rows)
    assert [found[label] for label in ("female", "male", "unspecified")] == pytest.approx(
        [0.6, 0.2, 0.05]
    )
    assert mass.compute(**rows, threshold=0.1)["unspecified"] == 0


def test_marks_of_tokenizers():
    """Capitals and marks of tokenizers change no mass."""
    mass = evaluate.load(studies.metric_path("lexicon_mass"))
    tokens = ["ĠShe", "▁he", "##he", " she", "He</w>"]
    shares = [0.25, 0.125, 0.25, 0.125, 0.0625]
    masses = {"predictions": [tokens, ["she", "", "", "", ""]], "probabilities": [shares] * 2}
    for lexicon in ({"she": "female", "he": "male"}, {" She": "female", "ĠHE": "male"}):
        found = mass.compute(**masses, lexicon=lexicon)
        # By hand: female .25 + .125 and .25, mean .3125; male .125 + .0625 and 0; "##he" is a piece of a longer word.
        assert (found["female"], found["male"], found["n"]) == (0.3125, 0.09375, 2)
        # Their difference is .125, so the error is .0625, and t(1) is 12.7062.
        assert found["ci_high_female"] - found["female"] == pytest.approx(
            0.0625 * 12.7062, abs=1e-4
        )
    clustered = mass.compute(**masses, lexicon=lexicon, cluster_ids=["a", "a"])
    assert math.isnan(clustered["ci_low_female"])


@pytest.mark.parametrize(
    ("names", "given", "sentence"),
    [
        (
            "leakage_uar paired_gap",
            ROWS,
            "takes no groups, pair_ids, expected predictions, references",
        ),
        (
            "group_gap paired_gap",
            ROWS,
            "takes no pair_ids, expected predictions, groups, reference_group",
        ),
        (
            "bias_correlation",
            {"predictions": [1.0]},
            "is given no references, expected predictions,",
        ),
        (
            "paired_gap",
            {**ROWS, "refernce_group": "m"},
            "takes no refernce_group, expected predictions",
        ),
    ],
    ids=["columns", "combined columns", "missing column", "option"],
)
def test_unknown_columns_and_options(names, given, sentence):
    """Columns or options that a module does not take are one sentence."""
    first, *others = names.split()
    modules = evaluate.combine([studies.metric_path(name) for name in (first, *others)])
    with pytest.raises(ValueError, match=f"{first} {sentence}") as raised:
        modules.compute(**given)
    assert "\n" not in str(raised.value)


def test_combined_modules():
    """Modules with the same columns can be combined."""
    pair = [evaluate.load(studies.metric_path(name)) for name in ("paired_gap", "flip_rate")]
    found = evaluate.combine(pair).compute(
        **{**ROWS, "predictions": [1, 0, 1, 0, 1, 1]}, reference_group="male"
    )
    assert (found["paired_gap_value"], found["flip_rate_value"], found["more"]) == (
        pytest.approx(2 / 3),
        2 / 3,
        2,
    )


@pytest.mark.parametrize("name", studies.metrics())
def test_sources_and_types(name):
    """A module names its sources and the types that it takes."""
    module = evaluate.load(studies.metric_path(name))
    assert module.codebase_urls == ["https://github.com/swapbias/swapbias"]
    assert module.reference_urls
    assert all(url.startswith("https://") for url in module.reference_urls)
    inputs = module.inputs_description.partition("Returns:")[0]
    named = ", ".join(re.findall(r"^    ([\w, ]+) \([^)]+\): ", inputs, re.MULTILINE)).split(", ")
    assert set(named) == set(inspect.signature(module._compute).parameters)


@pytest.mark.parametrize("name", studies.metrics())
def test_card_code_runs(name, monkeypatch, capsys):
    """The code at the end of a card leads from rows to a finding and runs."""
    card = (Path(studies.metric_path(name)) / "README.md").read_text()
    code = re.fullmatch(r"(?s).*\n## From rows to a finding\n\n```python\n(.+)```\n", card)[1]
    assert len(code.splitlines()) <= 20
    load = evaluate.load
    calls = []

    def rows(place, config, *, split, revision):
        corpus = place.removeprefix("NS/")
        assert revision == "VERSION"
        assert split == studies.load_corpus(corpus).config(config).split
        return swapbias.load_prompts(corpus, config)

    def metric(place, *, revision):
        calls.append((place, revision))
        return load(studies.metric_path(name))

    monkeypatch.setattr("datasets.load_dataset", rows)
    monkeypatch.setattr(evaluate, "load", metric)
    exec(compile(code, name, "exec"), {})
    assert calls == [(f"NS/{name}", "VERSION")]
    assert re.fullmatch(r"(?s)(?!.*nan).*\d.*", capsys.readouterr().out)


NOTES = {"groups": ["female", "male"] * 4, "pair_ids": list("aabbccdd"), "reference_group": "male"}
LABELLED = {**NOTES, "references": [1] * 4 + [0] * 4}
PAIRS = {"female": [[1.0, 0.0], [3.0, 4.0]], "male": [[-1.0, 0.0], [-3.0, 4.0]]}
KEYED = {
    "references": ["the mechanic"] * 4 + ["the clerk"] * 4,
    "incorrect": ["the clerk"] * 4 + ["the mechanic"] * 4,
    "sides": ["pro", "anti"] * 4,
    "pair_ids": list("aabbccdd"),
}
ANSWERS = ["mechanic", "Clerk", "mechanic", "unsure", "clerk", "clerk", "the clerk", "him"]
BY_HAND = [  # what a module adds to its measure: directions, thresholds, counts, names
    (
        "flip_rate",
        {**NOTES, "predictions": [1, 0, 1, 1, 0, 0, 1, 0]},  # a and d flip towards female
        {"value": 0.5, "more": 2, "fewer": 0, "direction": 1, "n": 4, "n_unscored": 0},
    ),
    # Above .5: 1 0 | 0 0 (.5 is not above) | NaN | 0 1: one flip each way.
    (
        "flip_rate",
        {**NOTES, "predictions": [0.9, 0.4, 0.5, 0.4, NAN, 0.9, 0.1, 0.8], "threshold": 0.5},
        {"value": 2 / 3, "more": 1, "fewer": 1, "direction": 0, "n_unscored": 1},
    ),
    (
        "flip_rate",
        {**NOTES, "predictions": [NAN, 1] * 4},
        {"value": NAN, "direction": NAN, "n": 0, "n_unscored": 4},
    ),
    # Label 1: female 1, 1; male 1, 0: .5 / 1, female higher. Label 0: female 0, 0; male 0, 1: 0 / .5, male higher.
    (
        "rate_ratio",
        {**LABELLED, "predictions": [1, 1, 1, 0, 0, 0, 0, 1]},
        {
            "tprr": 0.5,
            "tpr_female": 1,
            "tpr_male": 0.5,
            "tprr_direction": 1,
            "tprr_n": 4,
            "tpr_difference": 0.5,
            "fprr": 0,
            "fpr_female": 0,
            "fpr_male": 0.5,
            "fprr_direction": -1,
            "fprr_n": 4,
            "fpr_difference": -0.5,
            "log_tprr": math.log(2),
            "log_fprr": NAN,
            "n_undefined": 0,
        },
    ),
    # No text of label 0; of label 1 only one is read, of a female patient: the male rate is 0/0.
    (
        "rate_ratio",
        {**NOTES, "predictions": [1, NAN, NAN, NAN] * 2, "references": [1] * 8},
        {
            **dict.fromkeys(
                ("tprr", "tprr_direction", "tpr_male", "fprr", "fpr_female", "fprr_direction"), NAN
            ),
            "tpr_female": 1,
            "tprr_n": 2,
            "tprr_n_unscored": 6,
            "fprr_n": 0,
            "n_undefined": 2,
        },
    ),
    # The direction is the first axis: cosines 1, 0 and -.6; the zero vector has none.
    (
        "direct_bias",
        {**PAIRS, "predictions": [[1.0, 0.0], [0.0, 2.0], [-3.0, 4.0], [0.0, 0.0]]},
        {
            "direct_bias": 1.6 / 3,
            "signed_mean": 0.4 / 3,
            "explained_variance": 1,
            "n": 3,
            "n_unscored": 1,
        },
    ),
    # Recall of f 2/3 and of m 1/1; the blank guess does not count.
    (
        "leakage_uar",
        {"predictions": ["f", "f", "m", "m", ""], "references": ["f", "f", "f", "m", "m"]},
        {"uar": 5 / 6, "chance": 0.5, "n": 4, "n_unscored": 1},
    ),
    (
        "leakage_uar",
        {"predictions": [1, 1, 0, 0, NAN], "references": [1, 1, 1, 0, 0]},
        {"uar": 5 / 6, "n": 4},
    ),
    ("leakage_uar", {"predictions": ["f"], "references": ["f"]}, {"uar": NAN, "chance": NAN}),
    # Pro: all 4 right; anti: wrong, unsure, right, unreadable: 100 - 25. Right on one side alone: a, b, d, all pro:
    # differences 100, 100, 0, 100: t = 75 / 25 = 3 on 3 degrees of freedom.
    (
        "answer_bias",
        {**KEYED, "predictions": ANSWERS},
        {
            "accuracy_pro": 100,
            "accuracy_anti": 25,
            "bias": 75,
            "n": 4,
            "p_value": 2 * stats.t.sf(3, 3),
            **dict.fromkeys((f"share_{name}_anti" for name in CLASSES), 0.25),
        },
    ),
    # "Clerk" is read in lower case, "the clerk" is the exception for two words: nothing changes but sentences.
    ("answer_bias", {**KEYED, "predictions": ANSWERS, "parser": "strict"}, {"bias": 75}),
    (
        "answer_bias",
        {**KEYED, "predictions": ["It is the mechanic.", *["clerk"] * 7]},
        {"accuracy_pro": 75},
    ),
    (
        "answer_bias",
        {**KEYED, "predictions": ["It is the mechanic.", *["clerk"] * 7], "parser": "strict"},
        {"accuracy_pro": 50},
    ),
]


@pytest.mark.parametrize(("name", "given", "expected"), BY_HAND)
def test_module_by_hand(name, given, expected):
    """A module has the values worked out by hand."""
    found = evaluate.load(studies.metric_path(name)).compute(**given)
    assert {type(value) for value in found.values()} == {float}
    assert {key: found[key] for key in expected} == pytest.approx(expected, nan_ok=True)


def test_refused_inputs():
    """Probabilities without a threshold and crossed factors of rates are refused."""
    rates = {**LABELLED, "predictions": [1, 0] * 4}
    both = {"a": list("aabbaabb"), "b": list("aaaabbbb")}
    guesses = {"predictions": list("aabb") * 2, "references": list("abab") * 2}
    flips = {name: rates[name] for name in ("predictions", *NOTES)}
    for name, given in (("flip_rate", flips), ("rate_ratio", rates), ("leakage_uar", guesses)):
        with pytest.raises(ValueError, match="cluster_ids with the factors a, b, expected one"):
            evaluate.load(studies.metric_path(name)).compute(**given, cluster_ids=both)
    with pytest.raises(ValueError, match="expected 1, 0 or NaN"):
        evaluate.load(studies.metric_path("flip_rate")).compute(
            **{**flips, "predictions": [0.9, 0.1] * 4}
        )


PAIRED = {**ROWS, "reference_group": "male"}
SHARES = {"predictions": [["she"]], "probabilities": [[0.5]], "lexicon": {"she": "female"}}
VECTORS = {
    "predictions": [[1.0, 0.0]],
    "female": [[1.0, 0.0], [0.9, 0.1]],
    "male": [[0.0, 1.0], [0.1, 0.9]],
}


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("paired_gap", {**PAIRED, "predictions": ["a note"] * 6}, "predictions: row 1 .* type str"),
        ("paired_gap", {**PAIRED, "predictions": [0.1, [0.2]] * 3}, "predictions: row 2 .* type list"),
        ("paired_gap", {**PAIRED, "predictions": 0.5}, "predictions is of type float"),
        ("paired_gap", {**PAIRED, "groups": "fmfmfm"}, "groups is of type str"),
        ("paired_gap", {**PAIRED, "cluster_ids": 5}, "cluster_ids is of type int"),
        ("paired_gap", {**PAIRED, "cluster_ids": {"a": "abcabc"}}, "cluster_ids is of type str"),
        ("paired_gap", {**PAIRED, "cluster_ids": {}}, "cluster_ids names no factor"),
        ("flip_rate", {**PAIRED, "threshold": "0.5"}, "threshold is '0.5', expected a number"),
        ("flip_rate", {**PAIRED, "threshold": math.inf}, "threshold is inf, expected a number"),
        ("flip_rate", {**PAIRED, "threshold": NAN}, "threshold is nan, expected a number"),
        ("bias_correlation", {"predictions": [1, 2, math.inf], "references": [1, 2, 3]}, "infinite"),
        ("leakage_uar", {"predictions": [], "references": []}, "is given no rows"),
        ("leakage_uar", {"predictions": [["a note"]], "references": ["f"]}, "row 1 .* type list"),
        ("share_above", {"predictions": [], "groups": []}, "is given no rows"),
        ("share_above", {"predictions": [1.0], "groups": ["f"], "threshold": None}, "threshold is None"),
        ("lexicon_mass", {**SHARES, "predictions": ["a note"]}, "row 1 .* a list of texts"),
        ("lexicon_mass", {**SHARES, "predictions": [[None]]}, "row 1 .* a list of texts"),
        ("lexicon_mass", {**SHARES, "probabilities": [["a note"]]}, "row 1 .* a list of numbers"),
        ("lexicon_mass", {**SHARES, "lexicon": None}, "is given no lexicon"),
        ("lexicon_mass", {**SHARES, "lexicon": ["she"]}, "lexicon is no mapping"),
        ("lexicon_mass", {**SHARES, "lexicon": {}}, "lexicon is no mapping"),
        ("lexicon_mass", {**SHARES, "threshold": 2}, "threshold is 2, expected a probability"),
        ("direct_bias", {"predictions": [[1.0]]}, "is given no female, male"),
        ("direct_bias", {**VECTORS, "predictions": [[1.0], [1.0, 2.0]]}, "vectors of 1 and 2 numbers"),
        ("direct_bias", {**VECTORS, "male": ["a note", "b"]}, "male: row 1 .* a list of numbers"),
        ("answer_bias", {**KEYED, "predictions": ANSWERS, "references": [None] * 8}, "references: row 1"),
    ],
)  # fmt: skip
def test_input_of_another_kind(name, given, sentence):
    """Input of another kind than a module takes is one sentence without what is in it."""
    with pytest.raises(ValueError, match=sentence) as raised:
        evaluate.load(studies.metric_path(name)).compute(**given)
    assert "\n" not in str(raised.value)
    assert "a note" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("selection_rate", ["f", "low_f"]),
        ("selection_rate", ["f", "unscored_f"]),
        ("share_above", ["f", "unscored_f"]),
        ("rate_ratio", ["m", "difference"]),
    ],
)
def test_groups_of_one_key(name, groups):
    """Names of groups that make one key of two numbers are refused."""
    rows = {"predictions": [1, 0, 1, 0], "references": [1, 1, 0, 0], "pair_ids": list("aabb")}
    module = evaluate.load(studies.metric_path(name))
    columns = {column: rows[column] for column in module._feature_names() if column != "groups"}
    reference = {"reference_group": groups[0]} if name == "rate_ratio" else {}
    with pytest.raises(ValueError, match=f"{name} would give two numbers as"):
        module.compute(**columns, groups=groups * 2, **reference)


@pytest.mark.parametrize("guesses", [[None, "f", "m"], [NAN, 1, 0], [None] * 3])
def test_guess_missing_in_the_first_row(guesses):
    """A guess may be missing in any row: it is counted, not taken for a class."""
    module = evaluate.load(studies.metric_path("leakage_uar"))
    truth = [0, 1, 0] if NAN in guesses else ["m", "f", "m"]
    found = module.compute(predictions=guesses, references=truth)
    unscored = guesses.count(None) or 1
    assert (found["n"], found["n_unscored"]) == (3 - unscored, unscored)
    # By hand: of the two others both are right; without any there is no recall.
    assert found["uar"] == pytest.approx(1.0 if unscored == 1 else NAN, nan_ok=True)
