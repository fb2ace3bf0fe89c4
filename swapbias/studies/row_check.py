"""Check a declaration of the package against its corpus: its configs with their columns, and the rows of these."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.studies.declared import Found, Place, unknown_names
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.package_study import refuse_declaration
from swapbias.studies.prompt import PLACEBO, PLACEBO_COLUMNS, PROMPT_COLUMNS

Columns = Mapping[str, Sequence[str]]  # of configs, by name
_CONFIGS = ("configs", "alternatives", "rewordings", "baseline")


def check_columns(study: Study, configs: Columns, released: Sequence[str] = ()) -> None:
    """Refuse a study of the package that names a config or a column that its corpus does not have.

    Args:
        study: of the corpus of the same name.
        configs: the columns of each config of the corpus.
        released: the models whose outputs the corpus can read.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    of_configs = [*_config_faults(study, configs)]
    faults = [*of_configs]
    for number, experiment in enumerate(study.experiments):
        place = ("experiments", number, "design", "planned_sd_of")
        faults += unknown_names(place, experiment.design.planned_sd_of[1:], released, "model")
        if not experiment.reads.notes.corpus and not of_configs:
            faults += column_faults(number, experiment, configs) or spread_faults(
                number, experiment
            )
    refuse_declaration(study.name, faults)


def _config_faults(study: Study, configs: Columns) -> Iterator[Found]:
    """Find configs that are named and that there are not, and prompts that no experiment reads."""
    read: set[str] = set()
    unknown: list[Found] = []
    for number, experiment in enumerate(study.experiments):
        if experiment.reads.notes.corpus:
            continue
        for key in _CONFIGS:
            names: Sequence[str] = getattr(experiment.reads, key)
            read.update(names)
            unknown += unknown_names(
                ("experiments", number, "reads", key), names, [*configs], "config"
            )
    yield from unknown
    for name, columns in configs.items() if not unknown else ():
        if tuple(columns[: len(PROMPT_COLUMNS)]) == PROMPT_COLUMNS and name not in read:
            yield (
                (),
                f"no experiment reads the config {quoted(name)} of corpus.toml. Name it in configs or the like.",
                "",
            )


def column_faults(number: int, experiment: Experiment, configs: Columns) -> list[Found]:
    """Find columns that are named and that the configs of an experiment do not have."""
    known = sorted({column for config in experiment.reads.configs for column in configs[config]})
    faults: list[Found] = []
    for section, key, names in columns_named(experiment):
        faults += unknown_names(("experiments", number, section, key), names, known, "column")
    placebo = [
        name for name in experiment.reads.rewordings if not {*PLACEBO_COLUMNS} <= {*configs[name]}
    ]
    if placebo:
        place = ("experiments", number, "reads", "rewordings")
        sentence = f"rewordings names {listed(placebo)}, whose rows are no rewordings. Correct it."
        faults.append((place, sentence, placebo[0]))
    return faults


def spread_faults(number: int, experiment: Experiment) -> Iterator[Found]:
    """Find spreads of what is no random column of an experiment."""
    columns = ["", *experiment.design.random]
    place = ("experiments", number, "design", "planned_sd")
    yield from unknown_names(place, [*experiment.design.planned_sd], columns, "random column")


def columns_named(experiment: Experiment) -> Iterator[tuple[str, str, Sequence[str]]]:
    """List section, key and columns of each field of an experiment that names columns of its rows."""
    yield "compares", "factors", experiment.compares.factors
    yield "compares", "subset", [name for name in (experiment.compares.subset,) if name]
    yield "design", "random", [*experiment.design.random]
    yield "design", "fixed", [*experiment.design.fixed]
    yield "design", "aggregate", experiment.design.aggregate
    yield "shows", "slices", [one.column for one in experiment.shows.slices]


def _comparison_faults(place: Place, experiment: Experiment) -> Iterator[Found]:
    """Find what is declared and that the measure is not made for."""
    compares = experiment.compares
    comparison = experiment.comparison
    if comparison is None:
        return
    name = compares.measure
    if compares.factors and not comparison.is_mean:
        yield (
            (*place, "factors"),
            f"{name} has no effects of crossed factors, which are effects on means. Leave factors out.",
            "",
        )
    if compares.contrast and not comparison.is_paired:
        yield (
            (*place, "contrast"),
            f"{name} compares no gaps of two sets of pairs. Leave contrast out, or name a measure of pairs.",
            "",
        )
    if compares.test not in comparison.tests:
        expected = listed(comparison.tests)
        yield (
            (*place, "test"),
            f"test is {quoted(compares.test)}, expected {expected} with {name}. Correct it.",
            "",
        )


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
    number = next(
        place for place, one in enumerate(study.experiments) if one.name == experiment.name
    )
    faults = [
        *_row_faults(number, study, experiment, rows),
        *_value_faults(("experiments", number), experiment, rows, whole=whole),
    ]
    refuse_declaration(study.name, faults)


def _row_faults(
    number: int, study: Study, experiment: Experiment, rows: Sequence[Mapping[str, Any]]
) -> Iterator[Found]:
    """Find what rows say, and the declaration does not."""
    place: Place = ("experiments", number)
    names = [one.name for one in study.experiments]
    strange = [name for name in _values_of(rows, "experiment") if name not in names]
    if strange:
        near = did_you_mean(experiment.name, strange) or f" Expected {listed(strange)}."
        yield (
            (*place, "name"),
            f"rows are of no experiment {quoted(experiment.name)}.{near}",
            experiment.name,
        )
    if not experiment.compares.orders and _differ_in_order(rows):
        sentence = "rows of a pair have the same options in another order, and orders is not true. Add orders = true."
        yield (*place, "compares"), sentence, ""


def _differ_in_order(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows of one pair offer the same options in several orders."""
    first: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        options = row.get("candidates") or ()
        before = first.setdefault(str(row.get("pair_id")), options)
        if options != before and sorted(map(str, options)) == sorted(map(str, before)):
            return True
    return False


def _value_faults(
    place: Place, experiment: Experiment, rows: Sequence[Mapping[str, Any]], *, whole: bool
) -> Iterator[Found]:
    compares = experiment.compares
    yield from _comparison_faults((*place, "compares"), experiment)
    groups = _values_of(rows, "group", but=PLACEBO)
    subsets = _values_of(rows, compares.subset) if compares.subset else []
    yield from unknown_names((*place, "compares", "groups"), compares.groups, groups, "group")
    yield from unknown_names(
        (*place, "compares", "reference"), filter(None, [compares.reference]), groups, "group"
    )
    levels = [
        level
        for level in experiment.shows.levels
        if level != "all" and (whole or did_you_mean(level, groups))
    ]
    yield from unknown_names((*place, "shows", "levels"), levels, groups, "group")
    yield from unknown_names(
        (*place, "compares", "contrast"), compares.contrast or (), subsets, "value of subset"
    )
    chosen = compares.primary.subset
    if chosen:
        yield from unknown_names(
            (*place, "compares", "primary"), [chosen], subsets, "value of subset"
        )
    # A name that is near no other may be of another experiment, which this one is like.
    misspelt = [name for name in experiment.words.named if did_you_mean(name, [*groups, *subsets])]
    yield from unknown_names(
        (*place, "words", "named"), misspelt, [*groups, *subsets], "group or value of subset"
    )
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
