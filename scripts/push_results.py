"""Share several runs: python scripts/push_results.py RUN [RUN ...] --results OWNER/NAME [--dry-run]."""

import sys

from swapbias.cli import main

sys.argv[1:1] = ["push", "results"]
main()
