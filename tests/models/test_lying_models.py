"""Models that say of themselves what is not so: each is refused in a sentence, none is scored as if nothing were."""

import json
import shutil

import numpy as np
import pytest

from swapbias import load_scorer
from swapbias.studies import Prompt
from tests import tiny

OTHERS = dict.fromkeys(("prompt_id", "pair_id", "group", "construct", "condition", "label", "template"), "x")


def prompt(text):
    return Prompt(text=text, lexicon="gendered_stigma/rq1/female", experiment="x", **OTHERS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    tiny.save("bert", folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def edited(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


LIES = [
    ({"config.json": {"num_hidden_layers": 9}}, r"has no weights for bert\.encoder\.layer"),
    ({"config.json": {"max_position_embeddings": 8}}, "cannot be loaded"),
    ({"tokenizer_config.json": {"mask_token": None, "added_tokens_decoder": {}},
      "tokenizer.json": {"added_tokens": []}}, "has no mask token"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), LIES, ids=["layers", "positions", "mask"])
def test_a_file_that_does_not_fit_the_weights(folder, changes, told):
    for name, change in changes.items():
        edited(folder / name, **change)
    with pytest.raises(ValueError, match=told):
        load_scorer(str(folder))


def test_a_vocabulary_smaller_than_its_tokenizer(folder):
    from transformers import AutoModelForMaskedLM

    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(40)
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"embeddings of 40 tokens and its tokenizer knows \d+: they do not belong"):
        load_scorer(str(folder))


def test_a_tokenizer_that_promises_more_positions_than_there_are(folder):
    asked = [prompt("<mask> has depression."), prompt("<mask> has depression" + " and anxiety" * 100 + ".")]
    honest = [one.score for one in load_scorer(str(folder)).score(asked)]
    edited(folder / "tokenizer_config.json", model_max_length=1_000_000)
    np.testing.assert_equal([one.score for one in load_scorer(str(folder)).score(asked)], honest)
