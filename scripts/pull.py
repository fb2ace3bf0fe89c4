"""Fetch what was published: python scripts/pull.py {datasets,metrics,results} ... --out DIR."""

import argparse
import sys
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.hub import (
    DATASET,
    METRIC,
    RESULTS,
    Hub,
    complain,
    prepare_output,
    pull_repo,
    say,
    wanted_repos,
)

_OF_OTHERS = {
    METRIC: "A metric is code of its owner: read it before you load it.",
    RESULTS: "Reports and figures are files of their owners: open them as you would a page of a stranger's.",
}


def main(arguments: list[str] | None = None) -> int:
    """0 when everything asked for is there and whole, 1 otherwise, 2 for a command that cannot be meant."""
    chosen = _arguments(arguments)
    kind = {"datasets": DATASET, "metrics": METRIC, "results": RESULTS}[chosen.kind]
    prepare_output()
    try:
        hub = Hub()
        repos = chosen.names if kind == RESULTS else wanted_repos(hub, kind, chosen.namespace, chosen.names)
        codes = [_pull(hub, kind, name, chosen) for name in repos]
    except ValueError as error:
        return _failed(error)
    except KeyboardInterrupt:
        complain("pull", "stopped; what was complete is kept. Run the command again to go on.")
        return 130
    if kind in _OF_OTHERS and not all(codes):
        say(_OF_OTHERS[kind])
    if any(codes):
        complain("pull", f"{sum(map(bool, codes))} of {len(codes)} could not be pulled")
    return max(codes)


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
        one.add_argument("--revision", default="main", help="a tag (v1.0.0) or commit; the newest by default")
        one.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    return parser.parse_args(given)


def _pull(hub: Hub, kind: str, name: str, chosen: argparse.Namespace) -> int:
    """Pull one repository; trouble with it does not stop the others."""
    try:
        say(pull_repo(hub, kind, name, chosen.out, revision=chosen.revision))
        return 0
    except ValueError as error:
        return _failed(error)
    except OSError as error:
        complain("pull", f"{name}: {error.filename}: {error.strerror or error}. Check the place and its free space.")
    except Exception as error:  # noqa: BLE001 - what a stranger made must not stop the others
        complain("pull", f"{name}: {type(error).__name__}. Nothing of it was kept. This is a fault of swapbias.")
    return 1


def _failed(error: ValueError) -> int:
    complain("pull", error)
    return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main())
