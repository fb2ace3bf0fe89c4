"""Fetch what was published: python scripts/pull.py {datasets,metrics,results} ... --out DIR."""

import argparse
import sys
from pathlib import Path

from swapbias.hub import DATASET, METRIC, RESULTS, pull_all


def main(arguments: list[str] | None = None) -> int:
    """0 when everything asked for is there and whole, 1 otherwise, 2 for a command that cannot be meant."""
    chosen = vars(_arguments(arguments))
    kind = {"datasets": DATASET, "metrics": METRIC, "results": RESULTS}[chosen.pop("kind")]
    return pull_all(kind, chosen.pop("names"), **chosen, caller="pull")


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="{datasets,metrics,results}")
    for kind, name, what in (("datasets", "CORPUS", "corpora"), ("metrics", "METRIC", "measures")):
        one = kinds.add_parser(kind, help=f"{what} of a namespace, as folders")
        one.add_argument("namespace", metavar="NS", help="user or organisation on the Hub")
        one.add_argument("names", nargs="*", metavar=name, help=f"{what}; all that are there by default")
    results = kinds.add_parser("results", help="runs that somebody shared, as folders")
    results.add_argument("names", nargs="+", metavar="NS/REPO", help="repositories of results")
    for one in kinds.choices.values():
        one.add_argument("--revision", default="main", help="a tag (v and the version on the card) or commit")
        one.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
