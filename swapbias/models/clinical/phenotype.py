"""Phenotype classifiers: trained on a regime's notes, or brought along by the user; and LIME on one note."""

import bisect
import math
import re
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError, need
from swapbias.models import base
from swapbias.models.base import LoadOptions
from swapbias.models.clinical.features import Features, Floats
from swapbias.models.lengths import length_limit
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import DerivedScorer, Scored, Scorer, checked_scores, not_scored
from swapbias.models.text_kinds import CLASSIFIER
from swapbias.studies import Prompt

if TYPE_CHECKING:
    import pandas as pd

Labels = NDArray[np.int64]
Names = NDArray[np.str_]

TARGETS = {"label": ("negative", "positive"), "gender": ("male", "female")}
FOLDS = 3
TREES = 300  # of a random forest
# of the note that has a panel of its own; of those whose weights are averaged
PANEL_SAMPLES = 1_000
SAMPLES = 250
SVM_STEPS = (
    50_000  # a few thousand are enough where there is something to learn; gender may be unlearnable
)
UNIT = "probability of the phenotype"
SVM_GRID = {"svc__C": [0.01, 0.1, 1, 10, 100], "svc__kernel": ["rbf", "sigmoid", "linear"]}


def predicted_scored(score: float, predicted: float, classes: tuple[str, str]) -> Scored:
    """A score with the predicted class (1.0: the second, NaN: none), also as the part ``predicted``."""
    if not np.isfinite(score):  # a note that was read, if there is a prediction
        return Scored(math.nan, parts={"predicted": math.nan}, finite=math.isnan(predicted))
    answer = "" if np.isnan(predicted) else classes[int(predicted)]
    return Scored(score, answer, parts={"predicted": predicted})


class PhenotypeScorer(Scorer):
    """Score: probability (0..1) by a classifier trained on a regime's notes; above .5 (SVM) it is positive.

    A prompt's condition names the phenotype, its construct the regime: one classifier each, trained once. Features
    are scaled to mean 0 and deviation 1 on the training notes. NaN: the features know no word of the note.
    With ``target="gender"`` the classifier predicts the patient's gender instead: gender leakage.
    """

    kind = "phenotype"

    def __init__(
        self,
        features: Features,
        *,
        classifier: str = "svm",
        training: base.Training,
        seed: int = 0,
        target: str = "label",
    ) -> None:
        """``training``: phenotype and regime -> rows with subject_id, text, label and gender, called when needed."""
        need("A phenotype classifier", "sklearn", extra="clinical")
        self.features = features
        self.classifier = classifier
        self.training = training
        self.seed = seed
        self.target = target
        self.model_id = f"{features.name}+{classifier}"
        probability = UNIT if target == "label" else "probability of female"
        self.unit = "logistic of the SVM's decision value" if classifier == "svm" else probability
        self._trained: dict[tuple[str, str], tuple[Features, Any]] = {}
        library = f"scikit-learn {version('scikit-learn')}"
        settings = {"classifier": classifier, "library": library, "seed": seed, "target": target}
        self.identity: Mapping[str, Any] = {
            "kind": self.kind,
            "features": dict(features.identity),
            **settings,
        }

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt, in order; a ValueError for training notes that no classifier can learn from."""
        groups: dict[tuple[str, str], list[int]] = {}
        for place, prompt in enumerate(prompts):
            groups.setdefault((prompt.condition, prompt.construct), []).append(place)
        results = [not_scored()] * len(prompts)
        for key, members in groups.items():
            features, model = self._learned(*key)
            vectors = features.vectors([prompts[place].text for place in members])
            known = np.isfinite(vectors).all(axis=1)
            scores = np.full(len(members), np.nan)
            predicted = np.full(len(members), np.nan)
            if known.any():
                predicted[known] = model.predict(vectors[known])
                if self.classifier == "svm":
                    scores[known] = 0.5 + 0.5 * np.tanh(
                        model.decision_function(vectors[known]) / 2
                    )  # logistic
                else:
                    scores[known] = model.predict_proba(vectors[known])[:, 1]
            for place, score, label in zip(
                members, scores.tolist(), predicted.tolist(), strict=True
            ):
                results[place] = predicted_scored(score, label, TARGETS[self.target])
            on_progress(len(members))
        return results

    def _learned(self, phenotype: str, regime: str) -> tuple[Features, Any]:
        key = (phenotype, regime)
        where = f"{phenotype}, {regime}"
        classes = TARGETS[self.target]
        if key in self._trained:
            return self._trained[key]
        notes = [row for row in self.training(*key) if row[self.target]]  # of a known target
        if unknown := {row[self.target] for row in notes} - set(classes):
            wanted = " or ".join(classes)
            raise ValueError(
                f"{where}: {len(unknown)} other {self.target}, expected {wanted}. Mend the notes."
            )
        texts = [note["text"] for note in notes]
        features = self.features.fit(texts)
        vectors = features.vectors(texts)
        known = np.isfinite(vectors).all(axis=1)
        truth = np.array([classes.index(note[self.target]) for note in notes], dtype=int)[known]
        groups = np.array([note["subject_id"] for note in notes])[known]
        for index, name in enumerate(classes):
            if (count := len(set(groups[truth == index]))) < FOLDS:
                lost = int((~known).sum())
                reason = f" ({self.features.name} gave no finite vector for {lost})" if lost else ""
                step = f"Check {self.features.name}" if lost else "Add notes of both classes"
                found = f"{count} readable training notes with {self.target} {name}{reason}"
                raise ValueError(f"{where}: {found}, expected {FOLDS} or more. {step}.")
        model = train(vectors[known], truth, groups, kind=self.classifier, seed=self.seed)
        self._trained[key] = features, model
        return features, model


def train(vectors: Floats, truth: Labels, groups: Names, *, kind: str, seed: int) -> Any:
    """A classifier with its own scaling of ``vectors`` (n, d); an svm is that of the best macro F1 over three folds.

    ``truth``: 1 or 0; notes of one of the ``groups`` stay in one fold.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    machine = {
        "svm": SVC(max_iter=SVM_STEPS),
        "rf": RandomForestClassifier(TREES, random_state=seed),
        "mlp": MLPClassifier(max_iter=2_000, random_state=seed),
    }[kind]
    model = make_pipeline(StandardScaler(), machine)
    with warnings.catch_warnings():  # where nothing can be learned
        warnings.simplefilter("ignore", ConvergenceWarning)
        if kind == "svm":
            folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
            search = GridSearchCV(
                model, SVM_GRID, scoring="f1_macro", cv=folds, error_score="raise"
            )
            return search.fit(vectors, truth, groups=groups)
        return model.fit(vectors, truth)


class ClassifierScorer(DerivedScorer):
    """Score: probability of the phenotype by a user's classifier; long notes are cut at a word (``truncated``)."""

    kind = "phenotype"
    unit = UNIT

    def __init__(self, inner: Scorer) -> None:
        """Read phenotypes with a scorer of probabilities; ``load_phenotype_classifier`` is the usual way."""
        super().__init__(inner, kind=self.kind)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """What the classifier gets of each note, as far as it reads it."""
        return super().inputs([replace(prompt, text=self._cut(prompt.text)) for prompt in prompts])

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt; NaN where the classifier returns NaN."""
        read = [replace(one, text=self._cut(one.text)) for one in prompts]
        results = []
        for prompt, shown, one in zip(
            prompts, read, checked_scores(self.inner, read, on_progress), strict=True
        ):
            predicted = math.nan if math.isnan(one.score) else float(one.score > 0.5)
            found = predicted_scored(one.score, predicted, TARGETS["label"])
            parts = {**found.parts, "truncated": float(shown.text != prompt.text)}
            results.append(replace(found, parts=parts, finite=one.finite))
        return results

    def _cut(self, text: str) -> str:
        """As many whole words as a transformers model reads; the text itself where even one word is too long."""
        from swapbias.models.transformers_scorer import (
            TextClassifierScorer,
        )  # torch, which results do not need

        if not isinstance(self.inner, TextClassifierScorer):
            return text
        tokenizer = self.inner.tokenizer
        limit = length_limit(self.inner.tokenizer, self.inner.model)

        def length(part: str) -> int:
            return len(tokenizer(part, verbose=False).input_ids)

        if length(text) <= limit:
            return text
        parts = [*(text[: word.end()] for word in re.finditer(r"\S+", text)), text]
        words = bisect.bisect_right(parts, limit, key=length)
        return parts[words - 1] if words else text


def load_phenotype_classifier(name: str, *, options: LoadOptions) -> ClassifierScorer:
    """A user's own classifier: ``module:function``, a .skops file of a model of texts, a folder or Hub id.

    UsageError: no such module, a pickle, a type that skops does not trust. ValueError: it cannot be loaded.
    """
    scorer = CLASSIFIER.load(name, base.Request(load=options, kind="classifier"))
    if scorer.kind != "classifier" or name == base.VADER:
        raise UsageError(
            f"{scorer.model_id} gives a raw score, expected a probability. Name a classifier."
        )
    return ClassifierScorer(scorer.reading_notes())


def explain_pair(
    predict_proba: Callable[[list[str]], Any],
    texts: Mapping[str, str],
    *,
    seed: int = 0,
    samples: int = 1_000,
) -> dict[str, list[tuple[str, float]]]:
    """The words of each version of a note with their weights toward "positive", heaviest first (LIME, Ribeiro 2016).

    A weight is the change in probability by the local linear model. ``predict_proba``: n texts -> shape (n, 2); NaN
    of a sampled text counts as .5, of a version it is a ValueError. ``samples``: texts per version.
    """
    need("An explanation", "lime", extra="explain")
    from lime.lime_text import LimeTextExplainer

    def decided(sampled: list[str]) -> Floats:
        return np.nan_to_num(np.asarray(predict_proba(sampled), dtype=np.float64), nan=0.5)

    read = np.asarray(predict_proba(list(texts.values())), dtype=np.float64)
    found = {}
    for row, (name, text) in zip(read, texts.items(), strict=True):
        if np.isnan(row).any():
            raise ValueError(
                f"Version {name!r} ({len(text)} characters) has no probability. Choose another note."
            )
        explainer = LimeTextExplainer(
            class_names=["negative", "positive"], split_expression=r"[\W\d_]+", random_state=seed
        )
        words = explainer.explain_instance(
            text, decided, labels=(1,), num_features=10, num_samples=samples
        )
        found[name] = [(str(word), float(weight)) for word, weight in words.as_list(label=1)]
    return found


def _probabilities(reader: Scorer, like: Prompt, texts: Sequence[str]) -> Floats:
    """Scores of texts as probabilities, shape (n, 2), the score second; NaN rows for those without one."""
    scores = np.array(
        [one.score for one in checked_scores(reader, [replace(like, text=text) for text in texts])]
    )
    return np.column_stack([1 - scores, scores])


def explain_mismatched(
    rows: "pd.DataFrame", reader: Scorer, *, most: int, seed: int
) -> list[dict[str, Any]]:
    """The ``most`` mismatched pairs of each phenotype and regime; the first is sampled most. UsageError: no LIME.

    Of each the score and the words with their weights (``explain_pair``) of each group's version.
    """
    pairs = rows.pivot(
        index=["construct", "condition", "pair_id"], columns="group", values="score"
    ).dropna()
    if pairs.shape[1] != 2:
        return []
    gaps = (pairs.iloc[:, 0] - pairs.iloc[:, 1]).abs()
    gaps = gaps[gaps > 0]
    regimes = [one for one in rows["construct"].unique() if one in gaps.index.get_level_values(0)]
    chosen = [(regimes[0], *gaps[regimes[0]].idxmax())] if regimes else []
    for regime in regimes:
        for _, part in gaps[[regime]].groupby(level="condition", sort=False):
            chosen += [place for place in part.nlargest(most).index if place != chosen[0]]
    found: list[dict[str, Any]] = []
    for regime, phenotype, pair_id in chosen:
        place = (
            (rows["construct"] == regime)
            & (rows["condition"] == phenotype)
            & (rows["pair_id"] == pair_id)
        )
        pair = rows[place].set_index("group")
        samples = SAMPLES if found else PANEL_SAMPLES
        read = partial(
            _probabilities, reader, Prompt(condition=str(phenotype), construct=str(regime))
        )
        words = explain_pair(read, pair["text"].to_dict(), seed=seed, samples=samples)
        scores = {str(group): float(score) for group, score in pair["score"].items()}
        names = {"phenotype": str(phenotype), "regime": str(regime), "pair_id": str(pair_id)}
        found.append({"model_id": reader.model_id, **names, "scores": scores, "words": words})
    return found
