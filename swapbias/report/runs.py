"""Runs of a folder as a list that is filtered and ticked without a script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swapbias import __version__
from swapbias.findings import VERDICTS
from swapbias.report import page


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the list.

    Attributes:
        key: its part of an address: letters and digits.
        name: its folder, from the folder of all.
        models, studies, date: what was audited, and when.
        verdicts: how many headlines came to which verdict.
        trouble: one sentence where it cannot be read; blank else.
    """

    key: str
    name: str
    models: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()
    date: str = ""
    verdicts: Mapping[str, int] | None = None
    trouble: str = ""


def render_runs(
    title: str, runs: Sequence[ListedRun], *, search: str = "", study: str = "", verdict: str = "", told: str = ""
) -> str:
    """The list as HTML, with a form that filters it and one that compares what is ticked.

    Args:
        title: the folder's name.
        runs: all of them.
        search, study, verdict: what a run is shown by; blank for any.
        told: a sentence on what was left out.
    """
    style, script = (page.own_file(name) for name in ("page.css", "page.js"))
    wanted = [
        one
        for one in runs
        if search.casefold() in " ".join((one.name, *one.models)).casefold()
        and (not study or study in one.studies)
        and (not verdict or verdict in (one.verdicts or {}))
    ]
    return page.template("runs.html.j2").render(
        version=__version__,
        title=title,
        style=style,
        script=script,
        policy=page.policy(style, script, forms=True),
        runs=wanted,
        total=len(runs),
        studies=sorted({name for one in runs for name in one.studies}),
        verdicts=VERDICTS,
        search=search,
        study=study,
        verdict=verdict,
        told=told,
        packed=None,
    )
