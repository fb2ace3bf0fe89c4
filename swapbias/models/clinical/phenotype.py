"""Phenotype classifiers: trained on a regime's notes, or brought along by the user; and LIME on one note."""

import bisect
import math
import re
import sys
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
PANEL_SAMPLES = 1_000  # of the note that has a panel of its own
SAMPLES = 250  # of notes whose weights are averaged
# A few thousand are enough where there is something to learn; gender may be unlearnable.
SVM_STEPS = 50_000
UNIT = "probability of the phenotype"
SVM_GRID = {"svc__C": [0.01, 0.1, 1, 10, 100], "svc__kernel": ["rbf", "sigmoid", "linear"]}


def predicted_scored(score: float, predicted: float, classes: tuple[str, str]) -> Scored:
    """Return a score with the predicted class, also as the part ``predicted``.

    Args:
        score: probability of the second class, 0 to 1; NaN or infinite: the note has none.
        predicted: 0.0 for the first class, 1.0 for the second, NaN for none.
        classes: names of the two.

    Returns:
        NaN without a finite score; finite is False then where a class was predicted all the same.
    """
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
        """Make a scorer that trains its classifiers when they are needed.

        Args:
            features: turn notes into vectors.
            classifier: svm, rf or mlp.
            training: phenotype and regime -> rows with subject_id, text, label and gender.
            seed: seed of the classifier.
            target: label or gender.
        """
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
        self.identity: Mapping[str, Any] = {
            "kind": self.kind,
            "features": dict(features.identity),
            "classifier": classifier,
            "library": library,
            "seed": seed,
            "target": target,
        }

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score notes.

        Args:
            prompts: the condition names the phenotype, the construct the regime.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One Scored per prompt, in order.

        Raises:
            ValueError: no classifier can learn from the training notes.
        """
        members: dict[tuple[str, str], list[int]] = {}
        for index, prompt in enumerate(prompts):
            members.setdefault((prompt.condition, prompt.construct), []).append(index)
        results = [not_scored()] * len(prompts)
        for (phenotype, regime), indices in members.items():
            texts = [prompts[index].text for index in indices]
            scored = self._score_texts(texts, *self._trained_for(phenotype, regime))
            for index, result in zip(indices, scored, strict=True):
                results[index] = result
            on_progress(len(indices))
        return results

    def _score_texts(self, texts: Sequence[str], features: Features, model: Any) -> list[Scored]:
        """Return what a trained classifier makes of notes; NaN where the features know no word."""
        vectors = features.vectors(texts)
        is_readable = np.isfinite(vectors).all(axis=1)
        scores = np.full(len(texts), np.nan)
        predicted = np.full(len(texts), np.nan)
        if is_readable.any():
            readable = vectors[is_readable]
            predicted[is_readable] = model.predict(readable)
            if self.classifier == "svm":
                decisions = model.decision_function(readable)
                scores[is_readable] = 0.5 + 0.5 * np.tanh(decisions / 2)  # logistic
            else:
                scores[is_readable] = model.predict_proba(readable)[:, 1]
        classes = TARGETS[self.target]
        return [
            predicted_scored(score, label, classes)
            for score, label in zip(scores.tolist(), predicted.tolist(), strict=True)
        ]

    def _trained_for(self, phenotype: str, regime: str) -> tuple[Features, Any]:
        """Return the fitted features and the classifier of a phenotype and regime, trained once."""
        key = (phenotype, regime)
        if key not in self._trained:
            self._trained[key] = self._train(phenotype, regime)
        return self._trained[key]

    def _train(self, phenotype: str, regime: str) -> tuple[Features, Any]:
        classes = TARGETS[self.target]
        notes = [row for row in self.training(phenotype, regime) if row[self.target]]
        unknown = {row[self.target] for row in notes} - set(classes)
        if unknown:
            raise ValueError(
                f"{phenotype}, {regime}: {len(unknown)} other {self.target}, "
                f"expected {' or '.join(classes)}. Correct the notes."
            )
        texts = [note["text"] for note in notes]
        features = self.features.fit(texts)
        vectors = features.vectors(texts)
        is_readable = np.isfinite(vectors).all(axis=1)
        indices = [classes.index(note[self.target]) for note in notes]
        truth = np.array(indices, dtype=int)[is_readable]
        subjects = np.array([note["subject_id"] for note in notes])[is_readable]
        for index, name in enumerate(classes):
            count = len(set(subjects[truth == index]))
            if count < FOLDS:
                unreadable = int((~is_readable).sum())
                raise ValueError(
                    f"{phenotype}, {regime}: {self._describe_shortage(count, name, unreadable)}"
                )
        model = train(vectors[is_readable], truth, subjects, kind=self.classifier, seed=self.seed)
        return features, model

    def _describe_shortage(self, count: int, class_name: str, unreadable: int) -> str:
        """Return that a class has too few training notes, and what to do."""
        if unreadable:
            return (
                f"{count} readable training notes with {self.target} {class_name} ({self.features.name} gave no "
                f"finite vector for {unreadable}), expected {FOLDS} or more. Check {self.features.name}."
            )
        return (
            f"{count} readable training notes with {self.target} {class_name}, expected {FOLDS} or more. "
            "Add notes of both classes."
        )


def train(vectors: Floats, truth: Labels, groups: Names, *, kind: str, seed: int) -> Any:
    """Train a classifier with its own scaling.

    Args:
        vectors: shape (n, d).
        truth: shape (n,), 1 or 0.
        groups: shape (n,); notes of one group stay in one fold.
        kind: svm, rf or mlp.
        seed: seed of folds and classifier.

    Returns:
        A pipeline of scikit-learn; an svm is that of the best macro F1 over three folds.
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
        """Read phenotypes with a scorer; ``load_phenotype_classifier`` is the usual way.

        Args:
            inner: scores texts by a probability.
        """
        super().__init__(inner, kind=self.kind)

    def inputs(self, prompts: Sequence[Prompt]) -> Sequence[Hashable]:
        """Return what the classifier gets of each note, as far as it reads it.

        Args:
            prompts: notes.

        Returns:
            The inner scorer's inputs, one per prompt.
        """
        return super().inputs(self._cut_prompts(prompts))

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score notes.

        Args:
            prompts: notes of any length.
            on_progress: called with the number of further prompts that are done.

        Returns:
            One Scored per prompt, in order; NaN where the classifier returns NaN.
        """
        cut_prompts = self._cut_prompts(prompts)
        scores = checked_scores(self.inner, cut_prompts, on_progress)
        results = []
        for prompt, cut, scored in zip(prompts, cut_prompts, scores, strict=True):
            probability = scored.score
            predicted = math.nan if math.isnan(probability) else float(probability > 0.5)
            result = predicted_scored(probability, predicted, TARGETS["label"])
            parts = {**result.parts, "truncated": float(cut.text != prompt.text)}
            results.append(replace(result, parts=parts, finite=scored.finite))
        return results

    def _cut_prompts(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        return [replace(prompt, text=self._cut_to_limit(prompt.text)) for prompt in prompts]

    def _cut_to_limit(self, text: str) -> str:
        """Return as many whole words as a transformers model reads; the text itself where one word is too long."""
        # Not imported: it brings torch and transformers, which a classifier of the user's own does not need.
        loaded = sys.modules.get("swapbias.models.transformers_scorer")
        if loaded is None or not isinstance(self.inner, loaded.TextClassifierScorer):
            return text
        tokenizer = self.inner.tokenizer
        limit = length_limit(tokenizer, self.inner.model)

        def count_tokens(part: str) -> int:
            return len(tokenizer(part, verbose=False).input_ids)

        if count_tokens(text) <= limit:
            return text
        beginnings = [text[: word.end()] for word in re.finditer(r"\S+", text)]
        beginnings.append(text)
        words = bisect.bisect_right(beginnings, limit, key=count_tokens)
        return beginnings[words - 1] if words else text


def load_phenotype_classifier(name: str, *, options: LoadOptions) -> ClassifierScorer:
    """Load a user's own classifier.

    Args:
        name: ``module:function``, a .skops file of a model of texts, a folder or Hub id.
        options: how it is loaded.

    Returns:
        A scorer whose errors repeat no text.

    Raises:
        UsageError: no such module, a pickle, a type that skops does not trust, or a raw score.
        ValueError: it cannot be loaded.
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
    """Return the words that move a classifier most in each version of a note (LIME, Ribeiro et al. 2016).

    Args:
        predict_proba: n texts -> shape (n, 2), the probability of "positive" second; NaN of a sampled text counts
            as .5.
        texts: each version by its name.
        seed: seed of the sampling.
        samples: texts per version.

    Returns:
        Words by version with their weights toward "positive", heaviest first. A weight is the change in
        probability by the local linear model; below 0 a word speaks for "negative".

    Raises:
        ValueError: a version has no probability.
    """
    need("An explanation", "lime", extra="explain")
    from lime.lime_text import LimeTextExplainer

    def predict_without_nan(sampled: list[str]) -> Floats:
        return np.nan_to_num(np.asarray(predict_proba(sampled), dtype=np.float64), nan=0.5)

    probabilities = np.asarray(predict_proba(list(texts.values())), dtype=np.float64)
    weights_by_version = {}
    for probability, (name, text) in zip(probabilities, texts.items(), strict=True):
        if np.isnan(probability).any():
            raise ValueError(
                f"Version {name!r} ({len(text)} characters) has no probability. Choose another note."
            )
        explainer = LimeTextExplainer(
            class_names=["negative", "positive"], split_expression=r"[\W\d_]+", random_state=seed
        )
        explanation = explainer.explain_instance(
            text, predict_without_nan, labels=(1,), num_features=10, num_samples=samples
        )
        weights = explanation.as_list(label=1)
        weights_by_version[name] = [(str(word), float(weight)) for word, weight in weights]
    return weights_by_version


def _probabilities(reader: Scorer, like: Prompt, texts: Sequence[str]) -> Floats:
    """Return scores of texts as probabilities, shape (n, 2), the score second; NaN rows for those without one."""
    scored = checked_scores(reader, [replace(like, text=text) for text in texts])
    scores = np.array([result.score for result in scored])
    return np.column_stack([1 - scores, scores])


def explain_mismatched(
    rows: "pd.DataFrame", reader: Scorer, *, most: int, seed: int
) -> list[dict[str, Any]]:
    """Explain the pairs of notes whose two versions score most differently.

    Args:
        rows: scored notes in both genders.
        reader: the scorer of the rows.
        most: pairs of each phenotype and regime.
        seed: seed of the sampling.

    Returns:
        By pair the score and the words with their weights (``explain_pair``) of each group's version. The first is
        the most mismatched of the first regime, and is sampled most; then follows the same note in the other regimes.

    Raises:
        UsageError: LIME is not installed.
    """
    explained: list[dict[str, Any]] = []
    for regime, phenotype, pair_id in _most_mismatched(rows, most):
        is_pair = (
            (rows["construct"] == regime)
            & (rows["condition"] == phenotype)
            & (rows["pair_id"] == pair_id)
        )
        pair = rows[is_pair].set_index("group")
        prompt = Prompt(condition=str(phenotype), construct=str(regime))
        words = explain_pair(
            partial(_probabilities, reader, prompt),
            pair["text"].to_dict(),
            seed=seed,
            samples=SAMPLES if explained else PANEL_SAMPLES,
        )
        explained.append(
            {
                "model_id": reader.model_id,
                "phenotype": str(phenotype),
                "regime": str(regime),
                "pair_id": str(pair_id),
                "scores": {str(group): float(score) for group, score in pair["score"].items()},
                "words": words,
            }
        )
    return explained


def _most_mismatched(rows: "pd.DataFrame", most: int) -> list[tuple[str, str, str]]:
    """Return regime, phenotype and pair_id of the pairs to explain, the largest gap of the first regime first."""
    index = ["construct", "condition", "pair_id"]
    pairs = rows.pivot(index=index, columns="group", values="score").dropna()
    if pairs.shape[1] != 2:
        return []
    gaps = (pairs.iloc[:, 0] - pairs.iloc[:, 1]).abs()
    gaps = gaps[gaps > 0]
    with_gaps = gaps.index.get_level_values(0)
    regimes = [regime for regime in rows["construct"].unique() if regime in with_gaps]
    if not regimes:
        return []
    first = (regimes[0], *gaps[regimes[0]].idxmax())
    everywhere = [(regime, *first[1:]) for regime in rows["construct"].unique()]
    chosen = [first, *(key for key in everywhere if key in pairs.index)]
    for regime in regimes:
        for _, of_phenotype in gaps[[regime]].groupby(level="condition", sort=False):
            chosen += [*of_phenotype.nlargest(most).index]
    return list(dict.fromkeys(chosen))
