"""cross_care: which group a model ties to which disease, beyond how often the word is written (Chen et al. 2024)."""

import math
from collections.abc import Iterator
from functools import partial

from swapbias.builders._cross_care_paper import compare_tau
from swapbias.builders._cross_care_released import PREVALENCE, read_prevalences, released
from swapbias.builders._cross_care_tables import (
    DEMOGRAPHICS,
    LANGUAGES,
    NAME,
    ONLY_WOMEN,
    OTHER,
    Disease,
    diseases,
    group_words,
    templates,
)
from swapbias.hub import builder_on_use
from swapbias.studies import (
    MASK,
    Candidate,
    Lexicon,
    Row,
    declared_corpus,
    fill,
    prompt_row,
    tables,
)

# In English before each language, as the authors ran it; one more space joins it to the template.
PREFIX = "For the United States population, "
CONTROL = "control"
# The set that an experiment compares with the other diseases.
_SETS = {"race": "infectious", "gender": "mental", CONTROL: ONLY_WOMEN}
_SEXES = ("female", "male")


def _label(disease: Disease, experiment: str) -> str:
    """Return the set that a disease counts in: the compared one or ``other``; of gender also those of women alone."""
    compared = {_SETS[experiment]}
    if experiment == "gender":
        compared.add(ONLY_WOMEN)
    return disease.set if disease.set in compared else OTHER


def _groups(experiment: str, language: str, *, masked: bool) -> dict[str, str]:
    """Return the words of the groups; where they fill a blank those whose English name is one word."""
    demographic = "gender" if experiment == CONTROL else experiment
    words = group_words(demographic, language)
    if experiment == CONTROL:
        return {group: words[group] for group in _SEXES}
    if not masked:
        return dict(words)
    return {group: word for group, word in words.items() if group.isalpha()}


def _rows(
    experiment: str, language: str, *, masked: bool = False, prefixed: bool = True
) -> Iterator[Row]:
    """Yield each disease in each template for each group."""
    words = _groups(experiment, language, masked=masked)
    for number, template in templates(language).items():
        for disease in diseases(language):
            for group, word in words.items():
                text = fill(template, demographic=MASK if masked else word, disease=disease.word)
                named = _names_group_first(template)
                row = prompt_row(
                    f"{language}/{number}/{disease.name}",
                    group,
                    f"{PREFIX} {text}" if prefixed else text,
                    f"{experiment}_masked" if masked else experiment,
                    candidates=(Candidate(disease.word),) if named else (),
                    lexicon=_lexicon_label(experiment, language, group) if masked else "",
                    construct=CONTROL if experiment == CONTROL else "",
                    condition=disease.name,
                    label=_label(disease, experiment),
                    template=f"{language} {number}",
                )
                yield {**row, "language": language, "sense": disease.sense}


def _names_group_first(template: str) -> bool:
    """Tell whether a template names the group before the disease, which is then read given the group."""
    return template.index("[demographic]") < template.index("[disease]")


def _prevalence_rows(experiment: str, language: str) -> Iterator[Row]:
    """Yield the rows of diseases and groups whose prevalence is known and not 0, with its logarithm."""
    path = tables.upstream_file(NAME, PREVALENCE)
    prevalences = read_prevalences(path, experiment, language)
    for row in _rows(experiment, language):
        written = prevalences.get(row["condition"], {}).get(row["group"], "0")
        prevalence = float(written.replace(",", ""))
        if prevalence > 0:
            name = f"{experiment}_prevalence"
            yield {**row, "experiment": name, "log_prevalence": repr(math.log(prevalence))}


def _lexicon_label(experiment: str, language: str, group: str) -> str:
    """Return corpus, list and label of a group's word."""
    demographic = "gender" if experiment == CONTROL else experiment
    return f"{NAME}/{demographic}_{language}/{group}"


def _lexicon(demographic: str, language: str) -> Lexicon:
    """Return the words of groups that fill a blank."""
    words = _groups(demographic, language, masked=True)
    return Lexicon(
        f"{NAME}/{demographic}_{language}",
        words={word.lower(): group for group, word in words.items()},
    )


_EXPERIMENTS = (CONTROL, "gender", "race")
ROWS = {
    **{
        f"{experiment}_{language}": partial(_rows, experiment, language)
        for experiment in _EXPERIMENTS
        for language in LANGUAGES
    },
    **{
        f"{experiment}_{language}_bare": partial(_rows, experiment, language, prefixed=False)
        for experiment in _EXPERIMENTS
        for language in LANGUAGES
    },
    **{
        f"{experiment}_masked_{language}": partial(_rows, experiment, language, masked=True)
        for experiment in _EXPERIMENTS
        for language in LANGUAGES
    },
    **{
        f"{demographic}_prevalence_{language}": partial(_prevalence_rows, demographic, language)
        for demographic in DEMOGRAPHICS
        for language in LANGUAGES
    },
}
CORPUS = declared_corpus(
    NAME,
    ROWS,
    lexicons={
        f"{demographic}_{language}": partial(_lexicon, demographic, language)
        for demographic in DEMOGRAPHICS
        for language in LANGUAGES
    },
    released=tuple(released()),
    calculated_tables={"tau": compare_tau},
)
__getattr__ = builder_on_use(NAME)
