"""Headers of READMEs read safely, and text from outside escaped."""

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from swapbias.hub.cards import (
    decode,
    dump,
    load,
    markdown,
    newline,
    slug,
    split,
    visible,
    with_keys,
)

HOSTILE = [
    "<script>alert(1)</script>", "a|b", "a\\|b", "[x](javascript:alert(1))", "![](http://x)", "<!-- swapbias:end -->",
    "one\ntwo\n\n# three", "a\u202eb", "`code` **bold** _it_ ~~no~~", "http://x.example www.x.example a@b.example",
    "&lt;b&gt; &amp; &#60;", "- item", "1. item", "===", "---", "> quote", "    code", "[ref]: http://x",
    "trailing \\", "$x$ :tada:",
]  # fmt: skip


def tokens(text):
    """Every token of a text as Markdown, inline ones too."""
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


def test_what_cannot_be_seen_is_gone():
    assert visible("a\u202eb\u200bc\x00d\ufeffe\U000e0041f\ud800") == "abcdef"
    assert visible(" one\r\ntwo\u2028three\t") == "one two three"


def test_no_link_is_made_of_an_address_in_running_text():
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


def test_plain_yaml_is_read_with_merges_and_aliases():
    text = "a: &a {x: 1, <<: {y: 2}}\nb:\n  <<: *a\n  x: 3\nc: *a\nd: 1:30\n"
    assert load(text, "x") == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 1, "y": 2}, "d": 90}
    assert load("# nothing\n", "x") == load("", "x") == {}


def test_bytes_that_are_no_utf8_are_refused_with_their_line():
    assert decode("\ufeffé".encode(), "card.md") == "\ufeffé"
    with pytest.raises(ValueError, match=r"card.md:2: not UTF-8"):
        decode(b"a\n\xff", "card.md")


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
