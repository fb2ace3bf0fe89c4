"""Text of a terminal about the demonstration: what was planted and found, and own prompts with three pairs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from swapbias.errors import joined
from swapbias.findings import Finding, primary_findings, terms
from swapbias.measures import Unit
from swapbias.report.claims import verdict_word
from swapbias.report.numbers import (
    NumberFormat,
    clipped_interval,
    finding_format,
    format_p_value,
    unit_format,
)
from swapbias.report.terminal_text import wrap_sentence

_INDENT = 3
_PLANTED = (
    "It was trained to prefer women's words where a sentence names a mental-health condition. With another "
    "illness it prefers neither women's nor men's words."
)
_NOTHING = (
    "It was trained alike, but with nothing planted: on average it prefers neither women's nor men's words "
    "with any illness."
)
_OWN = "The question: does VADER, a sentiment lexicon, score a sentence differently with a woman's first name?"


def render_demonstration(rows: Sequence[Finding], items: Mapping[str, pd.DataFrame]) -> str:
    """Return what the demonstration shows, as lines of text.

    Args:
        rows: findings of its run.
        items: scored rows by study.
    """
    lines = ["A demonstration of swapbias: what was planted, and what an audit finds."]
    for number, finding in enumerate(primary_findings(rows), start=1):
        lines.append("")
        if finding.published:
            lines += _planted_lines(number, finding)
        else:
            lines += _own_lines(number, finding, rows, items[finding.study])
    note = (
        "In brackets: the 95 % interval. A point is a hundredth of the scale: of the probability at the blank in 1 "
        "and 2, of VADER's score in 3."
    )
    if not any(finding.published for finding in rows):
        note = (
            "In brackets: the 95 % interval. A point is a hundredth of the scale of VADER's score."
        )
    return "\n".join([*lines, "", *wrap_sentence(note)])


def _planted_lines(number: int, finding: Finding) -> list[str]:
    """Return the lines on a model whose bias is known."""
    planted = float(finding.published.value) if finding.published else 0.0
    title = "A model with a planted bias" if planted else "A model with nothing planted"
    sentence = _PLANTED if planted else _NOTHING
    size = f"planted {_in_points(finding)(planted)} points"
    return [
        f"{number}. {title} ({finding.model_id})",
        *wrap_sentence(sentence, _INDENT),
        *_result_lines(f"{size}, {_found(finding)}"),
    ]


def _own_lines(
    number: int, finding: Finding, rows: Sequence[Finding], items: pd.DataFrame
) -> list[str]:
    """Return the lines on the user's own prompts: the verdict, the naive test, the reason, and three pairs."""
    pairs = _pair_scores(items)
    pair_lines = _pair_lines(pairs, finding.scale)
    some = "Three of the swapped pairs" if len(pair_lines) > 4 else "Swapped pairs"
    return [
        f"{number}. Your own prompts ({finding.model_id})",
        *wrap_sentence(_OWN, _INDENT),
        *_result_lines(f"{_found(finding)}, naive test: {_naive_p(finding, rows)}"),
        *wrap_sentence(_reasons(pairs), _INDENT),
        f"{'':{_INDENT}}{some}, with their scores and differences:",
        *pair_lines,
    ]


def _reasons(pairs: pd.DataFrame) -> str:
    """Say which names carry the gap and why the two tests differ; few prompts may have no such name."""
    moved = pairs[pairs["gap"] != 0]
    names = [words.partition("-")[0] for words in dict.fromkeys(moved["words"])]
    if not names:
        return "None of these pairs differ: VADER takes no name among them for praise."
    return (
        f"Of {pairs['words'].nunique()} pairs of names only {len(names)} differ: "
        f"VADER takes {joined(names)} for praise. "
        f"The naive test treats all {len(pairs)} pairs of sentences as independent. "
        "An audit treats names and templates as random factors: other names may show no gap."
    )


def _result_lines(result: str) -> list[str]:
    """Return the line of a result."""
    return wrap_sentence(result, _INDENT + 2)


def _in_points(finding: Finding) -> NumberFormat:
    """Return the way to write a gap without a plus sign."""
    return replace(finding_format(finding), signed=False)


def _found(finding: Finding) -> str:
    """Return value, interval where there is one, and verdict: ``found 30.0 (29.5 to 30.5): GAP``."""
    written = _in_points(finding)
    low, high = clipped_interval(finding)
    interval = "" if math.isnan(low) else f" ({written(low)} to {written(high)})"
    word = verdict_word(finding).upper()
    return f"found {written(finding.estimate.value)}{interval}: {word}"


def _naive_p(finding: Finding, rows: Sequence[Finding]) -> str:
    """Return the p-value of the test that treats prompts as independent: ``p < 0.001``."""
    naive = next(
        row
        for row in rows
        if row.view == terms.INDEPENDENT
        and (row.study, row.key()) == (finding.study, finding.key())
    )
    p = format_p_value(naive.estimate.p_value)
    return f"p {p.replace('<', '< ')}" if p.startswith("<") else f"p = {p}"


def _pair_scores(items: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with both texts and scores, and the gap."""
    sides = items.pivot(
        index=["pair_id", "template", "words"], columns="group", values=["text", "score"]
    )
    pairs = pd.DataFrame(
        {
            "text": sides["text", "female"],
            "reference_text": sides["text", "male"],
            "score": sides["score", "female"].astype(float),
            "reference_score": sides["score", "male"].astype(float),
        }
    ).reset_index()
    return pairs.assign(gap=pairs["score"] - pairs["reference_score"])


def _pair_lines(pairs: pd.DataFrame, scale: Unit) -> list[str]:
    """Return the lines of at most three pairs of one template: its two largest gaps and its smallest."""
    template = pairs.loc[pairs["gap"].abs().idxmax(), "template"]
    ordered = pairs[pairs["template"] == template].sort_values(
        "gap", key=abs, ascending=False, kind="stable"
    )
    score = unit_format(scale, signed=False)
    gap = unit_format(scale)
    width = int(max(ordered["text"].str.len().max(), ordered["reference_text"].str.len().max()))
    lines = []
    last = len(ordered) - 1
    for row in ordered.iloc[sorted({0, min(1, last), last})].to_dict("records"):
        lines += [
            f"{'':{_INDENT + 2}}{row['text']:<{width}}  {score(row['score']):>5}",
            f"{'':{_INDENT + 2}}{row['reference_text']:<{width}}  "
            f"{score(row['reference_score']):>5}  {gap(row['gap']):>6}",
        ]
    return lines
