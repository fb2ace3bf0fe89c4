"""Sentiment of 840 occupation sentences, the shape of DistilBERT."""

import copy
from typing import Any

from benchmarks.filling import OURS, every, limit_of
from benchmarks.frame import Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import distilbert, tokenizer
from swapbias.studies.catalogue import as_prompts, config_rows

PIPELINE = "text-classification pipeline"
BATCHED = "pipeline, batches of 32"
SENTENCES = 840
EQUAL = 1e-4


def _scorer(model: Any) -> Any:
    from swapbias.models.transformers_scorer import TextClassifierScorer

    return TextClassifierScorer(
        copy.deepcopy(model), tokenizer(), model_id="DistilBERT of random weights", identity={}
    )


def _prepare(scale: Scale) -> Prepared:
    from transformers import pipeline

    rows = config_rows("occupation_sentiment", "sentences")
    prompts = every(as_prompts((rows * 2)[:SENTENCES]), scaled(SENTENCES, scale))
    texts = [prompt.text for prompt in prompts]
    model = distilbert()
    scorer = _scorer(model)
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer())

    def check(outputs: dict[str, Any]) -> str:
        worst = 0.0
        for ours, theirs in zip(outputs[OURS], outputs[PIPELINE], strict=True):
            positive = theirs["score"] if theirs["label"] == "POSITIVE" else 1 - theirs["score"]
            worst = max(worst, abs(ours.score - positive))
        if worst > EQUAL:
            raise ValueError(
                f"probabilities differ by up to {worst:.1e}, expected at most {EQUAL:g}."
            )
        return f"probabilities within {worst:.0e} of the pipeline's"

    tokens = sum(len(ids) for ids in tokenizer()(texts)["input_ids"])
    return Prepared(
        ours=(Side(OURS, lambda: scorer.score(prompts)),),
        peers=(
            Side(PIPELINE, lambda: pipe(texts)),
            Side(BATCHED, lambda: pipe(texts, batch_size=32)),
        ),
        check=check,
        limit=limit_of(model, tokens=tokens, texts=len(texts), dtype="float32"),
        size=f"{len(texts)} sentences, {tokens:,} tokens",
    )


WORKLOAD = Workload(
    "sentiment", "Sentiment of sentences, DistilBERT", {(OURS, PIPELINE): 4.0}, _prepare
)
