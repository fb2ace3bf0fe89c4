from .answer_accuracy import (
    CLASSES as CLASSES,
    REFUSED as REFUSED,
    SAID as SAID,
    UNREADABLE as UNREADABLE,
    Option as Option,
    OptionOdds as OptionOdds,
    answer_bias as answer_bias,
    difference_of_biases as difference_of_biases,
    option_odds as option_odds,
    options_of as options_of,
    sentence_means as sentence_means,
    trial_biases as trial_biases,
)
from .contrast import (
    Design as Design,
    linear_contrast as linear_contrast,
    shares_in as shares_in,
    t_ends as t_ends,
    t_p as t_p,
)
from .direction import (
    WITHOUT_PAIR as WITHOUT_PAIR,
    cosines_with as cosines_with,
    direct_bias as direct_bias,
    directions_without_a_pair as directions_without_a_pair,
    from_cosines as from_cosines,
    gender_direction as gender_direction,
    random_cosine as random_cosine,
)
from .estimate import (
    Estimate as Estimate,
    Factors as Factors,
    Floats as Floats,
    Record as Record,
    named_group as named_group,
    rows_of as rows_of,
)
from .gaps import (
    detectable_gap as detectable_gap,
    equal_units_needed as equal_units_needed,
    group_gap as group_gap,
    paired_gap as paired_gap,
    power as power,
    sign_test_p as sign_test_p,
)
from .groups import (
    Contrasts as Contrasts,
    Effect as Effect,
    Factorial as Factorial,
    Intersection as Intersection,
    Omnibus as Omnibus,
    compared as compared,
    contrasts as contrasts,
    crossed_effects as crossed_effects,
    factorial as factorial,
    module_result as module_result,
    omnibus as omnibus,
    omnibus_of_rates as omnibus_of_rates,
)
from .interim_analyses import (
    interim_level as interim_level,
    interim_rounds as interim_rounds,
    sequential_adjust as sequential_adjust,
    sequential_p as sequential_p,
)
from .levels import (
    adjust as adjust,
    correlation as correlation,
    label_masses as label_masses,
    mass_by_label as mass_by_label,
    mean_score as mean_score,
    plain_word as plain_word,
    share_above as share_above,
    share_right as share_right,
)
from .measure import (
    MEASURES as MEASURES,
    RATE_UNITS as RATE_UNITS,
    SPANS as SPANS,
    CheckedInputs as CheckedInputs,
    Measure as Measure,
    Scale as Scale,
    margin_in as margin_in,
    module_info as module_info,
)
from .performance import DIFFERENCES as DIFFERENCES, Performance as Performance, performance as performance
from .rates import (
    agreement_share as agreement_share,
    flip_rate as flip_rate,
    kappa as kappa,
    macro_f1 as macro_f1,
    rate_ratio as rate_ratio,
    uar as uar,
)
