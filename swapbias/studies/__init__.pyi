from .answers import read_answer as read_answer
from .catalogue import (
    as_prompts as as_prompts,
    config_rows as config_rows,
    load_corpus as load_corpus,
    load_lexicon as load_lexicon,
    load_study as load_study,
    metric_path as metric_path,
    own_studies as own_studies,
    studies as studies,
)
from .corpus import (
    Config as Config,
    Corpus as Corpus,
    Released as Released,
    declared_corpus as declared_corpus,
)
from .corpus_folders import corpora as corpora, corpus_dir as corpus_dir
from .declared_values import Covariate as Covariate, Rubric as Rubric, Slice as Slice
from .experiment import Experiment as Experiment, Study as Study
from .package_study import declared_study as declared_study
from .prompt import (
    DOUBTFUL as DOUBTFUL,
    JUDGED as JUDGED,
    MASK as MASK,
    PLACEBO as PLACEBO,
    PLACEBO_COLUMNS as PLACEBO_COLUMNS,
    PROMPT_COLUMNS as PROMPT_COLUMNS,
    Candidate as Candidate,
    Prompt as Prompt,
    Row as Row,
    column as column,
    fill as fill,
    placebo as placebo,
    prompt_row as prompt_row,
    slots as slots,
)
from .tables import Lexicon as Lexicon, read_table as read_table
