"""Swapping gendered words in notes held in memory: Arrow strings in and out, beside one regex over Python strings."""

import csv
import multiprocessing
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.frame import FOLDER, Prepared, Scale, Side, Workload
from benchmarks.measuring import memcpy_rate
from swapbias.swapping.rule_tables import rules_by_word
from swapbias.swapping.swapper import Swapper
from swapbias.swapping.table import inclusive_forms, load_table

MEGABYTES = 200.0
WORDS = "one regex, the paper's 11 terms"
SAME = "one regex, all terms"
OURS = "swapbias"
PAPER = "swapbias, the paper's terms"
TWO = "swapbias, two processes"
PATIENT = "swapbias, the patient's words"
_SHARES = {WORDS: 0.1, SAME: 0.01}
_UNSEEN = 0.25  # words beside a pronoun that are made up: what was decided once is not always known
_VOCABULARY = 20_000
_GENDERED = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"(?<=[.:,] )")
_NEXT = re.compile(r"(?<=\b[Hh]is |\b[Hh]er )[a-z]+")
_WORD = re.compile(r"[^\W\d_]+")
Callback = Callable[[re.Match[str]], str]


def notes(size: float, *, seed: int = 0) -> list[str]:
    """About ``size`` bytes of notes: real reports where they are at hand, their clauses in another order each time.

    One word in four after "her" and "his" is made up.
    """
    clauses = [_CLAUSE.split(text) for text in _reports()]
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    done = 0
    while done < size:
        for parts in clauses:
            mixed = "".join(parts[at] for at in rng.permutation(len(parts)))
            texts.append(
                _NEXT.sub(
                    lambda found: _made_up(rng) if rng.random() < _UNSEEN else found.group(), mixed
                )
            )
            done += len(texts[-1])
    return texts


def _made_up(rng: np.random.Generator) -> str:
    """One of 20,000 words, few of them often and most of them seldom, as words are."""
    rank = int(_VOCABULARY ** rng.random())
    return "".join(chr(97 + rank // 26**index % 26) for index in range(4)) + "ful"


def clinical_folder() -> Path:
    """Return the folder where real reports lie, if they are at hand."""
    return Path(
        os.environ.get("SWAPBIAS_TEST_CLINICAL", FOLDER.parent.parent / "shared" / "clinical")
    )


def _reports() -> list[str]:
    path = clinical_folder() / "mtsamples_first_half.csv"
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as handle:
            return [row["text"] for row in csv.DictReader(handle)]
    from swapbias.studies.catalogue import config_rows, load_corpus

    return [
        row["text"]
        for row in config_rows("clinical_notes", load_corpus("clinical_notes").configs[0].name)
    ]


def peer(table: str) -> Callable[[str], str]:
    """Return what people write: one compiled alternation of all terms, and a callback that keeps the case."""
    terms = {text: term.others[0].lower() for text, term in load_table(table).terms.items()}
    longest_first = sorted(terms, key=len, reverse=True)
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

    def other(match: re.Match[str]) -> str:
        written = match.group()
        new = terms[written.lower()]
        if written.islower():
            return new
        return new.upper() if written.isupper() else new[:1].upper() + new[1:]

    return lambda text: pattern.sub(other, text)


# --- two processes ------------------------------------------------------------------------------------


def _half(megabytes: float, seed: int) -> pa.Array:
    return pa.array(notes(megabytes * 1e6, seed=seed), pa.large_string())


_half_once = cache(_half)


def swap_half(megabytes: float, seed: int) -> tuple[int, int]:
    """In a process of its own: replacements in and bytes of its half of the notes."""
    swapped = Swapper().run(_half_once(megabytes, seed))
    return int(swapped.replaced.sum()), int(swapped.texts.nbytes)


def _two(megabytes: float) -> Callable[[], list[tuple[int, int]]]:
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))

    def run() -> list[tuple[int, int]]:
        return [
            half.result() for half in [pool.submit(swap_half, megabytes / 2, 0) for _ in range(2)]
        ]

    run()  # the processes are there, and hold their notes
    return run


# --- the workload -------------------------------------------------------------------------------------


def _prepare(scale: Scale) -> Prepared:
    texts = notes(MEGABYTES * scale * 1e6)
    whole = pa.array(texts, pa.large_string())
    first = {name: texts[: max(1, round(len(texts) * share))] for name, share in _SHARES.items()}
    shares = {name: sum(map(len, part)) / sum(map(len, texts)) for name, part in first.items()}
    peers = {WORDS: peer("paper"), SAME: peer("resolved")}
    size = whole.nbytes

    def side(name: str) -> Side:
        return Side(name, lambda: [peers[name](text) for text in first[name]], share=shares[name])

    def check(outputs: Mapping[str, Any]) -> str:
        paper = outputs[PAPER].texts
        ours = outputs[OURS].texts
        exact = _same_words(
            first[WORDS], paper.slice(0, len(first[WORDS])).to_pylist(), outputs[WORDS], ()
        )
        rest = _same_words(
            first[SAME], ours.slice(0, len(first[SAME])).to_pylist(), outputs[SAME], _by_context()
        )
        return f"paper's terms: {exact}; all terms: {rest}"

    density = len(_GENDERED.findall(" ".join(first[WORDS]))) / sum(map(len, first[WORDS]))
    return Prepared(
        # A new Swapper each time: what it learnt of the words beside pronouns is not there yet.
        ours=(
            Side(OURS, lambda: Swapper().run(whole)),
            Side(PAPER, lambda: Swapper("paper").run(whole)),
            Side(TWO, _two(MEGABYTES * scale)),
            Side(PATIENT, lambda: Swapper(whose="patient").run(whole)),
        ),
        peers=(side(WORDS), side(SAME)),
        check=check,
        limit=lambda: (size / memcpy_rate(), "copying the bytes"),
        size=f"{size / 1e6:,.0f} MB, {len(texts):,} notes, a pronoun every {1 / density:,.0f} letters",
    )


def _by_context() -> Sequence[str]:
    """Terms that the regex always replaces by the same word, and the table by what stands beside them."""
    terms = load_table("resolved").terms
    return [
        *rules_by_word("context_rules.csv"),
        *(text for text, term in terms.items() if len(term.others) > 1),
        *_WORD.findall(" ".join(inclusive_forms())),  # of "(wo)man" and its like
    ]


def _same_words(
    texts: list[str], ours: list[str], theirs: list[str], context_terms: Sequence[str]
) -> str:
    """Every word that either side replaced is replaced alike, but for the terms that are decided by context."""
    replaced = decided = 0
    by_context = set(context_terms)
    for text, our_text, their_text in zip(texts, ours, theirs, strict=True):
        for old, new, their_word in zip(
            *(map(str.lower, _WORD.findall(words)) for words in (text, our_text, their_text)),
            strict=True,
        ):
            if old in by_context:
                decided += new != old or their_word != old
                continue
            if new != their_word:
                raise ValueError(
                    f"{old!r} became {new!r}, the regex says {their_word!r}: expected the same."
                )
            replaced += new != old
    return f"{replaced:,} words replaced alike" + (
        f", {decided:,} decided by context" if context_terms else ""
    )


WORKLOAD = Workload(
    name="swapping",
    title="Swapping notes in memory, one core",
    goals={
        (PAPER, WORDS): 6,
        (OURS, SAME): 6,
        (TWO, OURS): 1.8,
    },  # each beside a regex of the same terms
    prepare=_prepare,
)
