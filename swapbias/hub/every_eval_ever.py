"""Findings of a run in the format of Every Eval Ever, a schema that evaluators share: one file a study and model."""

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from swapbias.errors import UsageError
from swapbias.findings import Finding, experiment_of, oriented
from swapbias.hub.benchmark_file import published_split
from swapbias.hub.bundle import bundle_run, reads_installed
from swapbias.hub.cards import visible
from swapbias.hub.eval_results import corpus_of
from swapbias.hub.read_shared import find_run
from swapbias.hub.run_cards import prompts_read
from swapbias.privacy import check_upload, writing
from swapbias.report import finding_names, verdicts
from swapbias.runs import Run, command as run_command
from swapbias.studies import load_corpus

SCHEMA_VERSION = "0.3.0"
"""Version of the schema of the released package every-eval-ever."""
_PUBLISHER = "swapbias"  # of the corpora
_UNKNOWN = "unknown"
_NEUTRAL = (0.0, 0.5, 1.0)  # where a quantity says that there is no difference
Record = dict[str, Any]


class _Public(NamedTuple):
    """A run as it may be shared."""

    findings: Sequence[Finding]
    """With models' public names."""
    manifest: Mapping[str, Any]
    """The public manifest."""
    installed: bool
    """Whether its prompts are those of the installed corpora."""
    never: tuple[str, ...]
    """Strings that no file may hold."""


class Exported(NamedTuple):
    """Files that were written."""

    files: list[Path]
    """A file for each study and model."""
    left_out: int
    """Number of findings without a score from 0 to 1: nothing was measured, or the unit has no known range."""


def export_run(source: "str | PathLike[str]", out: Path) -> Exported:
    """Write the answers of a finished run, and the gaps in them, as files of Every Eval Ever.

    A score is a finding turned so that 1 is no measured difference and higher is fairer (``findings.oriented``). Its
    interval holds the scores of all values in the finding's interval. The finding itself stands in the details.

    Args:
        source: the folder of a run, or OWNER/NAME[/RUN][@REVISION] on the Hub.
        out: a new folder; files lie in it as in the shared repository, below ``data``.

    Returns:
        the files.

    Raises:
        UsageError: no such run, one that may not be shared, or a folder that is not empty.
    """
    Run.check_new(out)
    public = _read_public(source)
    findings = public.findings
    logs: dict[str, Record] = {}
    left_out = 0
    for study, model_id in dict.fromkeys((finding.study, finding.model_id) for finding in findings):
        of_model = [
            finding
            for finding in findings
            if (finding.study, finding.model_id) == (study, model_id)
        ]
        numbers = _numbers(of_model)
        scored = [finding for finding in numbers if oriented(finding) is not None]
        left_out += len(numbers) - len(scored)
        if scored:
            log = _log(study, model_id, scored, public)
            logs[_path(study, log)] = log
    if not logs:
        raise UsageError(
            f"{fspath(source)} contains no comparison with a score from 0 to 1. Audit it with another --study."
        )
    files = {
        path: json.dumps(log, indent=2, allow_nan=False).encode() + b"\n"
        for path, log in logs.items()
    }
    check_upload(files, never=public.never)
    with writing(out, credentialed=False):
        run = Run(out)
        for path, content in files.items():
            run.write(path, content)
    return Exported([out / path for path in logs], left_out)


def _read_public(source: "str | PathLike[str]") -> _Public:
    """Read a run as it may be shared."""
    folder = Path(source).expanduser()
    if folder.exists():
        bundle = bundle_run(Run.open(folder), findings_only=True)
        return _Public(bundle.findings, bundle.card_manifest, bundle.installed, bundle.never)
    results = find_run(source)
    return _Public(results.found, results.manifest, reads_installed(results.manifest), ())


def _numbers(findings: Sequence[Finding]) -> list[Finding]:
    """List the answers of questions, each before the gaps that it compares."""
    numbers: list[Finding] = []
    for answers in verdicts.group_by_question(findings):
        for answer in answers:
            for finding in (answer, *verdicts.gaps_of_sets(answer, findings)):
                if finding not in numbers:
                    numbers.append(finding)
    return numbers


def _log(study: str, model_id: str, findings: Iterable[Finding], public: _Public) -> Record:
    """Return the file of a study and a model."""
    manifest = public.manifest
    when = str(manifest.get("finished") or manifest["started"])
    seconds = str(int(datetime.fromisoformat(when).timestamp()))
    model = _model_info(model_id, manifest)
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{_collection(study)}/{model['id'].replace('/', '_')}/{seconds}",
        "evaluation_timestamp": when,
        "retrieved_timestamp": seconds,
        "source_metadata": {
            "source_name": "swapbias",
            "source_type": "evaluation_run",
            "source_organization_name": _UNKNOWN,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "swapbias", "version": str(manifest["swapbias"])},
        "model_info": model,
        "evaluation_results": [_result(finding, public) for finding in findings],
    }


def _collection(study: str) -> str:
    return f"swapbias_{study}"


def _path(study: str, log: Mapping[str, Any]) -> str:
    """Return the path of a file in the shared repository; the same content has the same."""
    developer, _, name = str(log["model_info"]["id"]).rpartition("/")
    folders = [_collection(study), developer or str(log["model_info"]["developer"]), name]
    names = [re.sub(r"[^\w.+-]+", "_", folder).strip(".") or _UNKNOWN for folder in folders]
    digest = hashlib.sha256(json.dumps(log, sort_keys=True).encode()).digest()
    return f"data/{'/'.join(names)}/{uuid.UUID(bytes=digest[:16], version=4)}.json"


def _model_info(model_id: str, manifest: Mapping[str, Any]) -> Record:
    """Return what is known of a model: where it ran, its commit, the type of its numbers."""
    pins = (pin for pin in manifest.get("models", ()) if pin["model_id"] == model_id)
    pin: Mapping[str, Any] = next(pins, {})
    is_service = bool(pin.get("host") or pin.get("provider"))
    has_weights = bool(pin.get("weights") or pin.get("revision")) and not is_service
    details = {
        "deployment_type": _UNKNOWN,
        "model_availability": "open_weights" if has_weights and "/" in model_id else _UNKNOWN,
    }
    if is_service or has_weights:
        details["deployment_type"] = "externally_managed" if is_service else "self_deployed"
    for name in ("kind", "revision", "dtype", "adapter", "quantization", "provider"):
        if pin.get(name):
            details[name] = str(pin[name])
    name = visible(model_id)
    owner = name.partition("/")[0] if "/" in name else _UNKNOWN
    return {"name": name, "id": name, "developer": owner, "additional_details": details}


def _result(finding: Finding, public: _Public) -> Record:
    """Return a finding as a result."""
    experiment = experiment_of(finding)
    question = visible(experiment.question) if experiment else ""
    _, orientation = oriented(finding) or (0.0, "")
    name = visible(finding_names.row_name(finding))
    result: Record = {
        "evaluation_result_id": "/".join(finding.key()),
        "evaluation_name": f"{finding.study} {finding.experiment}",
        "source_data": _source(finding, public),
        "metric_config": {
            "evaluation_description": f"{question} {name}".strip(),
            "metric_id": f"swapbias.{finding.measure}",
            "metric_name": f"{name}, higher is fairer",
            "metric_kind": finding.measure,
            "metric_unit": "1 for no measured difference",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
            "additional_details": {"orientation": orientation},
        },
        "score_details": _score(finding),
        "generation_config": _generation(finding, public.manifest),
    }
    return result


def _source(finding: Finding, public: _Public) -> Record:
    """Return the prompts of a finding: of which dataset and version, and which of its rows where not all."""
    corpus = load_corpus(corpus_of(finding))
    experiment = experiment_of(finding)
    configs = experiment.reads.configs if experiment else ()
    details = {}
    if public.installed:
        details["corpus_version"] = corpus.version
    if configs:
        details["config"] = ", ".join(configs)
    if experiment and (part := prompts_read(public.manifest, finding.study, finding.experiment)):
        details["prompts"] = part
    source: Record = {"dataset_name": corpus.title, "additional_details": details}
    entries = [entry for entry in public.manifest["corpora"] if entry["corpus"] == corpus.name]
    if any(entry.get("adjectives_sha256") for entry in entries):
        details["prompts"] = "with adjectives of the evaluator"
        return {**source, "source_type": "other"}
    if any("language" in entry for entry in entries):  # data of the evaluator
        return {**source, "source_type": "other"}
    return {
        **source,
        "source_type": "hf_dataset",
        "hf_repo": f"{_PUBLISHER}/{corpus.name}",
        "hf_split": published_split(corpus.config(configs[0])) if configs else "test",
    }


def _score(finding: Finding) -> Record:
    """Return a finding's score with its interval, and the finding as it is in the details."""
    estimate = finding.estimate
    score, _ = oriented(finding) or (math.nan, "")
    details = {
        "value": f"{estimate.value:.6g}",
        "unit": finding.unit,
        "contrast": finding.contrast,
        "not_scored": str(int(estimate.n_unscored)),
    }
    uncertainty: Record = {"num_samples": int(estimate.n)}
    if estimate.ci_low <= estimate.ci_high:
        low, high = _interval_of_scores(finding)
        details["interval"] = f"{estimate.ci_low:.6g} to {estimate.ci_high:.6g}"
        uncertainty["confidence_interval"] = {
            "lower": low,
            "upper": high,
            "confidence_level": 0.95,
            "method": estimate.interval or _UNKNOWN,
        }
    return {"score": float(score), "details": details, "uncertainty": uncertainty}


def _interval_of_scores(finding: Finding) -> tuple[float, float]:
    """Return the least and the largest score of the values in a finding's interval."""
    scale = finding.record.scale_in(finding.scale)
    estimate = finding.estimate
    if scale is None:
        return math.nan, math.nan
    low = float(max(estimate.ci_low, scale.least))
    high = float(min(estimate.ci_high, scale.most))
    inside = [value for value in _NEUTRAL if low < value < high]
    scores = [scale.fair(value) for value in (low, high, estimate.value, *inside)]
    return max(0.0, min(scores)), min(1.0, max(scores))


def _generation(finding: Finding, manifest: Mapping[str, Any]) -> Record:
    """Return how answers were made: the command, and the settings of a chat model."""
    arguments: Record = {"execution_command": run_command.repeat_command(manifest)}
    details = {"seed": str(manifest["settings"].get("seed", 0))}
    pins = (pin for pin in manifest.get("models", ()) if pin["model_id"] == finding.model_id)
    pin: Mapping[str, Any] = next(pins, {})
    for name in ("temperature", "top_p", "max_tokens"):
        if isinstance(pin.get(name), int | float):
            arguments[name] = pin[name]
    if "trials" in pin:
        details["trials"] = str(pin["trials"])
    return {"generation_args": arguments, "additional_details": details}
