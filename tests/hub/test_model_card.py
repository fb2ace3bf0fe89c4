"""The section of a model card: what it says, and that nothing outside its markers moves."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings, strategies as st
from markdown_it import MarkdownIt

from swapbias.hub.cards import BEGIN, END, split, study_parts, with_parts
from tests.hub.card_findings import FOUND, MANIFEST, URL, finding, without_section

HOSTILE = "<script>|x [y](javascript:z) <!-- swapbias:end -->\n# T"
PART, OTHER = "### A\n\n```bash\nswapbias\n```", "### B"


def section_of(part, study="a"):
    """The section of a README that holds nothing else."""
    return with_parts("", {study: part}).rstrip("\n")


SECTION = section_of(PART)


def with_section(readme, text=PART):
    return with_parts(readme, {"a": text})


def told(manifest=MANIFEST, *, model_name="owner/model", **more):
    (text,) = study_parts(FOUND, manifest, model_name=model_name, **more).values()
    return text


def said(**more):
    return told(results_url=URL, **more)


def test_the_section_says_what_was_found_and_has_at_most_four_numbers():
    head, _, *rows = [line for line in said().splitlines() if line.startswith("|")]
    assert head == "| experiment | result | value | 95 % interval | margin | n |"
    assert rows == [  # of the five findings two answer the question of the study
        "| rq1 | mental-health conditions | +25.0 points | +20.0 to +30.0 | 5 points | 187 (+3 unscored) |",
        "| rq1 | other health conditions | −50.0 points | −60.0 to −40.0 | 5 points | 187 (+3 unscored) |",
    ]
    many = [replace(FOUND[0], subset=f"s{number}") for number in range(6)]
    (text,) = study_parts(many, MANIFEST, model_name="o/m", results_url=URL).values()
    assert text.count("\n| rq1 |") == 4
    assert f"4 of 6 results are shown. [Full results, with every breakdown and a report]({URL})" in text


def test_a_contrast_stands_before_the_gaps_that_it_compares():
    contrast = replace(
        finding(0.75, subset="mental_health - other_health", measure="gap_difference", primary=True),
        within="mental_health", against="other_health",
    )  # fmt: skip
    found = [contrast, *(replace(one, primary=False, verdict="found") for one in FOUND)]
    (text,) = study_parts(found, MANIFEST, model_name="o/m").values()
    values = [line.split("|")[3].strip() for line in text.splitlines() if line.startswith("| rq1")]
    assert values == ["+75.0 points", "+25.0 points", "−50.0 points"]


def test_the_section_says_how_to_read_it_and_where_the_rest_is():
    text = said(results_private=True)
    for words in (
        f"]({URL}) (not public",
        "swapbias audit owner/model --study gendered_stigma\n",
        "Not run: rq2.",
        "Gender is read off word lists",
        "2026-11-20",
    ):
        assert words in text
    assert "not public" not in said()
    assert "antonyms" not in text  # another study has a part of its own
    assert "not a ranking" in section_of(text)
    assert "no proof that the model is fair" in section_of(text)


def test_the_command_of_a_chat_model_names_it_so():
    choices = {
        "corpora": [{"corpus": "gendered_stigma", "config": "choices", "rows": 10}],
        "settings": {"studies": ["gendered_stigma"], "chat": {"model": "m"}},
    }
    found = [replace(finding(primary=True), experiment="choices")]
    (text,) = study_parts(found, MANIFEST | choices, model_name="owner/model").values()
    assert "swapbias audit --chat owner/model --study gendered_stigma\n" in text


def test_findings_of_two_models_or_of_none_make_no_section():
    with pytest.raises(ValueError, match="Findings of 2 models"):
        study_parts([finding(primary=True), finding(model="n")], MANIFEST, model_name="o/m")
    with pytest.raises(ValueError, match="no comparison of two groups"):
        study_parts([finding(measure="mean")], MANIFEST, model_name="o/m")


def test_nothing_from_outside_becomes_markup():
    found = [replace(finding(model=HOSTILE, cluster_vars=HOSTILE, subset=HOSTILE, primary=True), unit=HOSTILE)]
    manifest = MANIFEST | {
        "swapbias": HOSTILE,
        "finished": HOSTILE,
        "skipped": [{"study": "gendered_stigma", "experiment": HOSTILE, "reason": "x"}],
    }
    (one,) = study_parts(found, manifest, model_name="o/m", results_url=URL).values()
    text = section_of(one, "gendered_stigma")
    found = MarkdownIt("commonmark").enable("table").parse(text)
    inner = [child for token in found for child in token.children or []]
    study = "<!-- swapbias:{} gendered_stigma -->".format
    assert [token.content.strip() for token in found if token.type == "html_block"] == [
        BEGIN, study("begin"), study("end"), END,
    ]  # fmt: skip
    assert not [token for token in inner if token.type == "html_inline"]
    links = [token.attrs["href"] for token in inner if token.type == "link_open"]
    assert links[1:] == [URL]
    assert links[0].startswith("https://")
    assert [token.type for token in found].count("heading_open") == 2
    assert [token.type for token in found].count("td_open") == 6
    assert with_parts(f"{text}\n", {"gendered_stigma": one}) == f"{text}\n"


def test_a_model_name_that_means_something_to_a_shell_is_not_in_the_command():
    text = told(model_name="a/b; rm -rf ~\n```")
    assert "swapbias audit MODEL --study gendered_stigma\n```" in text


def test_the_section_goes_to_the_end_after_a_blank_line():
    assert with_section("") == f"{SECTION}\n"
    for readme in ("# A", "# A\n", "# A\n\n"):
        assert with_section(readme) == f"# A\n\n{SECTION}\n"
    assert with_section("---\na: 1\n---") == f"---\na: 1\n---\n\n{SECTION}\n"


def test_the_section_is_replaced_where_it_stands_with_the_line_ends_of_the_file():
    before, after = "# A\r\n\r\n", "\r\n\r\nmore \n\ttext"
    old = with_section(f"{before}{BEGIN}\nold{END}\n{END}{after}".replace(f"old{END}", "old"))
    assert old == before + SECTION.replace("\n", "\r\n") + after
    assert without_section(old) == "# A\r\n\r\nmore \n\ttext"


@pytest.mark.parametrize(
    "documented",
    [
        f"```md\n{BEGIN}\nx\n{END}\n```\n", f"~~~~\n```\n{BEGIN}\n~~~~\n", f"- a list\n\n  ```\n  {BEGIN}\n  ```\n",
        f"- ```\n  {BEGIN}\n  ```\n", f"> {BEGIN}\n", f"    {BEGIN}\n    {END}\n",
        f"Put `{BEGIN}` and {END} there.\n", f"---\nnote: |\n  {BEGIN}\na: 1\n---\n",
    ],
)  # fmt: skip
def test_markers_that_are_only_shown_are_no_markers(documented):
    made = with_section(documented)
    assert made == f"{documented}\n{SECTION}\n"
    assert with_section(made) == made
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
    ],
    ids=range(6),
)
def test_markers_that_make_no_pair_are_refused(readme, message):
    with pytest.raises(ValueError, match=message):
        with_section(readme)


PIECES = [
    "# A", "text", "\n", "\r\n", "\n\n", "\r", "```", "~~~", "- a", "> q", "    ", "\t", "---\n", "a: 1", "<!--",
    "-->", "<div>", "|a|", "\ufeff", "\x00", "</pre>", "<pre>",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def put_or_none(readme):
    """The README with the section; None where it ends within a code block."""
    if "`" not in readme and "~" not in readme:
        return with_section(readme)
    with contextlib.suppress(ValueError):
        return with_section(readme)
    return None


@settings(deadline=None, max_examples=200)
@given(TEXTS, TEXTS)
def test_nothing_outside_the_markers_moves(readme, more):
    made = put_or_none(readme)
    assume(made is not None)
    assert made.startswith(readme)
    assert made.count(BEGIN) == 1
    assert with_section(made) == made
    # Text that somebody adds below stays, too.
    longer = f"{made}\n{more}"
    assume(split(longer).before == split(made).before)  # a rule below can make a header of what stands above it
    updated = with_section(longer, PART.replace("bash", "sh"))
    assert updated[: updated.index(BEGIN)] == longer[: longer.index(BEGIN)]
    assert updated[updated.index(END) :] == longer[longer.index(END) :]
    assert "```sh" in updated


def test_a_study_is_replaced_alone_and_the_order_does_not_hang_on_time():
    readme = "# A\r\n"
    both = with_parts(with_parts(readme, {"b": OTHER}), {"a": PART})
    assert both == with_parts(readme, {"a": PART, "b": OTHER})
    assert "\n" not in both.replace("\r\n", "")
    changed = with_parts(both, {"b": OTHER.replace("### B", "### C")})
    assert changed == both.replace("### B", "### C")


def test_a_study_that_lost_a_marker_is_not_thrown_away():
    both = with_parts("", {"a": PART, "b": OTHER})
    with pytest.raises(ValueError, match=r"o/m/README\.md: in the section on bias, <!-- swapbias:begin b -->"):
        with_parts(both.replace("<!-- swapbias:end b -->", ""), {"a": PART}, where="o/m/README.md")
