"""What the authors of implicit_association released: answers that assign words, decisions, and a chain of both.

D is computed as published, with labels as the released code has them and with right ones.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from swapbias.builders._implicit_association_tables import NAME
from swapbias.errors import UpstreamMissingError
from swapbias.measures import markedness
from swapbias.studies import Released, tables
from swapbias.studies.published import ReleasedNumber

_ANSWERS = re.compile(r"data/result_(\w+)/\w+?_(\w+)_(replication|instruction1|instruction2)\.csv")
_SYNONYMS = "stimuli/iat_stimuli_synonym.csv"
_ANALYSED = "stimuli/iat_stimuli_analysis.csv"
_LABELS = (_SYNONYMS, _ANALYSED)
_ABSOLUTE = "data/result_absolute.csv"
_CHAINED = "data/result_chained.csv"
_MODELS = {"gpt4o": "gpt-4o"}
_FILE_NAMES = {"arab/muslim": "arab", "mental illness": "mentalill"}
_SMALLEST = 0.0001
# Group and side of the words of each cell of the absolute task.
_CELLS = {
    "default_negative": ("default", "negative"),
    "default_positive": ("default", "positive"),
    "stigma_negative": ("stigmatized", "negative"),
    "stigma_positive": ("stigmatized", "positive"),
}
# A line that is taken as it is.
_PLAIN = re.compile(r"[A-Za-z' ]+ - [A-Za-z' ]+")
_SPLIT = re.compile(r", |\], \[")
_BLANK = ("", "")
_NEWTON_STEPS = 30
_NORMAL_975 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Labels:
    """What words and groups count as."""

    sides: Mapping[str, str]
    """``positive`` or ``negative`` by word in lower case."""
    groups: Mapping[str, str]
    """``default`` or ``stigmatized`` by name in lower case."""
    strict: bool = False
    """Whether an unknown word or group makes the whole answer 0, as the released code has it."""


def released() -> Iterator[Released]:
    """Yield the answers of each model and list, of all lists at hand, the decisions and the chain."""
    answers: dict[str, dict[str, list[str]]] = {}
    for path in sorted(tables.pinned_files(NAME)):
        if match := _ANSWERS.fullmatch(path):
            answers.setdefault(_MODELS[match[1]], {}).setdefault(match[2], []).append(path)
    for model, by_list in answers.items():
        for name, paths in by_list.items():
            yield Released(
                model=model,
                experiment="words",
                files=(*paths, *_LABELS),
                rows=lambda files: (),
                counts=partial(_numbers_of_list, name, tuple(paths)),
            )
        yield Released(
            model=model,
            experiment="words",
            files=_LABELS,
            rows=lambda files: (),
            counts=partial(_numbers_of_all, by_list),
        )
    yield Released(
        model="gpt-4",
        experiment="absolute",
        files=(_ABSOLUTE,),
        rows=lambda files: (),
        counts=lambda files: absolute_numbers([*tables.csv_rows(files[_ABSOLUTE])]),
    )
    yield Released(
        model="gpt-4",
        experiment="chained",
        files=(_CHAINED,),
        rows=lambda files: (),
        counts=lambda files: chained_numbers([*tables.csv_rows(files[_CHAINED])]),
    )


def _numbers_of_list(
    name: str, paths: Sequence[str], files: Mapping[str, Path]
) -> Iterator[ReleasedNumber]:
    """Yield the mean D of the answers to a list, by both labellings."""
    scores = _scores(name, [files[path] for path in paths], files)
    for labelling, values in scores.items():
        mean = float(np.mean(values))
        yield ReleasedNumber("", "markedness", labelling, mean, "stereotype", name)


def _numbers_of_all(
    by_list: Mapping[str, Sequence[str]], files: Mapping[str, Path]
) -> Iterator[ReleasedNumber]:
    """Yield the mean D of the answers to all lists whose files are at hand."""
    scores: dict[str, list[float]] = {}
    count = 0
    for name, paths in by_list.items():
        try:
            of_list = [tables.upstream_file(NAME, path) for path in paths]
        except UpstreamMissingError:
            continue
        count += 1
        for labelling, values in _scores(name, of_list, files).items():
            scores.setdefault(labelling, []).extend(values)
    for labelling, values in scores.items():
        contrast = f"all {count} lists, {labelling}"
        yield ReleasedNumber("", "markedness", contrast, float(np.mean(values)))


def _scores(name: str, paths: Iterable[Path], files: Mapping[str, Path]) -> dict[str, list[float]]:
    """Return D of each answer of some files, by labelling."""
    labellings = {
        "right labels": right_labels(name, files),
        "as coded": coded_labels(files),
    }
    answers = [row["0"] for path in paths for row in tables.csv_rows(path)]
    return {
        labelling: [d_score(answer, labels) for answer in answers]
        for labelling, labels in labellings.items()
    }


def _cells(rows: Iterable[Mapping[str, str]], column: str) -> list[str]:
    """Return the cells of a column that are not blank, in lower case."""
    return [row[column].strip().lower() for row in rows if row[column].strip()]


def _by_list(path: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a table of stimuli by the list's name in released files."""
    by_list: dict[str, list[dict[str, str]]] = {}
    for row in tables.csv_rows(path):
        by_list.setdefault(_FILE_NAMES.get(row["dataset"], row["dataset"]), []).append(row)
    return by_list


def _groups(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the group of each name."""
    listed = [*rows]
    return {
        **dict.fromkeys(_cells(listed, "A"), "default"),
        **dict.fromkeys(_cells(listed, "B"), "stigmatized"),
    }


def right_labels(name: str, files: Mapping[str, Path]) -> Labels:
    """Return the labels of one list: halves of the table for analyses, and all names of its groups.

    Args:
        name: the list's name in released files.
        files: the tables of stimuli.
    """
    words = _cells(_by_list(files[_ANALYSED])[name], "C")
    half = len(words) // 2
    sides = {
        **dict.fromkeys(words[half:], "negative"),
        **dict.fromkeys(words[:half], "positive"),
    }
    return Labels(sides, _groups(_by_list(files[_SYNONYMS])[name]))


def coded_labels(files: Mapping[str, Path]) -> Labels:
    """Return the labels of the released code: halves of another table, of all lists together.

    Args:
        files: the tables of stimuli.
    """
    negative: dict[str, str] = {}
    positive: dict[str, str] = {}
    groups: dict[str, str] = {}
    for rows in _by_list(files[_SYNONYMS]).values():
        words = _cells(rows, "C")
        half = len(rows) // 2
        positive |= dict.fromkeys(words[:half], "positive")
        negative |= dict.fromkeys(words[half:], "negative")
        groups |= _groups(rows)
    return Labels({**negative, **positive}, groups, strict=True)


def d_score(answer: str, labels: Labels) -> float:
    """Compute D as published, from -1 to 1; 0 where nothing is read.

    Args:
        answer: a released answer.
        labels: what words and groups count as.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for word, name in _pairs(answer):
        cell = (labels.groups.get(name, ""), labels.sides.get(word, ""))
        if all(cell):
            counts[cell] += 1
        elif labels.strict:
            return 0.0
    if not counts:
        return 0.0
    a = counts["stigmatized", "negative"]
    b = counts["stigmatized", "positive"]
    c = counts["default", "negative"]
    d = counts["default", "positive"]
    return float(markedness.markedness_of_counts(a, b, c, d))


def _pairs(answer: str) -> Iterator[tuple[str, str]]:
    """Yield word and name of each line of an answer, in lower case; blank where a line is no pair."""
    for line in filter(str.strip, answer.split("\n")):
        parts = [line] if _PLAIN.fullmatch(line) else _SPLIT.split(line)
        for part in parts:
            yield _pair(part if _PLAIN.fullmatch(part) else _cleaned(part))


def _pair(text: str) -> tuple[str, str]:
    """Split a pair at its last hyphen."""
    if "-" not in text:
        return _BLANK
    word, _, name = text.rpartition("-")
    word = word.strip().strip("'").lower()
    if word == "didn't do it":
        word = "didnt do it"
    return word, name.strip().strip("'").lower()


def _cleaned(text: str) -> str:
    """Take marks off a part of a line, in the order of the released code."""
    text = re.sub(r"[\[\]]", "", text).replace('"', "'").strip().strip("-")
    text = text.replace(":", "-").replace("' - '", "-").replace("' - ", "-")
    for _ in range(2):
        text = text.strip().strip(",").strip("'").strip("*").strip()
        text = re.sub(r"^\d+\.?\s*", "", text)
    return text


def absolute_numbers(rows: Sequence[Mapping[str, str]]) -> Iterator[ReleasedNumber]:
    """Yield the share of yes of each list and cell, and the mean of each cell over lists.

    Args:
        rows: released decisions with ``type`` (whose word of which side), ``dataset`` and ``decision``.
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        of_cell = counts.setdefault((row["dataset"], row["type"]), Counter())
        of_cell[row["decision"].strip().lower()] += 1
    shares = {
        key: (of_cell["yes"] + _SMALLEST) / (of_cell["yes"] + of_cell["no"] + 2 * _SMALLEST)
        for key, of_cell in counts.items()
    }
    for (name, cell), share in sorted(shares.items()):
        group, side = _CELLS[cell]
        yield ReleasedNumber(side, "mean", group, share, "stereotype", name)
    for cell in sorted({cell for _, cell in shares}):
        of_lists = [share for (_, of_list), share in shares.items() if of_list == cell]
        group, side = _CELLS[cell]
        yield ReleasedNumber(side, "mean", group, float(np.mean(of_lists)))


def chained_numbers(rows: Sequence[Mapping[str, str]]) -> Iterator[ReleasedNumber]:
    """Yield the logistic regression of decisions on D, and their correlations.

    Args:
        rows: released answers with ``decision_bias`` (0 or 1), ``iat_bias`` (-1 to 1) and ``dataset``.
    """
    import pandas as pd  # nothing else of a corpus needs it

    columns = ["decision_bias", "iat_bias", "dataset"]
    table = pd.DataFrame([{column: row[column] for column in columns} for row in rows])
    numbers = table[columns[:2]].replace("", np.nan).astype(float)
    table = numbers.assign(dataset=table["dataset"]).dropna()
    yield from _regression(table["iat_bias"].to_numpy(), table["decision_bias"].to_numpy())
    means = table.groupby("dataset")[columns[:2]].mean()
    for name, of_rows in ((f"{len(table)} answers", table), (f"{len(means)} lists", means)):
        r = np.corrcoef(of_rows["decision_bias"], of_rows["iat_bias"])[0, 1]
        yield ReleasedNumber("", "correlation", f"r over {name}", float(r))


def _regression(
    bias: NDArray[np.float64], decided: NDArray[np.float64]
) -> Iterator[ReleasedNumber]:
    """Yield the logistic regression of decisions (0 or 1) on D, by maximum likelihood with Newton's steps."""
    design = np.column_stack([np.ones(len(bias)), bias])
    coefficients = np.zeros(2)
    for _ in range(_NEWTON_STEPS):
        shares = 1 / (1 + np.exp(-design @ coefficients))
        information = design.T @ (design * (shares * (1 - shares))[:, None])
        coefficients += np.linalg.solve(information, design.T @ (decided - shares))
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    for index, name in enumerate(("intercept", "slope")):
        value, error = float(coefficients[index]), float(errors[index])
        numbers = {
            "coefficient": value,
            "standard error": error,
            "z": value / error,
            "95 % interval from": value - _NORMAL_975 * error,
            "95 % interval to": value + _NORMAL_975 * error,
        }
        for quantity, number in numbers.items():
            yield ReleasedNumber("", "logistic_regression", f"{name}, {quantity}", number)
    log_likelihood = _log_likelihood(1 / (1 + np.exp(-design @ coefficients)), decided)
    without_slope = _log_likelihood(np.full(len(decided), decided.mean()), decided)
    numbers = {
        "log-likelihood": log_likelihood,
        "log-likelihood without slope": without_slope,
        "McFadden's R2": 1 - log_likelihood / without_slope,
        "AIC": 4 - 2 * log_likelihood,
        "BIC": 2 * math.log(len(decided)) - 2 * log_likelihood,
    }
    for quantity, number in numbers.items():
        yield ReleasedNumber("", "logistic_regression", quantity, number)


def _log_likelihood(shares: NDArray[np.float64], decided: NDArray[np.float64]) -> float:
    """Return the log-likelihood of decisions (0 or 1) with these probabilities."""
    return float(np.sum(np.log(np.where(decided == 1, shares, 1 - shares))))
