"""Sentences on a planned run: what it compares, the gap that it finds, and what smaller gaps take."""

import math
from collections.abc import Iterator, Sequence

from swapbias.errors import listed
from swapbias.findings import planned_spreads, planning, scored_rows
from swapbias.measures import Unit
from swapbias.report.claims import too_few_levels
from swapbias.report.finding_names import safe_line
from swapbias.report.numbers import (
    detectable_gap,
    format_chosen_gap,
    format_gap,
    format_number,
    unit_format,
)

# Columns for the names of random factors in a table.
_WIDEST = 24


def planned_counts(gaps: Sequence[planning.PlannedGap]) -> str:
    """Return the units of a planned gap: ``374 pairs, 17 templates x 22 diagnoses``; blank where there is none.

    Args:
        gaps: the gaps of one experiment.
    """
    if not gaps:
        return ""
    gap = gaps[0]
    noun = _unit_noun(gaps[0])
    over = " x ".join(f"{count:,} {name}" for name, count in gap.levels.items())
    counted = f"{len(gap.units.rows):,} {noun}"
    if [*gap.levels] == [noun]:
        return counted
    return f"{counted}, {over}"


def _unit_noun(gap: planning.PlannedGap) -> str:
    """Return the noun for the units of a planned gap: ``pairs``."""
    experiment = gap.units.context.experiment
    if scored_rows.ANSWERS in experiment.shows.rates:
        return "sentences"
    if gap.of_conditions:
        return "conditions"
    if experiment.comparison is None:
        return "prompts"
    return experiment.comparison.noun


def planned_power(gaps: Sequence[planning.PlannedGap]) -> str:
    """Say how large a gap must be to be found by a planned run: the end of a sentence, after what it compares.

    Args:
        gaps: the gaps of one experiment.
    """
    few = next((too_few_levels(gap.finding.estimate) for gap in gaps if gap.too_few), "")
    sizes = [gap.detectable for gap in gaps]
    is_unknown = not gaps or any(gap.unknown for gap in gaps)
    if is_unknown and few:
        return f"{few}; the gap that it could find is unknown before a run"
    if is_unknown or (not few and any(map(math.isnan, sizes))):
        return "the gap that it could find is unknown before a run"
    if few:
        return few
    if math.inf in sizes:
        return f"a run of this size cannot find any gap, not even one of {_whole(gaps[0].unit)}"
    ranked = sorted(zip(sizes, gaps, strict=True), key=lambda both: both[0])
    sharpest = ranked[0]
    bluntest = ranked[-1]
    text = detectable_gap(bluntest[0], bluntest[1].unit)
    least = format_gap(sharpest[0], sharpest[1].unit)
    if least in text:
        return text
    return f"{text}; for the most precise of {len(gaps)} comparisons, {least}"


def _whole(unit: Unit) -> str:
    """Return the largest gap that scores can have: ``100 points``."""
    return format_chosen_gap(unit.span, unit)


def planned_basis(gaps: Sequence[planning.PlannedGap]) -> Iterator[str]:
    """Yield which spreads are assumed, their source, and for how many questions at once; nothing where unknown.

    Args:
        gaps: the gaps of one experiment.
    """
    gap = next((gap for gap in gaps if gap.spreads is not None and not gap.unknown), None)
    if gap is None or gap.spreads is None:
        return
    assumed = f"Assumed: {_deviations(gap)}, as in {_source_of(gap.spreads)}"
    if gap.is_assumed_range and not gap.spreads.run:
        yield f"{assumed}, if scores lie between 0 and 1."
    else:
        yield f"{assumed}."
    if gap.finding.questions > 1:
        yield f"The interval covers the {gap.finding.questions} questions of this run at once."


def _source_of(spreads: planned_spreads.Spreads) -> str:
    """Return what spreads were computed from: a run, released outputs, or an audit by this project."""
    model = safe_line(spreads.model)
    if spreads.run:
        return f"{safe_line(spreads.run)} for {model}"
    if spreads.are_released:
        return f"the released outputs of {spreads.study} for {model}"
    return f"an audit of {model} by this project"


def _deviations(gap: planning.PlannedGap) -> str:
    """Return standard deviations by random factor: ``SD 4.2 points between templates, 11.5 between names, 3.5 left``.

    Those of scores without a range begin with their unit: ``SD of log-odds 0.52 between templates``.
    """
    if gap.spreads is None:
        return ""
    sds = gap.spreads.sds
    written = unit_format(gap.unit)
    parts: list[str] = []
    for name in gap.levels:
        size = format_number(written.scaled(sds[name]), digits=written.digits)
        if gap.unit.in_points and not parts:
            size = f"{size} points"
        parts.append(f"{size} between {name}")
    if sds[""]:
        parts.append(f"{format_number(written.scaled(sds['']), digits=written.digits)} left")
    if written.unit and not gap.unit.in_points:
        return f"SD of {written.unit} {', '.join(parts)}"
    return f"SD {', '.join(parts)}"


def planned_time(prompts: int, earlier: planned_spreads.EarlierRun) -> str:
    """Say how long prompts take at the speed of an earlier run; blank where that is not known.

    Args:
        prompts: their number.
        earlier: a finished run.
    """
    if math.isnan(earlier.seconds_a_prompt):
        return ""
    minutes = _minutes(prompts * earlier.seconds_a_prompt)
    noun = "minutes"
    if minutes in ("1", "under 1"):
        noun = "minute"
    speed = f"{earlier.seconds:,.0f} s for {earlier.rows:,} prompts"
    return f"Time: {minutes} {noun}, at the speed of {safe_line(earlier.name)} ({speed})."


def _minutes(seconds: float) -> str:
    """Return minutes, rounded up."""
    if seconds < 60:
        return "under 1"
    return f"{math.ceil(seconds / 60):,}"


def without_spreads(gaps: Sequence[planning.PlannedGap], run: str) -> str:
    """Say why the spreads of an earlier run are not used for these gaps; blank where they are.

    Args:
        gaps: the gaps of one experiment.
        run: name of the earlier run.
    """
    if all(gap.spreads is not None and gap.spreads.run for gap in gaps):
        return ""
    if any(gap.is_matched for gap in gaps):
        return f"{safe_line(run)} shows no spread of this gap: too little was scored, or nothing varies."
    return f"{safe_line(run)} has no such gap, so its spreads are not used here."


def unknown_spreads(gaps: Sequence[planning.PlannedGap]) -> str:
    """Say what is not known of these gaps before a run, and how to know it; blank where all is known.

    Those of an earlier run that shows no spread are left out: it has been said of them already.

    Args:
        gaps: the gaps of one experiment or several.
    """
    unknown = [gap for gap in gaps if gap.unknown and not gap.is_matched]
    names = dict.fromkeys(name for gap in unknown for name in gap.unknown if name)
    if not unknown:
        return ""
    step = "audit a part first (--limit 200), then plan again with --like RUN"
    if names:
        return f"Where the gap is unknown, no spread of {listed([*names])} is known: {step}."
    return f"Where the gap is unknown, no spread is known: {step}."


def planned_table(
    gaps: Sequence[planning.PlannedGap], prompts: int, seconds: float = math.nan
) -> Iterator[str]:
    """Yield the lines of a table: how many templates, names or pairs gaps of 2, 5 and 10 points need.

    Args:
        gaps: the gaps of one experiment; the table is about the one that is hardest to find.
        prompts: the number that its model reads, other wordings included.
        seconds: the seconds that a prompt takes; NaN where nobody knows.
    """
    if not gaps or not all(gap.is_known for gap in gaps):
        return
    gap = max(gaps, key=_hardness)
    sizes = gap.gaps()
    if not sizes:
        yield "Say the range of the scores (-M range=0,5) to see what other gaps need."
        return
    if gap.detectable == math.inf:
        yield _needed_sentence(gap)
    names = [*gap.design.factors]
    header = ["to find a gap of", *(safe_line(name, _WIDEST) for name in names), "prompts"]
    if not math.isnan(seconds):
        header.append("minutes")
    lines = [header]
    for size in sizes:
        cells = _cells(gap.needed(size), names, prompts, seconds)
        lines.append([format_chosen_gap(size, gap.unit), *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "   ".join(["", *cells]).rstrip()


def _hardness(gap: planning.PlannedGap) -> float:
    """Return the gap that a run detects; infinity where that is not known."""
    if math.isnan(gap.detectable):
        return math.inf
    return gap.detectable


def _cells(row: planning.Needed, names: Sequence[str], prompts: int, seconds: float) -> list[str]:
    """Return the cells behind a gap: levels of each factor, prompts and, where the speed is known, minutes."""
    count = math.ceil(prompts * row.times)
    cells = [*(f"{row.levels[name]:,}" for name in names), f"{count:,}"]
    if not math.isnan(seconds):
        cells.append(_minutes(count * seconds))
    if not row.is_found:
        cells = [f"> {cell}" for cell in cells]
    return cells


def _needed_sentence(gap: planning.PlannedGap) -> str:
    """Say how many levels find at least the largest gap there is."""
    largest = gap.needed(gap.unit.span)
    counts = " x ".join(f"{count:,} {name}" for name, count in largest.levels.items())
    whole = _whole(gap.unit)
    if largest.is_found:
        return f"At least {counts} are needed to find a gap of {whole}."
    return f"More than {counts} are needed to find a gap of {whole}."
