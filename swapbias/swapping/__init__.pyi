from .accuracy import (
    evaluate as evaluate,
    gold_notes as gold_notes,
    swap_accuracy as swap_accuracy,
)
from .cluster import LOCAL as LOCAL, Engine as Engine
from .jobs import swap_files as swap_files
from .prompt_files import check_study as check_study, open_study as open_study
from .published_swap import PublishedSwapper as PublishedSwapper
from .readers import read_files as read_files
from .resolvers import Resolver as Resolver, load_resolver as load_resolver
from .swap_job import Job as Job
from .swapper import MODES as MODES, Swapped as Swapped, Swapper as Swapper
