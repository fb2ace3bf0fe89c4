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
        sentence_means as sentence_means,
        trial_biases as trial_biases,
    )
    from swapbias.measures.direction import (
        cosines_with as cosines_with,
        direct_bias as direct_bias,
        from_cosines as from_cosines,
        gender_direction as gender_direction,
    )
    from swapbias.measures.estimate import Estimate as Estimate, Floats as Floats
    from swapbias.measures.gaps import group_gap as group_gap, paired_gap as paired_gap
    from swapbias.measures.levels import (
        adjust as adjust,
        correlation as correlation,
        label_masses as label_masses,
        mass_by_label as mass_by_label,
        mean_score as mean_score,
        share_above as share_above,
    )
    from swapbias.measures.measure import MEASURES as MEASURES, Measure as Measure, Scale as Scale
    from swapbias.measures.rates import (
        flip_rate as flip_rate,
        macro_f1 as macro_f1,
        rate_ratio as rate_ratio,
        uar as uar,
    )

__getattr__ = front_door(
    __name__,
    {
        "answers": "CLASSES PARSERS SAID answer_bias answer_class difference_of_biases sentence_means trial_biases",
        "direction": "cosines_with direct_bias from_cosines gender_direction",
        "estimate": "Estimate Floats",
        "gaps": "group_gap paired_gap",
        "levels": "adjust correlation label_masses mass_by_label mean_score share_above",
        "measure": "MEASURES Measure Scale",
        "rates": "flip_rate macro_f1 rate_ratio uar",
    },
)
