from .sst2 import PUBLISHED_AUDIT as PUBLISHED_AUDIT, GenderAudit as GenderAudit
from .training import TrainSettings as TrainSettings, train_model as train_model
