"""Headers of READMEs read safely, text from outside escaped, and a section that moves nothing outside its markers."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings, strategies as st
from markdown_it import MarkdownIt

from swapbias.hub.cards import (
    BEGIN,
    END,
    dump,
    load,
    markdown,
    newline,
    slug,
    split,
    study_parts,
    visible,
    with_keys,
    with_parts,
)
from swapbias.studies import decoded
from tests.hub.card_findings import FOUND, MANIFEST, URL, finding, without_section

HOSTILE = [
    "<script>alert(1)</script>", "a|b", "a\\|b", "[x](javascript:alert(1))", "![](http://x)", "<!-- swapbias:end -->",
    "one\ntwo\n\n# three", "a\u202eb", "`code` **bold** _it_ ~~no~~", "http://x.example www.x.example a@b.example",
    "&lt;b&gt; &amp; &#60;", "- item", "1. item", "===", "---", "> quote", "    code", "[ref]: http://x",
    "trailing \\", "$x$ :tada:",
]  # fmt: skip


def tokens(text):
    found = MarkdownIt("commonmark").enable("table").parse(text)
    return [inner for token in found for inner in (token, *(token.children or []))]


def shown(of):
    return "".join(token.content for token in of if token.type in ("text", "text_special"))


def cells(text):
    """The content of each cell of a row that holds the text and a second cell."""
    found = tokens(f"| h | i |\n|---|---|\n| {markdown(text)} | end |\n")
    kinds = [token.type for token in found]
    body = found[kinds.index("tbody_open") : kinds.index("table_close")]
    assert {token.type for token in body} <= {
        "tbody_open", "tr_open", "td_open", "inline", "text", "text_special", "td_close", "tr_close", "tbody_close",
    }  # fmt: skip
    return [shown(token.children) for token in body if token.type == "inline"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_in_one_cell_and_does_nothing(text):
    assert cells(text) == [visible(text), "end"]


@settings(deadline=None, max_examples=200)
@given(st.text(st.one_of(st.sampled_from("|\\`*_[]()<>!&#~-+=:.1 \n\t$@"), st.characters()), max_size=30))
def test_any_text_is_shown_in_one_cell_and_as_one_paragraph(text):
    assert cells(text) == [visible(text), "end"]
    found = tokens(markdown(text))
    kinds = {token.type for token in found}
    assert kinds <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    assert shown(found) == visible(text)


def test_what_cannot_be_seen_is_gone_and_no_link_is_made_of_an_address():
    assert visible("a\u202eb\u200bc\x00d\ufeffe\U000e0041f\ud800") == "abcdef"
    assert visible(" one\r\ntwo\u2028three\t") == "one two three"
    escaped = markdown("see http://x.example, WWW.x.example, a@b.example")
    assert "://" not in escaped
    assert "www." not in escaped.lower()
    assert "@" not in escaped


@given(st.text(max_size=80), st.integers(1, 70))
def test_a_slug_is_a_safe_part_of_a_file_name(text, limit):
    name = slug(text, limit)
    assert 0 < len(name) <= limit
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    ("text", "before", "header", "after"),
    [
        ("---\na: 1\n---\nbody", "---\n", "a: 1\n", "---\nbody"),
        ("---\na: 1\n---", "---\n", "a: 1\n", "---"),
        ("---\n---\n", "---\n", "", "---\n"),
        ("\ufeff---\r\na: 1\r\n---\r\nb", "\ufeff---\r\n", "a: 1\r\n", "---\r\nb"),
        ("\ufeff\n\ufeff---\na: 1\n---\nb", "\ufeff\n\ufeff---\n", "a: 1\n", "---\nb"),
        ("\n\n---  \na: 1\n--- \nb", "\n\n---  \n", "a: 1\n", "--- \nb"),
        ("---\na:\n  ---\n---x\n---\n---\n", "---\n", "a:\n  ---\n---x\n", "---\n---\n"),
        ("# Title\n---\na: 1\n---\n", "", "", "# Title\n---\na: 1\n---\n"),
        ("---\nnot closed\n", "", "", "---\nnot closed\n"),
        ("----\na\n---\n", "", "", "----\na\n---\n"),
        ("", "", "", ""),
    ],
)
def test_a_readme_is_split_at_its_header(text, before, header, after):
    parts = split(text)
    assert (parts.before, parts.header, parts.after) == (before, header, after)


@given(st.lists(st.sampled_from(["---", "--- ", "a: 1", "\ufeff", "\n", "\r\n", "\r", " ", "text"])).map("".join))
def test_the_parts_of_a_readme_make_the_whole(text):
    parts = split(text)
    assert parts.before + parts.header + parts.after == text


def test_line_ends_are_those_of_the_first_line():
    assert [newline(text) for text in ("a\r\nb\n", "a\nb\r\n", "a", "a\r")] == ["\r\n", "\n", "\n", "\r\n"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 5000, "card.md: its YAML holds a value that cannot be read"),
        ("a: 1\nb: !!python/object/apply:os.system ['x']", "card.md:3: its YAML cannot be read"),
        ("a: 1\nb: \x07", "card.md: its YAML holds a value that cannot be read"),
        ("a: [", "card.md:2: its YAML cannot be read"),
        ("a: *nothing", "card.md:2: its YAML cannot be read"),
        ("a: 1\n...\n---\nb: 2", "card.md:4: its YAML cannot be read"),
        ("? [a]\n: 1", "card.md:2: its YAML cannot be read"),
        ("a: 2020-13-45", "card.md: its YAML holds a value that cannot be read"),
        ("a: " + "1" * 5000, "card.md: its YAML holds a value that cannot be read"),
        ("- a", "card.md:2: its YAML is no mapping"),
        ("text", "card.md:2: its YAML is no mapping"),
    ],
    ids=range(11),
)
def test_yaml_that_cannot_be_read_is_refused_in_one_short_sentence(text, message):
    with pytest.raises(ValueError, match=message) as refused:
        load(text, "card.md", first_line=2)
    assert len(str(refused.value)) < 150
    assert "\n" not in str(refused.value)


def test_plain_yaml_is_read_with_merges_and_bytes_that_are_no_utf8_are_refused():
    text = "a: &a {x: 1, <<: {y: 2}}\nb:\n  <<: *a\n  x: 3\nc: *a\nd: 1:30\n"
    assert load(text, "x") == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 1, "y": 2}, "d": 90}
    assert load("# nothing\n", "x") == load("", "x") == {}
    assert decoded("card.md", "\ufeffé".encode(), "utf-8") == "\ufeffé"
    with pytest.raises(ValueError, match=r"card\.md is not UTF-8"):
        decoded("card.md", b"a\n\xff")


PLAIN = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufeff"))
LEAVES = st.none() | PLAIN | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_keys_are_set_and_the_body_stays_byte_for_byte(line_end):
    before = "---\na: [1,  2] # two\ntags:\n- x\n\n---\nbody \n\n".replace("\n", line_end)
    made = with_keys(before, {"tags": ["x", "y"], "new": {"c": 1}, "a": [1, 2]}, where="README.md")
    expected = "---\na:\n- 1\n- 2\ntags:\n- x\n- y\nnew:\n  c: 1\n---\nbody \n\n"
    assert made == expected.replace("\n", line_end)
    assert with_keys(made, {"tags": ["x", "y"], "new": {"c": 1}}, where="README.md") == made


@pytest.mark.parametrize("readme", ["---\na: 1\n---\n# A\n", "---\r\na: 1\r\n---\r\n# A\r\n", "# A\n", ""])
@pytest.mark.parametrize("marks", ["\ufeff", "\ufeff\ufeff"])
def test_behind_a_byte_order_mark_no_key_is_lost_to_the_client_of_the_hub(marks, readme):
    from huggingface_hub import RepoCard

    made = with_keys(marks + readme, {"b": 2}, where="README.md")
    assert made == with_keys(readme, {"b": 2}, where="README.md")
    assert load(split(marks + made).header, "README.md") == RepoCard(made).data.to_dict()
    assert RepoCard(made).data.to_dict() == ({"a": 1} if "a: 1" in readme else {}) | {"b": 2}


KEYS = st.sampled_from(["license", "language", "tags", "x"])


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(KEYS, VALUES, min_size=1), st.dictionaries(KEYS, VALUES), st.sampled_from(["\n", "\r\n"]))
def test_any_keys_are_set_and_others_stay(before, values, line_end):
    lines = {key: dump({key: value}).replace("\n", line_end) for key, value in before.items()}
    readme = f"---{line_end}{''.join(lines.values())}---{line_end}body"
    made = with_keys(readme, values, where="README.md")
    assert load(split(made).header, "x") == {**before, **values}
    assert split(made).after == f"---{line_end}body"
    assert with_keys(made, values, where="README.md") == made


MARKUP = "<script>|x [y](javascript:z) <!-- swapbias:end -->\n# T"
PART, OTHER = "### A\n\n```bash\nswapbias\n```", "### B"


def section_of(part, study="a"):
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
    found = [replace(finding(model=MARKUP, cluster_vars=MARKUP, subset=MARKUP, primary=True), unit=MARKUP)]
    manifest = MANIFEST | {
        "swapbias": MARKUP,
        "finished": MARKUP,
        "skipped": [{"study": "gendered_stigma", "experiment": MARKUP, "reason": "x"}],
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


def test_the_section_goes_to_the_end_or_is_replaced_where_it_stands():
    assert with_section("") == f"{SECTION}\n"
    for readme in ("# A", "# A\n", "# A\n\n"):
        assert with_section(readme) == f"# A\n\n{SECTION}\n"
    assert with_section("---\na: 1\n---") == f"---\na: 1\n---\n\n{SECTION}\n"
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


def test_a_study_is_replaced_alone_in_any_order_and_not_thrown_away_where_it_lost_a_marker():
    readme = "# A\r\n"
    both = with_parts(with_parts(readme, {"b": OTHER}), {"a": PART})
    assert both == with_parts(readme, {"a": PART, "b": OTHER})
    assert "\n" not in both.replace("\r\n", "")
    changed = with_parts(both, {"b": OTHER.replace("### B", "### C")})
    assert changed == both.replace("### B", "### C")
    both = with_parts("", {"a": PART, "b": OTHER})
    with pytest.raises(ValueError, match=r"o/m/README\.md: in the section on bias, <!-- swapbias:begin b -->"):
        with_parts(both.replace("<!-- swapbias:end b -->", ""), {"a": PART}, where="o/m/README.md")
