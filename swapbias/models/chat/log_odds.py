"""Option log-odds: closed questions scored by the probabilities of their options, in each order of the options."""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from swapbias.measures import answer_accuracy
from swapbias.models.progress import Progress
from swapbias.models.scorer import Scored, ranked
from swapbias.studies import Candidate, Prompt, read_answer

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOST = "not_answered"  # findings read in it the share of a prompt that no option answers
ROUNDING = 0.02  # of probabilities and their logarithms: what is beyond 1 by more is none
PARTS = ("log_odds", "unanswered", "outside", "hidden")
_MARK = "(A)"  # of a question whose options have letters
_BLANK_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})
# A prompt with its options in one order, and the index of each in the order published.
Ordered = tuple[Prompt, Sequence[int]]
# Log-probability of each option of a prompt in its order, in nats, and the probability of tokens that are not shown.
OptionLogProbs = tuple[list[float], float]
# Returns the log-probabilities of the options of each prompt; None: not known.
ReadOptionLogProbs = Callable[[Sequence[Prompt], Progress], list[OptionLogProbs | None]]
# Scores a prompt by the log-probabilities of its options in each order; None: not known.
ScoreOrders = Callable[[Prompt, Sequence[Ordered], Sequence[OptionLogProbs | None]], Scored]


def score_options(
    option_log_probs: ReadOptionLogProbs,
    score_orders: ScoreOrders,
    prompts: Sequence[Prompt],
    on_progress: Progress,
) -> list[Scored]:
    """Score closed questions by the probabilities of their options, in the order of the options and in its reverse.

    An option is every first token that an answer is read as it by: its letter or whole text, in any case; without
    letters also its text in several tokens.

    Args:
        option_log_probs: gives log-probabilities of the options.
        score_orders: makes a score of those of both orders.
        prompts: prompts with candidates.
        on_progress: called with the number of further prompts that are done.

    Returns:
        One Scored per prompt.

    Raises:
        UsageError: there are no probabilities, or a letter is several tokens.
        ValueError: no two options count different numbers.
    """
    orders_of_prompts = [orders(prompt) for prompt in prompts]
    ordered_prompts = [
        ordered for ordered_options in orders_of_prompts for ordered, _ in ordered_options
    ]
    share = len(prompts) / len(ordered_prompts) if ordered_prompts else 1.0
    log_probs = iter(option_log_probs(ordered_prompts, lambda done: on_progress(done * share)))
    return [
        score_orders(prompt, ordered_options, [next(log_probs) for _ in ordered_options])
        for prompt, ordered_options in zip(prompts, orders_of_prompts, strict=True)
    ]


def orders(prompt: Prompt) -> list[Ordered]:
    """Return a prompt in the order of its options, and in the reverse one.

    Args:
        prompt: the prompt with candidates.

    Returns:
        Letters and options that count nothing keep their places. One order, where the text has an option twice or
        not.

    Raises:
        ValueError: no two options count different numbers.
    """
    options = prompt.candidates
    counting = [index for index, option in enumerate(options) if option.value is not None]
    if len({options[index].value for index in counting}) < 2:
        raise ValueError(
            f"{prompt.prompt_id}: expected two candidates at least that count different numbers."
        )
    reverse = dict(zip(counting, reversed(counting), strict=True))
    indices = [reverse.get(index, index) for index in range(len(options))]
    straight: Ordered = (prompt, range(len(options)))
    text = _reorder_options(prompt.text, options, indices)
    if text is None:
        return [straight]
    candidates = tuple(options[index] for index in indices)
    return [straight, (replace(prompt, text=text, candidates=candidates), indices)]


def lettered(prompt: Prompt) -> bool:
    """Return whether the options of a prompt have letters, which answer for them then.

    Args:
        prompt: the prompt with candidates.

    Returns:
        True for letters in round brackets.
    """
    return _MARK in prompt.text


def _reorder_options(text: str, options: Sequence[Candidate], indices: Sequence[int]) -> str | None:
    """Return a text with its options in another order; None where they cannot be distinguished from its rest."""
    has_letters = _MARK in text
    spans: list[tuple[int, int]] = []
    end = len(text)
    # From the end: an example may stand before the question.
    for index in reversed(range(len(options))):
        mark = rf"\({LETTERS[index]}\)\W*" if has_letters else r"(?<!\w)"
        pattern = re.compile(rf"{mark}({re.escape(options[index].text)})(?!\w)")
        matches = list(pattern.finditer(text, 0, end))
        if not matches or (not has_letters and len(matches) > 1):
            return None
        spans.insert(0, matches[-1].span(1))
        end = matches[-1].start()
    cuts = [0, *(edge for span in spans for edge in span), len(text)]
    pieces = [text[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)]
    parts = [pieces[0]]
    for index, rest in zip(indices, pieces[1:], strict=True):
        parts += [options[index].text, rest]
    return "".join(parts)


def score_mean_value(
    prompt: Prompt, ordered: Sequence[Ordered], answers: Sequence[OptionLogProbs | None]
) -> Scored:
    """Score a prompt by what its options count on average, weighted by the probabilities of those that count.

    Args:
        prompt: the prompt with candidates.
        ordered: the prompt in each order of its options.
        answers: log-probabilities of the options of each order; None: not known.

    Returns:
        Parts are those of ``measures.OptionOdds``; ``not_answered``: probability of all that counts nothing, 1
        without a score. NaN: too long, no option has a probability, or too much is hidden.
    """
    read = [logs for logs in answers if logs is not None]
    finite = not any(math.isnan(log) for logs, _ in read for log in logs)
    if len(read) < len(answers) or not finite:
        return Scored(math.nan, parts=dict.fromkeys(PARTS, math.nan) | {LOST: 1.0}, finite=finite)
    options = prompt.candidates
    rows = []
    for (_, indices), (logs, _) in zip(ordered, read, strict=True):
        row = [0.0] * len(options)
        for index, log in zip(indices, logs, strict=True):
            row[index] = log  # whatever letter it had
        rows.append(row)
    values = [math.nan if option.value is None else option.value for option in options]
    odds = answer_accuracy.option_odds(rows, values, [hidden for _, hidden in read])
    shares = [sum(math.exp(log) for log in logs) / len(rows) for logs in zip(*rows, strict=True)]
    parts = {name: getattr(odds, name) for name in PARTS}
    if math.isnan(odds.score):
        parts[LOST] = 1.0
    else:
        counting = [
            share for share, option in zip(shares, options, strict=True) if option.value is not None
        ]
        parts[LOST] = min(1.0, max(0.0, 1 - sum(counting)))
    best = sorted(zip(options, shares, strict=True), key=lambda pair: -pair[1])
    names = [option.text for option, _ in best]
    probabilities = [share for _, share in best]
    likeliest = names[0] if probabilities[0] > 0 else ""
    return Scored(odds.score, likeliest, ranked(names, probabilities), parts)


def score_right_answer(
    prompt: Prompt, ordered: Sequence[Ordered], answers: Sequence[OptionLogProbs | None]
) -> Scored:
    """Score a prompt by whether its right answer is more likely than the others: 1, 0 if less, .5: equal.

    The right answer is the option that counts most. Its log-odds are averaged over the orders, so that a letter that
    is liked in itself decides nothing.

    Args:
        prompt: the prompt with candidates.
        ordered: the prompt in each order of its options.
        answers: log-probabilities of the options of each order; None: not known.

    Returns:
        Parts as of ``score_mean_value``; ``not_answered``: 1 without a score, else 0. NaN: too long, or what is
        hidden could be either answer's and decide.
    """
    scored = score_mean_value(prompt, ordered, answers)
    least = 0.0
    most = 0.0
    for (order, _), answer in zip(ordered, answers, strict=True):
        low, high = (math.nan, math.nan) if answer is None else _odds_bounds(order, answer)
        least += low
        most += high
    score = math.nan
    if least > 0:
        score = 1.0
    elif most < 0:
        score = 0.0
    elif least == most == 0:
        score = 0.5
    return replace(scored, score=score, parts={**scored.parts, LOST: float(math.isnan(score))})


def _odds_bounds(prompt: Prompt, answer: OptionLogProbs) -> tuple[float, float]:
    """Return the least and the highest log-odds of the right answer, were all that is hidden one answer's."""
    logs, hidden = answer
    values = [candidate.value for candidate in prompt.candidates]
    most = max(value for value in values if value is not None)
    right = log_sum([log for log, value in zip(logs, values, strict=True) if value == most])
    wrong = log_sum(
        [log for log, value in zip(logs, values, strict=True) if value not in (None, most)]
    )
    unseen = math.log(hidden) if hidden > 0 else -math.inf
    return right - log_sum([wrong, unseen]), log_sum([right, unseen]) - wrong


def with_letters(text: str, options: Sequence[Candidate]) -> str:
    """Return a question followed by its options, each with a letter, as which it is to be answered.

    >>> with_letters("Who left?", [Candidate("the nurse", 1.0), Candidate("the guest", 0.0)])
    'Who left?\\n\\n(A) the nurse\\n(B) the guest\\n\\nAnswer with the letter alone.'

    Args:
        text: the question.
        options: its options.

    Returns:
        The same text where its options have letters already.
    """
    if _MARK in text:
        return text
    lines = [f"({letter}) {option.text}" for letter, option in zip(LETTERS, options, strict=False)]
    listed = "\n".join(lines)
    return f"{text}\n\n{listed}\n\nAnswer with the letter alone."


def names_of(prompt: Prompt) -> list[str]:
    """Return what a model answers for each option of a prompt.

    Args:
        prompt: the prompt with candidates.

    Returns:
        Letters, or texts of a prompt without letters.
    """
    options = prompt.candidates
    if lettered(prompt):
        return list(LETTERS[: len(options)])
    return [option.text for option in options]


def option_of(token: str, prompt: Prompt) -> int | None:
    """Return the index of the option that an answer of this token alone names.

    It is read as sampled answers are: in any case, with blanks, quotes and end punctuation around it.

    Args:
        token: the token as a tokenizer or a service writes it.
        prompt: the prompt with candidates.

    Returns:
        None where it names none.
    """
    texts = tuple(option.text for option in prompt.candidates)
    return _read_option(_without_marks(token), texts, lettered=lettered(prompt))


@lru_cache(maxsize=100_000)
def _read_option(text: str, texts: tuple[str, ...], *, lettered: bool) -> int | None:
    answer = read_answer(text, texts, lettered=lettered)
    return texts.index(answer) if answer in texts else None


def begun_by(token: str, prompt: Prompt) -> list[int]:
    """Return the indices of the options that go on after a token: it is their first word of several.

    Args:
        token: the token as a tokenizer or a service writes it.
        prompt: the prompt with candidates.

    Returns:
        None of a prompt with letters.
    """
    if lettered(prompt):
        return []
    word = core(token)
    texts = [option.text.split() for option in prompt.candidates]
    return [index for index, words in enumerate(texts) if len(words) > 1 and core(words[0]) == word]


def shown_log_probs(prompt: Prompt, tokens: Sequence[tuple[str, float]]) -> OptionLogProbs | None:
    """Return the logs of options by the likeliest first tokens of an answer, and the probability that is left.

    A token is an option where an answer of this token alone is read as it, or where it is the first word of this
    option alone; it counts as not shown where it may begin another option as well.

    Args:
        prompt: the prompt with candidates.
        tokens: tokens with their natural logs.

    Returns:
        None where the tokens are ``overfull``.
    """
    if overfull(tokens):
        return None
    logs: list[list[float]] = [[] for _ in prompt.candidates]
    total = math.fsum(math.exp(log) for _, log in tokens)
    unclear = 0.0
    for token, log in tokens:
        exact = option_of(token, prompt)
        indices = set(begun_by(token, prompt))
        if exact is not None:
            indices.add(exact)
        if len(indices) == 1:
            logs[indices.pop()].append(log)
        elif indices:
            unclear += math.exp(log)
    return list(map(log_sum, logs)), max(0.0, 1 - total) + unclear


def overfull(tokens: Sequence[tuple[str, float]]) -> bool:
    """Return whether first tokens have more than the whole probability: these are no log-probabilities.

    Args:
        tokens: tokens with their natural logs.

    Returns:
        True where they sum to more than 1.
    """
    if any(log > ROUNDING for _, log in tokens):
        return True
    return math.fsum(math.exp(log) for _, log in tokens) > 1 + ROUNDING


def core(token: str) -> str:
    """Return a token in lower case without blanks and punctuation around it, also where it shows the mark of a blank.

    >>> [core(token) for token in ("A", " a", "(A", "A.", "ĠA", "▁As", '"She')]
    ['a', 'a', 'a', 'a', 'a', 'as', 'she']

    Args:
        token: the token as a tokenizer or a service writes it.

    Returns:
        A word or blank.
    """
    text = unicodedata.normalize("NFKC", _without_marks(token))
    return re.sub(r"^\W+|\W+$", "", text).casefold()


def _without_marks(token: str) -> str:
    """Return a token with the blanks and line ends that some services show as marks."""
    return token.translate(_BLANK_MARKS)


def log_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of a sum of probabilities.

    Args:
        logs: natural logs of the probabilities.

    Returns:
        A natural log; NaN where one of them is.
    """
    if any(math.isnan(log) for log in logs):
        return math.nan
    most = max(logs, default=-math.inf)
    if math.isinf(most):
        return most
    return most + math.log(math.fsum(math.exp(log - most) for log in logs))
