"""The page of a metric: computes in the browser what the module computes, shows its card, asks for nothing."""

import json
import math

import evaluate
import numpy as np
import pytest

from swapbias.errors import HubError
from swapbias.hub import metric_spaces as spaces
from swapbias.hub.client import Hub
from swapbias.hub.metric_page import CALCULATORS
from swapbias.studies.catalogue import metric_path, metrics
from tests.report.conftest import browser  # noqa: F401

VERSION = "9.8.7"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of each metric as a file."""
    folder = tmp_path_factory.mktemp("pages")
    for name in metrics():
        files = spaces.space_files(name, namespace="lab", version=VERSION)
        (folder / f"{name}.html").write_bytes(files["index.html"])
    return folder


def result(browser):  # noqa: F811
    """The keys and numbers that the form shows."""
    code = "[...document.querySelectorAll('#result tr')].map(row => [...row.cells].map(one => one.textContent))"
    return dict(browser.run(code))


def shown(value):
    return "NaN" if math.isnan(value) else f"{value:.5g}"


@pytest.mark.parametrize("name", CALCULATORS)
def test_example_of_a_form(name, pages, browser):  # noqa: F811
    """The rows that stand in a form give the output of the card."""
    browser.open(pages / f"{name}.html", width=1280)
    browser.run("document.querySelector('form button').click()")
    output = result(browser)
    card = (pages / f"{name}.html").read_text().split('<pre><code class="language-text">')[1]
    lines = card.partition("</code>")[0].strip().splitlines()
    assert {key: float(value) for key, value in output.items()} == pytest.approx(
        {line.split()[0]: float(line.split()[1]) for line in lines}, rel=1e-4, nan_ok=True
    )
    assert browser.faults() == []


def drawn_rows(name, seed):
    """Rows of 2 groups with ties, missing numbers and pairs, and the options of the form."""
    rng = np.random.default_rng(seed)
    count = (2, 5, 40, 200)[seed % 4]
    columns = {
        "predictions": np.round(rng.gamma(2, size=2 * count) / 9, 2).clip(0, 1).tolist(),
        "groups": ["m", "f"] * count,
    }
    if name == "flip_rate":
        columns["predictions"] = rng.integers(0, 2, 2 * count).tolist()
    if seed % 3 == 0:
        columns["predictions"][0] = math.nan
    if name in ("paired_gap", "flip_rate") or (name == "selection_rate" and seed % 2):
        columns["pair_ids"] = [f"p{index // 2}" for index in range(2 * count)]
    if name == "bias_correlation":
        del columns["groups"]
        columns["references"] = rng.integers(0, 7, 2 * count).astype(float).tolist()
    options = {}
    if any(field.name == "reference_group" for field in CALCULATORS[name].inputs):
        options["reference_group"] = ("m", "f")[seed % 2]
    if name == "selection_rate" and seed % 3:
        options = {}
    if name == "share_above":
        options["threshold"] = (0.2, 1.0)[seed % 2]
    return columns, options


@pytest.mark.parametrize("name", CALCULATORS)
def test_numbers_of_a_form(name, pages, browser):  # noqa: F811
    """A form computes what the module computes, with ties, missing and constant numbers."""
    module = evaluate.load(metric_path(name), keep_in_memory=True)
    browser.open(pages / f"{name}.html")
    for seed in range(8):
        columns, options = drawn_rows(name, seed)
        if seed == 7:
            columns["predictions"] = [1.0] * len(columns["predictions"])
        pairs = {}
        if name == "selection_rate" and "pair_ids" in columns:
            pairs["pair_ids"] = columns["pair_ids"]
        rows = {key: cells for key, cells in columns.items() if key not in pairs}
        expected = module.compute(**rows, **pairs, **options)
        cells = {key: [str(cell) for cell in column] for key, column in columns.items()}
        inputs = {"reference_group": "", "threshold": ""}
        inputs |= {key: str(option) for key, option in options.items()}
        code = f"METRICS.{name}({json.dumps(cells)}, {json.dumps(inputs)})"
        found = browser.run(f"Object.entries({code}).map(([key, value]) => [key, String(value)])")
        numbers = {key: float(value) for key, value in found}
        assert list(numbers) == list(expected), name
        assert numbers == pytest.approx(expected, rel=1e-7, abs=1e-9, nan_ok=True), (name, seed)


def test_functions_of_the_forms(pages, browser):  # noqa: F811
    """Each form has its function, and the other metrics show code alone."""
    browser.open(pages / "paired_gap.html")
    assert sorted(CALCULATORS) == browser.run("Object.keys(METRICS).sort()")
    for name in set(metrics()) - set(CALCULATORS):
        page = (pages / f"{name}.html").read_text()
        assert "<form" not in page
        assert f"evaluate.load(&#34;lab/{name}&#34;, revision=&#34;{VERSION}&#34;)" in page


@pytest.mark.parametrize("name", ["leakage_uar", "paired_gap", "selection_rate"])
def test_page_on_a_phone(name, pages, browser):  # noqa: F811
    """A page asks for nothing, breaks no rule of its policy and is as wide as a phone."""
    browser.open(pages / f"{name}.html", width=390, height=800)
    assert browser.faults() == []
    assert browser.requests() == [f"file://{pages / name}.html"]
    assert browser.run("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("", "The first line does not name predictions and groups and pair_ids."),
        ("predictions,groups,pair_ids\n", "There are no rows below the names of the columns."),
        ("predictions,groups,pair_ids\n1,male\n", "Row 1 has 2 cells, expected 3. Correct it."),
        ("predictions,groups,pair_ids\nhalf,male,a\n1,female,a\n", 'Row 1: predictions is "half"'),
        ("predictions,groups,pair_ids\n1,men,a\n1,women,a\n", "Write men or women."),
        ("predictions,groups,pair_ids\n1,male,a\n1,female,b\n", 'Pair "a" has no row of "female"'),
        ("predictions\tgroups\tpair_ids\n1\tmale\ta\n1\tmale\ta\n", "1 groups, expected two."),
        ("predictions,groups,pair_ids\n1,male,a\n1,male,a\n1,female,a\n", 'two rows of "male"'),
    ],
)
def test_wrong_rows(rows, sentence, pages, browser):  # noqa: F811
    """Wrong rows give a sentence on what to correct, and no number."""
    browser.open(pages / "paired_gap.html")
    browser.run(
        f"document.querySelector('textarea').value = {json.dumps(rows)};"
        "document.querySelector('form button').click()"
    )
    assert sentence in browser.run("document.querySelector('#result .error').textContent")
    assert result(browser) == {}


def test_paid_space(hub):
    """A Space that takes a paid plan is refused with a sentence on what is free."""
    hub.fail("POST", "/api/repos/create", status=402)
    with pytest.raises(HubError) as raised:
        spaces.push_metric(Hub(), "share_above", namespace="alice", form=spaces.GRADIO, say=str)
    assert "create alice/share_above" in str(raised.value)
    assert str(raised.value).endswith(
        "It costs money: Spaces that run code need a paid plan, static ones and public datasets do not."
    )
    assert ("space", "alice/share_above") not in hub.repositories


def test_new_static_space(hub):
    """A push to a new static Space leaves nothing of the page that the Hub put there."""
    spaces.push_metric(Hub(), "share_above", namespace="alice", say=str)
    assert "style.css" not in hub.files("space", "alice/share_above")
    again = spaces.push_metric(Hub(), "share_above", namespace="alice", say=str)
    assert again.status == "unchanged"
