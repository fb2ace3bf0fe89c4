"""The key-value cache under both names: transformers 5.24 renamed it."""

from types import SimpleNamespace

import pytest
import torch
import transformers

from swapbias.models.engine import cache_names, cache_probe, generation, loglikelihood
from tests.models.engine.test_loglikelihood import (
    make_model,
    texts_that_begin_alike,
    values_of,
    whole_log_likelihood,
)

INSTALLED = cache_names.generation_cache_name()


class Renamed(torch.nn.Module):
    """A model of another version: it takes and returns its cache by another name, and no other."""

    def __init__(self, inner, name):
        super().__init__()
        self.inner = inner
        self.name = name
        self.config = inner.config
        self.device = inner.device

    @property
    def base_model(self):
        return self

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def get_output_embeddings(self):
        return None

    def _read(self, input_ids, cache, options):
        cache_option = {INSTALLED: cache} if cache is not None else {}
        out = self.inner(input_ids=input_ids, **cache_option, **options)
        return SimpleNamespace(logits=out.logits, **{self.name: cache_names.cache_of(out)})


class Later(Renamed):
    def forward(self, input_ids, position_ids=None, cache=None, **options):
        return self._read(input_ids, cache, {"position_ids": position_ids, **options})


class Earlier(Renamed):
    def forward(self, input_ids, position_ids=None, past_key_values=None, **options):
        return self._read(input_ids, past_key_values, {"position_ids": position_ids, **options})


class Wrapped(torch.nn.Module):
    """Passes on what it is given, as a compiled model or one with an adapter does."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, *arguments, **options):
        return self.inner(*arguments, **options)


MODELS = {
    "cache": lambda: Later(make_model("GPT2"), "cache"),
    "past_key_values": lambda: Earlier(make_model("GPT2"), "past_key_values"),
    "that of generate": lambda: Wrapped(make_model("GPT2")),
}


@pytest.mark.parametrize("name", MODELS)
def test_shared_beginnings_by_either_name(name):
    """Texts share what they begin with by either name of the cache."""
    model = MODELS[name]()
    assert cache_names.cache_name(model.forward) == {"that of generate": INSTALLED}.get(name, name)
    texts = texts_that_begin_alike()
    assert cache_probe.supports_prefix_sharing(model, max((ids for ids, _ in texts), key=len))
    found = values_of(loglikelihood.continuation_log_probs(model, texts, batch_size=4))
    whole = make_model("GPT2").double()
    for place, (ids, begins) in enumerate(texts):
        assert found[place] == pytest.approx(whole_log_likelihood(whole, ids, begins), abs=1e-5)


@pytest.mark.parametrize("name", cache_names.NAMES)
def test_padded_prompts_by_either_name(name):
    """Padded prompts after a beginning are tried by either name."""
    prompt = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert generation.can_pad(MODELS[name](), prompt, 4)


@pytest.mark.parametrize("name", cache_names.NAMES)
def test_name_of_installed_version(name, monkeypatch):
    """The name for generate is that of the installed version."""

    def later(self, input_ids, cache=None, **more):
        """As of 5.24."""

    def earlier(self, input_ids, past_key_values=None, **more):
        """As before."""

    function = {"cache": later, "past_key_values": earlier}[name]
    monkeypatch.setattr(transformers.GenerationMixin, "prepare_inputs_for_generation", function)
    assert cache_names.generation_cache_name() == name


def test_output_without_cache():
    """An output without a cache is an error."""
    with pytest.raises(AttributeError):
        cache_names.cache_of(SimpleNamespace(logits=None))
