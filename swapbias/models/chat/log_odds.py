"""Option log-odds: closed questions scored by the probabilities of their options, in each order of the options."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from swapbias.measures import option_odds
from swapbias.models.base import Progress, Scored, ranked
from swapbias.studies import Candidate, Prompt

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOST = "not_answered"  # what findings take for the share of a prompt that no option answers
PARTS = ("log_odds", "unanswered", "outside", "hidden")

Ordered = tuple[Prompt, Sequence[int]]  # with its options in one order, and which each was in the order published
Logs = tuple[list[float], float]  # log-probability of each option as it stands in a prompt, and what was not shown
OptionLogs = Callable[[Sequence[Prompt], Progress], list[Logs | None]]  # of each prompt; None: not known


def score_options(option_logs: OptionLogs, prompts: Sequence[Prompt], on_progress: Progress) -> list[Scored]:
    """Score: what the options count on average, weighted by their probabilities among those that count something.

    Probabilities are averaged over the order of the options and its reverse. An option with a letter is its letter,
    else its whole text. Parts are those of ``measures.OptionOdds``; ``not_answered``: probability of all that counts
    nothing, 1 without a score. NaN: too long, no option has a probability, or too much is hidden. UsageError: no
    probabilities, or a letter of several tokens. ValueError: no two options that count different numbers.
    """
    ordered = [orders(prompt) for prompt in prompts]
    every = [one for own in ordered for one, _ in own]
    share = len(prompts) / len(every) if every else 1.0
    answers = iter(option_logs(every, lambda done: on_progress(done * share)))
    return [_scored(prompt, own, [next(answers) for _ in own]) for prompt, own in zip(prompts, ordered, strict=True)]


def orders(prompt: Prompt) -> list[Ordered]:
    """A prompt in the order of its options, and in the reverse one; raises as ``score_options``.

    Letters and options that count nothing keep their places. One order, where the text has an option twice or not.
    """
    options = prompt.candidates
    counted = [place for place, one in enumerate(options) if one.value is not None]
    if len({options[place].value for place in counted}) < 2:
        raise ValueError(f"{prompt.prompt_id}: expected two candidates at least that count different numbers.")
    reverse = dict(zip(counted, reversed(counted), strict=True))
    places = [reverse.get(place, place) for place in range(len(options))]
    found: list[Ordered] = [(prompt, range(len(options)))]
    if (text := _reordered(prompt.text, options, places)) is not None:
        found.append((replace(prompt, text=text, candidates=tuple(options[one] for one in places)), places))
    return found


def lettered(prompt: Prompt) -> bool:
    """Whether the options of a prompt have letters, which answer for them then."""
    return "(A)" in prompt.text


def _reordered(text: str, options: Sequence[Candidate], places: Sequence[int]) -> str | None:
    """The text with its options in another order; None where they cannot be distinguished from the rest of it."""
    letters = "(A)" in text
    spans: list[tuple[int, int]] = []
    end = len(text)
    for place in reversed(range(len(options))):  # from the end: an example may stand before the question
        mark = rf"\({LETTERS[place]}\)\W*" if letters else r"(?<!\w)"
        found = list(re.compile(rf"{mark}({re.escape(options[place].text)})(?!\w)").finditer(text, 0, end))
        if not found or (not letters and len(found) > 1):
            return None
        spans.insert(0, found[-1].span(1))
        end = found[-1].start()
    cuts = [0, *(edge for span in spans for edge in span), len(text)]
    pieces = [text[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)]
    return pieces[0] + "".join(options[one].text + rest for one, rest in zip(places, pieces[1:], strict=True))


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
        logs, [math.nan if one.value is None else one.value for one in options], [hidden for _, hidden in known]
    )
    shares = [sum(math.exp(row[place]) for row in logs) / len(logs) for place in range(len(options))]
    parts = {name: getattr(odds, name) for name in PARTS}
    counted = sum(share for share, one in zip(shares, options, strict=True) if one.value is not None)
    parts[LOST] = 1.0 if math.isnan(odds.score) else min(1.0, max(0.0, 1 - counted))
    best = sorted(zip((one.text for one in options), shares, strict=True), key=lambda pair: -pair[1])
    likeliest = best[0][0] if best[0][1] > 0 else ""
    return Scored(odds.score, likeliest, ranked([name for name, _ in best], [share for _, share in best]), parts)


def names_of(prompt: Prompt) -> list[str]:
    """What a model answers for each option of a prompt: its letter, or its text."""
    options = prompt.candidates
    return list(LETTERS[: len(options)]) if lettered(prompt) else [one.text for one in options]


def shown_logs(prompt: Prompt, tokens: Sequence[tuple[str, float]]) -> Logs:
    """The options by the likeliest first tokens of an answer (natural logs), and the probability that these leave.

    A token is an option where it is its letter or text, or the first word of this option alone.
    """
    names = names_of(prompt)
    by_name: dict[str, list[float]] = {name: [] for name in names}
    firsts = [name.split()[0] for name in names]
    for token, log in tokens:
        said = bare_token(token)
        begun = [name for name, first in zip(names, firsts, strict=True) if first == said]
        name = said if said in by_name else begun[0] if len(begun) == 1 else ""
        if name:
            by_name[name].append(log)
    shown = math.fsum(math.exp(log) for _, log in tokens)
    return [log_sum(by_name[name]) for name in names], max(0.0, 1 - shown)


def bare_token(token: str) -> str:
    """A token without blanks and punctuation around it, also where a service shows the mark of a blank.

    >>> [bare_token(token) for token in ("A", " A", "(A", "A.", "ĠA", "As", '"She')]
    ['A', 'A', 'A', 'A', 'A', 'As', 'She']
    """
    return re.sub(r"^[\WĠ]+|\W+$", "", token)


def log_sum(logs: Sequence[float]) -> float:
    """The logarithm of a sum of probabilities, by theirs; NaN where one is."""
    if any(math.isnan(one) for one in logs):
        return math.nan
    most = max(logs, default=-math.inf)
    return most if math.isinf(most) else most + math.log(math.fsum(math.exp(one - most) for one in logs))
