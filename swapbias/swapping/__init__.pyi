from .accuracy import (
    SwapAccuracy as SwapAccuracy,
    edited_spans as edited_spans,
    evaluate as evaluate,
    gold_notes as gold_notes,
    swap_accuracy as swap_accuracy,
)
from .cluster import (
    LOCAL as LOCAL,
    Engine as Engine,
    Part as Part,
    Result as Result,
    Work as Work,
    WorkerPool as WorkerPool,
    worker_pool as worker_pool,
)
from .grammar import (
    by_words as by_words,
    features as features,
    first_word as first_word,
    further_features as further_features,
    last_word as last_word,
    second_word as second_word,
    verb_class as verb_class,
    word_class as word_class,
)
from .jobs import Job as Job, SwapResult as SwapResult, swap_files as swap_files
from .prompt_files import check_study as check_study, open_study as open_study
from .readers import read_files as read_files
from .referents import REASONS as REASONS, SPOUSES as SPOUSES, WHOSE as WHOSE
from .resolvers import (
    CLASSES as CLASSES,
    MarkedNote as MarkedNote,
    Resolver as Resolver,
    load_resolver as load_resolver,
    windows as windows,
)
from .swapper import MODES as MODES, Swapped as Swapped, Swapper as Swapper
