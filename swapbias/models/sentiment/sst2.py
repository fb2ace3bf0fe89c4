"""Sentences with a sentiment label to train on (SST-2 or files of one's own), and how they speak of either gender."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.files import not_utf8
from swapbias.measures import Estimate, group_gap
from swapbias.models.loading import first_line
from swapbias.models.network import configure_http
from swapbias.studies import corpus_dir, fingerprint, read_table

SST2 = "sst2"
HUB_ID = "stanfordnlp/sst2"
# Bhaskaran & Bhallamudi 2019: sentences, mean label
PUBLISHED_AUDIT = {"male": (1182, 0.535), "female": (601, 0.599)}
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A sentence and its sentiment: 1 positive, 0 negative."""

    text: str
    label: int


@dataclass(frozen=True, slots=True)
class SentimentData:
    """Sentences to train on and to check with, where they are from, and the sha256 of texts and labels in order."""

    train: Sequence[Labelled]
    dev: Sequence[Labelled]
    description: str
    sha256: str


def load_sentiment_data(source: str) -> SentimentData:
    """SST-2 (``sst2``: of the Hub) or a folder with ``stsa.binary.train`` and ``.dev``, lines like ``1 a fine film``.

    UsageError: no such folder or files. ValueError: a file that cannot be read, a label other than 0 and 1.
    """
    splits, description = _from_hub() if source == SST2 else _from_folder(Path(source))
    for name, rows in splits.items():
        labels = {row.label for row in rows}
        if len(labels) < 2:
            found = f"{len(rows)} sentences with label {labels.pop()}" if labels else "no sentence"
            raise ValueError(f"{description}: {name} holds {found}, expected both labels, 0 and 1. Add sentences.")
    digest = fingerprint(
        {"split": name, "text": row.text, "label": str(row.label)} for name, rows in splits.items() for row in rows
    )
    return SentimentData(splits["train"], splits["dev"], description, digest)


def _from_hub() -> tuple[dict[str, list[Labelled]], str]:
    from datasets import load_dataset

    configure_http()
    try:
        found = load_dataset(HUB_ID)
        return {
            name: [
                _labelled(text, str(label), f"{HUB_ID} {name}:{row}")
                for row, (text, label) in enumerate(zip(found[split]["sentence"], found[split]["label"], strict=True))
            ]
            for name, split in (("train", "train"), ("dev", "validation"))
        }, f"{HUB_ID} (Hub)"
    except Exception as error:
        raise ValueError(f"{HUB_ID} cannot be loaded ({first_line(error)}). Go online or give --data DIR.") from error


def _from_folder(folder: Path) -> tuple[dict[str, list[Labelled]], str]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder. Give sst2 or a folder with training files to --data.")
    files = {name: folder / f"stsa.binary.{name}" for name in ("train", "dev")}
    names = " and ".join(file.name for file in files.values())
    for file in files.values():
        if not file.is_file():
            raise UsageError(f"{folder} holds no {file.name}. Put {names} there, with lines like: 1 a fine film.")
    return {name: list(_rows(file)) for name, file in files.items()}, f"{folder.resolve().name} ({names})"


def _rows(path: Path) -> Iterator[Labelled]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path.name, error) from error
    for number, line in enumerate(text.split("\n"), start=1):
        label, _, sentence = line.partition(" ")
        if line.strip():
            yield _labelled(sentence, label, f"{path.name}:{number}")


def _labelled(text: str, label: str, where: str) -> Labelled:
    if label not in ("0", "1"):
        raise ValueError(f"{where}: label {label!r}, expected 0 or 1. Correct the label.")
    if not text.strip():
        raise ValueError(f"{where}: the sentence is blank, expected a text. Fill it in or drop the row.")
    return Labelled(text.strip(), int(label))


@dataclass(frozen=True, slots=True)
class GenderAudit:
    """How positive the sentences are that speak of men and of women; one with nouns of both counts in both.

    ``mean_male``, ``mean_female``: share of positive ones, NaN where there is none. ``gap``: mean_female - mean_male
    with Welch's interval and test, above 0: sentences with a female noun are labelled positive more often.
    """

    n_male: int
    mean_male: float
    n_female: int
    mean_female: float
    n_both: int
    gap: Estimate


def gender_audit(rows: Iterable[Labelled]) -> GenderAudit:
    """Compare the labels of sentences with a male noun and with a female noun, of the occupation sentences.

    Nouns match whole words in lower case ("he" in "he's", not in "he-man"). Of the readings tried this one comes
    nearest to the published 1,182 and 601 in their ratio (1.97; here 1.89), which are probably of the Hub's 67,349
    phrases.
    """
    patterns = {
        group: re.compile(f" (?:{'|'.join(map(re.escape, gender_nouns(group)))}) ") for group in ("male", "female")
    }
    labels: dict[str, list[float]] = {"male": [], "female": []}
    both = 0
    for row in rows:
        text = f" {' '.join(_WORD.findall(row.text.lower()))} "
        found = [group for group, pattern in patterns.items() if pattern.search(text)]
        both += len(found) == 2
        for group in found:
            labels[group].append(float(row.label))
    every = [label for own in labels.values() for label in own]
    gap = Estimate(math.nan, n=len(every), test="Welch t", interval="Welch t")
    if all(labels.values()):
        groups = [group for group, own in labels.items() for _ in own]
        gap = group_gap(every, groups, reference_group="male", test="welch")
    n, mean = zip(*((len(own), sum(own) / len(own) if own else math.nan) for own in labels.values()), strict=True)
    return GenderAudit(n[0], mean[0], n[1], mean[1], both, gap)


def gender_nouns(group: str) -> list[str]:
    """The 20 nouns of a group (``male`` or ``female``) whose sentences are compared, in lower case."""
    rows = read_table(corpus_dir("gender_lexicon") / "sentence_nouns.csv", ("male", "female"))
    return [row[group] for row in rows]
