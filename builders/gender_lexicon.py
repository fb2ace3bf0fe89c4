"""gender_lexicon: English words with a gender, for the measures and swaps of the other corpora."""

from functools import partial

from swapbias.studies import Corpus, table_config

NAME = "gender_lexicon"


_table = partial(table_config, NAME)

CORPUS = Corpus(
    name=NAME,
    title="Gendered English words, names and swap terms",
    version="2.3.0",
    tags=("gender-bias", "lexicon"),
    configs=(
        _table("pronouns", "Third-person singular pronouns with their role", ("word", "group", "role")),
        _table(
            "pronoun_sets",
            "Pronouns with and without gender in every role, and how verbs agree with them",
            ("pronoun", "subject", "object", "possessive", "possessive_pronoun", "reflexive", "agreement", "source"),
        ),
        _table("nouns", "Gendered nouns and titles with their kind", ("word", "group", "kind")),
        _table("names", "Common US first names that are mostly given to one gender", ("word", "group")),
        _table(
            "definitional_pairs",
            "The ten pairs that define a gender direction in vectors",
            ("female", "male"),
        ),
        _table(
            "swap_terms",
            "Terms to swap or neutralise in running text, as published and as resolved here",
            ("male", "female", "neutral", "table", "note"),
            optional=("neutral", "note"),
        ),
        _table("clinical_terms", "Clinical terms of one gender: reported in swaps, never swapped", ("term", "group")),
        _table(
            "his_him_weights",
            "Log-odds of his over him by the words beside them",
            ("feature", "weight"),
            types={"weight": "float64"},
        ),
    ),
)
