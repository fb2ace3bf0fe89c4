"""From scores to findings: disaggregated, compared, reproduced, held against published numbers."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.findings.answers import ANSWERS as ANSWERS, BASELINE as BASELINE, over_trials as over_trials
    from swapbias.findings.comparison import (
        agreeing as agreeing,
        compare as compare,
        condition_scores as condition_scores,
        units as units,
    )
    from swapbias.findings.disaggregation import (
        condition_means as condition_means,
        disaggregate as disaggregate,
        findings_table as findings_table,
    )
    from swapbias.findings.finding import Finding as Finding
    from swapbias.findings.headline import (
        Oriented as Oriented,
        experiment_of as experiment_of,
        headline_of_each as headline_of_each,
        headlines as headlines,
        oriented as oriented,
    )
    from swapbias.findings.predictions import RANDOM_DIRECT as RANDOM_DIRECT, RANDOM_SIGNED as RANDOM_SIGNED
    from swapbias.findings.reproduce import NotAtHand as NotAtHand, Reproduced as Reproduced, recompute as recompute

__getattr__ = front_door(
    __name__,
    {
        "answers": "ANSWERS BASELINE over_trials",
        "comparison": "agreeing compare condition_scores units",
        "disaggregation": "condition_means disaggregate findings_table",
        "finding": "Finding",
        "headline": "Oriented experiment_of headline_of_each headlines oriented",
        "predictions": "RANDOM_DIRECT RANDOM_SIGNED",
        "reproduce": "NotAtHand Reproduced recompute",
    },
)
