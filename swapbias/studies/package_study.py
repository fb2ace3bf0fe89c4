"""Read the study that a corpus of the package declares (``study.toml``), and refuse what its corpus does not have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from string import Formatter
from typing import Any

from swapbias.errors import StudyError, listed, quoted
from swapbias.measures import UNITS
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.declared import Declaration, Fault, Place, parse_declaration, validate
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.names import did_you_mean

STUDY_FILE = "study.toml"
# What a declaration of the package says, for what it leaves out would decide a verdict without a word.
_STATED_OF_STUDY = ("title", "url", "correction", "family", "limits", "experiments")
_STATED = (
    "name",
    "question",
    "kind",
    "reads.configs",
    "reads.reading",
    "compares.measure",
    "compares.test",
    "compares.groups",
    "compares.reference",
    "compares.factors",
    "compares.subset",
    "compares.contrast",
    "compares.unit",
    "compares.margin",
    "design.random",
    "design.aggregate",
    "words.direction",
)
# What an experiment takes from the one that it is like; what it reads and compares it states itself.
TAKEN = ("on_request", "from_tables", "shows", "words")
_PARTS_OF_PRIMARY = ("measure", "subset", "slice")


def declared_study(corpus: str, **of_tables: Any) -> Study:
    """Read the study that ``study.toml`` of a corpus declares.

    Args:
        corpus: its name, which is that of the study.
        of_tables: values of the fields that experiments name in ``from_tables``, as its builder reads them.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    study, faults = _read(corpus)
    if study is not None:
        faults += _measure_faults(read_study_file(corpus), study)
    return with_tables(_sound(study, faults), of_tables)


def study_outline(corpus: str) -> Study:
    """Read the same study without the values that tables give, which takes no builder and no statistics.

    Args:
        corpus: its name.

    Raises:
        StudyError: every fault but those of measures, a line each with file and line.
    """
    return _sound(*_read(corpus))


def _read(corpus: str) -> tuple[Study | None, list[Fault]]:
    declaration = read_study_file(corpus)
    study, faults = validate(declaration, Study, {"name": corpus, **declaration.values})
    return study, [*faults, *package_faults(declaration, study)]


def _sound(study: Study | None, faults: Sequence[Fault]) -> Study:
    """Return a study without faults; StudyError: its faults."""
    if study is None or faults:
        raise StudyError("\n".join(dict.fromkeys(fault.sentence for fault in faults)))
    return study


def read_study_file(corpus: str) -> Declaration:
    """Parse ``study.toml`` of a corpus of the package; StudyError: no valid TOML."""
    path = corpus_dir(corpus) / STUDY_FILE
    try:
        return parse_declaration(f"{corpus}/{STUDY_FILE}", path.read_text(encoding="utf-8"), TAKEN)
    except ValueError as error:
        raise StudyError(str(error)) from None


_SECTION_OF_TABLES = {"aliases": "reads", "rubric": "reads", "covariates": "shows"}


def with_tables(study: Study, of_tables: Mapping[str, Any]) -> Study:
    """Give the experiments of a study what they take from tables, by the name of the field.

    Raises:
        StudyError: an experiment takes what no table gives, or no experiment takes what one does.
    """
    wanted = {name for experiment in study.experiments for name in experiment.from_tables}
    if missing := sorted(wanted - of_tables.keys()):
        raise StudyError(f"{study.name}/{STUDY_FILE}: no table gives {listed(missing)}. Take it out of from_tables.")
    if unused := sorted(of_tables.keys() - wanted):
        raise StudyError(f"{study.name}/{STUDY_FILE}: no experiment takes {listed(unused)}. Add it to from_tables.")
    return study.changed(experiments=tuple(_with_tables(one, of_tables) for one in study.experiments))


def _with_tables(experiment: Experiment, of_tables: Mapping[str, Any]) -> Experiment:
    sections: dict[str, dict[str, Any]] = {}
    for name in experiment.from_tables:
        sections.setdefault(_SECTION_OF_TABLES[name], {})[name] = of_tables[name]
    return experiment.changed(**sections)


def package_faults(declaration: Declaration, study: Study | None) -> list[Fault]:
    """List what a declaration of the package leaves out, and names in it that nothing has.

    Args:
        declaration: as parsed.
        study: made of it; None where a value of it is wrong.
    """
    faults = [*_left_out(declaration)]
    if study is not None:
        names = [experiment.name for experiment in study.experiments]
        faults += _unknown_names(declaration, ("agreement",), study.agreement, names, "experiment")
        for number, experiment in enumerate(study.experiments):
            faults += _experiment_faults(declaration, ("experiments", number), experiment)
    return faults


def _left_out(declaration: Declaration) -> Iterator[Fault]:
    for key in _STATED_OF_STUDY:
        if key not in declaration.values:
            yield declaration.fault((), f"{key} is missing. Add {key} = ....")
    experiments = declaration.values.get("experiments", [])
    for number, values in enumerate(experiments if isinstance(experiments, list) else ()):
        place: Place = ("experiments", number)
        for key in _STATED:
            if _value(values, key.split(".")) is None:
                yield declaration.fault(
                    place, f"experiment {quoted(values.get('name', number + 1))} states no {key}. Add it."
                )
        if _value(values, ["kind"]) == "masked" and _value(values, ["reads", "word_threshold"]) is None:
            yield declaration.fault(
                (*place, "reads"), "reads states no word_threshold: 0.0 where every word counts. Add it."
            )
        primary = _value(values, ["compares", "primary"])
        absent = [part for part in _PARTS_OF_PRIMARY if isinstance(primary, Mapping) and part not in primary]
        if absent:
            yield declaration.fault((*place, "compares", "primary"), f"primary states no {listed(absent)}. Add it.")


def _value(values: Any, keys: Sequence[str]) -> Any:
    return reduce(lambda table, key: table.get(key) if isinstance(table, Mapping) else None, keys, values)


def _unknown_names(
    declaration: Declaration, place: Place, names: Sequence[str], known: Sequence[str], what: str
) -> Iterator[Fault]:
    """Find names of a value that are none of those there are."""
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f" Expected {listed(known)}."
            yield declaration.fault(
                place, f"{place[-1]} names the {what} {quoted(name)}, and there is none.{near}", name
            )


def _experiment_faults(declaration: Declaration, place: Place, experiment: Experiment) -> Iterator[Fault]:
    compares, design = experiment.compares, experiment.design
    section = (*place, "compares")
    stated = _value(_values(declaration, place), ["compares", "unit"])
    if isinstance(stated, str) and stated not in UNITS:
        near = did_you_mean(compares.unit.name, [*UNITS]) or " Add it to the units of measures."
        yield declaration.fault((*section, "unit"), f"unit is {quoted(compares.unit.name)}, and there is none.{near}")
    if compares.contrast and not compares.subset:
        yield declaration.fault(
            (*section, "contrast"), "contrast compares values of a subset, and none is stated. Add subset."
        )
    is_answered = (
        compares.contrast is not None or _value(_values(declaration, place), ["compares", "primary"]) is not None
    )
    if compares.subset and not is_answered:
        yield declaration.fault(
            (*section, "subset"),
            "subset divides the rows, and no contrast or primary says which part answers. Add one.",
        )
    if not compares.measure and not compares.primary.measure and compares.primary.slice == "all":
        yield declaration.fault(
            (*section, "measure"), "measure is blank, and no primary says what answers. Add primary."
        )
    if compares.reference in compares.groups and compares.reference:
        yield declaration.fault(
            (*section, "groups"), f"groups hold the reference {quoted(compares.reference)}. Take it out."
        )
    slices = [one.name for one in experiment.shows.slices]
    if compares.primary.slice not in ("all", *slices):
        near = did_you_mean(compares.primary.slice, slices) or f" Expected all, {listed(slices)}."
        yield declaration.fault(
            (*section, "primary"), f"slice is {quoted(compares.primary.slice)}, and shows has none.{near}"
        )
    yield from _unknown_names(
        declaration, (*place, "design", "planned_sd"), [*design.planned_sd], ["", *design.random], "random column"
    )
    if bool(design.planned_sd) != bool(design.planned_sd_of):
        yield declaration.fault((*place, "design"), "planned_sd and planned_sd_of go together. State both, or none.")
    blank = [column for column, name in design.random.items() if not name]
    if blank:
        yield declaration.fault(
            (*place, "design", "random"), f"random gives {listed(blank)} no plural. Write column = plural."
        )
    yield from _word_faults(declaration, place, experiment)


def _measure_faults(declaration: Declaration, study: Study) -> Iterator[Fault]:
    """Find measures that there are not."""
    from swapbias.measures import MEASURES  # with numpy, which lists of studies do not need

    for number, experiment in enumerate(study.experiments):
        compares = experiment.compares
        for key, measure in (("measure", compares.measure), ("primary", compares.primary.measure)):
            if measure and measure not in MEASURES:
                near = did_you_mean(measure, [*MEASURES]) or " Correct it."
                sentence = f"{key} is {quoted(measure)}, and there is no such measure.{near}"
                yield declaration.fault(("experiments", number, "compares", key), sentence)


def _values(declaration: Declaration, place: Place) -> Any:
    values: Any = declaration.values
    for part in place:
        values = values[part]
    return values


def _word_faults(declaration: Declaration, place: Place, experiment: Experiment) -> Iterator[Fault]:
    says = experiment.words.says
    slots = [name for _, name, *_ in _parsed(says) if name is not None]
    if says and slots and {*slots} != {"more", "less"} and {*slots} != {"more"}:
        wanted = "{more} and {less}"
        yield declaration.fault(
            (*place, "words", "says"), f"says is {quoted(says)}, expected {wanted} in it. Correct it."
        )
    if says and not slots:
        yield declaration.fault(
            (*place, "words", "says"), f"says is {quoted(says)}, expected {{more}} in it. Add it."
        )


def _parsed(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return [*Formatter().parse(text)]
    except ValueError:
        return [(text, "", None, None)]


Check = Callable[[str], Sequence[str]]
