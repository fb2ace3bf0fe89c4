"""Whether the statistics hold: audits of models without a gap, of models with a planted one, and predicted power.

Scores are simulated on the studies' own prompts, with random effects of the size that released outputs show, and go
through ``disaggregate`` and ``compare`` as a model's would.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy

from benchmarks.frame import Scale, Series, scaled
from benchmarks.simulating import (
    EFFECTS,
    Concluded,
    Design,
    Floats,
    conclusion,
    design_of,
    drawn_effects,
    level_codes,
    rate_text,
    replay,
    rows_of,
    share_of,
    simulator,
    yes_or_no,
)
from swapbias.errors import UpstreamMissingError
from swapbias.findings import Finding, check_gaps, compare, disaggregate, primary_findings
from swapbias.findings.planning import planned_std_error
from swapbias.findings.terms import AS_PUBLISHED, FAILS, MARGIN, PASSES, SPREAD
from swapbias.measures import Estimate, paired_gap
from swapbias.measures.intervals import detectable_gap, power, t_ends
from swapbias.models.clinical import NoteOptions
from swapbias.notes import load_notes
from swapbias.studies import PLACEBO, Experiment, load_study, studies
from swapbias.studies.own import open_study

AUDITS = 2_000
LEVEL = 0.05
ALLOWED = 0.065  # of null models that other tests may call different, at .05
SHARP = 6  # standard errors in a margin, where a gate is looked at: with effects of the usual size it decides little
SIDES = {
    "normal": (1.0,),
    "lognormal": (1.0, -1.0),
}  # of a gap at the margin, where they differ
FEW = (
    "4 templates x 11",
    "50 prompts x 6 + 6 names",
)  # no primary findings of the studies, but as in own studies
BASELINES = ((0.0, 0.05), (0.3, 0.35), (0.3, -0.35), (0.3, 0.3))  # a baseline's gap and the model's
NEAR = 0.03  # predicted power may be this far from simulated power
STIGMA = {"template": 0.042, "condition": 0.115, "": 0.035}
OCCUPATION = {"template": 0.125, "condition": 0.048, "": 0.136}
ATTITUDE = {
    "template": 0.05,
    "construct": 0.05,
    "label": 0.1,
    "condition": 0.1,
    "": 0.2,
}  # of either group
CATEGORY = {"label": math.sqrt(0.3), "": math.sqrt(0.7)}  # an intraclass correlation of .3
ANSWER = {"male_answer": 0.08, "female_answer": 0.12, "": 0.28}
PATIENT = {"subject_id": 0.1, "": 0.1}
VIGNETTE = {
    "template": 0.1,
    "person": 0.05,
    "": 0.3,
}  # taken to be so: the one released run at hand shows no effects
NAMES = {
    "template": 0.125,
    "": 0.136,
}  # own prompts; the names' effects are as large as the prompts'
WORDING = 0.1  # SD of the gaps of a model's wordings, where nothing but wording matters
BEYOND = (0.04, 0.06)  # the bar of the gap beyond wording
ANSWERED = {
    "0/1 at .5": 0.5,
    "0/1 at .1": 0.1,
    "0/1 at .02": 0.02,
}  # chance of a 1, of scores that are answers
LATENT = 0.5  # SD of all effects together on the normal deviate of that chance
MOST = dict.fromkeys((*ANSWERED, "normal", "heavy"), 0.07) | {
    "lognormal": 0.08
}  # null audits with a gap at .05


# --- the designs --------------------------------------------------------------------------------------


def designs() -> Iterator[Design]:
    """Every design of the studies whose prompts are at hand, the quick ones first."""
    for number, phase in ((4, "diagnosis"), (6, "intention"), (7, "action")):
        rows = rows_of("gendered_stigma", "rq1", label="mental_health", construct=phase)
        yield design_of(
            "rq1, one phase", f"{number} templates x 11", "gendered_stigma", "rq1", rows, STIGMA
        )
    rows = rows_of("gendered_stigma", "rq2", label="mental_health", construct="coercion")
    yield design_of(
        "rq2, one dimension", "3 templates x 11", "gendered_stigma", "rq2", rows, STIGMA
    )
    rows = rows_of("occupation_sentiment", "sentences")
    yield design_of(
        "occupations",
        "20 noun pairs x 20",
        "occupation_sentiment",
        "sentences",
        rows,
        OCCUPATION,
        reported=True,
    )
    rows = rows_of("stigma_vignettes", "gender", label="with a condition")
    yield design_of(
        "vignettes, women and men",
        "6 questions x 9 people",
        "stigma_vignettes",
        "gender",
        rows,
        VIGNETTE,
    )
    yield from _own_names()
    yield from _coreference()
    yield _clinical()
    rows = rows_of("gendered_stigma", "rq1")
    yield design_of(
        "rq1, contrast",
        "17 templates x 11 + 11",
        "gendered_stigma",
        "rq1",
        rows,
        STIGMA,
        subset="mental_health",
        reported=True,
    )
    rows = rows_of("gendered_stigma", "rq2")
    yield design_of(
        "rq2, contrast", "27 templates x 11 + 11", "gendered_stigma", "rq2", rows, STIGMA
    )
    rows = rows_of("social_distance", "sentiment", template="they").drop_duplicates(
        ["group", "condition"]
    )
    categories = f"{rows['label'].nunique()} categories"
    yield design_of(
        "social distance", categories, "social_distance", "sentiment", rows, CATEGORY, reported=True
    )
    rows = pd.concat([rows_of("social_distance", f"template{number}") for number in range(1, 5)])
    yield design_of(
        "attitude",
        f"4 templates x 7 acts x {categories}",
        "social_distance",
        "attitude",
        rows,
        ATTITUDE,
    )


def _own_names() -> Iterator[Design]:
    """Prompts of a user's own, each with six names of either group: paired alike in all of them, or in turns."""
    for shift, title, columns in (
        (0, "own prompts, pairs of names", ["fill_pair"]),
        (1, "own prompts, names", ["group_fill", "reference_fill"]),
    ):
        table = [
            {
                "text": f"{group}{name_index} is late {prompt} times.",
                "group": group,
                "pair": f"{prompt}-{number}",
            }
            for prompt in range(50)
            for number in range(6)
            for group, name_index in (("female", number), ("male", (number + shift * prompt) % 6))
        ]
        name = f"own_names_{shift}"
        study = open_study(pd.DataFrame(table), reference="male", name=name, range=(0, 1))
        asked = next(
            experiment for experiment in study.experiments if experiment.kind == "classifier"
        )
        spreads = NAMES | {column: 0.125 / math.sqrt(len(columns)) for column in columns}
        rows = rows_of(name, asked.reads.configs[0])
        yield design_of(title, "50 prompts x 6 + 6 names", name, asked.name, rows, spreads)


def _coreference() -> Iterator[Design]:
    """Sentences about two occupations, without adjectives; those of WinoBias where they are at hand."""
    for config, title in (
        ("wino_style", "two models, own sentences"),
        ("winobias_dev", "WinoBias sentences"),
    ):
        try:
            rows = rows_of("adjective_coreference", f"{config}-stereotype", condition="baseline")
        except UpstreamMissingError:
            continue
        clusters = " x ".join(
            str(rows[name].nunique()) for name in ("male_answer", "female_answer")
        )
        compared = config == "wino_style"
        yield design_of(
            title,
            f"{clusters} occupations",
            "adjective_coreference",
            "odds",
            rows,
            ANSWER,
            compared=compared,
            reported=not compared,
        )


def _clinical() -> Design:
    """The synthetic notes, dealt to patients of one to five notes."""
    pairs = pd.DataFrame(load_notes(NoteOptions(), 0).pairs()).assign(construct="original")
    number = pairs.groupby("condition")["pair_id"].transform(lambda ids: pd.factorize(ids)[0])
    patient = np.repeat(np.arange(1_000), np.arange(1_000) % 5 + 1)[number]
    rows = pairs.assign(subject_id=pairs["condition"] + "/" + patient.astype(str))
    subjects_by_condition = rows.groupby("condition")["subject_id"].nunique()
    return design_of(
        "clinical pairs",
        f"{subjects_by_condition.min()} to {subjects_by_condition.max()} patients",
        "phenotype_fairness",
        "phenotyping",
        rows,
        PATIENT,
        reported=True,
    )


# --- simulated audits ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Audit:
    """Findings of one audit: primary ones, the paper's own statistics of the same, and the gap over one subset."""

    primary: Sequence[Finding]
    published: Sequence[Finding]
    subset: Sequence[Finding] = ()
    subset_published: Sequence[Finding] = ()


def audits(design: Design, effects: str, count: int, *, planted: float = 0.0) -> Iterator[Audit]:
    """Yield so many audits of models with a gap of this size (0: none), each with effects of its own."""
    rng = np.random.default_rng(
        [len(design.rows), sorted({**EFFECTS, **ANSWERED}).index(effects), int(1e6 * planted)]
    )
    simulate = _drawn(design, rng, effects)
    if design.compared:
        yield from (_compared(design, simulate(planted), simulate(0.0)) for _ in range(count))
        return
    usual = simulator(design)(np.random.default_rng(0), EFFECTS["normal"], planted)
    whole = _audited(
        design,
        disaggregate(design.rows.assign(score=usual), design.study, expected={}, robustness=False),
    )
    conclude = conclusion(design, usual)
    others = [
        replay(design, usual, part)
        for part in (whole.published, whole.subset, whole.subset_published)
    ]
    for _ in range(count):
        scores = simulate(planted)
        yield Audit(conclude(scores), *(replayed(scores) for replayed in others))


def _drawn(design: Design, rng: np.random.Generator, effects: str) -> Callable[[float], Floats]:
    """Draws the scores of a model with such effects; of ``ANSWERED`` 0 or 1 by a chance that has them."""
    if effects not in ANSWERED:
        return partial(simulator(design), rng, EFFECTS[effects])
    half = 0.5 if design.experiment.is_paired else 1.0
    scale = LATENT / (half * math.sqrt(sum(spread**2 for spread in design.spreads.values())))
    middle = float(scipy.special.ndtri(ANSWERED[effects])) * math.hypot(1, LATENT)
    simulate = partial(simulator(design), rng, EFFECTS["normal"])

    def answers(planted: float) -> Floats:
        chance = scipy.special.ndtr(middle + scale * (simulate(planted) - 0.5))
        return (rng.random(len(chance)) < chance).astype(float)

    return answers


def _audited(design: Design, findings: Sequence[Finding]) -> Audit:
    first = primary_findings(findings)
    keys = {finding.key() for finding in first}
    apart = [
        finding
        for finding in findings
        if design.subset and finding.subset == design.subset and finding.slice_by == "all"
    ]
    return Audit(
        first,
        [finding for finding in findings if finding.key() in keys and finding.view == AS_PUBLISHED],
        [finding for finding in apart if not finding.view],
        [finding for finding in apart if finding.view == AS_PUBLISHED],
    )


def _compared(design: Design, first: Floats, second: Floats) -> Audit:
    rows = design.rows.drop(columns="condition")  # no slice by adjectives, of which there are none
    rows = rows.assign(prompt_id=rows.index)
    models = {name: rows.assign(score=scores) for name, scores in (("a", first), ("b", second))}
    differences = [
        finding for finding in compare({design.study.name: models}) if finding.slice_by == "all"
    ]
    return Audit(
        [finding for finding in differences if not finding.view],
        [finding for finding in differences if finding.view == AS_PUBLISHED],
    )


# --- the tables ---------------------------------------------------------------------------------------


def _false(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each design and kind of effects."""
    count = scaled(AUDITS, scale)
    rows: list[tuple[str, ...]] = []
    for design in designs():
        for effects in (*EFFECTS, *(() if design.compared else ANSWERED)):
            done = list(audits(design, effects, count))
            parts = [
                (
                    design.title,
                    [audit.primary for audit in done],
                    [audit.published for audit in done],
                )
            ]
            if design.subset:
                title = f"{design.title.split(',')[0]}, {design.subset.replace('_', ' ')}"
                parts.append(
                    (
                        title,
                        [audit.subset for audit in done],
                        [audit.subset_published for audit in done],
                    )
                )
            for title, findings, published in parts:
                rows.append(
                    _held(title, design.clusters, effects, _flat(findings), _flat(published))
                )
    return rows


def _flat(audits_findings: Iterable[Sequence[Finding]]) -> list[Finding]:
    return [finding for several in audits_findings for finding in several]


def _held(
    title: str,
    clusters: str,
    effects: str,
    findings: Sequence[Finding],
    published: Sequence[Finding],
) -> tuple[str, ...]:
    wrong = _rejected(findings)
    covered = _covered(findings, 0.0)
    of_papers = (
        rate_text(_rejected(published)) if published else "–"
    )  # no paper has a test of own prompts
    return (
        title,
        clusters,
        effects,
        rate_text(wrong),
        rate_text(covered),
        of_papers,
        yes_or_no(wrong <= MOST[effects]),
    )


def _rejected(findings: Sequence[Finding]) -> float:
    return float(np.mean([finding.estimate.p_value < LEVEL for finding in findings]))


def _covered(findings: Sequence[Finding], value: float) -> float:
    """Return of how many the 95 % interval of one question covers the value."""
    estimates = (finding.estimate for finding in findings)
    ends = (
        t_ends(estimate.value, estimate.std_error, estimate.df, 1 - LEVEL, estimate.skewness)
        for estimate in estimates
    )
    return float(np.mean([low <= value <= high for low, high in ends]))


def _power(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each design: the gap that a plan calls detectable is planted, and audits look for it."""
    count = scaled(AUDITS, scale)
    rows: list[tuple[str, ...]] = []
    for design in designs():
        if design.compared or design.experiment.compares.primary.slice != "all":
            continue
        std_error, df = planned_std_error(
            design.experiment.changed(design={"planned_sd": design.spreads}), _plain(design.rows)
        )
        std_error *= 1 + 0.8 / df
        gap = detectable_gap(std_error, df)
        findings = _flat(audit.primary for audit in audits(design, "normal", count, planted=gap))
        predicted = power(gap, std_error, df)
        seen = _rejected(findings)
        told = float(np.mean([finding.minimum_detectable_effect for finding in findings]))
        rows.append(
            (
                design.title,
                design.clusters,
                f"{gap:.3f}",
                f"{told:.3f}",
                rate_text(predicted),
                rate_text(seen),
                yes_or_no(abs(predicted - seen) <= NEAR),
                rate_text(_covered(findings, gap)),
            )
        )
    return rows


def _gates(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each design and kind of effects: how often a gate errs, where it could decide."""
    count = scaled(AUDITS, scale)
    rows: list[tuple[str, ...]] = []
    for design in designs():
        if not (design.reported or design.clusters in FEW):
            continue
        margin = design.experiment.compares.unit.margin(MARGIN)
        calm = _calm(design, margin / SHARP)
        for effects in SIDES:
            passed = []
            failed = []
            for side in SIDES[effects]:
                audits_findings = list(_quickly(calm, effects, count, side * margin))
                gates = [check_gaps(findings) for findings in audits_findings]
                passed.append(
                    share_of(check.outcome == PASSES for gate in gates for check in gate.checks)
                )
                failed.append(share_of(gate.outcome == FAILS for gate in gates))
            none = share_of(
                check_gaps(findings).outcome == FAILS
                for findings in _quickly(design, effects, count, 0.0)
            )
            errs = max(passed), max(failed), none
            rows.append(
                (
                    design.title,
                    design.clusters,
                    effects,
                    *map(rate_text, errs),
                    yes_or_no(max(errs) <= LEVEL),
                )
            )
    return rows


def _calm(design: Design, std_error: float) -> Design:
    """The design with effects so small that primary findings have this standard error, on average over 20 audits."""
    usual = np.mean(
        [
            finding.estimate.std_error
            for audit in audits(design, "normal", 20)
            for finding in audit.primary
        ]
    )
    return replace(
        design,
        spreads={name: spread * std_error / usual for name, spread in design.spreads.items()},
    )


def _quickly(design: Design, effects: str, count: int, planted: float) -> Iterator[list[Finding]]:
    """The primary findings of so many audits of models with this gap, as those of ``audits``."""
    rng = np.random.default_rng(
        [len(design.rows), sorted(EFFECTS).index(effects), round(1e6 * (1 + planted))]
    )
    simulate = partial(simulator(design), rng, EFFECTS[effects])
    conclude = conclusion(design, simulate(planted), detectable=False)
    return (conclude(simulate(planted)) for _ in range(count))


def _baselines(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each gap of a baseline and of the model: how often a gate errs, with effects of each model's own."""
    count = scaled(AUDITS, scale)
    design = next(candidate for candidate in designs() if candidate.reported)
    margin = design.experiment.compares.unit.margin(MARGIN)
    calm = _calm(design, margin / SHARP / math.sqrt(2))  # each of two models adds its own
    rows: list[tuple[str, ...]] = []
    for effects in SIDES:
        for before, gap in BASELINES:
            rng = np.random.default_rng([len(rows), count])
            simulate = partial(simulator(calm), rng, EFFECTS[effects])
            conclude = conclusion(calm, simulate(gap), detectable=False)
            seen = [_gated(calm, conclude, simulate(gap), simulate(before)) for _ in range(count)]
            passed, failed = (
                share_of(seen_outcome == outcome for seen_outcome in seen)
                for outcome in (PASSES, FAILS)
            )
            larger = round(abs(gap) - abs(before), 9)
            errs = passed if larger >= margin else 0.0, failed if larger <= margin else 0.0
            told = rate_text(passed), rate_text(failed), yes_or_no(max(errs) <= LEVEL)
            rows.append((design.title, f"{before:+.2f}", f"{gap:+.2f}", effects, *told))
    return rows


def _gated(design: Design, conclude: Concluded, scores: Floats, before: Floats) -> str:
    """Return what a gate says of scores beside a baseline's."""
    rows = design.rows.assign(prompt_id=design.rows.index, text="")
    items, old = ({design.study.name: rows.assign(score=column)} for column in (scores, before))
    return check_gaps(conclude(scores), items=items, baseline=old).outcome


def _plain(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def _wording(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """Models that mind wordings alone: a test of flips in one wording, the primary gap, the gap beyond wording."""
    count = scaled(AUDITS, scale)
    rows: list[tuple[str, ...]] = []
    for title, design in worded_designs():
        simulate = partial(
            simulator(design), np.random.default_rng(len(design.rows)), EFFECTS["normal"]
        )
        flips = []
        primary = []
        beyond = []
        for _ in range(count):
            scored = design.rows.assign(score=simulate(0.0))
            findings = disaggregate(scored, design.study, expected={})
            flips.append(_sign_p(scored[scored["group"] != PLACEBO], design.experiment) < LEVEL)
            primary += primary_findings(findings)
            beyond += [finding for finding in findings if finding.measure == "gap_beyond_wording"]
        wrong = _rejected(beyond)
        rows.append(
            (
                title,
                design.clusters,
                rate_text(float(np.mean(flips))),
                rate_text(_rejected(primary)),
                rate_text(wrong),
                rate_text(_covered(beyond, 0.0)),
                yes_or_no(BEYOND[0] <= wrong <= BEYOND[1]),
            )
        )
    return rows


def worded_designs() -> Iterator[tuple[str, Design]]:
    """Prompts in six wordings: one set of conditions, templates of one phase."""
    for number, phase in ((4, "diagnosis"), (7, "action")):
        only = {"label": "mental_health", "construct": phase}
        both = pd.concat(
            [rows_of("gendered_stigma", name, **only) for name in ("rq1", "rq1_wordings")]
        ).fillna("")
        two = both[both["group"] != "unspecified"]
        clusters = f"{number} templates x 11 x 6 wordings"
        design = design_of(
            "", clusters, "gendered_stigma", "rq1", two, {**STIGMA, "wording": WORDING}
        )
        yield f"rq1, {phase}", design


def _sign_p(rows: pd.DataFrame, experiment: Experiment) -> float:
    """Two-sided sign test of the pairs in which the group's score is the larger one, as tests of flips count."""
    pairs = rows.pivot(index="pair_id", columns="group", values="score")
    pairs_with_more = int(
        (pairs[experiment.compares.group] > pairs[experiment.compares.reference]).sum()
    )
    return float(scipy.stats.binomtest(pairs_with_more, len(pairs)).pvalue)


# --- every shipped experiment -------------------------------------------------------------------------

SHIPPED_AUDITS = 400


def shipped_designs() -> Iterator[Design]:
    """Every experiment that compares groups on prompts of its own study, packs among them."""
    for name in studies():
        for experiment in load_study(name).experiments:
            if not experiment.compares.measure or experiment.reads.notes.corpus:
                continue
            try:
                rows = pd.concat([rows_of(name, config) for config in experiment.reads.configs])
            except UpstreamMissingError:
                continue
            rows = (
                rows[rows[experiment.compares.subset].isin(experiment.compares.contrast)]
                if experiment.compares.contrast
                else rows
            )
            factors = {
                name: word
                for name, word in experiment.design.random.items()
                if name in rows and rows[name].nunique() > 1
            }
            clusters = " x ".join(
                f"{rows.loc[rows[column] != '', column].nunique()} {word}"
                for column, word in factors.items()
            )
            yield design_of(
                name,
                clusters,
                name,
                experiment.name,
                rows,
                {**dict.fromkeys(factors, ITEM), "": REST},
            )


def _shipped(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each experiment, as many at a time as there are cores."""
    count = scaled(SHIPPED_AUDITS, scale)
    if count < 20:  # a few audits take less than a process
        return [_shipped_row(next(shipped_designs()), count)]
    shipped = list(shipped_designs())
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(_shipped_row, shipped, [count] * len(shipped)))


def _shipped_row(design: Design, count: int) -> tuple[str, ...]:
    rows = design.rows
    told = []
    codes = {name: level_codes(rows[name], "/" + rows["group"]) for name in design.spreads if name}
    replayed = _replayed_gaps(design)
    for effects in ("normal", "lognormal"):
        rng = np.random.default_rng(len(rows))
        draw = EFFECTS[effects]
        wrong = []
        for _ in range(count):
            scores = 0.5 + REST * draw(rng, len(rows))
            for name, code in codes.items():  # of every group its own effects
                scores = scores + design.spreads[name] * drawn_effects(rng, draw, code)
            wrong.append([finding.estimate.p_value < LEVEL for finding in replayed(scores)])
        share = float(np.mean(wrong))
        told += [rate_text(share), yes_or_no(share <= MOST[effects] + _chance(count))]
    return (f"{design.title}:{design.experiment.name}", design.clusters, f"{len(wrong[0])}", *told)


def _replayed_gaps(design: Design) -> Concluded:
    """Return what gives the primary gaps of scores of a shipped experiment."""

    def audit(scores: Floats) -> list[Finding]:
        findings = disaggregate(
            design.rows.assign(score=scores), design.study, expected={}, robustness=False
        )
        return [finding for finding in primary_findings(findings) if finding.measure != SPREAD]

    if design.experiment.compares.factors and not design.experiment.is_paired:
        return audit  # groups that weigh nothing in an effect are left out of its units
    usual = 0.5 + REST * np.random.default_rng(0).standard_normal(len(design.rows))
    return replay(design, usual, audit(usual))


# --- crossed factors ----------------------------------------------------------------------------------

CROSSED_AUDITS = 400
# SD of the effects of a group's items and of its conditions, and of the rest
ITEM = 0.05
CLAIM = 0.03
REST = 0.08
PLANTED = 0.1  # what is planted, in the unit of the score
Means = Callable[
    [Floats, Floats], Floats
]  # of each cell, by how far its levels of both factors lie from their means
CROSSED: Mapping[str, Means] = {
    "nothing": lambda first, second: np.zeros(len(first)),
    "both main effects": lambda first, second: PLANTED * (first + second),
    "an interaction alone": lambda first, second: 4 * PLANTED * first * second,
    "one intersection": lambda first, second: (
        -2 * PLANTED * ((first == first.max()) & (second == second.max()))
    ),
}


def crossed_designs() -> Iterator[Design]:
    """Packs of two crossed factors: groups with items of their own, and groups that share their phrases."""
    for name, conditions, title in (
        ("occupation_names", 20, "names, 2 genders x 2 races"),
        ("occupation_religion", 5, "religion, 2 genders x 6 religions"),
    ):
        study = load_study("group_packs")
        asked = next(experiment for experiment in study.experiments if experiment.name == name)
        rows = rows_of("group_packs", name)
        rows = rows[rows["condition"].isin(rows["condition"].unique()[:conditions])].reset_index(
            drop=True
        )
        clusters = " x ".join(
            f"{rows[column].nunique()} {word}" for column, word in asked.design.random.items()
        )
        kept = rows[["pair_id", "group", "template", "condition", *asked.compares.factors]]
        alone = study.changed(experiments=(asked.changed(shows={"levels": ()}),))
        spreads = {"template": ITEM, "condition": CLAIM, "": REST}
        yield Design(
            title, clusters, alone, kept.assign(experiment=name, model_id="simulated"), spreads
        )


def crossed_audits(design: Design, planted: str, count: int) -> Iterator[list[Finding]]:
    """Yield so many audits of models that score groups so, each with effects of its own."""
    rows = design.rows
    factors = list(design.experiment.compares.factors)
    away = []
    for name in factors:  # of equal weight is each group, not each row
        last = (rows[name] == rows[name].unique()[-1]).astype(float)
        away.append(last - last.groupby(rows["group"]).first().mean())
    means = CROSSED[planted](*(gaps.to_numpy() for gaps in away))
    # Of every group its own effects of each template and each condition.
    codes = {
        name: pd.factorize(rows[name] + "/" + rows["group"])[0]
        for name in ("template", "condition")
    }
    rng = np.random.default_rng([len(rows), sorted(CROSSED).index(planted)])
    for _ in range(count):
        scores = 0.5 + means + REST * rng.standard_normal(len(rows))
        for name, code in codes.items():
            scores = scores + design.spreads[name] * rng.standard_normal(int(code.max()) + 1)[code]
        yield disaggregate(rows.assign(score=scores), design.study, expected={}, robustness=False)


def _crossed(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each design and what is planted, as many at a time as there are cores."""
    asked = list(product(crossed_designs(), CROSSED))
    if scaled(CROSSED_AUDITS, scale) < CROSSED_AUDITS:  # a few audits take less than a process
        return [_crossed_row(*row, scaled(CROSSED_AUDITS, scale)) for row in asked]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(
            pool.map(_crossed_row, *zip(*asked, strict=True), [CROSSED_AUDITS] * len(asked))
        )


def _crossed_row(design: Design, planted: str, count: int) -> tuple[str, ...]:
    main = 0
    both = 0
    either = 0
    for findings in crossed_audits(design, planted, count):
        sure = {
            finding.measure
            for finding in primary_findings(findings)
            if finding.estimate.p_adjusted < LEVEL
        }
        main = main + ("main_effect" in sure)
        both = both + ("interaction" in sure)
        either += bool(sure & {"main_effect", "interaction"})
    wrong = {"nothing": either, "both main effects": both, "an interaction alone": main}.get(
        planted
    )
    told = (rate_text(wrong_count / count) for wrong_count in (main, both))
    return (
        design.title,
        design.clusters,
        planted,
        *told,
        "" if wrong is None else yes_or_no(wrong / count <= LEVEL),
    )


# --- facts that are left out --------------------------------------------------------------------------


def _chance(count: int) -> float:
    """Three standard errors of a share of .05 of so many."""
    return 3 * math.sqrt(LEVEL * (1 - LEVEL) / count)


# pairs, facts of a note, and the chance that a fact is kept
NOTES = 600
FACTS = 5
KEPT = 0.9
LEANS = 0.1  # SD of how much more of one subject's notes is kept, both versions alike


def _omitted(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A row for each share of the facts of one group that is left out beside those of both."""
    rows = []
    for planted in (0.0, 0.02, 0.05):
        rng = np.random.default_rng(int(100 * planted))
        estimates = [_omission(rng, planted) for _ in range(scaled(AUDITS, scale))]
        told = (
            share_of(estimate.p_value < LEVEL for estimate in estimates),
            _covered_by(estimates, -planted),
        )
        met = {0.0: yes_or_no(told[0] <= ALLOWED), 0.05: yes_or_no(told[0] >= 0.8)}.get(planted, "")
        rows.append((f"{planted:.2f}", *map(rate_text, told), met))
    return rows


def _covered_by(estimates: Sequence[Estimate], value: float) -> float:
    return share_of(estimate.ci_low <= value <= estimate.ci_high for estimate in estimates)


def _omission(rng: np.random.Generator, planted: float) -> Estimate:
    """The gap of the shares of facts that are kept, of notes of 400 subjects."""
    subject = rng.integers(400, size=NOTES)
    kept = np.clip(KEPT + LEANS * rng.standard_normal(400)[subject], planted, 1.0)
    shares = (
        np.column_stack([rng.binomial(FACTS, kept - planted), rng.binomial(FACTS, kept)]) / FACTS
    )
    return paired_gap(
        shares.ravel(),
        ["f", "m"] * NOTES,
        np.repeat(np.arange(NOTES).astype(str), 2).tolist(),
        reference_group="m",
        cluster_ids=np.repeat(subject, 2),
    )


SERIES = (
    Series(
        "truth",
        "Audits of models without a gap: how often they find one",
        (
            "design",
            "clusters",
            "effects",
            "false positives at .05",
            "95 % interval covers",
            "false positives as published",
            "bar met",
        ),
        _false,
        timed=False,
    ),
    Series(
        "truth-power",
        "Audits of models with a planted gap: predicted and simulated power",
        (
            "design",
            "clusters",
            "planted: detectable by plan",
            "detectable as audits say, mean",
            "predicted power",
            "simulated power",
            "within .03",
            "95 % interval covers",
        ),
        _power,
        timed=False,
    ),
    Series(
        "truth-wording",
        "Audits of models that mind wordings alone",
        (
            "design",
            "clusters",
            "sign test of flips",
            "primary finding, one wording",
            "gap beyond wording",
            "its 95 % interval covers",
            "bar met",
        ),
        _wording,
        timed=False,
    ),
    Series(
        "truth-shipped",
        "Audits of every shipped experiment without a gap, with effects of each group's own: false positives at .05",
        (
            "experiment",
            "clusters",
            "contrasts",
            "normal effects",
            "bar met",
            "lognormal effects",
            "bar met, lognormal",
        ),
        _shipped,
        timed=False,
    ),
    Series(
        "truth-groups",
        "Audits of crossed factors: main effects and interactions that are told",
        (
            "design",
            "clusters",
            "planted",
            "tells a main effect",
            "tells an interaction",
            "false in at most .05",
        ),
        _crossed,
        timed=False,
    ),
    Series(
        "truth-gate",
        "Gates: how often they pass a gap as large as the margin, and fail one that is no larger",
        (
            "design",
            "clusters",
            "effects",
            "passes a gap as large as the margin",
            "fails a gap as large as the margin",
            "fails no gap",
            "errs in at most .05",
        ),
        _gates,
        timed=False,
    ),
    Series(
        "truth-baseline",
        "Gates beside a baseline, by a margin of .05",
        (
            "design",
            "gap of the baseline",
            "gap of the model",
            "effects",
            "passes",
            "fails",
            "errs in at most .05",
        ),
        _baselines,
        timed=False,
    ),
    Series(
        "truth-facts",
        "Summaries of 600 notes of five facts in both genders: how often an omission of one gender's is found",
        ("left out beside", "found at .05", "interval holds it", "bar met (.8 of .05)"),
        _omitted,
        timed=False,
    ),
)
