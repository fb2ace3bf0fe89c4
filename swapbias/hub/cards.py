"""README.md files of the Hub: header, text between markers, and any text as Markdown that only shows it."""

import hashlib
import re
import unicodedata
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

CARD = "README.md"
BYTE_ORDER_MARK = "\ufeff"
TAGS = ("bias", "fairness", "swapbias")
LINE_END = re.compile(r"\r\n?|\n")  # as Markdown counts lines
# The Hub allows white space before the header, and ends it at the first line of ---. Byte order marks are no text.
_HEADER_OPENS = re.compile(r"[\ufeff\s]*---[ \t]*\r?\n")
_HEADER_CLOSES = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


class _UniqueKeys(yaml.SafeLoader):
    """YAML of plain values whose mappings have each key once, as the Hub wants it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping as the base does; a MarkedYAMLError at a key that is there a second time."""
        written = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else key
            if name in written:
                raise _RepeatedKeyError(problem_mark=key.start_mark)
            written.add(name)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


class _RepeatedKeyError(yaml.MarkedYAMLError):
    """A mapping has a key twice."""


class Split(NamedTuple):
    """A README.md in three parts that make the whole again; the lines of --- are in the outer ones."""

    before: str
    """All up to the header, its opening line included; empty where there is no header."""
    header: str
    """The YAML of the header."""
    after: str
    """The closing line of the header, and the body."""


def newline(text: str) -> str:
    r"""Return the line end of a text.

    Args:
        text: any text.

    Returns:
        ``\r\n`` where its first line ends so, else ``\n``.
    """
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def split(text: str) -> Split:
    r"""Split a README.md into header and body. A rule (``---``) that nothing closes opens no header.

    Args:
        text: the whole README.

    Returns:
        three parts that make the text again.

    >>> split("---\nlicense: mit\n---\n# Title\n")
    Split(before='---\n', header='license: mit\n', after='---\n# Title\n')
    """
    opened = _HEADER_OPENS.match(text)
    closed = _HEADER_CLOSES.search(text, opened.end()) if opened else None
    if opened is None or closed is None:
        return Split("", "", text)
    return Split(text[: opened.end()], text[opened.end() : closed.start()], text[closed.start() :])


def metadata_of(readme: str, file: str) -> dict[Any, Any]:
    """Read the metadata of a README.

    Args:
        readme: the whole README.
        file: its file, as errors name it.

    Returns:
        the metadata by key; empty without a header.

    Raises:
        ValueError: a header that cannot be read; the sentence names its line in the file.
    """
    parts = split(readme)
    return load(parts.header, file, first_line=len(LINE_END.findall(parts.before)) + 1)


def load(header: str, file: str, *, first_line: int = 1) -> dict[Any, Any]:
    """Read the metadata of a header.

    Args:
        header: YAML.
        file: its file, as errors name it.
        first_line: number of the header's first line in that file.

    Returns:
        the metadata by key; empty where the header holds nothing.

    Raises:
        ValueError: it is no YAML, or no mapping.
    """
    metadata = read_yaml(header, file, first_line=first_line)
    if not isinstance(metadata, dict | None):
        raise ValueError(
            f"{file}:{first_line}: its YAML is no mapping of keys to values. Write 'key: value' lines."
        )
    return metadata or {}


def read_yaml(text: str, file: str, *, first_line: int = 1) -> Any:
    """Read YAML of plain values.

    Args:
        text: YAML.
        file: its file, as errors name it.
        first_line: number of the text's first line in that file.

    Returns:
        the value; None for an empty text.

    Raises:
        ValueError: it cannot be read; the sentence names file and line, never the content.
    """
    try:
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - of the safe one
    except yaml.MarkedYAMLError as error:
        line = first_line
        if error.problem_mark:
            line += error.problem_mark.line
        if isinstance(error, _RepeatedKeyError):
            raise ValueError(
                f"{file}:{line}: this key of its YAML is there twice. Remove one."
            ) from None
        raise ValueError(f"{file}:{line}: its YAML cannot be read. Correct this line.") from None
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        KeyError,
        AttributeError,
    ):
        sentence = f"{file}: its YAML contains a value that cannot be read. Correct it."
        raise ValueError(sentence) from None


def dump(value: Any, *, flow: bool | None = False) -> str:
    """Write YAML of native values, keys in their order.

    Args:
        value: lists, mappings and plain values.
        flow: None puts each list or mapping that holds plain values alone on one line.

    Returns:
        YAML, with a line end.
    """
    text: str = yaml.safe_dump(
        value, sort_keys=False, allow_unicode=True, width=1_000_000, default_flow_style=flow
    )
    return text


def with_keys(
    readme: str, values: Mapping[str, Any], *, drop: Collection[str] = (), file: str
) -> str:
    """Set keys in the header of a README; the other keys stay, and the body byte for byte.

    Where a value differs the header is written anew, without comments and byte order marks, behind which the Hub's
    own client sees no metadata.

    Args:
        readme: the whole README.
        values: keys of the header to set.
        drop: keys of the header to remove.
        file: the README's file, as errors name it.

    Returns:
        the README with these keys.

    Raises:
        ValueError: a header that cannot be read.
    """
    parts = split(readme)
    line_end = newline(readme)
    metadata = metadata_of(readme, file)
    after = {key: value for key, value in {**metadata, **values}.items() if key not in drop}
    if after == metadata:
        return readme
    header = dump(after).replace("\n", line_end)
    body = parts.after
    if not parts.before:
        body = f"---{line_end}{readme.lstrip(BYTE_ORDER_MARK)}"
    return f"---{line_end}{header}{body}"


def replaced(text: str, part: str, *, begin: str, end: str, file: str = CARD) -> str:
    """Put a part where its markers stand in a text, or at its end after a blank line.

    Args:
        text: the whole README.
        part: the markers and what is between them; it gets the line ends of the text.
        begin: the first marker, an HTML comment of one line.
        end: the last marker, likewise.
        file: the README's file, as errors name it.

    Returns:
        the text with the part.

    Raises:
        ValueError: the markers make no pair, or Markdown swallows what follows.
    """
    line_end = newline(text)
    part = part.replace("\n", line_end)
    span = find(text, begin=begin, end=end, file=file)
    if span is not None:
        return text[: span[0]] + part + text[span[1] :]
    if text and not re.search(r"(?:\A|\n)[ \t]*\r?\n\Z", text):
        text += line_end if text.endswith("\n") else line_end * 2
    # Tried with nothing between the markers: a code block of the part would close one that the text left open.
    if find(f"{text}{begin}{line_end}{end}{line_end}", begin=begin, end=end, file=file) is None:
        raise ValueError(f"{file} ends within a code block. Close it (a line of ``` or ~~~) first.")
    return text + part + line_end


def find(text: str, *, begin: str, end: str, file: str = CARD) -> tuple[int, int] | None:
    """Find the markers and what is between them.

    Args:
        text: the whole README.
        begin: the first marker, a line of HTML.
        end: the last marker, likewise.
        file: the README's file, as errors name it.

    Returns:
        the first index of the span and the one behind it; None where there is no marker.

    Raises:
        ValueError: the markers make no pair.
    """
    markers = _markers(text, begin, end)
    if not markers:
        return None
    names = [name for name, _ in markers]
    starts = [start for _, start in markers]
    if names == [begin, end]:
        return starts[0], starts[1] + len(end)
    line = len(LINE_END.findall(text[: starts[0]])) + 1
    raise ValueError(
        f"{file}:{line}: {names.count(begin)} lines of {begin} and {names.count(end)} of {end}, expected one of "
        "each in this order. Put back the one that is missing, or remove the others with what is in between."
    )


def _markers(text: str, begin: str, end: str) -> list[tuple[str, int]]:
    """List the markers in their order, with the index of each: lines of HTML that stand in nothing else."""
    if begin not in text and end not in text:  # a long card takes seconds to parse
        return []
    parts = split(text)
    closing = LINE_END.search(parts.after) if parts.before else None
    offset = len(parts.before) + len(parts.header)
    body = text if not parts.before else ""
    if closing:
        offset += closing.end()
        body = text[offset:]
    starts = [0, *(match.end() for match in LINE_END.finditer(body)), len(body)]
    markers = []
    for first, last in _html_blocks(body):
        for number in range(first, min(last, len(starts) - 1)):
            line = body[starts[number] : starts[number + 1]]
            if line.strip() in (begin, end):
                markers.append((line.strip(), offset + starts[number] + line.index("<")))
    return markers


@lru_cache(maxsize=4)  # of a push, which is rehearsed
def _html_blocks(body: str) -> list[tuple[int, int]]:
    """Return the first line of each block of HTML that stands in nothing else, and the line after it."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    return [
        (token.map[0], token.map[1])
        for token in tokens
        if token.type == "html_block" and token.level == 0 and token.map
    ]


# Entities where the character has a meaning before inline text is read (table cells, comments, tags) or to what runs
# after it (links, mentions, formulas, emoji); a backslash, which reads better, for the rest.
_ENTITIES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",
    "\\": "&#92;",
    "$": "&#36;",
    "@": "&#64;",
}
_ESCAPED = str.maketrans({**_ENTITIES, **{mark: f"\\{mark}" for mark in "`*_[]#~"}})
_COLON = re.compile(r":(?=\S)")  # http://, :emoji:
_WWW = re.compile(r"\b(www)\.", re.IGNORECASE)
_ORDINAL = re.compile(r"^([0-9]+)([.)])(?= |$)")
# A list, a rule, the underline of a heading.
_OPENS_BLOCK = re.compile(r"^(?:[-+](?= |$)|-(?=[-: ]*$)|=(?=[= ]*$))")
# Unicode's Cc also holds tab and line ends, which are read as spaces; half surrogates (Cs) cannot be saved.
_INVISIBLE = ("Cc", "Cf", "Cs")


def visible(text: str) -> str:
    """Reduce a text to one line of what a reader sees.

    Args:
        text: any text.

    Returns:
        the text without control, direction, zero-width or tag characters, with single spaces.
    """
    kept = [char for char in text if char.isspace() or unicodedata.category(char) not in _INVISIBLE]
    return " ".join("".join(kept).split())


def markdown(text: str) -> str:
    r"""Write any text as Markdown that shows it and does nothing else: in a line, at its start or in a table cell.

    It is for running text: within a code span or block the escapes would show.

    Args:
        text: any text.

    Returns:
        one line of Markdown.

    >>> markdown("<!-- a|b --> [x](http://y) snake_case")
    '&lt;!-- a&#124;b --&gt; \\[x\\](http&#58;//y) snake\\_case'
    """
    safe = visible(text).translate(_ESCAPED)
    safe = _WWW.sub(r"\1&#46;", _COLON.sub("&#58;", safe))
    if _OPENS_BLOCK.match(safe):
        return f"\\{safe}"
    return _ORDINAL.sub(lambda match: f"{match[1]}\\{match[2]}", safe)


def slug(text: str, limit: int = 60) -> str:
    """Make a part of a file name of a text.

    Args:
        text: any text.
        limit: most characters.

    Returns:
        ``a-z``, ``0-9`` and single dashes; of a text without a letter or digit its hash.

    >>> slug("owner/Model_v1.5"), slug("../..")
    ('owner-model-v1-5', 'x0cfd1c96')
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:limit].strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return name or f"x{digest[:8]}"[:limit]


def rendered(template: str, **values: Any) -> str:
    """Render a text that cards are made of.

    Args:
        template: the file of a template beside this module; its filter ``md`` is ``markdown``.
        values: what the template names.

    Returns:
        the text, without white space around it.
    """
    return _templates().get_template(template).render(values).strip()


@cache
def _templates() -> Environment:
    """Return the templates of cards, each of which is compiled once."""
    templates = Environment(
        loader=PackageLoader("swapbias.hub", ""), undefined=StrictUndefined, trim_blocks=True
    )
    templates.filters["md"] = markdown
    return templates


def note_choices(settings: Mapping[str, Any]) -> list[str]:
    """Return how an audit read clinical notes where it did not as usual.

    Args:
        settings: the settings of the notes, as a manifest has them.
    """
    choices = []
    if settings.get("plausible"):
        choices.append("plausible notes alone")
    table = settings.get("table", "resolved")
    if table != "resolved":
        choices.append(f"notes swapped by the table {table}")
    return choices
