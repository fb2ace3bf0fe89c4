"""Publish metrics as Spaces: python scripts/push_metrics.py [METRIC ...] --namespace NS [--private] [--dry-run]."""

import argparse
import sys
from pathlib import Path

from swapbias import __version__
from swapbias.hub import check_release, push_command, push_metric, say
from swapbias.studies import metric_path, metrics


def main() -> int:
    """0 when every metric is on the Hub as it is here, 1 when one failed, 2 for a name that cannot be meant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metric", nargs="*", help="metrics; all by default")
    parser.add_argument("--namespace", required=True, help="your name or an organisation's on the Hub")
    parser.add_argument("--private", action="store_true", help="make new Spaces private")
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed, push nothing")
    parser.add_argument("--untagged", action="store_true", help="do not ask git whether the release is tagged")
    chosen = parser.parse_args()
    return push_command(
        "push_metrics",
        chosen.namespace,
        lambda: _names(chosen.metric or metrics(), untagged=chosen.untagged),
        lambda hub, name: push_metric(
            hub, name, namespace=chosen.namespace, private=chosen.private, dry_run=chosen.dry_run, say=say
        ),
    )


def _names(names: list[str], *, untagged: bool) -> list[str]:
    """The metrics, once it is known that there are such and that the release their pages name is tagged."""
    folders = [Path(metric_path(name)) for name in names]
    if untagged:
        say(f"v{__version__} is not checked: the pages name a release that may not be there.")
    else:
        check_release(folders[0], __version__)
    return names


if __name__ == "__main__":
    sys.exit(main())
