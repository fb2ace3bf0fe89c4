"""Which scorer reads a model: found by its config, loaded by its kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.files import file_sha256
from swapbias.scorers.scorer import DEVICES, DTYPES, VADER, LoadOptions, Scorer, is_callable
from swapbias.scorers.trust import Code, is_pickle, module_file

KINDS = ("masked", "classifier", "causal")


def load_scorer(
    model: str,
    *,
    kind: str | None = None,
    options: LoadOptions | None = None,
    say: Callable[[str], None] | None = None,
) -> Scorer:
    """A scorer for a model.

    Args:
        model: a Hub id or local folder (transformers), ``vader``, or ``module:function`` (texts ->
            probabilities of positive sentiment).
        kind: ``masked``, ``classifier`` or ``causal``; found from the model's config where None.
        options: device, dtype and batch size, and whether a pickle may be read.
        say: is told that reading a pickle runs what its maker put in it.

    Raises:
        UsageError: a kind that cannot be found or does not exist, a model of another kind, a pickle that is not
            allowed.
        ValueError: a model that cannot be loaded.
    """
    chosen = options or LoadOptions()
    if chosen.device not in DEVICES:
        raise UsageError(f"Unknown device {chosen.device!r}: expected {', '.join(DEVICES)}.")
    if chosen.dtype not in DTYPES:
        raise UsageError(f"Unknown dtype {chosen.dtype!r}: expected {' or '.join(DTYPES)}.")
    found = model_kind(model, kind)
    if found == "classifier":
        from swapbias.scorers import classifier

        if model == VADER:
            return classifier.VaderScorer()
        if _is_trained_here(model):
            from swapbias.scorers.sentiment.models import load_sentiment_model

            allow = chosen.allow_pickle
            return load_sentiment_model(model, batch_size=chosen.batch_size, allow_pickle=allow, say=say)
        if is_callable(model):
            return classifier.CallableScorer.load(model, batch_size=chosen.batch_size)
        return classifier.TextClassifierScorer.load(model, chosen)
    if found == "causal":
        from swapbias.scorers.causal import CausalScorer

        return CausalScorer.load(model, chosen)
    from swapbias.scorers.checkpoint import PERMUTATION, read_config
    from swapbias.scorers.masked import MaskedScorer, PermutationScorer

    permuted = read_config(model).model_type in PERMUTATION
    return (PermutationScorer if permuted else MaskedScorer).load(model, chosen)


def model_kind(model: str, kind: str | None = None) -> str:
    """The kind of a model, without loading its weights: ``masked``, ``classifier`` or ``causal``.

    Raises:
        UsageError: an unknown kind, or a config that does not tell and no ``kind`` given.
        ValueError: no such model.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(f"Unknown kind {kind!r}: expected one of {', '.join(KINDS)}.")
    if model == VADER or is_callable(model) or _is_trained_here(model):
        if kind not in (None, "classifier"):
            raise UsageError(f"{model} returns probabilities of a text, expected kind 'classifier'. Drop --kind.")
        return "classifier"
    from swapbias.scorers.checkpoint import kind_of_config, read_config

    found = kind_of_config(read_config(model))
    if found is None and kind is None:
        raise UsageError(
            f"The config of {model} does not tell what kind of model it is. Pass --kind {' or '.join(KINDS)}."
        )
    if kind is not None and found is not None and found != kind:
        raise UsageError(f"Model {model} is of kind {found} by its config, not {kind}. Drop --kind.")
    return kind or found or ""


def _is_trained_here(model: str) -> bool:
    """Whether a folder holds a model of ``swapbias train`` that transformers does not read (bow, bilstm)."""
    if not (Path(model) / "training.json").is_file():
        return False
    from swapbias.scorers.sentiment.models import is_sentiment_folder

    return is_sentiment_folder(model)


def read_as(scorer: Any, reading: str, *, prune: float = 0.0) -> Scorer:
    """The scorer, or another way to read the same model.

    ``phrases``: recursive masking; ``attitude``: approval at the mask (both of a masked model);
    ``negative_label``: the label of a sentiment system; ``antonyms``: a causal model's choice between antonyms;
    ``answers``: its choice between two answers. ``prune`` is of phrases.

    Raises:
        UsageError: a reading that does not exist.
    """
    if not reading:
        plain: Scorer = scorer
        return plain
    if reading == "antonyms":
        from swapbias.scorers.causal import AntonymScorer

        return AntonymScorer(scorer)
    if reading == "phrases":
        from swapbias.scorers.phrases import PhraseScorer

        return PhraseScorer(scorer, prune=prune)
    if reading == "answers":
        from swapbias.scorers.causal import AnswerOddsScorer

        return AnswerOddsScorer(scorer)
    from swapbias.scorers.attitude import AttitudeScorer, NegativeLabelScorer

    if reading == "attitude":
        return AttitudeScorer(scorer)
    if reading == "negative_label":
        return NegativeLabelScorer(scorer)
    raise UsageError(f"Unknown reading {reading!r}: expected answers, antonyms, phrases, attitude or negative_label.")


def code_of(model: str) -> Code | None:
    """What loading a model would run, found without running it; None for formats that only hold numbers.

    Args:
        model: as a user names it: a file, a folder, ``NAME=PATH``, ``module:function``, a Hub id.
    """
    from swapbias.scorers.notes.features import vectors_sha256
    from swapbias.scorers.sentiment.models import bow_file, folder_sha256, is_sentiment_folder

    place = Path(model) if Path(model).exists() else Path(model.partition("=")[2] or model)
    if place.is_file() and is_pickle(place):
        return Code(place.name, True, vectors_sha256(place))
    if place.is_dir() and is_sentiment_folder(place) and is_pickle(bow_file(place)):
        return Code(f"{place.name}/{bow_file(place).name}", True, folder_sha256(place))
    if is_callable(model):
        source = module_file(model.partition(":")[0])
        return Code(model, False, file_sha256(source) if source else None)
    return None
