"""Train a classifier on your clinical notes, then on the same notes in both genders, and audit both.

    python examples/own_notes.py --train train.csv --test test.csv --out classifiers

Both files have the columns ``text`` and ``label`` (1 or 0). Everything stays on this machine. Models and runs lie in
``--out``, as files that your account alone can read; the folder is marked where the notes are credentialed. A gap is
the mean change of the predicted probability when the patient's gender is swapped.
"""

import argparse
from pathlib import Path

import pandas as pd
import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import swapbias
from swapbias.privacy import for_owner_alone, is_credentialed, writing
from swapbias.swapping import Swapper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, help="a CSV file with the columns text and label")
    parser.add_argument("--test", required=True, help="a CSV file with the same columns")
    parser.add_argument("--out", type=Path, required=True, help="the folder of models and runs")
    settings = parser.parse_args()

    of_patients = is_credentialed(Path(settings.train)) or is_credentialed(Path(settings.test))
    with for_owner_alone(True), writing(settings.out, of_patients):
        train_and_audit(settings.train, settings.test, settings.out)


def train_and_audit(train: str, test: str, out: Path) -> None:
    """Train on notes as written and on both genders, and print the gap of each classifier."""
    notes = pd.read_csv(train)
    swapped = notes.assign(text=Swapper().swap(notes["text"]))
    trainings = {"as written": notes, "both genders": pd.concat([notes, swapped])}
    for name, training in trainings.items():
        path = out / f"{name.replace(' ', '_')}.skops"
        model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(max_iter=1_000))
        skops.io.dump(model.fit(training["text"], training["label"]), path)
        run = swapbias.audit(
            studies="phenotype_fairness",
            data=test,
            classifier=str(path),
            out=out / f"run_{path.stem}",
            progress=False,
        )
        for gap in run.primary.itertuples():
            print(
                f"{name}: {gap.contrast} {gap.value:+.4f} ({gap.ci_low:+.4f} to {gap.ci_high:+.4f}), "
                f"{gap.verdict}"
            )


if __name__ == "__main__":
    main()
