"""The command that repeats a run has every setting that changes a result, and none that is
private or of speed."""

import shlex
from dataclasses import replace

import pytest

from swapbias.models import LoadOptions
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import public_manifest
from swapbias.runs.command import (
    placed_names,
    placeholders_in,
    repeat_command,
    without_speed,
)
from swapbias.runs.settings import Settings

VALUES = {bool: True, int: 7, float: 0.5, str: "x"}
SPEED = {
    "device", "batch_size", "device_map", "concurrency", "max_requests", "timeout", "price_in", "price_out",
    "max_cost",
}  # fmt: skip


def manifest_of(settings, **options):
    return {
        "settings": settings.saved(),
        "models": [{"model_id": "lab/m", "revision": "c" * 40}],
        **options,
    }


def words_of(settings, **options):
    return shlex.split(repeat_command(manifest_of(settings, **options)))[2:]


OPTIONS = [
    pytest.param(options, setting, id=setting.name)
    for options in (LoadOptions, ChatOptions, NoteOptions)
    for setting in options.settings()
    if not setting.use.unsaved
]


@pytest.mark.parametrize(("options", "setting"), OPTIONS)
def test_setting_in_the_command(options, setting):
    """Each setting stands in the command or is one of speed, also in the public manifest."""
    choices = [choice for choice in setting.choices if choice not in (setting.default, "cuda:N")]
    value = choices[0] if choices else VALUES[setting.plain_type]
    value = "https://api.example.org/v1" if setting.name in ("base_url", "own_address") else value
    value = (value,) if setting.is_several else value
    changed = options(**{setting.name: value})
    settings = Settings(load=changed) if options is LoadOptions else Settings(options=(changed,))
    words = " ".join(words_of(settings))
    assert (setting.written in words) == (setting.name not in SPEED)
    public = public_manifest(manifest_of(settings))
    if setting.name not in (
        "base_url",
        "own_address",
    ):  # of which a public manifest tells no more than the host
        assert repeat_command(public) == repeat_command(manifest_of(settings))
    assert (setting.name in without_speed(settings.saved())[options.key]) == (
        setting.name not in SPEED
    )


def test_defaults_are_left_out():
    """Settings of the run stand in the command, and defaults do not."""
    assert words_of(Settings(model="lab/m")) == ["lab/m@" + "c" * 40]
    settings = Settings(
        model="lab/m@main", studies=("gest", "a:b"), limit=5, margin=0.1, seed=2, kind="masked"
    )
    assert words_of(replace(settings, wordings=False))[1:] == [
        "--study",
        "gest",
        "--study",
        "a:b",
        "--kind",
        "masked",
        "--seed",
        "2",
        "--limit",
        "5",
        "--margin",
        "0.1",
        "--no-wordings",
    ]


def test_placeholders():
    """A file or address that only the owner of a run has is a placeholder."""
    notes = NoteOptions(
        data="/home/me/ward 7.csv", checklist="/home/me/facts.csv", classifier="/home/me/c.skops"
    )
    line = repeat_command(manifest_of(Settings(options=(notes,))))
    assert line == "swapbias audit -M classifier=c.skops -M data=NOTES -M checklist=CHECKLIST"
    assert set(placeholders_in(line)) == {"NOTES", "CHECKLIST"}
    own = {"own_studies": {"mine": "local", "theirs": f"lab/s@{'d' * 40}"}}
    line = repeat_command(
        manifest_of(Settings(model="vader", studies=("mine:x", "theirs", "gest")), **own)
    )
    assert (
        line
        == f"swapbias audit vader --study RUN/studies/mine:x --study lab/s@{'d' * 40} --study gest"
    )
    assert placeholders_in(line) == {"RUN": "the folder of this run"}
    line = repeat_command(manifest_of(Settings(model="Bert", kind="masked"), in_memory=True))
    assert (line, list(placeholders_in(line))) == ("swapbias audit MODEL", ["MODEL"])


def test_models_given_by_a_path(tmp_path):
    """A model or file given by a path is one in a place that its owner fills in, also in the public manifest."""
    load = LoadOptions(adapter="~/adapters/lora")
    chat = ChatOptions(model="C:\\models\\chat")
    settings = Settings(model="/home/me/models/tiny", load=load, options=(chat,))
    placed = placed_names(settings.saved())
    assert placed == {"placed": ["chat", "lora", "tiny"]}
    manifest = manifest_of(settings, **placed)
    line = repeat_command(manifest)
    assert line == "swapbias audit PLACE/tiny --chat PLACE/chat -M adapter=PLACE/lora"
    assert placeholders_in(line) == {"PLACE": "the folder that contains it"}
    assert repeat_command(public_manifest(manifest)) == line
    assert placed_names(Settings(model="tiny").saved()) == {}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://router.example.org/tenant-7/v1", "URL"),
        ("http://127.0.0.1:8000/v1", "URL"),
        ("https://gpu.internal/v1", "URL"),
    ],
)
def test_address_of_a_service(address, shown):
    """The address of a service is shown where it is the same for everybody."""
    chat = ChatOptions(model="m", base_url=address)
    assert words_of(Settings(options=(chat,))) == ["--chat", "m", "--base-url", shown]


def test_names_are_quoted():
    """No name ends the line or is read by a shell."""
    line = repeat_command(
        manifest_of(Settings(model="a b; rm -rf ~", load=LoadOptions(positive_label="so 'good'")))
    )
    assert shlex.split(line) == [
        "swapbias",
        "audit",
        "a b; rm -rf ~",
        "-M",
        "positive-label=so 'good'",
    ]
    line = repeat_command(
        manifest_of(Settings(model="a\n```", load=LoadOptions(positive_label="`x`")))
    )
    assert line == "swapbias audit MODEL -M positive-label=VALUE"


def test_run_stopped_by_limits():
    """The command of a run that its limits stopped has the trials that were run."""
    chat = ChatOptions(model="m", trials=5, max_requests=30)
    words = words_of(Settings(options=(chat,)), rounds={"planned": 5, "whole": 2})
    assert words == ["--chat", "m", "--trials", "2"]
