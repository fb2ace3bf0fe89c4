"""Words and phrases that users do not read any more, and the sentences that they do read."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

# One list for docs, cards, pages, help, terminal and errors: a phrase, and what is written instead. Phrases of the
# first part are sought in docstrings and comments too.
OLD_SENTENCES = {
    r"\bexpects (men|women|\{)": "prefers men's words",
    r"makes no difference to|moves that|shows no gap between|leaves undecided whether": "the verdict sentences",
    r"exactly the same scores": "all pairs score the same",
    r"nothing varies or too little is scored": "all pairs score the same",
    r"could see|errs more often": "with 80 % power",
    r"templates are skewed": "gaps are uneven across templates",
    r"What could turn it|Leaving out (any )?one|sign holds in": "Sensitivity",
    r"for independent|gap beyond wording": "as independent",
    r"not shown to be either side|would have to, to rule": "undecided",
    r"effects spread as in|experiments for other kinds": "the sentences of a plan",
    r"Whatever the missing answers|is output again for the pairs": "counting unread answers either way",
    r"Nothing to audit|a fault of swapbias": "the sentences of errors",
}
REPLACED = OLD_SENTENCES | {
    r"\bsharpest\b|in 4 of 5 (runs|audits|repetitions)": "with 80 % power",
    r"\berrs?\b": "is wrong, false positives",
    r"\bat hand\b": "available, found, missing",
    r"\bmend(s|ed|ing)?\b": "fix, correct",
    r"\blikeli(er|est)\b": "more likely",
    r"\banew\b": "again",
    r"\bstands?\b(?! for\b)": "is, appears",
    r"\bholds?\b": "contains, has, covers",
    r"\bgo(es)? on\b": "continues, resumes",
    r"\b(is|are|as|count as) a sample\b": "random factor",
    r"\bcut at\b": "truncated",
    r"\bone family\b": "corrected together (Bonferroni)",
    r"\b(is|are) told\b": "is reported",
}
ALL_OLD_SENTENCES = re.compile("|".join(f"(?:{phrase})" for phrase in OLD_SENTENCES))
ALL_REPLACED = re.compile("|".join(f"(?:{phrase})" for phrase in REPLACED), re.IGNORECASE)
MOST_WORDS = 25

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEMPLATES = sorted((ROOT / "swapbias" / "report").glob("*.html.j2"))
SCRIPTS = sorted((ROOT / "swapbias" / "report").glob("*.js"))
LIBRARY = sorted((ROOT / "swapbias").rglob("*.py"))
STUDIES = sorted((ROOT / "datasets_src").glob("*/study.toml"))
CARDS = sorted(
    [*(ROOT / "datasets_src").glob("*/README.md"), *(ROOT / "metrics").glob("*/README.md")]
)
FOR_MODELS = {ROOT / "swapbias" / "swapping" / "resolvers.py"}  # its long string is a prompt


def sentences(path: Path) -> list[str]:
    """Return the sentences of a file that a user reads: those of a page, a template or a module."""
    text = path.read_text(encoding="utf-8-sig")
    readers = {".md": _page_blocks, ".j2": _template_blocks, ".py": _strings, ".js": _quoted}
    blocks = (readers | {".toml": _values})[path.suffix](text)
    return [one for block in blocks for one in split(block)]


def split(block: str) -> list[str]:
    """Split text at the ends of sentences."""
    parts = re.split(r"[.?!][\"”’)*_]*(?=\s|$)", block)
    return [part.strip() for part in parts if part.strip()]


def count_words(sentence: str) -> int:
    """Count the words of a sentence; signs alone are none."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def _page_blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, list items, headings and cells of Markdown; code and an outside link are a word."""
    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\[[^\]]*\]\(https?://[^)]*\)", "TITLE", text)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", text))
    text = re.sub(r"^\s*([-*+]|\d+\.|#+) ", "\n\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        rows = [line for line in block.splitlines() if line.lstrip().startswith("|")]
        yield " ".join(line.strip() for line in block.splitlines() if line not in rows)
        for line in rows:
            yield from line.strip().strip("|").split(" | ")


def _template_blocks(text: str) -> Iterator[str]:
    """Yield the text between the tags of a template; what is filled in is a word."""
    text = re.sub(r"\{#.*?#\}|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"\{\{.*?\}\}|<code>.*?</code>", "X", text, flags=re.DOTALL)
    text = re.sub(r"\{%.*?%\}", " ", text, flags=re.DOTALL)
    inline = r"</?(?:a|b|em|i|strong|span)\b[^>]*>"
    yield from re.split(r"<[^>]*>", re.sub(inline, "", text))


def _strings(source: str) -> Iterator[str]:
    """Yield the strings of a module with more than a word, no docstrings and no patterns."""
    tree = ast.parse(source)
    skipped = set()
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            texts.append("".join(map(str, parts)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in skipped:
            texts.append(str(node.value))
    yield from (text for text in texts if " " in text and not re.search(r"\\b|\(\?:", text))


def _quoted(script: str) -> Iterator[str]:
    """Yield the strings of a script of the page with more than a word."""
    for text in re.findall(r"""["'`]([^"'`\n]* [^"'`\n]*)["'`]""", script):
        yield re.sub(r"\$\{[^}]*\}", "X", text)


def _values(declaration: str) -> Iterator[str]:
    """Yield the texts of a declaration with more than a word."""
    values: list[object] = [tomllib.loads(declaration)]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str) and " " in value:
            yield " ".join(value.split())
