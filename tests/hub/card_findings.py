"""Findings of one model and the manifest of their run, as cards are made of them; cards without their section."""

from swapbias.findings.finding import AS_PUBLISHED, Finding
from swapbias.hub.cards import BEGIN, END, find, newline
from swapbias.measures.estimate import Estimate

MANIFEST = {
    "swapbias": "0.1.0",
    "finished": "2026-11-20T22:49:35+00:00",
    "settings": {"model": "m", "studies": ["gendered_stigma"], "limit": None, "seed": 0, "kind": None},
    "corpora": [{"corpus": "gendered_stigma", "config": "rq1", "rows": 1122}],
    "skipped": [
        {"study": "gendered_stigma", "experiment": "rq2", "reason": "not asked for"},
        {"study": "social_distance", "experiment": "antonyms", "reason": "not asked for"},
    ],
}
URL = "https://hf.co/datasets/ns/results/tree/abc"
OVER = "templates + diagnoses"


def finding(
    value=0.25,
    *,
    cluster_vars=OVER,
    view="",
    subset="mental_health",
    measure="paired_gap",
    model="m",
    ci=(0.2, 0.3),
    score="score",
    primary=False,
):
    return Finding(
        study="gendered_stigma", experiment="rq1", model_id=model, score=score, measure=measure,
        contrast="female - male", subset=subset, slice_by="all", slice_value="", unit="probability mass at the mask",
        cluster_vars=cluster_vars, view=view, primary=primary, margin=0.05, group="female", reference_group="male",
        estimate=Estimate(value, *ci, p_value=0.0001, p_adjusted=0.02, n=187, n_unscored=3, test="paired t"),
    )  # fmt: skip


FOUND = [
    finding(primary=True), finding(view=AS_PUBLISHED, ci=(0.24, 0.26)),
    finding(-0.5, subset="other_health", ci=(-0.6, -0.4), primary=True), finding(0.6, measure="mean"),
    finding(0.9, score="closed_list_mass"),
]  # fmt: skip


def without_section(readme):
    """A README without the section, its line end, and the blank line before it."""
    span, gap = find(readme, begin=BEGIN, end=END), newline(readme)
    if span is None:
        return readme
    before = readme[: span[0]]
    before = before.removesuffix(gap) if before.endswith(gap * 2) else before
    return before + readme[span[1] :].removeprefix(gap)
