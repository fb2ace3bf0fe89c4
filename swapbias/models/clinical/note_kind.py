"""The kind of models that read clinical notes: embeddings with a classifier trained on them, or the user's own."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

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
from swapbias.studies import Experiment


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NoteOptions(Options):
    """Settings of the notes that are read, and of the models that read them."""

    key: ClassVar[str] = "notes"
    """The name of these settings in files and manifests."""

    embeddings: Annotated[Places, Use(option="embedding", place=True, words=(base.TFIDF,))] = ()
    """Word vectors (file) or encoder (Hub id, folder); may be repeated."""
    classifier: Annotated[Place, Use(place=True, words=base.CLASSIFIERS)] = base.CLASSIFIERS[0]
    """svm, rf or mlp, trained here; or your own: file, folder, Hub id, module:function."""
    data: Annotated[Place | None, Use(place=True)] = None
    """Your notes: MIMIC-III folder, CSV, JSON lines, Parquet; none: synthetic notes."""
    splits: Annotated[int, Field(ge=1)] = 1
    """Train/test splits by subject, each with the next seed and a classifier trained on it."""
    table: Literal["resolved", "paper", "published"] = "resolved"
    """Words that are swapped: by context, as the paper lists them, or as its code does (one way, bare F and M)."""
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


class NoteKind(Kind):
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
        self, experiment: Experiment, request: Request, model_kind: str | None
    ) -> Iterator[Fit]:
        """Find the embeddings, or the user's classifier, that read an experiment, or why none does.

        Args:
            experiment: an experiment of this kind, on notes or on words.
            request: settings, which name the embeddings and the classifier.
            model_kind: the kind of ``request.model``; None: no model is named.

        Yields:
            Models that read it, or that do not with the reason; or only the reason.
        """
        if model_kind is not None:  # the user named a model, which can only be of another kind
            model = short_name(request.model)
            yield Fit(
                why_not=f"it reads word vectors and encoders: name them with -M embedding instead of {model}"
            )
            return
        models = _models_for(experiment, request.of(NoteOptions))
        if not models:
            yield Fit(why_not="it needs an -M embedding beside a classifier of your own")
        for model in models:
            if experiment.reads.reading == "direction" and model == base.TFIDF:
                yield Fit(
                    model,
                    "TF-IDF features have no vectors of words; name word vectors or an encoder with -M embedding",
                )
            else:
                yield Fit(model)

    def rows(self, experiment: Experiment) -> RowSource:
        """Return which rows an experiment reads.

        Args:
            experiment: an experiment of this kind, on notes or on words.

        Returns:
            Prompts for words; for notes, note pairs, or note versions where the gender is predicted.
        """
        if not experiment.reads.notes.corpus:
            return RowSource.PROMPTS
        return RowSource.VERSIONS if experiment.reads.reading == "gender" else RowSource.PAIRS

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        """Raise a MissingExtraError where a classifier is trained and scikit-learn is missing.

        Args:
            model: name of an embedding or a classifier; it makes no difference.
            experiment: the experiment to read; it makes no difference.
            request: settings, which name the classifier.
        """
        if request.of(NoteOptions).trains:
            need("A phenotype classifier", "sklearn", extra="clinical")

    def load(self, model: str, request: Request, *, say: Say = silent, **unused: Any) -> Any:
        """Load features, or the user's classifier.

        Args:
            model: name of an embedding, or ``module:function``, file, folder or Hub id of a classifier.
            request: settings of loading.
            say: called with a sentence for the user where no embedding is named.
            unused: a progress bar, which is not needed here.

        Returns:
            ``Features`` or a ``ClassifierScorer``.
        """
        options = request.of(NoteOptions)
        if model == base.TFIDF:
            say(
                "No -M embedding is named: notes are read through TF-IDF and latent semantic analysis."
            )
        # Imported here: listing the studies needs neither torch nor scikit-learn.
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
            model: the loaded model, as ``load`` returns it.
            experiment: an experiment of this kind, on notes or on words.
            request: settings, which name the classifier and the seed.
            corpus: name of the corpus with the word tables of a gender direction.
            training: called with phenotype and regime; returns the notes that a classifier is trained on.

        Returns:
            A scorer of words, a scorer that trains classifiers, or the user's classifier as it is.
        """
        options = request.of(NoteOptions)
        reading = experiment.reads.reading
        if reading == "direction":
            tables = imported("clinical.word_direction:read_direction_tables")(corpus)
            make = imported("clinical.word_direction:DirectionScorer")
            return cast("Scorer", make(model, tables, seed=request.seed))
        if not options.trains and reading != "gender":
            return cast("Scorer", model)
        make = imported("clinical.phenotype:PhenotypeScorer")
        # A classifier of the user's own predicts phenotypes: for the gender the usual one is trained instead.
        classifier = options.classifier if options.trains else base.CLASSIFIERS[0]
        target = "gender" if reading == "gender" else "label"
        scorer = make(
            model, classifier=classifier, training=training, seed=request.seed, target=target
        )
        return cast("Scorer", scorer)


def _models_for(experiment: Experiment, options: NoteOptions) -> tuple[str, ...]:
    """Return the models that read an experiment: the user's classifier, or the named embeddings, or TF-IDF."""
    if experiment.reads.reading == "phenotype" and not options.trains:
        return (options.classifier,)
    if options.embeddings:
        return options.embeddings
    return (base.TFIDF,) if options.trains else ()


NOTE_KIND = NoteKind()
