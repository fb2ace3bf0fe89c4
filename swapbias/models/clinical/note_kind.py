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
    """Which notes are read, and with what."""

    key: ClassVar[str] = "notes"

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

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        options = request.of(NoteOptions)
        own = experiment.reads.reading == "phenotype" and not options.trains
        models = (
            (options.classifier,) if own else options.embeddings or (base.TFIDF,) * options.trains
        )
        if found is not None:
            model = short_name(request.model)
            yield (
                "",
                f"it reads word vectors and encoders: name them with -M embedding instead of {model}",
            )
        elif not models:
            yield "", "it needs an -M embedding beside a classifier of your own"
        else:
            blind = "TF-IDF features have no vectors of words; name word vectors or an encoder with -M embedding"
            for model in models:
                yield (
                    model,
                    blind
                    if experiment.reads.reading == "direction" and model == base.TFIDF
                    else "",
                )

    def rows(self, experiment: Experiment) -> RowSource:
        if not experiment.reads.notes.corpus:
            return RowSource.PROMPTS
        return RowSource.VERSIONS if experiment.reads.reading == "gender" else RowSource.PAIRS

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        if request.of(NoteOptions).trains:
            need("A phenotype classifier", "sklearn", extra="clinical")

    def load(self, model: str, request: Request, *, say: Say = silent, **more: Any) -> Any:
        options = request.of(NoteOptions)
        if model == base.TFIDF:
            say(
                "No -M embedding is named: notes are read through TF-IDF and latent semantic analysis."
            )
        is_own = model == options.classifier and not options.trains
        load = (
            "clinical.phenotype:load_phenotype_classifier"
            if is_own
            else "clinical.features:load_features"
        )
        return imported(load)(model, options=request.load)

    def read(
        self,
        model: Any,
        experiment: Experiment,
        request: Request,
        *,
        corpus: str,
        training: Training,
    ) -> Scorer:
        options = request.of(NoteOptions)
        reader = model
        if experiment.reads.reading == "direction":
            tables = imported("clinical.word_direction:read_direction_tables")(corpus)
            reader = imported("clinical.word_direction:DirectionScorer")(
                model, tables, seed=request.seed
            )
        elif options.trains or experiment.reads.reading == "gender":
            classifier = options.classifier if options.trains else base.CLASSIFIERS[0]
            how = {
                "classifier": classifier,
                "target": "gender" if experiment.reads.reading == "gender" else "label",
            }
            make = imported("clinical.phenotype:PhenotypeScorer")
            reader = make(model, training=training, seed=request.seed, **how)
        scorer: Scorer = reader
        return scorer


EMBEDDING = Embedding()
