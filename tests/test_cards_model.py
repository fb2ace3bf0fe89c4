"""The section of a model card: what it says, and that nothing outside its markers moves."""

import contextlib
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from swapbias.cards.header import split
from swapbias.cards.model_card import (
    BEGIN,
    END,
    Audited,
    AuditRow,
    Figure,
    audited,
    section,
    with_section,
    without_section,
)
from swapbias.cards.model_index import entries
from swapbias.finding import Finding
from swapbias.measures import Estimate

MANIFEST = {
    "swapbias": "0.1.0",
    "finished": "2026-11-20T22:49:35+00:00",
    "settings": {"limit": None, "seed": 0, "kind": None},
    "skipped": [{"study": "social_distance", "experiment": "antonyms", "reason": "not asked for"}],
}
HOSTILE = "<script>|x [y](javascript:z) <!-- swapbias:end -->\n# T"
URL = "https://hf.co/datasets/ns/results/tree/abc"


def finding(
    value=0.25, *, robust="", subset="mental_health", measure="paired_gap", model="m", ci=(0.2, 0.3), score="score"
):
    return Finding(
        study="gendered_stigma", experiment="rq1", model_id=model, score=score, measure=measure,
        contrast="female - male", subset=subset, slice_by="all", slice_value="", unit="probability mass at the mask",
        direction="above zero is more female", robust=robust,
        estimate=Estimate(value, *ci, p_value=0.0001, p_adjusted=0.02, n=187, n_unscored=3, test="paired t"),
    )  # fmt: skip


FOUND = [
    finding(),
    finding(robust="clustered by template", ci=(0.1, 0.4)),
    finding(-0.5, subset="other_health"),
    finding(0.6, measure="mean"),
    finding(0.9, score="closed_list_mass"),
]
ROW = AuditRow(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "1", "2", "3", "4", HOSTILE, HOSTILE, HOSTILE)
SECTION = f"{BEGIN}\n\n## Bias audit\n\n```bash\nswapbias\n```\n\n{END}"


def said(**more):
    return section(audited(FOUND, MANIFEST, model_name="owner/model", results_url=URL, **more))


def test_the_table_has_the_paper_statistic_and_the_robust_interval_beside_it():
    rows = [line for line in said().splitlines() if line.startswith("| gendered")]
    # Of the five findings two are comparisons by the published score and the plain statistic.
    assert rows == [
        "| gendered\\_stigma rq1 | gap, female − male | mental health | +0.250 | \\[+0.200, +0.300\\] "
        "| \\[+0.100, +0.400\\] (clustered by template) | 0.020 | 187 (+3 unscored) |",
        "| gendered\\_stigma rq1 | gap, female − male | other health | −0.500 | \\[+0.200, +0.300\\] "
        "| – | 0.020 | 187 (+3 unscored) |",
    ]


def test_the_section_says_how_to_read_it_and_where_the_rest_is():
    text = said(results_private=True, figure=Figure("swapbias/gap.png", "Gaps by template"))
    for part in (
        "in probability mass at the mask: above zero is more female",
        "not a ranking",
        "no proof that the model is fair",
        f"]({URL}) (not public",
        "![Gaps by template](swapbias/gap.png)",
        "swapbias audit owner/model --study gendered_stigma\n",
        "social\\_distance antonyms",
        "Gender is read off word lists",
        "2026-11-20",
    ):
        assert part in text
    assert "not public" not in said()


def test_a_part_of_the_prompts_is_said_to_be_one():
    manifest = {**MANIFEST, "settings": {"limit": 20, "seed": 1, "kind": "masked"}}
    text = section(audited(FOUND, manifest, model_name="owner/model"))
    assert "Only the first 20 rows" in text
    assert "--kind masked --limit 20 --seed 1\n" in text


def test_findings_of_two_models_or_of_none_make_no_section():
    with pytest.raises(ValueError, match="Findings of 2 models"):
        audited([finding(), finding(model="n")], MANIFEST, model_name="o/m")
    with pytest.raises(ValueError, match="no comparison of two groups"):
        audited([finding(measure="mean")], MANIFEST, model_name="o/m")


def test_nothing_from_outside_becomes_markup():
    about = Audited(
        HOSTILE, HOSTILE, HOSTILE, (ROW,), ((HOSTILE, HOSTILE, "https://x.example/a"),), "swapbias audit MODEL",
        Figure("a.png", HOSTILE), URL, True, (HOSTILE,), (HOSTILE,),
    )  # fmt: skip
    text = section(about)
    found = MarkdownIt("commonmark").enable("table").parse(text)
    inner = [child for token in found for child in token.children or []]
    assert [token.content.strip() for token in found if token.type == "html_block"] == [BEGIN, END]
    assert not [token for token in inner if token.type == "html_inline"]
    assert [token.attrs["href"] for token in inner if token.type == "link_open"] == ["https://x.example/a", URL]
    assert [token.type for token in found].count("heading_open") == 1
    assert [token.type for token in found].count("td_open") == 8
    assert with_section(with_section("", text), text) == f"{text}\n"


def test_a_model_name_that_means_something_to_a_shell_is_not_in_the_command():
    text = section(audited(FOUND, MANIFEST, model_name="a/b; rm -rf ~\n```"))
    assert "swapbias audit MODEL --study gendered_stigma\n```\n" in text


@pytest.mark.parametrize("path", ["../a.png", "a b.png", "a.png)", "/a.png", "http://x/a.png"])
def test_a_figure_is_a_plain_path_in_the_repo(path):
    with pytest.raises(ValueError, match="no path of a figure"):
        said(figure=Figure(path, "x"))


def test_the_section_goes_to_the_end_after_a_blank_line():
    assert with_section("", SECTION) == f"{SECTION}\n"
    for readme in ("# A", "# A\n", "# A\n\n"):
        assert with_section(readme, SECTION) == f"# A\n\n{SECTION}\n"
    assert with_section("---\na: 1\n---", SECTION) == f"---\na: 1\n---\n\n{SECTION}\n"


def test_the_section_is_replaced_where_it_stands_with_the_line_ends_of_the_file():
    before, after = "# A\r\n\r\n", "\r\n\r\nmore \n\ttext"
    old = with_section(f"{before}{BEGIN}\nold{END}\n{END}{after}".replace(f"old{END}", "old"), SECTION)
    assert old == before + SECTION.replace("\n", "\r\n") + after
    assert without_section(old) == "# A\r\n\r\nmore \n\ttext"


@pytest.mark.parametrize(
    "documented",
    [
        f"```md\n{BEGIN}\nx\n{END}\n```\n",
        f"~~~~\n```\n{BEGIN}\n~~~~\n",
        f"- a list\n\n  ```\n  {BEGIN}\n  ```\n",
        f"- ```\n  {BEGIN}\n  ```\n",
        f"> {BEGIN}\n",
        f"    {BEGIN}\n    {END}\n",
        f"Put `{BEGIN}` and {END} there.\n",
        f"---\nnote: |\n  {BEGIN}\na: 1\n---\n",
    ],
)
def test_markers_that_are_only_shown_are_no_markers(documented):
    made = with_section(documented, SECTION)
    assert made == f"{documented}\n{SECTION}\n"
    assert with_section(made, SECTION) == made
    assert without_section(documented) == documented


@pytest.mark.parametrize(
    ("readme", "message"),
    [
        (f"# A\n\n{BEGIN}\n", "README.md:3: 1 lines of .* and 0 of"),
        (f"{END}\n", "0 lines of .* and 1 of"),
        (f"{END}\n{BEGIN}\n", "expected one of each in this order"),
        (f"{BEGIN}\n{END}\n" * 2, "2 lines of .* and 2 of"),
        (f"{BEGIN}\n```\n{END}\n", "1 lines of .* and 0 of"),
        ("# A\n```\nnever closed\n", "ends within a code block"),
        ("x" * 5_000_001, "at most 5000000"),
    ],
    ids=range(7),
)
def test_markers_that_make_no_pair_are_refused(readme, message):
    with pytest.raises(ValueError, match=message):
        with_section(readme, SECTION)


PIECES = [
    "# A",
    "text",
    "\n",
    "\r\n",
    "\n\n",
    "\r",
    "```",
    "~~~",
    "- a",
    "> q",
    "    ",
    "\t",
    "---\n",
    "a: 1",
    "<!--",
]
PIECES += ["-->", "<div>", "|a|", "\ufeff", "\x00", "</pre>", "<pre>"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def put_or_none(readme):
    """The README with the section; None where it ends within a code block."""
    if "`" not in readme and "~" not in readme:
        return with_section(readme, SECTION)
    with contextlib.suppress(ValueError):
        return with_section(readme, SECTION)
    return None


@settings(deadline=None, max_examples=200)
@given(TEXTS, TEXTS)
def test_nothing_outside_the_markers_moves(readme, more):
    made = put_or_none(readme)
    assume(made is not None)
    assert made.startswith(readme)
    assert made.count(BEGIN) == 1
    assert with_section(made, SECTION) == made
    # Text that somebody adds below stays, too.
    longer = f"{made}\n{more}"
    assume(split(longer).before == split(made).before)  # a rule below can make a header of what stands above it
    updated = with_section(longer, SECTION.replace("bash", "sh"))
    assert updated[: updated.index(BEGIN)] == longer[: longer.index(BEGIN)]
    assert updated[updated.index(END) :] == longer[longer.index(END) :]
    assert "```sh" in updated


def test_entries_are_what_the_hub_reads_as_results():
    from huggingface_hub import ModelCardData
    from huggingface_hub.repocard_data import model_index_to_eval_results

    made = entries(
        [*FOUND, finding(math.nan, subset="x")], model_name="o/m", results_url=URL, dataset_namespace="ns",
        revisions={"gendered_stigma": "v1.0.0"},
    )  # fmt: skip
    name, results = model_index_to_eval_results([{"name": "m", "results": made}])
    assert name == "m"
    assert [(one.metric_type, one.metric_value) for one in results] == [("paired_gap", 0.25), ("paired_gap", -0.5)]
    first = results[0]
    assert (first.task_type, first.dataset_type, first.dataset_config) == ("fill-mask", "ns/gendered_stigma", "rq1")
    assert (first.dataset_revision, first.dataset_split, first.source_url) == ("v1.0.0", "test", URL)
    arguments = first.metric_args
    assert (arguments["ci_low"], arguments["ci_high"], arguments["p_adjusted"], arguments["n"]) == (
        0.2,
        0.3,
        0.02,
        187,
    )
    assert (arguments["robust"], arguments["robust_ci_low"]) == ("clustered by template", 0.1)
    assert "robust" not in results[1].metric_args
    card = ModelCardData(model_name="m", eval_results=results)
    assert model_index_to_eval_results(card.to_dict()["model-index"]) == (name, results)


def test_what_is_not_finite_is_left_out_of_entries():
    (made,) = entries(
        [finding(ci=(math.nan, math.inf))], model_name="m", results_url=URL, dataset_namespace="ns", revisions={}
    )
    assert not {"ci_low", "ci_high"} & set(made["metrics"][0]["args"])
    assert "revision" not in made["dataset"]
    assert entries([finding(math.nan)], model_name="m", results_url=URL, dataset_namespace="ns", revisions={}) == []
