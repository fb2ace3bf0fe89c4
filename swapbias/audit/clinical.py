"""What an audit of phenotyping needs: labelled notes, test rows in every regime, and readers of embeddings."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapbias.notes import PHENOTYPES, Notes, kind_of_folder, local_notes, with_genders
from swapbias.privacy import is_credentialed
from swapbias.scorers import LoadOptions, Scorer
from swapbias.studies import Experiment, Published, config_rows, published_for
from swapbias.swapping import Swapper

CLASSIFIERS = ("svm", "rf", "mlp")  # trained here; any other name is a classifier of the user's
AS_TRAINED = "as trained"  # the regime of a classifier that was trained elsewhere
TFIDF = "tfidf-lsa"
PLANTED_LEAK = "planted leak"  # the source of a number that was planted in synthetic notes
_TEST_SHARE = 3  # one subject in so many, where own notes name no split


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSettings:
    """The part of an audit's settings that phenotyping reads.

    Attributes:
        embeddings: files of word vectors, encoders, ``NAME=PATH``; none: TF-IDF features.
        classifier: ``svm``, ``rf``, ``mlp``, or a classifier of the user's.
        data: a folder of notes; None: the synthetic ones.
        plausible: leave notes with gender-specific clinical terms out of the tests.
    """

    embeddings: tuple[str, ...] = ()
    classifier: str = CLASSIFIERS[0]
    data: str | None = None
    plausible: bool = False

    @property
    def given(self) -> bool:
        """Whether anything was asked for."""
        return self != NoteSettings()

    @property
    def trains(self) -> bool:
        """Whether classifiers are trained here."""
        return self.classifier in CLASSIFIERS

    def models(self, experiment: Experiment) -> tuple[str, ...]:
        """The models that an experiment reads: the user's classifier, or every embedding."""
        if experiment.reading == "phenotype" and not self.trains:
            return (self.classifier,)
        return self.embeddings or ((TFIDF,) if self.trains else ())

    def misfit(self, experiment: Experiment, model: str) -> str:
        """Why an experiment cannot read a model; blank where it can."""
        if experiment.reading == "direction" and model == TFIDF:
            return "TF-IDF features have no vectors of words; name word vectors or an encoder with --embedding"
        return ""


def load_notes(settings: NoteSettings, seed: int) -> Notes:
    """The notes to audit with, every one with its gender where the text tells it.

    Raises:
        UsageError: nothing in the folder that can be read. ValueError: broken notes.
    """
    swapper = Swapper()
    if settings.data is None:
        rows: list[dict[str, str]] = [
            row for phenotype in PHENOTYPES for row in config_rows("clinical_notes", f"{phenotype}-original")
        ]
        return Notes("synthetic", tuple(rows), swapper, settings.plausible)
    folder = Path(settings.data)
    rows = with_genders(local_notes(folder, seed=seed), swapper)
    if is_credentialed(folder):
        rows = [{**row, "credentialed": "True"} for row in rows]
    if settings.trains and not any(row["split"] == "train" for row in rows):
        rows = _split(rows, seed)
    return Notes(kind_of_folder(folder), tuple(rows), swapper, settings.plausible)


def _split(rows: Sequence[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """Own notes without a split: a third of the subjects are for testing, drawn by the seed."""
    subjects = sorted({row["subject_id"] for row in rows})
    random.Random(f"{seed}/split").shuffle(subjects)
    tested = set(subjects[::_TEST_SHARE])
    return [{**row, "split": "test" if row["subject_id"] in tested else "train"} for row in rows]


def note_rows(
    experiment: Experiment, notes: Notes, pairs: Sequence[dict[str, str]], trains: bool
) -> list[dict[str, str]]:
    """The prompts of an experiment: each test pair once a regime, or each test note as written and neutralised."""
    if experiment.reading == "gender":
        wanted = {pair["pair_id"] for pair in pairs}
        return [{**row, "experiment": experiment.name, "prompt_id": _in(row)} for row in notes.versions(wanted)]
    regimes = experiment.regimes if trains else (AS_TRAINED,)
    rows = [{**row, "construct": regime, "experiment": experiment.name} for regime in regimes for row in pairs]
    return [{**row, "prompt_id": _in(row)} for row in rows]


def _in(row: dict[str, str]) -> str:
    return f"{row['prompt_id']}/{row['construct']}"


def load_note_model(model: str, settings: NoteSettings, options: LoadOptions, say: Any) -> Any:
    """Features of an embedding, or the user's classifier.

    Raises:
        UsageError, ValueError: it cannot be loaded, in one sentence.
    """
    if model == settings.classifier and not settings.trains:
        from swapbias.scorers.notes import load_phenotype_classifier

        return load_phenotype_classifier(model, options=options, say=say)
    from swapbias.scorers.notes import load_features

    if model == TFIDF:
        say("No --embedding is named: notes are read through TF-IDF and latent semantic analysis.")
    return load_features(model, options=options, say=say)


def note_reader(model: Any, experiment: Experiment, notes: Notes | None, settings: NoteSettings, seed: int) -> Scorer:
    """The scorer that reads an experiment with a model of ``load_note_model``."""
    if experiment.reading == "direction":
        from swapbias.scorers.notes import DirectionScorer, read_direction_tables

        return DirectionScorer(model, read_direction_tables(), seed=seed)
    if not settings.trains and experiment.reading == "phenotype":
        own: Scorer = model
        return own
    from swapbias.scorers.notes import PhenotypeScorer

    classifier = settings.classifier if settings.trains else CLASSIFIERS[0]
    target = "gender" if experiment.reading == "gender" else "label"
    training = notes.training if notes else (lambda phenotype, regime: [])
    return PhenotypeScorer(model, classifier=classifier, training=training, seed=seed, target=target)


def expected_numbers(study: str, notes: Notes | None, model: str) -> dict[tuple[str, ...], Published] | None:
    """What to hold findings against: of MIMIC-III the paper's numbers, of synthetic notes the planted leak.

    None: whatever was published for the model; the paper's numbers say nothing of a user's own notes.
    """
    if notes is None:
        return None
    if notes.name == "mimic3":
        return published_for(study, model.partition("+")[0])
    return _planted(notes) if notes.name == "synthetic" else {}


def _planted(notes: Notes) -> dict[tuple[str, ...], Published]:
    """The share of test notes whose label hangs on the gender alone: what a perfect learner of them flips on."""
    found: dict[tuple[str, ...], Published] = {}
    for phenotype in notes.phenotypes:
        tests = [note for note in notes.rows if (note["phenotype"], note["split"]) == (phenotype, "test")]
        share = sum(note["planted"] == "leak" for note in tests) / len(tests)
        key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", phenotype)
        found[key] = Published(value=f"{share:.3f}", source=PLANTED_LEAK)
    return found
