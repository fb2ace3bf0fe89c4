"""A run after the schema of Every Eval Ever: results from 0 to 1 where higher is fairer, and their items."""

import hashlib
import math
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from swapbias.audit.results import Results
from swapbias.errors import UsageError
from swapbias.files import as_json
from swapbias.findings import Finding, Oriented, experiment_of, oriented
from swapbias.report import words

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
        **texts(one.row(), ("unit", "direction", "inference", "verdict", "family")),
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
    asked = {name: value for name in ("contrast", "subset", "slice_by", "slice_value", "score", "inference")
             if (value := getattr(one, name))}  # fmt: skip
    made = {
        "evaluation_result_id": _result_id(one),
        "evaluation_name": f"{one.study}/{one.experiment}",
        "source_data": _source(manifest, part),
        "metric_config": {
            "evaluation_description": f"{words.quantity(one)}, {words.where(one)}. Higher is fairer: {number.how}.",
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
        given = {"temperature": chat.get("temperature"), "max_tokens": chat.get("max_tokens")}
        made["generation_config"] = {
            "generation_args": {name: value for name, value in given.items() if value is not None},
            "additional_details": {"trials": str(chat.get("trials"))},
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
