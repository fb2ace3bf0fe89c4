"""Words against a gender direction: the cosine of each, without each pair, and of random words."""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swapbias.errors import listed
from swapbias.measures import (
    WITHOUT_PAIR,
    cosines_with,
    directions_without_a_pair,
    gender_direction,
)
from swapbias.models.clinical.features import Features, Floats
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, Scorer
from swapbias.studies import Prompt, corpus_dir, fill, read_table

Tables = tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]


def read_direction_tables(corpus: str) -> Tables:
    """Definitional pairs (pair, female, male), and a corpus's sentences by pair or kind of word."""
    rows = read_table(corpus_dir("gender_lexicon") / "definitional_pairs.csv", ("female", "male"))
    pairs = [{"pair": f"{row['female']}-{row['male']}", **row} for row in rows]
    return pairs, read_table(
        corpus_dir(corpus) / "direction_templates.csv", ("kind", "female", "male")
    )


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
        """Find the direction; ``null``: random words per word. ValueError: fewer than two pairs are known."""
        self.features = features
        self.model_id = features.name
        self.seed = seed
        self.null = features.null_words if null is None else null
        pairs, templates = tables
        self._frames = {row["kind"]: row["female"] for row in templates}
        self._pair_words = {row[side].lower() for row in pairs for side in ("female", "male")}
        sentences = {row["kind"]: row for row in templates}
        if missing := [row["pair"] for row in pairs if row["pair"] not in sentences]:
            raise ValueError(
                f"Pair {missing[0]!r} has no template sentence. Add a row of this kind to them."
            )
        female, male = (
            features.word_vectors(
                [row[side] for row in pairs], [sentences[row["pair"]][side] for row in pairs]
            )
            for side in ("female", "male")
        )
        known = np.isfinite(female).all(axis=1) & np.isfinite(male).all(axis=1)
        if known.sum() < 2:
            known_pairs = f"{features.name} knows {known.sum()} of {len(pairs)} definitional pairs by finite vectors"
            raise ValueError(
                f"{known_pairs}, expected 2 or more. Use an embedding of everyday English."
            )
        self.direction, self.explained_variance = gender_direction(female[known], male[known])
        self._without = directions_without_a_pair(female[known], male[known])
        settings = {"definitional_pairs": int(known.sum()), "null_words": self.null, "seed": seed}
        self.identity: Mapping[str, Any] = {
            "kind": self.kind,
            "features": dict(features.identity),
            **settings,
        }

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt, whose text is one word and whose construct names its frame (else a ValueError)."""
        results = []
        for prompt in prompts:
            results.append(self._scored(prompt.text, prompt.construct))
            on_progress(1)
        return results

    def _scored(self, word: str, kind: str) -> Scored:
        vector = self._vectors([word], kind)
        cosine = float(cosines_with(self.direction, vector)[0])
        without = enumerate(self._without, start=1)
        parts = {
            "explained_variance": self.explained_variance,
            "dimensions": float(len(self.direction)),
            "frequency_known": {"counts": 1.0, "rank": 0.5}.get(
                self.features.identity.get("frequency", ""), 0.0
            ),
            **{
                f"{WITHOUT_PAIR}{number}": float(cosines_with(one, vector)[0])
                for number, one in without
            },
        }
        if math.isnan(cosine):
            return Scored(math.nan, parts=parts)
        # Seeded by the word, so that neither order nor batches change what is drawn.
        own = {word.lower(), *self._pair_words}
        pool = [one for one in self.features.like_words(word) if one not in own]
        draw = np.random.default_rng([self.seed, zlib.crc32(word.encode())])
        drawn = [pool[at] for at in draw.integers(len(pool), size=self.null)] if pool else []
        null = zip(
            drawn, cosines_with(self.direction, self._vectors(drawn, kind)).tolist(), strict=True
        )
        known = [[one, round(value, 6)] for one, value in null if not math.isnan(value)]
        return Scored(
            cosine, "female" if cosine > 0 else "male", json.dumps(known, ensure_ascii=False), parts
        )

    def _vectors(self, words: Sequence[str], kind: str) -> Floats:
        if kind not in self._frames:
            raise ValueError(
                f"Construct {kind!r} has no frame, expected one of {listed(self._frames)}. Add one."
            )
        found = self.features.word_vectors(
            words, [fill(self._frames[kind], word=word) for word in words]
        )
        return np.asarray(found, dtype=np.float64)
