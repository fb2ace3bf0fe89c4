"""phenotype_fairness: counterfactual fairness of clinical phenotyping with embeddings (Sogancioglu et al. 2023)."""

from collections.abc import Iterator

from swapbias.studies import (
    Config,
    Corpus,
    corpus_dir,
    declared_study,
    prompt_row,
    read_table,
)

NAME = "phenotype_fairness"


def _depression_words() -> Iterator[dict[str, str]]:
    for row in read_table(corpus_dir(NAME) / "depression_words.csv", ("word", "kind", "source")):
        yield prompt_row(
            row["word"], "word", row["word"], "direct_bias", prompt_id=row["word"], construct=row["kind"],
            condition="depression", label=row["source"], template=row["kind"],
        )  # fmt: skip


STUDY = declared_study(NAME)

CORPUS = Corpus(
    name=NAME,
    title="Words for depression and published results on gender bias in clinical phenotyping",
    version="3.0.0",
    tags=("gender-bias", "medical", "mental-health"),
    study=STUDY,
    configs=(Config("depression_words", "Synonyms and symptoms of depression", _depression_words),),
)
