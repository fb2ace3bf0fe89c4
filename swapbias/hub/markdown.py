"""Markdown of a card: text from outside made safe, and a part between two comments put in or replaced."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from swapbias.hub.header import newline, split

LIMIT = 5_000_000  # characters; the Hub's longest cards have a tenth
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
    if len(text) > LIMIT:
        raise ValueError(f"{where} has {len(text)} characters, at most {LIMIT} are read. Shorten it.")
    if begin not in text and end not in text:
        return None
    found = _markers(text, begin, end)
    if not found:
        return None
    names = [name for name, _ in found]
    if names == [begin, end]:
        return Span(found[0][1], found[1][1] + len(end))
    line = len(_LINE_END.findall(text[: found[0][1]])) + 1
    raise ValueError(f"{where}:{line}: {_unpaired(names, begin, end)}")


def _unpaired(names: list[str], begin: str, end: str) -> str:
    """What is wrong with markers that are no pair, and what to do."""
    begun, ended = names.count(begin), names.count(end)
    complaint = f"{begun} lines of {begin} and {ended} of {end}, expected one of each in this order."
    if not ended:
        return f"{complaint} Put {end} back after what belongs to it, or remove {begin} with it."
    if not begun:
        return f"{complaint} Put {begin} back before what belongs to it, or remove {end} with it."
    return f"{complaint} Remove the markers that are too many, with what stands between them."


def _markers(text: str, begin: str, end: str) -> list[tuple[str, int]]:
    """The markers in their order, with the place of each: lines of HTML that stand in nothing else."""
    from markdown_it import MarkdownIt

    parts = split(text)
    closing = _LINE_END.search(parts.after) if parts.has_header else None
    offset = len(parts.before) + len(parts.header) + (closing.end() if closing else 0)
    body = text[offset:] if closing or not parts.has_header else ""
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
