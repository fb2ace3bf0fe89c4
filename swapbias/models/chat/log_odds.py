"""Option log-odds: closed questions scored by the probabilities of their options, in each order of the options."""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from swapbias.measures import option_odds
from swapbias.models.progress import Progress
from swapbias.models.scorer import Scored, ranked
from swapbias.studies import Candidate, Prompt, read_answer

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOST = "not_answered"  # what findings take for the share of a prompt that no option answers
ROUNDING = 0.02  # of probabilities and their logarithms: what is beyond 1 by more is none
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})
PARTS = ("log_odds", "unanswered", "outside", "hidden")

Ordered = tuple[
    Prompt, Sequence[int]
]  # with its options in one order, and which each was in the order published
Logs = tuple[
    list[float], float
]  # log-probability of each option as it stands in a prompt, and what was not shown
OptionLogs = Callable[
    [Sequence[Prompt], Progress], list[Logs | None]
]  # of each prompt; None: not known


def score_options(
    option_logs: OptionLogs, prompts: Sequence[Prompt], on_progress: Progress
) -> list[Scored]:
    """Score: what the options count on average, weighted by their probabilities among those that count something.

    Probabilities are averaged over the order of the options and its reverse. An option is every first token that an
    answer is read as it by: its letter or whole text, in any case; without letters also its text in several tokens.
    Parts are those of ``measures.OptionOdds``; ``not_answered``: probability of all that counts nothing, 1 without a
    score. NaN: too long, no option has a probability, or too much is hidden. UsageError: no probabilities, or a
    letter of several tokens. ValueError: no two options that count different numbers.
    """
    ordered = [orders(prompt) for prompt in prompts]
    every = [one for own in ordered for one, _ in own]
    share = len(prompts) / len(every) if every else 1.0
    answers = iter(option_logs(every, lambda done: on_progress(done * share)))
    return [
        _scored(prompt, own, [next(answers) for _ in own])
        for prompt, own in zip(prompts, ordered, strict=True)
    ]


def orders(prompt: Prompt) -> list[Ordered]:
    """A prompt in the order of its options, and in the reverse one; raises as ``score_options``.

    Letters and options that count nothing keep their places. One order, where the text has an option twice or not.
    """
    options = prompt.candidates
    counted = [place for place, one in enumerate(options) if one.value is not None]
    if len({options[place].value for place in counted}) < 2:
        raise ValueError(
            f"{prompt.prompt_id}: expected two candidates at least that count different numbers."
        )
    reverse = dict(zip(counted, reversed(counted), strict=True))
    places = [reverse.get(place, place) for place in range(len(options))]
    found: list[Ordered] = [(prompt, range(len(options)))]
    if (text := _reordered(prompt.text, options, places)) is not None:
        found.append(
            (replace(prompt, text=text, candidates=tuple(options[one] for one in places)), places)
        )
    return found


def lettered(prompt: Prompt) -> bool:
    """Whether the options of a prompt have letters, which answer for them then."""
    return "(A)" in prompt.text


def _reordered(text: str, options: Sequence[Candidate], places: Sequence[int]) -> str | None:
    """The text with its options in another order; None where they cannot be distinguished from the rest of it."""
    letters = "(A)" in text
    spans: list[tuple[int, int]] = []
    end = len(text)
    for place in reversed(
        range(len(options))
    ):  # from the end: an example may stand before the question
        mark = rf"\({LETTERS[place]}\)\W*" if letters else r"(?<!\w)"
        found = list(
            re.compile(rf"{mark}({re.escape(options[place].text)})(?!\w)").finditer(text, 0, end)
        )
        if not found or (not letters and len(found) > 1):
            return None
        spans.insert(0, found[-1].span(1))
        end = found[-1].start()
    cuts = [0, *(edge for span in spans for edge in span), len(text)]
    pieces = [text[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)]
    return pieces[0] + "".join(
        options[one].text + rest for one, rest in zip(places, pieces[1:], strict=True)
    )


def _scored(prompt: Prompt, ordered: Sequence[Ordered], answers: Sequence[Logs | None]) -> Scored:
    """What all orders of one prompt say."""
    known = [one for one in answers if one is not None]
    finite = not any(math.isnan(log) for logs, _ in known for log in logs)
    if len(known) < len(answers) or not finite:
        return Scored(math.nan, parts=dict.fromkeys(PARTS, math.nan) | {LOST: 1.0}, finite=finite)
    options = prompt.candidates
    logs = [[0.0] * len(options) for _ in known]
    for row, (_, places), (found, _) in zip(logs, ordered, known, strict=True):
        for place, log in zip(places, found, strict=True):
            row[place] = log  # whatever letter it had
    odds = option_odds(
        logs,
        [math.nan if one.value is None else one.value for one in options],
        [hidden for _, hidden in known],
    )
    shares = [
        sum(math.exp(row[place]) for row in logs) / len(logs) for place in range(len(options))
    ]
    parts = {name: getattr(odds, name) for name in PARTS}
    counted = sum(
        share for share, one in zip(shares, options, strict=True) if one.value is not None
    )
    parts[LOST] = 1.0 if math.isnan(odds.score) else min(1.0, max(0.0, 1 - counted))
    best = sorted(
        zip((one.text for one in options), shares, strict=True), key=lambda pair: -pair[1]
    )
    likeliest = best[0][0] if best[0][1] > 0 else ""
    return Scored(
        odds.score,
        likeliest,
        ranked([name for name, _ in best], [share for _, share in best]),
        parts,
    )


def names_of(prompt: Prompt) -> list[str]:
    """What a model answers for each option of a prompt: its letter, or its text."""
    options = prompt.candidates
    return list(LETTERS[: len(options)]) if lettered(prompt) else [one.text for one in options]


def option_of(token: str, prompt: Prompt) -> int | None:
    """Return the place of the option that an answer names which is this token alone; None where it names none.

    By the reader of sampled answers: in any case, with blanks, quotes and end punctuation around it.
    """
    texts = tuple(option.text for option in prompt.candidates)
    return _option_read(_as_text(token), texts, lettered=lettered(prompt))


@lru_cache(maxsize=100_000)
def _option_read(text: str, texts: tuple[str, ...], *, lettered: bool) -> int | None:
    answer = read_answer(text, texts, lettered=lettered)
    return texts.index(answer) if answer in texts else None


def begun_by(token: str, prompt: Prompt) -> list[int]:
    """Return the places of the options that go on after a token: it is their first word of several."""
    if lettered(prompt):
        return []
    word = core(token)
    texts = [option.text.split() for option in prompt.candidates]
    return [place for place, words in enumerate(texts) if len(words) > 1 and core(words[0]) == word]


def shown_logs(prompt: Prompt, tokens: Sequence[tuple[str, float]]) -> Logs | None:
    """Return the options by the likeliest first tokens of an answer (natural logs), and the probability that is left.

    A token is an option where an answer of this token alone is read as it, or where it is the first word of this
    option alone; it counts as not shown where it may begin another option as well. None: ``overfull``.
    """
    if overfull(tokens):
        return None
    logs: list[list[float]] = [[] for _ in prompt.candidates]
    shown = math.fsum(math.exp(log) for _, log in tokens)
    unclear = 0.0
    for token, log in tokens:
        exact = option_of(token, prompt)
        places = {*begun_by(token, prompt), *([] if exact is None else [exact])}
        if len(places) == 1:
            logs[places.pop()].append(log)
        elif places:
            unclear += math.exp(log)
    return [log_sum(own) for own in logs], max(0.0, 1 - shown) + unclear


def overfull(tokens: Sequence[tuple[str, float]]) -> bool:
    """Whether first tokens have more than the whole probability: what is shown are no log-probabilities."""
    if any(log > ROUNDING for _, log in tokens):
        return True
    return math.fsum(math.exp(log) for _, log in tokens) > 1 + ROUNDING


def core(token: str) -> str:
    """Return a token in lower case without blanks and punctuation around it, also where it shows the mark of a blank.

    >>> [core(token) for token in ("A", " a", "(A", "A.", "ĠA", "▁As", '"She')]
    ['a', 'a', 'a', 'a', 'a', 'as', 'she']
    """
    text = unicodedata.normalize("NFKC", _as_text(token))
    return re.sub(r"^\W+|\W+$", "", text).casefold()


def _as_text(token: str) -> str:
    """Return a token with the blanks and line ends that some services show as marks."""
    return token.translate(_MARKS)


def log_sum(logs: Sequence[float]) -> float:
    """The logarithm of a sum of probabilities, by theirs; NaN where one is."""
    if any(math.isnan(one) for one in logs):
        return math.nan
    most = max(logs, default=-math.inf)
    return (
        most
        if math.isinf(most)
        else most + math.log(math.fsum(math.exp(one - most) for one in logs))
    )
