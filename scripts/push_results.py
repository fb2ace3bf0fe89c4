"""Share several runs: python scripts/push_results.py RUN [RUN ...] --results OWNER/NAME [--public] [--dry-run]."""

import argparse
import sys
from pathlib import Path

from swapbias.audit import Run
from swapbias.errors import UsageError
from swapbias.hub import Hub, Wanted, complain, prepare_output, say, share_run as share


def main() -> int:
    """0 when every run is on the Hub, 1 when one failed, 2 for what cannot be meant. Model pages: swapbias share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--results", required=True, help="your results repository; made, private, if need be")
    parser.add_argument("--public", action="store_true", help="everybody may read the results")
    parser.add_argument("--findings-only", action="store_true", help="no scored prompts or answers")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, write nothing")
    chosen = parser.parse_args()
    prepare_output()
    wanted = Wanted(
        results=chosen.results,
        public=chosen.public,
        findings_only=chosen.findings_only,
        dry_run=chosen.dry_run,
    )
    code = 0
    for folder in dict.fromkeys(chosen.run):
        try:
            for done in share(Run.open(folder), wanted, Hub(), say=say):
                say(f"{folder}: {done.repo.name} {done.status}. {done.url}")
        except KeyboardInterrupt:
            _complain("stopped. What is on the Hub stays; run it again.")
            return 130
        except OSError as error:
            _complain(f"{folder}: {error.strerror or error}. Check the place and its free space.")
            code = max(code, 1)
        except ValueError as error:
            _complain(error)
            code = max(code, 2 if isinstance(error, UsageError) else 1)
        except Exception as error:  # noqa: BLE001 - the last resort before a traceback
            _complain(f"{folder}: {type(error).__name__}: {error}. This is a fault of swapbias.")
            code = max(code, 1)
    return code


def _complain(sentence: object) -> None:
    complain("push_results", sentence)


if __name__ == "__main__":
    sys.exit(main())
