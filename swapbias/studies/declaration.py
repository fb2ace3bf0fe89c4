"""What the ``study.toml`` of a study of one's own says."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from swapbias.errors import quoted
from swapbias.files import not_utf8
from swapbias.studies.catalogue import corpora

DECLARATION = "study.toml"
KINDS = ("masked", "classifier", "causal")
CHAT, READINGS = "chat", ("text", "person", "options")  # asked where it is named, and how its answers are read
NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What ``study.toml`` says; only ``name`` and ``title`` must stand there.

    Attributes:
        name: in findings and file names: a-z, 0-9 and _.
        title, question, url, licence, version: of the study.
        groups: those that are compared; all that the tables hold by default.
        reference: the group that is subtracted.
        kind: kinds of model that read it (masked, classifier, causal, chat): what its texts allow by default, but
            for chat.
        answers: of chat models, each with what it counts: ``0=Yes``, ``1=No``, ``=It depends``.
        reading: of their answers: ``text`` (the decision that free text comes to), ``person`` (who is named) or
            ``options`` (a letter or the words of one).
        rubric, rubric_options: the question that a judge is asked of an answer, and its options as ``answers``.
        unit: of what a classifier or function gives.
        margin: a gap below this share of the range of its unit counts as none.
        random: columns whose values are a sample of many; templates, word pairs and conditions by default.
        slices: columns to break findings down by; by default those that stand beside the needed ones.
        limits: sentences that every report repeats.
    """

    name: str
    title: str
    question: str = ""
    url: str = ""
    licence: str = "other"
    version: str = "1.0.0"
    groups: tuple[str, ...] = ()
    reference: str = ""
    kind: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    reading: str = READINGS[0]
    rubric: str = ""
    rubric_options: tuple[str, ...] = ()
    unit: str = ""
    margin: float | None = None
    random: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def read_declaration(content: bytes) -> tuple[Declared | None, list[str]]:
    """What ``study.toml`` says, without what it cannot say, and a sentence with the line for each such fault.

    None: it is no TOML.
    """
    try:
        text = text_of(DECLARATION, content)
        read = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return None, [f"{DECLARATION}: no TOML: {error}. Mend that line."]
    except ValueError as error:  # not UTF-8
        return None, [str(error)]
    values: dict[str, Any] = {}
    found = [f"{DECLARATION}:{line_of(text, key)}: {fault}" for key, fault in _read_values(read, values)]
    for key in ("name", "title"):
        if not read.get(key):
            found.append(f'{DECLARATION}: {key} is missing. Add {key} = "...".')
            values.pop(key, None)
    declared = Declared(**{"name": "study", "title": "study", **values})
    wrong = [*_faults_of_values(declared)]
    found += [f"{DECLARATION}:{line_of(text, key)}: {fault}" for key, fault in wrong]
    kept = {key: value for key, value in values.items() if key not in dict(wrong)}
    return Declared(**{"name": "study", "title": "study", **kept}), found


def _read_values(read: Mapping[str, Any], values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys with what is wrong with their name or type; the values of the others are added to ``values``."""
    known = {one.name: one.default for one in fields(Declared)}
    for key, value in read.items():
        if key not in known:
            yield key, f"{quoted(key)} is none of {', '.join(known)}. Correct or remove it."
            continue
        if isinstance(known[key], tuple):
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                yield key, f"{key} is {quoted(value)}, expected a list of texts. Correct it."
                continue
            value = tuple(value)
        elif key == "margin":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                yield key, f"margin is {quoted(value)}, expected a number from 0 to 1. Correct it."
                continue
            value = float(value)
        elif not isinstance(value, str):
            yield key, f"{key} is {quoted(value)}, expected a text. Put it into quotes."
            continue
        values[key] = value


def _faults_of_values(declared: Declared) -> Iterator[tuple[str, str]]:
    """Keys with what is wrong with their values."""
    if not NAME.fullmatch(declared.name) or declared.name in corpora():
        why = (
            "is a study of the package"
            if declared.name in corpora()
            else "is no name (a-z, 0-9 and _, a letter first)"
        )
        yield "name", f"{quoted(declared.name)} {why}. Choose another."
    if declared.url and not re.match(r"https?://", declared.url):
        yield "url", f"url is {quoted(declared.url)}, expected one that begins with https://. Correct it."
    for kind in declared.kind:
        if kind not in (*KINDS, CHAT):
            yield "kind", f"{quoted(kind)} is no kind, expected {', '.join((*KINDS, CHAT))}. Correct it."
    if declared.reading not in READINGS:
        yield "reading", f"{quoted(declared.reading)} is no reading, expected {', '.join(READINGS)}. Correct it."
    for key, needed in (("answers", CHAT in declared.kind), ("rubric_options", bool(declared.rubric))):
        if fault := _fault_of_options(getattr(declared, key), key, needed=needed):
            yield key, fault
    if not re.fullmatch(r"\d+\.\d+\.\d+", declared.version):
        yield "version", f"{quoted(declared.version)} is no version such as 1.0.0. Correct it."
    for named in fields(Declared):
        value = getattr(declared, named.name)
        for one in value if isinstance(value, tuple) else [value]:
            if isinstance(one, str) and (len(one) > 1_000 or not one.isprintable()):
                yield named.name, f"{named.name} is too long or not printable. Shorten it."


def _fault_of_options(options: Sequence[str], key: str, *, needed: bool) -> str:
    """What is wrong with answers that cannot be read, or that nothing is asked for; blank for nothing."""
    from swapbias.measures import options_of  # numpy, which listing the studies does not need

    if not needed and options:
        return f'{key} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.'
    try:
        if any("/" in one or "|" in one for one in options):  # one names a word list, the other parts answers
            raise ValueError("/ or | stands in one.")
        if needed:
            options_of("|".join(options))
    except ValueError as error:
        return f'{key} cannot be read ({error}) Write {key} = ["0=Yes", "1=No"].'
    return ""


def line_of(text: str, key: str) -> int:
    """The line of a declaration that a key stands in; 1 where it does not."""
    found = re.search(rf"^\s*{re.escape(key)}\s*=", text, re.MULTILINE)
    return text.count("\n", 0, found.end()) + 1 if found else 1


def text_of(name: str, content: bytes) -> str:
    """The text of a file.

    Raises:
        ValueError: it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error
