"""Files of a model that were not fetched, or not whole, are named in a sentence of ours with what to do."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from swapbias.models import LoadOptions, load_scorer
from swapbias.models.broken_files import refuse_broken_files
from tests import tiny
from tests.cli.test_cli import refused, swapbias

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614\nsize 440449768\n"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
FIRST = "model-00001-of-00004.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def in_parts(whole, tmp_path_factory):
    place = tmp_path_factory.mktemp("parts") / "m"
    shutil.copytree(whole, place, ignore=shutil.ignore_patterns(WEIGHTS))
    AutoModelForMaskedLM.from_pretrained(whole).save_pretrained(place, max_shard_size="30KB")
    return place


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "m")


@pytest.fixture
def parts(in_parts, tmp_path):
    return shutil.copytree(in_parts, tmp_path / "m")


def loaded(folder):
    return load_scorer(str(folder), options=LoadOptions(device="cpu"))


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def pickled(folder):
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    return folder / "pytorch_model.bin"


TEXTS = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "chat_template.jinja",
)


@pytest.mark.parametrize("name", [*TEXTS, WEIGHTS])
def test_pointer_of_git_lfs(name, folder):
    """A pointer of Git LFS is called one, also in place of a text that could be read as it stands."""
    (folder / name).write_text(POINTER)
    with pytest.raises(
        ValueError, match=rf"{name} is a pointer of Git LFS, .* Run git lfs pull in"
    ):
        loaded(folder)


def test_pointers_of_other_files(folder):
    """Pointers of files that are not read do no harm."""
    for name in ("tf_model.h5", "pytorch_model.bin", "README.md", "training_args.bin"):
        (folder / name).write_text(POINTER)
    assert loaded(folder).kind == "masked"


def test_list_of_other_weights(folder, in_parts):
    """A list of weights in a format that is not read does no harm, as in a repository fetched without pickles."""
    content = json.loads((in_parts / INDEX).read_text())
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(content))
    assert loaded(folder).kind == "masked"


CONTENTS = {
    "empty": ("", "is empty"),
    "page": ("<!DOCTYPE html>\n<html>404</html>", "is a web page and has no weights"),
    "other": ("weights of another form", "is cut off, or is no safetensors"),
    "huge header": ("\xff" * 20, "is cut off, or is no safetensors"),
}


@pytest.mark.parametrize(("content", "fault"), CONTENTS.values(), ids=CONTENTS)
def test_file_without_weights(content, fault, folder):
    """A file of weights that holds something else is refused by what it is."""
    (folder / WEIGHTS).write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"{WEIGHTS} {fault}\. Download it again\.$"):
        loaded(folder)


def test_file_that_is_cut_off(folder):
    """A file of weights that was not fetched whole is refused with its sizes, a pickle or a tokenizer without."""
    size = (folder / WEIGHTS).stat().st_size
    cut(folder / WEIGHTS)
    with pytest.raises(ValueError, match=rf"is cut off: it has {size // 2:,} of {size:,} bytes\."):
        loaded(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_tokenizer_that_is_cut_off(name, folder):
    """A file of a tokenizer that ends too early is named."""
    cut(folder / name)
    with pytest.raises(ValueError, match=rf"{name} is no JSON, or is cut off \(.*\)\. Download it"):
        loaded(folder)


def test_pickle_that_is_cut_off(folder):
    """A pickle of weights that ends too early is named; a whole one is read, a pointer is no pickle with code."""
    path = pickled(folder)
    assert loaded(folder).kind == "masked"
    cut(path)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is cut off\. Download it again"):
        loaded(folder)
    path.write_text(POINTER)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pointer of Git LFS"):
        loaded(folder)


def swap_parts(folder):
    shutil.copy(folder / "model-00002-of-00004.safetensors", folder / FIRST)


PARTS = {
    "absent": (
        lambda folder: (folder / FIRST).unlink(),
        rf"m lacks 1 of the 4 files of its weights, first {FIRST}\. Download them again",
    ),
    "cut": (lambda folder: cut(folder / FIRST), rf"{FIRST} is cut off: it has "),
    "swapped": (swap_parts, rf"{FIRST} has none of the weights that {INDEX} lists in it\."),
    "no list": (
        lambda folder: (folder / INDEX).unlink(),
        rf"m has its weights in parts, and no {INDEX}, which lists them\.",
    ),
    "empty list": (
        lambda folder: (folder / INDEX).write_text("{}"),
        rf"{INDEX} lists no files of weights\.",
    ),
    "list of something": (
        lambda folder: (folder / INDEX).write_text(json.dumps({"weight_map": [1]})),
        rf"{INDEX} lists no files of weights\.",
    ),
    "cut list": (lambda folder: cut(folder / INDEX), rf"{INDEX} is no JSON, or is cut off "),
}


@pytest.mark.parametrize(("change", "fault"), PARTS.values(), ids=PARTS)
def test_weights_in_parts(change, fault, parts):
    """Weights in parts are refused where one of them, or their list, is absent or another file."""
    refuse_broken_files(parts)
    change(parts)
    with pytest.raises(ValueError, match=fault):
        loaded(parts)


def test_adapter_that_was_not_fetched(tmp_path, whole):
    """An adapter is looked at in the same way."""
    pytest.importorskip("peft", reason="needs peft: pip install peft")
    place = tmp_path / "lora"
    place.mkdir()
    (place / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": str(whole)})
    )
    (place / "adapter_model.safetensors").write_text(POINTER)
    for how in ((place, None), (whole, str(place))):
        options = LoadOptions(device="cpu", adapter=how[1])
        with pytest.raises(ValueError, match=r"adapter_model\.safetensors is a pointer of Git LFS"):
            load_scorer(str(how[0]), options=options)


def test_command_names_the_broken_file(folder, tmp_path):
    """A command says it in one sentence."""
    cut(folder / WEIGHTS)
    out = ("--study", "gendered_stigma:rq1", "--limit", "6", "--out", tmp_path / "out")
    refused(swapbias("audit", folder, *out), 2, "is cut off: it has", "Download it again.")
