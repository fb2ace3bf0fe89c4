"""The callback in a real Trainer: logged gaps, and training that is unchanged by it."""

import multiprocessing
import os
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

import swapbias
from swapbias.callback import BiasCallback
from swapbias.errors import UsageError
from swapbias.findings import Finding
from swapbias.findings.metric_values import bias_metrics
from swapbias.measures import Estimate
from tests import tiny

CONTROL = "occupation_sentiment:control"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_classifier(tmp_path_factory.mktemp("callbacks"), ["negative", "positive"])


class Sentences(torch.utils.data.Dataset):
    def __init__(self, tokenizer):
        self.rows = tokenizer(["he is here", "she is here"] * 8)["input_ids"]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": torch.tensor(self.rows[index]), "labels": index % 2}


def trained(folder, out, *, model=None, backend=None, rate=5e-5, settings=None, **callback):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    arguments = TrainingArguments(
        str(out),
        max_steps=4,
        logging_steps=2,
        per_device_train_batch_size=4,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        ddp_backend=backend,
        learning_rate=rate,
        **(settings or {}),
    )
    model = model or AutoModelForSequenceClassification.from_pretrained(folder)
    trainer = Trainer(
        model, arguments, train_dataset=Sentences(tokenizer), processing_class=tokenizer
    )
    watched = BiasCallback(trainer, **callback) if callback else None
    if watched:
        trainer.add_callback(watched)
    trainer.train()
    return trainer, watched


def test_logged_gaps_leave_training_unchanged(folder, tmp_path):
    """Gaps are logged at the chosen steps, and the trained weights equal those without the
    callback."""
    alone, _ = trained(folder, tmp_path / "alone")
    trainer, watched = trained(folder, tmp_path / "out", studies=CONTROL, every=2)
    logged = [
        row for row in trainer.state.log_history if "bias/occupation_sentiment_control" in row
    ]
    assert [row["step"] for row in logged] == [0, 2, 4]
    after = swapbias.audit(
        trainer.model, CONTROL, tokenizer=trainer.processing_class, progress=False
    )
    expected = after.findings.query("primary").iloc[0]
    assert (
        logged[-1]["bias/occupation_sentiment_control"]
        == expected["value"]
        == watched.last.primary["value"][0]
    )
    assert logged[-1]["bias/occupation_sentiment_control_low"] == expected["ci_low"]
    first, last = (logged[place]["bias/occupation_sentiment_control"] for place in (0, -1))
    assert first != last  # it has learnt
    losses = [
        [row["loss"] for row in one.state.log_history if "loss" in row] for one in (alone, trainer)
    ]
    assert len(losses[0]) == 2  # an audit at the same step does not take the loss's place
    assert losses[0] == losses[1]
    weights = [one.model.state_dict() for one in (alone, trainer)]
    assert all(torch.equal(one, weights[1][name]) for name, one in weights[0].items())
    assert trainer.model.training


def test_impossible_audit_stops_early(folder, tmp_path):
    """An audit that cannot be done stops the training before its first step."""
    with pytest.raises(ValueError, match="every is 0, expected a number of steps from 1 up"):
        trained(folder, tmp_path, studies=CONTROL, every=0)
    with pytest.raises(UsageError, match="it needs a masked model"):
        trained(folder, tmp_path, studies="gendered_stigma")


def test_broken_model_trains_on(folder, tmp_path, caplog):
    """A model with NaN or infinite numbers logs no bias and trains on."""
    trainer, _ = trained(folder, tmp_path, rate=1e38, studies=CONTROL, every=4)
    assert trainer.state.global_step == 4
    assert re.search("No bias is logged at step 4: .* NaN or infinite numbers", caplog.text)


def train_in_two_processes(rank, port, folder, out):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    trainer, _ = trained(folder, out, backend="gloo", studies=CONTROL, every=4)
    steps = [
        row["step"]
        for row in trainer.state.log_history
        if "bias/occupation_sentiment_control" in row
    ]
    Path(f"{out}-{rank}").write_text(
        f"{trainer.args.world_size} {trainer.state.global_step} {steps}"
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_processes_audit_once(folder, tmp_path):
    """With two processes the first one audits and the other one waits for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")  # which has all libraries loaded
    both = [
        fork.Process(target=train_in_two_processes, args=(rank, port, folder, tmp_path / "out"))
        for rank in (0, 1)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(300)
    assert [one.exitcode for one in both] == [0, 0]
    assert (tmp_path / "out-0").read_text() == "2 4 [0, 4]"
    assert (tmp_path / "out-1").read_text() == "2 4 []"


THREE = [
    {"text": f"{name} is here{'.' * number}", "group": name, "pair": str(number)}
    for number in range(1, 7)
    for name in ("he", "she", "they")
]


def test_contrasts_of_several_groups(folder, tmp_path):
    """Each contrast of several groups is logged with its value and its interval."""
    options = {"prompts": pd.DataFrame(THREE), "reference": "he", "every": 4}
    trainer, watched = trained(folder, tmp_path, **options)
    logged = [
        row for row in trainer.state.log_history if any(name.startswith("bias/") for name in row)
    ][-1]
    primary = watched.last.primary
    assert list(primary["contrast"]) == ["she - he", "they - he", "all groups"]
    names = ["she_minus_he", "they_minus_he", "all_groups"]
    for name, (_, finding) in zip(names, primary.iterrows(), strict=True):
        for end, column in (("", "value"), ("_low", "ci_low"), ("_high", "ci_high")):
            expected = finding[column]
            found = logged.get(f"bias/prompts_classifier_{name}{end}", np.nan)
            assert found == expected or np.isnan([found, expected]).all()
    assert "bias/prompts_classifier_all_groups" in logged
    assert "bias/prompts_classifier" not in logged


def test_keys_that_differ_in_blanks():
    """Contrasts whose names differ in blanks alone are logged under different keys."""
    both = [
        Finding(
            study="tiny",
            experiment="one",
            model_id="m",
            measure="paired_gap",
            contrast=contrast,
            unit="points",
            primary=True,
            estimate=Estimate(value, ci_low=value - 1, ci_high=value + 1),
        )
        for value, contrast in ((1.0, "a b - c"), (2.0, "a_b - c"))
    ]
    metrics = bias_metrics(both)
    first, second = "bias/tiny_one_a_b_minus_c", "bias/tiny_one_a_b_minus_c_2"
    assert [metrics[name] for name in (first, f"{first}_low", second, f"{second}_low")] == [
        1,
        0,
        2,
        1,
    ]


class Adapted(torch.nn.Module):
    """The public surface of a model of PEFT: its layers are in the model inside, or it adds to what that answers."""

    def __init__(self, inner, *, in_layers):
        super().__init__()
        self.inner = inner
        self.in_layers = in_layers
        self.peft_config = {"default": SimpleNamespace(peft_type="LORA")}
        self.active_adapters = ["default"]
        if in_layers:
            inner.classifier.weight.data[1] += 0.5

    def get_base_model(self):
        return self.inner

    def forward(self, *args, **kwargs):
        output = self.inner(*args, **kwargs)
        output.logits = output.logits + (0 if self.in_layers else torch.tensor([1.0, 0.0]))
        return output


def scores_by_prompt(run):
    """Without those of pairs that this small vocabulary reads alike."""
    return (
        run.items("occupation_sentiment")
        .dropna(subset="score")
        .set_index("prompt_id")["score"]
        .to_dict()
    )


def scores_of(model, tokenizer):
    run = swapbias.audit(model, CONTROL, tokenizer=tokenizer, progress=False)
    return scores_by_prompt(run), run.found[0].model_id


def answers_of(model, tokenizer, names):
    """The scores of the prompts of these names, by the model itself."""

    def positive(texts):
        with torch.inference_mode():
            return [
                float(model(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0, 1])
                for text in texts
            ]

    scores = scores_by_prompt(swapbias.audit(positive, CONTROL, progress=False))
    return {name: scores[name] for name in names}


def test_adapter_is_read_and_named(folder):
    """A model with a LoRA adapter is scored with it, and its name says so."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    before, name = scores_of(model, tokenizer)
    adapted = Adapted(model, in_layers=True).eval()
    after, with_adapter = scores_of(adapted, tokenizer)
    assert after == pytest.approx(answers_of(adapted, tokenizer, after), abs=1e-5)
    assert after != pytest.approx(before, abs=1e-3)
    assert with_adapter == f"{name} + lora adapter (in memory)"  # it changed weights of its base


def test_adapter_outside_layers(folder):
    """An adapter outside of the layers is refused, since scores would leave it out."""
    model = Adapted(AutoModelForSequenceClassification.from_pretrained(folder), in_layers=False)
    with pytest.raises(UsageError, match="would read the model without it"):
        scores_of(model, AutoTokenizer.from_pretrained(folder))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT asks transformers by an older name
@pytest.mark.parametrize("kind", ["lora", "prompt"])
def test_peft_models(folder, tmp_path, kind):
    """Models of peft are scored with their adapters, and prompt tuning is refused."""
    peft = pytest.importorskip("peft")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    if kind == "prompt":
        prompted = peft.get_peft_model(
            model, peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
        )
        with pytest.raises(UsageError, match="would read the model without it"):
            scores_of(prompted, tokenizer)
        return
    settings = peft.LoraConfig(
        task_type="SEQ_CLS", target_modules=["query", "value"], init_lora_weights=False
    )
    adapted = peft.get_peft_model(model, settings)
    trainer, watched = trained(folder, tmp_path, model=adapted, rate=1e-2, studies=CONTROL, every=2)
    logged = [
        row for row in trainer.state.log_history if "bias/occupation_sentiment_control" in row
    ]
    assert [row["step"] for row in logged] == [0, 2, 4]
    adapted.eval()
    read = scores_by_prompt(watched.last)
    assert read == pytest.approx(answers_of(adapted, tokenizer, read), abs=1e-5)


def wrap_in_parts(model):
    model.bert = torch.compile(model.bert, backend="eager")
    return model


def wrap_for_processes(model):
    """The model as each process of a distributed training has it, here of one process."""
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        return torch.nn.parallel.DistributedDataParallel(model)
    finally:
        torch.distributed.destroy_process_group()


WRAPPERS = {
    "devices": torch.nn.DataParallel,
    "processes": wrap_for_processes,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "compiled, devices": lambda model: torch.nn.DataParallel(torch.compile(model, backend="eager")),
    "a part compiled": wrap_in_parts,
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrapped_models(folder, wrapper):
    """A model on several devices or a compiled one scores like the model inside it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = scores_of(AutoModelForSequenceClassification.from_pretrained(folder), tokenizer)
    wrapped = WRAPPERS[wrapper](AutoModelForSequenceClassification.from_pretrained(folder))
    assert scores_of(wrapped, tokenizer) == expected


def test_compiled_model_in_training(folder, tmp_path):
    """A compiled model is audited at the chosen steps of its training."""
    compiled = {"torch_compile": True, "torch_compile_backend": "eager"}
    trainer, _ = trained(folder, tmp_path, settings=compiled, studies=CONTROL, every=4)
    steps = [
        row["step"]
        for row in trainer.state.log_history
        if "bias/occupation_sentiment_control" in row
    ]
    assert steps == [0, 4]
