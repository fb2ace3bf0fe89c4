"""A finished run in the files of others: Every Eval Ever, and tidy tables."""

import hashlib
import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from swapbias.runs.results import Results, as_public, corpora_read, read_results
from swapbias.runs.run import Run
from swapbias.studies import load_corpus, unknown

VERSION = "0.3.0"  # of the schema of Every Eval Ever
Files = dict[str, bytes]  # path below the folder -> content
_NOT_METADATA = ("text", "answer", "top_tokens", "score", "model_id")  # have places of their own in a record
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]+')  # in names of files
_NO_RIGHT_ANSWER = "is_correct is false where a study knows no right answer: the schema asks for one"


def export_run(run: Run, to: str, out: Path, *, by: str = "", say: Say = lambda sentence: None) -> list[Path]:
    """Write a finished run into a new folder, in the form that others read; gives the files in order of their paths.

    The same run gives the same bytes.

    ``every-eval-ever`` gives a file of results and one of items for each study and model, below ``data``, after the
    schema of that name: numbers from 0 to 1 where 1 is no measured difference, the raw ones in their details.
    ``csv`` gives ``findings.csv`` and ``items.csv``, whole.

    Scored prompts stay where their texts do: of credentialed notes, or of notes of the user's own (``texts_stay``).
    What is made of credentialed notes is marked as such. ``by`` is who ran the audit.

    Raises:
        UsageError: another form, a folder that is not empty, a run that is not complete, or a file that would name a
            place of this machine or a key. ValueError: a broken run.
    """
    if to not in EXPORTS:
        raise unknown("form", to, list(EXPORTS))
    Run.check_new(out)
    read = read_results(run)
    of_notes = any(
        (rows["credentialed"].astype(str).str.lower() == "true").any()
        for rows in read.items.values()
        if "credentialed" in rows
    )
    reason = texts_stay(run.folder, {**read.manifest, "credentialed": read.manifest.get("credentialed") or of_notes})
    public = as_public(read)
    if reason:
        say(f"Scored prompts are left out: {reason}.")
        public = Results(public.manifest, public.found, {}, public.coverage)
    files = EXPORTS[to](public, by)
    check_upload(files, never=private_strings(read.manifest))
    with writing(out, credentialed=of_notes or is_credentialed(run.folder)):
        Run.check_new(out)  # another process may have been first
        for path in sorted(files):
            Run(out).write(path, files[path])
    return [out / path for path in sorted(files)]


def _csv(results: Results, by: str) -> Files:
    tables = {"findings.csv": findings_table(results.found)}
    if results.items:
        every = pd.concat([rows.assign(study=study) for study, rows in results.items.items()], ignore_index=True)
        tables["items.csv"] = every[["study", *(name for name in every if name != "study")]]
    return {name: as_csv(table) for name, table in tables.items()}


# --- Every Eval Ever: results from 0 to 1 where higher is fairer, and their items -----------------------


def _every_eval_ever(results: Results, by: str) -> Files:
    files: Files = {}
    for study, model in dict.fromkeys((one.study, one.model_id) for one in results.found):
        rows = results.items.get(study, pd.DataFrame())
        mine = rows[rows["model_id"] == model] if len(rows) else rows
        found = [one for one in results.found if (one.study, one.model_id) == (study, model)]
        files |= _evaluation(results.manifest, found, mine, by)
    if not files:
        raise UsageError(
            "Nothing in this run can be given as a number where higher is fairer, which this form needs. Take csv."
        )
    return files


def _evaluation(manifest: Mapping[str, Any], found: Sequence[Finding], rows: pd.DataFrame, by: str) -> Files:
    """The results of a study and a model, and the file of its items; nothing where no number has an orientation."""
    study, model = found[0].study, found[0].model_id
    finished = datetime.fromisoformat(str(manifest.get("finished") or manifest["started"]))
    stamp = str(int(finished.timestamp()))
    experiments: dict[str, list[Finding]] = {}
    for one in found:
        experiments.setdefault(one.experiment, []).append(one)
    shown = {name: comparisons(mine, rates=True, views=True) for name, mine in experiments.items()}
    made = [_result(manifest, one, number) for mine in shown.values() for one in mine if (number := oriented(one))]
    if not made:
        return {}
    evaluation = f"swapbias_{study}/{model}/{stamp}"
    digest = hashlib.sha256(_json(manifest).encode() + evaluation.encode()).digest()
    owner, slash, own_name = model.partition("/")
    developer, name = (owner, own_name) if slash and owner and own_name else ("local", model)
    folder = "/".join(("data", *map(_component, (f"swapbias_{study}", developer, name.replace("/", "_")))))
    place = f"{folder}/{uuid.UUID(bytes=digest[:16], version=4)}"
    pinned: Mapping[str, Any] = next((one for one in manifest.get("models", []) if one["model_id"] == model), {})
    elsewhere = any(pinned.get(key) for key in ("host", "provider"))
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
            "developer": developer,
            "additional_details": {
                "deployment_type": "externally_managed" if elsewhere else "self_deployed",
                "model_availability": "unknown",
                **{key: str(pinned[key]) for key in ("revision", "sha256", "dtype", "kind") if pinned.get(key)},
            },
        },
        "evaluation_results": made,
    }
    records = [one for mine in shown.values() for one in _records(mine, rows, evaluation, made)]
    files: Files = {}
    if records:
        content = "".join(f"{_json(one)}\n" for one in records).encode()
        files[f"{place}_samples.jsonl"] = content
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{place}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(content).hexdigest(),
            "total_rows": len(records),
            "additional_details": {"not_scored": str(len(rows) - len(records)), "note": _NO_RIGHT_ANSWER},
        }
    return {f"{place}.json": f"{_json(record, indent=2)}\n".encode(), **files}


def _component(name: str) -> str:
    safe = _UNSAFE.sub("_", name).rstrip(". ")
    return safe if safe not in ("", "data") else f"_{safe}"


def _result_id(one: Finding) -> str:
    """What no other finding of a study and a model has."""
    parts = (one.experiment, one.measure, one.contrast, one.subset, one.slice_by, one.slice_value, one.view)
    return "/".join((*parts, "" if one.score == "score" else one.score)).rstrip("/")


def _result(manifest: Mapping[str, Any], one: Finding, number: Oriented) -> dict[str, Any]:
    """A finding as a number from 0 to 1; the raw one, its unit and its tests stand in the details."""
    estimate = one.estimate
    raw = {name: getattr(estimate, name) for name in ("value", "ci_low", "ci_high", "p_value", "p_adjusted", "n")}
    uncertainty: dict[str, Any] = {"num_samples": int(estimate.n)}
    if not math.isnan(number.low):
        uncertainty["confidence_interval"] = {
            "lower": number.low,
            "upper": number.high,
            "confidence_level": 0.95,
            **({"method": estimate.interval} if estimate.interval else {}),
        }
    parameters = ("contrast", "subset", "slice_by", "slice_value", "score", "cluster_vars", "view")
    read = corpora_read(manifest, one)
    corpus = str(read[0]["corpus"]) if read else one.study
    made = {
        "evaluation_result_id": _result_id(one),
        "evaluation_name": f"{one.study}/{one.experiment}",
        "source_data": {
            "dataset_name": corpus,
            "source_type": "other",
            "additional_details": {
                **{name: "; ".join(str(each[name]) for each in read) for name in ("config", "rows", "sha256")},
                **_version_of(corpus),
            },
        },
        "metric_config": {
            "evaluation_description": f"{text.quantity(one)}, {text.where(one)}. Higher is fairer: {number.how}.",
            "metric_id": f"swapbias.{one.measure}",
            "metric_name": one.measure,
            "metric_kind": one.measure,
            "metric_unit": "proportion",
            "metric_parameters": {name: value for name in parameters if (value := getattr(one, name))},
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": number.value,
            "details": {
                **{name: repr(value) for name, value in as_json(raw).items() if value is not None},
                "n_unscored": str(estimate.n_unscored),
                **_texts(one.row(), ("unit", "cluster_vars", "verdict", "family")),
                "direction": text.direction(one),
                "headline": str(one.headline),
            },
            "uncertainty": uncertainty,
        },
    }
    chat = manifest["settings"].get("chat")
    declared = experiment_of(one)
    if declared is not None and declared.kind == "chat" and isinstance(chat, Mapping):
        sampled = chat.get("scoring") != LOG_ODDS
        names = ("temperature", "max_tokens") if sampled else ()
        made["generation_config"] = {
            "generation_args": {name: chat[name] for name in names if chat.get(name) is not None},
            "additional_details": {"trials": str(chat.get("trials"))} if sampled else {"scoring": LOG_ODDS},
        }
    return made


def _version_of(corpus: str) -> dict[str, str]:
    try:
        version = load_corpus(corpus).version
    except UsageError:  # a study without a corpus of its own
        return {}
    return {"version": version} if version else {}


def _records(
    found: Sequence[Finding], rows: pd.DataFrame, evaluation: str, made: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The scored rows of an experiment; the key of its answer, where it has one alone."""
    if not found or not len(rows):
        return
    known = {one["evaluation_result_id"] for one in made}
    answers = [_result_id(one) for one in found if one.headline and _result_id(one) in known]
    key = {"evaluation_result_id": answers[0]} if len(answers) == 1 else {}
    names = [name for name in rows if name not in _NOT_METADATA]
    mine = rows[(rows["experiment"] == found[0].experiment) & rows["score"].notna()]
    for row in mine.to_dict("records"):
        answer = str(as_json(row["answer"]) or "") if "answer" in row else ""
        extracted = {
            "turn_idx": 0, "source": "output.raw", "extracted_value": answer, "extraction_method": "swapbias",
            "is_terminal": True,
        }  # fmt: skip
        yield {
            "schema_version": VERSION,
            "evaluation_id": evaluation,
            "model_id": found[0].model_id,
            "evaluation_name": f"{found[0].study}/{found[0].experiment}",
            **key,
            "sample_id": "/".join(_texts(row, [name for name in ("prompt_id", "trial") if name in row]).values()),
            "sample_hash": hashlib.sha256(str(row["text"]).encode("utf-8", "surrogatepass")).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": str(row["text"]), "reference": []},
            "output": {"raw": [answer] if answer else []},
            "answer_attribution": [extracted] if answer else [],
            "evaluation": {"score": float(row["score"]), "is_correct": row.get("said_correct") == 1.0},
            "metadata": _texts(row, names),
        }


def _json(content: Any, *, indent: int | None = None) -> str:
    return json.dumps(as_json(content), indent=indent, ensure_ascii=False, allow_nan=False)


def _texts(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """The cells that hold something, as texts."""
    cells = {name: as_json(row[name]) for name in names}
    return {name: str(cell) for name, cell in cells.items() if cell is not None and str(cell) != ""}


EXPORTS: Mapping[str, Callable[[Results, str], Files]] = {"every-eval-ever": _every_eval_ever, "csv": _csv}
