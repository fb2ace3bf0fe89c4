"""clinical_chat: chat models that label, read out and summarise clinical notes, each note in both genders."""

from swapbias.studies import Corpus, declared_study, table_config

NAME = "clinical_chat"


STUDY = declared_study(NAME)

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
