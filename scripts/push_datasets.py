"""Publish corpora: python scripts/push_datasets.py [CORPUS ...] --namespace NS [--dry-run]."""

import sys

from swapbias.cli import main

sys.argv[1:1] = ["push", "datasets"]
main()
