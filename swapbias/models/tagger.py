"""The kind of models that label words: token classifiers for named entities and de-identification."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic.dataclasses import dataclass

from swapbias.models.base import Labels, Request, Training
from swapbias.models.kind import Kind, Reading
from swapbias.models.options import STRICT, Options, Use
from swapbias.models.person_labels import split_labels
from swapbias.models.scorer import Scorer
from swapbias.studies import Experiment

FOUND = "share of names found"
COVERED = "share of a name's letters found"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TaggerOptions(Options):
    """Settings of models that label words."""

    key: ClassVar[str] = "tagger"
    """The table of files and manifests that has these settings."""

    person: Labels = None
    """Labels that mean a person, commas between them; none: PER, PERSON, NAME, PATIENT and the like."""
    pieces: Annotated[Literal["first", "each"], Use()] = "first"
    """What labels a word of several pieces: its first piece, or each piece its own letters."""


class Tagger(Kind):
    """Token classifiers of transformers, and Python functions that return the spans that they find."""

    name = "tagger"
    title = "Token classifiers that find names (NER, de-identification)"
    scorer = "tag_scorer:TokenTagScorer"
    function_scorer = "tag_scorer:FunctionTagScorer"
    options = TaggerOptions
    architectures = ("ForTokenClassification",)
    own_texts = "Ask it about names in texts that a run may keep: swapbias study new FOLDER --template tagger."
    readings: Mapping[str, Reading] = {"": Reading({"score": FOUND, "covered": COVERED})}
    """The ways to read its models by the name that experiments declare, blank for the usual one."""

    def read(
        self,
        model: Any,
        experiment: Experiment,
        request: Request,
        *,
        corpus: str,
        training: Training,
    ) -> Scorer:
        """Return the scorer that knows which labels mean a person.

        Args:
            model: a model that ``load`` returned.
            experiment: what is read.
            request: settings of the model.
            corpus: name of the corpus whose rows are read.
            training: not read.

        Raises:
            UsageError: No label of the model is known to mean a person.
        """
        scorer = super().read(model, experiment, request, corpus=corpus, training=training)
        options = request.of(TaggerOptions)
        if not hasattr(scorer, "finding"):  # a scorer of the user's own
            return scorer
        configured: Scorer = scorer.finding(split_labels(options.person), pieces=options.pieces)
        return configured.reading_in(experiment.compares.unit)


TAGGER = Tagger()
