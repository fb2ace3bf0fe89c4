"""Texts that are tokenised ahead of the model."""

import threading

import pytest
import torch

from swapbias.models import LoadOptions, load_scorer, transformers_scorer
from swapbias.models.tokenising import tokens_ahead
from swapbias.studies import as_prompts, config_rows
from tests import tiny


def lengths(texts):
    return [[len(text)] for text in texts]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_parts_in_order(size):
    """Parts are those of the texts in order, whatever their size."""
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    parts = list(tokens_ahead(lengths, texts, size))
    assert [first for first, _ in parts] == list(range(0, 5, size))
    assert [ids for _, encoded in parts for ids in encoded] == lengths(texts)
    assert list(tokens_ahead(lengths, [], size)) == [(0, [])]


def test_next_part_meanwhile():
    """While a part is read, a thread tokenises the next one; one part alone is tokenised by the caller."""
    threads = []
    second_began = threading.Event()

    def encode(texts):
        threads.append(threading.current_thread())
        if len(threads) == 2:
            second_began.set()
        return lengths(texts)

    for first, _ in tokens_ahead(encode, ["a", "b", "c"], 1):
        if not first:
            assert second_began.wait(60)
    assert threading.main_thread() not in threads
    threads.clear()
    assert list(tokens_ahead(encode, ["a"], 1)) == [(0, [[1]])]
    assert threads == [threading.main_thread()]


def test_text_that_cannot_be_read():
    """A text without tokens of its own raises its error, after the parts before it."""

    def encode(texts):
        if "bad" in texts:
            raise ValueError("text 'bad'")
        return lengths(texts)

    parts = tokens_ahead(encode, ["a", "b", "bad"], 1)
    assert [next(parts)[0], next(parts)[0]] == [0, 1]
    with pytest.raises(ValueError, match="text 'bad'"):
        next(parts)


def test_scores_of_parts(tmp_path, monkeypatch):
    """Scores of texts in parts equal those of all at once; on another device than a CPU more rows are a part."""
    folder = str(tiny.save("roberta", tmp_path))
    prompts = as_prompts(config_rows("gendered_stigma", "rq1")[:150])
    whole = load_scorer(folder)
    expected = [row.score for row in whole.score(prompts)]
    assert whole.chunk_rows == 1_024
    assert whole._tokenised_at_once >= len(prompts)
    in_parts = load_scorer(folder)
    in_parts = in_parts._changed(_tokenised_at_once=20)
    assert [row.score for row in in_parts.score(prompts)] == pytest.approx(expected, abs=1e-6)
    monkeypatch.setattr(type(whole.model), "device", torch.device("cuda"), raising=False)
    on_gpu = load_scorer(folder, options=LoadOptions())
    assert on_gpu.chunk_rows == 8 * 1_024
    assert on_gpu._tokenised_at_once == transformers_scorer._TOKENISED_AHEAD
