"""Measure social bias in language models by swapping one slot of a text and comparing the model's number.

The public names below load on first use, so that ``import swapbias`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swapbias.declaring import Study
    from swapbias.findings import Finding, disaggregate
    from swapbias.measures import Estimate, adjust, group_gap, paired_gap
    from swapbias.prompts import Prompt
    from swapbias.scorers import load_scorer
    from swapbias.scoring import score_prompts
    from swapbias.studies import load_prompts, load_study, metric_path

__version__ = "0.1.0"

_HOME = {
    "Estimate": "measures",
    "Finding": "findings",
    "Prompt": "prompts",
    "Study": "declaring",
    "adjust": "measures",
    "disaggregate": "findings",
    "group_gap": "measures",
    "load_prompts": "studies",
    "load_scorer": "scorers",
    "load_study": "studies",
    "metric_path": "studies",
    "paired_gap": "measures",
    "score_prompts": "scoring",
}

__all__ = [
    "Estimate",
    "Finding",
    "Prompt",
    "Study",
    "adjust",
    "disaggregate",
    "group_gap",
    "load_prompts",
    "load_scorer",
    "load_study",
    "metric_path",
    "paired_gap",
    "score_prompts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'swapbias' has no attribute {name!r}")
    return getattr(import_module(f"swapbias.{_HOME[name]}"), name)
