"""Text from outside, made safe to stand in Markdown, HTML, links and file names."""

import hashlib
import re
import unicodedata
from urllib.parse import quote, urlsplit

from markupsafe import escape

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
    kept = (char for char in text if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf", "Cs"))
    return " ".join("".join(kept).split())


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


def html(text: str) -> str:
    """Any text as HTML that shows it and does nothing else, in an element or a quoted attribute."""
    return str(escape(visible(text)))


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
