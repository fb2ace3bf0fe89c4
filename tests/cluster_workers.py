"""Jobs and models of test clusters: slow parts that record their process, and models that fail."""

import os
import time
from pathlib import Path

from swapbias.files import write_whole


def slow(spec):
    """Writes the number of each part into a file, after a while; the log has a line each time."""
    folder = Path(spec["folder"])

    def work(part, advance):
        time.sleep(spec.get("seconds", 0.2))
        write_whole(folder / f"{part['name']}.txt", str(part["number"] ** 2).encode())
        with (folder / "log").open("a") as log:
            log.write(f"{part['name']}\n")
        return {"pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]}

    return work


def deadly(spec):

    def work(part, advance):
        os._exit(1)

    return work


def broken(spec):
    raise OSError(5, "Input/output error", str(spec["file"]))


def positive(texts):
    """Women are .1 less positive with every second letter."""
    return [0.7 - 0.1 * (text.startswith("She") and len(text) % 2) for text in texts]


def failing(texts):
    return [0.5 for _ in texts[1:]]
