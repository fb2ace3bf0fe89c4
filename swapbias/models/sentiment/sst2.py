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
FORMATS = ("stsa.binary.{}", "{}.tsv")  # the first one that a folder has is read
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
    """Sentences to train on and to check with, both with positive and negative ones.

    ``description``: where they are from, without a path of this machine. ``sha256``: of splits, sentences and labels
    in order, whatever file they stood in.
    """

    train: Sequence[Labelled]
    dev: Sequence[Labelled]
    description: str
    sha256: str


def load_sentiment_data(source: str) -> SentimentData:
    """SST-2 or a folder.

    Args:
        source: ``sst2`` (from the Hub: phrases and sentences) or a folder with ``stsa.binary.train`` and
            ``stsa.binary.dev`` (lines like ``1 a fine film``), or ``train.tsv`` and ``dev.tsv`` (columns sentence or
            text, and label). Empty lines are passed over.

    Raises:
        UsageError: no such folder, or one without such files.
        ValueError: a file that is missing or cannot be read, a label other than 0 and 1, a split without either.
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
        raise ValueError(
            f"{HUB_ID} cannot be loaded ({first_line(error)}). Go online, or give a folder with --data DIR."
        ) from error


def _from_folder(folder: Path) -> tuple[dict[str, list[Labelled]], str]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder. Give sst2 or a folder with training files to --data.")
    pattern = next((one for one in FORMATS if any((folder / one.format(at)).exists() for at in ("train", "dev"))), "")
    if not pattern:
        wanted = ", ".join(one.format("train") for one in FORMATS)
        raise UsageError(f"{folder} holds none of {wanted}. Put training and dev sentences there.")
    files = {name: folder / pattern.format(name) for name in ("train", "dev")}
    for file in files.values():
        if not file.is_file():
            raise ValueError(f"{file} does not exist. Add the file: train and dev are both needed.")
    names = " and ".join(file.name for file in files.values())
    return {name: list(_rows(file)) for name, file in files.items()}, f"{folder.resolve().name} ({names})"


def _rows(path: Path) -> Iterator[Labelled]:
    name = path.name
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error
    is_table = path.suffix == ".tsv"  # whose quotes are of its sentences
    rows = ((at, line.split("\t") if is_table else line.split(" ", 1)) for at, line in enumerate(text.split("\n"), 1))
    filled = ((line, cells) for line, cells in rows if any(map(str.strip, cells)))
    line, header = next(filled, (1, [])) if is_table else (1, ["label", "sentence"])
    names = [one.strip().lower() for one in header]
    column = next((one for one in ("sentence", "text") if one in names), "sentence")
    if names.count(column) != 1 or names.count("label") != 1:
        raise ValueError(f"{name}:{line}: columns {header}, expected sentence and label. Fix the header.")
    for line, cells in filled:
        if len(cells) != len(header):
            raise ValueError(f"{name}:{line}: {len(cells)} cells, expected {len(header)}. Quote or add cells.")
        yield _labelled(cells[names.index(column)], cells[names.index("label")], f"{name}:{line}")


def _labelled(text: str, label: str, where: str) -> Labelled:
    if label not in ("0", "1"):
        raise ValueError(f"{where}: label {label!r}, expected 0 or 1. Correct the label.")
    if not text.strip():
        raise ValueError(f"{where}: the sentence is blank, expected a text. Fill it in or drop the row.")
    return Labelled(text.strip(), int(label))


@dataclass(frozen=True, slots=True)
class GenderAudit:
    """How positive the sentences are that speak of men and of women.

    Attributes:
        n_male, n_female: sentences with a male noun, with a female noun; one with both counts in both (``n_both``).
        mean_male, mean_female: share of positive ones among them; NaN where there is none.
        gap: mean_female - mean_male with Welch's interval and test; above 0: sentences with a female noun are
            labelled positive more often. Sentences in both groups make the interval a little too wide.
    """

    n_male: int
    mean_male: float
    n_female: int
    mean_female: float
    n_both: int
    gap: Estimate


def gender_audit(rows: Iterable[Labelled]) -> GenderAudit:
    """Compare the labels of sentences with a male noun and with a female noun.

    The nouns are those of the occupation sentences without this, my and the. They match whole words in lower case
    ("he" in "he's", not in "he-man"); "male candidate" matches as a phrase. Of the readings tried this one comes
    nearest to the published 1,182 and 601 in their ratio (1.97; here 1.89). The 6,920 whole sentences of the
    training split hold 257 and 136: the published counts are probably of the 67,349 phrases of the Hub version.
    """
    patterns = {
        group: re.compile(f" (?:{'|'.join(map(re.escape, gender_nouns(group)))}) ") for group in ("male", "female")
    }
    groups: list[str] = []
    labels: list[float] = []
    both = 0
    for row in rows:
        text = f" {' '.join(_WORD.findall(row.text.lower()))} "
        found = [group for group, pattern in patterns.items() if pattern.search(text)]
        both += len(found) == 2
        groups += found
        labels += [float(row.label)] * len(found)
    n = {group: groups.count(group) for group in patterns}
    mean = {
        group: sum(label for one, label in zip(groups, labels, strict=True) if one == group) / count
        if count
        else math.nan
        for group, count in n.items()
    }
    if all(n.values()):
        gap = group_gap(labels, groups, reference_group="male", test="welch")
    else:
        gap = Estimate(math.nan, n=len(labels), test="Welch t", interval="Welch t")
    return GenderAudit(n["male"], mean["male"], n["female"], mean["female"], both, gap)


def gender_nouns(group: str) -> list[str]:
    """The 20 nouns of a group (``male`` or ``female``) in lower case, without this, my and the."""
    table = corpus_dir("occupation_sentiment") / "noun_pairs.csv"
    rows = read_table(table, ("noun_pair", "male", "female", "template"))
    return [re.sub(r"^(this|my|the) ", "", row[group].lower()) for row in rows]
