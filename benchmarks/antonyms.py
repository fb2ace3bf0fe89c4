"""Antonyms in sentences (social distance), a causal model 32 wide: 428 prompts, 40 words in each."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.frame import Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import gpt2, tokenizer
from swapbias.studies import MASK, Prompt, as_prompts, config_rows, load_lexicon

OURS = "swapbias"
BATCHED = "one sequence per word, batches of 32"
WHOLE = "one sequence per word, equally long"
PROMPTS = 428
SLICE = 16
EQUAL = 1e-4  # in nats, of a mean over 20 pairs


def read_plainly(model: Any, prompts: Sequence[Prompt], words: Sequence[str]) -> list[float]:
    """Mean log-odds of a prompt's pairs as transformers' examples do it: padded batches, labels, log-softmax."""
    import torch

    texts = [prompt.text.replace(MASK, word) for prompt in prompts for word in words]
    values = []
    for start in range(0, len(texts), 32):
        batch = tokenizer()(texts[start : start + 32], padding=True, return_tensors="pt")
        ids = batch["input_ids"]
        mask = batch["attention_mask"]
        with torch.inference_mode():
            chances = model(input_ids=ids, attention_mask=mask).logits[:, :-1].log_softmax(-1)
        each = chances.gather(2, ids[:, 1:, None])[..., 0]
        values += (each * mask[:, 1:]).double().sum(1).tolist()
    size = len(words)
    rows = [values[start : start + size] for start in range(0, len(values), size)]
    return [(sum(row[1::2]) - sum(row[::2])) / (size / 2) for row in rows]


def read_whole(scorer: Any, prompts: Sequence[Prompt]) -> list[float]:
    """The same by our scorer where nothing can be shared: batches of equal length, no padding."""
    from swapbias.models.engine import loglikelihood

    usual = loglikelihood.supports_prefix_sharing
    loglikelihood.supports_prefix_sharing = lambda model, ids: False
    try:
        return [one.score for one in scorer.score(prompts)]
    finally:
        loglikelihood.supports_prefix_sharing = usual


def _prepare(scale: Scale) -> Prepared:
    from swapbias.models.causal import AntonymScorer, CausalScorer

    model = gpt2()
    configs = [config_rows("social_distance", f"template{number}") for number in range(1, 5)]
    rows = [row for one in configs for row in one[:: len(one) * 4 // PROMPTS]]
    prompts = as_prompts(rows)[: scaled(PROMPTS, scale)]
    step = max(1, len(prompts) // SLICE)
    few = prompts[::step][:SLICE]
    words = [word for word, _ in load_lexicon("social_distance/antonyms").entries()]
    scorer = AntonymScorer(
        CausalScorer(model, tokenizer(), model_id="GPT-2 of random weights", identity={})
    )

    def ours() -> list[float]:
        return [
            one.score
            for at in range(0, len(prompts), 64)
            for one in scorer.score(prompts[at : at + 64])
        ]

    def check(outputs: Mapping[str, Any]) -> str:
        worst = max(
            abs(one - other)
            for peer in (BATCHED, WHOLE)
            for one, other in zip(outputs[OURS][::step][:SLICE], outputs[peer], strict=True)
        )
        if not worst <= EQUAL:
            raise ValueError(f"log-odds differ by up to {worst:.1e}, expected at most {EQUAL:g}.")
        return f"mean log-odds within {worst:.0e} of both peers' on {len(few)} prompts."

    return Prepared(
        ours=(Side(OURS, ours),),
        peers=(
            Side(BATCHED, lambda: read_plainly(model, few, words), share=len(few) / len(prompts)),
            Side(WHOLE, lambda: read_whole(scorer, few), share=len(few) / len(prompts)),
        ),
        check=check,
        size=f"{len(prompts):,} prompts, {len(prompts) * len(words):,} sequences",
    )


WORKLOAD = Workload(
    "antonyms",
    "Antonyms in sentences, a causal model 32 wide",
    {(OURS, BATCHED): 10.0, (OURS, WHOLE): 10.0},
    _prepare,
)
