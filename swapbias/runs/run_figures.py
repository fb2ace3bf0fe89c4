"""Draw the figures of papers of finished runs, and write them to files."""

from collections.abc import Sequence
from pathlib import Path

from swapbias.errors import UsageError, listed, need
from swapbias.files import write_whole
from swapbias.privacy import writing
from swapbias.runs.results import Results, any_credentialed, as_public
from swapbias.runs.run_tables import models_of_runs
from swapbias.studies import paper


def write_paper_figures(
    results: Sequence[Results], folder: Path, *, kind: str
) -> tuple[list[Path], list[str]]:
    """Write the figures of the papers of the studies of runs.

    Args:
        results: finished runs; figures of credentialed ones are for the user alone.
        folder: the folder of the figures.
        kind: one of ``report.FORMATS``.

    Returns:
        The paths of the figures, and a sentence for each that is left out.

    Raises:
        UsageError: there is nothing to draw.
    """
    need("A figure", "matplotlib")
    from swapbias.report import draw_paper_figures

    public = [as_public(entry) for entry in results]
    studies = [*dict.fromkeys(finding.study for entry in public for finding in entry.found)]
    drawn = {}
    left_out = []
    for study in studies:
        declared = paper.load_paper(study).figures
        figures, sentences = draw_paper_figures(
            declared, study, models_of_runs(public, study), kind
        )
        drawn.update(figures)
        left_out += sentences
    if not drawn:
        reason = left_out[0] if left_out else f"{listed(studies)} declares none."
        raise UsageError(f"No figure of a paper can be drawn. {reason}")
    with writing(folder, credentialed=any_credentialed(results)):
        for name, content in drawn.items():
            write_whole(folder / f"{name}.{kind}", content)
    return [folder / f"{name}.{kind}" for name in drawn], left_out
