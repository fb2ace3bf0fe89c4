"""The evaluate modules: loaded by path, the same numbers as the library, native floats."""

import doctest
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from swapbias.measures.gaps import group_gap, paired_gap
from swapbias.studies import catalogue as studies

evaluate = pytest.importorskip("evaluate")

ROWS = {
    "predictions": [0.75, 0.25, 1.0, 0.25, 0.5, 0.25],
    "groups": ["female", "male"] * 3,
    "pair_ids": ["a", "a", "b", "b", "c", "c"],
}
KEYS = ["value", "ci_low", "ci_high", "effect_size", "effect_size_z", "p_value", "n", "n_unscored"]


def test_paired_gap_gives_the_keys_as_native_floats():
    found = evaluate.load(studies.metric_path("paired_gap")).compute(**ROWS, reference_group="male")
    assert list(found) == KEYS
    assert {type(value) for value in found.values()} == {float}
    # By hand: differences .5, .75, .25 have the mean .5 and the SD .25, so d_z is 2.
    assert (found["value"], found["effect_size_z"], found["n"]) == (pytest.approx(0.5), pytest.approx(2), 3)


def test_group_gap_gives_the_keys_as_native_floats():
    rows = {name: column for name, column in ROWS.items() if name != "pair_ids"}
    found = evaluate.load(studies.metric_path("group_gap")).compute(**rows, reference_group="male")
    assert list(found) == [key for key in KEYS if key != "effect_size_z"]
    assert {type(value) for value in found.values()} == {float}
    assert (found["value"], found["n"]) == (pytest.approx(0.5), 6)


def test_the_modules_say_what_the_library_says():
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=80)
    scores[7] = math.nan
    groups, ids = ["m", "f"] * 40, np.repeat(np.arange(40).astype(str), 2).tolist()
    paired = evaluate.load(studies.metric_path("paired_gap"))
    found = paired.compute(predictions=scores, groups=groups, pair_ids=ids, reference_group="f")
    slow = paired_gap(scores, groups, ids, reference_group="f")
    assert all(found[key] == getattr(slow, key) for key in KEYS)
    assert found["n_unscored"] == 1
    group = evaluate.load(studies.metric_path("group_gap"))
    found = group.compute(predictions=scores, groups=groups, reference_group="f")
    assert found["p_value"] == group_gap(scores, groups, reference_group="f").p_value


def test_a_third_group_gives_contrasts_and_an_omnibus_as_native_floats():
    module = evaluate.load(studies.metric_path("group_gap"))
    rows = {"predictions": [1.0, 2.0, 3.0, 5.0, 9.0, 7.0], "groups": ["a", "a", "b", "b", "c", "c"]}
    found = module.compute(**rows, reference_group="a")
    # By hand: means 1.5, 4 and 8.
    told = [(one.pop("group"), one.pop("reference_group"), one["value"]) for one in found["contrasts"]]
    assert told == [("b", "a", 2.5), ("c", "a", 6.5)]
    pairs = [(one["group"], one["reference_group"]) for one in module.compute(**rows)["contrasts"]]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {type(value) for one in (*found["contrasts"], found["omnibus"]) for value in one.values()} == {float}
    with pytest.raises(ValueError, match="'x' as reference_group"):
        module.compute(**rows, reference_group="x")


def test_names_that_hold_what_joins_them_stay_apart():
    """a - b less c, and a less b - c, would be called the same."""
    module = evaluate.load(studies.metric_path("flip_rate"))
    names = ["a", "a - b", "b - c", "c"]
    found = module.compute(
        predictions=[1, 0, 0, 1] * 3, groups=names * 3, pair_ids=np.repeat(list("pqr"), 4).tolist()
    )
    pairs = [(one["group"], one["reference_group"], one["direction"]) for one in found["contrasts"]]
    assert len(set(pairs)) == 6
    assert {("a - b", "c", -1.0), ("a", "b - c", 1.0)} <= set(pairs)


def test_shares_of_several_groups_are_compared_too():
    module = evaluate.load(studies.metric_path("share_above"))
    rows = {
        "predictions": [0.9, 0.8, 0.9, 0.1] + [0.9, 0.2, 0.3, 0.4] + [0.1] * 3 + [math.nan],
        "groups": [*"aaaabbbbcccc"],
    }
    plain, found = module.compute(**rows), module.compute(**rows, reference_group="c")
    assert {name: value for name, value in found.items() if name in plain} == plain
    # By hand: 3 of 4, 1 of 4 and 0 of 3.
    told = {(one["group"], one["reference_group"]): one for one in found["contrasts"]}
    assert {pair: one["value"] for pair, one in told.items()} == {("a", "c"): 0.75, ("b", "c"): 0.25}
    assert told["a", "c"]["n_unscored"] == 1
    # Newcombe's interval by hand: Wilson .3006 to .9544 of 3/4 and 0 to .5615 of 0/3;
    # .75 - sqrt(.4494^2 + .5615^2) = .0308 and .75 + sqrt(.2044^2 + 0) = .9544.
    assert [told["a", "c"][end] for end in ("ci_low", "ci_high")] == pytest.approx([0.0308, 0.9544], abs=1e-4)
    pairs = [(one["group"], one["reference_group"]) for one in module.compute(**rows, every_pair=True)["contrasts"]]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]


def test_shares_that_are_alike_are_seldom_told_apart():
    module, wrong = evaluate.load(studies.metric_path("share_above")), 0
    groups = np.repeat(list("abcd"), [12, 12, 20, 40]).tolist()
    for seed in range(RUNS):
        scores = np.random.default_rng(seed).uniform(size=len(groups)) < 0.3
        found = module.compute(predictions=scores.astype(float), groups=groups, every_pair=True)
        wrong += any(one["p_adjusted"] < 0.05 for one in found["contrasts"])
    assert wrong <= stats.binom.isf(0.001, RUNS, 0.05)


RUNS = 60


def test_two_groups_with_a_reference_give_the_keys_of_two_groups():
    """Also where other groups' names are known: what two groups returned, they return."""
    module = evaluate.load(studies.metric_path("paired_gap"))
    assert list(module.compute(**ROWS, reference_group="male")) == KEYS
    assert list(module.compute(**ROWS)) == ["contrasts", "omnibus"]


@pytest.mark.parametrize("name", studies.metrics())
def test_the_doctest_of_a_metric_holds(name):
    module = evaluate.load(studies.metric_path(name))
    tests = doctest.DocTestFinder(recurse=False).find(type(module), name)
    assert sum(len(test.examples) for test in tests) >= 3
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", studies.metrics())
def test_a_metric_has_card_requirements_and_anchor_values(name):
    from pathlib import Path

    folder = Path(studies.metric_path(name))
    card = (folder / "README.md").read_text()
    assert card.startswith("---\ntitle: ")
    assert "## Anchor values" in card
    assert "swapbias" in (folder / "requirements.txt").read_text()


MASSES = {"predictions": [["she", "he"]], "probabilities": [[0.5, 0.25]]}


@pytest.mark.parametrize(
    ("lexicon", "sentence"),
    [
        ({"she": "n", "he": "male"}, r"labels \['n'\], which are keys of the result"),
        ({"she": "n_unscored"}, r"labels \['n_unscored'\], which are keys of the result"),
        ({"She": "female", "he": "male"}, r"has \['She'\], expected words in lower case"),
        ({" she": "female"}, r"has \[' she'\], expected words in lower case without spaces"),
    ],
)
def test_a_lexicon_that_would_count_nothing_or_hide_a_label_is_refused(lexicon, sentence):
    mass = evaluate.load(studies.metric_path("lexicon_mass"))
    with pytest.raises(ValueError, match=sentence):
        mass.compute(**MASSES, lexicon=lexicon)
    # The words as they must be written: .5 of she and .25 of he.
    found = mass.compute(**MASSES, lexicon={"she": "female", "he": "male"})
    assert (found["female"], found["male"], found["n"]) == (0.5, 0.25, 1)


def test_correlations_within_groups_come_with_their_number_and_nothing_else():
    relation = evaluate.load(studies.metric_path("bias_correlation"))
    found = relation.compute(
        predictions=[1.0, 2.0, 3.0, 1.0, 2.0, 3.0], references=[1.0, 2.0, 3.0, 3.0, 2.0, 1.0], groups=list("aaabbb")
    )
    within = {key: value for key, value in found.items() if "within" in key}
    names = ["pearson", "spearman", "n"]
    assert list(within) == [f"{name}_within_{group}" for group in "ab" for name in names]
    assert (within["pearson_within_a"], within["pearson_within_b"]) == (pytest.approx(1), pytest.approx(-1))


@pytest.mark.parametrize("name", studies.metrics())
def test_a_card_ends_with_code_from_rows_to_a_finding_that_runs(name, monkeypatch, capsys):
    card = (Path(studies.metric_path(name)) / "README.md").read_text()
    code = re.fullmatch(r"(?s).*\n## From rows to a finding\n\n```python\n(.+)```\n", card)[1]
    assert len(code.splitlines()) <= 20
    load, asked = evaluate.load, []

    def rows(place, config, *, split):
        corpus = place.removeprefix("NS/")
        assert split == studies.load_corpus(corpus).config(config).split
        return studies.load_prompts(corpus, config)

    def metric(place, *, revision):
        asked.append((place, revision))
        return load(studies.metric_path(name))

    monkeypatch.setattr("datasets.load_dataset", rows)
    monkeypatch.setattr(evaluate, "load", metric)
    exec(compile(code, name, "exec"), {})
    assert asked == [(f"NS/{name}", "VERSION")]
    told = capsys.readouterr().out
    assert re.search(r"\d", told)
    assert "nan" not in told
