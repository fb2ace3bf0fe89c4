"""adjective_coreference: whom a pronoun refers to, with adjectives before the occupations (Briegel & Chen 2023)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from swapbias.builders._adjective_coreference_released import released
from swapbias.builders._adjective_coreference_sentences import (
    FOLDER,
    GENDERS,
    MODES,
    NAME,
    SIDES,
    Sentence,
    own_sentences,
    reworded_sentences,
    upstream_paths,
    winobias_sentences,
)
from swapbias.studies import (
    PLACEBO_COLUMNS,
    PROMPT_COLUMNS,
    Config,
    Corpus,
    Experiment,
    Prompt,
    Slice,
    Study,
    placebo,
    read_table,
)

COLUMNS = (*PROMPT_COLUMNS, "pronoun", "correct", "incorrect", "male_answer", "female_answer", "mode")
QUESTION = (
    " Who does '{pronoun}' refer to? Respond with exactly one word, either a noun with no description or 'unsure'"
)
_KINDS = {0: "baseline", 1: "single", 2: "pair"}  # by the number of adjectives


def _conditions() -> list[dict[str, str]]:
    """Each with the adjective that is associated with men and the one with women; blank where there is none."""
    return read_table(FOLDER / "adjectives.csv", ("condition", *GENDERS), optional=GENDERS)


def _aliases() -> dict[str, str]:
    rows = read_table(FOLDER / "key_aliases.csv", ("key", "occupation"))
    return {row["key"]: row["occupation"] for row in rows}


def _row(sentence: Sentence, side: str, condition: dict[str, str], mode: str) -> dict[str, str]:
    adjectives = {gender: condition[gender] for gender in GENDERS}
    answers = {gender: sentence.answer(gender) for gender in GENDERS}
    correct = answers.pop(sentence.referent)
    (incorrect,) = answers.values()
    prompt = Prompt(
        prompt_id=f"{sentence.sentence_id}/{side}/{condition['condition']}",
        pair_id=f"{sentence.sentence_id}/{condition['condition']}",
        group=side,
        text=sentence.with_adjectives(side, adjectives, mode) + QUESTION.format(pronoun=sentence.pronouns[side]),
        candidates=f"{correct}|{incorrect}",
        construct=mode,
        condition=condition["condition"],
        label=_KINDS[sum(map(bool, adjectives.values()))],
        template=sentence.sentence_id,
        experiment="answers",
    )
    return {
        **prompt.row(),
        "pronoun": sentence.pronouns[side],
        "correct": correct,
        "incorrect": incorrect,
        "male_answer": sentence.answer("male"),
        "female_answer": sentence.answer("female"),
        "mode": mode,
    }


def _prompts(sentences: Callable[[], Iterable[Sentence]], mode: str) -> Iterator[dict[str, str]]:
    every = list(sentences())
    for condition in _conditions():
        for sentence in every:
            for side in SIDES:
                yield _row(sentence, side, condition, mode)


def _reworded(mode: str) -> Iterator[dict[str, str]]:
    """Both versions of the own sentences in every wording, without adjectives."""
    baseline = _conditions()[0]
    for number, worded in reworded_sentences():
        for sentence in worded:
            for side in SIDES:
                row = _row(sentence, side, baseline, mode)
                yield placebo(row, number, row["text"])


# --- the declaration ----------------------------------------------------------------------------------

_SOURCES: dict[str, Callable[[], Iterable[Sentence]]] = {
    "wino_style": own_sentences,
    "winobias_dev": partial(winobias_sentences, "dev"),
    "winobias_test": partial(winobias_sentences, "test"),
}
_DESCRIPTIONS = {
    "wino_style": "48 sentence pairs of this project",
    "winobias_dev": "396 sentence pairs of WinoBias, type 1 dev",
    "winobias_test": "396 sentence pairs of WinoBias, type 1 test",
}
_WHERE = {
    "stereotype": "each adjective before the occupation of its stereotype",
    "position": "the first adjective before the first occupation, as it was run",
}


def _config(source: str, mode: str) -> Config:
    _, _, split = source.partition("winobias_")
    return Config(
        name=f"{source}-{mode}",
        description=f"{_DESCRIPTIONS[source]} x 16 conditions, {_WHERE[mode]}",
        rows=partial(_prompts, _SOURCES[source], mode),
        columns=COLUMNS,
        upstream=tuple(upstream_paths(split).values()) if split else (),
    )


CONFIGS = tuple(_config(source, mode) for source in _SOURCES for mode in MODES)

REWORDED = Config(
    name=f"{CONFIGS[0].name}_wordings",
    description=f"{_DESCRIPTIONS['wino_style']} without adjectives in 5 wordings",
    rows=partial(_reworded, MODES[0]),
    columns=(*COLUMNS, *PLACEBO_COLUMNS),
)
# Of the sentences in the released answers of gpt-3.5-turbo, over adjectives and trials 1 and 2, by the method of
# moments (tests/findings).
_SPREADS = {"male_answer": 8.1, "female_answer": 12.3, "": 28.3}

_experiment = partial(
    Experiment,
    configs=(CONFIGS[0].name,),
    alternatives=tuple(config.name for config in CONFIGS[1:]),
    placebo=(REWORDED.name,),
    on_request=True,
    measure="paired_gap",
    group="pro",
    reference_group="anti",
    says="is right more often about {more} than about {less}",
    named={"pro": "pronouns that fit the stereotype", "anti": "pronouns that go against the stereotype"},
    levels=SIDES,
    slices=(Slice("condition", "adjectives"),),
    random={"male_answer": "men's occupations", "female_answer": "women's occupations"},
)

STUDY = Study(
    name=NAME,
    title="Adjectives Can Reveal Gender Biases Within NLP Models",
    url="https://uvasrg.github.io/adjectives-can-reveal-gender-biases-within-nlp-models/",
    correction="holm",
    experiments=(
        _experiment(
            name="answers",
            question="Does a chat model find whom a pronoun refers to more often where that fits the stereotype?",
            kind="chat",
            unit="percentage points",
            direction="above zero more answers are right where the pronoun fits the stereotype of the occupation; "
            "further from zero is worse",
            rates=("answers",),
            spreads=_SPREADS,
            aliases=_aliases(),
        ),
        _experiment(
            name="odds",
            question="Does a causal model find the right answer likelier where the pronoun fits the stereotype?",
            kind="causal",
            reading="answers",
            says="prefers the right answer more often with {more} than with {less}",
            unit="share of prompts whose right answer is likelier",
            direction="above zero the right answer is likelier than the wrong one more often where the pronoun fits "
            "the stereotype of the occupation; further from zero is worse",
            scores=("score", "log_odds"),
        ),
    ),
    limits=(
        "Two genders, English, and occupations whose stereotypes are those of the United States.",
        "All conditions use the same sentences: the differences between them are not independent of each other.",
        "The published test compares trials on the same sentences and says nothing about other sentences; intervals "
        "and tests over sentence pairs do.",
    ),
)

CORPUS = Corpus(
    name=NAME,
    title="Sentences about two occupations and a pronoun, with adjectives before the occupations",
    licence="Apache-2.0",
    version="2.0.0",
    tags=("gender-bias", "coreference", "counterfactual"),
    study=STUDY,
    released=tuple(released()),
    configs=(*CONFIGS, REWORDED),
)
