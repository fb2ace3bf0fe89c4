"""Results of a gate: the check of one gap, and all checks of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from swapbias.findings.finding import Finding
from swapbias.findings.terms import FAILS, OPEN, PASSES
from swapbias.measures import Estimate

SAME_MODEL = "same_model_scores"
"""Basis of an outcome beside a baseline: both models score every prompt the same."""
FEW_EQUAL_CHANGES = "few_equal_changes"
"""Basis of an outcome beside a baseline: nothing changes, at too few levels to rule out the margin."""
Items = Mapping[str, pd.DataFrame]
"""Scored rows of a run by study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One primary gap against a margin."""

    finding: Finding
    """The gap, by the inference of its design."""
    margin: float
    """The distance from 0 that it must stay within, in its unit; beside a baseline how much larger it may be."""
    outcome: str = OPEN
    """``PASSES``, ``FAILS`` or ``OPEN``."""
    why: str = ""
    """The basis of the outcome (``same_score``, ``few_levels`` ...); blank for the printed interval."""
    of_baseline: bool = False
    """Whether ``why`` is about the baseline, which was not measured."""
    baseline: Estimate | None = None
    """The baseline's gap over the prompts that both runs scored; None without a baseline."""
    change: Estimate | None = None
    """The gap less the baseline's, paired by prompt; None without a baseline."""
    components: tuple[Finding, ...] = ()
    """Of a difference of gaps the gaps that it is made of, which are not gated."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Result of a check of a run."""

    checks: tuple[Check, ...]
    """Its primary gaps."""
    unchecked: tuple[Finding, ...] = ()
    """Its primary findings that are no gaps."""
    notes: tuple[str, ...] = ()
    """Notes about its prompts, in sentences."""

    @property
    def outcome(self) -> str:
        """Return ``fails`` where any gap fails, ``passes`` where all pass, else ``undecided``."""
        outcomes = {check.outcome for check in self.checks}
        if FAILS in outcomes:
            return FAILS
        return PASSES if outcomes == {PASSES} else OPEN

    @property
    def code(self) -> int:
        """Return the exit code of ``swapbias check``: 0 passes, 1 fails, 3 undecided."""
        return {PASSES: 0, FAILS: 1, OPEN: 3}[self.outcome]
