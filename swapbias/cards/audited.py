"""What an audit says of one model, study by study: texts that are not escaped yet."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swapbias.cards.prompts_read import PromptsRead, experiment_of, prompts_read
from swapbias.finding import Finding
from swapbias.report import words
from swapbias.studies import load_study

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_.]+")
_TRAINED = ("svm", "rf", "mlp")  # classifiers that an audit of notes trains itself


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One headline finding."""

    experiment: str
    what: str
    where: str
    value: str
    interval: str
    p: str
    n: str
    unit: str
    direction: str
    robust: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by its path in the model's repo, and the sentence that says what it shows."""

    path: str
    caption: str


@dataclass(frozen=True, slots=True)
class Audited:
    """What the section says of one study.

    Attributes:
        study, title, address: the study's name, title and address.
        model_id: the model's name on the Hub.
        date, version: when and with which swapbias it was measured.
        rows: the headline findings.
        prompts: what was read in place of the study's own prompts, by experiment; those that read them are not in it.
        own: notes of the user's own were read.
        command: repeats the audit; blank where nobody else can.
        figure: shown below the table, if there is one.
        results_url: the full results, at a commit; blank where they are not shared.
        results_private: not everybody can open them.
        not_run: its other experiments; the manifest of the run says why they were left out.
        limits: sentences.
    """

    study: str
    title: str
    address: str
    model_id: str
    date: str
    version: str
    rows: tuple[AuditRow, ...]
    command: str
    prompts: tuple[tuple[str, str], ...] = ()
    own: bool = False
    figure: Figure | None = None
    results_url: str = ""
    results_private: bool = False
    not_run: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def audited(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    results_url: str = "",
    results_private: bool = False,
    figures: Mapping[str, Figure] | None = None,
) -> list[Audited]:
    """What is said of one model, study by study: the comparisons over all rows, by each study's own statistic.

    Args:
        found: findings of one model.
        manifest: the run's, as it is or as it is shared.
        model_name: its name on the Hub, which need not be the one that it was audited under.
        results_url: the full results, at a commit.
        results_private: whether only some can open them.
        figures: by study; already in the model's repo, or on their way there.

    Raises:
        ValueError: findings of several models, or no comparison among them.
    """
    models = sorted({one.model_id for one in found})
    if len(models) > 1:
        raise ValueError(f"Findings of {len(models)} models ({', '.join(models)[:200]}), expected one. Choose one.")
    robust = {(one.study, *one.key()): one for one in found if one.robust and one.score == "score"}
    shown = words.published_headlines(found)
    if not shown:
        raise ValueError("The run holds no comparison of two groups for this model. Audit it with another --study.")
    made = []
    for study in (load_study(name) for name in dict.fromkeys(one.study for one in shown)):
        mine = [one for one in shown if one.study == study.name]
        read = {name: prompts_read(manifest, study.name, name) for name in dict.fromkeys(o.experiment for o in mine)}
        own = any(one.own for one in read.values())
        made.append(
            Audited(
                study=study.name,
                title=study.title,
                address=study.url,
                model_id=model_name,
                date=str(manifest.get("finished") or manifest.get("started") or "")[:10],
                version=str(manifest["swapbias"]),
                rows=tuple(_row(one, robust.get((one.study, *one.key()))) for one in mine),
                command="" if own else _command(model_name, study.name, read, manifest["settings"]),
                prompts=tuple((name, one.told()) for name, one in read.items() if one.told()),
                own=own,
                figure=(figures or {}).get(study.name),
                results_url=results_url,
                results_private=results_private,
                not_run=tuple(str(o["experiment"]) for o in manifest["skipped"] if o["study"] == study.name),
                limits=study.limits,
            )
        )
    return made


def _row(finding: Finding, robust: Finding | None) -> AuditRow:
    estimate, signed = finding.estimate, words.is_signed(finding)
    beside = ""
    if robust is not None and not math.isnan(robust.estimate.ci_low):
        beside = f"{words.interval(robust.estimate, signed=signed)} ({robust.robust})"
    return AuditRow(
        experiment=finding.experiment,
        what=words.quantity(finding),
        where=words.where(finding),
        value=words.value_of(finding),
        interval=words.interval(estimate, signed=signed),
        p=words.p_value(estimate.p_value if math.isnan(estimate.p_adjusted) else estimate.p_adjusted),
        n=f"{estimate.n} (+{estimate.n_unscored} unscored)" if estimate.n_unscored else str(estimate.n),
        unit=finding.unit,
        direction=words.plain(finding.direction),
        robust=beside or "–",
    )


def _command(model: str, study: str, read: Mapping[str, PromptsRead], settings: Mapping[str, Any]) -> str:
    """Built of parts that mean nothing to a shell or to Markdown; what else was chosen stands in the manifest."""
    name = model if _HUB_NAME.fullmatch(model) else "MODEL"
    other = dict.fromkeys(one.configs[0] for one in read.values() if not one.usual and len(one.configs) == 1)
    asked = [f"{study}:{config}" for config in other] or [study]
    parts = ["swapbias", "audit", *_named(name, study, read, settings)]
    for one in asked:
        parts += ["--study", one]
    for option in ("kind", "limit", "seed"):
        parts += _option(option, settings.get(option) or None)
    if any(one.plausible for one in read.values()):
        parts.append("--plausible")
    return " ".join(parts)


def _named(model: str, study: str, read: Mapping[str, PromptsRead], settings: Mapping[str, Any]) -> list[str]:
    """The model, as the kind of experiment has it named."""
    kinds = {experiment_of(study, name).kind for name in read}
    if "chat" in kinds:
        chat = settings.get("chat") or {}
        return [
            "--chat",
            model,
            *_option("trials", chat.get("trials")),
            *_option("temperature", chat.get("temperature")),
        ]
    if "embedding" in kinds:
        classifier = str((settings.get("notes") or {}).get("classifier"))
        trained = classifier in _TRAINED
        return ["--embedding", model, "--classifier", classifier] if trained else ["--classifier", model]
    return [model]


def _option(name: str, value: Any) -> list[str]:
    return [f"--{name}", str(value)] if value is not None and _PLAIN.fullmatch(str(value)) else []
