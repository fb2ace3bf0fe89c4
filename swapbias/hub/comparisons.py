"""Shared runs side by side as a static Space: its page, its tables, its card; nothing in it ranks."""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from swapbias import __version__
from swapbias.audit import Compared, ComparedRun, compare_runs, write_comparison
from swapbias.errors import UsageError
from swapbias.hub import header
from swapbias.hub.card_page import card_page
from swapbias.hub.client import Hub, Repo
from swapbias.hub.markdown import markdown
from swapbias.hub.push import Pushed, Say, push_repo
from swapbias.hub.results_repo import load_all_shared
from swapbias.report import shown, text

PAGE = "index.html"
NO_RANKING = (
    "This is a comparison and not a ranking: models stand in the order of their names, and have different "
    "vocabularies, which the studies' word lists cover to different degrees. A value near zero is no proof that a "
    "model is fair: it says that this quantity is small on these prompts."
)
_REPORT = "report.html"  # the page, where a comparison is written with one
_LONGEST = 200  # characters of a name in a table


def push_comparison(
    hub: Hub, results: Sequence[str], space: str, *, private: bool = False, dry_run: bool = False, say: Say
) -> Pushed:
    """Publish what ``swapbias compare`` makes of shared runs as the static Space ``space``.

    The same results at the same commits change nothing; others make a commit and a tag of their own.

    Args:
        hub: where they are.
        results: repositories of results, as ``swapbias compare`` takes them: OWNER/NAME[/RUN][@REVISION].
        space: OWNER/NAME.
        private: make a new Space private.
        dry_run: write nothing.
        say: told what is left out.

    Raises:
        UsageError: fewer than two runs, nothing in common, or private results for a Space that everybody may read;
            and as ``push_repo``. HubError: the Hub refuses or is out of reach.
    """
    repo = Repo("space", space)
    runs, broken = load_all_shared(hub, results)
    for sentence in broken:
        say(f"Left out: {sentence}")
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} shared runs can be read, expected two or more. Name further repositories.")
    if not private:
        _refuse_private(hub, runs)
    sources = sorted({f"{run.place}@{run.commit}/{run.name}" for run in runs})
    digest = hashlib.sha256("\n".join((__version__, *sources)).encode()).hexdigest()
    compared = compare_runs(runs)
    for sentence in compared.left_out:
        say(sentence)
    return push_repo(
        hub,
        repo,
        space_files(compared, runs, space=space, url=hub.url),
        tag=f"results-{digest[:12]}",
        message=f"Compare {len(runs)} runs of {len({run.place for run in runs})} repositories",
        private=private,
        sdk="static",
        dry_run=dry_run,
        raise_hint="share a run again, or push with the version of swapbias that made it",
        say=say,
    )


def _refuse_private(hub: Hub, runs: Sequence[ComparedRun]) -> None:
    """Numbers of private results would be read by everybody.

    Raises:
        UsageError: one of the repositories is private.
    """
    for place in sorted({run.place for run in runs}):
        state = hub.state(Repo("dataset", place))
        if state is None or state.private:
            raise UsageError(f"{place} is private, and the Space would show it to everybody. Add --private.")


def space_files(
    compared: Compared, runs: Sequence[ComparedRun], *, space: str, url: Callable[..., str]
) -> dict[str, bytes]:
    """The files of the Space by path: card, page, tables and figures of a comparison.

    Args:
        compared: the runs.
        runs: the same, for the list of what was read.
        space: OWNER/NAME.
        url: gives the page of a repository at a commit (``Hub.url``).
    """
    card = _card(compared, runs, space, url)
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        write_comparison(Path(folder), compared)
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }
    drawn = files.pop(_REPORT, None)
    return {**files, "README.md": card.encode(), PAGE: drawn or card_page(card, kind="Bias audits compared").encode()}


def _card(compared: Compared, runs: Sequence[ComparedRun], space: str, url: Callable[..., str]) -> str:
    """What was read, at which commit, and each quantity with the models below each other."""
    head = header.dump(
        {
            "title": space.rpartition("/")[2],
            "description": "Bias audits of several models side by side",
            "emoji": "⚖️",
            "sdk": "static",
            "app_file": PAGE,
            "license": "apache-2.0",
            "tags": ["bias", "fairness", "swapbias"],
        }
    )
    parts = [f"# Bias audits in {markdown(space)}", NO_RANKING, "## What was read", _read(runs, url)]
    rows = compared.comparison.rows
    for study in dict.fromkeys(row.first.study for row in rows):
        parts += [f"## {markdown(text.plain(study))}", _table(compared, study)]
    notes = [*compared.comparison.footnotes, *compared.left_out]
    parts += ["## Notes", "\n".join(f"- {markdown(one)}" for one in notes)] if notes else []
    return f"---\n{head}---\n\n" + "\n\n".join(parts) + "\n"


def _read(runs: Sequence[ComparedRun], url: Callable[..., str]) -> str:
    lines = ["| run | models | repository at the commit |", "| --- | --- | --- |"]
    for run in sorted(runs, key=lambda one: one.key):
        models = ", ".join(dict.fromkeys(one.model_id for one in run.found))
        page = url(Repo("dataset", run.place), commit=run.commit)
        where = f"[{markdown(run.place)} at {run.commit[:8]}]({page})"
        lines.append(f"| {markdown(shown(run.name))} | {markdown(shown(models, _LONGEST))} | {where} |")
    return "\n".join(lines)


def _table(compared: Compared, study: str) -> str:
    lines = ["| quantity | model | value, 95 % interval | n |", "| --- | --- | ---: | ---: |"]
    for row in compared.comparison.rows:
        one = row.first
        told = f"{one.experiment}, {text.where(one)}: {text.quantity(one)} ({one.unit})"
        name = markdown(shown(f"{told}; {row.note}" if row.note else told, _LONGEST))
        cells = zip(compared.comparison.columns, row.found, strict=True) if one.study == study else ()
        for column, found in cells:
            if found is not None:
                value = f"{text.value_of(found)} {text.interval_of(found)}"
                model = markdown(shown(column.title, _LONGEST))
                lines.append(f"| {name} | {model} | {markdown(value)} | {text.counted(found.estimate)} |")
                name = ""
    return "\n".join(lines)
