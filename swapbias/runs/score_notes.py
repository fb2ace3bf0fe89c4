"""Sentences on scored rows: what was not read or graded, pairs of one input, and what is scored over and over."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

import pandas as pd

from swapbias import findings
from swapbias.findings import answer_counts, judge_findings, terms
from swapbias.runs.scored_task import ScoredTask
from swapbias.studies import Experiment, load_study

_LONGEST = 80  # characters of an answer in a sentence
_OUTSIDE = "outside"  # probability that no option has
_KEYS = ["experiment", "model_id"]


def describe_unread(
    items: Mapping[str, pd.DataFrame], scored_tasks: Sequence[ScoredTask]
) -> Iterator[str]:
    """Say how many answers were not read, and how to read more, a sentence for each experiment and model.

    Args:
        items: scored rows by study.
        scored_tasks: the scored tasks of the run.
    """
    tasks = [scored_task.task for scored_task in scored_tasks]
    experiments = {(task.study.name, task.experiment.name): task.experiment for task in tasks}
    for study, frame in items.items():
        if "said_other" not in frame:
            continue
        for (name, model_id), rows in frame.groupby(_KEYS, sort=False):
            counts = answer_counts(rows)
            refused = counts["refused"]
            unreadable = counts["unreadable"]
            if refused + unreadable:
                step = _how_to_read(study, experiments[study, name], rows)
                yield (
                    f"{study} {name}: {model_id} refused {refused:,} of {len(rows):,} answers, and {unreadable:,} "
                    f"are unreadable. Next step: {step}"
                )


def _how_to_read(study: str, experiment: Experiment, rows: pd.DataFrame) -> str:
    """Return how more answers of an experiment are read."""
    if experiment.reads.rubric and "judged" not in rows:
        return "let a judge read them with --judge MODEL."
    if experiment.reads.reading == "options":
        return "ask with -M scoring=log-odds, which reads every answer, or with a larger -M max-tokens."
    return f"read them in the column answer of items/{study}.parquet."


def describe_ungraded(items: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Say how many answers have no grade of a judge, and why, a sentence for each experiment, model and judge.

    Args:
        items: scored rows by study.
    """
    for study, frame in items.items():
        if not judge_findings.judges_of_rows(frame):
            continue
        for (name, model_id), rows in frame.groupby(_KEYS, sort=False):
            for judge, counts in judge_findings.count_ungraded(study, str(name), rows).items():
                reasons = [f"{count:,} {reason}" for reason, count in counts.items() if count]
                if reasons:
                    yield (
                        f"{study} {name}: {sum(counts.values()):,} of {len(rows):,} answers of {model_id} have no "
                        f"grade of the judge {judge} ({', '.join(reasons)})."
                    )


def describe_other_bases(models: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say of which adapters the config names another base than the one that they were put on.

    >>> pin = {"base": "lab/new", "adapter": {"name": "lab/lora", "base": "lab/old"}}
    >>> [*describe_other_bases([pin])]
    ['The adapter lab/lora is of lab/old by its config, and was put on lab/new.']

    Args:
        models: the ``models`` of a manifest.
    """
    for pin in models:
        adapter = pin.get("adapter")
        if not isinstance(adapter, Mapping):
            continue
        declared = str(adapter.get("base") or "")
        base = str(pin.get("base") or "")
        # A folder is named after its last part.
        if declared and base not in (declared, declared.rpartition("/")[2]):
            yield f"The adapter {adapter['name']} is of {declared} by its config, and was put on {base}."


def describe_doubtful_tokenizers(models: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say which tokenizers may be those of another model, and why.

    >>> pin = {"model_id": "lab/new", "tokenizer_doubt": "it knows 100 of 110 tokens"}
    >>> [*describe_doubtful_tokenizers([pin])]
    ['The tokenizer of lab/new may be that of another model: it knows 100 of 110 tokens. Check it.']

    Args:
        models: the ``models`` of a manifest.
    """
    for pin in models:
        if doubt := pin.get("tokenizer_doubt"):
            yield f"The tokenizer of {pin['model_id']} may be that of another model: {doubt}. Check it."


def describe_outside(items: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Say where the options of an experiment have less than half of a model's probability, a sentence for each.

    What is compared is then what a model would say of the options, and not what it says.

    Args:
        items: scored rows by study.
    """
    for study, frame in items.items():
        if _OUTSIDE not in frame:
            continue
        for (name, model_id), rows in frame.groupby(_KEYS, sort=False):
            outside = rows[_OUTSIDE].mean()  # without prompts that have no score
            if outside > findings.HALF:
                yield (
                    f"{study} {name}: {model_id} begins with none of the options at {100 * outside:.1f} % of the "
                    "probability, and scores are shares of the rest. Compare with -M scoring=sampled."
                )


def describe_same_inputs(items: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Say how many pairs an experiment lost because a model reads one input for both texts, a sentence for each.

    Args:
        items: scored rows by study.
    """
    for study, frame in items.items():
        if terms.SAME_INPUT not in frame:
            continue
        for (name, model_id), rows in frame.groupby(_KEYS, sort=False):
            pairs = rows.groupby("pair_id", sort=False)[terms.SAME_INPUT].max()
            count = int((pairs == 1).sum())
            if count:
                yield (
                    f"{study} {name}: {model_id} reads the same input for both texts of {count:,} of {len(pairs):,} "
                    "pairs, which are not measured. Its tokenizer does not know the swapped words, or they are cut "
                    "off."
                )


def describe_repeated(items: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Name an answer or score that is more than half of those of an experiment and model, unless they are 0 or 1.

    One that counts 0 or 1 may well be the commonest; one that is not read may be the text of an error.

    Args:
        items: scored rows by study.
    """
    for study, frame in items.items():
        experiments = load_study(study).experiments
        units = {experiment.name: experiment.compares.unit for experiment in experiments}
        for (name, model_id), rows in frame.groupby(_KEYS, sort=False):
            repeats = findings.commonest(rows, units[name])
            if repeats is None or not repeats.share > findings.HALF:
                continue
            start = f"{study} {name}: {repeats.count:,} of {repeats.rows:,}"
            if repeats.is_answer:
                answer = repr(shorten(repeats.content, _LONGEST, placeholder=" ..."))
                yield f"{start} answers of {model_id} are the same: {answer}."
            else:
                yield f"{start} scores of {model_id} are the same: {repeats.content}."
