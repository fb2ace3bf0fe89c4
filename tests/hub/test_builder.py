"""Corpora as builders of datasets: the rows of load_prompts, cached by what makes them; credentialed ones stay."""

import copy
import shutil
from itertools import islice

import pytest
from datasets import Value, concatenate_datasets

import swapbias
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub import dataset_builder, datasets as builders
from swapbias.hub.datasets import build
from swapbias.privacy import is_credentialed
from swapbias.studies import catalogue, load_corpus, load_prompts, new_study
from swapbias.studies.tables import corpus_dir
from tests.notes.mimic import write_mimic3, write_mimic4

SMALL = "occupation_sentiment"


def made(cache, *wanted, **options):
    builder = dataset_builder(*wanted, cache_dir=cache, **options)
    builder.download_and_prepare()
    return builder


@pytest.fixture(scope="module")
def mimic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    write_mimic3(folder, notes=120)
    return folder


@pytest.mark.parametrize("name", [SMALL, "clinical_notes", "gest", "resume_ranking", "clinical_chat"])
def test_the_first_config_of_a_corpus_is_what_load_prompts_gives(name, tmp_path):
    try:
        wanted = load_prompts(name)
    except UpstreamMissingError as error:
        with pytest.raises(UpstreamMissingError, match=str(error)[:20]):
            made(tmp_path, name)
        return
    builder = made(tmp_path, name)
    splits = builder.as_dataset()
    config = load_corpus(name).configs[0]
    if config.split_column:
        chosen = {
            split: wanted.filter(lambda row, split=split: row[config.split_column] == split) for split in splits
        }
        assert {row[config.split_column] for row in wanted} == set(splits)
    else:
        chosen = {config.split: wanted}
    assert splits.keys() == chosen.keys()
    assert all(splits[split].to_list() == chosen[split].to_list() for split in chosen)
    assert concatenate_datasets(list(splits.values())).features == wanted.features
    info = builder.info
    assert (info.citation, info.homepage.startswith("https://")) == (load_info(name).citation, True)
    assert all(each in info.description for each in (load_corpus(name).title, config.description))
    assert str(info.version) == load_corpus(name).version
    assert load_corpus(name).licence.lower() in info.license


def load_info(name):
    return dataset_builder(name).info


def test_rows_types_and_words_are_those_of_the_built_folder(tmp_path):
    from datasets import load_dataset_builder

    list(build(SMALL, tmp_path / "built"))
    folder = load_dataset_builder(str(tmp_path / "built" / SMALL), "control", cache_dir=tmp_path / "hf")
    mine = made(tmp_path / "cache", SMALL, "control")
    folder.download_and_prepare()
    assert mine.as_dataset(split="test").to_list() == folder.as_dataset(split="test").to_list()
    assert mine.info.features == folder.info.features


def test_a_table_that_changes_gives_another_cache_folder(tmp_path, monkeypatch):
    first, same = (made(tmp_path / "cache", SMALL, "control") for _ in range(2))
    assert first.cache_dir == same.cache_dir
    assert first.hash in first.cache_dir
    assert load_corpus(SMALL).version in first.cache_dir
    tables = tmp_path / "tables"
    shutil.copytree(corpus_dir(SMALL).parent, tables)
    monkeypatch.setattr(builders, "corpus_dir", lambda name: tables / name)
    assert dataset_builder(SMALL, "control", cache_dir=tmp_path / "cache").cache_dir == first.cache_dir
    table = next((tables / SMALL).glob("*.csv"))
    table.write_text(table.read_text() + " ")
    assert dataset_builder(SMALL, "control", cache_dir=tmp_path / "cache").cache_dir != first.cache_dir


def test_a_stream_gives_the_same_rows_and_writes_nothing(tmp_path):
    builder = dataset_builder(SMALL, "sentences", cache_dir=tmp_path)
    stream = builder.as_streaming_dataset(split="test")
    assert list(stream) == load_prompts(SMALL, "sentences").to_list()
    assert stream.features["text"] == Value("string")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_notes_of_mimic_are_made_here_and_stay_here(mimic, tmp_path):
    stream = dataset_builder("clinical_notes", data_dir=mimic, cache_dir=tmp_path).as_streaming_dataset()
    builder = made(tmp_path, "clinical_notes", data_dir=mimic)  # every note, streamed from the table
    pairs = made(tmp_path, "clinical_notes", "pairs", data_dir=str(mimic))
    notes = builder.as_dataset(split="train")
    assert notes.to_list() == load_prompts("clinical_notes", data=mimic).to_list() == list(stream["train"])
    assert pairs.as_dataset(split="test").to_list() == load_prompts("clinical_notes", "pairs", data=mimic).to_list()
    assert all(notes["credentialed"])
    assert builder.info.citation == ""
    assert builder.info.license == "other"
    derived = (
        notes.map(lambda row: {"words": len(row["text"].split())})
        .filter(lambda row: row["words"] > 2)
        .select(range(3)),
        builder.as_dataset().remove_columns("gender"),
        notes.train_test_split(test_size=2)["test"],
        stream["train"].filter(lambda row: True).take(2),
        notes.to_iterable_dataset().shuffle(seed=1),
        copy.deepcopy(notes),
    )
    for held in (notes, stream, stream["train"], builder.as_dataset(), pairs.as_dataset(split="test"), *derived):
        with pytest.raises(UsageError, match="credentialed clinical data, which must not be published"):
            held.push_to_hub("alice/notes")
    assert is_credentialed(tmp_path.joinpath(notes.cache_files[0]["filename"]))
    again = dataset_builder("clinical_notes", data_dir=mimic, cache_dir=tmp_path)  # read from the cache
    with pytest.raises(UsageError, match="must not be published"):
        again.as_dataset().push_to_hub("alice/notes")
    (mimic / "more.txt").write_text("x")
    assert dataset_builder("clinical_notes", data_dir=mimic, cache_dir=tmp_path).cache_dir != builder.cache_dir


def test_the_folder_of_mimic_iv_is_known_by_what_lies_in_it(tmp_path):
    write_mimic4(tmp_path / "iv", notes=12)
    assert is_credentialed(tmp_path / "iv")
    stream = dataset_builder("clinical_notes", data_dir=tmp_path / "iv").as_streaming_dataset(split="train")
    assert len(list(islice(stream, 3))) == 3
    with pytest.raises(UsageError, match="must not be published"):
        stream.push_to_hub("alice/notes")


def test_a_study_of_ones_own_is_built_too(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "_OWN", {})
    folder = tmp_path / "pets"
    new_study(folder)
    name = swapbias.open_study(folder).name
    builder = made(tmp_path / "cache", name)
    assert builder.as_dataset(split="test").to_list() == load_prompts(name).to_list()
    table = folder / "templates.csv"
    table.write_text(table.read_text() + "\n")
    swapbias.open_study(folder)
    assert dataset_builder(name, cache_dir=tmp_path / "cache").hash != builder.hash


def test_what_is_no_credentialed_build_can_be_published(tmp_path):
    assert type(made(tmp_path, SMALL, "control").as_dataset(split="test")).__module__.startswith("datasets.")


def test_trouble_with_a_folder_keeps_its_sentence(mimic, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(mimic, broken)
    with (broken / "NOTEEVENTS.csv").open("a") as table:
        table.write("1,2\n")
    with pytest.raises(ValueError, match=r"NOTEEVENTS\.csv") as raised:
        made(tmp_path / "cache", "clinical_notes", data_dir=broken)
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="gendered_stigma reads no folder"):
        dataset_builder("gendered_stigma", data_dir=mimic)
    with pytest.raises(UsageError, match="Unknown config of occupation_sentiment"):
        swapbias.dataset_builder(SMALL, "sentence")
