"""The end of a run: scored rows become findings with verdicts, notes and files."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from swapbias import findings, studies
from swapbias.errors import UsageError
from swapbias.findings import Finding
from swapbias.models.clinical import NoteOptions, explain_mismatched
from swapbias.notes import Notes
from swapbias.runs import prompt_data
from swapbias.runs.manifest_entries import now
from swapbias.runs.results import EXPLAINED, Items, Results, write_results
from swapbias.runs.run import SCORES, SHA256
from swapbias.runs.score_notes import (
    describe_doubtful_tokenizers,
    describe_other_bases,
    describe_outside,
    describe_repeated,
    describe_same_inputs,
    describe_ungraded,
    describe_unread,
)
from swapbias.runs.scored_task import ScoredTask, as_read
from swapbias.runs.scoring import Scoring
from swapbias.runs.settings import Settings
from swapbias.studies import load_study, paper_models, published as paper_numbers


def conclude(scoring: Scoring, settings: Settings, *, draw: bool = True) -> list[Finding]:
    """Compare the groups, write everything down, and say in the manifest that the run is complete or stopped.

    Args:
        scoring: the scoring of the run, with its scored rows.
        settings: the settings of the audit.
        draw: write the report too.

    Returns:
        The findings, with their verdicts.
    """
    run = scoring.run
    manifest = scoring.manifest
    scored_tasks = list(scoring.tasks.values())
    estimates = _findings(scoring.items, scored_tasks, settings)
    all_findings = findings.with_verdicts(estimates, margin=settings.margin)
    _note_scores(scoring, scored_tasks)
    manifest |= {"status": "stopped" if scoring.stop_error else "complete", "finished": now()}
    explained = _explain_notes(scoring, settings)
    if explained:
        run.write_json(EXPLAINED, explained)
    results = Results(manifest, all_findings, scoring.items, _coverage(scored_tasks))
    write_results(run, results, draw=draw)
    if not scoring.stop_error:
        manifest[SHA256] = run.sums()
        shutil.rmtree(run.folder / SCORES, ignore_errors=True)
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    return all_findings


def _note_scores(scoring: Scoring, scored_tasks: Sequence[ScoredTask]) -> None:
    """Say and write into the manifest what was cut off, not read, scored over and over, or read as one input."""
    items = scoring.items
    repeated = list(describe_repeated(items))
    notes = {
        "truncated": _reader_notes(scored_tasks, "truncated"),
        "unread": [
            *describe_unread(items, scored_tasks),
            *describe_ungraded(items),
            *describe_outside(items),
            *_reader_notes(scored_tasks, "withheld"),
        ],
        "repeats": repeated,
        "same_inputs": list(describe_same_inputs(items)),
        "other_bases": list(describe_other_bases(scoring.manifest["models"])),
        "doubtful_tokenizers": list(describe_doubtful_tokenizers(scoring.manifest["models"])),
    }
    for sentence in chain.from_iterable(notes.values()):
        scoring.say(sentence)
    notes["repeats"] = list(dict.fromkeys([*scoring.manifest.get("repeats", ()), *repeated]))
    for name, sentences in notes.items():
        if sentences:
            scoring.manifest[name] = sentences


def _reader_notes(scored_tasks: Sequence[ScoredTask], name: str) -> list[str]:
    """Return the notes of one name of all readers, each once."""
    notes = [scored_task.reader.notes.get(name) for scored_task in scored_tasks]
    return list(dict.fromkeys(note for note in notes if note))


def _coverage(scored_tasks: Sequence[ScoredTask]) -> pd.DataFrame:
    """Return the listed words of each model and word list, and whether the model knows them."""
    words: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for scored_task in scored_tasks:
        reader = scored_task.reader
        for name in scored_task.task.lexicons:
            if (reader.model_id, name) not in words:
                words[reader.model_id, name] = reader.coverage(studies.load_lexicon(name))
    return pd.DataFrame([row for rows in words.values() for row in rows])


def _findings(
    items: Items, scored_tasks: Sequence[ScoredTask], settings: Settings
) -> list[Finding]:
    """Return the findings of every study and model, in the unit of the scorer."""
    all_findings: list[Finding] = []
    for name, frame in items.items():
        study = load_study(name)
        for model_id, rows in frame.groupby("model_id", sort=False):
            of_model = [
                scored_task
                for scored_task in scored_tasks
                if scored_task.reader.model_id == model_id
            ]
            # VADER and raw scores are no probabilities.
            experiments_read = {
                scored_task.task.experiment.name: as_read(scored_task)
                for scored_task in of_model
                if scored_task.task.study.name == name
            }
            experiments = tuple(
                experiments_read.get(experiment.name, experiment)
                for experiment in study.experiments
            )
            all_findings += findings.disaggregate(
                rows,
                study.changed(experiments=experiments),
                expected=_expected_of(of_model, model_id, settings),
                seed=settings.seed,
                margin=settings.margin,
            )
    return all_findings


def _expected_of(of_model: Sequence[ScoredTask], model_id: str, settings: Settings) -> Any:
    """Return what the findings of a model are compared with; of several splits one number over all."""
    task = of_model[0].task
    if prompt_data.source_of(task.study.name, settings.prompt_data):
        return {}  # the paper's numbers are of its own prompts
    if task.notes is None:
        return of_model[0].reader.expected
    splits = {part.task.split: part.task.notes.rows for part in of_model if part.task.notes}
    rows = chain.from_iterable(splits.values())
    return expected_numbers(task.study.name, replace(task.notes, rows=tuple(rows)), model_id)


def expected_numbers(
    study: str, notes: Notes, model: str
) -> dict[tuple[str, ...], paper_numbers.Published]:
    """Return what to compare findings on notes with.

    Args:
        study: its name.
        notes: notes that were read.
        model: name of the model.

    Returns:
        Of MIMIC-III the paper's numbers, of synthetic notes the planted leak, by what a finding is of.
    """
    if notes.name == "mimic3":
        printed = paper_models.published_for(study, model.partition("+")[0])
        if notes.is_swapped_as_published:
            return printed
        return {key: _of_other_swap(number) for key, number in printed.items()}
    if notes.name != "synthetic":
        return {}
    expected: dict[tuple[str, ...], paper_numbers.Published] = {}
    for phenotype in notes.phenotypes:
        tests = [
            note for note in notes.rows if (note["phenotype"], note["split"]) == (phenotype, "test")
        ]
        # A perfect learner flips on the notes with a leak.
        share = sum(note["planted"] == "leak" for note in tests) / len(tests)
        key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", phenotype)
        expected[key] = paper_numbers.Published(
            value=f"{share:.3f}", source=paper_numbers.PLANTED_LEAK
        )
    return expected


def _of_other_swap(number: paper_numbers.Published) -> paper_numbers.Published:
    """Return a published number with the note that the paper swapped words otherwise than the run."""
    note = "measured on notes that the paper swapped otherwise: one way, by a list of words"
    return replace(number, note="; ".join(filter(None, (number.note, note))))


def _explain_notes(scoring: Scoring, settings: Settings) -> list[dict[str, Any]]:
    """Return the most mismatched notes word by word."""
    most = settings.of(NoteOptions).explain
    explanations: list[dict[str, Any]] = []
    if not most:
        return explanations
    for scored_task in scoring.tasks.values():
        task = scored_task.task
        if not _can_explain(scored_task) or task.split not in ("", str(settings.seed)):
            continue  # of several splits the first is explained
        reader = scored_task.reader
        rows = scoring.items[task.study.name]
        if task.split:
            rows = rows[rows["split"] == task.split]
        is_of_task = (rows["experiment"] == task.experiment.name) & (
            rows["model_id"] == reader.model_id
        )
        compared = rows[is_of_task & rows["group"].isin(task.experiment.compared)]
        try:
            notes = explain_mismatched(compared, reader, most=most, seed=settings.seed)
        except UsageError as error:  # LIME is an extra
            scoring.say(f"No explanation of the most mismatched note: {error}")
            break
        explanations += [{"study": task.study.name, **words} for words in notes]
    return explanations


def _can_explain(scored_task: ScoredTask) -> bool:
    """Return whether notes may be explained: none that are credentialed, nor by chat models.

    A chat model would get a request for each sample.
    """
    task = scored_task.task
    is_open = task.notes is not None and not task.credentialed
    return is_open and "flips" in task.experiment.shows.rates and scored_task.reader.kind != "chat"
