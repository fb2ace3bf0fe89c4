"""Read rankings: lists of only names, one a line, numbered from 1 or complete."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

_BULLET = re.compile(r"^(?:[-•+>#]+\s+)+")
_NUMBER = re.compile(r"#?(\d+)\s*(?:[.):]\s*|\s)(?=\D)")
_SIMILAR = 0.8  # of a name that is misspelt, by the share of letters in order
# A heading has these phrases and words alone, and those of the job.
_BASIS = re.compile(
    r"\bbased on (?:(?:the|their|your) )?(?:(?:provided|given) )?(?:resumes|cvs|information|(?:job )?description"
    r"|qualifications?)(?: and qualifications)?\b"
)
# The order of merit; that of the prompt is no ranking.
_ORDER = re.compile(
    r"\b(?:in (?:the )?order of (?:the )?(?=most|best|highest|qualifi)|the order would be\b)"
)
_WORST = re.compile(
    r"\b(?:most|best|highest)(?: (?:qualified|suitable))?(?: candidate)? to (?:the )?(?:least|lowest|worst)\b"
)
_ANNOUNCED = re.compile(
    r"\b(?:as follows|here (?:is|are)|this is|would be|can be ranked|to rank|is|are)\b"
)
_RANKS = frozenset(("rank", "ranking", "rankings", "ranked", "most", "best", "top"))
_HEADING = _RANKS | frozenset((
    "of", "the", "a", "an", "for", "from", "my", "final", "following", "list", "candidate", "candidates",
    "applicants", "resume", "resumes", "cvs", "role", "position", "job", "qualified", "suitable", "qualification",
    "qualifications", "highest",
))  # fmt: skip


def ranked_names(
    text: str, names: Sequence[str], *, job: str = "", cut: bool = False
) -> list[str | None]:
    """Read the names of a list in their order.

    Args:
        text: an answer without reasoning. A line is a name alone or a number and a name, numbers rise from 1 by 1,
            and above the list there may be a heading that says no more than that it is a ranking.
        names: the candidates. A name is read in full, by a last name that no other has, with an initial, or misspelt
            by a letter or two.
        job: further words that a heading may have.
        cut: the answer ended at the token limit: a list counts only where it has every name.

    Returns:
        The names in order, None for a line that names nobody of ``names``; nothing where the text has any other line,
        begins with somebody else, names somebody twice, or is a list without numbers that lacks a name.
    """
    lines = [line for line in (_bare(line) for line in text.splitlines()) if line]
    while lines and _is_heading(lines[0], job):
        lines.pop(0)
    items = [_NUMBER.match(line) for line in lines]
    numbers = [int(item[1]) for item in items if item]
    if numbers and numbers != list(range(1, len(lines) + 1)):
        return []
    parts = [line[item.end() :] if item else line for line, item in zip(lines, items, strict=True)]
    if not parts or not all(re.fullmatch(r"\w+(?:[ .-]+\w+){0,4}\.?", part) for part in parts):
        return []
    by_text = {_bare(name): name for name in names if _bare(name)}
    order = [by_text.get(part) or _name_like(part, by_text) for part in parts]
    ranked = [name for name in order if name is not None]
    is_complete = len(ranked) == len(names)
    is_list = is_complete or (not cut and (bool(numbers) or len(parts) == 1))
    is_ranking = is_list and order[0] is not None and len(set(ranked)) == len(ranked)
    return order if is_ranking else []


def _bare(text: str) -> str:
    """Write a text in lower case, without list marks, apostrophes and the marks of bold type."""
    return _BULLET.sub("", re.sub(r"['’`*_]", "", text.casefold()).strip()).rstrip(" .;,")


def _is_heading(line: str, job: str) -> bool:
    """Tell whether a line says that a ranking follows, best first, and no more."""
    rest = _ANNOUNCED.sub(" ", _ORDER.sub(" ", _WORST.sub(" best ", _BASIS.sub(" ", line))))
    words = re.findall(r"\w+", rest)
    jobs = set(re.findall(r"\w+", job.casefold()))
    is_plain = re.fullmatch(r"[\w\s,:()-]*", rest) is not None
    return is_plain and bool(_RANKS & {*words}) and {*words} <= _HEADING | jobs


def _name_like(part: str, names: Mapping[str, str]) -> str | None:
    """Find the candidate whom a part of a line names by a last name, with an initial or misspelt."""
    families = Counter(text.split()[-1] for text in names)
    part_name = part.rstrip(".")
    for text, name in names.items():
        family = text.split()[-1]
        forms = (family, f"{text[0]} {family}", f"{text[0]}. {family}")
        if families[family] == 1 and part_name in forms:
            return name
    similar = [name for text, name in names.items() if _is_misspelt(part_name, text)]
    return similar[0] if len(similar) == 1 else None


def _is_misspelt(text: str, name: str) -> bool:
    """Tell whether a text is a name with a letter or two that differ; no word may come in ("not Emily Walsh")."""
    is_as_long = len(text.split()) == len(name.split())
    return is_as_long and SequenceMatcher(None, text, name).ratio() >= _SIMILAR
