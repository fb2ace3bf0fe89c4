"""Sentiment models of the occupation study: their sentences, the three kinds, and how they are trained."""

import math
import re
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
import transformers
from pydantic import Field
from pydantic.dataclasses import dataclass as settings_dataclass
from pydantic_core import to_json
from safetensors import SafetensorError

from swapbias import hub_http
from swapbias.errors import UsageError, first_line, listed, need
from swapbias.files import atomic_directory, not_utf8
from swapbias.measures import Estimate, group_gap
from swapbias.models import devices, formats, lengths, loading, model_names
from swapbias.models.base import Count, LoadOptions
from swapbias.models.bilstm import BiLstmConfig, BiLstmForSequenceClassification, word_tokenizer
from swapbias.models.classifier import ProbabilityScorer
from swapbias.models.clinical.features import SUFFIXES, StaticVectors
from swapbias.models.options import STRICT, Options, Place, Use
from swapbias.models.progress import Bar, Progress
from swapbias.models.scorer import Scorer
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.privacy import credentialed, for_owner_alone, is_credentialed
from swapbias.studies import Prompt, corpus_dir, read_table, tables

KINDS = BOW, BILSTM, ENCODER = "bow", BiLstmConfig.model_type, "encoder"
LABELS = ("NEGATIVE", "POSITIVE")
EPOCHS = {BILSTM: 30, ENCODER: 3}
RATES = {BILSTM: 1e-3, ENCODER: 2e-5}
PATIENCE = 3  # epochs of a bilstm without a smaller loss on dev
# that a bilstm knows, and that it reads in one text
MOST_WORDS = 50_000
_PACKAGES = ("swapbias", "numpy", "torch", "transformers")
_OF_BOW = ("scikit-learn", "skops")
_OPTIONS = {
    "vectors": (BILSTM,),
    "encoder": (ENCODER,),
    "epochs": (BILSTM, ENCODER),
}  # of some kinds
SST2 = "sst2"
HUB_ID = "stanfordnlp/sst2"
FILES = ("stsa.binary.train", "stsa.binary.dev")
# Bhaskaran & Bhallamudi 2019: sentences, mean label
PUBLISHED_AUDIT = {"male": (1182, 0.535), "female": (601, 0.599)}
Rows: TypeAlias = pd.DataFrame  # sentences: text, and label (1 positive)
Facts: TypeAlias = dict[str, Any]  # what a record says
_NOUN_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def load_sentiment_data(source: str) -> tuple[Rows, Rows, dict[str, str]]:
    """Sentences to train on and to check with, text and label (1 positive), and what the record says of them.

    SST-2 (``sst2``: of the Hub) or a folder with ``stsa.binary.train`` and ``.dev``, lines like ``1 a fine film``.
    UsageError: no such files. ValueError: a file that cannot be read, a label other than 0 and 1.
    """
    if source == SST2:
        (train, dev), description = _from_hub(), f"{HUB_ID} (Hub)"
    elif not Path(source).is_dir():
        raise UsageError(
            f"{source} is no folder. Give sst2 or a folder with training files to --data."
        )
    else:
        train, dev = (_from_file(Path(source, name)) for name in FILES)
        description = f"{Path(source).resolve().name} ({' and '.join(FILES)})"
    every = pd.concat([train.assign(split="train"), dev.assign(split="dev")])
    sha256 = tables.fingerprint(every.astype(str).to_dict("records"))
    return train, dev, {"description": description, "sha256": sha256}


def _from_hub() -> list[Rows]:
    from datasets import load_dataset

    hub_http.configure_http()
    try:
        found = load_dataset(HUB_ID)
    except Exception as error:
        reason = first_line(error)
        raise ValueError(
            f"{HUB_ID} cannot be loaded ({reason}). Go online or give --data DIR."
        ) from error
    rows = (found[split].to_pandas() for split in ("train", "validation"))
    return [
        one[["label"]].assign(text=one["sentence"].str.strip())[["text", "label"]] for one in rows
    ]


def _from_file(file: Path) -> Rows:
    """Texts and labels of lines; blank ones are left out."""
    if not file.is_file():
        names = " and ".join(FILES)
        raise UsageError(
            f"{file.parent} holds no {file.name}. Put {names} there, with lines like: 1 a fine film."
        )
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise not_utf8(file.name, error) from error
    found = []
    for number, (label, _, text) in enumerate((line.partition(" ") for line in lines), start=1):
        if not (label + text).strip():
            continue
        if label not in ("0", "1"):
            raise ValueError(
                f"{file.name}:{number}: label {label!r}, expected 0 or 1. Correct the label."
            )
        if not text.strip():
            raise ValueError(
                f"{file.name}:{number}: the sentence is blank. Fill it in or drop the row."
            )
        found.append((text.strip(), int(label)))
    rows = pd.DataFrame(found, columns=["text", "label"])
    if rows["label"].nunique() < 2:
        what = f"{len(rows)} sentences with label {rows['label'][0]}" if found else "no sentence"
        raise ValueError(f"{file.name} holds {what}, expected both labels, 0 and 1. Add sentences.")
    return rows


def gender_audit(rows: Rows) -> Facts:
    """Compare the labels of sentences with a male noun and with a female noun, of the occupation sentences.

    ``n_male``, ``n_female`` and ``n_both`` sentences, shares of positive ones (``mean_male``, ``mean_female``), and
    ``gap`` (female - male) with Welch's interval. Nouns match whole words: of the readings tried this comes nearest
    to the ratio of the published 1,182 and 601.
    """
    words = rows["text"].str.lower().map(lambda text: f" {' '.join(_NOUN_WORD.findall(text))} ")
    table = read_table(corpus_dir("gender_lexicon") / "sentence_nouns.csv", ("male", "female"))
    nouns = {
        group: "|".join(re.escape(row[group]) for row in table) for group in ("male", "female")
    }
    found = {
        group: rows["label"][words.str.contains(f" (?:{one}) ")] for group, one in nouns.items()
    }
    groups = [group for group, labels in found.items() for _ in labels]
    gap = Estimate(math.nan, n=len(groups), test="Welch t", interval="Welch t")
    if all(map(len, found.values())):
        gap = group_gap(pd.concat(found), groups, reference_group="male", test="welch")
    counts = {f"n_{group}": len(labels) for group, labels in found.items()}
    means = {f"mean_{group}": float(labels.mean()) for group, labels in found.items()}
    return {
        **counts,
        **means,
        "n_both": len(found["male"].index.intersection(found["female"].index)),
        "gap": gap,
    }


@settings_dataclass(frozen=True, kw_only=True, config=STRICT)
class TrainSettings(Options):
    """What to train, and how; on cuda a seed does not fix the last digits."""

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
    seed: Annotated[int, Field(ge=0, le=2**32 - 1), Use(flag=True)] = (
        0  # as every library here takes
    )
    """Seed of weights, dropout and order."""
    device: Annotated[str, Use(flag=True)] = "auto"
    """auto, cpu, cuda or mps."""
    batch_size: Annotated[Count, Use(inner=True)] = 32
    """Sentences of a step."""
    rate: Annotated[float | None, Use(inner=True)] = None
    """Of learning; none: RATES."""

    def check(self) -> None:
        """Refuse what does not fit the kind, with a UsageError."""
        LoadOptions(device=self.device)
        for name, able in _OPTIONS.items():
            if getattr(self, name) is not None and self.kind not in able:
                raise UsageError(
                    f"--{name} is for {' and '.join(able)}, and {self.kind} is to be trained. Drop it."
                )
        found = self.vectors.name if self.vectors else "no file"
        if self.kind == BILSTM and not found.lower().endswith((*SUFFIXES, *formats.PICKLES)):
            raise UsageError(
                f"A bilstm needs a file of word vectors ({listed(SUFFIXES)}), not {found}."
            )


def train_model(settings: TrainSettings, out: Path, *, bar: Bar) -> Facts:
    """Train a model into a new folder, which appears whole at the end; gives the record in its ``training.json``.

    ``dev_accuracy``: on the ``n_dev`` dev sentences that it can read (NaN: none); ``audit``: of its training data.
    UsageError: options, a folder or a missing package. ValueError: data or an encoder. OSError: it cannot be written.
    """
    settings.check()
    target = out.resolve()
    private = Path(settings.data).exists() and is_credentialed(Path(settings.data))
    with for_owner_alone(private), atomic_directory(target, new=True) as making:
        train, dev, known = load_sentiment_data(settings.data)
        transformers.set_seed(settings.seed)
        try:
            scorer, facts = FITS[settings.kind](settings, train, dev, making, bar)
        except SafetensorError as error:
            raise OSError(
                None, f"the model cannot be written ({error})", str(target.parent)
            ) from error
        scores = np.array(
            [one.score for one in scorer.score([Prompt(text=text) for text in dev["text"]])]
        )
        right = ((scores > 0.5) == (dev["label"] == 1))[~np.isnan(scores)]
        record = {
            "kind": settings.kind,
            "dev_accuracy": float(right.mean()),
            "n_dev": len(right),
            "data": known,
            "sizes": {"train": len(train), "dev": len(dev)},
            "seed": settings.seed,
            "model": facts,
            "audit": gender_audit(train),
            "versions": {
                name: version(name)
                for name in (*_PACKAGES, *(_OF_BOW if settings.kind == BOW else ()))
            },
        }
        (making / "training.json").write_bytes(to_json(record, indent=2, inf_nan_mode="null"))
        if private:
            credentialed.mark(making)
    return record


def _train_bow(
    settings: TrainSettings, train: Rows, dev: Rows, folder: Path, bar: Bar
) -> tuple[Scorer, Facts]:
    """TF-IDF of words and logistic regression, fitted in one go; the seed changes nothing."""
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
        raise ValueError(f"The training sentences hold no words ({error}). Check them.") from error
    skops.io.dump(model, folder / formats.SKOPS)
    advance(1)
    return ProbabilityScorer(model, model_id=BOW, options=LoadOptions()), {
        "words": len(model[0].vocabulary_)
    }


def new_bilstm(vectors: StaticVectors, most: int = MOST_WORDS) -> tuple[Any, Any]:
    """A network that is not trained yet, with vectors of the most frequent words in lower case, and its tokenizer."""
    keyed = vectors.keyed
    rows = dict[str, int]()
    for at in vectors.order:
        word = str(keyed.index_to_key[at]).lower()
        rows.setdefault(word, int(keyed.key_to_index.get(word, at)))
        if len(rows) == most:
            break
    known = torch.from_numpy(keyed.vectors[list(rows.values())].astype(np.float32))
    sizes: Any = {"vocab_size": len(rows) + 1, "vector_size": known.shape[1]}
    model = BiLstmForSequenceClassification(BiLstmConfig(**sizes, id2label=dict(enumerate(LABELS))))
    model.embed_tokens.weight[1:] = known
    return model, word_tokenizer(rows)


def _train_network(
    settings: TrainSettings, train: Rows, dev: Rows, folder: Path, bar: Bar
) -> tuple[Scorer, Facts]:
    if settings.kind == BILSTM:
        vectors = StaticVectors.load(settings.vectors or Path())
        model, tokenizer = new_bilstm(vectors)
        known = np.mean(
            [at > 0 for ids in tokenizer(list(train["text"]))["input_ids"] for at in ids]
        )
        if not known:
            raise ValueError(
                f"{vectors.name} knows no training sentence's words. Give vectors of their language."
            )
        used = {"name": vectors.name, **vectors.identity}
        facts: Facts = {
            "vectors": used,
            "words_known": len(tokenizer) - 1,
            "train_words_known": float(known),
        }
    else:
        name = settings.encoder or "bert-base-uncased"
        auto_class = TextClassifierScorer.auto_class
        how = LoadOptions(device=settings.device)
        model, tokenizer, pin = loading.load_model(name, auto_class, how, labels=LABELS)
        if tokenizer.pad_token_id is None:
            raise UsageError(
                "The encoder's tokenizer has no padding token. Give another one with --encoder."
            )
        facts = {"encoder": model_names.model_name(name), **pin}
    with loading.quiet():
        facts |= fit_network(model, tokenizer, settings, train, dev, bar)
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return TextClassifierScorer(model, tokenizer, model_id="", identity={}), facts


class _Advance(transformers.TrainerCallback):
    def __init__(self, advance: Progress) -> None:
        self.advance = advance

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.advance(state.num_train_epochs / state.max_steps)


def fit_network(
    model: Any, tokenizer: Any, settings: TrainSettings, train: Rows, dev: Rows, bar: Bar
) -> Facts:
    """Train by transformers' ``Trainer``, the rate rising over a tenth of the steps; longer sentences are cut.

    A bilstm stops where its loss on dev has not fallen for three epochs, and its best epoch stays; else the last.
    """
    need("A network", "accelerate", extra="train")
    epochs = settings.epochs or EPOCHS[settings.kind]
    rate = settings.rate or RATES[settings.kind]
    stops = settings.kind == BILSTM
    advance = bar(f"Training {settings.kind}", epochs)
    limit = lengths.length_limit(tokenizer, model)
    when = "epoch" if stops else "no"
    cut = sum(
        len(ids) > limit for ids in tokenizer(list(train["text"]), verbose=False)["input_ids"]
    )

    def rows(split: Rows) -> list[dict[str, Any]]:
        ids = tokenizer(list(split["text"]), truncation=True, max_length=limit)["input_ids"]
        return [
            {"input_ids": one, "labels": label}
            for one, label in zip(ids, split["label"].tolist(), strict=True)
        ]

    with tempfile.TemporaryDirectory() as place:
        how = transformers.TrainingArguments(
            output_dir=place,
            num_train_epochs=epochs,
            learning_rate=rate,
            seed=settings.seed,
            warmup_steps=0.1,
            weight_decay=0.01,
            per_device_train_batch_size=settings.batch_size,
            per_device_eval_batch_size=64,
            train_sampling_strategy="group_by_length",
            eval_strategy=when,
            save_strategy=when,
            save_total_limit=1,
            save_only_model=True,
            load_best_model_at_end=stops,
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=devices.pick_device(settings.device).type == "cpu",
        )
        callbacks = [
            _Advance(advance),
            *([transformers.EarlyStoppingCallback(PATIENCE)] if stops else []),
        ]
        pad = transformers.DataCollatorWithPadding(tokenizer)
        trainer = transformers.Trainer(model, how, pad, rows(train), rows(dev), callbacks=callbacks)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    state = trainer.state
    advance((state.max_steps - state.global_step) * epochs / state.max_steps)
    model.eval()
    losses = [one["eval_loss"] for one in state.log_history if "eval_loss" in one]
    steps = {"epochs": epochs, "batch_size": settings.batch_size, "rate": rate, "train_cut": cut}
    return {**steps, "dev_losses": losses} if stops else steps


FITS = {BOW: _train_bow, BILSTM: _train_network, ENCODER: _train_network}
