"""gender_lexicon: English words with a gender, for the measures and swaps of the other corpora."""

from functools import partial

from swapbias.studies import Config, Corpus, corpus_dir, read_table

NAME = "gender_lexicon"


def _config(name: str, description: str, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> Config:
    table = corpus_dir(NAME) / f"{name}.csv"
    rows = partial(read_table, table, columns, optional=optional)
    types = {"weight": "float64"} if "weight" in columns else {}
    return Config(name=name, description=description, rows=rows, columns=columns, types=types, split="train")


CORPUS = Corpus(
    name=NAME,
    title="Gendered English words, names and swap terms",
    licence="Apache-2.0",
    version="2.3.0",
    tags=("gender-bias", "lexicon"),
    configs=(
        _config("pronouns", "Third-person singular pronouns with their role", ("word", "group", "role")),
        _config(
            "pronoun_sets",
            "Pronouns with and without gender in every role, and how verbs agree with them",
            ("pronoun", "subject", "object", "possessive", "possessive_pronoun", "reflexive", "agreement", "source"),
        ),
        _config("nouns", "Gendered nouns and titles with their kind", ("word", "group", "kind")),
        _config("names", "Common US first names that are mostly given to one gender", ("word", "group")),
        _config(
            "definitional_pairs",
            "The ten pairs that define a gender direction in vectors",
            ("female", "male"),
        ),
        _config(
            "swap_terms",
            "Terms to swap or neutralise in running text, as published and as resolved here",
            ("male", "female", "neutral", "table", "note"),
            ("neutral", "note"),
        ),
        _config(
            "clinical_terms", "Clinical terms of one gender: reported in swaps, never swapped", ("term", "group")
        ),
        _config(
            "his_him_weights",
            "Log-odds of his over him by the words beside them",
            ("feature", "weight"),
        ),
    ),
)
