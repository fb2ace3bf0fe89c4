"""Share several runs: python scripts/push_results.py RUN [RUN ...] --results OWNER/NAME [--public] [--dry-run]."""

import argparse
import sys
from pathlib import Path

from swapbias.hub import Wanted, push_results


def main() -> int:
    """0 when every run is on the Hub, 1 when one failed, 2 for what cannot be meant. Model pages: swapbias share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--results", required=True, help="your results repository; made, private, if need be")
    parser.add_argument("--public", action="store_true", help="everybody may read the results")
    parser.add_argument("--findings-only", action="store_true", help="no scored prompts or answers")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, write nothing")
    chosen = vars(parser.parse_args())
    return push_results(chosen.pop("run"), Wanted(**chosen), caller="push_results")


if __name__ == "__main__":
    sys.exit(main())
