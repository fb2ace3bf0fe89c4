"""Audit a model each night, gate it, and compare it with the last night that passed.

    python examples/nightly_gate.py --model ./model --study occupation_sentiment --runs nightly

Each night has its run in ``nightly/DATE``. The script ends as ``swapbias check`` does: 0 where every gap is within
the margin and none has grown by more, 1 where one is not, 3 where these prompts cannot decide.
"""

import argparse
import sys
from datetime import date
from pathlib import Path

import swapbias
from swapbias.runs import check_run

PASSED = "passed"  # the file that marks a night's run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a Hub id, a folder, or vader")
    parser.add_argument("--study", default="occupation_sentiment")
    parser.add_argument(
        "--runs", type=Path, default=Path("nightly"), help="the folder of all nights"
    )
    parser.add_argument("--night", default=date.today().isoformat(), help="the name of this night")
    parser.add_argument("--max-gap", type=float, default=0.05, help="a share of the score's range")
    settings = parser.parse_args()

    passed = sorted(mark.parent for mark in settings.runs.glob(f"*/{PASSED}"))
    run = settings.runs / settings.night
    swapbias.audit(settings.model, settings.study, out=run, progress=False)  # resumes a stopped run
    gates = {"every gap": check_run(run, max_gap=settings.max_gap)}
    earlier = [night for night in passed if night != run]
    if earlier:
        gates[f"against {earlier[-1].name}"] = check_run(
            run, max_gap=settings.max_gap, baseline=earlier[-1]
        )
    for name, gate in gates.items():
        print(f"{settings.night}, {name}: {gate.outcome}")
        for check in gate.checks:
            estimate = check.finding.estimate
            print(
                f"  {check.outcome}: {check.finding.contrast} {estimate.value:+.3f} "
                f"({estimate.ci_low:+.3f} to {estimate.ci_high:+.3f})"
            )
    codes = {gate.code for gate in gates.values()}
    if codes == {0}:
        (run / PASSED).touch()
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
