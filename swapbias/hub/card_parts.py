"""Parts of cards that are made: two rows of a pair, names of configs in short, sizes, code with its revisions."""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from swapbias.hub.cards import markdown
from swapbias.studies import Config, Corpus, corpus_file

_LOADED = re.compile(r'(load_dataset\(\s*)"NS/(\w+)"([^)]*)"VERSION"')
_MOST_ROWS = 3_000  # that are looked at for a pair
_MOST_COLUMNS = 4  # of the table of two rows
_IDS = ("prompt_id", "pair_id", "note_id")
_TEXTS = ("text", "counterfactual")
_WIDTH = 160  # letters of a cell
_BEFORE = 50  # letters that are shown before a difference
_ENDS = re.compile(r"[_-]")


def published_code(text: str, namespace: str) -> str:
    """Name the namespace in code of a card, and the version of each dataset that it loads.

    Args:
        text: Markdown with code that loads ``NS/NAME`` at the revision ``VERSION``.
        namespace: the user or organisation.

    Returns:
        the text; the revision of what is no dataset stays.
    """

    def pinned(match: re.Match[str]) -> str:
        version = corpus_file.corpus_declaration(match[2]).version
        return f'{match[1]}"NS/{match[2]}"{match[3]}"v{version}"'

    return _LOADED.sub(pinned, text).replace('"NS/', f'"{namespace}/')


# --- two rows ---------------------------------------------------------------------------------------------


def opening(corpus: Corpus, names: Sequence[str]) -> tuple[str, str]:
    """Choose the config that a card shows, and write the table of two of its rows.

    It is the first with pairs of two texts, else with pairs, else the first.

    Args:
        corpus: the corpus.
        names: the names of the configs that were written.

    Returns:
        its name, and the table in Markdown.
    """
    paired: dict[str, list[dict[str, str]]] = {}
    for name in names:
        pair = _first_pair(corpus.config(name))
        if pair:
            paired[name] = pair
        if pair and pair[0]["text"] != pair[1]["text"]:
            return name, two_rows(pair)
    for name, pair in paired.items():
        return name, two_rows(pair)
    return names[0], two_rows(_first_rows(corpus.config(names[0])))


def two_rows(rows: Sequence[Mapping[str, str]]) -> str:
    """Write the table of two rows.

    Columns are the text and those that tell the rows apart. Long texts are cut around their first difference.

    Args:
        rows: cells by column; of a pair, or without pairs the first two.

    Returns:
        a table in Markdown.
    """
    first, second = rows
    is_pair = bool(first.get("pair_id")) and first["pair_id"] == second["pair_id"]
    columns: dict[str, list[str]] = {}
    for name in sorted(first, key=lambda name: name not in ("group", *_TEXTS)):
        cells = [first[name], second[name]]
        tells = cells[0] != cells[1] or not is_pair or name in _TEXTS
        if tells and any(cells) and name not in _IDS and cells not in columns.values():
            columns[name] = cells
    names = [*columns][:_MOST_COLUMNS]
    shortened = [_around_difference(columns[name]) for name in names]
    lines = [[f"`{name}`" for name in names], ["---"] * len(names)]
    lines += [[markdown(cell) for cell in line] for line in zip(*shortened, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _first_rows(config: Config) -> list[dict[str, str]]:
    """Return the first row, and the first of another group; without groups the first two."""
    rows = [*islice(_cells(config), _MOST_ROWS)]
    second = next((row for row in rows if row.get("group") != rows[0].get("group")), rows[1])
    return [rows[0], second]


def _cells(config: Config) -> Iterator[dict[str, str]]:
    """Yield the rows of a config as texts; of a chat the last turn."""
    for row in config.rows():
        published = config.publish_row(row)
        cells = {}
        for name, value in published.items():
            if name == "messages":
                cells["text"] = " ".join(str(value[-1]["content"]).split())
            elif not isinstance(value, list | dict):
                cells[name] = " ".join(str(value).split())
        yield cells


def _first_pair(config: Config) -> list[dict[str, str]]:
    """Return two rows of the first pair, of two groups; none where rows are not paired."""
    if not {"pair_id", "group"} <= set(config.published_columns):
        return []
    first: dict[str, dict[str, str]] = {}
    for row in islice(_cells(config), _MOST_ROWS):
        earlier = first.setdefault(row["pair_id"], row)
        if earlier["group"] != row["group"]:
            return [earlier, row]
    return []


def _around_difference(texts: Sequence[str]) -> list[str]:
    """Cut long texts to the words around their first difference."""
    if max(map(len, texts)) <= _WIDTH:
        return [*texts]
    differing = (
        index for index, letters in enumerate(zip(*texts, strict=False)) if len({*letters}) > 1
    )
    start = max(0, next(differing, 0) - _BEFORE)
    cut = []
    for text in texts:
        piece = text[start : start + _WIDTH]
        if start:
            piece = f"… {piece.partition(' ')[2]}"
        if start + _WIDTH < len(text):
            piece = f"{piece.rpartition(' ')[0]} …"
        cut.append(piece)
    return cut


# --- names of configs -------------------------------------------------------------------------------------


def names_in_short(names: Sequence[str], all_names: Sequence[str]) -> str:
    """Write names of configs in short: as patterns that fit no other, or as all but the others.

    >>> names_in_short(["a_x", "a_y"], ["a_x", "a_y", "b_x"])
    '`a_*`'

    Args:
        names: the names.
        all_names: the names of all configs.

    Returns:
        names and patterns in Markdown; blank for all configs.
    """
    others = [name for name in all_names if name not in names]
    if not others:
        return ""
    plain = _patterns(names, all_names)
    without = f"all but {_patterns(others, all_names)}"
    return without if len(without) < len(plain) else plain


def _patterns(names: Sequence[str], all_names: Sequence[str]) -> str:
    """Cover names by few patterns that match no other name, those first that match most."""
    covered_by: dict[str, set[str]] = {}
    for name in names:
        covered_by[name] = {name}
        for end in _ENDS.finditer(name):
            for pattern in (f"{name[: end.end()]}*", f"*{name[end.start() :]}"):
                covered_by[pattern] = set(fnmatch.filter(all_names, pattern))
    fitting = {pattern: covered for pattern, covered in covered_by.items() if covered <= {*names}}
    remaining = {*names}
    chosen = []
    while remaining:
        best = max(fitting, key=lambda pattern: len(fitting[pattern] & remaining))
        chosen.append(best)
        remaining -= fitting[best]
    return ", ".join(f"`{pattern}`" for pattern in chosen)


SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M")


def size_rank(size: Any) -> int:
    """Return the index of a size category; those that are larger, or unknown, come last.

    Args:
        size: what a card says.
    """
    return SIZES.index(size) if size in SIZES else len(SIZES)


def size_category(rows: int) -> str:
    """Return the Hub's name for a number of rows.

    Args:
        rows: the number of rows.

    Returns:
        one of ``SIZES``.
    """
    return SIZES[min(max(len(str(rows)) - 3, 0), len(SIZES) - 1)]
