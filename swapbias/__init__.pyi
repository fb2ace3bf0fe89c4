from .errors import StudyError as StudyError, UsageError as UsageError
from .findings import Finding as Finding, disaggregate as disaggregate
from .hub.corpus_builder import dataset_builder as dataset_builder, load_prompts as load_prompts
from .measures import (
    Estimate as Estimate,
    adjust as adjust,
    group_gap as group_gap,
    paired_gap as paired_gap,
)
from .models import load_scorer as load_scorer
from .outcome import Audit as Audit, audit as audit
from .runs import score_prompts as score_prompts
from .studies import (
    Prompt as Prompt,
    Study as Study,
    load_study as load_study,
    metric_path as metric_path,
    read_answer as read_answer,
)
from .swapping import open_study as open_study

__version__: str
