"""Fit the three tables of weights that swapping reads pronouns by.

``antecedents``: whom a pronoun of a clinical note refers to, the patient or somebody named before it. The labels come
from the development notes of clinical_swaps, where every word of the patient's is marked, and from real reports where
a folder with them is given (``mtsamples_first_half.csv``; benchmarks/report_words.csv says whose each word is).
``--check`` fits without each author's notes, and without each half of the reports, in turn, and prints what the
weights do on those.

``his_him``: "his" or "him". The labels are free: in masculine text the two words differ. Counts come as a CSV with
the columns context ("next", "previous" or "previous next"), words, n_his and n_him; any text gives them. What the
word behind the next one adds where these leave doubt is fitted to the pronouns of whole texts.

``doubt``: how likely a decision about whose a word is is wrong, by how it was made; and how likely one of a note is.
Each source of notes is decided by antecedents fitted to the others; ``--check`` prints how well the chances fit.

    python -m scripts.fit_weights antecedents | doubt [--reports FOLDER] [--check]
    python -m scripts.fit_weights his_him COUNTS.csv TEXT.txt ...
"""

import argparse
import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import scipy.sparse
from scipy.optimize import minimize
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.whose import (
    DecidedNote,
    Note,
    accuracy_cells,
    calibration_error,
    corpus_notes,
    decided,
    report_notes,
)
from swapbias.swapping.neighbours import first_word, last_word, second_word, verb_class
from swapbias.swapping.possessives import features, further_features
from swapbias.swapping.referents.doubt import NUMBERS, log_expected_wrong
from swapbias.swapping.referents.pronouns import Pronoun, likeliest_referent, referent_features
from swapbias.swapping.swapper import Swapper

TABLES = Path(__file__).resolve().parent.parent / "datasets_src" / "gender_lexicon"

# --- antecedents ----

# inverse strength of the penalty; times a feature is seen; weights left out
PENALTY = 0.6
SEEN = 4
LEAST = 0.12
REPORTS_WEIGH = 5.0  # a pronoun of a report: reports are few, and as notes really are


@dataclass(frozen=True)
class Example:
    """A pronoun before which somebody else is named: what is seen of it, whom it means, and from where it is."""

    features: Sequence[str]
    other: bool
    source: str


def examples(notes: Sequence[Note], weights: dict[str, float] | None = None) -> list[Example]:
    """All such pronouns, in order; those before each are as marked, or as ``weights`` decide them."""
    swapper = Swapper(whose="patient")
    collected: list[Example] = []
    for note in notes:
        marked = {
            len(note.text[: word.start].encode()) for word in note.words if word.whose == "patient"
        }

        def teacher(
            pronoun: Pronoun, note: Note = note, marked: set[int] = marked
        ) -> tuple[float, object]:
            seen = referent_features(pronoun)
            if not seen:
                return 0.0, None
            of_patient = pronoun.start in marked
            score, person = likeliest_referent(weights, seen) if weights else (0.0, seen[0][0])
            # Of somebody else's pronoun the notes do not say whose: it is the likeliest person's, or the last one's.
            pairs = seen if of_patient else [pair for pair in seen if pair[0] == person]
            collected.extend(Example(names, not of_patient, note.source) for _, names in pairs)
            return score, person if (score > 0 if weights else not of_patient) else None

        with patch("swapbias.swapping.referents.persons.antecedent_of", teacher):
            swapper.run([note.text], genders=[note.gender])
    return collected


def trained(notes: Sequence[Note]) -> dict[str, float]:
    """Weights that also know pronouns after others that were decided wrong, as they will be.

    Each half of the notes is decided by the weights of the other one.
    """
    halves = notes[::2], notes[1::2]
    right = [examples(half) for half in halves]
    first = [antecedent_weights(half) for half in right]
    return antecedent_weights(
        [example for half in right for example in half]
        + [
            example
            for half, weights in zip(halves, reversed(first), strict=True)
            for example in examples(half, weights)
        ]
    )


def antecedent_weights(chosen: Sequence[Example]) -> dict[str, float]:
    """The weights, by name, with ``bias``; above zero toward the other person."""
    times = Counter(name for example in chosen for name in set(example.features))
    counted = [
        dict.fromkeys((name for name in example.features if times[name] >= SEEN), 1)
        for example in chosen
    ]
    vectorizer = DictVectorizer()
    seen = vectorizer.fit_transform(counted)
    weighed = np.array(
        [REPORTS_WEIGH if example.source.startswith("reports") else 1.0 for example in chosen]
    )
    model = LogisticRegression(C=PENALTY, max_iter=1_000)
    model.fit(seen, [example.other for example in chosen], sample_weight=weighed)
    pairs = zip(vectorizer.get_feature_names_out(), model.coef_[0].tolist(), strict=True)
    weights = {
        str(name): round(weight, 2) for name, weight in sorted(pairs) if abs(weight) >= LEAST
    }
    return {"bias": round(float(model.intercept_[0]), 2), **weights}


# --- doubt ----

HONEST = "swapbias.swapping.referents.pronouns.weights_of"  # replaced by weights that do not know the notes


def decided_honestly(notes: Sequence[Note]) -> list[DecidedNote]:
    """Return what the rules decide about each note with weights that are fitted to the other sources."""
    notes_decided = []
    for source in dict.fromkeys(note.source for note in notes):
        with patch(HONEST, _always(trained([note for note in notes if note.source != source]))):
            notes_decided += decided([note for note in notes if note.source == source])
    return notes_decided


def doubt_weights(notes: Sequence[DecidedNote]) -> dict[str, float]:
    """The weights of a wrong word by its case and numbers, and of a wrong note by its expected wrong words."""
    seen = [
        {case: 1.0, **dict(zip(NUMBERS, numbers, strict=True))}
        for note in notes
        for case, numbers in zip(note.cases, note.numbers.tolist(), strict=True)
    ]
    vectorizer = DictVectorizer()
    words = LogisticRegression(max_iter=2_000).fit(
        vectorizer.fit_transform(seen), np.concatenate([note.wrong for note in notes])
    )
    chances = words.predict_proba(vectorizer.transform(seen))[:, 1]
    rows = np.repeat(np.arange(len(notes)), [len(note.cases) for note in notes])
    expected = log_expected_wrong(chances, rows, len(notes))[:, None]
    whole = LogisticRegression(C=10).fit(expected, [not note.whole for note in notes])
    names = zip(vectorizer.get_feature_names_out(), words.coef_[0], strict=True)
    weights = {
        "bias": words.intercept_[0],
        "note": whole.intercept_[0],
        "expected": whole.coef_[0][0],
        **dict(names),
    }
    return {str(name): round(float(weight), 3) for name, weight in weights.items()}


def doubt_checked(notes: Sequence[DecidedNote]) -> Iterator[str]:
    """Calibration errors of words and notes: each source by the weights of all others."""
    words: list[tuple[float, bool]] = []
    wholes: list[tuple[float, bool]] = []
    for source in dict.fromkeys(note.source for note in notes):
        weights = doubt_weights([note for note in notes if note.source != source])
        notes_of_source = [note for note in notes if note.source == source]
        for note in notes_of_source:
            odds = weights["bias"] + np.array([weights.get(case, 0.0) for case in note.cases])
            odds = odds + note.numbers @ np.array([weights[name] for name in NUMBERS])
            chances = 1 / (1 + np.exp(-odds))
            words += zip(chances.tolist(), note.wrong.tolist(), strict=True)
            (expected,) = log_expected_wrong(chances, np.zeros(len(chances), dtype=np.int64), 1)
            wholes.append(
                (
                    1 / (1 + math.exp(-weights["note"] - weights["expected"] * expected)),
                    not note.whole,
                )
            )
    for name, pairs in (("words", words), ("notes", wholes)):
        yield f"{len(pairs):,} {name}: expected calibration error {calibration_error(*zip(*pairs, strict=True)):.3f}"


# --- antecedents, checked ----


def checked(notes: Sequence[Note]) -> Iterator[str]:
    """Precision and recall of the swapped words of each source by the weights of all others."""
    for source in dict.fromkeys(note.source for note in notes):
        with patch(
            "swapbias.swapping.referents.pronouns.weights_of",
            _always(trained([n for n in notes if n.source != source])),
        ):
            yield f"{source}: " + ", ".join(
                accuracy_cells([note for note in notes if note.source == source])
            )


def _always(weights: dict[str, float]) -> Callable[[str], dict[str, float]]:
    return lambda name: weights


# --- his or him ----

# Pairs of neighbours that were seen once are missing from the counts, and verbs that take a person ("gave him money")
# are followed by a thousand different nouns: what is known of such a verb alone is given more weight.
VERB_SHARE = {"give": 1.5, "make": 0.4}
VERB_PSEUDO_COUNTS = 4
SMALLEST = 0.05  # weights below it are left out of the table


# of the second fit; a feature must be seen so often
SMALLEST_FURTHER = 0.1
RIDGE = 2.0
FEWEST = 3
CLIPPED = 6.0  # of the first fit's log-odds: what it is sure of may be wrong too
PRONOUN = re.compile(r"(?<![\w-])(his|him)\b", re.IGNORECASE)
# "his" that stands alone is "hers", and "his or her" is no choice of one of them.
STANDS_ALONE = re.compile(r"\s*(?:[.,;?!:)\]]|/|or\b|\[or|and\b|$)")
OPENS = re.compile(r"\s+[\"'“‘(\[*]+\w")


def count_weights(rows: list[tuple[str, str, int, int]]) -> dict[str, float]:
    examples = []
    labels = []
    times = []
    for context, words, n_his, n_him in rows:
        seen = dict.fromkeys(_seen(context, words), 1)
        for label, count in ((1, n_his), (0, n_him)):
            if seen and count:
                examples.append(seen)
                labels.append(label)
                times.append(count)
    vectorizer = DictVectorizer()
    model = LogisticRegression(C=2.0, max_iter=1_000)
    model.fit(vectorizer.fit_transform(examples), labels, sample_weight=times)
    names = vectorizer.get_feature_names_out()
    return {
        "bias": float(model.intercept_[0]),
        **dict(zip(names, map(float, model.coef_[0]), strict=True)),
    }


def pronouns(text: str) -> Iterator[tuple[str, str, bool]]:
    """(word before, text after, whether it is "his") of each "his" and "him" of a text."""
    for pronoun in PRONOUN.finditer(text):
        his = pronoun[0].lower() == "his"
        after = text[pronoun.end() : pronoun.end() + 60]
        if not (his and STANDS_ALONE.match(after)):
            yield last_word(text[max(0, pronoun.start() - 60) : pronoun.start()]), after, his


def further(
    places: Sequence[tuple[str, str, bool]], first: Mapping[str, float]
) -> dict[str, float]:
    """Weights of the further features, fitted with the first log-odds as an offset."""
    seen = []
    for previous, after, _ in places:
        opens = bool(OPENS.match(after))
        seen.append([*further_features(previous, first_word(after), second_word(after), opens)])
    times = Counter(name for names in seen for name in names)
    number = {
        name: at for at, name in enumerate(name for name, count in times.items() if count >= FEWEST)
    }
    pairs = [
        (row, number[name]) for row, names in enumerate(seen) for name in names if name in number
    ]
    x = scipy.sparse.csr_matrix(
        (np.ones(len(pairs)), tuple(zip(*pairs, strict=True))), (len(places), len(number))
    )
    y = np.array([his for _, _, his in places], dtype=float)
    odds = [
        first["bias"] + sum(first.get(name, 0.0) for name in features(previous, first_word(after)))
        for previous, after, _ in places
    ]
    offset = np.clip(odds, -CLIPPED, CLIPPED)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = offset + x @ w
        gradient = x.T @ (1 / (1 + np.exp(-z)) - y) + RIDGE * w
        return float(np.logaddexp(0, z).sum() - y @ z + RIDGE / 2 * (w @ w)), gradient

    w = minimize(
        loss, np.zeros(len(number)), jac=True, method="L-BFGS-B", options={"maxiter": 300}
    ).x
    return {
        name: float(w[at]) for name, at in sorted(number.items()) if abs(w[at]) >= SMALLEST_FURTHER
    }


def _seen(context: str, words: str) -> Iterator[str]:
    if context == "next":
        yield from features(None, words)
    elif context == "previous":
        yield from features(words, None)
    elif words.count(" ") == 1:
        yield from features(*words.split(" "))


def verb_shifts(rows: list[tuple[str, str, int, int]]) -> Iterator[tuple[str, float]]:
    alone = {
        words: (n_his, n_him) for context, words, n_his, n_him in rows if context == "previous"
    }
    prior = sum(his for his, _ in alone.values()) / sum(his + him for his, him in alone.values())
    for kind in VERB_SHARE:
        verbs = {word: counts for word, counts in alone.items() if verb_class(word) == kind}
        share = sum(his for his, _ in verbs.values()) / sum(
            his + him for his, him in verbs.values()
        )
        for word, (his, him) in verbs.items():
            odds = (his + VERB_PSEUDO_COUNTS * share) / (him + VERB_PSEUDO_COUNTS * (1 - share))
            yield f"p={word}", VERB_SHARE[kind] * (math.log(odds) - math.log(prior / (1 - prior)))


# --- command ----


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit a table of weights.")
    tables = parser.add_subparsers(dest="table", required=True)
    for name in ("antecedents", "doubt"):
        command = tables.add_parser(name)
        command.add_argument("--reports", type=Path, help="folder with the real reports")
        command.add_argument(
            "--check", action="store_true", help="fit without each source in turn; writes nothing"
        )
    his_him = tables.add_parser("his_him")
    his_him.add_argument("counts", type=Path)
    his_him.add_argument("texts", type=Path, nargs="*")
    chosen = parser.parse_args()
    if chosen.table == "his_him":
        fit_his_him(chosen)
        return
    notes = [note for note in corpus_notes("development") if note.gender]
    notes += report_notes(chosen.reports) if chosen.reports else []
    if chosen.table == "antecedents":
        print(*checked(notes), sep="\n") if chosen.check else write(
            "antecedent_weights.csv", trained(notes)
        )
    else:
        honest = decided_honestly(notes)
        print(*doubt_checked(honest), sep="\n") if chosen.check else write(
            "doubt_weights.csv", doubt_weights(honest), 3
        )


def fit_his_him(chosen: argparse.Namespace) -> None:
    with chosen.counts.open(newline="", encoding="utf-8") as handle:
        rows = [
            (r["context"], r["words"], int(r["n_his"]), int(r["n_him"]))
            for r in csv.DictReader(handle)
        ]
    weights = count_weights(rows)
    for feature, shift in verb_shifts(rows):
        weights[feature] = weights.get(feature, 0.0) + shift
    rounded = {
        name: weight
        for name, weight in sorted(weights.items())
        if abs(weight) >= SMALLEST or name == "bias"
    }
    rounded = {name: round(weight, 2) for name, weight in rounded.items()}
    places = [
        place
        for path in chosen.texts
        for place in pronouns(path.read_text(encoding="utf-8", errors="replace"))
    ]
    rounded |= further(places, rounded) if places else {}
    write("his_him_weights.csv", rounded)


def write(name: str, weights: Mapping[str, float], digits: int = 2) -> None:
    with (TABLES / name).open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["feature", "weight"])
        writer.writerows((name, f"{weight:.{digits}f}") for name, weight in weights.items())
    print(f"{len(weights)} weights in {name}")


if __name__ == "__main__":
    main()
