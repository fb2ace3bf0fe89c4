"""Decide whose each gendered word of a note is by a language model: a chat model, or a classifier of tokens."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError, listed
from swapbias.models import LoadOptions, Request, length_limit, load_model
from swapbias.models.chat import ChatOptions, load_chat
from swapbias.studies import Candidate, Prompt, chats
from swapbias.swapping.referents.block import Block
from swapbias.swapping.referents.doubt import Decisions
from swapbias.swapping.referents.words import OF_OTHER, OF_PATIENT, OF_SPOUSE, OF_UNKNOWN

CLASSES = ("patient", "spouse", "other")
"""Classes that a resolver puts words in."""
CHAT = "chat:"
"""Stands before the name of a chat model."""
MAX_TOKENS = 4_096
"""Most tokens of an answer: a note of many words takes many."""
_OVERLAP = 64  # tokens that two windows of a long note share
_REASONING_END = "</think>"
_TOKEN_TYPES = "token_type_ids"
_INSTRUCTION = """You read a clinical note in which words that show a gender are numbered, as in [[3:her]]. \
Say of each number whom the word shows: "patient"; "spouse" for the patient's husband, wife, boyfriend or \
girlfriend; "other" for relatives, clinicians, babies, other patients, people in general, and what is no person. A \
word for a relative ("mother") shows that relative. Answer with one JSON object with each number once: \
{"1": "patient", "2": "other"}"""


@dataclass(frozen=True, slots=True)
class MarkedNote:
    """A note whose gendered words are marked."""

    text: str
    """The note."""
    words: Sequence[tuple[int, int]]
    """The characters where each gendered word begins and ends."""
    gender: str
    """The patient's, empty where it is not known."""


class Resolver(Protocol):
    """Says whose the gendered words of notes are, in place of the rules."""

    name: str
    """In manifests."""
    sends_text: bool
    """True if notes leave this machine and services that the user declared as their own."""

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        """Return whose each gendered word is.

        Args:
            notes: notes with their words, (n,).

        Returns:
            For each note the class (``CLASSES``) of each word, in order; None where no answer can be read.
        """
        ...


def load_resolver(name: str, load: LoadOptions | None = None, **settings: Any) -> Resolver:
    """Load a resolver.

    Args:
        name: ``chat:MODEL`` (of a service, or of a local folder), or the folder or Hub id of a classifier of tokens.
        load: how a model is loaded here.
        settings: settings of ``ChatOptions`` (``base_url``).

    Raises:
        UsageError: no key, a service that is not reached safely, a classifier of other classes.
        ValueError: no such model.
    """
    load = load or LoadOptions()
    if name.startswith(CHAT):
        defaults = {"trials": 1, "temperature": 0.0, "max_tokens": MAX_TOKENS, "json_schema": True}
        return ChatResolver(ChatOptions(model=name.removeprefix(CHAT), **defaults | settings), load)
    if settings:
        names = [setting.written for setting in ChatOptions.settings() if setting.name in settings]
        raise UsageError(f"{' and '.join(names)} is of a chat model. Write --resolver chat:{name}.")
    from transformers import AutoModelForTokenClassification

    model, tokenizer, pin = load_model(name, AutoModelForTokenClassification, load)
    revision = str(pin.get("revision") or pin.get("sha256") or "")
    pinned_name = f"{Path(name).name} {revision[:12]}".strip()
    return TokenResolver(model, tokenizer, pinned_name, load.batch_size)


class ChatResolver:
    """A chat model reads the note with its words numbered, and answers by number."""

    def __init__(self, options: ChatOptions, load: LoadOptions) -> None:
        """Load the model.

        Args:
            options: settings of the model.
            load: how a model is loaded here.
        """
        options.check()
        scorer = load_chat(options, Request(load=load)).with_reader(_read, fields=_fields)
        self._scorer = scorer.reading_notes()  # any note may be a patient's: none is repeated
        self.name = f"{CHAT}{self._scorer.model_id}"
        self.sends_text = bool(self._scorer.sends_text)

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        """Return whose each gendered word is, as ``Resolver``.

        Args:
            notes: notes with their words, (n,).
        """
        scored = self._scorer.score([_prompt(number, note) for number, note in enumerate(notes)])
        self._scorer.log.clear()
        return [_classes(note, answer.parts) for note, answer in zip(notes, scored, strict=True)]


def _classes(note: MarkedNote, answer: Mapping[str, float]) -> list[str] | None:
    """Return the class of each word by its number in an answer; None where one is missing."""
    classes = []
    for number in range(1, len(note.words) + 1):
        index = answer.get(str(number))
        if index is None:
            return None
        classes.append(CLASSES[int(index)])
    return classes


def _prompt(number: int, note: MarkedNote) -> Prompt:
    """Return the question whose the words of a note are."""
    parts = []
    done = 0
    for word, (start, end) in enumerate(note.words, start=1):
        parts += [note.text[done:start], f"[[{word}:{note.text[start:end]}]]"]
        done = end
    marked = "".join([*parts, note.text[done:]])
    if note.gender:
        marked = f"The patient is {note.gender}.\n\n{marked}"
    return Prompt(
        prompt_id=f"note {number + 1}",
        pair_id="",
        group="",
        text=chats.conversation(("system", _INSTRUCTION), ("user", marked)),
        candidates=tuple(Candidate(str(word)) for word in range(1, len(note.words) + 1)),
    )


def _fields(prompt: Prompt) -> Mapping[str, Any]:
    """Return the fields of a JSON answer: a class for each number."""
    number = {"type": "string", "enum": list(CLASSES)}
    return {candidate.text: number for candidate in prompt.candidates}


def _read(prompt: Prompt, answer: str, *, cut: bool = False) -> tuple[float, Mapping[str, float]]:
    """Read the index into ``CLASSES`` of each number; nothing unless each stands there exactly once."""
    final = answer.rpartition(_REASONING_END)[2]
    try:
        object_text = final[final.find("{") : final.rfind("}") + 1]
        pairs = json.loads(object_text, object_pairs_hook=list)
        indices = {str(number): float(CLASSES.index(name)) for number, name in pairs}
    except (ValueError, TypeError, RecursionError):
        return 0.0, {}
    numbers = {candidate.text for candidate in prompt.candidates}
    if len(pairs) != len(indices) or indices.keys() != numbers:
        return 0.0, {}
    return 0.0, indices


class TokenResolver:
    """A fine-tuned classifier of tokens, with the labels patient, spouse and other (``scripts/fit_resolver.py``)."""

    sends_text = False

    def __init__(self, model: Any, tokenizer: Any, name: str, batch_size: int = 64) -> None:
        """Check the classes of a loaded model.

        Args:
            model: a model of ``transformers``.
            tokenizer: the model's tokenizer.
            name: the name in manifests.
            batch_size: windows that are classified at once.

        Raises:
            UsageError: it has other classes.
        """
        labels = {label.lower(): number for number, label in model.config.id2label.items()}
        if not labels.keys() >= set(CLASSES):
            raise UsageError(
                f"{name} has the labels {listed(sorted(labels))}, expected {listed(CLASSES)}. Name another one."
            )
        self.name = name
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._columns = [labels[label] for label in CLASSES]
        self._limit = length_limit(tokenizer, model)

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        """Return whose each gendered word is, as ``Resolver``; a word that no window holds is not read.

        Args:
            notes: notes with their words, (n,).
        """
        inputs = [
            (number, encoded, words)
            for number, note in enumerate(notes)
            for encoded, words in windows(self._tokenizer, note, self._limit)
        ]
        # For each note the class of each word; in two windows the first counts.
        classes: list[dict[int, int]] = [{} for _ in notes]
        for start in range(0, len(inputs), self._batch_size):
            batch = inputs[start : start + self._batch_size]
            predictions = self._predict([encoded for _, encoded, _ in batch])
            for (number, _, words), predicted in zip(batch, predictions, strict=True):
                for word, index in zip(words, predicted, strict=False):  # padding stands last
                    if word is not None:
                        classes[number].setdefault(word, index)
        answers: list[list[str] | None] = []
        for note, by_word in zip(notes, classes, strict=True):
            if len(by_word) == len(note.words):
                answers.append([CLASSES[by_word[word]] for word in range(len(note.words))])
            else:
                answers.append(None)
        return answers

    def _predict(self, inputs: Sequence[Mapping[str, list[int]]]) -> list[list[int]]:
        """Return for each token of some inputs the index of its class."""
        import torch

        batch = self._tokenizer.pad([*inputs], return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(**batch.to(self._model.device)).logits[..., self._columns]
        predictions: list[list[int]] = logits.argmax(dim=-1).tolist()
        return predictions


def windows(
    tokenizer: Any, note: MarkedNote, limit: int
) -> list[tuple[dict[str, list[int]], list[int | None]]]:
    """Return a note as inputs of a model.

    Before the note stands the patient's gender; tokens of gendered words have the token type 1, all others 0.

    Args:
        tokenizer: the model's tokenizer.
        note: the note with its words.
        limit: tokens that the model reads.

    Returns:
        Inputs, and for each token of them the number of its word, or None.
    """
    encoded = tokenizer(
        f"patient: {note.gender or 'unknown'}",
        note.text,
        truncation="only_second",
        max_length=limit,
        stride=min(_OVERLAP, limit // 4),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    starts = [start for start, _ in note.words]
    note_windows = []
    for window, ids in enumerate(encoded["input_ids"]):
        words: list[int | None] = []
        offsets = encoded["offset_mapping"][window]
        for part, (start, end) in zip(encoded.sequence_ids(window), offsets, strict=True):
            nearest = int(np.searchsorted(starts, end, side="left")) - 1
            is_of_note = part == 1 and end > start
            inside = is_of_note and nearest >= 0 and start < note.words[nearest][1]
            words.append(nearest if inside else None)
        inputs = {"input_ids": list(ids), "attention_mask": [1] * len(ids)}
        if _TOKEN_TYPES in encoded:
            inputs[_TOKEN_TYPES] = [int(word is not None) for word in words]
        note_windows.append((inputs, words))
    return note_windows


def resolve(
    resolver: Resolver, block: Block, decisions: Decisions, spouses: str
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Decide whose gender each word shows by a resolver.

    Args:
        resolver: the model.
        block: the texts and words.
        decisions: decisions by the rules.
        spouses: whether words for the patient's spouse are swapped (``swap``) or stay (``keep``).

    Returns:
        Why each word stays, as of ``Decisions``, (n,), and whether it could not read a row, (rows,): there the rules
        stay.
    """
    owners = decisions.owners.copy()
    unread = np.zeros(len(block.offsets) - 1, dtype=bool)
    kept = np.flatnonzero(block.kept)
    bounds = np.searchsorted(block.rows[kept], np.arange(len(unread) + 1))
    rows = np.flatnonzero(np.diff(bounds)).tolist()
    indices_of_rows = [kept[bounds[row] : bounds[row + 1]] for row in rows]
    notes = [
        _mark(block, row, indices, int(decisions.sides[row]))
        for row, indices in zip(rows, indices_of_rows, strict=True)
    ]
    owner_of_class = {"patient": OF_PATIENT, "spouse": OF_SPOUSE}
    if spouses == "swap":
        owner_of_class["spouse"] = OF_PATIENT
    answers = resolver.whose(notes) if notes else []
    for row, indices, classes in zip(rows, indices_of_rows, answers, strict=True):
        if classes is None:
            unread[row] = True
            continue
        for index, name in zip(indices.tolist(), classes, strict=True):
            by_rules = owners[index]
            if by_rules in (OF_PATIENT, OF_UNKNOWN):
                by_rules = OF_OTHER
            owners[index] = owner_of_class.get(name, by_rules)
    return owners, unread


def _mark(block: Block, row: int, indices: NDArray[np.int64], side: int) -> MarkedNote:
    """Return a row with some of its words marked."""
    first = int(block.offsets[row])
    last = int(block.offsets[row + 1])
    text = block.buffer[first:last]
    begins_character = (np.frombuffer(text, np.uint8) & 0xC0) != 0x80
    characters = np.append(0, np.cumsum(begins_character))  # before each byte
    starts = characters[block.matches.start[indices] - first].tolist()
    ends = characters[block.matches.end[indices] - first].tolist()
    gender = ("male", "female", "")[side]
    return MarkedNote(text.decode(), list(zip(starts, ends, strict=True)), gender)
