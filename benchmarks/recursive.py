"""Recursive masking (RQ2 of the gendered-stigma study): phrases of up to three words, 111 sequences per prompt."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.filling import OURS, every, limit_of, masked_texts, pipeline_of
from benchmarks.frame import Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import masked_scorer, roberta, tokenizer
from swapbias.studies.catalogue import as_prompts, config_rows
from swapbias.studies.prompt import Prompt

ONE_BY_ONE = "one pipeline call per sequence"
TEXTS = 27 * 11  # the whole of the workload: every template with every mental-health condition
_SLICE = 27  # texts that ours runs: the cost is the same for each
_CALLS = 20  # sequences that the peer fills
EQUAL = 1e-4


def _asked(count: int) -> list[Prompt]:
    """Both groups' rows of so many texts, spread evenly."""
    rows = [row for row in config_rows("gendered_stigma", "rq2") if row["label"] == "mental_health"]
    chosen = set(every(list(dict.fromkeys(row["text"] for row in rows)), count))
    return as_prompts([row for row in rows if row["text"] in chosen])


def _scored(masked: Any, prompts: Sequence[Prompt]) -> list[Any]:
    """By a scorer that knows no sequence yet."""
    from swapbias.models.phrase_scorer import PhraseScorer

    return PhraseScorer(masked).score(prompts)


def _sequences(masked: Any, texts: Sequence[str]) -> list[str]:
    """Every sequence of the three steps where no branch ends, which is the most there can be."""
    from swapbias.models.phrase_scorer import BEAM

    def words(texts: Sequence[str]) -> Iterator[list[str]]:
        for members, probabilities in masked.mask_probabilities(texts):
            tokens = probabilities.topk(BEAM, dim=1).indices.tolist()
            for index, likeliest in zip(members, tokens, strict=True):
                yield [texts[index], *(masked.words[token] for token in likeliest)]

    second = [
        text.replace("<mask>", f"<mask> {one}") for text, *found in words(texts) for one in found
    ]
    third = [
        text.replace("<mask>", f"{one} <mask>") for text, *found in words(second) for one in found
    ]
    return list(dict.fromkeys([*texts, *second, *third]))


def _prepare(scale: Scale) -> Prepared:
    prompts = _asked(scaled(_SLICE, scale))
    model = roberta("base")
    masked = masked_scorer(model)
    pipe = pipeline_of(model)
    texts = list(dict.fromkeys(prompt.text for prompt in prompts))
    sequences = _sequences(masked, texts)
    few = masked_texts(every(sequences, _CALLS))
    whole = scaled(TEXTS, scale)
    share = len(texts) / whole
    tokens = sum(map(len, tokenizer()(masked_texts(sequences))["input_ids"])) / share

    return Prepared(
        ours=(Side(OURS, lambda: _scored(masked, prompts), share=share),),
        peers=(
            Side(
                ONE_BY_ONE,
                lambda: [pipe(text) for text in few],
                share=len(few) * share / len(sequences),
            ),
        ),
        check=lambda outputs: compare(masked, pipe, few),
        limit=limit_of(model, tokens=tokens, texts=len(sequences) / share, dtype="float32"),
        size=f"{whole:,} prompts, {round(len(sequences) / share):,} sequences; ours ran {len(texts)} prompts",
    )


def compare(masked: Any, pipe: Any, few: Sequence[str]) -> str:
    """Tell how equal the step's words are to the pipeline's; a ValueError for a probability that differs."""
    from swapbias.models.phrase_scorer import BEAM

    worst = 0.0
    for text in few:
        found = masked.batch_probabilities([tokenizer()(text)["input_ids"]])[0]
        filled = pipe(text, top_k=BEAM)
        worst = max(worst, *(abs(float(found[one["token"]]) - one["score"]) for one in filled))
    if worst > EQUAL:
        raise ValueError(
            f"probabilities differ from the pipeline's by up to {worst:.1e}, expected at most {EQUAL:g}."
        )
    return f"probabilities within {worst:.0e} of the pipeline's"


WORKLOAD = Workload(
    "recursive",
    "Recursive masking, RoBERTa base",
    {(OURS, ONE_BY_ONE): 4.7},
    _prepare,
)
