"""A finished run in the files of others: Every Eval Ever, lm-evaluation-harness, tidy tables."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.audit.every_eval_ever import every_eval_ever
from swapbias.audit.parts import (
    Files,
    Part,
    answer_of,
    corpora_of,
    finished,
    json_lines,
    json_text,
    of_model,
    parts_of,
    sha256,
    texts,
    version_of,
)
from swapbias.audit.results import Results, as_public, read_results
from swapbias.audit.run import Run
from swapbias.errors import UsageError
from swapbias.files import as_json
from swapbias.findings import Finding, experiment_of, findings_table
from swapbias.privacy import credentialed, gate, private_strings, texts_stay
from swapbias.report import inert
from swapbias.scorers import Say
from swapbias.studies import PROMPT_COLUMNS, meant

_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f\[\]]+')  # in names of files


def export_run(run: Run, to: str, out: Path, *, by: str = "", say: Say = lambda sentence: None) -> list[Path]:
    """Write a finished run into a new folder, in the form that others read; the same run gives the same bytes.

    ``every-eval-ever`` gives a file of results and one of items for each study and model, below ``data``, after the
    schema of that name: numbers from 0 to 1 where 1 is no measured difference, the raw ones in their details.
    ``lm-eval`` gives ``results_*.json`` and ``samples_*.jsonl`` as lm-evaluation-harness writes them, raw numbers
    with standard errors, better in neither direction. ``csv`` gives ``findings.csv`` and ``items.csv``, whole.

    Scored prompts stay where their texts do: of credentialed notes, or of notes of the user's own (``texts_stay``).
    What is made of credentialed notes is marked as such.

    Args:
        run: a complete one.
        to: of ``EXPORTS``.
        out: a new or empty folder.
        by: who ran the audit, where the form asks for it.
        say: told what is left out.

    Returns:
        The files, in the order of their paths.

    Raises:
        UsageError: another form, a folder that is not empty, a run that is not complete, or a file that would name a
            place of this machine or a key. ValueError: a broken run.
    """
    if to not in EXPORTS:
        raise UsageError(f"Unknown form {to!r}: expected one of {', '.join(EXPORTS)}.{meant(to, list(EXPORTS))}")
    Run.check_new(out)
    read = read_results(run)
    held = [rows for rows in read.items.values() if _is_held(rows)]
    marked = {**read.manifest, "credentialed": read.manifest.get("credentialed") or bool(held)}
    reason = texts_stay(run.folder, marked)
    public = as_public(read)
    if reason:
        say(f"Scored prompts are left out: {reason}.")
        public = Results(public.manifest, public.found, {}, public.coverage)
    files = EXPORTS[to](public, by)
    gate.check(files, never=private_strings(read.manifest))
    written = Run(out)
    for path in sorted(files):
        written.write(path, files[path])
    if held or credentialed.is_credentialed(run.folder):
        credentialed.mark(out)
    return [out / path for path in sorted(files)]


def _is_held(rows: pd.DataFrame) -> bool:
    return "credentialed" in rows and bool((rows["credentialed"].astype(str).str.lower() == "true").any())


# --- csv ------------------------------------------------------------------------------------------------


def _csv(results: Results, by: str) -> Files:
    items = [rows.assign(study=study) for study, rows in results.items.items()]
    tables = {"findings.csv": findings_table(results.found)}
    if items:
        every = pd.concat(items, ignore_index=True)
        tables["items.csv"] = every[["study", *(name for name in every if name != "study")]]
    return {name: _table(table) for name, table in tables.items()}


def _table(table: pd.DataFrame) -> bytes:
    """NaN is an empty cell, and no text is one that a spreadsheet would run."""
    safe = table.map(lambda cell: inert(cell) if isinstance(cell, str) else cell)
    text: str = safe.to_csv(index=False, lineterminator="\n")
    return text.encode()


# --- lm-evaluation-harness --------------------------------------------------------------------------------


def _lm_eval(results: Results, by: str) -> Files:
    files: Files = {}
    parts = list(parts_of(results))
    manifest = results.manifest
    stamp = finished(manifest).replace(tzinfo=None).isoformat(timespec="microseconds").replace(":", "-")
    for model in dict.fromkeys(one.model_id for one in parts):
        mine = {f"swapbias_{one.study}_{one.experiment}": one for one in parts if one.model_id == model}
        folder = _UNSAFE.sub("__", model)
        samples = {
            task: [_sample(*one) for one in enumerate(part.rows.to_dict("records"))] for task, part in mine.items()
        }
        content = _harness_results(manifest, model, mine, samples)
        files[f"{folder}/results_{stamp}.json"] = f"{json_text(content, indent=2)}\n".encode()
        for task, made in samples.items():
            if made:
                files[f"{folder}/samples_{task}_{stamp}.jsonl"] = json_lines(made)
    return files


def _harness_results(
    manifest: Mapping[str, Any],
    model: str,
    parts: Mapping[str, Part],
    samples: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """What the harness writes of a run, tasks for experiments; an item without a score has no number."""
    settings, pinned = manifest["settings"], of_model(manifest, model)
    counted = {task: sum(int(one["rows"]) for one in corpora_of(manifest, part)) for task, part in parts.items()}
    measures = {task: sorted({one.measure for one in part.found}) for task, part in parts.items()}
    hashes = {
        task: sha256("".join(one["doc_hash"] + one["prompt_hash"] + one["target_hash"] for one in made))
        for task, made in samples.items()
        if made
    }
    begun = datetime.fromisoformat(str(manifest["started"]))
    return {
        "results": {task: _metrics(task, part, counted[task]) for task, part in parts.items()},
        "group_subtasks": {task: [] for task in parts},
        "configs": {task: _task(task, part, measures[task]) for task, part in parts.items()},
        "versions": {task: version_of(part.study) for task, part in parts.items()},
        "n-shot": dict.fromkeys(parts, 0),
        "higher_is_better": {task: dict.fromkeys(measures[task]) for task in parts},
        "n-samples": {task: {"original": counted[task], "effective": counted[task]} for task in parts},
        "config": {
            "model": pinned.get("kind", ""),
            "model_args": {"pretrained": model},
            "model_dtype": pinned.get("dtype", ""),
            "model_revision": pinned.get("revision") or "",
            "model_sha": pinned.get("sha256") or "",
            "limit": settings.get("limit"),
            "random_seed": settings.get("seed"),
        },
        "date": begun.timestamp(),
        "swapbias_version": manifest["swapbias"],
        "transformers_version": manifest["versions"].get("transformers"),
        "model_source": "swapbias",
        "model_name": model,
        "model_name_sanitized": _UNSAFE.sub("__", model),
        "task_hashes": hashes,
        "total_evaluation_time_seconds": str((finished(manifest) - begun).total_seconds()),
    }


def _metrics(task: str, part: Part, rows: int) -> dict[str, Any]:
    """Numbers by ``measure,filter``; what tells one finding of a measure from another stands as the filter."""
    made: dict[str, Any] = {"name": task, "alias": f"{part.study}: {part.experiment}", "sample_len": rows}
    for one in part.found:
        if not math.isnan(one.estimate.value):
            named = _filter(one)
            error = one.estimate.error
            made[f"{one.measure},{named}"] = float(one.estimate.value)
            made[f"{one.measure}_stderr,{named}"] = "N/A" if math.isnan(error) else float(error)
    return made


def _filter(one: Finding) -> str:
    parts = (one.contrast, one.subset, one.slice_value, one.view, "" if one.score == "score" else one.score)
    return " | ".join(part for part in parts if part).replace(",", ";") or "none"


def _task(task: str, part: Part, measures: Sequence[str]) -> dict[str, Any]:
    told = findings_table(part.found).to_dict("records")
    declared = experiment_of(part.found[0]) if part.found else None
    return {
        "task": task,
        "task_alias": f"{part.study}: {part.experiment}",
        "description": declared.question if declared else "",
        "num_fewshot": 0,
        "metric_list": [{"metric": name} for name in measures],
        "metadata": {"version": version_of(part.study), "findings": told},
    }


def _sample(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    doc = texts(row, [name for name in PROMPT_COLUMNS if name in row])
    answer, score = answer_of(row), as_json(row["score"])
    return {
        "doc_id": number,
        "doc": doc,
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": str(row["text"])}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": [] if score is None else ["score"],
        "doc_hash": sha256(json_text(doc, indent=2)),
        "prompt_hash": sha256(str(row["text"])),
        "target_hash": sha256(""),
        **({} if score is None else {"score": score}),
    }


EXPORTS: Mapping[str, Callable[[Results, str], Files]] = {
    "every-eval-ever": every_eval_ever,
    "lm-eval": _lm_eval,
    "csv": _csv,
}
