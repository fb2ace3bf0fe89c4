"""model-index: ours in an entry of its own, whatever else the header of a card holds."""

import math

import pytest
import yaml
from huggingface_hub import ModelCard

from swapbias.hub.cards import dump
from swapbias.hub.model_index import index_results, result_keys, with_results
from tests.hub.shared_runs import GAP, UNDEFINED, finding

URL = "https://example.org/runs/one"
THEIRS = {
    "name": "m",
    "results": [
        {
            "task": {"type": "text-classification"},
            "dataset": {"type": "glue", "name": "GLUE"},
            "metrics": [{"type": "accuracy", "value": 0.9}],
        }
    ],
}
REVISIONS = {"gendered_stigma": "b" * 40}


def results(*findings, **changed):
    options = {"namespace": "me", "revisions": REVISIONS, "source_url": URL} | changed
    return index_results(findings, **options)


def put(readme, new, questions=()):
    keys = result_keys(questions)
    return with_results(readme, new, questions=keys, model_name="m", file="me/m/README.md")


def metadata(card):
    return yaml.safe_load(card.split("---\n")[1])


def test_result_of_a_question():
    """A question is a result of its dataset at its commit; each number has its interval, unit and n."""
    (result,) = results(finding(0.301384, 0.2, 0.4), UNDEFINED)
    assert result["task"] == {"type": "fill-mask", "name": "gendered_stigma rq1"}
    assert result["dataset"]["type"] == "me/gendered_stigma"
    assert (result["dataset"]["config"], result["dataset"]["revision"]) == ("rq1", "b" * 40)
    (metric,) = result["metrics"]  # what was not measured has none
    assert (metric["type"], metric["value"]) == ("paired_gap", 0.301384)
    assert metric["args"]["interval"] == [0.2, 0.4]
    assert (metric["args"]["n"], metric["args"]["n_not_scored"]) == (187, 3)
    assert result["source"] == {"name": "swapbias", "url": URL}
    (unpublished,) = results(finding(0.3), revisions={})
    assert unpublished["dataset"]["type"] == "gendered_stigma"
    assert "interval" not in unpublished["metrics"][0]["args"]


HEADERS = {
    "no header": "# M\n",
    "empty header": "---\n---\n# M\n",
    "other keys": "---\nlicense: mit   # mine\ntags: [a,  b]\n---\n# M\n",
    "indented": "---\nmodel-index:\n  - name: m  # mine\n    results: []\n\n# below\nlicense: mit\n---\n# M\n",
    "not indented": f"---\n{dump({'model-index': [THEIRS], 'license': 'mit'})}---\n# M\n",
    "last key": f"---\n{dump({'license': 'mit', 'model-index': [THEIRS]})}---\n# M\n",
    "flow": "---\nmodel-index: [{name: m, results: []}]\n---\n# M\n",
    "header in braces": "---\n{license: mit}\n---\n# M\n",
    "anchor": "---\nmodel-index:\n- &a {name: m, results: []}\nother: *a\n---\n# M\n",
    "anchored index": "---\nmodel-index: &a\n- {name: m, results: []}\nother: *a\n---\n# M\n",
    "end of document": "---\nlicense: mit\n...\n---\n# M\n",
    "null": "---\nmodel-index:\nlicense: mit\n---\n# M\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_results_are_added(name):
    """Ours are added to any header, once; what was there stays, and the Hub's client reads all."""
    before = HEADERS[name]
    header = yaml.safe_load(before.split("---\n")[1]) if "---" in before else {}
    header = header or {}
    card = put(before, results(GAP))
    after = metadata(card)
    there = header.get("model-index") or []
    assert after.pop("model-index")[: len(there)] == there
    header.pop("model-index", None)
    assert after == header
    assert card.endswith("# M\n")
    assert put(card, results(GAP)) == card
    values = [result.metric_value for result in ModelCard(card).data.eval_results]
    assert values[-1] == 0.25


@pytest.mark.parametrize("name", ["other keys", "indented", "not indented", "last key", "anchor"])
def test_lines_of_others_stay(name):
    """No line of a header that is written in lines changes when ours are added and updated."""
    before = HEADERS[name]
    card = put(put(before, results(GAP)), results(finding(0.5, 0.4, 0.6)))
    lines = iter(card.splitlines())
    assert all(line in lines for line in before.splitlines())  # in their order
    assert metadata(card)["model-index"][-1]["results"][0]["metrics"][0]["value"] == 0.5
    assert card.count("gendered_stigma rq1") == 1


def test_other_questions_stay():
    """A later audit replaces its own question, and keeps ours of another."""
    card = put(HEADERS["other keys"], results(GAP, finding(0.1, 0.0, 0.2, experiment="rq2")))
    card = put(card, results(finding(0.5, 0.4, 0.6), revisions={}))
    values = [result.metric_value for result in ModelCard(card).data.eval_results]
    assert values == [0.5, 0.1]


def test_line_ends_of_a_header():
    """A header with the line ends of Windows keeps them."""
    card = put(HEADERS["other keys"].replace("\n", "\r\n"), results(GAP))
    assert "\n" not in card.replace("\r\n", "")
    assert "license: mit   # mine\r\n" in card


@pytest.mark.parametrize(
    "readme", [HEADERS["other keys"], HEADERS["last key"], HEADERS["no header"]]
)
def test_results_behind_a_byte_order_mark(readme):
    """The Hub's client reads results where a byte order mark stood before the header."""
    for marked in ("\ufeff" + readme, "\ufeff" + readme.replace("\n", "\r\n")):
        card = ModelCard(put(marked, results(GAP)))
        assert card.data.eval_results[-1].metric_value == 0.25


def whole(**changed):
    return dump([{"name": "m", "results": [{**THEIRS["results"][0], **changed}]}], flow=True)


@pytest.mark.parametrize(
    "index",
    [
        "text", "[1]", "[{name: m}]", "{name: m}", "[{name: m, results: 5}]", "[{results: []}]", whole(task="t"),
        whole(dataset={"type": "d"}), whole(metrics=7), whole(metrics=None), whole(metrics="acc"),
        whole(metrics={"type": "acc"}),
    ],
    ids=range(12),
)  # fmt: skip
def test_unreadable_model_index(index):
    """A model-index of another form is told, and nothing is written."""
    with pytest.raises(
        ValueError, match=r"^me/m/README\.md: its model-index is no list of entries"
    ):
        put(f"---\nmodel-index: {index}\n---\n", results(GAP))


def test_nothing_measured():
    """Where nothing was measured the card stays as it is."""
    assert put("# M\n", results(UNDEFINED)) == "# M\n"


UNMEASURED = finding(math.nan, n=0)


@pytest.mark.parametrize("name", HEADERS)
def test_earlier_number_goes(name):
    """The number of a question that a later audit asked and could not measure goes, and the header is as it was."""
    before = HEADERS[name]
    card = put(put(before, results(GAP)), results(UNMEASURED), [UNMEASURED])
    assert "swapbias" not in card
    header = yaml.safe_load(before.split("---\n")[1]) if "---" in before else None
    header = header or {}
    if not header.get("model-index", True):  # null
        del header["model-index"]
    assert (metadata(card) or {}) == header
    assert card.endswith("# M\n")
    ModelCard(card)  # which the Hub's client reads


@pytest.mark.parametrize("name", ["other keys", "indented", "not indented", "last key"])
def test_header_is_as_before(name):
    """Once our only number goes, a header that is written in lines is byte for byte as it was before."""
    before = HEADERS[name]
    assert put(put(before, results(GAP)), [], [UNMEASURED]) == before
    windows = before.replace("\n", "\r\n")
    assert put(put(windows, results(GAP)), [], [UNMEASURED]) == windows


def test_only_asked_numbers_go():
    """Our number of a question that the later audit did not ask stays, and so do results of others."""
    rq2 = finding(0.1, 0.0, 0.2, experiment="rq2")
    card = put(put(HEADERS["last key"], results(GAP, rq2)), [], [UNMEASURED])
    assert put(card, [], [UNMEASURED]) == card
    values = [result.metric_value for result in ModelCard(card).data.eval_results]
    assert values == [0.9, 0.1]
    assert put(HEADERS["last key"], [], [UNMEASURED]) == HEADERS["last key"]
