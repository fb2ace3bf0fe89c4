"""Rating words: which ones a run met without a label, importing labels, how far two raters agree."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swapbias.errors import UsageError, quoted
from swapbias.files import as_meant, check_regular, not_utf8, write_whole
from swapbias.studies.catalogue import load_lexicon, load_study, studies
from swapbias.studies.study import Rated, Study
from swapbias.studies.tables import imported_path, shown_names, strict_rows

if TYPE_CHECKING:
    import pandas as pd


def rated() -> tuple[Study, Rated]:
    """The study whose words are rated, and what it declares of them."""
    known = (load_study(name) for name in studies())
    return next((study, study.rated) for study in known if study.rated)


def unrated_words(items: "pd.DataFrame") -> "pd.DataFrame":
    """Words among the likeliest tokens that the lexicon does not label, by probability mass.

    Args:
        items: scored rows of the study that is rated.

    Returns:
        Columns ``word``, ``label`` (blank, to be filled in), ``mass`` (share of all mass read) and ``prompts``.

    Raises:
        UsageError: the rows hold nothing that is rated.
    """
    study, one = rated()
    rows = items[items["experiment"] == one.experiment]
    if not len(rows):
        raise UsageError(f"The run holds no {one.experiment}. Audit a masked model with --study {study.name}.")
    known = load_lexicon(one.lexicon).words
    mass: Counter[str] = Counter()
    prompts: Counter[str] = Counter()
    for top in rows["top_tokens"]:
        for token, probability in json.loads(top):
            word = token.strip().lower()
            mass[word] += probability
            prompts[word] += 1
    total = sum(mass.values())
    found = [(word, "", share / total, prompts[word]) for word, share in mass.most_common() if word not in known]
    import pandas as pd  # here: the room opens on a prompt list, which needs no tables

    return pd.DataFrame(found, columns=["word", "label", "mass", "prompts"])


def read_labels(path: Path) -> dict[str, str]:
    """Word -> label from a CSV with the columns ``word`` and ``label``; rows without a label are left out.

    Raises:
        ValueError: no such columns, a broken row, a label that does not exist, or a word with two labels.
    """
    check_regular(path)
    try:
        with path.open(newline="", encoding="utf-8") as handle:
            rows = strict_rows(path.name, handle)
            _, header = next(rows, (1, []))
            if not {"word", "label"} <= set(header):
                raise ValueError(f"{path.name}:1: columns {shown_names(header)}, expected word and label among them.")
            return _labels(path.name, header, rows)
    except UnicodeDecodeError as error:
        raise not_utf8(path.name, error) from error


def _labels(name: str, header: Sequence[str], rows: Iterable[tuple[int, list[str]]]) -> dict[str, str]:
    found: dict[str, str] = {}
    labels = rated()[1].labels
    at_word, at_label = header.index("word"), header.index("label")
    for line, cells in rows:
        if not cells:
            continue
        if len(cells) != len(header):
            raise ValueError(f"{name}:{line}: {len(cells)} cells, expected {len(header)}. Quote or add cells.")
        word, label = as_meant(cells[at_word]).strip().lower(), cells[at_label].strip().lower()
        if not word or not label:
            continue
        if label not in labels:
            raise ValueError(f"{name}:{line}: label {quoted(label)}, expected one of {', '.join(labels)}.")
        before = found.setdefault(word, label)
        if before != label:
            raise ValueError(f"{name}:{line}: {quoted(word)} is {label} here and {before} above. Choose one.")
    return found


def import_labels(path: Path) -> int:
    """Keep labels for the rated lexicon in all later audits of this user; gives how many words it now adds.

    Raises:
        ValueError: as ``read_labels``, or no label at all.
    """
    new = read_labels(path)
    if not new:
        raise ValueError(f"{path.name}: no row has a label. Fill in the column label.")
    target = imported_path(rated()[1].lexicon)
    before = read_labels(target) if target.exists() else {}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("word", "label"))
    writer.writerows(sorted({**before, **new}.items()))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, text.getvalue().encode())
    load_lexicon.cache_clear()
    return len({**before, **new})


def agreement(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[float, float, int]:
    """Cohen's kappa, the share of equal labels, and the number of words both raters labelled.

    1: always the same; 0: as often as chance; NaN: no word in common, or both use a single label throughout.

    >>> agreement({"good": "positive", "bad": "negative"}, {"good": "positive", "bad": "negative"})
    (1.0, 1.0, 2)
    """
    words = sorted(set(first) & set(second))
    if not words:
        return float("nan"), float("nan"), 0
    n = len(words)
    observed = sum(first[word] == second[word] for word in words) / n
    counts = [Counter(rater[word] for word in words) for rater in (first, second)]
    chance = sum(counts[0][label] * counts[1][label] for label in counts[0]) / n**2
    kappa = (observed - chance) / (1 - chance) if chance < 1 else float("nan")
    return kappa, observed, n
