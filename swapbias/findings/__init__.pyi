from .comparison import (
    MOST_DETAILED as MOST_DETAILED,
    agreeing as agreeing,
    compare as compare,
    condition_scores as condition_scores,
    rows_asked as rows_asked,
    units as units,
)
from .disaggregation import (
    FEWEST as FEWEST,
    MARGIN as MARGIN,
    all_alike as all_alike,
    disaggregate as disaggregate,
    equal_needed as equal_needed,
    findings_table as findings_table,
    independent_pairs as independent_pairs,
    judged as judged,
    planned_error as planned_error,
    planned_gap as planned_gap,
    planned_units as planned_units,
    repeated_pairs as repeated_pairs,
    settled as settled,
)
from .finding import (
    ALL as ALL,
    ALL_GAPS as ALL_GAPS,
    APART as APART,
    AS_PUBLISHED as AS_PUBLISHED,
    DIFFERENCE as DIFFERENCE,
    EFFECTS as EFFECTS,
    FOUND as FOUND,
    JUDGED as JUDGED,
    LEVEL as LEVEL,
    LOOKS as LOOKS,
    NONE as NONE,
    SMALL as SMALL,
    SPREAD as SPREAD,
    TOO_FEW as TOO_FEW,
    UNDECIDED as UNDECIDED,
    UNMEASURED as UNMEASURED,
    VERDICTS as VERDICTS,
    Finding as Finding,
    Oriented as Oriented,
    comparisons as comparisons,
    experiment_of as experiment_of,
    headline_of_each as headline_of_each,
    headlines as headlines,
    oriented as oriented,
)
from .gate import (
    FAILS as FAILS,
    OPEN as OPEN,
    PASSES as PASSES,
    Check as Check,
    Gate as Gate,
    check_gaps as check_gaps,
)
from .judgements import by_the_judge as by_the_judge, told_by_chance as told_by_chance
from .predictions import (
    ANSWERS as ANSWERS,
    AS_WRITTEN as AS_WRITTEN,
    BASELINE as BASELINE,
    POSITIVE as POSITIVE,
    RANDOM_DIRECT as RANDOM_DIRECT,
    RANDOM_SIGNED as RANDOM_SIGNED,
    over_trials as over_trials,
)
from .reproduce import NotAtHand as NotAtHand, Reproduced as Reproduced, recompute as recompute
from .robustness import condition_means as condition_means, influential as influential
