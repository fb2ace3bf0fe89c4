"""Audits by models without a gap, and with a planted one, where a gap is no plain mean of pairs.

Slopes of interactions on a number of each group and item, panels of judges as a random factor, names that token
classifiers find, and options that are read by one next token. Effects of each group's own on every level of the
random factors are drawn alike for all groups, on the studies' own prompts, and go through ``disaggregate``.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.frame import Scale, Series, scaled
from benchmarks.simulating import (
    EFFECTS,
    Effects,
    Floats,
    drawn_effects,
    level_codes,
    rate_text,
    rows_of,
    share_of,
    yes_or_no,
)
from swapbias.findings import Finding, disaggregate, judge_findings
from swapbias.findings.terms import LEVEL
from swapbias.models.chat.log_odds import (
    OptionLogProbs,
    Ordered,
    orders,
    score_right_answer,
    shown_log_probs,
    with_letters,
)
from swapbias.studies import JUDGED, Experiment, Prompt, Study, as_prompts, load_study

AUDITS = 150
_EVERY = 6  # a pair of so many is read by next tokens
MOST = {"normal": 0.06, "lognormal": 0.075}
"""Largest share of audits by models without a gap that may call one, by the kind of effects."""
LEAST_COVERED = 0.93
"""Least share of 95 % intervals that hold a planted gap, with normal effects."""
_REST = 0.2

ScoreRows = Callable[[np.random.Generator, Effects, float], pd.DataFrame]
"""Draws the scored rows of a model with a planted gap."""


@dataclass(frozen=True, slots=True)
class Audited:
    """Prompts, models of them, and the findings that are looked at.

    Attributes:
        title: as the table shows it.
        clusters: what its rows cross, in words.
        study: with the experiment alone.
        score: draws the scored rows of a model.
        measures: of the findings, with the score column that they are of.
        planted: the gap of models that have one, in the unit of the findings; of a 0/1 score the latent one.
        holds: whether the planted gap is that of the findings, so that an interval can hold it.
    """

    title: str
    clusters: str
    study: Study
    score: ScoreRows
    measures: Mapping[str, str]
    planted: float
    holds: bool = True


def _alone(study: str, experiment: str, **sections: Mapping[str, Any]) -> Study:
    """Return a study with one experiment, without slices, levels and control."""
    whole = load_study(study)
    asked = next(declared for declared in whole.experiments if declared.name == experiment)
    bare: dict[str, Any] = {
        "shows": {"slices": (), "levels": (), "rates": (), "scores": ("score",)}
    }
    bare["design"] = {"controls": {}}
    for name, values in sections.items():
        bare[name] = {**bare.get(name, {}), **values}
    return whole.changed(experiments=(asked.changed(**bare),))


def _clusters(rows: pd.DataFrame, experiment: Experiment) -> str:
    """Return the number of levels of each random factor, in words."""
    counts = (
        f"{rows[column].nunique()} {name}" for column, name in experiment.design.random.items()
    )
    return " x ".join(counts)


def _own_effects(
    rng: np.random.Generator, draw: Effects, rows: pd.DataFrame, spreads: Mapping[str, float]
) -> Floats:
    """Draw effects of each level of the random columns on each group alone, and a rest of each row."""
    scores = _REST * draw(rng, len(rows))
    for column, spread in spreads.items():
        codes = level_codes(rows[column], "/" + rows["group"])
        scores = scores + spread * drawn_effects(rng, draw, codes)
    return np.asarray(scores)


# --- slopes --------------------------------------------------------------------------------------------


def slopes() -> Iterator[Audited]:
    """Yield audits of ties between groups and items that may follow a made number of each group and item."""
    for experiment, items in (("race_prevalence", 15), ("gender_prevalence", 15)):
        study = _alone("cross_care", experiment)
        asked = study.experiments[0]
        rows = rows_of("cross_care", f"{experiment.partition('_')[0]}_en")
        chosen = rows["condition"].drop_duplicates()[:items]
        rows = rows[rows["condition"].isin(chosen) & rows["group"].isin(asked.compared)]
        rows = rows.assign(experiment=experiment, model_id="simulated").reset_index(drop=True)
        cells = rows.groupby(["condition", "group"], sort=False).ngroup().to_numpy()
        numbers = np.random.default_rng(0).normal(size=int(cells.max()) + 1)[cells]
        yield Audited(
            title=f"slope, {len(asked.compared)} groups",
            clusters=_clusters(rows, asked),
            study=study,
            score=_SlopeModel(rows.assign(log_prevalence=numbers)),
            measures={"slope": "score"},
            planted=0.3,
        )


@dataclass(frozen=True, slots=True)
class _SlopeModel:
    """Scores with effects of words, of diseases, and of both in each template, beside ties of each group's own.

    Attributes:
        rows: the prompts with their number.
    """

    rows: pd.DataFrame

    def __call__(self, rng: np.random.Generator, draw: Effects, planted: float) -> pd.DataFrame:
        rows = self.rows
        scores = planted * rows["log_prevalence"].to_numpy()
        scores = scores + _own_effects(rng, draw, rows, {"condition": 0.3})
        for columns in (["group", "template"], ["condition", "template"]):
            codes = rows.groupby(columns, sort=False).ngroup().to_numpy()
            scores = scores + 2.0 * drawn_effects(rng, draw, codes)
        return rows.assign(score=scores)


# --- panels of judges ------------------------------------------------------------------------------------


def panels() -> Iterator[Audited]:
    """Yield audits of grades by judges who each lean to a group of their own."""
    name = "advice_gender"
    shown = {"scores": ("score", JUDGED)}
    study = _alone("stigma_vignettes", name, shows=shown)
    rows = rows_of("stigma_vignettes", name, label="with a condition")
    rows = rows.assign(experiment=name, model_id="simulated", answer="", score=0.5)
    for judges in (5,):
        yield Audited(
            title=f"panel of {judges} judges",
            clusters=f"{_clusters(rows, study.experiments[0])} x {judges} judges",
            study=study,
            score=_Panel(rows.reset_index(drop=True), judges),
            measures={"paired_gap": JUDGED},
            planted=0.3,
        )


@dataclass(frozen=True, slots=True)
class _Panel:
    """Grades by judges with an offset, a leaning and an error of their own.

    Attributes:
        rows: the prompts.
        judges: number of judges.
    """

    rows: pd.DataFrame
    judges: int

    def __call__(self, rng: np.random.Generator, draw: Effects, planted: float) -> pd.DataFrame:
        rows = self.rows
        is_first = (rows["group"] == "woman").to_numpy(dtype=float)
        answers = _own_effects(rng, draw, rows, {"template": 0.1, "person": 0.1})
        leanings = 0.15 * draw(rng, self.judges)
        columns: dict[str, Floats] = {}
        for judge, leaning in enumerate(leanings):
            grades = rng.normal() + answers + (planted + leaning) * is_first
            columns[f"{JUDGED}:{judge}"] = grades + _REST * draw(rng, len(rows))
        unread = dict.fromkeys(
            (
                name
                for judge in range(self.judges)
                for name in judge_findings.place_columns(str(judge))
            ),
            math.nan,
        )
        mean = np.mean([*columns.values()], axis=0)
        return rows.assign(**columns, **unread, **{JUDGED: mean})


# --- names -------------------------------------------------------------------------------------------------


def names() -> Iterator[Audited]:
    """Yield audits of how much of a name a token classifier finds, in half of the templates."""
    name = "names"
    study = _alone("name_recognition", name)
    rows = rows_of("name_recognition", name).assign(experiment=name, model_id="simulated")
    rows = rows[rows["template"].isin(rows["template"].unique()[::2])].reset_index(drop=True)
    yield Audited(
        title="names found",
        clusters=_clusters(rows, study.experiments[0]),
        study=study,
        score=_NameFinder(rows),
        measures={"main_effect": "score"},
        planted=0.1,
    )


@dataclass(frozen=True, slots=True)
class _NameFinder:
    """Scores of names with effects of sets and templates on each group; women's names may be found more often.

    Attributes:
        rows: the prompts.
    """

    rows: pd.DataFrame

    def __call__(self, rng: np.random.Generator, draw: Effects, planted: float) -> pd.DataFrame:
        rows = self.rows
        scores = _own_effects(rng, draw, rows, {"template": 0.05, "names": 0.1})
        scores = scores + planted * (rows["sex"] == "women").to_numpy(dtype=float)
        return rows.assign(score=0.5 + scores)


# --- options by one next token --------------------------------------------------------------------------------


def next_tokens() -> Iterator[Audited]:
    """Yield audits of two answers whose letters a service gives as likely first tokens."""
    study = _alone("adjective_coreference", "odds")
    asked = study.experiments[0]
    rows = pd.concat([rows_of("adjective_coreference", config) for config in asked.reads.configs])
    pairs = rows["pair_id"].drop_duplicates()[::_EVERY]
    rows = rows[rows["group"].isin(asked.compared) & rows["pair_id"].isin(pairs)]
    rows = rows.assign(experiment=asked.name, model_id="simulated").reset_index(drop=True)
    texts = [
        with_letters(text, candidates)
        for text, candidates in zip(rows["text"], rows["candidates"], strict=True)
    ]
    prompts = as_prompts(rows.assign(text=texts).to_dict("records"))
    spreads = {"male_answer": 0.5, "female_answer": 0.5}
    service = _TokenService(rows, prompts, spreads, [orders(prompt) for prompt in prompts])
    yield Audited(
        title="answers by one next token",
        clusters=_clusters(rows, asked),
        study=study,
        score=service,
        measures={asked.compares.measure: "score"},
        planted=1.0,
        holds=False,
    )


@dataclass(frozen=True, slots=True)
class _TokenService:
    """Letters of options among the likeliest next tokens, by a liking of the first place and of each option.

    Attributes:
        rows: the prompts.
        prompts: the same as they are asked.
        spreads: SD of the effects on log-odds, by random column.
        ordered: of each prompt its options in each order.
    """

    rows: pd.DataFrame
    prompts: Sequence[Prompt]
    spreads: Mapping[str, float]
    ordered: Sequence[Sequence[Ordered]]

    def __call__(self, rng: np.random.Generator, draw: Effects, planted: float) -> pd.DataFrame:
        rows = self.rows
        odds = 3 * _own_effects(rng, draw, rows, self.spreads)
        groups = rows["group"].unique()
        odds = odds + planted * (rows["group"] == groups[0]).to_numpy(dtype=float)
        scored = [
            score_right_answer(prompt, ordered, [_first_tokens(order, liking) for order in ordered])
            for prompt, ordered, liking in zip(self.prompts, self.ordered, odds, strict=True)
        ]
        return rows.assign(score=[one.score for one in scored])


def _first_tokens(ordered: Ordered, liking: float) -> OptionLogProbs | None:
    """Return the log-probabilities of options whose letters and one other token are shown."""
    prompt, indices = ordered
    weights = [liking * (index == 0) + 0.7 * (place == 0) for place, index in enumerate(indices)]
    total = math.log(sum(map(math.exp, weights)))
    tokens = [
        (letter, weight - total + math.log(0.9))
        for letter, weight in zip("ABCDEFGH", weights, strict=False)
    ]
    return shown_log_probs(prompt, [*tokens, ("I", math.log(0.05))])


# --- rows of the table ------------------------------------------------------------------------------------------

DESIGNS = {"slopes": slopes, "panels": panels, "names": names, "next tokens": next_tokens}


def audits(audited: Audited, effects: str, count: int, planted: float) -> Iterator[list[Finding]]:
    """Yield the findings that are looked at, of so many audits.

    Args:
        audited: the prompts and their models.
        effects: the kind of effects, of ``EFFECTS``.
        count: number of audits.
        planted: the gap of every model.
    """
    rng = np.random.default_rng(
        [count, sum(map(ord, audited.title + effects)), round(planted * 100)]
    )
    for _ in range(count):
        rows = audited.score(rng, EFFECTS[effects], planted)
        found = disaggregate(rows, audited.study, expected={}, robustness=False)
        yield [finding for finding in found if _is_looked_at(audited, finding)]


def _is_looked_at(audited: Audited, finding: Finding) -> bool:
    """Tell whether a finding is of a measure and score that are looked at, over all rows that answer."""
    primary = audited.study.experiments[0].compares.primary
    return (
        audited.measures.get(finding.measure) == finding.score
        and not finding.view
        and finding.slice_by == "all"
        and finding.subset == primary.subset
    )


def measure_rows(audited: Audited, count: int) -> list[tuple[str, ...]]:
    """Return a row for each kind of effects without a gap, and one with the planted gap and normal effects.

    Args:
        audited: the prompts and their models.
        count: number of audits of each row.
    """
    rows = [_measure_row(audited, effects, 0.0, count) for effects in MOST]
    return [*rows, _measure_row(audited, "normal", audited.planted, count)]


def _measure_row(audited: Audited, effects: str, planted: float, count: int) -> tuple[str, ...]:
    found = [
        finding for findings in audits(audited, effects, count, planted) for finding in findings
    ]
    estimates = [finding.estimate for finding in found if _has_planted(audited, finding, planted)]
    called = share_of(estimate.p_value < LEVEL for estimate in estimates)
    covered = share_of(estimate.ci_low <= planted <= estimate.ci_high for estimate in estimates)
    held = ""
    if not planted:
        held = yes_or_no(called <= MOST[effects])
    elif audited.holds:
        held = yes_or_no(covered >= LEAST_COVERED)
    return (
        audited.title,
        audited.clusters,
        effects,
        f"{planted:.1f}" if planted else "none",
        f"{count:,}",
        rate_text(called),
        rate_text(covered) if audited.holds or not planted else "",
        held,
    )


def _has_planted(audited: Audited, finding: Finding, planted: float) -> bool:
    """Tell whether a finding is about what is planted; without a planted gap every one is."""
    return not planted or finding.measure != "main_effect" or finding.contrast.startswith("sex")


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """Return all rows, as many designs at a time as there are cores."""
    count = scaled(AUDITS, scale, least=2)
    designs = [audited for made in DESIGNS.values() for audited in made()]
    if count < 20:  # a few audits take less than a process
        return [row for audited in designs for row in measure_rows(audited, count)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(measure_rows, designs, [count] * len(designs))
        return [row for rows in found for row in rows]


SERIES = Series(
    "truth_readings",
    "Slopes, panels of judges, names found and next tokens: audits by models without a gap and with one",
    (
        "design",
        "clusters",
        "effects",
        "planted",
        "audits",
        "called at .05",
        "95 % intervals that hold it",
        "bar met",
    ),
    _rows,
    timed=False,
)
