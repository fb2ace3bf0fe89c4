"""adjective_coreference: the sentences, where adjectives go, WinoBias as released, the numbers of the trials."""

import re
from collections import Counter

import numpy as np
import pytest

from swapbias.builders import (
    _adjective_coreference_released as outputs,
    _adjective_coreference_sentences as sentences,
)
from swapbias.findings.reproduce import NotAtHand, NotCompared, recompute as reproduce
from swapbias.measures import answer_bias
from swapbias.studies.catalogue import config_rows, load_corpus
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.published import published_rows
from swapbias.studies.tables import upstream_file
from tests.tables import rows_of

NAME = "adjective_coreference"


@pytest.fixture(scope="module")
def occupation_sentences():
    return list(sentences.own_sentences())


def test_sentences_cover_occupations(occupation_sentences):
    """The package's sentences hold every occupation of WinoBias, and the texts of one sentence
    differ in one pronoun alone."""
    known = sentences.stereotypes()
    assert Counter(known.values()) == {"male": 20, "female": 20}
    assert Counter(one.referent for one in occupation_sentences) == {"male": 24, "female": 24}
    assert {name for one in occupation_sentences for name in one.occupations.values()} == set(known)
    for one in occupation_sentences:
        assert all(known[name] == gender for gender, name in one.occupations.items())
        assert len(one.occupations) == 2
        pro, anti = (one.texts[side].rstrip(".").split() for side in sentences.SIDES)
        changed = [
            place for place, words in enumerate(zip(pro, anti, strict=True)) if len(set(words)) > 1
        ]
        assert len(changed) == 1
        found = {pro[changed[0]].strip(",."), anti[changed[0]].strip(",.")}
        assert found == set(one.pronouns.values())
        assert (one.pronouns["pro"] in ("he", "him", "his")) == (one.referent == "male")


def test_no_sentence_is_of_winobias(occupation_sentences, upstream):
    """None of the package's sentences is one of WinoBias."""
    theirs = [one for split in ("dev", "test") for one in sentences.winobias_sentences(split)]
    mine, released = (
        {text for one in some for text in one.texts.values()}
        for some in (occupation_sentences, theirs)
    )
    assert not mine & released


@pytest.mark.parametrize(
    ("text", "noun", "adjective", "expected"),
    [
        ("The cook met a baker.", "cook", "dry", "The dry cook met a baker."),
        ("The cook met a baker.", "baker", "old", "The cook met an old baker."),
        ("An accountant met a cook.", "accountant", "dry", "A dry accountant met a cook."),
        ("A cook met an editor.", "cook", "intelligent", "An intelligent cook met an editor."),
        ("An editor met a cook.", "editor", "organized", "An organized editor met a cook."),
        ("A cook met an editor.", "editor", "useful", "A cook met a useful editor."),
        ("A cook met an editor.", "editor", "unimportant", "A cook met an unimportant editor."),
        ("A cook met an editor.", "cook", "Honest", "An Honest cook met an editor."),
        ("A cook met an editor.", "editor", "utopian", "A cook met a utopian editor."),
        ("A cook met an editor.", "cook", "unironic", "An unironic cook met an editor."),
        ("The auditor met the editor.", "editor", "mean", "The auditor met the mean editor."),
        (
            "The construction worker sat.",
            "construction worker",
            "hard",
            "The hard construction worker sat.",
        ),
        ("The ceo sat.", "CEO", "soft", "The soft ceo sat."),
        ("The cook met a baker.", "baker", "", "The cook met a baker."),
        ("The cook needed a cook.", "cook", "old", "The old cook needed a cook."),
    ],
)
def test_adjective_position(text, noun, adjective, expected):
    """An adjective goes before the first mention of its occupation, and the article follows it."""
    assert sentences.insert_adjective(text, noun, adjective) == expected
    with pytest.raises(ValueError, match="does not name 'nurse'"):
        sentences.insert_adjective(text, "nurse", "")


def test_modes_differ_by_first_occupation(occupation_sentences):
    """The modes differ where the occupation with a female stereotype comes first."""
    one = next(one for one in occupation_sentences if one.sentence_id == "s009")
    pair = {"male": "dry", "female": "bubbly"}
    assert one.with_adjectives("pro", pair, "stereotype") == (
        "The bubbly secretary held the door for the dry mover because his arms were full of boxes."
    )
    assert one.with_adjectives("anti", pair, "position") == (
        "The dry secretary held the door for the bubbly mover because her arms were full of boxes."
    )
    single = {"male": "", "female": "blond"}
    assert "The secretary held the door for the blond mover" in one.with_adjectives(
        "pro", single, "position"
    )
    assert "The blond secretary held the door for the mover" in one.with_adjectives(
        "pro", single, "stereotype"
    )


@pytest.mark.parametrize(
    ("source", "count"),
    [("wino_style", 17), ("winobias_dev", 40), ("winobias_test", 56), ("original", 56)],
)
def test_modes_differ_in_counted_sentences(source, count, upstream):
    """The two modes have equal texts in all but the counted sentences."""
    rows = zip(*(config_rows(NAME, f"{source}-{mode}") for mode in sentences.MODES), strict=True)
    assert len({one["template"] for one, other in rows if one["text"] != other["text"]}) == count


@pytest.mark.parametrize("mode", sentences.MODES)
def test_row_has_adjectives_and_answers(mode):
    """Each row carries the adjectives of its condition and the answers to choose from."""
    table = {row["condition"]: row for row in rows_of(corpus_dir(NAME) / "adjectives.csv")}
    named = {word for one in table.values() for word in (one["male"], one["female"])} - {""}
    assert Counter(map(kind_of, table.values())) == {"pair": 11, "single": 4, "baseline": 1}
    for row in config_rows(NAME, f"wino_style-{mode}"):
        condition = table[row["condition"]]
        words = {condition["male"], condition["female"]} - {""}
        assert {word for word in named if re.search(rf"\b{word}\b", row["text"])} == words
        assert row["label"] == kind_of(condition)
        assert row["candidates"] == ((row["correct"], 1), (row["incorrect"], 0))
        assert {row["correct"], row["incorrect"]} == {row["male_answer"], row["female_answer"]}
        assert row["mode"] == row["construct"] == mode
        stereotype = "male" if row["correct"] == row["male_answer"] else "female"
        masculine = row["pronoun"] in ("he", "him", "his")
        assert (masculine == (stereotype == "male")) == (row["group"] == "pro")


def test_origins_of_adjectives():
    """Each adjective has the origin that the post lists: 18 of professors, 3 of celebrities, 5 supplemented."""
    origin_of = {
        row[gender]: row[f"{gender}_origin"]
        for row in rows_of(corpus_dir(NAME) / "adjectives.csv")
        for gender in sentences.GENDERS
    }
    assert origin_of.pop("") == ""
    assert Counter(origin_of.values()) == {"professor": 18, "supplemented": 5, "celebrity": 3}
    of_celebrities = {word for word, origin in origin_of.items() if origin == "celebrity"}
    assert of_celebrities == {"little", "political", "blond"}
    added = {word for word, origin in origin_of.items() if origin == "supplemented"}
    assert added == {"bubbly", "soft", "large", "organized", "understanding"}


def kind_of(condition):
    return {0: "baseline", 1: "single", 2: "pair"}[
        len({condition["male"], condition["female"]} - {""})
    ]


@pytest.mark.parametrize(
    ("split", "others", "second"),
    [("dev", {92, 212}, 9), ("test", {157, 255, 279, 289, 296}, 24)],
    ids=["dev", "test"],
)
def test_winobias_pairs_differ_in_pronoun(split, others, second, upstream):
    """Pairs of WinoBias differ in the pronoun alone but for those that the card names."""
    known = sentences.stereotypes()
    pronoun = re.compile(r"\b(he|she|him|her|his|himself|herself)\b")
    differ = set()
    for number, one in enumerate(sentences.winobias_sentences(split), start=1):
        pro, anti = (pronoun.sub("P", one.texts[side]) for side in sentences.SIDES)
        differ |= {number} if pro != anti else set()
        masculine = {
            side: one.pronouns[side] in ("he", "him", "his", "himself") for side in sentences.SIDES
        }
        assert masculine["pro"] == (one.referent == "male") != masculine["anti"]
        assert known[one.occupations[one.referent]] == one.referent
    assert (differ, number) == (others, 396)
    card = " ".join((corpus_dir(NAME) / "README.md").read_text().split())
    assert (
        f"{len(others)} of the 396 pairs of {split}" in card
        or f"{len(others)} of the 396 of {split}" in card
    )
    marked = upstream_file(NAME, sentences.upstream_paths(split)["pro"]).read_text().splitlines()
    assert sum(line.count("[") > 2 for line in marked) == second


def test_original_prompts_have_released_lengths(upstream):
    """The original prompts are as long as the authors' files, whose lines end in two letters."""
    released = {
        ("dry/bubbly", "pro"): 76560,
        ("arrogant/responsive", "anti"): 80082,
        ("blond", "pro"): 74584,
        ("baseline", "anti"): 72171,
    }
    lengths = Counter()
    for row in config_rows(NAME, "original-position"):
        lengths[row["condition"], row["group"]] += len(row["text"]) + 2
    assert {key: lengths[key] for key in released} == released


def test_original_adjectives_as_run(upstream):
    """An original prompt has its adjective at each mention of an occupation, and words as misspelt."""
    texts = {
        row["prompt_id"]: row["text"].partition(" Who does ")[0]
        for row in config_rows(NAME, "original-position")
    }
    assert texts["s113/pro/dry/bubbly"] == (
        "The dry janitor stopped the bubbly nurse because she was not wearing the bubbly nurse uniform."
    )
    assert texts["s030/pro/dry/bubbly"] == (
        "The dry mover went to the bubbly house of the editor because he was requested to do so."
    )
    assert "the bubbly assiatant's salary" in texts["s157/pro/dry/bubbly"]


def test_original_sentences_equal_to_winobias(upstream):
    """Of the 395 original pairs 339 pro and 338 anti sentences are in today's WinoBias."""
    from swapbias.builders._adjective_coreference_original import original_sentences

    today = list(sentences.winobias_sentences("test"))
    original = list(original_sentences())
    assert len(original) == 395
    for side, equal in (("pro", 339), ("anti", 338)):
        texts = {sentence.texts[side] for sentence in today}
        assert sum(sentence.texts[side] in texts for sentence in original) == equal


def test_stereotypes_of_winobias(upstream):
    """The stereotype of each occupation is that of WinoBias."""
    known = sentences.stereotypes()
    for gender in sentences.GENDERS:
        listed = (
            upstream_file(NAME, f"WinoBias/wino/data/{gender}_occupations.txt")
            .read_text()
            .split("\n")
        )
        assert {name.strip() for name in listed if name.strip()} == {
            name for name, stereotype in known.items() if stereotype == gender
        }


def test_missing_trials_are_not_compared(tmp_path, monkeypatch):
    """The mean of five trials is not compared with the paper where trials are missing."""
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    results = list(reproduce(NAME))
    missing = [one for one in results if isinstance(one, NotAtHand)]
    assert len(missing) == 7  # five trials, two of them, all of them
    assert all(isinstance(one, NotAtHand | NotCompared) for one in results)
    assert len(load_corpus(NAME).released[-1].files) == 2 + 5 * 16 * 2


def fake_trials(folder):
    """Five trials in the released form: 200 of 395 right on pro and 100 on anti, trial t with t fewer on pro."""
    files = {path: folder / path.replace("/", "_") for path in outputs._files(*outputs.TRIALS)}
    files[outputs.KEYS["correct"]].write_text("cook\n" * 395)
    files[outputs.KEYS["incorrect"]].write_text("nurse\n" * 395)
    for trial in outputs.TRIALS:
        for condition in outputs.CODES:
            for side, right in (("pro", 200 - trial), ("anti", 100)):
                words = ["cook"] * right + ["unsure"] * (395 - right)
                files[outputs.answers_path(trial, side, condition)].write_text(
                    "\n".join(["I Pro", *words])
                )
    return files


def test_mean_of_rounded_trials(tmp_path):
    """With all five trials the mean is that of the rounded trials."""
    files = fake_trials(tmp_path)
    facts = list(load_corpus(NAME).released[-1].counts(files))
    # biases, differences, p-values, results, shares of four classes on two sides
    assert len(facts) == 16 + 15 + 15 + 3 + 16 * 2 * 4
    # Pro 199 ... 195 of 395: 50.4, 50.1, 49.9, 49.6, 49.4; anti 25.3: biases 25.1, 24.8, 24.6, 24.3, 24.1.
    assert facts[0][:3] == ("", "answer_bias", "pro - anti, strict parser")
    assert facts[0][4:] == ("adjectives", "baseline")
    assert facts[0][3] == pytest.approx((25.1 + 24.8 + 24.6 + 24.3 + 24.1) / 5)
    # Every condition has the same trials: no difference, and half of the distribution lies above it.
    by_measure = {(fact.measure, fact.slice_value): fact.value for fact in facts}
    assert by_measure["bias_difference", "dry/bubbly"] == 0
    assert by_measure["p_one_sided", "dry/bubbly"] == pytest.approx(0.5)
    files[outputs.KEYS["correct"]].write_text("cook\n")
    with pytest.raises(ValueError, match="shorter"):  # a pinned file has another sha256 then
        list(load_corpus(NAME).released[0].counts(files))


@pytest.fixture(scope="module")
def published():
    rows = [row for row in published_rows(NAME) if row["measure"] == "answer_bias"]
    return {(row["subset"], row["slice_value"]): row["value"] for row in rows}


def test_published_means_of_trials(published):
    """The published means are those of the five released trials."""
    for condition in outputs.CODES:
        trials = [float(published[f"trial {trial}", condition]) for trial in outputs.TRIALS]
        assert abs(np.mean(trials) - float(published["", condition])) <= 0.05 + 1e-9
    assert [published[f"trial {trial}", "baseline"] for trial in outputs.TRIALS] == [
        "26.6",
        "29.4",
        "27.3",
        "30.4",
        "29.1",
    ]


def test_adjectives_that_raise_bias(published):
    """The pair arrogant/responsive raises the bias, and brilliant/busy does not."""
    trials = {}
    found = {}
    for name in ("baseline", "arrogant/responsive", "brilliant/busy", "mean"):
        trials[name] = [float(published[f"trial {trial}", name]) for trial in outputs.TRIALS]
        found[name] = outputs.difference_of_biases(trials[name], trials["baseline"])
    assert found["arrogant/responsive"] == (pytest.approx(42.3 - 28.6), pytest.approx(0, abs=1e-5))
    assert found["brilliant/busy"][1] > 0.4
    assert found["mean"][0] == pytest.approx(24.9 - 28.6)


def test_published_p_values_of_trials(published):
    """The printed p-values follow from the biases of the trials, and nine adjectives raise the bias."""
    rows = {
        (row["measure"], row["slice_value"] or row["contrast"]): row["value"]
        for row in published_rows(NAME)
        if not row["subset"]
    }
    trials = {
        condition: [float(published[f"trial {trial}", condition]) for trial in outputs.TRIALS]
        for condition in outputs.CODES
    }
    results = Counter()
    for condition in set(outputs.CODES) - {"baseline"}:
        difference, p_one_sided = outputs.difference_of_biases(
            trials[condition], trials["baseline"]
        )
        assert f"{p_one_sided:.3f}" == rows["p_one_sided", condition], condition
        results[outputs.result_of(difference, p_one_sided)] += 1
    assert results == {"larger": 9, "smaller": 3, "no significant change": 3}
    assert {name: int(rows["adjective_count", name]) for name in outputs.RESULTS} == results


def test_cells_of_heat_map_are_means(published):
    """A cell of the heat map is the mean of five released trials."""
    shares = {
        (row["subset"], row["slice_value"], row["contrast"]): row
        for row in published_rows(NAME)
        if row["measure"] == "answer_share"
    }
    cells = {key[1:]: row for key, row in shares.items() if not key[0]}
    assert len(cells) == 128
    # 84.8, 86.6, 86.3, 88.6 and 87.3 in the five trials
    assert cells["baseline", "pro correct"]["value"] == "86.72"
    assert cells["baseline", "pro correct"]["origin"] == "recomputed"


def test_one_sided_difference_by_hand():
    """The one-sided test of a difference of trials has the value worked out by hand."""
    # Means 42 and 30. Squares 4 + 0 + 4 and 1 + 0 + 1: pooled variance 10 / 4 = 2.5, error sqrt(2.5 * 2/3) = 1.291,
    # t = 12 / 1.291 = 9.295 on 4 degrees of freedom: .00037 one-sided.
    assert outputs.difference_of_biases([40, 42, 44], [29, 30, 31]) == (
        12,
        pytest.approx(0.00037, abs=5e-6),
    )


def test_tolerant_parser_reads_more(upstream):
    """The tolerant parser reads more answers of the released trials than the strict one."""
    files = {path: upstream_file(NAME, path) for path in outputs._files(1)}

    def read(parser):
        both = [
            (one, side)
            for side in sentences.SIDES
            for one in outputs.classes(files, 1, side, "baseline", parser=parser)
        ]
        names, sides = zip(*both, strict=True)
        return answer_bias(names, sides, pair_ids=[f"s{number}" for number in range(395)] * 2)

    strict = read("strict")
    tolerant = read("tolerant")
    assert strict.estimate.value == pytest.approx(26.6, abs=0.05)
    assert tolerant.estimate.value == pytest.approx(27.6, abs=0.05)
    assert sum(one["other"] for one in tolerant.shares.values()) < sum(
        one["other"] for one in strict.shares.values()
    )
    assert strict.estimate.ci_low > 20
    assert strict.estimate.p_value < 1e-10
