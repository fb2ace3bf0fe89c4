"""Publish metrics as Spaces: python scripts/push_metrics.py [METRIC ...] --namespace NS [--private] [--dry-run]."""

import argparse
import sys
from pathlib import Path

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.hub import Hub
from swapbias.publishing.pushing import check_namespace, push_each
from swapbias.publishing.releases import check_release
from swapbias.publishing.spaces import push_metric
from swapbias.publishing.telling import complain, prepare_output, say
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
    prepare_output()
    names = dict.fromkeys(chosen.metric or metrics())
    try:
        for name in names:
            folder = metric_path(name)  # an unknown one is told before anything is pushed
            if not chosen.untagged:
                check_release(Path(folder), __version__)
        hub = Hub()
        check_namespace(hub, chosen.namespace)
    except ValueError as error:
        _complain(str(error))
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _complain("stopped. Nothing was pushed.")
        return 130
    if chosen.untagged:
        say(f"v{__version__} is not checked: the pages name a release that may not be there.")
    return push_each(
        names,
        lambda name: push_metric(
            hub, name, namespace=chosen.namespace, private=chosen.private, dry_run=chosen.dry_run, say=say
        ),
        say=say,
        complain=_complain,
    )


def _complain(sentence: object) -> None:
    complain("push_metrics", sentence)


if __name__ == "__main__":
    sys.exit(main())
