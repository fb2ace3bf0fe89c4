"""Check what a study of the package declares: that it states all that decides a verdict, and agrees with itself."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from string import Formatter
from typing import Any

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.measures import UNITS
from swapbias.studies.declared import Found, Place, unknown_names
from swapbias.studies.experiment import Experiment, Study

# What would decide a verdict without a word, were it left out.
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
_STATED_OF_MASKED = ("reads.word_threshold",)
_STATED_OF_PRIMARY = (
    "compares.primary.measure",
    "compares.primary.subset",
    "compares.primary.slice",
)


def left_out(values: Mapping[str, Any]) -> Iterator[Found]:
    """Find what a declaration does not state.

    Args:
        values: of study.toml as parsed, with those that experiments take from others.
    """
    for key in _STATED_OF_STUDY:
        if key not in values:
            yield (), f"{key} is missing. Add {key} = ....", ""
    experiments = values.get("experiments", [])
    for number, experiment in enumerate(experiments if isinstance(experiments, list) else ()):
        name = quoted(_value(experiment, "name") or number + 1)
        for key in _needed(experiment):
            if _value(experiment, key) is None:
                yield ("experiments", number), f"experiment {name} states no {key}. Add it.", ""


def _needed(experiment: Any) -> Sequence[str]:
    """The keys that an experiment must state, by its kind and whether it names what answers."""
    masked = _STATED_OF_MASKED if _value(experiment, "kind") == "masked" else ()
    primary = _STATED_OF_PRIMARY if _value(experiment, "compares.primary") is not None else ()
    return (*_STATED, *masked, *primary)


def _value(values: Any, key: str) -> Any:
    """The value of a key with dots; None where there is none."""
    return reduce(
        lambda table, part: table.get(part) if isinstance(table, Mapping) else None,
        key.split("."),
        values,
    )


def disagreements(values: Mapping[str, Any], study: Study) -> Iterator[Found]:
    """Find names that nothing has, and values that are right alone and not beside each other.

    Args:
        values: of study.toml as parsed.
        study: made of them.
    """
    names = [experiment.name for experiment in study.experiments]
    yield from unknown_names(("agreement",), study.agreement, names, "experiment")
    for number, experiment in enumerate(study.experiments):
        place: Place = ("experiments", number)
        if experiment.name in names[:number]:
            yield (
                (*place, "name"),
                f"name {quoted(experiment.name)} stands twice. Name one of them anew.",
                "",
            )
        yield from _of_unit(
            place, experiment, _value(values["experiments"][number], "compares.unit")
        )
        yield from _of_subset(
            place, experiment, _value(values["experiments"][number], "compares.primary")
        )
        yield from _of_answer(place, experiment)
        yield from _of_design(place, experiment, study.name)
        yield from _of_words(place, experiment)


def _of_unit(place: Place, experiment: Experiment, stated: Any) -> Iterator[Found]:
    if isinstance(stated, str) and stated not in UNITS:
        near = (
            did_you_mean(stated, [*UNITS])
            or ' Declare a new one as {name = "...", range = [0, 1]}.'
        )
        yield (
            (*place, "compares", "unit"),
            f"unit is {quoted(stated)}, and there is none.{near}",
            "",
        )


def _of_subset(place: Place, experiment: Experiment, primary: Any) -> Iterator[Found]:
    compares = experiment.compares
    if compares.contrast and not compares.subset:
        sentence = (
            "contrast compares values of a subset, and none is stated. Name its column in subset."
        )
        yield (*place, "compares", "contrast"), sentence, ""
    if compares.subset and compares.contrast is None and primary is None:
        sentence = (
            "subset divides the rows, and no contrast or primary says which part answers. Add one."
        )
        yield (*place, "compares", "subset"), sentence, ""
    for key, value in {"groups": compares.groups, "reference": compares.reference}.items():
        if compares.measure and not value:
            yield (
                (*place, "compares", key),
                f"{key} is blank, and {compares.measure} compares groups with one. Fill it in.",
                "",
            )
    if compares.reference and compares.reference in compares.groups:
        sentence = f"groups hold the reference {quoted(compares.reference)}. Take it out."
        yield (*place, "compares", "groups"), sentence, compares.reference


def _of_answer(place: Place, experiment: Experiment) -> Iterator[Found]:
    compares = experiment.compares
    if not (compares.measure or compares.primary.measure) and compares.primary.slice == "all":
        sentence = "measure is blank, and no primary says what answers. Add primary."
        yield (*place, "compares", "measure"), sentence, ""
    slices = ["all", *(one.name for one in experiment.shows.slices)]
    yield from unknown_names(
        (*place, "compares", "primary"), [compares.primary.slice], slices, "slice"
    )


def unknown_measures(study: Study) -> Iterator[Found]:
    """Find measures that there are not."""
    from swapbias.measures import MEASURES  # with numpy, which lists of studies do not need

    for number, experiment in enumerate(study.experiments):
        compares = experiment.compares
        for key, measure in (("measure", compares.measure), ("primary", compares.primary.measure)):
            if measure:
                yield from unknown_names(
                    ("experiments", number, "compares", key), [measure], [*MEASURES], "measure"
                )


def _of_design(place: Place, experiment: Experiment, study: str) -> Iterator[Found]:
    design = experiment.design
    if bool(design.planned_sd) != bool(design.planned_sd_of):
        yield (
            (*place, "design"),
            "planned_sd and planned_sd_of go together. State both, or none.",
            "",
        )
    yield from unknown_names(
        (*place, "design", "planned_sd_of"), design.planned_sd_of[:1], [study], "study"
    )
    unnamed = [column for column, name in design.random.items() if not name]
    if unnamed:
        sentence = f"random gives {listed(unnamed)} no plural. Write column = plural in braces."
        yield (*place, "design", "random"), sentence, ""


def _of_words(place: Place, experiment: Experiment) -> Iterator[Found]:
    says = experiment.words.says
    slots = _slots(says)
    if says and slots not in ({"more"}, {"more", "less"}):
        yield (
            (*place, "words", "says"),
            f"says is {quoted(says)}, expected {{more}} and {{less}} in it. Correct it.",
            "",
        )


def _slots(text: str) -> set[str]:
    """The names in braces of a text; a blank one where braces are not closed."""
    try:
        return {name for _, name, *_ in Formatter().parse(text) if name is not None}
    except ValueError:
        return {""}
