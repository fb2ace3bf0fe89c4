"""Whose gender is swapped: swappers that people write beside this one, on notes whose counterfactual is known."""

import re
from collections.abc import Callable, Mapping, Sequence

from benchmarks.frame import Scale, Series
from benchmarks.swapping import peer
from swapbias.measures import Estimate
from swapbias.studies.catalogue import config_rows
from swapbias.swapping import Swapper, swap_accuracy

Rows = Sequence[Mapping[str, str]]
_PAIRS = re.compile(r"[^\W\d_]+")


def pairs_peer() -> Callable[[str], str]:
    """Counterfactual data augmentation as first published: every word of a list of pairs becomes the other one."""
    pairs = {}
    for row in config_rows("gender_lexicon", "definitional_pairs"):
        female, male = row["female"].lower(), row["male"].lower()
        pairs.setdefault(female, male)
        pairs.setdefault(male, female)

    def other(found: re.Match[str]) -> str:
        written = found.group()
        new = pairs.get(written.lower(), written)
        return new if written.islower() else new.upper() if written.isupper() else new[:1].upper() + new[1:]

    return lambda text: _PAIRS.sub(lambda one: other(one) if one.group().lower() in pairs else one.group(), text)


def _each(swap: Callable[[str], str]) -> Callable[[Rows], list[str]]:
    return lambda rows: [swap(row["text"]) for row in rows]


def _ours(*, known: bool = True, whose: str = "patient", spouses: str = "swap") -> Callable[[Rows], list[str]]:
    def swapped(rows: Rows) -> list[str]:
        genders = [row["gender"] if known else "" for row in rows]
        found: list[str] = (
            Swapper(whose=whose, spouses=spouses)
            .run([row["text"] for row in rows], genders=genders)
            .texts.to_pylist()
        )
        return found

    return swapped


SWAPPERS: Mapping[str, Callable[[Rows], list[str]]] = {
    "ten definitional pairs (CDA)": lambda rows: _each(pairs_peer())(rows),
    "regex, the paper's 11 terms": lambda rows: _each(peer("paper"))(rows),
    "regex, all 251 terms": lambda rows: _each(peer("resolved"))(rows),
    "swapbias, everyone": _ours(whose="everyone"),
    "swapbias, the patient, gender read from the text": _ours(known=False),
    "swapbias, the patient": _ours(),
    "swapbias, the patient, spouses kept": _ours(spouses="keep"),
}


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.ci_low:.3f} to {estimate.ci_high:.3f})"


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    told = []
    gold = config_rows("clinical_swaps", "notes")
    for split in ("development", "test"):
        rows = [row for row in gold if row["split"] == split]
        for name, swapped in SWAPPERS.items():
            wanted = "counterfactual_keep" if name.endswith("kept") else "counterfactual"
            found = swap_accuracy([row["text"] for row in rows], [row[wanted] for row in rows], swapped(rows))
            told.append((split, name, _shown(found.precision), _shown(found.recall), f"{found.exact.value:.3f}"))
    return told


SERIES = Series(
    "whose",
    "Whose gender: swappers on clinical_swaps",
    ("notes", "swapper", "precision (95 %)", "recall (95 %)", "texts exact"),
    _rows,
    timed=False,
)
