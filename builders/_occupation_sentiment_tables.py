"""Tables 1 and 2 of Bhaskaran & Bhallamudi 2019, which no single finding fills."""

import math
from collections.abc import Mapping, Sequence

from swapbias.builders._paper_lines import (
    NOTHING,
    find_finding,
    published_by_model,
    put_beside,
    write_number,
)
from swapbias.findings import Finding
from swapbias.measures import group_gap
from swapbias.studies.corpus import CalculatedTable
from swapbias.studies.paper import PaperRun

NAME = "occupation_sentiment"
GAP = "female - male"
_LEVEL = 0.01
_ENDS = 3
_HEADS_1 = ["accuracy", "F - M", "p", "p, not paired", 'F - M, "person"']
_HEADS_2 = ["highest mean", "lowest mean", "highest F - M", "lowest F - M"]


def compare_models(runs: Sequence[PaperRun]) -> CalculatedTable:
    """Calculate Table 1: accuracy on the development sentences, and women minus men with stars.

    A p-value of a run is Bonferroni's: times the number of models in the table. Those of the paper are as printed.

    Args:
        runs: the models of runs.
    """
    published = [
        [title, origin, *cells]
        for title, origin, rows in published_by_model(NAME)
        if (cells := _published_comparison(rows))
    ]
    with_gap = [run for run in runs if find_finding(run, "paired_gap", **_of_sentences())]
    family = len({line[0] for line in published} | {run.title for run in with_gap})
    lines = [[run.title, run.label, *_comparison_of_run(run, family)] for run in with_gap]
    return CalculatedTable(["model", "numbers", *_HEADS_1], put_beside(published, lines))


def list_professions(runs: Sequence[PaperRun]) -> CalculatedTable:
    """Calculate Table 2: the professions at both ends, by their mean and by women minus men.

    Args:
        runs: the models of runs; of each three professions at an end.
    """
    published = [
        [title, origin, *cells]
        for title, origin, rows in published_by_model(NAME)
        if (cells := _published_professions(rows))
    ]
    lines = [[run.title, run.label, *cells] for run in runs if (cells := _professions_of_run(run))]
    return CalculatedTable(["model", "numbers", *_HEADS_2], put_beside(published, lines))


def _of_sentences() -> dict[str, str]:
    return {"experiment": "sentences", "contrast": GAP}


def _published_comparison(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the published cells of Table 1; nothing where a model has none of them."""
    texts = {
        (row["experiment"], row["measure"], quantity): row[quantity]
        for row in rows
        if row["slice_by"] == "all"
        for quantity in ("value", "p_value")
        if row[quantity]
    }
    accuracy = texts.get(("sentences", "dev_accuracy", "value"), "")
    gap = texts.get(("sentences", "paired_gap", "value"), "")
    p_value = texts.get(("sentences", "paired_gap", "p_value"), "")
    unpaired = texts.get(("sentences", "unpaired_gap", "p_value"), "")
    control = texts.get(("control", "paired_gap", "value"), "")
    is_starred = gap and p_value and float(p_value.removeprefix("<")) <= _LEVEL
    cells = [accuracy, f"{gap}*" if is_starred else gap, p_value, unpaired, control]
    return [cell or NOTHING for cell in cells] if any(cells) else []


def _comparison_of_run(run: PaperRun, family: int) -> list[str]:
    """Return the cells of Table 1 of a run."""
    gap = find_finding(run, "paired_gap", **_of_sentences())
    control = find_finding(run, "paired_gap", experiment="control", contrast=GAP)
    corrected = _times(gap.estimate.p_value if gap else math.nan, family)
    star = "*" if corrected < _LEVEL else ""
    unpaired = _times(unpaired_p(run), family)
    return [
        write_number(_accuracy(run), 4),
        _written_value(gap, 3) + star,
        _written_p(corrected),
        _written_p(unpaired),
        _written_value(control, 3),
    ]


def _times(p_value: float, family: int) -> float:
    """Correct a p-value by the number of tests; NaN stays."""
    corrected = p_value * family
    return 1.0 if corrected > 1 else corrected


def unpaired_p(run: PaperRun) -> float:
    """Calculate p of the t-test that does not pair the sentences; NaN without scores that differ.

    Args:
        run: the model of a run.
    """
    if run.rows is None:
        return math.nan
    rows = run.rows[run.rows["experiment"] == "sentences"]
    rows = rows[rows["group"].isin(["female", "male"])]
    if rows["group"].nunique() < 2:
        return math.nan
    gap = group_gap(rows["score"], rows["group"].tolist(), reference_group="male", test="t")
    return gap.p_value


def _accuracy(run: PaperRun) -> float:
    """Return the accuracy of a trained model on its development sentences; NaN of any that has none."""
    accuracy = run.pin.get("dev_accuracy")
    return accuracy if isinstance(accuracy, float) else math.nan


def _written_value(finding: Finding | None, decimals: int) -> str:
    return write_number(finding.estimate.value if finding else math.nan, decimals)


def _written_p(p_value: float) -> str:
    """Write a p-value with two digits, small ones as the paper's."""
    return NOTHING if math.isnan(p_value) else f"{p_value:.2g}"


def _published_professions(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the published cells of Table 2: of means the upper half is high, of gaps those above zero."""
    of_professions = [row for row in rows if row["slice_by"] == "profession" and row["slice_value"]]
    texts: dict[str, list[tuple[str, str]]] = {"mean": [], "paired_gap": []}
    for row in of_professions:
        if row["measure"] in texts:
            texts[row["measure"]].append((row["slice_value"], row["value"]))
    means = sorted(texts["mean"], key=lambda part: -float(part[1]))
    gaps = sorted(texts["paired_gap"], key=lambda part: -float(part[1]))
    half = len(means) // 2
    ends = [
        means[:half],
        means[half:][::-1],
        [part for part in gaps if float(part[1]) > 0],
        [part for part in gaps if float(part[1]) < 0][::-1],
    ]
    return [_joined(end) for end in ends] if any(ends) else []


def _professions_of_run(run: PaperRun) -> list[str]:
    """Return the cells of Table 2 of a run: three professions at each end, none where all are alike."""
    professions = dict.fromkeys(
        finding.slice_value for finding in run.findings if finding.slice_by == "profession"
    )
    cells = []
    for measure, contrast, decimals in (("mean", "all", 2), ("paired_gap", GAP, 3)):
        key = {"experiment": "sentences", "contrast": contrast, "slice_by": "profession"}
        values = [
            (name, finding.estimate.value)
            for name in professions
            if (finding := find_finding(run, measure, slice_value=name, **key))
            and math.isfinite(finding.estimate.value)
        ]
        values.sort(key=lambda part: -part[1])
        is_flat = len({value for _, value in values}) < 2
        parts = [] if is_flat else [(name, write_number(value, decimals)) for name, value in values]
        cells += [_joined(parts[:_ENDS]), _joined(parts[::-1][:_ENDS])]
    return cells if any(cell != NOTHING for cell in cells) else []


def _joined(parts: Sequence[tuple[str, str]]) -> str:
    """Write professions with their numbers; a dash for none."""
    return ", ".join(f"{name} {text}" for name, text in parts) or NOTHING
