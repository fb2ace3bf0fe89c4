"""phenotype_fairness: counterfactual fairness of clinical phenotyping with embeddings (Sogancioglu et al. 2023)."""

from collections.abc import Iterator
from functools import partial

from swapbias.notes import REGIMES
from swapbias.studies import Config, Corpus, Experiment, Slice, Study, corpus_dir, prompt_row, read_table

NAME = "phenotype_fairness"


def _depression_words() -> Iterator[dict[str, str]]:
    for row in read_table(corpus_dir(NAME) / "depression_words.csv", ("word", "kind", "source")):
        yield prompt_row(
            row["word"], "word", row["word"], "direct_bias", prompt_id=row["word"], construct=row["kind"],
            condition="depression", label=row["source"], template=row["kind"],
        )  # fmt: skip


_experiment = partial(Experiment, kind="embedding", on_request=True)
_of_notes = partial(
    _experiment,
    corpus="clinical_notes",
    configs=("pairs",),
    group="female",
    reference_group="male",
    subset="construct",
    random={"subject_id": "subjects"},
    primary_subset="original",
)

STUDY = Study(
    name=NAME,
    title="The Effects of Gender Bias in Word Embeddings on Patient Phenotyping in the Mental Health Domain",
    url="https://research-portal.uu.nl/en/publications/the-effects-of-gender-bias-in-word-embeddings-on-patient-phenotyp/",
    experiments=(
        _of_notes(
            name="phenotyping",
            question="Does a note's phenotype change with its patient's gender, and does the training text matter?",
            reading="phenotype",
            placebo=("pairs_wordings",),
            regimes=REGIMES,
            measure="paired_gap",
            says="finds the phenotype likelier in notes about {more} than in the same ones about {less}",
            named={"female": "women", "male": "men"},
            unit="probability of the phenotype",
            direction=(
                "above zero notes about women get the higher probability of the phenotype, below zero notes about "
                "men; flips of zero and ratios of one are equal treatment"
            ),
            levels=("female", "male"),
            slices=(Slice("condition", "phenotype"),),
            rates=("flips", "ratios", "f1", "actual"),
            primary_slice="phenotype",
        ),
        _of_notes(
            name="leakage",
            question="How well do the features tell the patient's gender, as written and neutralised?",
            reading="gender",
            measure="",
            unit="probability of female",
            direction="0.5 is chance; above it the notes tell the gender",
            rates=("leakage",),
            primary_measure="leakage_uar",
        ),
        _experiment(
            name="direct_bias",
            question="Do words for depression lie along the gender direction of the embedding?",
            reading="direction",
            configs=("depression_words",),
            measure="",
            group="word",
            reference_group="",
            unit="cosine with the gender direction",
            direction="above zero toward female, below zero toward male",
            slices=(Slice("construct", "kind of word"),),
            rates=("direction",),
            random={"text": "words"},
            primary_measure="direct_bias",
        ),
    ),
    limits=(
        "Two genders, English, and word swaps: a note that only makes sense for one gender is an implausible pair. "
        "Such notes are counted, and left out with -M plausible.",
        "The size and sign of direct bias hang on the list of words and on the pairs that define the direction: read "
        "it beside the random words and the direction at random.",
        "The synthetic notes have a planted leak and made-up patients: they test the method, they say nothing of any "
        "clinic.",
        "Equal treatment of the two versions of a note is one notion of fairness; it does not say that the labels "
        "were fair.",
    ),
)

CORPUS = Corpus(
    name=NAME,
    title="Words for depression and published results on gender bias in clinical phenotyping",
    version="3.0.0",
    tags=("gender-bias", "medical", "mental-health"),
    study=STUDY,
    configs=(Config("depression_words", "Synonyms and symptoms of depression", _depression_words),),
)
