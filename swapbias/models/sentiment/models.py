"""Sentiment models in the folders that ``swapbias train`` writes: their record, the bag of words, both as scorers."""

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.files import file_sha256, parse_json
from swapbias.models.clinical.features import load_extra
from swapbias.models.loading import check_pickle, is_pickle
from swapbias.models.scorer import Progress, Say, Scored, Scorer, not_finite, ranked
from swapbias.studies import Prompt

RECORD, SKOPS, JOBLIB = "training.json", "model.skops", "model.joblib"
KINDS = ("bow", "bilstm")  # an encoder is read like any transformers classifier
EXTRA, REMEDY = "train", "Train the model again."
LABELS = ("NEGATIVE", "POSITIVE")

Floats = NDArray[np.float64]
Probabilities = Callable[[list[str]], Floats]  # n texts -> shape (n,), P(positive)


class SentimentScorer(Scorer):
    """Score: probability (0..1) of positive sentiment by a model trained here.

    NaN: the text has no word or mark, or what the model gives is not finite.

    Attributes:
        dev_accuracy: share of dev sentences told right, 0..1; None where the record does not tell.
    """

    kind = "classifier"
    unit = "probability of positive sentiment"

    def __init__(
        self,
        probabilities: Probabilities,
        *,
        model_id: str,
        identity: Mapping[str, Any],
        dev_accuracy: float | None = None,
        batch_size: int = 64,
    ) -> None:
        """Wrap a loaded model; ``load_sentiment_model`` is the usual way."""
        self._probabilities = probabilities
        self.model_id, self.dev_accuracy, self.batch_size = model_id, dev_accuracy, batch_size
        self.negative_label = LABELS[0]
        self.identity: Mapping[str, Any] = {"kind": self.kind, **identity, "dev_accuracy": dev_accuracy}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, in order."""
        results: list[Scored] = []
        for start in range(0, len(prompts), self.batch_size):
            texts = [prompt.text for prompt in prompts[start : start + self.batch_size]]
            results += map(_scored, texts, self._probabilities(texts).tolist())
            if on_progress:
                on_progress(len(texts))
        return results


def _scored(text: str, positive: float) -> Scored:
    if not text.strip():  # no word and no mark
        return Scored(math.nan)
    if not math.isfinite(positive):
        return not_finite()
    names, shares = LABELS, (1 - positive, positive)
    if positive > 0.5:
        names, shares = names[::-1], shares[::-1]
    return Scored(positive, names[0], ranked(names, shares))


def is_sentiment_folder(path: str | Path) -> bool:
    """Whether a folder holds a bag of words or a bidirectional LSTM that ``swapbias train`` wrote."""
    return _record(Path(path)).get("kind") in KINDS


def dev_accuracy_of(folder: str | Path) -> float | None:
    """Accuracy on dev that a training of any kind wrote down, 0..1; None for other folders and Hub ids."""
    found = _record(Path(folder)).get("dev_accuracy")
    if not isinstance(found, float | int) or isinstance(found, bool) or not 0 <= found <= 1:
        return None
    return float(found)


def load_sentiment_model(
    folder: str | Path, *, batch_size: int = 64, allow_pickle: bool = False, say: Say | None = None
) -> SentimentScorer:
    """A bag of words or bidirectional LSTM as a scorer, on the CPU; findings carry the folder's name.

    With ``allow_pickle`` a ``model.joblib`` is read as well, and ``say`` is told that this runs what its maker put
    in it.

    Raises:
        UsageError: not such a folder, a pickle that is not allowed, a type that skops does not trust, or a missing
            package.
        ValueError: a file that is missing or damaged.
    """
    place = Path(folder)
    record = _record(place)
    readers = {"bow": lambda: _read_bow(place, allow_pickle, say), "bilstm": lambda: _read_bilstm(place, batch_size)}
    kind = record.get("kind")
    if kind not in readers:
        raise UsageError(f"{place}: its {RECORD} tells no bow or bilstm. Give a folder that swapbias train wrote.")
    probabilities = readers[kind]()
    return SentimentScorer(
        probabilities,
        model_id=place.resolve().name,
        identity={"architecture": kind, "sha256": folder_sha256(place)},
        dev_accuracy=dev_accuracy_of(place),
        batch_size=batch_size,
    )


def _record(folder: Path) -> dict[str, Any]:
    """The record of a training; empty where there is none that can be read."""
    try:
        found = parse_json((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write how a model was trained; NaN becomes null."""
    text = json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / RECORD).write_text(f"{text}\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def folder_sha256(folder: Path) -> str:
    """What pins a model of ``swapbias train`` down: sha256 over its files."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("model.*"), *folder.glob("bilstm.json")]):
        digest.update(f"{path.name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def fit_bow(texts: Sequence[str], labels: Sequence[int]) -> tuple[Any, int]:
    """TF-IDF of single words and logistic regression, scikit-learn's defaults; and how many words it knows.

    Raises:
        UsageError: scikit-learn is not installed.
        ValueError: the texts hold no word of two letters.
    """
    words = load_extra("sklearn.feature_extraction.text", extra=EXTRA).TfidfVectorizer()
    machine = load_extra("sklearn.linear_model", extra=EXTRA).LogisticRegression(max_iter=1_000)
    model = load_extra("sklearn.pipeline", extra=EXTRA).make_pipeline(words, machine)
    try:
        model.fit(texts, labels)
    except ValueError as error:  # an empty vocabulary
        raise ValueError(f"The training sentences hold no words ({error}). Check them.") from error
    return model, len(words.vocabulary_)


def save_bow(model: Any, folder: Path) -> None:
    """Write a scikit-learn pipeline with skops, which runs nothing when it is read.

    The same model gives the same file: its sha256 is the model's identity.

    Raises:
        UsageError: skops is not installed.
    """
    for _, step in model.steps:
        vars(step).pop("_stop_words_id", None)  # a place in memory, by which scikit-learn only saves itself a check
    (folder / SKOPS).write_bytes(_repeatable(load_extra("skops.io", extra=EXTRA).dumps(model)))


def _repeatable(archive: bytes) -> bytes:
    """A skops file without the time of writing, its objects numbered from 0 and not by their place in memory."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return found[1] + numbers.setdefault(found[2], str(len(numbers)))

    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(target, "w") as new:
        schema = re.sub(r'("__id__": |"file": ")(\d+)', number, old.read("schema.json").decode())
        for name in old.namelist():
            stem, dot, ending = name.partition(".")
            content = schema.encode() if name == "schema.json" else old.read(name)
            new.writestr(zipfile.ZipInfo(f"{numbers.get(stem, stem)}{dot}{ending}"), content)  # of 1980
    return target.getvalue()


def bow_file(folder: Path) -> Path:
    """The file that a bag of words is read from; earlier versions wrote a pickle where skops was missing."""
    return folder / (JOBLIB if (folder / JOBLIB).exists() and not (folder / SKOPS).exists() else SKOPS)


def read_saved(path: Path, *, extra: str, allow_pickle: bool, say: Say | None, remedy: str) -> Any:
    """What skops saved, or joblib where pickles are allowed.

    Raises:
        UsageError: a pickle that is not allowed, a type that skops does not trust, or a missing package.
        ValueError: the file cannot be read.
    """
    check_pickle(path, allowed=allow_pickle, say=say)
    load_extra("sklearn", extra=extra)
    library = load_extra("joblib" if is_pickle(path) else "skops.io", extra=extra)
    try:
        strange = [] if is_pickle(path) else library.get_untrusted_types(file=path)
        model = None if strange else library.load(path)
    except Exception as error:
        raise _unreadable(path, error, remedy) from error
    if strange:
        raise UsageError(f"{path.name} holds types that skops does not trust: {', '.join(strange)}. {remedy}")
    return model


def _read_bow(folder: Path, allow_pickle: bool, say: Say | None) -> Probabilities:
    model = read_saved(bow_file(folder), extra=EXTRA, allow_pickle=allow_pickle, say=say, remedy=REMEDY)
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"{bow_file(folder).name} is a {type(model).__name__}, expected predict_proba. {REMEDY}")

    def read(texts: list[str]) -> Floats:
        found = np.asarray(model.predict_proba(texts)[:, 1], dtype=np.float64)
        found[[not text.strip() for text in texts]] = np.nan
        return found

    return read


def _read_bilstm(folder: Path, batch_size: int) -> Probabilities:
    from swapbias.models.sentiment.bilstm import SentimentLstm

    try:
        model = SentimentLstm.load(folder)
    except Exception as error:
        raise _unreadable(folder, error, REMEDY) from error
    return lambda texts: model.probabilities(texts, batch_size=batch_size)


def _unreadable(path: Path, error: Exception, remedy: str) -> ValueError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return ValueError(f"{path.name} cannot be read ({reason}). {remedy}")
