"""phenotype_fairness: counterfactual fairness of clinical phenotyping with embeddings (Sogancioglu et al. 2023)."""

from collections.abc import Iterator

from swapbias.builders._phenotype_fairness_tables import count_notes
from swapbias.studies import (
    corpus_dir,
    declared_corpus,
    prompt_row,
    read_table,
)

NAME = "phenotype_fairness"


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


CORPUS = declared_corpus(
    NAME,
    {"depression_words": _depression_words},
    calculated_tables={"table_2": count_notes},
)
