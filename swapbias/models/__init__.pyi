from .auto import (
    kind_of as kind_of,
    kinds as kinds,
    load_scorer as load_scorer,
    model_kind as model_kind,
    planned_kind as planned_kind,
)
from .base import (
    LoadOptions as LoadOptions,
    Request as Request,
)
from .kind import Kind as Kind, Reading as Reading, RowSource as RowSource
from .lengths import length_limit as length_limit
from .loading import load_model as load_model
from .options import (
    STRICT as STRICT,
    Fault as Fault,
    Options as Options,
    Setting as Setting,
    SettingsError as SettingsError,
    Use as Use,
)
from .progress import (
    Progress as Progress,
)
from .reading_check import check_readings as check_readings, package_faults as package_faults
from .scorer import (
    DerivedScorer as DerivedScorer,
    Scored as Scored,
    Scorer as Scorer,
    checked_scores as checked_scores,
)
from .training import (
    TrainSettings as TrainSettings,
    train_model as train_model,
)
