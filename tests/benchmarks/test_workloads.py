"""The workloads of models at the smallest size: the sides agree, and a wrong number would be an
error."""

import pytest

from benchmarks import causal, filling, gpu, layers
from benchmarks.frame import measure
from benchmarks.made_models import _made, gpt2, prompts, tokenizer
from swapbias.models.engine import fastest_layers


@pytest.fixture(scope="module")
def small():
    """A RoBERTa with the vocabulary of the workloads and next to no layers."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    ends = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    return _made(
        RobertaForMaskedLM,
        RobertaConfig(vocab_size=len(tokenizer()), max_position_embeddings=514, **sizes, **ends),
    )


def test_sides_fill_the_same_words(small):
    """The sides fill the same words."""
    texts = filling.every(prompts("gendered_stigma", "rq1"), 5)
    measured = measure(filling.sides(small, texts, slice_of=3, batched=True), repeat=1)
    assert "the same 50 likeliest tokens" in measured.equality
    assert "bfloat16" in measured.equality
    assert set(measured.seconds) == {
        filling.OURS,
        filling.ROUNDED,
        filling.DEFAULT,
        filling.BATCHED,
    }


def test_causal_log_probabilities():
    """Texts have the log-probability that both peers give them."""
    texts = [
        f'"I am {word}", the {who}'
        for word in ("emotional", "a leader")
        for who in ("man", "woman")
    ]
    prepared = causal.sides(gpt2(), texts)
    outputs = {side.name: side.run() for side in prepared.sides}
    assert "of both peers' on 4 texts" in prepared.check(outputs)
    with pytest.raises(ValueError, match="differ by up to"):
        prepared.check(
            {**outputs, causal.HARNESS: [value + 0.01 for value in outputs[causal.HARNESS]]}
        )


def test_gpu_rate(small):
    """A GPU is measured beside its own rate."""
    # The same steps, on the processor; how long they take there is another matter, for others may work on it too.
    texts = filling.every(prompts("gendered_stigma", "rq1"), 6)
    rows = gpu.filled(small, texts, device="cpu", repeat=1)
    assert [row[0] for row in rows] == [
        f"{side}, {kind}" for kind in gpu.TYPES for side in (filling.OURS, filling.BATCHED)
    ]
    assert all(row[1] == "6" and float(row[2].replace(",", "")) > 0 for row in rows)
    assert (
        10 * float(rows[0][3]) < float(rows[2][3]) < 1e-4
    )  # float32 is the pipeline's, bfloat16 is not
    assert all(float(row[6].rstrip("%")) >= 0 for row in rows)


def test_ways_of_layers(monkeypatch):
    """Three ways are timed in turns, the numbers of oneDNN must be torch's, and the trial is put back."""
    real = fastest_layers.speed_of_onednn
    read = []
    for way in layers.WAYS:
        layers._read_by(way, lambda: read.append(fastest_layers.speed_of_onednn(8, 8)))
    assert (read[0], read[2]) == (1.0, 2.0)
    assert fastest_layers.speed_of_onednn is real
    ran = []
    runs = {way: (lambda way=way: ran.append(way)) for way in layers.WAYS}
    clock = iter([0.0, 9.0] * 3 + [0, 6, 0, 3, 0, 4] + [0, 8, 0, 2, 0, 16])
    monkeypatch.setattr(layers.time, "process_time", lambda: next(clock))
    row = layers._row("work", runs, False, 2e-7, 2)
    assert ran == [*layers.WAYS] * 3
    assert row == ("work", "6e+03", "2e+03", "4e+03", "2.00", "0.50", "torch", "2e-07")
    assert len(row) == len(layers.SERIES.columns)
    with pytest.raises(ValueError, match="oneDNN is off by"):
        layers._row("work", runs, False, 1e-3, 1)
