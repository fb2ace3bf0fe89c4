"""A finished run in the files of others: Every Eval Ever, lm-evaluation-harness, tidy tables."""

import hashlib
import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.errors import UsageError
from swapbias.files import as_csv, as_json
from swapbias.findings import Finding, Oriented, comparisons, experiment_of, findings_table, oriented
from swapbias.models import Say
from swapbias.models.chat import LOG_ODDS
from swapbias.privacy import check_upload, is_credentialed, private_strings, texts_stay, writing
from swapbias.report import text
from swapbias.runs.results import Results, as_public, read_results
from swapbias.runs.run import Run
from swapbias.studies import PROMPT_COLUMNS, load_corpus, unknown

_UNSAFE_LM = re.compile(r'[<>:"/\\|?*\x00-\x1f\[\]]+')  # in names of files


# --- what forms of others share: a run by experiment and model, and plain values --------------------

Files = dict[str, bytes]  # path below the folder -> content


@dataclass(frozen=True, slots=True)
class Part:
    """One experiment of one model: what was found, and its scored rows (none where they stay)."""

    study: str
    experiment: str
    model_id: str
    found: Sequence[Finding]
    rows: pd.DataFrame

    @property
    def scored(self) -> pd.DataFrame:
        """The rows that have a score."""
        return self.rows[self.rows["score"].notna()] if len(self.rows) else self.rows


def parts_of(results: Results) -> Iterator[Part]:
    keys = dict.fromkeys((one.study, one.experiment, one.model_id) for one in results.found)
    for study, experiment, model in keys:
        rows = results.items.get(study, pd.DataFrame())
        if len(rows):
            rows = rows[(rows["experiment"] == experiment) & (rows["model_id"] == model)]
        mine = [
            one for one in results.found if (one.study, one.experiment, one.model_id) == (study, experiment, model)
        ]
        yield Part(study, experiment, model, comparisons(mine, rates=True, views=True), rows)


def json_text(content: Any, *, indent: int | None = None) -> str:
    return json.dumps(as_json(content), indent=indent, ensure_ascii=False, allow_nan=False)


def json_lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json_text(one)}\n" for one in records).encode()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def finished(manifest: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(manifest.get("finished") or manifest["started"]))


def of_model(manifest: Mapping[str, Any], model_id: str) -> Mapping[str, Any]:
    """What pins a model down, as the manifest lists it."""
    models = manifest.get("models", [])
    return next((one for one in models if one["model_id"] == model_id), {})


def corpora_of(manifest: Mapping[str, Any], part: Part) -> list[Mapping[str, Any]]:
    """What the manifest says of the prompts of an experiment."""
    declared = experiment_of(part.found[0]) if part.found else None
    corpus = (declared.corpus if declared else "") or part.study
    configs = {*declared.configs, *declared.alternatives} if declared else set()
    read = [one for one in manifest["corpora"] if one["corpus"] == corpus]
    return [one for one in read if not configs or set(str(one["config"]).split(", ")) <= configs] or read


def version_of(study: str) -> str:
    try:
        return load_corpus(study).version
    except UsageError:  # a study without a corpus of its own
        return ""


def texts(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """The cells that hold something, as texts."""
    cells = {name: as_json(row[name]) for name in names}
    return {name: str(cell) for name, cell in cells.items() if cell is not None and str(cell) != ""}


def answer_of(row: Mapping[str, Any]) -> str:
    return str(as_json(row["answer"]) or "") if "answer" in row else ""


# --- Every Eval Ever: results from 0 to 1 where higher is fairer, and their items -------------------

VERSION = "0.3.0"  # of the schema
_NOT_METADATA = ("text", "answer", "top_tokens", "score", "model_id")  # have places of their own in a record
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]+')
_NO_RIGHT_ANSWER = "is_correct is false where a study knows no right answer: the schema asks for one"


def every_eval_ever(results: Results, by: str) -> Files:
    files: Files = {}
    parts = list(parts_of(results))
    for study, model in dict.fromkeys((one.study, one.model_id) for one in parts):
        mine = [one for one in parts if (one.study, one.model_id) == (study, model)]
        files |= _evaluation(results.manifest, study, model, mine, by)
    if not files:
        raise UsageError(
            "Nothing in this run can be told as a number where higher is fairer, which this form needs. Take csv."
        )
    return files


def _evaluation(manifest: Mapping[str, Any], study: str, model: str, parts: Sequence[Part], by: str) -> Files:
    """The results of a study and a model, and the file of its items; nothing where no number has an orientation."""
    stamp = str(int(finished(manifest).timestamp()))
    made = [_result(manifest, part, one, number) for part in parts for one in part.found if (number := oriented(one))]
    if not made:
        return {}
    collection = f"swapbias_{study}"
    evaluation = f"{collection}/{model}/{stamp}"
    name = uuid.UUID(
        bytes=hashlib.sha256(json_text(manifest).encode() + evaluation.encode()).digest()[:16], version=4
    )
    place = "/".join(("data", *(_component(one) for one in (collection, *_developed(model)))))
    pinned = of_model(manifest, model)
    elsewhere = any(pinned.get(key) for key in ("host", "provider"))
    details = {key: str(pinned[key]) for key in ("revision", "sha256", "dtype", "kind") if pinned.get(key)}
    record: dict[str, Any] = {
        "schema_version": VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": stamp,
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "swapbias",
            "source_type": "evaluation_run",
            "source_organization_name": by or "not stated",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "swapbias", "version": str(manifest["swapbias"])},
        "model_info": {
            "name": model,
            "id": model,
            "developer": _developed(model)[0],
            "additional_details": {
                "deployment_type": "externally_managed" if elsewhere else "self_deployed",
                "model_availability": "unknown",
                **details,
            },
        },
        "evaluation_results": made,
    }
    records = [one for part in parts for one in _records(part, evaluation, made)]
    if not records:
        return {f"{place}/{name}.json": f"{json_text(record, indent=2)}\n".encode()}
    content = json_lines(records)
    lost = sum(len(part.rows) - len(part.scored) for part in parts)
    record["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": f"{place}/{name}_samples.jsonl",
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(content).hexdigest(),
        "total_rows": len(records),
        "additional_details": {"not_scored": str(lost), "note": _NO_RIGHT_ANSWER},
    }
    return {
        f"{place}/{name}.json": f"{json_text(record, indent=2)}\n".encode(),
        f"{place}/{name}_samples.jsonl": content,
    }


def _developed(model: str) -> tuple[str, str]:
    """Who made a model, by its name on the Hub, and its own name; ``local`` for one without."""
    owner, slash, name = model.partition("/")
    return (owner, name.replace("/", "_")) if slash and owner and name else ("local", model.replace("/", "_"))


def _component(name: str) -> str:
    safe = _UNSAFE.sub("_", name).rstrip(". ")
    return safe if safe not in ("", "data") else f"_{safe}"


def _result_id(one: Finding) -> str:
    """What no other finding of a study and a model has."""
    parts = (one.experiment, one.measure, one.contrast, one.subset, one.slice_by, one.slice_value, one.view)
    return "/".join((*parts, "" if one.score == "score" else one.score)).rstrip("/")


def _result(manifest: Mapping[str, Any], part: Part, one: Finding, number: Oriented) -> dict[str, Any]:
    """A finding as a number from 0 to 1; the raw one, its unit and its tests stand in the details."""
    estimate = one.estimate
    raw = {name: getattr(estimate, name) for name in ("value", "ci_low", "ci_high", "p_value", "p_adjusted", "n")}
    told = {
        **{name: repr(value) for name, value in as_json(raw).items() if value is not None},
        "n_unscored": str(estimate.n_unscored),
        **texts(one.row(), ("unit", "cluster_vars", "verdict", "family")),
        "direction": text.direction(one),
        "headline": str(one.headline),
    }
    uncertainty: dict[str, Any] = {"num_samples": int(estimate.n)}
    if not math.isnan(number.low):
        uncertainty["confidence_interval"] = {
            "lower": number.low,
            "upper": number.high,
            "confidence_level": 0.95,
            **({"method": estimate.interval} if estimate.interval else {}),
        }
    names = ("contrast", "subset", "slice_by", "slice_value", "score", "cluster_vars", "view")
    asked = {name: value for name in names if (value := getattr(one, name))}
    made = {
        "evaluation_result_id": _result_id(one),
        "evaluation_name": f"{one.study}/{one.experiment}",
        "source_data": _source(manifest, part),
        "metric_config": {
            "evaluation_description": f"{text.quantity(one)}, {text.where(one)}. Higher is fairer: {number.how}.",
            "metric_id": f"swapbias.{one.measure}",
            "metric_name": one.measure,
            "metric_kind": one.measure,
            "metric_unit": "proportion",
            "metric_parameters": asked,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {"score": number.value, "details": told, "uncertainty": uncertainty},
    }
    chat = manifest["settings"].get("chat")
    declared = experiment_of(one)
    if declared is not None and declared.kind == "chat" and isinstance(chat, Mapping):
        sampled = chat.get("scoring") != LOG_ODDS
        given = {name: chat.get(name) for name in ("temperature", "max_tokens") if sampled}
        made["generation_config"] = {
            "generation_args": {name: value for name, value in given.items() if value is not None},
            "additional_details": {"trials": str(chat.get("trials"))} if sampled else {"scoring": LOG_ODDS},
        }
    return made


def _source(manifest: Mapping[str, Any], part: Part) -> dict[str, Any]:
    read = corpora_of(manifest, part)
    told = {name: "; ".join(str(one.get(name, "")) for one in read) for name in ("config", "rows", "sha256")}
    name = str(read[0]["corpus"]) if read else part.study
    version = version_of(name)
    return {
        "dataset_name": name,
        "source_type": "other",
        "additional_details": {**told, **({"version": version} if version else {})},
    }


def _records(part: Part, evaluation: str, made: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The scored rows of an experiment; the key of its answer, where it has one alone."""
    held = {one["evaluation_result_id"] for one in made}
    answers = [_result_id(one) for one in part.found if one.headline and _result_id(one) in held]
    key = {"evaluation_result_id": answers[0]} if len(answers) == 1 else {}
    names = [name for name in part.rows if name not in _NOT_METADATA]
    for row in part.scored.to_dict("records"):
        answer = answer_of(row)
        extracted = {
            "turn_idx": 0, "source": "output.raw", "extracted_value": answer, "extraction_method": "swapbias",
            "is_terminal": True,
        }  # fmt: skip
        yield {
            "schema_version": VERSION,
            "evaluation_id": evaluation,
            "model_id": part.model_id,
            "evaluation_name": f"{part.study}/{part.experiment}",
            **key,
            "sample_id": "/".join(texts(row, [name for name in ("prompt_id", "trial") if name in row]).values()),
            "sample_hash": sha256(str(row["text"])),
            "interaction_type": "single_turn",
            "input": {"raw": str(row["text"]), "reference": []},
            "output": {"raw": [answer] if answer else []},
            "answer_attribution": [extracted] if answer else [],
            "evaluation": {"score": float(row["score"]), "is_correct": row.get("said_correct") == 1.0},
            "metadata": texts(row, names),
        }


# --- the ways out -----------------------------------------------------------------------------------


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
        raise unknown("form", to, list(EXPORTS))
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
    check_upload(files, never=private_strings(read.manifest))
    with writing(out, credentialed=bool(held) or is_credentialed(run.folder)):
        Run.check_new(out)  # another process may have been first
        for path in sorted(files):
            Run(out).write(path, files[path])
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
    return {name: as_csv(table) for name, table in tables.items()}


# --- lm-evaluation-harness --------------------------------------------------------------------------------


def _lm_eval(results: Results, by: str) -> Files:
    files: Files = {}
    parts = list(parts_of(results))
    manifest = results.manifest
    stamp = finished(manifest).replace(tzinfo=None).isoformat(timespec="microseconds").replace(":", "-")
    for model in dict.fromkeys(one.model_id for one in parts):
        mine = {f"swapbias_{one.study}_{one.experiment}": one for one in parts if one.model_id == model}
        folder = _UNSAFE_LM.sub("__", model)
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
        "model_name_sanitized": _UNSAFE_LM.sub("__", model),
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
