"""Adapters without peft: folders as peft writes them, and its public surface in a few lines."""

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
from huggingface_hub import hf_hub_download
from safetensors.torch import load_file, save_file
from transformers.utils import is_peft_available

WEIGHTS = "adapter_model.safetensors"


def save_adapter(folder, base, *, size, seed=0):
    """An adapter of a masked model with ``size`` tokens: noise on the bias of its head."""
    folder.mkdir(exist_ok=True)
    noise = 3 * torch.randn(size, generator=torch.Generator().manual_seed(seed))
    save_file({"bias": noise}, folder / WEIGHTS)
    config = {"peft_type": "LORA", "base_model_name_or_path": base, "revision": None}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def load_peft_weights(name, device="cpu", revision=None):
    if Path(name).is_dir():
        return load_file(Path(name, WEIGHTS))
    return load_file(hf_hub_download(name, WEIGHTS, revision=revision))


class PeftModel:
    """A model whose head's bias an adapter shifts."""

    active_adapter = "default"

    def __init__(self, model):
        self.model = model
        self.active_peft_config = SimpleNamespace(
            modules_to_save=None, is_prompt_learning=False, bias="none"
        )

    @classmethod
    def from_pretrained(cls, model, name, revision=None):
        with torch.no_grad():
            weights = load_peft_weights(name, revision=revision)
            model.get_output_embeddings().bias += weights["bias"]
        return cls(model)

    def load_adapter(self, name, adapter_name, revision=None):
        return SimpleNamespace(missing_keys=[], unexpected_keys=[])

    def named_parameters(self, remove_duplicate):
        return self.model.named_parameters(remove_duplicate=remove_duplicate)

    def get_base_model(self):
        return self.model

    def merge_and_unload(self):
        return self.model


def use(monkeypatch):
    """Let this stand for peft in a test; transformers, which looks once, learns what is really installed."""
    if is_peft_available():
        monkeypatch.setattr("peft.PeftModel", PeftModel)
        monkeypatch.setattr("peft.load_peft_weights", load_peft_weights)
        return
    peft = ModuleType("peft")
    peft.PeftModel = PeftModel
    peft.load_peft_weights = load_peft_weights
    peft.__spec__ = ModuleSpec("peft", None)
    monkeypatch.setitem(sys.modules, "peft", peft)
