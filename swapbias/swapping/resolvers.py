"""Whose each gendered word of a note is, by a language model: a chat model, or a classifier of tokens."""

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
CHAT = "chat:"  # before the name of a chat model
MAX_TOKENS = 4_096  # of an answer: a note of many words takes many
_OVERLAP = 64  # tokens that two windows of a long note share
_INSTRUCTION = """You read a clinical note in which words that show a gender are numbered, as in [[3:her]]. \
Say of each number whom the word shows: "patient"; "spouse" for the patient's husband, wife, boyfriend or \
girlfriend; "other" for relatives, clinicians, babies, other patients, people in general, and what is no person. A \
word for a relative ("mother") shows that relative. Answer with one JSON object with each number once: \
{"1": "patient", "2": "other"}"""


@dataclass(frozen=True, slots=True)
class MarkedNote:
    """A note, the characters where each gendered word begins and ends, and the patient's gender, blank if unknown."""

    text: str
    words: Sequence[tuple[int, int]]
    gender: str


class Resolver(Protocol):
    """Says whose the gendered words of notes are, in place of the rules."""

    name: str
    """In manifests."""
    sends_text: bool
    """True if notes leave this machine and services that the user declared as their own."""

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        """Of each note the class (``CLASSES``) of each word, in order; None where no answer can be read."""
        ...


def load_resolver(name: str, load: LoadOptions | None = None, **settings: Any) -> Resolver:
    """``chat:MODEL`` (of a service, or of a local folder), or the folder or Hub id of a classifier of tokens.

    Args:
        name: of the model. load: how a model is loaded here. settings: of ``ChatOptions`` (``base_url``).

    Raises:
        UsageError: no key, a service that is not reached safely, a classifier of other classes. ValueError: no such
            model.
    """
    if name.startswith(CHAT):
        chosen = {
            "trials": 1,
            "temperature": 0.0,
            "max_tokens": MAX_TOKENS,
            "json_schema": True,
            **settings,
        }
        return ChatResolver(
            ChatOptions(model=name.removeprefix(CHAT), **chosen), load or LoadOptions()
        )
    if settings:
        names = [setting.written for setting in ChatOptions.settings() if setting.name in settings]
        raise UsageError(f"{' and '.join(names)} is of a chat model. Write --resolver chat:{name}.")
    from transformers import AutoModelForTokenClassification

    load = load or LoadOptions()
    model, tokenizer, pin = load_model(name, AutoModelForTokenClassification, load)
    pinned = pin.get("revision") or pin.get("sha256") or ""
    return TokenResolver(
        model, tokenizer, f"{Path(name).name} {str(pinned)[:12]}".strip(), load.batch_size
    )


class ChatResolver:
    """A chat model reads the note with its words numbered, and answers by number."""

    def __init__(self, options: ChatOptions, load: LoadOptions) -> None:
        options.check()
        scorer = load_chat(options, Request(load=load)).reading_with(_read, fields=_fields)
        self._scorer = scorer.reading_notes()  # any note may be a patient's: none is repeated
        self.name = f"{CHAT}{self._scorer.model_id}"
        self.sends_text = bool(self._scorer.sends_text)

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        """See ``Resolver``."""
        found = self._scorer.score([_prompt(number, note) for number, note in enumerate(notes)])
        self._scorer.log.clear()
        answers = []
        for note, one in zip(notes, found, strict=True):
            numbers = [one.parts.get(str(at)) for at in range(1, len(note.words) + 1)]
            answers.append(
                None if None in numbers else [CLASSES[int(number or 0)] for number in numbers]
            )
        return answers


def _prompt(number: int, note: MarkedNote) -> Prompt:
    parts = []
    done = 0
    for at, (start, end) in enumerate(note.words, start=1):
        parts += [note.text[done:start], f"[[{at}:{note.text[start:end]}]]"]
        done = end
    about = f"The patient is {note.gender}.\n\n" if note.gender else ""
    text = chats.conversation(
        ("system", _INSTRUCTION), ("user", about + "".join([*parts, note.text[done:]]))
    )
    numbers = tuple(Candidate(str(at)) for at in range(1, len(note.words) + 1))
    return Prompt(
        prompt_id=f"note {number + 1}", pair_id="", group="", text=text, candidates=numbers
    )


def _fields(prompt: Prompt) -> Mapping[str, Any]:
    """The fields of a JSON answer: of each number its class."""
    number = {"type": "string", "enum": list(CLASSES)}
    return {one.text: number for one in prompt.candidates}


def _read(prompt: Prompt, answer: str, *, cut: bool = False) -> tuple[float, Mapping[str, float]]:
    """The place in ``CLASSES`` of each number; nothing unless each stands there exactly once."""
    said = answer.rpartition("</think>")[2]
    try:
        pairs = json.loads(said[said.find("{") : said.rfind("}") + 1], object_pairs_hook=list)
        found = {str(number): float(CLASSES.index(whose)) for number, whose in pairs}
    except (ValueError, TypeError, RecursionError):
        return 0.0, {}
    whole = len(pairs) == len(found) and found.keys() == {one.text for one in prompt.candidates}
    return 0.0, found if whole else {}


class TokenResolver:
    """A fine-tuned classifier of tokens, with the labels patient, spouse and other (``scripts/fit_resolver.py``)."""

    sends_text = False

    def __init__(self, model: Any, tokenizer: Any, name: str, batch_size: int = 64) -> None:
        labels = {label.lower(): number for number, label in model.config.id2label.items()}
        if not labels.keys() >= set(CLASSES):
            raise UsageError(
                f"{name} has the labels {listed(sorted(labels))}, expected {listed(CLASSES)}. Name another one."
            )
        self.name = name
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._columns = [labels[one] for one in CLASSES]
        self._limit = length_limit(tokenizer, model)

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        """See ``Resolver``; a word that no window holds is not read."""
        import torch

        every = [
            (number, inputs, words)
            for number, note in enumerate(notes)
            for inputs, words in windows(self._tokenizer, note, self._limit)
        ]
        said: list[dict[int, int]] = [
            {} for _ in notes
        ]  # by word; of a word in two windows the first counts
        for begin in range(0, len(every), self._batch_size):
            part = every[begin : begin + self._batch_size]
            batch = self._tokenizer.pad([inputs for _, inputs, _ in part], return_tensors="pt")
            with torch.inference_mode():
                logits = self._model(**batch.to(self._model.device)).logits[..., self._columns]
            for (number, _, words), classes in zip(
                part, logits.argmax(dim=-1).tolist(), strict=True
            ):
                for word, one in zip(words, classes, strict=False):  # padding stands last
                    if word is not None:
                        said[number].setdefault(word, one)
        return [
            [CLASSES[one[word]] for word in range(len(note.words))]
            if len(one) == len(note.words)
            else None
            for note, one in zip(notes, said, strict=True)
        ]


def windows(
    tokenizer: Any, note: MarkedNote, limit: int
) -> list[tuple[dict[str, list[int]], list[int | None]]]:
    """A note as inputs of a model that reads ``limit`` tokens, and of each token the number of its word, or None.

    Before the note stands the patient's gender; tokens of gendered words have the token type 1, all others 0.
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
    found = []
    for at, ids in enumerate(encoded["input_ids"]):
        words: list[int | None] = []
        for part, (start, end) in zip(
            encoded.sequence_ids(at), encoded["offset_mapping"][at], strict=True
        ):
            near = int(np.searchsorted(starts, end, side="left")) - 1
            inside = part == 1 and end > start and near >= 0 and start < note.words[near][1]
            words.append(near if inside else None)
        inputs = {"input_ids": list(ids), "attention_mask": [1] * len(ids)}
        if "token_type_ids" in encoded:
            inputs["token_type_ids"] = [int(word is not None) for word in words]
        found.append((inputs, words))
    return found


def resolve(
    resolver: Resolver, block: Block, decided: Decisions, spouses: str
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Why each word stays by a resolver, as of ``Decisions``, and which rows it could not read: there the rules stay.

    Args:
        resolver: the model. block: the texts and words. decided: by the rules.
        spouses: whether words for the patient's spouse are swapped (``swap``) or stay (``keep``).
    """
    why = decided.owners.copy()
    unread = np.zeros(len(block.offsets) - 1, dtype=bool)
    places = np.flatnonzero(block.kept)
    bounds = np.searchsorted(block.rows[places], np.arange(len(unread) + 1))
    rows = np.flatnonzero(np.diff(bounds)).tolist()
    own = [places[bounds[row] : bounds[row + 1]] for row in rows]
    notes = [
        _marked(block, row, mine, int(decided.sides[row]))
        for row, mine in zip(rows, own, strict=True)
    ]
    reasons = {"patient": OF_PATIENT, "spouse": OF_PATIENT if spouses == "swap" else OF_SPOUSE}
    for row, mine, answers in zip(rows, own, resolver.whose(notes) if notes else [], strict=True):
        if answers is None:
            unread[row] = True
            continue
        for at, whose in zip(mine.tolist(), answers, strict=True):
            by_rules = OF_OTHER if why[at] in (OF_PATIENT, OF_UNKNOWN) else why[at]
            why[at] = reasons.get(whose, by_rules)
    return why, unread


def _marked(block: Block, row: int, places: NDArray[np.int64], side: int) -> MarkedNote:
    first, last = (int(block.offsets[row + more]) for more in (0, 1))
    text = block.buffer[first:last]
    characters = np.append(
        0, np.cumsum((np.frombuffer(text, np.uint8) & 0xC0) != 0x80)
    )  # before each byte
    starts, ends = (
        characters[of[places] - first].tolist() for of in (block.matches.start, block.matches.end)
    )
    return MarkedNote(
        text.decode(), list(zip(starts, ends, strict=True)), ("male", "female", "")[side]
    )
