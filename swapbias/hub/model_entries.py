"""Results of an audit as model-index metadata has them: a result for each experiment, a metric for each finding."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.findings import Finding
from swapbias.hub.header import native
from swapbias.hub.header_places import SOURCE
from swapbias.hub.markdown import url, visible
from swapbias.hub.model_card import PromptsRead, experiment_of, prompts_read
from swapbias.report import words
from swapbias.studies import Experiment, load_study

TASKS = {
    "masked": ("fill-mask", "Fill-Mask"),
    "classifier": ("text-classification", "Text Classification"),
    "causal": ("text-generation", "Text Generation"),
    "chat": ("text-generation", "Text Generation"),
    "embedding": ("feature-extraction", "Feature Extraction"),
}


def entries(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    results_url: str,
    dataset_namespace: str,
    revisions: Mapping[str, str],
) -> list[dict[str, Any]]:
    """The headline findings of a model as a model-index has them: a result for each experiment, a metric for each.

    The value is the raw one, in its unit and with its sign; its interval, unit and direction are arguments of the
    metric. What is not finite is left out, and so is what was measured on notes of the user's own: a model-index
    names public data sets. Where only a part was read, the arguments say so and neither revision nor split is named.

    Args:
        found: findings of one model.
        manifest: the run's, as it is or as it is shared.
        model_name: the model's name on the Hub, for errors.
        results_url: the full results at a commit, the source of each number.
        dataset_namespace: who publishes the corpora on the Hub.
        revisions: the commit or tag of each corpus there, where known.

    Raises:
        ValueError: findings of several models, or an address that is none.
    """
    if len({one.model_id for one in found}) > 1:
        raise ValueError(f"Findings of several models for {visible(model_name)[:80]}, expected one. Choose one.")
    shown = words.published_headlines(found)
    robust = {(one.study, *one.key()): one for one in found if one.robust and one.score == "score"}
    made = []
    for study, name in dict.fromkeys((one.study, one.experiment) for one in shown):
        read = prompts_read(manifest, study, name)
        if read.own:
            continue
        mine = [one for one in shown if (one.study, one.experiment) == (study, name)]
        metrics = [
            _metric(one, robust.get((study, *one.key())), read) for one in mine if math.isfinite(one.estimate.value)
        ]
        if metrics:
            described = _described(study, name, read, dataset_namespace, revisions)
            made.append({**described, "metrics": metrics, "source": {"name": SOURCE, "url": url(results_url)}})
    return [native(one) for one in made]


def _described(
    study: str, name: str, read: PromptsRead, namespace: str, revisions: Mapping[str, str]
) -> dict[str, Any]:
    experiment = experiment_of(study, name)
    kind, title = TASKS[_kind(experiment)]
    dataset = {"type": f"{namespace}/{read.corpus}", "name": f"{load_study(study).title}: {name}"}
    if len(read.configs) == 1:
        dataset["config"] = read.configs[0]
    if read.whole:
        dataset["split"] = "test"
        if read.corpus in revisions:
            dataset["revision"] = revisions[read.corpus]
    return {"task": {"type": kind, "name": title}, "dataset": {key: visible(text) for key, text in dataset.items()}}


def _kind(experiment: Experiment) -> str:
    """The kind of task: a classifier of notes classifies, whatever features it reads."""
    if experiment.reading == "phenotype":
        return "classifier"
    return experiment.kind if experiment.kind in TASKS else "classifier"


def _metric(finding: Finding, robust: Finding | None, read: PromptsRead) -> dict[str, Any]:
    estimate = finding.estimate
    arguments: dict[str, Any] = {
        "study": finding.study,
        "configs": ", ".join(read.configs) if len(read.configs) > 1 else "",
        "limit": read.limit,
        "plausible": read.plausible or None,
        "unit": finding.unit,
        "direction": finding.direction,
        "contrast": finding.contrast,
        "rows": words.where(finding),
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
        "p_value": estimate.p_value,
        "p_adjusted": estimate.p_adjusted,
        "n": estimate.n,
        "n_unscored": estimate.n_unscored,
        "test": estimate.test,
    }
    if robust is not None:
        arguments |= {
            "robust": robust.robust,
            "robust_ci_low": robust.estimate.ci_low,
            "robust_ci_high": robust.estimate.ci_high,
            "robust_p_value": robust.estimate.p_value,
        }
    told = {key: visible(value) if isinstance(value, str) else native(value) for key, value in arguments.items()}
    return {
        "type": visible(finding.measure),
        "value": native(estimate.value),
        "name": visible(f"{words.quantity(finding)} ({words.where(finding)})"),
        "args": {key: value for key, value in told.items() if value is not None and value != ""},
    }
