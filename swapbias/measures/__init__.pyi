from .answer_accuracy import (
    CLASSES as CLASSES,
    answer_bias as answer_bias,
    mass_by_label as mass_by_label,
    plain_word as plain_word,
)
from .comparison import (
    MOSTLY_TIED as MOSTLY_TIED,
    Comparison as Comparison,
    PairedComparison as PairedComparison,
)
from .comparisons import (
    comparison_of as comparison_of,
    is_comparison as is_comparison,
)
from .crossed_factors import (
    factorial as factorial,
)
from .design import (
    Design as Design,
)
from .direction import (
    direct_bias as direct_bias,
)
from .estimate import (
    Estimate as Estimate,
    Floats as Floats,
)
from .evaluate_module import (
    CheckedInputs as CheckedInputs,
    module_info as module_info,
)
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
)
from .measure import (
    MEASURES as MEASURES,
    Measure as Measure,
)
from .rates import (
    flip_rate as flip_rate,
    rate_ratio as rate_ratio,
    share_above as share_above,
    uar as uar,
)
from .units import (
    Unit as Unit,
)
