"""Sentences with a sentiment that models are trained on, and what they say of men and women."""

import math
import re
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from swapbias import hub_http
from swapbias.errors import UsageError, first_line
from swapbias.files import not_utf8
from swapbias.measures import Estimate, group_gap
from swapbias.studies import corpus_dir, read_table, tables

SST2 = "sst2"
HUB_ID = "stanfordnlp/sst2"
FILES = ("stsa.binary.train", "stsa.binary.dev")
PUBLISHED_AUDIT = {"male": (1182, 0.535), "female": (601, 0.599)}
"""Sentences and their mean label by group (Bhaskaran & Bhallamudi 2019)."""
Rows: TypeAlias = pd.DataFrame
"""Sentences: ``text``, and ``label`` (1 positive)."""
Facts: TypeAlias = dict[str, Any]
"""Facts of a record by name."""
_NOUN_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def load_sentiment_data(source: str) -> tuple[Rows, Rows, dict[str, str]]:
    """Read sentences to train on and to check with.

    Args:
        source: ``sst2`` (SST-2 of the Hub), or a folder with ``stsa.binary.train`` and ``.dev``, lines like
            ``1 a fine film``.

    Returns:
        Sentences to train on, to check with, and what the record says of them.

    Raises:
        UsageError: There are no such files.
        ValueError: A file cannot be read, or has a label other than 0 and 1.
    """
    if source == SST2:
        train, dev = _from_hub()
        description = f"{HUB_ID} (Hub)"
    elif not Path(source).is_dir():
        raise UsageError(
            f"{source} is no folder. Give sst2 or a folder with training files to --data."
        )
    else:
        train, dev = (_from_file(Path(source, name)) for name in FILES)
        description = f"{Path(source).resolve().name} ({' and '.join(FILES)})"
    sentences = pd.concat([train.assign(split="train"), dev.assign(split="dev")])
    sha256 = tables.fingerprint(sentences.astype(str).to_dict("records"))
    return train, dev, {"description": description, "sha256": sha256}


def _from_hub() -> list[Rows]:
    """Return the sentences of SST-2 to train on and to check with."""
    from datasets import load_dataset

    hub_http.configure_http()
    try:
        dataset = load_dataset(HUB_ID)
    except Exception as error:
        fault = f"{HUB_ID} cannot be loaded ({first_line(error)}). Go online or give --data DIR."
        raise ValueError(fault) from error
    splits = [dataset[split].to_pandas() for split in ("train", "validation")]
    return [
        split[["label"]].assign(text=split["sentence"].str.strip())[["text", "label"]]
        for split in splits
    ]


def _from_file(file: Path) -> Rows:
    """Return texts and labels of lines; blank ones are left out."""
    if not file.is_file():
        names = " and ".join(FILES)
        raise UsageError(
            f"{file.parent} contains no {file.name}. Put {names} there, with lines like: 1 a fine film."
        )
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise not_utf8(file.name, error) from error
    sentences = []
    for number, line in enumerate(lines, start=1):
        label, _, text = line.partition(" ")
        if not (label + text).strip():
            continue
        if label not in ("0", "1"):
            raise ValueError(
                f"{file.name}:{number}: label {label!r}, expected 0 or 1. Correct the label."
            )
        if not text.strip():
            raise ValueError(
                f"{file.name}:{number}: the sentence is blank. Fill it in or drop the row."
            )
        sentences.append((text.strip(), int(label)))
    rows = pd.DataFrame(sentences, columns=["text", "label"])
    if rows["label"].nunique() < 2:
        content = "no sentence"
        if sentences:
            content = f"{len(rows)} sentences with label {rows['label'][0]}"
        fault = f"{file.name} contains {content}, expected both labels, 0 and 1. Add sentences."
        raise ValueError(fault)
    return rows


def gender_audit(rows: Rows) -> Facts:
    """Compare the labels of sentences with a male noun and with a female noun, of the occupation sentences.

    Nouns match whole words: of the readings tried this comes nearest to the ratio of the published 1,182 and 601.

    Args:
        rows: sentences with their label.

    Returns:
        ``n_male``, ``n_female`` and ``n_both`` sentences, shares of positive ones (``mean_male``, ``mean_female``),
        and ``gap`` (female - male) with Welch's interval.
    """
    words = rows["text"].str.lower().map(lambda text: f" {' '.join(_NOUN_WORD.findall(text))} ")
    path = corpus_dir("gender_lexicon") / "sentence_nouns.csv"
    table = read_table(path, ("male", "female"))
    labels = {}
    for group in ("male", "female"):
        nouns = "|".join(re.escape(row[group]) for row in table)
        labels[group] = rows["label"][words.str.contains(f" (?:{nouns}) ")]
    groups = [group for group in labels for _ in labels[group]]
    gap = Estimate(math.nan, n=len(groups), test="Welch t", interval="Welch t")
    if all(map(len, labels.values())):
        gap = group_gap(pd.concat(labels), groups, reference_group="male", test="welch")
    both = labels["male"].index.intersection(labels["female"].index)
    return {
        **{f"n_{group}": len(values) for group, values in labels.items()},
        **{f"mean_{group}": float(values.mean()) for group, values in labels.items()},
        "n_both": len(both),
        "gap": gap,
    }
