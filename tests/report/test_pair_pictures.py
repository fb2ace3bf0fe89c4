"""Pictures of pairs: the distribution of their gaps, their means by level, and their files."""

import base64
import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import pandas as pd
import pytest

from swapbias.report import page_pairs, pair_gaps, pair_pictures, template_text
from swapbias.report.page_template import load_template
from swapbias.studies import load_study


def rows_of_pairs(gaps):
    """Scored rows of nouns and professions, with a gap in points for each."""
    rows = []
    for (template, condition), gap in gaps.items():
        for group, score in (("female", 0.5 + gap / 100), ("male", 0.5)):
            rows.append(
                {
                    "pair_id": f"{template}/{condition}",
                    "group": group,
                    "text": f"{'She' if group == 'female' else 'He'} {template} a {condition}.",
                    "template": template,
                    "condition": condition,
                    "model_id": "toy",
                    "score": score,
                }
            )
    return pd.DataFrame(rows)


def rows_and_texts(gaps):
    """Scored rows, and the words that all texts of a template share."""
    rows = rows_of_pairs(gaps)
    return rows, template_text.texts_of_templates(rows)


@pytest.fixture
def experiment():
    """The experiment of sentences about professions, whose scores are probabilities."""
    (first, *_) = load_study("occupation_sentiment").experiments
    return first


GAPS = {("is", "nurse"): 10, ("is", "cook"): 20, ("met", "nurse"): -4, ("met", "cook"): 0}


def test_pairs_by_level(experiment):
    """The mean gap of a level is that of its pairs, and the largest comes first."""
    (gaps,) = pair_gaps.pairs_of_models(experiment, *rows_and_texts(GAPS))
    levels = pair_gaps.levels_of_factor(gaps, "template", "")
    assert [(level.name, round(level.mean, 6)) for level in levels] == [
        ("… is a ….", 15.0),
        ("… met a ….", -2.0),
    ]
    assert gaps.subtraction == "women minus men"
    assert dict(pair_gaps.factors_with_levels(gaps)) == {
        "template": "noun pairs",
        "condition": "professions",
    }


def test_extreme_pairs_of_two_models(experiment):
    """A pair is of one model: gaps of two models that cancel each other are both shown, with their model."""
    other_gaps = {names: -gap for names, gap in GAPS.items()}
    both = [rows_of_pairs(GAPS), rows_of_pairs(other_gaps).assign(model_id="other")]
    examples = page_pairs.extreme_pairs(experiment, pd.concat(both))
    ends = [(pair["model"], pair["levels"], pair["gap"]) for pair in (examples[0], examples[-1])]
    assert ends == [("other", ["30.0", "50.0"], "−20.0"), ("toy", ["70.0", "50.0"], "+20.0")]


def test_shared_words_of_a_template():
    """The words in all texts stay in order, dots stand for the rest, and no shared word gives none."""
    texts = ["He saw the tall doctor today.", "She saw the nurse today."]
    assert template_text.shared_words(texts) == "… saw the … today."
    assert template_text.shared_words(["Yes.", "No."]) == ""
    assert template_text.shared_words([]) == ""


def test_templates_are_named_without_rewordings():
    """Reworded sentences leave the name of a template as it is, on the page and in its search."""
    (experiment, *_) = load_study("gendered_stigma").experiments
    rows = rows_of_pairs(GAPS)
    reworded = rows.assign(text="Quite another one.", side=rows["group"], group="placebo")
    both = pd.concat([rows, reworded.assign(pair_id=rows["pair_id"] + "/reworded")])
    names = ["… is a ….", "… met a …."]
    texts = template_text.texts_of_templates(both)
    assert [*texts.values()] == names
    tokens = both.assign(top_tokens="[]")
    assert page_pairs.list_pairs(experiment, tokens, texts)["labels"] == {"template": names}


def test_picture_has_a_bar_for_each_gap(experiment):
    """Every gap is in a bar at its place, and the file is the same picture as an SVG."""
    (drawn,) = pair_pictures.pictures_of_pairs(experiment, *rows_and_texts(GAPS), "here")
    svg = ElementTree.fromstring(drawn.distribution.svg)
    bars = [float(bar.get("x")) for bar in svg.iter("rect")]
    assert len(bars) == 4  # four gaps, all different
    zero = float(next(line for line in svg.iter("line") if line.get("class") == "zero").get("x1"))
    assert sum(bar + 6.8 < zero for bar in bars) == 1  # one pair below zero
    content = base64.b64decode(drawn.distribution.svg_file.partition("base64,")[2]).decode()
    file = ElementTree.fromstring(content)
    namespace = "{http://www.w3.org/2000/svg}"
    assert [float(bar.get("x")) for bar in file.iter(f"{namespace}rect")] == bars
    assert "women minus men, points" in drawn.distribution.svg


def test_table_of_pairs_is_downloaded(experiment):
    """The CSV has both scores and the gap of each pair in points."""
    (drawn,) = pair_pictures.pictures_of_pairs(experiment, *rows_and_texts(GAPS), "here")
    content = base64.b64decode(drawn.csv_file.partition("base64,")[2]).decode()
    table = pd.read_csv(io.StringIO(content)).set_index("pair_id")
    assert table.loc["is/cook", ["women", "men", "women minus men"]].tolist() == [70, 50, 20]
    assert table["template"].tolist() == ["is", "is", "met", "met"]


def test_headings_keep_capitals(experiment):
    """A heading begins with a capital, and the capitals of a group's name stay."""
    (drawn,) = pair_pictures.pictures_of_pairs(experiment, *rows_and_texts(GAPS), "here")
    drawn = replace(drawn, scatter=replace(drawn.scatter, title="texts with HIV against AIDS"))
    template = load_template("pair_pictures.html.j2").module
    page = template.pair_pictures({"pictures": [drawn], "place": "here"})
    assert "<summary>Texts with HIV against AIDS" in page


def test_table_of_pairs_has_no_formula(experiment):
    """A template that a spreadsheet would compute is a text in the CSV."""
    gaps = {("=1+1", "nurse"): 10, ("=1+1", "cook"): 20, ("met", "nurse"): -4}
    (drawn,) = pair_pictures.pictures_of_pairs(experiment, *rows_and_texts(gaps), "here")
    content = base64.b64decode(drawn.csv_file.partition("base64,")[2]).decode()
    table = pd.read_csv(io.StringIO(content))
    assert table["template"].tolist() == ["'=1+1", "'=1+1", "met"]
    assert table["pair_id"].tolist() == ["'=1+1/nurse", "'=1+1/cook", "met/nurse"]


def test_equal_gaps_have_no_picture(experiment):
    """Where all pairs have the same gap, nothing is drawn."""
    same = dict.fromkeys(GAPS, 3)
    assert pair_pictures.pictures_of_pairs(experiment, *rows_and_texts(same), "here") == []


def test_gaps_equal_but_for_rounding(experiment):
    """Gaps that differ by the rounding of their scores alone have no picture."""
    rows = rows_of_pairs({**dict.fromkeys(GAPS, 3), ("met", "cook"): 3 + 1e-11})
    (gaps,) = pair_gaps.pairs_of_models(experiment, rows, {})
    assert gaps.pairs["gap"].nunique() > 1
    assert pair_pictures.pictures_of_pairs(experiment, rows, {}, "here") == []


def test_texts_in_pictures_are_escaped():
    """A name of a level that looks like HTML stays a text."""
    (experiment, *_) = load_study("gendered_stigma").experiments
    gaps = {("<b>is</b>", "nurse"): 10, ("<b>is</b>", "cook"): 20, ("met", "nurse"): -4}
    rows = rows_of_pairs(gaps).assign(label="mental_health")
    (drawn,) = pair_pictures.pictures_of_pairs(experiment, rows, {}, "here")
    (by_template,) = drawn.breakdowns  # diagnoses have a chart with intervals already
    assert by_template.title == "by templates, mental-health conditions"
    assert "<b>" not in by_template.picture.svg
    assert re.search(r"&lt; ?b ?&gt;", by_template.picture.svg)


def test_unscored_pairs_have_no_picture(experiment):
    """Where one group of each pair has no score, there is no pair and nothing is drawn."""
    rows = rows_of_pairs(GAPS)
    rows.loc[rows["group"] == "male", "score"] = float("nan")
    assert pair_gaps.pairs_of_models(experiment, rows, {}) == []
    assert pair_pictures.pictures_of_pairs(experiment, rows, {}, "here") == []
