"""clinical_swaps: clinical notes and sentences with the one text in which only the patient is of the other gender."""

import json
import re
from collections.abc import Iterator

from swapbias.studies import corpus_dir, declared_corpus, read_table

NAME = "clinical_swaps"
COLUMNS = (
    "note_id",
    "scene",
    "author",
    "gender",
    "text",
    "counterfactual",
    "counterfactual_keep",
    "spans",
    "split",
)
# {he|she}: a word of the patient's and what it becomes; <wife|husband>: a word of the spouse's, which may be kept.
_MARK = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}|<([^<>|]*)\|([^<>|]*)>")


def marked(text: str) -> tuple[str, str, str, list[dict[str, object]]]:
    """A marked text as it was, as its counterfactual with spouses swapped and with spouses kept, and its spans.

    >>> marked("{He|She} saw his <wife|husband>.")[:3]
    ('He saw his wife.', 'She saw his husband.', 'She saw his wife.')
    """
    was = new = same_spouse = ""
    spans: list[dict[str, object]] = []
    at = 0
    for found in _MARK.finditer(text):
        between = text[at : found.start()]
        at = found.end()
        mine, becomes, spouse, other = found.groups()
        was = was + between
        new = new + between
        same_spouse = same_spouse + between
        old, whose = (mine, "patient") if spouse is None else (spouse, "spouse")
        target = becomes if spouse is None else other
        spans.append(
            {
                "start": len(was),
                "end": len(was) + len(old),
                "word": old,
                "becomes": target,
                "whose": whose,
            }
        )
        was = was + old
        new = new + target
        same_spouse = same_spouse + (target if spouse is None else old)
    rest = text[at:]
    return was + rest, new + rest, same_spouse + rest, spans


def rows() -> Iterator[dict[str, str]]:
    """One row per note, in the order of the table."""
    for row in read_table(
        corpus_dir(NAME) / "notes.csv", ("note_id", "scene", "author", "gender", "split", "marked")
    ):
        text, swapped, same_spouse, spans = marked(row["marked"])
        cells = (text, swapped, same_spouse, json.dumps(spans), row["split"])
        yield dict(
            zip(
                COLUMNS,
                (row["note_id"], row["scene"], row["author"], row["gender"], *cells),
                strict=True,
            )
        )


CORPUS = declared_corpus(NAME, {"notes": rows})
