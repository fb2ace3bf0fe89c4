"""Fine-tune a classifier of tokens that says whose each gendered word of a clinical note is.

It reads the notes as ``swapbias swap --resolver FOLDER`` will: after the patient's gender, with a token type of their
own for gendered words. Its labels are those of clinical_swaps: of a held-out author none are used.

    python -m scripts.fit_resolver ENCODER --out FOLDER [--epochs 4] [--without AUTHOR]
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

from swapbias.models import length_limit
from swapbias.swapping import Swapper, gold_notes
from swapbias.swapping.resolvers import CLASSES, MarkedNote, windows

IGNORED = -100  # the label of tokens that are no gendered words
OTHER = CLASSES.index("other")


class Recorder:
    """A resolver that answers nothing, and keeps the notes as resolvers are shown them."""

    name = "recorder"
    sends_text = False

    def __init__(self) -> None:
        self.notes: list[MarkedNote] = []

    def whose(self, notes: Sequence[MarkedNote]) -> list[list[str] | None]:
        self.notes += notes
        return [None] * len(notes)


def labelled(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[MarkedNote, list[int]]]:
    """Yield each note that has gendered words, with the class of each word, an index of ``CLASSES``."""
    recorder = Recorder()
    swapper = Swapper(whose="patient", resolver=recorder)
    for row in rows:
        recorder.notes.clear()
        swapper.run([row["text"]], genders=[row["gender"]])
        spans = [
            (span["start"], span["end"], CLASSES.index(span["whose"]))
            for span in json.loads(row["spans"])
        ]
        for note in recorder.notes:
            yield note, [class_at(start, end, spans) for start, end in note.words]


def class_at(start: int, end: int, spans: Sequence[tuple[int, int, int]]) -> int:
    """Return the class of the first span that overlaps a word, ``OTHER`` where none does."""
    for first, last, word_class in spans:
        if first < end and start < last:
            return word_class
    return OTHER


def examples(rows: Sequence[Mapping[str, Any]], tokenizer: Any, limit: int) -> Dataset:
    """Windows of the notes as inputs of the model, with a label for each token."""
    inputs_with_labels = []
    for note, classes in labelled(rows):
        for inputs, words in windows(tokenizer, note, limit):
            labels = [IGNORED if word is None else classes[word] for word in words]
            inputs_with_labels.append({**inputs, "labels": labels})
    return Dataset.from_list(inputs_with_labels)


def fit(
    encoder: str,
    rows: Sequence[Mapping[str, Any]],
    out: Path,
    *,
    epochs: float = 4,
    learning_rate: float = 5e-5,
) -> None:
    """Train on rows of clinical_swaps and write model and tokenizer into a folder."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    names = dict(enumerate(CLASSES))
    model = AutoModelForTokenClassification.from_pretrained(
        encoder,
        num_labels=len(CLASSES),
        id2label=names,
        label2id={name: at for at, name in names.items()},
    )
    settings = TrainingArguments(
        output_dir=str(out),
        num_train_epochs=epochs,
        per_device_train_batch_size=16,
        learning_rate=learning_rate,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model,
        settings,
        DataCollatorForTokenClassification(tokenizer),
        train_dataset=examples(rows, tokenizer, length_limit(tokenizer, model)),
    )
    trainer.train()
    trainer.save_model(str(out))
    tokenizer.save_pretrained(str(out))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Fine-tune a resolver for swapbias swap --resolver FOLDER."
    )
    parser.add_argument("encoder", help="Hub id or folder of an encoder")
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument(
        "--without", default="", help="number of an author whose notes are left out"
    )
    chosen = parser.parse_args()
    rows = [row for row in gold_notes("development") if row["author"] != chosen.without]
    fit(chosen.encoder, rows, chosen.out, epochs=chosen.epochs)


if __name__ == "__main__":
    main()
