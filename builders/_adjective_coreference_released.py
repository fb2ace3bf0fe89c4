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
MEAN = f"mean of {len(TRIALS)} trials"
_LEVEL = 0.05
RESULTS = ("larger", "smaller", "no significant change")
Files = Mapping[str, Path]
Fact = tuple[str, str, str, float]


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


def _facts(trial: int, files: Files) -> Iterator[Fact]:
    """The bias of each condition in a trial, its difference to the baseline, the shares of the answers in percent."""
    biases = {condition: _bias(files, trial, condition) for condition in CODES}
    for condition, bias in biases.items():
        yield f"trial {trial}", "answer_bias", condition, bias
        if condition != BASELINE:
            yield f"trial {trial}", "bias_difference", condition, bias - biases[BASELINE]
    for kind, share in _shares(files, trial).items():
        yield f"trial {trial}", "answer_share", kind, share


def _shares(files: Files, trial: int) -> dict[str, float]:
    """Count the share of each class of answers of a trial, in percent with one decimal as released."""
    from swapbias.measures import CLASSES

    shares = {}
    for condition in CODES:
        for side in SIDES:
            of_side = classes(files, trial, side, condition)
            for name in CLASSES:
                shares[f"{condition}: {side} {name}"] = round(100 * of_side.count(name) / ROWS, 1)
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


def trial_facts(trials: Sequence[int], subset: str, files: Files) -> Iterator[Fact]:
    """Over several trials: mean biases, differences to the baseline, published p-values, and mean shares of answers.

    As published, and for comparison with what was printed alone: means rounded to one decimal, a pooled t-test over
    the trials' biases, one-sided in the direction that was seen. An audit tests over sentence pairs instead.
    """
    biases = {
        condition: [_bias(files, trial, condition) for trial in trials] for condition in CODES
    }
    results = []
    for condition, of_trials in biases.items():
        yield subset, "answer_bias", condition, sum(of_trials) / len(of_trials)
        if condition != BASELINE:
            difference, p_one_sided = difference_of_biases(of_trials, biases[BASELINE])
            yield subset, "bias_difference", condition, difference
            yield subset, "p_one_sided", condition, p_one_sided
            results.append(result_of(difference, p_one_sided))
    for result in RESULTS:
        yield subset, "adjective_count", result, float(results.count(result))
    shares = [_shares(files, trial) for trial in trials]
    for kind in shares[0]:
        yield subset, "answer_share", kind, sum(of[kind] for of in shares) / len(shares)


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
        subset = MEAN if trials == TRIALS else f"mean of trials {trials[0]} and {trials[-1]}"
        yield whole(files=_files(*trials), counts=partial(trial_facts, trials, subset))
