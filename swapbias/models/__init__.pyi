from .kind import PROMPTS as PROMPTS, VERSIONS as VERSIONS, Kind as Kind, Request as Request, short_name as short_name
from .loading import as_pinned as as_pinned, weight_files as weight_files, with_revision as with_revision
from .pronouns import load_resolver as load_resolver
from .registry import (
    arguments_named as arguments_named,
    check_load as check_load,
    code_of as code_of,
    kind_of as kind_of,
    kinds as kinds,
    load_scorer as load_scorer,
    model_kind as model_kind,
    model_kinds as model_kinds,
    read_as as read_as,
    unit_of as unit_of,
)
from .scorer import (
    FLAGS as FLAGS,
    VADER as VADER,
    Bar as Bar,
    Coverage as Coverage,
    LoadOptions as LoadOptions,
    Progress as Progress,
    Say as Say,
    Scored as Scored,
    Scorer as Scorer,
    is_callable as is_callable,
    settable as settable,
    written as written,
)
