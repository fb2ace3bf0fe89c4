"""Waits for a GPU, counted on tensors that tell when they are read: one a batch, after the next one was begun."""

import pytest
import torch

from swapbias.models import LoadOptions, load_scorer, masked as masked_models
from swapbias.models.chat.local import _Sampler
from swapbias.models.clinical.encoder_vectors import ContextualVectors
from swapbias.models.engine import encoder, kv_cache, loglikelihood, packing, transfers
from swapbias.models.masked_readings import AttitudeScorer
from swapbias.models.phrase_scorer import PhraseScorer
from swapbias.studies import as_prompts, config_rows
from tests import tiny

SENDERS = (encoder, kv_cache, loglikelihood, packing)
# What a processor cannot do with a tensor of a GPU before the GPU has computed it.
READS = {
    getattr(torch.Tensor, name)
    for name in (
        "__bool__", "__float__", "__index__", "__int__", "cpu", "item", "nonzero", "numpy", "tolist", "unique",
    )
}  # fmt: skip


class OnGpu(torch.Tensor):
    """A tensor as of a GPU: what is computed of it is of its kind, and reading it is noted."""

    reads: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in READS:
            cls.reads.append(func.__name__)
            args = tuple(
                part.as_subclass(torch.Tensor) if isinstance(part, OnGpu) else part for part in args
            )
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def gpu(monkeypatch):
    """Let engines send to a GPU that does not exist; the list of what is begun, waited for and read of it."""
    events = []
    monkeypatch.setattr(OnGpu, "reads", events)

    def begin_copy(outputs):
        number = sum(event.startswith("begin") for event in events)
        assert all(isinstance(output, OnGpu) for output in outputs)
        events.append(f"begin {number}")

        def finish():
            events.append(f"wait {number}")
            return tuple(output.as_subclass(torch.Tensor) for output in outputs)

        return finish

    for module in SENDERS:
        monkeypatch.setattr(module, "send", lambda tensor, device: tensor.as_subclass(OnGpu))
    monkeypatch.setattr(masked_models, "send", lambda tensor, device: tensor)  # columns, once
    monkeypatch.setattr(masked_models, "is_asynchronous", lambda device: True)
    monkeypatch.setattr(transfers, "_begin_copy", begin_copy)
    monkeypatch.setattr(transfers, "_batches_ahead", lambda device: 1)
    return events


def ahead(batches):
    """Each batch is waited for once, when the next one has begun."""
    events = ["begin 0"]
    for number in range(1, batches):
        events += [f"begin {number}", f"wait {number - 1}"]
    return [*events, f"wait {batches - 1}"]


def rows(study, config, count):
    return as_prompts(config_rows(study, config)[:count])


def masked(tmp_path):
    scorer = load_scorer(str(tiny.save("roberta", tmp_path)), options=LoadOptions(batch_size=4))
    return getattr(scorer, "inner", scorer)


def mass(tmp_path):
    prompts = rows("gendered_stigma", "rq1", 90)
    return lambda: masked(tmp_path).score(prompts)


def attitude(tmp_path):
    prompts = rows("social_distance", "template1", 40)
    return lambda: AttitudeScorer(masked(tmp_path)).score(prompts)


def sentiment(tmp_path):
    folder = tiny.save_classifier(tmp_path / "classifier", ["NEGATIVE", "POSITIVE"])
    prompts = rows("occupation_sentiment", "sentences", 40)
    return lambda: load_scorer(str(folder), options=LoadOptions(batch_size=4)).labelled(prompts)


def features(tmp_path):
    folder = str(tiny.save("bert", tmp_path))
    texts = [prompt.text for prompt in rows("occupation_sentiment", "sentences", 40)]
    options = LoadOptions(batch_size=4)
    return lambda: ContextualVectors.load(folder, options).sentence_vectors(texts).tolist()


@pytest.mark.parametrize("read", [mass, attitude, sentiment, features])
def test_one_wait_a_batch(read, tmp_path, request):
    """A batch is waited for once, when the next one has begun, and its scores are those of the processor."""
    score = read(tmp_path)
    expected = repr(score())
    events = request.getfixturevalue("gpu")
    assert repr(score()) == expected
    batches = sum(event.startswith("begin") for event in events)
    assert batches > 2
    assert events == ahead(batches)


def test_waits_of_grown_phrases(tmp_path, request):
    """Each step of a phrase is as many waits as batches; nothing else is read."""
    prompts = rows("gendered_stigma", "rq1", 3)
    expected = PhraseScorer(masked(tmp_path)).score(prompts)
    events = request.getfixturevalue("gpu")
    assert PhraseScorer(masked(tmp_path)).score(prompts) == expected
    assert {event.split()[0] for event in events} == {"begin", "wait"}


def test_waits_of_causal_models(tmp_path, monkeypatch, request):
    """Shared beginnings are read without a wait; log-probabilities of many states are one copy."""
    folder = tiny.save_causal(tmp_path / "causal", positions=512)
    prompts = rows("coreference_schemas", "sentences", 40)
    scorer = load_scorer(str(folder), kind="causal")
    expected = scorer.score(prompts)
    events = request.getfixturevalue("gpu")
    real = loglikelihood._HiddenStateModel.token_log_probs

    def noted(self, *tensors):
        events.append("head")
        return real(self, *tensors)

    monkeypatch.setattr(loglikelihood._HiddenStateModel, "token_log_probs", noted)
    assert scorer.score(prompts) == expected
    assert events == ["head", "cpu"] * (len(events) // 2)
    assert events


def test_flags_of_tokens(gpu):
    """Whether logits are finite is asked when answers are complete, not at every token."""
    sampler = _Sampler(0.0, ["0" * 15] * 2, torch.device("cpu"))
    logits = torch.zeros(2, 5).as_subclass(OnGpu)
    broken = torch.tensor([[0.0] * 5, [float("nan")] * 5]).as_subclass(OnGpu)
    for token_logits in (logits, broken, logits):
        sampler.weigh(token_logits, [7, 9])
    assert gpu == []
    assert sampler.not_finite() == {9}
    assert sampler.not_finite() == set()


def test_no_batch_is_held_back_on_a_cpu():
    """On a processor a batch is read before the next one is computed, so that one is in memory at a time."""
    events = []

    def batches():
        for number in range(2):
            events.append(f"compute {number}")
            yield [number], (torch.tensor([number]),)

    for members, _ in transfers.received(batches()):
        events.append(f"read {members[0]}")
    assert events == ["compute 0", "read 0", "compute 1", "read 1"]


class _Recorded:
    """Notes what would be asked of a tensor of a GPU."""

    device = torch.device("cuda", 0)

    def __init__(self, events):
        self.events = events

    def pin_memory(self):
        self.events.append("pin")
        return self

    def to(self, device, *, non_blocking):
        assert non_blocking
        self.events.append(f"copy to {device}")
        return self

    def record_event(self):
        self.events.append("mark")
        return self

    def synchronize(self):
        self.events.append("wait")


def test_copies_of_a_gpu(monkeypatch):
    """Copies to a GPU are from pinned memory; those from it are marked together, and their mark is waited for."""
    events = []
    tensor = _Recorded(events)
    assert transfers.send(tensor, torch.device("cuda")) is tensor
    assert events == ["pin", "copy to cuda"]
    events.clear()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: tensor)
    finish = transfers._begin_copy((tensor, tensor))
    assert events == ["copy to cpu", "copy to cpu", "mark"]
    assert finish() == (tensor, tensor)
    assert events[3:] == ["wait"]
    assert transfers._batches_ahead(tensor.device) == 1
