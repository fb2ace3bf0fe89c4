"""Check what would be released: python scripts/release_check.py. Builds, looks inside, installs, tries it.

Writes what it is made of (CycloneDX) and the sha256 of its files into build/release.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.parser import BytesParser
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGED = {"swapbias": "swapbias", **{name: f"swapbias/{name}" for name in ("builders", "metrics", "datasets_src")}}
REFUSED = "Install with pip install 'swapbias[audit]'."  # how an audit ends where only the core is installed
VERSION = re.compile(r"Programming Language :: Python :: (3\.\d+)")
RELATIVE = re.compile(r"\]\((?!https?://|#)")
SMOKE = """
import evaluate, swapbias
from datasets import load_dataset
made = load_dataset("corpora/occupation_sentiment", "sentences", split="test")
assert len(made) == len(swapbias.load_prompts("occupation_sentiment", "sentences")) > 0
given = dict(predictions=[0.75, 0.25], groups=["female", "male"], pair_ids=["a", "a"], reference_group="male")
assert evaluate.load(swapbias.metric_path("paired_gap")).compute(**given)["value"] == 0.5
print(swapbias.__file__)
"""


def main() -> int:
    """0 when the release is whole and works on every interpreter that it names and that is here, else 1."""
    try:
        with tempfile.TemporaryDirectory(prefix="swapbias-release-") as folder:
            wheel = _built(Path(folder))
            with ThreadPoolExecutor() as pool:  # installing waits for disks and networks
                places = list(pool.map(partial(_installed, Path(folder), wheel), versions := list(_versions())))
            tried = [version for version, place in zip(versions, places, strict=True) if _tried(version, place)]
            if tried:
                _described(wheel, Path(folder) / tried[0] / "bin" / "python")
    except ValueError as error:
        print(f"release_check: {error}", file=sys.stderr)
        return 1
    if not tried:
        print("release_check: none of the interpreters that the classifiers name is here.", file=sys.stderr)
        return 1
    print(f"{wheel.name} can be released: tried with Python {', '.join(tried)}.")
    return 0


def _run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints.

    Raises:
        ValueError: it fails.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def _built(folder: Path) -> Path:
    """The wheel, built from the source distribution of the files that git knows, both looked into.

    Raises:
        ValueError: a warning of setuptools or twine, a file too many or too few, a link that leads nowhere.
    """
    known = _run("git", "ls-files", "-z").split("\0")
    source = folder / "source"
    for name in filter(None, known):  # not what lies about: a build would take up caches and earlier builds
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    told = _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    warned = [line for line in told.splitlines() if "warning" in line.lower()]
    if warned:
        raise ValueError(f"the build warns {len(warned)} times: {warned[0].strip()}")
    wheel, archive = (next((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    print(_run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive).strip())
    _look_into(wheel, archive, [name for name in known if name.partition("/")[0] in PACKAGED and "/" in name])
    return wheel


def _components(python: Path) -> list[dict[str, Any]]:
    """Every distribution that an installation of the wheel brought along, as CycloneDX has it."""
    names = (
        "import importlib.metadata as m, json; print(json.dumps([dict(name=one.name, version=one.version, licence="
    )
    names += "one.metadata.get('License-Expression') or '') for one in m.distributions()]))"
    found = json.loads(_run(python, "-c", names).splitlines()[-1])
    return [
        {
            "type": "library",
            "name": one["name"],
            "version": one["version"],
            "purl": f"pkg:pypi/{re.sub('[-_.]+', '-', one['name']).lower()}@{one['version']}",
            **({"licenses": [{"expression": one["licence"]}]} if one["licence"] else {}),
        }
        for one in sorted(found, key=lambda one: str(one["name"]).lower())
        if one["name"] not in (PROJECT["name"], "pip", "setuptools")
    ]


def _described(wheel: Path, python: Path) -> None:
    """Write the bill of materials and the hashes beside copies of what would be released."""
    RELEASE.mkdir(parents=True, exist_ok=True)
    about = {"type": "library", "name": PROJECT["name"], "version": PROJECT["version"]}
    about |= {
        "purl": f"pkg:pypi/{PROJECT['name']}@{PROJECT['version']}",
        "licenses": [{"expression": PROJECT["license"]}],
    }
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about}}
    components = _components(python)
    if not {one["name"] for one in components} >= {"numpy", "pyarrow", "huggingface_hub"}:
        raise ValueError("the bill of materials lacks what the wheel depends on.")
    (RELEASE / "sbom.cdx.json").write_text(json.dumps({**bill, "components": components}, indent=1) + "\n")
    files = [*sorted(wheel.parent.iterdir()), RELEASE / "sbom.cdx.json"]
    hashes = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}" for one in files]
    (RELEASE / "SHA256SUMS").write_text("\n".join(hashes) + "\n")
    print(f"{len(components)} components and {len(hashes)} hashes in {RELEASE.relative_to(ROOT)}")


def _look_into(wheel: Path, archive: Path, known: list[str]) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        about = f"{PROJECT['name']}-{PROJECT['version']}.dist-info"
        metadata = BytesParser().parsebytes(opened.read(f"{about}/METADATA"))
    with tarfile.open(archive) as opened_archive:
        sources = {name.partition("/")[2] for name in opened_archive.getnames()}
    wanted = {f"{PACKAGED[name.partition('/')[0]]}/{name.partition('/')[2]}" for name in known}
    held = {name for name in names if not name.startswith(f"{about}/")}
    if wanted != held:
        raise ValueError(f"the wheel lacks {sorted(wanted - held)} and has {sorted(held - wanted)} too many.")
    lacking = {*known, "README.md", "LICENSE", "pyproject.toml", "setup.py"} - sources
    if lacking or f"{about}/licenses/LICENSE" not in names:
        raise ValueError(f"the source distribution lacks {sorted(lacking)}, or the wheel its licence.")
    if RELATIVE.search(str(metadata.get_payload())):
        raise ValueError("a link of the README leads nowhere outside of the checkout.")
    print(f"{wheel.name}: {len(held)} files, {wheel.stat().st_size:,} bytes")


def _versions() -> Iterator[str]:
    """The versions of Python that the classifiers name."""
    yield from (found[1] for one in PROJECT["classifiers"] if (found := VERSION.fullmatch(one)))


def _interpreter(version: str) -> str | None:
    """An interpreter of that version: of the path, or of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [shutil.which(f"python{version}"), *map(str, sorted(root.glob(f"versions/{version}.*/bin/python")))]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for place in filter(None, places):
        done = subprocess.run([place, "-c", asked], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return place
    return None


def _installed(folder: Path, wheel: Path, version: str) -> Path | None:
    """An environment of its own with the wheel, for that interpreter; None where there is no such interpreter.

    Raises:
        ValueError: something fails.
    """
    interpreter = _interpreter(version)
    if interpreter is None:
        return None
    place = folder / version
    _run(interpreter, "-m", "venv", "--without-pip", place)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", place / "bin" / "python")
    # Not compiled: most of what is installed is imported by nothing here.
    _run(*pip, "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt", wheel)
    return place


def _tried(version: str, place: Path | None) -> bool:
    """Whether there is such an interpreter; what is installed for it is used.

    Raises:
        ValueError: something fails.
    """
    if place is None:
        print(f"Python {version}: not here, not tried")
        return False
    python, swapbias = place / "bin" / "python", place / "bin" / "swapbias"
    for arguments in (["--help"], ["list"], ["build", "occupation_sentiment", "--out", "corpora"]):
        _run(swapbias, *arguments, cwd=place)
    where = _run(python, "-c", SMOKE, cwd=place).splitlines()[-1]
    if not where.startswith(str(place)):
        raise ValueError(f"Python {version} used {where}, and not what was installed.")
    refused = subprocess.run([swapbias, "audit"], cwd=place, capture_output=True, text=True, check=False)
    if refused.returncode != 2 or not refused.stderr.strip().endswith(REFUSED) or "Traceback" in refused.stderr:
        raise ValueError(f"without its extra an audit ended with {refused.returncode}: {refused.stderr[-2000:]}")
    print(f"Python {version}: installed and tried")
    return True


if __name__ == "__main__":
    sys.exit(main())
