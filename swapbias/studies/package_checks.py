"""Check what a study of the package declares: that it states all that decides a verdict, and agrees with itself."""

from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.measures import units
from swapbias.studies.declared import RawFault, unknown_names
from swapbias.studies.experiment import Experiment, Study
from swapbias.studies.toml_lines import KeyPath

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


def left_out(values: Mapping[str, Any]) -> Iterator[RawFault]:
    """Find what a declaration does not state.

    Args:
        values: the values of study.toml as parsed, with those that experiments take from others.
    """
    for key in _STATED_OF_STUDY:
        if key not in values:
            yield (), f"{key} is missing. Add {key} = ....", ""
    experiments = values.get("experiments", [])
    if not isinstance(experiments, list):
        return
    for number, experiment in enumerate(experiments):
        name = quoted(_value(experiment, "name") or number + 1)
        for key in _needed(experiment):
            if _value(experiment, key) is None:
                yield ("experiments", number), f"experiment {name} states no {key}. Add it.", ""


def _needed(experiment: Any) -> Sequence[str]:
    """List the keys that an experiment must state, by its kind and whether it names what answers."""
    keys = [*_STATED]
    if _value(experiment, "kind") == "masked":
        keys += _STATED_OF_MASKED
    if _value(experiment, "compares.primary") is not None:
        keys += _STATED_OF_PRIMARY
    return keys


def _value(values: Any, key: str) -> Any:
    """Give the value of a key with dots; None where there is none."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def disagreements(values: Mapping[str, Any], study: Study) -> Iterator[RawFault]:
    """Find names that nothing has, and values that contradict each other.

    Args:
        values: the values of study.toml as parsed.
        study: made of them.
    """
    names = [experiment.name for experiment in study.experiments]
    yield from unknown_names(("agreement",), study.agreement, names, "experiment")
    for number, experiment in enumerate(study.experiments):
        key_path: KeyPath = ("experiments", number)
        if experiment.name in names[:number]:
            yield (
                (*key_path, "name"),
                f"name {quoted(experiment.name)} appears twice. Rename one of them.",
                "",
            )
        declared = values["experiments"][number]
        yield from _unit_faults(key_path, _value(declared, "compares.unit"))
        for sentence in experiment.decision_faults():
            yield (*key_path, "shows", "decisions"), sentence, ""
        yield from _group_faults(key_path, experiment, _value(declared, "compares.primary"))
        yield from _answer_faults(key_path, experiment)
        yield from _design_faults(key_path, experiment, study.name)
        yield from _word_faults(key_path, experiment)


def _unit_faults(key_path: KeyPath, stated: Any) -> Iterator[RawFault]:
    """Find the name of a unit that there is not."""
    if isinstance(stated, str) and stated not in units.UNITS:
        near = did_you_mean(stated, [*units.UNITS])
        hint = near or ' Declare a new one as {name = "...", range = [0, 1]}.'
        sentence = f"unit is {quoted(stated)}, and there is none.{hint}"
        yield (*key_path, "compares", "unit"), sentence, ""


def _group_faults(key_path: KeyPath, experiment: Experiment, primary: Any) -> Iterator[RawFault]:
    """Find groups, a subset and a contrast that do not go together."""
    compares = experiment.compares
    if compares.contrast and not compares.subset:
        sentence = (
            "contrast compares values of a subset, and none is stated. Name its column in subset."
        )
        yield (*key_path, "compares", "contrast"), sentence, ""
    if compares.subset and compares.contrast is None and primary is None:
        sentence = (
            "subset divides the rows, and no contrast or primary says which part answers. Add one."
        )
        yield (*key_path, "compares", "subset"), sentence, ""
    if compares.primary.measure == "slope" and not compares.slopes:
        sentence = (
            'primary is a slope, and no slopes are stated. Add slopes = {column = "its name"}.'
        )
        yield (*key_path, "compares", "primary"), sentence, ""
    for key, value in {"groups": compares.groups, "reference": compares.reference}.items():
        if compares.measure and not value:
            sentence = (
                f"{key} is blank, and {compares.measure} compares groups with one. Fill it in."
            )
            yield (*key_path, "compares", key), sentence, ""
    if compares.reference and compares.reference in compares.groups:
        sentence = f"groups contain the reference {quoted(compares.reference)}. Take it out."
        yield (*key_path, "compares", "groups"), sentence, compares.reference


def _answer_faults(key_path: KeyPath, experiment: Experiment) -> Iterator[RawFault]:
    """Find an experiment of which nothing says what answers it."""
    compares = experiment.compares
    if not (compares.measure or compares.primary.measure) and compares.primary.slice == "all":
        sentence = "measure is blank, and no primary says what answers. Add primary."
        yield (*key_path, "compares", "measure"), sentence, ""
    slices = ["all", *(part.name for part in experiment.shows.slices)]
    yield from unknown_names(
        (*key_path, "compares", "primary"), [compares.primary.slice], slices, "slice"
    )


def unknown_measures(study: Study) -> Iterator[RawFault]:
    """Find measures that there are not.

    Args:
        study: a study of the package.
    """
    from swapbias.measures import MEASURES  # with numpy, which lists of studies do not need

    for number, experiment in enumerate(study.experiments):
        compares = experiment.compares
        for key, measure in (("measure", compares.measure), ("primary", compares.primary.measure)):
            if measure:
                yield from unknown_names(
                    ("experiments", number, "compares", key), [measure], [*MEASURES], "measure"
                )
        yield from unknown_names(
            ("experiments", number, "shows", "folded"),
            experiment.shows.folded,
            [*MEASURES],
            "measure",
        )


def _design_faults(key_path: KeyPath, experiment: Experiment, study: str) -> Iterator[RawFault]:
    """Find spreads of no study, and random columns without a plural."""
    design = experiment.design
    if bool(design.planned_sd) != bool(design.planned_sd_of):
        yield (
            (*key_path, "design"),
            "planned_sd and planned_sd_of go together. State both, or none.",
            "",
        )
    yield from unknown_names(
        (*key_path, "design", "planned_sd_of"), design.planned_sd_of[:1], [study], "study"
    )
    unnamed = [column for column, name in design.random.items() if not name]
    if unnamed:
        sentence = f"random gives {listed(unnamed)} no plural. Write column = plural in braces."
        yield (*key_path, "design", "random"), sentence, ""


def _word_faults(key_path: KeyPath, experiment: Experiment) -> Iterator[RawFault]:
    """Find a sentence without the places of its groups."""
    says = experiment.words.says
    slots = _slots(says)
    if says and slots not in ({"more"}, {"more", "less"}):
        yield (
            (*key_path, "words", "says"),
            f"says is {quoted(says)}, expected {{more}} and {{less}} in it. Correct it.",
            "",
        )


def _slots(text: str) -> set[str]:
    """List the names in braces of a text; a blank one where braces are not closed."""
    try:
        return {name for _, name, *_ in Formatter().parse(text) if name is not None}
    except ValueError:
        return {""}
