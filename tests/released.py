"""What the released outputs of a study give, recomputed once for all tests of a process."""

from functools import cache

from swapbias.findings import recompute
from swapbias.findings.reproduce import Reproduced


@cache
def recomputed(study):
    """All that is recomputed of a study, and what is not, with the reason."""
    return tuple(recompute(study))


def numbers_of(study):
    """The numbers that are recomputed."""
    return [one for one in recomputed(study) if isinstance(one, Reproduced)]
