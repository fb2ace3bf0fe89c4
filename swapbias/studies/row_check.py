"""Check a declaration of the package against its corpus: its configs with their columns, and the rows of these."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.studies.declared import RawFault, unknown_names
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.package_study import refuse_declaration
from swapbias.studies.prompt import PLACEBO, PLACEBO_COLUMNS, PROMPT_COLUMNS
from swapbias.studies.toml_lines import KeyPath

Columns = Mapping[str, Sequence[str]]  # of configs, by name
_CONFIGS = ("configs", "alternatives", "rewordings", "baseline")


def check_columns(study: Study, configs: Columns, released: Sequence[str] = ()) -> None:
    """Refuse a study of the package that names a config or a column that its corpus does not have.

    Args:
        study: the study of the corpus of the same name.
        configs: the columns of each config of the corpus.
        released: the models whose outputs the corpus can read.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    of_configs = [*_config_faults(study, configs)]
    faults = [*of_configs]
    for number, experiment in enumerate(study.experiments):
        design = experiment.design
        if design.sd_measured_by == "authors":
            key_path = ("experiments", number, "design", "planned_sd_of")
            faults += unknown_names(key_path, design.planned_sd_of[1:], released, "model")
        if not experiment.reads.notes.corpus and not of_configs:
            of_columns = column_faults(number, experiment, configs)
            faults += of_columns or spread_faults(number, experiment)
    refuse_declaration(study.name, faults)


def _config_faults(study: Study, configs: Columns) -> Iterator[RawFault]:
    """Find configs that are named and that there are not, and prompts that no experiment reads."""
    read: set[str] = set()
    unknown: list[RawFault] = []
    for number, experiment in enumerate(study.experiments):
        if experiment.reads.notes.corpus:
            continue
        for key in _CONFIGS:
            names: Sequence[str] = getattr(experiment.reads, key)
            read.update(names)
            key_path = ("experiments", number, "reads", key)
            unknown += unknown_names(key_path, names, [*configs], "config")
    yield from unknown
    if unknown:
        return
    for number, experiment in enumerate(study.experiments):
        yield from _control_faults(number, experiment, configs)
    for name, columns in configs.items():
        if tuple(columns[: len(PROMPT_COLUMNS)]) == PROMPT_COLUMNS and name not in read:
            sentence = (
                f"no experiment reads the config {quoted(name)} of corpus.toml. "
                "Name it in configs or the like."
            )
            yield (), sentence, ""


def _control_faults(number: int, experiment: Experiment, configs: Columns) -> Iterator[RawFault]:
    """Find configs of positive controls that there are not, and a config without one where others have one."""
    controls = experiment.design.controls
    key_path = ("experiments", number, "design", "controls")
    audited = [*experiment.reads.configs, *experiment.reads.alternatives]
    yield from unknown_names(key_path, [*controls], audited, "config")
    yield from unknown_names(key_path, [*controls.values()], [*configs], "config")
    missing = [config for config in audited if config not in controls]
    if controls and missing:
        sentence = f"controls has none for {listed(missing)}. Add a config of the control for it."
        yield key_path, sentence, ""


def column_faults(number: int, experiment: Experiment, configs: Columns) -> list[RawFault]:
    """Find columns that are named and that the configs of an experiment do not have.

    Args:
        number: the number of the experiment in its study, from 0.
        experiment: an experiment of the package.
        configs: the columns of each config of its corpus.
    """
    columns = sorted({column for config in experiment.reads.configs for column in configs[config]})
    faults: list[RawFault] = []
    for section, key, names in columns_named(experiment):
        faults += unknown_names(("experiments", number, section, key), names, columns, "column")
    strange = [
        name for name in experiment.reads.rewordings if not {*PLACEBO_COLUMNS} <= {*configs[name]}
    ]
    if strange:
        key_path = ("experiments", number, "reads", "rewordings")
        sentence = f"rewordings names {listed(strange)}, whose rows are no rewordings. Correct it."
        faults.append((key_path, sentence, strange[0]))
    return faults


def spread_faults(number: int, experiment: Experiment) -> Iterator[RawFault]:
    """Find spreads of what is no random column of an experiment.

    Args:
        number: the number of the experiment in its study, from 0.
        experiment: an experiment of the package.
    """
    columns = ["", *experiment.design.random]
    key_path = ("experiments", number, "design", "planned_sd")
    yield from unknown_names(key_path, [*experiment.design.planned_sd], columns, "random column")


def columns_named(experiment: Experiment) -> Iterator[tuple[str, str, Sequence[str]]]:
    """List section, key and columns of each field of an experiment that names columns of its rows.

    Args:
        experiment: an experiment of a study.
    """
    yield "compares", "factors", experiment.compares.factors
    yield "compares", "subset", [name for name in (experiment.compares.subset,) if name]
    yield "design", "random", [*experiment.design.random]
    yield "design", "fixed", [*experiment.design.fixed]
    yield "design", "aggregate", experiment.design.aggregate
    yield "shows", "slices", [part.column for part in experiment.shows.slices]
    yield "shows", "categories", [*experiment.shows.categories.values()]


def _comparison_faults(key_path: KeyPath, experiment: Experiment) -> Iterator[RawFault]:
    """Find what is declared and that the measure is not made for."""
    compares = experiment.compares
    comparison = experiment.comparison
    if comparison is None:
        return
    name = compares.measure
    if compares.factors and not comparison.is_mean:
        sentence = (
            f"{name} has no effects of crossed factors, which are effects on means. "
            "Leave factors out."
        )
        yield (*key_path, "factors"), sentence, ""
    if compares.contrast and not comparison.is_paired:
        sentence = (
            f"{name} compares no gaps of two sets of pairs. "
            "Leave contrast out, or name a measure of pairs."
        )
        yield (*key_path, "contrast"), sentence, ""
    if compares.test not in comparison.tests:
        expected = listed(comparison.tests)
        sentence = f"test is {quoted(compares.test)}, expected {expected} with {name}. Correct it."
        yield (*key_path, "test"), sentence, ""


def check_rows(
    study: Study, experiment: Experiment, rows: Sequence[Mapping[str, Any]], *, whole: bool = True
) -> None:
    """Refuse an experiment of the package that names a group or a value that none of its rows has.

    Args:
        study: a study of the package.
        experiment: one of its experiments.
        rows: all rows of the configs that are audited.
        whole: whether these are its usual configs; others may lack groups that are not compared.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    number = [question.name for question in study.experiments].index(experiment.name)
    faults = [
        *_row_faults(number, study, experiment, rows),
        *_value_faults(("experiments", number), experiment, rows, whole=whole),
    ]
    refuse_declaration(study.name, faults)


def missing_sides(experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the groups and parts that an experiment compares and that rows, made of data of the user's, lack.

    Args:
        experiment: the experiment that reads them.
        rows: the rows.
    """
    compares = experiment.compares
    groups = [*compares.groups, compares.reference]
    parts = [*(compares.contrast or ()), compares.primary.subset]
    missing = [*filter(None, groups)]
    values = {*_values_of(rows, "group")}
    if compares.subset:
        missing += filter(None, parts)
        values |= {*_values_of(rows, compares.subset)}
    return [name for name in dict.fromkeys(missing) if name not in values]


def _row_faults(
    number: int, study: Study, experiment: Experiment, rows: Sequence[Mapping[str, Any]]
) -> Iterator[RawFault]:
    """Find what rows say, and the declaration does not."""
    key_path: KeyPath = ("experiments", number)
    names = [question.name for question in study.experiments]
    strange = [name for name in _values_of(rows, "experiment") if name not in names]
    if strange:
        hint = did_you_mean(experiment.name, strange) or f" Expected {listed(strange)}."
        sentence = f"rows are of no experiment {quoted(experiment.name)}.{hint}"
        yield (*key_path, "name"), sentence, experiment.name
    if not experiment.compares.orders and _differ_in_order(rows):
        sentence = "rows of a pair have the same options in another order, and orders is not true. Add orders = true."
        yield (*key_path, "compares"), sentence, ""


def _differ_in_order(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether rows of one pair offer the same options in several orders."""
    first: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        options = row.get("candidates")
        if not options:
            continue
        before = first.setdefault(str(row.get("pair_id")), options)
        if options != before and sorted(map(str, options)) == sorted(map(str, before)):
            return True
    return False


def _value_faults(
    key_path: KeyPath, experiment: Experiment, rows: Sequence[Mapping[str, Any]], *, whole: bool
) -> Iterator[RawFault]:
    """Find groups, values and covariates that are named and that no row has, and groups that nothing names."""
    compares = experiment.compares
    compares_path: KeyPath = (*key_path, "compares")
    yield from _comparison_faults(compares_path, experiment)
    groups = _values_of(rows, "group", but=PLACEBO)
    subsets = _values_of(rows, compares.subset) if compares.subset else []
    references = [compares.reference] if compares.reference else []
    yield from unknown_names((*compares_path, "groups"), compares.groups, groups, "group")
    yield from unknown_names((*compares_path, "reference"), references, groups, "group")
    levels = [
        level
        for level in experiment.shows.levels
        if level != "all" and (whole or did_you_mean(level, groups))
    ]
    yield from unknown_names((*key_path, "shows", "levels"), levels, groups, "group")
    thing = "value of subset"
    yield from unknown_names((*compares_path, "contrast"), compares.contrast or (), subsets, thing)
    if compares.primary.subset:
        chosen = [compares.primary.subset]
        yield from unknown_names((*compares_path, "primary"), chosen, subsets, thing)
    # A name that is near no other may be of another experiment, which this one is like.
    values = [*groups, *subsets]
    misspelt = [name for name in experiment.words.named if did_you_mean(name, values)]
    thing = "group or value of subset"
    yield from unknown_names((*key_path, "words", "named"), misspelt, values, thing)
    declared = {*experiment.compared, *experiment.shows.levels, *experiment.words.named}
    strange = [group for group in groups if group not in declared]
    if strange:
        sentence = f"rows have the group {quoted(strange[0])}, and neither groups nor levels name it. Add it."
        yield (*compares_path, "groups"), sentence, strange[0]
    yield from _covariate_faults(key_path, experiment, rows)


def _covariate_faults(
    key_path: KeyPath, experiment: Experiment, rows: Sequence[Mapping[str, Any]]
) -> Iterator[RawFault]:
    """Find covariates of which no row has a value."""
    for covariate in experiment.shows.covariates:
        if not {*covariate.values} & {*_values_of(rows, covariate.column)}:
            sentence = (
                f"no row has a value of the covariate {quoted(covariate.name)}. Correct its table."
            )
            yield (*key_path, "from_tables"), sentence, ""


def _values_of(rows: Sequence[Mapping[str, Any]], column: str, but: str = "") -> list[str]:
    """List the different values of a column, without blanks and one value."""
    values = dict.fromkeys(str(row.get(column, "")) for row in rows)
    return [value for value in values if value and value != but]
