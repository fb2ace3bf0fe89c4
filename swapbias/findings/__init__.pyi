from .comparison import agreeing as agreeing, compare as compare, condition_scores as condition_scores, units as units
from .disaggregation import (
    condition_means as condition_means,
    disaggregate as disaggregate,
    findings_table as findings_table,
)
from .finding import (
    Finding as Finding,
    Oriented as Oriented,
    experiment_of as experiment_of,
    headline_of_each as headline_of_each,
    headlines as headlines,
    oriented as oriented,
)
from .predictions import (
    ANSWERS as ANSWERS,
    BASELINE as BASELINE,
    RANDOM_DIRECT as RANDOM_DIRECT,
    RANDOM_SIGNED as RANDOM_SIGNED,
    over_trials as over_trials,
)
from .reproduce import NotAtHand as NotAtHand, Reproduced as Reproduced, recompute as recompute
