"""Names of groups, contrasts, quantities and rows, as sentences, tables and charts have them."""

from collections.abc import Sequence

from swapbias.findings import Finding, experiment_of, terms
from swapbias.measures import MEASURES
from swapbias.studies import JUDGED, Experiment

OWN_NOTES = "own"
"""Phenotype of a user's notes whose label has no name."""
DIFFERENCE_PREFIX = "difference of gaps, "
"""Text before the names of two groups, where their gap is compared between two sets of conditions."""


def safe_line(text: str, limit: int = 60) -> str:
    """Return a text from outside as one line that can be printed.

    Args:
        text: anything.
        limit: most characters.

    Returns:
        The text with a mark for each letter that cannot be seen, and an ellipsis where it is too long.
    """
    line = "".join(map(_printable, text))
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1]}…"


def _printable(letter: str) -> str:
    """Return a letter, or a mark for one that cannot be seen."""
    return letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"


def capitalize(text: str) -> str:
    """Return a text that begins a sentence.

    Args:
        text: the text whose first letter may be small; the others stay.
    """
    return f"{text[:1].upper()}{text[1:]}"


def plain_words(name: str) -> str:
    """Return a column value as words: ``mental_health`` -> ``mental health``.

    Args:
        name: value, or two with a minus between them.
    """
    return name.replace("_", " ").replace(" - ", " − ")


def value_name(value: str) -> str:
    """Return a value of a slice as words; a user's notes have one label, which has no name.

    Args:
        value: the value of the column by which findings are sliced.
    """
    special = {"none": "no condition named", "": "(blank)", OWN_NOTES: "these notes"}
    return special.get(value, plain_words(value))


def group_name(experiment: Experiment | None, group: str) -> str:
    """Return a group or a set of conditions, as its study names it.

    Args:
        experiment: the experiment that names its groups; None where it is not known.
        group: value of the rows; what is pooled, or about nobody, is named as that.
    """
    names = {"all": "all groups", "unspecified": "neither"}
    if experiment:
        if group == "baseline" and group in experiment.shows.levels:
            names[group] = "nobody named"
        names |= experiment.words.named
    return names.get(group) or plain_words(group)


def group_index(experiment: Experiment, group: str) -> int:
    """Return which colour and shape a group has, wherever it is drawn: the compared one 0, its reference 1.

    Args:
        experiment: the experiment that compares the groups.
        group: value of the rows; one that the experiment does not show comes last.
    """
    compares = experiment.compares
    order = list(dict.fromkeys([compares.group, compares.reference, *experiment.shows.levels]))
    return order.index(group) if group in order else len(order)


def compared_groups(finding: Finding) -> tuple[str, str]:
    """Return the two groups of a gap in words, that of a positive gap first.

    Args:
        finding: a gap; of a difference of models the two are models.
    """
    experiment = experiment_of(finding)
    first = finding.group
    second = finding.reference_group
    if finding.measure == terms.DIFFERENCE:
        return first, second
    if not second and experiment:
        first = experiment.compares.group
        second = experiment.compares.reference
    elif not second:
        first = finding.contrast
        second = "other"
    return group_name(experiment, first), group_name(experiment, second)


def join_groups(finding: Finding) -> str:
    """Return the two groups of a gap as a subtraction: ``women minus men``.

    Args:
        finding: a gap.
    """
    return " minus ".join(compared_groups(finding))


def contrast_name(finding: Finding) -> str:
    """Return what a gap subtracts from what, by the names of groups; any other quantity in words.

    Args:
        finding: a finding of any measure.
    """
    groups = join_groups(finding)
    experiment = experiment_of(finding)
    if finding.measure == "gap_difference":
        return f"{DIFFERENCE_PREFIX}{groups}"
    if finding.score != "score" or not finding.group or not MEASURES[finding.measure].gap_span:
        return quantity_name(finding)
    sets = [group_name(experiment, name) for name in (finding.within, finding.against) if name]
    if not sets:
        return groups
    return f"{groups} for {' against '.join(sets)}"


def set_name(finding: Finding) -> str:
    """Return the set of conditions that a finding is of, or one minus another; blank for all.

    Args:
        finding: a finding of any measure.
    """
    sets: tuple[str, ...] = (finding.subset,)
    if finding.measure == "gap_difference":
        sets = (finding.within, finding.against)
    experiment = experiment_of(finding)
    return " minus ".join(group_name(experiment, name) for name in sets if name)


def row_name(finding: Finding) -> str:
    """Return the name of a primary finding, or of a part of one, as a row of a table or chart.

    Args:
        finding: the finding of the row.
    """
    experiment = experiment_of(finding)
    if experiment and len(experiment.compares.groups) > 1:
        return contrast_name(finding)
    if finding.slice_by == "all":
        return set_name(finding) or contrast_name(finding)
    return rows_name(finding, if_all="") or contrast_name(finding)


def quantity_name(finding: Finding) -> str:
    """Return in words what quantity the value of a finding is.

    Args:
        finding: a finding of any measure.
    """
    contrast = plain_words(finding.contrast)
    # A mean of anything but a group is named in full: "answers unsure".
    if finding.measure == "mean" and " " in contrast:
        quantity = contrast
    else:
        quantity = MEASURES[finding.measure].title.format(contrast=contrast)
    if finding.score == JUDGED:
        return f"judged: {quantity}"
    if finding.score == "score":
        return quantity
    return f"{quantity} ({plain_words(finding.score)})"


def rows_name(finding: Finding, if_all: str = "all") -> str:
    """Return which rows a finding is about: its set of conditions and its slice.

    Args:
        finding: a finding of any measure; the training condition of a model that was trained elsewhere is not named.
        if_all: what to return for all rows.
    """
    subset = "" if finding.subset == "as trained" else plain_words(finding.subset)
    return ", ".join(filter(None, (subset, _slice_name(finding)))) or if_all


def _slice_name(finding: Finding) -> str:
    """Return a slice by its column and value: ``diagnosis: breast cancer``; blank for all rows."""
    if finding.slice_value == OWN_NOTES:
        return value_name(OWN_NOTES)
    if finding.slice_by == "all":
        return ""
    if not finding.slice_value:
        return finding.slice_by
    return f"{finding.slice_by}: {plain_words(finding.slice_value)}"


def toward_group(finding: Finding) -> str:
    """Return in which direction a gap lies: ``toward women``, ``further toward women``, ``higher``.

    Args:
        finding: a gap, or a difference of two models.
    """
    is_negative = finding.estimate.value <= 0
    if finding.measure != terms.DIFFERENCE:
        first, second = compared_groups(finding)
        return f"toward {second if is_negative else first}"
    experiment = experiment_of(finding)
    # One of several gaps: the sign says nothing about one pair of groups.
    if experiment is None or len(experiment.compares.groups) > 1 or experiment.compares.factors:
        return "lower" if is_negative else "higher"
    compares = experiment.compares
    group = compares.reference if is_negative else compares.group
    return f"further toward {group_name(experiment, group)}"


def join_names(names: Sequence[str], most: int = 1_000) -> str:
    """Return names as a sentence lists them: ``a, b and c``; of many the first ``most``: ``a, b and 1 more``.

    Args:
        names: one or more.
        most: number of them that are named.
    """
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
