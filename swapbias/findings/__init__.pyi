from .analysis import disaggregate as disaggregate, findings_table as findings_table
from .compared_units import (
    gap_units as gap_units,
    pair_gaps as pair_gaps,
    primary_rows as primary_rows,
)
from .context import Context as Context
from .decision import (
    Decision as Decision,
    adjusted_p as adjusted_p,
    decide as decide,
    equal_needed as equal_needed,
    levels_of as levels_of,
    nothing_moves as nothing_moves,
    with_verdicts as with_verdicts,
)
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
from .judge_findings import (
    GOAL as GOAL,
    blinding as blinding,
    findings_of_judge as findings_of_judge,
    without_groups as without_groups,
)
from .model_difference import (
    MOST_DETAILED as MOST_DETAILED,
    compare as compare,
    condition_scores as condition_scores,
)
from .planned_spreads import (
    EarlierRun as EarlierRun,
    Spreads as Spreads,
    earlier_gaps as earlier_gaps,
)
from .planning import (
    Needed as Needed,
    PlannedExperiment as PlannedExperiment,
    PlannedGap as PlannedGap,
    plan_gaps as plan_gaps,
    planned_gap as planned_gap,
    planned_std_error as planned_std_error,
)
from .predictions import (
    BASELINE as BASELINE,
    RANDOM_DIRECT as RANDOM_DIRECT,
    answer_counts as answer_counts,
)
from .repeats import HALF as HALF, Repeats as Repeats, commonest as commonest
from .reproduce import NotAtHand as NotAtHand, Reproduced as Reproduced, recompute as recompute
from .scored_rows import (
    ANSWERS as ANSWERS,
    condition_means as condition_means,
    is_constant as is_constant,
    row_shares as row_shares,
    scores_right_answers as scores_right_answers,
)
from .terms import (
    ALL_GAPS as ALL_GAPS,
    AS_PUBLISHED as AS_PUBLISHED,
    CONTROL as CONTROL,
    CONTROL_MOVED as CONTROL_MOVED,
    CONTROL_UNKNOWN as CONTROL_UNKNOWN,
    CONTROL_UNMOVED as CONTROL_UNMOVED,
    DIFFERENCE as DIFFERENCE,
    EFFECTS as EFFECTS,
    EQUAL_SCORES as EQUAL_SCORES,
    EXACT_TEST as EXACT_TEST,
    FAILS as FAILS,
    FEW_EQUAL as FEW_EQUAL,
    FEW_LEVELS as FEW_LEVELS,
    FEWEST as FEWEST,
    FOUND as FOUND,
    INDEPENDENT as INDEPENDENT,
    LEVEL as LEVEL,
    MARGIN as MARGIN,
    MISSING_SCORES as MISSING_SCORES,
    MIXED_SIGNS as MIXED_SIGNS,
    MOSTLY_UNSCORED as MOSTLY_UNSCORED,
    NO_CONTROL as NO_CONTROL,
    NO_RANGE as NO_RANGE,
    NO_SPREAD as NO_SPREAD,
    NONE as NONE,
    NOT_STABLE as NOT_STABLE,
    NOTHING_SCORED as NOTHING_SCORED,
    OPEN as OPEN,
    PASSES as PASSES,
    RARE as RARE,
    RATIO_MARGIN as RATIO_MARGIN,
    REPEATED_ANSWERS as REPEATED_ANSWERS,
    SAME_INPUT as SAME_INPUT,
    SAME_SCORE as SAME_SCORE,
    SMALL as SMALL,
    SPREAD as SPREAD,
    STILL as STILL,
    TOO_FEW as TOO_FEW,
    UNDECIDED as UNDECIDED,
    UNMEASURED as UNMEASURED,
    UNMEASURED_REASONS as UNMEASURED_REASONS,
    UNNAMED_FILLS as UNNAMED_FILLS,
    UNREAD_SWAP as UNREAD_SWAP,
    UNSTABLE as UNSTABLE,
    VERDICTS as VERDICTS,
)
