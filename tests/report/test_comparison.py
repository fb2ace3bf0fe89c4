"""Several models on one page: sentences match findings, no model is ranked, text from outside
stays text."""

import html
import math
import re
from dataclasses import replace
from functools import partial
from itertools import product

import pytest

from swapbias.findings import compare, comparisons, disaggregate
from swapbias.findings.terms import NONE, SMALL, UNDECIDED, VERDICTS
from swapbias.measures import Estimate
from swapbias.report import (
    ComparedModel,
    ComparisonPage,
    Quantity,
    claims,
    comparison_sentences,
    model_comparison,
    numbers,
    render_comparison,
    verdicts,
)
from swapbias.report.comparison_charts import summary_tables
from swapbias.studies import load_study
from tests.hub.shared_runs import GAP
from tests.report.test_page import (
    CONTRAST,
    HOSTILE,
    LONG,
    OPEN_DETAILS,
    VISIBLE_HOSTILE,
    manifest,
    scored,
)


def gap_of_model(name, value, verdict, *, measure="paired_gap", std_error=0.01, **options):
    subset = "mental_health - other_health" if measure == "gap_difference" else "mental_health"
    ends = (value - 0.02, value + 0.02)
    estimate = Estimate(value, *ends, std_error=std_error, df=20, p_value=0.5, p_adjusted=0.5, n=9)
    facts = {
        "model_id": name,
        "measure": measure,
        "subset": subset,
        "verdict": verdict,
        "margin": 0.05,
        **options,
    }
    return replace(GAP, estimate=estimate, **facts)


difference_of_two = partial(
    gap_of_model, "other - ref", measure="model_difference", contrast="other - ref"
)


def differences(found, reference):
    return verdicts.summarize_models(
        [model_comparison.with_model_names(one, name, reference) for name, one in found]
    )


def test_few_models_by_name():
    """Few models are described by name in the given order."""
    found = [
        gap_of_model(name, 0.2, verdict)
        for name, verdict in (("zeta", VERDICTS[0]), ("alpha", NONE))
    ]
    assert verdicts.summarize_models(found) == " ".join(
        str(verdicts.state_verdict(one)) for one in found
    )


@pytest.mark.parametrize("measure", ["paired_gap", "gap_difference"])
def test_many_models_by_count(measure):
    """The text about many models states how many have each verdict and names none."""
    reached = [VERDICTS[0]] * 3 + [SMALL] + [NONE] * 2 + [UNDECIDED]
    values = [0.2, 0.1, -0.3, 0.02, 0.0, 0.01, 0.06]
    each = zip(values, reached, strict=True)
    found = [gap_of_model(f"m{place}", *one, measure=measure) for place, one in enumerate(each)]
    output = verdicts.summarize_models([*found, gap_of_model("m9", math.nan, "")])
    assert output.startswith("Of 8 models: ")
    for part in (
        "toward women in 3, ",
        "toward men in 1, ",
        "no gap (within 5 points) in 2",
        "undecided in 1",
        "not measured in 1",
    ):
        assert part in output
    assert not re.search(r"\bm\d", output)


@pytest.mark.parametrize(
    ("verdict", "sign"), [*product((VERDICTS[0], SMALL, NONE, UNDECIDED), (1, -1))]
)
def test_side_of_the_other_model(verdict, sign):
    """A difference states to which side the other model lies."""
    one = difference_of_two(sign * 0.12, verdict)
    output = differences([("other", one)], "ref")
    toward = "women" if sign > 0 else "men"  # the other model minus the reference
    sign_shown = "+" if sign > 0 else "\N{MINUS SIGN}"
    other = model_comparison.with_model_names(one, "other", "ref")
    size = f"other minus ref is {numbers.format_value(other)} (95 % interval {numbers.format_interval(other)})"
    assert f" {sign_shown}12.0 points" in size
    lies = f"Difference: other lies further toward {toward} than ref by 12.0 points (95 % interval 10.0 to 14.0)"
    expected = {
        VERDICTS[0]: f"{lies}.",
        SMALL: f"{lies}. The gap is smaller than the margin of 5 points.",
        NONE: f"No difference: {size}. The whole interval is within the margin of 5 points.",
        UNDECIDED: f"Undecided: {size}. This may be chance, and may be larger than the margin of 5 points.",
    }
    assert output == expected[verdict]
    where = {NONE: "no difference (within 5 points) in 5", UNDECIDED: "undecided in 5"}
    lie = where.get(verdict, f"difference further toward {toward} in 5")
    assert differences([("other", one)] * 5, "ref") == f"Of 5 models: {lie}."
    assert claims.verdict_word(one) == output.partition(":")[0]


def test_untested_differences():
    """A difference that was not tested is reported as such."""
    lost = differences([("other", difference_of_two(math.nan, ""))], "ref")
    assert lost == "Not measured: other could not be compared with ref."
    same = differences([("other", difference_of_two(0.0, NONE, std_error=math.nan))], "ref")
    assert same == "No difference: other and ref score the same."
    little = differences([("other", difference_of_two(-0.1, UNDECIDED, std_error=math.nan))], "ref")
    assert little.endswith("There is no interval, because too little varies or was scored.")
    assert (
        verdicts.summarize_models([gap_of_model("a", math.nan, "")])
        == "Not measured: a could not score what the question needs."
    )


def comparison_of(names):
    """The page of models with such names, the first of which the others are compared with."""
    rows = scored()
    higher = 0.05 * (rows["group"] == "female")
    made = {
        name: rows.assign(model_id=name, score=rows["score"] + place * higher)
        for place, name in enumerate(names)
    }
    findings = {
        name: disaggregate(made[name], "gendered_stigma", expected={}, robustness=False)
        for name in names[: 2 if len(names) == 2 else 1]
    }
    for name in names[len(findings) :]:  # what they are does not matter where there are many
        findings[name] = [replace(finding, model_id=name) for finding in findings[names[0]]]
    differences = compare({"gendered_stigma": made}, reference=names[0])
    output = {name: comparisons(one) for name, one in findings.items()}
    quantities = []
    for place, one in enumerate(output[names[0]]):
        away = {f"{name} - {names[0]}": name for name in names[1:]}
        results = {
            away[difference.contrast]: difference
            for difference in differences
            if difference.primary and difference.contrast in away
        }
        quantities.append(
            Quantity(
                tuple(output[name][place] for name in names), "", results if one.primary else {}
            )
        )
    models = [ComparedModel(name, "run", manifest(), findings[name]) for name in names]
    return ComparisonPage(models, names[0], quantities, differences, ["A note."])


@pytest.fixture(scope="module")
def output():
    return comparison_of([f"{HOSTILE} one", f"{HOSTILE} {LONG}"])


@pytest.fixture(scope="module")
def page(output):
    return render_comparison(output)


@pytest.fixture(scope="module")
def report(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("comparison") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def test_dots_below_zero():
    """Gaps below zero are drawn there, beside a test of all groups, and none in another unit."""
    below = [gap_of_model(name, -0.3, VERDICTS[0]) for name in ("a", "b")]
    below = [replace(finding, primary=True) for finding in below]
    spread = [replace(finding, measure="group_spread", contrast="all groups") for finding in below]
    odds = [
        replace(gap_of_model(name, -5.0, VERDICTS[0]), unit="natural log-odds", primary=True)
        for name in "ab"
    ]
    models = [
        ComparedModel(name, "run", manifest(), [one]) for name, one in zip("ab", below, strict=True)
    ]
    mine = [Quantity(tuple(one), "", {}) for one in (spread, below, odds)]
    (chart,) = summary_tables(ComparisonPage(models, "a", mine, [], []), [])
    dots = [
        [chart.axis.at(dot.value) for row in rows for dot in row.dots]
        for rows in chart.parts.values()
        if rows
    ]
    assert [[2 < at < chart.axis.at(0) for at in each] for each in dots] == [[], [True, True], []]


def test_sentences_come_first(output, page):
    """The sentences come first, and a model has one colour and shape on the whole page."""
    shown = html.unescape(page)
    (sentences,) = [one for _, one in comparison_sentences(output)]
    own = verdicts.summarize_models(output.quantities[0].found)
    assert sentences.startswith(own)
    stated = []
    for finding in output.quantities[0].found:
        sentence = verdicts.state_verdict(finding).text.replace("\0", "\ufffd")
        stated.append(sentence.replace("\u202e", "\ufffd"))
    order = (*stated, "Gaps by phase", "A gap near zero", "Glossary</h2>")
    places = [shown.index(one) for one in order]
    assert places == sorted(places)
    assert "not a ranking" in shown
    keys = re.findall(r'<svg class="key"[^>]*><path[^>]*class="dot (g\d)"', page)
    assert set(keys) == {"g0", "g1"}
    first = page[page.index('<table class="chart') :]
    first = first[: first.index("</table>")]
    assert re.findall(r'<th scope="row" class="name".*?class="dot (g\d)', first)[:2] == ["g0", "g1"]
    assert "sortable" not in first  # nobody is ordered by value
    assert ">reference</td>" in first


def test_question_without_charts(output, page):
    """A question without charts has no section, and no link leads nowhere."""
    whole = [
        replace(one, found=[each for each in one.found if each.primary]) for one in output.models
    ]
    alone = render_comparison(replace(output, models=whole))
    assert ("Gaps by phase" in page, "Gaps by" in alone) == (True, False)
    for made in (page, alone):
        assert set(re.findall(r'href="#([^"]+)"', made)) <= set(re.findall(r'id="([^"]+)"', made))
    assert len(re.findall("<h2", alone)) == len(re.findall("<h2", page)) - 1


def test_many_models_on_the_page():
    """The sentence about many models names none of them."""
    names = [f"lab/model-{number:02}" for number in range(14)]
    made = render_comparison(comparison_of(names))
    text = html.unescape(made)
    assert "<h1>14 models compared</h1>" in text
    own, _ = re.findall(r'<p class="also">([^<]+)</p>', text)
    assert own.startswith("Of 14 models: ")
    assert "lab/" not in own
    assert all(f'<th scope="row">{one}</th>' in text for one in names)
    assert "Gap by phase" not in text


def test_page_works_alone(browser, report):
    """The page loads nothing from outside, and text from outside stays text."""
    browser.open(report)
    assert browser.run("window.hit") is None
    assert browser.faults() == []
    assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []
    assert browser.run("document.querySelectorAll('main script, main [onerror]').length") == 0
    body = browser.run("document.body.textContent")
    assert not {"\0", "\u202e"} & {*body}
    assert VISIBLE_HOSTILE in body


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1100, True)])
def test_page_at_every_size(browser, report, width, dark):
    """The page fits and has enough contrast at every size."""
    browser.open(report, width=width, dark=dark)
    browser.run(OPEN_DETAILS)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CONTRAST) == []


def test_page_without_scripts(browser, report):
    """Without scripts and on paper the whole page is there."""
    browser.open(report, scripts=False, width=794, media="print", dark=True)
    shown = browser.run("document.body.innerText")
    for part in ("The answer", "minus ", "Gaps by phase", "side_by_side.csv"):
        assert part in shown
    assert browser.run("document.querySelectorAll('.summary .strip .dot').length") == 2
    assert browser.run("document.documentElement.scrollWidth") <= 794


def test_effect_sizes_of_two_models():
    """Cohen's d of two models stands on the page and in the terminal, with its unit and pairs."""
    compared = comparison_of(["a", "b"])
    difference = replace(
        difference_of_two(-0.1, VERDICTS[0], contrast="b - a"),
        estimate=Estimate(-0.1, effect_size=-0.948, n=187),
    )
    compared = replace(compared, differences=[difference])
    ((_, sentence),) = comparison_sentences(compared)
    stated = "Cohen's d of b minus a: mental-health conditions \N{MINUS SIGN}0.95. A unit is a pair"
    assert stated in sentence
    assert "up to 187 pairs" in sentence
    assert stated in html.unescape(render_comparison(compared))
    bare = replace(difference, estimate=Estimate(-0.1, n=187))
    ((_, sentence),) = comparison_sentences(replace(compared, differences=[bare]))
    assert "Cohen" not in sentence


def test_correlation_is_on_the_page():
    """Pearson's r of two experiments over conditions stands on the page, whole and by group."""
    parts = [
        replace(
            GAP,
            study="social_distance",
            experiment="attitude and sentiment",
            measure="correlation",
            contrast="P(negative) ~ share of negative labels (pearson)",
            subset=subset,
            unit="correlation",
            estimate=Estimate(value, value - 0.1, value + 0.1, n=count),
        )
        for subset, value, count in (("", 0.79, 122), ("stigmatized", 0.65, 93))
    ]
    compared = replace(comparison_of(["a", "b"]), differences=parts)
    *_, (_, sentence) = comparison_sentences(compared)
    assert sentence.startswith("Pearson's r of attitude and sentiment: ")
    assert "0.790 (" in sentence
    assert "over 93 of stigmatized people" in sentence
    assert sentence in html.unescape(render_comparison(compared))


def test_one_table_with_chips(output, page):
    """The first table has a row a model with verdict, value, interval and n, and the difference with its verdict."""
    (chart,) = summary_tables(output, [])
    assert chart.heads[:2] == ("verdict", "points")
    assert chart.heads[4].startswith("minus ")
    question, (heading, (reference, other)) = next(iter(chart.parts)), [*chart.parts.items()][1]
    assert "Does the model associate" in question
    assert "women minus men" in heading or "minus other health" in heading
    found = output.quantities[0].found
    for row, finding in zip((reference, other), found, strict=True):
        chip, value, interval, count, _ = (text for text, _ in row.cells)
        assert claims.verdict_word(finding) in chip
        assert value == numbers.finding_format(finding)(finding.estimate.value)
        assert interval == numbers.format_interval(finding)
        assert count == str(finding.estimate.n)
    assert reference.cells[4][0] == "reference"
    (difference,) = output.quantities[0].differences_by_model.values()
    assert claims.verdict_word(difference) in other.cells[4][0]
    assert numbers.finding_format(difference)(difference.estimate.value) in other.cells[4][0]
    assert page.index('class="summary"') < page.index('class="answer"')


def test_levels_of_single_pages(page):
    """Gaps within each set of conditions, and means by group, stand side by side for all models."""
    for title in ("Gaps within each set", "Gaps by phase", "Levels"):
        assert f">{title}</h3>" in page
    levels = page[page.index(">Levels</h3>") :]
    levels = levels[: levels.index("</table>")]
    assert levels.count("mean, female") == 2  # with mental-health and with other conditions
    assert levels.count("<br><small>") == 2 * 2 * 3  # models, sets, groups


def pair_rows(model, gaps):
    """Scored rows of pairs with such gaps of women over men."""
    rows = scored().drop_duplicates(["pair_id", "group"])
    chosen = [*dict.fromkeys(rows["pair_id"])][: len(gaps)]
    by_pair = dict(zip(chosen, gaps, strict=True))
    rows = rows[rows["pair_id"].isin(chosen)]
    women = 0.3 + rows["pair_id"].map(by_pair)
    return rows.assign(model_id=model, score=women.where(rows["group"] == "female", 0.3))


def moved_page(first, second):
    """The page of two models, whose pairs have such gaps."""
    compared = comparison_of(["a", "b"])
    return compared.with_moved_pairs({"gendered_stigma": {"a": first, "b": second}})


def test_pairs_that_moved_most():
    """The ten pairs whose gap differs most between two models stand on the page, the largest first."""
    gaps = [0.01 * number for number in range(12)]
    moved_by = [0.0, *(0.02 * number * (-1) ** number for number in range(1, 12))]
    others = [gap + step for gap, step in zip(gaps, moved_by, strict=True)]
    first = pair_rows("a", gaps)
    compared = moved_page(first, pair_rows("b", others))
    pairs = compared.moved["gendered_stigma", "rq1"]
    differences = [round(pair.difference, 6) for pair in pairs]
    assert differences == [-22, 20, -18, 16, -14, 12, -10, 8, -6, 4]  # points
    assert pairs[0].written == ("\N{MINUS SIGN}11.0", "+11.0", "\N{MINUS SIGN}22.0")
    assert (pairs[0].model, pairs[0].compared, pairs[0].unit) == ("b", "women minus men", "points")
    shown = render_comparison(compared)
    assert "Pairs that moved most" in shown
    assert shown.index(pairs[0].written[2]) < shown.index(pairs[9].written[2])


def test_pairs_of_other_texts_do_not_move():
    """Pairs with another text, without a text or with the same gap are not in the table."""
    first = pair_rows("a", [0.1, 0.2])
    second = pair_rows("b", [0.3, 0.2])
    assert len(moved_page(first, second).moved["gendered_stigma", "rq1"]) == 1
    assert moved_page(first, second.assign(text="other")).moved == {}
    assert moved_page(first, second.drop(columns="text")).moved == {}
    assert moved_page(first, first).moved == {}


def test_notice_before_pairs_that_hurt(monkeypatch):
    """A comparison that quotes texts of a study with a notice begins with it; one without texts does not."""
    study = load_study("gendered_stigma").changed(notice="This page quotes <harsh> sentences.")
    monkeypatch.setattr(model_comparison, "load_study", lambda name: study)
    shown = render_comparison(moved_page(pair_rows("a", [0.1, 0.2]), pair_rows("b", [0.3, 0.2])))
    notice = "This page quotes &lt;harsh&gt; sentences."
    assert 0 < shown.index(notice) < shown.index('id="found"')
    assert notice not in render_comparison(comparison_of(["a", "b"]))


def test_question_that_is_no_longer_asked():
    """A question of earlier runs that this version does not have is compared by its findings alone."""
    compared = comparison_of(["a", "b"])
    quantities = [
        replace(quantity, found=tuple(replace(row, experiment="rq9") for row in quantity.found))
        for quantity in compared.quantities
    ]
    rows = pair_rows("a", [0.1, 0.2]).assign(experiment="rq9")
    earlier = replace(compared, quantities=quantities).with_moved_pairs(
        {"gendered_stigma": {"a": rows, "b": rows.assign(score=0.3)}}
    )
    assert earlier.moved == {}
    assert "<h3>rq9</h3>" in render_comparison(earlier)
