"""Publish metrics as Spaces: python scripts/push_metrics.py [METRIC ...] --namespace NS [--dry-run]."""

import sys

from swapbias.cli import main

sys.argv[1:1] = ["push", "metrics"]
main()
