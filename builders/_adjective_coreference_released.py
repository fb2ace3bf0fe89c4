"""What the authors of adjective_coreference released: answers of a chat model in five trials, and the keys."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from swapbias.builders._adjective_coreference_sentences import (
    GENDERS,
    SIDES,
    conditions,
    key_aliases,
)
from swapbias.studies import Released
from swapbias.studies.published import ReleasedNumber

MODEL = "gpt-3.5-turbo"
BASELINE = "baseline"
TRIALS = (1, 2, 3, 4, 5)
KEYS = {"correct": "answers/coranswers.txt.test", "incorrect": "answers/incanswers.txt.test"}
ROWS = 395  # an older edit of WinoBias's type 1 test sentences
# What the names of the released files call each condition: five letters of each adjective.
CODES = {
    row["condition"]: "-".join((row[gender] or "nothing")[:5] for gender in GENDERS)
    for row in conditions()
} | {BASELINE: "base"}
SLICE = "adjectives"
BIAS = "pro - anti, strict parser"
DIFFERENCE = f"pro - anti, minus {BASELINE}"
_LEVEL = 0.05
RESULTS = ("larger", "smaller", "no significant change")
Files = Mapping[str, Path]
Facts = Iterator[ReleasedNumber]


def answers_path(trial: int, side: str, condition: str) -> str:
    """The file with the answers of a trial: a heading, then a word for each of the 395 sentences."""
    return f"completions/trial{trial}/compl_tri{trial}_type1_{side}_{CODES[condition]}.txt.test"


def _words(path: Path, *, heading: bool) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[int(heading) :]


def classes(
    files: Files, trial: int, side: str, condition: str, *, parser: str = "strict"
) -> list[str]:
    """The class of each answer of a trial, shape (395,); ``strict`` is the reading that was published."""
    from swapbias.studies import answers

    correct, incorrect = (_words(files[path], heading=False) for path in KEYS.values())
    words = _words(files[answers_path(trial, side, condition)], heading=True)
    aliases = key_aliases()
    return [
        answers.answer_class(answer, correct=right, incorrect=wrong, parser=parser, aliases=aliases)
        for answer, right, wrong in zip(words, correct, incorrect, strict=True)
    ]


def _bias(files: Files, trial: int, condition: str) -> float:
    """The bias of one trial in percentage points, of accuracies rounded as published."""
    pro, anti = (
        round(100 * classes(files, trial, side, condition).count("correct") / ROWS, 1)
        for side in SIDES
    )
    return round(pro - anti, 1)


def _number(
    subset: str, measure: str, contrast: str, condition: str, value: float
) -> ReleasedNumber:
    """A number of a condition, by the key that the findings of an audit have."""
    return ReleasedNumber(subset, measure, contrast, value, SLICE, condition)


def _facts(trial: int, files: Files) -> Facts:
    """The bias of each condition in a trial, its difference to the baseline, the shares of the answers in percent."""
    subset = f"trial {trial}"
    biases = {condition: _bias(files, trial, condition) for condition in CODES}
    for condition, bias in biases.items():
        yield _number(subset, "answer_bias", BIAS, condition, bias)
        if condition != BASELINE:
            difference = bias - biases[BASELINE]
            yield _number(subset, "bias_difference", DIFFERENCE, condition, difference)
    for (condition, kind), share in _shares(files, trial).items():
        yield _number(subset, "answer_share", kind, condition, share)


def _shares(files: Files, trial: int) -> dict[tuple[str, str], float]:
    """Count the share of each class of answers of a trial, in percent with one decimal as released."""
    from swapbias.measures import CLASSES

    shares = {}
    for condition in CODES:
        for side in SIDES:
            of_side = classes(files, trial, side, condition)
            for name in CLASSES:
                shares[condition, f"{side} {name}"] = round(100 * of_side.count(name) / ROWS, 1)
    return shares


def difference_of_biases(trials: Sequence[float], baseline: Sequence[float]) -> tuple[float, float]:
    """Mean bias of some trials minus the baseline's, of rounded means as published; its one-sided pooled t-test."""
    from swapbias.measures import group_gap
    from swapbias.measures.intervals import t_p

    sides = ["trials"] * len(trials) + [BASELINE] * len(baseline)
    pooled = group_gap([*trials, *baseline], sides, reference_group=BASELINE, test="t")
    difference = round(sum(trials) / len(trials), 1) - round(sum(baseline) / len(baseline), 1)
    return difference, t_p(difference, pooled.std_error, pooled.df) / 2


def result_of(difference: float, p_one_sided: float) -> str:
    """Name the result of an adjective as the authors did: an effect has a p-value below .05.

    Args:
        difference: the bias with the adjective minus the baseline's.
        p_one_sided: the one-sided p-value of the difference.
    """
    if p_one_sided >= _LEVEL:
        return "no significant change"
    return "larger" if difference > 0 else "smaller"


def trial_facts(trials: Sequence[int], subset: str, files: Files) -> Facts:
    """Over several trials: mean biases, differences to the baseline, published p-values, and mean shares of answers.

    As published, and for comparison with what was printed alone: means rounded to one decimal, a pooled t-test over
    the trials' biases, one-sided in the direction that was seen. An audit tests over sentence pairs instead.
    """
    biases = {
        condition: [_bias(files, trial, condition) for trial in trials] for condition in CODES
    }
    results = []
    for condition, of_trials in biases.items():
        yield _number(subset, "answer_bias", BIAS, condition, sum(of_trials) / len(of_trials))
        if condition != BASELINE:
            difference, p_one_sided = difference_of_biases(of_trials, biases[BASELINE])
            yield _number(subset, "bias_difference", DIFFERENCE, condition, difference)
            yield _number(subset, "p_one_sided", DIFFERENCE, condition, p_one_sided)
            results.append(result_of(difference, p_one_sided))
    for result in RESULTS:
        yield ReleasedNumber(subset, "adjective_count", result, float(results.count(result)))
    shares = [_shares(files, trial) for trial in trials]
    for condition, kind in shares[0]:
        mean = sum(of[condition, kind] for of in shares) / len(shares)
        yield _number(subset, "answer_share", kind, condition, mean)


def _files(*trials: int) -> tuple[str, ...]:
    paths = (
        answers_path(trial, side, condition)
        for trial in trials
        for condition in CODES
        for side in SIDES
    )
    return (*KEYS.values(), *paths)


def _nothing(files: Files) -> tuple[()]:
    """No scored rows: what was published are rounded accuracies of trials, which are counted."""
    return ()


def released() -> Iterator[Released]:
    """Each trial by itself, and the five together, whose means were published."""
    whole = partial(Released, model=MODEL, experiment="answers", rows=_nothing)
    for trial in TRIALS:
        yield whole(files=_files(trial), counts=partial(_facts, trial))
    # what two trials give is printed nowhere: it shows how far two go
    for trials in (TRIALS[:2], TRIALS):
        subset = "" if trials == TRIALS else f"mean of trials {trials[0]} and {trials[-1]}"
        yield whole(files=_files(*trials), counts=partial(trial_facts, trials, subset))
