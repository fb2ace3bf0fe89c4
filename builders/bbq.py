"""bbq: does a model answer with a stereotype, and is it right more often where one fits (Parrish et al. 2022)?"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from swapbias.builders._bbq_forms import ENGLISH, FOLDER, NAME, Tables, english
from swapbias.builders._bbq_lines import (
    AMBIGUOUS,
    DISAMBIGUATED,
    NEGATIVE,
    QUAD,
    UNKNOWN,
    Line,
    check_stereotypes,
    language_name,
    plain,
    read_lines,
    with_both,
)
from swapbias.builders._bbq_metadata import metadata_file
from swapbias.builders._bbq_mirrors import first_named, mirror_keys, pieces
from swapbias.builders._bbq_released import DATA, released
from swapbias.files import file_sha256
from swapbias.hub import builder_on_use
from swapbias.studies import (
    Candidate,
    Config,
    Row,
    declared_corpus,
    fill,
    placebo,
    prompt_row,
    read_table,
    tables,
)

ORDERS = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
"""Orders of the options: each is in every place once."""
CONDITIONS = {AMBIGUOUS: "ambiguous", DISAMBIGUATED: "disambiguated"}
ANSWERS = "answers"
TABLES = (*CONDITIONS.values(), ANSWERS)
STEREOTYPED = "stereotyped"
COUNTER = "counter"
ALIGNED = "aligned"
CONFLICTING = "conflicting"
PLACES = ("shown first", "shown second", "shown third")
_NO_LETTERS = re.compile(r"[\W_]+")
NAMED = ("named first", "named second")
_COLUMNS = (
    "category", "template", "stereotyped", "other", "context", "negative_of", "detail", "negative", "nonnegative",
    "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A line as it is asked, and the line in which its words exchange places."""

    line: Line
    """The line."""
    line_id: str
    """Its name, unique within a config."""
    mirror: str
    """A name that it shares with its mirror; blank where it has none."""
    first: int | None
    """The index of the option whose person the context names first; None: it is not known."""


def own_templates() -> list[dict[str, str]]:
    """Read the templates of this project."""
    return read_table(FOLDER / "templates.csv", _COLUMNS)


def _own_unknown(template: Mapping[str, str]) -> str:
    """Draw the wording of "unknown" of a template."""
    drawn = random.Random(f"unknown of {template['category']} {template['template']}")
    return drawn.choice(Tables().unknowns(ENGLISH))


def _with_article(noun: str) -> str:
    """Give a noun with its indefinite article."""
    return f"an {noun}" if noun[0].lower() in "aeio" else f"a {noun}"


def _sentence(template: str, **values: str) -> str:
    """Fill a sentence, whose first letter is a capital."""
    used = {slot: text for slot, text in values.items() if f"[{slot}]" in template}
    text = fill(template, **used)
    return text[0].upper() + text[1:]


def own_lines() -> Iterator[Asked]:
    """Yield the lines of this project's templates, each with its words in both orders."""
    for template in own_templates():
        unknown = _own_unknown(template)
        for first, second in (("stereotyped", "other"), ("other", "stereotyped")):
            yield from _own_quad(template, first, second, unknown)


def _own_quad(
    template: Mapping[str, str], first: str, second: str, unknown: str
) -> Iterator[Asked]:
    """Yield the four lines of a template with its words in one order."""
    nouns = (template[first], template[second])
    options = (*(f"The {noun}" for noun in nouns), unknown)
    context = _sentence(
        template["context"], first=_with_article(nouns[0]), second=_with_article(nouns[1])
    )
    detail = _sentence(
        template["detail"], the_first=f"the {nouns[0]}", the_second=f"the {nouns[1]}"
    )
    negative_of = ("first", "second").index(template["negative_of"])
    for polarity, condition in QUAD:
        is_negative = polarity == NEGATIVE
        right = len(nouns)
        if condition == DISAMBIGUATED:
            right = negative_of if is_negative else 1 - negative_of
        line = Line(
            number=0,
            category=template["category"],
            template=f"{template['category']} {template['template']}",
            polarity=polarity,
            condition=condition,
            context=context if condition == AMBIGUOUS else f"{context} {detail}",
            question=template["negative" if is_negative else "nonnegative"],
            options=options,
            words=options,
            labels=(first, second, UNKNOWN),
            stereotyped=frozenset([STEREOTYPED]),
            right=right,
        )
        name = f"{line.template}/{polarity}/{condition}"
        yield Asked(line, f"{name}/{first} first", name, 0)


def asked_lines(path: Path, *, how: Tables | None = None) -> list[Asked]:
    """Read the lines of a file as they are asked, with their mirrors where they have one.

    Args:
        path: a file of JSON lines of the authors' form, or of another one.
        how: the tables that say how it is read; None: those of the corpus.

    Raises:
        ValueError: a line is wrong; the error names file and line.
    """
    lines = read_lines(path, how=how)
    check_stereotypes(path.name, lines)
    of_file = pieces(lines)
    keys = [mirror_keys(piece) for piece in of_file]
    count = Counter(key for key, _ in keys)
    asked = []
    for piece, (key, mirrored) in zip(of_file, keys, strict=True):
        # Of pieces that are there several times, or their own mirror, none is the mirror of one.
        is_mirrored = key != mirrored and count[key] == count[mirrored] == 1
        for line in piece:
            name = f"{line.template}/{line.polarity}/{line.condition}"
            mirror = ""
            if is_mirrored:
                mirror = f"{name}/{tables.fingerprint([{'key': min(key, mirrored)}])[:12]}"
            asked.append(Asked(line, f"{name}/{line.number}", mirror, first_named(line)))
    return asked


def _prompts(lines: Callable[[], Sequence[Asked] | Iterator[Asked]], table: str) -> Iterator[Row]:
    """Yield the rows of lines in each order of their options."""
    all_lines = list(lines())
    compared = with_both([asked.line for asked in all_lines])
    for asked in all_lines:
        if table != ANSWERS and CONDITIONS[asked.line.condition] != table:
            continue
        is_compared = (asked.line.category, asked.line.template) in compared
        if table == CONDITIONS[DISAMBIGUATED] and not is_compared:
            continue  # its right answers are all of one side: nothing to compare within it
        for number, order in enumerate(ORDERS, start=1):
            yield from _rows_of(asked, number, order, table)


def _rows_of(asked: Asked, number: int, order: Sequence[int], table: str) -> Iterator[Row]:
    """Yield a row for each answer of a prompt that counts for a group."""
    line = asked.line
    options = "\n".join(
        f"({letter}) {line.options[index]}" for letter, index in zip("ABC", order, strict=True)
    )
    text = (
        f"{line.context}\n{line.question}\n{options}\n{line.language.ask}\n{line.language.answer}"
    )
    pair = f"{asked.line_id}/{number}"
    facts = _facts(asked, number)
    for group, counted in _groups(asked, order, table).items():
        candidates = [Candidate(line.options[index], float(index == counted)) for index in order]
        row = prompt_row(
            pair,
            group,
            text,
            table,
            candidates=candidates,
            construct=line.polarity,
            condition=line.condition,
            label=line.category,
            template=line.template,
        )
        yield {**row, **facts}


def _facts(asked: Asked, number: int) -> dict[str, str]:
    """Return the further columns of a prompt, of which slices name the category."""
    line = asked.line
    named = "nobody known"
    if asked.first is not None:
        named = STEREOTYPED if line.is_stereotyped(asked.first) else "other"
    return {
        "order": str(number),
        "mirror": f"{asked.mirror}/{number}" if asked.mirror else "",
        "first": named,
        "asked": f"{line.category}, {line.polarity}",
        "shown": f"{line.category}, order {number}",
        "named": f"{line.category}, {named} first",
        "context": f"{line.category}, {CONDITIONS[line.condition]}",
    }


def _groups(asked: Asked, order: Sequence[int], table: str) -> dict[str, int]:
    """Return by group the index of the option that counts for it."""
    line = asked.line
    if table == CONDITIONS[DISAMBIGUATED]:
        return {ALIGNED if line.is_biased(line.right) else CONFLICTING: line.right}
    (biased,) = (person for person in line.persons if line.is_biased(person))
    (counter,) = (person for person in line.persons if person != biased)
    groups = {STEREOTYPED: biased, COUNTER: counter}
    if table == ANSWERS:
        groups[UNKNOWN] = line.labels.index(UNKNOWN)
        groups |= dict(zip(PLACES, order, strict=True))
        if asked.first is not None:
            (second,) = (person for person in line.persons if person != asked.first)
            groups |= {NAMED[0]: asked.first, NAMED[1]: second}
    return groups


def _reworded(table: str) -> Iterator[Row]:
    """Yield the rows with other wordings of what is asked: nothing is swapped."""
    ask = english().ask
    for number, worded in tables.wordings(NAME, "frame").items():
        for row in _prompts(own_lines, table):
            yield placebo(row, number, row["text"].replace(ask, worded[ask]["template"]))


def _upstream_lines(path: str) -> list[Asked]:
    """Read the lines of a pinned file."""
    return _pinned_lines(tables.upstream_file(NAME, path))


@lru_cache(maxsize=1)  # the configs of a file are made one after the other
def _pinned_lines(path: Path) -> list[Asked]:
    """Read the lines of a file whose content is known."""
    return asked_lines(path)


def _config_name(category: str, table: str) -> str:
    """Name the config of a category of the authors, or of a file."""
    return f"{_NO_LETTERS.sub('_', plain(category))}_{table}"


def _rows_of_upstream() -> dict[str, Callable[[], Iterator[Row]]]:
    """Return by config what makes the rows of the categories whose configs are declared."""
    rows = {}
    for category in ("Physical_appearance", "Religion", "Sexual_orientation"):
        lines = partial(_upstream_lines, f"{DATA}{category}.jsonl")
        for table in TABLES:
            rows[_config_name(category, table)] = partial(_prompts, lines, table)
    return rows


def _content_key(path: Path, how: Tables) -> str:
    """Return a sha256 of the files of the user's that the rows of a file are made of."""
    metadata = metadata_file(how.folder)
    files = [path, *how.beside(), *([metadata] if metadata else [])]
    return tables.fingerprint({"file": file.name, "sha256": file_sha256(file)} for file in files)


def _local(folder: Path) -> tuple[Config, ...]:
    """Make the configs of a user's files of the authors' form, or of another one, which nothing pins.

    The folder has the files, or is a checkout that has them where the authors' repository does; or it is one file.
    Tables of names beside them are read instead of the corpus' own.

    Raises:
        UsageError: there is no such file.
    """
    how = Tables(folder.parent if folder.is_file() else folder)
    paths = [folder] if folder.is_file() else how.data_files()
    is_in_several = len({path.parent for path in paths}) > 1
    configs = []
    for path in paths:
        stem = f"{path.parent.name} {path.stem}" if is_in_several else path.stem
        language = language_name(path, how)
        for table in TABLES:
            usual = CORPUS.config(table)
            configs.append(
                replace(
                    usual,
                    name=_config_name(stem, table),
                    description=f"{path.name}, a file of the user's that nothing pins: {table}",
                    rows=partial(_prompts, partial(asked_lines, path, how=how), table),
                    content_key=partial(_content_key, path, how),
                    reads_as=table,
                    language=language,
                )
            )
    return tuple(configs)


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    **{table: partial(_prompts, own_lines, table) for table in TABLES},
    **{f"{table}_wordings": partial(_reworded, table) for table in CONDITIONS.values()},
    **_rows_of_upstream(),
}
CORPUS = declared_corpus(NAME, ROWS, released=tuple(released()), local=_local)
__getattr__ = builder_on_use(NAME)
