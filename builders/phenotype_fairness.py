"""phenotype_fairness: counterfactual fairness of clinical phenotyping with embeddings (Sogancioglu et al. 2023)."""

from collections.abc import Iterator

from swapbias.builders._phenotype_fairness_tables import count_notes
from swapbias.files import parse_json
from swapbias.hub import builder_on_use
from swapbias.studies import (
    corpus_dir,
    declared_corpus,
    prompt_row,
    read_table,
    tables,
)

NAME = "phenotype_fairness"
_PUBLISHED_WORDS = "data/depression_synonyms.json"


def _depression_words() -> Iterator[dict[str, str]]:
    for row in read_table(corpus_dir(NAME) / "depression_words.csv", ("word", "kind", "source")):
        yield prompt_row(
            row["word"],
            "word",
            row["word"],
            "direct_bias",
            prompt_id=row["word"],
            construct=row["kind"],
            condition="depression",
            label=row["source"],
            template=row["kind"],
        )


def _published_words() -> Iterator[dict[str, str]]:
    """Yield the entries of the authors' list as they stand there; one of them stands twice, and counts twice."""
    content = tables.upstream_file(NAME, _PUBLISHED_WORDS).read_text(encoding="utf-8")
    for number, entry in enumerate(parse_json(content)["depression"], start=1):
        entry_id = f"entry-{number}"
        yield prompt_row(
            entry_id,
            "word",
            entry,
            "direct_bias",
            prompt_id=entry_id,
            construct="synonym",
            condition="depression",
            label="list of the authors",
            template="synonym",
        )


CORPUS = declared_corpus(
    NAME,
    {"depression_words": _depression_words, "published_words": _published_words},
    calculated_tables={"table_2": count_notes},
)
__getattr__ = builder_on_use(NAME)
