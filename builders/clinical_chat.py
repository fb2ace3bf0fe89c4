"""clinical_chat: chat models that label, read out and summarise clinical notes, each note in both genders."""

from swapbias.hub import builder_on_use
from swapbias.studies import declared_corpus

CORPUS = declared_corpus("clinical_chat")
__getattr__ = builder_on_use("clinical_chat")
