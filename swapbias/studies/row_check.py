"""Check a declaration of the package against its corpus: its configs with their columns, and the rows of these."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from swapbias.errors import StudyError, listed, quoted
from swapbias.studies.declared import Fault, Place
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.names import did_you_mean
from swapbias.studies.package_study import read_study_file
from swapbias.studies.prompt import PLACEBO, PLACEBO_COLUMNS, PROMPT_COLUMNS

Columns = Mapping[str, Sequence[str]]  # of configs, by name
Found = tuple[Place, str, str]  # where a name stands, a sentence, and the name
_CONFIGS = ("configs", "alternatives", "rewordings", "baseline")


def check_columns(study: Study, configs: Columns) -> None:
    """Refuse a study of the package that names a config or a column that its corpus does not have.

    Args:
        study: of the corpus of the same name.
        configs: the columns of each config of the corpus.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    faults = [*_config_faults(study, configs)]
    for number, experiment in enumerate(study.experiments):
        if not experiment.reads.notes.corpus and not faults:
            faults += _column_faults(number, experiment, configs)
    _refuse(study.name, faults)


def _refuse(study: str, found: Sequence[Found]) -> None:
    if not found:
        return
    declaration = read_study_file(study)
    faults = [declaration.fault(place, sentence, value) for place, sentence, value in found]
    raise StudyError("\n".join(dict.fromkeys(fault.sentence for fault in sorted(faults, key=_line))))


def _line(fault: Fault) -> int:
    return fault.line


def _config_faults(study: Study, configs: Columns) -> Iterator[Found]:
    """Find configs that are named and that there are not, and prompts that no experiment reads."""
    read: set[str] = set()
    for number, experiment in enumerate(study.experiments):
        if experiment.reads.notes.corpus:
            continue
        for key in _CONFIGS:
            names: Sequence[str] = getattr(experiment.reads, key)
            read.update(names)
            yield from _unknown(("experiments", number, "reads", key), names, [*configs], "config")
    for name, columns in configs.items():
        if tuple(columns[: len(PROMPT_COLUMNS)]) == PROMPT_COLUMNS and name not in read:
            yield (
                (),
                f"no experiment reads the config {quoted(name)} of corpus.toml. Name it in configs or the like.",
                "",
            )


def _unknown(place: Place, names: Iterable[str], known: Sequence[str], what: str) -> Iterator[Found]:
    key = place[-1]
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f" Expected {listed(known[:20])}."
            yield place, f"{key} names the {what} {quoted(name)}, and there is none.{near}", name


def _column_faults(number: int, experiment: Experiment, configs: Columns) -> Iterator[Found]:
    """Find columns that are named and that the configs of an experiment do not have."""
    known = sorted({column for config in experiment.reads.configs for column in configs[config]})
    for section, key, names in columns_named(experiment):
        yield from _unknown(("experiments", number, section, key), names, known, "column")
    placebo = [name for name in experiment.reads.rewordings if not {*PLACEBO_COLUMNS} <= {*configs[name]}]
    if placebo:
        place = ("experiments", number, "reads", "rewordings")
        yield place, f"rewordings names {listed(placebo)}, whose rows are no rewordings. Correct it.", placebo[0]


def columns_named(experiment: Experiment) -> Iterator[tuple[str, str, Sequence[str]]]:
    """List section, key and columns of each field of an experiment that names columns of its rows."""
    yield "compares", "factors", experiment.compares.factors
    yield "compares", "subset", [name for name in (experiment.compares.subset,) if name]
    yield "design", "random", [*experiment.design.random]
    yield "design", "fixed", [*experiment.design.fixed]
    yield "design", "aggregate", experiment.design.aggregate
    yield "shows", "slices", [one.column for one in experiment.shows.slices]


def check_rows(
    study: Study, experiment: Experiment, rows: Sequence[Mapping[str, Any]], *, whole: bool = True
) -> None:
    """Refuse an experiment of the package that names a group or a value that none of its rows has.

    Args:
        study: of the package.
        experiment: one of its experiments.
        rows: all rows of the configs that are audited.
        whole: whether these are its usual configs; others may lack groups that are not compared.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    number = next(place for place, one in enumerate(study.experiments) if one.name == experiment.name)
    _refuse(study.name, [*_value_faults(("experiments", number), experiment, rows, whole=whole)])


def _value_faults(
    place: Place, experiment: Experiment, rows: Sequence[Mapping[str, Any]], *, whole: bool
) -> Iterator[Found]:
    compares = experiment.compares
    groups = _values_of(rows, "group", but=PLACEBO)
    subsets = _values_of(rows, compares.subset) if compares.subset else []
    yield from _unknown((*place, "compares", "groups"), compares.groups, groups, "group")
    yield from _unknown((*place, "compares", "reference"), filter(None, [compares.reference]), groups, "group")
    levels = [level for level in experiment.shows.levels if level != "all" and (whole or did_you_mean(level, groups))]
    yield from _unknown((*place, "shows", "levels"), levels, groups, "group")
    yield from _unknown((*place, "compares", "contrast"), compares.contrast or (), subsets, "value of subset")
    chosen = compares.primary.subset
    if chosen:
        yield from _unknown((*place, "compares", "primary"), [chosen], subsets, "value of subset")
    # A name that is near no other may be of another experiment, which this one is like.
    misspelt = [name for name in experiment.words.named if did_you_mean(name, [*groups, *subsets])]
    yield from _unknown((*place, "words", "named"), misspelt, [*groups, *subsets], "group or value of subset")
    declared = {*experiment.compared, *experiment.shows.levels, *experiment.words.named}
    strange = [group for group in groups if group not in declared]
    if strange:
        sentence = f"rows have the group {quoted(strange[0])}, and neither groups nor levels name it. Add it."
        yield (*place, "compares", "groups"), sentence, strange[0]
    for covariate in experiment.shows.covariates:
        if not {*covariate.values} & {*_values_of(rows, covariate.column)}:
            yield (
                (*place, "from_tables"),
                f"no row has a value of the covariate {quoted(covariate.name)}. Correct its table.",
                "",
            )


def _values_of(rows: Sequence[Mapping[str, Any]], column: str, but: str = "") -> list[str]:
    values = dict.fromkeys(str(row.get(column, "")) for row in rows)
    return [value for value in values if value and value != but]
