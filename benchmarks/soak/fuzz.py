"""Bytes that nobody promised to be right, through the public readers: each is read, or refused in one sentence."""

import base64
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.frame import Scale, Series
from swapbias.errors import (
    HubError,
    MissingExtraError,
    StudyError,
    UpstreamMissingError,
    UsageError,
)
from swapbias.models import SettingsError

# A library's own error is a fault too, also where it is a ValueError: no sentence says then what to do.
DOCUMENTED = frozenset({
    ValueError, UsageError, SettingsError, StudyError, HubError, UpstreamMissingError, MissingExtraError,
})  # fmt: skip
MOST_SECONDS = 1.0  # of the processor, for each started MB
_SECONDS = 3_600  # of a round at full size
_GUIDED = 0.4  # of it, where atheris is installed
_STUCK = 30  # seconds after which a reader is stopped
_LONGEST = 4_000  # characters of a sentence
CANARY = "swapbias-canary"
_LAID = "/tmp/" + CANARY


@dataclass(frozen=True, slots=True)
class Target:
    """A reader and what it reads.

    Attributes:
        name: as the table shows it.
        seeds: whole inputs, from which others are made.
        read: bytes -> reads them as the package does; its errors are looked at.
        tokens: bytes that this format takes a turn at.
        build: bytes of a mutated inner text -> a file around it (gzip); None where the bytes are the file.
    """

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], Any]
    tokens: Sequence[bytes] = ()
    build: Callable[[bytes], bytes] | None = None


@dataclass(slots=True)
class Tally:
    """Counts of what came of the inputs of a target; ``found`` holds the first input of each fault by what it is."""

    inputs: int = 0
    read: int = 0
    slow: int = 0
    stuck: int = 0
    ran: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    found: dict[str, bytes] = field(default_factory=dict)

    def note(self, fault: str, content: bytes) -> None:
        """Count a fault, and keep the shortest input that shows it."""
        self.faults[fault] += 1
        if fault not in self.found or len(content) < len(self.found[fault]):
            self.found[fault] = content


# --- inputs -------------------------------------------------------------------------------------------

_TOKENS = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        "",
        "\0",
        "\n",
        "\r\n",
        "\r",
        "\ufeff",
        "\u2028",
        "\ud800",
        "\U0001f469\u200d\u2695\ufe0f",
        "'",
        '"',
        '""',
        '"""',
        ",",
        ";",
        "\t",
        "|",
        "{",
        "}",
        "[",
        "]",
        ":",
        "null",
        "true",
        "NaN",
        "-Infinity",
        "1e999",
        "-0",
        "9" * 400,
        "18446744073709551616",
        "9007199254740993",
        "0x41",
        "1_000",
        "\\u0000",
        "\\ud83d",
        "&a [*a, *a]",
        "<<: *a",
        "!!python/object/apply:os.system ['touch " + _LAID + "']",
        "__import__('os').system('touch " + _LAID + "')",
        "{{ 7*7 }}",
        "${jndi:ldap://127.0.0.1/a}",
        "=cmd|' /C calc'!A0",
        "../../../../etc/passwd",
        "file:///etc/passwd",
        "cos\nsystem\n(S'touch " + _LAID + "'\ntR.",
        "os:system",
        "subprocess:Popen",
        "<script>alert(1)</script>",
        "auto_map",
        "trust_remote_code",
        "\x1b]0;a\x07",
        "[" * 2_000,
        '{"a":' * 500,
        "(" * 300,
        "a" * 3_000,
        "\\" * 50,
    )
)


def mutated(target: Target, draw: random.Random) -> bytes:
    """An input made from the seeds: some bytes, lines or tokens changed, cut, doubled or spliced."""
    content = bytearray(draw.choice(target.seeds))
    if draw.random() < 0.3 and (mutated := _json_mutated(bytes(content), draw)) is not None:
        content = bytearray(mutated)
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 8, 30)) if content else 1):
        _change(content, target, draw)
    return target.build(bytes(content)) if target.build and draw.random() < 0.8 else bytes(content)


def _change(content: bytearray, target: Target, draw: random.Random) -> None:
    at = draw.randrange(len(content) + 1)
    kind = draw.randrange(8)
    end = min(len(content), at + draw.choice((1, 1, 2, 4, 16, 64, 256)))
    if kind == 0 and at < len(content):
        content[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        content[at:end] = draw.randbytes(end - at)
    elif kind == 2:
        del content[at:end]
    elif kind == 3:
        content[at:at] = content[at:end] * draw.choice((1, 2, 50))
    elif kind == 4:
        second = draw.choice(target.seeds)
        start = draw.randrange(len(second) + 1)
        content[at:end] = second[start : start + draw.choice((4, 64, 1_024))]
    elif kind == 5 and draw.random() < 0.3:
        del content[at:]
    else:
        content[at : draw.choice((at, end))] = draw.choice(
            (*_TOKENS, *target.tokens, *target.tokens)
        )


_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    2**70,
    "",
    "a",
    "\0",
    "\ud800",
    "x" * 3_000,
    [],
    {},
    [[]],
    [{}],
    {"": None},
    {"a": 1},
    "nan",
    "../..",
    "os:system",
    ["a", 1, None],
    "\u202e",
)


def _json_mutated(content: bytes, draw: random.Random) -> bytes | None:
    """JSON (or the first of JSON lines) with a value of another type, a key gone, renamed or doubled deep inside."""
    try:
        read = json.loads(content.partition(b"\n{")[0] if content[:1] == b"{" else content)
    except ValueError:
        return None
    if not isinstance(read, dict | list):
        return None
    inner: Any = read
    while draw.random() < 0.75:
        further = [
            value
            for value in (inner.values() if isinstance(inner, dict) else inner)
            if isinstance(value, dict | list)
        ]
        if not further:
            break
        inner = draw.choice(further)
    keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
    if keys:
        key = draw.choice(keys)
        kind = draw.randrange(4)
        if kind == 0:
            del inner[key]
        elif kind == 1 and isinstance(inner, dict):
            inner[str(draw.choice(_VALUES))] = inner.pop(key)
        else:
            inner[key] = draw.choice(_VALUES)
    return json.dumps(read).encode("utf-8", "surrogatepass")


def grown(target: Target, count: int, seed: int) -> Iterator[bytes]:
    """Inputs that hypothesis makes: bytes, texts, and nested values as JSON."""
    from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st

    inputs: list[bytes] = []
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
    nested = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
    )
    rows = st.lists(
        st.lists(st.text(alphabet=st.sampled_from('ab,"\n\r;\t\0é'), max_size=6), max_size=4),
        max_size=6,
    )
    texts = st.one_of(
        st.text(max_size=200).map(lambda one: one.encode()),
        rows.map(lambda found: "\n".join(map(",".join, found)).encode()),
        nested.map(lambda one: json.dumps(one).encode()),
        st.binary(max_size=300),
    )

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(texts, st.booleans())
    def collect(content: bytes, built: bool) -> None:
        inputs.append(target.build(content) if built and target.build else content)

    collect()
    yield from inputs


# --- what readers may not do --------------------------------------------------------------------------

_RUNS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "subprocess.Popen",
    "ctypes.dlopen",
    "socket.connect",
    "socket.getaddrinfo",
    "pickle.find_class",
    "marshal.loads",
    "code.__new__",
    "webbrowser.open",
)
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.rmtree",
)
_KNOWN = frozenset(
    {*sys.stdlib_module_names, *packages_distributions(), "swapbias", "benchmarks", "tests"}
)


class Watch:
    """An audit hook: while it is on, it notes code that is run and files that are changed outside of a folder."""

    def __init__(self, folder: Path) -> None:
        """``place`` is where readers may write; a hook cannot be taken out again."""
        self.place = str(folder)
        self.on = False
        self.seen = Counter[str]()
        self.own = tuple(
            map(os.path.realpath, {sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])})
        )
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in _RUNS:
            told = f"{event} {args[:2]!r}"
        elif event in _CHANGES or (
            event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
        ):
            if str(args[0]).startswith(self.place) or (
                event == "open" and isinstance(args[0], int)
            ):
                return
            told = f"{event} {args[0]!r}"
        elif event == "import" and str(args[0]).partition(".")[0] not in _KNOWN:
            told = f"import {args[0]}"
        elif event == "exec" and not self._is_own(args[0].co_filename):
            told = f"exec {args[0].co_filename}"
        else:
            return
        frames = [frame.filename for frame in traceback.extract_stack()]
        if event in ("exec", "code.__new__", "marshal.loads") and any(
            "importlib" in name for name in frames
        ):
            return  # a module of an installed library that is loaded when it is first needed
        self.seen[told[:200]] += 1

    def _is_own(self, filename: str) -> bool:
        return filename.startswith(("<frozen", "<string>", "<attrs", *self.own))


def _stop(number: int, frame: object) -> None:
    raise TimeoutError("stuck")


def tried(
    target: Target, content: bytes, tally: Tally, watch: Watch, kept: Path | None = None
) -> None:
    """Read one input and count what came of it; it is ``kept`` meanwhile, for a reader may end the process."""
    tally.inputs += 1
    if kept:
        kept.write_bytes(f"{target.name}\n".encode() + content)
    signal.alarm(_STUCK)
    begun = time.process_time()
    watch.on = True
    try:
        target.read(content)
        tally.read += 1
    except TimeoutError:
        tally.stuck += 1
        tally.note("stuck", content)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a reader raises is what is looked for
        if fault := _fault(error):
            tally.note(fault, content)
    finally:
        watch.on = False
        if kept:
            kept.write_bytes(b"")
        seconds = time.process_time() - begun
        signal.alarm(0)
    if seconds > MOST_SECONDS * (1 + len(content) // 1_000_000):
        tally.slow += 1
        tally.note("slow", content)
    if watch.seen:
        tally.ran += 1
        tally.note(f"ran {min(watch.seen)}", content)
        watch.seen.clear()


def _fault(error: BaseException) -> str:
    """Return what is wrong with how an input was refused; blank where nothing is."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = next(
        (
            f"{Path(frame.filename).name}:{frame.name}"
            for frame in reversed(frames)
            if "/swapbias/" in frame.filename
        ),
        "?",
    )
    if type(error) not in DOCUMENTED:
        return f"{type(error).__name__} in {ours}"
    told = str(error)
    if not told.strip() or len(told) > _LONGEST:
        return (
            f"a sentence of {len(told)} characters in {ours}"
            if len(told) <= _LONGEST
            else f"a long sentence in {ours}"
        )
    return ""


def fuzz(targets: Sequence[Target], seconds: float, seed: int, folder: Path, out: Path) -> None:
    """Try inputs for so many seconds, dealt out to targets in turns; what came of them is written after each turn."""
    watch = Watch(folder)
    draw = random.Random(seed)
    signal.signal(signal.SIGALRM, _stop)
    tallies = {target.name: Tally() for target in targets}
    for target in targets:
        for content in (
            *target.seeds,
            *target.seeds,
        ):  # loads what is loaded when it is first needed
            tried(target, content, tallies[target.name], watch)
        for fault, content in tallies[target.name].found.items():
            sys.stderr.write(f"{target.name}: a seed: {fault}: {content[:100]!r}\n")
        tallies[target.name] = Tally()
        for content in grown(target, 300, draw.randrange(2**32)):
            tried(target, content, tallies[target.name], watch, kept_beside(out))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for target in targets:
            until = time.monotonic() + min(2.0, seconds / len(targets))
            while time.monotonic() < until:
                tried(target, mutated(target, draw), tallies[target.name], watch, kept_beside(out))
        out.write_text(json.dumps(as_json(tallies), indent=1), encoding="utf-8")


def kept_beside(out: Path) -> Path:
    """Return where the input lies that is being read."""
    return out.with_suffix(".now")


def of_an_end(out: Path, code: int) -> dict[str, Any]:
    """Return what came of a process: where a reader ended it, the input that did is a fault."""
    results: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    kept = kept_beside(out)
    name, _, content = kept.read_bytes().partition(b"\n") if kept.exists() else (b"", b"", b"")
    if name:
        tally = Tally()
        tally.note(f"the process ended with {code}", content)
        tally.inputs = 1
        counts = as_json({name.decode(): tally})[name.decode()]
        results[name.decode()] = (
            _joined(results[name.decode()], counts) if name.decode() in results else counts
        )
    return results


def guided(name: str, seconds: float, seed: int, folder: Path, out: Path) -> None:
    """The rest of this process: inputs of one target that atheris makes, guided by what they reach of swapbias.

    Raises:
        ImportError: atheris is not installed.
    """
    import atheris

    with atheris.instrument_imports(include=["swapbias"]):
        from benchmarks.soak.inputs import targets

        target = next(target for target in targets(folder / "read") if target.name == name)
    tally = Tally()
    watch = Watch(folder)
    for content in target.seeds:  # loads what is loaded when it is first needed
        tried(target, content, Tally(), watch)
    seeds = folder / "seeds"
    seeds.mkdir()
    for number, content in enumerate(target.seeds):
        (seeds / str(number)).write_bytes(content)

    def once(content: bytes) -> None:
        tried(
            target,
            target.build(content) if target.build else content,
            tally,
            watch,
            kept_beside(out),
        )
        if tally.inputs % 100 == 0:  # libFuzzer ends the process without a word
            out.write_text(json.dumps(as_json({name: tally})), encoding="utf-8")

    limits = [
        f"-max_total_time={max(1, int(seconds))}",
        f"-seed={seed % 2**31 + 1}",
        "-max_len=8192",
    ]
    quiet = ["-verbosity=0", "-timeout=0", "-rss_limit_mb=0"]
    atheris.Setup([sys.argv[0], str(seeds), *limits, *quiet], once)
    signal.signal(signal.SIGALRM, _stop)
    atheris.Fuzz()


def _guided(seconds: float, seed: int, names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return what atheris found, a process a target; nothing where its wheel is not installed."""
    results: dict[str, Any] = {}
    if find_spec("atheris") is None:
        sys.stderr.write(
            "atheris is not installed: inputs are mutated without looking at what they reach.\n"
        )
        return results
    for name in names:
        out = folder / f"guided-{len(results)}.json"
        asked = [str(seconds / len(names)), str(seed), str(out), "--guided", name]
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.soak.fuzz", *asked],
            stderr=subprocess.DEVNULL,
            check=False,
        )
        results |= of_an_end(out, ended.returncode)
    return results


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    sums = {key: first[key] + second[key] for key in ("inputs", "read", "slow", "stuck", "ran")}
    faults = Counter(first["faults"]) + Counter(second["faults"])
    return {**sums, "faults": dict(faults), "found": {**second["found"], **first["found"]}}


def as_json(tallies: Mapping[str, Tally]) -> dict[str, Any]:
    """Counts and faults, with the inputs that show them."""
    return {
        name: {
            **{key: getattr(tally, key) for key in ("inputs", "read", "slow", "stuck", "ran")},
            "faults": dict(tally.faults),
            "found": {
                fault: base64.b64encode(content).decode() for fault, content in tally.found.items()
            },
        }
        for name, tally in tallies.items()
    }


def _rows(scale: Scale, repeat: int) -> list[tuple[str, ...]]:
    """A process of its own, whose hook of the interpreter goes with it; seeds differ from round to round."""
    with tempfile.TemporaryDirectory() as folder:
        seed = time.time_ns() % 2**32
        seconds = _SECONDS * scale
        results: dict[str, Any] = {}
        end = time.monotonic() + seconds * (1 - _GUIDED)
        while not results or time.monotonic() < end - 1:  # again where a reader ended the process
            out = Path(folder) / f"found-{seed}.json"
            asked = [str(max(1.0, end - time.monotonic())), str(seed), str(out)]
            ended = subprocess.run(
                [sys.executable, "-m", "benchmarks.soak.fuzz", *asked], check=False
            )
            if not (told_of := of_an_end(out, ended.returncode)):
                raise RuntimeError(f"The readers could not be begun: {ended.returncode}.")
            results = {
                name: _joined(results[name], counts) if name in results else counts
                for name, counts in told_of.items()
            } | {name: counts for name, counts in results.items() if name not in told_of}
            seed += 1
        guided_found = _guided(seconds * _GUIDED, seed, list(results), Path(folder))
        results |= {
            name: _joined(results[name], counts) if name in results else counts
            for name, counts in guided_found.items()
        }
        for name, counts in results.items():
            for fault, content in counts["found"].items():
                sys.stderr.write(f"{name}: {fault}: {content}\n")
        return told(results)


def told(
    results: Mapping[str, Any], stored: Path = Path(__file__).parent / "results" / "fuzz.json"
) -> list[tuple[str, ...]]:
    """A row a reader; inputs of earlier rounds, in which faults were found and mended, are added up in the last."""
    before = (
        {row[0]: int(row[-1].replace(",", "")) for row in json.loads(stored.read_text())["rows"]}
        if stored.exists()
        else {}
    )
    rows = []
    for name, counts in results.items():
        tracebacks = sum(
            count
            for fault, count in counts["faults"].items()
            if not fault.startswith(("slow", "stuck", "ran "))
        )
        inputs = before.get(name, 0) + counts["inputs"]
        rows.append(
            (
                name,
                *(
                    f"{number:,}"
                    for number in (
                        counts["inputs"],
                        counts["read"],
                        tracebacks,
                        counts["slow"] + counts["stuck"],
                        counts["ran"],
                        inputs,
                    )
                ),
            )
        )
    sums = [f"{sum(int(row[at].replace(',', '')) for row in rows):,}" for at in range(1, 7)]
    return [("all", *sums), *rows]


COLUMNS = (
    "reader",
    "inputs",
    "of them read",
    "tracebacks",
    "over 1 s per MB",
    "code executed",
    "inputs of all rounds",
)
SERIES = Series("fuzz", "Bytes of strangers", COLUMNS, _rows, timed=False)


def main() -> None:
    """``python -m benchmarks.soak.fuzz SECONDS SEED OUT [TARGET ...]``, or ``... OUT --guided TARGET``."""
    seconds, seed, out, *names = sys.argv[1:]
    os.environ["HF_HUB_OFFLINE"] = (
        "1"  # a manifest may name any model, and asks the Hub for it, as it should
    )
    root = "/dev/shm" if Path("/dev/shm").is_dir() else None
    if names[:1] == ["--guided"]:
        with tempfile.TemporaryDirectory(dir=root, prefix="swapbias-fuzz-") as folder:
            guided(names[1], float(seconds), int(seed), Path(folder), Path(out))
        return
    from benchmarks.soak.inputs import targets

    with tempfile.TemporaryDirectory(dir=root, prefix="swapbias-fuzz-") as folder:
        chosen = [target for target in targets(Path(folder)) if not names or target.name in names]
        fuzz(chosen, float(seconds), int(seed), Path(folder), Path(out))


if __name__ == "__main__":
    main()
