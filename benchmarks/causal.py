"""Texts of GEST by a causal model of GPT-2's shape (125 M): 14,260 texts beside a plain loop and lm-eval's HFLM."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.filling import every
from benchmarks.frame import NotHereError, Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import gpt2, tokenizer
from swapbias.studies import config_rows

OURS = "swapbias"
LOOP = "batches of 32 by transformers"
HARNESS = "lm-eval HFLM, batches of 32"
SLICE = 240  # texts of the peers
EQUAL = 1e-3  # nats, of a text of some 20 tokens


def _texts(scale: Scale) -> list[str]:
    try:
        texts = [row["text"] for row in config_rows("gest", "causal")]
    except (OSError, ValueError) as error:
        raise NotHereError(f"the sentences of GEST are not at hand ({error})") from error
    # Pairs stay together: an audit scores both texts of each.
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    return [text for pair in every(pairs, scaled(len(pairs), scale)) for text in pair]


def read_plainly(model: Any, coder: Any, texts: Sequence[str]) -> list[float]:
    """Log-probability of each text as transformers' examples do it: padded batches, log-softmax, gather."""
    import torch

    values: list[float] = []
    for start in range(0, len(texts), 32):
        begun = [coder.bos_token + text for text in texts[start : start + 32]]
        batch = coder(begun, padding=True, return_tensors="pt")
        ids = batch["input_ids"]
        mask = batch["attention_mask"]
        with torch.inference_mode():
            chances = model(input_ids=ids, attention_mask=mask).logits[:, :-1].log_softmax(-1)
        each = chances.gather(2, ids[:, 1:, None])[..., 0]
        values += (each * mask[:, 1:]).double().sum(1).tolist()
    return values


def _prepare(scale: Scale) -> Prepared:
    return sides(gpt2("base"), _texts(scale))


def sides(model: Any, texts: Sequence[str]) -> Prepared:
    """Ours on all texts, the peers on some of them; two texts in a row are a pair."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from swapbias.models.causal import CausalScorer

    coder = tokenizer("GPT2Tokenizer")
    half = every(list(zip(texts[::2], texts[1::2], strict=True)), SLICE // 2)
    few = [text for pair in half for text in pair]
    scorer = CausalScorer(model, coder, model_id="GPT-2 of random weights", identity={})
    harness = HFLM(pretrained=model, tokenizer=coder, batch_size=32, max_length=512, device="cpu")
    requests = [
        Instance("loglikelihood_rolling", {}, (text,), index) for index, text in enumerate(few)
    ]

    def check(outputs: Mapping[str, Any]) -> str:
        mine = dict(zip(texts, outputs[OURS], strict=True))
        worst = max(
            abs(mine[text] - value)
            for peer in (LOOP, HARNESS)
            for text, value in zip(few, outputs[peer], strict=True)
        )
        if not worst <= EQUAL:
            raise ValueError(
                f"log-probabilities differ by up to {worst:.1e}, expected at most {EQUAL:g}."
            )
        return f"log-probabilities within {worst:.0e} of both peers' on {len(few)} texts."

    return Prepared(
        ours=(Side(OURS, lambda: scorer.log_probabilities(texts)),),
        peers=(
            Side(LOOP, lambda: read_plainly(model, coder, few), share=len(few) / len(texts)),
            Side(
                HARNESS,
                lambda: harness.loglikelihood_rolling(requests, disable_tqdm=True),
                share=len(few) / len(texts),
            ),
        ),
        check=check,
        size=f"{len(texts):,} texts of GEST",
    )


WORKLOAD = Workload(
    "causal", "Texts of GEST, GPT-2 (125 M)", {(OURS, LOOP): 2.0, (OURS, HARNESS): 2.0}, _prepare
)
