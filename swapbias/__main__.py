"""Run the command line as ``python -m swapbias``."""

from swapbias.cli import main

main()
