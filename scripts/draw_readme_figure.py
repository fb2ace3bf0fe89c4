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
    released = next(
        one for one in load_corpus(NAME).released if (one.model, one.experiment) == (MODEL, "rq1")
    )
    rows = released.rows({path: upstream_file(NAME, path) for path in released.files})
    found = disaggregate(pd.DataFrame([{**row, "model_id": MODEL} for row in rows]), NAME)
    (Path(__file__).parent.parent / "docs" / f"{FIGURE}.png").write_bytes(
        draw_figures(found, "png")[FIGURE]
    )


if __name__ == "__main__":
    main()
