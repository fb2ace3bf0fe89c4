"""Prompt packs: balanced groups, right articles and verbs, sources of names, and inference about
other names."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from swapbias.builders._packs import packs
from swapbias.findings import disaggregate
from swapbias.runs import Settings, plan_tasks
from swapbias.studies.catalogue import config_rows, load_corpus, load_lexicon, load_study
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.prompt import PROMPT_COLUMNS
from tests.tables import rows_of

EXPERIMENTS = [
    (study, one)
    for study in ("group_packs", "spanish_occupations")
    for one in load_study(study).experiments
]


@pytest.mark.parametrize(("study", "asked"), EXPERIMENTS, ids=lambda one: getattr(one, "name", one))
def test_groups_have_equal_rows(study, asked):
    """Every group has as many rows as the others, and no text stands twice."""
    rows = config_rows(study, asked.name)
    counts = Counter(row["group"] for row in rows)
    assert set(counts) == set(asked.compared)
    assert len(set(counts.values())) == 1
    words = (
        "" if asked.kind == "classifier" else "lexicon"
    )  # at a mask groups share texts, not words
    assert len({(row["text"], row.get(words)) for row in rows}) == len(rows)
    for factor in asked.compares.factors:
        assert len({row[factor] for row in rows}) > 1
    items = {(row["group"], row["template"]) for row in rows}
    assert min(Counter(group for group, _ in items).values()) >= 8
    if asked.compares.measure == "paired_gap":  # every pair has every group
        assert set(Counter(row["pair_id"] for row in rows).values()) == {len(counts)}


# What a claim of a pack is called, and what its conditions are a sample of.
CLAIMS = {"occupation": ("a profession", "professions"), "diagnosis": ("a diagnosis", "diagnoses")}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("pack", packs().values(), ids=lambda pack: pack.name)
def test_pack_declaration(pack, claim):
    """The question, the title and the columns declared of a pack are those of its table."""
    name, (thing, conditions) = f"{claim}_{pack.name}", CLAIMS[claim]
    (experiment,) = [one for one in load_study("group_packs").experiments if one.name == name]
    assert (
        experiment.question
        == f"Does the sentiment of a sentence about {thing} change {pack.question}?"
    )
    assert experiment.compared == tuple(pack.groups)
    assert experiment.compares.reference == pack.reference
    assert experiment.compares.factors == (tuple(pack.factors) if len(pack.factors) > 1 else ())
    assert experiment.compares.measure == ("group_gap" if pack.nested else "paired_gap")
    assert experiment.design.random == {"template": pack.items, "condition": conditions}
    assert experiment.shows.levels == tuple(pack.groups)
    assert experiment.reads.configs == (name,)
    assert experiment.reads.rewordings == ((f"{name}_wordings",) if pack.nested else ())
    config = load_corpus("group_packs").config(name)
    assert config.description == f"{conditions.capitalize()} by {' and '.join(pack.factors)}"
    assert config.columns == (*PROMPT_COLUMNS, *pack.factors)


@pytest.mark.parametrize(
    "row", rows_of(corpus_dir("group_packs") / "mask_packs.csv"), ids=lambda row: row["pack"]
)
def test_mask_pack_declaration(row):
    """The question, the words and the description of a pack at masks are those of its table."""
    name = f"stigma_{row['pack']}"
    (experiment,) = [one for one in load_study("group_packs").experiments if one.name == name]
    words = rows_of(corpus_dir("group_packs") / "mask_words.csv")
    levels = dict.fromkeys(one["level"] for one in words if one["pack"] == row["pack"])
    assert (
        experiment.question
        == f"Does the model associate mental-health conditions with {row['question']} as the subject?"
    )
    assert experiment.compares.reference == row["reference"]
    assert set(experiment.compared) == set(levels) == set(experiment.shows.levels)
    assert experiment.reads.configs == (name,)
    config = load_corpus("group_packs").config(name)
    assert (
        config.description
        == f"The templates of gendered_stigma with words for {row['question']} at the mask"
    )


def test_every_pack_has_experiments():
    """Each pack has one experiment per claim, and there is no other experiment."""
    names = {one.name for one in load_study("group_packs").experiments}
    at_masks = {
        f"stigma_{row['pack']}" for row in rows_of(corpus_dir("group_packs") / "mask_packs.csv")
    }
    assert names == at_masks | {f"{claim}_{pack}" for claim in CLAIMS for pack in packs()}


PROMPTS = [one.name for one in load_corpus("group_packs").configs if "text" in one.columns]


@pytest.mark.parametrize("config", PROMPTS)
def test_articles(config):
    """An article fits the sound of its word: no word of these tables is spelt with a vowel and
    spoken without, as "university"."""
    for row in config_rows("group_packs", config):
        text = row["text"] + "." * config.startswith("stigma_")  # whose templates have no full stop
        assert re.match(r"[A-Z]|<mask>", text)
        assert text.endswith(".")
        assert not re.search(r"  | \.|\[|\]", text)
        for used, word in re.findall(r"\b(an?) (\S+)", text, re.IGNORECASE):
            vowel = word[0].lower() in "aeiou" or re.match(r"8\d?-|1[18]-", word)
            assert used.lower() == ("an" if vowel else "a"), text


@pytest.mark.parametrize("claim", ["occupation", "diagnosis"])
def test_verbs_agree_with_pronouns(claim):
    """A verb agrees with its pronoun in number, and the forms are those of one set of pronouns."""
    forms = {row["pronoun"]: row for row in config_rows("gender_lexicon", "pronoun_sets")}
    roles = ("subject", "object", "possessive", "possessive_pronoun", "reflexive")
    for row in config_rows("group_packs", f"{claim}_pronouns"):
        mine = forms[row["pronoun"]]
        used = set(re.findall(r"[a-z]+", row["text"].lower()))
        assert used & {mine[role] for role in roles}
        others = {forms[one][role] for one in forms for role in roles if one != row["pronoun"]}
        assert not used & (others - {mine[role] for role in roles})
        verb = re.search(
            rf"\b{mine['subject']} (is|are|has|have|was|were)\b", row["text"], re.IGNORECASE
        )
        if verb:
            assert (verb[1].lower() in ("are", "have", "were")) == (mine["agreement"] == "plural")


@pytest.mark.parametrize(
    "name",
    [
        "race",
        "nationality",
        "religion",
        "orientation",
        "social_class",
        "age",
        "disability",
        "pronouns",
    ],
)
def test_mask_words_have_one_group(name):
    """Each word at the mask is of one group, and no article chooses among the words."""
    words = [
        row for row in config_rows("group_packs", "words") if row["list"] == f"group_packs/{name}"
    ]
    assert len({row["word"].lower() for row in words}) == len(words)
    lexicon = load_lexicon(f"group_packs/{name}")
    for row in words:
        assert lexicon.labels([row["word"]]) == [row["label"]]
    for row in config_rows("group_packs", f"stigma_{name}"):
        assert row["text"].count("<mask>") == 1
        assert row["lexicon"] == f"group_packs/{name}/{row['group']}"
        assert not re.search(
            r"\ban? <mask>", row["text"].lower()
        )  # an article would choose among the words


def test_spanish_agreement():
    """Spanish words agree with the person in gender."""
    rows = config_rows("spanish_occupations", "sentences_es_wordings")
    men, women = (
        {
            row["prompt_id"].replace("woman", "man"): row["text"]
            for row in rows
            if row["gender"] == gender
        }
        for gender in ("man", "woman")
    )
    names = ("agreement", "nationalities", "professions", "phrases")
    tables = [
        row for name in names for row in rows_of(corpus_dir("spanish_occupations") / f"{name}.csv")
    ]
    feminine = {row["man"]: row["woman"] for row in tables}
    assert men.keys() == women.keys()
    for prompt, text in men.items():
        words = re.findall(
            r"\w+", text.lower().replace("un puesto", "UN puesto")
        )  # no word of the person
        assert [feminine.get(word, word).lower() for word in words] == re.findall(
            r"\w+", women[prompt].lower()
        )
        assert re.match(r"(Este|Aquel|Mi|Nuestro|El|Un) ", text)
        assert re.match(r"(Esta|Aquella|Mi|Nuestra|La|Una) ", women[prompt])


def scores(rows, seed, **planted):
    """Scores with a share of each name and profession, and what is planted for a race or gender."""
    rng = np.random.default_rng(seed)
    score = np.full(len(rows), 0.5)
    for column, sd in (("template", 0.05), ("condition", 0.08)):
        codes, items = pd.factorize(rows[column])
        score += rng.normal(0, sd, len(items))[codes]
    for level, size in planted.items():
        score += size * (rows["race"].eq(level) | rows["gender"].eq(level))
    return rows.assign(score=score + rng.normal(0, 0.03, len(rows)), model_id="m")


@pytest.fixture(scope="module")
def rows():
    table = pd.DataFrame(config_rows("group_packs", "occupation_names")).drop(
        columns=["text", "candidates"]
    )
    return table[table["condition"].isin(table["condition"].unique()[:4])].reset_index(drop=True)


def primary_findings(table):
    study = load_study("group_packs")
    experiment = study.experiments[0].changed(shows={"levels": ()})
    findings = disaggregate(
        table, study.changed(experiments=(experiment,)), expected={}, robustness=False
    )
    return [finding for finding in findings if finding.primary]


def test_names_by_chance_and_planted_gap(rows):
    """Names that differ by chance are seldom a finding and a planted gap of race is: the names vary
    here so much that an interval without them would reject nearly always."""
    found = [primary_findings(scores(rows, seed)) for seed in range(20)]
    significant = sum(any(one.estimate.p_adjusted < 0.05 for one in some) for some in found)
    assert significant <= 4  # of 20: more by chance .003
    race = [one.estimate for some in found for one in some if one.contrast.startswith("race")]
    assert len(race) == 20
    assert sum(one.ci_low <= 0 <= one.ci_high for one in race) >= 16
    found = {one.contrast: one for one in primary_findings(scores(rows, 1, black=-0.2))}
    assert found["race: black - white"].estimate.value == pytest.approx(-0.2, abs=0.06)
    assert found["race: black - white"].estimate.p_adjusted < 0.01
    assert found["race: black - white"].cluster_vars == "names + professions"
    assert found["gender: woman - man"].estimate.p_adjusted > 0.05


def test_packs_run_by_name():
    """A pack runs where a user names it and nowhere else."""
    tasks, skipped = plan_tasks(Settings(model="vader"))
    packs = {"group_packs", "spanish_occupations"}
    assert not packs & {task.study.name for task in tasks}
    assert not packs & {one.study for one in skipped}  # nor is a line spent on each
    tasks, _ = plan_tasks(Settings(model="vader", studies=("group_packs:occupation_names",)))
    assert [(task.experiment.name, len(task.rows)) for task in tasks] == [
        ("occupation_names", 3200)
    ]
