"""Publish corpora: python scripts/push_datasets.py [CORPUS ...] --namespace NS [--private] [--dry-run]."""

import argparse
import sys

from swapbias.hub import push_datasets


def main() -> int:
    """0 when every corpus is on the Hub as it is here, 1 when one failed, 2 for a name that cannot be meant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="*", help="corpora; all by default")
    parser.add_argument("--namespace", required=True, help="your name or an organisation's on the Hub")
    parser.add_argument("--private", action="store_true", help="make new datasets private")
    parser.add_argument("--benchmark", action="store_true", help="add the tasks by which the Hub knows benchmarks")
    parser.add_argument("--collection", default="", help="title of a collection to put them into; made if need be")
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed, push nothing")
    chosen = vars(parser.parse_args())
    return push_datasets(chosen.pop("corpus"), **chosen, caller="push_datasets")


if __name__ == "__main__":
    sys.exit(main())
