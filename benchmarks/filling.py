"""What the benchmarks of masked models share: sides that fill masks, their limit, and how equal they are."""

from collections.abc import Sequence
from typing import Any, TypeVar

from benchmarks.frame import Limit, Prepared, Side
from benchmarks.made_models import masked_scorer, tokenizer, weights
from benchmarks.measuring import gemm_rate, least_seconds

OURS = "swapbias"
ROUNDED = "swapbias bfloat16"
DEFAULT = "fill-mask pipeline"
BATCHED = "pipeline, batches of 32"
TOP = 50
CHECKED = 24  # most prompts compared with the pipeline's
EQUAL = 1e-4  # in probability
_TIED = 1e-3  # two tokens whose probabilities are closer than this share of them may change places

T = TypeVar("T")
T = TypeVar("T")
Tops = list[tuple[list[int], list[float]]]


def fill(scorer: Any, texts: Sequence[str]) -> Tops:
    """The 50 likeliest tokens of each text and their probabilities."""
    found: Tops = [([], [])] * len(texts)
    for members, (probabilities, tokens) in scorer.mask_outputs(
        texts, lambda whole: tuple(whole.topk(TOP, dim=1))
    ):
        for index, likeliest, values in zip(
            members, tokens.tolist(), probabilities.tolist(), strict=True
        ):
            found[index] = likeliest, values
    return found


def every(texts: Sequence[T], count: int) -> list[T]:
    """Return so many of the texts, spread evenly."""
    count = min(count, len(texts))
    return [texts[place * len(texts) // count] for place in range(count)]


def pipeline_of(model: Any) -> Any:
    """transformers' own way to fill masks."""
    from transformers import pipeline

    return pipeline("fill-mask", model=model.eval(), tokenizer=tokenizer())


def masked_texts(texts: Sequence[str]) -> list[str]:
    """Texts as the pipeline wants them."""
    return [text.replace("<mask>", tokenizer().mask_token) for text in texts]


def sides(
    model: Any, texts: Sequence[str], *, slice_of: int, rounded: bool = True, batched: bool = False
) -> Prepared:
    """Filling masks: ours in float32 (and bfloat16) beside the pipeline's default call (and batches).

    ``slice_of``: so many texts go through the default call; its time is extrapolated.
    """
    exact = masked_scorer(model)
    coarse = masked_scorer(model, dtype="bfloat16")
    pipe = pipeline_of(model)
    few = masked_texts(every(texts, slice_of))
    everything = masked_texts(texts)
    tokens = sum(len(ids) for ids in tokenizer()(everything)["input_ids"])
    ours = [
        Side(OURS, lambda: fill(exact, texts)),
        Side(
            ROUNDED,
            lambda: fill(coarse, texts),
            limit=limit_of(model, tokens=tokens, texts=len(texts), dtype="bfloat16"),
        ),
    ]
    peers = [
        Side(DEFAULT, lambda: pipe(few), share=len(few) / len(texts)),
        Side(BATCHED, lambda: pipe(everything, batch_size=32)),
    ]

    def check(outputs: dict[str, Any]) -> str:
        equal = compare(pipe, texts, outputs[OURS], min(CHECKED, slice_of))
        if not rounded:
            return equal
        worst = max(
            abs(a[1][0] - b[1][0]) for a, b in zip(outputs[OURS], outputs[ROUNDED], strict=True)
        )
        return (
            f"{equal} In bfloat16 the likeliest token's probability differs by up to {worst:.2g}."
        )

    return Prepared(
        ours=tuple(ours[: 1 + rounded]),
        peers=tuple(peers[: 1 + batched]),
        check=check,
        limit=limit_of(model, tokens=tokens, texts=len(texts), dtype="float32"),
        size=f"{len(texts):,} prompts, {tokens:,} tokens",
    )


def limit_of(model: Any, *, tokens: float, texts: float, dtype: str) -> Limit:
    """The products of the layers with every token and of the head with one token of each text."""
    layers, head = weights(model)
    # DistilBERT's config has names of its own.
    inside = getattr(model.config, "hidden_size", None) or model.config.dim
    outside = getattr(model.config, "intermediate_size", None) or model.config.hidden_dim

    def seconds() -> tuple[float, str]:
        rate = gemm_rate(
            [(1_024, inside, outside), (1_024, outside, inside)], dtype=dtype, prepacked=True
        )
        least = least_seconds(layers, tokens, rate) + least_seconds(head, texts, rate)
        return least, f"2 x weights x tokens at {rate / 1e9:.0f} GFLOP/s in {dtype}"

    return seconds


def compare(pipe: Any, texts: Sequence[str], ours: Tops, count: int) -> str:
    """Tell how equal our 50 likeliest tokens are to the pipeline's, on so many of the texts.

    Raises:
        ValueError: a probability differs by more than 1e-4, or a token that is not tied is missing.
    """
    chosen = every(range(len(texts)), count)
    few = [texts[index] for index in chosen]
    worst = max(differences(theirs := fill_by(pipe, few), [ours[index] for index in chosen]))
    for text, (tokens, values), (mine, own) in zip(
        few, theirs, (ours[index] for index in chosen), strict=True
    ):
        known = dict(zip(tokens, values, strict=True)) | dict(zip(mine, own, strict=True))
        for token in set(mine) ^ set(tokens):
            if abs(known[token] - min(values)) > _TIED * min(values):
                raise ValueError(
                    f"{text!r}: token {token} is among the {TOP} likeliest on one side alone."
                )
    if worst > EQUAL:
        raise ValueError(f"probabilities differ by up to {worst:.1e}, expected at most {EQUAL:g}.")
    return f"probabilities within {worst:.0e} of the pipeline's, the same {TOP} likeliest tokens (up to ties)."


def fill_by(pipe: Any, texts: Sequence[str]) -> Tops:
    """Fill as ``fill``, by the pipeline one by one."""
    found = pipe(masked_texts(texts), top_k=TOP)
    return [
        ([one["token"] for one in filled], [one["score"] for one in filled]) for filled in found
    ]


def differences(one: Tops, other: Tops) -> list[float]:
    """Return the differences of the probability of each token that is among the likeliest of a text on both sides."""
    found: list[float] = []
    for mine, theirs in zip(one, other, strict=True):
        known = dict(zip(*theirs, strict=True))
        found += [abs(p - known[token]) for token, p in zip(*mine, strict=True) if token in known]
    return found
