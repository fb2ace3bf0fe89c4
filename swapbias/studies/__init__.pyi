from .catalogue import (
    as_prompts as as_prompts,
    calibrated as calibrated,
    checked_rows as checked_rows,
    config_rows as config_rows,
    corpora as corpora,
    load_corpus as load_corpus,
    load_lexicon as load_lexicon,
    load_prompts as load_prompts,
    load_study as load_study,
    local_corpus as local_corpus,
    metric_path as metric_path,
    metrics as metrics,
    row_count as row_count,
    studies as studies,
)
from .lexicons import Lexicon as Lexicon, with_imported as with_imported
from .prompt import (
    MASK as MASK,
    PROMPT_COLUMNS as PROMPT_COLUMNS,
    Prompt as Prompt,
    check_templates as check_templates,
    fill as fill,
    slots as slots,
)
from .ratings import (
    agreement as agreement,
    import_labels as import_labels,
    rated as rated,
    read_labels as read_labels,
    unrated_words as unrated_words,
)
from .study import (
    Agreement as Agreement,
    Config as Config,
    Corpus as Corpus,
    Covariate as Covariate,
    Experiment as Experiment,
    Rated as Rated,
    Released as Released,
    Slice as Slice,
    Study as Study,
)
from .tables import (
    Published as Published,
    corpus_dir as corpus_dir,
    fingerprint as fingerprint,
    pinned_files as pinned_files,
    published_for as published_for,
    read_table as read_table,
    shown_names as shown_names,
    strict_rows as strict_rows,
    upstream_file as upstream_file,
)
