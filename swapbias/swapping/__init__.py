"""Counterfactual swap, neutralisation and augmentation of running text."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.swapping.files import Done as Done, Job as Job, Step as Step, swap_files as swap_files
    from swapbias.swapping.quotes import QuoteCheck as QuoteCheck, open_stream as open_stream
    from swapbias.swapping.resolving import features as features, verb_class as verb_class
    from swapbias.swapping.swapper import MODES as MODES, Swapped as Swapped, Swapper as Swapper

__getattr__ = front_door(
    __name__,
    {
        "files": "Done Job Step swap_files",
        "quotes": "QuoteCheck open_stream",
        "resolving": "features verb_class",
        "swapper": "MODES Swapped Swapper",
    },
)
