"""Fetch what was published: python scripts/pull.py {datasets,metrics,results} ... --out DIR."""

import sys

from swapbias.cli import main

sys.argv[1:1] = ["pull"]
main()
