"""Publish metrics as Spaces: python scripts/push_metrics.py [METRIC ...] --namespace NS [--private] [--dry-run]."""

import argparse
import sys

from swapbias.hub import push_metrics


def main() -> int:
    """0 when every metric is on the Hub as it is here, 1 when one failed, 2 for a name that cannot be meant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metric", nargs="*", help="metrics; all by default")
    parser.add_argument("--namespace", required=True, help="your name or an organisation's on the Hub")
    parser.add_argument("--private", action="store_true", help="make new Spaces private")
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed, push nothing")
    parser.add_argument("--untagged", action="store_true", help="do not ask git whether the release is tagged")
    chosen = vars(parser.parse_args())
    return push_metrics(chosen.pop("metric"), **chosen, caller="push_metrics")


if __name__ == "__main__":
    sys.exit(main())
