"""Parts of cards about runs: of the model that was audited, and of the repository that holds the results."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swapbias.errors import listed, quoted
from swapbias.findings import Finding
from swapbias.hub.card_parts import size_category, size_rank
from swapbias.hub.cards import (
    CARD,
    LINE_END,
    TAGS,
    find,
    markdown,
    metadata_of,
    note_choices,
    rendered,
    replaced,
    split,
    with_keys,
)
from swapbias.models import model_names
from swapbias.privacy import manifest_redaction as redaction, own_data
from swapbias.report import finding_names, numbers, verdicts
from swapbias.runs import command as run_command, score_notes
from swapbias.studies import Experiment, Study, catalogue, load_corpus, load_study

_MOST_ROWS = 4  # of a study's table
_UNANSWERED = "No comparison over all rows; see its findings and its report for rates and means."


def prompts_read(manifest: Mapping[str, Any], study: str, experiment: str) -> str:
    """Say what an experiment read in place of its study's own prompts.

    Args:
        manifest: the manifest of the run.
        study: name of the study.
        experiment: name of the experiment.

    Returns:
        a few words; blank where it read just these prompts.

    Raises:
        ValueError: the study has no such experiment.
    """
    declared = next(
        (declared for declared in load_study(study).experiments if declared.name == experiment),
        None,
    )
    if declared is None:
        raise ValueError(
            f"{study} has no experiment {quoted(experiment)}. Share the run with the version that made it."
        )
    corpus = declared.reads.notes.corpus or study
    settings = manifest["settings"]
    entries = _entries_read(manifest, corpus, declared)
    configs = tuple(dict.fromkeys(name for names in entries for name in names))
    parts = [int(entry["rows"]) for entry in entries.values() if entry.get("of")]  # of slow ones
    limit = settings.get("limit") or max(parts, default=None)
    texts = [f"at most {limit} rows of each table"] if isinstance(limit, int) else []
    if any("language" in entry for entry in entries.values()):
        languages = {str(entry["language"]) for entry in entries.values()} - {""}
        in_languages = f" in {listed(languages)}" if languages else ""
        texts.append(f"other data{in_languages}: {', '.join(configs)}")
    elif configs not in ((), declared.reads.configs):
        texts.append(f"config {', '.join(configs)} in place of the usual one")
    if load_corpus(corpus).local is not None:
        texts += note_choices(settings.get("notes") or {})
    return "; ".join(texts)


def _entries_read(
    manifest: Mapping[str, Any], corpus: str, experiment: Experiment
) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """Return the manifest's entries of a corpus that hold configs of an experiment, by these configs."""
    can_read = {*experiment.reads.configs, *experiment.reads.alternatives}
    entries = {}
    for entry in manifest.get("corpora", ()):
        configs = tuple(str(entry["config"]).split(", "))
        is_read = entry.get("experiment") == experiment.name or set(configs) <= can_read
        if entry["corpus"] == corpus and is_read:
            entries[configs] = entry
    return entries


# --- the part of a study ----------------------------------------------------------------------------------


def study_parts(
    findings: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    revision: str = "",
    results_url: str = "",
    results_private: bool = False,
) -> dict[str, str]:
    """Write what is said of one model by study: the conclusions, at most four numbers, how to repeat it.

    Args:
        findings: the findings of one model.
        manifest: the manifest of the run.
        model_name: its name on the Hub.
        revision: the commit there whose weights were read.
        results_url: the full results at a commit.
        results_private: whether few may read these.

    Returns:
        Markdown by study.

    Raises:
        ValueError: findings of several models, or none that answers a question.
    """
    models = sorted({finding.model_id for finding in findings})
    if len(models) > 1:
        raise ValueError(
            f"Findings of {len(models)} models ({listed(models)[:200]}), expected one. Choose one."
        )
    questions = verdicts.group_by_question(findings)
    if not questions:
        raise ValueError(
            "The run contains no comparison of two groups for this model. Audit it with another --study."
        )
    audited = models[0]
    command = run_command.repeat_command(
        manifest, page="" if model_name == audited else model_name, revision=revision
    )
    parts = {}
    for name in dict.fromkeys(finding.study for finding, *_ in questions):
        study = catalogue.study_of_run(name, manifest["corpora"])
        answers = [answers for answers in questions if answers[0].study == study.name]
        rows = _answers_and_parts(answers, findings)
        experiments = [answer.experiment for answer, *_ in answers]
        part = rendered(
            "study_part.md.j2",
            study=study,
            limits=study.limits_of_run(experiments, own_notes=own_data(manifest) is not None),
            corpora=manifest["corpora"],
            by=str(manifest["swapbias"]),
            date=_date(manifest),
            model=model_name,
            audited=audited,
            revision=revision,
            read_as=_read_as(manifest, audited),
            read={
                experiment: prompts_read(manifest, study.name, experiment)
                for experiment in experiments
            },
            verdicts=_verdicts(answers, findings),
            rows=[_cells(finding, rows) for finding in rows[:_MOST_ROWS]],
            interval=numbers.interval_heading(rows),
            count=len(rows),
            url=results_url,
            private=results_private,
            skipped=_skipped_experiments(manifest, study),
            command=command,
            meanings=run_command.placeholders_in(command),
        )
        parts[study.name] = re.sub(r"\n{3,}", "\n\n", part)
    return parts


def _verdicts(
    questions: Sequence[Sequence[Finding]], findings: Sequence[Finding]
) -> list[tuple[str, str]]:
    """Return the sentence of each verdict after the name of its experiment."""
    return [
        (answers[0].experiment, str(verdict))
        for answers in questions
        for verdict in verdicts.state_verdicts(answers, findings)
    ]


def _skipped_experiments(manifest: Mapping[str, Any], study: Study) -> list[str]:
    """List the experiments of a study that the run left out whole."""
    names = [
        str(entry["experiment"]) for entry in manifest["skipped"] if entry["study"] == study.name
    ]
    return [name for name in names if not name.startswith(redaction.PARTIAL_EXPERIMENT_PREFIX)]


def _read_as(manifest: Mapping[str, Any], audited: str) -> dict[str, Any]:
    """Say how a model was read where that is not as it is: adapter, its base, quantization, type of numbers."""
    pins = (pin for pin in manifest.get("models", ()) if pin["model_id"] == audited)
    pin: Mapping[str, Any] = next(pins, {})
    adapter = pin.get("adapter") or {}
    dtype = pin.get("dtype")
    label = (manifest["settings"].get("load") or {}).get("positive_label")
    return {
        "quantization": pin.get("quantization"),
        "subfolder": pin.get("subfolder"),
        "adapter": adapter.get("name"),
        "base": pin.get("base") or audited,
        "other_base": " ".join(score_notes.describe_other_bases([pin])),
        "doubtful_tokenizer": " ".join(score_notes.describe_doubtful_tokenizers([pin])),
        "dtype": "" if dtype == "float32" else dtype,
        "positive_label": ", ".join(label) if isinstance(label, list | tuple) else label,
    }


def _date(manifest: Mapping[str, Any]) -> str:
    """Return the day on which a run ended, else began."""
    return str(manifest.get("finished") or manifest.get("started") or "")[:10]


def _answers_and_parts(
    questions: Sequence[Sequence[Finding]], findings: Sequence[Finding]
) -> list[Finding]:
    """List the answers of experiments, each before the gaps that it compares."""
    rows = []
    for answers in questions:
        for answer in answers:
            rows += [answer, *verdicts.gaps_of_sets(answer, findings)]
    return rows


def _cells(finding: Finding, others: Sequence[Finding]) -> list[str]:
    """Return a row of a card's table; ``others`` are the findings of all rows."""
    estimate = finding.estimate
    count = str(estimate.n)
    if estimate.n_unscored:
        count = f"{estimate.n} (+{estimate.n_unscored} unscored)"
    margin = "–" if math.isnan(finding.margin) else numbers.format_margin(finding)
    cells = (
        finding.experiment,
        finding_names.row_name(finding),
        numbers.format_value(finding),
        numbers.interval_cell(finding, others),
        margin,
        count,
    )
    return [markdown(cell) for cell in cells]


# --- sections between markers -----------------------------------------------------------------------------

BEGIN = "<!-- swapbias:begin -->"
END = "<!-- swapbias:end -->"
RESULTS_BEGIN = "<!-- swapbias:begin results -->"
RESULTS_END = "<!-- swapbias:end results -->"
FINDINGS = "findings"  # the config of every run's findings
_PART = re.compile(
    r"^<!-- swapbias:begin (?P<key>[a-z0-9._-]+) -->[ \t]*\n.*?^<!-- swapbias:end (?P=key) -->[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_LONE = re.compile(r"^<!-- swapbias:(?:begin|end) [a-z0-9._-]+ -->[ \t]*$", re.MULTILINE)


def with_parts(readme: str, parts: Mapping[str, str], *, file: str = CARD) -> str:
    """Put parts into the section of a README on bias; the section goes to the end where there is none.

    Parts of other studies and everything outside the section stay, byte for byte.

    Args:
        readme: the whole README.
        parts: Markdown by study, as ``study_parts`` writes it.
        file: the README's file, as errors name it.

    Returns:
        the README with these parts.

    Raises:
        ValueError: markers that make no pair, or a code block that is never closed.
    """
    all_parts = section_parts(readme, file)
    all_parts |= {key: _marked(key, text) for key, text in parts.items()}
    texts = [all_parts[key] for key in sorted(all_parts)]
    section = "\n\n".join([BEGIN, "## Bias audit", rendered("reading.md"), *texts, END])
    return replaced(readme, section, begin=BEGIN, end=END, file=file)


def _marked(key: str, text: str) -> str:
    return f"<!-- swapbias:begin {key} -->\n\n{text}\n\n<!-- swapbias:end {key} -->"


def section_parts(readme: str, file: str, *, begin: str = BEGIN, end: str = END) -> dict[str, str]:
    """Read the parts of a README's section.

    Args:
        readme: the whole README.
        file: its file, as errors name it.
        begin: the section's first marker.
        end: its last marker.

    Returns:
        the parts by key, with plain line ends.

    Raises:
        ValueError: a marker without its other one.
    """
    span = find(readme, begin=begin, end=end, file=file)
    text = ""
    if span:
        text = LINE_END.sub("\n", readme[span[0] + len(begin) : span[1] - len(end)])
    if lone := _LONE.search(_PART.sub("", text)):
        raise ValueError(
            f"{file}: in the section on bias, {lone[0].strip()} lacks the other marker of its study. Put "
            "that back, or remove this one with the text it marks."
        )
    return {match["key"]: match[0].rstrip() for match in _PART.finditer(text)}


# --- the card of a results repository ---------------------------------------------------------------------


def results_card(
    repo: str,
    name: str,
    findings: Sequence[Finding],
    manifest: Mapping[str, Any],
    paths: Iterable[str],
    existing: str = "",
    *,
    licences: Sequence[str] = (),
    rows: int = 0,
) -> str:
    """Write the README of a results repository with the part of a run; other parts and what its owner wrote stay.

    Args:
        repo: name of the repository, OWNER/NAME.
        name: the name of the run.
        findings: the findings of the run, with models' public names.
        manifest: the manifest of the run.
        paths: the files that the repository will hold.
        existing: the README that is there.
        licences: the licences of the run's scored prompts.
        rows: number of rows of the run's tables.

    Returns:
        the whole README.

    Raises:
        ValueError: an existing README that cannot be added to.
    """
    file = f"{repo}/{CARD}"
    paths = set(paths)
    configs = _results_configs(paths)
    runs_there = {path.split("/")[1] for path in paths if path.startswith("runs/")}
    before = section_parts(existing, file, begin=RESULTS_BEGIN, end=RESULTS_END)
    parts = {key: text for key, text in before.items() if key in runs_there}
    parts[name] = _run_part(name, findings, manifest)
    intro = rendered(
        "results_card.md.j2",
        repo=repo,
        load=zip(("findings", "prompts"), configs, strict=False),
        reading=rendered("reading.md"),
    )
    texts = [parts[key] for key in sorted(parts)]
    section = "\n\n".join([RESULTS_BEGIN, intro, *texts, RESULTS_END])
    card = replaced(existing, section, begin=RESULTS_BEGIN, end=RESULTS_END, file=file)
    header = split(card)
    metadata = metadata_of(card, file)
    card = with_keys(card, _results_metadata(metadata, repo, configs, licences, rows), file=file)
    return card if header.before else card.replace("---\n<!--", "---\n\n<!--", 1)


def _results_configs(paths: Iterable[str]) -> dict[str, str]:
    """Return the configs of a results repository: the findings of all runs, and the prompts of each run and study."""
    matches = (re.fullmatch(r"runs/([^/]+)/items/(\w+)\.parquet", path) for path in paths)
    items = sorted(match.groups() for match in matches if match)
    configs = {FINDINGS: "runs/*/findings.parquet"}
    for run, study in items:
        configs[f"{run}-{study}"] = f"runs/{run}/items/{study}.parquet"
    return configs


def _results_metadata(
    metadata: Mapping[str, Any],
    repo: str,
    configs: Mapping[str, str],
    licences: Sequence[str],
    rows: int,
) -> dict[str, Any]:
    """Return the keys of the header of a results repository, made of what its owner wrote there."""
    # Ours are made anew.
    others = [config for config in metadata.get("configs") or () if "'runs/" not in str(config)]
    sizes = [size_category(rows)]
    if metadata.get("size_categories"):
        sizes.insert(0, metadata["size_categories"])
    ours = configs_yaml({name: {"train": path} for name, path in configs.items()})
    return {
        "pretty_name": metadata.get("pretty_name") or f"Bias audits in {repo}",
        "license": _joined(metadata.get("license"), licences) or "other",
        "size_categories": max(sizes, key=size_rank),
        "tags": _joined(metadata.get("tags"), TAGS),
        "configs": [*ours, *others],
    }


def _joined(listed_there: Any, ours: Sequence[str]) -> Any:
    """Add ours to what an owner's header lists; it stays as it is where nothing is added."""
    values = listed_there
    if not isinstance(values, list):
        values = [values] if values else []
    added = [value for value in ours if value not in values]
    return [*values, *added] if added else listed_there


def configs_yaml(paths: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the ``configs`` of a header, the first as the default.

    Args:
        paths: the path of each split, by config.

    Returns:
        an entry of the header for each config.
    """
    entries: list[dict[str, Any]] = []
    for name, splits in paths.items():
        entry: dict[str, Any] = {"config_name": name}
        if not entries:
            entry["default"] = True
        entry["data_files"] = [{"split": split, "path": path} for split, path in splits.items()]
        entries.append(entry)
    return entries


def _run_part(name: str, findings: Sequence[Finding], manifest: Mapping[str, Any]) -> str:
    """Write what is said of a run: its models, and the conclusions about each."""
    models = sorted({finding.model_id for finding in findings})
    texts = [
        f"## {name}",
        f"{markdown(', '.join(models))}, {markdown(_date(manifest))}, {len(findings)} findings.",
    ]
    for model in models:
        of_model = [finding for finding in findings if finding.model_id == model]
        if any(finding.primary for finding in of_model):
            commit = model_names.commit_of(model, manifest.get("models", ()))
            texts += study_parts(of_model, manifest, model_name=model, revision=commit).values()
        else:
            texts.append(_UNANSWERED)
    return _marked(name, "\n\n".join(texts))
