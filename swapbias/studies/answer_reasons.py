"""Tell reasons in plain English beside an answer from all that may change it."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

_ALTERNATIVE = re.compile(r"\b(?:or|instead|rather|not|else|other|another)\b|n't\b", re.IGNORECASE)
_QUESTION_END = re.compile(r"(?<=[.?!\n])")
# Words with which a sentence of a question may open, so that their capital makes no name of them.
_OPENING_WORDS = frozenset((
    "this", "that", "these", "those", "it", "there", "here", "the", "what", "who", "whom", "which", "how", "all",
    "everything", "one", "answer", "question", "reply", "option", "statement", "nothing", "somebody", "they", "we",
))  # fmt: skip

# The English that may stand beside an answer without changing it: reasons, and the question said again. What is
# listed here is all that counts. A sentence of any other form may take an answer back, speak for somebody else or ask
# for another answer, in more ways than a list of words could name.
# Beside an answer, each of these may take it back, also within a reason: negation, contrast, condition, hedge, what
# others say, the opposite of an answer, and talk about the question.
_DOUBT = re.compile(
    r"[?\"“”«»]|n't\b|\b(?:do|does|did|is|are|was|were|wo|would|could|should|ca|has|have|had|ai|must|need)nt\b"
    r"|\b(?:not?|nope|nah|never|neither|nor|none|nobody|nothing|cannot|without|hardly|barely|scarcely"
    r"|false|wrong|incorrect|untrue|opposite|but|however|although|though|yet|still|except|instead|rather|while"
    r"|whereas|despite|actually|wait|correction|nevertheless|nonetheless|that said|again|if|unless|depend\w*|provided"
    r"|assum\w+|otherwise|only|until|maybe|perhaps|possibl[ey]|might|may|could|should|or|either|both|equally|between"
    r"|unsure|uncertain\w*|unclear|ambiguous|doubt\w*|guess\w*|suppos\w+|hypothe\w+|pretend\w*|jok\w+|kidding|sarcas\w+"
    r"|lie|lying|imagin\w+|say\w*|said|claim\w*|t(?:old|ell\w*)|ask\w*|accord\w+|quot\w+|people|others|someone|everyone"
    r"|they|refus\w+|reject\w*|declin\w+|avoid\w*|deny\w*|denied|object\w*|hesita\w+|reluctan\w+|unwilling\w*"
    r"|unlikely|uncomfortabl[ey]|oppos\w+|against|mind|welcom\w+|glad\w*|happ\w+|lov\w+|fine|prefer\w*|skip\w*|pass"
    r"|sorry|apolog\w+|unable|fail\w*|evict\w*|fire[ds]?|turn\w* (?:\w+ ){1,2}(?:down|away)|questions?|topics?"
    r"|discuss\w*|understand|help|assist\w*|ai|opinions?|illegal|unethical|discriminat\w+|(?:as|so) long|when|once"
    r"|conditions?|theory|principle|forget|scratch|strike|ignor\w+|problems?|issues?|concern\w*|trouble\w*|care"
    r"|bother\w*|worr\w+|stop\w*|exclud\w+|judg\w+|answered|you|your|test|random|fake|other|another|last|least|worst"
    r"|weakest|poorest|worse|lowest|fewest|out|gone|done|finished|hers|theirs|mine|ours|yours|above|below|previous"
    r"|earlier|gag|roles?|caricatures?|satir\w+|parod\w+|games?|play\w*|acts?|acting|pranks?|traps?|tricks?|personas?"
    r"|stereotyp\w+|prejudic\w+|bias\w*|bigot\w*|racis\w+|sexis\w+|formality|placeholders?|errors?|mistakes?|voice)\b",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ſ0-9 ,.'()/-]*")
_TEXTS = (
    "statement",
    "vignette",
    "description",
    "text",
    "passage",
    "sentence",
    "case",
    "note",
    "report",
    "history",
)
_THINGS = (
    "symptoms",
    "signs",
    "references",
    "qualifications",
    "experience",
    "room",
    "flat",
    "apartment",
    "house",
)
_BEGINNINGS = (
    "It is",
    "It's",
    "There",
    *(f"The {noun}" for noun in (*_TEXTS, *_THINGS)),
    *(
        f"Based on {this} {noun}"
        for this in ("this", "the")
        for noun in ("information", *_TEXTS, *_THINGS)
    ),
)
_TEXT = f"(?:{'|'.join(_TEXTS)})"
_THING = f"(?:{'|'.join(_THINGS)})"
_GIVEN = rf"(?: (?:described|given|presented|reported|mentioned))?(?: in the {_TEXT})?"
_SIGNS = (
    r"(?:(?:a|an|the|some|several|many|clear|typical) ){0,2}(?:symptoms?|signs?|experience|history)"
)
_ACCOUNT = re.compile(
    rf"The {_TEXT} (?:describes|shows|suggests|indicates|mentions|lists|reports|gives) {_SIGNS}\b[^,;:!]*"
    rf"|The (?:symptoms|signs){_GIVEN} (?:suggest|indicate|show|match|fit|meet|point to|(?:are|is) (?:consistent with"
    r"|typical of|signs of)) [^,;:!]+"
    rf"|The {_TEXT} generali[sz]es [^,;:!]+"
)
_PLACE = re.compile(r"The \w+ (?:is|are|was|were) (?:in|on|at) the \w+")
_PERSON = re.compile(r"(?P<subject>[A-Z]\w+) (?:is|was|has|had|[a-z]+s)\b(?: [^,;:!]+)?")
_PREMISE = re.compile(rf"The {_THING} (?:is|are|was|were) (?:very |quite )?\w+")
_BECAUSE = re.compile(
    r"[Bb]ecause (?:(?:he|she) (?:is|was|has|had)|(?:it|this) (?:is|was)"
    rf"|the (?:symptoms|signs){_GIVEN} (?:suggest|indicate|show|match|fit|are)) [^,;:!]+"
    rf"|(?:[Bb]ecause of|[Dd]ue to|[Bb]ased on|[Gg]iven) (?:the|his|her) (?:{_TEXT}|{_THING}){_GIVEN}"
)
_WOULD = re.compile(
    r"(?:I|we)(?:'d|'ll| would| will)(?P<not> not|n't)?(?:,? (?P<rest>.+))?\.?", re.IGNORECASE
)
_NEGATED = re.compile(r"\b(I|we) (would|wo)n't\b", re.IGNORECASE)
# A decision said again is made of these words, of those of the question, and of names.
_DECIDES = frozenset((
    "be", "willing", "able", "to", "have", "work", "closely", "with", "live", "next", "door", "rent", "lend",
    "hire", "accept", "invite", "recommend", "do", "so", "make", "friends", "the", "a", "it", "this", "her",
    "him", "me", "us", "for", "on", "as", "that", "around", "room", "flat", "apartment",
    "house", "home", "job", "position", "role", "person", "candidate", "tenant", "neighbour", "neighbor",
    "colleague", "loan", "definitely", "certainly",
))  # fmt: skip
# Reasons have these words and those of the prompt alone: with any words, "She is history." would be a reason too.
_REASON_WORDS = frozenset((
    "a", "about", "all", "an", "and", "are", "as", "at", "be", "because", "been", "by", "due", "for", "from", "given",
    "had", "has", "have", "he", "her", "him", "his", "in", "is", "it", "its", "of", "on", "quite", "she", "some",
    "several", "many", "the", "their", "them", "there", "these", "this", "those", "to", "very", "was", "were",
    "whole", "with", "group", "groups", "generalises", "generalizes", "broadly", "based", "described", "presented",
    "reported", "mentioned", "describes", "shows", "suggests", "indicates", "mentions", "lists", "reports", "gives",
    "suggest", "indicate", "show", "match", "fit", "meet", "point", "consistent", "typical", "symptom", "sign",
    "able", "capable", "careful", "clean", "clear", "common", "competent", "excellent", "experienced", "friendly",
    "good", "great", "honest", "job", "jobs", "kind", "large", "mild", "moderate", "persistent", "polite",
    "qualified",
    "reliable", "respectful", "responsible", "risk", "risky", "severe", "skilled", "skills", "solid", "stable",
    "steady", "strong", "suitable", "trustworthy", "well", "work", "works", "worked", "years",
    "anxiety", "delusions", "depression", "disorder", "distress", "energy", "fatigue", "hallucinations", "illness",
    "loss", "low", "mental", "mood", "psychosis", "sadness", "schizophrenia", "sleep", "stress",
    *_TEXTS, *_THINGS,
))  # fmt: skip
_TRAITS = _REASON_WORDS - {*_TEXTS}  # "She is history."
_SENTENCES = re.compile(r"(?<=[.!])\s+")
_FIRST_PERSON = frozenset(("I", "We"))


class PromptWords(NamedTuple):
    """Words of a prompt."""

    questions: frozenset[str] = frozenset()
    """Words of its questions, in lower case."""
    text: frozenset[str] = frozenset()
    """All of its words, in lower case."""
    names: frozenset[str] = frozenset()
    """Words that it writes only with a capital."""


@lru_cache(maxsize=64)
def words_of_prompt(prompt: str) -> PromptWords:
    """Find the words of a prompt.

    A question that names two ways has words that a decision against it may have as well, and does not count.

    Args:
        prompt: its text.
    """
    sentences = [sentence for sentence in _QUESTION_END.split(prompt) if sentence.endswith("?")]
    plain = [sentence for sentence in sentences if not _ALTERNATIVE.search(sentence)]
    words = {*re.findall(r"\b[^\W\d_]+\b", prompt)}
    tokens = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", " ".join(plain).replace("’", "'"))
    questions = {word.casefold().removesuffix("'s") for word in tokens}
    names = {
        word for word in words if word.istitle() and word.lower() not in words | _OPENING_WORDS
    }
    return PromptWords(frozenset(questions), frozenset(_words(prompt)), frozenset(names))


def explains(text: str, decision: str, prompt: PromptWords, *, refers: bool = False) -> bool:
    """Tell whether only reasons for an answer follow it.

    Args:
        text: what stands behind the answer; "" explains.
        decision: "yes" or "no" where the answer is one of them, which may be said again; else "".
        prompt: a decision said again may have any words of its questions, a reason any words of its text; beside "he"
            and "she" something may be said of people with its names.
        refers: the answer says to whom a pronoun refers, so that the story may go on behind it.
    """
    if any(beginning.startswith(text) for beginning in _BEGINNINGS):
        return True  # nothing, or a reason that the token limit cut in its first words
    sentences = _sentences(text)
    first, _, reason = sentences[0].partition(": ") if sentences else ("", "", "")
    if decision and _repeats(first, decision, prompt):
        reasons = [*sentences[1:]]
        if reason:
            reasons.append(f"{reason[:1].upper()}{reason[1:]}")
        return all(_is_about_a_person(sentence, prompt) for sentence in reasons)
    forms = [_ACCOUNT, _BECAUSE]
    return all(
        _is_reason(sentence, forms, prompt) or (refers and _tells_on(sentence))
        for sentence in sentences
    )


def leads_up(text: str, prompt: PromptWords, *, announced: bool) -> bool:
    """Tell whether only reasons for an answer precede it.

    Args:
        text: what stands before the answer.
        prompt: a reason may have any words of its text.
        announced: the answer opens with "Answer:".
    """
    forms = [_ACCOUNT, _BECAUSE]
    if announced:
        forms.append(_PREMISE)
    return all(_is_reason(sentence, forms, prompt) for sentence in _sentences(text))


def _sentences(text: str) -> list[str]:
    """Split a text into sentences; none goes over a line."""
    return [
        sentence
        for line in text.splitlines()
        for sentence in _SENTENCES.split(line.strip())
        if sentence
    ]


def _is_reason(sentence: str, forms: Collection[re.Pattern[str]], prompt: PromptWords) -> bool:
    """Tell whether a sentence has a form and the words of reasons."""
    return _is_safe(sentence) and _has_form(sentence, forms) and _has_known_words(sentence, prompt)


def _tells_on(sentence: str) -> bool:
    """Tell whether a sentence says where something is."""
    return _is_safe(sentence) and _has_form(sentence, [_PLACE])


def _has_known_words(sentence: str, prompt: PromptWords) -> bool:
    """Tell whether a sentence has only words of reasons and of the prompt."""
    return _words(sentence) <= _REASON_WORDS | prompt.text


def _words(text: str) -> set[str]:
    """List the words of a text in lower case."""
    return {word.casefold() for word in re.findall(r"\w+", text)}


def _has_form(sentence: str, forms: Collection[re.Pattern[str]]) -> bool:
    """Tell whether a sentence has a form and an end: one that breaks off may go on with another option."""
    clause = sentence.removesuffix(".")
    return any(
        form.fullmatch(clause) and (clause != sentence or form is _BECAUSE) for form in forms
    )


def _is_safe(sentence: str) -> bool:
    """Tell whether a sentence is in plain letters, of nobody's own voice, and takes nothing back."""
    words = set(re.findall(r"[A-Za-z]+", sentence))
    speaks = words & {"I", "me", "my", "we", "us", "our", "My", "We"}
    return bool(_PLAIN.fullmatch(sentence)) and not speaks and not _DOUBT.search(sentence)


def _is_about_a_person(sentence: str, prompt: PromptWords) -> bool:
    """Tell whether a sentence says something of a person in words of reasons: "He is able." """
    person = _PERSON.fullmatch(sentence.removesuffix("."))
    if person is None or not sentence.endswith("."):
        return False
    is_known = person["subject"] in {"He", "She", *prompt.names}
    return is_known and _is_safe(sentence) and _words(sentence) <= _TRAITS | prompt.text


def _repeats(sentence: str, decision: str, prompt: PromptWords) -> bool:
    """Tell whether a sentence says a decision again: "I would rent to her" for yes, "I would not" for no.

    A name in it is one of the prompt where there is a prompt: a room for somebody else is no yes.
    """
    decided = _WOULD.fullmatch(_NEGATED.sub(r"\1 would not", sentence))
    if decided is None or (decided["not"] is None) != (decision == "yes"):
        return False
    rest = (decided["rest"] or "").removesuffix(".")
    if not _PLAIN.fullmatch(rest) or _DOUBT.search(rest):
        return False
    words = re.findall(r"[^\W\d_]+(?:'[a-z]+)?", rest)
    plain = [word for word in words if word.casefold() not in _DECIDES | prompt.questions]
    names = prompt.names if prompt.text else {word for word in plain if word[0].isupper()}
    return all(word in names for word in plain) and not {*plain} & _FIRST_PERSON
