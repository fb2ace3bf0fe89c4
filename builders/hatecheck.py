"""hatecheck: does a detector of hate miss it, or see it, by the group that a text is about (Röttger et al. 2021)?"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from swapbias.builders._hatecheck_released import (
    CASES,
    EXPERIMENTS,
    NAME,
    case_row,
    read_cases,
    released,
)
from swapbias.hub import builder_on_use
from swapbias.studies import (
    Candidate,
    Row,
    corpus_dir,
    declared_corpus,
    fill,
    placebo,
    prompt_row,
    read_table,
    tables,
)

FOLDER = corpus_dir(NAME)
LEAD = "I think that"
ASKED = "asked_"
ORIGINAL = "original_"
GROUP = "group"
_QUESTION = "Is the following text hateful? Answer with one of the two options."
_YES = Candidate("Yes", 1.0)
_NO = Candidate("No", 0.0)
ORDERS = ((_YES, _NO), (_NO, _YES))
"""Orders of the options."""


def words() -> dict[str, str]:
    """Read the words of groups, and of people of no protected group, with their kind: ``group`` or ``control``."""
    rows = read_table(FOLDER / "words.csv", ("group", "words", "kind", "source"))
    return {row["words"]: row["kind"] for row in rows}


def _own(label: str, lead: str = LEAD) -> Iterator[Row]:
    """Yield the own sentences of a label about each group, and about people of no protected group."""
    columns = ("label", "functionality", "template", "source")
    for row in read_table(FOLDER / "templates.csv", columns):
        if row["label"] != label:
            continue
        for group in words():
            text = f"{lead} {fill(row['template'], group=group)}."
            prompt = prompt_row(
                row["template"],
                group,
                text,
                EXPERIMENTS[label],
                construct=row["functionality"],
                label=label,
                template=row["template"],
            )
            yield {**prompt, "identity": group, "form": "plural"}


def _original(label: str) -> Iterator[Row]:
    """Yield the cases of a label whose template is there for every group, as released."""
    for case in read_cases(tables.upstream_file(NAME, CASES)):
        if case.is_swapped and case.label == label:
            yield case_row(case, case.text, EXPERIMENTS[label])


def _asked(rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Yield a question about each text, with its options in both orders."""
    for row in rows():
        for number, options in enumerate(ORDERS, start=1):
            listing = "\n".join(
                f"({letter}) {option.text}" for letter, option in zip("AB", options, strict=True)
            )
            pair = f"{row['pair_id']}/{number}"
            yield {
                **row,
                "pair_id": pair,
                "prompt_id": f"{pair}/{row['group']}",
                "text": f"{_QUESTION}\n\nText: {row['text']}\n\n{listing}\n\nAnswer:",
                "candidates": options,
                "experiment": f"{ASKED}{row['experiment']}",
                "order": str(number),
            }


def _reworded(label: str, *, is_asked: bool = False) -> Iterator[Row]:
    """Yield the own sentences about groups with other leads, or the questions about them: nothing is swapped."""
    for number, worded in tables.wordings(NAME, "frame").items():
        usual = partial(_own, label)
        others = partial(_own, label, worded[LEAD]["template"])
        if is_asked:
            usual, others = partial(_asked, usual), partial(_asked, others)
        for row, other in zip(usual(), others(), strict=True):
            if words()[row["group"]] == GROUP:
                yield placebo(row, number, other["text"])


def _all_rows() -> dict[str, Callable[[], Iterator[Row]]]:
    """Return by config what makes its rows."""
    rows: dict[str, Callable[[], Iterator[Row]]] = {}
    for label, experiment in EXPERIMENTS.items():
        own = partial(_own, label)
        original = partial(_original, label)
        rows[experiment] = own
        rows[f"{ASKED}{experiment}"] = partial(_asked, own)
        rows[f"{ORIGINAL}{experiment}"] = original
        rows[f"{ORIGINAL}{ASKED}{experiment}"] = partial(_asked, original)
        rows[f"{experiment}_wordings"] = partial(_reworded, label)
        rows[f"{ASKED}{experiment}_wordings"] = partial(_reworded, label, is_asked=True)
    originals = [partial(_original, label) for label in EXPERIMENTS]
    rows["original"] = partial(_chained, originals)
    rows["original_asked"] = partial(
        _chained, [partial(_asked, original) for original in originals]
    )
    return rows


def _chained(parts: Sequence[Callable[[], Iterator[Row]]]) -> Iterator[Row]:
    """Yield the rows of several configs."""
    for rows in parts:
        yield from rows()


CORPUS = declared_corpus(NAME, _all_rows(), released=tuple(released()))
__getattr__ = builder_on_use(NAME)
