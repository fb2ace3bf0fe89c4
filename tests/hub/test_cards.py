"""Headers of READMEs read safely, text from outside escaped, and a section that moves nothing outside its markers."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings, strategies as st
from markdown_it import MarkdownIt

from swapbias.findings.terms import AS_PUBLISHED
from swapbias.hub import cards
from swapbias.hub.cards import load, markdown, split, visible
from swapbias.hub.run_cards import BEGIN, END, results_card, study_parts, with_parts
from swapbias.studies.tables import decoded
from tests.hub import shared_runs

MANIFEST = shared_runs.MANIFEST | {
    "skipped": [
        {"study": "gendered_stigma", "experiment": "rq2", "reason": "not asked for"},
        {"study": "social_distance", "experiment": "antonyms", "reason": "not asked for"},
    ],
}
URL = "https://hf.co/datasets/ns/results/tree/abc"


def finding(value=0.25, low=0.2, high=0.3, **changed):
    usual = {
        "model_id": "m",
        "primary": False,
        "margin": 0.05,
        "group": "female",
        "reference_group": "male",
    }
    return shared_runs.finding(value, low, high, **{**usual, **changed})


FINDINGS = [
    finding(primary=True),
    finding(view=AS_PUBLISHED, low=0.24, high=0.26),
    finding(-0.5, -0.6, -0.4, subset="other_health", primary=True),
    finding(0.6, measure="mean"),
    finding(0.9, score="closed_list_mass"),
]
HOSTILE = [
    "<script>alert(1)</script>", "a|b", "a\\|b", "[x](javascript:alert(1))", "![](http://x)", "<!-- swapbias:end -->",
    "one\ntwo\n\n# three", "a\u202eb", "`code` **bold** _it_ ~~no~~", "http://x.example www.x.example a@b.example",
    "&lt;b&gt; &amp; &#60;", "- item", "1. item", "===", "---", "> quote", "    code", "[ref]: http://x",
    "trailing \\", "$x$ :tada:",
]  # fmt: skip


def tokens(text):
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    return [inner for token in parsed for inner in (token, *(token.children or []))]


def shown_text(of):
    return "".join(token.content for token in of if token.type in ("text", "text_special"))


def cells(text):
    """The content of each cell of a row that holds the text and a second cell."""
    parsed = tokens(f"| h | i |\n|---|---|\n| {markdown(text)} | end |\n")
    kinds = [token.type for token in parsed]
    body = parsed[kinds.index("tbody_open") : kinds.index("table_close")]
    assert {token.type for token in body} <= {
        "tbody_open",
        "tr_open",
        "td_open",
        "inline",
        "text",
        "text_special",
        "td_close",
        "tr_close",
        "tbody_close",
    }
    return [shown_text(token.children) for token in body if token.type == "inline"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_cell(text):
    """Hostile text is shown in one cell of a table and does nothing."""
    assert cells(text) == [visible(text), "end"]


@settings(deadline=None, max_examples=200)
@given(
    st.text(
        st.one_of(st.sampled_from("|\\`*_[]()<>!&#~-+=:.1 \n\t$@"), st.characters()), max_size=30
    )
)
def test_any_text_in_a_cell(text):
    """Any text is shown in one cell and as one paragraph."""
    assert cells(text) == [visible(text), "end"]
    found = tokens(markdown(text))
    kinds = {token.type for token in found}
    assert kinds <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    assert shown_text(found) == visible(text)


def test_invisible_characters_and_links():
    """Invisible characters are dropped, and no address becomes a link."""
    assert visible("a\u202eb\u200bc\x00d\ufeffe\U000e0041f\ud800") == "abcdef"
    assert visible(" one\r\ntwo\u2028three\t") == "one two three"
    escaped = markdown("see http://x.example, WWW.x.example, a@b.example")
    assert "://" not in escaped
    assert "www." not in escaped.lower()
    assert "@" not in escaped


@given(st.text(max_size=80), st.integers(1, 70))
def test_slug_is_a_file_name(text, limit):
    """A slug is a safe part of a file name within its limit."""
    name = cards.slug(text, limit)
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
def test_readme_is_split_at_header(text, before, header, after):
    """A README is split into what stands before its header, the header and the rest."""
    parts = split(text)
    assert (parts.before, parts.header, parts.after) == (before, header, after)


@given(
    st.lists(
        st.sampled_from(["---", "--- ", "a: 1", "\ufeff", "\n", "\r\n", "\r", " ", "text"])
    ).map("".join)
)
def test_parts_make_the_whole(text):
    """The parts of a README joined are the README."""
    parts = split(text)
    assert parts.before + parts.header + parts.after == text


def test_line_ends():
    """Line ends are those of the first line."""
    texts = ("a\r\nb\n", "a\nb\r\n", "a", "a\r")
    assert [cards.newline(text) for text in texts] == ["\r\n", "\n", "\n", "\r\n"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 5000, "card.md: its YAML contains a value that cannot be read"),
        ("a: 1\nb: !!python/object/apply:os.system ['x']", "card.md:3: its YAML cannot be read"),
        ("a: 1\nb: \x07", "card.md: its YAML contains a value that cannot be read"),
        ("a: [", "card.md:2: its YAML cannot be read"),
        ("a: *nothing", "card.md:2: its YAML cannot be read"),
        ("a: 1\n...\n---\nb: 2", "card.md:4: its YAML cannot be read"),
        ("? [a]\n: 1", "card.md:2: its YAML cannot be read"),
        ("a: 2020-13-45", "card.md: its YAML contains a value that cannot be read"),
        ("a: " + "1" * 5000, "card.md: its YAML contains a value that cannot be read"),
        ("- a", "card.md:2: its YAML is no mapping"),
        ("text", "card.md:2: its YAML is no mapping"),
        ("a: 1\nb: 2\na: 3", "card.md:4: this key of its YAML is there twice"),
        ("a:\n- {b: 1, 'b': 2}", "card.md:3: this key of its YAML is there twice"),
    ],
    ids=range(13),
)
def test_unreadable_yaml(text, message):
    """YAML that cannot be read is refused in one short sentence that quotes none of it."""
    with pytest.raises(ValueError, match=message) as refused:
        load(text, "card.md", first_line=2)
    assert len(str(refused.value)) < 150
    assert "\n" not in str(refused.value)


def test_empty_header_and_wrong_bytes():
    """A header may be empty, and bytes that are no UTF-8 are refused."""
    assert load("# nothing\n", "x") == load("", "x") == {}
    assert decoded("card.md", "\ufeffé".encode(), "utf-8") == "\ufeffé"
    with pytest.raises(ValueError, match=r"card\.md is not UTF-8"):
        decoded("card.md", b"a\n\xff")


PLAIN = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufeff")
)
LEAVES = st.none() | PLAIN | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


def with_keys(readme, values):
    return cards.with_keys(readme, values, file="README.md")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_keys_leave_the_body(line_end):
    """Setting keys of a header leaves the body byte-equal."""
    before = "---\na: [1,  2] # two\ntags:\n- x\n\n---\nbody \n\n".replace("\n", line_end)
    made = with_keys(before, {"tags": ["x", "y"], "new": {"c": 1}, "a": [1, 2]})
    expected = "---\na:\n- 1\n- 2\ntags:\n- x\n- y\nnew:\n  c: 1\n---\nbody \n\n"
    assert made == expected.replace("\n", line_end)
    assert with_keys(made, {"tags": ["x", "y"], "new": {"c": 1}}) == made


@pytest.mark.parametrize(
    "readme", ["---\na: 1\n---\n# A\n", "---\r\na: 1\r\n---\r\n# A\r\n", "# A\n", ""]
)
@pytest.mark.parametrize("marks", ["\ufeff", "\ufeff\ufeff"])
def test_byte_order_mark(marks, readme):
    """No key is lost to the Hub's client behind a byte order mark."""
    from huggingface_hub import RepoCard

    made = with_keys(marks + readme, {"b": 2})
    assert made == with_keys(readme, {"b": 2})
    assert load(split(marks + made).header, "README.md") == RepoCard(made).data.to_dict()
    assert RepoCard(made).data.to_dict() == ({"a": 1} if "a: 1" in readme else {}) | {"b": 2}


KEYS = st.sampled_from(["license", "language", "tags", "x"])


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(KEYS, VALUES, min_size=1),
    st.dictionaries(KEYS, VALUES),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_keys_are_set(before, values, line_end):
    """Any keys can be set, the others stay, and setting them twice changes nothing."""
    lines = {key: cards.dump({key: value}).replace("\n", line_end) for key, value in before.items()}
    readme = f"---{line_end}{''.join(lines.values())}---{line_end}body"
    made = with_keys(readme, values)
    assert load(split(made).header, "x") == {**before, **values}
    assert split(made).after == f"---{line_end}body"
    assert with_keys(made, values) == made


PART = "### A\n\n```bash\nswapbias\n```"
OTHER_SECTION = "### B"


def with_section(readme, text=PART):
    return with_parts(readme, {"a": text})


SECTION = with_section("").rstrip("\n")


def part(found=FINDINGS, manifest=MANIFEST, *, model_name="owner/model", **options):
    (text,) = study_parts(found, manifest, model_name=model_name, **options).values()
    return text


def test_section_has_four_numbers():
    """The section states the result with at most four numbers a row and links the rest."""
    head, _, *rows = [line for line in part().splitlines() if line.startswith("|")]
    assert head == "| experiment | result | value | 95 % interval | margin | n |"
    assert rows == [  # of the five findings two answer the question of the study
        "| rq1 | mental-health conditions | +25.0 points | +20.0 to +30.0 | 5 points | 187 (+3 unscored) |",
        "| rq1 | other health conditions | −50.0 points | −60.0 to −40.0 | 5 points | 187 (+3 unscored) |",
    ]
    text = part([replace(FINDINGS[0], subset=f"s{number}") for number in range(6)], results_url=URL)
    assert text.count("\n| rq1 |") == 4
    assert (
        f"4 of 6 results are shown. [Full results, with every breakdown and a report]({URL})"
        in text
    )


def test_contrast_before_its_gaps():
    """A contrast of gaps stands before the gaps that it compares."""
    between = {"within": "mental_health", "against": "other_health", "measure": "gap_difference"}
    contrast = finding(0.75, subset="mental_health - other_health", primary=True, **between)
    text = part([contrast, *(replace(one, primary=False, verdict="found") for one in FINDINGS)])
    values = [line.split("|")[3].strip() for line in text.splitlines() if line.startswith("| rq1")]
    assert values == ["+75.0 points", "+25.0 points", "−50.0 points"]


def test_section_explains_itself():
    """The section tells how to read it, what was not run and where the results are."""
    text = part(results_url=URL, results_private=True)
    command = "swapbias audit owner/model --study gendered_stigma\n"
    for words in (
        f"]({URL}) (not public",
        command,
        "Not run: rq2.",
        "Gender is read off word lists",
        "2026-11-20",
    ):
        assert words in text
    assert "not public" not in part(results_url=URL)
    assert "antonyms" not in text  # another study has a part of its own
    assert "not a ranking" in SECTION
    assert "no proof that the model is fair" in SECTION


def test_command_for_a_chat_model():
    """The command names a chat model by its options and holds nothing that a shell would run."""
    choices = {
        "corpora": [{"corpus": "gendered_stigma", "config": "choices", "rows": 10}],
        "settings": {"studies": ["gendered_stigma"], "chat": {"model": "m"}},
    }
    text = part([finding(primary=True, experiment="choices")], MANIFEST | choices)
    assert "swapbias audit --chat owner/model --study gendered_stigma\n" in text
    text = part(model_name="a/b; rm -rf ~\n```")
    assert "swapbias audit MODEL --study gendered_stigma\n```" in text


def test_tokenizer_in_doubt():
    """A card says so before its numbers where the tokenizer may be another model's, and names no adapter."""
    pin = {"model_id": FINDINGS[0].model_id, "tokenizer_doubt": "it knows 1 of 9 tokens"}
    text = part(manifest=MANIFEST | {"models": [pin]})
    title = "**Perhaps not its own tokenizer:**"
    assert f"{title} The tokenizer of {pin['model_id']} may be that of another model" in text
    assert "base" not in text.partition("|")[0]
    assert title not in part()


def test_findings_of_one_model():
    """Findings of two models, or without a comparison, make no section."""
    with pytest.raises(ValueError, match="Findings of 2 models"):
        part([finding(primary=True), finding(model_id="n")])
    with pytest.raises(ValueError, match="no comparison of two groups"):
        part([finding(measure="mean")])


MARKUP = "<script>|x [y](javascript:z) <!-- swapbias:end -->\n# T"


def test_outside_text_is_no_markup():
    """No text from outside becomes markup in the section or in the card of results."""

    def made(text):
        found = [finding(model_id=text, cluster_vars=text, subset=text, unit=text, primary=True)]
        skipped = [{"study": "gendered_stigma", "experiment": text, "reason": "x"}]
        manifest = MANIFEST | {"swapbias": text, "finished": text, "skipped": skipped}
        own = {"gendered_stigma": part(found, manifest, results_url=URL)}
        assert with_parts(with_parts("", own), own) == with_parts("", own)
        return with_parts("", own), results_card(
            "o/r", "x-1", found, manifest, ["runs/x-1/results.json"]
        )

    def shape(text):
        found = [one for one in tokens(text) if one.type not in ("text", "text_special")]
        return [
            (one.type, one.attrs, one.content if one.type.startswith("html") else "")
            for one in found
        ]

    for hostile, harmless in zip(made(MARKUP), made("words"), strict=True):
        assert shape(hostile) == shape(harmless)


def test_section_position():
    """The section goes to the end of a README or replaces an earlier one in place."""
    assert with_section("") == f"{SECTION}\n"
    for readme in ("# A", "# A\n", "# A\n\n"):
        assert with_section(readme) == f"# A\n\n{SECTION}\n"
    assert with_section("---\na: 1\n---") == f"---\na: 1\n---\n\n{SECTION}\n"
    before = "# A\r\n\r\n"
    after = "\r\n\r\nmore \n\ttext"
    assert (
        with_section(f"{before}{BEGIN}\nold\n{END}{after}")
        == before + SECTION.replace("\n", "\r\n") + after
    )


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
    ids=[
        "code block",
        "nested fence",
        "list",
        "code in a list",
        "quote",
        "indented",
        "inline",
        "header",
    ],
)
def test_markers_in_code(documented):
    """Markers that are only shown, as in a code block, are no markers."""
    made = with_section(documented)
    assert made == f"{documented}\n{SECTION}\n"
    assert with_section(made) == made


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
def test_unpaired_markers(readme, message):
    """Markers that make no pair are refused with their counts."""
    with pytest.raises(ValueError, match=message):
        with_section(readme)


def test_long_card_is_parsed_once(monkeypatch):
    """A README without markers is parsed once, however often the same section is planned."""
    lengths = []
    parse = MarkdownIt.parse
    monkeypatch.setattr(
        MarkdownIt, "parse", lambda self, text: lengths.append(len(text)) or parse(self, text)
    )
    readme = "---\na: {}\n---\n" + "Word by word.\n" * 1000
    sections = [with_section(readme.format(number)) for number in (1, 2, 2)]
    assert sections[0] == sections[1].replace("a: 2", "a: 1")
    assert len(lengths) == 1


PIECES = [
    "# A", "text", "\n", "\r\n", "\n\n", "\r", "```", "~~~", "- a", "> q", "    ", "\t", "---\n", "a: 1", "<!--",
    "-->", "<div>", "|a|", "\ufeff", "\x00", "</pre>", "<pre>",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def with_section_or_none(readme):
    """The README with the section; None where it ends within a code block."""
    if "`" not in readme and "~" not in readme:
        return with_section(readme)
    with contextlib.suppress(ValueError):
        return with_section(readme)
    return None


@settings(deadline=None, max_examples=200)
@given(TEXTS, TEXTS)
def test_text_outside_markers(readme, more):
    """No text outside the markers is changed by an update."""
    made = with_section_or_none(readme)
    assume(made is not None)
    assert made.startswith(readme)
    assert made.count(BEGIN) == 1
    assert with_section(made) == made
    # Text that somebody adds below stays, too.
    longer = f"{made}\n{more}"
    assume(
        split(longer).before == split(made).before
    )  # a rule below can make a header of what stands above it
    updated = with_section(longer, PART.replace("bash", "sh"))
    assert updated[: updated.index(BEGIN)] == longer[: longer.index(BEGIN)]
    assert updated[updated.index(END) :] == longer[longer.index(END) :]
    assert "```sh" in updated


def test_study_section_is_replaced_alone():
    """The section of one study is replaced alone, and a lost marker of another stops the update."""
    readme = "# A\r\n"
    both = with_parts(with_parts(readme, {"b": OTHER_SECTION}), {"a": PART})
    assert both == with_parts(readme, {"a": PART, "b": OTHER_SECTION})
    assert "\n" not in both.replace("\r\n", "")
    changed = with_parts(both, {"b": OTHER_SECTION.replace("### B", "### C")})
    assert changed == both.replace("### B", "### C")
    both = with_parts("", {"a": PART, "b": OTHER_SECTION})
    with pytest.raises(
        ValueError, match=r"o/m/README\.md: in the section on bias, <!-- swapbias:begin b -->"
    ):
        with_parts(both.replace("<!-- swapbias:end b -->", ""), {"a": PART}, file="o/m/README.md")
