"""Sentences on scored rows."""

import pandas as pd
import pytest

from swapbias.runs.score_notes import (
    describe_doubtful_tokenizers,
    describe_other_bases,
    describe_outside,
)


@pytest.mark.parametrize(
    ("shares", "share"),
    [([0.9, 0.7, float("nan")], "80.0 %"), ([0.6, 0.4], ""), ([float("nan")] * 2, "")],
    ids=["little", "half", "no score"],
)
def test_options_of_little_probability(shares, share):
    """Options with less than half of the probability on average are told; prompts without a score count nothing."""
    rows = pd.DataFrame({"outside": shares}).assign(experiment="odds", model_id="tiny")
    told = list(describe_outside({"mine": rows}))
    assert [share in sentence for sentence in told] == [True] * bool(share)


@pytest.mark.parametrize(
    ("declared", "base", "is_told"),
    [
        ("lab/old", "lab/new", True),
        ("lab/old", "lab/old", False),
        ("lab/old", "old", False),
        ("", "lab/new", False),
    ],
    ids=["other", "same", "its folder", "none named"],
)
def test_adapter_of_another_base(declared, base, is_told):
    """An adapter on another base than its config names is told; a folder has the last part of a name."""
    models = [
        {"base": base, "adapter": {"name": "lora", "base": declared}},
        {"model_id": "m", "adapter": None},
    ]
    sentence = f"The adapter lora is of {declared} by its config, and was put on {base}."
    assert list(describe_other_bases(models)) == [sentence] * is_told


def test_doubtful_tokenizer_is_no_other_base():
    """A tokenizer in doubt is told as such, and not as an adapter on another base."""
    models = [{"model_id": "m", "tokenizer_doubt": "it knows 1 of 9 tokens"}, {"model_id": "n"}]
    assert list(describe_other_bases(models)) == []
    assert list(describe_doubtful_tokenizers(models)) == [
        "The tokenizer of m may be that of another model: it knows 1 of 9 tokens. Check it."
    ]
