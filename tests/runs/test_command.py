"""The command that repeats a run has every setting that changes a result, and nothing private or of speed."""

import shlex
from dataclasses import replace

import pytest

from swapbias.models import LoadOptions
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import public_manifest
from swapbias.runs import placeholders_in, repeat_command, without_speed
from swapbias.runs.settings import Settings

VALUES = {bool: True, int: 7, float: 0.5, str: "x"}
SPEED = {
    "device", "batch_size", "device_map", "concurrency", "max_requests", "timeout", "price_in", "price_out",
    "max_cost",
}  # fmt: skip


def manifest_of(settings, **more):
    return {
        "settings": settings.saved(),
        "models": [{"model_id": "lab/m", "revision": "c" * 40}],
        **more,
    }


def words_of(settings, **more):
    return shlex.split(repeat_command(manifest_of(settings, **more)))[2:]


OPTIONS = [
    pytest.param(options, setting, id=setting.name)
    for options in (LoadOptions, ChatOptions, NoteOptions)
    for setting in options.settings()
    if not setting.use.unsaved
]


@pytest.mark.parametrize(("options", "setting"), OPTIONS)
def test_each_setting_stands_in_the_command_or_is_of_speed(options, setting):
    """Also from the manifest that others see."""
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


def test_settings_of_the_run_stand_in_it_and_defaults_do_not():
    assert words_of(Settings(model="lab/m")) == ["lab/m@" + "c" * 40]
    asked = Settings(
        model="lab/m@main", studies=("gest", "a:b"), limit=5, margin=0.1, seed=2, kind="masked"
    )
    assert words_of(replace(asked, wordings=False))[1:] == [
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


def test_what_only_its_owner_has_is_a_placeholder():
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


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://router.example.org/tenant-7/v1", "URL"),
        ("http://127.0.0.1:8000/v1", "URL"),
        ("https://gpu.internal/v1", "URL"),
    ],
)
def test_an_address_is_shown_where_all_have_the_same(address, shown):
    chat = ChatOptions(model="m", base_url=address)
    assert words_of(Settings(options=(chat,))) == ["--chat", "m", "--base-url", shown]


def test_no_name_ends_the_line_or_is_read_by_a_shell():
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


def test_a_run_that_its_limits_stopped_is_repeated_with_the_trials_that_it_had():
    chat = ChatOptions(model="m", trials=5, max_requests=30)
    words = words_of(Settings(options=(chat,)), rounds={"planned": 5, "whole": 2})
    assert words == ["--chat", "m", "--trials", "2"]
