"""Score words by the cosine with a gender direction, also without each pair, and beside random words."""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swapbias.errors import listed
from swapbias.measures import direction
from swapbias.models.clinical.features import Features, Floats
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer
from swapbias.studies import Prompt, corpus_dir, fill, read_table

Tables = tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]


def read_direction_tables(corpus: str) -> Tables:
    """Return the tables that a gender direction is made from.

    Args:
        corpus: the corpus of the words.

    Returns:
        Definitional pairs (pair, female, male), and the corpus's sentences by pair or kind of word.
    """
    pairs = []
    columns = ("female", "male")
    for row in read_table(corpus_dir("gender_lexicon") / "definitional_pairs.csv", columns):
        pairs.append({"pair": f"{row['female']}-{row['male']}", **row})
    sentences = read_table(
        corpus_dir(corpus) / "direction_templates.csv", ("kind", "female", "male")
    )
    return pairs, sentences


class DirectionScorer(Scorer):
    """Score: cosine of a word's vector with the gender direction; above 0 it is nearer to the female side.

    -1..1; 0: at right angles to the direction; NaN: no finite vector of the word. A contextual encoder reads the
    template sentences and takes the mean over each. ``top_tokens`` holds [random word, cosine] for seeded random
    words in the same frame, of like frequency where it is known: the j-th of all words together are one random word
    set (Bolukbasi et al. 2016). Parts: the direction's variance and dimensions, whether frequencies were known, and
    the cosine with the direction without each pair in turn, where there are three.
    """

    kind = "embedding"
    unit = "cosine with the gender direction"

    def __init__(
        self, features: Features, tables: Tables, *, null: int | None = None, seed: int = 0
    ) -> None:
        """Find the direction.

        Args:
            features: give vectors of words.
            tables: as ``read_direction_tables`` returns them.
            null: random words per word; None: as many as the features say.
            seed: seed of the random words.

        Raises:
            ValueError: a pair has no sentence, or the features know fewer than two pairs.
        """
        self.features = features
        self.model_id = features.name
        self.seed = seed
        self.null = features.null_words if null is None else null
        pairs, templates = tables
        self._frames = {row["kind"]: row["female"] for row in templates}
        self._pair_words = {row[side].lower() for row in pairs for side in ("female", "male")}
        female = self._pair_vectors(pairs, templates, "female")
        male = self._pair_vectors(pairs, templates, "male")
        has_vectors = np.isfinite(female).all(axis=1) & np.isfinite(male).all(axis=1)
        count = int(has_vectors.sum())
        if count < 2:
            raise ValueError(
                f"{features.name} knows {count} of {len(pairs)} definitional pairs by finite vectors, "
                "expected 2 or more. Use an embedding of everyday English."
            )
        self.direction, self.explained_variance = direction.gender_direction(
            female[has_vectors], male[has_vectors]
        )
        self._without = direction.directions_without_a_pair(female[has_vectors], male[has_vectors])
        self.identity: Mapping[str, Any] = {
            "kind": self.kind,
            "features": dict(features.identity),
            "definitional_pairs": count,
            "null_words": self.null,
            "seed": seed,
        }

    def _pair_vectors(
        self,
        pairs: Sequence[Mapping[str, str]],
        templates: Sequence[Mapping[str, str]],
        side: str,
    ) -> Floats:
        """Return the vector of each pair's word of a side, shape (pairs, d)."""
        sentences = {row["kind"]: row[side] for row in templates}
        for row in pairs:
            if row["pair"] not in sentences:
                raise ValueError(
                    f"Pair {row['pair']!r} has no template sentence. Add a row of this kind to them."
                )
        words = [row[side] for row in pairs]
        return self.features.word_vectors(words, [sentences[row["pair"]] for row in pairs])

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score words.

        Args:
            prompts: the text is one word, the construct names its frame.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One Scored per prompt, in order.

        Raises:
            ValueError: a construct has no frame.
        """
        results = []
        for prompt in prompts:
            results.append(self._score_word(prompt.text, prompt.construct))
            on_progress(1)
        return results

    def _score_word(self, word: str, kind: str) -> Scored:
        vector = self._vectors([word], kind)
        cosine = float(direction.cosines_with(self.direction, vector)[0])
        frequency = self.features.identity.get("frequency", "")
        parts = {
            "explained_variance": self.explained_variance,
            "dimensions": float(len(self.direction)),
            "frequency_known": {"counts": 1.0, "rank": 0.5}.get(frequency, 0.0),
        }
        for number, without_pair in enumerate(self._without, start=1):
            parts[f"{direction.WITHOUT_PAIR}{number}"] = float(
                direction.cosines_with(without_pair, vector)[0]
            )
        if math.isnan(cosine):
            return Scored(math.nan, parts=parts)
        random_words = json.dumps(self._score_random_words(word, kind), ensure_ascii=False)
        return Scored(cosine, "female" if cosine > 0 else "male", random_words, parts)

    def _score_random_words(self, word: str, kind: str) -> list[list[Any]]:
        """Return random words with their cosines, without those that have no vector."""
        left_out = {word.lower(), *self._pair_words}
        pool = [like for like in self.features.like_words(word) if like not in left_out]
        if not pool:
            return []
        # Seeded by the word, so that neither order nor batches change what is drawn.
        generator = np.random.default_rng([self.seed, zlib.crc32(word.encode())])
        drawn = [pool[index] for index in generator.integers(len(pool), size=self.null)]
        cosines = direction.cosines_with(self.direction, self._vectors(drawn, kind)).tolist()
        return [
            [like, round(cosine, 6)]
            for like, cosine in zip(drawn, cosines, strict=True)
            if not math.isnan(cosine)
        ]

    def _vectors(self, words: Sequence[str], kind: str) -> Floats:
        """Return the vectors of words in the frame of their kind, shape (words, d)."""
        if kind not in self._frames:
            raise ValueError(
                f"Construct {kind!r} has no frame, expected one of {listed(self._frames)}. Add one."
            )
        sentences = [fill(self._frames[kind], word=word) for word in words]
        return np.asarray(self.features.word_vectors(words, sentences), dtype=np.float64)
