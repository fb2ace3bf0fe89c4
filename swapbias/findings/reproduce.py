"""Recompute published numbers from the authors' released outputs, with the package's own measures."""

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import pandas as pd

from swapbias.errors import UpstreamMissingError
from swapbias.findings.analysis import disaggregate
from swapbias.findings.finding import Finding
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures import MEASURES, Estimate
from swapbias.studies import (
    Corpus,
    Released,
    Study,
    load_corpus,
    load_study,
    paper_models,
    published as paper_numbers,
    tables,
)

_NAMED_BY_MEASURE = ("flip_rate", "tprr", "fprr", "macro_f1")  # of one contrast all
_REASON = "not compared: "  # how the note of a number begins that nothing can recompute


@dataclass(frozen=True, slots=True)
class Reproduced:
    """One published number beside the recomputed one."""

    study: str
    """Name of the study."""
    model: str
    """The model whose released outputs it was recomputed from."""
    cell: tuple[str, ...]
    """What it is of: ``Finding.key`` and the quantity."""
    number: str
    """The number in words, as ``describe`` names it."""
    published: str
    """The number as it was printed; blank where no paper prints it."""
    recomputed: float
    """The number recomputed."""
    match: str
    """``yes`` (equal to the last printed decimal), ``no``, ``explained`` (different, with a written explanation in
    ``note``: a fault of the paper's own, or a run that was corrected after it was printed), or blank: a number that
    no paper prints."""
    file: str
    """The released files it was recomputed from."""
    source: str
    """Where the number was printed."""
    note: str
    """The explanation of a difference; blank for none."""
    origin: str = ""
    """``printed``, ``recomputed`` or ``bound``; blank where no paper prints it."""
    is_second: bool = False
    """Whether other outputs were compared with the same number before, which is counted once."""


@dataclass(frozen=True, slots=True)
class NotAtHand:
    """Released outputs that could not be read."""

    study: str
    """Name of the study."""
    model: str
    """The model that they are of."""
    experiment: str
    """The experiment that they are of."""
    reason: str
    """Why they could not be read."""


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A published number that nothing recomputes."""

    study: str
    """Name of the study."""
    model: str
    """The model that it is of."""
    number: str
    """The number in words, as ``describe`` names it."""
    published: str
    """The number as it was printed."""
    origin: str
    """``printed``, ``recomputed`` or ``bound``."""
    reason: str
    """Why nothing recomputes it."""


def recompute(study_name: str) -> Iterator[Reproduced | NotAtHand | NotCompared]:
    """Yield every published number of a study beside its recomputed one, and what no paper prints beside it.

    Args:
        study_name: the name of the study.

    Returns:
        Numbers in the order of the released outputs, then published ones that nothing recomputes; outputs that are
        missing are named.

    Raises:
        UsageError: unknown study.
        ValueError: a file is there but is not the pinned one, or is not of the released shape.
    """
    study = load_study(study_name)
    corpus = load_corpus(study_name)
    compared: set[tuple[str, ...]] = set()
    absent: set[str] = set()
    for result in _recompute_released(study, corpus):
        model = _paper_name(study.name, result.model)
        if isinstance(result, NotAtHand):
            absent.add(model)
            yield result
            continue
        cell = (model, *result.cell)
        yield replace(result, is_second=bool(result.published) and cell in compared)
        if result.published:
            compared.add(cell)
    yield from _not_compared(corpus, compared, absent)


def _recompute_released(study: Study, corpus: Corpus) -> Iterator[Reproduced | NotAtHand]:
    """Yield what each of the released outputs gives, or that it is missing."""
    for released in corpus.released:
        try:
            findings, facts = _recompute_findings(study, corpus, released)
        except UpstreamMissingError as error:
            yield NotAtHand(study.name, released.model, released.experiment, str(error))
            continue
        files = _name_files(released)
        published_keys = {finding.key() for finding in findings if finding.view == AS_PUBLISHED}
        for finding in findings:
            # The paper's numbers are by its statistic, where it has one.
            if finding.view == AS_PUBLISHED or finding.key() not in published_keys:
                yield from _reproduce_finding(
                    released, finding, files, is_answer=_is_answer(finding)
                )
        for fact in facts:
            yield from _reproduce_finding(released, fact, files, is_answer=True)


def _paper_name(study: str, model_id: str) -> str:
    """Return the name of a model in ``published.csv``; its own where the paper has no such model."""
    model = paper_models.find_model(study, model_id)
    return model.model if model else model_id


def _not_compared(
    corpus: Corpus, compared: Container[tuple[str, ...]], absent: Container[str]
) -> Iterator[NotCompared]:
    """Yield each published number that is not among the compared ones, with the reason."""
    released = {_paper_name(corpus.name, outputs.model) for outputs in corpus.released}
    listed: set[tuple[str, ...]] = set()
    for row in paper_numbers.published_rows(corpus.name):
        model = row["model"]
        for quantity in paper_numbers.QUANTITIES:
            cell = (model, *(row[column] for column in paper_numbers.KEY), quantity)
            if not row[quantity] or cell in compared or cell in listed:
                continue
            listed.add(cell)
            if row["note"].startswith(_REASON):
                reason = row["note"].removeprefix(_REASON)
            elif model in absent:
                reason = "its released outputs were not found"
            elif model not in released:
                reason = "its outputs were not released"
            else:
                reason = "no released output gives it"
            number = _describe_key(row, quantity)
            yield NotCompared(corpus.name, model, number, row[quantity], row["origin"], reason)


def _name_files(released: Released) -> str:
    """Return the names of released files, of more than three the first and the number of the others."""
    names = [path.rsplit("/", 1)[-1] for path in released.files]
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def _recompute_findings(
    study: Study, corpus: Corpus, released: Released
) -> tuple[list[Finding], list[Finding]]:
    """Return the findings of released outputs, and the facts of them that are no comparison of groups."""
    files = {path: tables.upstream_file(corpus.name, path) for path in released.files}
    rows = [{**row, "model_id": released.model} for row in released.rows(files)]
    findings = disaggregate(pd.DataFrame(rows), study, robustness=False) if rows else []
    if not released.counts:
        return findings, []
    published = paper_models.published_for(study.name, released.model)
    facts = []
    for number in released.counts(files):
        fact = Finding(
            study=study.name,
            experiment=released.experiment,
            model_id=released.model,
            measure=number.measure,
            contrast=number.contrast,
            subset=number.subset,
            slice_by=number.slice_by,
            slice_value=number.slice_value,
            unit="count",
            estimate=Estimate(number.value),
        )
        # Some counts are in no paper.
        facts.append(replace(fact, published=published.get(fact.key())))
    return findings, facts


def _is_answer(finding: Finding) -> bool:
    """Tell whether a finding is a gap or a mean of all rows."""
    is_whole = finding.score == "score" and finding.slice_by == "all"
    return is_whole and (finding.measure == "mean" or MEASURES[finding.measure].gap_span > 0)


def _reproduce_finding(
    released: Released,
    finding: Finding,
    file: str,
    *,
    is_answer: bool,
) -> Iterator[Reproduced]:
    """Yield each printed quantity of a finding (of a corrected run those that differ), and unprinted answers."""
    published = finding.published or paper_numbers.Published()
    for quantity in paper_numbers.QUANTITIES:
        printed = getattr(published, quantity)
        recomputed = getattr(finding.estimate, quantity)
        is_unprinted_answer = is_answer and quantity == "value" and finding.published is None
        if not printed and not is_unprinted_answer:
            continue
        match = _match(published, quantity, recomputed)
        note = published.note
        if released.note and match == "yes":
            continue
        is_corrected = finding.slice_by == "all" or finding.slice_value in released.corrected
        if released.note and match and is_corrected:
            match = "explained"
            note = released.note
        yield Reproduced(
            study=finding.study,
            model=finding.model_id,
            cell=(*finding.key(), quantity),
            number=describe(finding, quantity),
            published=printed,
            recomputed=recomputed,
            match=match,
            file=file,
            source=published.source,
            note=note,
            origin=getattr(published, f"{quantity}_origin"),
        )


def _match(published: paper_numbers.Published, quantity: str, recomputed: float) -> str:
    """Return whether a recomputed quantity agrees with the printed one: yes, explained, no; blank where none is."""
    printed = getattr(published, quantity)
    if not printed:
        return ""
    if agrees(printed, recomputed):
        return "yes"
    is_explained = published.recomputed and published.note and quantity == "value"
    if is_explained and agrees(published.recomputed, recomputed):
        return "explained"
    return "no"


def agrees(printed: str, recomputed: float) -> bool:
    """Tell whether a number rounds to what was printed, to its last decimal, or lies within a printed bound.

    >>> agrees("0.3206", 0.32064), agrees("0.3206", 0.32066), agrees("2.7e-5", 2.71e-5)
    (True, False, True)
    >>> agrees("<0.01", 0.009), agrees("<0.01", 0.01), agrees(">0.5", 0.6)
    (True, False, True)

    Args:
        printed: a decimal number as text, behind ``<`` or ``>`` where it is a bound.
        recomputed: the number; NaN agrees with nothing.
    """
    if math.isnan(recomputed):
        return False
    if printed.startswith("<"):
        return recomputed < float(printed[1:])
    if printed.startswith(">"):
        return recomputed > float(printed[1:])
    number = Decimal(printed)
    half_unit = 0.5 * 10.0 ** int(number.as_tuple().exponent)
    return abs(float(number) - recomputed) <= half_unit * (1 + 1e-6)


def describe(finding: Finding, quantity: str) -> str:
    """Return one finding's quantity in words, e.g. ``rq1 mental_health: female - male by phase=action, effect_size``.

    Args:
        finding: any finding, or a fact of released outputs.
        quantity: ``value``, ``p_value`` or ``effect_size``.
    """
    key = dict(zip(paper_numbers.KEY, finding.key(), strict=True))
    return _describe_key(key, quantity)


def _describe_key(key: Mapping[str, str], quantity: str) -> str:
    """Return a quantity of what a finding's key says in words."""
    subset = f" {key['subset']}" if key["subset"] else ""
    # Facts have names of their own.
    kind = MEASURES[key["measure"]].prefix if key["measure"] in MEASURES else ""
    if key["measure"] in _NAMED_BY_MEASURE:
        kind = f"{key['measure']} "
    by_slice = "" if key["slice_by"] == "all" else f" by {key['slice_by']}"
    value = f"={key['slice_value']}" if key["slice_value"] else ""
    return f"{key['experiment']}{subset}: {kind}{key['contrast']}{by_slice}{value}, {quantity}"
