"""Primary findings as numbers by name, for a training log and for other harnesses."""

import math
import re
from collections import Counter
from collections.abc import Sequence

from swapbias.findings.finding import Finding, primary_findings


def bias_metrics(findings: Sequence[Finding]) -> dict[str, float]:
    """Give the primary findings as metrics by name, each with the ends of its own interval.

    An experiment of two groups is ``bias/STUDY_EXPERIMENT``. With more groups each contrast has a name of its own
    (``bias/STUDY_EXPERIMENT_GROUP_minus_REFERENCE``), and so has the test of all groups (``..._all_groups``).

    Args:
        findings: the findings of one audit.

    Returns:
        Values in the unit of each finding, their intervals under ``_low`` and ``_high``; nothing of what is NaN.
    """
    primary = primary_findings(findings)
    contrasts = Counter(_question(finding) for finding in primary)
    names: Counter[str] = Counter()
    metrics: dict[str, float] = {}
    for finding in primary:
        parts = list(_question(finding))
        if contrasts[_question(finding)] > 1:
            contrast = finding.contrast.replace(" - ", " minus ")
            parts.append(re.sub(r"[^\w.-]+", "_", contrast).strip("_"))
        name = "bias/" + "_".join(filter(None, parts))
        names[name] += 1
        if names[name] > 1:  # groups whose names differ in blanks or marks alone
            name = f"{name}_{names[name]}"
        estimate = finding.estimate
        values = {
            name: estimate.value,
            f"{name}_low": estimate.ci_low,
            f"{name}_high": estimate.ci_high,
        }
        for key, value in values.items():
            if not math.isnan(value):
                metrics[key] = float(value)
    return metrics


def _question(finding: Finding) -> tuple[str, str, str]:
    """Name what a finding is about except the groups that it compares."""
    return finding.study, finding.experiment, finding.slice_value
