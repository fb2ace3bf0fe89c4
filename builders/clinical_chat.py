"""clinical_chat: chat models that label, read out and summarise clinical notes, each note in both genders."""

from functools import partial

from swapbias.studies import Corpus, Experiment, Slice, Study, table_config

NAME = "clinical_chat"

_experiment = partial(
    Experiment,
    kind="chat",
    corpus="clinical_notes",
    configs=("pairs",),
    on_request=True,
    measure="paired_gap",
    group="female",
    reference_group="male",
    named={"female": "women", "male": "men"},
    levels=("female", "male"),
    subset="construct",
    slices=(Slice("condition", "phenotype"),),
    random={"subject_id": "subjects"},
    primary_slice="phenotype",
)
_facts = partial(
    _experiment,
    reading="facts",
    unit="share of the facts of a checklist",
    direction="above zero more facts are kept of notes about women, below zero about men; the model drops the others",
)

STUDY = Study(
    name=NAME,
    title="Chat models that label, read out and summarise clinical notes",
    url="",
    on_request=True,
    experiments=(
        _experiment(
            name="labels",
            question="Does a chat model find a phenotype in a note that it does not find in the other gender's?",
            reading="label",
            says="finds the phenotype more often in notes about {more} than in the same ones about {less}",
            unit="share of answers",
            direction="above zero notes about women are said to show the phenotype more often, below zero about men",
            rates=("flips", "ratios", "f1", "actual"),
        ),
        _facts(
            name="extraction",
            question="Does it read more out of a note about one gender than out of the same note about the other?",
            says="reads more of the facts out of notes about {more} than out of the same ones about {less}",
        ),
        _facts(
            name="summary",
            question="Does it keep more of a note about one gender than of the same note about the other?",
            says="keeps more of the facts of notes about {more} than of the same ones about {less}",
        ),
    ),
    limits=(
        "A fact is kept where one of its terms stands in what the model wrote, and is of a note where one stands in "
        "both of its versions: a fact that is denied, or said in words that the checklist does not have, is not told "
        "apart. Both versions of a note are read alike, so that a gap is none of the reading.",
        "Facts that a model makes up are not counted.",
        "Unless its temperature is 0 a chat model answers otherwise each time: flips count that, gaps do not.",
        "The synthetic notes say nothing of any clinic.",
    ),
)

CORPUS = Corpus(
    name=NAME,
    version="1.1.0",
    title="Prompts and a checklist of facts for chat models that read clinical notes",
    tags=("gender-bias", "medical", "summarization"),
    study=STUDY,
    configs=(
        table_config(NAME, "prompts", "What a chat model is asked about a note, by task", ("task", "system", "user")),
        table_config(NAME, "questions", "The question of a label, by phenotype", ("phenotype", "question")),
        table_config(
            NAME,
            "checklist",
            "Diagnoses, symptoms, drugs and procedures with other words for each",
            ("note_id", "fact", "terms"),
            optional=("note_id",),
        ),
    ),
)
