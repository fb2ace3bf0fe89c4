"""Load features of notes by name."""

from pathlib import Path

from swapbias.models.base import TFIDF, LoadOptions
from swapbias.models.clinical.encoder_vectors import ContextualVectors
from swapbias.models.clinical.features import Features
from swapbias.models.clinical.tfidf_lsa import TfidfLsa
from swapbias.models.clinical.word_vectors import SUFFIXES, StaticVectors
from swapbias.models.formats import PICKLES


def load_features(name: str, *, options: LoadOptions) -> Features:
    """Load features by name.

    Args:
        name: ``tfidf-lsa``, a file of word vectors (``SUFFIXES``), or an encoder's Hub id or folder.
        options: how an encoder is loaded.

    Returns:
        Features that have learned nothing yet.

    Raises:
        UsageError: a missing package, or a pickle.
        ValueError: a file or model that cannot be loaded.
    """
    if name == TFIDF:
        return TfidfLsa()
    if name.lower().endswith((*SUFFIXES, *PICKLES)) and not Path(name).is_dir():
        return StaticVectors.load(Path(name))
    return ContextualVectors.load(name, options)
