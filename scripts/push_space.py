"""Publish shared runs side by side: python scripts/push_space.py OWNER/SPACE RESULTS [RESULTS ...]."""

import sys

from swapbias.cli import main

sys.argv[1:1] = ["push", "comparison"]
main()
