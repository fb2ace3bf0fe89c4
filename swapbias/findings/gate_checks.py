"""Results of a gate: the check of one gap, and all checks of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from swapbias.findings.finding import Finding
from swapbias.findings.terms import FAILS, OPEN, PASSES
from swapbias.measures import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One primary gap against a margin.

    Attributes:
        finding: the gap, by the inference of its design.
        margin: what it must stay within, in its unit; of a comparison what it may be larger by than the baseline's.
        outcome: ``PASSES``, ``FAILS`` or ``OPEN``.
        why: the basis of the outcome (``same_score``, ``few_levels`` ...); blank for the printed interval.
        of_baseline: whether ``why`` is about the baseline, which was not measured.
        baseline, change: of a comparison the baseline's gap over the prompts that both runs scored, and the gap less
            that, paired by prompt; else None.
        components: of a difference of gaps the gaps that it is made of, which are not gated.
    """

    finding: Finding
    margin: float
    outcome: str = OPEN
    why: str = ""
    of_baseline: bool = False
    baseline: Estimate | None = None
    change: Estimate | None = None
    components: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of a check of a run: its primary gaps, primary findings that are none, notes about its prompts."""

    checks: tuple[Check, ...]
    unchecked: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """``fails`` where any gap fails, ``passes`` where all pass, else ``undecided``."""
        found = {one.outcome for one in self.checks}
        return FAILS if FAILS in found else PASSES if found == {PASSES} else OPEN

    @property
    def code(self) -> int:
        """The exit code of ``swapbias check``: 0 passes, 1 fails, 3 undecided."""
        return {PASSES: 0, FAILS: 1, OPEN: 3}[self.outcome]


SAME_MODEL = "same_model_scores"


FEW_EQUAL_CHANGES = "few_equal_changes"


Items = Mapping[str, pd.DataFrame]
