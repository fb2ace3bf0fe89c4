"""Measures: arrays in, an Estimate out. numpy and scipy only."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.measures.answers import (
        CLASSES as CLASSES,
        PARSERS as PARSERS,
        SAID as SAID,
        answer_bias as answer_bias,
        answer_class as answer_class,
        difference_of_biases as difference_of_biases,
        trial_biases as trial_biases,
    )
    from swapbias.measures.direction import (
        direct_bias as direct_bias,
        from_cosines as from_cosines,
        gender_direction as gender_direction,
    )
    from swapbias.measures.estimate import Estimate as Estimate
    from swapbias.measures.gaps import group_gap as group_gap, paired_gap as paired_gap, paired_gaps as paired_gaps
    from swapbias.measures.intervals import bootstrap_intervals as bootstrap_intervals
    from swapbias.measures.levels import (
        adjust as adjust,
        correlation as correlation,
        label_masses as label_masses,
        mean_score as mean_score,
        share_above as share_above,
    )
    from swapbias.measures.rates import (
        flip_rate as flip_rate,
        macro_f1 as macro_f1,
        rate_ratio as rate_ratio,
        uar as uar,
    )

__getattr__ = front_door(
    __name__,
    {
        "answers": "CLASSES PARSERS SAID answer_bias answer_class difference_of_biases trial_biases",
        "direction": "direct_bias from_cosines gender_direction",
        "estimate": "Estimate",
        "gaps": "group_gap paired_gap paired_gaps",
        "intervals": "bootstrap_intervals",
        "levels": "adjust correlation label_masses mean_score share_above",
        "rates": "flip_rate macro_f1 rate_ratio uar",
    },
)
