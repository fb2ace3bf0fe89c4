"""clinical_swaps: clinical notes and sentences with the one text in which only the patient is of the other gender."""

import json
import re
from collections.abc import Iterator

from swapbias.hub import builder_on_use
from swapbias.studies import corpus_dir, declared_corpus, read_table

NAME = "clinical_swaps"
# {he|she}: a word of the patient's and what it becomes; <wife|husband>: a word of the spouse's, which may be kept.
_MARK = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}|<([^<>|]*)\|([^<>|]*)>")


def marked(text: str) -> tuple[str, str, str, list[dict[str, object]]]:
    """Give a marked text as it was, as its counterfactual with spouses swapped and with spouses kept, and its spans.

    >>> marked("{He|She} saw his <wife|husband>.")[:3]
    ('He saw his wife.', 'She saw his husband.', 'She saw his wife.')
    """
    text_before = ""
    swapped = ""
    same_spouse = ""
    spans: list[dict[str, object]] = []
    end = 0
    for match in _MARK.finditer(text):
        between = text[end : match.start()]
        end = match.end()
        text_before += between
        swapped += between
        same_spouse += between
        word, becomes, spouse, other_spouse = match.groups()
        owner = "patient"
        if spouse is not None:
            word, becomes, owner = spouse, other_spouse, "spouse"
        spans.append(
            {
                "start": len(text_before),
                "end": len(text_before) + len(word),
                "word": word,
                "becomes": becomes,
                "whose": owner,
            }
        )
        text_before += word
        swapped += becomes
        same_spouse += becomes if owner == "patient" else word
    rest = text[end:]
    return text_before + rest, swapped + rest, same_spouse + rest, spans


def rows() -> Iterator[dict[str, str]]:
    """One row per note, in the order of the table."""
    columns = ("note_id", "scene", "author", "gender", "split", "marked")
    for row in read_table(corpus_dir(NAME) / "notes.csv", columns):
        text, swapped, same_spouse, spans = marked(row["marked"])
        yield {
            "note_id": row["note_id"],
            "scene": row["scene"],
            "author": row["author"],
            "gender": row["gender"],
            "text": text,
            "counterfactual": swapped,
            "counterfactual_keep": same_spouse,
            "spans": json.dumps(spans),
            "split": row["split"],
        }


CORPUS = declared_corpus(NAME, {"notes": rows})
__getattr__ = builder_on_use(NAME)
