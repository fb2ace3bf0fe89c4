"""Corpora are builders of datasets, whose files lie in the cache of swapbias by a hash of the rows."""

import pickle
import stat
from importlib import import_module
from pathlib import Path
from urllib.error import URLError

import datasets
import pytest

import swapbias
from swapbias import studies
from swapbias.builders.occupation_sentiment import Builder
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import CREDENTIALED
from swapbias.hub import corpus_builder
from swapbias.studies import Config, Corpus
from tests.notes.mimic import write_mimic3


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made_up(monkeypatch, cache):
    """A function that makes a builder of a corpus with these rows."""

    def make(*rows, types=None):
        config = Config(
            "words", "Words", lambda: rows, ("word", "part"), types or {}, split_column="part"
        )
        corpus = Corpus(name="made_up", title="Words of a test", configs=(config,))
        monkeypatch.setitem(studies.catalogue._OWN, "made_up", corpus)
        return swapbias.dataset_builder("made_up")

    return make


@pytest.mark.parametrize("name", studies.corpora())
def test_builder_of_each_module(name):
    """Each module of a corpus has its class of builders, and no other name that it does not have."""
    module = import_module(f"swapbias.builders.{name}")
    assert issubclass(module.Builder, datasets.ArrowBasedBuilder)
    assert module.Builder is module.Builder
    assert module.Builder.corpus_name == name
    with pytest.raises(AttributeError, match="has no attribute 'Bilder'"):
        module.Bilder  # noqa: B018


def test_info(cache):
    """The info of a builder says what its card says."""
    info = Builder("control").info
    corpus = studies.load_corpus("occupation_sentiment")
    assert info.description == f"{corpus.title}: {corpus.config('control').description}"
    assert info.citation.startswith("@inproceedings{bhaskaran-bhallamudi-2019")
    assert (info.homepage, info.license) == (corpus.study.url, "apache-2.0, mit")
    assert str(info.version) == corpus.version
    assert list(info.features) == list(corpus.config("control").published_columns)


def test_rows_and_streamed_rows(made_up):
    """Rows are split as they say, in memory-mapped files and streamed alike."""
    rows = [
        {"word": word, "part": part}
        for word, part in (("a", "train"), ("b", "test"), ("c", "train"))
    ]
    builder = made_up(*rows)
    builder.download_and_prepare()
    assert builder.as_dataset(split="train")["word"][:] == ["a", "c"]
    assert builder.as_dataset(split="train[1:]")["word"][:] == ["c"]
    assert builder.as_dataset(split="test").cache_files
    assert [row["word"] for row in builder.as_streaming_dataset(split="train")] == ["a", "c"]
    assert swapbias.load_prompts("made_up")["word"][:] == ["a", "c", "b"]
    assert swapbias.load_prompts("made_up", split="test")["word"][:] == ["b"]
    with pytest.raises(UsageError, match=r"words has no split 'tset': expected one of train, test"):
        swapbias.load_prompts("made_up", split="tset")


def test_changed_rows(made_up):
    """A changed row is another hash, the same rows are the same."""
    first = made_up({"word": "a", "part": "test"})
    first.download_and_prepare()
    assert made_up({"word": "a", "part": "test"}).hash == first.hash
    changed = made_up({"word": "b", "part": "test"})
    changed.download_and_prepare()
    assert changed.hash != first.hash
    assert changed.as_dataset(split="test")["word"][:] == ["b"]
    assert made_up({"word": "a", "part": "test"}, types={"word": ["a"]}).hash != first.hash


def test_broken_row(made_up):
    """A value of another type is the sentence on its table."""
    builder = made_up({"word": "a", "part": "test"}, types={"word": "int64"})
    with pytest.raises(ValueError, match="words: word is 'a', expected int64"):
        builder.download_and_prepare()


def test_cache_of_rows(cache, tmp_path):
    """Files are in the cache of swapbias or the folder that is named, for their user alone."""
    for builder, folder in (
        (Builder("control"), cache),
        (Builder("control", cache_dir=tmp_path / "named"), tmp_path / "named"),
    ):
        builder.download_and_prepare()
        assert len([*(folder / "datasets").rglob("*.arrow")]) == 1
        assert stat.S_IMODE((folder / "datasets").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["datasets", "notes"])
def test_named_folder_stays_open(name, tmp_path):
    """A folder that the user names stays open to others, whatever its name: only the one in it is closed."""
    named = tmp_path / name
    named.mkdir()
    named.chmod(0o755)
    Builder("control", cache_dir=named)
    assert stat.S_IMODE(named.stat().st_mode) == 0o755
    assert stat.S_IMODE((named / "datasets").stat().st_mode) == 0o700


def test_builder_in_another_process(cache):
    """A stream is pickled for the workers of a loader, and gives the same rows."""
    stream = Builder("control").as_streaming_dataset(split="test")
    assert [*pickle.loads(pickle.dumps(stream))] == [*stream]  # noqa: S301


def test_path_stays(cache):
    """A builder leaves Path and open as they are where rows are made."""
    path = corpus_builder.Path
    Builder("control").as_streaming_dataset()
    assert corpus_builder.Path is path


def two_words():
    return [{"word": "a"}, {"word": "b"}]


def test_given_corpus_in_another_process(cache):
    """A builder of a corpus that was given to it is pickled with that corpus."""
    corpus = Corpus(
        name="made_up", title="Words", configs=(Config("words", "Words", two_words, ("word",)),)
    )
    builder = corpus_builder.CorpusBuilder("words", corpus=corpus)
    copy = pickle.loads(pickle.dumps(builder))  # noqa: S301
    assert copy.hash == builder.hash
    copy.download_and_prepare()
    assert copy.as_dataset(split="test")["word"][:] == ["a", "b"]


def test_output_folder_of_notes(cache, tmp_path, monkeypatch):
    """A folder for rows of credentialed notes is marked and closed before the first row is in it."""
    write_mimic3(tmp_path / "mimic", notes=12)
    builder = swapbias.dataset_builder("clinical_notes", "pairs", data_dir=tmp_path / "mimic")
    seen = []

    def watched(rows):
        for number, table in type(builder)._generate_tables(builder, rows):
            folder = Path(builder._output_dir)
            written = sum(path.stat().st_size for path in folder.rglob("*.arrow"))
            mode = stat.S_IMODE(folder.stat().st_mode)
            seen.append((folder.name, (folder / CREDENTIALED).exists(), mode, written))
            yield number, table

    monkeypatch.setattr(builder, "_generate_tables", watched)
    builder.download_and_prepare(str(tmp_path / "out"))
    assert seen[0] == ("out.incomplete", True, 0o700, 0)
    assert (tmp_path / "out" / CREDENTIALED).exists()
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()} == {0o600}


def test_upstream_file_without_network(cache, monkeypatch):
    """A corpus whose upstream file cannot be fetched says what is missing, where, and what to do."""
    monkeypatch.delenv("SWAPBIAS_UPSTREAM", raising=False)

    def unreachable(url, timeout):
        raise URLError(OSError(-2, "Name or service not known"))

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(UpstreamMissingError) as raised:
        swapbias.dataset_builder("gest", "masked")
    assert str(raised.value) == (
        "gest is made of kinit-sk/gest/data/gest.csv, which could not be fetched: GitHub cannot be reached from "
        "here. Go online once, or set SWAPBIAS_UPSTREAM to a folder that contains it."
    )
