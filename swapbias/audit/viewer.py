"""A folder of runs served to this machine alone: a list, each run's report, comparisons; nothing is ever written.

No file is sent as it lies there, and no path is taken from an address: pages are made of what was read and checked,
so that a run of a stranger's can name no other file and run no script of its own.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from swapbias.audit.compare import compare_runs, comparison_page, read_run
from swapbias.audit.results import FINDINGS_JSON, Results, as_public, parse_manifest, parse_results, read_results
from swapbias.audit.run import MANIFEST, Run
from swapbias.errors import UsageError, need_audit_extra
from swapbias.findings import headlines
from swapbias.privacy import is_credentialed, log_traceback, own_data, public_model
from swapbias.report import ListedRun, Page, render, render_comparison, render_runs, shown

HERE = "127.0.0.1"
DEEPEST = 3  # folders below the one that is served
MOST_RUNS = 2_000
MOST_ADDRESS = 64 * 2**10  # characters: a thousand ticked runs fit
_HELD = (
    "It is made of credentialed clinical notes, and every account of this machine could read it here. Open its "
    "report.html, or compare such runs with swapbias compare RUN RUN --out DIR."
)
_KEPT = 8  # pages that are not made again
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Viewer:
    """The runs of a folder as pages, each made when it is asked for and again when its files are others.

    Attributes:
        folder: holds runs, or folders of them.
    """

    folder: Path
    _listed: dict[str, tuple[float, ListedRun]] = field(default_factory=dict)
    _pages: dict[tuple[object, ...], str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Raises UsageError where there is no such folder."""
        if not self.folder.is_dir():
            raise UsageError(f"{self.folder} is no folder. Give the folder that holds your runs.")
        self.folder = self.folder.resolve()

    def page(self, address: str) -> tuple[HTTPStatus, str]:
        """What an address shows; a sentence where it is none, or what it asks for cannot be made."""
        with self._lock:  # a run is read once, whoever asks
            try:
                parts = urlsplit(address)
                asked = parse_qs(parts.query, max_num_fields=MOST_RUNS)
                places = {_key(place.relative_to(self.folder)): place for place in self._places()}
                if parts.path == "/":
                    return HTTPStatus.OK, self._list(places, asked)
                if parts.path == "/compare":
                    return HTTPStatus.OK, self._compared(places, asked.get("run", []))
                if parts.path.startswith("/run/") and parts.path[5:] in places:
                    return HTTPStatus.OK, self._made(_report, (places[parts.path[5:]],))
            except (ValueError, OSError) as error:
                return HTTPStatus.UNPROCESSABLE_ENTITY, shown(" ".join(str(error).split()), 500)
        return HTTPStatus.NOT_FOUND, "There is no such page. Go back to the list of runs."

    def _places(self) -> Iterator[Path]:
        """Folders of runs by name; links are not followed."""
        found = 0
        for here, folders, files in os.walk(self.folder):
            place = Path(here)
            deep = len(place.relative_to(self.folder).parts)
            folders[:] = sorted(one for one in folders if not one.startswith(".")) if deep < DEEPEST else []
            if MANIFEST in files and not (place / MANIFEST).is_symlink():
                folders[:] = []
                found += 1
                if found > MOST_RUNS:
                    return
                yield place

    def _list(self, places: Mapping[str, Path], asked: Mapping[str, list[str]]) -> str:
        runs = []
        for key, place in places.items():
            changed = _changed(place)
            if self._listed.get(key, (None, None))[0] != changed:
                self._listed[key] = changed, _listed(key, place, self.folder)
            runs.append(self._listed[key][1])
        told = f"The first {MOST_RUNS:,} runs are shown." if len(places) == MOST_RUNS else ""
        wanted = {name: asked.get(name, [""])[0] for name in ("search", "study", "verdict")}
        return render_runs(self.folder.name, runs, told=told, **wanted)

    def _compared(self, places: Mapping[str, Path], keys: list[str]) -> str:
        wanted = [places[key] for key in dict.fromkeys(keys) if key in places]
        if len(wanted) < 2:
            raise UsageError(f"{len(wanted)} runs are ticked, expected two or more. Go back and tick others.")
        return self._made(_comparison, tuple(wanted))

    def _made(self, make: Callable[..., str], places: tuple[Path, ...]) -> str:
        key = (make.__name__, *((place, _changed(place)) for place in places))
        if key not in self._pages:
            if len(self._pages) >= _KEPT:
                self._pages.pop(next(iter(self._pages)))
            self._pages[key] = make(*places)
        return self._pages[key]


def _key(name: Path) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _changed(place: Path) -> float:
    """When a run was written last."""
    files = (place / MANIFEST, place / FINDINGS_JSON)
    return max((one.stat().st_mtime_ns for one in files if one.exists()), default=0)


def _listed(key: str, place: Path, folder: Path) -> ListedRun:
    name = shown(place.relative_to(folder).as_posix() if place != folder else place.name, 200)
    try:
        content = (place / MANIFEST).read_bytes()
        manifest = parse_manifest(content, MANIFEST)
        if is_credentialed(place):
            return ListedRun(key, name, trouble=_HELD)
        if manifest["status"] != "complete":
            return ListedRun(key, name, trouble="It is not complete: go on with swapbias audit --resume.")
        Run(place).open_studies()
        own = own_data(manifest) is not None
        found = parse_results((place / FINDINGS_JSON).read_bytes(), FINDINGS_JSON, own_names=own)
    except (ValueError, KeyError, TypeError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return ListedRun(key, name, trouble=f"It cannot be read: {shown(' '.join(str(why).split()), 300)}")
    return ListedRun(
        key,
        name,
        tuple(dict.fromkeys(public_model(one.model_id) for one in found)),
        tuple(dict.fromkeys(one.study for one in found)),
        str(manifest.get("started", ""))[:10],
        dict(Counter(one.verdict for one in headlines(found) if one.verdict)),
    )


def _refuse_held(place: Path) -> None:
    """Every account of this machine can ask a port: what is made of credentialed notes is its user's alone.

    Raises:
        UsageError: the run is made of such notes.
    """
    if is_credentialed(place):
        raise UsageError(_HELD)


def _report(place: Path) -> str:
    """A run's report, made of what it holds; a file of that name is not looked at."""
    from jinja2 import TemplateError

    _refuse_held(place)
    try:
        read: Results = as_public(read_results(Run.open(place)))
        return render(Page(read.manifest, read.found, read.items, [], read.coverage))
    except (KeyError, TypeError, AttributeError, TemplateError) as error:
        raise ValueError(f"{MANIFEST} lacks what a report tells of a run ({error}). Audit again.") from error


def _comparison(*places: Path) -> str:
    for one in places:
        _refuse_held(one)
    return render_comparison(comparison_page(compare_runs([read_run(one) for one in places])))


# --- the server ---------------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "swapbias", ""
    timeout = 30  # seconds that a caller may take

    def __init__(self, viewer: Viewer, *arguments: object) -> None:
        self.viewer = viewer
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """A page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Whether there is one."""
        self._answer(body=False)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """What answers any other method."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._refuse

    def _refuse(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "This only shows: GET and HEAD.", body=True, Allow="GET, HEAD")

    def _answer(self, *, body: bool) -> None:
        """A page of a name for this machine: by any other a foreign page could read it (DNS rebinding)."""
        port = self.connection.getsockname()[1]
        if self.headers.get("Host", "") not in (f"{HERE}:{port}", f"localhost:{port}"):
            self._send(HTTPStatus.FORBIDDEN, f"Ask for http://{HERE}:{port}.", body=body)
        elif len(self.path) > MOST_ADDRESS:
            self._send(HTTPStatus.REQUEST_URI_TOO_LONG, "Tick fewer runs.", body=body)
        else:
            try:
                status, content = self.viewer.page(self.path)
            except Exception as error:  # noqa: BLE001 - one page that fails does not end the others
                log_traceback(error)
                status, content = HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: a fault of swapbias."
            self._send(status, content, body=body)

    def _send(self, status: HTTPStatus, content: str, *, body: bool, **more: str) -> None:
        sent = content.encode(errors="replace")
        page = status is HTTPStatus.OK
        self.send_response(status)
        self.send_header("Content-Type", f"text/{'html' if page else 'plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(sent)))
        self.send_header(  # a page says itself which style and script are its own
            "Content-Security-Policy", "frame-ancestors 'none'" if page else "default-src 'none'"
        )
        for name, value in {**_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(sent)

    def log_message(self, *told: object) -> None:
        """Nothing: addresses are nobody's business."""


class RunsServer(ThreadingHTTPServer):
    """A folder of runs on 127.0.0.1; ``serve_forever`` answers until ``shutdown``."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        """Port 0 takes one that is free.

        Raises:
            UsageError: there is no such folder, or the port is taken.
        """
        need_audit_extra("The view of runs", "matplotlib", "jinja2")
        handler = partial(_Handler, Viewer(folder))
        try:
            super().__init__((HERE, port), handler)
        except (OSError, OverflowError) as error:
            raise UsageError(f"Port {port} cannot be used ({error}). Choose another with --port.") from error

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HERE}:{self.server_address[1]}/"
