"""Manifests and settings that strangers wrote, at random: read, or one sentence (results: benchmarks/soak)."""

import copy
import json

import pytest
from hypothesis import given, settings, strategies as st

from swapbias.hub.shared_runs import run_name
from swapbias.privacy import private_strings, public_manifest
from swapbias.runs.plan import Settings
from swapbias.runs.results import parse_manifest
from tests.hub.shared_runs import MANIFEST, written

WHOLE = {**MANIFEST, "settings": Settings(model="lab/small").saved()}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def fuzz_edited(draw, whole):
    """What swapbias wrote, but for some places of it that hold anything."""
    made = copy.deepcopy(whole)
    for _ in range(draw(st.integers(0, 4))):
        at = made
        while isinstance(at, dict | list) and at:
            key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            if draw(st.booleans()) or not isinstance(at[key], dict | list) or not at[key]:
                break
            at = at[key]
        if isinstance(at, dict) and draw(st.booleans()):
            at[draw(st.text(max_size=6))] = draw(JSON)
        elif isinstance(at, dict | list) and at:
            at[key] = draw(JSON)
    return made


@st.composite
def fuzz_file(draw, whole):
    """The bytes of such a file, perhaps cut and followed by something else."""
    content = json.dumps(draw(fuzz_edited(whole))).encode()
    torn = not draw(st.integers(0, 3))
    return content[: draw(st.integers(0, len(content)))] + draw(st.binary(max_size=4)) if torn else content


def one_sentence(error):
    assert "\n" not in str(error)
    assert len(str(error)) < 2_000


def check_manifest(content):
    """A manifest is refused, or whatever is made of it for others holds nothing of another shape."""
    try:
        manifest = parse_manifest(content, "manifest.json")
    except ValueError as error:
        return one_sentence(error)
    shown = public_manifest(manifest, shared=True)
    assert same_keys(public_manifest(shown, shared=True), shown)
    private_strings(manifest)
    run_name(manifest)
    return None


def same_keys(one, other):
    """Whether two values are of one shape, whatever texts are in them."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_keys(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_keys, one, other))
    return type(one) is type(other)


@given(content=fuzz_file(WHOLE))
@settings(max_examples=100, deadline=None)
def test_no_manifest_is_a_traceback(content):
    check_manifest(content)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        (None, "model", 3), (None, "model", ["a"]), (None, "kind", {}), (None, "studies", "abc"),
        (None, "studies", [3]), (None, "studies", None), ("chat", "model", 7), ("chat", "trials", "many"),
        ("chat", "base_url", 5),
        ("chat", "own_address", "http://a"), ("chat", "temperature", None), ("load", "device", []),
        ("load", "batch_size", "x"), ("notes", "embeddings", [1]), ("notes", "embeddings", "abc"),
        ("notes", "data", 3), ("notes", "max_doubt", "3"), ("chat", "timeout", True),
    ],
)  # fmt: skip
def test_a_setting_of_another_type_is_one_sentence(part, name, value):
    saved = copy.deepcopy(WHOLE["settings"])
    (saved[part] if part else saved)[name] = value
    with pytest.raises(ValueError, match=r"not of this version|expected|is ") as raised:
        Settings.from_manifest(saved)
    one_sentence(raised.value)


def test_what_swapbias_writes_keeps_its_shape():
    check_manifest(written(WHOLE))
    shown = public_manifest(WHOLE, shared=True)
    assert same_keys({**WHOLE, "settings": None}, {**shown, "settings": None})
