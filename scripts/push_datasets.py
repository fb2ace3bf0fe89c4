"""Publish corpora: python scripts/push_datasets.py [CORPUS ...] --namespace NS [--private] [--dry-run]."""

import argparse
import sys

from swapbias.errors import UsageError
from swapbias.hub import Hub
from swapbias.publishing.datasets import push_dataset
from swapbias.publishing.pushing import check_namespace, push_each
from swapbias.publishing.telling import complain, prepare_output, say
from swapbias.studies import corpora, load_corpus


def main() -> int:
    """0 when every corpus is on the Hub as it is here, 1 when one failed, 2 for a name that cannot be meant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="*", help="corpora; all by default")
    parser.add_argument("--namespace", required=True, help="your name or an organisation's on the Hub")
    parser.add_argument("--private", action="store_true", help="make new datasets private")
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed, push nothing")
    chosen = parser.parse_args()
    prepare_output()
    try:
        names = [load_corpus(name).name for name in chosen.corpus or corpora()]
        hub = Hub()
        check_namespace(hub, chosen.namespace)
    except ValueError as error:
        _complain(str(error))
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _complain("stopped. Nothing was pushed.")
        return 130
    return push_each(
        dict.fromkeys(names),
        lambda name: push_dataset(
            hub, name, namespace=chosen.namespace, private=chosen.private, dry_run=chosen.dry_run, say=say
        ),
        say=say,
        complain=_complain,
    )


def _complain(sentence: object) -> None:
    complain("push_datasets", sentence)


if __name__ == "__main__":
    sys.exit(main())
