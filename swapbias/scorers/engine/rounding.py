"""bfloat16: weights rounded when the first texts come, and what that does to the probabilities of a sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from swapbias.scorers.engine.encoder import Engine

SAMPLE = 32  # texts read in both
TOP = 50  # likeliest outputs compared as sets

Encoded = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class RoundingError:
    """How far probabilities in bfloat16 are from those in float32.

    Attributes:
        texts: how many were read in both.
        largest: greatest absolute difference of a probability, over all texts and outputs.
        mean: mean over texts of half the summed absolute differences (the probability that moved).
        top: outputs compared as sets; ``same_top``: share of the texts whose sets are equal.
    """

    texts: int
    largest: float
    mean: float
    top: int
    same_top: float

    def sentence(self, model_id: str) -> str:
        """For people."""
        return (
            f"{model_id} in bfloat16, measured against float32 on {self.texts} texts: the largest error of a "
            f"probability is {self.largest:.2g}, on average {self.mean:.2g} of the mass moved, and "
            f"{self.same_top:.0%} of the sets of the {self.top} likeliest outputs are the same."
        )


def rounding_error(exact: torch.Tensor, rounded: torch.Tensor, *, top: int = TOP) -> RoundingError:
    """The error of probabilities of shape (texts, outputs); of two labels or so, the likeliest alone is compared."""
    difference = (exact.double() - rounded.double()).abs()
    count = top if exact.shape[1] > top else 1
    sets = (one.topk(count, dim=1).indices.sort(dim=1).values for one in (exact, rounded))
    same = torch.eq(*sets).all(dim=1)
    return RoundingError(
        texts=len(exact),
        largest=float(difference.max()),
        mean=float(difference.sum(dim=1).mean() / 2),
        top=count,
        same_top=float(same.double().mean()),
    )


class Rounding:
    """The type of an engine's weights, which are loaded in float32 whatever is asked for.

    float32: packed at once. bfloat16: the first texts are read in float32, then the weights are cast one after
    another, each freed as its rounded form takes its place. So a second model is never loaded, and memory is at
    no time above what float32 needs alone.
    """

    def __init__(self, engine: Engine, dtype: str) -> None:
        """Prepare an engine for ``float32`` or ``bfloat16``."""
        self.engine = engine
        self.error: RoundingError | None = None
        self._due = dtype == "bfloat16"
        if not self._due:
            engine.prepack()

    def settle(self, encoded: Encoded, read: Callable[[Encoded], torch.Tensor]) -> None:
        """Round the weights if that is due, and measure it on texts spread evenly over these.

        ``read``: a batch of the engine's -> probabilities of shape (texts, outputs).
        """
        if not self._due or not encoded:
            return
        step = max(1, len(encoded) // SAMPLE)
        sample = list(encoded[::step])[:SAMPLE]
        batches = [[sample[at] for at in batch] for batch in self.engine.batches([len(ids) for ids in sample])]
        exact = torch.cat([read(batch) for batch in batches])
        self.engine.to_bfloat16()
        self.engine.prepack()
        self._due = False
        rounded = torch.cat([read(batch) for batch in batches])
        known = (exact + rounded).isfinite().all(dim=1)  # what gives NaN has no error, and is counted elsewhere
        self.error = rounding_error(exact[known], rounded[known]) if known.any() else None

    def note(self, model_id: str) -> str:
        """A sentence on the error; blank in float32 or where nothing was read."""
        return self.error.sentence(model_id) if self.error else ""
