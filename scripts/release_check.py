"""Check what would be released: python scripts/release_check.py. Builds, looks inside, installs and tries it."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from write_notice import notice

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGED = {
    "swapbias": "swapbias",
    **{name: f"swapbias/{name}" for name in ("builders", "metrics", "datasets_src")},
}
REFUSED = "Install with pip install 'swapbias[models]'."  # how an audit ends where only the core is installed
SMOKE = """
import evaluate, swapbias
from datasets import load_dataset
made = load_dataset("corpora/occupation_sentiment", "sentences", split="test")
assert len(made) == len(swapbias.load_prompts("occupation_sentiment", "sentences")) > 0
given = dict(predictions=[0.75, 0.25], groups=["female", "male"], pair_ids=["a", "a"], reference_group="male")
assert evaluate.load(swapbias.metric_path("paired_gap")).compute(**given)["value"] == 0.5
print(swapbias.__file__)
"""


def main() -> None:
    """Build what is committed; exit with a sentence where it is broken, or fails on an interpreter that is here."""
    with tempfile.TemporaryDirectory(prefix="swapbias-release-") as name:
        folder = Path(name)
        run("git", "clone", "--quiet", ROOT, folder / "source")
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist")
        printed = run(*build, folder / "source")
        warnings = [line for line in printed.splitlines() if "warning" in line.lower()]
        # The wheel is built of the archive, in which MANIFEST.in has no tests left to leave out.
        warnings = [line for line in warnings if "no previously-included" not in line]
        if warnings:
            sys.exit(f"The build warns: {warnings[0]}")
        wheel, archive = (
            next((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz")
        )
        print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive).strip())
        check_content(wheel)
        check_archive(archive, wheel)
        check_licences(wheel)
        versions = [
            classifier.rpartition(" ")[2]
            for classifier in PROJECT["classifiers"]
            if "Python :: 3." in classifier
        ]
        tried = [
            version
            for version in versions
            if subprocess.getstatusoutput(f"python{version} -V")[0] == 0
        ]
        with ThreadPoolExecutor() as pool:
            done = pool.map(lambda version: try_out(folder / version, version, wheel), tried)
            for version, _ in zip(tried, done, strict=True):
                print(f"{wheel.name} can be released: it works with Python {version}.")
        sys.exit(None if tried else "None of the interpreters that the classifiers name is here.")


def run(*command: str | Path, cwd: Path = ROOT, code: int = 0) -> str:
    """Return what a command prints; exit where it ends with another code."""
    words = list(map(str, command))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != code:
        end = (done.stdout + done.stderr)[-4000:]
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{end}")
    return done.stderr + done.stdout


def check_content(wheel: Path) -> None:
    """Exit unless the wheel holds the package's files that git knows, and no others."""
    names = [name.partition("/") for name in run("git", "ls-files").splitlines()]
    wanted = {f"{PACKAGED[top]}/{rest}" for top, _, rest in names if rest and top in PACKAGED}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    if wanted != packed:
        sys.exit(
            f"The wheel lacks {sorted(wanted - packed)} and has {sorted(packed - wanted)} too many."
        )


def check_archive(archive: Path, wheel: Path) -> None:
    """Exit unless the source archive holds the files of the wheel and no tests, which need the whole checkout."""
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    folders = {f"{place}/": f"{folder}/" for folder, place in PACKAGED.items()}
    lacking = []
    for name in zipfile.ZipFile(wheel).namelist():
        place = max((place for place in folders if name.startswith(place)), key=len, default="")
        if place and folders[place] + name.removeprefix(place) not in names:
            lacking.append(name)
    tests = sorted(name for name in names if name.startswith("tests"))
    if lacking or tests:
        sys.exit(f"The source archive lacks {lacking} and has {tests} too many.")


def check_licences(wheel: Path) -> None:
    """Exit unless the wheel names the licences of all that it holds, with texts and notices by corpus."""
    archive = zipfile.ZipFile(wheel)
    files = {
        name.partition("/licenses/")[2]: name
        for name in archive.namelist()
        if ".dist-info/licenses/" in name
    }
    wanted = {
        path.relative_to(ROOT).as_posix()
        for pattern in PROJECT["license-files"]
        for path in ROOT.glob(pattern)
    }
    if files.keys() != wanted:
        sys.exit(f"The wheel has the licence files {sorted(files)}, expected {sorted(wanted)}.")
    if archive.read(files["NOTICE"]).decode() != notice():
        sys.exit("NOTICE is not that of the tables: run python scripts/write_notice.py.")
    metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    if f"License-Expression: {PROJECT['license']}\n" not in archive.read(metadata).decode():
        sys.exit(f"The wheel does not say that its licence is {PROJECT['license']}.")


def try_out(folder: Path, version: str, wheel: Path) -> None:
    """Install the wheel for an interpreter into a new environment, and use it there."""
    run(shutil.which(f"python{version}") or "", "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    command = folder / "bin" / "swapbias"
    # What nobody imports is not compiled: most of the time of an installation.
    install = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile")
    run(*install, "-c", ROOT / "constraints.txt", f"{wheel}[metrics]")
    for arguments in (["list"], ["build", "occupation_sentiment", "--out", "corpora"]):
        run(command, *arguments, cwd=folder)
    if not run(python, "-c", SMOKE, cwd=folder).splitlines()[-1].startswith(str(folder)):
        sys.exit(f"Python {version} used something else than what was installed.")
    if not run(command, "audit", cwd=folder, code=2).strip().endswith(REFUSED):
        sys.exit(f"Without its extra an audit does not end with {REFUSED}")


if __name__ == "__main__":
    main()
