"""Sentiment models of the occupation study: three kinds, and how they are trained."""

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import transformers
from pydantic import Field
from pydantic.dataclasses import dataclass as settings_dataclass
from pydantic_core import to_json
from safetensors import SafetensorError

from swapbias.errors import UsageError, listed, need
from swapbias.files import atomic_directory
from swapbias.models import devices, formats, lengths, loading, model_names
from swapbias.models.base import Count, LoadOptions
from swapbias.models.bilstm import BiLstmConfig, BiLstmForSequenceClassification, word_tokenizer
from swapbias.models.classifier import ProbabilityScorer
from swapbias.models.clinical.word_vectors import SUFFIXES, StaticVectors
from swapbias.models.options import STRICT, Options, Place, Use
from swapbias.models.progress import Bar, Progress
from swapbias.models.scorer import Scorer
from swapbias.models.training_data import Facts, Rows, gender_audit, load_sentiment_data
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.privacy import credentialed, for_owner_alone, is_credentialed
from swapbias.studies import Prompt

KINDS = BOW, BILSTM, ENCODER = "bow", BiLstmConfig.model_type, "encoder"
LABELS = ("NEGATIVE", "POSITIVE")
EPOCHS = {BILSTM: 30, ENCODER: 3}
"""Epochs by kind, where the user gives no number."""
RATES = {BILSTM: 1e-3, ENCODER: 2e-5}
"""Learning rates by kind, where the user gives none."""
PATIENCE = 3
"""Epochs of a bilstm without a smaller loss on dev, after which it stops."""
MOST_WORDS = 50_000
"""Words that a bilstm knows."""
_PACKAGES = ("swapbias", "numpy", "torch", "transformers")
_PACKAGES_OF_BOW = ("scikit-learn", "skops")
# Settings of some kinds alone.
_OPTIONS = {"vectors": (BILSTM,), "encoder": (ENCODER,), "epochs": (BILSTM, ENCODER)}


@settings_dataclass(frozen=True, kw_only=True, config=STRICT)
class TrainSettings(Options):
    """Settings of a training; on cuda a seed does not fix the last digits."""

    kind: Annotated[Literal["bow", "bilstm", "encoder"], Use(flag=True)]
    """bow, bilstm or encoder."""
    data: Annotated[Place, Use(flag=True, place=True)]
    """sst2 (from the Hub), or a folder with stsa.binary.train and .dev."""
    vectors: Annotated[Path | None, Use(flag=True)] = None
    """Of a bilstm: .bin, .txt or .vec word vectors."""
    encoder: Annotated[str | None, Use(flag=True)] = None
    """Hub id or folder; none: bert-base-uncased."""
    epochs: Annotated[int | None, Field(ge=1), Use(flag=True)] = None
    """Of an encoder (3), or most of a bilstm (30)."""
    # The range that every library here takes.
    seed: Annotated[int, Field(ge=0, le=2**32 - 1), Use(flag=True)] = 0
    """Seed of weights, dropout and order."""
    device: Annotated[str, Use(flag=True)] = "auto"
    """auto, cpu, cuda or mps."""
    batch_size: Annotated[Count, Use(inner=True)] = 32
    """Sentences of a step."""
    rate: Annotated[float | None, Use(inner=True)] = None
    """Of learning; none: RATES."""

    def check(self) -> None:
        """Refuse settings that do not fit the kind.

        Raises:
            UsageError: One is of another kind, or a bilstm has no word vectors.
        """
        LoadOptions(device=self.device)
        for name, kinds in _OPTIONS.items():
            if getattr(self, name) is not None and self.kind not in kinds:
                raise UsageError(
                    f"--{name} is for {' and '.join(kinds)}, and {self.kind} is to be trained. "
                    "Drop it."
                )
        file = self.vectors.name if self.vectors else "no file"
        if self.kind == BILSTM and not file.lower().endswith((*SUFFIXES, *formats.PICKLES)):
            raise UsageError(
                f"A bilstm needs a file of word vectors ({listed(SUFFIXES)}), not {file}."
            )


def train_model(settings: TrainSettings, out: Path, *, bar: Bar) -> Facts:
    """Train a model into a new folder, which appears whole at the end.

    Args:
        settings: kind, data and the like.
        out: the folder.
        bar: begins a bar for the training.

    Returns:
        The record in its ``training.json``. ``dev_accuracy``: on the ``n_dev`` dev sentences that it can read (NaN:
        none); ``audit``: of its training data.

    Raises:
        UsageError: Settings that do not fit each other, a folder that holds something, or a missing package.
        ValueError: Data or an encoder that cannot be read.
        OSError: The model cannot be written.
    """
    settings.check()
    target = out.resolve()
    private = Path(settings.data).exists() and is_credentialed(Path(settings.data))
    with for_owner_alone(private), atomic_directory(target, new=True) as making:
        train, dev, description = load_sentiment_data(settings.data)
        transformers.set_seed(settings.seed)
        try:
            scorer, facts = FITS[settings.kind](settings, train, dev, making, bar)
        except SafetensorError as error:
            raise OSError(
                None, f"the model cannot be written ({error})", str(target.parent)
            ) from error
        right = _is_right(scorer, dev)
        packages = (*_PACKAGES, *_PACKAGES_OF_BOW) if settings.kind == BOW else _PACKAGES
        record = {
            "kind": settings.kind,
            "dev_accuracy": float(right.mean()),
            "n_dev": len(right),
            "data": description,
            "sizes": {"train": len(train), "dev": len(dev)},
            "seed": settings.seed,
            "model": facts,
            "audit": gender_audit(train),
            "versions": {name: version(name) for name in packages},
        }
        (making / "training.json").write_bytes(to_json(record, indent=2, inf_nan_mode="null"))
        if private:
            credentialed.mark(making)
    return record


def _is_right(scorer: Scorer, sentences: Rows) -> Any:
    """Return for each sentence that a scorer can read whether it gives the right label."""
    scored = scorer.score([Prompt(text=text) for text in sentences["text"]])
    scores = np.array([result.score for result in scored])
    is_right = (scores > 0.5) == (sentences["label"] == 1)
    return is_right[~np.isnan(scores)]


def _train_bow(
    settings: TrainSettings, train: Rows, dev: Rows, folder: Path, bar: Bar
) -> tuple[Scorer, Facts]:
    """Fit TF-IDF of words and logistic regression in one go; the seed changes nothing."""
    need("A bow", "sklearn", "skops", extra="train")
    import skops.io
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    advance = bar("Training bow", 1)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1_000))
    try:
        model.fit(train["text"], [LABELS[label] for label in train["label"]])
    except ValueError as error:  # an empty vocabulary
        raise ValueError(
            f"The training sentences contain no words ({error}). Check them."
        ) from error
    skops.io.dump(model, folder / formats.SKOPS)
    advance(1)
    scorer = ProbabilityScorer(model, model_id=BOW, options=LoadOptions())
    return scorer, {"words": len(model[0].vocabulary_)}


def new_bilstm(vectors: StaticVectors, most: int = MOST_WORDS) -> tuple[Any, Any]:
    """Make a network that is not trained yet.

    Args:
        vectors: the vectors of words; those of the most frequent words in lower case are its embeddings.
        most: words that it knows, at most.

    Returns:
        The network and its tokenizer.
    """
    keyed = vectors.keyed
    row_of_word = dict[str, int]()
    for row in vectors.order:
        word = str(keyed.index_to_key[row]).lower()
        row_of_word.setdefault(word, int(keyed.key_to_index.get(word, row)))
        if len(row_of_word) == most:
            break
    weights = torch.from_numpy(keyed.vectors[list(row_of_word.values())].astype(np.float32))
    config: Any = BiLstmConfig(
        vocab_size=len(row_of_word) + 1,
        vector_size=weights.shape[1],
        id2label=dict(enumerate(LABELS)),
    )
    model = BiLstmForSequenceClassification(config)
    model.embed_tokens.weight[1:] = weights
    return model, word_tokenizer(row_of_word)


def _train_network(
    settings: TrainSettings, train: Rows, dev: Rows, folder: Path, bar: Bar
) -> tuple[Scorer, Facts]:
    """Train a bilstm or an encoder."""
    if settings.kind == BILSTM:
        model, tokenizer, facts = _start_bilstm(settings, train)
    else:
        model, tokenizer, facts = _start_encoder(settings)
    with loading.quiet():
        facts |= fit_network(model, tokenizer, settings, train, dev, bar)
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return TextClassifierScorer(model, tokenizer, model_id="", identity={}), facts


def _start_bilstm(settings: TrainSettings, train: Rows) -> tuple[Any, Any, Facts]:
    """Return a bilstm, its tokenizer, and the facts on its vectors."""
    vectors = StaticVectors.load(settings.vectors or Path())
    model, tokenizer = new_bilstm(vectors)
    encoded = tokenizer(list(train["text"]))["input_ids"]
    share_known = np.mean([token > 0 for ids in encoded for token in ids])
    if not share_known:
        raise ValueError(
            f"{vectors.name} knows no training sentence's words. Give vectors of their language."
        )
    facts: Facts = {
        "vectors": {"name": vectors.name, **vectors.identity},
        "words_known": len(tokenizer) - 1,
        "train_words_known": float(share_known),
    }
    return model, tokenizer, facts


def _start_encoder(settings: TrainSettings) -> tuple[Any, Any, Facts]:
    """Return an encoder with a new head, its tokenizer, and what identifies it."""
    name = settings.encoder or "bert-base-uncased"
    options = LoadOptions(device=settings.device)
    auto_class = TextClassifierScorer.auto_class
    model, tokenizer, pin = loading.load_model(name, auto_class, options, labels=LABELS)
    if tokenizer.pad_token_id is None:
        raise UsageError(
            "The encoder's tokenizer has no padding token. Give another one with --encoder."
        )
    return model, tokenizer, {"encoder": model_names.model_name(name), **pin}


class _Advance(transformers.TrainerCallback):
    """Reports each step of a training as a share of its epochs."""

    def __init__(self, advance: Progress) -> None:
        self.advance = advance

    def on_step_end(self, args: Any, state: Any, control: Any, **_settings: Any) -> None:
        self.advance(state.num_train_epochs / state.max_steps)


def fit_network(
    model: Any, tokenizer: Any, settings: TrainSettings, train: Rows, dev: Rows, bar: Bar
) -> Facts:
    """Train by transformers' ``Trainer``, the rate rising over a tenth of the steps; longer sentences are cut.

    A bilstm stops where its loss on dev has not fallen for three epochs, and its best epoch stays; else the last.

    Args:
        model: a model of transformers, with a head of two labels; it is changed.
        tokenizer: the model's tokenizer.
        settings: epochs, rate, seed and the like.
        train: sentences to train on.
        dev: sentences to check with.
        bar: begins a bar for the training.

    Returns:
        ``epochs``, ``batch_size``, ``rate``, ``train_cut`` (sentences that are cut), and of a bilstm ``dev_losses``.
    """
    need("A network", "accelerate", extra="train")
    epochs = settings.epochs or EPOCHS[settings.kind]
    rate = settings.rate or RATES[settings.kind]
    stops_early = settings.kind == BILSTM
    advance = bar(f"Training {settings.kind}", epochs)
    limit = lengths.length_limit(tokenizer, model)
    encoded = tokenizer(list(train["text"]), verbose=False)["input_ids"]
    cut = sum(len(ids) > limit for ids in encoded)
    callbacks: list[transformers.TrainerCallback] = [_Advance(advance)]
    if stops_early:
        callbacks.append(transformers.EarlyStoppingCallback(PATIENCE))
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model,
            _trainer_arguments(settings, folder, epochs, rate, stops_early=stops_early),
            transformers.DataCollatorWithPadding(tokenizer),
            _encode_rows(tokenizer, train, limit),
            _encode_rows(tokenizer, dev, limit),
            callbacks=callbacks,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    state = trainer.state
    advance((state.max_steps - state.global_step) * epochs / state.max_steps)
    model.eval()
    facts: Facts = {
        "epochs": epochs,
        "batch_size": settings.batch_size,
        "rate": rate,
        "train_cut": cut,
    }
    if stops_early:
        facts["dev_losses"] = [log["eval_loss"] for log in state.log_history if "eval_loss" in log]
    return facts


def _encode_rows(tokenizer: Any, sentences: Rows, limit: int) -> list[dict[str, Any]]:
    """Return tokens and label of each sentence, cut at a number of tokens."""
    encoded = tokenizer(list(sentences["text"]), truncation=True, max_length=limit)["input_ids"]
    labels = sentences["label"].tolist()
    return [{"input_ids": ids, "labels": label} for ids, label in zip(encoded, labels, strict=True)]


def _trainer_arguments(
    settings: TrainSettings, folder: str, epochs: int, rate: float, *, stops_early: bool
) -> transformers.TrainingArguments:
    """Return the arguments of the trainer, which keeps the best epoch where it stops early."""
    strategy = "epoch" if stops_early else "no"
    return transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=epochs,
        learning_rate=rate,
        seed=settings.seed,
        warmup_steps=0.1,
        weight_decay=0.01,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=64,
        train_sampling_strategy="group_by_length",
        eval_strategy=strategy,
        save_strategy=strategy,
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=stops_early,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=devices.pick_device(settings.device).type == "cpu",
    )


FITS = {BOW: _train_bow, BILSTM: _train_network, ENCODER: _train_network}
"""Trains a model of a kind."""
