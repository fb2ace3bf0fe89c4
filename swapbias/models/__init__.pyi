from .auto import (
    KINDS as KINDS,
    kind_of as kind_of,
    kinds as kinds,
    load_scorer as load_scorer,
    model_kind as model_kind,
    model_kinds as model_kinds,
    planned_kind as planned_kind,
    unit_of as unit_of,
)
from .base import (
    PROMPTS as PROMPTS,
    VADER as VADER,
    VERSIONS as VERSIONS,
    Bar as Bar,
    LoadOptions as LoadOptions,
    Request as Request,
    Say as Say,
    is_callable as is_callable,
    no_bar as no_bar,
    short_name as short_name,
)
from .kind import Kind as Kind, Reading as Reading
from .loading import (
    length_limit as length_limit,
    load_model as load_model,
    module_file as module_file,
)
from .model_names import (
    as_pinned as as_pinned,
    planned_name as planned_name,
    split_revision as split_revision,
    weight_files as weight_files,
)
from .options import (
    STRICT as STRICT,
    Fault as Fault,
    Options as Options,
    Place as Place,
    Setting as Setting,
    SettingsError as SettingsError,
    Texts as Texts,
    Use as Use,
    as_tuple as as_tuple,
)
from .reading_check import check_readings as check_readings, package_faults as package_faults
from .scorer import (
    DerivedScorer as DerivedScorer,
    Progress as Progress,
    Scored as Scored,
    Scorer as Scorer,
    checked_scores as checked_scores,
    silent as silent,
)
from .sentiment import (
    PUBLISHED_AUDIT as PUBLISHED_AUDIT,
    TrainSettings as TrainSettings,
    train_model as train_model,
)
