"""What tasks of swapbias compute in lm-evaluation-harness; a copy lies beside them and needs no swapbias.

Natural logarithms throughout. A gap is a group minus the reference; 0: no difference.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Doc = Mapping[str, Any]
# 1 for the group and -1 for the reference, pair, units, value.
Sided = tuple[int, str, Sequence[str], float]


def read(file: str, pretrained: str = "", tokenizer: str = "", **metadata: Any) -> dict[str, Any]:
    """Read the prompts of a task for a model that the harness names.

    Where the tokenizer closes every text (BERT's ``[CLS] ... [SEP]``) its marks are written out, since the harness
    would take the one behind a context for the answer.

    Args:
        file: lies beside this one.
        pretrained: name of the model.
        tokenizer: name of its tokenizer; blank: the model's.
        metadata: what else the harness passes.

    Returns:
        the rows of the split ``test``.
    """
    from datasets import Dataset

    with (Path(__file__).parent / file).open(encoding="utf-8") as lines:
        docs = [json.loads(line) for line in lines]
    name = tokenizer or pretrained
    before = ""
    after = ""
    if name:
        before, after = _marks(name)
    if after:
        for doc in docs:
            end = "" if doc["context"] else after  # an answer goes on, a text ends
            doc["context"] = before + doc["context"]
            doc["choices"] = [choice + end for choice in doc["choices"]]
    return {"test": Dataset.from_list(docs)}


def _marks(name: str) -> tuple[str, str]:
    """Return what a tokenizer puts before and behind a text."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    encoded = tokenizer("a", return_special_tokens_mask=True)
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    special = encoded["special_tokens_mask"]
    first = special.index(0)
    last = len(special) - special[::-1].index(0)
    return "".join(tokens[:first]), "".join(tokens[last:])


def of_text(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return the log-probability of a text.

    Args:
        doc: a document (row) of the task.
        results: log-probability of the text, and whether it is the likeliest.

    Returns:
        ``log_probability``, and its sides of gaps.
    """
    return _with_gaps(doc, {"log_probability": results[0][0]})


def of_answers(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Compare the right answer with the wrong one.

    Args:
        doc: a document (row) of the task.
        results: log-probability of each answer, the right one first.

    Returns:
        ``log_odds``, above 0 where the right one is more likely; ``score``: 1 where it is more likely, .5: equal; and
        the sides of gaps of both.
    """
    odds = results[0][0] - results[1][0]
    score = 0.5 if odds == 0 else float(odds > 0)
    return _with_gaps(doc, {"score": score, "log_odds": odds})


def of_antonyms(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Compare disapproving antonyms with approving ones.

    Args:
        doc: a document (row) of the task.
        results: log-probability with each word, each approving one before its antonym.

    Returns:
        ``log_odds``, the mean over pairs, above 0 where disapproving words are more likely; and its sides of gaps.
    """
    values = [value for value, _ in results]
    pairs = zip(values[::2], values[1::2], strict=True)
    return _with_gaps(doc, {"log_odds": mean([bad - good for good, bad in pairs])})


def of_options(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return what options count on average, weighted by the softmax of their log-probabilities.

    Args:
        doc: a document (row) of the task, with what each option counts; None: nothing, left out of the mean.
        results: log-probability of each option.

    Returns:
        ``score``; ``per_character``: the same of log-probabilities divided by the characters of the option; and the
        sides of gaps of both.
    """
    return _of_both_lengths(doc, results, _mean_value)


def of_option_odds(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return the log-odds of the options that count more than the middle of what options count.

    Args:
        doc: a document (row) of the task, with what each option counts; None: nothing.
        results: log-probability of each option.

    Returns:
        ``score``; ``per_character``: the same of log-probabilities divided by the characters of the option; and the
        sides of gaps of both.
    """
    return _of_both_lengths(doc, results, _log_odds)


def _of_both_lengths(
    doc: Doc, results: Sequence[tuple[float, bool]], number: Callable[[Any, list[float]], float]
) -> dict[str, Any]:
    """Return a number of the options' log-probabilities, and of those divided by the characters of the option."""
    logs = [value for value, _ in results]
    lengths = [len(choice.removeprefix(" ")) for choice in doc["choices"]]
    by_character = [log / length for log, length in zip(logs, lengths, strict=True)]
    values = doc["values"]
    both = {"score": number(values, logs), "per_character": number(values, by_character)}
    return _with_gaps(doc, both)


def _mean_value(values: Sequence[float | None], logs: Sequence[float]) -> float:
    """Return the mean of what options count by their probabilities; NaN where none that counts has one."""
    most = max(logs)
    if most == -math.inf:
        return math.nan
    counting = [
        (math.exp(log - most), value)
        for value, log in zip(values, logs, strict=True)
        if value is not None
    ]
    total = math.fsum(weight for weight, _ in counting)
    return math.fsum(weight * value for weight, value in counting) / total if total else math.nan


def _log_odds(values: Sequence[float | None], logs: Sequence[float]) -> float:
    """Return the log-odds of the options that count more; NaN where a side has no probability."""
    counting = [value for value in values if value is not None]
    middle = (min(counting) + max(counting)) / 2
    pairs = [(value, log) for value, log in zip(values, logs, strict=True) if value is not None]
    above = _log_sum([log for value, log in pairs if value > middle])
    below = _log_sum([log for value, log in pairs if value < middle])
    return above - below if math.isfinite(above) and math.isfinite(below) else math.nan


def _log_sum(logs: Sequence[float]) -> float:
    """Return the log of the sum of probabilities."""
    most = max(logs, default=-math.inf)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(log - most) for log in logs))


def _with_gaps(doc: Doc, values: Mapping[str, float]) -> dict[str, Any]:
    """Add to the values of a row the side on which each stands in each gap."""
    sides = list(zip(doc["gaps"], doc["sides"], strict=True))
    metrics: dict[str, Any] = dict(values)
    for name, value in values.items():
        for gap, side in sides:
            metrics[f"{name}_{gap}"] = (side, doc["pair_id"], doc["units"], value)
    return metrics


def mean(values: Iterable[float]) -> float:
    """Return the mean. As a function of its own it gets no standard error: prompts are not independent.

    Args:
        values: one value for each prompt.

    Returns:
        the mean; NaN of nothing.
    """
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def gap_of_pairs(items: Iterable[Sided]) -> float:
    """Return the mean over pairs of the group's value minus that of the reference.

    Args:
        items: values with their sides; pairs that lack one are left out.

    Returns:
        the gap; 0 is no difference.
    """
    pairs: dict[str, dict[int, float]] = {}
    for side, pair, _, value in items:
        pairs.setdefault(pair, {})[side] = value
    return mean(sides[1] - sides[-1] for sides in pairs.values() if len(sides) == 2)


def gap_of_groups(items: Iterable[Sided]) -> float:
    """Return the mean of the group minus that of the reference, each over units: the smallest first, then outwards.

    Args:
        items: values with their sides and units.

    Returns:
        the gap; 0 is no difference.
    """
    sides: dict[int, list[tuple[tuple[str, ...], float]]] = {1: [], -1: []}
    for side, _, units, value in items:
        sides[side].append((tuple(units), value))
    return _nested_mean(sides[1]) - _nested_mean(sides[-1])


def _nested_mean(values: Sequence[tuple[tuple[str, ...], float]]) -> float:
    """Return the mean over the outermost units of the means within each."""
    if not values or not values[0][0]:
        return mean(value for _, value in values)
    parts: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for units, value in values:
        parts.setdefault(units[0], []).append((units[1:], value))
    return mean(map(_nested_mean, parts.values()))
