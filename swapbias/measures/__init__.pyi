from .answer_accuracy import (
    CLASSES as CLASSES,
    REFUSED as REFUSED,
    SAID as SAID,
    UNREADABLE as UNREADABLE,
    answer_bias as answer_bias,
    mass_by_label as mass_by_label,
    option_odds as option_odds,
    plain_word as plain_word,
)
from .comparison import (
    MOSTLY_TIED as MOSTLY_TIED,
    ComparedUnits as ComparedUnits,
    Comparison as Comparison,
    PairedComparison as PairedComparison,
    units_of_pairs as units_of_pairs,
)
from .comparisons import (
    COMPARISONS as COMPARISONS,
    comparison_of as comparison_of,
    is_comparison as is_comparison,
)
from .contrast import linear_contrast as linear_contrast, pooled_spread as pooled_spread
from .crossed_factors import (
    Effect as Effect,
    crossed_effects as crossed_effects,
    factorial as factorial,
)
from .design import (
    Design as Design,
    level_shares as level_shares,
    scarcest_levels as scarcest_levels,
    shares_in as shares_in,
)
from .direction import (
    WITHOUT_PAIR as WITHOUT_PAIR,
    cosines_with as cosines_with,
    direct_bias as direct_bias,
    directions_without_a_pair as directions_without_a_pair,
    from_cosines as from_cosines,
    gender_direction as gender_direction,
)
from .estimate import (
    Estimate as Estimate,
    Factors as Factors,
    Floats as Floats,
    named_group as named_group,
    rows_of as rows_of,
)
from .evaluate_module import CheckedInputs as CheckedInputs, module_info as module_info
from .gaps import (
    correlation as correlation,
    group_gap as group_gap,
    mean_score as mean_score,
    omnibus as omnibus,
    paired_gap as paired_gap,
    selection_rate as selection_rate,
)
from .intervals import (
    adjust as adjust,
    at_level as at_level,
    detectable_gap as detectable_gap,
    equal_units_needed as equal_units_needed,
    power as power,
    t_ends as t_ends,
    t_p as t_p,
)
from .measure import (
    MEASURES as MEASURES,
    Measure as Measure,
)
from .rates import (
    agreement as agreement,
    flip_rate as flip_rate,
    macro_f1 as macro_f1,
    rate_ratio as rate_ratio,
    share_above as share_above,
    share_right as share_right,
    uar as uar,
)
from .record import Record as Record
from .units import (
    RAW_SCORE as RAW_SCORE,
    UNITS as UNITS,
    UNNAMED_SCORE as UNNAMED_SCORE,
    Unit as Unit,
    named_unit as named_unit,
    with_range_of as with_range_of,
)
