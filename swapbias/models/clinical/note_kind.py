"""The kind of models that read clinical notes and words: embeddings, and phenotype classifiers on them or instead."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from swapbias.errors import UsageError, need
from swapbias.models import base
from swapbias.models.base import Request, Say, Training, short_name
from swapbias.models.kind import Fit, Kind, Reading, imported
from swapbias.models.options import STRICT, Options, Place, Places, Use
from swapbias.models.scorer import Scorer, silent
from swapbias.studies import (
    Candidate,
    Experiment,
    Row,
    conversation,
    corpus_dir,
    facts_of,
    fill,
    read_checklist,
    read_table,
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

    def rows(self, experiment: Experiment) -> str:
        if not experiment.reads.notes.corpus:
            return base.PROMPTS
        return base.VERSIONS if experiment.reads.reading == "gender" else base.PAIRS

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


def note_conversations(
    rows: Sequence[Row], task: str, options: NoteOptions, *, prompts_of: str, facts: bool = False
) -> list[Row]:
    """Notes as conversations with the options or ``facts`` that answers are read by; UsageError: none are known.

    ``prompts_of``: the corpus whose tables hold the questions.
    """
    folder = corpus_dir(prompts_of)
    prompts = {
        one["task"]: one for one in read_table(folder / "prompts.csv", ("task", "system", "user"))
    }
    asks = read_table(folder / "questions.csv", ("phenotype", "question"))
    questions = {one["phenotype"]: options.question or one["question"] for one in asks}
    checklist = Path(options.checklist or folder / "checklist.csv")
    if facts and not checklist.is_file():
        raise UsageError(
            f"{checklist} does not exist, expected a CSV file with note_id, fact and terms."
        )
    known = read_checklist(checklist) if facts else ()
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["pair_id"], []).append(row["text"])
    stated = {pair: facts_of(known, pair.partition("/")[2], both) for pair, both in texts.items()}
    system = prompts[task]["system"]
    user = prompts[task]["user"]
    found = []
    for row in rows if not facts else [one for one in rows if stated[one["pair_id"]]]:
        known_facts = (
            stated[row["pair_id"]] if facts else []
        )  # of each fact its terms, which count its number
        candidates = [
            Candidate(term, float(number))
            for number, one in enumerate(known_facts)
            for term in one.terms
        ]
        values = {"note": row["text"]}
        if "[question]" in user:
            question = questions.get(row["condition"], options.question)
            if question is None:
                raise UsageError(
                    f"No question is known for the label {row['condition']!r}. Give -M question."
                )
            values["question"] = question
            candidates = [Candidate("yes", 1.0), Candidate("no", 0.0)]
        text = conversation(("system", system), ("user", fill(user, **values)))
        found.append({**row, "text": text, "candidates": tuple(candidates)})
    return found


EMBEDDING = Embedding()
