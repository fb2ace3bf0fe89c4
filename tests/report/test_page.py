"""The report answers in words first, works alone, and shows text from outside as text."""

import html
import inspect
import json
import math
import os
import re
import zlib
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.findings import Finding, disaggregate, primary_findings
from swapbias.measures import CLASSES, MEASURES, Estimate
from swapbias.report import (
    cautions,
    claims,
    finding_charts,
    finding_names,
    gate_text,
    meanings,
    numbers,
    page as report_page,
    render,
    render_terminal,
    state_verdicts,
    terminal_text,
    undecided,
    verdicts,
)
from swapbias.report.finding_charts import answer_tables, rate_charts, slice_charts
from swapbias.studies import config_rows, load_study
from tests.conftest import ROOT

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\u202eright\0left'
VISIBLE_HOSTILE = HOSTILE.replace("\0", "\ufffd").replace("\u202e", "\ufffd")
LONG = "w" * 10_000
EXPERIMENT = load_study("gendered_stigma").experiments[0]
SECTION_ID = "gendered_stigma.rq1"
AXE = Path(os.environ.get("SWAPBIAS_AXE") or ROOT / "build/node/node_modules/axe-core/axe.min.js")


def scored():
    """Some rows of rq1, of which women get .1 less, with hostile names and texts among them."""
    rows = pd.DataFrame(config_rows("gendered_stigma", "rq1"))
    chosen = list(dict.fromkeys(rows["template"]))[::4], list(dict.fromkeys(rows["condition"]))[::3]
    rows = rows[rows["template"].isin(chosen[0]) & rows["condition"].isin(chosen[1])].reset_index(
        drop=True
    )
    level = rows["group"].map({"female": 0.2, "male": 0.3, "unspecified": 0.1})
    wave = [0.01 * math.sin(row) for row in range(len(rows))]
    tokens = json.dumps([[HOSTILE, 0.4], ["she", 0.2]])
    rows = rows.assign(model_id=HOSTILE, score=level + wave, top_tokens=tokens, answer=HOSTILE)
    rows["text"] = rows["text"].where(
        rows["template"] != chosen[0][0], rows["text"] + " " + HOSTILE
    )
    rows["text"] = rows["text"].where(rows["template"] != chosen[0][1], rows["text"] + " " + LONG)
    return rows.assign(condition=rows["condition"].replace(chosen[1][0], HOSTILE))


def manifest():
    return {
        "swapbias": "1",
        "status": "complete",
        "credentialed": False,
        "started": "2026-01-01T00:00:00",
        "finished": "2026-01-01T00:00:00",
        "settings": {"model": HOSTILE, "load": {"device": HOSTILE}, "notes": {}, "chat": None},
        "models": [{"model_id": HOSTILE, "kind": "masked"}],
        "versions": {"python": HOSTILE},
        "corpora": [{"corpus": "gendered_stigma", "config": HOSTILE, "rows": 1, "sha256": "0"}],
        "skipped": [{"study": "x", "experiment": HOSTILE, "reason": HOSTILE}],
    }


@pytest.fixture(scope="module")
def rows():
    return scored()


@pytest.fixture(scope="module")
def page_findings(rows):
    page_findings = disaggregate(rows, "gendered_stigma", expected={})
    bounds = {"missing_data_low": -0.2, "missing_data_high": 0.3}
    return [replace(finding, **bounds) if finding.primary else finding for finding in page_findings]


@pytest.fixture(scope="module")
def page(rows, page_findings):
    coverage = pd.DataFrame(
        {"lexicon": [HOSTILE], "label": ["a"], "word": [HOSTILE], "in_vocabulary": [False]}
    )
    return render(manifest(), page_findings, {"gendered_stigma": rows}, coverage)


@pytest.fixture(scope="module")
def report(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def broken_down(tmp_path_factory):
    """A page of notes and answers: rates and classes."""
    page_findings = [
        rate(name, 0.1, HOSTILE, higher_group=HOSTILE)
        for name in ("flip_rate", "tpr_difference", "macro_f1")
    ]
    mean = replace(
        rate("mean", 50.0, "baseline"),
        study="adjective_coreference",
        experiment="answers",
        contrast="pro",
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    findings = render(
        manifest(), [*page_findings, mean], {"adjective_coreference": answered()}, pd.DataFrame()
    )
    path.write_text(findings, encoding="utf-8")
    return path


def test_answer_comes_first(page, page_findings, rows):
    """The answer comes first, and the terminal has the same sentence."""
    (primary,) = primary_findings(page_findings)
    text = html.unescape(page)
    out = " ".join(render_terminal(page_findings).split())
    for verdict in (sentences := state_verdicts([primary], page_findings)):
        assert text.index(f"{verdict.text}</p>") < text.index(f"<h2>{EXPERIMENT.question}")
        assert " ".join(f"{verdict.word.upper()} {verdict.text}".split()) in out
    assert cautions.describe_certainty(primary) in text
    answers = text[text.index('class="answer"') :]
    assert answers.count('<span class="v ') == len([one for one in sentences if one.word])
    assert f"{len(rows):,} prompts from {rows['template'].nunique()} templates" in text
    assert all(
        part in text and part in out for part in cautions.list_cautions(primary, with_range=False)
    )
    details = " ".join(render_terminal(page_findings, verbose=True).split())
    for part in (cautions.describe_certainty(primary), *cautions.list_cautions(primary)):
        assert part in details
    strange = render_terminal([replace(primary, slice_by="phenotype", slice_value="\x1b[2Jgone")])
    assert "[2Jgone" in strange
    assert "\x1b" not in strange


def test_notice_before_texts_that_hurt():
    """A page that quotes hateful texts says so before its answer; a page without texts does not."""
    scored_rows = pd.DataFrame(config_rows("hatecheck", "false_alarms")).assign(
        model_id="made", top_tokens="", answer=""
    )
    scored_rows["score"] = scored_rows["text"].str.len() % 2.0
    found = disaggregate(scored_rows, "hatecheck", robustness=False)
    notice = load_study("hatecheck").notice
    with_texts = render(manifest(), found, {"hatecheck": scored_rows}, pd.DataFrame())
    assert 0 < with_texts.index(notice) < with_texts.index('id="found"')
    assert notice not in render(manifest(), found, {}, pd.DataFrame())


def test_gaps_by_slice(page):
    """Gaps stand by slice, with the same gap counted in other ways."""
    assert {f"{SECTION_ID}.gaps-by-phase", f"{SECTION_ID}.gaps-by-diagnosis"} <= {
        *re.findall(r'<h3 id="([^"]+)"', page)
    }
    gaps = page[page.index("Gaps by phase") : page.index("Gaps by diagnosis")]
    assert gaps.count("<tr><th") == 1 + 3 * gaps.count(
        'scope="rowgroup"'
    )  # a head, three phases of every set
    changed = page[
        page.index(f'id="{SECTION_ID}.sensitivity"') : page.index("Pairs that differ most")
    ]
    assert "Whichever one template or condition is left out, the value is" in changed
    assert "Counting missing answers either way" in changed
    assert "the paper's test, which treats prompts as independent" in html.unescape(changed)
    assert page.count("<details") == 9 + 3  # and three tables of the paper


def test_scored_prompts_in_the_page(page, rows):
    """Every scored prompt is in the page."""
    (packed,) = re.findall(r"data:application/zlib;base64,([^<]+)<", page)
    pairs = json.loads(zlib.decompress(b64decode(packed)))
    assert sum(len(entry[1]) for entry in pairs["entries"]) == len(rows)
    assert set(pairs["values"]["text"]) == set(rows["text"])


def test_too_many_prompts(rows, page_findings, monkeypatch):
    """Prompts that are too many stay in their folder, and the page tells how to read them."""
    monkeypatch.setattr("swapbias.report.page_pairs.MOST_BYTES", 100)
    made = render(manifest(), page_findings, {"gendered_stigma": rows}, pd.DataFrame())
    parts = ("application/zlib", "too many scored prompts for this page", "pandas.read_parquet")
    assert [part in made for part in parts] == [False, True, True]


def test_content_security_policy(page):
    """Only the scripts of the page itself may run."""
    policy = html.unescape(
        re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    )
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"\seval\(|new Function|innerHTML|insertAdjacent|document\.write", page)
    assert page.count("<script>") == 1


def test_page_works_alone(browser, report):
    """The page loads nothing from outside, and text from outside stays text."""
    browser.open(f"{report}#{SECTION_ID}.pairs?search=onerror")
    browser.wait("document.querySelectorAll('.pair').length > 3")
    assert browser.faults() == []
    assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []
    assert browser.run("window.hit") is None
    strange = "document.querySelectorAll('main script, main img:not([src^=\"data:\"]), main [onerror]').length"
    assert browser.run(strange) == 0
    texts = browser.run(
        "[...document.querySelectorAll('.pair .text')].map((one) => one.textContent)"
    )
    assert all(text.endswith(VISIBLE_HOSTILE) for text in texts)
    assert not {"\0", "\u202e"} & {*browser.run("document.body.textContent")}
    assert (
        browser.run("getComputedStyle(document.querySelector('.pair .text')).unicodeBidi")
        == "isolate"
    )


def test_link_to_pairs(browser, report, rows):
    """A link opens the pairs that it names."""
    condition = next(one for one in rows["condition"] if one != HOSTILE)
    browser.open(f"{report}#{SECTION_ID}.pairs?condition={condition}&order=lowest+gap+first")
    browser.wait("document.querySelector('.pair')")
    wanted = rows[(rows["condition"] == condition)]["pair_id"].nunique()
    assert f"of {wanted} (" in browser.run(
        "document.querySelector('.pairs [role=status]').textContent"
    )
    output = browser.run(
        "[...document.querySelectorAll('.pair strong')].map((one) => one.textContent)"
    )
    gaps = [float(one.removeprefix("gap ").replace("−", "-")) for one in output]
    assert len(gaps) == min(wanted, 25)
    assert gaps == sorted(gaps)
    browser.run("document.querySelector('.pairs input[type=search]').value = 'no such text'")
    browser.run(
        "document.querySelector('.pairs input[type=search]').dispatchEvent(new Event('input'))"
    )
    assert browser.run("document.querySelectorAll('.pair').length") == 0


NAMES_OF_GROUPS = {"white": "Emily", "black": "Lakisha", "latina": "Maria"}
THREE = [
    {"text": f"{name} is late{'.' * number}", "group": group, "pair": str(number)}
    for number in range(1, 9)
    for group, name in NAMES_OF_GROUPS.items()
]


def of_names(texts):
    """Lakisha scores as Emily does, Maria lower by 1 to 8 points."""
    return [0.5 - 0.01 * text.count(".") * text.startswith("Maria") for text in texts]


@pytest.fixture(scope="module")
def page_of_several_groups(tmp_path_factory):
    """The page of an audit of three groups, of which the first contrast has no gap."""
    run = swapbias.audit(
        of_names, prompts=pd.DataFrame(THREE), reference="white", group="", progress=False
    )
    assert list(run.primary["contrast"]) == ["black - white", "latina - white", "all groups"]
    return run.report(tmp_path_factory.mktemp("several") / "report.html")


def test_pairs_of_every_contrast(page_of_several_groups):
    """The pairs that differ most are of every contrast."""
    page = page_of_several_groups.read_text(encoding="utf-8")
    table = page.partition("Pairs that differ most")[2].partition("</section>")[0]
    assert re.search(
        r"<mark>Maria</mark> is late\.{8}.*?latina minus white.*?\N{MINUS SIGN}8\.0", table, re.S
    )
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', table)
    assert heads[:5] == ["sentence", "groups", "first", "second", "gap"]


def test_pairs_of_several_models(rows, page_findings):
    """In a run of several models each of the pairs that differ most has its model."""
    all_rows = pd.concat([rows, rows.assign(model_id="second", score=1 - rows["score"])])
    all_findings = [*page_findings, *(replace(row, model_id="second") for row in page_findings)]
    page = render(manifest(), all_findings, {"gendered_stigma": all_rows}, pd.DataFrame())
    size = f"{len(rows):,} prompts from {rows['template'].nunique()} templates"
    assert size in page  # each prompt once
    table = page.partition("Pairs that differ most</h3>")[2].partition("</table>")[0]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', table)
    assert heads == ["sentence", "model", "women", "men", "gap"]
    assert table.count("<td>second</td>") == 4  # of eight: its gaps are above zero


def test_pair_browser(browser, page_of_several_groups):
    """The pair browser has the gaps of every contrast and marks what differs."""
    place = "prompts.classifier"
    pair = "document.querySelector('.pair')"
    texts = f"(name) => [...{pair}.querySelectorAll(name)].map((one) => one.textContent)"
    browser.open(f"{page_of_several_groups}#{place}.pairs?order=largest+gap+first")
    browser.wait(pair)
    assert browser.run(f"({texts})('strong')") == [
        "gap black minus white 0.0",
        "gap latina minus white \u22128.0",
    ]
    assert browser.run(f"({texts})('mark')") == list(NAMES_OF_GROUPS.values())
    browser.open(
        f"{page_of_several_groups}#{place}.pairs?contrast=latina+minus+white&order=highest+gap+first"
    )
    browser.wait(pair)
    assert browser.run(f"({texts})('strong')") == ["gap latina minus white \u22121.0"]
    assert browser.run(f"({texts})('mark')") == ["Emily", "Maria"]
    browser.open(f"{page_of_several_groups}#{place}.pairs?contrast=black+minus+white")
    browser.wait(pair)
    assert browser.run(f"({texts})('mark')") == ["Emily", "Lakisha"]


def test_picture_of_several_contrasts(page_of_several_groups):
    """A picture of several contrasts is not named after the first."""
    answer = (
        page_of_several_groups.read_text(encoding="utf-8")
        .partition('class="answer"')[2]
        .partition("</table>")[0]
    )
    assert ">groups</th>" in answer
    assert re.findall(r'scope="row"[^>]*>([^<]*)<', answer) == [
        "black minus white",
        "latina minus white",
    ]


def test_sorted_table(browser, report):
    """A table is sorted by its numbers within its parts."""
    browser.open(report)
    table = f"document.getElementById('{SECTION_ID}.gaps-by-diagnosis').nextElementSibling"
    column = (
        f"[...{table}.tBodies[0].rows].slice(1).map((row) => Number(row.cells[2].dataset.number))"
    )
    before = browser.run(column)
    for expected, name in (
        (sorted(before), "ascending"),
        (sorted(before, reverse=True), "descending"),
        (before, None),
    ):
        browser.run(f"{table}.querySelectorAll('thead button')[1].click()")
        assert browser.run(column) == expected
        assert browser.run(f"{table}.tHead.rows[0].cells[2].getAttribute('aria-sort')") == name
    assert browser.run(f"{table}.tBodies[0].rows[0].classList.contains('group')")


def test_page_without_scripts(browser, report):
    """Without scripts sentences, tables and pictures are there."""
    browser.open(report, scripts=False)
    shown = browser.run("document.body.innerText")
    assert "prefers men's words" in shown
    assert "Gaps by phase" not in shown  # folded, and unfolded without scripts
    browser.run("document.querySelector('.question > summary').click()")
    shown = browser.run("document.body.innerText")
    assert "Gaps by phase" in shown
    assert "All pairs: search and filter" not in shown
    assert browser.run("document.querySelectorAll('.strip .dot').length") > 5


OPEN_DETAILS = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
CONTRAST = """(() => {
  const output = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (node) => {
    const colour = output(getComputedStyle(node).backgroundColor);
    return colour.length === 3 || colour[3] === 1 ? colour : ground(node.parentElement);
  };
  const texts = [...document.querySelectorAll('body *')].filter((node) => node.getClientRects().length &&
    [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim()));
  return texts.filter((node) => {
    const style = getComputedStyle(node);
    const both = [output(node instanceof SVGElement ? style.fill : style.color), ground(node)].map(light);
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05) < 4.5;
  }).map((node) => node.outerHTML.slice(0, 120));
})()"""


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (3840, False)])
def test_page_at_every_size(browser, report, width, dark):
    """The page fits and has enough contrast at every size."""
    browser.open(report, width=width, dark=dark)
    browser.run(OPEN_DETAILS)
    browser.wait("document.querySelector('.pair')")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CONTRAST) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_accessibility(browser, report, broken_down, dark):
    """The accessibility checker axe reports nothing."""
    if not AXE.is_file():
        pytest.skip(
            "needs axe-core: make build/node/.ready, which needs npm; or set SWAPBIAS_AXE to an axe.min.js"
        )
    violations = (
        "axe.run().then((output) =>"
        " output.violations.map((one) => [one.id, one.nodes[0].html.slice(0, 200)]))"
    )
    for page in (report, broken_down):
        browser.open(page, dark=dark)
        browser.run(OPEN_DETAILS)
        browser.wait("document.querySelector('.pair')")
        browser.run(AXE.read_text(encoding="utf-8") + "; 0")
        assert browser.run(violations) == []


def test_rates_answers_and_words(browser, broken_down):
    """Rates, answers and words fit and stay text."""
    browser.open(broken_down, width=390)
    browser.run(OPEN_DETAILS)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run(CONTRAST) == []
    assert browser.run("window.hit") is None
    heads = browser.run("[...document.querySelectorAll('h3[id]')].map((one) => one.innerText)")
    assert heads[1:4] == ["Flips", "TPR gap", "Macro F1"]
    words = browser.run(
        "[...document.querySelectorAll('tbody th[scope=row]')].map((one) => one.textContent)"
    )
    assert "pronouns that fit the stereotype" in words
    assert browser.faults() == []


def test_page_on_paper(browser, report):
    """On paper everything is open and uncut."""
    browser.open(report, width=794, media="print", dark=True)
    tables = "[...document.querySelectorAll('details:not(.pairs) table')]"
    assert (
        min(browser.run(f"{tables}.map((one) => one.getBoundingClientRect().height)")) > 50
    )  # in closed boxes
    assert browser.run("document.documentElement.scrollWidth") <= 794
    assert (
        browser.run("getComputedStyle(document.querySelector('thead')).display")
        == "table-header-group"
    )
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_screen_reader(browser, report):
    """A screen reader finds language, headings, tables and links."""
    browser.open(report)
    assert browser.run("document.documentElement.lang") == "en"
    assert browser.run("document.querySelectorAll('main, header, h1').length") == 3

    def each(selector, value):
        return browser.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => {value})"
        )

    assert all(each("table", "!!one.querySelector('th')"))
    assert all(each("svg:not([aria-hidden]):not(svg svg)", "one.getAttribute('aria-label')"))
    assert all(each("img", "one.alt"))
    names = each("[id]", "one.id")
    assert len(set(names)) == len(names)
    links = each("a[href^='#']", "one.getAttribute('href')")
    assert {one.removeprefix("#").partition("?")[0] for one in links} <= {*names}


def uneven(texts):
    rng = np.random.default_rng(len(texts))
    return [0.5 - 0.02 * text.startswith("He ") + rng.normal(0, 0.01) for text in texts]


def constant(texts):
    return [0.5] * len(texts)


def audited(place, model):
    rows = [
        (f"{who} tells story {pair}.", group, pair, f"c{pair % 5}")
        for pair in range(40)
        for who, group in (("She", "f"), ("He", "m"))
    ]
    table = pd.DataFrame(rows, columns=["text", "group", "pair", "condition"])
    swapbias.audit(model, prompts=table, reference="m", out=place, progress=False)
    gate = CliRunner().invoke(app, ["check", str(place)], env={"GITHUB_ACTIONS": ""})
    return (
        (place / "findings.csv").read_bytes(),
        (place / "results.json").read_bytes(),
        gate.exit_code,
    )


TEXTS = (
    cautions, claims, finding_names, gate_text, meanings, numbers, terminal_text, undecided, verdicts,
)  # fmt: skip


@pytest.mark.parametrize(("model", "code"), [(uneven, 0), (constant, 3)])
def test_sentences_change_no_verdict(tmp_path, monkeypatch, model, code):
    """Other sentences give the same findings, verdicts and exit codes."""
    before = audited(tmp_path / "before", model)
    rewritten = set()
    names = {module.__name__ for module in TEXTS}
    for module in (*TEXTS, finding_charts, report_page):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_sentence = inspect.signature(function).return_annotation is str
            if is_sentence and function.__module__ in names:
                monkeypatch.setattr(module, name, lambda *values, **options: "x")
                rewritten.add(function)
    assert len(rewritten) > 30
    assert audited(tmp_path / "after", model) == before
    assert before[-1] == code
    assert ">x<" in (tmp_path / "after/report.html").read_text().replace(" ", "").replace("\n", "")


NOTES = load_study("phenotype_fairness").experiments[0]
ANSWERS = load_study("adjective_coreference").experiments[0]


def rate(measure, value, phenotype, *, contrast="female and male", width=0.05, **options):
    return Finding(
        study="phenotype_fairness",
        experiment="phenotyping",
        model_id="m",
        measure=measure,
        contrast=contrast,
        subset="original",
        slice_by="phenotype",
        slice_value=phenotype,
        unit=MEASURES[measure].unit,
        estimate=Estimate(value, ci_low=value - width, ci_high=value + width, n=10),
        **options,
    )


def test_rates_by_phenotype():
    """Rates stand by phenotype with intervals and what they are shares of."""
    output = "female higher (positive in the female version alone: 3, male: 0)"
    page_findings = [
        rate(
            "flip_rate",
            0.3,
            "depression",
            higher_group="female",
            only_group=3.0,
            only_reference=0.0,
        ),
        rate("flip_rate", 0.02, "alcohol_abuse"),
        rate("tpr_difference", -0.1, "depression"),
        rate("macro_f1", 0.9, "depression", width=0.2),
        replace(rate("flip_rate", 0.1, ""), slice_by="all", slice_value=""),
    ]
    flips, gap, f1 = rate_charts(NOTES, page_findings)
    assert [one.name for one in (flips, gap, f1)] == ["flips", "TPR gap", "macro F1"]
    assert [*flips.parts] == ["depression", "alcohol abuse"]
    (row,) = flips.parts["depression"]
    assert (row.name, row.cells[0][0], row.cells[1][0]) == (
        f"original: {output}",
        "30.0 %",
        "25.0 % to 35.0 %",
    )
    assert gap.parts["depression"][0].cells[0][0] == "−10.0"
    (row,) = f1.parts["depression"]
    assert row.cells[0][0] == "0.900"
    assert f1.axis.at(row.dots[0].high) == 98.0  # drawn to where the scale ends, at 1
    assert not list(rate_charts(NOTES, page_findings[-1:]))


def test_colours_of_means():
    """A mean of each group has the colours of its groups."""
    page_findings = [
        rate("mean", value, "action", contrast=group)
        for group, value in (("male", 0.8), ("female", 0.6))
    ]
    means = [
        replace(one, slice_by="phase", unit=EXPERIMENT.compares.unit.name) for one in page_findings
    ]
    (chart,) = slice_charts(EXPERIMENT, means)
    assert [label for _, label in chart.keys] == ["women", "men"]
    ((row,),) = chart.parts.values()
    assert [cell for cell, _ in row.cells] == [
        "60.0<br><small>55.0 to 65.0</small>",
        "80.0<br><small>75.0 to 85.0</small>",
    ]
    assert [one.group for one in row.dots] == [0, 1]
    lost = replace(
        rate("paired_gap", 0.0, ""), slice_by="all", primary=True, verdict=claims.UNMEASURED
    )
    assert not list(
        slice_charts(EXPERIMENT, [*means, lost])
    )  # one score for every prompt: means say nothing
    assert list(
        slice_charts(EXPERIMENT, [*means, lost, replace(lost, verdict=claims.NONE)])
    )  # of another question


def answered():
    """Eight prompts: of the side that fits 3 right, 1 wrong; of the other 1 right, 1 unsure, 1 refused, 1 silent."""
    classes = [
        *[("correct", "a")] * 3,
        ("incorrect", "b"),
        ("correct", "a"),
        ("unsure", "?"),
        ("other", "no"),
        ("other", " "),
    ]
    rows = [
        {
            "model_id": "m",
            "group": "pro" if place < 4 else "anti",
            "condition": "baseline",
            "answer": answer,
            "experiment": "answers",
            "template": f"s{place}",
            "pair_id": f"s{place % 4}",
            "trial": "1",
            "score": 1.0,
            "text": HOSTILE,
            "refused": float(answer == "no"),
            **{f"said_{answer_class}": float(answer_class == one) for answer_class in CLASSES},
        }
        for place, (one, answer) in enumerate(classes)
    ]
    return pd.DataFrame(rows)


def test_answers_by_class():
    """Answers stand by class with shares and counts."""
    (table,) = answer_tables(ANSWERS, answered())
    assert table.heads == ("right", "wrong", "unsure", "refused", "no answer")
    assert [*table.parts] == ["all of them", "baseline"]
    fit, against = table.parts["all of them"]
    assert fit.name == "pronouns that fit the stereotype"
    assert [cell for cell, _ in fit.cells] == ["75.0 % (3)", "25.0 % (1)", *["0.0 % (0)"] * 3]
    assert [cell for cell, _ in against.cells] == ["25.0 % (1)", "0.0 % (0)", *["25.0 % (1)"] * 3]
    readable = answered()[lambda rows: rows["said_other"] == 0]
    (table,) = answer_tables(ANSWERS, readable)
    assert table.heads == ("right", "wrong", "unsure")
    assert not list(answer_tables(ANSWERS, None))


def test_summary_comes_first(page):
    """The first table names every question with verdict, value and interval, and leads to its details."""
    first = page[page.index('id="answers"') : page.index('class="answer"')]
    assert f'<a href="#{SECTION_ID}">Details</a>' in first
    words = re.findall(r'<span class="v \w+">([^<]+)</span>', first)
    sentences = page[page.index('class="answer"') :]
    assert words
    assert all(f">{word}<span" in sentences for word in words)


def test_chat_pair_in_turns(browser, page_findings, rows, tmp_path):
    """A chat is shown in turns, what differs in a question or an answer is marked, templates have texts,
    and any two groups can be compared."""
    answers = {"female": "Hire her.", "male": "Hire him.", "unspecified": "Hire them."}
    ask = "<|system|>\nBe brief.\n<|user|>\nShould {} be hired after {}?"
    people = {"female": "Mary", "male": "John", "unspecified": "they"}
    chats = rows.assign(
        answer=rows["group"].map(answers),
        top_tokens="[]",
        text=[
            ask.format(people[group], condition)
            for group, condition in zip(rows["group"], rows["condition"], strict=True)
        ],
    )
    page = tmp_path / "report.html"
    page.write_text(render(manifest(), page_findings, {"gendered_stigma": chats}, pd.DataFrame()))
    browser.open(f"{page}#{SECTION_ID}.pairs?contrast=male+minus+unspecified")
    browser.wait("document.querySelector('.pair')")
    pair = "document.querySelector('.pair')"

    def texts_of(kind):
        return browser.run(f"[...{pair}.querySelectorAll('{kind}')].map((one) => one.textContent)")

    assert texts_of(".turn.system .text") == ["Be brief.", "Be brief."]
    assert texts_of(".turn.user mark") == ["John", "they"]
    assert texts_of(".turn.answer mark") == ["him", "them"]
    assert texts_of("strong")[0].startswith("gap male minus unspecified +")
    assert texts_of(".facts")[-1].endswith("template: Be brief. Should … be hired after …?")
