"""Terms of findings: verdicts, what decides them, outcomes of a gate, and the thresholds of both."""

from swapbias.measures import MOSTLY_TIED

LEVEL = 0.05
"""Error rate of every family of tests."""
MARGIN = 0.05
"""Share of the range of a unit: a gap below it counts as none, where nothing else is declared."""
RARE = 0.1
"""Rates whose mean lies below it, or above one less it, are compared by their ratio as well."""
RATIO_MARGIN = (0.8, 1.25)
"""Ratios of rates that count as no gap."""
FEWEST = 4
"""Levels of a random factor on a side: fewer say nothing of others."""
STILL = 0.1
"""Share of the margin: level means that lie closer to each other show no spread."""

# Verdicts.
FOUND = "gap"
SMALL = "gap within the margin"
UNSTABLE = "gap, not robust"
NONE = "no gap"
UNDECIDED = "undecided"
UNMEASURED = "not measured"
TOO_FEW = "too few levels"
VERDICTS = (FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW)

# Outcomes of a gate.
PASSES = "passes"
FAILS = "fails"
OPEN = "undecided"

# Why a finding is not measured.
SAME_SCORE = "same_score"
"""The model scores every prompt the same."""
SAME_INPUT = "same_input"
"""The model reads one input for both texts of each pair."""
UNREAD_SWAP = "unread_swap"
"""No score moves with strong words in place of the swapped ones."""
NO_CONTROL = "no_control"
"""Nobody could ask whether a score moves with strong words in place of the swapped ones."""
UNNAMED_FILLS = "unnamed_fills"
"""Names that could not be found in the texts."""
CONTROL_NOT_SHOWN = "control_not_shown"
"""The gap of the study's positive control was not found."""
CONTROL_NOT_RUN = "control_not_run"
"""The study's positive control was not audited."""
NOTHING_SCORED = "nothing_scored"
"""There is no score at all."""
SAME_DECISION = "same_decision"
"""Every score lies on one side of the threshold."""
COARSE_SCORES = "coarse_scores"
"""The scores of a group have too few different values for a quantile."""
UNMEASURED_REASONS = (
    SAME_SCORE,
    SAME_INPUT,
    UNREAD_SWAP,
    NO_CONTROL,
    CONTROL_NOT_SHOWN,
    CONTROL_NOT_RUN,
    UNNAMED_FILLS,
    NOTHING_SCORED,
    SAME_DECISION,
    COARSE_SCORES,
    MOSTLY_TIED,  # one difference in more than half of the pairs, of which a median is no gap
)

# What else decides a word or a gate in place of the printed interval.
FEW_LEVELS = "few_levels"
"""A random factor has fewer levels on a side than ``FEWEST``."""
MOSTLY_UNSCORED = "mostly_unscored"
"""Most units have no score."""
REPEATED_ANSWERS = "repeated_answers"
"""Most answers are one answer, and others were not read."""
MISSING_SCORES = "missing_scores"
"""Scores that are missing could change the verdict."""
MIXED_SIGNS = "mixed_signs"
"""Most pairs differ by more than the margin, in both directions."""
NOT_STABLE = "other_sign_in_wordings"
"""The gap turns in too many rewordings."""
NO_RANGE = "no_range"
"""The range of the scores is not known, so no margin applies."""
FEW_EQUAL = "few_equal"
"""Nothing moves, at too few levels to rule out the margin."""
EQUAL_SCORES = "equal_scores"
"""Nothing moves, at many levels."""
EXACT_TEST = "exact_test"
"""All levels show one gap: their exact test decides."""
NO_SPREAD = "no_spread"
"""Too little varies or was scored."""

CONTROL = "positive_control"
"""Column of scored rows: blank, or the outcome of the positive control."""
CONTROL_MOVED = "moved"
CONTROL_UNMOVED = "unmoved"
CONTROL_UNKNOWN = "unknown"

AS_PUBLISHED = "as published"
"""The view of the paper's own statistic."""
INDEPENDENT = "prompts as independent"
"""The view of the same statistic in a study that is no paper's."""

SPREAD = "group_spread"
"""The measure that tests several groups at once."""
ALL = "all groups"
"""Contrast of that test: the means of the groups."""
ALL_GAPS = "all groups, gaps"
"""Contrast of that test: the gaps of the groups in two subsets."""
EFFECTS = ("main_effect", "interaction", "interaction_of_three")
"""The measures of effects of one factor, of two, of three."""
DIFFERENCE = "model_difference"
"""The measure of one model's value minus another's."""
