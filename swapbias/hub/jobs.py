"""What people push and pull: each corpus, measure and run in turn, told line by line; trouble with one stops none."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TextIO

from swapbias import __version__
from swapbias.audit import Run
from swapbias.errors import UsageError
from swapbias.hub.client import Hub
from swapbias.hub.comparisons import push_comparison
from swapbias.hub.corpora import push_dataset
from swapbias.hub.pull import METRIC, RESULTS, pull_repo, wanted_repos
from swapbias.hub.push import Pushed
from swapbias.hub.share import Wanted, share_run
from swapbias.hub.spaces import check_release, push_metric
from swapbias.privacy import log_traceback
from swapbias.studies import corpora, load_corpus, metric_path, metrics

_COLLECTED = "Prompts and word lists that differ in one slot, to measure social bias in language models."
_OF_OTHERS = {
    METRIC: "A metric is code of its owner: read it before you load it.",
    RESULTS: "Reports and figures are files of their owners: open them as you would a page of a stranger's.",
}


def push_datasets(
    names: Sequence[str],
    *,
    namespace: str,
    private: bool,
    benchmark: bool,
    dry_run: bool,
    caller: str,
    collection: str = "",
) -> int:
    """Publish corpora, all by default, each with the tasks of a ``benchmark`` where that is asked for.

    They are put into the ``collection`` of that title, if one is named.

    Returns:
        The exit code: 0, 1 where one failed, 2 for what cannot be meant, 130 where the user stopped it.
    """
    return push_command(
        caller,
        namespace,
        lambda: [load_corpus(name).name for name in names or corpora()],
        lambda hub, name: push_dataset(
            hub, name, namespace=namespace, private=private, benchmark=benchmark, dry_run=dry_run, say=say
        ),
        lambda hub, done: _collect(hub, done, collection, namespace=namespace, private=private, dry_run=dry_run),
    )


def _collect(hub: Hub, done: Sequence[Pushed], title: str, *, namespace: str, private: bool, dry_run: bool) -> None:
    """Put what was pushed into a collection, or say that it would be.

    Raises:
        HubError: the Hub has collections, and refused.
    """
    if not (title and done):
        return
    if dry_run:
        held = ", ".join(one.repo.name for one in done)
        say(f"collection {title!r} of {namespace}: would hold {held}; it is made if it is not there")
        return
    page = hub.collect(
        [one.repo for one in done], title, namespace=namespace, description=_COLLECTED, private=private
    )
    say(f"collection {title!r}: {page}" if page else f"This Hub has no collections: {title!r} was not made.")


def push_metrics(
    names: Sequence[str], *, namespace: str, private: bool, dry_run: bool, untagged: bool, caller: str
) -> int:
    """Publish metrics as Spaces, all by default, of a release that is tagged unless ``untagged``; the exit code."""
    return push_command(
        caller,
        namespace,
        lambda: _released(names or metrics(), untagged=untagged),
        lambda hub, name: push_metric(hub, name, namespace=namespace, private=private, dry_run=dry_run, say=say),
    )


def _released(names: Sequence[str], *, untagged: bool) -> Sequence[str]:
    """The metrics, once it is known that there are such and that the release their pages name is tagged."""
    folders = [Path(metric_path(name)) for name in names]
    if untagged:
        say(f"v{__version__} is not checked: the pages name a release that may not be there.")
    else:
        check_release(folders[0], __version__)
    return names


def _status(stop: KeyboardInterrupt) -> int:
    """The exit status of a stop: 128 and the signal, that of Ctrl-C where none is told."""
    return int(getattr(stop, "code", 130))


def push_space(results: Sequence[str], *, space: str, private: bool, dry_run: bool, caller: str) -> int:
    """Publish shared runs side by side as a static Space; the exit code."""
    return push_command(
        caller,
        space.partition("/")[0],
        lambda: [space],
        lambda hub, name: push_comparison(hub, results, name, private=private, dry_run=dry_run, say=say),
    )


def push_results(folders: Sequence[Path], wanted: Wanted, *, caller: str) -> int:
    """Share several runs in one repository; the exit code, 130 where the user stopped it."""
    prepare_output()
    code = 0
    for folder in dict.fromkeys(folders):
        try:
            for done in share_run(Run.open(folder), wanted, Hub(), say=say):
                say(f"{folder}: {done.repo.name} {done.status}. {done.url}")
        except KeyboardInterrupt as stop:
            complain(caller, "stopped. What is on the Hub stays; run it again.")
            return _status(stop)
        except OSError as error:
            complain(caller, f"{folder}: {error.strerror or error}. Check the place and its free space.")
            code = max(code, 1)
        except ValueError as error:
            complain(caller, error)
            code = max(code, 2 if isinstance(error, UsageError) else 1)
        except Exception as error:  # noqa: BLE001 - the last resort before a traceback
            complain(caller, f"{folder}: {type(error).__name__}: {error}. This is a fault of swapbias.")
            code = max(code, 1)
    return code


def pull_all(
    kind: str, names: Sequence[str], *, namespace: str = "", out: Path, revision: str = "main", caller: str
) -> int:
    """Fetch repositories of a kind to a folder: of a namespace those named, all by default; results by OWNER/NAME.

    Returns:
        The exit code: 0 when everything asked for is there and whole, 1 otherwise, 2 for what cannot be meant, 130
        where the user stopped it.
    """
    prepare_output()
    try:
        hub = Hub()
        repos = names if kind == RESULTS else wanted_repos(hub, kind, namespace, names)
        codes = [_pull(hub, kind, name, out, revision, caller) for name in repos]
    except ValueError as error:
        return _failed(caller, error)
    except KeyboardInterrupt as stop:
        complain(caller, "stopped; what was complete is kept. Run the command again to go on.")
        return _status(stop)
    if kind in _OF_OTHERS and not all(codes):
        say(_OF_OTHERS[kind])
    if any(codes):
        complain(caller, f"{sum(map(bool, codes))} of {len(codes)} could not be pulled")
    return max(codes)


def _pull(hub: Hub, kind: str, name: str, out: Path, revision: str, caller: str) -> int:
    """Pull one repository; trouble with it does not stop the others."""
    try:
        say(pull_repo(hub, kind, name, out, revision=revision))
        return 0
    except ValueError as error:
        return _failed(caller, error)
    except OSError as error:
        place = f"{name}: {error.filename}"
        complain(caller, f"{place}: {error.strerror or error}. Check the place and its free space.")
    except Exception as error:  # noqa: BLE001 - what a stranger made must not stop the others
        complain(caller, f"{name}: {type(error).__name__}. Nothing of it was kept. This is a fault of swapbias.")
    return 1


def _failed(caller: str, error: ValueError) -> int:
    complain(caller, error)
    return 2 if isinstance(error, UsageError) else 1


def check_namespace(hub: Hub, namespace: str) -> None:
    """Know before the work starts that the token may write there.

    Raises:
        UsageError: it may not, naming where it may.
        HubError: there is no token, or it is refused.
    """
    owners = hub.owners()
    if namespace not in owners:
        raise UsageError(f"The token may not write to {namespace!r}, expected one of {', '.join(owners)}.")


def push_command(
    caller: str,
    namespace: str,
    names: Callable[[], Iterable[str]],
    push: Callable[[Hub, str], Pushed],
    after: Callable[[Hub, Sequence[Pushed]], None] | None = None,
) -> int:
    """Check, push one after the other, say so; trouble with one does not stop the others.

    Args:
        caller: its name, before sentences of trouble.
        namespace: where to.
        names: gives what is to be pushed; raises UsageError or ValueError for what cannot be.
        push: pushes one of them.
        after: gets those that were pushed, at the end.

    Returns:
        The exit code: 0, 1 where one of them failed, 2 for what cannot be meant, 130 where the user stopped it.
    """
    prepare_output()
    try:
        chosen = dict.fromkeys(names())
        hub = Hub()
        check_namespace(hub, namespace)
    except ValueError as error:
        complain(caller, error)
        return 2 if isinstance(error, UsageError) else 1
    done: list[Pushed] = []
    failed: list[str] = []
    for name in chosen:
        try:
            pushed = push(hub, name)
        except KeyboardInterrupt as stop:
            complain(caller, f"stopped at {name}. What was pushed stays: run it again to go on.")
            return _status(stop)
        except Exception as error:  # noqa: BLE001 - the last resort before a traceback
            fault = "" if isinstance(error, OSError | ValueError) else ". This is a fault of swapbias."
            complain(caller, f"{name}: {type(error).__name__ + ': ' if fault else ''}{error}{fault}")
            failed.append(name)
            continue
        done.append(pushed)
        at = f" at {pushed.commit[:12]}" if pushed.commit else ""
        say(f"{pushed.repo.name}: {pushed.status}{' (private)' if pushed.private else ''}, {pushed.tag}{at}")
    changed = sum(one.status != "unchanged" for one in done)
    what = "would change" if any(one.status.startswith("would") for one in done) else "changed"
    say(f"{len(done)} done, {changed} of them {what}; {len(failed)} failed.")
    if failed:
        complain(caller, f"failed: {', '.join(failed)}")
    try:
        if after:
            after(hub, done)
    except ValueError as error:
        complain(caller, error)
        return 1
    return 1 if failed else 0


def prepare_output() -> None:
    """Let a terminal that cannot show a letter show ``?`` in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(line: str) -> None:
    """A line of the result."""
    _write(sys.stdout, line)


def complain(caller: str, sentence: object) -> None:
    """A sentence of trouble, on one line after the name of who says it; that of a caught error logs its traceback."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception):
        log_traceback(error)
    _write(sys.stderr, f"{caller}: {' '.join(str(sentence).split())}")


def _write(stream: TextIO, line: str) -> None:
    """A line now; once nobody reads any more, lines go nowhere and the work goes on."""
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # what is still to be flushed at the end would fail as well
        os.close(nowhere)
