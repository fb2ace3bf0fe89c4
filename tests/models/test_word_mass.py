"""Prompts of users and packs count every listed word at the mask; a study with a threshold
counts likely words."""

import math

import pandas as pd
import pytest
import torch

import swapbias
from swapbias.models import load_scorer
from swapbias.report import cautions, render_terminal
from swapbias.studies import config_rows, load_corpus, load_lexicon, load_study
from tests import tiny

TEXTS = [
    f"<mask> {verb} {thing}."
    for verb in ("found", "sold", "saw")
    for thing in ("it", "a house", "that", "this")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("bert"))


def plant_mass(folder, name, mass):
    """A masked model that gives ``mass`` at every blank, and spreads the rest over tokens that are no words.

    ``mass``: probabilities by word; each varies a little from text to text.
    """
    scorer = load_scorer(str(folder))
    others = [place for place, word in enumerate(scorer.words) if word not in mass][:200]

    def probabilities(encoded):
        rows = torch.zeros(len(encoded), len(scorer.words), dtype=torch.float64)
        for row, ids in zip(rows, encoded, strict=True):
            for word, p in mass.items():
                row[scorer.words.index(word)] = p * (1 + 0.001 * (sum(ids) % 7))
            row[others] = (1 - row.sum()) / len(others)
        return rows.float()

    return scorer._changed(model_id=name, batch_probabilities=probabilities)


def words_of(folder, count):
    """Return a number of words of the tiny vocabulary for each of two groups."""
    vocabulary = [
        word for word in load_scorer(str(folder)).words if word.isalpha() and len(word) > 2
    ]
    assert len(set(vocabulary)) >= 2 * count
    unique = list(dict.fromkeys(vocabulary))
    return unique[:count], unique[count : 2 * count]


def audited(folder, tmp_path, female, male, **options):
    scorer = plant_mass(folder, "planted", {**female, **male})
    lexicon = tmp_path / "words.csv"
    rows = [
        f"{word},{group}" for group, own in (("female", female), ("male", male)) for word in own
    ]
    lexicon.write_text("\n".join(["word,group", *rows]) + "\n")
    table = pd.DataFrame({"text": TEXTS, "template": TEXTS})
    return swapbias.audit(
        scorer, prompts=table, reference="male", lexicon=lexicon, progress=False, **options
    )


def test_many_rare_words(folder, tmp_path):
    """A gap of many rare words is found in prompts of a user: forty words of .75 % are 30 points,
    of which a threshold of 1 % would leave nothing."""
    hers, his = words_of(folder, 40)
    run = audited(folder, tmp_path, dict.fromkeys(hers, 0.0075), dict.fromkeys(his, 0.0001))
    one = run.findings.query("primary").iloc[0]
    assert one["value"] == pytest.approx(0.296, abs=0.002)
    assert one["verdict"] == "gap"
    with pytest.raises(AssertionError):
        run.assert_below(0.05)
    items = run.items("prompts")
    assert (items["score"] == items["closed_list_mass"]).all()


def test_rare_words_and_log_odds(folder, tmp_path):
    """Rare words have a gap and log-odds beside it: .0002 and .0021 are 10.5 to 1 at a small gap in
    points."""
    (hers,), (his,) = words_of(folder, 1)
    run = audited(folder, tmp_path, {hers: 0.0021}, {his: 0.0002})
    gaps = [
        one
        for one in run.found
        if (one.measure, one.slice_by, one.view) == ("paired_gap", "all", "")
    ]
    by_score = {one.score: one for one in gaps}
    assert by_score["score"].verdict != "not measured"
    assert by_score["score"].estimate.value == pytest.approx(0.0019, rel=0.01)
    odds = math.log(0.0021 / (1 - 0.0021)) - math.log(0.0002 / (1 - 0.0002))
    assert by_score["log_odds"].estimate.value == pytest.approx(odds, abs=1e-3)
    assert by_score["log_odds"].scale.ratio_of.noun == "odds"
    assert "log-odds in place of probabilities" in run.report().read_text()


def test_thresholds_of_lexicons():
    """Packs count every word, and gendered_stigma those from 1 % on."""
    of_packs = [load_lexicon(f"group_packs/{name}") for name in load_corpus("group_packs").lexicons]
    assert {one.threshold for one in of_packs} == {0.0}
    assert load_lexicon("gendered_stigma/rq1").threshold == 0.01
    assert {one.reads.word_threshold for one in load_study("group_packs").experiments} == {0.0}
    masked = [one for one in load_study("group_packs").experiments if one.kind == "masked"]
    assert {one.shows.scores for one in masked} == {("score", "log_odds", "matched_mass")}


@pytest.mark.parametrize(("rare", "differs"), [(0.3, True), (0.04, False)])
def test_whole_mass_beside_threshold(rare, differs):
    """A study with a threshold warns where the whole mass has another gap, by 30 points and not by
    4, which is within the margin."""
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1")).drop(columns="candidates")
    noise = rows["text"].str.len() % 7 / 500 * (rows["group"] == "female")
    moved = (rows["group"] == "female") & (rows["label"] == "mental_health")
    scores = rows.assign(experiment="rq1", model_id="m", score=0.2 + noise)
    scores = scores.assign(
        closed_list_mass=scores["score"] + rare * moved, matched_mass=scores["score"]
    )
    found = swapbias.disaggregate(scores, "gendered_stigma")
    text = "This study does not count words below 1 % at the blank. With every listed word the gap is +29.9 points"
    assert (text in " ".join(render_terminal(found, verbose=True).split())) == differs
    (primary,) = [one for one in found if one.primary]
    assert any(one.startswith(text) for one in cautions.list_cautions(primary, found)) == differs
