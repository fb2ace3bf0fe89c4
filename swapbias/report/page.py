"""The report: one HTML file without any external reference."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from swapbias.findings import ANSWERS, AS_PUBLISHED, Finding, comparisons
from swapbias.privacy import public_manifest
from swapbias.report import words
from swapbias.report.figures import Drawn, headline_figure
from swapbias.studies import Experiment, load_study


def environment() -> Environment:
    """The templates of this package."""
    return Environment(
        loader=PackageLoader("swapbias.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


EXAMPLES = 4  # pairs shown at each end
_OF_ANSWERS = (
    "Intervals, tests and n are over sentence pairs: the trials of a pair are averaged, and over all rows its "
    "adjectives as well, so that asking again does not make them surer. Differences to the baseline are paired by "
    "sentence; the dimmed row below each compares trials, as published, and says nothing about other sentences."
)


@dataclass(frozen=True, slots=True)
class Page:
    """What the report is made of."""

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Mapping[str, pd.DataFrame]
    figures: Sequence[Drawn]
    coverage: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Example:
    """One pair: what was read, what the model gave each group."""

    texts: list[str]
    other: float
    reference: float
    answers: str


def render(page: Page) -> str:
    """The report as HTML; every value from outside is escaped, no place on this machine is named.

    Without items it shows no texts.
    """
    manifest = public_manifest(page.manifest)
    return _template("page.html.j2").render(
        manifest=manifest,
        models=manifest["models"],
        headlines=comparisons(page.found, views=True),
        several=len({one.model_id for one in page.found}) > 1,
        original=all("original" in one["config"] for one in manifest["corpora"]),
        compared=_published(page.found),
        leaks=_planted(page.found, "planted leak"),
        planted=_planted(page.found, "planted"),
        studies=[_section(page, name) for name in dict.fromkeys(one.study for one in page.found)],
        with_items=bool(page.items),
        coverage=_coverage(page.coverage),
    )


def render_summary(found: Sequence[Finding]) -> str:
    """What a notebook shows of a run, as HTML without any reference: headlines with verdicts, and their figure."""
    told = comparisons(found)
    several = len({one.model_id for one in told}) > 1
    return _template("summary.html.j2").render(found=told, several=several, figure=headline_figure(found))


def _template(name: str) -> Template:
    templates = environment()
    templates.globals |= {
        "words": words,
        "data_uri": lambda svg: "data:image/svg+xml;base64," + base64.b64encode(svg).decode(),
    }
    return templates.get_template(name)


def _planted(found: Sequence[Finding], source: str) -> list[Finding]:
    return [one for one in found if not one.view and one.published and one.published.source == source]


def _published(found: Sequence[Finding]) -> list[Finding]:
    """What papers print a number for, by their own statistics where there are such."""
    known = [one for one in found if one.published and not one.published.source.startswith("planted")]
    own = {(one.study, one.model_id, *one.key()) for one in known if one.view == AS_PUBLISHED}
    return [one for one in known if one.view == AS_PUBLISHED or (one.study, one.model_id, *one.key()) not in own]


def _section(page: Page, name: str) -> dict[str, Any]:
    study = load_study(name)
    mine = [one for one in page.found if one.study == name]
    run = {one.experiment for one in mine}
    return {
        "study": study,
        "several": len({one.model_id for one in mine}) > 1,
        "figures": [figure for figure in page.figures if figure.study == name],
        "experiments": [
            {
                "experiment": experiment,
                "unit": next(one.unit for one in mine if one.experiment == experiment.name),
                "note": _OF_ANSWERS if ANSWERS in experiment.rates else "",
                "tables": _tables(experiment, [one for one in mine if one.experiment == experiment.name]),
                "examples": _examples(experiment, page.items[name]) if name in page.items else [],
                "grids": words.rate_grids([one for one in mine if one.experiment == experiment.name]),
            }
            for experiment in study.experiments
            if experiment.name in run
        ],
    }


def _tables(experiment: Experiment, found: list[Finding]) -> list[tuple[str, list[Finding]]]:
    """Findings by slice: over all rows every score and view, else the published score by the design.

    Of answers the published test between trials stands at the slices too.
    """
    answers = ANSWERS in experiment.rates
    shown = [one for one in found if one.slice_by == "all" or (one.score == "score" and (answers or not one.view))]
    names = dict.fromkeys(one.slice_by for one in shown)
    return [(name, [one for one in shown if one.slice_by == name]) for name in names]


def _examples(experiment: Experiment, items: pd.DataFrame) -> list[Example]:
    """The pairs with the lowest and the highest gap."""
    if experiment.rates:  # notes are too long to stand here, and each stands once a regime
        return []
    rows = items[items["experiment"] == experiment.name]
    pair = [experiment.group, experiment.reference_group]
    two = rows[rows["group"].isin(pair)]
    scores = two.pivot(index="pair_id", columns="group", values="score").dropna()
    if experiment.measure != "paired_gap" or not set(pair) <= set(scores):
        return []
    gaps = scores[pair[0]] - scores[pair[1]]
    if not len(gaps) or gaps.max() - gaps.min() < 1e-9:  # no pair stands out
        return []
    order = gaps.sort_values(kind="stable").index
    ends = order if len(order) <= 2 * EXAMPLES else [*order[:EXAMPLES], *order[-EXAMPLES:]]
    chosen = two[two["pair_id"].isin(set(ends))].groupby("pair_id", sort=False)
    return [_example(chosen.get_group(name), pair) for name in ends]


def _example(rows: pd.DataFrame, pair: list[str]) -> Example:
    by_group = rows.set_index("group")
    top = json.loads(rows["top_tokens"].iloc[0])[:5]
    answers = ", ".join(f"{token} {probability:.2f}" for token, probability in top)
    texts = list(dict.fromkeys(by_group.loc[pair, "text"]))
    return Example(texts, by_group.loc[pair[0], "score"], by_group.loc[pair[1], "score"], answers)


def _coverage(coverage: pd.DataFrame) -> list[dict[str, Any]]:
    if not len(coverage):
        return []
    return [
        {
            "lexicon": lexicon,
            "label": label,
            "words": len(part),
            "seen": int(part["in_vocabulary"].sum()),
            "matched": int(part["matched"].sum()) if "matched" in part else 0,
            "lost": part.loc[~part["in_vocabulary"], "word"].head(12).tolist(),
        }
        for (lexicon, label), part in coverage.groupby(["lexicon", "label"], sort=False)
    ]
