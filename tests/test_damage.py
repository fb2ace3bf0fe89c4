"""Flipped bits on the disk: over all files of a run none changes a result without a word."""

import random
import shutil

import pytest

from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.runs.results import read_run


def sentiment(texts):
    """A gap of .1 with every second letter that a text may have."""
    return [0.6 - 0.1 * (text.startswith("She") and len(text) % 2) for text in texts]


SETTINGS = Settings(model="tests.test_damage:sentiment", studies=("occupation_sentiment:sentences",), limit=400)


def attempt(work):
    """What came of it, or the error."""
    try:
        return work(), None
    except (ValueError, OSError) as error:
        return None, error


def flipped(folder, times, seed):
    """Copies of a folder, each with one bit of one of its files flipped; every file has its turn."""
    draw = random.Random(seed)
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [name for name in files if (folder / name).stat().st_size]
    for number in range(times):
        copy = folder.with_name(f"{folder.name}-{number}")
        shutil.copytree(folder, copy)
        path = copy / files[number % len(files)]
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        yield copy, path
        shutil.rmtree(copy)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, quiet):
    """A run that is complete."""
    return start(SETTINGS, tmp_path_factory.mktemp("runs") / "whole", draw=False, **quiet)[0].folder


def told(folder):
    results = read_run(folder)
    items = {name: rows.to_dict("list") for name, rows in results.items.items()}
    manifest = {
        name: value for name, value in results.manifest.items() if name not in ("started", "finished", "sha256")
    }
    return repr((results.found, items, manifest))


def test_no_flipped_bit_of_a_finished_run_changes_a_result_silently(whole):
    files = ("results.json", "findings.csv", "occupation_sentiment.parquet", "lexicon_coverage.csv")
    expected, detected = told(whole), 0
    for copy, path in flipped(whole, 24, seed=1):
        if path.name not in files:  # nothing records the sha256 of the manifest itself
            continue
        what, error = attempt(lambda copy=copy: told(copy))
        assert path.name in str(error) if error else what == expected, (path, error)
        detected += error is not None
    assert detected > 8  # of some files nothing is read: tables for people
