"""The kind of models that read clinical notes and words: embeddings, and phenotype classifiers on them or instead."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from swapbias.errors import need
from swapbias.models import base
from swapbias.models.base import Request, Training
from swapbias.models.kind import Fit, Kind, Reading, RowSource, imported
from swapbias.models.model_names import short_name
from swapbias.models.options import STRICT, Options, Place, Places, Use
from swapbias.models.progress import Say, silent
from swapbias.models.scorer import Scorer
from swapbias.studies import (
    Experiment,
)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NoteOptions(Options):
    """Settings of the notes that are read, and of what reads them."""

    key: ClassVar[str] = "notes"
    """The name of these settings in files and manifests."""

    embeddings: Annotated[Places, Use(option="embedding", place=True, words=(base.TFIDF,))] = ()
    """Word vectors (file) or encoder (Hub id, folder); may be repeated."""
    classifier: Annotated[Place, Use(place=True, words=base.CLASSIFIERS)] = base.CLASSIFIERS[0]
    """svm, rf or mlp, trained here; or your own: file, folder, Hub id, module:function."""
    data: Annotated[Place | None, Use(place=True)] = None
    """Your notes: MIMIC-III folder, CSV, JSON lines, Parquet; none: synthetic notes."""
    plausible: bool = False
    """Leave notes with gender-specific clinical terms out."""
    max_doubt: Annotated[float | None, Field(ge=0, le=1)] = None
    """Doubt of a swap above which one row of sensitivity leaves a note out; none: the median."""
    explain: Annotated[int, Field(ge=0)] = 3
    """Notes of each phenotype explained word by word (LIME); 0 for none."""
    question: str | None = None
    """Question to a chat model about a note: yes is the label 1."""
    checklist: Annotated[Place | None, Use(place=True)] = None
    """Facts that its summary should keep: note_id, fact, terms (CSV)."""

    @property
    def trains(self) -> bool:
        """True where the classifier is trained here; False for one of the user's own."""
        return self.classifier in base.CLASSIFIERS


class Embedding(Kind):
    """Word vectors and encoders, named with ``-M embedding``; a classifier of the user's, with ``-M classifier``."""

    name = "embedding"
    title = "Clinical notes (word vectors, encoders)"
    options = NoteOptions
    readings: Mapping[str, Reading] = {
        "phenotype": Reading({"score": "probability of the phenotype"}),
        "gender": Reading({"score": "probability of female"}),
        "direction": Reading({"score": "cosine with the gender direction"}),
    }
    """The ways to read its models by the name that experiments declare."""

    def fits(
        self, experiment: Experiment, request: Request, kind_name: str | None
    ) -> Iterator[Fit]:
        """Yield the embeddings, or the user's classifier, that read an experiment, or why none does.

        Args:
            experiment: of clinical notes or of words.
            request: names the embeddings and the classifier.
            kind_name: the kind of ``request.model``; None: no model is named.

        Yields:
            A model and why it does not fit, blank where it does.
        """
        if kind_name is not None:
            model = short_name(request.model)
            yield (
                "",
                f"it reads word vectors and encoders: name them with -M embedding instead of {model}",
            )
            return
        models = _models_for(experiment, request.of(NoteOptions))
        if not models:
            yield "", "it needs an -M embedding beside a classifier of your own"
        for model in models:
            if experiment.reads.reading == "direction" and model == base.TFIDF:
                yield (
                    model,
                    "TF-IDF features have no vectors of words; name word vectors or an encoder with -M embedding",
                )
            else:
                yield model, ""

    def rows(self, experiment: Experiment) -> RowSource:
        """Return which rows an experiment reads.

        Args:
            experiment: of clinical notes or of words.

        Returns:
            Prompts, notes in both genders, or notes as they are and neutralised.
        """
        if not experiment.reads.notes.corpus:
            return RowSource.PROMPTS
        return RowSource.VERSIONS if experiment.reads.reading == "gender" else RowSource.PAIRS

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        """Raise a MissingExtraError where a classifier is trained and scikit-learn is missing.

        Args:
            model: an embedding or classifier.
            experiment: that it reads.
            request: names the classifier.
        """
        if request.of(NoteOptions).trains:
            need("A phenotype classifier", "sklearn", extra="clinical")

    def load(self, model: str, request: Request, *, say: Say = silent, **unused: Any) -> Any:
        """Load features, or the user's classifier.

        Args:
            model: an embedding, or ``module:function``, file, folder or Hub id of a classifier.
            request: says how it is loaded.
            say: called with a sentence where no embedding is named.
            unused: a bar, which is not needed here.

        Returns:
            ``Features`` or a ``ClassifierScorer``.
        """
        options = request.of(NoteOptions)
        if model == base.TFIDF:
            say(
                "No -M embedding is named: notes are read through TF-IDF and latent semantic analysis."
            )
        if model == options.classifier and not options.trains:
            load = imported("clinical.phenotype:load_phenotype_classifier")
        else:
            load = imported("clinical.feature_loading:load_features")
        return load(model, options=request.load)

    def read(
        self,
        model: Any,
        experiment: Experiment,
        request: Request,
        *,
        corpus: str,
        training: Training,
    ) -> Scorer:
        """Return the scorer that reads an experiment with loaded features or a classifier.

        Args:
            model: as ``load`` returns it.
            experiment: of clinical notes or of words.
            request: names the classifier and the seed.
            corpus: whose tables a direction is made from.
            training: gives the notes that a classifier is trained on.

        Returns:
            A scorer of words, of trained classifiers, or the user's classifier as it is.
        """
        options = request.of(NoteOptions)
        reading = experiment.reads.reading
        if reading == "direction":
            tables = imported("clinical.word_direction:read_direction_tables")(corpus)
            make = imported("clinical.word_direction:DirectionScorer")
            directions: Scorer = make(model, tables, seed=request.seed)
            return directions
        if not options.trains and reading != "gender":
            classifier: Scorer = model
            return classifier
        make = imported("clinical.phenotype:PhenotypeScorer")
        trained: Scorer = make(
            model,
            classifier=options.classifier if options.trains else base.CLASSIFIERS[0],
            training=training,
            seed=request.seed,
            target="gender" if reading == "gender" else "label",
        )
        return trained


def _models_for(experiment: Experiment, options: NoteOptions) -> tuple[str, ...]:
    """Return the models that read an experiment: the user's classifier, or the embeddings that are named."""
    if experiment.reads.reading == "phenotype" and not options.trains:
        return (options.classifier,)
    if options.embeddings:
        return options.embeddings
    return (base.TFIDF,) if options.trains else ()


EMBEDDING = Embedding()
