"""The callback in a real Trainer: what it logs, and that training goes on as if nobody had looked."""

import multiprocessing
import os
import re
import socket
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

import swapbias
from swapbias.errors import UsageError
from swapbias.runs.callback import BiasCallback
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


def trained(folder, out, *, backend=None, rate=5e-5, **callback):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    settings = TrainingArguments(
        str(out), max_steps=4, logging_steps=2, per_device_train_batch_size=4, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, ddp_backend=backend, learning_rate=rate,
    )  # fmt: skip
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    trainer = Trainer(model, settings, train_dataset=Sentences(tokenizer), processing_class=tokenizer)
    watched = BiasCallback(trainer, **callback) if callback else None
    if watched:
        trainer.add_callback(watched)
    trainer.train()
    return trainer, watched


def test_gaps_are_logged_and_training_is_the_same(folder, tmp_path):
    alone, _ = trained(folder, tmp_path / "alone")
    trainer, watched = trained(folder, tmp_path / "out", studies=CONTROL, every=2)
    logged = [row for row in trainer.state.log_history if "bias/occupation_sentiment_control" in row]
    assert [row["step"] for row in logged] == [0, 2, 4]
    after = swapbias.audit(trainer.model, CONTROL, tokenizer=trainer.processing_class, progress=False)
    expected = after.primary.iloc[0]
    assert logged[-1]["bias/occupation_sentiment_control"] == expected["value"] == watched.last.primary["value"][0]
    assert logged[-1]["bias/occupation_sentiment_control_low"] == expected["ci_low"]
    first, last = (logged[place]["bias/occupation_sentiment_control"] for place in (0, -1))
    assert first != last  # it has learnt
    losses = [[row["loss"] for row in one.state.log_history if "loss" in row] for one in (alone, trainer)]
    assert len(losses[0]) == 2  # an audit at the same step does not take the loss's place
    assert losses[0] == losses[1]
    weights = [one.model.state_dict() for one in (alone, trainer)]
    assert all(torch.equal(one, weights[1][name]) for name, one in weights[0].items())
    assert trainer.model.training


def test_what_cannot_be_audited_stops_before_a_step_is_lost(folder, tmp_path):
    with pytest.raises(ValueError, match="every is 0, expected a number of steps from 1 up"):
        trained(folder, tmp_path, studies=CONTROL, every=0)
    with pytest.raises(UsageError, match="it needs a masked model"):
        trained(folder, tmp_path, studies="gendered_stigma")


def test_a_model_that_broke_trains_on(folder, tmp_path, caplog):
    trainer, _ = trained(folder, tmp_path, rate=1e38, studies=CONTROL, every=4)
    assert trainer.state.global_step == 4
    assert re.search("No bias is logged at step 4: .* NaN or infinite numbers", caplog.text)


def of_two(rank, port, folder, out):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    trainer, _ = trained(folder, out, backend="gloo", studies=CONTROL, every=4)
    steps = [row["step"] for row in trainer.state.log_history if "bias/occupation_sentiment_control" in row]
    Path(f"{out}-{rank}").write_text(f"{trainer.args.world_size} {trainer.state.global_step} {steps}")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_of_two_processes_the_first_audits_and_the_other_waits(folder, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")  # which has all libraries loaded
    both = [fork.Process(target=of_two, args=(rank, port, folder, tmp_path / "out")) for rank in (0, 1)]
    for one in both:
        one.start()
    for one in both:
        one.join(300)
    assert [one.exitcode for one in both] == [0, 0]
    assert (tmp_path / "out-0").read_text() == "2 4 [0, 4]"
    assert (tmp_path / "out-1").read_text() == "2 4 []"
