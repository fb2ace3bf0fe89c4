"""Factors of own prompts: columns whose levels pairs share are a sample of many from four levels on, fixed below."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from swapbias.studies.declared_values import Slice
from swapbias.studies.own.fills import FILLS, Fills

FEWEST_LEVELS = 4  # of a random factor: an interval over fewer is too wide to say anything
_NAMES = {
    "template": "templates",
    "words": "pairs of words",
    "condition": "conditions",
    "pair_id": "pairs",
}
_NAMES_OF_RANKINGS = {"names": "sets of names", "condition": "jobs", "pair_id": "rankings"}
# columns that are random whatever the number of levels: claims are about others too
_SAMPLED = ("template", "words")
# columns that are none of a prompt's own
_BESIDE = {"counted", "wording", "where", "unit", "masked", "inserted", *FILLS}
_NO_FACTORS = {"pair_id", "prompt_id", "text", "group", "candidates", *_BESIDE}
# values of a column that findings are broken down by, unless it is declared as one
_LARGEST_SLICED = 100
# Before a run: the spreads of an experiment of the package, those of its templates or noun pairs for names too, and
# for pairs that share nothing their sum.
_SPREADS: Mapping[str, Mapping[str, float]] = {
    "masked": {"template": 0.042, "words": 0.042, "condition": 0.115, "pair_id": 0.127, "": 0.035},
    "classifier": {"template": 0.125, "words": 0.125, "condition": 0.048, "pair_id": 0.191, "": 0.136},
}  # fmt: skip
# study and model of the released outputs that they were computed from
SPREADS_OF: Mapping[str, tuple[str, str]] = {
    "masked": ("gendered_stigma", "roberta-large"),
    "classifier": ("occupation_sentiment", "bert-base-uncased (fine-tuned on SST-2)"),
}
_NONE: Mapping[str, str] = {}
Columns = str | Sequence[str]  # as a user gives them: ``topic``, ``topic,theme``, or a list


class Factors(NamedTuple):
    """The columns whose levels pairs share, by a plural that sentences use."""

    random: dict[str, str]
    """Columns that are a sample of many."""
    fixed: dict[str, str]
    """Columns whose levels the claim is about."""


def column_of(name: str, *, is_ranking: bool = False) -> str:
    """Give the column of prompts that a declaration calls by the name of its table's column.

    Args:
        name: the name in the declaration.
        is_ranking: whether the prompts are rankings of candidates.
    """
    if name == "pair":
        return "pair_id"
    if name == "job" and is_ranking:
        return "condition"
    return name


def read_columns(columns: Columns) -> list[str]:
    """List the columns that a user names.

    Args:
        columns: names in a list, or in a text with commas between.

    >>> read_columns("topic, theme"), read_columns(["topic", "theme"]), read_columns("")
    (['topic', 'theme'], ['topic', 'theme'], [])
    """
    parts = [columns] if isinstance(columns, str) else columns
    return [name.strip() for part in parts for name in str(part).split(",") if name.strip()]


Category = Literal["sex", "race"]
"""What regulators ask rates by."""
_CATEGORIES: Mapping[Category, tuple[str, ...]] = {
    "sex": ("sex", "gender"),
    "race": ("race", "ethnicity", "race_ethnicity"),
}


def own_columns(prompts: pd.DataFrame) -> list[str]:
    """List the columns of prompts that their tables have, which hold something.

    Args:
        prompts: prompts with the columns of their tables, and those that were added.
    """
    return [column for column in prompts if column not in _BESIDE and (prompts[column] != "").any()]


def category_columns(prompts: pd.DataFrame) -> dict[Category, str]:
    """Find the columns of prompts that hold sex and race, by what they are called.

    Args:
        prompts: prompts with the columns of their tables.
    """
    columns = {column.lower(): column for column in reversed(own_columns(prompts))}
    by_category: dict[Category, str] = {}
    for category, names in _CATEGORIES.items():
        for name in names:
            if name in columns:
                by_category.setdefault(category, columns[name])
    return by_category


def constant_columns(prompts: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """List those of the columns that have one value in each pair.

    Args:
        prompts: prompts with ``pair_id``.
        columns: the columns of the prompts.
    """
    pairs = prompts["pair_id"].nunique()
    return [
        column for column in columns if len(prompts.drop_duplicates(["pair_id", column])) == pairs
    ]


def factors_of(
    prompts: pd.DataFrame,
    fills: Fills,
    *,
    random: Mapping[str, str] = _NONE,
    fixed: Mapping[str, str] = _NONE,
    is_ranking: bool = False,
) -> Factors:
    """Find which columns of prompts are random factors, and which are fixed.

    A column that is constant within pairs and recurs over pairs is random if it has four levels or more, else fixed.
    Templates and swapped words are random whatever their number, also where all pairs have one template.

    Args:
        prompts: rows with ``pair_id``, in each wording, and the columns of their tables.
        fills: what was found to fill the swapped slot in plain prompts.
        random: columns that are declared to be a sample, as their tables call them, with a plural or blank.
        fixed: columns that are declared to be what the claim is about, in the same way.
        is_ranking: whether the prompts are rankings of candidates.

    Returns:
        The factors, of which names differ; pairs are random where nothing else that is random has several levels.
    """
    pairs = _values_of_pairs(prompts, fills, is_ranking=is_ranking)
    kept = _columns_of(fixed, is_ranking=is_ranking)
    kept = [column for column in kept if column in pairs]
    declared = _columns_of(random, is_ranking=is_ranking)
    sampled = [column for column in declared if column == "pair_id" or _varies(pairs, column)]
    others = pairs.drop(columns=[*kept, *sampled], errors="ignore")
    sampled += _samples(others, is_ranking=is_ranking)
    recurring = _recurring_columns(pairs, [*kept, *sampled])
    sampled += [column for column in recurring if _count_levels(pairs[column]) >= FEWEST_LEVELS]
    kept += [
        column for column in recurring if column not in sampled and (pairs[column] != "").all()
    ]
    varies = any(column not in pairs or pairs[column].nunique() > 1 for column in sampled)
    if not fills.random and not varies:
        sampled.append("pair_id")  # beside one template too: an interval over the pairs of that
    plurals = dict(_NAMES_OF_RANKINGS if is_ranking else _NAMES)
    for name, word in {**random, **fixed}.items():
        if word:
            plurals[column_of(name, is_ranking=is_ranking)] = word
    names = _different_names([*sampled, *kept], plurals, set(fills.random.values()))
    of_random = {column: names[column] for column in sampled} | fills.random
    return Factors(of_random, {column: names[column] for column in kept})


def _columns_of(names: Iterable[str], *, is_ranking: bool) -> list[str]:
    """List the columns of prompts that a declaration names."""
    return [column_of(name, is_ranking=is_ranking) for name in names]


def _values_of_pairs(prompts: pd.DataFrame, fills: Fills, *, is_ranking: bool) -> pd.DataFrame:
    """Give by pair the values of the columns that may be factors; of rankings only sets of names and jobs.

    Pairs with the same texts count once. A template may be that of one row of a pair: then the first is given.
    """
    allowed = [column for column in own_columns(prompts) if column not in _NO_FACTORS]
    if is_ranking:
        allowed = ["names", "condition"]
    constant = constant_columns(prompts, allowed)
    columns = [column for column in allowed if column in constant or column in _SAMPLED]
    read = prompts["group"] + "\n" + prompts["text"] + "\n" + prompts["counted"]
    texts = pd.util.hash_array(read.to_numpy(dtype=object), categorize=False)
    hashes = pd.Series(texts, index=prompts.index)
    sums = hashes.groupby(prompts["pair_id"], sort=False).transform("sum")
    pairs = prompts.assign(texts=sums).drop_duplicates("pair_id").drop_duplicates("texts")
    pairs = pairs.set_index("pair_id")[columns]
    if "template" in fills.by_pair:
        pairs = pairs.assign(template=fills.by_pair["template"])
    return pairs


def _varies(pairs: pd.DataFrame, column: str) -> bool:
    """Tell whether a column that is declared random can be one: one pair of words for all prompts is no sample."""
    return column in pairs and (column != "words" or pairs[column].nunique() > 1)


def _samples(pairs: pd.DataFrame, *, is_ranking: bool) -> list[str]:
    """List what is a sample whatever its number: sets of names, two templates or words, one template of all pairs."""
    if is_ranking:
        return [column for column in pairs if column == "names"]
    counts = {column: pairs[column].nunique() for column in _SAMPLED if column in pairs}
    return [
        column
        for column in counts
        if counts[column] > 1 or (column == "template" and len(pairs) > 1)
    ]


def _recurring_columns(pairs: pd.DataFrame, chosen: Sequence[str]) -> list[str]:
    """List the columns of several levels, some in several pairs, that divide the pairs otherwise than chosen ones."""
    partitions = {_partition(pairs[column]) for column in chosen if column in pairs}
    columns: list[str] = []
    for column in pairs:
        partition = _partition(pairs[column])
        if partition in partitions or not 1 < pairs[column].nunique() < len(pairs):
            continue
        partitions.add(partition)
        columns.append(column)
    return columns


def _count_levels(values: "pd.Series[str]") -> int:
    """Count the levels of a column; what templates without its slot leave blank is none."""
    return int(values[values != ""].nunique())


def _partition(values: "pd.Series[str]") -> bytes:
    """Write which pairs share a level: equal for a topic and the number of the topic."""
    codes, _ = pd.factorize(values)
    return bytes(codes.tobytes())


def _different_names(
    columns: Sequence[str], plurals: Mapping[str, str], of_fills: set[str]
) -> dict[str, str]:
    """Give each column a plural that no other factor has."""
    names: dict[str, str] = {}
    for column in columns:
        name = plurals.get(column, plural(column))
        if name in of_fills or name in names.values():
            name = f"values of {column}"
        names[column] = name
    return names


def plural(column: str) -> str:
    """Write the name of a column as a plural for sentences; what is no word stays as it is.

    Args:
        column: its name.

    >>> [plural(name) for name in ("topic", "Category", "class", "analysis", "job_title", "topic_id", "words")]
    ['topics', 'categories', 'classes', 'analyses', 'job titles', 'topics', 'words']
    >>> plural("day"), plural("axis_2")
    ('days', 'values of axis_2')
    """
    noun = re.sub(r"[_ -]+", " ", re.sub(r"[_ -]id$", "", column, flags=re.IGNORECASE)).strip()
    noun = noun.lower() if noun.istitle() else noun
    ending = noun.lower()
    if not ending[-1:].isalpha():
        return f"values of {column}"
    if re.search(r"[^aeiou]y$", ending):
        return f"{noun[:-1]}ies"
    if ending.endswith("is"):
        return f"{noun[:-2]}es"
    if ending.endswith(("ss", "us", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return noun if ending.endswith("s") else f"{noun}s"


def spreads_of(kind: str, factors: Factors, fills: Fills, span: float) -> dict[str, float]:
    """Give the spreads that a plan assumes before anything is scored, in the unit of scores.

    Args:
        kind: the kind of the model; of those without released outputs nothing is known.
        factors: the factors of the prompts.
        fills: the columns among the random ones that hold names or words.
        span: the width of the range of scores.

    Returns:
        By random factor the SD of its effects on a gap, and by blank that of what none of them explains.
    """
    usual = _SPREADS.get(kind)
    if usual is None:
        return {}
    explained = {"template", "words", "pair_id", *fills.random} & {*factors.random}
    spreads = {"": usual["" if explained else "pair_id"]}
    if [*factors.random] == ["pair_id"]:  # a pair is all that varies
        spreads[""] = 0.0
    for column in factors.random:
        like = "words" if column in fills.random else column
        spreads[column] = usual.get(like, usual["condition"])
    return {column: spread * span for column, spread in spreads.items()}


def slices_of(
    prompts: pd.DataFrame, declared: Sequence[Slice], *, is_ranking: bool = False
) -> tuple[Slice, ...]:
    """List the columns that findings are broken down by: those declared, else those of few values.

    Args:
        prompts: prompts with ``pair_id`` and the columns of their tables.
        declared: slices of the declaration.
        is_ranking: whether the prompts are rankings of candidates, which are broken down by job alone.
    """
    if is_ranking:
        return (Slice("condition", "job"),)
    if declared:
        return tuple(Slice(column_of(part.column), part.name) for part in declared)
    columns = [column for column in prompts if column not in _NO_FACTORS]
    return tuple(
        Slice(column, "pair of words" if column == "words" else column)
        for column in constant_columns(prompts, columns)
        if 1 < prompts[column].nunique() <= _LARGEST_SLICED
    )
