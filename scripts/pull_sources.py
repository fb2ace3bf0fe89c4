"""Fetch or check the pinned upstream files: python scripts/pull_sources.py [CORPUS ...] [--check]."""

import argparse
import sys
from http.client import HTTPException

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.studies import corpora, load_corpus
from swapbias.studies.tables import pinned_files, upstream_file


def main(arguments: list[str] | None = None) -> int:
    """0 when every pinned file is at hand with its sha256, 1 otherwise, 2 for an unknown corpus, 130 when stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="*", help="corpora; all by default")
    parser.add_argument(
        "--check", action="store_true", help="look at what is at hand, fetch nothing"
    )
    chosen = parser.parse_args(arguments)
    try:
        names = [load_corpus(name).name for name in chosen.corpus or corpora()]
    except UsageError as error:
        print(f"pull_sources: {error}", file=sys.stderr)
        return 2
    missing = 0
    for name in names:
        for path in [path for path, pin in pinned_files(name).items() if pin["sha256"]]:
            try:
                upstream_file(name, path, download=not chosen.check)
                state = "ok"
            except (UpstreamMissingError, ValueError) as error:
                missing += 1
                state = str(error)
            except (
                HTTPException,
                OSError,
            ) as error:  # a download that broke off, a disk that is full
                missing += 1
                state = f"{error}. Nothing of it was kept; run the command again."
            except KeyboardInterrupt:
                print("pull_sources: stopped. What is complete stays.", file=sys.stderr)
                return 130
            print(f"{name}: {path}: {state}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
