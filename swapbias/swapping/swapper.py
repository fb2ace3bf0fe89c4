"""The Swapper: a table, rules, and texts in bulk, each put together again in one copy."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from swapbias.errors import UsageError, listed
from swapbias.swapping.decisions import Decider
from swapbias.swapping.edits import Edits
from swapbias.swapping.folding import Ints, padded
from swapbias.swapping.matches import Matcher, Text
from swapbias.swapping.referents.block import Block
from swapbias.swapping.referents.persons import Persons
from swapbias.swapping.referents.words import CUES, REASONS, WHOSE
from swapbias.swapping.resolvers import Resolver, resolve
from swapbias.swapping.rule_tables import DEMOGRAPHIC, GLUED
from swapbias.swapping.table import COUNTED_BIRTHS, clinical_terms, kept_phrases, load_table


def rebuilt(texts: pa.Array, text: Text, edits: Edits) -> pa.Array:
    """The texts with what is replaced in place: large strings, null where those are."""
    offsets = text.offsets
    buffer = text.buffer
    start, end, word = edits.places[:3]
    lengths = np.fromiter(map(len, edits.words), dtype=np.int64, count=len(edits.words))
    grown = np.cumsum(lengths[word] - (end - start))
    moved = offsets + np.append(0, grown)[np.searchsorted(start, offsets, side="left")]
    # Pieces of the text, cut at both ends of all that is replaced, then its padding and the words: Arrow takes turns.
    between = np.stack([start, end], axis=1).ravel()
    cuts = np.concatenate(
        [[0], between, [offsets[-1], len(buffer)], len(buffer) + np.cumsum(lengths)]
    )
    values = [None, pa.py_buffer(cuts), pa.py_buffer(b"".join([buffer, *edits.words]))]
    order = np.arange(len(between) + 1)
    order[1::2] = len(between) + 2 + word
    joined = (
        pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, values)
        .take(pa.array(order))
        .buffers()[2]
    )
    valid = None if not texts.null_count else pa.array(texts.is_valid()).buffers()[1]
    return pa.Array.from_buffers(
        pa.large_string(), len(texts), [valid, pa.py_buffer(moved), joined]
    )


MODES = ("swap", "neutralise")
_GENDERED = frozenset(
    {"he", "she", "they", "xe", "ze", "male", "female", "man", "woman", "men", "women", "mother"}
)
_BLOCK = (
    1 << 21
)  # bytes of text worked on at once: what is made of them stays in the processor's cache
_FREED = 31 << 20  # bytes; glibc heeds no more than 32 MB
RULES = "8"  # raised with any change of rules that changes results


@dataclass(frozen=True, slots=True)
class Swapped:
    """Texts after a swap, and what was done to each.

    Attributes:
        texts: one per text given, null where that was null, in chunks: nothing is copied to join them.
        replaced: replacements in each, (n,).
        specific: gender-specific clinical terms in each, (n,): such a text is an implausible counterfactual.
        sides: 1 where most gendered words of the text were of the second group (female), -1 the first, 0: a tie; of
            the patient where ``whose`` is ``patient``.
        terms: "he -> she": times.
        specific_terms: the clinical terms and how often they stand.
        left: words of each that tell a gender and stay because it is not the patient's, by reason (n, ``REASONS``):
            zero where ``whose`` is ``everyone``.
        doubt: the chance that not all of these decisions of the rules are right, 0 to 1 (n,).
        doubtful_words: words of each whose decision is wrong by a chance of one in five, (n,).
        unread: which texts a resolver did not answer about so that it can be read: the rules decided, (n,).
    """

    texts: pa.ChunkedArray
    replaced: NDArray[np.int32]
    specific: NDArray[np.int32]
    sides: NDArray[np.int8]
    terms: Counter[str]
    specific_terms: Counter[str]
    left: NDArray[np.int32]
    doubt: NDArray[np.float64]
    doubtful_words: NDArray[np.int32]
    unread: NDArray[np.bool_]


class Swapper:
    """Swaps or neutralises gendered terms in running text.

    >>> Swapper().swap(["She's 45F and her leg hurts; we gave him her card."])
    ["He's 45M and his leg hurts; we gave her his card."]
    """

    def __init__(
        self,
        table: str | Path = "resolved",
        *,
        whose: str = "everyone",
        spouses: str = "swap",
        resolver: Resolver | None = None,
    ) -> None:
        """Prepare.

        Args:
            table: ``resolved`` (each word by its context), ``paper`` (as published: "her" always becomes "his"),
                ``race`` or ``age`` (of persons alone: "white count" stays), two of he, she, they, xe and ze as
                ``she-they`` (verbs agree; no other words are swapped) or a CSV file with a header of two groups and
                optionally ``neutral``.
            whose: ``everyone``: all gendered words; ``patient``: those of the patient of a clinical note, so that
                relatives, clinicians, newborns and others keep theirs.
            spouses: with ``whose="patient"``, whether husbands and wives become each other (``swap``, so that the
                couple stays of two genders or of one) or stay (``keep``, so that nothing but the patient changes).
            resolver: with ``whose="patient"``, the model that says whose each word is (``load_resolver``); None: the
                rules. It may send texts to a service: ``sends_text`` says whether.

        Raises:
            UsageError: no such table, ``whose`` or ``spouses``; ``patient`` for a table of other groups than
                male and female, or ``everyone`` with a resolver. ValueError: a broken table.
        """
        self.table = load_table(table)
        self.table_name = str(table)
        # Of race or age every note is plausible; any table of genders has one of these.
        self._clinical = list(clinical_terms()) if _GENDERED & self.table.terms.keys() else []
        self._terms = list(self.table.terms)
        self._names = [
            *self._terms,
            *(term for term in self._clinical if term.lower() not in self.table.terms),
        ]
        if self._clinical and self.table.context:
            self._names += sorted(kept_phrases() - {name.lower() for name in self._names})
        self.whose = whose
        self.spouses = spouses
        self.resolver = resolver
        self._persons = self._prepared_persons()
        self._is_clinical = np.array([name in self._clinical for name in self._names])
        more = enumerate(self._names[len(self._terms) :], start=len(self._terms))
        self._births = {at: COUNTED_BIRTHS[name][1] for at, name in more if name in COUNTED_BIRTHS}
        spellings = [
            COUNTED_BIRTHS[one][0] if at in self._births else one
            for at, one in enumerate(self._names)
        ]
        self._matcher = Matcher(spellings, beside_digits=DEMOGRAPHIC | GLUED | {"g"})
        self._deciders = {mode: Decider(self.table, mode) for mode in MODES}

    def _prepared_persons(self) -> Persons | None:
        """What tells the patient's words from others; words that name persons without a gender are found as well."""
        if self.whose not in WHOSE:
            raise UsageError(f"Unknown whose {self.whose!r}: expected {' or '.join(WHOSE)}.")
        if self.whose == "everyone":
            if self.resolver:
                raise UsageError(
                    "A resolver says whose words are the patient's, and all are swapped. Take whose='patient'."
                )
            return None
        if (groups := self.table.groups) != ("male", "female"):
            raise UsageError(
                f"whose='patient' with {self.table.name}, whose groups are {' and '.join(groups)}: expected "
                "male and female, as the patient's gender is. Use whose='everyone'."
            )
        self._names += [word for word in CUES if word not in self._names]
        own = len(self._terms)
        cues = {
            number: CUES[name]
            for number, name in enumerate(self._names)
            if name in CUES and number >= own
        }
        return Persons(
            self._terms, [self.table.terms[one].side for one in self._terms], cues, self.spouses
        )

    @cached_property
    def sha256(self) -> str:
        """Of everything that decides what a text becomes: table and rules."""
        whose = [] if self._persons is None else [self.whose, self.spouses]
        whose += [self.resolver.name] if self.resolver else []
        content = json.dumps([self.table.sha256, RULES, self._clinical, *whose])
        return hashlib.sha256(content.encode()).hexdigest()

    def swap(self, texts: Iterable[str]) -> list[str]:
        """The texts with every gendered term replaced by the other group's."""
        return self._listed(texts, "swap")

    def neutralise(self, texts: Iterable[str]) -> list[str]:
        """The texts with every gendered term replaced by a neutral one or removed; idempotent.

        "he" and "she" are "they", with the verbs beside them; with the table ``paper`` "patient", as published.

        >>> Swapper().neutralise(["He denies pain. His teeth were removed by her."])
        ['They deny pain. Their teeth were removed by them.']
        """
        return self._listed(texts, "neutralise")

    def _listed(self, texts: Iterable[str], mode: str) -> list[str]:
        found: list[str] = self.run(
            texts if isinstance(texts, str) else list(texts), mode
        ).texts.to_pylist()
        return found

    def run(
        self,
        texts: pa.Array | pa.ChunkedArray | Sequence[str | None],
        mode: str = "swap",
        *,
        genders: Sequence[str | None] | None = None,
    ) -> Swapped:
        """All texts at once, with the report.

        Args:
            texts: the texts; null stays null.
            mode: ``swap`` or ``neutralise``.
            genders: the patient of each text is ``female``, ``male`` (or F, M), or anything else where that is not
                known and is read from the text: the first demographic, else the first title, else most pronouns.
                Without effect where ``whose`` is ``everyone``.

        Raises:
            UsageError: an unknown mode. ValueError: texts that are no strings, or not as many genders as texts.
        """
        if mode not in MODES:
            raise UsageError(f"Unknown mode {mode!r}: expected {' or '.join(MODES)}.")
        if mode == "neutralise" and not self.table.neutral:
            raise UsageError(
                f"{self.table.name} has no column neutral, and nothing can be neutralised. Add the column."
            )
        given = _as_chunks(texts)
        _keep_what_is_freed()
        size = len(given)
        chunks = []
        first = 0
        done = Swapped(
            given,
            np.zeros(size, np.int32),
            np.zeros(size, np.int32),
            np.zeros(size, np.int8),
            Counter(),
            Counter(),
            np.zeros((size, len(REASONS)), np.int32),
            np.zeros(size),
            np.zeros(size, np.int32),
            np.zeros(size, bool),
        )
        sides = _sides(genders, size)
        for block, buffer, offsets in _blocks(given):
            rows = slice(first, first + len(block))
            first = rows.stop
            text, edits = self._decided(buffer, offsets, mode, sides[rows], rows, done)
            chunks.append(rebuilt(block, text, edits))
        changed = pa.chunked_array(chunks, type=pa.large_string())
        return replace(
            done, texts=changed if pa.types.is_null(given.type) else changed.cast(given.type)
        )

    def _decided(
        self, buffer: bytes, offsets: Ints, mode: str, patients: Ints, rows: slice, done: Swapped
    ) -> tuple[Text, Edits]:
        """What is replaced in a block, which stands in some rows of all texts; the report is added to ``done``."""
        found = self._matcher.find(buffer, offsets)
        size = len(offsets) - 1
        row = np.repeat(np.arange(size), np.diff(np.searchsorted(found.start, offsets)))
        clinical = self._is_clinical[found.term]
        own = found.term < len(self._terms)
        for at in np.flatnonzero(np.isin(found.term, list(self._births))).tolist():
            birth = self._births[found.term[at]]
            clinical[at] = (
                birth.match(buffer, int(found.start[at]), int(offsets[row[at] + 1])) is not None
            )
        text = Text(buffer, offsets, found.at(own), row[own])
        choice = self._deciders[mode].choices(text)
        if self._persons:
            cues = found.at(self._persons.is_cue(found.term))
            block = Block(buffer, offsets, text.matches, text.rows, choice >= 0, cues)
            whose = self._persons.decide(block, patients)
            patients = whose.sides
            why = whose.owners
            done.doubt[rows] = whose.doubt
            done.doubtful_words[rows] = whose.doubtful_words
            if self.resolver:
                why, done.unread[rows] = resolve(self.resolver, block, whose, self.spouses)
            np.add.at(done.left[rows], (text.rows[why > 0], why[why > 0] - 1), 1)
            choice[why > 0] = -1
        edits = self._deciders[mode].edits(text, choice)
        weights = np.bincount(edits.places[3], weights=edits.places[4], minlength=size)
        done.sides[rows] = np.array([-1, 1, 0])[patients] if self._persons else np.sign(weights)
        done.replaced[rows] = np.bincount(edits.places[3], minlength=size)
        done.specific[rows] = np.bincount(row[clinical], minlength=size)
        times = np.bincount(found.term[clinical], minlength=1)
        done.specific_terms.update(
            {self._names[at]: int(times[at]) for at in np.flatnonzero(times).tolist()}
        )
        done.terms.update(edits.counts)
        return text, edits


@cache  # once: later the piece would not be unmapped but come from what is kept
def _keep_what_is_freed() -> None:
    """Have glibc keep what a block frees for the next block, which saves a fourth of the time; elsewhere a no-op."""
    np.empty(_FREED, dtype=np.uint8)


_CODE = re.compile(
    r"[-+]?\d+(\.\d+)?|true|false|yes|no|[^\W\d_]"
)  # a letter alone is one too: W of weiblich
_SIDES = {"male": 0, "m": 0, "man": 0, "boy": 0, "female": 1, "f": 1, "woman": 1, "girl": 1}
_NEITHER = frozenset((
    "", "unknown", "unk", "u", "other", "o", "x", "nb", "nonbinary", "non-binary", "intersex", "none", "n/a", "na",
    "nan", "null", "not known", "not stated", "not specified", "unspecified", "ambiguous", "neither", "?", "-",
))  # fmt: skip


def check_genders(values: Sequence[Any], column: str) -> None:
    """Refuse a column of patients' genders that holds codes, or no gender at all: it would be ignored.

    Raises:
        UsageError: which column, and what it must hold; a value is repeated where it is a number.
    """
    kept = {str(value).strip().lower() for value in values if value is not None and value == value}
    strange = kept - _NEITHER - _SIDES.keys()
    codes = sorted(value for value in strange if _CODE.fullmatch(value))
    step = "Write these words in it, or name another column with --gender."
    if codes:
        raise UsageError(
            f"Column {column!r} holds the code {codes[0]}, expected female or male (or F, M). {step}"
        )
    if strange and not kept & _SIDES.keys():
        raise UsageError(
            f"Column {column!r} holds other words than female and male (or F, M). {step}"
        )


def _sides(genders: Sequence[str | None] | None, rows: int) -> Ints:
    """The side of each patient: 0 male, 1 female, -1 not known, (rows,)."""
    if genders is None:
        return np.full(rows, -1)
    if isinstance(genders, str) or len(genders) != rows:
        raise ValueError(
            f"{len(genders)} genders for {rows} texts, expected one for each. Give as many."
        )
    return np.array(
        [_SIDES.get(str(one or "").strip().lower(), -1) for one in genders], dtype=np.int64
    )


def _as_chunks(texts: pa.Array | pa.ChunkedArray | Sequence[str | None]) -> pa.ChunkedArray:
    if isinstance(texts, str):
        raise ValueError("texts is one string, expected several: put it into a list.")
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        try:
            texts = pa.array(texts, type=pa.large_string())
        except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError) as error:
            strange = {type(one).__name__ for one in texts} - {"str", "NoneType"}
            found_types = listed(sorted(strange), "what is no Unicode")
            raise ValueError(
                f"texts: some are {found_types}, expected strings. Give strings."
            ) from error
    if not (
        pa.types.is_string(texts.type)
        or pa.types.is_large_string(texts.type)
        or pa.types.is_null(texts.type)
    ):
        raise ValueError(f"texts of type {texts.type}, expected strings. Choose another column.")
    return texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])


def _blocks(texts: pa.ChunkedArray) -> Iterator[tuple[pa.Array, bytes, Ints]]:
    """Runs of rows of about ``_BLOCK`` bytes: the texts, all of them padded as one, and where each begins in it."""
    chunks = [chunk.cast(pa.large_string()) for chunk in texts.chunks if len(chunk)]
    whole = (
        chunks[0]
        if len(chunks) == 1
        else pa.concat_arrays([*chunks, pa.array([], pa.large_string())])
    )
    start = 0
    while start < len(whole):
        _, begins, values = whole.buffers()
        offsets = np.frombuffer(begins, dtype=np.int64)[
            whole.offset : whole.offset + len(whole) + 1
        ]
        end = max(
            int(np.searchsorted(offsets, offsets[start] + _BLOCK, side="right")) - 1, start + 1
        )
        first = offsets[start]
        last = offsets[end]
        buffer = padded(memoryview(values)[first:last] if values is not None else b"")
        yield whole.slice(start, end - start), buffer, offsets[start : end + 1] - first
        start = end
