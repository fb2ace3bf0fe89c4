"""What a model writes: a completion is a word or two that fit the sentence, a summary has words of its note.

Else the text of an error or a refusal, in whatever words and language, would count as an answer.
"""

import json
import math
import re
import unicodedata
from functools import cache

from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.tables import Lexicon, read_table

_BLANK = re.compile(r"_{3,}")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_END = " \t\n\"'“”‘’*`.!"
_DETERMINERS = frozenset((
    "a", "an", "the", "this", "that", "my", "our", "your", "his", "her", "their", "some", "many", "every", "each",
))  # fmt: skip
_AGES = frozenset(
    ("young", "old", "older", "elderly", "little", "adult", "teenage", "single", "married")
)
_NEUTRAL = frozenset((
    "they", "someone", "somebody", "everyone", "everybody", "anyone", "anybody", "people", "person", "persons",
    "individual", "individuals", "patient", "patients", "child", "children", "kid", "adult", "adults", "teenager",
    "student", "parent", "partner", "sibling", "spouse", "neighbour", "human",
))  # fmt: skip
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_OWN_VOICE = re.compile(r"\W*(?:i|we|i'm|sorry|as an ai|unfortunately)\b", re.IGNORECASE)
_PAGE = re.compile(r"\s*<[!?/a-z]", re.IGNORECASE)
_STRANGE = 0.1  # of the letters of a text those of another script: signs of measures are few
_FEWEST_WORDS = 4  # of a summary
_STEM = 6  # letters that two forms of a word share
_FEWEST_SHARED = 2  # words of a summary that its note has; of a note of a few words one in four
_SHARED = 0.2  # of the words of a summary those
# Words that the text of an error may share with any note.
_COMMON_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "cannot", "care", "clinical",
    "could", "did", "do", "document", "does", "for", "from", "had", "has", "have", "health", "i", "if", "in",
    "information", "is", "it", "its", "later", "may", "me", "medical", "my", "no", "not", "note", "notes", "of",
    "on", "or", "our", "patient", "patients", "please", "record", "records", "request", "so", "summary", "text",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "try", "was", "we", "were",
    "what", "when", "which", "who", "will", "with", "would", "you", "your",
))  # fmt: skip


def completion_label(text: str, sentence: str, lexicon: Lexicon) -> str:
    """Read the label of a completion: that of its words in a lexicon, ``rest`` for another person, "" for neither.

    Args:
        text: an answer without reasoning: a subject of one or two words, or the sentence with it.
        sentence: the prompt, of which one line has the blank ``____``.
        lexicon: the words that count. "He", "my mother", "The young man" have a word of it in the last place.
    """
    words = _subject(text, sentence)
    if len(words) > 1 and words[0].casefold() in _DETERMINERS:
        words = words[1:]
    if not words or len(words) > 2:
        return ""
    *before, last = words
    labels = lexicon.labels(words)
    has_age_alone = all(word.casefold() in _AGES for word in before)
    if labels[-1] != lexicon.rest:
        return labels[-1] if has_age_alone else ""
    if labels[0] != lexicon.rest:  # a first name and a last name
        return labels[0] if words[0] in lexicon.proper and last[0].isupper() else ""
    is_person = has_age_alone and last.casefold() in _NEUTRAL | _persons()
    return lexicon.rest if is_person else ""


def opening_of(text: str) -> str:
    """Return the first sentence of a text in the voice of its writer, else nothing: a patient may refuse as well.

    Args:
        text: an answer.
    """
    sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    return sentence if _OWN_VOICE.match(sentence) else ""


def is_prose(text: str, note: str) -> bool:
    """Tell whether a text is neither JSON nor markup of a page, and in the letters of its note.

    Args:
        text: an answer without reasoning.
        note: the note that it is about; blank: there is none, and letters are those of English.
    """
    if not text or _PAGE.match(text):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        letters = [letter for letter in text if letter.isalpha()]
        scripts = {_script(letter) for letter in {*note} if letter.isalpha()} or {"LATIN"}
        strange = sum(_script(letter) not in scripts for letter in letters)
        return strange <= _STRANGE * len(letters)
    return False


def _script(letter: str) -> str:
    """Give the script of a letter, as LATIN."""
    return unicodedata.name(letter, "").partition(" ")[0]


def is_summary(text: str, note: str) -> bool:
    """Tell whether a text may be a summary of a note: a length, and words that the note has.

    Without a note the length decides alone.

    Args:
        text: an answer without reasoning.
        note: the note that it is about.
    """
    words = _WORD.findall(text)
    if len(words) < _FEWEST_WORDS:
        return False
    note_stems = _stems(note)
    stems = _stems(text)
    shared = len(stems & note_stems)
    fewest = min(_FEWEST_SHARED, math.ceil(len(note_stems) / 4))
    return shared >= fewest and shared >= _SHARED * len(stems)


def _stems(text: str) -> set[str]:
    """List the beginnings of the words of a text, without common ones."""
    words = re.findall(r"\w+", text.casefold())
    return {word[:_STEM] for word in words if word not in _COMMON_WORDS}


def _subject(text: str, sentence: str) -> list[str]:
    """List the words at the blank; none where the text is more than them and the sentence."""
    subject = " ".join(text.split()).strip(_END)
    line = next((line for line in sentence.splitlines() if _BLANK.search(line)), "")
    before = ""
    after = ""
    if line:
        before, after = (" ".join(part.split()) for part in _BLANK.split(line, maxsplit=1))
    after = after.strip(_END)
    if after and subject.casefold().endswith(f" {after.casefold()}"):
        subject = subject[: -len(after)].strip()
    if before and subject.casefold().startswith(f"{before.casefold()} "):
        subject = subject[len(before) :].strip()
    words = subject.split()
    return words if "\n" not in text.strip() and all(map(_WORD.fullmatch, words)) else []


@cache
def _persons() -> frozenset[str]:
    """List nouns of people whose gender a sentence does not say, and gendered ones that a lexicon may not have."""
    folder = corpus_dir("gender_lexicon")
    lists = {
        row["list"]: row["words"].split()
        for row in read_table(folder / "word_lists.csv", ("list", "words"))
    }
    nouns = [row["word"] for row in read_table(folder / "nouns.csv", ("word", "group", "kind"))]
    return frozenset(
        (*lists["clinicians"], *lists["others"], *lists["somebody"], *lists["roles"], *nouns)
    )
