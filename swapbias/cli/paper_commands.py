"""swapbias tables: the tables of papers, with runs beside the printed numbers."""

from pathlib import Path

from swapbias import hub, report, runs
from swapbias.cli import terminal as ui

_SMALL = 24  # lines of a table that is printed whole


def tables(
    places: ui.Runs,
    folder: ui.OutFolder = Path("swapbias-tables"),
) -> None:
    """Write the tables of a paper with your models in them.

    A line for each printed number, and one for each run beside it, as CSV, Markdown and LaTeX (booktabs).
    """
    results = [hub.find_run(place) for place in dict.fromkeys(places)]
    filled, paths = runs.write_tables(results, folder)
    for table in filled:
        if len(table.lines) <= _SMALL:
            ui.show_text(report.TABLE_FORMS["md"](table))
    for path in paths:
        ui.show(str(path))
