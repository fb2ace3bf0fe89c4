"""care_notes: do summaries of the same note differ with the patient's gender (Rickman 2025)?"""

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swapbias.hub import builder_on_use
from swapbias.studies import Released, declared_corpus, prompt_row, tables
from swapbias.studies.published import ReleasedNumber

NAME = "care_notes"
SCORES = "evaluate_sentiment/output_summaries/"  # then the classifier, "mean", and a file a model, length and gender
# Of each classifier the column that is read, and its sign: regard is reported as minus the gap of "negative".
READ = {"siebert": ("POSITIVE", 1.0), "regard": ("negative", -1.0)}
WRITTEN_ABOUT = {"mf": "male", "fm": "female"}
GENDERS = ("female", "male")


# Released scores: a CSV file a classifier, direction, model, length and gender, a row a document.
def parsed(path: str) -> tuple[str, str, str, str, str]:
    """Classifier, direction, model, length in words (``None``: free) and gender, which stand in a path."""
    classifier, _, name = path.removeprefix(SCORES).split("/")
    direction, model, length = name.split("_")[:3]
    return classifier, direction, model, length, name.removesuffix(".csv").rpartition("_")[2]


def scores(
    files: Mapping[str, Path], classifier: str
) -> dict[tuple[str, str, str], dict[str, float]]:
    """Read the score of both genders of each summary, by direction, length and document.

    Raises:
        ValueError: a file without the classifier's columns.
    """
    column, sign = READ[classifier]
    by_summary: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for path, file in files.items():
        by, direction, _, length, gender = parsed(path)
        if by != classifier:
            continue
        with file.open(newline="", encoding="utf-8") as handle:
            for row in csv.DictReader(handle):
                if column not in row or "doc_num" not in row:
                    raise ValueError(f"{path}: columns {list(row)}, expected doc_num and {column}.")
                by_summary[direction, length, row["doc_num"]][gender] = sign * float(row[column])
    return by_summary


def _released_rows(files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """The scores of SiEBERT: a document in its six lengths is one patient."""
    for (direction, length, document), both in scores(files, "siebert").items():
        for gender in GENDERS:
            pair = f"{direction}/{document}/{length}"
            row = prompt_row(
                pair,
                gender,
                "",
                "tone",
                condition=length,
                label=f"written about a {WRITTEN_ABOUT[direction]} person",
            )
            yield {**row, "subject_id": f"{direction}/{document}", "score": both[gender]}


def _counts(files: Mapping[str, Path]) -> Iterator[ReleasedNumber]:
    """The gap of each classifier over all documents and lengths, and how many pairs there are."""
    for classifier in READ:
        pairs = scores(files, classifier).values()
        gap = statistics.fmean(pair["female"] - pair["male"] for pair in pairs)
        yield ReleasedNumber(classifier, "gap", "female - male", gap)
        yield ReleasedNumber(classifier, "count", "pairs", float(len(pairs)))


def released() -> Iterator[Released]:
    """Every model whose scores are pinned: it stands in the path."""
    paths: dict[str, list[str]] = defaultdict(list)
    for path in tables.pinned_files(NAME):
        paths[parsed(path)[2]].append(path)
    for model, of_model in paths.items():
        yield Released(
            model=model,
            experiment="tone",
            files=tuple(of_model),
            rows=_released_rows,
            counts=_counts,
        )


CORPUS = declared_corpus(NAME, released=tuple(released()))
__getattr__ = builder_on_use(NAME)
