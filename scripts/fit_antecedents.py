"""Fit the weights that tell whom a pronoun of a clinical note means, the patient or somebody else named before it.

The labels come from the development notes of clinical_swaps, where every word of the patient's is marked, and from
real reports where a folder with them is given (``mtsamples_first_half.csv``; benchmarks/report_words.csv says whose
each word is). ``--check`` fits without each author's notes, and without each half of the reports, in turn, and tells
what the weights do on those.

    python -m scripts.fit_antecedents [--reports FOLDER] [--check]
"""

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.whose import Note, corpus_notes, report_notes, told
from swapbias.swapping import Swapper, antecedents

OUT = Path(__file__).resolve().parent.parent / "datasets_src" / "gender_lexicon" / "antecedent_weights.csv"
RIDGE, FEWEST, SMALLEST = 0.2, 8, 0.15  # inverse strength of the penalty; times a feature is seen; weights left out
REPORTS_WEIGH = 5.0  # a pronoun of a report: reports are few, and as notes really are


@dataclass(frozen=True)
class Example:
    """A pronoun before which somebody else is named: what is seen of it, whom it means, and from where it is."""

    features: Sequence[str]
    other: bool
    source: str


def examples(notes: Sequence[Note], known: dict[str, float] | None = None) -> list[Example]:
    """All such pronouns, in order; those before each are as marked, or as the weights ``known`` decide them."""
    swapper = Swapper(whose="patient")
    found: list[Example] = []
    for note in notes:
        marked = {len(note.text[: word.start].encode()) for word in note.words if word.whose == "patient"}

        def teacher(one: antecedents.Pronoun, note: Note = note, marked: set[int] = marked) -> object:
            person = antecedents.candidate(one)
            if person is None:
                return None
            mine = one.start - one.row in marked
            seen = antecedents.features(one, person)
            found.append(Example(seen, not mine, note.source))
            if known is not None:
                mine = sum(known.get(name, 0.0) for name in seen) + known["bias"] <= 0
            return None if mine else person

        with patch("swapbias.swapping.persons.meant", teacher):
            swapper.run([note.text], genders=[note.gender])
    return found


def trained(notes: Sequence[Note]) -> dict[str, float]:
    """Weights that also know pronouns after others that were decided wrong, as they will be.

    Each half of the notes is decided by the weights of the other one.
    """
    halves = notes[::2], notes[1::2]
    right = [examples(half) for half in halves]
    first = [fitted(half) for half in right]
    return fitted(
        [one for half in right for one in half]
        + [one for half, known in zip(halves, reversed(first), strict=True) for one in examples(half, known)]
    )


def fitted(chosen: Sequence[Example]) -> dict[str, float]:
    """The weights, by name, with ``bias``; above zero toward the other person."""
    times = Counter(name for one in chosen for name in set(one.features))
    kept = [dict.fromkeys((name for name in one.features if times[name] >= FEWEST), 1) for one in chosen]
    vectorizer = DictVectorizer()
    seen = vectorizer.fit_transform(kept)
    weighed = np.array([REPORTS_WEIGH if one.source.startswith("reports") else 1.0 for one in chosen])
    model = LogisticRegression(C=RIDGE, max_iter=1_000)
    model.fit(seen, [one.other for one in chosen], sample_weight=weighed)
    pairs = zip(vectorizer.get_feature_names_out(), model.coef_[0].tolist(), strict=True)
    weights = {str(name): round(weight, 2) for name, weight in sorted(pairs) if abs(weight) >= SMALLEST}
    return {"bias": round(float(model.intercept_[0]), 2), **weights}


def checked(notes: Sequence[Note]) -> Iterator[str]:
    """Precision and recall of the swapped words of each source by the weights of all others."""
    for source in dict.fromkeys(note.source for note in notes):
        with patch(
            "swapbias.swapping.antecedents.weights", _always(trained([n for n in notes if n.source != source]))
        ):
            yield f"{source}: " + ", ".join(told([note for note in notes if note.source == source]))


def _always(weights: dict[str, float]) -> Callable[[], dict[str, float]]:
    return lambda: weights


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit antecedent_weights.csv.")
    parser.add_argument("--reports", type=Path, help="folder with the real reports")
    parser.add_argument("--check", action="store_true", help="fit without each source in turn; writes nothing")
    options = parser.parse_args()
    notes = [note for note in corpus_notes("development") if note.gender]
    notes += report_notes(options.reports) if options.reports else []
    if options.check:
        for line in checked(notes):
            print(line)
        return
    weights = trained(notes)
    with OUT.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["feature", "weight"])
        writer.writerows((name, f"{weight:.2f}") for name, weight in weights.items())
    print(f"{len(notes)} notes, {len(weights)} weights in {OUT.name}")


if __name__ == "__main__":
    main()
