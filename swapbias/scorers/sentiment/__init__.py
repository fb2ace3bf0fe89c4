"""Sentiment models of the occupation study, trained here."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.scorers.sentiment.sst2 import PUBLISHED_AUDIT as PUBLISHED_AUDIT, GenderAudit as GenderAudit
    from swapbias.scorers.sentiment.training import TrainSettings as TrainSettings, train_model as train_model

__getattr__ = front_door(
    __name__,
    {
        "sst2": "GenderAudit PUBLISHED_AUDIT",
        "training": "TrainSettings train_model",
    },
)
