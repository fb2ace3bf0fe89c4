"""Datasets of the Hub and clones of them: splits and configs are never read as one."""

import json
import types

import datasets
import huggingface_hub
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.swapping import Job, swap_files
from swapbias.swapping.hub_rows import HubName, read_hub_name
from tests.tables import write

LOAD = datasets.load_dataset
HEAD = "---\n{}\n---\n# A dataset\n"
TWO_CONFIGS = HEAD.format(
    "configs:\n- config_name: a\n  data_files: a.csv\n- config_name: b\n  data_files: ./b.*"
)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub whose datasets are folders below; it keeps the revisions that were asked for."""
    asked = []

    def info(self, name, revision=None):
        asked.append(revision)
        if revision == "nope":
            raise huggingface_hub.errors.RevisionNotFoundError(
                "404", response=types.SimpleNamespace(headers={}, request=None)
            )
        return types.SimpleNamespace(sha="abc123")

    def load(name, config=None, *, revision, **options):
        assert revision == "abc123"
        return LOAD(str(tmp_path / name), config, **options)

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    monkeypatch.setattr(datasets, "load_dataset", load)
    return types.SimpleNamespace(folder=tmp_path / "owner", asked=asked)


def dataset(folder, files):
    """A folder of files by path: columns, or text."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (folder / path).write_text(content)
        else:
            write(folder / path, content)
    return folder


def texts(tmp_path, source, **options):
    """The texts after a swap, and the input as its manifest names it."""
    out = tmp_path / "out"
    swap_files(Job(str(source), **options), out)
    identity = json.loads((out / "swap.json").read_text())["input"]
    return pq.read_table(out / "data")["text"].to_pylist(), identity


SPLITS = {
    "data/train-00000-of-00001.parquet": {"text": ["He trains."]},
    "data/test-00000-of-00001.parquet": {"text": ["She tests."]},
}


@pytest.mark.parametrize(
    "files",
    [
        SPLITS,
        {"train.csv": {"text": ["He trains."]}, "test.csv": {"text": ["She tests."]}},
        {"my_training.csv": {"text": ["He trains."]}, "my_eval.csv": {"text": ["She tests."]}},
        {
            "a.csv": {"text": ["He trains."]},
            "b.csv": {"text": ["She tests."]},
            "README.md": HEAD.format(
                "configs:\n- config_name: x\n  data_files:\n  - split: train\n    path: a.csv\n"
                "  - split: test\n    path: [b*]"
            ),
        },
    ],
    ids=range(4),
)
def test_splits_of_a_clone(tmp_path, files):
    """Train and test files of a clone are kept apart: one is chosen, or a sentence names both."""
    folder = dataset(tmp_path / "clone", files)
    with pytest.raises(UsageError, match=r"contains files of the splits (train|test), .*--split"):
        texts(tmp_path, folder)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match=r"has no split 'dev', there are .*train"):
        texts(tmp_path, folder, split="dev")
    swapped, identity = texts(tmp_path, folder, split="test")
    assert swapped == ["He tests."]
    assert identity["split"] == "test"
    assert "split: test" in (tmp_path / "out/README.md").read_text()


def test_two_names_of_a_split(tmp_path):
    """Of two declared splits with like names, the one that is named exactly is read alone."""
    declared = "configs:\n- config_name: x\n  data_files:\n" + "".join(
        f"  - split: {split}\n    path: {split}.csv\n" for split in ("validation", "dev")
    )
    rows = {"validation.csv": {"text": ["He."]}, "dev.csv": {"text": ["She."]}}
    folder = dataset(tmp_path / "clone", {**rows, "README.md": HEAD.format(declared)})
    assert texts(tmp_path, folder, split="dev")[0] == ["He."]


def test_named_shards_of_a_clone(tmp_path):
    """Shards of two names are two splits; shards of one are read as one."""
    one = {f"gold-0000{at}-of-00002.parquet": {"text": [f"He {at}."]} for at in range(2)}
    assert texts(tmp_path, dataset(tmp_path / "one", one))[0] == ["She 0.", "She 1."]
    two = one | {"silver-00000-of-00001.parquet": {"text": ["She."]}}
    with pytest.raises(UsageError, match="splits gold, silver"):
        texts(tmp_path, dataset(tmp_path / "two", two))


def test_configs_of_a_clone(tmp_path):
    """Configs of a clone are kept apart, and one is chosen by its name."""
    files = {"a.csv": {"text": ["He."]}, "b.csv": {"text": ["She."]}, "README.md": TWO_CONFIGS}
    folder = dataset(tmp_path / "clone", files)
    with pytest.raises(UsageError, match=r"has the configs a, b\. Choose one: .*clone:a"):
        texts(tmp_path, folder)
    with pytest.raises(UsageError, match="has no config 'c', there are a, b"):
        texts(tmp_path, f"{folder}:c")
    assert texts(tmp_path, f"{folder}:b")[0] == ["He."]


def test_clone_of_credentialed_notes(tmp_path):
    """A config of a marked clone is credentialed as its folder is."""
    files = {"a.csv": {"text": ["He."]}, "b.csv": {"text": ["She."]}, "README.md": TWO_CONFIGS}
    folder = dataset(tmp_path / "clone", files)
    (folder / "CREDENTIALED").touch()
    (folder / "PATIENTS.csv").write_text("SUBJECT_ID,GENDER,DOB\n")
    for source in (folder / "a.csv", f"{folder}:a"):
        done = swap_files(Job(str(source)), tmp_path / f"out-{len(str(source))}")
        assert done.credentialed_because


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("owner/name", ("owner/name", None, None)),
        ("owner/name:one", ("owner/name", "one", None)),
        ("owner/name@v1.0", ("owner/name", None, "v1.0")),
        ("owner/name@refs/convert/parquet:one", ("owner/name", "one", "refs/convert/parquet")),
        ("owner/name:one@v1", ("owner/name", "one", "v1")),
        ("name", None),
        ("./owner/name", None),
        ("s3://bucket/name", None),
    ],
)
def test_names_of_datasets(name, expected):
    """A name of the Hub says dataset, config and revision."""
    assert read_hub_name(name) == (expected and HubName(*expected))


def test_revision_of_a_dataset(tmp_path, hub):
    """A dataset is read at the commit of its revision; one that is not there is a sentence."""
    dataset(hub.folder / "notes", {"train.jsonl": {"text": ["He."]}})
    swapped, identity = texts(tmp_path, "owner/notes@v1")
    assert swapped == ["She."]
    assert hub.asked == ["v1"]
    assert identity["revision"] == "abc123"
    with pytest.raises(ValueError, match=r"^owner/notes has no revision 'nope'\. Name a branch"):
        texts(tmp_path, "owner/notes@nope")


def test_splits_and_configs_of_the_hub(tmp_path, hub):
    """Splits and configs of a dataset are named, and one is chosen."""
    dataset(hub.folder / "splits", SPLITS)
    card = TWO_CONFIGS.replace("a.csv", "a.jsonl")
    configs = {"a.jsonl": {"text": ["He."]}, "b.jsonl": {"text": ["She."]}, "README.md": card}
    dataset(hub.folder / "configs", configs)
    for name, split, sentence in (
        ("splits", None, r"^owner/splits has the splits train, test\. Choose one with --split"),
        ("splits", "dev", r"^owner/splits has no split 'dev', there are train, test"),
        ("configs", None, r"^owner/configs has the configs a, b\. Choose one: owner/configs:a\.$"),
        ("configs:c", None, r"^owner/configs has no config 'c', there are a, b\. Choose one"),
    ):
        with pytest.raises(UsageError, match=sentence):
            texts(tmp_path, f"owner/{name}", split=split)
    assert texts(tmp_path, "owner/configs:b@main")[0] == ["He."]


def test_shards_of_the_hub_without_values(tmp_path, hub):
    """A column without a value in the first shard takes the values of the next."""
    dataset(
        hub.folder / "shards",
        {
            "data/train-00000-of-00002.jsonl": '{"text": "He.", "d": null, "x": [null]}\n',
            "data/train-00001-of-00002.jsonl": '{"text": "She.", "d": "d3", "x": ["y"]}\n',
        },
    )
    swap_files(Job("owner/shards"), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/data")
    assert rows.select(["text", "d", "x"]).to_pylist() == [
        {"text": "She.", "d": None, "x": [None]},
        {"text": "He.", "d": "d3", "x": ["y"]},
    ]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"broken.py": "raise SystemExit\n"},
            "is a program, which is never run. Try owner/broken@",
        ),
        (
            {"train.csv": {"text": ["He."]}, "README.md": HEAD.format("license: [mit")},
            "has a README.md whose first lines are no YAML",
        ),
        (
            {
                "train-0.parquet": {"text": ["He."]},
                "train-1.parquet": {"text": [1], "SECRET": ["a"]},
            },
            "has rows of other columns or types than",
        ),
    ],
    ids=["program", "card", "columns"],
)
def test_broken_datasets(tmp_path, hub, files, sentence):
    """What is wrong with a dataset is one sentence."""
    dataset(hub.folder / "broken", files)
    with pytest.raises((ValueError, UsageError), match=sentence) as refused:
        texts(tmp_path, "owner/broken")
    assert "SECRET" not in str(refused.value)
    assert "\n" not in str(refused.value)
