"""Phenotype classifiers that are trained on a regime's notes, one for each phenotype and regime."""

import math
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.models.clinical.features import Features, Floats, load_extra
from swapbias.models.clinical.options import CLASSIFIERS
from swapbias.models.kind import Training
from swapbias.models.scorer import Progress, Scored, Scorer
from swapbias.studies import Prompt

Note = Mapping[str, str]
Labels = NDArray[np.int64]
Names = NDArray[np.str_]

TARGETS = {"label": ("negative", "positive"), "gender": ("male", "female")}
FOLDS = 3
SVM_STEPS = 50_000  # what can be told apart is told in a few thousand; gender without gendered words never is
UNIT = "probability of the phenotype"
SVM_GRID = {"svc__C": [0.01, 0.1, 1, 10, 100], "svc__kernel": ["rbf", "sigmoid", "linear"]}


class PhenotypeScorer(Scorer):
    """Score: what a classifier trained on a regime's notes says of a note, 0..1; above .5 (SVM) it is positive.

    A prompt's condition names the phenotype, its construct the regime: one classifier each, trained once. Features
    are scaled to mean 0 and deviation 1 on the training notes. NaN: the features know no word of the note.
    With ``target="gender"`` the classifier tells the patient's gender instead: gender leakage.
    """

    kind = "phenotype"

    def __init__(
        self, features: Features, *, classifier: str = "svm", training: Training, seed: int = 0, target: str = "label"
    ) -> None:
        """Nothing is trained before the first prompt of a phenotype and regime is scored.

        Args:
            features: turn notes into vectors.
            classifier: ``svm`` (C and kernel by cross-validation on macro F1), ``rf`` or ``mlp``.
            training: phenotype and regime -> rows with subject_id, text, label and gender.
            seed: of folds, forest and network.
            target: ``label``, or ``gender``.

        Raises:
            UsageError: an unknown classifier or target, or scikit-learn is not installed.
        """
        if classifier not in CLASSIFIERS:
            raise UsageError(f"Unknown classifier {classifier!r}: expected {', '.join(CLASSIFIERS)}.")
        if target not in TARGETS:
            raise UsageError(f"Unknown target {target!r}: expected {' or '.join(TARGETS)}.")
        load_extra("sklearn", extra="clinical")
        self.features, self.classifier, self.training = features, classifier, training
        self.seed, self.target = seed, target
        self.model_id = f"{features.name}+{classifier}"
        probability = UNIT if target == "label" else "probability of female"
        self.unit = "logistic of the SVM's decision value" if classifier == "svm" else probability
        self.chosen: dict[tuple[str, str], dict[str, Any]] = {}
        self._trained: dict[tuple[str, str], tuple[Features, Any]] = {}
        library = f"scikit-learn {version('scikit-learn')}"
        settings = {"classifier": classifier, "library": library, "seed": seed, "target": target}
        self.identity: Mapping[str, Any] = {"kind": self.kind, "features": dict(features.identity), **settings}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, in order.

        Raises:
            ValueError: training notes that no classifier can learn from.
        """
        groups: dict[tuple[str, str], list[int]] = {}
        for place, prompt in enumerate(prompts):
            groups.setdefault((prompt.condition, prompt.construct), []).append(place)
        results = [Scored(float("nan"))] * len(prompts)
        for key, members in groups.items():
            read = self._read([prompts[place].text for place in members], *key)
            for place, score, predicted in zip(members, *map(np.ndarray.tolist, read), strict=True):
                results[place] = predicted_scored(score, predicted, TARGETS[self.target])
                if on_progress:
                    on_progress(1)
        return results

    def _read(self, texts: Sequence[str], phenotype: str, regime: str) -> tuple[Floats, Floats]:
        """Scores and predictions (1.0, 0.0) of texts, shape (n,) each."""
        features, model = self._learned(phenotype, regime)
        vectors = features.vectors(texts)
        known = np.isfinite(vectors).all(axis=1)
        scores, predicted = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
        if known.any():
            predicted[known] = model.predict(vectors[known])
            if self.classifier == "svm":
                scores[known] = 0.5 + 0.5 * np.tanh(model.decision_function(vectors[known]) / 2)  # logistic
            else:
                scores[known] = model.predict_proba(vectors[known])[:, 1]
        return scores, predicted

    def _learned(self, phenotype: str, regime: str) -> tuple[Features, Any]:
        """Features and classifier of a regime, trained at the first call."""
        key = (phenotype, regime)
        if key not in self._trained:
            notes = self._notes(*key)
            texts = [note["text"] for note in notes]
            features = self.features.fit(texts)
            vectors = features.vectors(texts)
            known = np.isfinite(vectors).all(axis=1)
            truth = np.array([TARGETS[self.target].index(note[self.target]) for note in notes], dtype=int)[known]
            groups = np.array([note["subject_id"] for note in notes])[known]
            self._check(truth, groups, unread=int((~known).sum()), where=f"{phenotype}, {regime}")
            model, self.chosen[key] = train(vectors[known], truth, groups, kind=self.classifier, seed=self.seed)
            self._trained[key] = features, model
        return self._trained[key]

    def _notes(self, phenotype: str, regime: str) -> list[Note]:
        """The training notes with a known target; a blank one is left out."""
        rows = [row for row in self.training(phenotype, regime) if row[self.target]]
        strange = {row[self.target] for row in rows} - set(TARGETS[self.target])
        if strange:
            wanted = " or ".join(TARGETS[self.target])
            raise ValueError(
                f"{phenotype}, {regime}: {len(strange)} other {self.target}, expected {wanted}. Mend the notes."
            )
        return rows

    def _check(self, truth: Labels, groups: Names, *, unread: int, where: str) -> None:
        for index, name in enumerate(TARGETS[self.target]):
            count = len(set(groups[truth == index]))
            if count < FOLDS:
                found = f"{count} readable training notes with {self.target} {name}"
                lost = f" ({self.features.name} gave no finite vector for {unread})" if unread else ""
                step = f"Check {self.features.name}" if unread else "Add notes of both classes"
                raise ValueError(f"{where}: {found}{lost}, expected {FOLDS} or more. {step}.")


def train(vectors: Floats, truth: Labels, groups: Names, *, kind: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """A trained classifier with its own scaling, and what was chosen.

    ``vectors``: shape (n, d), finite. ``truth``: shape (n,), 1 or 0. ``groups``: shape (n,), versions of one note
    share a value and stay in one fold. ``kind``: svm, rf or mlp. ``seed``: of folds, forest and network.
    """
    scale = load_extra("sklearn.preprocessing", extra="clinical").StandardScaler()
    chain = load_extra("sklearn.pipeline", extra="clinical").make_pipeline
    if kind == "svm":
        machine = load_extra("sklearn.svm", extra="clinical").SVC(max_iter=SVM_STEPS)
        return _search(chain(scale, machine), vectors, truth, groups, seed)
    if kind == "rf":
        forests = load_extra("sklearn.ensemble", extra="clinical")
        forest = forests.RandomForestClassifier(300, random_state=seed)
        return chain(scale, forest).fit(vectors, truth), {"trees": forest.n_estimators}
    network = load_extra("sklearn.neural_network", extra="clinical").MLPClassifier(max_iter=2_000, random_state=seed)
    with warnings.catch_warnings():  # whether it converged is said in what was chosen
        warnings.simplefilter("ignore", load_extra("sklearn.exceptions", extra="clinical").ConvergenceWarning)
        model = chain(scale, network).fit(vectors, truth)
    return model, {"hidden": 100, "iterations": network.n_iter_, "converged": network.n_iter_ < network.max_iter}


def _search(model: Any, vectors: Floats, truth: Labels, groups: Names, seed: int) -> tuple[Any, dict[str, Any]]:
    """The SVM with the best macro F1 over three folds, trained again on all notes; the first of equals wins."""
    selection = load_extra("sklearn.model_selection", extra="clinical")
    folds = selection.StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    search = selection.GridSearchCV(model, SVM_GRID, scoring="f1_macro", cv=folds, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", load_extra("sklearn.exceptions", extra="clinical").ConvergenceWarning)
        search.fit(vectors, truth, groups=groups)
    best = {name.removeprefix("svc__"): value for name, value in search.best_params_.items()}
    return search.best_estimator_, {**best, "macro_f1": float(search.best_score_)}


def predicted_scored(score: float, predicted: float, classes: tuple[str, str]) -> Scored:
    """A score with the class that was predicted (1.0: the second, NaN: none), also as the part ``predicted``."""
    if not np.isfinite(score):  # a note that was read, if there is a prediction
        return Scored(math.nan, parts={"predicted": math.nan}, finite=math.isnan(predicted))
    answer = "" if np.isnan(predicted) else classes[int(predicted)]
    return Scored(score, answer, parts={"predicted": predicted})
