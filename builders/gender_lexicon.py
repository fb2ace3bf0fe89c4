"""gender_lexicon: English words with a gender, for the measures and swaps of the other corpora."""

from swapbias.hub import builder_on_use
from swapbias.studies import declared_corpus

CORPUS = declared_corpus("gender_lexicon")
__getattr__ = builder_on_use("gender_lexicon")
