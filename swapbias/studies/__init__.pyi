from .answer_scores import AnswerReader as AnswerReader, answer_reader as answer_reader
from .answers import (
    READINGS as READINGS,
    answer_class as answer_class,
    is_refusal as is_refusal,
    read_answer as read_answer,
    without_reasoning as without_reasoning,
    word_count as word_count,
)
from .catalogue import (
    as_prompts as as_prompts,
    calibrated as calibrated,
    check_notes as check_notes,
    config_features as config_features,
    config_rows as config_rows,
    experiments_that as experiments_that,
    load_corpus as load_corpus,
    load_lexicon as load_lexicon,
    load_prompts as load_prompts,
    load_study as load_study,
    local_corpus as local_corpus,
    metric_path as metric_path,
    metrics as metrics,
    outline as outline,
    outlines as outlines,
    own_studies as own_studies,
    published_prompts as published_prompts,
    studies as studies,
    unreadable_studies as unreadable_studies,
)
from .corpus import (
    Config as Config,
    Corpus as Corpus,
    Released as Released,
    declared_corpus as declared_corpus,
)
from .corpus_file import (
    REDISTRIBUTABLE as REDISTRIBUTABLE,
    corpus_declaration as corpus_declaration,
)
from .corpus_folders import (
    CORPORA as CORPORA,
    corpora as corpora,
    corpus_dir as corpus_dir,
)
from .declared import (
    Declaration as Declaration,
    Found as Found,
    line_of_fault as line_of_fault,
    unknown_names as unknown_names,
)
from .experiment import (
    Compares as Compares,
    Covariate as Covariate,
    Design as Design,
    Experiment as Experiment,
    Primary as Primary,
    Reads as Reads,
    Rubric as Rubric,
    Shows as Shows,
    Slice as Slice,
    Study as Study,
    Words as Words,
)
from .names import (
    did_you_mean as did_you_mean,
    unknown as unknown,
)
from .option_texts import range_of as range_of
from .own.factors import Columns as Columns
from .own.own_corpus import own_corpus as own_corpus
from .own.own_faults import faults as faults
from .own.own_files import STUDY_FILES as STUDY_FILES
from .own.own_prompts import parse_study as parse_study
from .own.own_source import study_files as study_files
from .own.own_study import (
    Check as Check,
    check_study as check_study,
    new_study as new_study,
    open_study as open_study,
    reopen_study as reopen_study,
)
from .package_study import (
    STUDY_FILE as STUDY_FILE,
    declared_study as declared_study,
    refuse_declaration as refuse_declaration,
)
from .prompt import (
    DOUBTFUL as DOUBTFUL,
    JUDGED as JUDGED,
    MASK as MASK,
    MESSAGES as MESSAGES,
    PART_OF as PART_OF,
    PLACEBO as PLACEBO,
    PLACEBO_COLUMNS as PLACEBO_COLUMNS,
    PROMPT_COLUMNS as PROMPT_COLUMNS,
    PROMPT_MEANINGS as PROMPT_MEANINGS,
    Candidate as Candidate,
    Prompt as Prompt,
    Row as Row,
    column as column,
    conversation as conversation,
    fill as fill,
    placebo as placebo,
    prompt_row as prompt_row,
    slots as slots,
    text_of as text_of,
    turns as turns,
)
from .ranges import (
    Range as Range,
    in_unit as in_unit,
)
from .ranking import (
    Applicant as Applicant,
    balanced_rankings as balanced_rankings,
    drawn_names as drawn_names,
    names_of as names_of,
    shown_cvs as shown_cvs,
)
from .row_check import check_rows as check_rows
from .tables import (
    PLANTED_BIAS as PLANTED_BIAS,
    PLANTED_LEAK as PLANTED_LEAK,
    Fact as Fact,
    Lexicon as Lexicon,
    Published as Published,
    csv_rows as csv_rows,
    decoded as decoded,
    facts_of as facts_of,
    fingerprint as fingerprint,
    outside_sources as outside_sources,
    pinned_files as pinned_files,
    published_for as published_for,
    published_rows as published_rows,
    read_checklist as read_checklist,
    read_table as read_table,
    shown_names as shown_names,
    stated as stated,
    strict_rows as strict_rows,
    table_rows as table_rows,
    upstream_file as upstream_file,
    wordings as wordings,
)
from .written_answers import is_summary as is_summary
