"""Measure social bias in language models by swapping one slot of a text and comparing the model's number.

The public names below load on first use, so that ``import swapbias`` stays light.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swapbias.audit import score_prompts as score_prompts
    from swapbias.findings import Finding as Finding, disaggregate as disaggregate
    from swapbias.measures import (
        Estimate as Estimate,
        adjust as adjust,
        group_gap as group_gap,
        paired_gap as paired_gap,
    )
    from swapbias.scorers import load_scorer as load_scorer
    from swapbias.studies import (
        Prompt as Prompt,
        Study as Study,
        load_prompts as load_prompts,
        load_study as load_study,
        metric_path as metric_path,
    )

__version__ = "0.1.0"


def front_door(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose public names load on first use.

    Args:
        package: its ``__name__``.
        names: public names of each of its modules, parted by spaces.
    """
    home = {name: module for module, listed in names.items() for name in listed.split()}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return load


__getattr__ = front_door(
    __name__,
    {
        "audit": "score_prompts",
        "findings": "Finding disaggregate",
        "measures": "Estimate adjust group_gap paired_gap",
        "scorers": "load_scorer",
        "studies": "Prompt Study load_prompts load_study metric_path",
    },
)
