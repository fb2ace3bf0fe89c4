"""Say what differs between a run and the paper whose numbers stand beside it, computed from the run's manifest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapbias.errors import listed
from swapbias.report.finding_names import join_names, safe_line
from swapbias.report.numbers import format_number
from swapbias.studies import Experiment, load_study, paper, paper_models, published_settings

_SHA_LETTERS = 8


@dataclass(frozen=True, slots=True)
class PaperDifferences:
    """Differences between a run and the paper in one experiment."""

    declared: bool
    """Whether the study declares what its paper read."""
    parts: tuple[str, ...] = ()
    """What differs, a part each; none: nothing does."""

    @property
    def sentence(self) -> str:
        """Tell what differs, and what may therefore be compared."""
        if not self.declared:
            return (
                "Whether this run read what the paper read is not recorded. "
                "Compare directions, not decimals."
            )
        if not self.parts:
            return "The run read what the paper read: decimals can be compared."
        parts = "; ".join(self.parts)
        return f"What differs from the paper: {parts}. Compare directions, not decimals."


def find_differences(
    manifest: Mapping[str, Any], study: str, name: str, models: Sequence[str] = ()
) -> PaperDifferences:
    """Find what differs between a run and the paper in an experiment.

    Args:
        manifest: the manifest of the run.
        study: the name of the study.
        name: the name of the experiment.
        models: names of the run's models in it.
    """
    if manifest.get("released"):  # what the authors read
        return PaperDifferences(declared=True)
    settings = published_settings.published_settings(study).get(name)
    experiments = {experiment.name: experiment for experiment in load_study(study).experiments}
    if settings is None or name not in experiments:
        return PaperDifferences(declared=False)
    entries = [*_entries(manifest, study, experiments[name], settings)]
    if not entries:
        return PaperDifferences(declared=False)
    parts = [
        *_of_sentences(entries, settings),
        *_of_size(manifest, entries),
        *_of_words(entries, settings),
        *_of_threshold(experiments[name], settings),
        *_of_models(study, models),
    ]
    return PaperDifferences(declared=True, parts=tuple(parts))


def differences_of(manifest: Mapping[str, Any], model: paper.PaperRun) -> dict[str, str]:
    """Return by experiment what differs between a run and the paper, where the study declares what its paper read.

    Args:
        manifest: the manifest of the run.
        model: a model of the run, with its findings of one study.
    """
    names = dict.fromkeys((finding.study, finding.experiment) for finding in model.findings)
    differences = {
        name: find_differences(manifest, study, name, [model.model_id]) for study, name in names
    }
    return {name: differs.sentence for name, differs in differences.items() if differs.declared}


def with_differences(
    manifest: Mapping[str, Any], models: Iterable[paper.PaperRun]
) -> list[paper.PaperRun]:
    """Return the models of a run with what differs between it and the paper.

    Args:
        manifest: the manifest of the run.
        models: its models, with their findings of one study.
    """
    return [replace(model, differs=differences_of(manifest, model)) for model in models]


def state_differences(
    declared: paper.DeclaredTable, runs: Sequence[paper.PaperRun]
) -> tuple[str, ...]:
    """State what differs between each run and the paper in the experiments of a table.

    Args:
        declared: the table; without cells it may read every experiment.
        runs: the models of runs.
    """
    names = {name for cell in declared.cells for name in cell.experiment}
    sentences = []
    for run in runs:
        for experiment, sentence in run.differs.items():
            if experiment in names or not names:
                sentences.append(f"{run.title}, {run.label}, {experiment}: {sentence}")
    return tuple(dict.fromkeys(sentences))


def distinct_prompts(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return entries of a manifest for prompts, those that several models read once.

    Args:
        entries: an entry for each model and config.
    """
    names = ("corpus", "config", "sha256")
    by_prompts = {tuple(entry.get(name) for name in names): entry for entry in entries}
    return [*by_prompts.values()]


def _entries(
    manifest: Mapping[str, Any],
    study: str,
    experiment: Experiment,
    settings: published_settings.PublishedSettings,
) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of the manifest for prompts of an experiment."""
    reads = experiment.reads
    configs = {*reads.configs, *reads.alternatives, *settings.configs}
    for entry in manifest.get("corpora", ()):
        is_read = entry.get("experiment") == experiment.name or configs & {*_configs_of(entry)}
        if entry.get("corpus") == study and is_read:
            yield entry


def _configs_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the configs of an entry of a manifest."""
    return [part.strip() for part in str(entry.get("config", "")).split(",")]


def _of_sentences(
    entries: Sequence[Mapping[str, Any]], settings: published_settings.PublishedSettings
) -> Iterator[str]:
    """Yield how the wording differs."""
    configs = list(dict.fromkeys(config for entry in entries for config in _configs_of(entry)))
    if {*configs} & {*settings.configs}:
        return
    wording = f"the paper's own is {listed(settings.configs)}"
    if not settings.configs:
        wording = "the paper's own is not in this package"
    yield f"sentences (this run read {safe_line(listed(configs), 120)}; {wording})"


def _of_size(manifest: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the limit of prompts."""
    limit = manifest.get("settings", {}).get("limit")
    if limit:
        rows = sum(int(entry.get("rows", 0)) for entry in distinct_prompts(entries))
        yield f"number of prompts ({rows:,} of them, for the run has the limit {int(limit):,})"


def _of_words(
    entries: Sequence[Mapping[str, Any]], settings: published_settings.PublishedSettings
) -> Iterator[str]:
    """Yield how the word lists differ, by name and by the sha256 that the run recorded."""
    lexicons: dict[str, str] = {}
    for entry in entries:
        lexicons |= entry.get("lexicons") or {}
    if not settings.words or {*lexicons} == {*settings.words}:
        return
    names = [f"{safe_line(name)} {str(digest)[:_SHA_LETTERS]}" for name, digest in lexicons.items()]
    read = join_names(names) if names else "none"
    of_paper = f"the paper's is {listed(settings.words)}"
    if published_settings.NOT_HERE in settings.words:
        of_paper = "the paper's is not in this package"
    yield f"words (this run counts {read}; {of_paper})"


def _of_threshold(
    experiment: Experiment, settings: published_settings.PublishedSettings
) -> Iterator[str]:
    """Yield how the least probability of a word that counts differs."""
    threshold = experiment.reads.word_threshold
    if settings.threshold is None or settings.threshold == threshold:
        return
    numbers = [format_number(value, digits=3) for value in (threshold, settings.threshold)]
    yield f"threshold of words ({numbers[0]}; the paper's is {numbers[1]})"


def _of_models(study: str, models: Sequence[str]) -> Iterator[str]:
    """Yield the models that are none of the paper's."""
    others = [safe_line(model) for model in models if paper_models.find_model(study, model) is None]
    if others:
        verb = "is no model" if len(others) == 1 else "are no models"
        yield f"model ({join_names(others)} {verb} of the paper)"
