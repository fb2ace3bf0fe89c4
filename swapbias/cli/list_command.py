"""swapbias list: what can be measured on each kind of model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from swapbias import models, studies
from swapbias.cli import terminal as ui
from swapbias.cli.completion import complete_listed
from swapbias.cli.data import say_of_corpus
from swapbias.cli.entries import show_entry
from swapbias.errors import UsageError, did_you_mean, quoted
from swapbias.measures import comparisons
from swapbias.models import Kind, auto
from swapbias.studies import Experiment, Study, catalogue, corpus_file, corpus_folders

_NAMES = 34  # columns of the names of experiments and configs
_STUDIES = 22  # columns of the names of studies
_SIDE_BY_SIDE = 70  # columns of a terminal that has room for questions beside them
_MOST_NAMED = 4  # experiments of a study for one kind of model that are named; of more the number


def list_(
    name: Annotated[
        str,
        ui.argument(
            "NAME",
            "A study or a kind of model: all its experiments.",
            autocompletion=complete_listed,
        ),
    ] = "",
    with_corpora: Annotated[bool, ui.option("Corpora and their configs.", "--corpora")] = False,
    with_measures: Annotated[bool, ui.option("Measures (evaluate modules).", "--measures")] = False,
) -> None:
    """List what can be measured on each kind of model.

    swapbias list bbq

    swapbias list chat
    """
    if name:
        if with_corpora or with_measures:
            raise UsageError(f"--corpora and --measures list all. Drop {name}.")
        _show_whole(name)
        return
    if with_measures:
        ui.show_text(f"Measures (evaluate modules): {', '.join(catalogue.metrics())}")
    if with_corpora:
        _show_corpora()
    if not with_corpora and not with_measures:
        _show_all()


def _show_all() -> None:
    """Show the studies under the kinds of models that they read, and which extensions cannot be loaded."""
    ui.show_text("Name a study to run it: swapbias audit MODEL --study STUDY[:EXPERIMENT]")
    ui.show_text(
        "All questions of a study or a kind of model: swapbias list STUDY, swapbias list chat"
    )
    outlines = [*_outlines()]
    for kind in models.kinds():
        of_all = (experiment.kind for study in outlines for experiment in study.experiments)
        before = "\n" if kind.name in of_all else ""  # else it reads the studies of the kind above
        ui.show_text(f"{before}{_title(kind)}")
        for study in outlines:
            _show_study(study, [*_questions(study, kind.name)])
    for sentence in (
        *auto.KINDS.faults(),
        *comparisons.COMPARISONS.faults(),
        *corpus_folders.CORPORA.clashes(),
    ):
        ui.say(sentence)


def _title(kind: Kind) -> str:
    return kind.title or kind.name


def _questions(study: Study, kind: str) -> Iterator[Experiment]:
    """Yield the experiments of a study that a kind of model reads, without positive controls.

    Controls run with their questions.
    """
    controls = [study.control_of(experiment) for experiment in study.experiments]
    for experiment in study.experiments:
        is_question = experiment.reads.configs and experiment not in controls
        if experiment.kind == kind and is_question:
            yield experiment


def _show_study(study: Study, experiments: Sequence[Experiment]) -> None:
    """Show experiments of a study in one line: the question of one, or the study's title, and their names."""
    if not experiments:
        return
    names = ", ".join(experiment.name for experiment in experiments)
    if len(experiments) > _MOST_NAMED:
        names = f"{len(experiments)} experiments"
    question = experiments[0].question if len(experiments) == 1 else study.title
    _show_line(study.name, f"{question} ({names})", columns=_STUDIES)


def _show_experiment(study: Study, experiment: Experiment) -> None:
    _show_line(f"{study.name}:{experiment.name}", experiment.question)


def _show_whole(name: str) -> None:
    """Show every experiment of a study, or all that a kind of model reads, each with its question."""
    kinds = models.kinds()
    if name in studies.studies():
        study = catalogue.outline(name)
        ui.show_text(study.title)
        for kind in kinds:
            if any(experiment.kind == kind.name for experiment in study.experiments):
                ui.show_text(f"\n{_title(kind)}")
                _show_experiments([study], kind.name)
        return
    for kind in kinds:
        if kind.name == name:
            ui.show_text(_title(kind))
            _show_experiments(_outlines(), name)
            return
    names = [*studies.studies(), *(kind.name for kind in kinds)]
    near = did_you_mean(name, names) or " See swapbias list."
    raise UsageError(f"No study and no kind of model is called {quoted(name)}.{near}")


def _show_experiments(outlines: Iterable[Study], kind: str) -> None:
    """Show all experiments that a kind of model reads, each with its question."""
    for study in outlines:
        for experiment in study.experiments:
            if experiment.kind == kind:
                _show_experiment(study, experiment)


def _show_corpora() -> None:
    """Show each corpus with its configs."""
    for name in studies.corpora():
        try:
            configs = corpus_file.corpus_declaration(name).configs
        except ValueError as error:
            say_of_corpus(name, error)
            continue
        ui.show(f"\nCorpus {name}")
        for config in configs:
            _show_line(config.name, config.description)
    for sentence in corpus_folders.CORPORA.clashes():
        ui.say(sentence)


def _outlines() -> Iterator[Study]:
    """Yield the studies as their files state them; a sentence is shown of those that cannot be read."""
    for name in studies.studies():
        try:
            yield catalogue.outline(name)
        except ValueError as error:
            say_of_corpus(name, error)


def _show_line(name: str, description: str, columns: int = _NAMES) -> None:
    """Show a name and what it is, wrapped beside the names on a terminal, and else as one line."""
    indent = columns + 3 if ui.out.width >= _SIDE_BY_SIDE else 6
    show_entry(f"  {name:<{columns}} {description}", indent=indent)
