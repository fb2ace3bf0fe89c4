"""What tasks of swapbias compute in lm-evaluation-harness; a copy lies beside them and needs no swapbias.

Natural logarithms throughout. A gap is a group minus the reference; 0: no difference.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Doc = Mapping[str, Any]
Sided = tuple[
    int, str, Sequence[str], float
]  # 1 for the group and -1 for the reference, pair, units, value


def read(file: str, pretrained: str = "", tokenizer: str = "", **metadata: Any) -> dict[str, Any]:
    """The prompts of a task, from the file beside this one, for a model that the harness names.

    Where the tokenizer closes every text (BERT's ``[CLS] ... [SEP]``) its marks are written out, since the harness
    would take the one behind a context for the answer.
    """
    from datasets import Dataset

    with (Path(__file__).parent / file).open(encoding="utf-8") as lines:
        docs = [json.loads(line) for line in lines]
    before, after = _marks(tokenizer or pretrained) if tokenizer or pretrained else ("", "")
    for doc in docs if after else ():
        end = "" if doc["context"] else after  # an answer goes on, a text ends
        doc |= {
            "context": before + doc["context"],
            "choices": [one + end for one in doc["choices"]],
        }
    return {"test": Dataset.from_list(docs)}


def _marks(name: str) -> tuple[str, str]:
    """What a tokenizer puts before and behind a text."""
    from transformers import AutoTokenizer

    read_by = AutoTokenizer.from_pretrained(name)
    found = read_by("a", return_special_tokens_mask=True)
    tokens = read_by.convert_ids_to_tokens(found["input_ids"])
    special = found["special_tokens_mask"]
    first = special.index(0)
    last = len(special) - special[::-1].index(0)
    return "".join(tokens[:first]), "".join(tokens[last:])


def of_text(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Log-probability of a text."""
    return _with_gaps(doc, {"log_probability": results[0][0]})


def of_answers(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Log-odds of the right answer against the wrong one, and ``score``: 1 where it is likelier, .5: equal."""
    odds = results[0][0] - results[1][0]
    return _with_gaps(doc, {"score": 0.5 if odds == 0 else float(odds > 0), "log_odds": odds})


def of_antonyms(doc: Doc, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Mean log-odds of the disapproving antonyms against the approving ones, which stand before them."""
    values = [value for value, _ in results]
    couples = zip(values[::2], values[1::2], strict=True)
    return _with_gaps(doc, {"log_odds": mean([bad - good for good, bad in couples])})


def _with_gaps(doc: Doc, values: Mapping[str, float]) -> dict[str, Any]:
    sides = list(zip(doc["gaps"], doc["sides"], strict=True))
    found: dict[str, Any] = dict(values)
    for name, value in values.items():
        found |= {
            f"{name}_{gap}": (side, doc["pair_id"], doc["units"], value) for gap, side in sides
        }
    return found


def mean(values: Iterable[float]) -> float:
    """The mean; NaN of nothing. As a function of its own it gets no standard error: prompts are not independent."""
    known = list(values)
    return math.fsum(known) / len(known) if known else math.nan


def gap_of_pairs(items: Iterable[Sided]) -> float:
    """Mean over pairs of the group's value minus that of the reference; pairs that lack one are left out."""
    pairs: dict[str, dict[int, float]] = {}
    for side, pair, _, value in items:
        pairs.setdefault(pair, {})[side] = value
    return mean(both[1] - both[-1] for both in pairs.values() if len(both) == 2)


def gap_of_groups(items: Iterable[Sided]) -> float:
    """Mean of the group minus that of the reference, each over units: first within the smallest, then outwards."""
    sides: dict[int, list[tuple[tuple[str, ...], float]]] = {1: [], -1: []}
    for side, _, units, value in items:
        sides[side].append((tuple(units), value))
    return _nested(sides[1]) - _nested(sides[-1])


def _nested(values: Sequence[tuple[tuple[str, ...], float]]) -> float:
    if not values or not values[0][0]:
        return mean(value for _, value in values)
    parts: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for units, value in values:
        parts.setdefault(units[0], []).append((units[1:], value))
    return mean(map(_nested, parts.values()))
