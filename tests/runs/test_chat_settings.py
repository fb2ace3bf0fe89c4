"""Settings of a chat audit: what is refused before anything is written, and what a dry run says."""

from dataclasses import replace

import pytest

from swapbias.cli.auditing import plan_sentences
from swapbias.errors import UsageError
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings, plan_tasks
from tests import tiny

STUDY = ("adjective_coreference",)
URL = "http://127.0.0.1:1/v1"  # nobody listens there


def chat(**more):
    return ChatOptions(model="tiny", base_url=URL, **more)


def test_a_chat_model_that_nothing_asks_is_refused(tmp_path, quiet):
    settings = Settings(studies=("spanish_occupations",), options=(chat(),))
    with pytest.raises(
        UsageError, match=r"Settings of chat models are read by adjective_coreference and .+ Name it as well"
    ):
        start(settings, tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()
    both = replace(settings, studies=("spanish_occupations", *STUDY), limit=8)
    assert "chat" in {task.experiment.kind for task in plan_tasks(both)[0]}
    with pytest.raises(UsageError, match="Unknown config 'reply'") as raised:
        plan_tasks(Settings(studies=("adjective_coreference:reply",), options=(chat(),)))
    named = str(raised.value).rstrip(".").partition("one of ")[2].split(", ")
    assert len(named) == len(set(named)) == 8  # six configs, and the experiments that read them


@pytest.mark.parametrize("given", [{"model": "owner/name", "provider": "local"}, {"model": "folder"}])
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_requests": 10}, "-M max-requests"),
        ({"price_in": 1.0, "price_out": 2.0}, "-M price-in and -M price-out"),
    ],
)
def test_a_model_that_runs_here_takes_no_settings_of_a_service(tmp_path, quiet, given, changes, named):
    model = str(tmp_path) if given["model"] == "folder" else given["model"]
    settings = Settings(studies=STUDY, options=(ChatOptions(**{**given, **changes, "model": model}),))
    with pytest.raises(UsageError, match=f"runs on this machine, and {named} is given"):
        start(settings, tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()


def test_a_model_runs_here_or_at_a_service_and_not_both(tmp_path):
    with pytest.raises(UsageError, match="and --base-url is given"):
        ChatOptions(model="owner/name", provider="local", base_url=URL).check()
    with pytest.raises(UsageError, match="is a folder of this machine, and -M provider is given"):
        ChatOptions(model=str(tmp_path), provider="together").check()
    ChatOptions(model=str(tmp_path), base_url=URL).check()  # an endpoint may call its model by a path
    judge = chat(judge="rater", price_in=1.0, price_out=2.0, max_cost=3.0).of_judge()
    judge.check()
    assert (judge.model, judge.max_cost) == ("rater", None)


def test_a_dry_run_asks_nobody_what_kind_a_model_is(monkeypatch):
    from transformers import AutoConfig

    monkeypatch.setattr(AutoConfig, "from_pretrained", None)  # to call it is an error
    with pytest.raises(UsageError, match=r"a dry run asks nobody what kind of model it is. Pass --kind"):
        list(plan_sentences(Settings(model="owner/name")))
    told = list(plan_sentences(Settings(model="owner/name", kind="causal", studies=STUDY)))
    assert told[0].startswith("adjective_coreference odds: ")


def test_a_dry_run_reads_the_kind_of_a_model_in_a_folder_or_in_the_cache(tmp_path, monkeypatch):
    folder = tiny.save_causal(tmp_path / "causal")
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache", lambda model, name, revision=None: str(folder / name)
    )
    for model in (str(folder), "owner/name"):
        told = list(plan_sentences(Settings(model=model, studies=STUDY, limit=32)))
        assert told[0] == f"adjective_coreference odds: 32 prompts for {model}"


def test_the_limit_holds_for_each_trial():
    # 8 prompts a trial, five trials.
    told = list(plan_sentences(Settings(studies=STUDY, limit=8, options=(chat(),))))
    assert told[0].startswith("adjective_coreference answers: 40 prompts for tiny; 40 requests to send")
    for most, more in ((1_535, True), (1_536, False)):  # 48 pairs x 2 sides x 16 conditions
        told = "".join(plan_sentences(Settings(studies=STUDY, options=(chat(trials=1, max_requests=most),))))
        assert ("That is more than -M max-requests allows: 1,535." in told) == more
