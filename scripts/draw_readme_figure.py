"""Draw the pictures of the docs: python scripts/draw_readme_figure.py [report|levels].

``report`` is docs/report.png, the first screen of a page; it needs chromium. ``levels`` is the figure of
docs/published.md, from the authors' released outputs (SWAPBIAS_UPSTREAM or the network).
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from swapbias.findings import disaggregate
from swapbias.report import draw_figures
from swapbias.studies import load_corpus
from swapbias.studies.tables import upstream_file

NAME = "gendered_stigma"
MODEL = "roberta-large"
FIGURE = "gendered_stigma-rq1-phase-levels"
DOCS = Path(__file__).parent.parent / "docs"
SCREEN = "1100,785"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def draw_levels() -> None:
    """Write docs/<figure>.png."""
    (outputs,) = [
        outputs
        for outputs in load_corpus(NAME).released
        if (outputs.model, outputs.experiment) == (MODEL, "rq1")
    ]
    rows = outputs.rows({path: upstream_file(NAME, path) for path in outputs.files})
    findings = disaggregate(pd.DataFrame([{**row, "model_id": MODEL} for row in rows]), NAME)
    (DOCS / f"{FIGURE}.png").write_bytes(draw_figures(findings, "png")[FIGURE])


def draw_report() -> None:
    """Write docs/report.png: the first screen of ``swapbias audit --study gendered_stigma:rq1``."""
    browser = next(path for path in map(shutil.which, BROWSERS) if path)
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = ["audit", "--study", f"{NAME}:rq1", "--out", str(run)]
        subprocess.run([sys.executable, "-m", "swapbias", *command], check=True)
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                f"--user-data-dir={folder}/browser",
                f"--window-size={SCREEN}",
                f"--screenshot={DOCS / 'report.png'}",
                f"file://{run / 'report.html'}",
            ],
            check=True,
        )


if __name__ == "__main__":
    pictures = {"report": draw_report, "levels": draw_levels}
    for name in sys.argv[1:] or pictures:
        pictures[name]()
