"""Sentences on one finding: its word, its claim by the words of its study, its size, and what follows of it."""

import math

from swapbias.findings import Finding, decision, experiment_of, terms
from swapbias.measures import (
    MOSTLY_TIED,
    Comparison,
    Estimate,
    comparison_of,
    crossed_factors,
    is_comparison,
)
from swapbias.report.finding_names import (
    capitalize,
    compared_groups,
    group_name,
    join_groups,
    join_names,
    plain_words,
    quantity_name,
    safe_line,
    toward_group,
)
from swapbias.report.numbers import (
    clipped_interval,
    decimals_beside,
    finding_format,
    format_gap,
    format_interval,
    format_margin,
    format_number,
    format_p_value,
    format_value,
    interval_name,
    is_gap_finding,
    marks_of,
    unit_format,
)
from swapbias.report.undecided import (
    decide_at_margin,
    describe_equal_pairs,
    too_few_equal_pairs,
    why_equal_undecided,
    why_undecided,
)

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = terms.VERDICTS
SURE = (FOUND, SMALL, UNSTABLE)
"""Verdicts that state a gap."""
NOT_MEASURED = "Not measured"
"""Word of a verdict without a value."""
RATES = {
    "flip_rate": "the share of notes whose prediction changes with the patient's gender",
    "leakage_uar": "the average recall of the patient's gender from notes (50 % is chance)",
    "direct_bias": "the mean absolute cosine of the words with the gender direction (0 is none)",
}
"""Quantities without a verdict, as a sentence names them, by their measure."""
# Mean rates below it are also compared by their ratio.
_LOW = 0.25
WORDS = {FOUND: "Gap", SMALL: "Gap", UNSTABLE: "Gap", NONE: "No gap", UNDECIDED: "Undecided"}
"""The word that states a verdict; code compares verdicts, never these words."""
_WORDS_OF_DIFFERENCES = {**WORDS, **dict.fromkeys(SURE, "Difference"), NONE: "No difference"}
_CLAIMS = {
    "masked": "prefers words for {more} to words for {less}",
    "causal": "finds texts about {more} more likely than those about {less}",
}
_NOTHING_SCORED = "could not score what the question needs"
_UNMEASURED_CLAIMS = {
    terms.SAME_SCORE: "gives every prompt the same score",
    terms.SAME_INPUT: "reads the same input for both texts of each pair",
    terms.UNREAD_SWAP: "does not seem to read the swapped words. Strong words in their place move no score either",
    terms.NO_CONTROL: (
        "scores all pairs alike, and could not be asked whether it reads the swapped words. Resume or repeat the run"
    ),
    terms.SAME_DECISION: "gives every prompt a score on one side of the threshold",
    terms.COARSE_SCORES: "gives a group too few different scores for a quantile",
    terms.CONTROL_NOT_SHOWN: "does not show the gap of the positive control, so its score does not measure this",
    terms.CONTROL_NOT_RUN: "was not audited on the positive control. Audit it as well",
    MOSTLY_TIED: (
        "gives more than half of the pairs the same difference, so a median says nothing of the others. Compare means"
    ),
}


def verdict_word(finding: Finding) -> str:
    """Return the word of a verdict: ``Gap``, ``No gap``, ``Too few templates``; blank for what has none.

    Args:
        finding: a finding of any measure.
    """
    if math.isnan(finding.estimate.value) or finding.verdict == UNMEASURED:
        return NOT_MEASURED
    if finding.verdict == TOO_FEW:
        return f"Too few {finding.estimate.fewest_of or 'pairs'}"
    words = _WORDS_OF_DIFFERENCES if finding.measure == terms.DIFFERENCE else WORDS
    return words.get(finding.verdict, "")


def fixed_levels(finding: Finding) -> str:
    """Return the fixed levels, beyond which a claim says nothing: ``for these 3 topics``; blank for none.

    Args:
        finding: the finding with its fixed factors.
    """
    levels = []
    for factor in filter(None, finding.fixed.split(" + ")):
        count, _, name = factor.partition(" ")
        if count == "1":
            levels.append(f"this one {name}")
        else:
            levels.append(f"these {count} {name}")
    if not levels:
        return ""
    return f"for {join_names(levels)}"


def claim_sentence(finding: Finding) -> str:
    """Return one finding as a sentence without its full stop.

    Args:
        finding: a finding of any measure.
    """
    if unmeasured := _unmeasured_sentence(finding):
        return unmeasured
    model = safe_line(finding.model_id)
    if finding.measure == terms.SPREAD:
        return _test_sentence(finding)
    if finding.record.at_cut and finding.record.like_gap:
        claim = f"{model}: {quantity_name(finding)} is {size_with_interval(finding)}"
        return f"{claim}{gap_ending(finding)}"
    if not finding.verdict or not is_gap_finding(finding):
        quantity = RATES.get(finding.measure) or quantity_name(finding)
        return f"{model}: {quantity} is {size_with_interval(finding)}"
    may_be_equal = finding.verdict in (NONE, UNDECIDED)
    if may_be_equal and decision.nothing_moves(finding, finding.margin):
        if finding.verdict == NONE:
            return describe_equal_pairs(finding, finding.margin)
        return why_equal_undecided(finding, finding.margin)
    claim = f"{_claim(finding)} {size_with_interval(finding)}{gap_ending(finding)}"
    if finding.verdict == TOO_FEW:
        return f"{too_few_levels(finding.estimate)}. Among them {claim}"
    return claim


def _unmeasured_sentence(finding: Finding) -> str:
    """Return why a finding has no value; blank where it has one."""
    model = safe_line(finding.model_id)
    if finding.measure == terms.DIFFERENCE and verdict_word(finding) == NOT_MEASURED:
        first, second = compared_groups(finding)
        return f"{first} could not be compared with {second}"
    if finding.reason == terms.UNNAMED_FILLS:
        return "the names or words that these texts swap could not be found. Add a column name"
    if finding.verdict == UNMEASURED:
        return f"{model} {_UNMEASURED_CLAIMS.get(finding.reason, _NOTHING_SCORED)}"
    if math.isnan(finding.estimate.value):
        return f"{model} {_NOTHING_SCORED}"
    return ""


def _test_sentence(finding: Finding) -> str:
    """Return the outcome of one test of all groups."""
    model = safe_line(finding.model_id)
    contrast = plain_words(finding.contrast)
    p = format_p_value(finding.estimate.p_adjusted)
    if finding.estimate.p_adjusted < terms.LEVEL:
        return f"{model}: {contrast}: different (one test of all, p {p})"
    return f"{model}: {contrast}: no difference shown (one test of all, p {p})"


def too_few_levels(estimate: Estimate) -> str:
    """Say that the levels of a random factor are too few for a verdict, and how many are needed.

    Args:
        estimate: the estimate with the random factor that has fewest levels.
    """
    count = decision.levels_of(estimate)
    names = estimate.fewest_of or "pairs"
    if count == 1:
        return f"a verdict about {names} cannot rest on one; at least {terms.FEWEST} are needed"
    return f"{count} {names} are too few for a verdict; at least {terms.FEWEST} are needed"


def states_gap(finding: Finding) -> bool:
    """Return whether the verdict of a finding says that there is a gap, with its direction.

    Args:
        finding: a finding of any measure; of an interaction no direction is said.
    """
    has_direction = bool(finding.group or finding.measure not in terms.EFFECTS)
    is_of_mean = not finding.record.at_cut
    return finding.verdict in SURE and has_direction and is_of_mean


def _comparison(finding: Finding) -> Comparison | None:
    """Return how the two groups of a finding were compared; None where that is not known."""
    if is_comparison(finding.measure):
        return comparison_of(finding.measure)
    experiment = experiment_of(finding)
    return experiment.comparison if experiment else None


def _gap_words(finding: Finding) -> str:
    """Return what sentences call a gap: ``gap``, ``median gap``."""
    comparison = _comparison(finding)
    return comparison.gap_words if comparison else "gap"


def size_words(finding: Finding) -> str:
    """Return the words before the size of a gap: ``by``, ``by a median of``.

    Args:
        finding: a gap.
    """
    comparison = _comparison(finding)
    return comparison.by_words if comparison else "by"


def _claim(finding: Finding) -> str:
    """Return who does what with whom, by the words of the study; where that is no claim, which gap it is."""
    start = claim_without_size(finding)
    if _moves_gap(finding) and states_gap(finding):
        start = f"{start},"
    if _ends_in_size(finding):
        return f"{start} {size_words(finding)}"
    return f"{start} is"


def _moves_gap(finding: Finding) -> bool:
    """Return whether a finding says how far a gap moves between two sets of conditions."""
    is_effect_on_gap = finding.measure in terms.EFFECTS and bool(finding.within)
    return finding.measure == "gap_difference" or is_effect_on_gap


def _ends_in_size(finding: Finding) -> bool:
    """Return whether a claim ends in a size by which something differs, and not in what a gap is."""
    return states_gap(finding) or _moves_gap(finding)


def claim_without_size(finding: Finding) -> str:
    """Return the claim of a finding without its size and the words before that.

    Args:
        finding: a gap, an effect, or a difference of gaps or models.
    """
    first, second = compared_groups(finding)
    if finding.measure == terms.DIFFERENCE:
        if states_gap(finding):
            return f"{first} lies {toward_group(finding)} than {second}"
        return f"{first} minus {second}"
    if _moves_gap(finding):
        return _claim_of_change(finding)
    if states_gap(finding):
        return _claim_of_preference(finding)
    model = safe_line(finding.model_id)
    if finding.measure in terms.EFFECTS and not finding.group:
        return f"{model}'s interaction, {plain_words(finding.contrast)},"
    return f"{model}'s {_gap_words(finding)}, {join_groups(finding)},"


def _claim_of_change(finding: Finding) -> str:
    """Return how a gap differs between two sets: in which direction, or between which groups."""
    experiment = experiment_of(finding)
    within, against = (group_name(experiment, name) for name in (finding.within, finding.against))
    gap = f"{safe_line(finding.model_id)}'s {_gap_words(finding)}"
    if states_gap(finding) and experiment and experiment.words.says_of_contrast:
        return _says(finding, experiment.words.says_of_contrast)
    if states_gap(finding):
        return f"{gap} lies further {toward_group(finding)} with {within} than with {against}"
    first, second = compared_groups(finding)
    return f"{gap} between {first} and {second} differs between {within} and {against}"


def _claim_of_preference(finding: Finding) -> str:
    """Return what a model does more with the texts of one group, by the words of its study."""
    experiment = experiment_of(finding)
    template = ""
    if experiment:
        template = experiment.words.says or _CLAIMS.get(experiment.kind, "")
    return _says(finding, template or "scores {more} higher than {less}")


def _says(finding: Finding, template: str) -> str:
    """Fill a sentence about a model with the groups of a finding, the higher one as ``more``."""
    more, less = compared_groups(finding)
    if not finding.estimate.value > 0:
        return f"{safe_line(finding.model_id)} {template.format(more=less, less=more)}"
    return f"{safe_line(finding.model_id)} {template.format(more=more, less=less)}"


def size_with_interval(finding: Finding) -> str:
    """Return a value and its interval: ``10.5 points (95 % interval 4.5 to 16.4)``.

    Args:
        finding: a finding of any measure; where it states a direction, size and interval have no sign.
    """
    estimate = finding.estimate
    has_direction = states_gap(finding)
    size = format_value(finding)
    if is_gap_finding(finding):
        size = format_gap(estimate.value, finding.scale, signed=not has_direction)
    low, _ = clipped_interval(finding)
    if math.isnan(low):
        is_constant = has_direction and math.isnan(estimate.std_error)
        if is_constant:
            return f"{size} in each of {estimate.n} pairs"
        return size
    ends = _interval_ends(finding)
    if has_direction:
        ends = ends.replace("+", "")
    return f"{size} ({interval_name(finding)} {ends})"


def _interval_ends(finding: Finding) -> str:
    """Return the ends of the interval; where a negative gap is stated, those of its size."""
    if not is_gap_finding(finding):
        return format_interval(finding)
    low, high = clipped_interval(finding)
    if states_gap(finding) and finding.estimate.value < 0:
        end = low
        low = -high
        high = -end
    marks = marks_of(finding)
    if finding.scale.ratio_of:
        ratios = [math.exp(mark) for mark in marks]
        ends = [math.exp(end) for end in (low, high)]
        return " to ".join(
            format_number(end, digits=decimals_beside(end, ratios, 2)) for end in ends
        )
    written = unit_format(finding.scale)
    return f"{written.end(low, marks)} to {written.end(high, marks)}"


def gap_ending(finding: Finding) -> str:
    """Return what follows of a gap: how it lies to the margin, how robust it is, or why nothing is decided.

    Args:
        finding: a gap with its verdict.
    """
    ending = f"{_ratio(finding)}{_weights(finding)}{_conclusion(finding)}"
    is_of_crossed = finding.reference_group != crossed_factors.THE_OTHERS  # else nothing is left
    if finding.measure == terms.EFFECTS[0] and finding.verdict in SURE and is_of_crossed:
        return f", averaged over the rest{ending}"
    return ending


def _ratio(finding: Finding) -> str:
    """Say how two rates compare as a ratio, where they are low; where they are high, how their complements do."""
    is_low = finding.mean_level < _LOW
    if not (is_low or finding.has_high_rate) or not finding.ratio > 0:
        return ""
    sentence = f". The ratio of what is left to 100 % is {finding.ratio:.2f}"
    if is_low:
        sentence = f". The ratio of the two rates is {finding.ratio:.2f}"
    low, high = finding.ratio_interval
    if finding.has_rare_rate and not math.isnan(low):
        return f"{sentence} ({interval_name(finding)} {low:.2f} to {high:.2f})"
    return sentence


def _weights(finding: Finding) -> str:
    """Say that levels count alike, where the plain mean of the pairs is another."""
    written = finding_format(finding)
    mean = written(finding.row_mean, with_unit=True)
    if math.isnan(finding.row_mean) or mean == written(finding.estimate.value, with_unit=True):
        return ""
    comparison = _comparison(finding)
    if comparison is not None and not comparison.is_mean:
        return f". The plain mean of all pairs is {mean}"
    names = finding.estimate.fewest_of
    return f". All {names} count the same; the plain mean of all pairs is {mean}"


def _conclusion(finding: Finding) -> str:
    """Say what the verdict of a gap rests on."""
    if finding.verdict == TOO_FEW:
        return ""
    if finding.verdict == FOUND:
        if decide_at_margin(finding).reason == terms.FEW_EQUAL:
            return f". {capitalize(too_few_equal_pairs(finding, finding.margin))}"
        return ""
    if finding.verdict == NONE:
        return f". The whole interval is within the margin of {format_margin(finding)}"
    if finding.verdict == SMALL:
        return f". The gap is smaller than the margin of {format_margin(finding)}"
    if finding.verdict == UNSTABLE:
        if math.isnan(finding.sign_agreement):
            return ". Not robust: few rewordings have the same sign"
        share = 100 * finding.sign_agreement
        return f". Not robust: only {share:.0f} % of rewordings have the same sign"
    return f". {capitalize(why_undecided(finding, finding.margin))}"
