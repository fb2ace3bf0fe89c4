"""Scorers: the only contact with models. torch and transformers load when a scorer is made, not before."""

from typing import TYPE_CHECKING

from swapbias import front_door
from swapbias.scorers.kind import (
    PROMPTS as PROMPTS,
    VERSIONS as VERSIONS,
    Kind as Kind,
    Request as Request,
    short_name as short_name,
)
from swapbias.scorers.registry import (
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
from swapbias.scorers.scorer import (
    VADER as VADER,
    Bar as Bar,
    Coverage as Coverage,
    LoadOptions as LoadOptions,
    Progress as Progress,
    Say as Say,
    Scored as Scored,
    Scorer as Scorer,
    is_callable as is_callable,
)

if TYPE_CHECKING:
    from swapbias.scorers.pronouns import load_resolver as load_resolver

__getattr__ = front_door(__name__, {"pronouns": "load_resolver"})
