"""Fit the weights that tell "his" from "him" from counts of the words beside them.

The labels are free: in masculine text the two words differ. Counts come as a CSV with the columns context ("next",
"previous" or "previous next"), words, n_his and n_him; any text gives them.

    python scripts/fit_resolver.py counts.csv
"""

import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from swapbias.swapping import features, verb_class

OUT = Path(__file__).resolve().parent.parent / "datasets_src" / "gender_lexicon" / "his_him_weights.csv"
# Pairs of neighbours that were seen once are missing from the counts, and verbs that take a person ("gave him money")
# are followed by a thousand different nouns: what is known of such a verb alone is given more weight.
VERB_SHARE, VERB_PSEUDO_COUNTS = {"give": 1.5, "make": 0.4}, 4
SMALLEST = 0.05  # weights below it are left out of the table


def main(counts: Path) -> None:
    with counts.open(newline="", encoding="utf-8") as handle:
        rows = [(r["context"], r["words"], int(r["n_his"]), int(r["n_him"])) for r in csv.DictReader(handle)]
    weights = fitted(rows)
    for feature, shift in verb_shifts(rows):
        weights[feature] = weights.get(feature, 0.0) + shift
    kept = {name: weight for name, weight in sorted(weights.items()) if abs(weight) >= SMALLEST or name == "bias"}
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
    main(Path(sys.argv[1]))
