"""``python -m swapbias``."""

from swapbias.cli import main

main()
