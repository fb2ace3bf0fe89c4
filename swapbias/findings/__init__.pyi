from .analysis import disaggregate as disaggregate, findings_table as findings_table
from .context import Context as Context
from .decision import with_verdicts as with_verdicts
from .finding import (
    Finding as Finding,
    comparisons as comparisons,
    experiment_of as experiment_of,
    oriented as oriented,
    primary_findings as primary_findings,
    with_every_word as with_every_word,
)
from .gate import check_gaps as check_gaps, lacks_range as lacks_range
from .gate_checks import Check as Check, Gate as Gate
from .model_difference import compare as compare
from .planned_spreads import EarlierRun as EarlierRun
from .planning import (
    PlannedExperiment as PlannedExperiment,
    PlannedGap as PlannedGap,
    plan_gaps as plan_gaps,
    planned_gap as planned_gap,
)
from .predictions import BASELINE as BASELINE, answer_counts as answer_counts
from .repeats import HALF as HALF, commonest as commonest
from .reproduce import (
    NotAtHand as NotAtHand,
    NotCompared as NotCompared,
    Reproduced as Reproduced,
    recompute as recompute,
)
