"""Publish shared runs side by side: python scripts/push_space.py OWNER/SPACE RESULTS [RESULTS ...] [--dry-run]."""

import argparse
import sys

from swapbias.hub import push_space


def main(arguments: list[str] | None = None) -> int:
    """0 when the Space shows the results as they are, 1 when it could not be made, 2 for what cannot be meant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("space", help="OWNER/NAME; made if need be")
    parser.add_argument("results", nargs="+", help="repositories of results: OWNER/NAME[/RUN][@REVISION]")
    parser.add_argument("--private", action="store_true", help="make a new Space private")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, write nothing")
    return push_space(**vars(parser.parse_args(arguments)), caller="push_space")


if __name__ == "__main__":
    sys.exit(main())
