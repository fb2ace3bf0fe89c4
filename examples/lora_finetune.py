"""Fine-tune a text classifier with LoRA, and log its gaps while it trains.

    accelerate launch examples/lora_finetune.py --model distilbert-base-uncased --data train.csv --out adapter

``train.csv`` has the columns ``text`` and ``label`` (1: positive, 0: negative). The gap is read as training begins
and every 100 steps, and goes to whatever the Trainer reports to. Of several processes the first one audits.
"""

import argparse

import pandas as pd
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from swapbias.callback import BiasCallback

LABELS = {0: "negative", 1: "positive"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a Hub id or a folder")
    parser.add_argument("--data", required=True, help="a CSV file with the columns text and label")
    parser.add_argument("--out", required=True, help="the folder of the adapter")
    parser.add_argument("--study", default="occupation_sentiment")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--every", type=int, default=100, help="steps between two audits")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    settings = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(settings.model)
    base = AutoModelForSequenceClassification.from_pretrained(
        settings.model, id2label=LABELS, label2id={name: label for label, name in LABELS.items()}
    )
    model = get_peft_model(base, LoraConfig(task_type="SEQ_CLS", target_modules="all-linear"))
    # In memory: load_dataset would keep a copy of the texts in the cache of datasets.
    rows = Dataset.from_pandas(pd.read_csv(settings.data), preserve_index=False)
    rows = rows.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True)
    arguments = TrainingArguments(
        settings.out,
        max_steps=settings.steps,
        learning_rate=1e-4,
        logging_steps=settings.every,
        save_strategy="no",
        report_to=[],  # or ["wandb"], ["tensorboard"]
        use_cpu=settings.cpu,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=rows.remove_columns("text"),
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
    )
    trainer.add_callback(BiasCallback(trainer, settings.study, every=settings.every))
    trainer.train()
    if trainer.is_world_process_zero():
        model.save_pretrained(settings.out)
        for entry in trainer.state.log_history:
            print_gaps(entry)


def print_gaps(entry: dict) -> None:
    """Print the gaps of one audit, each with its interval."""
    for name, value in entry.items():
        if f"{name}_low" in entry:
            low, high = entry[f"{name}_low"], entry[f"{name}_high"]
            print(f"step {entry['step']}: {name} {value:+.3f} ({low:+.3f} to {high:+.3f})")


if __name__ == "__main__":
    main()
