from .answers import (
    CLASSES as CLASSES,
    PARSERS as PARSERS,
    SAID as SAID,
    answer_bias as answer_bias,
    answer_class as answer_class,
    difference_of_biases as difference_of_biases,
    sentence_means as sentence_means,
    trial_biases as trial_biases,
)
from .direction import (
    cosines_with as cosines_with,
    direct_bias as direct_bias,
    from_cosines as from_cosines,
    gender_direction as gender_direction,
)
from .estimate import Estimate as Estimate, Floats as Floats
from .gaps import group_gap as group_gap, paired_gap as paired_gap
from .levels import (
    adjust as adjust,
    correlation as correlation,
    label_masses as label_masses,
    mass_by_label as mass_by_label,
    mean_score as mean_score,
    share_above as share_above,
)
from .measure import MEASURES as MEASURES, Measure as Measure, Scale as Scale
from .rates import flip_rate as flip_rate, macro_f1 as macro_f1, rate_ratio as rate_ratio, uar as uar
