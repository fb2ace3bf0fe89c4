"""README.md files of the Hub: the YAML header, text between two markers, tables, and text from outside escaped."""

import datetime as dt
import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

CARD = "README.md"
BYTE_ORDER_MARK = "\ufeff"
_WIDTH = 1_000_000  # of a line of YAML: values are not wrapped
# The Hub allows white space before the header, and ends it at the first line of ---. Byte order marks are no text.
_OPENED = re.compile(r"[\ufeff\s]*---[ \t]*\r?\n")
_CLOSED = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Split:
    """A README.md in three parts that make the whole again when joined.

    Attributes:
        before: up to and with the line that opens the header; blank where there is none.
        header: the lines between, with their line ends.
        after: the line that closes the header, and the body; everything where there is no header.
    """

    before: str
    header: str
    after: str


def decode(content: bytes, where: str) -> str:
    """The text of a file; a byte order mark stays.

    Raises:
        ValueError: it is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{where}:{line}: not UTF-8. Save it as UTF-8.") from None


def newline(text: str) -> str:
    """The line end of a text: that of its first line, or a plain one where it has none."""
    first = text[: text.find("\n")] if "\n" in text else text
    return "\r\n" if first.endswith("\r") else "\n"


def split(text: str) -> Split:
    r"""A README.md in header and body. A rule (``---``) that nothing closes opens no header.

    >>> split("---\nlicense: mit\n---\n# Title\n")
    Split(before='---\n', header='license: mit\n', after='---\n# Title\n')
    """
    opened = _OPENED.match(text)
    closed = _CLOSED.search(text, opened.end()) if opened else None
    if opened is None or closed is None:
        return Split("", "", text)
    return Split(text[: opened.end()], text[opened.end() : closed.start()], text[closed.start() :])


def load(header: str, where: str, *, first_line: int = 1) -> dict[Any, Any]:
    """The metadata of a header; empty where it holds nothing.

    Raises:
        ValueError: it is no plain YAML, or no mapping.
    """
    made = read_yaml(header, where, first_line=first_line)
    if made is None:
        return {}
    if not isinstance(made, dict):
        raise ValueError(f"{where}:{first_line}: its YAML is no mapping of keys to values. Write 'key: value' lines.")
    return made


def read_yaml(text: str, where: str, *, first_line: int = 1) -> Any:
    """What YAML holds, None where it holds nothing; plain values alone, no Python objects.

    Args:
        text: the YAML.
        where: names its file in errors.
        first_line: the number of its first line in that file.

    Raises:
        ValueError: one sentence with the place, which repeats nothing of the content.
    """
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = first_line + (error.problem_mark.line if error.problem_mark else 0)
        raise ValueError(f"{where}:{line}: its YAML cannot be read. Correct this line.") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, KeyError, AttributeError):
        raise ValueError(f"{where}: its YAML holds a value that cannot be read. Correct it.") from None


def with_keys(readme: str, values: Mapping[str, Any], *, where: str) -> str:
    """The README with these keys at the top of its header, all else byte for byte; a key that has its value stays.

    Where anything is written, byte order marks at its head go: behind one the Hub's own client sees no metadata.

    Args:
        readme: the whole file; blank where there is none.
        values: native values by key; new keys go to the end of the header, which is made where there is none.
        where: names the file in errors.

    Raises:
        ValueError: a header that cannot be read, or is not written as a line for each key.
    """
    parts, line_end = split(readme), newline(readme)
    before = load(parts.header, where, first_line=parts.before.count("\n") + 1)
    wanted = {key: native(value) for key, value in values.items()}
    changed = {key: value for key, value in wanted.items() if key not in before or before[key] != value}
    if not changed:
        return readme
    header = parts.header
    for key, value in changed.items():
        lines = dump({key: value}).replace("\n", line_end)
        if key in before:  # its line, and those below that are indented or items of a list
            block = rf"^(['\"]?){re.escape(key)}\1[ \t]*:(?=\s).*\n?(?:(?:[ \t\r]*\n)*(?:[ \t]+\S|-\s).*\n?)*"
            header = re.sub(block, lines.replace("\\", r"\\"), header, count=1, flags=re.MULTILINE)
        else:
            header += lines if not header or header.endswith("\n") else line_end + lines
    try:
        safe = load(header, where) == {**before, **wanted}
    except ValueError:
        safe = False
    if not safe:
        raise ValueError(f"{where}: its YAML header cannot be edited safely. Write a line 'key: value' for each.")
    if parts.before:
        return parts.before.replace(BYTE_ORDER_MARK, "") + header + parts.after
    return f"---{line_end}{header}---{line_end}{readme.lstrip(BYTE_ORDER_MARK)}"


def dump(value: Any) -> str:
    """YAML of native values, keys in their order, one line for each value that has no line ends.

    Raises:
        ValueError: it holds something that is not native (see ``native``).
    """
    text: str = yaml.dump(native(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def native(value: Any) -> Any:
    """A value of plain mappings, lists, strings, numbers, truth values and None.

    Numpy's scalars become numbers, tuples lists, paths and dates strings; NaN and the infinities become None.

    Raises:
        ValueError: it holds an object of another kind.
    """
    if isinstance(value, Mapping):
        return {native(key): native(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [native(inner) for inner in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, str):  # numpy's strings too, which YAML would write as objects
        return str(value)
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    raise ValueError(f"A card cannot hold a {type(value).__name__}. Turn it into text or numbers first.")


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which else loses rare line ends (U+0085) that it writes as they are."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if re.search("[\x85\u2028\u2029\ufeff]", data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


_LINE_END = re.compile(r"\r\n?|\n")  # as Markdown counts lines


@dataclass(frozen=True, slots=True)
class Span:
    """From the first character of the marker that begins to after the last one of the marker that ends."""

    start: int
    end: int


def replaced(text: str, part: str, *, begin: str, end: str, where: str = "README.md") -> str:
    """The text with the part where its markers stand, or at its end after a blank line.

    Args:
        text: a README.md.
        part: from marker to marker, with plain line ends; it gets those of the text.
        begin, end: the markers, HTML comments of one line.
        where: names the file in errors.

    Raises:
        ValueError: markers that make no pair, or Markdown that swallows what follows it.
    """
    line_end = newline(text)
    ours = part.replace("\n", line_end)
    span = find(text, begin=begin, end=end, where=where)
    if span is not None:
        return text[: span.start] + ours + text[span.end :]
    open_ended = text + _gap(text, line_end)
    # Asked with nothing between the markers: a code block of the part would close one that the text left open.
    if find(f"{open_ended}{begin}{line_end}{end}{line_end}", begin=begin, end=end, where=where) is None:
        raise ValueError(f"{where} ends within a code block. Close it (a line of ``` or ~~~) first.")
    return open_ended + ours + line_end


def find(text: str, *, begin: str, end: str, where: str = "README.md") -> Span | None:
    """Where the markers are, or None where there are none.

    Raises:
        ValueError: they make no pair, naming the line.
    """
    found = _markers(text, begin, end)
    if not found:
        return None
    names = [name for name, _ in found]
    if names == [begin, end]:
        return Span(found[0][1], found[1][1] + len(end))
    line, begun, ended = len(_LINE_END.findall(text[: found[0][1]])) + 1, names.count(begin), names.count(end)
    if begun and ended:
        step = "Remove the markers that are too many, with what stands between them."
    else:
        lost, there = (begin, end) if ended else (end, begin)
        step = f"Put {lost} back {'before' if ended else 'after'} what belongs to it, or remove {there} with it."
    raise ValueError(
        f"{where}:{line}: {begun} lines of {begin} and {ended} of {end}, expected one of each in this order. {step}"
    )


def _markers(text: str, begin: str, end: str) -> list[tuple[str, int]]:
    """The markers in their order, with the place of each: lines of HTML that stand in nothing else."""
    from markdown_it import MarkdownIt

    parts = split(text)
    closing = _LINE_END.search(parts.after) if parts.before else None
    offset = len(parts.before) + len(parts.header) + (closing.end() if closing else 0)
    body = text[offset:] if closing or not parts.before else ""
    lines = [0, *(found.end() for found in _LINE_END.finditer(body)), len(body)]
    found = []
    for token in MarkdownIt("commonmark").disable("inline").parse(body):
        if token.type == "html_block" and token.level == 0 and token.map:
            for number in range(token.map[0], min(token.map[1], len(lines) - 1)):
                line = body[lines[number] : lines[number + 1]]
                if line.strip() in (begin, end):
                    found.append((line.strip(), offset + lines[number] + line.index("<")))
    return found


def _gap(text: str, line_end: str) -> str:
    """What makes the next thing stand after a blank line."""
    if not text or re.search(r"(?:\A|\n)[ \t]*\r?\n\Z", text):
        return ""
    return line_end if text.endswith("\n") else line_end * 2


# Entities where the character has a meaning before inline text is read (table cells, comments, tags) or to what runs
# after it (links, mentions, formulas, emoji); a backslash, which reads better, for the rest.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "$": "&#36;", "@": "&#64;"}
_ESCAPED = str.maketrans({**_ENTITIES, **{mark: f"\\{mark}" for mark in "`*_[]#~"}})
_COLON = re.compile(r":(?=\S)")  # http://, :emoji:
_WWW = re.compile(r"\b(www)\.", re.IGNORECASE)
_ORDINAL = re.compile(r"^([0-9]+)([.)])(?= |$)")
_OPENING = re.compile(r"^(?:[-+](?= |$)|-(?=[-: ]*$)|=(?=[= ]*$))")  # a list, a rule, the underline of a heading
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?")


def visible(text: str) -> str:
    """One line of what a reader sees: no control, direction, zero-width or tag characters, single spaces."""
    # Unicode's Cc also holds tab and line ends, which split() reads as spaces; half surrogates (Cs) cannot be saved.
    shown = (char for char in text if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf", "Cs"))
    return " ".join("".join(shown).split())


def markdown(text: str) -> str:
    r"""Any text as Markdown that shows it and does nothing else, within a line, at its start or in a table cell.

    It is for running text: within a code span or block the escapes would show.

    >>> markdown("<!-- a|b --> [x](http://y) snake_case")
    '&lt;!-- a&#124;b --&gt; \\[x\\](http&#58;//y) snake\\_case'
    """
    safe = visible(text).translate(_ESCAPED)
    safe = _WWW.sub(r"\1&#46;", _COLON.sub("&#58;", safe))
    if _OPENING.match(safe):
        return f"\\{safe}"
    return _ORDINAL.sub(lambda found: f"{found[1]}\\{found[2]}", safe)


def url(text: str) -> str:
    """An address that can stand in a Markdown link or an HTML attribute.

    What could end the link or be read as an entity is percent-quoted; quoting twice changes nothing.

    Raises:
        ValueError: it is no http(s) address with a plain host.
    """
    if visible(text) == text and " " not in text:
        try:
            parts = urlsplit(text)
        except ValueError:  # brackets that hold no address
            parts = urlsplit("")
        if parts.scheme in ("http", "https") and _HOST.fullmatch(parts.netloc):
            quoted = quote(text, safe="%/:?&=#+,.-_~")
            return re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", quoted)
    raise ValueError(f"{visible(text)[:80]!r} is no address to link to. Give one that starts with https://.")


def slug(text: str, limit: int = 60) -> str:
    """Part of a file name from any text: of ``a-z``, ``0-9`` and single dashes, at most ``limit`` long, never empty.

    Different texts can give the same name. A text without a single letter or digit is named by its hash.

    >>> slug("owner/Model_v1.5"), slug("../..")
    ('owner-model-v1-5', 'x0cfd1c96')
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:limit].strip("-")
    return name or f"x{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"[:limit]


def md_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """A table of Markdown whose last ``numbers`` columns stand to the right; cells are escaped already."""
    rules = ["---"] * (len(titles) - numbers) + ["--:"] * numbers
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows))
