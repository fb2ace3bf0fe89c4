"""Scorers: the only contact with models. torch and transformers load when a scorer is made, not before."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.scorers.calibration import STEPS as STEPS, load_calibration as load_calibration
    from swapbias.scorers.pronouns import load_resolver as load_resolver
    from swapbias.scorers.registry import (
        KINDS as KINDS,
        code_of as code_of,
        load_scorer as load_scorer,
        model_kind as model_kind,
        read_as as read_as,
    )
    from swapbias.scorers.scorer import (
        VADER as VADER,
        Coverage as Coverage,
        HasCoverage as HasCoverage,
        HasLog as HasLog,
        LoadOptions as LoadOptions,
        Progress as Progress,
        Scored as Scored,
        Scorer as Scorer,
        is_callable as is_callable,
    )

__getattr__ = front_door(
    __name__,
    {
        "calibration": "STEPS load_calibration",
        "pronouns": "load_resolver",
        "registry": "KINDS code_of load_scorer model_kind read_as",
        "scorer": "Coverage HasCoverage HasLog LoadOptions Progress Scored Scorer VADER is_callable",
    },
)
