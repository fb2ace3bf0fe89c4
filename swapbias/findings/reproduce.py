"""Recompute published numbers from the authors' released outputs, with the package's own measures."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import pandas as pd

from swapbias.errors import UpstreamMissingError
from swapbias.findings.analysis import disaggregate
from swapbias.findings.finding import Finding
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures import MEASURES, Estimate
from swapbias.studies import Corpus, Released, Study, load_corpus, load_study, tables


@dataclass(frozen=True, slots=True)
class Reproduced:
    """One published number beside the recomputed one.

    ``match`` is ``yes`` (equal to the last printed decimal), ``no``, ``explained`` (different, with a written
    explanation in ``note``: a fault of the paper's own, or a run that was corrected after it was printed), or blank:
    a number that no paper prints.
    """

    study: str
    model: str
    number: str
    published: str
    recomputed: float
    match: str
    file: str
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class NotAtHand:
    """Released outputs that could not be read, and why."""

    study: str
    model: str
    experiment: str
    reason: str


def recompute(study_name: str) -> Iterator[Reproduced | NotAtHand]:
    """Every published number of a study, and what no paper prints beside it; released outputs not at hand are named.

    Raises:
        UsageError: unknown study.
        ValueError: a file is there but is not the pinned one, or is not of the released shape.
    """
    study = load_study(study_name)
    corpus = load_corpus(study_name)
    if not corpus.released and tables.published_rows(study_name):
        yield NotAtHand(
            study.name, "every model", "outputs", "its authors released none to recompute from"
        )
    for released in corpus.released:
        try:
            found, counted = _recomputed(study, corpus, released)
        except UpstreamMissingError as error:
            yield NotAtHand(study.name, released.model, released.experiment, str(error))
            continue
        names = [path.rsplit("/", 1)[-1] for path in released.files]
        files = ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
        own = {finding.key() for finding in found if finding.view == AS_PUBLISHED}
        for finding in found:
            if (
                finding.view == AS_PUBLISHED or finding.key() not in own
            ):  # the paper's numbers are by its statistic
                yield from _reproduced(released, finding, files)
        for finding in counted:
            yield from _reproduced(released, finding, files, is_answer=True)


def _recomputed(
    study: Study, corpus: Corpus, released: Released
) -> tuple[list[Finding], list[Finding]]:
    """The findings of released outputs, and the facts of them that are no comparison of groups."""
    files = {path: tables.upstream_file(corpus.name, path) for path in released.files}
    rows = [{**row, "model_id": released.model} for row in released.rows(files)]
    found = disaggregate(pd.DataFrame(rows), study, robustness=False) if rows else []
    known = tables.published_for(study.name, released.model)
    facts = []
    for subset, measure, contrast, number in released.counts(files) if released.counts else ():
        counted = Finding(
            study=study.name,
            experiment=released.experiment,
            model_id=released.model,
            measure=measure,
            contrast=contrast,
            subset=subset,
            unit="count",
            estimate=Estimate(number),
        )
        facts.append(
            replace(counted, published=known.get(counted.key()))
        )  # some counts are in no paper
    return found, facts


def _is_answer(finding: Finding) -> bool:
    """Whether a finding is a gap or a mean of all rows."""
    is_whole = finding.score == "score" and finding.slice_by == "all"
    return is_whole and (finding.measure == "mean" or MEASURES[finding.measure].gap_span > 0)


def _reproduced(
    released: Released, finding: Finding, file: str, *, is_answer: bool | None = None
) -> Iterator[Reproduced]:
    """Each printed quantity of a finding, of a corrected run what differs alone; what no paper prints of answers."""
    published = finding.published or tables.Published()
    answers = _is_answer(finding) if is_answer is None else is_answer
    for quantity in ("value", "p_value", "effect_size"):
        printed = getattr(published, quantity)
        recomputed = getattr(finding.estimate, quantity)
        note = published.note
        if not printed and (finding.published or quantity != "value" or not answers):
            continue
        known = (
            published.recomputed
            and quantity == "value"
            and agrees(published.recomputed, recomputed)
        )
        match = (
            ""
            if not printed
            else "yes"
            if agrees(printed, recomputed)
            else "explained"
            if known and note
            else "no"
        )
        if released.note and match == "yes":
            continue
        if (
            released.note
            and match
            and (finding.slice_by == "all" or finding.slice_value in released.corrected)
        ):
            match = "explained"
            note = released.note
        yield Reproduced(
            finding.study,
            finding.model_id,
            describe(finding, quantity),
            printed,
            recomputed,
            match,
            file,
            published.source,
            note,
        )


def agrees(printed: str, recomputed: float) -> bool:
    """Whether a number rounds to what was printed, to its last decimal.

    >>> agrees("0.3206", 0.32064), agrees("0.3206", 0.32066), agrees("2.7e-5", 2.71e-5)
    (True, False, True)
    """
    if math.isnan(recomputed):
        return False
    number = Decimal(printed)
    half_unit = 0.5 * 10.0 ** int(number.as_tuple().exponent)
    return abs(float(number) - recomputed) <= half_unit * (1 + 1e-6)


def describe(finding: Finding, quantity: str) -> str:
    """One finding's quantity in words, e.g. ``rq1 mental_health: female - male by phase=action, effect_size``."""
    where = "" if finding.slice_by == "all" else f" by {finding.slice_by}"
    where += f"={finding.slice_value}" if finding.slice_value else ""
    kind = (
        MEASURES[finding.measure].prefix if finding.measure in MEASURES else ""
    )  # facts have names of their own
    subset = f" {finding.subset}" if finding.subset else ""
    return f"{finding.experiment}{subset}: {kind}{finding.contrast}{where}, {quantity}"
