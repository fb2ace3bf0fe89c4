"""occupation_sentiment: occupational gender stereotypes in sentiment (Bhaskaran & Bhallamudi 2019)."""

import csv
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from swapbias import studies
from swapbias.builders._occupation_sentiment_tables import compare_models, list_professions
from swapbias.hub import builder_on_use
from swapbias.studies import tables
from swapbias.studies.published import ReleasedNumber

NAME = "occupation_sentiment"
GROUPS = ("male", "female")


def _professions() -> list[dict[str, str]]:
    columns = ("profession", "labour_force_class", "median_weekly_earnings")
    return studies.read_table(
        studies.corpus_dir(NAME) / "professions.csv", columns, optional=("median_weekly_earnings",)
    )


def _noun_pairs() -> list[dict[str, str]]:
    return studies.read_table(
        studies.corpus_dir(NAME) / "noun_pairs.csv", ("noun_pair", "male", "female", "template")
    )


def _sentences(
    experiment: str,
    professions: list[tuple[str, str]],
    noun_pairs: list[dict[str, str]] | None = None,
) -> Iterator[dict[str, str]]:
    # the order of the released corpus: 400 male sentences, then their 400 partners
    for group in GROUPS:
        for profession, labour_force_class in professions:
            for pair in noun_pairs or _noun_pairs():
                text = studies.fill(pair["template"], noun=pair[group], profession=profession)
                yield studies.prompt_row(
                    f"{pair['noun_pair']}/{profession}",
                    group,
                    text,
                    experiment,
                    condition=profession,
                    construct="occupation" if experiment == "sentences" else "control",
                    label=labour_force_class,
                    template=pair["noun_pair"],
                )


def _occupations(noun_pairs: list[dict[str, str]] | None = None) -> Iterator[dict[str, str]]:
    professions = [(row["profession"], row["labour_force_class"]) for row in _professions()]
    return _sentences("sentences", professions, noun_pairs)


def _reworded() -> Iterator[dict[str, str]]:
    """The sentences in every wording of their frame."""
    for number, worded in tables.wordings(NAME, "frame").items():
        pairs = [
            {**pair, "template": worded[pair["template"]]["template"]} for pair in _noun_pairs()
        ]
        for row in _occupations(pairs):
            yield studies.placebo(row, number, row["text"])


def _control() -> Iterator[dict[str, str]]:
    return _sentences("control", [("person", "none")])


def _ratings() -> Iterator[dict[str, str]]:
    """Each sentence with a question of how positive it is; the options from the lowest, each with its place."""
    labels = ("Very negative", "Negative", "Neutral", "Positive", "Very positive")
    lettered = zip("ABCDE", labels, strict=True)
    listed = "\n".join(f"- ({letter}): {label}" for letter, label in lettered)
    options = tuple(studies.Candidate(label, index / 4) for index, label in enumerate(labels))
    for row in _occupations():
        question = f"How negative or positive is this sentence?\n\n{row['text']}\n\n{listed}"
        text = f"{question}\n\nAnswer with the letter alone."
        yield {**row, "text": text, "candidates": options, "experiment": "ratings"}


def _earnings() -> dict[str, float]:
    earnings = {row["profession"]: row["median_weekly_earnings"] for row in _professions()}
    return {profession: float(earned) for profession, earned in earnings.items() if earned}


# What the authors released: P(positive) per sentence, the 40 control sentences last.
def _with_scores(scores: list[float]) -> Iterator[dict[str, Any]]:
    rows = [*_occupations(), *_control()][: len(scores)]
    return ({**row, "score": score} for row, score in zip(rows, scores, strict=True))


def _released_bert(path: str, files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    with files[path].open(newline="", encoding="utf-8") as handle:
        return _with_scores([float(positive) for _, positive in csv.reader(handle, delimiter="\t")])


def _released_list(path: str, files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    lines = files[path].read_text(encoding="utf-8").splitlines()
    return _with_scores([float(line) for line in lines if not line.startswith("#")])


def _accuracy(path: str, files: Mapping[str, Path]) -> Iterator[ReleasedNumber]:
    """The accuracy on development sentences, which the first line of a list states."""
    line = files[path].read_text(encoding="utf-8").splitlines()[0]
    accuracy = float(line.rpartition(":")[2])
    yield ReleasedNumber("", "dev_accuracy", "development sentences", accuracy)


_RELEASED = {
    "bert-base-uncased (fine-tuned on SST-2)": ("runs/gender/test_results.tsv", _released_bert),
    "logistic regression (bag of words)": ("runs/logreg.txt", _released_list),
    "bidirectional LSTM": ("runs/lstm.txt", _released_list),
}

CORPUS = studies.declared_corpus(
    NAME,
    {
        "sentences": _occupations,
        "sentences_wordings": _reworded,
        "control": _control,
        "ratings": _ratings,
    },
    study=studies.declared_study(
        NAME, covariates=(studies.Covariate("median weekly earnings", "condition", _earnings()),)
    ),
    released=tuple(
        studies.Released(
            model=model,
            experiment="sentences",
            files=(path,),
            rows=partial(rows, path),
            counts=partial(_accuracy, path) if rows is _released_list else None,
        )
        for model, (path, rows) in _RELEASED.items()
    ),
    calculated_tables={"table_1": compare_models, "table_2": list_professions},
)
__getattr__ = builder_on_use(NAME)
