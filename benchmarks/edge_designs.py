"""Own studies at the edges of the inference: unbalanced, few, nested, skewed, rare or missing, and what models score.

Each is opened as a user's table is, so that its random factors, weights and margins are those of an audit.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from benchmarks.simulating import EFFECTS, Design, Effects, Floats, design_of, rows_of, simulator
from swapbias.findings.terms import MARGIN
from swapbias.studies.own import open_study

Reading = Callable[
    [np.random.Generator, Floats, NDArray[np.intp]], Floats
]  # of latent scores and codes of pairs
TEMPLATES = {
    "template": 0.125,
    "": 0.136,
}  # SDs of effects on pairs, as released outputs of classifiers have them
WORDS = TEMPLATES | {"fill_pair": 0.125}
BOTH = ("normal", "lognormal")
THREE = ("normal", "heavy", "lognormal")
RANKED = {"names": 0.1, "condition": 0.1, "": 0.1}
REFERENCE = "male"
OTHERS = ("female", "they", "trans", "agender")
RATIO = 1.25  # the ratio of rates that is no longer within the margin, where they are rare
LEVEL_SPREAD = 0.25  # SD of what the texts of a pair share, where scores come in steps
LATENT = 0.5  # SD of all effects together on the normal deviate of a chance
MISSING = 0.01
_FARTHEST = 4.0  # latent gap that is looked at
_DRAWS = 400_000  # pairs that the mean gap of latent scores is taken over
MOVED = {
    "1 of 20": 0.05,
    "1 of 10": 0.1,
}  # chance that a level is affected, by the name of such effects


def _affected(chance: float) -> Effects:
    """Return effects of mean 0 and SD 1 that a few levels have and the others lack."""
    spread = math.sqrt(chance * (1 - chance))

    def effects(rng: np.random.Generator, count: int) -> Floats:
        affected = (rng.random(count) < chance).astype(np.float64)
        return np.asarray((affected - chance) / spread)

    return effects


ALL_EFFECTS: Mapping[str, Effects] = {
    **EFFECTS,
    **{name: _affected(chance) for name, chance in MOVED.items()},
}


@dataclass(frozen=True, slots=True)
class Edge:
    """A design, how models score its prompts, and what must hold of its audits.

    Attributes:
        design: the prompts, with the spreads of effects.
        effects: names of ``ALL_EFFECTS``.
        read: makes the scores of a model from latent ones, whose gap then is no longer that of the scores.
        keeps_mean: whether ``read`` leaves the mean gap as it is.
        limit: the gap that is as large as the margin.
        replayed: whether audits can be replayed; else each is one of ``disaggregate``.
        gate_alone: whether only the gate is looked at: the few levels that are affected make the whole gap.
        too_few: whether no audit may come to a verdict.
        least_power: of 3.2 standard errors, with normal effects; 0: no bar.
        least_covered: of 95 % intervals, with normal effects.
    """

    design: Design
    effects: tuple[str, ...] = BOTH
    read: Reading | None = None
    keeps_mean: bool = False
    limit: float = MARGIN
    replayed: bool = True
    gate_alone: bool = False
    too_few: bool = False
    least_power: float = 0.0
    least_covered: float = 0.93

    @property
    def can_shrink(self) -> bool:
        """Tell whether its effects may be made smaller, so that a gate has something to decide."""
        return self.read is None and not self.gate_alone

    def drawer(self, rng: np.random.Generator, effects: str) -> Callable[[float], Floats]:
        """Return what draws the scores of a model with a latent gap."""
        simulate = (
            simulator(self.design)
            if len(self.design.experiment.gaps) == 1
            else _of_groups(self.design)
        )
        pairs = pd.factorize(self.design.rows["pair_id"])[0]

        def draw(planted: float) -> Floats:
            latent = simulate(rng, ALL_EFFECTS[effects], planted)
            return latent if self.read is None else self.read(rng, latent, pairs)

        return draw

    def latent_gap(self, effects: str, gap: float) -> float:
        """Return the latent gap of models whose scores have this gap on average over all levels and pairs."""
        if self.read is None or self.keeps_mean:
            return gap
        least = -_FARTHEST
        most = _FARTHEST
        if gap >= self._mean_gap(effects, most):  # no model of this kind has so large a gap
            return most
        return float(
            scipy.optimize.brentq(
                lambda latent: self._mean_gap(effects, latent) - gap, least, most, xtol=1e-4
            )
        )

    def _mean_gap(self, effects: str, planted: float) -> float:
        assert self.read is not None
        rng = np.random.default_rng(len(self.design.rows))
        drawn = sum(
            spread * ALL_EFFECTS[effects](rng, _DRAWS) for spread in self.design.spreads.values()
        )
        latent = 0.5 + np.outer([0.5, -0.5], planted + drawn).ravel()
        first, second = self.read(rng, latent, np.tile(np.arange(_DRAWS), 2)).reshape(2, -1)
        return float(first.mean() - second.mean())


def _of_groups(design: Design) -> Callable[[np.random.Generator, Effects, float], Floats]:
    """Return what draws scores of several groups, each with effects of its own; the reference lacks the gap."""
    rows = design.rows
    codes = {
        name: pd.factorize(rows[name].astype(str) + "/" + rows["group"])[0]
        for name in design.spreads
        if name
    }
    codes[""] = np.arange(len(rows))
    compared = (rows["group"] != design.experiment.compares.reference).to_numpy(np.float64)

    def simulate(rng: np.random.Generator, effects: Effects, planted: float) -> Floats:
        parts = [
            spread * effects(rng, int(codes[name].max()) + 1)[codes[name]]
            for name, spread in design.spreads.items()
        ]
        return np.asarray(0.5 + planted * compared + np.sum(parts, axis=0) / math.sqrt(2))

    return simulate


# --- what a model makes of latent scores --------------------------------------------------------------


def answers(rate: float, spreads: Mapping[str, float]) -> Reading:
    """Return what answers 1 at this rate, else 0, by a chance that has the effects."""
    middle = float(scipy.special.ndtri(rate)) * math.hypot(1, LATENT)
    scale = LATENT / (0.5 * math.sqrt(sum(spread**2 for spread in spreads.values())))

    def read(rng: np.random.Generator, latent: Floats, pairs: NDArray[np.intp]) -> Floats:
        chance = scipy.special.ndtr(middle + scale * (latent - 0.5))
        return np.asarray(rng.random(len(chance)) < chance, dtype=np.float64)

    return read


def in_steps(rng: np.random.Generator, latent: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Round to five steps from 0 to 1; texts of a pair share where they lie."""
    shared = LEVEL_SPREAD * rng.standard_normal(int(pairs.max()) + 1)
    return np.asarray(np.clip(np.round(4 * (latent + shared[pairs])), 0, 4) / 4)


def ranked(rng: np.random.Generator, latent: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Put the one of each pair first whose latent score, with noise, is the largest."""
    noisy = latent + 0.1 * rng.gumbel(size=len(latent))
    best = np.full(int(pairs.max()) + 1, -np.inf)
    np.maximum.at(best, pairs, noisy)
    return np.asarray(noisy == best[pairs], dtype=np.float64)


def partly_lost(rng: np.random.Generator, latent: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Lose one score of a hundred."""
    return np.where(rng.random(len(latent)) < MISSING, math.nan, latent)


def with_noise(rng: np.random.Generator, latent: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Add noise to each score, beside effects that few levels have."""
    return latent + 0.03 * rng.standard_normal(len(latent))


# --- the studies --------------------------------------------------------------------------------------

Pair = Mapping[
    str, Any
]  # columns of a pair; ``fills``: by group the number of the name, or one number for both


def own_design(
    title: str,
    clusters: str,
    name: str,
    pairs: Sequence[Pair],
    spreads: Mapping[str, float],
    groups: Sequence[str] = ("female", REFERENCE),
) -> Design:
    """Return the design of a table of pairs, opened as a study of the user's own."""
    table = []
    for number, pair in enumerate(pairs):
        columns = {
            column: f"{column} {value}"
            for column, value in pair.items()
            if column not in ("fills", "text")
        }
        for group in groups:
            fill = pair.get("fills", {}).get(group, "")
            text = f"{group}{fill} was late {pair.get('text', number)} times."
            table.append({"text": text, "group": group, "pair": f"pair {number}", **columns})
    study = open_study(pd.DataFrame(table), reference=REFERENCE, name=f"edge_{name}", range=(0, 1))
    asked = next(experiment for experiment in study.experiments if experiment.kind == "classifier")
    rows = rows_of(study.name, asked.reads.configs[0])
    return design_of(title, clusters, study.name, asked.name, rows, spreads)


def _paired(number: int) -> dict[str, int]:
    return {"female": number, REFERENCE: number}


def _templates(counts: Iterable[int]) -> list[Pair]:
    """Return pairs of templates of so many rows, each with one word a group."""
    return [{"template": template} for template, count in enumerate(counts) for _ in range(count)]


def _grid(templates: int, words: int) -> list[Pair]:
    """Return pairs of every template with every pair of words."""
    return [
        {"template": template, "text": template, "fills": _paired(word)}
        for template in range(templates)
        for word in range(words)
    ]


def _spaced(first: int, last: int, count: int) -> list[int]:
    return [round(value) for value in np.linspace(first, last, count)]


def _templates_alone(count: int) -> Edge:
    pairs = _templates([10] * count)
    return Edge(
        own_design(
            "templates alone", f"{count} templates of 10 rows", f"alone_{count}", pairs, TEMPLATES
        )
    )


def _crossed_words(templates: int, words: int, effects: tuple[str, ...] = BOTH) -> Edge:
    clusters = f"{templates} templates x {words} pairs of words"
    design = own_design(
        "templates and words", clusters, f"grid_{templates}_{words}", _grid(templates, words), WORDS
    )
    return Edge(design, effects)


def _uneven_templates() -> Edge:
    counts = _spaced(1, 40, 12)
    design = own_design(
        "uneven templates", "12 templates of 1 to 40 rows", "uneven", _templates(counts), TEMPLATES
    )
    return Edge(design, least_power=0.65, least_covered=0.94)


def _uneven_with_words() -> Edge:
    pairs = [
        {"template": template, "text": f"{template}-{row}", "fills": _paired(row % 15)}
        for template, count in enumerate(_spaced(2, 40, 12))
        for row in range(count)
    ]
    clusters = "12 templates of 2 to 40 rows, 15 pairs of words"
    return Edge(
        own_design("uneven templates and words", clusters, "uneven_words", pairs, WORDS), THREE
    )


def _one_large() -> Edge:
    design = own_design(
        "one large template",
        "8 templates: one of 50 rows, 7 of 1",
        "large",
        _templates([50] + [1] * 7),
        TEMPLATES,
    )
    return Edge(design)


def _uneven_names() -> Edge:
    pairs = [
        {"template": (template + word) % 20, "text": (template + word) % 20, "fills": _paired(word)}
        for word, count in enumerate(_spaced(20, 1, 12))
        for template in range(count)
    ]
    return Edge(
        own_design(
            "uneven names", "20 templates x 12 pairs, used 20 to 1 times", "names", pairs, WORDS
        )
    )


def _nested_topics() -> Edge:
    pairs = [
        {"template": 4 * topic + template, "topic": topic}
        for topic in range(10)
        for template in range(4)
        for _ in range(5)
    ]
    spreads = TEMPLATES | {"topic": 0.125}
    return Edge(
        own_design(
            "topics of templates", "10 topics x 4 templates x 5 rows", "topics", pairs, spreads
        )
    )


def _adjectives() -> Edge:
    pairs = [
        {"template": template, "adjective": word} for template in range(12) for word in range(8)
    ]
    spreads = TEMPLATES | {"adjective": 0.125}
    return Edge(
        own_design("a column crossed", "12 templates x 8 adjectives", "adjectives", pairs, spreads)
    )


def _variable_names() -> Edge:
    pairs = [
        {
            "template": prompt,
            "text": prompt,
            "fills": {"female": name, REFERENCE: (name + prompt) % 8},
        }
        for prompt in range(50)
        for name in range(8)
    ]
    spreads = TEMPLATES | {"group_fill": 0.15, "reference_fill": 0.05}
    design = own_design(
        "one group's names vary threefold", "50 prompts x 8 + 8 names", "threefold", pairs, spreads
    )
    return Edge(design)


def _few_affected() -> Edge:
    spread = MARGIN * math.sqrt(MOVED["1 of 20"] * (1 - MOVED["1 of 20"])) / MOVED["1 of 20"]
    pairs = _templates([10] * 20)
    design = own_design(
        "1 of 20 templates affected",
        "20 templates of 10 rows",
        "affected",
        pairs,
        {"template": spread},
    )
    return Edge(design, ("1 of 20",), with_noise, keeps_mean=True, gate_alone=True)


def _few_moved() -> Edge:
    spread = MARGIN * math.sqrt(MOVED["1 of 10"] * (1 - MOVED["1 of 10"])) / MOVED["1 of 10"]
    clusters = "9 templates x 8 pairs of words"
    design = own_design(
        "1 of 10 words moves, else equal", clusters, "moved", _grid(9, 8), {"fill_pair": spread}
    )
    return Edge(design, ("1 of 10",), gate_alone=True)


def _steps() -> Edge:
    design = own_design(
        "scores in 5 steps", "20 templates x 10 pairs of words", "steps", _grid(20, 10), WORDS
    )
    return Edge(design, read=in_steps)


def _rate(rate: float) -> Edge:
    design = own_design(
        f"0/1 at {rate:g}",
        "20 templates x 20 pairs of words",
        f"rate_{rate * 100:.0f}",
        _grid(20, 20),
        WORDS,
    )
    rare = min(rate, 1 - rate)
    limit = min(MARGIN, 2 * rare * (RATIO - 1) / (RATIO + 1)) if rare < 0.1 else MARGIN
    return Edge(design, ("normal",), answers(rate, WORDS), limit=limit, replayed=False)


def _missing() -> Edge:
    spreads = {name: spread / 5 for name, spread in WORDS.items()}  # so that an audit can decide
    design = own_design(
        "1 % of scores missing",
        "20 templates x 10 pairs of words",
        "missing",
        _grid(20, 10),
        spreads,
    )
    return Edge(design, read=partly_lost, keeps_mean=True, replayed=False)


def _groups(count: int) -> Edge:
    groups = (*OTHERS[: count - 1], REFERENCE)
    clusters = "12 templates of 10 rows"
    pairs = _templates([10] * 12)
    return Edge(
        own_design(f"{count} groups", clusters, f"groups_{count}", pairs, TEMPLATES, groups)
    )


def _one_template(count: int) -> Edge:
    groups = (*OTHERS[: count - 1], REFERENCE)
    pairs = [{"template": 0, "text": 0, "fills": dict.fromkeys(groups, name)} for name in range(24)]
    clusters = "one template x 24 names a group"
    return Edge(
        own_design(
            f"{count} groups, one template", clusters, f"one_{count}", pairs, {"": 0.136}, groups
        ),
        too_few=True,
    )


def _rankings() -> Edge:
    """Return rankings of two candidates for four jobs, of as many names as a group has."""
    files = {
        "study.toml": f'name = "edge_rankings"\ntitle = "Rankings"\nkind = ["chat"]\n'
        f'[reads]\nreading = "ranking"\n[compares]\nreference = "{REFERENCE}"\n',
        "cvs.csv": "job,cv\n"
        + "".join(f"job {job},[name] has {cv} years\n" for job in range(4) for cv in range(4)),
        "names.csv": "group,name\n"
        + "".join(
            f"{group},{group.title()}{'abcdefghijklmnopqrstuvwx'[name]}\n"
            for group in ("female", REFERENCE)
            for name in range(24)
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        study = open_study(folder)
    rows = rows_of(study.name, "questions")
    design = design_of(
        "rankings of 2", "4 jobs x 24 sets of names", study.name, "chat", rows, RANKED
    )
    return Edge(design, ("normal",), ranked, replayed=False)


EDGES: Mapping[str, Callable[[], Edge]] = {
    "uneven templates": _uneven_templates,
    "uneven templates and words": _uneven_with_words,
    "one large template": _one_large,
    "uneven names": _uneven_names,
    "topics": _nested_topics,
    "adjectives": _adjectives,
    "variable names": _variable_names,
    "4 x 12": partial(_crossed_words, 4, 12, THREE),
    **{f"{count} x 12": partial(_crossed_words, count, 12) for count in (5, 6, 8, 12)},
    "10 x 10": partial(_crossed_words, 10, 10, THREE),
    **{f"{count} templates": partial(_templates_alone, count) for count in (6, 8, 12, 20)},
    "few affected": _few_affected,
    "few moved": _few_moved,
    "steps": _steps,
    **{f"rate {rate}": partial(_rate, rate) for rate in (0.02, 0.5, 0.98)},
    "missing": _missing,
    **{f"{count} groups": partial(_groups, count) for count in (3, 5)},
    **{f"{count} groups, one template": partial(_one_template, count) for count in (3, 5)},
    "rankings": _rankings,
}
FIVE = (
    "uneven templates",
    "8 x 12",
    "10 x 10",
    "20 templates",
    "adjectives",
)  # own studies of one run
