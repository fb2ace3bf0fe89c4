"""Our results in the YAML header of a model's README.md: put in, updated and taken out, all else byte for byte."""

import re

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from swapbias.hub import header, header_places
from swapbias.hub.header import load, split
from swapbias.hub.model_index import with_entries, without_entries

BEGIN, END = "# swapbias:begin", "# swapbias:end"
OTHERS = """\
- task:
    type: fill-mask
  dataset:
    name: "GLUE"   # quoted
    type: glue
  metrics:
  - {type: accuracy, value: 0.90}
"""


def indented(text, by):
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


IN_TWO, IN_SIX = indented(OTHERS, 2), indented(OTHERS, 6)
MODEL = f"model-index:\n- name: m\n  results:\n{IN_TWO}"
HEADERS = {
    "other keys": "license: mit # ours\ntags: [a, 'b']\n",
    "a comment alone": "# nothing yet\n",
    "indented keys": "  license: mit\n  language: en\n",
    "a text that ends in blank lines": "note: |+\n  text\n\n",
    "results of others": f"license: mit\n{MODEL}tags: [a]\n",
    "deeper results": f"model-index:\n  - name: m\n    results:\n{IN_SIX}    # the end\n\nlicense: mit\n",
    "a text as the last value": (f"{MODEL}    note: |\n      # swapbias:begin\n      x\n\nb: 1\n"),
    "two models": f"{MODEL}- name: n\n  results:\n{IN_TWO}",
    "results before the name": f"model-index:\n- results:\n{IN_TWO}  name: m\n",
    "an alias at the end": (f"extra: &r\n  a: 1\n{MODEL}    args: *r\nlicense: mit\n"),
    "no results in brackets": "model-index:\n- name: m\n  results: []\nlicense: mit\n",
    "no results": "model-index:\n- name: m\n  results:\nlicense: mit\n",
    "no models": "model-index:\nlicense: mit\n",
    "no models, in a word": "model-index: null  # none yet\nlicense: mit\n",
    "no models, in a sign": "model-index: ~\n",
    "no results, in a word": "model-index:\n- name: m\n  results: null\nlicense: mit\n",
    "no models in brackets": "model-index: []\n",
    "brackets": "model-index: [{name: m, results: [{task: {type: x}, dataset: {type: d, name: D}, metrics: []}]}]\n",
    "a last comma": "model-index:\n- name: m\n  results: [\n    {task: {type: x}}, # why\n  ]\n",
    "a comment before the bracket": "model-index:\n- name: m\n  results: [\n    {task: {type: x}} # why, [\n  ]\n",
    "JSON": '{"license": "mit", "model-index": [{"name": "m", "results": [{"task": {"type": "x"}}]}]}\n',
    "JSON without model-index": '{"license": "mit"}\n',
}


def entry(value=0.25, name="gap, female − male"):
    return {
        "task": {"type": "fill-mask", "name": "Fill-Mask"},
        "dataset": {"type": "ns/gendered_stigma", "name": "Gendered stigma: rq1", "config": "rq1", "split": "test"},
        "metrics": [{"type": "paired_gap", "value": value, "name": name, "args": {"p_value": 1e-05, "n": 187}}],
        "source": {"name": "swapbias", "url": "https://hf.co/datasets/ns/r/tree/abc"},
    }


def put(readme, *entries):
    return with_entries(readme, entries or (entry(),), model_name="owner/model", where="README.md")


def take(readme):
    return without_entries(readme, where="README.md")


def results(readme):
    """All results, in the order of the file."""
    return [one for model in load(split(readme).header, "x")["model-index"] for one in model["results"] or []]


def ours(readme):
    return [one for one in results(readme) if (one.get("source") or {}).get("name") == "swapbias"]


def around(text):
    """What stands outside the comments."""
    start, end = text.index(BEGIN), text.index(END)
    return text[:start], text[end:]


READMES = [pytest.param(f"---\n{header}---\n# Title\n", id=name) for name, header in HEADERS.items()]
READMES += [
    pytest.param("", id="nothing"),
    pytest.param("# Title\n\n---\n\nA rule above.", id="no header"),
    pytest.param("\ufeff# Title\n", id="no header, byte order mark"),
    pytest.param("---\n---\n# Title\n", id="an empty header"),
    pytest.param("---\nlicense: mit\n---", id="a header alone"),
    pytest.param("\n\n---\nlicense: mit\n---\nx", id="blank lines first"),
]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("readme", READMES)
def test_our_results_come_in_and_go_out_again_without_a_trace(readme, line_end):
    before = readme.replace("\n", line_end)
    made = put(before, entry(), entry(-1.5, "another"))
    assert ours(made) == [entry(), entry(-1.5, "another")]
    assert made.count("\n") == made.count(line_end if before else "\n")
    assert put(made, entry(), entry(-1.5, "another")) == made
    # A null that stands for an empty list becomes an empty value, which means the same.
    assert take(made) == re.sub(r"(?<=(?:index|sults): )(?:null|~)", "", before)
    assert take(before) == before


@pytest.mark.parametrize("readme", READMES)
def test_an_update_changes_only_what_stands_between_the_comments(readme):
    first = put(readme)
    second = put(first, entry(0.5), entry(0.75, "more"))
    assert ours(second) == [entry(0.5), entry(0.75, "more")]
    if "note: |\n" not in readme:  # there the same words stand in a text
        assert around(second) == around(first)
    assert put(second) == first


@pytest.mark.parametrize("name", ["results of others", "deeper results", "a text as the last value", "two models"])
def test_results_of_others_stay_before_ours_in_the_first_model(name):
    made = put(f"---\n{HEADERS[name]}---\n")
    models = load(split(made).header, "x")["model-index"]
    assert [len(model["results"]) for model in models] == [2, 1][: len(models)]
    assert models[0]["results"][0]["metrics"] == [{"type": "accuracy", "value": 0.9}]
    assert models[0]["results"][1] == entry()


def test_results_added_by_others_after_ours_stay_there():
    made = put(f"---\n{HEADERS['results of others']}---\n")
    added = made.replace(f"  {END}\n", f"  {END}\n  - task: {{type: late}}\n    metrics: []\n")
    again = put(added, entry(0.5))
    assert [one["task"]["type"] for one in results(again)] == ["fill-mask", "fill-mask", "late"]
    assert around(again) == around(added)


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("name", ["other keys", "results of others", "no results in brackets", "two models"])
def test_results_that_lost_their_comments_are_replaced(name, flow):
    # As the Hub's editor writes the header: read, and dumped anew.
    data = load(split(put(f"---\n{HEADERS[name]}---\n")).header, "x")
    rewritten = yaml.safe_dump(data, sort_keys=False, default_flow_style=flow)
    made = put(f"---\n{rewritten}---\nbody", entry(0.5))
    assert ours(made) == [entry(0.5)]
    assert len(results(made)) == {"other keys": 1, "no results in brackets": 1}.get(
        name, len(results(f"---\n{rewritten}---\n"))
    )
    assert put(made, entry(0.5)) == made
    assert made.count(BEGIN) == 1
    assert "0.25" not in made


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("model-index: {name: m}\n", "README.md:2: its model-index is no list of models"),
        ("a: 1\nmodel-index: text\n", "README.md:3: its model-index is no list"),
        ("model-index:\n- name: m\n", "no list of models with a name and a list of results"),
        ("model-index:\n- name: m\n  results: [1]\n", "no list of models"),
        ("a: [1\n", "README.md:3: YAML that cannot be parsed"),
        ("- a\n", "README.md:2: its YAML is no mapping"),
        ("# swapbias:begin\na: 1\n", "README.md:2: its comments .* make no pair"),
        ("# swapbias:end\n# swapbias:begin\na: 1\n", "make no pair"),
        ("a: 1\n...\n", "cannot"),
        ("r: &r\n- task: {type: x}\nmodel-index:\n- name: m\n  results: *r\n", "a result|an alias|cannot be edited"),
        ("a: !!python/object/apply:os.system ['x']\n", "README.md:2: a tag or key that is not plain YAML"),
    ],
)
def test_a_header_that_cannot_be_edited_safely_is_refused_in_one_sentence(header, message):
    with pytest.raises(ValueError, match=message):
        put(f"---\n{header}---\n")


def test_results_of_another_study_stay():
    def of(study, value):
        made = entry(value)
        made["metrics"][0]["args"]["study"] = study
        return made

    def share(readme, study, value):
        return with_entries(readme, [of(study, value)], model_name="o/m", where="README.md", studies=[study])

    both = share(share("", "b", 0.5), "a", 0.25)
    assert ours(both) == [of("a", 0.25), of("b", 0.5)]
    assert both == share(share("", "a", 0.25), "b", 0.5)
    assert ours(share(both, "b", 0.75)) == [of("a", 0.25), of("b", 0.75)]
    without = with_entries(both, [], model_name="o/m", where="README.md", studies=["a"])  # now of own notes
    assert ours(without) == [of("b", 0.5)]
    assert with_entries(without, [], model_name="o/m", where="README.md", studies=["b"]) == ""


def test_a_header_that_the_hub_does_not_see_is_not_written_into():
    with pytest.raises(ValueError, match=r"README\.md: spaces follow the first ---"):
        put("---  \nlicense: mit\n---\n")


def test_a_header_is_parsed_once_before_and_once_after(monkeypatch):
    seen = []
    compose = header.compose
    for module in (header, header_places):
        monkeypatch.setattr(module, "compose", lambda *given, **more: seen.append(1) or compose(*given, **more))
    first = put("---\nlicense: mit\n---\n")
    assert len(seen) == 2
    put(first, entry(0.5))
    assert len(seen) == 4


def test_results_of_others_between_our_comments_are_not_lost():
    made = put(f"---\n{HEADERS['results of others']}---\n")
    with pytest.raises(ValueError, match="cannot be edited safely"):
        put(made.replace(f"  {END}\n", f"  - task: {{type: late}}\n    metrics: []\n  {END}\n"))


def test_comments_within_a_text_are_no_markers():
    header = f"note: |\n  {BEGIN}\n  kept\n  {END}\n"
    made = put(f"---\n{header}---\n")
    assert header in made
    assert take(made) == f"---\n{header}---\n"


def test_no_results_take_ours_out():
    before = "---\nlicense: mit\n---\n"
    assert with_entries(put(before), [], model_name="o/m", where="README.md") == before


def test_a_hostile_model_name_stays_a_name():
    made = with_entries("", [entry()], model_name='x"\n---\n# swapbias:end\n<script>', where="README.md")
    (model,) = load(split(made).header, "x")["model-index"]
    assert model["name"] == 'x" --- # swapbias:end <script>'
    assert take(made) == ""


KEYS = st.sampled_from(["license", "language", "tags", "x"])
LEAVES = st.one_of(
    st.text(max_size=12), st.floats(allow_nan=False), st.booleans(), st.none(), st.lists(st.integers())
)


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(KEYS, LEAVES), st.lists(LEAVES, max_size=3), st.sampled_from([True, False, None]), st.booleans()
)
def test_any_metadata_comes_through_unchanged(metadata, values, flow, windows):
    others = [{"task": {"type": "x"}, "metrics": [{"type": "m", "value": value}]} for value in values]
    data = {"a": 1, "model-index": [{"name": "m", "results": others}], **metadata}
    text = yaml.safe_dump(data, sort_keys=False, default_flow_style=flow, allow_unicode=True)
    before = f"---\n{text}---\nbody"
    before = before.replace("\n", "\r\n") if windows else before
    made = put(before)
    after = load(split(made).header, "x")
    assert after["model-index"][0]["results"] == [
        *load(split(before).header, "x")["model-index"][0]["results"],
        entry(),
    ]
    assert {key: value for key, value in after.items() if key != "model-index"} == {"a": 1, **metadata}
    assert put(made) == made
    assert take(made) == before
