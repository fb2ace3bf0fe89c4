"""An audit of a chat service that is killed at random moments and goes on: what is asked twice, and what is lost."""

import json
import multiprocessing
import random
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.frame import Scale, Series, scaled

KILLS = 100
AT_ONCE = 8
PAUSE = 0.01
STUDY = "stigma_vignettes"
CONFIGS = ("stigma_vignettes:conditions", "stigma_vignettes:beliefs")
TRIALS = 2
_LOADED = [
    "pandas",
    "scipy.stats",
    "huggingface_hub",
    "swapbias.runs.audit",
    "swapbias.runs.conclusion",
    "swapbias.models.chat.openai_client",
]


@dataclass(slots=True)
class _Tally:
    """Counts of what kills did.

    Attributes:
        under_way: requests of each life that had arrived when it was killed, and whose answers were not on disk.
        lost: answers that were on disk once and are not any more.
        early, late: kills before the first request of a life, and after the last of all.
    """

    kills: int = 0
    runs: int = 0
    requests: int = 0
    needed: int = 0
    repeated: int = 0
    lost: int = 0
    early: int = 0
    late: int = 0
    under_way: list[int] = field(default_factory=list)
    differing: set[str] = field(default_factory=set)


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """One row a count: what, how many, what is wanted, whether it is met. ``repeat`` means nothing."""
    from tests.models.chat.server import ChatServer

    draw = random.Random(20_261_122)
    tally = _Tally()
    kills = scaled(KILLS, scale)
    processes = multiprocessing.get_context(
        "forkserver"
    )  # a life begins with its libraries loaded, as a fork
    processes.set_forkserver_preload(_LOADED)
    with tempfile.TemporaryDirectory() as place:
        with ChatServer(answer, pause=PAUSE) as server:
            _live(processes, server.base_url, Path(place) / "whole").join()
            # the key of an answer names the port
            needed = len(server.requests)
            port = server.http.server_port
        whole = _results(Path(place) / "whole")
        while tally.kills < kills:
            with ChatServer(answer, pause=PAUSE, port=port) as server:
                folder = Path(place) / f"run{tally.runs}"
                _killed(processes, server, folder, tally, kills, needed, draw)
                tally.runs += 1
                asked = Counter(map(_request, server.requests))
                tally.requests += asked.total()
                tally.needed += needed
                tally.repeated += asked.total() - len(asked)
                found = _results(folder)
                tally.differing |= {name for name in whole if whole[name] != found.get(name)}
    return _told(tally, len(whole))


def _told(tally: _Tally, files: int) -> list[tuple[str, ...]]:
    most = AT_ONCE * tally.kills
    counts = (
        ("kill -9", tally.kills, "", True),
        ("of them before a life asked anything", tally.early, "", True),
        ("of them after the last answer", tally.late, "", True),
        ("runs that were finished", tally.runs, "", True),
        ("requests needed", tally.needed, "", True),
        ("requests sent", tally.requests, "", True),
        (
            "requests sent again",
            tally.repeated,
            f"{most} ({AT_ONCE} a kill) at most",
            tally.repeated <= most,
        ),
        (
            "under way at a kill, at most",
            max(tally.under_way),
            f"{AT_ONCE}",
            max(tally.under_way) <= AT_ONCE,
        ),
        (
            "sent again that were not under way",
            tally.repeated - sum(tally.under_way),
            "0 at most",
            tally.repeated <= sum(tally.under_way),
        ),
        ("answers lost", tally.lost, "0", tally.lost == 0),
        (
            f"results that differ from an undisturbed run, of {files} a run",
            len(tally.differing),
            "0",
            not tally.differing,
        ),
    )
    return [
        (what, f"{count:,}", wanted, ("yes" if met else "no") if wanted else "")
        for what, count, wanted, met in counts
    ]


def _live(processes: Any, url: str, folder: Path) -> Any:
    life = processes.Process(target=_audit, args=(url, str(folder)))
    life.start()
    return life


def _audit(url: str, folder: str) -> None:
    """Begin the audit, or go on with it, as the command does."""
    from swapbias.models.chat.chat_options import ChatOptions
    from swapbias.runs import Settings, resume, start

    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    if (Path(folder) / "manifest.json").exists():
        resume(Path(folder), **quiet)
        return
    asked = ChatOptions(
        model="tiny", base_url=url, trials=TRIALS, concurrency=AT_ONCE, max_tokens=10
    )
    start(Settings(studies=CONFIGS, options=(asked,)), Path(folder), **quiet)


def _killed(
    processes: Any,
    server: Any,
    folder: Path,
    tally: _Tally,
    kills: int,
    needed: int,
    draw: random.Random,
) -> None:
    """An audit to its end, killed whenever the draw says so while there are kills left."""
    share = max(1, round(needed / (0.85 * kills)))
    kept: dict[str, str] = {}
    while True:
        before = len(server.requests)
        life = _live(processes, server.base_url, folder)
        if tally.kills == kills:
            life.join()
            return
        due = before + draw.randrange(2 * share)
        while life.is_alive() and len(server.requests) < min(due, needed + tally.kills * AT_ONCE):
            if _answered(folder) == needed:
                break
            time.sleep(0.001)
        life.join(draw.uniform(0, 0.05) if _answered(folder) < needed else draw.uniform(0, 2.0))
        if not life.is_alive():
            if life.exitcode:
                raise ValueError(f"A life ended with {life.exitcode} by itself.")
            return
        life.kill()
        life.join()
        found = _log(folder)
        tally.kills += 1
        tally.early += len(server.requests) == before
        tally.late += len(found) == needed
        tally.lost += sum(found.get(key) != answer for key, answer in kept.items())
        tally.under_way.append(len(set(map(_request, server.requests))) - len(found))
        kept = found


def answer(prompt: str) -> str:
    return f"({'ABCDE'[zlib.crc32(prompt.encode()) % 5]})"


def _request(body: Any) -> str:
    return json.dumps([body["messages"], body["seed"]])


def _answered(folder: Path) -> int:
    path = folder / "answers.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _log(folder: Path) -> dict[str, str]:
    """Keys and answers that are whole on the disk."""
    path = folder / "answers.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return {one["key"]: one["answer"] for one in map(json.loads, lines)}


def _results(folder: Path) -> dict[str, Any]:
    """Everything that a run says of its model: the findings, the scored rows, the answers."""
    files = [folder / "findings.csv", *sorted((folder / "items").iterdir())]
    return {"answers": _log(folder), **{path.name: path.read_bytes() for path in files}}


SERIES = Series(
    "soak",
    "An audit of a service, killed and resumed",
    ("what", "count", "wanted", "met"),
    _rows,
    timed=False,
)
