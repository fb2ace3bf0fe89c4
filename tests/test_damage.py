"""Flipped bits on the disk: over all files of a run and of a swap folder, none changes a result without a word."""

import random
import shutil

import pytest

from swapbias.runs.audit import resume, start
from swapbias.runs.plan import Settings
from swapbias.runs.results import read_run
from swapbias.runs.run import Run
from swapbias.swapping import Job, swap_files
from swapbias.swapping.readers import read_files

ROWS = [f"He said that his wife saw Mr. Smith {number}, and that she gave him her book." for number in range(60)]


def sentiment(texts):
    """A gap of .1 with every second letter that a text may have."""
    return [0.6 - 0.1 * (text.startswith("She") and len(text) % 2) for text in texts]


SETTINGS = Settings(model="tests.test_damage:sentiment", studies=("occupation_sentiment:sentences",), limit=400)


class StoppedError(Exception):
    """The process ends here."""


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


def test_a_finished_run_of_an_older_version_still_reads(whole, tmp_path, quiet):
    run = Run(shutil.copytree(whole, tmp_path / "old"))
    run.write_manifest({name: value for name, value in run.manifest().items() if name != "sha256"})
    assert told(run.folder) == told(whole)
    again, _ = resume(run.folder, trust=True, **quiet)
    assert again.items("occupation_sentiment").equals(Run(whole).items("occupation_sentiment"))


@pytest.fixture(scope="module")
def swapped(tmp_path_factory):
    """Input, a complete folder, and one that was stopped between two parts."""
    folder = tmp_path_factory.mktemp("swaps")
    source = folder / "rows.csv"
    source.write_text("\n".join(["text", *(f'"{row}"' for row in ROWS)]))
    swap_files(Job(str(source)), folder / "whole", part_bytes=800)

    def stop(step):
        if step.rows > 35:
            raise StoppedError

    with pytest.raises(StoppedError):
        swap_files(Job(str(source)), folder / "stopped", part_bytes=800, on_progress=stop)
    return source, folder / "whole", folder / "stopped"


def parts(folder):
    return {path.name: path.read_bytes() for path in (folder / "data").glob("part-*.parquet")}


@pytest.mark.parametrize("which", ["whole", "stopped"])
def test_no_flipped_bit_of_a_swap_folder_stays(swapped, which):
    source, whole, stopped = swapped
    expected, mended = parts(whole), 0
    begun = whole if which == "whole" else stopped
    for copy, path in flipped(begun, 24, seed=3):
        before = parts(copy)
        if which == "whole" and path.suffix == ".parquet":
            mended += _refused(copy / "data" / path.name)
        _, error = attempt(lambda copy=copy: swap_files(Job(str(source)), copy, part_bytes=800))
        assert error is None or path.name == "swap.json" or "is complete" in str(error), error
        assert path.name == "swap.json" or parts(copy) == expected, path
        mended += any(name in before and before[name] != content for name, content in parts(copy).items())
    assert mended > 8


def _refused(path):
    """Whether reading a damaged part is refused; a flip that no page holds gives the same rows or an error."""
    try:
        list(read_files([path]).read(100))
    except ValueError as error:
        assert "no whole Parquet file" in str(error)  # noqa: PT017
        return True
    return False
