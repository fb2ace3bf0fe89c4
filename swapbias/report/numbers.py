"""Numbers as sentences, tables and charts write them: gaps in points, shares in percent, intervals and p-values."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from swapbias.findings import Finding, decision, terms
from swapbias.measures import MEASURES, Estimate, Unit, intervals

_ROUNDING = 1e-9
_MORE_DECIMALS = 5


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Way to write a value: less ``start``, times ``factor``, with decimals, a sign or none, and an ``ending``."""

    factor: float = 1.0
    """Number of written units in one unit of the value: 100 over the range of the unit for points."""
    digits: int = 3
    """Decimals."""
    unit: str = ""
    """Unit of the written number; blank for none."""
    signed: bool = False
    """Whether a number above zero has a plus sign."""
    ending: str = ""
    """Text right behind the number, such as a percent sign."""
    start: float = 0.0
    """Value that is written as zero."""

    def scaled(self, value: float) -> float:
        """Return the number that is written for a value, before it is rounded.

        Args:
            value: the value in the unit of the finding.
        """
        return self.factor * (value - self.start)

    def end(self, value: float, marks: Iterable[float], *, with_unit: bool = False) -> str:
        """Write an end of an interval, with more decimals where fewer would put it on a mark or past it.

        Args:
            value: the end in the unit of the finding.
            marks: zero, margins and the like, in the same unit; NaN is none.
            with_unit: put the unit behind it.
        """
        digits = decimals_beside(self.scaled(value), map(self.scaled, marks), self.digits)
        return replace(self, digits=digits)(value, with_unit=with_unit)

    def __call__(self, value: float, *, with_unit: bool = False) -> str:
        """Write a value.

        Args:
            value: the value in the unit of the finding.
            with_unit: put the unit behind it.

        Returns:
            The value as text; a dash for NaN.
        """
        text = format_number(self.scaled(value), signed=self.signed, digits=self.digits)
        if math.isnan(value):
            return text
        if with_unit and self.unit:
            return f"{text}{self.ending} {self.unit}"
        return f"{text}{self.ending}"


def decimals_beside(number: float, marks: Iterable[float], digits: int) -> int:
    """Return with how many decimals a number is written on the side of each mark where it is.

    The words beside an interval say where its ends are: one of −0.02 is no "0.0" where zero is left out.

    >>> [decimals_beside(end, [0.0, 5.0], 1) for end in (-0.02, 4.97, 2.0)]
    [2, 2, 1]

    Args:
        number: the number as it is written, before it is rounded.
        marks: zero, margins and the like, in the same unit.
        digits: the usual decimals, which are enough for a number on a mark, and for one whose distance is rounding.
    """
    marks = [mark for mark in marks if not math.isnan(mark)]
    for decimals in range(digits, digits + _MORE_DECIMALS):
        rounded = round(number, decimals)
        if all(_side(rounded, mark) == _side(number, mark) for mark in marks):
            return decimals
    return digits


def _side(number: float, mark: float) -> int:
    """Return −1 below a mark, 1 above it, and 0 on it."""
    if math.isclose(number, mark, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return 0
    return 1 if number > mark else -1


def is_gap_finding(finding: Finding) -> bool:
    """Return whether a finding is written like a gap: signed, and in points where its unit has a range.

    Args:
        finding: a finding of any measure.
    """
    record = MEASURES[finding.measure]
    return record.gap_span > 0 or record.like_gap


def unit_format(unit: Unit, *, signed: bool = True) -> NumberFormat:
    """Return the way to write scores of a unit: in points, hundredths of its range, where it has one.

    Args:
        unit: the unit of the scores.
        signed: for differences of scores; False for scores, in points from the low end of the range.
    """
    if unit.in_points:
        start = 0.0 if signed else unit.low
        return NumberFormat(100 / unit.span, 1, "points", signed, start=start)
    name = unit.name if unit.symbol is None else unit.symbol
    return NumberFormat(1.0, 3, name, signed)


def finding_format(finding: Finding, *, in_own_unit: bool = False) -> NumberFormat:
    """Return the way to write a finding: a gap signed and in points, a share in percent.

    Args:
        finding: a finding of any measure.
        in_own_unit: write it in the unit of the scores instead, without a name.
    """
    record = MEASURES[finding.measure]
    is_gap = is_gap_finding(finding)
    if in_own_unit:
        return NumberFormat(digits=0 if record.whole else 3, signed=record.signed)
    if record.in_percent and not is_gap:
        ending = "" if record.signed else " %"
        return NumberFormat(100.0, 1, finding.unit, record.signed, ending)
    return unit_format(finding.scale, signed=is_gap)


def format_number(value: float, *, signed: bool = False, digits: int = 3) -> str:
    """Write a number with a true minus sign; zero has no sign.

    Args:
        value: any number.
        signed: put a plus before a number above zero.
        digits: decimals.

    Returns:
        The number as text; a dash for NaN.
    """
    if math.isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0
    plus = "+" if signed and rounded else ""
    return f"{rounded:{plus}.{digits}f}".replace("-", "−")


def format_gap(value: float, unit: Unit, *, signed: bool = False) -> str:
    """Write a gap in a sentence, one of logs as a ratio: ``less than 0.1 points``, ``an odds ratio of 2.00``.

    Args:
        value: the value in the unit.
        unit: the unit of the scores.
        signed: keep the sign of the gap; else its size alone is written.
    """
    size = value if signed else abs(value)
    if unit.ratio_of and not math.isnan(size):
        return f"{unit.ratio_of.article} {unit.ratio_of.noun} ratio of {math.exp(size):.2f}"
    written = replace(unit_format(unit), signed=signed)
    text = written(size, with_unit=True)
    is_small = size and not signed and not written(size).strip("0.")
    if is_small:
        smallest = text.replace("0 ", "1 ", 1)
        return f"less than {smallest}"
    return text


def format_margin(finding: Finding) -> str:
    """Write the margin of a finding in the words of a sentence: ``5 points``, of a ratio ``1.22``.

    Args:
        finding: the finding with its margin; that of rates that are rare has two ratios as well.
    """
    if finding.has_rare_rate:
        points = format_chosen_gap(finding.margin, finding.scale)
        low, high = terms.RATIO_MARGIN
        return f"{points} and a ratio of {low:g} to {high:g}"
    if finding.scale.ratio_of and not math.isnan(finding.margin):
        return f"{math.exp(finding.margin):.2f}"
    return format_chosen_gap(finding.margin, finding.scale)


def format_margin_of(finding: Finding, margin: float) -> str:
    """Write another margin than its own in the unit of a finding: ``5 points``.

    Args:
        finding: the finding whose unit the margin has.
        margin: the margin in that unit.
    """
    return format_margin(replace(finding, margin=margin))


def format_chosen_gap(value: float, unit: Unit) -> str:
    """Write a margin or another gap that somebody chose: ``5 points``, ``1 point``, ``0.5 points``.

    Args:
        value: the value in the unit.
        unit: the unit of the scores.
    """
    text = format_gap(value, unit).replace(".0 ", " ")
    if text == "1 points":
        return "1 point"
    return text


def format_ends(finding: Finding, low: float, high: float) -> str:
    """Write two ends in the unit of a finding: ``−0.4 to +6.6 points``.

    Args:
        finding: the finding whose unit they have.
        low: lower end.
        high: upper end.
    """
    written = unit_format(finding.scale)
    marks = marks_of(finding)
    return f"{written.end(low, marks)} to {written.end(high, marks, with_unit=True)}"


def format_value(finding: Finding, *, in_own_unit: bool = False) -> str:
    """Write the value of a finding, a gap with its unit.

    Args:
        finding: a finding of any measure.
        in_own_unit: write it in the unit of the scores instead, without a name.
    """
    written = finding_format(finding, in_own_unit=in_own_unit)
    with_unit = is_gap_finding(finding) and not in_own_unit
    return written(finding.estimate.value, with_unit=with_unit)


def format_interval(finding: Finding, *, in_own_unit: bool = False) -> str:
    """Write the 95 % interval as tables show it: ``−1.6 to +3.1``; a dash where there is none.

    Args:
        finding: a finding of any measure.
        in_own_unit: write it in the unit of the scores, and beyond what the quantity can be.
    """
    estimate = finding.estimate
    low, high = clipped_interval(finding)
    if in_own_unit:
        low = estimate.ci_low
        high = estimate.ci_high
    if math.isnan(low):
        return "–"
    written = finding_format(finding, in_own_unit=in_own_unit)
    marks = marks_of(finding)
    return f"{written.end(low, marks)} to {written.end(high, marks)}"


def marks_of(finding: Finding) -> tuple[float, ...]:
    """Return what the words beside an interval compare its ends with: zero, and the margin on both sides.

    Args:
        finding: the finding with its margin.

    Returns:
        In the unit of the finding; none for a mean or a share.
    """
    if not is_gap_finding(finding):
        return ()
    return 0.0, finding.margin, -finding.margin


def clipped_interval(finding: Finding) -> tuple[float, float]:
    """Return the ends of an interval, cut off at what the quantity can be but never inside its value.

    Args:
        finding: a finding of any measure.

    Returns:
        Lower and upper end in the unit of the finding; NaN where there is no interval.
    """
    estimate = finding.estimate
    if math.isnan(estimate.value):
        return estimate.ci_low, estimate.ci_high
    least, most = _possible_range(finding)
    # NaN stands first, so that it stays.
    low = max(estimate.ci_low, min(least, estimate.value))
    high = min(estimate.ci_high, max(most, estimate.value))
    return low, high


def _possible_range(finding: Finding) -> tuple[float, float]:
    """Return the least and the largest value that the quantity of a finding can have."""
    record = MEASURES[finding.measure]
    unit = finding.scale
    if record.scale is not None:
        return record.scale.least, record.scale.most
    if unit.in_points and finding.measure == "mean":
        return unit.low, unit.high
    if unit.in_points and record.gap_span:
        most = unit.span * record.gap_span
        return -most, most
    return -math.inf, math.inf


def interval_name(finding: Finding) -> str:
    """Name the printed interval: ``95 % interval``, or for how many questions or rows it holds at once.

    Args:
        finding: the finding with the number of questions of its family.
    """
    if finding.questions < 2:
        return "95 % interval"
    start = f"simultaneous 95 % interval over the {finding.questions}"
    if not finding.primary:
        return f"{start} rows of this table"
    if finding.measure == terms.DIFFERENCE:
        return f"{start} differences of this comparison"
    return f"{start} questions of this run"


def interval_heading(rows: Sequence[Finding]) -> str:
    """Name a column of intervals; of several kinds ``95 % interval``, and each cell says its own.

    Args:
        rows: findings of the column.
    """
    if rows and all(finding.questions > 1 for finding in rows):
        return "simultaneous 95 % interval"
    return "95 % interval"


def interval_cell(finding: Finding, rows: Sequence[Finding], *, in_own_unit: bool = False) -> str:
    """Write an interval in a column: ``−0.5 to +0.4 (simultaneous)`` among plain ones.

    Args:
        finding: the finding of the cell.
        rows: findings of the whole column.
        in_own_unit: write it in the unit of the scores.
    """
    ends = format_interval(finding, in_own_unit=in_own_unit)
    heading_says_it = "simultaneous" in interval_heading(rows)
    if heading_says_it or finding.questions < 2 or math.isnan(finding.estimate.ci_low):
        return ends
    return f"{ends} (simultaneous)"


def plain_interval(finding: Finding) -> str:
    """Write the 95 % interval of one question by itself, where a wider one is printed.

    Args:
        finding: the finding with its printed interval.

    Returns:
        The interval; blank where it is the printed one, or where there is none.
    """
    estimate = finding.estimate
    if finding.questions < 2 or math.isnan(estimate.ci_low):
        return ""
    return format_interval(replace(finding, estimate=intervals.at_level(estimate, terms.LEVEL)))


def covered_comparisons(finding: Finding) -> str:
    """Say for how much an interval and a p-value hold: ``3 questions``, ``11 rows``; blank for only the row.

    Args:
        finding: the finding with the number of questions of its family.
    """
    if finding.questions < 2:
        return ""
    if finding.primary:
        return f"{finding.questions} questions"
    return f"{finding.questions} rows"


def format_p_value(value: float) -> str:
    """Write a p-value, never as zero; a dash for NaN.

    Args:
        value: the value from 0 to 1, or NaN.
    """
    if value < 0.001:
        return "<0.001"
    return format_number(value)


def format_interval_p(finding: Finding) -> str:
    """Write the p-value that belongs to the interval.

    Args:
        finding: an answer has the p-value of all questions at once, any other that of its row alone.
    """
    if finding.primary or finding.questions > 1:
        return format_p_value(decision.adjusted_p(finding))
    return format_p_value(finding.estimate.p_value)


def format_unit_count(estimate: Estimate) -> str:
    """Write the number of units of an estimate, and in brackets those that were not scored.

    Args:
        estimate: the estimate with its counts.
    """
    if estimate.n_unscored:
        return f"{estimate.n} (+{estimate.n_unscored})"
    return str(estimate.n)


def value_with_interval(finding: Finding) -> str:
    """Write a value with its 95 % interval, and its bounds if answers are missing: ``+3.1 (−0.4 to +6.6)``.

    Args:
        finding: a finding of any measure.
    """
    written = finding_format(finding)
    text = written(finding.estimate.value)
    ends = format_interval(finding)
    has_interval = ends != "–"
    if has_interval and finding.questions > 1:
        text = f"{text} ({ends}, simultaneous)"
    elif has_interval:
        text = f"{text} ({ends})"
    if finding.measure == "mean" and finding.bounds:
        bounds = " to ".join(map(written, finding.bounds))
        text = f"{text}; {bounds} whatever was not answered"
    return text


def detectable_gap(gap: float, unit: Unit) -> str:
    """Say how large a gap must be to be found: ``has 80 % power for gaps of 3.3 points``.

    Args:
        gap: the gap for which a planned or a finished run has 80 % power, in the unit.
        unit: the unit of the scores.
    """
    return f"has 80 % power for gaps of {format_gap(gap, unit)}"
