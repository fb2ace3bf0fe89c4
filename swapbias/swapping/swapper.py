"""The Swapper: a table, rules, and texts in bulk, each put together again in one copy."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from swapbias.errors import UsageError, listed
from swapbias.swapping.changes import CHANGE, changes_of, no_changes
from swapbias.swapping.decisions import Decider
from swapbias.swapping.edits import Edits
from swapbias.swapping.folding import Ints, padded
from swapbias.swapping.genders import sides_of
from swapbias.swapping.matches import Matcher, Matches, Text
from swapbias.swapping.referents.block import Block
from swapbias.swapping.referents.persons import Persons
from swapbias.swapping.referents.words import CUES, REASONS, WHOSE
from swapbias.swapping.resolvers import Resolver, resolve
from swapbias.swapping.rule_tables import DEMOGRAPHIC, GLUED
from swapbias.swapping.table import (
    COUNTED_BIRTHS,
    clinical_terms,
    inclusive_forms,
    kept_phrases,
    load_table,
)

MODES = ("swap", "neutralise")
RULES = "13"
"""Version of the rules, raised with any change that changes results."""
_GENDERED = frozenset(
    {"he", "she", "they", "xe", "ze", "male", "female", "man", "woman", "men", "women", "mother"}
)
# Bytes of text worked on at once: what is made of them stays in the processor's cache.
_BLOCK = 1 << 21
_FREED = 31 << 20  # bytes; glibc heeds no more than 32 MB


def rebuild(texts: pa.Array, text: Text, edits: Edits) -> pa.Array:
    """Return texts with what is replaced in place: large strings, null where those are.

    Args:
        texts: the rows of a block, (rows,).
        text: the same rows in one buffer.
        edits: the replacements.
    """
    offsets = text.offsets
    buffer = text.buffer
    start, end, word = edits.places[:3]
    lengths = np.fromiter(map(len, edits.words), dtype=np.int64, count=len(edits.words))
    grown = np.cumsum(lengths[word] - (end - start))
    moved = offsets + np.append(0, grown)[np.searchsorted(start, offsets, side="left")]
    # Pieces of the text, cut at both ends of all that is replaced, then its padding and the words: Arrow takes turns.
    between = np.stack([start, end], axis=1).ravel()
    word_ends = len(buffer) + np.cumsum(lengths)
    cuts = np.concatenate([[0], between, [offsets[-1], len(buffer)], word_ends])
    values = [None, pa.py_buffer(cuts), pa.py_buffer(b"".join([buffer, *edits.words]))]
    order = np.arange(len(between) + 1)
    order[1::2] = len(between) + 2 + word
    pieces = pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, values)
    joined = pieces.take(pa.array(order)).buffers()[2]
    valid = None
    if texts.null_count:
        valid = pa.array(texts.is_valid()).buffers()[1]
    buffers = [valid, pa.py_buffer(moved), joined]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


@dataclass(frozen=True, slots=True)
class Swapped:
    """Texts after a swap, and what was done to each."""

    texts: pa.ChunkedArray = field(repr=False)
    """One for each input text, null where that was null, in chunks: nothing is copied to join them."""
    replaced: NDArray[np.int32]
    """Replacements in each, (n,)."""
    specific: NDArray[np.int32]
    """Gender-specific clinical terms in each, (n,): such a text is an implausible counterfactual."""
    sides: NDArray[np.int8]
    """1 where most gendered words of the text were of the second group (female), -1 the first, 0: a tie, (n,); of
    the patient where ``whose`` is ``patient``."""
    terms: Counter[str]
    """How often each replacement was made, as "he -> she"."""
    specific_terms: Counter[str]
    """How often each clinical term stands."""
    left: NDArray[np.int32]
    """Words of each that tell a gender and stay because it is not the patient's, by reason (n, ``REASONS``): zero
    where ``whose`` is ``everyone``."""
    doubt: NDArray[np.float64]
    """The chance that not all of these decisions of the rules are right, 0 to 1, (n,)."""
    doubtful_words: NDArray[np.int32]
    """Words of each whose decision is wrong by a chance of one in five, (n,)."""
    unread: NDArray[np.bool_]
    """Whether a resolver did not answer about a text so that it can be read: the rules decided, (n,)."""
    list_changes: Callable[[], pa.ChunkedArray] = field(repr=False)
    """Returns ``spans``, which few need."""

    @property
    def spans(self) -> pa.ChunkedArray:
        """Changes of each text, in order, as lists of {start, end, old, new, reason}, (n,).

        ``start`` and ``end`` count characters of the old text. A reason is ``term``, ``alternatives`` ("he or she" is
        "they") or ``agreement`` (a verb or an article).
        """
        return self.list_changes()

    @classmethod
    def unchanged(cls, texts: pa.ChunkedArray) -> "Swapped":
        """Return texts to which nothing was done.

        Args:
            texts: the input, (n,).
        """
        size = len(texts)
        return cls(
            texts,
            replaced=np.zeros(size, np.int32),
            specific=np.zeros(size, np.int32),
            sides=np.zeros(size, np.int8),
            terms=Counter(),
            specific_terms=Counter(),
            left=np.zeros((size, len(REASONS)), np.int32),
            doubt=np.zeros(size),
            doubtful_words=np.zeros(size, np.int32),
            unread=np.zeros(size, bool),
            list_changes=partial(no_changes, size),
        )


@cache
def _matcher_of(spellings: tuple[str, ...]) -> Matcher:
    """Return what finds these spellings; swappers of one table share it."""
    return Matcher(spellings, beside_digits=DEMOGRAPHIC | GLUED | {"g"})


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
        self.whose = whose
        self.spouses = spouses
        self.resolver = resolver
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        """Return what decides, alike in every process: ``datasets`` hashes it for the cache of ``map``."""
        names = ("table", "table_name", "whose", "spouses", "resolver", "sha256")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Prepare anew from what decides."""
        for name in ("table", "table_name", "whose", "spouses", "resolver"):
            setattr(self, name, state[name])
        self._prepare()

    def _prepare(self) -> None:
        """Prepare what finds terms, tells whose they are and decides what they become."""
        # Of race or age every note is plausible; any table of genders has one of these.
        self._clinical = list(clinical_terms()) if _GENDERED & self.table.terms.keys() else []
        self._terms = list(self.table.terms)
        self._names = self._names_to_find()
        self._persons = self._prepared_persons()
        self._is_clinical = np.array([name in self._clinical for name in self._names])
        self._births = {
            number: COUNTED_BIRTHS[name][1]
            for number, name in enumerate(self._names)
            if number >= len(self._terms) and name in COUNTED_BIRTHS
        }
        spellings = [
            COUNTED_BIRTHS[name][0] if number in self._births else name
            for number, name in enumerate(self._names)
        ]
        self._matcher = _matcher_of(tuple(spellings))
        self._deciders = {mode: Decider(self.table, mode) for mode in MODES}

    def _names_to_find(self) -> list[str]:
        """Return the terms of the table, then clinical terms and phrases that are looked for as well."""
        names = [*self._terms, *(term.text for term in self.table.inclusive)]
        names += [term for term in self._clinical if term.lower() not in self.table.terms]
        if self._clinical and self.table.context:
            names += sorted({*kept_phrases(), *inclusive_forms()} - {*map(str.lower, names)})
        return names

    def _prepared_persons(self) -> Persons | None:
        """Return what tells the patient's words from others; words for persons without a gender are found as well."""
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
        cues = {
            number: CUES[name]
            for number, name in enumerate(self._names)
            if name in CUES and number >= len(self._terms)
        }
        sides = [self.table.terms[term].side for term in self._terms]
        return Persons(self._terms, sides, cues, self.spouses)

    @cached_property
    def sha256(self) -> str:
        """The sha256 of everything that decides what a text becomes: table and rules."""
        content = [self.table.sha256, RULES, self._clinical]
        if self._persons is not None:
            content += [self.whose, self.spouses]
        if self.resolver:
            content.append(self.resolver.name)
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def swap(self, texts: Iterable[str]) -> list[str]:
        """Return texts with every gendered term replaced by the other group's.

        Args:
            texts: the texts, (n,).
        """
        return self._listed(texts, "swap")

    def neutralise(self, texts: Iterable[str]) -> list[str]:
        """Return texts with every gendered term replaced by a neutral one or removed; idempotent.

        "he" and "she" are "they", with the verbs beside them; with the table ``paper`` "patient", as published.

        >>> Swapper().neutralise(["He denies pain. His teeth were removed by her."])
        ['They deny pain. Their teeth were removed by them.']

        Args:
            texts: the texts, (n,).
        """
        return self._listed(texts, "neutralise")

    def _listed(self, texts: Iterable[str], mode: str) -> list[str]:
        sequence = texts if isinstance(texts, str) else list(texts)
        changed: list[str] = self.run(sequence, mode).texts.to_pylist()
        return changed

    def run(
        self,
        texts: pa.Array | pa.ChunkedArray | Sequence[str | None],
        mode: str = "swap",
        *,
        genders: Sequence[str | None] | None = None,
    ) -> Swapped:
        """Swap all texts at once, and report what was done.

        Args:
            texts: the texts; null stays null.
            mode: ``swap`` or ``neutralise``.
            genders: the patient of each text is ``female``, ``male`` (or F, M), or anything else where that is not
                known and is read from the text: the first demographic, else the first title, else most pronouns.
                Without effect where ``whose`` is ``everyone``.

        Raises:
            UsageError: an unknown mode.
            ValueError: texts that are no strings, or not as many genders as texts.
        """
        if mode not in MODES:
            raise UsageError(f"Unknown mode {mode!r}: expected {' or '.join(MODES)}.")
        if mode == "neutralise" and not self.table.neutral:
            raise UsageError(
                f"{self.table.name} has no column neutral, and nothing can be neutralised. Add the column."
            )
        chunked = _as_chunks(texts)
        _keep_what_is_freed()
        report = Swapped.unchanged(chunked)
        sides = sides_of(genders, len(chunked))
        chunks = []
        all_edits = []
        first = 0
        for block, buffer, offsets in _blocks(chunked):
            rows = slice(first, first + len(block))
            first = rows.stop
            text, edits = self._decide(buffer, offsets, mode, sides[rows], rows, report)
            chunks.append(rebuild(block, text, edits))
            all_edits.append(edits)
        changed = pa.chunked_array(chunks, type=pa.large_string())
        if not pa.types.is_null(chunked.type):
            changed = changed.cast(chunked.type)
        return replace(
            report, texts=changed, list_changes=partial(_list_changes, chunked, all_edits)
        )

    def _decide(
        self, buffer: bytes, offsets: Ints, mode: str, patients: Ints, rows: slice, report: Swapped
    ) -> tuple[Text, Edits]:
        """Decide what is replaced in a block.

        Args:
            buffer: the texts of the block, padded.
            offsets: where each begins, and where the last ends, (rows + 1,).
            mode: ``swap`` or ``neutralise``.
            patients: the side of each patient, -1 where it is not known, (rows,).
            rows: the rows of the block among all texts.
            report: the report of all texts; what is done here is added to it.
        """
        matches = self._matcher.find(buffer, offsets)
        size = len(offsets) - 1
        row = np.repeat(np.arange(size), np.diff(np.searchsorted(matches.start, offsets)))
        neutral_alone = len(self.table.inclusive) * (mode == "neutralise" and not self._persons)
        is_term = matches.term < len(self._terms) + neutral_alone
        text = Text(buffer, offsets, matches.at(is_term), row[is_term])
        choice = self._deciders[mode].choices(text)
        if self._persons:
            cues = matches.at(self._persons.is_cue(matches.term))
            block = Block(buffer, offsets, text.matches, text.rows, choice >= 0, cues)
            owners, patients = self._decide_owners(self._persons, block, patients, rows, report)
            choice[owners > 0] = -1
        edits = self._deciders[mode].edits(text, choice)
        edit_rows = edits.places[3]
        if self._persons:
            report.sides[rows] = np.array([-1, 1, 0])[patients]
        else:
            sums = np.bincount(edit_rows, weights=edits.places[4], minlength=size)
            report.sides[rows] = np.sign(sums)
        report.replaced[rows] = np.bincount(edit_rows, minlength=size)
        report.terms.update(edits.counts)
        self._count_clinical(buffer, offsets, matches, row, rows, report)
        return text, edits

    def _decide_owners(
        self, persons: Persons, block: Block, patients: Ints, rows: slice, report: Swapped
    ) -> tuple[NDArray[np.int8], Ints]:
        """Decide whose gender each word of a block shows, (n,), and the side of each patient, (rows,)."""
        decisions = persons.decide(block, patients)
        owners = decisions.owners
        report.doubt[rows] = decisions.doubt
        report.doubtful_words[rows] = decisions.doubtful_words
        if self.resolver:
            owners, report.unread[rows] = resolve(self.resolver, block, decisions, self.spouses)
        stays = owners > 0
        np.add.at(report.left[rows], (block.rows[stays], owners[stays] - 1), 1)
        return owners, decisions.sides

    def _count_clinical(
        self,
        buffer: bytes,
        offsets: Ints,
        matches: Matches,
        row: Ints,
        rows: slice,
        report: Swapped,
    ) -> None:
        """Count gender-specific clinical terms; those of births only with numbers behind them."""
        is_clinical = self._is_clinical[matches.term]
        may_be_birth = np.isin(matches.term, list(self._births))
        for index in np.flatnonzero(may_be_birth).tolist():
            birth = self._births[matches.term[index]]
            row_end = int(offsets[row[index] + 1])
            is_clinical[index] = bool(birth.match(buffer, int(matches.start[index]), row_end))
        report.specific[rows] = np.bincount(row[is_clinical], minlength=len(offsets) - 1)
        times = np.bincount(matches.term[is_clinical], minlength=1)
        for number in np.flatnonzero(times).tolist():
            report.specific_terms[self._names[number]] += int(times[number])


def _list_changes(texts: pa.ChunkedArray, edits: Sequence[Edits]) -> pa.ChunkedArray:
    """Return the changes of texts by the edits of each of their blocks, (n,)."""
    blocks = zip(_blocks(texts), edits, strict=True)
    lists = [changes_of(buffer, offsets, of_block) for (_, buffer, offsets), of_block in blocks]
    return pa.chunked_array(lists, pa.list_(CHANGE))


@cache  # once: later the piece would not be unmapped but come from what is kept
def _keep_what_is_freed() -> None:
    """Have glibc keep what a block frees for the next block, which saves a fourth of the time; elsewhere a no-op."""
    np.empty(_FREED, dtype=np.uint8)


def _as_chunks(texts: pa.Array | pa.ChunkedArray | Sequence[str | None]) -> pa.ChunkedArray:
    """Return texts as Arrow has them; ValueError: they are none."""
    if isinstance(texts, str):
        raise ValueError("texts is one string, expected several: put it into a list.")
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        try:
            texts = pa.array(texts, type=pa.large_string())
        except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError) as error:
            strange = {type(text).__name__ for text in texts} - {"str", "NoneType"}
            found_types = listed(sorted(strange), "what is no Unicode")
            raise ValueError(
                f"texts: some are {found_types}, expected strings. Give strings."
            ) from error
    is_text = pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)
    if not is_text and not pa.types.is_null(texts.type):
        raise ValueError(f"texts of type {texts.type}, expected strings. Choose another column.")
    return texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])


def _blocks(texts: pa.ChunkedArray) -> Iterator[tuple[pa.Array, bytes, Ints]]:
    """Yield runs of rows of about ``_BLOCK`` bytes: the texts, all padded as one buffer, and where each begins."""
    chunks = [chunk.cast(pa.large_string()) for chunk in texts.chunks if len(chunk)]
    empty = pa.array([], pa.large_string())
    whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays([*chunks, empty])
    start = 0
    while start < len(whole):
        _, begins, values = whole.buffers()
        all_offsets = np.frombuffer(begins, dtype=np.int64)
        offsets = all_offsets[whole.offset : whole.offset + len(whole) + 1]
        filled = int(np.searchsorted(offsets, offsets[start] + _BLOCK, side="right")) - 1
        end = max(filled, start + 1)
        first = offsets[start]
        last = offsets[end]
        buffer = padded(memoryview(values)[first:last] if values is not None else b"")
        yield whole.slice(start, end - start), buffer, offsets[start : end + 1] - first
        start = end
