"""adjective_coreference: whom a pronoun refers to, with adjectives before the occupations (Briegel & Chen 2023)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from swapbias.builders._adjective_coreference_released import key_aliases, released
from swapbias.builders._adjective_coreference_sentences import (
    GENDERS,
    MODES,
    NAME,
    SIDES,
    Sentence,
    conditions,
    own_sentences,
    reworded_sentences,
    upstream_paths,
    winobias_sentences,
)
from swapbias.studies import (
    PLACEBO_COLUMNS,
    PROMPT_COLUMNS,
    Candidate,
    Config,
    Corpus,
    declared_study,
    placebo,
    prompt_row,
)

_MORE = ("pronoun", "correct", "incorrect", "male_answer", "female_answer", "mode")
COLUMNS = (*PROMPT_COLUMNS, *_MORE)
QUESTION = (
    " Who does '{pronoun}' refer to? Respond with exactly one word, either a noun with no description or 'unsure'"
)
_KINDS = {0: "baseline", 1: "single", 2: "pair"}  # by the number of adjectives


def _row(sentence: Sentence, side: str, condition: dict[str, str], mode: str) -> dict[str, str]:
    adjectives = {gender: condition[gender] for gender in GENDERS}
    answers = {gender: sentence.answer(gender) for gender in GENDERS}
    correct = answers.pop(sentence.referent)
    (incorrect,) = answers.values()
    text = sentence.with_adjectives(side, adjectives, mode) + QUESTION.format(pronoun=sentence.pronouns[side])
    row = prompt_row(
        f"{sentence.sentence_id}/{condition['condition']}", side, text, "answers",
        prompt_id=f"{sentence.sentence_id}/{side}/{condition['condition']}",
        candidates=(Candidate(correct, 1.0), Candidate(incorrect, 0.0)),
        construct=mode, condition=condition["condition"], label=_KINDS[sum(map(bool, adjectives.values()))],
        template=sentence.sentence_id,
    )  # fmt: skip
    more = (sentence.pronouns[side], correct, incorrect, sentence.answer("male"), sentence.answer("female"), mode)
    return {**row, **dict(zip(_MORE, more, strict=True))}


def _prompts(sentences: Callable[[], Iterable[Sentence]], mode: str) -> Iterator[dict[str, str]]:
    every = list(sentences())
    for condition in conditions():
        for sentence in every:
            for side in SIDES:
                yield _row(sentence, side, condition, mode)


def _reworded(mode: str) -> Iterator[dict[str, str]]:
    """Both versions of the own sentences in every wording, without adjectives."""
    baseline = conditions()[0]
    for number, worded in reworded_sentences():
        for sentence in worded:
            for side in SIDES:
                row = _row(sentence, side, baseline, mode)
                yield placebo(row, number, row["text"])


# --- the declaration ----------------------------------------------------------------------------------

_WINOBIAS = "396 sentence pairs of WinoBias, type 1"
_SOURCES: dict[str, tuple[str, Callable[[], Iterable[Sentence]], tuple[str, ...]]] = {
    "wino_style": ("48 sentence pairs of this project", own_sentences, ()),
    **{
        f"winobias_{split}": (
            f"{_WINOBIAS} {split}", partial(winobias_sentences, split), tuple(upstream_paths(split).values()),
        )
        for split in ("dev", "test")
    },
}  # fmt: skip
_WHERE = {
    "stereotype": "each adjective before the occupation of its stereotype",
    "position": "the first adjective before the first occupation, as it was run",
}


def _config(source: str, mode: str) -> Config:
    what, sentences, upstream = _SOURCES[source]
    rows, description = partial(_prompts, sentences, mode), f"{what} x 16 conditions, {_WHERE[mode]}"
    return Config(f"{source}-{mode}", description, rows, COLUMNS, upstream=upstream)


CONFIGS = tuple(_config(source, mode) for source in _SOURCES for mode in MODES)
REWORDED = Config(
    f"{CONFIGS[0].name}_wordings",
    f"{_SOURCES['wino_style'][0]} without adjectives in 5 wordings",
    partial(_reworded, MODES[0]),
    (*COLUMNS, *PLACEBO_COLUMNS),
)


STUDY = declared_study(NAME, aliases=key_aliases())

CORPUS = Corpus(
    name=NAME,
    title="Sentences about two occupations and a pronoun, with adjectives before the occupations",
    version="3.0.0",
    tags=("gender-bias", "coreference", "counterfactual"),
    study=STUDY,
    released=tuple(released()),
    configs=(*CONFIGS, REWORDED),
)
