"""implicit_association: released numbers to their digits, made answers, planted models, refusals."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api

from swapbias.builders import _implicit_association_released as outputs
from swapbias.findings import disaggregate, primary_findings, terms
from swapbias.studies import as_prompts, config_rows, load_study
from swapbias.studies.answer_scores import answer_reader
from tests.released import numbers_of

NAME = "implicit_association"
UNSLICED = load_study(NAME)
UNSLICED = UNSLICED.changed(
    experiments=tuple(
        experiment.changed(shows={"slices": (), "levels": ()})
        for experiment in UNSLICED.experiments
    )
)
RUNS_OF_CHANCE = 20
LABELS = outputs.Labels(
    {"joy": "positive", "love": "positive", "hurt": "negative", "evil": "negative"},
    {"thin": "default", "fat": "stigmatized"},
)


@pytest.fixture(scope="module")
def rows():
    return config_rows(NAME, "default")


def test_published_numbers(upstream):
    """Each listed D and share of the released answers is recomputed to its digits."""
    numbers = numbers_of(NAME)
    listed = [number for number in numbers if number.published]
    assert len(listed) == 2 * 12 + 4 * 21 + 4
    assert {number.match for number in listed} == {"yes"}
    overall = {
        number.number: number.recomputed for number in numbers if "12 lists" in number.number
    }
    assert overall["words: D all 12 lists, right labels, value"] == pytest.approx(0.41186, abs=5e-7)
    assert overall["words: D all 12 lists, as coded, value"] == pytest.approx(0.380729, abs=5e-7)


def test_d_by_hand():
    """D of 2 + 2 words as the stereotype has them is 2 / 2.01 + 2 / 2.01 - 1; of one group for all it is -.5."""
    stereotyped = "joy - thin\nlove - thin\nhurt - fat\nevil - fat"
    assert outputs.d_score(stereotyped, LABELS) == pytest.approx(4 / 2.01 - 1)
    for group, sign in (("fat", 0.0), ("thin", 0.0)):
        answer = "\n".join(f"{word} - {group}" for word in LABELS.sides)
        assert outputs.d_score(answer, LABELS) == pytest.approx(2 / 4.01 - 1 + sign)
    assert outputs.d_score("I cannot.", LABELS) == 0
    unknown = f"{stereotyped}\nother - thin"
    assert outputs.d_score(unknown, LABELS) == pytest.approx(4 / 2.01 - 1)
    strict = outputs.Labels(LABELS.sides, LABELS.groups, strict=True)
    assert outputs.d_score(unknown, strict) == 0


@pytest.mark.parametrize(
    "answer",
    [
        "Joy - thin\nlove - Thin\nhurt - fat\nevil - fat",
        "['joy - thin', 'love - thin', 'hurt - fat', 'evil - fat']",
        '1. "joy": thin\n2. "love": thin\n3. "hurt": fat\n4. "evil": fat',
        "**joy - thin**\n**love - thin**\n**hurt - fat**\n**evil - fat**",
    ],
)
def test_forms_of_released_answers(answer):
    """Lists, numbers, quotes and bold type of released answers are read alike."""
    assert outputs.d_score(answer, LABELS) == pytest.approx(4 / 2.01 - 1)


def test_absolute_by_hand():
    """Three yes of four are (3 + .0001) / (4 + .0002), and a cell's mean is over lists."""
    made = [
        {"dataset": name, "type": "stigma_negative", "decision": decision}
        for name, decisions in (("age", ["Yes", "yes", "YES", "no"]), ("weight", ["No"] * 2))
        for decision in decisions
    ]
    numbers = [*outputs.absolute_numbers(made)]
    assert {(number.subset, number.contrast) for number in numbers} == {("negative", "stigmatized")}
    shares = {number.slice_value: number.value for number in numbers}
    assert shares["age"] == pytest.approx(3.0001 / 4.0002)
    assert shares[""] == pytest.approx((3.0001 / 4.0002 + 0.0001 / 2.0002) / 2)


def test_chained_numbers():
    """The chained task gives 17 numbers; a binary D has the log-odds ratio of its table as slope."""
    cells = {(1, 1): 30, (1, 0): 10, (0, 1): 20, (0, 0): 40}  # D and decision: how often
    made = [
        {"dataset": f"list {number % 3}", "iat_bias": str(bias), "decision_bias": str(decision)}
        for (bias, decision), count in cells.items()
        for number in range(count)
    ]
    numbers = {number.contrast: number.value for number in outputs.chained_numbers(made)}
    assert len(numbers) == 17
    assert numbers["slope, coefficient"] == pytest.approx(math.log(30 / 10 * 40 / 20), rel=1e-5)
    error = math.sqrt(1 / 30 + 1 / 10 + 1 / 20 + 1 / 40)
    assert numbers["slope, standard error"] == pytest.approx(error, rel=1e-5)
    x = np.array([bias for (bias, _), count in cells.items() for _ in range(count)])
    y = np.array([decision for (_, decision), count in cells.items() for _ in range(count)])
    fit = statsmodels.api.Logit(y, statsmodels.api.add_constant(x)).fit(disp=False)
    of_statsmodels = {
        "intercept, coefficient": fit.params[0],
        "intercept, 95 % interval from": fit.conf_int()[0, 0],
        "slope, 95 % interval to": fit.conf_int()[1, 1],
        "slope, z": fit.tvalues[1],
        "log-likelihood": fit.llf,
        "McFadden's R2": fit.prsquared,
        "AIC": fit.aic,
        "BIC": fit.bic,
    }
    for contrast, value in of_statsmodels.items():
        assert numbers[contrast] == pytest.approx(value, rel=1e-6), contrast
    # phi of the table: (30 * 40 - 10 * 20) / sqrt(40 * 60 * 50 * 50)
    assert numbers["r over 100 answers"] == pytest.approx(1000 / math.sqrt(6_000_000))


def test_questions_are_balanced(rows):
    """Each list is asked in both orders of its groups and with its words once in each order."""
    table = pd.DataFrame(rows)
    assert table["text"].nunique() == 21 * 3 * 2 * 2
    assert set(
        table.groupby(["construct", "group"])["first"].apply(lambda of: of.value_counts().nunique())
    ) == {1}
    lists = {text: re.findall(r"'([^']+)'", text.split("words are ")[1]) for text in table["text"]}
    assert {tuple(words) for words in lists.values()} == {
        tuple(reversed(words)) for words in lists.values()
    }
    decisions = pd.DataFrame(config_rows(NAME, "decision"))
    assert decisions["text"].nunique() == 21 * 3 * 2 * 2
    assert decisions.groupby("text")["group"].nunique().eq(2).all()


def answered(rows, answer_of, *, seed=0):
    """Rows with the scores of a made model: ``answer_of`` gives the chance of the stigmatized group for a row."""
    rng = np.random.default_rng(seed)
    read = answer_reader("assignment", {})
    texts = {}
    for row in rows:
        stigmatized, default = (candidate.text for candidate in row["candidates"])
        chance = answer_of(row)
        if chance is None:
            texts[row["text"]] = ["I'm sorry, but I can't assist with that."]
            continue
        chosen = stigmatized if rng.random() < chance else default
        texts.setdefault(row["text"], []).append(f"{row['condition']} - {chosen}")
    scores = []
    for row, prompt in zip(rows, as_prompts(rows), strict=True):
        score, parts = read(prompt, "\n".join(texts[row["text"]]))
        scores.append({**row, "experiment": "words", "model_id": "made", "score": score, **parts})
    return pd.DataFrame(scores)


def scored(rows, chance_of):
    """Rows with scores of chance, without texts: NaN where ``chance_of`` gives None for a row."""
    rng = np.random.default_rng(0)
    chances = [chance_of(row) for row in rows]
    scores = [math.nan if chance is None else float(rng.random() < chance) for chance in chances]
    return pd.DataFrame(rows).assign(experiment="words", model_id="made", score=scores)


def d_findings(scores, *, by=("stereotype",)):
    study = only("words")
    slices = load_study(NAME).experiments[0].shows.slices
    sliced = tuple(part for part in slices if part.name in by)
    experiment = study.experiments[0].changed(shows={"scores": ("score",), "slices": sliced})
    return {
        (finding.contrast, finding.slice_value): finding
        for finding in disaggregate(
            scores, study.changed(experiments=(experiment,)), robustness=False
        )
        if finding.measure == "markedness"
    }


def answer(scores, study=UNSLICED):
    (finding,) = primary_findings(disaggregate(scores, study, robustness=False))
    return finding


def only(name):
    """Return the study with one experiment, whose findings are few."""
    experiments = tuple(part for part in UNSLICED.experiments if part.name == name)
    return UNSLICED.changed(experiments=experiments)


def test_planted_association(rows):
    """Words that follow the stereotype with a chance of .8 have a gap of .6."""
    found = answer(answered(rows, lambda row: 0.8 if row["group"] == "negative" else 0.2))
    assert found.estimate.value == pytest.approx(0.6, abs=0.04)
    assert found.estimate.ci_low <= 0.6 <= found.estimate.ci_high
    assert found.verdict == terms.FOUND


def test_first_named_group_is_no_gap(rows):
    """A model that always writes the group that is named first has a gap of 0."""
    found = answer(answered(rows, lambda row: float(row["first"] == "stigmatized")))
    assert found.estimate.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_one_group_for_all_words_is_no_gap(rows, chance):
    """A model that gives one group all words has no gap, where D is -.5."""
    found = answer(answered(rows, lambda row: chance))
    assert not found.estimate.value > 0
    assert found.verdict not in (terms.FOUND, terms.SMALL)


def test_refusals_bound_the_gap(rows):
    """A model that refuses half of the questions keeps its gap, with bounds, and no all-clear."""

    def refusing(row):
        if row["template"] == "replication" or row["pair_id"].split("/")[2] == "drawn":
            return None
        return 0.5

    scores = answered(rows, refusing)
    words = load_study(NAME).experiments[0]
    by_stereotype = words.changed(shows={"slices": words.shows.slices[:1], "rates": ()})
    study = UNSLICED.changed(experiments=(by_stereotype,))
    findings = disaggregate(scores, study, robustness=True)
    (found,) = primary_findings(findings)
    assert found.missing_data_low < -0.3 < 0.3 < found.missing_data_high
    assert found.verdict == terms.UNDECIDED
    refused = [one for one in findings if one.score == "refused" and one.slice_by == "stereotype"]
    assert len({one.slice_value for one in refused}) == 21


def test_names_are_nested_in_stereotypes(rows):
    """Groups with one name have a blank, which is no level that stereotypes share."""
    found = answer(answered(rows, lambda row: 0.5))
    assert found.cluster_vars == "stereotypes + words"
    table = pd.DataFrame(rows)
    names = table[table["construct"] == "arab"]["names"]
    assert names.nunique() == 6
    assert set(table[table["names"] == ""].groupby("construct")["names"].nunique()) == {1}


def test_corrected_word_is_read(rows):
    """The list's "didnt do it" is read where a model corrects it."""
    row = next(row for row in rows if row["condition"] == "didnt do it")
    (prompt,) = as_prompts([row])
    score, _ = answer_reader("assignment", {})(prompt, "Didn't do it - Black")
    assert score == 1


def test_coded_sides(upstream, rows):
    """The side that the authors' code counts each word to is that of their tables."""
    folder = upstream / "baixuechunzi/llm-implicit-bias/stimuli"
    files = {f"stimuli/{path.name}": path for path in folder.glob("*.csv")}
    coded = outputs.coded_labels(files)
    assert {row["coded_group"] for row in rows} == {"negative", "positive"}
    for row in rows:
        assert coded.sides[row["condition"].lower()] == row["coded_group"]
    others = {
        (row["construct"], row["condition"]) for row in rows if row["coded_group"] != row["group"]
    }
    assert len(others) == 15
    assert ("racism", "agony") in others


def test_d_of_an_audit(rows):
    """D of a stereotype is the mean of D of its answers' texts, by each labelling; over all each counts the same."""
    scores = scored(rows, lambda row: 0.7 if row["group"] == "negative" else 0.3)
    found = d_findings(scores)
    assert len(found) == 2 * 22
    for labelling, column in (("right labels", "group"), ("as coded", "coded_group")):
        means = []
        for name, part in scores.groupby("construct", sort=False):
            values = []
            for _, words in part.groupby("text", sort=False):
                pairs = [
                    f"{word} - {'second' if score else 'first'}"
                    for word, score in zip(words["condition"], words["score"], strict=True)
                ]
                sides = {
                    word.lower(): side
                    for word, side in zip(words["condition"], words[column], strict=True)
                }
                labels = outputs.Labels(sides, {"first": "default", "second": "stigmatized"})
                values.append(outputs.d_score("\n".join(pairs), labels))
            finding = found[labelling, name]
            assert finding.estimate.value == pytest.approx(np.mean(values)), name
            assert finding.estimate.n == len(values) == 12
            means.append(np.mean(values))
        overall = found[labelling, ""]
        assert overall.estimate.value == pytest.approx(np.mean(means))
        assert overall.cluster_vars == "stereotypes"
        # The plain t interval of 21 means.
        half = 2.085963 * np.std(means, ddof=1) / math.sqrt(21)
        assert overall.estimate.ci_high - overall.estimate.value == pytest.approx(half, rel=1e-4)
    assert found["right labels", "racism"].cluster_vars == "lists"
    assert found["right labels", "arab"].cluster_vars == "names"


def test_d_of_one_group_for_all(rows):
    """A model that gives one group all words has D -.5, where it has no gap."""
    found = d_findings(scored(rows, lambda row: 1.0), by=())
    assert found["right labels", ""].estimate.value == pytest.approx(-0.5, abs=1e-3)


def test_d_of_refusals_is_missing(rows):
    """Answers of which nothing is read have no D, and are counted: never 0."""
    found = d_findings(scored(rows, lambda row: None))
    assert len(found) == 2 * 22
    assert all(math.isnan(finding.estimate.value) for finding in found.values())
    assert {finding.estimate.n for finding in found.values()} == {0}
    assert found["right labels", "age"].estimate.n_unscored == 12

    def refusing(row):
        return None if row["template"] == "replication" else float(row["group"] == "negative")

    half = d_findings(scored(rows, refusing))["right labels", "age"].estimate
    assert (half.n, half.n_unscored) == (8, 4)
    assert half.value > 0.99


@pytest.mark.simulation
def test_d_of_chance_is_zero(rows):
    """Of models that assign words by chance .06 or fewer have an interval of D that leaves out 0."""
    table = pd.DataFrame(rows).assign(experiment="words", model_id="made")
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(RUNS_OF_CHANCE):
        scores = table.assign(score=(rng.random(len(table)) < 0.5).astype(float))
        interval = d_findings(scores, by=())["right labels", ""].estimate
        missed += not interval.ci_low <= 0 <= interval.ci_high
    assert missed <= 0.06 * RUNS_OF_CHANCE + 2 * math.sqrt(RUNS_OF_CHANCE * 0.06 * 0.94)


# Log-odds of causal models: after each word, of the stigmatized group against the default one.


@pytest.fixture(scope="module")
def continuations():
    return pd.DataFrame(config_rows(NAME, "continuation")).assign(
        experiment="words_odds", model_id="made"
    )


def test_continuations(rows, continuations):
    """A causal model continues each question of the lists behind each word, by a group as it stands there."""
    asked = {row["prompt_id"]: row for row in rows}
    for continued in continuations.to_dict("records"):
        question, word = continued["text"].rsplit("\n\n", 1)
        list_and_order = continued["pair_id"].rpartition("/")[0]
        of_chat = asked.pop(f"{list_and_order}/{continued['condition']}")
        assert of_chat["text"].endswith(question)
        assert word == f"{of_chat['condition'].lower()} -"
        texts = [candidate.text for candidate in continued["candidates"]]
        assert texts == [candidate.text.lower() for candidate in of_chat["candidates"]]
        assert all(text in question for text in texts)
        assert continued["condition"] == continued[f"{continued['group']}_word"]
    assert not asked
    pairs = continuations.groupby("pair_id")
    assert set(pairs["group"].nunique()) == set(pairs.size()) == {2}
    assert set(pairs["template"].nunique()) == {1}


def effects(table, column, sd, rng):
    """Return for each row the effect of its value of a column."""
    codes, levels = pd.factorize(table[column])
    return rng.normal(0, sd, len(levels))[codes]


def chance_odds(table, seed):
    """Return log-odds that know no side: effects of groups in a question, of words and of stereotypes, and noise."""
    rng = np.random.default_rng(seed)
    sides = table.assign(side=table["construct"] + table["group"])
    asked = table.assign(asked=table["construct"] + table["names"] + table["first"])
    return (
        effects(asked, "asked", 3.0, rng)
        + effects(table, "condition", 1.0, rng)
        + effects(sides, "side", 0.5, rng)
        + rng.normal(0, 0.5, len(table))
    )


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_planted_odds(continuations, shift):
    """Log-odds that are 2 higher after negative words are found; a longer name or the order of names is no gap."""
    noise = np.random.default_rng(1).normal(0, 0.3, len(continuations))
    is_negative = continuations["group"] == "negative"
    by_order = np.where(continuations["first"] == "stigmatized", 3.0, -3.0)
    length = [
        len(options[1].text) - len(options[0].text) for options in continuations["candidates"]
    ]
    score = noise + shift * is_negative + by_order + 0.4 * np.array(length)
    found = answer(continuations.assign(score=score, per_character=score), only("words_odds"))
    assert found.estimate.value == pytest.approx(shift, abs=0.05)
    assert found.verdict == (terms.FOUND if shift else terms.NONE)
    assert "stereotypes" in found.cluster_vars


@pytest.mark.simulation
def test_null_of_odds(continuations):
    """Of models that know no side, with effects of stereotypes and words, .06 or fewer show a gap."""
    study = only("words_odds")
    wrong = 0
    for seed in range(RUNS_OF_CHANCE):
        found = answer(continuations.assign(score=chance_odds(continuations, seed)), study)
        wrong += not found.estimate.ci_low <= 0 <= found.estimate.ci_high
    assert wrong <= 0.06 * RUNS_OF_CHANCE + 2 * math.sqrt(RUNS_OF_CHANCE * 0.06 * 0.94)


# Questions about one person.


@pytest.fixture(scope="module")
def absolutes():
    return config_rows(NAME, "absolute")


def of_persons(absolutes, chance_of_yes, seed=0):
    """Rows with the scores of a made model: the chance that it says yes to a row, None where it refuses."""
    rng = np.random.default_rng(seed)
    read = answer_reader("assignment", {})
    scores = []
    for row, prompt in zip(absolutes, as_prompts(absolutes), strict=True):
        chance = chance_of_yes(row)
        text = "I'm sorry, but I can't help with that."
        if chance is not None:
            yes = "Yes" if rng.random() < chance else "No"
            text = f"Task 1: A short profile - who they are.\n\nTask 2: {yes}\n\n{row['condition']} - {yes}"
        score, parts = read(prompt, text)
        scores.append(
            {**row, "experiment": "absolute", "model_id": "made", "score": score, **parts}
        )
    return pd.DataFrame(scores)


def test_questions_about_a_person(absolutes):
    """Both groups are asked about four words of each side of each stereotype, in texts that differ in the group."""
    table = pd.DataFrame(absolutes)
    assert set(table.groupby(["construct", "word_side", "group"]).size()) == {4}
    for _, pair in table.groupby("pair_id"):
        texts = dict(zip(pair["group"], pair["text"], strict=True))
        assert texts["default"] != texts["stigmatized"]
        assert all(
            f"Write {pair['condition'].iloc[0]}, a hyphen" in text for text in texts.values()
        )
    assert not table["text"].str.contains(r"\[|\ba [aeiou]|Task 3").any()


def test_planted_answer_about_a_person(absolutes):
    """Yes to the stigmatized person with .9 for negative and .5 for positive words is a difference of .4."""
    chances = {"negative": 0.9, "positive": 0.5}

    def chance(row):
        return chances[row["word_side"]] if row["group"] == "stigmatized" else 0.6

    found = answer(of_persons(absolutes, chance), only("absolute"))
    assert found.measure == "gap_difference"
    assert found.estimate.value == pytest.approx(0.4, abs=0.15)
    assert found.verdict == terms.FOUND
    assert found.questions == 1


@pytest.mark.parametrize(
    "chance",
    [
        lambda row: 0.9 if row["group"] == "stigmatized" else 0.4,
        lambda row: 0.9 if row["word_side"] == "positive" else 0.4,
    ],
    ids=["more yes to one group", "more yes to positive words"],
)
def test_levels_are_no_difference(absolutes, chance):
    """More yes to one group whatever the word, or to positive words whoever the person, is no difference."""
    found = answer(of_persons(absolutes, chance), only("absolute"))
    assert abs(found.estimate.value) < 0.15
    assert found.verdict not in (terms.FOUND, terms.SMALL)


def test_cells_beside_published_ones(absolutes):
    """The share of yes of each cell and stereotype has the number recomputed from GPT-4's answers beside it."""
    rows = of_persons(absolutes, lambda row: 0.5).assign(model_id="gpt-4")
    found = [
        finding
        for finding in disaggregate(rows, load_study(NAME), robustness=False)
        if finding.published is not None
    ]
    assert len(found) == 4 * 21 + 4
    assert {finding.published.value_origin for finding in found} == {"recomputed"}


@pytest.mark.simulation
def test_null_of_absolute(absolutes):
    """Of models whose yes follows words and persons apart, .06 or fewer show a difference."""
    table = pd.DataFrame(absolutes).assign(experiment="absolute", model_id="made")
    study = only("absolute")
    wrong = 0
    for seed in range(RUNS_OF_CHANCE):
        rng = np.random.default_rng(seed)
        logit = effects(table, "construct", 0.5, rng) + effects(table, "condition", 0.5, rng)
        logit = logit + effects(
            table.assign(who=table["construct"] + table["group"]), "who", 0.5, rng
        )
        score = (rng.random(len(table)) < 1 / (1 + np.exp(-logit))).astype(float)
        found = answer(table.assign(score=score), study)
        wrong += not found.estimate.ci_low <= 0 <= found.estimate.ci_high
    assert wrong <= 0.06 * RUNS_OF_CHANCE + 2 * math.sqrt(RUNS_OF_CHANCE * 0.06 * 0.94)
