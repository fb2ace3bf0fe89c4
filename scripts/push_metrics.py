"""Publish metrics as Spaces: python scripts/push_metrics.py [METRIC ...] --namespace NS [--private] [--dry-run]."""

import argparse
import sys

from swapbias.errors import UsageError
from swapbias.hub import Hub
from swapbias.publishing.pushing import check_namespace, push_each
from swapbias.publishing.spaces import push_metric
from swapbias.studies import metric_path, metrics


def main() -> int:
    """0 when every metric is on the Hub as it is here, 1 when one failed, 2 for a name that cannot be meant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metric", nargs="*", help="metrics; all by default")
    parser.add_argument("--namespace", required=True, help="your name or an organisation's on the Hub")
    parser.add_argument("--private", action="store_true", help="make new Spaces private")
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed, push nothing")
    chosen = parser.parse_args()
    names = dict.fromkeys(chosen.metric or metrics())
    try:
        for name in names:
            metric_path(name)  # an unknown one is told before anything is pushed
        hub = Hub()
        check_namespace(hub, chosen.namespace)
    except ValueError as error:
        _complain(str(error))
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _complain("stopped. Nothing was pushed.")
        return 130
    return push_each(
        names,
        lambda name: push_metric(
            hub, name, namespace=chosen.namespace, private=chosen.private, dry_run=chosen.dry_run, say=_say
        ),
        say=_say,
        complain=_complain,
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _complain(sentence: str) -> None:
    print(f"push_metrics: {' '.join(sentence.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
