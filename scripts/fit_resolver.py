"""Fit the weights that tell "his" from "him" from counts of the words beside them.

The labels are free: in masculine text the two words differ. Counts come as a CSV with the columns context ("next",
"previous" or "previous next"), words, n_his and n_him; any text gives them. What the word behind the next one adds
where these leave doubt is fitted to the pronouns of whole texts, beside the weights of the counts.

    python scripts/fit_resolver.py counts.csv TEXT.txt ...
"""

import csv
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse
from scipy.optimize import minimize
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from swapbias.swapping import features, first_word, further_features, last_word, second_word, verb_class

OUT = Path(__file__).resolve().parent.parent / "datasets_src" / "gender_lexicon" / "his_him_weights.csv"
# Pairs of neighbours that were seen once are missing from the counts, and verbs that take a person ("gave him money")
# are followed by a thousand different nouns: what is known of such a verb alone is given more weight.
VERB_SHARE, VERB_PSEUDO_COUNTS = {"give": 1.5, "make": 0.4}, 4
SMALLEST = 0.05  # weights below it are left out of the table


SMALLEST_FURTHER, RIDGE, FEWEST = 0.1, 2.0, 3  # of the second fit; a feature must be seen so often
CLIPPED = 6.0  # of the first fit's log-odds: what it is sure of may be wrong too
PRONOUN = re.compile(r"(?<![\w-])(his|him)\b", re.IGNORECASE)
# "his" that stands alone is "hers", and "his or her" is no choice of one of them.
APART = re.compile(r"\s*(?:[.,;?!:)\]]|/|or\b|\[or|and\b|$)")
OPENS = re.compile(r"\s+[\"'“‘(\[*]+\w")


def main(counts: Path, texts: Sequence[Path]) -> None:
    with counts.open(newline="", encoding="utf-8") as handle:
        rows = [(r["context"], r["words"], int(r["n_his"]), int(r["n_him"])) for r in csv.DictReader(handle)]
    weights = fitted(rows)
    for feature, shift in verb_shifts(rows):
        weights[feature] = weights.get(feature, 0.0) + shift
    kept = {name: weight for name, weight in sorted(weights.items()) if abs(weight) >= SMALLEST or name == "bias"}
    kept = {name: round(weight, 2) for name, weight in kept.items()}
    places = [place for path in texts for place in pronouns(path.read_text(encoding="utf-8", errors="replace"))]
    kept |= further(places, kept) if places else {}
    with OUT.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["feature", "weight"])
        writer.writerows((name, f"{weight:.2f}") for name, weight in kept.items())
    print(f"{len(kept)} weights in {OUT.name}")


def fitted(rows: list[tuple[str, str, int, int]]) -> dict[str, float]:
    examples, labels, times = [], [], []
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
    return {"bias": float(model.intercept_[0]), **dict(zip(names, map(float, model.coef_[0]), strict=True))}


def pronouns(text: str) -> Iterator[tuple[str, str, bool]]:
    """(word before, text after, whether it is "his") of each "his" and "him" of a text."""
    for found in PRONOUN.finditer(text):
        his, after = found[0].lower() == "his", text[found.end() : found.end() + 60]
        if not (his and APART.match(after)):
            yield last_word(text[max(0, found.start() - 60) : found.start()]), after, his


def further(places: Sequence[tuple[str, str, bool]], first: Mapping[str, float]) -> dict[str, float]:
    """Weights of the further features, fitted with the first log-odds as an offset."""
    seen = []
    for previous, after, _ in places:
        opens = bool(OPENS.match(after))
        seen.append([*further_features(previous, first_word(after), second_word(after), opens)])
    times = Counter(name for names in seen for name in names)
    number = {name: at for at, name in enumerate(name for name, count in times.items() if count >= FEWEST)}
    pairs = [(row, number[name]) for row, names in enumerate(seen) for name in names if name in number]
    x = scipy.sparse.csr_matrix((np.ones(len(pairs)), tuple(zip(*pairs, strict=True))), (len(places), len(number)))
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

    w = minimize(loss, np.zeros(len(number)), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    return {name: float(w[at]) for name, at in sorted(number.items()) if abs(w[at]) >= SMALLEST_FURTHER}


def _seen(context: str, words: str) -> Iterator[str]:
    if context == "next":
        yield from features(None, words)
    elif context == "previous":
        yield from features(words, None)
    elif words.count(" ") == 1:
        yield from features(*words.split(" "))


def verb_shifts(rows: list[tuple[str, str, int, int]]) -> Iterator[tuple[str, float]]:
    alone = {words: (n_his, n_him) for context, words, n_his, n_him in rows if context == "previous"}
    prior = sum(his for his, _ in alone.values()) / sum(his + him for his, him in alone.values())
    for kind in VERB_SHARE:
        mine = {word: counts for word, counts in alone.items() if verb_class(word) == kind}
        share = sum(his for his, _ in mine.values()) / sum(his + him for his, him in mine.values())
        for word, (his, him) in mine.items():
            odds = (his + VERB_PSEUDO_COUNTS * share) / (him + VERB_PSEUDO_COUNTS * (1 - share))
            yield f"p={word}", VERB_SHARE[kind] * (math.log(odds) - math.log(prior / (1 - prior)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(text) for text in sys.argv[2:]])
