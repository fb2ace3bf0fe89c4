"""What the READMEs say of speed, written from the stored results."""

import re
from collections.abc import Sequence

from benchmarks.table import Result, Steps, markdown

_TOLD = (  # what, beside what, and the pairs of sides whose numbers stand in the row
    ("374 prompts, RoBERTa-base shape", "fill-mask pipeline; in batches of 32",
     (("masked", "swapbias", "fill-mask pipeline"), ("masked", "swapbias", "pipeline, batches of 32"))),
    ("the same in bfloat16", "fill-mask pipeline", (("masked", "swapbias bfloat16", "fill-mask pipeline"),)),
    ("374 prompts, RoBERTa-large shape; in bfloat16", "fill-mask pipeline",
     (("masked-large", "swapbias", "fill-mask pipeline"),
      ("masked-large", "swapbias bfloat16", "fill-mask pipeline"))),
    ("recursive masking", "one pipeline call per sequence",
     (("recursive", "swapbias", "one pipeline call per sequence"),)),
    ("374 short prompts, Clinical-Longformer shape", "fill-mask pipeline",
     (("longformer", "swapbias", "fill-mask pipeline"),)),
    ("3,892 social-distance prompts; in bfloat16", "fill-mask pipeline",
     (("distance", "swapbias", "fill-mask pipeline"), ("distance", "swapbias bfloat16", "fill-mask pipeline"))),
    ("840 sentences, DistilBERT shape", "text-classification pipeline",
     (("sentiment", "swapbias", "text-classification pipeline"),)),
    ("contextual features of 1,000 notes that an audit reads (372 different); of 1,000 different ones",
     "one note at a time", (("features-audit", "swapbias", "one note per forward pass"),
                            ("features", "swapbias", "one note per forward pass"))),
    ("swapping 200 MB of notes: all terms with context; the paper's 11 terms", "one regex of the same terms",
     (("swapping", "swapbias", "one regex, all terms"),
      ("swapping", "swapbias, the paper's terms", "one regex, the paper's 11 terms"))),
    ("all terms with context, two processes", "one process",
     (("swapping", "swapbias, two processes", "swapbias"),)),
    ("swapping Parquet to Parquet: all terms; 11", "`datasets.map` with the same regex",
     (("swap_files", "swapbias", "datasets.map, all terms"),
      ("swap_files", "swapbias, the paper's terms", "datasets.map, the paper's 11 terms"))),
    ("a second audit of the same model", "the first",
     (("second_audit", "second audit", "audit that scores everything"),)),
)  # fmt: skip
_EFFECTS = ("normal", "lognormal")
# places of shares in the rows of ``truth_edges``: called a gap without one, passed at the margin
CALLED = 4
PASSED = 7
EDGES_HEADING = "### In own prompts"
_COPYING = 0.05  # less than this share of a limit is a limit that nobody could come near


def summary(found: Sequence[Result | Steps]) -> str:
    """The table of benchmarks/README.md: how near the hardware's limit, then the smallest ratio of all runs."""
    by_name = {one.name: one for one in found if isinstance(one, Result)}
    rows = []
    for what, beside, pairs in _TOLD:
        known = [(by_name[name], ours, against) for name, ours, against in pairs if name in by_name]
        if known:
            limits = list(
                dict.fromkeys(filter(None, (_reached(one, ours) for one, ours, _ in known)))
            )
            ratios = [_times(one, ours, against) for one, ours, against in known]
            runs = min(len(one.runs) for one, _, _ in known)
            processors = "; ".join(dict.fromkeys(_processor(one) for one, _, _ in known))
            rows.append((what, "; ".join(limits), beside, "; ".join(ratios), str(runs), processors))
    return markdown(
        ("workload", "of what the hardware can", "beside", "times faster", "runs", "processor"),
        rows,
    )


def sentence(found: Sequence[Result | Steps]) -> str:
    """The sentence of the README.

    Raises:
        ValueError: one of its workloads ran less than three times.
    """
    by_name = {one.name: one for one in found if isinstance(one, Result)}
    masked, sentiment, swapping = (by_name[name] for name in ("masked", "sentiment", "swapping"))
    runs = min(len(one.runs) for one in (masked, sentiment, swapping))
    if runs < 3:
        raise ValueError(
            f"README quotes the smallest ratio of at least 3 runs, and a workload has {runs}: --runs 3."
        )
    alone, batches = (
        _times(masked, "swapbias", peer)
        for peer in ("fill-mask pipeline", "pipeline, batches of 32")
    )
    sentences = _times(sentiment, "swapbias", "text-classification pipeline")
    notes = _times(swapping, "swapbias, the paper's terms", "one regex, the paper's 11 terms")
    return (
        "Scoring 374 prompts with a model of RoBERTa-base's shape runs at "
        f"{_reached(masked, 'swapbias')} of peak matrix-multiplication throughput on two cores. "
        f"It is {alone} times as fast as the fill-mask pipeline, and {batches} times as fast as its batches. "
        f"840 sentences run at {_reached(sentiment, 'swapbias')}, {sentences} times as fast as the pipeline. "
        f"Swapping notes is {notes} times as fast as with a regex. "
        f"Each is the least favourable of {runs} runs with equal results"
    )


def placed(text: str, content: str, *, heading: str) -> str:
    """A page with its first paragraph under a heading written anew.

    Raises:
        ValueError: the page has no such heading.
    """
    before, begins, rest = text.partition(f"\n{heading}\n\n")
    if not begins:
        raise ValueError(f"a page has no heading {heading!r}. Add it.")
    return f"{before}{begins}{content}\n\n{rest.partition(chr(10) * 2)[2]}"


def _processor(one: Result) -> str:
    """Its maker's name for it, without marks and what it can do."""
    return re.sub(r"\(R\)|\(TM\)|\bProcessor\b|\s*\([^)]*\)$", "", str(one.machine["cpu"])).strip()


def _reached(one: Result, ours: str) -> str:
    reached = next(timed.fraction for timed in one.timed if timed.name == ours)
    if reached is None:
        return ""
    return (
        "all"
        if reached >= 1
        else f"{reached:.0%}".replace("%", " %") + (" (copying)" if reached < _COPYING else "")
    )


def _times(one: Result, ours: str, against: str) -> str:
    ratio = next(
        pair.ratio for pair in one.compared if (pair.ours, pair.against) == (ours, against)
    )
    return f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"


def edge_table(rows: Sequence[Sequence[str]], column: int, what: str) -> str:
    """Return a column of the audits at the edges as percentages, by the kind of effects.

    Args:
        rows: of the series ``truth_edges``: design, levels, kind of effects, audits and shares.
        column: the place of a share in its rows.
        what: the heading of the percentages.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if row[column] and row[2] in _EFFECTS:
            cells.setdefault((row[0], row[1]), {})[row[2]] = f"{100 * float(row[column]):.1f} %"
    head = ("own prompts", *(f"{what}, {effects} effects" for effects in _EFFECTS))
    lines = [
        (f"{design}: {levels}", *(shares.get(effects, "") for effects in _EFFECTS))
        for (design, levels), shares in cells.items()
    ]
    return markdown(head, lines).strip()


def pages(found: Sequence[Result | Steps]) -> dict[str, tuple[str, str]]:
    """Heading and first paragraph of each page that says how fast it is or how often it errs, by its path."""
    (edges,) = (one.rows for one in found if isinstance(one, Steps) and one.name == "truth_edges")
    return {
        "README.md": ("## Speed and truth", sentence(found) + "."),
        "benchmarks/README.md": ("## Summary", summary(found).strip()),
        "docs/verdicts.md": (EDGES_HEADING, edge_table(edges, CALLED, "called a gap without one")),
        "docs/gate.md": (EDGES_HEADING, edge_table(edges, PASSED, "passed at the margin")),
    }
