"""Whether a judge's numbers hold where there is nothing: audits of blind models by blind judges.

Answers and judgements are drawn without a look at the group and go through ``JudgedScorer`` and ``disaggregate``; the
95 % intervals of the judged gap, of kappa and of the recall of the group should hold 0, 0 and one over the groups.
"""

import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import ClassVar

import pandas as pd

from benchmarks.frame import Scale, Series, scaled
from swapbias.findings import disaggregate
from swapbias.findings.judge_findings import findings_of_judge
from swapbias.models import Progress, Scored, Scorer
from swapbias.runs.judge import JudgedScorer, read_judgement
from swapbias.studies import Prompt, config_rows, load_study
from swapbias.studies.answer_scores import read_text
from tests.scoring import score_rows

STUDY = "stigma_vignettes"
AUDITS = 60
# how many answers differ
CONFIGS = ("advice_gender", "advice_race")
DIFFERENT = (6, 600)
SAID = ("No, I would not.", "Yes, I would.")


class _Blind(Scorer):
    """A model whose answers, and a judge whose judgements, are drawn."""

    model_id = "blind"
    kind = "chat"
    unit = "share of answers"
    log: ClassVar[list[str]] = ["an answer"]

    def __init__(self, seed: int, different: int) -> None:
        self.rng = random.Random(seed)
        self.different = different
        self.identity: dict[str, str] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        return [self._scored(prompt) for prompt in prompts]

    def _scored(self, prompt: Prompt) -> Scored:
        """Return what is read of a judgement, or of an answer."""
        judges = "<answer>" in prompt.text
        text = self._judgement(prompt.text) if judges else self._answer()
        score, parts = read_judgement(prompt, text) if judges else read_text(prompt, text)
        return Scored(score, text, parts=parts)

    def _answer(self) -> str:
        number = self.rng.randrange(self.different)
        return f"{SAID[number % 2]} I think so for reason {number} and hope{number % 7}."

    def _judgement(self, text: str) -> str:
        """The same of the same text, which is judged once."""
        return random.Random(f"{self.different}/{text}").choice("ABCD")


def _audit(config: str, different: int, seed: int) -> list[tuple[str, float, float, float]]:
    """Measure, value and interval of what a blind judge found."""
    experiment = next(one for one in load_study(STUDY).experiments if one.name == config)
    assert experiment.reads.rubric is not None
    rows = [row for row in config_rows(STUDY, config) if row["condition"] == "depression"]
    blind = _Blind(seed, different)
    scorer = JudgedScorer(
        blind,
        {"blind": _Blind(seed, seed)},
        experiment.reads.rubric,
        lambda title, total: lambda done: None,
    )
    found = disaggregate(pd.DataFrame(score_rows(rows, scorer)), STUDY, robustness=False)
    return [
        (
            one.measure if one.measure != "group_leakage" else f"{one.measure}, {one.contrast}",
            one.estimate.value,
            one.estimate.ci_low,
            one.estimate.ci_high,
        )
        for one in findings_of_judge(found)
    ]


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []
    for config, different in product(CONFIGS, DIFFERENT):
        seeds = range(0, 2 * scaled(AUDITS, scale, least=4), 2)
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            done = pd.DataFrame(
                [
                    one
                    for audit in pool.map(partial(_audit, config, different), seeds, chunksize=4)
                    for one in audit
                ],
                columns=["measure", "value", "low", "high"],
            )
        truth = {"paired_gap": 0.0, "kappa": 0.0}
        chance = 1 / len(
            next(one for one in load_study(STUDY).experiments if one.name == config).compared
        )
        for measure, part in done[done["measure"] != "agreement"].groupby("measure", sort=False):
            expected = truth.get(str(measure), chance)
            known = part.dropna()
            held = ((known["low"] <= expected) & (expected <= known["high"])).mean()
            above = (known["low"] > expected).mean()
            made.append(
                (
                    config,
                    str(different),
                    str(measure),
                    f"{len(known)}",
                    f"{expected:.3f}",
                    f"{known['value'].mean():.3f}",
                    f"{held:.3f}",
                    f"{above:.3f}",
                )
            )
    return made


SERIES = Series(
    "judge",
    "A blind judge of a blind model",
    ("experiment", "different answers", "measure", "intervals", "truth", "mean", "held", "above"),
    _rows,
    timed=False,
)
