"""TF-IDF of words with latent semantic analysis, learned from training notes."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from swapbias.errors import need
from swapbias.models.base import TFIDF
from swapbias.models.clinical.features import Features, Floats, clean


class TfidfLsa(Features):
    """TF-IDF of lower-case words, reduced to at most 100 dimensions: needs no vectors, learns from training texts."""

    name = TFIDF

    def __init__(self, *, dimension: int = 100, fitted: tuple[Any, Floats] | None = None) -> None:
        """Make features that have learned nothing yet; ``fit`` returns others.

        Args:
            dimension: most dimensions of the vectors.
            fitted: weights of words and components that ``fit`` has learned.

        Raises:
            UsageError: scikit-learn is not installed.
        """
        need(self.name, "sklearn", extra="clinical")
        self.dimension = dimension
        self._fitted = fitted
        library = f"scikit-learn {version('scikit-learn')}"
        self.identity = {"kind": TFIDF, "dimension": dimension, "library": library}

    def fit(self, texts: Sequence[str]) -> "TfidfLsa":
        """Return features that know the words of these texts.

        Args:
            texts: training notes.

        Returns:
            New features.

        Raises:
            ValueError: the texts hold fewer than two words.
        """
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = (word for text in texts for word in _lower_words(text))
        first = next(words, None)
        if all(word == first for word in words):  # which looks no further than to the second word
            raise ValueError(
                f"{len(texts)} training texts contain fewer than two words. Check the texts."
            )
        weights = TfidfVectorizer(analyzer=_lower_words)
        table = weights.fit_transform(texts)
        reduce = TruncatedSVD(min(self.dimension, *table.shape), random_state=0)
        # Equal texts have no variance to explain.
        with np.errstate(divide="ignore", invalid="ignore"):
            reduce.fit(table)
        # Directions that the texts do not span hold rounding errors, which scaling would blow up.
        spanned = reduce.singular_values_ > 1e-8 * reduce.singular_values_[0]
        return TfidfLsa(dimension=self.dimension, fitted=(weights, reduce.components_[spanned]))

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors of texts.

        Args:
            texts: n notes.

        Returns:
            Shape (n, d); a row of NaN where no word is known from training.

        Raises:
            ValueError: these features have learned from no texts.
        """
        if self._fitted is None:
            raise ValueError(
                f"{self.name} has learned from no texts. Call fit with training texts first."
            )
        weights, components = self._fitted
        table = weights.transform(texts)
        vectors = np.asarray(table @ components.T, dtype=np.float64)
        vectors[np.diff(table.indptr) == 0] = np.nan
        return vectors


def _lower_words(text: str) -> list[str]:
    return [word.lower() for word in clean(text)]
