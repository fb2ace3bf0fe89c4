"""Draw the figure of docs/published.md from the authors' released outputs: python scripts/draw_readme_figure.py."""

from pathlib import Path

import pandas as pd

from swapbias.findings import disaggregate
from swapbias.report import draw_figures
from swapbias.studies import load_corpus
from swapbias.studies.tables import upstream_file

NAME = "gendered_stigma"
MODEL = "roberta-large"
FIGURE = "gendered_stigma-rq1-phase-levels"


def main() -> None:
    """Write docs/<figure>.png; needs the released outputs (SWAPBIAS_UPSTREAM or the network)."""
    (outputs,) = [
        outputs
        for outputs in load_corpus(NAME).released
        if (outputs.model, outputs.experiment) == (MODEL, "rq1")
    ]
    rows = outputs.rows({path: upstream_file(NAME, path) for path in outputs.files})
    findings = disaggregate(pd.DataFrame([{**row, "model_id": MODEL} for row in rows]), NAME)
    picture = Path(__file__).parent.parent / "docs" / f"{FIGURE}.png"
    picture.write_bytes(draw_figures(findings, "png")[FIGURE])


if __name__ == "__main__":
    main()
