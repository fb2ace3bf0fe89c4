"""What the authors of cross_care released: log-probabilities of repeating each token, which are no likelihoods.

Two published numbers are recomputed as they were computed, also where that is not what they are called: of how many
diseases a group has the largest number, and Kendall's tau of the order of groups with that of prevalences.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

from swapbias.builders._cross_care_tables import (
    FIRST_TEMPLATES,
    NAME,
    ONLY_WOMEN,
    diseases,
    english_names,
    group_words,
)
from swapbias.studies import Released, tables
from swapbias.studies.published import ReleasedNumber

_SCORES = "logits_results/hf/output_pile/american_context/"
PREVALENCE = "propagation_eval/real_world_data/cross_care_demo_real.csv"
_RENAMED = {"covid-19": "2019 novel coronavirus"}
# By disease the mean of each group over templates.
Means = Mapping[str, Mapping[str, float]]


def released() -> Iterator[Released]:
    """Yield the outputs of every model, demographic and language whose files are pinned."""
    for path in sorted(tables.pinned_files(NAME)):
        if not path.startswith(_SCORES):
            continue
        folder, _, file = path.removeprefix(_SCORES).partition("/")
        demographic, language = file.removesuffix(".json").split("_")[1:]
        yield Released(
            model=folder.replace("_", "/", 1),
            experiment=demographic,
            files=(path, PREVALENCE),
            rows=lambda files: (),
            counts=partial(_numbers, path, demographic, language),
        )


def _numbers(
    path: str, demographic: str, language: str, files: Mapping[str, Path]
) -> Iterator[ReleasedNumber]:
    """Yield the numbers that a file of scores gives."""
    means = read_means(files[path], demographic, language)
    for group in group_words(demographic, language):
        first = sum(
            max(of_groups, key=of_groups.__getitem__) == group for of_groups in means.values()
        )
        yield ReleasedNumber(language, "count", f"{group} first of {len(means)}", float(first))
    prevalences = read_prevalences(files[PREVALENCE], demographic, language)
    pairs = [(means[disease], shares) for disease, shares in prevalences.items()]
    published = np.mean([tau_as_published(*pair) for pair in pairs])
    right = np.mean([tau(*pair) for pair in pairs])
    yield ReleasedNumber(language, "tau", "mean tau as published", float(published))
    yield ReleasedNumber(language, "tau", "mean tau of values", float(right))
    if demographic == "gender":
        yield _control(means, language)


def read_means(path: Path, demographic: str, language: str) -> Means:
    """Read the mean of each group over the first templates, of the diseases that published numbers use.

    Args:
        path: a file of scores: by disease its groups, each with a number for each template.
        demographic: ``race`` or ``gender``.
        language: its code.

    Raises:
        ValueError: a word that is no disease or group, or too few templates.
    """
    names = english_names(language)
    groups = {word: group for group, word in group_words(demographic, language).items()}
    kept = {disease.name for disease in diseases(language)}
    means: dict[str, dict[str, float]] = {}
    for word, of_groups in json.loads(path.read_text(encoding="utf-8")).items():
        if word not in names:
            raise ValueError(f"{path.name}: {word!r} is no disease of {NAME}/diseases.csv.")
        if names[word] in kept:
            means[names[word]] = dict(_group_means(path.name, of_groups, groups))
    return means


def _group_means(
    file: str, of_groups: Sequence[Sequence], groups: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    """Yield the mean of each group over the first templates."""
    for word, scores in of_groups:
        if word not in groups:
            raise ValueError(f"{file}: {word!r} is no group of {NAME}/groups.csv.")
        if len(scores) < len(FIRST_TEMPLATES):
            raise ValueError(
                f"{file}: {len(scores)} numbers of {word!r}, expected {len(FIRST_TEMPLATES)} templates."
            )
        yield groups[word], float(np.mean(scores[: len(FIRST_TEMPLATES)]))


def read_prevalences(path: Path, demographic: str, language: str) -> dict[str, dict[str, str]]:
    """Read prevalences as the table writes them, by disease and group, of groups that it has.

    Args:
        path: the authors' table.
        demographic: ``race`` or ``gender``.
        language: the code of a language, for the groups.
    """
    groups = group_words(demographic, language)
    return {
        _RENAMED.get(row["disease"], row["disease"]): {
            group: row[group] for group in groups if group in row
        }
        for row in tables.csv_rows(path)
    }


def tau_as_published(of_groups: Mapping[str, float], shares: Mapping[str, str]) -> float:
    """Compute tau as the released code does: prevalences in the order of texts, and names compared by alphabet.

    Args:
        of_groups: the mean score of each group.
        shares: the prevalence in each group as the table writes it, with commas.
    """
    by_prevalence = sorted(shares, key=shares.__getitem__, reverse=True)
    by_score = sorted(shares, key=of_groups.__getitem__, reverse=True)
    alphabet = sorted(shares)
    ranks = [[alphabet.index(group) for group in order] for order in (by_score, by_prevalence)]
    return float(stats.kendalltau(*ranks).statistic)


def tau(of_groups: Mapping[str, float], shares: Mapping[str, str]) -> float:
    """Compute tau of the groups' numbers with their prevalences.

    Args:
        of_groups: the mean score of each group.
        shares: the prevalence in each group as the table writes it, with commas.
    """
    numbers = [float(share.replace(",", "")) for share in shares.values()]
    scores = [of_groups[group] for group in shares]
    return float(stats.kendalltau(scores, numbers).statistic)


def _control(means: Means, language: str) -> ReleasedNumber:
    """Return by how much female exceeds male at diseases of women alone, less the same at the others."""
    only_women = {disease.name for disease in diseases(language) if disease.set == ONLY_WOMEN}
    gaps = {
        disease: of_groups["female"] - of_groups["male"] for disease, of_groups in means.items()
    }
    of_women = np.mean([gap for disease, gap in gaps.items() if disease in only_women])
    of_others = np.mean([gap for disease, gap in gaps.items() if disease not in only_women])
    contrast = "female - male, diseases of women alone less others (control)"
    return ReleasedNumber(language, "mean", contrast, float(of_women - of_others))
